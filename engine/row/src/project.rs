//! Reading entries back: which columns of which index, compiled once, applied to many entries.

use std::sync::{Arc, OnceLock};

use frond_base::{ByteReader, Result};

use crate::blobs::BlobSink;
use crate::codec::{key_parts, IndexPlan, RowCodec};
use crate::field::{Field, Form};
use crate::layout::RecordLayout;
use crate::order::BadKey;
use crate::schema::{widen, DefaultValue, Schema};
use crate::value::{source_of, stored_columns, ExtraKind};

/// The columns to take from the entries of one index. Made by [`RowCodec::project`], for that codec only.
pub struct Projection {
    plan: Arc<IndexPlan>,
    /// For each key part up to the last wanted one: whether to put it into the record.
    key: Vec<bool>,
    /// For each extra: whether to put it into the record. Empty when none is wanted.
    extras: Vec<bool>,
    /// `None` for an index without rows.
    rows: Option<RowReads>,
    missing: Vec<u16>,
}

impl Projection {
    /// Wanted columns that this index neither has nor computes: decoding does not change them.
    pub fn missing(&self) -> &[u16] {
        &self.missing
    }

    pub fn index(&self) -> usize {
        self.plan.index
    }
}

/// How to read row values, whichever schema wrote them.
struct RowReads {
    current: RowSteps,
    /// For each schema of the codec's history, once a row of it has been met.
    older: Vec<OnceLock<RowSteps>>,
    /// For each column: whether to take it from the value. Empty without history.
    wanted: Vec<bool>,
    to_end: bool,
}

/// How to read row values of one schema version.
struct RowSteps {
    bitmap_bytes: usize,
    steps: Vec<Step>,
    /// Wanted columns that this version did not have.
    fills: Vec<(Field, DefaultValue)>,
}

enum Step {
    Skip {
        bytes: usize,
    },
    /// Columns that are NOT NULL in both versions and adjacent in value and record.
    Copy {
        to: usize,
        bytes: usize,
    },
    /// An integer that has more bytes by now.
    Widened {
        bit: Option<usize>,
        bytes: usize,
        signed: bool,
        target: Field,
    },
    /// `target` `None`: skip.
    Fixed {
        bit: Option<usize>,
        bytes: usize,
        target: Option<Field>,
    },
    Variable {
        bit: Option<usize>,
        target: Option<Field>,
    },
}

impl Step {
    fn wanted(&self) -> bool {
        match self {
            Step::Skip { .. } => false,
            Step::Copy { .. } | Step::Widened { .. } => true,
            Step::Fixed { target, .. } | Step::Variable { target, .. } => target.is_some(),
        }
    }
}

impl RowCodec {
    /// Compiles a projection: the columns for which `wanted` is true, from entries of `index`.
    pub fn project(&self, index: usize, wanted: impl Fn(usize) -> bool) -> Projection {
        let plan = Arc::clone(&self.plans[index]);
        let source = |column| source_of(&plan.parts, column);
        let stored = |column: usize| self.schema.columns[column].stored;
        let from_key =
            |column| source(column).filter(|p| !plan.rows || p.reversible || !stored(column));
        let mut key: Vec<bool> = plan
            .parts
            .iter()
            .map(|p| {
                let column = p.field.column;
                wanted(column) && from_key(column).is_some_and(|s| std::ptr::eq(s, p))
            })
            .collect();
        key.truncate(key.iter().rposition(|w| *w).map_or(0, |n| n + 1));
        let mut extras: Vec<bool> = plan.extras.iter().map(|e| wanted(e.field.column)).collect();
        if !extras.contains(&true) {
            extras.clear();
        }
        let rows = plan.rows.then(|| {
            let value_wanted = |n: usize| wanted(n) && from_key(n).is_none();
            let (all, to_end) = (0..self.schema.columns.len(), !extras.is_empty());
            RowReads {
                current: self.row_steps(&self.schema, index, &value_wanted, to_end),
                older: self.history.iter().map(|_| OnceLock::new()).collect(),
                wanted: all.filter(|_| !self.history.is_empty()).map(value_wanted).collect(),
                to_end,
            }
        });
        let missing = (0..self.schema.columns.len())
            .filter(|n| wanted(*n) && !self.covers(index, *n))
            .map(|n| n as u16)
            .collect();
        Projection { plan, key, extras, rows, missing }
    }

