//! How often each string of one kind (users, hosts, databases) occurs within a class.
//!
//! Up to `FEW` strings are in a list, more in a hash table, as long as the memory that the tables
//! of all classes share (`Room`) lasts. When it is used up, the strings in the table (or the most frequent
//! of a list) stay, and all others compete for `LATE` counters by Space-Saving (Metwally,
//! Agrawal and El Abbadi, 2005): a string that finds no counter takes the lowest one, and inherits its
//! count as the number that may have been missed.
//!
//! Invariants:
//!
//! - TP1. A string's count is exact or a lower bound. Counts of strings that lost their counter are
//!   added to `OTHERS`, so the sums are those of the class.
//! - TP2. If `n` events have competing strings, each string with more than `n / LATE` of them
//!   has a counter, which misses at most `n / LATE`. So late strings are found, however many there
//!   are.
//! - TP3. While the memory lasts, every count is exact and so independent of the order of
//!   events. After that it may depend on it.
//!
//! Rejected: Space-Saving for all strings. Forty equally busy hosts would take each other's counters for
//! ever, so that hardly any of their counts would be certain.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::sync::Arc;

use super::names::{NameId, NAME_BITS, OTHERS};

/// Strings in a list. Every class has three of these.
const FEW: usize = 16;

/// Strings of a list that stay when there is no room for a table, and counters for all others. Together they take the
/// memory of the list.
const STAY: usize = 6;
const LATE: usize = 6;
const _: () = assert!(std::mem::size_of::<Scarce>() <= FEW * std::mem::size_of::<Packed>());

/// Slots of the first table; each growth adds half. At most seven of eight slots are used.
const SLOTS: usize = 24;

/// Bytes for the tables of all classes, and the part of them that each class takes away by existing: with 40 000
/// classes (`MAX_CLASSES`) no memory is left for tables, with few classes there is plenty.
const ROOM: isize = 8 << 20;
const PER_CLASS: isize = 200;

/// One string's share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    pub id: NameId,
    pub count: u64,
    /// Nanoseconds.
    pub time: u64,
}

/// A share in 16 bytes: the count, which saturates, stands above the string's number. All zero: a free slot.
#[derive(Clone, Copy, Debug, Default)]
struct Packed {
    what: u64,
    time: u64,
}

const ONE: u64 = 1 << NAME_BITS;

impl From<Share> for Packed {
    fn from(share: Share) -> Packed {
        let count = share.count.min(u64::MAX >> NAME_BITS);
        Packed { what: count << NAME_BITS | u64::from(share.id), time: share.time }
    }
}

impl Packed {
    #[inline]
    fn id(self) -> NameId {
        (self.what & (ONE - 1)) as NameId
    }

    fn share(self) -> Share {
        Share { id: self.id(), count: self.what >> NAME_BITS, time: self.time }
    }

    #[inline]
    fn add(&mut self, time: u64) {
        self.what = self.what.checked_add(ONE).unwrap_or(self.what);
        self.time = self.time.saturating_add(time);
    }

    fn add_share(&mut self, share: Share) {
        let count = (self.what >> NAME_BITS).saturating_add(share.count);
        *self = Share { count, time: self.time.saturating_add(share.time), ..share }.into();
    }
}

/// The bytes left for tables; may be negative.
#[derive(Debug)]
pub struct Room(AtomicIsize);

impl Default for Room {
    fn default() -> Self {
        Room(AtomicIsize::new(ROOM))
    }
}

impl Room {
    fn of(bytes: isize) -> Arc<Room> {
        Arc::new(Room(AtomicIsize::new(bytes)))
    }

    /// Counts one class more.
    pub(super) fn class_comes(&self) {
        self.0.fetch_sub(PER_CLASS, Ordering::Relaxed);
    }

    /// Counts one class less.
    pub(super) fn class_goes(&self) {
        self.0.fetch_add(PER_CLASS, Ordering::Relaxed);
    }
}

/// A part of that memory, returned when dropped.
#[derive(Debug)]
struct Lease {
    room: Arc<Room>,
    bytes: usize,
}

