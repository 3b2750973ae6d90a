//! The tables that a statement names, from its tokens.
//!
//! A table's name follows one of a few words (FROM, JOIN, INTO, UPDATE, TABLE, ...), and commas
//! lead from one to the next where the grammar has lists. That is enough to be right on all common
//! statements, truncated ones included, without a parser.
//!
//! Invariants
//!
//! - TN1. Names that the statement defines (`WITH name AS`) are left out wherever they occur later.
//! - TN2. The name behind a word that only looks like one of those (`EXTRACT(YEAR FROM d)`,
//!   `TRIM(LEADING 'x' FROM s)`, `SUBSTRING(s FROM 2)`, `FOR UPDATE`, `ON DUPLICATE KEY UPDATE`)
//!   is not a table.
//! - TN3. At most `NAMES` different names are found, and the text is read ahead at most `LOOKS`
//!   times: hostile text must not cost quadratic time.

use super::keywords::{traits, Traits};
use super::lexer::{Kind, Lexer, Token};
use super::{Folded, SqlMode};

/// A table that a statement names; both parts as written, without their quotes. `db` is empty if the
/// statement does not name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableRef<'a> {
    pub db: &'a [u8],
    pub table: &'a [u8],
}

/// More than the 61 tables a join can have.
const NAMES: usize = 128;
/// The most WITH clauses whose definitions are searched for; each search may read to the end of the
/// statement.
const LOOKS: u32 = 16;

/// What the next token can be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expect {
    /// A table's name.
    Table { list: bool },
    /// What may follow a name: an alias, a comma, the next clause.
    After { list: bool },
    /// Neither.
    Nothing,
}

struct Scanner<'a, 'o> {
    sql: &'a [u8],
    lexer: Lexer<'a>,
    out: &'o mut Vec<TableRef<'a>>,
    /// Names defined by WITH; few, and searched linearly.
    defined: [&'a [u8]; 16],
    defined_count: usize,
    looks: u32,
}

/// Appends to the empty `out` the tables of `sql`.
pub(super) fn tables<'a>(sql: &'a [u8], mode: SqlMode, out: &mut Vec<TableRef<'a>>) {
    let lexer = Lexer::new(sql, mode);
    Scanner { sql, lexer, out, defined: [b""; 16], defined_count: 0, looks: 0 }.run();
}

