//! InnoDB of MariaDB 10.6 to 11.8, and the server's binary log.

use crate::advice::basis::{setting, two, Basis};
use crate::report::{Engine, Setting};

/// Reads slower than this are seeks: no flash takes as long, no turning disk is faster.
const SEEK_US: f64 = 2000.0;
/// The least value that InnoDB takes.
const LEAST_CAPACITY: u64 = 100;

pub fn settings(b: &Basis) -> Vec<Setting> {
    let mut all = Vec::new();
    let mut add =
        |name, value: String, reason| all.push(setting(Engine::InnoDB, name, value, reason));
    if let Some(rate) = b.random_write_16k {
        let max = two(rate / 2.0).max(LEAST_CAPACITY);
        let usual = two(rate / 4.0).max(LEAST_CAPACITY);
        let rate = two(rate);
        add(
            "innodb_io_capacity",
            usual.to_string(),
            format!(
                "{rate} durable writes/s of 16 KiB / 2 (doublewrite) / 2 (the other half is for reads)"
            ),
        );
        add(
            "innodb_io_capacity_max",
            max.to_string(),
            format!("{rate} durable writes/s of 16 KiB / 2 (doublewrite): all there is"),
        );
    }
    match b.direct {
        true => add(
            "innodb_flush_method",
            "O_DIRECT".into(),
            "direct I/O works here: pages are cached once, in the buffer pool (11.0 and later: \
             innodb_data_file_buffering=OFF)"
                .into(),
        ),
        false => add(
            "innodb_flush_method",
            "fsync".into(),
            "direct I/O is refused here: leave memory for the system's cache (11.0 and later: \
             innodb_data_file_buffering=ON)"
                .into(),
        ),
    }
    let seeks = b.read_us[1].map_or(b.rotational, |us| us > SEEK_US);
    let read = b.read_us[1].map_or("not measured".into(), |us| format!("{us:.0} us"));
    add(
        "innodb_flush_neighbors",
        u32::from(seeks).to_string(),
        format!(
            "a random read takes {read}, a seek at least {SEEK_US:.0} us: {}",
            if seeks {
                "neighbours come with one seek"
            } else {
                "neighbours would cost writes and save nothing"
            }
        ),
    );
    add("innodb_doublewrite", "ON".into(), doublewrite(b));
    if let Some(us) = b.sync_overwrite_us {
        add(
            "innodb_flush_log_at_trx_commit",
            "1".into(),
            format!("{}; 2 would lose up to a second in a power failure", b.commits(us)),
        );
    }
    if let (Some(log), Some(binlog)) = (b.sync_overwrite_us, b.sync_append_us) {
        add("sync_binlog", "1".into(), format!(
            "a group of commits syncs the log and appends to the binary log: {log:.0} + {binlog:.0} us, \
             {} groups/s",
            two(1e6 / (log + binlog))
        ));
    }
    if let Some((value, reason)) = b.log_size() {
        add("innodb_log_file_size", value, reason);
    }
    all
}

fn doublewrite(b: &Basis) -> String {
    if b.file_system == "zfs" {
        return "ZFS never tears a record: OFF is safe if recordsize is at least innodb_page_size, which \
                was not checked"
            .into();
    }
    match b.told_unit_bytes {
        Some(n) if n >= 16384 => format!(
            "a page has 16384 bytes, told to be whole are {n}, but for writes that InnoDB does not ask \
             for, and not proven"
        ),
        Some(n) => format!("a page has 16384 bytes, told to be whole are {n}: a power failure may tear it"),
        None => "nothing tells what a power failure leaves whole".into(),
    }
}
