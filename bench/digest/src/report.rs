//! The tables of figures and of targets.

use std::io::{self, Write};

use crate::args::Args;
use crate::compare::Answer;
use crate::measure::Run;

/// A command that was measured.
pub struct Row {
    pub name: String,
    pub bytes: u64,
    /// Number of classes that it found; `None` if it does not print that.
    pub classes: Option<u64>,
    pub run: Run,
}

impl Row {
    /// Bytes per second by the clock.
    fn rate(&self) -> f64 {
        self.bytes as f64 / self.run.seconds
    }

    /// Bytes per second of processor time.
    fn cpu_rate(&self) -> f64 {
        self.bytes as f64 / self.run.cpu
    }
}

/// All figures of a run.
#[derive(Default)]
pub struct Measured {
    /// Bytes of the log, and how many classes were asked for.
    pub size: u64,
    pub classes: u64,
    /// One thread on the log, two threads, then the same for other logs.
    pub rows: Vec<Row>,
    /// Two runs of one thread at the same time.
    pub pair: Option<Run>,
    pub peer: Option<Row>,
    pub equal: Option<Answer>,
}

/// The number of classes in a report's line `# Overall: 5.12k total, 4321 unique, ...`.
pub fn classes(report: &[u8]) -> Option<u64> {
    let text = String::from_utf8_lossy(report);
    let line = text.lines().find(|line| line.starts_with("# Overall: "))?;
    let word = line.split(", ").find_map(|part| part.strip_suffix(" unique"))?;
    let (digits, factor) = match word.strip_suffix('k') {
        Some(thousands) => (thousands, 1000.0),
        None => (word, 1.0),
    };
    digits.parse::<f64>().ok().map(|n| (n * factor).round() as u64)
}

/// A line of the table of targets.
struct Target {
    what: String,
    measured: String,
    wanted: String,
    met: bool,
}

/// Prints both tables; true if all targets are met.
pub fn write(args: &Args, measured: &Measured, out: &mut dyn Write) -> io::Result<bool> {
    writeln!(
        out,
        "Slow log of {:.0} MB, {} classes\n",
        measured.size as f64 / 1e6,
        measured.classes
    )?;
    writeln!(
        out,
        "{:<28}{:>8}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}",
        "", "MB", "classes", "s", "CPU s", "MB/s", "ratio", "peak MB"
    )?;
    for row in measured.rows.iter().chain(&measured.peer) {
        let ratio = measured.peer.as_ref().map(|peer| row.rate() / peer.rate());
        writeln!(
            out,
            "{:<28}{:>8.0}{:>9}{:>9.2}{:>9.2}{:>9.1}{:>9}{:>9.1}",
            row.name,
            row.bytes as f64 / 1e6,
            row.classes.map_or_else(|| "-".into(), |n| n.to_string()),
            row.run.seconds,
            row.run.cpu,
            row.rate() / 1e6,
            ratio.map_or_else(|| "-".into(), |r| format!("{r:.1}")),
            row.run.peak as f64 / 1e6
        )?;
    }
    let targets = targets(args, measured);
    writeln!(out, "\n{:<54}{:>16}{:>14}", "Target", "measured", "wanted")?;
    for Target { what, measured, wanted, met } in &targets {
        let verdict = if *met { "PASS" } else { "FAIL" };
        writeln!(out, "{what:<54}{measured:>16}{wanted:>14}  {verdict}")?;
    }
    if let Some(answer) = measured.equal.as_ref().filter(|a| !a.differences.is_empty()) {
        writeln!(out, "\n{answer}")?;
    }
    if let (Some(pair), [one, ..]) = (&measured.pair, &measured.rows[..]) {
        writeln!(
            out,
            "\nTwo runs of one thread at the same time have {:.2} times the rate of one: what this machine's processors do \
             together.",
            2.0 * one.run.seconds / pair.seconds
        )?;
    }
    let failed = targets.iter().filter(|target| !target.met).count();
    match failed {
        0 => writeln!(out, "\nPASS: all {} targets are met", targets.len())?,
        _ => writeln!(out, "\nFAIL: {failed} of {} targets are missed", targets.len())?,
    }
    Ok(failed == 0)
}

