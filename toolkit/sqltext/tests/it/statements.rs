//! Statements to test with: real ones from a corpus, if it is there, and made ones.
//!
//! The corpus is `../shared/corpus/percona-toolkit` beside the checkout, or the directory that
//! `FROND_QUERYLOG_CORPUS` names. It is not part of the project; tests without it say so and continue with
//! made statements.

use std::path::{Path, PathBuf};

/// A small generator of random numbers; the same seed gives the same statements.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % n
    }

    pub fn pick<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len())]
    }
}

/// Pieces that meet in unusual ways.
const PIECES: &[&[u8]] = &[
    b"case ",
    b" when ",
    b" then ",
    b" else ",
    b" end",
    b"select",
    b"SELECT ",
    b"from ",
    b"t1",
    b"`db`.`t2`",
    b"db2.tbl",
    b" where ",
    b"a=1",
    b"'abc'",
    b"'a''b'",
    b"'it\\'s'",
    b"\"dq\"",
    b"\"a'b\"",
    b"'a\"b'",
    b"\\",
    b"\\'",
    b"\\\"",
    b"\\\\",
    b"'",
    b"\"",
    b"-- c\n",
    b"--x",
    b"#c\n",
    b"# c",
    b"#c\r\n",
    b"/* c */",
    b"/**/",
    b"/*! x */",
    b"/*",
    b"*/",
    b"true",
    b"TRUE",
    b"false",
    b" null ",
    b"NULL",
    b"null",
    b"nullx",
    b"nullb",
    b"in",
    b"IN ",
    b"in (",
    b"(1,2,3)",
    b"( 1 , 2 )",
    b"(",
    b")",
    b",",
    b", ",
    b"values",
    b" VALUES ",
    b"value",
    b"('a','b')",
    b"?",
    b"(?, ?)",
    b"1",
    b"-5",
    b"+3",
    b"0x1F",
    b"0xab",
    b"x",
    b"b",
    b".",
    b"X",
    b"B",
    b"x'ab'",
    b"b'01'",
    b"1.5e10",
    b".5",
    b"1.",
    b"1e-5",
    b" ",
    b"  ",
    b"\n",
    b"\t",
    b"\r",
    b"\r\n",
    b"\x0b",
    b"\x0c",
    b"\x00",
    b"\xe9",
    b"\xc3\xa9",
    b" union ",
    b" UNION ALL ",
    b"select 1",
    b"select a from t",
    b" union select a from t",
    b" union all select a from t",
    b"limit 5",
    b"limit 5, 10",
    b"limit 5 offset 3",
    b"LIMIT 5,10",
    b" order by ",
    b"ORDER BY a ASC",
    b" asc",
    b" ASC, ",
    b" desc",
    b"ascii",
    b"abc",
    b"foo_1",
    b"1foo",
    b"ab12cd",
    b"_",
    b"$",
    b"@",
    b"@@x",
    b"=",
    b"<",
    b">=",
    b"*",
    b"/",
    b";",
    b"insert into t ",
    b"INSERT IGNORE INTO t",
    b"replace into t(a,b)",
    b" values (1,2),(3,4)",
    b" on duplicate key update a=1",
    b"call ",
    b"use db",
    b"administrator command: Ping",
    b"/*a.b:1/2*/",
    b"SELECT /*!40001 SQL_NO_CACHE */ * FROM `",
    b"between 1 and 2",
    b"\xa0",
    b"a-5",
    b"foo--bar",
    b"foo_false",
    b"1false",
    b".false",
    b".true",
    b"-true",
    b"x?",
    b"b?",
    b"..?",
    b"inx1",
    b"in.5",
    b"nullx5",
    b"limit",
    b"order",
    b"by ",
    b"union",
    b"all",
];

