//! A server at one moment, as far as `frond top` shows it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Counters that are kept from SHOW GLOBAL STATUS, in lower case; Frond's are all kept besides.
pub const STATUS: [&str; 22] = [
    "uptime",
    "questions",
    "com_select",
    "com_insert",
    "com_update",
    "com_delete",
    "com_commit",
    "slow_queries",
    "threads_connected",
    "threads_running",
    "handler_read_key",
    "handler_read_rnd_next",
    "handler_write",
    "handler_update",
    "handler_delete",
    "bytes_sent",
    "bytes_received",
    "innodb_row_lock_current_waits",
    "innodb_history_list_length",
    "innodb_buffer_pool_bytes_data",
    "innodb_buffer_pool_bytes_dirty",
    "innodb_buffer_pool_reads",
];

/// Rows of each list that are kept.
pub const MOST: usize = 50;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sample {
    /// Seconds since 1970, UTC.
    pub at: f64,
    pub server: String,
    pub status: BTreeMap<String, f64>,
    pub trees: Vec<Tree>,
    pub waits: Vec<Wait>,
    /// Totals by class; or the running statements, if the server keeps no totals.
    pub statements: Vec<Statement>,
    pub running_only: bool,
}

/// One index of a Frond table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tree {
    pub table: String,
    pub index: u32,
    pub entries: u64,
    pub stored_bytes: u64,
    pub runs: u64,
    pub leaves: u64,
    pub height: u32,
    pub buffered_bytes: u64,
}

/// A transaction that waits for a lock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Wait {
    pub engine: String,
    pub seconds: f64,
    pub waiter: u64,
    pub blocker: u64,
    /// Table and index.
    pub place: String,
    pub statement: String,
}

/// A class of statements.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Statement {
    pub class: String,
    pub count: u64,
    pub seconds: f64,
    pub rows_examined: u64,
}

impl Sample {
    pub fn status(&self, name: &str) -> Option<f64> {
        self.status.get(name).copied()
    }

    /// Keeps a status variable if it is shown.
    pub fn put(&mut self, name: &str, value: &str) {
        let name = name.to_ascii_lowercase();
        if STATUS.contains(&name.as_str())
            || (name.starts_with("frond_") && self.status.len() < 200)
        {
            if let Some(number) = value.parse::<f64>().ok().filter(|n| n.is_finite()) {
                self.status.insert(name, number);
            }
        }
    }
}

/// The trees in the text of SHOW ENGINE FROND STATUS; names with spaces are kept whole.
pub fn trees(text: &str) -> Vec<Tree> {
    let mut lines = text.lines().skip_while(|line| *line != "TREES").skip(3);
    let mut trees = Vec::new();
    for line in lines.by_ref() {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        if words.len() < 9 {
            break;
        }
        let numbers: Option<Vec<u64>> =
            words.split_off(words.len() - 8).iter().map(|word| word.parse().ok()).collect();
        let Some(numbers) = numbers else { break };
        if words == ["(catalog)"] {
            continue;
        }
        trees.push(Tree {
            table: words.join(" "),
            index: numbers[0] as u32,
            entries: numbers[1],
            stored_bytes: numbers[2],
            runs: numbers[4],
            leaves: numbers[5],
            height: numbers[6] as u32,
            buffered_bytes: numbers[7],
        });
    }
    trees
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_are_read_from_the_text_of_the_engine() {
        let text = "COUNTERS\n--------\ncommits 5\n\nTREES\n-----\n\
            table                                    index      entries   stored bytes  logical bytes   runs  leaves height buffered bytes\n\
            (catalog)                                    0           12           4096           2000      1       1      1              0\n\
            shop/my table                                1         1000          65536          90000      3       2      1           1024\n\
            \nLATEST DEADLOCK\n";
        let found = trees(text);
        assert_eq!(found.len(), 1);
        let tree = &found[0];
        assert_eq!((tree.table.as_str(), tree.index, tree.entries), ("shop/my table", 1, 1000));
        assert_eq!(
            (tree.stored_bytes, tree.runs, tree.leaves, tree.buffered_bytes),
            (65536, 3, 2, 1024)
        );
        assert!(trees("").is_empty() && trees("TREES\n-\nx\n1 2").is_empty());
    }
}
