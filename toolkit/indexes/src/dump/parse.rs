//! The effect of statements on tables.
//!
//! Invariants:
//!
//! - DP1. An unknown word of a definition is skipped to the definition's end, never an error: servers learn new words.
//! - DP2. A statement that is not closed is an error and changes nothing.

use std::collections::HashMap;

use frond_sqltext::TokenKind;

use super::tokens::{tokens, Tokens};
use crate::model::{same_name, ForeignKey, Key, KeyKind, Part, Table};

/// The tables of a dump so far.
#[derive(Default)]
pub(super) struct Schema {
    /// `None`: it was dropped, or defined again.
    tables: Vec<Option<Table>>,
    /// (database, table) -> index in `tables`.
    at: HashMap<(String, String), usize>,
    db: String,
}

/// The table of a `CREATE TABLE` as `SHOW CREATE TABLE` prints it. `Err` says what is wrong.
pub fn create_table(sql: &[u8], db: &str) -> Result<Table, String> {
    let mut schema = Schema { db: db.to_owned(), ..Schema::default() };
    schema.statement(sql)?;
    schema.tables().pop().ok_or_else(|| "this is no CREATE TABLE".into())
}

impl Schema {
    pub(super) fn tables(self) -> Vec<Table> {
        self.tables.into_iter().flatten().collect()
    }

    pub(super) fn statement(&mut self, sql: &[u8]) -> Result<(), String> {
        let all = tokens(sql);
        let mut t = Tokens::new(sql, &all);
        if t.take(&["USE"]) {
            self.db = t.name().unwrap_or_default();
        } else if t.take(&["CREATE"]) {
            self.create(t)?;
        } else if t.take(&["ALTER"]) {
            t.take(&["ONLINE"]);
            t.take(&["IGNORE"]);
            if t.take(&["TABLE"]) {
                t.take(&["IF", "EXISTS"]);
                self.alter(t)?;
            }
        } else if t.take(&["DROP", "TABLE"]) {
            t.take(&["IF", "EXISTS"]);
            while let Some(name) = t.full_name() {
                if let Some(at) = self.at.remove(&self.resolve(name)) {
                    self.tables[at] = None;
                }
                t.take_kind(TokenKind::Comma);
            }
        } else if t.take(&["DROP", "INDEX"]) {
            t.take(&["IF", "EXISTS"]);
            if let (Some(key), true) = (t.name(), t.take(&["ON"])) {
                let table = self.table(&mut t);
                table.into_iter().for_each(|table| drop_key(table, &key));
            }
        }
        Ok(())
    }

    fn resolve(&self, (db, name): (Option<String>, String)) -> (String, String) {
        (db.unwrap_or_else(|| self.db.clone()), name)
    }

    fn table(&mut self, t: &mut Tokens<'_>) -> Option<&mut Table> {
        let name = t.full_name()?;
        let at = *self.at.get(&self.resolve(name))?;
        self.tables[at].as_mut()
    }

    fn create(&mut self, mut t: Tokens<'_>) -> Result<(), String> {
        t.take(&["OR", "REPLACE"]);
        if t.take(&["TABLE"]) {
            t.take(&["IF", "NOT", "EXISTS"]);
            let Some(name) = t.full_name() else {
                return Err("CREATE TABLE without a name".into());
            };
            let (db, name) = self.resolve(name);
            // CREATE TABLE .. LIKE, .. SELECT
            if t.peek() != Some(TokenKind::Open) {
                let like = if t.take(&["LIKE"]) { self.table(&mut t).cloned() } else { None };
                if let Some(of) = like {
                    // Foreign keys are not copied.
                    self.put(Table { db, name, foreign: Vec::new(), ..of });
                }
                return Ok(());
            }
            let mut table = Table { db, name, ..Table::default() };
            t.list(&mut |t| definition(t, &mut table))
                .ok_or_else(|| format!("the definition of table {} is not closed", table.name))?;
            options(&mut t, &mut table);
            self.put(table);
            return Ok(());
        }
        let kind = kind_word(&mut t);
        if t.take(&["INDEX"]) {
            t.take(&["IF", "NOT", "EXISTS"]);
            let name = t.name();
            let using = using(&mut t);
            if t.take(&["ON"]) {
                if let Some(table) = self.table(&mut t) {
                    let mut key = key_parts(&mut t, name, kind.unwrap_or(KeyKind::Plain))
                        .ok_or("CREATE INDEX is not closed")?;
                    key.using = key.using.or(using);
                    put_key(table, key);
                    settle_hash(table);
                }
            }
        }
        Ok(())
    }

