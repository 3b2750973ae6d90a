//! The settings that follow from the figures, each with its arithmetic.
//!
//! `basis.rs` draws the few numbers that matter from a report; `innodb.rs`, `myrocks.rs` and
//! `frond.rs` make settings of them. A number that was not measured, or measured on a cache instead
//! of the device, makes no setting. Nothing here ever advises less durability.

mod basis;
mod frond;
mod innodb;
mod myrocks;

use crate::report::{Report, Setting};

pub fn settings(report: &Report) -> Vec<Setting> {
    let basis = basis::Basis::of(report);
    let mut all = innodb::settings(&basis);
    all.extend(myrocks::settings(&basis));
    all.extend(frond::settings(&basis));
    all
}

#[cfg(test)]
mod tests {
    use crate::advice::basis::Basis;
    use crate::report::{Engine, Setting};

    /// A device of middling speed: 20 000 durable writes a second, 1 GiB/s, syncs of 1 ms.
    fn ssd() -> Basis {
        Basis {
            direct: true,
            rotational: false,
            file_system: "ext4".into(),
            processors: 8,
            random_write_16k: Some(20_000.0),
            read_us: [Some(100.0), Some(110.0), Some(200.0)],
            sequential_read: Some((1u64 << 30) as f64),
            sequential_write: Some((1u64 << 29) as f64),
            sync_overwrite_us: Some(1000.0),
            sync_append_us: Some(3000.0),
            told_unit_bytes: Some(4096),
        }
    }

    fn all(basis: &Basis) -> Vec<Setting> {
        let mut all = super::innodb::settings(basis);
        all.extend(super::myrocks::settings(basis));
        all.extend(super::frond::settings(basis));
        all
    }

    fn value(basis: &Basis, name: &str) -> Option<String> {
        all(basis).into_iter().find(|s| s.name == name).map(|s| s.value)
    }

    #[test]
    fn io_capacity_is_what_the_device_keeps_up_with_twice_written_pages() {
        let mut b = ssd();
        let of = |b: &Basis| {
            ["innodb_io_capacity", "innodb_io_capacity_max"]
                .map(|n| value(b, n).unwrap_or_default())
        };
        assert_eq!(of(&b), ["5000", "10000"]);
        b.random_write_16k = Some(129.0);
        assert_eq!(of(&b), ["100", "100"], "InnoDB's least");
        b.random_write_16k = Some(4_444.0);
        assert_eq!(of(&b), ["1100", "2200"], "two digits");
        b.random_write_16k = None;
        assert_eq!(of(&b), ["", ""]);
    }

    #[test]
    fn pages_grow_while_they_cost_no_more_to_read() {
        let mut b = ssd();
        let page = |b: &Basis| value(b, "frond_default_page_size");
        assert_eq!(page(&b).as_deref(), Some("16384"));
        b.read_us = [Some(5000.0), Some(5050.0), Some(5400.0)];
        assert_eq!(page(&b).as_deref(), Some("65536"));
        b.read_us = [Some(50.0), Some(90.0), Some(60.0)];
        assert_eq!(page(&b).as_deref(), Some("4096"), "a page is not skipped");
        b.read_us = [None; 3];
        assert_eq!(page(&b), None);
    }

    #[test]
    fn logs_are_read_in_ten_seconds() {
        let mut b = ssd();
        let log = |b: &Basis, name| value(b, name).unwrap();
        assert_eq!(log(&b, "innodb_log_file_size"), "4G");
        b.sequential_read = Some(130e6);
        assert_eq!(log(&b, "innodb_log_file_size"), "1G");
        assert_eq!(log(&b, "frond_log_capacity"), "1G");
        b.sequential_read = Some(1e6);
        assert_eq!(log(&b, "frond_log_capacity"), "256M");
    }

    #[test]
    fn durability_is_never_traded() {
        let mut slow = ssd();
        slow.sync_overwrite_us = Some(30_000.0);
        for b in [ssd(), slow] {
            for name in [
                "innodb_flush_log_at_trx_commit",
                "rocksdb_flush_log_at_trx_commit",
                "frond_flush_log_at_commit",
                "sync_binlog",
            ] {
                assert_eq!(value(&b, name).as_deref(), Some("1"), "{name}");
            }
            assert_eq!(value(&b, "innodb_doublewrite").as_deref(), Some("ON"));
        }
    }

    #[test]
    fn threads_are_what_the_device_and_the_processors_feed() {
        let mut b = ssd();
        let threads = |b: &Basis| value(b, "frond_background_threads").unwrap();
        assert_eq!(threads(&b), "7", "512 MiB/s of 80 MB/s each");
        b.processors = 2;
        assert_eq!(threads(&b), "2");
        b.sequential_write = Some(30e6);
        assert_eq!(threads(&b), "1");
    }

    #[test]
    fn what_was_not_measured_makes_no_setting() {
        let b = Basis {
            direct: false,
            random_write_16k: None,
            read_us: [None; 3],
            sequential_read: None,
            sequential_write: None,
            sync_overwrite_us: None,
            sync_append_us: None,
            ..ssd()
        };
        let names: Vec<&str> = all(&b).iter().map(|s| s.name).collect();
        assert_eq!(
            names,
            [
                "innodb_flush_method",
                "innodb_flush_neighbors",
                "innodb_doublewrite",
                "rocksdb_use_direct_reads",
                "rocksdb_use_direct_io_for_flush_and_compaction",
                "frond_direct_io",
            ]
        );
        assert_eq!(value(&b, "innodb_flush_method").as_deref(), Some("fsync"));
        assert_eq!(value(&b, "frond_direct_io").as_deref(), Some("OFF"));
    }

    #[test]
    fn each_reason_is_one_line_and_every_engine_has_some() {
        let settings = all(&ssd());
        for engine in [Engine::InnoDB, Engine::MyRocks, Engine::Frond] {
            assert!(settings.iter().filter(|s| s.engine == engine).count() >= 5);
        }
        for s in settings {
            assert!(!s.reason.contains('\n') && s.reason.len() > 20, "{s:?}");
        }
    }

    #[test]
    fn a_disk_that_turns_writes_neighbours_together() {
        let mut b = ssd();
        assert_eq!(value(&b, "innodb_flush_neighbors").as_deref(), Some("0"));
        // Virtual disks call themselves rotational; the latency is the better evidence.
        b.rotational = true;
        assert_eq!(value(&b, "innodb_flush_neighbors").as_deref(), Some("0"));
        b.read_us[1] = Some(8_000.0);
        assert_eq!(value(&b, "innodb_flush_neighbors").as_deref(), Some("1"));
        b.read_us[1] = None;
        assert_eq!(value(&b, "innodb_flush_neighbors").as_deref(), Some("1"));
    }
}
