//! Tables, as far as their indexes need them.

/// The declared kind of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KeyKind {
    Primary,
    Unique,
    #[default]
    Plain,
    Fulltext,
    Spatial,
    Vector,
}

impl KeyKind {
    /// The word before `KEY` in its definition.
    pub fn word(self) -> &'static str {
        match self {
            KeyKind::Primary => "PRIMARY",
            KeyKind::Unique => "UNIQUE",
            KeyKind::Plain => "",
            KeyKind::Fulltext => "FULLTEXT",
            KeyKind::Spatial => "SPATIAL",
            KeyKind::Vector => "VECTOR",
        }
    }
}

/// One column of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The column, or the text of an expression with its parentheses.
    pub column: String,
    /// Only so many characters or bytes are indexed.
    pub prefix: Option<u32>,
    pub descending: bool,
}

impl Part {
    pub fn new(column: impl Into<String>) -> Part {
        Part { column: column.into(), prefix: None, descending: false }
    }

    pub fn is_column(&self, name: &str) -> bool {
        same_name(&self.column, name)
    }

    /// Whether both are the same column, or the same expression: in its strings case matters.
    pub fn same_column(&self, other: &Part) -> bool {
        self.column == other.column
            || !self.column.starts_with('(') && self.is_column(&other.column)
    }
}

/// A key of a table; the name of the primary key is `PRIMARY`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Key {
    pub name: String,
    pub kind: KeyKind,
    pub parts: Vec<Part>,
    /// From `USING`: true for HASH, false for a tree. The engine decides the result: `hash`.
    pub using: Option<bool>,
    /// The index finds whole keys only: it has no order.
    pub hash: bool,
    /// `IGNORED` (MariaDB) or `INVISIBLE` (MySQL): maintained, but no statement reads it.
    pub ignored: bool,
    /// A part is `WITHOUT OVERLAPS`: a constraint that no other key gives.
    pub without_overlaps: bool,
    /// The literal behind COMMENT, with its quotes; empty if there is none.
    pub comment: String,
    /// Other options that decide which statements it serves: the parser of a FULLTEXT key, the distance of a
    /// VECTOR key.
    pub options: String,
    /// Bytes on disk, if known.
    pub bytes: Option<u64>,
    /// Different values of the whole key, as the server estimates them.
    pub cardinality: Option<u64>,
}

impl Key {
    pub fn new(name: impl Into<String>, kind: KeyKind, parts: Vec<Part>) -> Key {
        Key { name: name.into(), kind, parts, ..Key::default() }
    }

    pub fn is_unique(&self) -> bool {
        matches!(self.kind, KeyKind::Primary | KeyKind::Unique)
    }

    /// The key orders its columns, so that a prefix of them can be searched.
    pub fn is_ordered(&self) -> bool {
        matches!(self.kind, KeyKind::Primary | KeyKind::Unique | KeyKind::Plain) && !self.hash
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignKey {
    /// `None`: the statement leaves the name to the server.
    pub name: Option<String>,
    pub columns: Vec<String>,
    pub parent_db: String,
    pub parent: String,
    pub parent_columns: Vec<String>,
    /// `ON DELETE ... ON UPDATE ...` in capitals; empty if neither is given.
    pub actions: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Empty if the dump does not tell it.
    pub db: String,
    pub name: String,
    pub engine: String,
    pub keys: Vec<Key>,
    pub foreign: Vec<ForeignKey>,
    pub auto_increment: Option<String>,
    /// Columns that are never NULL.
    pub not_null: Vec<String>,
    /// Rows as the server estimates them.
    pub rows: Option<u64>,
}

impl Table {
    pub fn full_name(&self) -> String {
        full_name(&self.db, &self.name)
    }

    pub fn key(&self, name: &str) -> Option<&Key> {
        self.keys.iter().find(|key| same_name(&key.name, name))
    }

    pub fn key_mut(&mut self, name: &str) -> Option<&mut Key> {
        self.keys.iter_mut().find(|key| same_name(&key.name, name))
    }

    /// Rows are stored in the order of the primary key, and its columns are the end of every other index.
    pub fn is_clustered(&self) -> bool {
        const CLUSTERED: [&str; 4] = ["innodb", "frond", "rocksdb", "tokudb"];
        CLUSTERED.iter().any(|name| self.engine.eq_ignore_ascii_case(name))
    }

    /// The key by which rows are stored: the primary key, or the first UNIQUE key without NULLs, as the server
    /// chooses.
    pub fn clustering_key(&self) -> Option<&Key> {
        let primary = self.keys.iter().find(|key| key.kind == KeyKind::Primary);
        primary.or_else(|| {
            self.keys.iter().find(|key| {
                key.kind == KeyKind::Unique
                    && key.is_ordered()
                    && !key.ignored
                    && key.parts.iter().all(|part| {
                        part.prefix.is_none()
                            && self.not_null.iter().any(|name| part.is_column(name))
                    })
            })
        })
    }
}

/// Whether two names are equal apart from case.
pub fn same_name(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b)
        || !(a.is_ascii() && b.is_ascii()) && a.to_lowercase() == b.to_lowercase()
}

/// `db.table`, or the table alone.
pub fn full_name(db: &str, table: &str) -> String {
    if db.is_empty() {
        table.to_owned()
    } else {
        format!("{db}.{table}")
    }
}

/// A name in backquotes.
pub fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}
