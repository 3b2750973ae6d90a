//! A server's answer to a statement.
//!
//! Rows are hashed as they arrive, both with and without regard to their order; a bounded part of them is kept to show
//! differences.

use xxhash_rust::xxh3::xxh3_128;

/// Values as the server sent them; `None` is NULL.
pub type Row = Vec<Option<Vec<u8>>>;

/// Bytes of rows that are kept of one answer. A larger result is compared only by its hashes.
pub const KEPT: usize = 4 << 20;

/// Number of warnings that are read of one answer.
pub const WARNINGS: usize = 64;

/// The type of a column, as far as comparing needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// Compared by its bytes.
    Exact,
    /// FLOAT and DOUBLE: a sum depends on the order of its terms.
    Float,
    /// Ordered by a collation, which may call different bytes equal.
    Text,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    /// The alias of its table, and its name there; both empty if it is no column of a table.
    pub field: (String, String),
    pub of: Type,
}

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The error's number and text.
    pub error: Option<(u16, String)>,
    pub columns: Vec<Column>,
    pub rows: u64,
    /// Hash of the rows in their order.
    pub ordered: u128,
    /// Hash of the rows whatever their order; repeated rows count.
    pub unordered: u128,
    /// All rows; `None` if they take more than `KEPT` bytes.
    pub kept: Option<Vec<Row>>,
    pub affected: u64,
    /// Codes of warnings, sorted.
    pub warnings: Vec<u16>,
    /// Time from sending the statement to its last row.
    pub nanos: u64,
    pub(crate) kept_bytes: usize,
}

impl Answer {
    pub fn new() -> Answer {
        Answer { kept: Some(Vec::new()), ..Answer::default() }
    }

    pub fn failed(code: u16, text: String) -> Answer {
        Answer { error: Some((code, text)), ..Answer::new() }
    }

    /// The same without rows and warnings.
    pub fn only_error(&self) -> Answer {
        Answer { error: self.error.clone(), ..Answer::new() }
    }

    /// Adds the next row.
    pub fn row(&mut self, row: Row) {
        let mut bytes = Vec::with_capacity(64);
        for value in &row {
            match value {
                None => bytes.push(0),
                Some(value) => {
                    bytes.push(1);
                    bytes.extend((value.len() as u64).to_le_bytes());
                    bytes.extend(value);
                }
            }
        }
        let hash = xxh3_128(&bytes);
        self.rows += 1;
        self.unordered = self.unordered.wrapping_add(hash);
        let mut chain = [0; 32];
        chain[..16].copy_from_slice(&self.ordered.to_le_bytes());
        chain[16..].copy_from_slice(&hash.to_le_bytes());
        self.ordered = xxh3_128(&chain);
        // A row takes more memory than its bytes: 32 more for each value.
        self.kept_bytes += bytes.len() + 32 * row.len();
        match &mut self.kept {
            Some(kept) if self.kept_bytes <= KEPT => kept.push(row),
            _ => self.kept = None,
        }
    }

    /// Starts the next of several results. Differences between results show in the rows as well.
    pub fn next_result(&mut self) {
        self.row(Vec::new());
        self.rows -= 1;
    }
}
