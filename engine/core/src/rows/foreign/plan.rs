//! The constraints of one table, compiled: which index leads to the parent, which to the children,
//! and how a child's key becomes a parent's and the reverse.

use std::sync::Arc;

use frond_base::{Error, ErrorKind, Result};
use frond_row::{History, KeyBridge, PlainSortKeys, RecordLayout, RowCodec, Schema};

use crate::catalog::foreign::{Action, Foreign, ForeignState};
use crate::catalog::foreign_fit::{fit, fit_child, is_unique, Fit};
use crate::commit::core::Core;
use crate::table::Table;

/// All constraints that a row of a table has to do with.
pub struct Plan {
    /// In the order of the child's indexes, as rows are written.
    pub parents: Vec<ToParent>,
    pub children: Vec<ToChild>,
}

/// A constraint of the table, as a child.
pub struct ToParent {
    pub foreign: Arc<Foreign>,
    /// The index of the child that begins with the columns.
    pub index: usize,
    /// The one in which the parent looks for children: another one while `index` is being built.
    pub seen: usize,
    /// A bridge from that index to itself: it says whether the row has all values.
    pub present: KeyBridge,
    /// `None`: the parent does not exist, or does not fit.
    pub parent: Option<ParentIndex>,
    /// Child and parent are one table.
    pub own: bool,
}

/// Where parents are found.
pub struct ParentIndex {
    pub table: Arc<Table>,
    /// Takes keys apart; it does not know collations.
    pub codec: RowCodec,
    pub index: usize,
    /// No two parents have the same key: its lock stands for the row.
    pub unique: bool,
    pub bridge: KeyBridge,
}

/// A constraint that names the table as its parent.
pub struct ToChild {
    pub foreign: Arc<Foreign>,
    pub child: Arc<Table>,
    pub child_schema: Arc<Schema>,
    pub fit: Fit,
    pub bridge: KeyBridge,
    pub on_delete: Action,
    pub on_update: Action,
}

fn schema_of(table: &Table) -> Result<Arc<Schema>> {
    let def = table.def();
    Ok(Arc::new(Schema::decode(&def.schema, &def.name)?))
}

/// With the indexes that are being built.
fn building_schema_of(table: &Table) -> Result<Schema> {
    let def = table.def();
    let bytes = if def.building.is_empty() { &def.schema } else { &def.building };
    Schema::decode(bytes, &def.name)
}

/// The open table of that name, if there is one.
fn open(core: &Arc<Core>, name: &str) -> Result<Option<Arc<Table>>> {
    match core.open_table(name) {
        Ok(table) => Ok(Some(table)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

impl Plan {
    /// Compiles the constraints of `table`; `None` when there are none. Also the version of all constraints
    /// that they are at least as new as. Rows are written with `schema`; its indexes from `visible` on are
    /// being built.
    pub fn compile(
        core: &Arc<Core>,
        table: &Arc<Table>,
        schema: &Arc<Schema>,
        visible: usize,
    ) -> Result<(u64, Option<Box<Plan>>)> {
        let version = core.foreign_version();
        let name = table.def().name.clone();
        let (of, naming) = {
            let names = core.names.read();
            (names.foreigns.of(&name), names.foreigns.naming(&name))
        };
        let mut plan = Plan { parents: Vec::new(), children: Vec::new() };
        // An index that is being built lacks entries: a table that is its own parent would miss children in it.
        let mut complete = schema.clone();
        if visible < schema.indexes.len() {
            Arc::make_mut(&mut complete).indexes.truncate(visible);
        }
        for foreign in of.into_iter().filter(|f| f.state != ForeignState::Waiting) {
            let mut to = to_parent(core, table, schema, foreign)?;
            // None serves a constraint that is being added with its index.
            to.seen = fit_child(&to.foreign, &complete).map_or(to.index, |(_, index)| index);
            plan.parents.push(to);
        }
        plan.parents.sort_by_key(|p| p.index);
        for foreign in naming {
            // With a constraint that is being added the new indexes are complete before it guards parents (AF3).
            let schema = match foreign.state {
                ForeignState::Waiting | ForeignState::Checking => continue,
                ForeignState::Guarding => schema,
                ForeignState::Active | ForeignState::Adding => &complete,
            };
            if let Some(child) = to_child(core, table, schema, foreign)? {
                plan.children.push(child);
            }
        }
        let empty = plan.parents.is_empty() && plan.children.is_empty();
        Ok((version, (!empty).then(|| Box::new(plan))))
    }
}

fn bridged(
    foreign: &Foreign,
    from: (&Schema, usize),
    to: (&Schema, usize),
    parts: usize,
) -> Result<KeyBridge> {
    KeyBridge::new(from, to, parts).map_err(|_| {
        let what = format!("foreign key '{}': its keys are not comparable (FF1)", foreign.name);
        Error::new(ErrorKind::InvalidArgument, what)
    })
}

pub(super) fn to_parent(
    core: &Arc<Core>,
    table: &Arc<Table>,
    schema: &Arc<Schema>,
    foreign: Arc<Foreign>,
) -> Result<ToParent> {
    let parts = foreign.columns.len();
    let (_, index) = fit_child(&foreign, schema)?;
    let found = open(core, &foreign.parent)?;
    let own = found.as_ref().is_some_and(|parent| parent.id() == table.id());
    let mut parent = None;
    if let Some(found) = found {
        let parent_schema = schema_of(&found)?;
        // A parent that does not fit has no row that could be meant.
        if let Ok(fit) = fit(&foreign, schema, &parent_schema) {
            let to = (&*parent_schema, fit.parent_index);
            let bridge = bridged(&foreign, (schema, fit.child_index), to, parts)?;
            parent = Some(ParentIndex {
                unique: is_unique(&parent_schema, fit.parent_index, parts),
                index: fit.parent_index,
                bridge,
                codec: keys_of(&found, parent_schema)?,
                table: found,
            });
        }
    }
    let this = (&**schema, index);
    let present = bridged(&foreign, this, this, parts)?;
    Ok(ToParent { foreign, index, seen: index, present, parent, own })
}

pub(super) fn keys_of(table: &Table, schema: Arc<Schema>) -> Result<RowCodec> {
    let layout = RecordLayout::compact(&schema);
    RowCodec::bind(&table.def().name, schema, layout, History::default(), Arc::new(PlainSortKeys))
}

fn to_child(
    core: &Arc<Core>,
    table: &Arc<Table>,
    schema: &Arc<Schema>,
    foreign: Arc<Foreign>,
) -> Result<Option<ToChild>> {
    let Some(child) = open(core, &foreign.table)? else { return Ok(None) };
    let child_schema = match child.id() == table.id() {
        true => schema.clone(),
        false if foreign.state == ForeignState::Guarding => Arc::new(building_schema_of(&child)?),
        false => schema_of(&child)?,
    };
    let Ok(fit) = fit(&foreign, &child_schema, schema) else { return Ok(None) };
    let from = (&**schema, fit.parent_index);
    let to = (&*child_schema, fit.child_index);
    let bridge = bridged(&foreign, from, to, foreign.columns.len())?;
    let (on_delete, on_update) = match foreign.state {
        ForeignState::Active => (foreign.on_delete, foreign.on_update),
        _ => (Action::Restrict, Action::Restrict),
    };
    Ok(Some(ToChild { foreign, child, child_schema, fit, bridge, on_delete, on_update }))
}
