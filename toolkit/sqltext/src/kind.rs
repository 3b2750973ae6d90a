//! The kind of a statement, in one word.

use super::lexer::{Kind, Lexer};
use super::{Folded, SqlMode};

/// The verb of a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum StatementKind {
    Select,
    Insert,
    Replace,
    Update,
    Delete,
    /// LOAD DATA, LOAD XML
    Load,
    Call,
    /// DO, HANDLER, VALUES, and other statements that read or compute
    Do,
    Begin,
    Commit,
    Rollback,
    Savepoint,
    Xa,
    Set,
    Show,
    Use,
    Explain,
    Prepare,
    Execute,
    Deallocate,
    Create,
    Alter,
    Drop,
    Truncate,
    Rename,
    Lock,
    Unlock,
    /// GRANT, REVOKE and other statements about accounts
    Account,
    /// ANALYZE TABLE, OPTIMIZE, CHECK, REPAIR, CHECKSUM, FLUSH, KILL, PURGE, ...
    Maintenance,
    /// `administrator command: ...`
    Admin,
    /// CHANGE MASTER, START SLAVE, BINLOG, ...
    Replication,
    /// a procedural statement, an empty one, or not SQL
    #[default]
    Other,
}

impl StatementKind {
    /// Every kind, in the order of the enum.
    pub const ALL: [StatementKind; 32] = [
        StatementKind::Select,
        StatementKind::Insert,
        StatementKind::Replace,
        StatementKind::Update,
        StatementKind::Delete,
        StatementKind::Load,
        StatementKind::Call,
        StatementKind::Do,
        StatementKind::Begin,
        StatementKind::Commit,
        StatementKind::Rollback,
        StatementKind::Savepoint,
        StatementKind::Xa,
        StatementKind::Set,
        StatementKind::Show,
        StatementKind::Use,
        StatementKind::Explain,
        StatementKind::Prepare,
        StatementKind::Execute,
        StatementKind::Deallocate,
        StatementKind::Create,
        StatementKind::Alter,
        StatementKind::Drop,
        StatementKind::Truncate,
        StatementKind::Rename,
        StatementKind::Lock,
        StatementKind::Unlock,
        StatementKind::Account,
        StatementKind::Maintenance,
        StatementKind::Admin,
        StatementKind::Replication,
        StatementKind::Other,
    ];

    /// Lower case, as the filter language spells it.
    pub fn name(self) -> &'static str {
        use StatementKind::*;
        match self {
            Select => "select",
            Insert => "insert",
            Replace => "replace",
            Update => "update",
            Delete => "delete",
            Load => "load",
            Call => "call",
            Do => "do",
            Begin => "begin",
            Commit => "commit",
            Rollback => "rollback",
            Savepoint => "savepoint",
            Xa => "xa",
            Set => "set",
            Show => "show",
            Use => "use",
            Explain => "explain",
            Prepare => "prepare",
            Execute => "execute",
            Deallocate => "deallocate",
            Create => "create",
            Alter => "alter",
            Drop => "drop",
            Truncate => "truncate",
            Rename => "rename",
            Lock => "lock",
            Unlock => "unlock",
            Account => "account",
            Maintenance => "maintenance",
            Admin => "admin",
            Replication => "replication",
            Other => "other",
        }
    }

    /// The kind of `sql`, from its first words. Comments and parentheses before them are skipped,
    /// and `WITH` and `SET STATEMENT ... FOR` have the kind of the statement that follows them.
    pub fn of(sql: &[u8]) -> Self {
        Self::of_in(sql, SqlMode::default())
    }

    /// As `of`, for a statement of a session with this `sql_mode`.
    pub fn of_in(sql: &[u8], mode: SqlMode) -> Self {
        if sql.starts_with(b"administrator command: ") {
            return StatementKind::Admin;
        }
        let mut words = Words { sql, lexer: Lexer::new(sql, mode) };
        let Some(first) = words.first() else { return StatementKind::Other };
        match first.as_bytes() {
            b"with" => words.after_with(),
            b"set" => words.after_set(),
            b"start" | b"stop" => match words.second() {
                Some(word) if word.as_bytes() == b"transaction" => StatementKind::Begin,
                _ => StatementKind::Replication,
            },
            b"analyze" => match words.second() {
                // ANALYZE runs a statement and explains it, unless a table follows.
                Some(word)
                    if matches!(
                        word.as_bytes(),
                        b"table" | b"tables" | b"local" | b"no_write_to_binlog"
                    ) =>
                {
                    StatementKind::Maintenance
                }
                _ => StatementKind::Explain,
            },
            b"release" => StatementKind::Savepoint,
            b"create" | b"alter" | b"drop" | b"rename" => {
                let verb = Self::of_verb(first.as_bytes());
                match words.second() {
                    Some(word) if matches!(word.as_bytes(), b"user" | b"role") => {
                        StatementKind::Account
                    }
                    _ => verb,
                }
            }
            word => Self::of_verb(word),
        }
    }

    /// The kind of a statement that begins with this word, in lower case, and whose second word
    /// does not matter.
    fn of_verb(word: &[u8]) -> Self {
        use StatementKind::*;
        match word {
            b"select" | b"table" => Select,
            b"insert" => Insert,
            b"replace" => Replace,
            b"update" => Update,
            b"delete" => Delete,
            b"load" => Load,
            b"call" => Call,
            b"do" | b"values" | b"handler" => Do,
            b"begin" => Begin,
            b"commit" => Commit,
            b"rollback" => Rollback,
            b"savepoint" => Savepoint,
            b"xa" => Xa,
            b"set" => Set,
            b"show" | b"help" => Show,
            b"use" => Use,
            b"explain" | b"describe" | b"desc" => Explain,
            b"prepare" => Prepare,
            b"execute" => Execute,
            b"deallocate" => Deallocate,
            b"create" => Create,
            b"alter" => Alter,
            b"drop" => Drop,
            b"truncate" => Truncate,
            b"rename" => Rename,
            b"lock" => Lock,
            b"unlock" => Unlock,
            b"grant" | b"revoke" => Account,
            b"analyze" | b"optimize" | b"check" | b"repair" | b"checksum" | b"flush" | b"kill"
            | b"purge" | b"reset" | b"cache" | b"install" | b"uninstall" | b"shutdown"
            | b"backup" => Maintenance,
            b"change" | b"binlog" => Replication,
            _ => Other,
        }
    }
}

