//! The document for people.

use std::io::{self, Write};

use frond_event::numbers::{duration, plural};

use super::{Node, Place, Report};

/// A statement on a line is cut to this many characters.
const STATEMENT: usize = 100;

struct Style {
    bold: &'static str,
    dim: &'static str,
    plain: &'static str,
}

/// What users name and write steers no terminal.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

fn statement(text: &str) -> String {
    let text = printable(&text.replace('\n', " "));
    match text.char_indices().nth(STATEMENT) {
        Some((at, _)) => format!("{} ...", &text[..at]),
        None => text,
    }
}

pub(super) fn place(place: &Place) -> String {
    let index = place.index.as_ref().map_or(String::new(), |index| format!(" index {index}"));
    let key = place.key.as_ref().map_or(String::new(), |key| format!(" key ({key})"));
    printable(&format!("{} on {}{index}{key}", place.lock, place.table))
}

pub(super) fn account(user: &str, host: &str) -> String {
    match (user, host) {
        ("", "") => String::new(),
        (user, "") => printable(user),
        _ => printable(&format!("{user}@{host}")),
    }
}

pub(super) fn connection(id: Option<u64>, transaction: &str) -> String {
    let transaction = printable(transaction);
    match id {
        Some(id) => format!("connection {id} (transaction {transaction})"),
        None => format!("transaction {transaction}"),
    }
}

impl Report {
    /// `colour`: with escape sequences of a terminal.
    pub fn write_text(&self, colour: bool, out: &mut dyn Write) -> io::Result<()> {
        let style = match colour {
            true => Style { bold: "\x1b[1m", dim: "\x1b[2m", plain: "\x1b[0m" },
            false => Style { bold: "", dim: "", plain: "" },
        };
        let span = match (&self.first, &self.last) {
            (Some(a), Some(b)) if a != b => format!(" from {a} to {b}"),
            (Some(a), _) => format!(" of {a}"),
            _ => String::new(),
        };
        writeln!(
            out,
            "{}{span}: {}, {} ({} in all), {}.",
            plural(self.dumps, "dump"),
            plural(self.transactions, "open transaction"),
            plural(self.waits.count, "wait"),
            duration(self.waits.seconds),
            plural(self.deadlocks, "deadlock"),
        )?;
        self.tree(&style, out)?;
        self.blockers(&style, out)?;
        self.transactions(&style, out)?;
        self.records(&style, out)?;
        self.locks(&style, out)?;
        self.deadlocks(&style, out)?;
        self.series(&style, out)?;
        if !self.notes.is_empty() {
            writeln!(out)?;
        }
        self.notes.iter().try_for_each(|note| writeln!(out, "{}", printable(note)))
    }

