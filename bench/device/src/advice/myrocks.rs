//! MyRocks of MariaDB 10.6 to 11.8.

use crate::advice::basis::{mib, setting, Basis};
use crate::report::{Engine, Setting};

pub fn settings(b: &Basis) -> Vec<Setting> {
    let mut all = Vec::new();
    let mut add =
        |name, value: String, reason| all.push(setting(Engine::MyRocks, name, value, reason));
    let (value, why) = match b.direct {
        true => ("ON", "direct I/O works here"),
        false => ("OFF", "direct I/O is refused here"),
    };
    add(
        "rocksdb_use_direct_reads",
        value.into(),
        format!("{why}; blocks are cached in rocksdb_block_cache_size, or twice"),
    );
    add(
        "rocksdb_use_direct_io_for_flush_and_compaction",
        value.into(),
        format!("{why}; compactions would push everything else out of the system's cache"),
    );
    if let Some(us) = b.sync_append_us {
        add(
            "rocksdb_flush_log_at_trx_commit",
            "1".into(),
            format!("its log grows with each sync: {}; 2 would lose up to a second", b.commits(us)),
        );
    }
    if let Some(rate) = b.sequential_write {
        let half = (rate / 2.0) as u64 >> 20 << 20;
        add(
            "rocksdb_rate_limiter_bytes_per_sec",
            half.max(1 << 20).to_string(),
            format!("{} in order / 2: compactions leave half to reads and the log", mib(rate)),
        );
        let piece = (rate / 100.0).clamp((512 << 10) as f64, (8 << 20) as f64) as u64;
        let piece = 1u64 << piece.ilog2();
        add(
            "rocksdb_bytes_per_sync",
            piece.to_string(),
            format!(
                "{:.0} ms of writing at {}: syncs do not wait for whole files (aim 10 ms, 512 KiB to 8 MiB)",
                piece as f64 / rate * 1e3,
                mib(rate)
            ),
        );
    }
    if let Some((page, reason)) = b.page() {
        add("rocksdb_block_size", page.to_string(), reason);
    }
    all
}