impl<'a> Scanner<'a, '_> {
    fn run(&mut self) {
        let mut expect = Expect::Nothing;
        let mut before = Folded::of(b"");
        let mut first = Folded::of(b"");
        // A bit for each open parenthesis, the innermost lowest: whether a FROM list is around it.
        let mut outer: u128 = 0;
        // A bit for each open parenthesis: whether it belongs to a function whose FROM names no
        // table.
        let mut function: u128 = 0;
        while let Some(token) = self.lexer.next() {
            if self.out.len() >= NAMES {
                return;
            }
            match token.kind {
                Kind::Word => {
                    let text = &self.sql[token.start..token.end];
                    let known = traits(text);
                    if !known.is_keyword() && expect == Expect::Nothing {
                        before = Folded::of(text);
                        continue;
                    }
                    let word = Folded::of(text);
                    if first.as_bytes().is_empty() {
                        first = Folded::of(text);
                    }
                    expect =
                        self.word(token, known, &word, &before, &first, expect, function & 1 == 1);
                    before = word;
                }
                Kind::Quoted => {
                    if let Expect::Table { list } = expect {
                        self.name(token);
                        expect = Expect::After { list };
                    }
                    before = Folded::of(b"");
                }
                Kind::Comma => {
                    expect = match expect {
                        Expect::After { list: true } => Expect::Table { list: true },
                        _ => Expect::Nothing,
                    };
                    before = Folded::of(b",");
                }
                Kind::Open => {
                    let in_list = matches!(expect, Expect::Table { .. });
                    outer = outer << 1 | u128::from(in_list);
                    let special = matches!(
                        before.as_bytes(),
                        b"extract" | b"trim" | b"substring" | b"substr" | b"mid" | b"position"
                    );
                    function = function << 1 | u128::from(special);
                    // `from (a join b)`, `from (select ...)`
                    expect = if in_list { Expect::Table { list: true } } else { Expect::Nothing };
                    before = Folded::of(b"(");
                }
                Kind::Close => {
                    expect =
                        if outer & 1 == 1 { Expect::After { list: true } } else { Expect::Nothing };
                    outer >>= 1;
                    function >>= 1;
                    before = Folded::of(b")");
                }
                Kind::Semicolon => {
                    expect = Expect::Nothing;
                    first = Folded::of(b"");
                    before = Folded::of(b"");
                }
                _ => {
                    if matches!(expect, Expect::Table { .. }) {
                        expect = Expect::Nothing;
                    }
                    before = Folded::of(b"");
                }
            }
        }
    }

    /// An unquoted word: a name, an alias, or a word that determines what comes next.
    #[allow(clippy::too_many_arguments)]
    fn word(
        &mut self,
        token: Token,
        known: Traits,
        word: &Folded,
        before: &Folded,
        first: &Folded,
        expect: Expect,
        in_function: bool,
    ) -> Expect {
        let ddl = matches!(
            first.as_bytes(),
            b"create"
                | b"alter"
                | b"drop"
                | b"truncate"
                | b"rename"
                | b"lock"
                | b"analyze"
                | b"optimize"
                | b"check"
                | b"repair"
                | b"checksum"
                | b"flush"
                | b"show"
        );
        match word.as_bytes() {
            b"from" if !in_function => {
                return if matches!(before.as_bytes(), b"distinct" | b"is") && !ddl {
                    Expect::Nothing
                } else {
                    Expect::Table { list: true }
                };
            }
            b"join" | b"straight_join" => return Expect::Table { list: false },
            b"into" => {
                return match expect {
                    Expect::Table { list } => Expect::Table { list },
                    _ => Expect::Table { list: false },
                };
            }
            // INSERT t, REPLACE t: INTO may be missing.
            b"insert" | b"replace" if before.as_bytes().is_empty() && token.start == 0 => {
                return Expect::Table { list: false };
            }
            b"update" => {
                return match before.as_bytes() {
                    b"for" | b"key" | b"on" | b"," | b"before" | b"after" => Expect::Nothing,
                    _ => Expect::Table { list: true },
                };
            }
            b"table" | b"tables" if ddl => return Expect::Table { list: true },
            b"table" => return Expect::Table { list: false },
            b"view" | b"sequence" if ddl => return Expect::Table { list: false },
            b"references" => return Expect::Table { list: false },
            b"truncate" if before.as_bytes().is_empty() => return Expect::Table { list: false },
            b"describe" | b"desc" | b"explain" if before.as_bytes().is_empty() => {
                return Expect::Table { list: false };
            }
            b"using" if first.as_bytes() == b"delete" => return Expect::Table { list: true },
            b"to" if first.as_bytes() == b"rename" => return Expect::Table { list: true },
            b"on" if first.as_bytes() == b"create" && matches!(expect, Expect::Nothing) => {
                // CREATE INDEX i ON t; but not ON DELETE of a foreign key, nor the condition of a
                // join.
                return if self.out.is_empty() { Expect::Table { list: false } } else { expect };
            }
            b"with" | b"recursive" => {
                self.define();
                return Expect::Nothing;
            }
            b"as" if matches!(expect, Expect::After { .. }) => return expect,
            _ => {}
        }
        match expect {
            Expect::Table { list } => {
                // Modifiers before a name, and words which mean that there is no name.
                match word.as_bytes() {
                    b"low_priority" | b"high_priority" | b"delayed" | b"ignore" | b"quick"
                    | b"if" | b"not" | b"exists" | b"only" | b"lateral" | b"local" | b"table" => {
                        expect
                    }
                    b"outfile" | b"dumpfile" => Expect::Nothing,
                    b"dual" => Expect::After { list },
                    _ if known.has(Traits::RESERVED) => Expect::Nothing,
                    _ => {
                        self.name(token);
                        Expect::After { list }
                    }
                }
            }
            // An alias, or the next clause.
            Expect::After { list } if !known.has(Traits::RESERVED) => {
                let _ = list;
                expect
            }
            Expect::After { list: true }
                if matches!(
                    word.as_bytes(),
                    b"left"
                        | b"right"
                        | b"inner"
                        | b"cross"
                        | b"natural"
                        | b"outer"
                        | b"read"
                        | b"write"
                        | b"low_priority"
                ) =>
            {
                expect
            }
            _ => Expect::Nothing,
        }
    }

    /// Takes the name that begins with `token`, with its database if it has one.
    fn name(&mut self, token: Token) {
        let mut db: &[u8] = b"";
        let mut table = self.unquoted(token);
        let mut ahead = self.lexer.clone();
        if ahead.next().is_some_and(|t| t.kind == Kind::Dot) {
            let next = ahead.clone().next();
            match next {
                Some(next) if matches!(next.kind, Kind::Word | Kind::Quoted) => {
                    ahead.next();
                    db = table;
                    table = self.unquoted(next);
                    self.lexer = ahead;
                }
                // `DELETE t.* FROM`, or cut off
                _ => {}
            }
        } else if self.lexer.clone().next().is_some_and(|t| t.kind == Kind::Open)
            && token.kind == Kind::Word
            && self.sql[token.start..token.end].eq_ignore_ascii_case(b"json_table")
        {
            return;
        }
        let defined = db.is_empty()
            && self.defined[..self.defined_count].iter().any(|d| d.eq_ignore_ascii_case(table));
        let found = TableRef { db, table };
        if !defined && !table.is_empty() && !self.out.contains(&found) {
            self.out.push(found);
        }
    }

    fn unquoted(&self, token: Token) -> &'a [u8] {
        let text = &self.sql[token.start..token.end];
        if token.kind == Kind::Quoted && text.len() > 1 {
            &text[1..text.len() - usize::from(text.ends_with(&text[..1]))]
        } else if token.kind == Kind::Quoted {
            b""
        } else {
            text
        }
    }

    /// After WITH: finds the names that it defines, by a separate look-ahead.
    fn define(&mut self) {
        self.looks += 1;
        if self.looks > LOOKS {
            return;
        }
        let mut ahead = self.lexer.clone();
        let mut depth = 0u32;
        let mut expect_name = true;
        while let Some(token) = ahead.next() {
            match token.kind {
                Kind::Open => depth += 1,
                Kind::Close => depth = depth.saturating_sub(1),
                Kind::Comma if depth == 0 => expect_name = true,
                Kind::Word | Kind::Quoted if depth == 0 && expect_name => {
                    if self.sql[token.start..token.end].eq_ignore_ascii_case(b"recursive") {
                        continue;
                    }
                    let name = self.unquoted(token);
                    if let Some(slot) = self.defined.get_mut(self.defined_count) {
                        *slot = name;
                        self.defined_count += 1;
                    }
                    expect_name = false;
                }
                Kind::Word if depth == 0 => {
                    let word = Folded::of(&self.sql[token.start..token.end]);
                    if !matches!(word.as_bytes(), b"as" | b"cycle" | b"restrict") {
                        return;
                    }
                }
                Kind::Semicolon => return,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sql: &str) -> String {
        let mut out = Vec::new();
        tables(sql.as_bytes(), SqlMode::default(), &mut out);
        let names: Vec<_> = out
            .iter()
            .map(|t| {
                let table = String::from_utf8_lossy(t.table);
                match t.db {
                    b"" => table.into_owned(),
                    db => format!("{}.{table}", String::from_utf8_lossy(db)),
                }
            })
            .collect();
        names.join(" ")
    }

    #[test]
    fn every_place_of_a_table_is_known() {
        for (sql, expected) in [
            ("select 1", ""),
            ("select * from a", "a"),
            ("select * from `a b`.`c` as x, d y, e where f in (select g from h)", "a b.c d e h"),
            (
                "select * from a left join b on a.x = b.x inner join (c, d) on 1 join e using (z)",
                "a b c d e",
            ),
            ("select * from (select x from a) t, b", "a b"),
            ("select extract(year from d), trim(leading 'x' from s) from a", "a"),
            ("select a from t for update", "t"),
            ("insert into t (a, b) values (1, 2) on duplicate key update a = 1", "t"),
            ("INSERT IGNORE t VALUES (1)", "t"),
            ("insert into a select * from b", "a b"),
            ("replace into a.b set c = 1", "a.b"),
            ("update a, b set a.x = b.x where a.y = 1", "a b"),
            ("update low_priority ignore t set x = 1", "t"),
            ("delete from t where x", "t"),
            ("delete a, b from a join b on x join c", "a b c"),
            ("delete from a using a join b", "a b"),
            ("with x as (select * from a), y as (select * from x) select * from x, y, b", "a b"),
            (
                "with recursive n (i) as (select 1 union all select i + 1 from n) select * from n",
                "",
            ),
            ("create table if not exists a.b (c int references d (e))", "a.b d"),
            ("create index i on t (a)", "t"),
            ("drop table a, b", "a b"),
            ("alter table t add column c int", "t"),
            ("truncate table t", "t"),
            ("truncate t", "t"),
            ("lock tables a read, b write", "a b"),
            ("rename table a to b, c to d", "a b c d"),
            ("load data infile 'x' into table t", "t"),
            ("select a into outfile 'x' from t", "t"),
            ("select 1 from dual", ""),
            ("select a is distinct from b from t", "t"),
            ("select * from t partition (p0) as x, u", "t"),
            ("explain t", "t"),
            ("select a union select b from c", "c"),
        ] {
            assert_eq!(of(sql), expected, "{sql}");
        }
    }
}
