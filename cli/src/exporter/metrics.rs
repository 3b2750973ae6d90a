//! Writes metrics in both text formats.
//!
//! Invariant MXW1: the number of series is bounded by `catalog.rs`: no label has values that come from data. A counter of
//! Frond that the catalog does not have is exported as `frond_unknown{name="..."}`, at most `MOST_UNKNOWN` of them.

use std::collections::HashMap;
use std::fmt::Write;

use super::catalog::{Kind, Metric, COMMANDS, FROND, SERVER, VARIABLES};

/// At most this many counters of later releases are exported, without help texts.
pub const MOST_UNKNOWN: usize = 64;

/// What a server answered to one scrape.
#[derive(Default)]
pub struct Sample {
    pub version: String,
    /// Status variables and settings, by their names in small letters.
    pub status: HashMap<String, String>,
    pub variables: HashMap<String, String>,
    /// Seconds that the answer took.
    pub seconds: f64,
}

/// Writes the answer to a scrape; `sample` is `None` if the server did not answer.
pub fn write(sample: Option<&Sample>, openmetrics: bool) -> String {
    let mut out = Text { text: String::with_capacity(32 << 10), openmetrics };
    out.head("frond_exporter_up", Kind::Gauge, "1 if the server answered this scrape.");
    out.line("frond_exporter_up", "", if sample.is_some() { 1.0 } else { 0.0 });
    if let Some(sample) = sample {
        out.head(
            "frond_exporter_scrape_seconds",
            Kind::Gauge,
            "Time that the server took to answer.",
        );
        out.line("frond_exporter_scrape_seconds", "", sample.seconds);
        out.head("mariadb_version", Kind::Gauge, "1; the version is the label.");
        let version: String = sample
            .version
            .chars()
            .filter(|c| c.is_ascii_graphic() && !"\"\\".contains(*c))
            .take(80)
            .collect();
        out.line("mariadb_version", &format!("{{version=\"{version}\"}}"), 1.0);
        for metric in FROND.iter().chain(SERVER) {
            out.metric(metric, sample.status.get(metric.variable));
        }
        for metric in VARIABLES {
            out.metric(metric, sample.variables.get(metric.variable));
        }
        out.head("mariadb_commands", Kind::Counter, "Statements by their kind.");
        for command in COMMANDS {
            if let Some(value) = number(sample.status.get(&format!("com_{command}"))) {
                out.line("mariadb_commands_total", &format!("{{command=\"{command}\"}}"), value);
            }
        }
        unknown(sample, &mut out);
    }
    if openmetrics {
        out.text.push_str("# EOF\n");
    }
    out.text
}

fn unknown(sample: &Sample, out: &mut Text) {
    let known = |name: &str| FROND.iter().any(|m| m.variable == name);
    let plain = |name: &str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let mut names: Vec<(&String, f64)> = sample
        .status
        .iter()
        .filter(|(name, _)| name.starts_with("frond_") && !known(name) && plain(name))
        .filter_map(|(name, value)| Some((name, number(Some(value))?)))
        .collect();
    names.sort_by_key(|(name, _)| *name);
    if !names.is_empty() {
        out.head(
            "frond_unknown",
            Kind::Gauge,
            "Counters that this release of the exporter does not know.",
        );
    }
    for (name, value) in names.into_iter().take(MOST_UNKNOWN) {
        out.line("frond_unknown", &format!("{{name=\"{name}\"}}"), value);
    }
}

fn number(text: Option<&String>) -> Option<f64> {
    match text?.as_str() {
        "ON" | "YES" => Some(1.0),
        "OFF" | "NO" => Some(0.0),
        digits => digits.parse::<f64>().ok().filter(|n| n.is_finite()),
    }
}

struct Text {
    text: String,
    openmetrics: bool,
}

