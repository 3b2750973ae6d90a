//! The first lines of pt-query-digest's report: resources used, time and host, and inputs.
//!
//! They describe the program that makes the report, which passes them in (`Head`): this crate reads
//! neither the clock nor the process.

use std::io::{self, Write};

use super::notation::{self, short};

/// See the module's text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Head {
    /// `None` where the system lacks the figures, and in reproducible reports.
    pub usage: Option<Usage>,
    /// Local time: `Sun Nov 22 17:13:34 2026`.
    pub date: Option<String>,
    pub host: Option<String>,
    /// Names as given; empty: standard input.
    pub files: Vec<String>,
}

/// Resources that the process has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Seconds of processor time.
    pub user: f64,
    pub system: f64,
    /// Bytes of memory.
    pub resident: u64,
    pub mapped: u64,
}

pub(super) fn write(head: &Head, out: &mut dyn Write) -> io::Result<()> {
    if let Some(usage) = head.usage {
        writeln!(
            out,
            "# {} user time, {} system time, {} rss, {} vsz",
            time(usage.user),
            time(usage.system),
            short(usage.resident as f64, 1024.0),
            short(usage.mapped as f64, 1024.0)
        )?;
    }
    if let Some(date) = &head.date {
        writeln!(out, "# Current date: {date}")?;
    }
    if let Some(host) = &head.host {
        writeln!(out, "# Hostname: {host}")?;
    }
    let files = if head.files.is_empty() { "STDIN".into() } else { head.files.join(", ") };
    writeln!(out, "# Files: {files}")
}

/// `240ms`, `1.2s`
fn time(seconds: f64) -> String {
    if seconds >= 1.0 {
        format!("{seconds:.1}s")
    } else {
        notation::time(seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_has_that_tool_s_form() {
        let usage = Usage { user: 1.25, system: 0.04, resident: 40_967_864, mapped: 45_246_054 };
        let head = Head {
            usage: Some(usage),
            date: Some("Sun Nov  1 17:13:34 2026".into()),
            host: Some("db1".into()),
            files: vec!["a.log".into(), "b.log".into()],
        };
        let text = |head: &Head| {
            let mut out = Vec::new();
            write(head, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            text(&head),
            "# 1.2s user time, 40ms system time, 39.07M rss, 43.15M vsz\n# Current date: Sun Nov  1 17:13:34 2026\n# Hostname: db1\n# Files: a.log, b.log\n"
        );
        assert_eq!(text(&Head::default()), "# Files: STDIN\n");
    }
}