/// A statement, or something like one.
pub fn made(random: &mut Random) -> Vec<u8> {
    let pieces = |random: &mut Random| {
        let mut sql = Vec::new();
        for _ in 0..1 + random.below(14) {
            sql.extend_from_slice(random.pick(PIECES));
            if random.below(3) == 0 {
                sql.push(b' ');
            }
        }
        sql
    };
    let tail = pieces(random);
    let arms: &[&[u8]] = &[b"select a", b"select ", b"select 1 from t where id=5"];
    let unions: &[&[u8]] = &[b" union ", b" union all ", b"\nUNION ALL\n"];
    let mut sql = match random.below(10) {
        0 => [b"insert into t".as_slice(), random.pick(&[b"values".as_slice(), b" VALUES "])]
            .concat(),
        1 => b"INSERT IGNORE INTO db.t (a,b) values ".to_vec(),
        2 => b"select a from t where x in ".to_vec(),
        3 => random.pick(&[b"call ".as_slice(), b" CALL  foo", b"use ", b"USE "]).to_vec(),
        4 => {
            let arm = random.pick(arms);
            let mut sql = [tail.as_slice(), b" ", arm].concat();
            for _ in 0..1 + random.below(3) {
                sql.extend_from_slice(random.pick(unions));
                sql.extend_from_slice(random.pick(&[arm, arm, &tail]));
            }
            return sql;
        }
        _ => Vec::new(),
    };
    sql.extend_from_slice(&tail);
    sql
}

/// Significant bytes in any order.
pub fn text(random: &mut Random) -> Vec<u8> {
    let alphabet: &[u8] = match random.below(5) {
        0 => b"'\"`\\-#/*!() ,;.?@:=x1aN\n",
        1 => b"selctunioav (),.;'1?\n",
        2 => b"0123456789abcdefxXBE.+-_ ?'g",
        3 => b"intruefalsvuNULL (),?1\t\x0b'",
        _ => b" \t\n\r\x0b\x0c\x00\x85\xa0a1'-",
    };
    (0..random.below(60)).map(|_| alphabet[random.below(alphabet.len())]).collect()
}

const NAMES: &[&str] = &[
    "a",
    "b1",
    "t_2",
    "`c`",
    "`d e`",
    "db.t",
    "`db1`.`t2`",
    "Users",
    "x9y",
    "`select`",
    "order_items",
];
const VALUES: &[&str] = &[
    "1",
    "-5",
    "0x1f",
    "1.5e3",
    "'x'",
    "'it''s'",
    "'from z'",
    "\"update q\"",
    "null",
    "true",
    "?",
    "now()",
    "(select max(a) from m1)",
    "b + 1",
    "'a\\'b'",
];

/// A list whose elements `one` makes.
fn several(random: &mut Random, between: &str, one: impl Fn(&mut Random) -> String) -> String {
    let parts: Vec<_> = (0..1 + random.below(3)).map(|_| one(random)).collect();
    parts.join(between)
}

/// A statement as people and programs write them.
pub fn ordinary(random: &mut Random) -> Vec<u8> {
    let name = |random: &mut Random| random.pick(NAMES).to_string();
    let value = |random: &mut Random| random.pick(VALUES).to_string();
    let from = |random: &mut Random| {
        let aliases = ["", "", " x", " as y", "  AS  z"];
        let between = [", ", ",", " join ", " left join ", "\n  INNER JOIN ", ",\n"];
        let between = random.pick(&between);
        several(random, between, |r| format!("{}{}", r.pick(NAMES), r.pick(&aliases)))
    };
    let values = |random: &mut Random| {
        several(random, ", ", |r| format!("({})", several(r, ", ", |r| r.pick(VALUES).to_string())))
    };
    let condition = |random: &mut Random| match random.below(4) {
        0 => String::new(),
        1 => format!(" where a = {}", value(random)),
        2 => format!(" WHERE a IN ({}) and b > {}", several(random, ",", value), value(random)),
        _ => format!("\nwhere c like {} order by a asc, b desc limit 5, 10", value(random)),
    };
    let select = |random: &mut Random| {
        format!("select {} from {}{}", value(random), from(random), condition(random))
    };
    let mut sql = match random.below(16) {
        0..=3 => select(random),
        4 => format!("{} union {}", select(random), select(random)),
        5 => format!("insert into {} (a, b) values {}", name(random), values(random)),
        6 => format!(
            "INSERT IGNORE INTO {} VALUES {} on duplicate key update a = {}",
            name(random),
            values(random),
            value(random)
        ),
        7 => format!("insert into {} {}", name(random), select(random)),
        8 => format!("replace {} values {}", name(random), values(random)),
        9 => format!("update {} set a = {}{}", from(random), value(random), condition(random)),
        10 => format!("delete from {}{}", name(random), condition(random)),
        11 => {
            let verb = random.pick(&["create", "drop", "ALTER", "truncate", "rename"]);
            let kind =
                random.pick(&["table", "TABLE", "temporary table", "database", "view", "index"]);
            let exists = random.pick(&["", "", "if exists ", "if not exists "]);
            format!("{verb} {kind} {exists}{} {}", name(random), condition(random))
        }
        12 => format!("create table {} as {}", name(random), select(random)),
        13 => {
            let what =
                ["tables", "full columns", "keys", "global status", "create table", "warnings"];
            format!("show {} from {}{}", random.pick(&what), name(random), condition(random))
        }
        14 => format!("lock tables {} read, {} write", name(random), name(random)),
        _ => {
            let odd = [
                "begin",
                "commit",
                "set names utf8",
                "use db",
                "call p(1)",
                "xa end 'x'",
                "rollback",
                "administrator command: Ping",
                "unlock tables",
                "flush tables",
                "explain t",
                "kill 5",
                "load data infile 'x' into table a.b1",
                "start transaction",
                "do sleep(1)",
            ];
            random.pick(&odd).to_string()
        }
    };
    match random.below(8) {
        0 => sql.insert_str(0, "/* hint */ "),
        1 => sql.push_str(" -- from the shop"),
        2 => sql.push(';'),
        3 => sql = sql.replace(' ', "  "),
        4 => sql = sql.to_uppercase(),
        _ => {}
    }
    sql.into_bytes()
}