impl Text {
    fn head(&mut self, name: &str, kind: Kind, help: &str) {
        // OpenMetrics names the family, the older format the series.
        let name = match kind {
            Kind::Counter if !self.openmetrics => format!("{name}_total"),
            _ => name.to_owned(),
        };
        let kind = if kind == Kind::Counter { "counter" } else { "gauge" };
        // Writing to a string cannot fail.
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn line(&mut self, name: &str, labels: &str, value: f64) {
        let _ = writeln!(self.text, "{name}{labels} {value}");
    }

    fn metric(&mut self, metric: &Metric, value: Option<&String>) {
        let Some(value) = number(value) else { return };
        self.head(metric.name, metric.kind, metric.help);
        let name = match metric.kind {
            Kind::Counter => format!("{}_total", metric.name),
            Kind::Gauge => metric.name.to_owned(),
        };
        self.line(&name, "", value * metric.scale);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn sample() -> Sample {
        let put = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(n, v)| ((*n).into(), (*v).into())).collect()
        };
        Sample {
            version: "10.11.18-MariaDB\"\n".into(),
            status: put(&[
                ("frond_commits", "7"),
                ("frond_log_sync_micros", "1500000"),
                ("frond_new_counter", "3"),
                ("com_select", "9"),
                ("threads_running", "2"),
                ("questions", "no number"),
            ]),
            variables: put(&[("read_only", "ON")]),
            seconds: 0.001,
        }
    }

    #[test]
    fn both_formats_have_the_same_series_and_their_own_heads() {
        let (old, new) = (write(Some(&sample()), false), write(Some(&sample()), true));
        let series = |text: &str| -> Vec<String> {
            text.lines().filter(|l| !l.starts_with('#')).map(str::to_owned).collect()
        };
        assert_eq!(series(&old), series(&new));
        for line in [
            "frond_commits_total 7",
            "frond_log_sync_seconds_total 1.5",
            "mariadb_commands_total{command=\"select\"} 9",
            "mariadb_read_only 1",
            "mariadb_version{version=\"10.11.18-MariaDB\"} 1",
            "frond_unknown{name=\"frond_new_counter\"} 3",
            "frond_exporter_up 1",
        ] {
            assert!(old.lines().any(|l| l == line), "{line}: {old}");
        }
        assert!(!old.contains("mariadb_questions") && !old.contains("# EOF"));
        assert!(old.contains("# TYPE frond_commits_total counter"));
        assert!(new.contains("# TYPE frond_commits counter") && new.ends_with("# EOF\n"));
        assert_eq!(series(&write(None, false)), ["frond_exporter_up 0"]);
    }

    #[test]
    fn names_are_unique_and_valid_and_each_has_a_help() {
        let all: Vec<&Metric> = FROND.iter().chain(SERVER).chain(VARIABLES).collect();
        let names: HashSet<&str> = all.iter().map(|m| m.name).collect();
        assert_eq!(names.len(), all.len());
        for metric in all {
            assert!(
                metric.name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'),
                "{}",
                metric.name
            );
            assert!(
                !metric.name.ends_with("_total") && metric.help.ends_with('.'),
                "{}",
                metric.name
            );
            assert_eq!(metric.variable, metric.variable.to_ascii_lowercase());
        }
    }

    #[test]
    fn every_counter_of_the_engine_has_a_metric() {
        let source = include_str!("../../../engine/core/src/status.rs");
        let begin = source.find("vec![").unwrap();
        let end = begin + source[begin..].find(']').unwrap();
        let mut count = 0;
        for line in source[begin..end].lines() {
            if let Some(name) = line.trim().strip_prefix("(\"").and_then(|l| l.split('"').next()) {
                count += 1;
                let variable = format!("frond_{name}");
                assert!(FROND.iter().any(|m| m.variable == variable), "{variable}");
            }
        }
        // The counters of the plugin itself.
        for (source, call) in [
            (include_str!("../../../mariadb/read_free.cc"), "add(ctx, \""),
            (include_str!("../../../mariadb/status.cc"), "collect(nullptr, \""),
        ] {
            for name in source.split(call).skip(1).filter_map(|rest| rest.split('"').next()) {
                count += 1;
                let variable = format!("frond_{name}");
                assert!(FROND.iter().any(|m| m.variable == variable), "{variable}");
            }
        }
        assert_eq!(count, FROND.len());
    }
}
