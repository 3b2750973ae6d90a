//! Which keys are superfluous: one table of cases.

use frond_indexes::dump::create_table;
use frond_indexes::duplicates::{find, Finding, Repeats};

use frond_indexes::duty::Parents;

use crate::read;

/// The findings in short form: `a<b` a repeats b, `a<<b` a is a prefix of b, `a<-b` backwards, `a<+b` by the end of
/// primary key columns, `a~n` the first n parts are enough, `fk:a<b` foreign keys, with `!` if their actions differ.
fn said(sql: &str) -> Vec<String> {
    let dump = read(sql);
    let table = &dump.tables[0];
    let foreign = |at: usize| table.foreign[at].name.clone().unwrap_or_else(|| at.to_string());
    let mut said: Vec<String> = find(table, &Parents::of(&dump.tables))
        .into_iter()
        .map(|finding| match finding {
            Finding::Key { key, of, how, also } => {
                let how = match how {
                    Repeats::Exact => "<",
                    Repeats::Prefix => "<<",
                    Repeats::Backwards => "<-",
                    Repeats::PrimarySuffix => "<+",
                };
                let also = also.map_or(String::new(), |also| format!("&{also}"));
                format!("{key}{how}{of}{also}")
            }
            Finding::Suffix { key, parts } => format!("{key}~{parts}"),
            Finding::Foreign { at, of, actions_differ } => {
                let mark = if actions_differ { "!" } else { "" };
                format!("fk:{}<{}{mark}", foreign(at), foreign(of))
            }
        })
        .collect();
    said.sort();
    said
}

