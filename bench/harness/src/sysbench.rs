//! Reading sysbench's report.
//!
//! Tested below.

/// Queries per second: "queries: 123 (45.6 per sec.)".
pub fn rate(text: &str) -> Option<f64> {
    after(text, "queries:")?.split_once('(')?.1.split_whitespace().next()?.parse().ok()
}

/// Number of events (transactions), at least one, and events per second. Works also for scripts
/// whose queries sysbench does not count as transactions.
pub fn events(text: &str) -> Option<(u64, f64)> {
    let seconds: f64 = after(text, "total time:")?.trim().strip_suffix('s')?.parse().ok()?;
    let events: u64 = after(text, "total number of events:")?.trim().parse().ok()?;
    (events > 0).then(|| (events, events as f64 / seconds.max(1e-9)))
}

fn after<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().find_map(|l| l.trim().strip_prefix(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "
SQL statistics:
    queries performed:
        read:                            1000
    transactions:                        1000   (99.90 per sec.)
    queries:                             1600   (159.80 per sec.)
General statistics:
    total time:                          10.0000s
    total number of events:              1000
";

    #[test]
    fn queries_events_and_their_rates_are_read() {
        assert_eq!(rate(REPORT), Some(159.8));
        assert_eq!(events(REPORT), Some((1000, 100.0)));
    }

    #[test]
    fn what_is_no_report_has_no_rate() {
        assert_eq!((rate("queries: none"), rate("")), (None, None));
        assert_eq!(events("total number of events: none"), None);
        assert_eq!(events("total time: 1.0s\ntotal number of events: 0"), None);
    }
}
