//! Numbers, names and lines as pt-query-digest ("that tool") writes them.

use crate::report::ptqd_numbers::bucketed;
use crate::stats::Class;
use frond_event::{Metric, Micros};

/// Width of the lines that end in underscores, and of the profile's titles.
pub(super) const LINE: usize = 74;

pub(super) fn masked(sql: &[u8]) -> Vec<u8> {
    let mut masked = Vec::new();
    frond_sqltext::mask(sql, &mut masked);
    masked
}

pub(super) fn underscored(mut line: String) -> String {
    while line.len() < LINE {
        line.push('_');
    }
    line
}

/// Queries per second and concurrency as printed.
pub(super) fn rates(count: u64, time: f64, span: f64) -> (String, String) {
    if span < 1.0 {
        return ("0".into(), "0".into());
    }
    (short(count as f64 / span, 1000.0), short(time / span, 1000.0))
}

/// V/M (variance to mean) of the times, in seconds.
pub(super) fn variance_to_mean(class: &Class) -> f64 {
    let time = class.sum(Metric::QueryTime) as f64 / 1e9;
    class.summary(Metric::QueryTime).filter(|_| time > 0.0).map_or(0.0, |s| {
        let stddev = bucketed(&s).stddev / 1e9;
        stddev * stddev / (time / s.count as f64)
    })
}

/// `0`, `7`, `0.50`, `61.48k`
pub(super) fn short(value: f64, step: f64) -> String {
    let mut value = value;
    let mut unit = "";
    for next in ["k", "M", "G", "T", "P", "E"] {
        if value < step {
            break;
        }
        value /= step;
        unit = next;
    }
    if unit.is_empty() && value.fract() == 0.0 {
        format!("{value}")
    } else {
        format!("{value:.2}{unit}")
    }
}

pub(super) fn time(seconds: f64) -> String {
    if seconds <= 0.0 {
        "0".into()
    } else if seconds <= 0.000_999 {
        // That tool cuts off these digits, and rounds the others.
        format!("{}us", (seconds * 1e6) as u64)
    } else if seconds <= 0.999_999 {
        format!("{:.0}ms", seconds * 1e3)
    } else {
        format!("{seconds:.0}s")
    }
}

/// A time stamp. That tool prints stamps of MySQL 5.7 and later as they are, without fraction and zone, and others in
/// its own form.
pub(super) fn stamp(micros: Micros, zoned: bool) -> String {
    let text = frond_event::numbers::time(micros);
    if zoned {
        text.replacen(' ', "T", 1)
    } else {
        text
    }
}

pub(super) fn label(name: &str) -> String {
    let name = match name {
        "Query_time" => "Exec time",
        "bytes" => "Query size",
        "Tmp_disk_tables" => "Tmp disk tbl",
        "Tmp_table_sizes" => "Tmp tbl size",
        other => other.strip_prefix("InnoDB_").unwrap_or(other),
    };
    name.replace('_', " ").chars().take(12).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_look_as_that_tool_prints_them() {
        for (seconds, text) in
            [(0.0, "0"), (0.000_012, "12us"), (0.002_515, "3ms"), (0.762, "762ms"), (11.013, "11s")]
        {
            assert_eq!(time(seconds), text);
        }
        for (value, text) in [
            (62_951.0, "61.48k"),
            (7868.875, "7.68k"),
            (62.75, "62.75"),
            (230.0, "230"),
            (0.5, "0.50"),
        ] {
            assert_eq!(short(value, 1024.0), text);
        }
        assert_eq!(label("Rows_examined"), "Rows examine");
        assert_eq!(label("InnoDB_rec_lock_wait"), "rec lock wai");
    }
}