/// Definitions of a table's keys, as written behind its columns, and the findings.
const CASES: &[(&str, &[&str])] = &[
    // Nothing is wrong.
    ("", &[]),
    ("key x (a)", &[]),
    ("key x (a), key y (b)", &[]),
    ("key x (a, b), key y (b)", &[]),
    ("key x (a, b), key y (b, a)", &[]),
    ("key x (a, b), key y (a, c)", &[]),
    // Equal keys: one stays, the first.
    ("key x (a), key y (a)", &["y<x"]),
    ("key z (a), key y (a)", &["y<z"]),
    ("key x (a), key y (a), key z (a)", &["y<x", "z<x"]),
    ("key x (a, b), key y (A, `B`)", &["y<x"]),
    ("key x (a asc, b), key y (a, b)", &["y<x"]),
    // Prefixes.
    ("key x (a), key y (a, b)", &["x<<y"]),
    ("key y (a, b), key x (a)", &["x<<y"]),
    ("key x (a), key y (a, b), key z (a, b, c)", &["x<<z", "y<<z"]),
    ("key x (a), key y (a, b), key z (a, c)", &["x<<y"]),
    // Columns whose names begin alike are different columns.
    ("key x (a), key y (ab, b)", &[]),
    ("key x (a, b), key y (a, bb)", &[]),
    // The primary key.
    ("primary key (a), key x (a)", &["x<PRIMARY"]),
    ("primary key (a, b), key x (a)", &["x<<PRIMARY"]),
    ("primary key (a, b), key x (a, b)", &["x<PRIMARY"]),
    ("primary key (a, b), key x (b)", &[]),
    ("primary key (a), unique x (a)", &["x<PRIMARY"]),
    ("primary key (a, b), unique x (a)", &[]),
    ("primary key (a, b), unique x (b, a)", &["x~1"]),
    ("key x (a), primary key (a)", &["x<PRIMARY"]),
    // Uniqueness.
    ("unique x (a), unique y (a)", &["y<x"]),
    ("unique x (a), key y (a)", &["y<x"]),
    ("key y (a), unique x (a)", &["y<x"]),
    ("unique x (a), key y (a, b)", &[]),
    ("unique x (a), unique y (a, b)", &[]),
    ("unique x (a, b), key y (a)", &["y<<x"]),
    ("unique x (a, c), unique y (c, a)", &[]),
    // The server takes x as the primary key.
    ("unique x (a, b), unique y (b, a)", &["y~1"]),
    ("unique x (a, n), unique y (n), key z (a, n, c)", &["x<<z&y"]),
    // The rows are stored by x, and every other key ends with its columns.
    ("unique x (a, b), unique y (b), key z (a, b, c)", &[]),
    ("unique x (a, b), unique y (a), key z (a, b)", &["z<x"]),
    ("unique x (a, b), key z (a, b, c)", &[]),
    ("unique x (a), unique y (a), key z (a, b)", &["y<x"]),
    ("primary key (b), unique x (a, b), key z (a, b, c)", &["x<<z&PRIMARY"]),
    // Lengths of prefixes.
    ("key x (s(10)), key y (s(10))", &["y<x"]),
    ("key x (s(10)), key y (s(20))", &["x<<y"]),
    ("key x (s(10)), key y (s)", &["x<<y"]),
    ("key x (s), key y (s(10), a)", &[]),
    ("key x (s(10), a), key y (s, a)", &[]),
    ("key x (s(10), a), key y (s(20), a)", &[]),
    ("key x (s(10), a), key y (s(10), a, b)", &["x<<y"]),
    ("key x (a, s(10)), key y (a, s, b)", &["x<<y"]),
    ("unique x (s(10)), key y (s)", &[]),
    ("unique x (s(10)), unique y (s)", &[]),
    ("unique x (s), unique y (s(10))", &[]),
    ("unique x (s(10)), unique y (s(20))", &[]),
    ("unique x (s(20)), unique y (s(10)), key z (s)", &["x<<z&y"]),
    // Directions.
    ("key x (a desc), key y (a desc)", &["y<x"]),
    ("key x (a desc), key y (a)", &["y<-x"]),
    ("key x (a), key y (a desc, b)", &["x<-y"]),
    ("key x (a, b), key y (a, b desc)", &[]),
    ("key x (a, b desc), key y (a desc, b)", &["y<-x"]),
    ("key x (a desc, b), key y (a desc, b, c)", &["x<<y"]),
    ("key x (a, b), key y (a desc, b desc, c)", &["x<-y"]),
    ("key x (a), key y (a, b desc)", &["x<<y"]),
    // Ignored keys cover nothing, and go first; their uniqueness stays.
    ("key x (a) ignored, key y (a)", &["x<y"]),
    ("key x (a), key y (a, b) ignored", &[]),
    ("key x (a) ignored, key y (a, b)", &["x<<y"]),
    ("key x (a) ignored, key y (a) ignored", &["y<x"]),
    ("unique x (a) ignored, key y (a)", &[]),
    ("unique x (a) ignored, unique y (a)", &["x<y"]),
    ("unique x (a, n), unique y (n) ignored, key z (a, n, c)", &["x<<z&y"]),
    ("key x (a) invisible, key y (a)", &["x<y"]),
    // The end of primary key columns.
    ("primary key (a), key x (b, a)", &["x~1"]),
    ("primary key (a, b), key x (c, a)", &["x~1"]),
    ("primary key (a, b), key x (c, a, b)", &["x~1"]),
    ("primary key (a, b), key x (c, b)", &[]),
    ("primary key (a, b), key x (c, b, a)", &["x~2"]),
    ("primary key (a, b), key x (b, a)", &["x~1"]),
    ("primary key (a), key x (b, a), key y (b)", &["x<+y"]),
    ("primary key (a), key y (b), key x (b, a)", &["x<+y"]),
    ("primary key (a), key x (b, a), key y (b, c)", &["x~1"]),
    ("primary key (a), key x (b), key y (b, c)", &["x<<y"]),
    ("primary key (a), key x (b, a desc)", &[]),
    ("primary key (a), key x (b, a) ignored", &[]),
    ("primary key (a), unique x (b, a)", &["x~1"]),
    ("primary key (s(5)), key x (b, s)", &[]),
    ("unique u (a), key x (b, a)", &["x~1"]),
    ("unique u (n), key x (b, n)", &[]),
    // FULLTEXT, SPATIAL and others are separate kinds.
    ("fulltext x (s), fulltext y (s)", &["y<x"]),
    ("fulltext x (s), fulltext y (s, t)", &[]),
    ("fulltext x (s, t), fulltext y (t, s)", &["y<x"]),
    ("fulltext x (s), fulltext y (s) with parser ngram", &[]),
    ("fulltext x (s), key y (s)", &[]),
    ("fulltext x (s), key y (s), key z (s)", &["z<y"]),
    ("spatial x (g), spatial y (g)", &["y<x"]),
    ("spatial x (g), key y (g(25))", &[]),
    ("vector x (v), vector y (v)", &["y<x"]),
    ("vector x (v), vector y (v) distance=cosine", &[]),
    ("vector x (v) m=8 distance=cosine, vector y (v) m=8 distance=cosine", &["y<x"]),
    // On an engine with trees HASH is a tree, except for UNIQUE.
    ("key x (a) using hash, key y (a, b)", &["x<<y"]),
    ("unique x (s) using hash, key y (s)", &[]),
    ("unique x (s) using hash, unique y (s) using hash", &["y<x"]),
    ("key x (a) using btree, key y using btree (a, b)", &["x<<y"]),
    // Expressions and generated columns.
    ("key x ((a + 1)), key y ((a + 1), b)", &["x<<y"]),
    ("key x ((a + 1)), key y ((a + 2), b)", &[]),
    ("key x ((json_value(s, '$.N'))), key y ((json_value(s, '$.n')))", &[]),
    ("unique x ((json_value(s, '$.N'))), unique y ((json_value(s, '$.n')))", &[]),
    ("key x (gen), key y (gen, a)", &["x<<y"]),
    // Constraints over time.
    ("unique x (a, p without overlaps), unique y (a, p)", &[]),
    ("unique x (a, p without overlaps), key y (a)", &["y<<x"]),
    // Foreign keys: same columns, same parent.
    (
        "key x (a), constraint f foreign key (a) references p (i), constraint g foreign key (a) references p (i)",
        &["fk:g<f"],
    ),
    (
        "key x (a, b), constraint f foreign key (a, b) references p (i, j), constraint g foreign key (b, a) references p (j, i)",
        &["fk:g<f"],
    ),
    (
        "key x (a, b), constraint f foreign key (a, b) references p (i, j), constraint g foreign key (a, b) references p (j, i)",
        &[],
    ),
    (
        "key x (a), constraint f foreign key (a) references p (i), constraint g foreign key (a) references q (i)",
        &[],
    ),
    (
        "key x (a), constraint f foreign key (a) references p (i), constraint g foreign key (a) references P (i)",
        &[],
    ),
    (
        "key x (a), constraint f foreign key (a) references p (i), constraint g foreign key (a) references d.p (i)",
        &["fk:g<f"],
    ),
    (
        "key x (a), constraint f foreign key (a) references p (i) on delete cascade, constraint g foreign key (a) references p (i)",
        &["fk:g<f!"],
    ),
    (
        "key x (a), constraint f foreign key (a) references p (i) on delete restrict, constraint g foreign key (a) references p (i) on update no action",
        &["fk:g<f"],
    ),
    // A foreign key needs an index whose first parts are its columns, in the declared order.
    ("key x (a), key y (a, b), constraint f foreign key (a) references p (i)", &["x<<y"]),
    ("key x (s), key y (s(300)), constraint f foreign key (s) references p (i)", &["y<<x"]),
    ("primary key (b), key x (a, b), constraint f foreign key (a, b) references p (i, j)", &[]),
    ("primary key (b), key x (a, b), key y (a), constraint f foreign key (a, b) references p (i, j)", &["y<<x"]),
    // AUTO_INCREMENT needs one, too.
    ("key x (i), key y (i, a)", &["x<<y"]),
];