impl Lease {
    /// Changes its size to `bytes`; false if the memory does not suffice.
    fn grow(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let take = |left: isize| left.checked_sub_unsigned(more).filter(|left| *left >= 0);
        let taken = self.room.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok();
        self.bytes += if taken { more } else { 0 };
        taken
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.room.0.fetch_add(self.bytes as isize, Ordering::Relaxed);
    }
}

/// Copies exist for one class at a time, for a report, so they are not counted.
impl Clone for Lease {
    fn clone(&self) -> Self {
        Lease { room: self.room.clone(), bytes: 0 }
    }
}

/// A string that competes for a counter. All zero: a free counter.
#[derive(Clone, Copy, Debug, Default)]
struct Late {
    share: Packed,
    /// At most this many of its events are not in the count.
    missed: u64,
}

impl Late {
    fn most(&self) -> u64 {
        (self.share.what >> NAME_BITS).saturating_add(self.missed)
    }
}

/// More strings than fit into a list.
#[derive(Clone, Debug)]
struct Many {
    slots: Box<[Packed]>,
    used: usize,
    lease: Lease,
    /// Set when the memory is used up.
    rivals: Option<Box<Rivals>>,
}

/// The rest of a list that could not become a table.
#[derive(Clone, Debug)]
struct Scarce {
    stay: [Packed; STAY],
    rivals: Rivals,
}

/// The counters of Space-Saving.
#[derive(Clone, Debug, Default)]
struct Rivals {
    late: [Late; LATE],
    /// Counts of strings that lost their counter.
    others: Packed,
}

/// See the module's text.
#[derive(Clone, Debug)]
pub struct Top(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Few(Vec<Packed>),
    Many(Box<Many>),
    Scarce(Box<Scarce>),
}

impl Default for Top {
    fn default() -> Self {
        Top(Kind::Few(Vec::new()))
    }
}

impl Top {
    /// A list with exact shares of different strings, however many there are.
    pub(super) fn of(shares: impl Iterator<Item = Share>) -> Top {
        let mut top = Top::default();
        let endless = Room::of(isize::MAX / 2);
        shares.for_each(|share| top.add_share(share, &endless));
        top
    }

    #[inline]
    pub fn add(&mut self, id: NameId, time: u64, room: &Arc<Room>) {
        let found = match &mut self.0 {
            Kind::Few(few) => few.iter_mut().find(|s| s.id() == id),
            Kind::Many(many) => many.find(id),
            Kind::Scarce(scarce) => scarce.stay.iter_mut().find(|s| s.what != 0 && s.id() == id),
        };
        match found {
            Some(share) => share.add(time),
            None => self.put(Share { id, count: 1, time }, 0, room),
        }
    }

    /// Adds many events at once.
    pub fn add_share(&mut self, share: Share, room: &Arc<Room>) {
        self.put(share, 0, room);
    }

    /// Adds events of a string; at most `missed` more events of it are not in `share`.
    #[inline(never)]
    fn put(&mut self, share: Share, missed: u64, room: &Arc<Room>) {
        if share.count == 0 {
            return;
        }
        let few = match &mut self.0 {
            Kind::Few(few) => few,
            Kind::Many(many) => return many.put(share, missed),
            Kind::Scarce(scarce) => return scarce.put(share, missed),
        };
        if let Some(found) = few.iter_mut().find(|s| s.id() == share.id) {
            found.add_share(share);
        } else if few.len() < FEW && missed == 0 {
            if few.len() == few.capacity() {
                // Every class has three of these, so they are small.
                few.reserve_exact((1 + few.len() / 4).min(FEW - few.len()));
            }
            few.push(share.into());
        } else {
            let many = Many::of(few, room).filter(|_| missed == 0);
            self.0 = many.map_or_else(|| Kind::Scarce(Scarce::of(few)), Kind::Many);
            self.put(share, missed, room);
        }
    }