/// The words of a statement that decide its kind.
struct Words<'a> {
    sql: &'a [u8],
    lexer: Lexer<'a>,
}

impl Words<'_> {
    /// The first word, behind parentheses and empty statements.
    fn first(&mut self) -> Option<Folded> {
        loop {
            let token = self.lexer.next()?;
            match token.kind {
                Kind::Open | Kind::Semicolon => {}
                Kind::Word => return Some(Folded::of(&self.sql[token.start..token.end])),
                _ => return None,
            }
        }
    }

    /// The word after the first, if there is one.
    fn second(&mut self) -> Option<Folded> {
        let token = self.lexer.next()?;
        (token.kind == Kind::Word).then(|| Folded::of(&self.sql[token.start..token.end]))
    }

    /// After WITH: the first verb outside of parentheses.
    fn after_with(&mut self) -> StatementKind {
        let mut depth = 0usize;
        while let Some(token) = self.lexer.next() {
            match token.kind {
                Kind::Open => depth += 1,
                Kind::Close => depth = depth.saturating_sub(1),
                Kind::Word if depth == 0 => {
                    let word = Folded::of(&self.sql[token.start..token.end]);
                    let verb = match word.as_bytes() {
                        b"select" | b"insert" | b"update" | b"delete" | b"replace" | b"values" => {
                            StatementKind::of_verb(word.as_bytes())
                        }
                        _ => continue,
                    };
                    return verb;
                }
                _ => {}
            }
        }
        StatementKind::Select
    }

    /// After SET: a password is an account's, `SET STATEMENT x = 1 FOR` modifies what follows.
    fn after_set(&mut self) -> StatementKind {
        match self.second().as_ref().map(Folded::as_bytes) {
            Some(b"password" | b"role" | b"default") => StatementKind::Account,
            Some(b"statement") => {
                while let Some(token) = self.lexer.next() {
                    if token.kind == Kind::Word
                        && self.sql[token.start..token.end].eq_ignore_ascii_case(b"for")
                    {
                        return match self.first() {
                            Some(word) if word.as_bytes() == b"with" => self.after_with(),
                            Some(word) => StatementKind::of_verb(word.as_bytes()),
                            None => StatementKind::Set,
                        };
                    }
                }
                StatementKind::Set
            }
            _ => StatementKind::Set,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::StatementKind::{self, *};

    #[test]
    fn the_first_words_decide() {
        for (sql, kind) in [
            ("select 1", Select),
            ("  (SELECT 1) union (select 2)", Select),
            ("/* hint */ update t set a = 1", Update),
            ("/*!40000 alter table t disable keys */", Alter),
            ("with x as (select 1), y as (delete) insert into t select * from x", Insert),
            ("WITH RECURSIVE x AS (SELECT 1) SELECT * FROM x", Select),
            ("set statement max_statement_time=1 for delete from t", Delete),
            ("set statement max_statement_time=1", Set),
            ("set names utf8", Set),
            ("SET PASSWORD = 'x'", Account),
            ("start transaction", Begin),
            ("start slave", Replication),
            ("BEGIN", Begin),
            ("analyze table t", Maintenance),
            ("analyze select 1", Explain),
            ("create user x", Account),
            ("create table user (a int)", Create),
            ("administrator command: Ping", Admin),
            ("release savepoint a", Savepoint),
            ("'x'", Other),
            ("", Other),
            (";;select 1", Select),
            ("foo", Other),
        ] {
            assert_eq!(StatementKind::of(sql.as_bytes()), kind, "{sql}");
        }
    }
}
