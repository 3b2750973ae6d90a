//! Which statements may be run, and how far SQL determines their results.
//!
//! Words decide, not a grammar. So a misleading word (a column called `nextval`) leaves out a statement that could be run, or
//! makes a real difference undetermined. Both cases are counted and shown.

use frond_event::{Event, Kind};
use frond_sqltext::{tokens, SqlMode, StatementKind, Token, TokenKind};

/// How a statement is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duty {
    /// It is run, and its answers are compared.
    Run,
    /// It sets up its session: it is run, and only errors are compared.
    Session,
    Skip(Skip),
}

/// Why a statement is not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Skip {
    Writes,
    MayWrite,
    AboutServer,
    Administration,
    NoValues,
    OtherDatabase,
    NotText,
    CharacterSet,
    Closes,
}

impl Skip {
    pub fn describe(self) -> &'static str {
        match self {
            Skip::Writes => "writes (--writes runs it)",
            Skip::MayWrite => {
                "may write: a routine, a lock, a prepared statement (--writes runs it)"
            }
            Skip::AboutServer => "about the server itself: SHOW, EXPLAIN, HELP",
            Skip::Administration => "administers the server, or changes more than its session",
            Skip::NoValues => "its values are not in the log, or it is cut there",
            Skip::OtherDatabase => "of another database",
            Skip::NotText => "its bytes are not UTF-8",
            Skip::CharacterSet => "sets a character set in which part of a letter may be a quote",
            Skip::Closes => "commands of the protocol that are no statements",
        }
    }
}

/// How an event is handled.
pub fn duty(event: &Event<'_>, writes: bool) -> Duty {
    match event.kind {
        Kind::Query | Kind::Execute => {}
        _ => return Duty::Skip(Skip::Closes),
    }
    if std::str::from_utf8(event.sql).is_err() {
        return Duty::Skip(Skip::NotText);
    }
    // The session's sql_mode is not known, and it decides where strings end: what any mode forbids is not run.
    let mut found = MODES.map(|(ansi_quotes, no_backslash_escapes)| {
        let mode = SqlMode { ansi_quotes, no_backslash_escapes };
        let (kind, words) = (StatementKind::of_in(event.sql, mode), Words::of_in(event.sql, mode));
        match kind {
            _ if event.kind == Kind::Execute && words.parameters => Duty::Skip(Skip::NoValues),
            StatementKind::Set if !keeps_quotes(event.sql, mode) => Duty::Skip(Skip::CharacterSet),
            _ => duty_of(kind, &words, writes),
        }
    });
    // Stable: of what is forbidden, the first mode's reason is told.
    found.sort_by_key(|duty| !matches!(duty, Duty::Skip(_)));
    found[0]
}

/// The ways to read a statement: ANSI_QUOTES, NO_BACKSLASH_ESCAPES.
const MODES: [(bool, bool); 4] = [(false, false), (true, false), (false, true), (true, true)];

fn duty_of(kind: StatementKind, words: &Words<'_>, writes: bool) -> Duty {
    use StatementKind::*;
    // The server's version decides whether an executable comment is read; and several statements are not one.
    let sets_it = |v: &&[u8]| bare(v).ends_with(b"read_only");
    let read_only_kept = !words.any("tx_read_only transaction_read_only write")
        && !words.variables.iter().any(sets_it);
    let modified = words.first_is(b"set") && kind != Set;
    match kind {
        Select if words.any("outfile dumpfile") => Duty::Skip(Skip::Administration),
        _ if words.several => Duty::Skip(Skip::MayWrite),
        Select if !writes && modified && !read_only_kept => Duty::Skip(Skip::MayWrite),
        Select if !writes && words.any("nextval setval get_lock next") => {
            // NEXT is a word of NEXT VALUE FOR, and of FETCH NEXT.
            if words.any("nextval setval get_lock") || words.any("value") {
                Duty::Skip(Skip::MayWrite)
            } else {
                Duty::Run
            }
        }
        Select => Duty::Run,
        Begin if writes || read_only_kept => Duty::Session,
        Commit | Rollback | Savepoint | Use => Duty::Session,
        Set if words.any("global persist persist_only")
            || words.variables.iter().any(|v| is_global(v)) =>
        {
            Duty::Skip(Skip::Administration)
        }
        Set if writes || read_only_kept && !words.any("select") => Duty::Session,
        Insert | Replace | Update | Delete | Load | Create | Alter | Drop | Truncate | Rename
            if !writes =>
        {
            Duty::Skip(Skip::Writes)
        }
        Load | Replication | Account | Maintenance => Duty::Skip(Skip::Administration),
        Insert | Replace | Update | Delete | Create | Alter | Drop | Truncate | Rename => Duty::Run,
        Do if words.first_is(b"values") => Duty::Run,
        Begin | Set | Do | Call | Xa | Lock | Unlock | Prepare | Execute | Deallocate => {
            if writes {
                Duty::Run
            } else {
                Duty::Skip(Skip::MayWrite)
            }
        }
        Show | Explain => Duty::Skip(Skip::AboutServer),
        Admin => Duty::Skip(Skip::Closes),
        _ => Duty::Skip(Skip::NoValues),
    }
}

