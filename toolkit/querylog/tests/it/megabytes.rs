//! A megabyte of anything that might make a parser read the same bytes again and again, and the memory
//! that reading it takes.

use super::checks;
use super::pieces::{fast, repeated};
use std::sync::Mutex;

/// Tests that measure time and memory run one after the other.
pub static ALONE: Mutex<()> = Mutex::new(());

const SLOW: &str =
    "# Time: 240310 12:00:01\n# User@Host: a[a] @ b []\n# Query_time: 1.0  Lock_time: 0  Rows_sent: 0\n";
const GENERAL: &str = "240310 12:00:01\t     5 Query\t";

/// Heads, units and tails of inputs; testing all combinations would take too long.
fn inputs() -> Vec<[String; 3]> {
    let units = [
        "#",
        "# ",
        "#\n",
        "# \n",
        "\n# ",
        "\n",
        "\r\n",
        ";\n",
        ";\n# ",
        "';\n# ",
        "\";\n# ",
        "`;\n# ",
        "'",
        "\"",
        "`",
        "\\",
        "\\'",
        "/*",
        "*/",
        "/*\n# ",
        "-- ",
        "-- '\n",
        "# Time: ",
        "# Time: 240310 12:00:01\n",
        "# Time: 2024-03-10T12:00:01Z\n",
        "# User@Host: ",
        "# User@Host: a[a] @ b []\n",
        "[",
        "]",
        " @ ",
        "# Query_time: 1 ",
        "# Query_time: 1\n",
        "A: 1 ",
        "# A: 1\n",
        "# A: 1  B: 2\n",
        ": ",
        "  ",
        "\t",
        "0",
        "9",
        "e",
        "Schema: ",
        " Schema: a",
        "SET timestamp=1;\n",
        "SET timestamp=",
        "use a;\n",
        "use `",
        "select 1;\n",
        "select 1\n",
        "select ';\n# Time: 1';\n",
        "# administrator command: Ping;\n",
        "# explain: a\n",
        "\t\t    5 Query\tx\n",
        "\t\t    5 Connect\ta@b on c\n",
        "\t5 Query",
        "240310 12:00:01\t     5 Query\tx\n",
        "240310 12:00:01\t     5 Init DB\tx\n",
        "240310 ",
        "2024-03-10T12:00:01Z\t",
        "Time ",
        "Tcp port: 1\n",
        "/usr/sbin/mariadbd, Version: 1 started with:\n",
        "started with:\n",
        "\0",
        "\u{e9}",
        "(",
        ")",
        "x",
        "x ",
        "insert into t values (1),",
    ];
    let mut inputs = Vec::new();
    for unit in units {
        for head in ["", SLOW, GENERAL] {
            inputs.push([head, unit, ""].map(str::to_string));
        }
        inputs.push([&format!("{SLOW}select '"), unit, "';\n"].map(str::to_string));
        inputs.push([&format!("{SLOW}# User@Host: "), unit, "\nselect 1;\n"].map(str::to_string));
    }
    // The same event a thousand times, and events nested in each other.
    for event in
        [format!("{SLOW}select 1;\n"), format!("{SLOW}select '"), format!("{GENERAL}select 1\n")]
    {
        inputs.push([String::new(), event, String::new()]);
    }
    inputs
}

/// The number of this day. Tests that would take long run a part of their cases that it decides: runs add up.
pub fn day() -> usize {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("a clock behind 1970");
    (since.as_secs() / 86400) as usize
}

/// A check that reads some bytes as one kind of input.
type Check = fn(&[u8]);

#[test]
fn no_megabyte_of_log_takes_a_second() {
    let _alone = ALONE.lock();
    for [head, unit, tail] in inputs().into_iter().skip(day() % 3).step_by(3) {
        let input = repeated(&head, &unit, &tail);
        if head != GENERAL {
            fast("the slow log's parser", &input, &|bytes| checks::slow_log(bytes));
        }
        if !head.starts_with(SLOW) {
            fast("the general log's parser", &input, &|bytes| checks::general_log(bytes));
        }
        if head.is_empty() {
            fast("the raw log's parser", &input, &|bytes| checks::raw_log(bytes));
        }
    }
}

/// Places from which a parser may search to the end of the log, and texts that make the search long or
/// futile.
#[test]
fn no_megabyte_of_unfinished_things_takes_a_second() {
    let _alone = ALONE.lock();
    let (time, schema) = ("# Time: 240310 12:00:01\n", "# Schema: \n");
    let inputs = [
        // What ends a list of warnings.
        ("", "# Warnings\n".to_string(), ""),
        ("", "# Warnings\n;\n# Query_time: 1\n".to_string(), ""),
        ("", format!("{time}# Warnings\nx;\n"), ""),
        ("", format!("# Warnings\n# Note 1 a\nx;\n{schema}x;\n"), "SET timestamp=1;\n"),
        // A quote that is never closed, or closed far away, or closed and opened again.
        ("", format!("{time}\\'\n"), ""),
        ("", format!("{time}\\'\n"), "'"),
        ("", format!("{schema}\\';\n"), ""),
        ("", format!("{schema}\\';\n"), "';\n"),
        ("", format!("{time}' '/*/*/*/*/*/*/*/*/*'x' \\'\n"), ""),
        ("", format!("{time}'/*/*/*/*/*/*/*/*/*/*/*' \\'\n"), ""),
        ("", format!("{schema}' '/*/*/*/*/*/*/*/*/*'x' \\';\n"), ""),
        ("", format!("{time}\\' \\\" `\n"), ""),
        // A colon, or two blanks, far away in a line.
        ("# ", "x ".to_string(), ":\nselect 1;\n"),
        ("# ", "Schema:a ".to_string(), "x: 1\nselect 1;\n"),
        ("# ", "Schema: a ".to_string(), "x: 1  y: 2\nselect 1;\n"),
    ];
    for (head, unit, tail) in inputs {
        fast("the slow log's parser", &repeated(head, &unit, tail), &|b| checks::slow_log(b));
    }
}

/// The peak memory of this process since it was last reset, and its present memory.
fn memory() -> Option<(usize, usize)> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let of = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse::<usize>().ok().map(|kb| kb * 1024)
    };
    Some((of("VmHWM:")?, of("VmRSS:")?))
}

/// The other tests of this binary use little memory, so the bound has room for them.
#[test]
fn memory_stays_in_proportion_to_the_input() {
    let _alone = ALONE.lock();
    if std::fs::write("/proc/self/clear_refs", "5").is_err() || memory().is_none() {
        eprintln!("skipped: this system does not tell the most memory a process had");
        return;
    }
    let inputs = inputs();
    let checked: [(&str, Check); 3] = [
        ("the slow log's parser", checks::slow_log),
        ("the general log's parser", checks::general_log),
        ("a statement", super::statement::statement),
    ];
    for (what, check) in checked {
        for [head, unit, tail] in inputs.iter().skip(day() % 14).step_by(14) {
            let input = repeated(head, unit, tail);
            std::fs::write("/proc/self/clear_refs", "5").unwrap();
            let (_, before) = memory().unwrap();
            check(&input);
            let (most, _) = memory().unwrap();
            let grown = most.saturating_sub(before);
            // The check copies each statement, and a place takes more memory than the shortest statement.
            let bound = 40 * input.len() + (16 << 20);
            assert!(grown < bound, "{what} took {grown} bytes of {}", input[..120].escape_ascii());
        }
    }
}
