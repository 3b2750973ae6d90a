//! Compares what frond digest and pt-query-digest found in one log: class by class, from their JSON reports.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde_json::Value;

/// Times are sums of up to millions of decimal fractions, which pt-query-digest adds as floats and prints with six
/// decimals.
const TOLERANCE: f64 = 1e-6;

/// The figures of both tools for a class.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Class {
    calls: u64,
    sum: f64,
    min: f64,
    max: f64,
}

/// The result.
pub struct Answer {
    pub classes: usize,
    calls: u64,
    pub differences: Vec<String>,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} classes with {} calls: ids, calls, sums, minima, maxima of Query_time; {} differ",
            self.classes,
            self.calls,
            self.differences.len()
        )?;
        for difference in self.differences.iter().take(10) {
            write!(f, "\n     {difference}")?;
        }
        Ok(())
    }
}

/// Reads both reports.
pub fn compare(frond: &Path, peer: &Path) -> Result<Answer, String> {
    Ok(differences(&classes(&read(frond)?, frond_class), &classes(&read(peer)?, peer_class)))
}

fn read(path: &Path) -> Result<Value, String> {
    let text = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
    // pt-query-digest may print a remark first.
    let begin = text.iter().position(|b| *b == b'{').unwrap_or(0);
    serde_json::from_slice(&text[begin..]).map_err(|e| format!("{}: {e}", path.display()))
}

fn classes(
    report: &Value,
    class: fn(&Value) -> Option<(String, Class)>,
) -> BTreeMap<String, Class> {
    report["classes"].as_array().into_iter().flatten().filter_map(class).collect()
}

fn frond_class(value: &Value) -> Option<(String, Class)> {
    let metrics = value["metrics"].as_array()?;
    let time = metrics.iter().find(|m| m["name"] == "Query_time")?;
    let class = Class {
        calls: value["events"].as_u64()?,
        sum: time["sum"].as_f64()?,
        min: time["min"].as_f64()?,
        max: time["max"].as_f64()?,
    };
    Some((value["id"].as_str()?.to_owned(), class))
}

fn peer_class(value: &Value) -> Option<(String, Class)> {
    // Numbers or, in older releases, texts.
    let number = |v: &Value| v.as_f64().or_else(|| v.as_str()?.parse().ok());
    let time = &value["metrics"]["Query_time"];
    let class = Class {
        calls: number(&value["query_count"])? as u64,
        sum: number(&time["sum"])?,
        min: number(&time["min"])?,
        max: number(&time["max"])?,
    };
    Some((value["checksum"].as_str()?.to_owned(), class))
}

fn differences(frond: &BTreeMap<String, Class>, peer: &BTreeMap<String, Class>) -> Answer {
    let close = |a: f64, b: f64| (a - b).abs() <= TOLERANCE + a.abs() * TOLERANCE;
    let mut differences = Vec::new();
    for (id, ours) in frond {
        match peer.get(id) {
            Some(theirs)
                if ours.calls == theirs.calls
                    && close(ours.sum, theirs.sum)
                    && close(ours.min, theirs.min)
                    && close(ours.max, theirs.max) => {}
            theirs => differences.push(format!("{id}: {ours:?} here, {theirs:?} there")),
        }
    }
    for id in peer.keys().filter(|id| !frond.contains_key(*id)) {
        differences.push(format!("{id}: only pt-query-digest has it"));
    }
    Answer { classes: peer.len(), calls: peer.values().map(|c| c.calls).sum(), differences }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROND: &str = r#"{"classes":[{"id":"A1","events":3,
        "metrics":[{"name":"Query_time","sum":1.5,"min":0.25,"max":1.0}]}]}"#;
    const PEER: &str = r#"{"classes":[{"checksum":"A1","query_count":3,
        "metrics":{"Query_time":{"sum":"1.500000","min":"0.250000","max":"1.000000"}}}]}"#;

    fn compared(frond: &str, peer: &str) -> Answer {
        let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        differences(&classes(&value(frond), frond_class), &classes(&value(peer), peer_class))
    }

    #[test]
    fn equal_reports_are_equal_and_others_are_not() {
        let answer = compared(FROND, PEER);
        assert_eq!((answer.classes, answer.calls, answer.differences.len()), (1, 3, 0));
        for (from, to) in [("1.500000", "1.500009"), (":3", ":4"), ("A1", "B2")] {
            assert_ne!(compared(FROND, &PEER.replace(from, to)).differences, [""; 0], "{to}");
        }
    }
}
