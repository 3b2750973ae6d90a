//! What the lines before a statement tell: about the event, and about the following events.

use frond_event::text::Stamp;
use frond_event::Micros;

/// Values from one event's lines that the event has no field for.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) mariadb: bool,
    pub(super) schema: bool,
    pub(super) clock_jumped: bool,
    pub(super) bad_value: bool,
    pub(super) own_stamp: bool,
    pub(super) timestamp: Option<Micros>,
    pub(super) start: Option<Stamp>,
    pub(super) end: Option<Stamp>,
}

/// The values that an event may inherit from the lines before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Carry {
    pub stamp: Option<Stamp>,
    pub db: Vec<u8>,
    /// Seconds east of UTC, as far as events tell it.
    pub zone: Option<i32>,
}

/// The event's database: `schema` comes from its head, `used` from `use`. They are equal on every server
/// that writes both.
#[inline]
pub(super) fn database<'a>(schema: &'a [u8], used: Option<&'a [u8]>) -> Option<&'a [u8]> {
    if schema.is_empty() {
        used
    } else {
        Some(schema)
    }
}