    /// The steps through row values of an older schema; `None` when it is not in the history.
    fn older_steps<'p>(&self, projection: &'p Projection, version: u64) -> Option<&'p RowSteps> {
        let reads = projection.rows.as_ref()?;
        let n = self.history.binary_search_by_key(&version, |s| u64::from(s.version)).ok()?;
        let (writer, tree) = (&self.history[n], self.schema.indexes[projection.index()].tree);
        let index = writer.indexes.iter().position(|i| i.tree == tree)?;
        let wanted = |column: usize| reads.wanted[column];
        let compile = || self.row_steps(writer, index, &wanted, reads.to_end);
        Some(reads.older[n].get_or_init(compile))
    }

    /// The steps through row values that `writer` wrote to its `index`, to the end if extras are wanted.
    fn row_steps(
        &self,
        writer: &Schema,
        index: usize,
        wanted: &dyn Fn(usize) -> bool,
        to_end: bool,
    ) -> RowSteps {
        let parts = key_parts(writer, &RecordLayout::compact_of(&writer.columns), index);
        let (columns, bits) = stored_columns(writer, &parts);
        let place = |n: usize| Field::new(n, &self.schema.columns[n], &self.layout.columns[n]);
        let mut steps: Vec<Step> = Vec::new();
        for s in &columns {
            let id = writer.columns[s.column].id;
            let now = self.schema.columns.iter().position(|c| c.id == id);
            let target = now.filter(|n| wanted(*n)).map(place);
            let widens = now.and_then(|n| self.schema.columns[n].widens(&writer.columns[s.column]));
            let step = match (s.fixed, s.bit, target) {
                (Some(bytes), bit, Some(target)) if widens.is_some() => {
                    let signed = widens.unwrap_or(false);
                    Step::Widened { bit, bytes, signed, target }
                }
                (Some(bytes), None, None) => Step::Skip { bytes },
                (Some(bytes), None, Some(t)) if t.null.is_none() && t.form == Form::Fixed => {
                    Step::Copy { to: t.offset, bytes }
                }
                (Some(bytes), bit, target) => Step::Fixed { bit, bytes, target },
                (None, bit, target) => Step::Variable { bit, target },
            };
            match (steps.last_mut(), step) {
                (Some(Step::Skip { bytes }), Step::Skip { bytes: more }) => *bytes += more,
                (Some(Step::Copy { to, bytes }), Step::Copy { to: next, bytes: more })
                    if *to + *bytes == next =>
                {
                    *bytes += more;
                }
                (_, step) => steps.push(step),
            }
        }
        if !to_end {
            steps.truncate(steps.iter().rposition(Step::wanted).map_or(0, |n| n + 1));
        }
        // Thousands of scans keep theirs.
        steps.shrink_to_fit();
        let absent = |id: u32| writer.columns.iter().all(|c| c.id != id || !c.stored);
        let fills = (0..self.schema.columns.len())
            .filter(|n| {
                let c = &self.schema.columns[*n];
                wanted(*n) && c.stored && absent(c.id)
            })
            .map(|n| (place(n), self.schema.columns[n].default.clone()))
            .collect();
        RowSteps { bitmap_bytes: bits.div_ceil(8), steps, fills }
    }

    /// Puts the projection's columns of an entry into `record`; everything else in it stays as it
    /// is. Blobs go through `sink`.
    ///
    /// Errors: `Corruption`; `record` may then be partly written.
    pub fn decode(
        &self,
        projection: &Projection,
        key: &[u8],
        value: &[u8],
        record: &mut [u8],
        sink: &mut dyn BlobSink,
    ) -> Result<()> {
        self.check_record(record.len());
        let plan = &projection.plan;
        let mut at = 0;
        for (part, wanted) in plan.parts.iter().zip(&projection.key) {
            let done = match wanted {
                true => part.read(key, &mut at, record),
                false => part.skip(key, &mut at),
            };
            done.map_err(|BadKey| self.bad(plan.index, "key", at))?;
        }
        let mut r = ByteReader::new(value);
        if let Some(rows) = &projection.rows {
            let index = plan.index;
            let version = r.varint().map_err(|e| self.bad(index, "value", e.at))?;
            let steps = if version == u64::from(self.schema.version) {
                &rows.current
            } else {
                let unknown = || format!("value: unknown schema version {version}");
                let older = self.older_steps(projection, version);
                older.ok_or_else(|| self.bad(index, &unknown(), 0))?
            };
            self.decode_row(index, steps, &mut r, record, sink)?;
        }
        if !projection.extras.is_empty() {
            self.decode_extras(projection, &mut r, record, sink)?;
        }
        Ok(())
    }

    #[inline]
    fn decode_row(
        &self,
        index: usize,
        steps: &RowSteps,
        r: &mut ByteReader<'_>,
        record: &mut [u8],
        sink: &mut dyn BlobSink,
    ) -> Result<()> {
        let bad = |at: usize| self.bad(index, "value", at);
        let bitmap = r.take(steps.bitmap_bytes).map_err(|e| bad(e.at))?;
        let null = |bit: &Option<usize>| bit.is_some_and(|b| bitmap[b / 8] >> (b % 8) & 1 == 1);
        for step in &steps.steps {
            let (content, target) = match step {
                Step::Skip { bytes } => {
                    r.take(*bytes).map_err(|e| bad(e.at))?;
                    continue;
                }
                Step::Copy { to, bytes } => {
                    let image = r.take(*bytes).map_err(|e| bad(e.at))?;
                    record[*to..to + bytes].copy_from_slice(image);
                    continue;
                }
                Step::Widened { bit, bytes, signed, target } => {
                    if null(bit) {
                        target.put_null(record);
                        continue;
                    }
                    let content = r.take(*bytes).map_err(|e| bad(e.at))?;
                    target.set_null(record, false);
                    let image = target.offset..target.offset + target.bytes;
                    widen(content, *signed, &mut record[image]);
                    continue;
                }
                Step::Fixed { bit, bytes, target } => match null(bit) {
                    true => (None, target),
                    false => (Some(r.take(*bytes).map_err(|e| bad(e.at))?), target),
                },
                Step::Variable { bit, target } => match null(bit) {
                    true => (None, target),
                    false => (Some(r.bytes().map_err(|e| bad(e.at))?), target),
                },
            };
            let Some(field) = target else { continue };
            match content {
                None => field.put_null(record),
                Some(content) => {
                    field.set_null(record, false);
                    field.put(record, content, sink).map_err(|_| bad(r.position()))?;
                }
            }
        }
        for (field, default) in &steps.fills {
            match default {
                DefaultValue::Empty => field.put_null(record),
                DefaultValue::Bytes(content) => {
                    field.set_null(record, false);
                    field.put(record, content, sink).map_err(|_| {
                        self.bad(index, "default value of an added column", field.column)
                    })?;
                }
            }
        }
        Ok(())
    }

    fn decode_extras(
        &self,
        projection: &Projection,
        r: &mut ByteReader<'_>,
        record: &mut [u8],
        sink: &mut dyn BlobSink,
    ) -> Result<()> {
        let index = projection.plan.index;
        for (extra, wanted) in projection.plan.extras.iter().zip(&projection.extras) {
            let at = r.position();
            let bad = || self.bad(index, "value", at);
            let mut n = 0;
            let mut content: &[u8] = &[];
            if r.remaining() > 0 {
                if matches!(extra.kind, ExtraKind::Original | ExtraKind::Difference) {
                    content = r.bytes().map_err(|_| bad())?;
                } else {
                    n = usize::try_from(r.varint().map_err(|_| bad())?).map_err(|_| bad())?;
                }
            }
            let field = &extra.field;
            if !wanted || field.is_null(record) {
                continue;
            }
            match extra.kind {
                ExtraKind::Original => field.put(record, content, sink).map_err(|_| bad())?,
                ExtraKind::Difference => extra.differ(record, content).ok_or_else(bad)?,
                ExtraKind::ZeroSign if n == 0 => {}
                ExtraKind::ZeroSign => record[field.offset + field.bytes - 1] |= 0x80,
                ExtraKind::Spaces if n == 0 => {}
                ExtraKind::Spaces => {
                    let Form::VarChar { length } = field.form else { return Err(bad()) };
                    let image = &mut record[field.offset..field.offset + field.bytes];
                    let old = crate::field::read_le(&image[..length]) as usize;
                    let end = old.checked_add(n).ok_or_else(bad)?;
                    image[length..].get_mut(old..end).ok_or_else(bad)?.fill(b' ');
                    field.put_length(record, end);
                }
            }
        }
        Ok(())
    }
}