    fn put(&mut self, table: Table) {
        let name = (table.db.clone(), table.name.clone());
        if let Some(old) = self.at.insert(name, self.tables.len()) {
            self.tables[old] = None;
        }
        self.tables.push(Some(table));
    }

    fn alter(&mut self, mut t: Tokens<'_>) -> Result<(), String> {
        let Some(table) = self.table(&mut t) else { return Ok(()) };
        let mut changed = table.clone();
        loop {
            alteration(&mut t, &mut changed).ok_or("ALTER TABLE is not closed")?;
            t.skip_definition();
            if !t.take_kind(TokenKind::Comma) {
                break;
            }
        }
        settle_hash(&mut changed);
        *table = changed;
        Ok(())
    }
}

fn drop_key(table: &mut Table, name: &str) {
    table.keys.retain(|key| !same_name(&key.name, name));
}

/// Applies one item of an ALTER TABLE's list. `None`: a parenthesis is still open at the end.
fn alteration(t: &mut Tokens<'_>, table: &mut Table) -> Option<()> {
    if t.take(&["ADD"]) {
        t.take(&["COLUMN"]);
        t.take(&["IF", "NOT", "EXISTS"]);
        match t.peek() {
            Some(TokenKind::Open) => t.list(&mut |t| definition(t, table))?,
            _ => definition(t, table)?,
        }
    } else if t.take(&["DROP"]) {
        if t.take(&["PRIMARY", "KEY"]) {
            table.keys.retain(|key| key.kind != KeyKind::Primary);
        } else if t.take(&["FOREIGN", "KEY"]) {
            t.take(&["IF", "EXISTS"]);
            let name = t.name();
            table.foreign.retain(|key| key.name != name);
        } else if t.take(&["INDEX"]) || t.take(&["KEY"]) || t.take(&["CONSTRAINT"]) {
            t.take(&["IF", "EXISTS"]);
            t.name().into_iter().for_each(|name| drop_key(table, &name));
        }
    } else if t.take(&["RENAME", "INDEX"]) || t.take(&["RENAME", "KEY"]) {
        let from = t.name();
        t.take(&["TO"]);
        if let (Some(key), Some(to)) = (from.and_then(|from| table.key_mut(&from)), t.name()) {
            key.name = to;
        }
    } else if t.take(&["ALTER", "INDEX"]) || t.take(&["ALTER", "KEY"]) {
        t.take(&["IF", "EXISTS"]);
        if let Some(key) = t.name().and_then(|name| table.key_mut(&name)) {
            key.ignored = ignored(t).unwrap_or(key.ignored);
        }
    } else if t.take(&["MODIFY"]) {
        // Dumps of phpMyAdmin set AUTO_INCREMENT in this form.
        t.take(&["COLUMN"]);
        t.take(&["IF", "EXISTS"]);
        column(t, table)?;
    } else if t.take(&["ENGINE"]) && t.text() == "=" {
        table.engine = t.name().unwrap_or_default();
    }
    Some(())
}

/// A key, a constraint or a column. `None`: a parenthesis is not closed.
fn definition(t: &mut Tokens<'_>, table: &mut Table) -> Option<()> {
    let mark = *t;
    if !key_or_constraint(t, table)? {
        *t = mark;
        column(t, table)?;
    }
    Some(())
}

/// `PRIMARY`, `UNIQUE`, `FULLTEXT`, `SPATIAL`, `VECTOR`.
fn kind_word(t: &mut Tokens<'_>) -> Option<KeyKind> {
    use KeyKind::{Fulltext, Primary, Spatial, Unique, Vector};
    const KINDS: [KeyKind; 5] = [Primary, Unique, Fulltext, Spatial, Vector];
    KINDS.into_iter().find(|kind| t.take(&[kind.word()]))
}

