//! Frond.

use crate::advice::basis::{mib, setting, Basis};
use crate::report::{Engine, Setting};

/// Bytes per second that one thread merges: ten million entries of 8 stored bytes (`frond bench
/// codec`).
const THREAD_BYTES: f64 = 80e6;
const MOST_THREADS: u32 = 64;

pub fn settings(b: &Basis) -> Vec<Setting> {
    let mut all = Vec::new();
    let mut add =
        |name, value: String, reason| all.push(setting(Engine::Frond, name, value, reason));
    match b.direct {
        true => add(
            "frond_direct_io",
            "ON".into(),
            "direct I/O works here: pages are cached once, in frond_cache_size".into(),
        ),
        false => add(
            "frond_direct_io",
            "OFF".into(),
            "direct I/O is refused here: leave memory for the system's cache".into(),
        ),
    }
    if let Some(us) = b.sync_append_us {
        add(
            "frond_flush_log_at_commit",
            "1".into(),
            format!("{}; 2 would lose up to a second in a power failure", b.commits(us)),
        );
    }
    if let Some(rate) = b.sequential_write {
        let most = b.processors.clamp(1, MOST_THREADS);
        let fed = (rate / THREAD_BYTES).ceil().clamp(1.0, f64::from(MOST_THREADS)) as u32;
        add(
            "frond_background_threads",
            fed.min(most).to_string(),
            format!(
                "{} in order / {} that one thread merges = {fed}, at most {most} processors",
                mib(rate),
                mib(THREAD_BYTES)
            ),
        );
    }
    if let Some((page, reason)) = b.page() {
        add("frond_default_page_size", page.to_string(), reason);
    }
    if let Some((value, reason)) = b.log_size() {
        add("frond_log_capacity", value, reason);
    }
    all
}