    fn heading(&self, style: &Style, text: &str, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "\n{}{text}{}", style.bold, style.plain)
    }

    fn tree(&self, style: &Style, out: &mut dyn Write) -> io::Result<()> {
        let Some(tree) = &self.tree else { return Ok(()) };
        let at = match &tree.at {
            Some(at) if self.dumps > 1 => format!(" at {at}, when most was waited for"),
            _ => String::new(),
        };
        self.heading(style, &format!("Who waits for whom{at}"), out)?;
        tree.nodes.iter().try_for_each(|node| Report::node(node, style, out))
    }

    fn node(node: &Node, style: &Style, out: &mut dyn Write) -> io::Result<()> {
        // Deep chains stay on the screen.
        let indent = "  ".repeat(node.depth.min(20) as usize + 1);
        let mut facts = vec![account(&node.user, &node.host)];
        facts.extend(node.open_seconds.map(|s| format!("open {}", duration(s as f64))));
        facts.extend(node.idle.then(|| "idle in transaction".to_owned()));
        facts.retain(|fact| !fact.is_empty());
        let name = connection(node.connection, &node.transaction);
        writeln!(out, "{indent}{}{name}{}  {}", style.bold, style.plain, facts.join(", "))?;
        if let Some(seconds) = node.waits_seconds {
            let wants = node.wants.as_ref().map_or("a lock".into(), place);
            let also = match node.also_behind.is_empty() {
                true => String::new(),
                false => format!("; also behind {}", printable(&node.also_behind.join(", "))),
            };
            writeln!(out, "{indent}  waits {} for {wants}{also}", duration(seconds))?;
        }
        if let Some(note) = node.note {
            writeln!(out, "{indent}  {note}")?;
        }
        if !node.statement.is_empty() {
            writeln!(out, "{indent}  {}{}{}", style.dim, statement(&node.statement), style.plain)?;
        }
        Ok(())
    }

    fn blockers(&self, style: &Style, out: &mut dyn Write) -> io::Result<()> {
        if self.blockers.is_empty() || self.dumps < 2 {
            return Ok(());
        }
        self.heading(style, "Root blockers: what they made others wait, directly or not", out)?;
        for b in &self.blockers {
            let idle = match b.idle_dumps {
                0 => String::new(),
                n => format!(", idle in {n} of {}", plural(b.dumps, "dump")),
            };
            writeln!(
                out,
                "  {:>8}  {}  {}, {}{idle}, open {}",
                duration(b.blocked_seconds),
                connection(b.connection, &b.transaction),
                account(&b.user, &b.host),
                plural(b.waits, "wait"),
                duration(b.open_seconds as f64),
            )?;
            if !b.statement.is_empty() {
                writeln!(
                    out,
                    "            {}{}{}",
                    style.dim,
                    statement(&b.statement),
                    style.plain
                )?;
            }
        }
        Ok(())
    }

    fn transactions(&self, style: &Style, out: &mut dyn Write) -> io::Result<()> {
        if self.longest_transactions.is_empty() {
            return Ok(());
        }
        self.heading(style, "Longest transactions", out)?;
        for t in &self.longest_transactions {
            let mut facts = vec![account(&t.user, &t.host)];
            facts.retain(|fact| !fact.is_empty());
            facts.push(plural(t.row_locks, "row lock"));
            facts.extend((t.undo_entries > 0).then(|| plural(t.undo_entries, "change")));
            facts.extend(t.flags.iter().map(|flag| (*flag).to_owned()));
            writeln!(
                out,
                "  {:>8}  {}  {}",
                duration(t.open_seconds as f64),
                connection(t.connection, &t.transaction),
                facts.join(", ")
            )?;
            if let Some(class) = t.statements.first() {
                writeln!(out, "            {}{}{}", style.dim, statement(class), style.plain)?;
            }
        }
        Ok(())
    }

    fn records(&self, style: &Style, out: &mut dyn Write) -> io::Result<()> {
        if self.records.is_empty() {
            return Ok(());
        }
        self.heading(style, "What is waited for", out)?;
        for r in &self.records {
            let index = r.index.as_ref().map_or(" (the table)".into(), |i| format!(" index {i}"));
            let key = r.key.as_ref().map_or(String::new(), |key| format!(" key ({key})"));
            writeln!(
                out,
                "  {:>8}  {}{}{}  {}, {} at once",
                duration(r.seconds),
                printable(&r.table),
                printable(&index),
                printable(&key),
                plural(r.waits, "wait"),
                r.at_once
            )?;
        }
        Ok(())
    }

    fn locks(&self, style: &Style, out: &mut dyn Write) -> io::Result<()> {
        if self.locks.is_empty() {
            return Ok(());
        }
        self.heading(style, "Locks: the most at once", out)?;
        for l in &self.locks {
            let index = l.index.as_ref().map_or(String::new(), |index| format!(" index {index}"));
            let records = match l.index {
                Some(_) => format!(" on {}", plural(l.records, "record")),
                None => String::new(),
            };
            writeln!(
                out,
                "  {}{}: {} {}{records} of {}{}",
                printable(&l.table),
                printable(&index),
                l.locks,
                l.lock,
                plural(l.transactions, "transaction"),
                if l.waiting { ", waiting" } else { "" },
            )?;
        }
        Ok(())
    }

    fn deadlocks(&self, style: &Style, out: &mut dyn Write) -> io::Result<()> {
        for d in &self.deadlock_groups {
            let span = match (&d.first, &d.last) {
                (Some(a), Some(b)) if a != b => format!(" from {a} to {b}"),
                (Some(a), _) => format!(" at {a}"),
                _ => String::new(),
            };
            self.heading(style, &format!("{}{span}", plural(d.count, "deadlock")), out)?;
            for m in &d.members {
                let behind = match m.held_by.is_empty() {
                    true => String::new(),
                    false => format!(", which {} has", printable(&m.held_by.join(", "))),
                };
                let end = if m.rolled_back { "  (rolled back)" } else { "" };
                let name = connection(m.connection, &m.transaction);
                writeln!(out, "  {name}  {}{end}", account(&m.user, &m.host))?;
                writeln!(out, "    waits for {}{behind}", place(&m.wants))?;
                writeln!(out, "    {}{}{}", style.dim, statement(&m.statement), style.plain)?;
            }
            writeln!(out, "  {}", d.hint)?;
        }
        Ok(())
    }

    fn series(&self, style: &Style, out: &mut dyn Write) -> io::Result<()> {
        if self.series.len() < 2 {
            return Ok(());
        }
        self.heading(style, "As time went by", out)?;
        let mut line = |name: &str, of: &dyn Fn(&super::Point) -> Option<u64>| {
            let values: Vec<u64> = self.series.iter().filter_map(of).collect();
            match (values.iter().min(), values.iter().max()) {
                (Some(min), Some(max)) if *max > 0 => {
                    writeln!(out, "  {name:<22}{}  {min} to {max}", spark(&values))
                }
                _ => Ok(()),
            }
        };
        line("history list", &|p| p.history)?;
        line("checkpoint age, bytes", &|p| p.checkpoint_age)?;
        line("open transactions", &|p| Some(p.active))?;
        line("waiting", &|p| Some(p.waiting))?;
        line("row locks", &|p| Some(p.row_locks))
    }
}

/// At most 40 columns, each with the largest of its values.
fn spark(values: &[u64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let max = values.iter().copied().max().unwrap_or(0).max(1);
    let per_bar = values.len().div_ceil(40).max(1);
    let bars = values.chunks(per_bar).map(|chunk| {
        let value = chunk.iter().copied().max().unwrap_or(0);
        BARS[((value as u128 * 7).div_ceil(max as u128) as usize).min(7)]
    });
    bars.collect()
}