fn targets(args: &Args, measured: &Measured) -> Vec<Target> {
    let mut targets = Vec::new();
    let mut target = |what: String, measured: String, wanted: String, met: bool| {
        targets.push(Target { what, measured, wanted, met });
    };
    if let (Some(peer), [one, ..]) = (&measured.peer, &measured.rows[..]) {
        let ratio = one.cpu_rate() / peer.cpu_rate();
        let more = if peer.run.ended { "" } else { "> " };
        let part = match peer.bytes < measured.size {
            true => format!(" (of the first {} MB)", peer.bytes >> 20),
            false => String::new(),
        };
        target(
            format!("one thread, times pt-query-digest{part}"),
            format!("{more}{ratio:.1}"),
            format!(">= {}", args.min_ratio),
            ratio >= args.min_ratio,
        );
    }
    if let (Some(pair), [one, two, ..]) = (&measured.pair, &measured.rows[..]) {
        let ratio = two.rate() / one.rate();
        target(
            "two threads, times one by the clock".into(),
            format!("{ratio:.2}"),
            format!(">= {}", args.min_threads),
            ratio >= args.min_threads,
        );
        // Both runs keep both processors busy, which makes each of them slower.
        let work = two.run.cpu / pair.cpu;
        target(
            "two threads, processor time of one beside another".into(),
            format!("{work:.2}"),
            format!("<= {}", args.max_work),
            work <= args.max_work,
        );
    }
    for row in &measured.rows {
        let memory = 64_000_000 + 2000 * row.classes.unwrap_or(0);
        target(
            format!("{}, peak memory", row.name),
            format!("{:.1} MB", row.run.peak as f64 / 1e6),
            format!("<= {:.1}", memory as f64 / 1e6),
            row.run.peak <= memory,
        );
    }
    if let Some(answer) = &measured.equal {
        target(
            format!("differs from pt-query-digest, of {} classes", answer.classes),
            answer.differences.len().to_string(),
            "0".into(),
            answer.differences.is_empty() && answer.classes > 0,
        );
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(seconds: f64, cpu: f64, peak: u64) -> Run {
        Run { seconds, cpu, peak, ended: true }
    }

    fn row(name: &str, run: Run) -> Row {
        Row { name: name.into(), bytes: 1 << 30, classes: Some(5000), run }
    }

    #[test]
    fn each_missed_target_fails_by_itself() {
        let args = clap::Parser::parse_from(["x", "--frond", "f", "--out", "o"]);
        let good = || Measured {
            size: 1 << 30,
            classes: 5000,
            rows: vec![row("one", run(4.0, 4.0, 60 << 20)), row("two", run(2.1, 4.3, 60 << 20))],
            pair: Some(run(4.2, 4.2, 60 << 20)),
            peer: Some(row("pt-query-digest", run(250.0, 250.0, 1 << 30))),
            equal: None,
        };
        let missed = |change: &dyn Fn(&mut Measured)| {
            let mut measured = good();
            change(&mut measured);
            let mut text = Vec::new();
            let met = write(&args, &measured, &mut text).unwrap();
            let text = String::from_utf8(text).unwrap();
            assert_eq!(met, text.contains("\nPASS: all 5"), "{text}");
            text.matches("  FAIL").count()
        };
        assert_eq!(missed(&|_| {}), 0);
        assert_eq!(missed(&|m| m.rows[0].run.cpu = 5.1), 1);
        assert_eq!(missed(&|m| m.rows[1].run.seconds = 2.4), 1);
        assert_eq!(missed(&|m| m.rows[1].run.cpu = 4.6), 1);
        assert_eq!(missed(&|m| m.rows[1].run.peak = 75_000_000), 1);
    }

    #[test]
    fn the_number_of_classes_is_read_from_a_report() {
        let line = |unique: &str| format!("# x\n# Overall: 5 total, {unique} unique, 3 QPS\n");
        assert_eq!(classes(line("4321").as_bytes()), Some(4321));
        assert_eq!(classes(line("38.95k").as_bytes()), Some(38950));
        assert_eq!(classes(b"nothing"), None);
    }
}