/// `sql` with a few random changes.
pub fn mutated(sql: &[u8], random: &mut Random) -> Vec<u8> {
    let mut sql = sql[..sql.len().min(4000)].to_vec();
    for _ in 0..1 + random.below(5) {
        let at = random.below(sql.len() + 1);
        match random.below(20) {
            0..=5 if at < sql.len() => {
                let end = (at + 1 + random.below(4)).min(sql.len());
                sql.drain(at..end);
            }
            6..=13 => {
                let piece = random.pick(PIECES);
                sql.splice(at..at, piece.iter().copied());
            }
            14..=16 if at < sql.len() => sql[at] = random.below(256) as u8,
            _ => sql.truncate(at),
        }
    }
    sql
}

/// The directory of the corpus, if it exists.
pub fn corpus_directory() -> Option<PathBuf> {
    let path = match std::env::var_os("FROND_QUERYLOG_CORPUS") {
        Some(path) => PathBuf::from(path),
        None => {
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus/percona-toolkit")
        }
    };
    path.is_dir().then_some(path)
}

/// The statements of the corpus' text logs: the text between header lines, whole and in parts.
/// Without a corpus, empty, with a remark.
pub fn corpus() -> Vec<Vec<u8>> {
    let Some(directory) = corpus_directory() else {
        eprintln!("skipped: no corpus");
        return Vec::new();
    };
    let mut found = Vec::new();
    for kind in ["slowlogs", "genlogs", "rawlogs"] {
        let Ok(entries) = std::fs::read_dir(directory.join(kind)) else { continue };
        let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths.iter().filter(|path| path.extension().is_none_or(|e| e != "gz")) {
            let text = std::fs::read(path).unwrap();
            let mut statement = Vec::new();
            for line in text.split(|b| *b == b'\n') {
                let header = line.starts_with(b"# ") && !line.starts_with(b"# administrator");
                if header && !statement.is_empty() {
                    split(&statement, &mut found);
                    statement.clear();
                }
                if !header {
                    if !statement.is_empty() {
                        statement.push(b'\n');
                    }
                    statement.extend_from_slice(line.strip_prefix(b"# ").unwrap_or(line));
                }
                if kind != "slowlogs" {
                    let mut fields = line.split(|b| *b == b'\t');
                    found.extend(fields.next_back().map(|field| field.to_vec()));
                }
            }
            split(&statement, &mut found);
        }
    }
    assert!(found.len() > 1000, "the corpus has {} statements only", found.len());
    found
}

/// The text as one statement and each of its parts.
fn split(text: &[u8], found: &mut Vec<Vec<u8>>) {
    found.push(text.to_vec());
    let mut rest = text;
    while let Some(end) = rest.windows(2).position(|w| w == b";\n") {
        found.push(rest[..end].to_vec());
        rest = &rest[end + 2..];
    }
    found.push(rest.to_vec());
}