/// Whether the server reads strings as this program does after a SET. In other character sets than these, the second byte of a
/// letter may be a backslash.
fn keeps_quotes(sql: &[u8], mode: SqlMode) -> bool {
    const SAFE: [&[u8]; 6] = [b"utf8", b"utf8mb3", b"utf8mb4", b"latin1", b"ascii", b"binary"];
    // The server's version decides whether an executable comment is read.
    let is_commented = sql.windows(2).any(|two| two == b"/*");
    let all: Vec<Vec<u8>> = tokens(sql, mode).map(|t| bare(&sql[t.start..t.end])).collect();
    (0..all.len()).all(|at| {
        let value = match all[at].as_slice() {
            b"names" | b"charset" => at + 1,
            name if name == b"character" || name.ends_with(b"character_set_client") => at + 2,
            _ => return true,
        };
        let is_whole = |next: &Vec<u8>| [&b","[..], b";", b"collate"].contains(&next.as_slice());
        !is_commented
            && all.get(value).is_some_and(|name| SAFE.contains(&name.as_slice()))
            && all.get(value + 1).is_none_or(is_whole)
    })
}

/// The dot may be a token of its own.
fn is_global(variable: &[u8]) -> bool {
    let bare = bare(variable);
    bare.starts_with(b"@@global") || bare.starts_with(b"@@persist")
}

/// A name in lower case without its quotes.
fn bare(name: &[u8]) -> Vec<u8> {
    let quotes = |b: &u8| matches!(b, b'`' | b'"' | b'\'');
    name.iter().filter(|b| !quotes(b)).map(u8::to_ascii_lowercase).collect()
}

/// True if the statement's result depends on the session's clock, which can be set.
pub fn reads_clock(sql: &[u8]) -> bool {
    Words::of(sql).any(
        "now current_timestamp curdate current_date curtime current_time localtime \
        localtimestamp unix_timestamp utc_timestamp utc_date utc_time",
    )
}

/// Why two right answers to a statement may have different rows; `None` if they may not.
pub fn undetermined(sql: &[u8], db: &[u8]) -> Option<&'static str> {
    let words = Words::of(sql);
    if words.calls_any("rand uuid uuid_short uuid_v4 uuid_v7 sys_guid random_bytes sysdate") {
        return Some("random values, or a clock that cannot be set");
    }
    if words.calls_any(
        "connection_id version user session_user system_user is_used_lock is_free_lock \
        release_lock load_file benchmark",
    ) || words.any("current_user current_role")
        || words.variables.iter().any(|v| v.starts_with(b"@@"))
    {
        return Some("says something of its connection or server");
    }
    const SYSTEM: &str = "information_schema performance_schema mysql sys";
    if words.any(SYSTEM) || is_of(db, SYSTEM) {
        return Some("reads the server's own tables");
    }
    if words.any("group_concat json_arrayagg json_objectagg over") {
        return Some("an aggregate or window whose order nothing may say");
    }
    if words.assigns {
        return Some("assigns variables row by row");
    }
    if words.inner_limit {
        return Some("LIMIT inside of the statement");
    }
    None
}

/// True if the result shows one of several texts that a collation calls equal.
pub fn chooses_among_equals(sql: &[u8]) -> bool {
    let words = Words::of(sql);
    words.any("distinct group union intersect except") || words.calls_any("max min")
}

/// True if it computes a sum of many values: of FLOAT and DOUBLE it depends on their order, without a bound if they cancel.
pub fn sums(sql: &[u8]) -> bool {
    Words::of(sql).calls_any("sum avg std stddev stddev_pop stddev_samp variance var_pop var_samp")
}