    /// Adds the counts of `other`; `map` translates its numbers to this one's.
    pub fn merge(&mut self, other: &Top, mut map: impl FnMut(NameId) -> NameId, room: &Arc<Room>) {
        let mut mapped = |packed: Packed| Share { id: map(packed.id()), ..packed.share() };
        match &other.0 {
            Kind::Few(few) => few.iter().for_each(|s| self.put(mapped(*s), 0, room)),
            Kind::Many(theirs) => {
                let exact = theirs.slots.iter().filter(|s| s.what != 0);
                exact.for_each(|s| self.put(mapped(*s), 0, room));
                if let Some(theirs) = &theirs.rivals {
                    self.merge_rivals(theirs, mapped, room);
                }
            }
            Kind::Scarce(theirs) => {
                theirs.stay.iter().for_each(|s| self.put(mapped(*s), 0, room));
                self.merge_rivals(&theirs.rivals, mapped, room);
            }
        }
    }

    fn merge_rivals(
        &mut self,
        theirs: &Rivals,
        mut mapped: impl FnMut(Packed) -> Share,
        room: &Arc<Room>,
    ) {
        if let Kind::Few(few) = &mut self.0 {
            self.0 = Kind::Scarce(Scarce::of(few));
        }
        let late = theirs.late.map(|late| (mapped(late.share), late.missed));
        let ours = match &mut self.0 {
            Kind::Many(many) => many.rivals.as_deref_mut(),
            Kind::Scarce(scarce) => Some(&mut scarce.rivals),
            Kind::Few(_) => None,
        };
        // The other one may have missed events of our strings, too.
        for ours in ours.into_iter().flat_map(|ours| &mut ours.late).filter(|l| l.share.what != 0) {
            if !late.iter().any(|(share, _)| share.id == ours.share.id()) {
                ours.missed = ours.missed.saturating_add(theirs.floor());
            }
        }
        late.into_iter().for_each(|(share, missed)| self.put(share, missed, room));
        self.put(Share { id: OTHERS, ..theirs.others.share() }, 0, room);
    }

    /// The most frequent first, and `OTHERS` last, since a name says more than the rest.
    pub fn sorted(&self) -> Vec<Share> {
        let (all, rivals): (&[Packed], Option<&Rivals>) = match &self.0 {
            Kind::Few(few) => (few, None),
            Kind::Many(many) => (&many.slots, many.rivals.as_deref()),
            Kind::Scarce(scarce) => (&scarce.stay, Some(&scarce.rivals)),
        };
        let late = rivals.into_iter().flat_map(|r| r.late.iter().map(|l| &l.share));
        let told = all.iter().chain(late).filter(|s| s.what != 0).map(|s| s.share());
        // Some strings did not even get a number.
        let (others, mut shares): (Vec<Share>, Vec<Share>) = told.partition(|s| s.id == OTHERS);
        let mut rest = rivals.map_or(Packed::default(), |r| r.others);
        others.into_iter().for_each(|share| rest.add_share(share));
        shares.extend((rest.what != 0).then(|| Share { id: OTHERS, ..rest.share() }));
        shares.sort_by_key(|s| (s.id == OTHERS, Reverse((s.count, s.time)), s.id));
        shares
    }

    /// Reads a number of each line of memory: see `Table::fetch`.
    #[inline]
    pub(super) fn touch(&self) -> u64 {
        match &self.0 {
            Kind::Few(few) => few.iter().step_by(4).fold(0, |read, share| read ^ share.time),
            Kind::Many(many) => many.used as u64,
            Kind::Scarce(scarce) => {
                let stay = scarce.stay.iter().step_by(4).fold(0, |read, share| read ^ share.time);
                scarce.rivals.late.iter().step_by(2).fold(stay, |read, late| read ^ late.missed)
            }
        }
    }

    /// Memory in bytes, without the part that is taken from `Room`.
    pub fn memory(&self) -> usize {
        match &self.0 {
            Kind::Few(few) => few.capacity() * std::mem::size_of::<Packed>(),
            Kind::Many(many) => {
                std::mem::size_of::<Many>()
                    + std::mem::size_of_val(&*many.slots).saturating_sub(many.lease.bytes)
                    + many.rivals.as_ref().map_or(0, |_| std::mem::size_of::<Rivals>())
            }
            Kind::Scarce(_) => std::mem::size_of::<Scarce>(),
        }
    }
}