/// A key, a foreign key or a check. `None`: a parenthesis is not closed; false: it is something else.
fn key_or_constraint(t: &mut Tokens<'_>, table: &mut Table) -> Option<bool> {
    let mut symbol = None;
    if t.take(&["CONSTRAINT"])
        && !["PRIMARY", "UNIQUE", "FOREIGN", "CHECK"].iter().any(|w| t.sees(w))
    {
        symbol = t.name();
    }
    if t.take(&["FOREIGN", "KEY"]) {
        t.take(&["IF", "NOT", "EXISTS"]);
        let name = if t.peek() == Some(TokenKind::Open) { None } else { t.name() };
        let columns = names(t)?;
        if let Some(mut key) = references(t, &table.db) {
            key.name = symbol.or(name);
            key.columns = columns;
            table.foreign.push(key);
        }
        return Some(true);
    }
    if t.take(&["PERIOD", "FOR"]) || t.take(&["CHECK"]) {
        t.skip_definition();
        return Some(true);
    }
    let kind = kind_word(t);
    if !(t.take(&["INDEX"]) || t.take(&["KEY"])) && kind.is_none() {
        return Some(false);
    }
    let kind = kind.unwrap_or(KeyKind::Plain);
    t.take(&["IF", "NOT", "EXISTS"]);
    let before = using(t);
    let mut name = symbol.filter(|_| kind == KeyKind::Unique);
    if t.peek() != Some(TokenKind::Open) {
        name = t.name().or(name);
    }
    let before = using(t).or(before);
    // A column whose unquoted name is one of those words.
    if t.peek() != Some(TokenKind::Open) {
        return Some(false);
    }
    let mut key = key_parts(t, name, kind)?;
    key.using = key.using.or(before);
    put_key(table, key);
    Some(true)
}

/// Whether `IGNORED`, `VISIBLE` and the like hide a key; `None`: none of them comes next.
fn ignored(t: &mut Tokens<'_>) -> Option<bool> {
    if t.take(&["NOT", "IGNORED"]) || t.take(&["VISIBLE"]) {
        return Some(false);
    }
    (t.take(&["IGNORED"]) || t.take(&["INVISIBLE"])).then_some(true)
}

/// True after `USING HASH`, false after `USING` with anything else.
fn using(t: &mut Tokens<'_>) -> Option<bool> {
    (t.take(&["USING"]) || t.take(&["TYPE"])).then(|| t.text().eq_ignore_ascii_case("HASH"))
}

/// `(part, ...) options`
fn key_parts(t: &mut Tokens<'_>, name: Option<String>, kind: KeyKind) -> Option<Key> {
    let mut key = Key::new(name.unwrap_or_default(), kind, Vec::new());
    t.list(&mut |t| {
        let expression = t.peek() == Some(TokenKind::Open);
        let mut part = Part::new(if expression { t.pair()? } else { t.name()? });
        if t.take_kind(TokenKind::Open) {
            part.prefix = t.number();
            t.skip_definition();
            t.take_kind(TokenKind::Close);
        }
        part.descending = t.take(&["DESC"]);
        key.without_overlaps |= t.take(&["WITHOUT", "OVERLAPS"]);
        key.parts.push(part);
        Some(())
    })?;
    // The options, up to the end of the definition.
    while !t.ends() {
        if let Some(hash) = using(t) {
            key.using = Some(hash);
        } else if let Some(ignored) = ignored(t) {
            key.ignored = ignored;
        } else if t.take(&["COMMENT"]) {
            let text = t.text();
            key.comment = if text == "=" { t.text() } else { text };
        } else if t.take(&["WITH", "PARSER"]) {
            key.options = format!("parser {}", t.text());
        } else if ["M", "DISTANCE"].iter().any(|word| t.sees(word)) {
            let name = t.text();
            let value = t.text();
            let value = if value == "=" { t.text() } else { value };
            key.options += &format!("{name}={value} ").to_lowercase();
        } else {
            t.skip_one()?;
        }
    }
    Some(key)
}

/// No server takes more keys than this, so further ones are left out: finding names for them would take cubic time.
const MOST_KEYS: usize = 128;

/// Adds `key`; a key without a name gets the one that a server would give it.
fn put_key(table: &mut Table, mut key: Key) {
    if table.keys.len() >= MOST_KEYS {
        return;
    }
    if key.kind == KeyKind::Primary {
        key.name = "PRIMARY".into();
        for part in &key.parts {
            table.not_null.push(part.column.clone());
        }
    } else if key.name.is_empty() {
        let base = key.parts.first().map_or_else(|| "key".into(), |part| part.column.clone());
        let numbered = (2..).map(|n| format!("{base}_{n}"));
        let free = |name: &String| table.key(name).is_none();
        key.name = std::iter::once(base.clone()).chain(numbered).find(free).unwrap_or(base);
    }
    if table.key(&key.name).is_none() {
        table.keys.push(key);
    }
}

