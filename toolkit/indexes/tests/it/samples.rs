//! The expectations of percona-toolkit's own tests for their sample tables. The files are percona-toolkit's:
//! `FROND_INDEX_SAMPLES` names a directory with them (from its `t/pt-duplicate-key-checker/samples` and
//! `t/lib/samples/dupekeys`); without it the test says so.

use std::path::Path;

use frond_indexes::report::duplicates;

use frond_indexes::duty::Parents;

use crate::read_in;

/// File; each key that can go or be shortened, and the one that stays.
type Facts = (&'static str, &'static [(&'static str, Option<&'static str>)]);

/// Answers that agree with pt-duplicate-key-checker.
const SAME: [Facts; 9] = [
    (
        "dupe-cluster-bug-894140.sql",
        &[("row_id", Some("PRIMARY")), ("player_id_2", Some("player_id"))],
    ),
    ("idb-no-uniques-bug-894140.sql", &[]),
    ("issue-1004.txt", &[]),
    ("issue-1192.sql", &[("a", Some("PRIMARY"))]),
    ("issue_295.sql", &[("b_a", None)]),
    ("issue_331.sql", &[("fk_2", Some("fk_1"))]),
    ("issue_663.sql", &[("idx1", Some("idx2"))]),
    ("fk_chosen_index_bug_1201443.sql", &[("child_ibfk_2", Some("child_ibfk_1"))]),
    ("prefix_bug_1214114.sql", &[("b", None)]),
];

/// Answers that are better. Of two equal UNIQUE keys the older one stays: pt drops the older one. Where a key ends with the first
/// columns of a longer primary key, InnoDB adds the rest in the same order with and without them: pt looks only for whole primary
/// keys.
const BETTER: [Facts; 3] = [
    ("simple_dupe_bug_1217013.sql", &[("unique_key_domain", Some("domain"))]),
    ("issue-904-1.txt", &[("by_count", None)]),
    ("issue-904-2.txt", &[("o_id", None)]),
];

#[test]
fn samples_of_percona_toolkit_have_its_answers_or_named_better_ones() {
    let Some(dir) = std::env::var_os("FROND_INDEX_SAMPLES") else {
        eprintln!("skipped: FROND_INDEX_SAMPLES names no directory");
        return;
    };
    for (name, wanted) in SAME.iter().chain(&BETTER) {
        let text = std::fs::read(Path::new(&dir).join(name)).unwrap();
        let dump = read_in(&text, 1 << 16).unwrap();
        let items: Vec<_> = dump
            .tables
            .iter()
            .flat_map(|table| duplicates(table, &Parents::of(&dump.tables), dump.hiding))
            .collect();
        let found: Vec<_> =
            items.iter().map(|item| (item.key.as_str(), item.of.as_deref())).collect();
        assert_eq!(found, *wanted, "{name}");
    }
}