const COLUMNS: &str =
    "i int not null auto_increment, a int not null, ab int, b int not null, bb int, c int, n int null, s varchar(500), t text, \
     gen int as (a + b) stored, g point not null, v vector(3) not null, `key``s` int default 5";

#[test]
fn keys_that_repeat_others_are_found_and_no_others() {
    let mut wrong = Vec::new();
    for (keys, wanted) in CASES {
        let comma = if keys.is_empty() { "" } else { "," };
        let sql = format!(
            "use d; create table t ({COLUMNS}{comma} {keys}) engine=InnoDB comment='key x (a)';"
        );
        let mut wanted = wanted.to_vec();
        wanted.sort_unstable();
        let said = said(&sql);
        if said != wanted {
            wrong.push(format!("{keys}: {said:?}, not {wanted:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn engines_without_a_clustered_key_have_no_end_of_it() {
    for (engine, wanted) in [
        ("InnoDB", &["x~1"][..]),
        ("frond", &["x~1"]),
        ("RocksDB", &["x~1"]),
        ("MyISAM", &[]),
        ("Aria", &[]),
    ] {
        let sql = format!(
            "create table t (a int, b int, primary key (a), key x (b, a)) engine={engine};"
        );
        assert_eq!(said(&sql), wanted, "{engine}");
    }
}

#[test]
fn a_key_stays_that_numbers_rows_within_the_columns_before() {
    let said = |keys: &str| {
        said(&format!("create table t (a int, i int auto_increment, b int, {keys}) engine=MyISAM;"))
    };
    assert_eq!(said("key x (a, i), key y (a, i, b)"), ["x<<y"]);
    assert_eq!(said("key y (a), key x (a, i)"), ["y<<x"]);
    assert_eq!(said("key x (a, i), key y (a, i)"), ["y<x"]);
}

#[test]
fn a_shorter_key_keeps_its_comment() {
    let dump = read(
        "create table t (a int primary key, b int, key x (b, a) comment 'it''s') engine=innodb;",
    );
    let items =
        frond_indexes::report::duplicates(&dump.tables[0], &Parents::of(&dump.tables), dump.hiding);
    let now = "ALTER TABLE `t` DROP INDEX `x`, ADD INDEX `x` (`b`) COMMENT 'it''s';";
    assert_eq!(items[0].now.as_deref(), Some(now));
}

#[test]
fn a_thousand_keys_without_names_take_no_time() {
    let keys = ", key (a)".repeat(3_000);
    let begin = std::time::Instant::now();
    assert_eq!(read(&format!("create table t (a int{keys});")).tables[0].keys.len(), 128);
    assert!(begin.elapsed().as_secs() < 5);
}

#[test]
fn keys_in_memory_are_hashes_unless_they_say_btree() {
    let memory =
        |keys: &str| said(&format!("create table t (a int, b int, {keys}) engine=MEMORY;"));
    assert_eq!(memory("key x (a), key y (a, b)"), [""; 0]);
    assert_eq!(memory("key x (a, b), key y (b, a)"), ["y<x"]);
    assert_eq!(memory("key x (a) using btree, key y (a, b) using btree"), ["x<<y"]);
    assert_eq!(memory("key x (a) using btree, key y (a)"), [""; 0]);
}

#[test]
fn an_index_that_another_tables_foreign_key_needs_stays() {
    let parent =
        "create table p (a int, b int, id int, primary key (id), key x (a, id)) engine=innodb;";
    let child = "create table c (a int, b int, key (a, b), foreign key (a, b) references p (a, id)) engine=innodb;";
    assert_eq!(said(parent), ["x~1"]);
    assert_eq!(said(&format!("{parent}{child}")), [""; 0]);
    // A foreign key to a table of that name in another database needs nothing here.
    let elsewhere = child.replace("references p", "references o.p");
    assert_eq!(said(&format!("{parent}{elsewhere}")), ["x~1"]);
}

/// IX2: everything that is named may be dropped at once.
#[test]
fn what_stays_covers_all_that_goes() {
    let parts = ["a", "b", "c", "a desc", "s(10)", "s", "a, b", "b, a", "a, b, c", "c, a", "b, i"];
    let kinds = ["key", "unique"];
    let mut seed = 88172645463325252_u64;
    let mut random = |n: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % n as u64) as usize
    };
    let mut found = 0;
    for _ in 0..3000 {
        let keys: Vec<String> = (0..2 + random(6))
            .map(|n| {
                let hidden = if random(5) == 0 { " ignored" } else { "" };
                format!(", {} k{n} ({}){hidden}", kinds[random(2)], parts[random(parts.len())])
            })
            .collect();
        let foreign = if random(2) == 0 { ", foreign key (a, b) references q (i, j)" } else { "" };
        let sql = format!(
            "create table t ({COLUMNS}, primary key (i){}{foreign}) engine=innodb",
            keys.concat()
        );
        let table = create_table(sql.as_bytes(), "d").unwrap();
        let all = std::slice::from_ref(&table);
        let mut rest = table.clone();
        for finding in find(&table, &Parents::of(all)) {
            if let Finding::Key { key, .. } = &finding {
                rest.keys.retain(|k| k.name != *key);
                found += 1;
            }
        }
        // Any dropped key would be superfluous again beside the keys that stayed.
        for gone in table.keys.iter().filter(|key| rest.key(&key.name).is_none()) {
            let mut with = rest.clone();
            with.keys.push(gone.clone());
            let again = find(&with, &Parents::of(std::slice::from_ref(&with)));
            let named = |f: &Finding| matches!(f, Finding::Key { key, of, .. } if *key == gone.name && rest.key(of).is_some());
            assert!(again.iter().any(named), "{sql}: {} is lost", gone.name);
        }
        // And nothing more is to be found.
        let again = find(&rest, &Parents::of(std::slice::from_ref(&rest)));
        assert!(!again.iter().any(|f| matches!(f, Finding::Key { .. })), "{sql}: {again:?}");
    }
    assert!(found > 1000, "{found}");
}