fn names(t: &mut Tokens<'_>) -> Option<Vec<String>> {
    let mut names = Vec::new();
    t.list(&mut |t| {
        names.push(t.name()?);
        Some(())
    })?;
    Some(names)
}

/// `REFERENCES parent (columns) [MATCH ..] [ON DELETE ..] [ON UPDATE ..]`
fn references(t: &mut Tokens<'_>, db: &str) -> Option<ForeignKey> {
    if !t.take(&["REFERENCES"]) {
        return None;
    }
    let (parent_db, parent) = t.full_name()?;
    let parent_columns = if t.peek() == Some(TokenKind::Open) { names(t)? } else { Vec::new() };
    let mut actions = String::new();
    while t.peek() == Some(TokenKind::Word) && (t.sees("ON") || t.sees("MATCH")) {
        let (on, event) = (t.text(), t.text());
        if on.eq_ignore_ascii_case("MATCH") {
            continue;
        }
        let mut action = t.text().to_uppercase();
        if action == "SET" || action == "NO" {
            action = format!("{action} {}", t.text().to_uppercase());
        }
        // RESTRICT and NO ACTION are the default, so they are left out.
        if action != "RESTRICT" && action != "NO ACTION" {
            actions += &format!("ON {} {action} ", event.to_uppercase());
        }
    }
    Some(ForeignKey {
        name: None,
        columns: Vec::new(),
        parent_db: parent_db.unwrap_or_else(|| db.to_owned()),
        parent,
        parent_columns,
        actions: actions.trim_end().to_owned(),
    })
}

/// A column's definition, as far as it defines keys.
fn column(t: &mut Tokens<'_>, table: &mut Table) -> Option<()> {
    let Some(name) = t.name() else {
        t.skip_definition();
        return if t.ended() { None } else { Some(()) };
    };
    let key = |kind| Key::new("", kind, vec![Part::new(name.clone())]);
    if t.take(&["SERIAL"]) {
        table.auto_increment = Some(name.clone());
        table.not_null.push(name.clone());
        put_key(table, key(KeyKind::Unique));
    }
    while !t.ends() {
        if t.take(&["NOT", "NULL"]) {
            table.not_null.push(name.clone());
        } else if t.take(&["AUTO_INCREMENT"]) {
            table.auto_increment = Some(name.clone());
        } else if t.take(&["PRIMARY", "KEY"]) || t.take(&["PRIMARY"]) || t.take(&["KEY"]) {
            put_key(table, key(KeyKind::Primary));
        } else if t.take(&["UNIQUE"]) {
            t.take(&["KEY"]);
            put_key(table, key(KeyKind::Unique));
        } else if t.sees("REFERENCES") {
            if let Some(mut foreign) = references(t, &table.db) {
                foreign.columns = vec![name.clone()];
                table.foreign.push(foreign);
            }
        } else {
            t.skip_one()?;
        }
    }
    Some(())
}

/// The table options behind the definitions: the engine, and what depends on it.
fn options(t: &mut Tokens<'_>, table: &mut Table) {
    while !t.ended() {
        // A partition names the same engine.
        if t.take(&["ENGINE"]) {
            let mark = *t;
            if t.text() != "=" {
                *t = mark;
            }
            table.engine = t.name().unwrap_or_default();
            break;
        }
        if t.skip_one().is_none() {
            break;
        }
    }
    settle_hash(table);
}

/// HASH is an index of its own kind in engines that keep rows in memory, where it is the default, and for UNIQUE keys of long
/// columns. Other engines make a tree instead.
fn settle_hash(table: &mut Table) {
    let memory = ["memory", "heap", "ndbcluster", "ndb"]
        .iter()
        .any(|name| table.engine.eq_ignore_ascii_case(name));
    for key in &mut table.keys {
        key.hash = match key.kind {
            KeyKind::Unique if key.using == Some(true) => true,
            KeyKind::Primary | KeyKind::Unique | KeyKind::Plain => {
                memory && key.using != Some(false)
            }
            _ => false,
        };
    }
}