/// The statement without its own LIMIT; `None` if it has none.
pub fn without_limit(sql: &[u8]) -> Option<Vec<u8>> {
    let all: Vec<Token> = tokens(sql, SqlMode::default()).collect();
    let mut depth = 0usize;
    for (i, token) in all.iter().enumerate() {
        match token.kind {
            TokenKind::Open => depth += 1,
            TokenKind::Close => depth = depth.saturating_sub(1),
            TokenKind::Word if depth == 0 && is(sql, token, b"limit") => {
                // Numbers, commas, OFFSET and parameters belong to the LIMIT.
                let end = all[i + 1..].iter().find(|t| {
                    !matches!(t.kind, TokenKind::Number | TokenKind::Comma)
                        && !is(sql, t, b"offset")
                });
                let mut text = sql[..token.start].to_vec();
                text.extend(end.map_or(&b""[..], |t| &sql[t.start..]));
                return Some(text);
            }
            _ => {}
        }
    }
    None
}

/// The terms of the statement's own ORDER BY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// There is no ORDER BY.
    No,
    /// Names or positions (from 1) of columns.
    Columns(Vec<Term>),
    /// Expressions that the result need not show.
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Term {
    Name(Vec<u8>),
    /// Table and column.
    Field(Vec<u8>, Vec<u8>),
    Position(usize),
}

pub fn order(sql: &[u8]) -> Order {
    let all: Vec<Token> = tokens(sql, SqlMode::default()).collect();
    let mut depth = 0usize;
    let mut begin = None;
    for (i, token) in all.iter().enumerate() {
        match token.kind {
            TokenKind::Open => depth += 1,
            TokenKind::Close => depth = depth.saturating_sub(1),
            TokenKind::Word
                if depth == 0
                    && is(sql, token, b"order")
                    && all.get(i + 1).is_some_and(|t| is(sql, t, b"by")) =>
            {
                begin = Some(i + 2);
            }
            _ => {}
        }
    }
    let Some(begin) = begin else { return Order::No };
    let ends: [&[u8]; 7] = [b"limit", b"for", b"lock", b"into", b"procedure", b"offset", b"fetch"];
    let mut terms = Vec::new();
    let mut term: Vec<&Token> = Vec::new();
    let mut close = |term: &mut Vec<&Token>| {
        if term.last().is_some_and(|t| is(sql, t, b"asc") || is(sql, t, b"desc")) {
            term.pop();
        }
        let is_name = |t: &Token| matches!(t.kind, TokenKind::Word | TokenKind::Quoted);
        let name = |t: &Token| -> Vec<u8> {
            sql[t.start..t.end].iter().copied().filter(|b| *b != b'`').collect()
        };
        let found = match term.as_slice() {
            [one] if is_name(one) => Some(Term::Name(name(one))),
            [table, dot, field]
                if is_name(table) && dot.kind == TokenKind::Dot && is_name(field) =>
            {
                Some(Term::Field(name(table), name(field)))
            }
            [one] if one.kind == TokenKind::Number => {
                let digits = std::str::from_utf8(&sql[one.start..one.end]).ok();
                digits.and_then(|d| d.parse().ok()).map(Term::Position)
            }
            _ => None,
        };
        term.clear();
        found.map(|t| terms.push(t)).is_some()
    };
    for token in &all[begin..] {
        let ended = token.kind == TokenKind::Semicolon
            || token.kind == TokenKind::Word && ends.iter().any(|word| is(sql, token, word));
        if ended {
            break;
        }
        if token.kind == TokenKind::Comma {
            if !close(&mut term) {
                return Order::Other;
            }
        } else {
            term.push(token);
        }
    }
    if close(&mut term) {
        Order::Columns(terms)
    } else {
        Order::Other
    }
}

fn is(sql: &[u8], token: &Token, word: &[u8]) -> bool {
    token.kind == TokenKind::Word && sql[token.start..token.end].eq_ignore_ascii_case(word)
}

/// Whether `word` is one of `words`, which spaces separate.
fn is_of(word: &[u8], words: &str) -> bool {
    words.split(' ').any(|one| word.eq_ignore_ascii_case(one.as_bytes()))
}

/// The words of a statement, and the other facts about its tokens that matter.
#[derive(Default)]
struct Words<'a> {
    words: Vec<&'a [u8]>,
    /// Words that are followed by a parenthesis.
    calls: Vec<&'a [u8]>,
    variables: Vec<&'a [u8]>,
    assigns: bool,
    parameters: bool,
    inner_limit: bool,
    /// There is a token behind a semicolon.
    several: bool,
}