impl Many {
    /// The table made from a list; `None` if there is no room.
    fn of(few: &[Packed], room: &Arc<Room>) -> Option<Box<Many>> {
        let lease = Lease { room: room.clone(), bytes: 0 };
        let mut many = Box::new(Many { slots: Box::default(), used: 0, lease, rivals: None });
        let fits = many.resize(SLOTS);
        few.iter().filter(|_| fits).for_each(|share| many.insert(*share));
        fits.then_some(many)
    }

    /// The slot of a string, or a free one for it. There is always a free slot.
    #[inline]
    fn slot(&self, id: NameId) -> usize {
        let hash = u64::from(id.wrapping_mul(0x9E37_79B1));
        let mut at = ((hash * self.slots.len() as u64) >> 32) as usize;
        while self.slots[at].what != 0 && self.slots[at].id() != id {
            at = if at + 1 == self.slots.len() { 0 } else { at + 1 };
        }
        at
    }

    #[inline]
    fn find(&mut self, id: NameId) -> Option<&mut Packed> {
        let at = self.slot(id);
        Some(&mut self.slots[at]).filter(|slot| slot.what != 0)
    }

    fn insert(&mut self, share: Packed) {
        self.slots[self.slot(share.id())] = share;
        self.used += 1;
    }

    /// False if there is no room.
    fn resize(&mut self, slots: usize) -> bool {
        if !self.lease.grow(slots * std::mem::size_of::<Packed>()) {
            return false;
        }
        let new = vec![Packed::default(); slots].into_boxed_slice();
        let old = std::mem::replace(&mut self.slots, new);
        self.used = 0;
        old.iter().filter(|s| s.what != 0).for_each(|share| self.insert(*share));
        true
    }

    /// Adds to a string's share.
    fn put(&mut self, share: Share, missed: u64) {
        if let Some(found) = self.find(share.id) {
            return found.add_share(share);
        }
        if self.rivals.is_none() && missed == 0 {
            let slots = self.slots.len();
            if (self.used + 1) * 8 <= slots * 7 || self.resize(slots + slots / 2) {
                return self.insert(share.into());
            }
        }
        self.rivals.get_or_insert_default().put(share, missed);
    }
}

impl Scarce {
    fn of(few: &mut [Packed]) -> Box<Scarce> {
        few.sort_by_key(|s| Reverse((s.what, s.time)));
        let (stay, late) = few.split_at(few.len().min(STAY));
        let mut scarce = Scarce { stay: Default::default(), rivals: Rivals::default() };
        scarce.stay.iter_mut().zip(stay).for_each(|(slot, share)| *slot = *share);
        let (late, gone) = late.split_at(late.len().min(LATE));
        for (slot, share) in scarce.rivals.late.iter_mut().zip(late) {
            slot.share = *share;
        }
        gone.iter().for_each(|share| scarce.rivals.give_up(*share));
        Box::new(scarce)
    }

    fn put(&mut self, share: Share, missed: u64) {
        match self.stay.iter_mut().find(|s| s.what != 0 && s.id() == share.id) {
            Some(found) => found.add_share(share),
            None => self.rivals.put(share, missed),
        }
    }
}

impl Rivals {
    /// Adds events. `missed` is the number that earlier structures may have missed of the string.
    fn put(&mut self, share: Share, missed: u64) {
        let is = |late: &&mut Late| late.share.what != 0 && late.share.id() == share.id;
        if let Some(late) = self.late.iter_mut().find(is) {
            late.share.add_share(share);
            late.missed = late.missed.saturating_add(missed);
            return;
        }
        let missed = missed.saturating_add(self.floor());
        if let Some(lowest) = self.late.iter_mut().min_by_key(|late| late.most()) {
            let gone = std::mem::replace(lowest, Late { share: share.into(), missed }).share;
            self.give_up(gone);
        }
    }

    /// The largest count that a string without a counter can have.
    fn floor(&self) -> u64 {
        self.late.iter().map(Late::most).min().unwrap_or(0)
    }

    fn give_up(&mut self, share: Packed) {
        if share.what != 0 {
            self.others.add_share(Share { id: OTHERS, ..share.share() });
        }
    }
}

#[cfg(test)]
mod tests;