impl<'a> Words<'a> {
    fn of(sql: &'a [u8]) -> Words<'a> {
        Words::of_in(sql, SqlMode::default())
    }

    fn of_in(sql: &'a [u8], mode: SqlMode) -> Words<'a> {
        let mut found = Words::default();
        let (mut depth, mut semicolon, mut seen) = (0usize, false, false);
        let mut before = None;
        for token in tokens(sql, mode) {
            let text = &sql[token.start..token.end];
            found.several |= semicolon && token.kind != TokenKind::Semicolon;
            match token.kind {
                TokenKind::Word => {
                    found.inner_limit |= depth > 0 && text.eq_ignore_ascii_case(b"limit");
                    found.words.push(text);
                }
                TokenKind::Quoted => found.words.push(text.trim_ascii()),
                TokenKind::Variable => found.variables.push(text),
                TokenKind::Op => found.assigns |= text == b":=",
                TokenKind::Param => found.parameters = true,
                TokenKind::Open => {
                    depth += 1;
                    found.calls.extend(before);
                }
                TokenKind::Close => depth = depth.saturating_sub(1),
                // A semicolon before the first token ends an empty statement.
                TokenKind::Semicolon => semicolon |= seen,
                _ => {}
            }
            seen |= token.kind != TokenKind::Semicolon;
            before = (token.kind == TokenKind::Word).then_some(text);
        }
        found
    }

    fn calls_any(&self, wanted: &str) -> bool {
        self.calls.iter().any(|word| is_of(word, wanted))
    }

    fn any(&self, wanted: &str) -> bool {
        self.words.iter().any(|word| match word.first() {
            Some(b'`' | b'"') if word.len() > 1 => is_of(&word[1..word.len() - 1], wanted),
            _ => is_of(word, wanted),
        })
    }

    fn first_is(&self, word: &[u8]) -> bool {
        self.words.first().is_some_and(|first| first.eq_ignore_ascii_case(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sql: &str, writes: bool) -> Duty {
        duty(&Event { sql: sql.as_bytes(), ..Event::default() }, writes)
    }

    #[test]
    fn nothing_that_may_write_is_run_unless_it_was_asked_for() {
        use Skip::*;
        for (sql, read_only, writing) in [
            ("select 1", Duty::Run, Duty::Run),
            ("(select 1) union select 2;", Duty::Run, Duty::Run),
            ("with x as (select 1) select * from x", Duty::Run, Duty::Run),
            ("values (1)", Duty::Run, Duty::Run),
            ("insert into t values (1)", Duty::Skip(Writes), Duty::Run),
            ("with x as (select 1) delete from t", Duty::Skip(Writes), Duty::Run),
            (
                "select 1 into outfile '/tmp/x'",
                Duty::Skip(Administration),
                Duty::Skip(Administration),
            ),
            ("select nextval(s)", Duty::Skip(MayWrite), Duty::Run),
            ("select next value for s", Duty::Skip(MayWrite), Duty::Run),
            ("select `next` from t", Duty::Run, Duty::Run),
            ("select 1; drop table t", Duty::Skip(MayWrite), Duty::Skip(MayWrite)),
            ("set statement tx_read_only = 0 for select f()", Duty::Skip(MayWrite), Duty::Run),
            ("set @a = 1, sql_mode = ''", Duty::Session, Duty::Session),
            (
                "set global max_connections = 1",
                Duty::Skip(Administration),
                Duty::Skip(Administration),
            ),
            (
                "set @@global.max_connections = 1",
                Duty::Skip(Administration),
                Duty::Skip(Administration),
            ),
            ("set session transaction read write", Duty::Skip(MayWrite), Duty::Session),
            ("set @@session.tx_read_only = 0", Duty::Skip(MayWrite), Duty::Session),
            ("set transaction_read_only = 0", Duty::Skip(MayWrite), Duty::Session),
            ("set @a = (select f())", Duty::Skip(MayWrite), Duty::Session),
            ("set @@`tx_read_only` = 0", Duty::Skip(MayWrite), Duty::Session),
            ("set \"tx_read_only\" = 0", Duty::Skip(MayWrite), Duty::Session),
            (
                "set @@global .max_connections = 1",
                Duty::Skip(Administration),
                Duty::Skip(Administration),
            ),
            // Two statements under NO_BACKSLASH_ESCAPES, and under ANSI_QUOTES.
            ("select '\\'; drop table t; -- '", Duty::Skip(MayWrite), Duty::Skip(MayWrite)),
            (
                "select 1 as \"a\\\"; drop table t; -- \"",
                Duty::Skip(MayWrite),
                Duty::Skip(MayWrite),
            ),
            (
                "set statement sql_mode = '\\' for delete from t -- ' for select 1",
                Duty::Skip(Writes),
                Duty::Run,
            ),
            ("select 'it\\'s', \"it's\"", Duty::Run, Duty::Run),
            (
                "set names 'utf8mb4' collate 'utf8mb4_bin', sql_mode = 'A,B'",
                Duty::Session,
                Duty::Session,
            ),
            ("set @@character_set_client = latin1;", Duty::Session, Duty::Session),
            ("start transaction read write", Duty::Skip(MayWrite), Duty::Session),
            ("begin", Duty::Session, Duty::Session),
            ("call p()", Duty::Skip(MayWrite), Duty::Run),
            ("do get_lock('a', 1)", Duty::Skip(MayWrite), Duty::Run),
            ("show tables", Duty::Skip(AboutServer), Duty::Skip(AboutServer)),
            ("kill 5", Duty::Skip(Administration), Duty::Skip(Administration)),
            ("shutdown", Duty::Skip(Administration), Duty::Skip(Administration)),
            (
                "change master to master_host = 'x'",
                Duty::Skip(Administration),
                Duty::Skip(Administration),
            ),
            ("administrator command: Ping", Duty::Skip(Closes), Duty::Skip(Closes)),
            ("", Duty::Skip(NoValues), Duty::Skip(NoValues)),
        ] {
            assert_eq!(of(sql, false), read_only, "{sql}");
            assert_eq!(of(sql, true), writing, "{sql}");
        }
        // In gbk the last byte of the euro sign and the backslash are one letter, so this would be several statements.
        let hidden = "select '\u{20ac}\\', '\\'' '\u{20ac}\\'; drop table t; -- '";
        assert_eq!(of(hidden, false), Duty::Run);
        for sql in [
            "set names gbk",
            "SET CHARACTER SET 'sjis'",
            "set charset big5",
            "set names 'gb\\k'",
            "set names utf8, @@session.character_set_client = gb18030",
            "set `character_set_client` = 'binary' + 28",
            "set character_set_client = @a",
            "set names default",
            "/*!40101 set names gbk */",
            "set character_set_client = 'binary' /*!990000 , @a = */ + 28",
        ] {
            assert_eq!(of(sql, false), Duty::Skip(CharacterSet), "{sql}");
        }
    }

    #[test]
    fn a_limit_of_the_statement_itself_is_taken_away() {
        for (sql, without) in [
            ("select a from t limit 5", Some("select a from t ")),
            ("select a from t limit 5, 10 for update", Some("select a from t for update")),
            ("select a from t limit 5 offset 10", Some("select a from t ")),
            ("select a from (select a from t limit 1) x", None),
            ("select 'limit 5'", None),
        ] {
            let found = without_limit(sql.as_bytes());
            assert_eq!(found.as_deref(), without.map(str::as_bytes), "{sql}");
        }
    }

    #[test]
    fn what_an_order_is_by_is_found_where_the_result_can_show_it() {
        let name = |text: &str| Term::Name(text.as_bytes().to_vec());
        for (sql, wanted) in [
            ("select a from t", Order::No),
            ("select a from t order by a", Order::Columns(vec![name("a")])),
            (
                "select a from t order by x.`b` desc, 2 asc limit 5",
                Order::Columns(vec![Term::Field(b"x".to_vec(), b"b".to_vec()), Term::Position(2)]),
            ),
            ("select a from t order by a div b", Order::Other),
            ("select a from t order by not a", Order::Other),
            ("select a from t order by d.t.a", Order::Other),
            ("select a from t order by a + 1", Order::Other),
            ("select a from t order by f(a)", Order::Other),
            ("select (select b from u order by b) from t", Order::No),
        ] {
            assert_eq!(order(sql.as_bytes()), wanted, "{sql}");
        }
    }

    #[test]
    fn results_that_sql_does_not_determine_are_known() {
        for sql in [
            "select rand()",
            "select @@hostname",
            "select * from `information_schema`.tables",
            "select group_concat(a) from t",
            "select @a := @a + 1 from t",
            "select * from (select a from t limit 1) x",
        ] {
            assert!(undetermined(sql.as_bytes(), b"").is_some(), "{sql}");
        }
        assert!(undetermined(b"select a from t where b = 5 order by a limit 4", b"shop").is_none());
        assert!(undetermined(b"select 1 from user_log", b"mysql").is_some());
        assert!(reads_clock(b"select NOW()") && !reads_clock(b"select 'now'"));
    }
}
