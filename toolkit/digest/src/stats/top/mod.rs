//! How often each string of one kind (users, hosts, databases) occurs within a class.
//!
//! Up to `FEW` strings are in a list, more in a hash table, as long as the room lasts that the tables of all classes
//! share (`Room`). When it is used up, the strings that are there by then (of a list, its most frequent) stay, and all
//! others compete for `LATE` counters by Space-Saving (Metwally, Agrawal and El Abbadi, 2005): a string that finds no
//! counter takes the lowest, and inherits what that one had as what may have been missed of it.
//!
//! Invariants:
//!
//! - TP1. What is said of a string was added of it: a count is exact or a lower bound. What was added of strings that lost
//!   their counter is said of `OTHERS`, so the sums are those of the class.
//! - TP2. If `n` events are of strings that compete, each string with more than `n / LATE` of them has a counter, which
//!   misses at most `n / LATE`: whoever comes late is seen, however many there are.
//! - TP3. While there is room, every count is exact and so does not depend on the order of events. Behind that it does.
//!
//! Rejected: Space-Saving for all strings. Forty equally busy hosts take each other's counters for ever, and what is
//! then certain of each is next to nothing.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::sync::Arc;

use super::names::{NameId, NAME_BITS, OTHERS};

/// Strings in a list. Every class has three of these.
const FEW: usize = 16;

/// Strings of a list that stay when there is no room for a table, and counters for all others: together they take what
/// the list took.
const STAY: usize = 6;
const LATE: usize = 6;
const _: () = assert!(std::mem::size_of::<Scarce>() <= FEW * std::mem::size_of::<Packed>());

/// Slots of the first table, which come to more by a half each time; seven of eight are used at most.
const SLOTS: usize = 24;

/// Bytes for the tables of all classes, and how many of them each class takes away by being there: with 40 000 classes
/// (`MAX_CLASSES`) there is no memory left for tables, with few there is plenty.
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

/// What is left of the bytes for tables; may be less than nothing.
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

    /// There is one class more.
    pub(super) fn class_comes(&self) {
        self.0.fetch_sub(PER_CLASS, Ordering::Relaxed);
    }

    /// There is one class less.
    pub(super) fn class_goes(&self) {
        self.0.fetch_add(PER_CLASS, Ordering::Relaxed);
    }
}

/// A part of the room, given back when it is dropped.
#[derive(Debug)]
struct Lease {
    room: Arc<Room>,
    bytes: usize,
}

impl Lease {
    /// Makes it `bytes` if there is room.
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

/// Copies are made of one class at a time, for a report: they need no room.
impl Clone for Lease {
    fn clone(&self) -> Self {
        Lease { room: self.room.clone(), bytes: 0 }
    }
}

/// A string that competes for a counter. All zero: a free counter.
#[derive(Clone, Copy, Debug, Default)]
struct Late {
    share: Packed,
    /// At most so many of its events are not in the count.
    missed: u64,
}

impl Late {
    fn most(&self) -> u64 {
        (self.share.what >> NAME_BITS).saturating_add(self.missed)
    }
}

/// More strings than a list has.
#[derive(Clone, Debug)]
struct Many {
    slots: Box<[Packed]>,
    used: usize,
    lease: Lease,
    /// Once there is no room.
    rivals: Option<Box<Rivals>>,
}

/// What is left of a list for which there was no room.
#[derive(Clone, Debug)]
struct Scarce {
    stay: [Packed; STAY],
    rivals: Rivals,
}

/// Space-Saving.
#[derive(Clone, Debug, Default)]
struct Rivals {
    late: [Late; LATE],
    /// Of strings that lost their counter.
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
    /// Exact shares of different strings, as many as there are.
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

    /// Adds events of a string, of which at most `missed` more are not told.
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
                // Every class has three of these: no room is wasted.
                few.reserve_exact((1 + few.len() / 4).min(FEW - few.len()));
            }
            few.push(share.into());
        } else {
            let many = Many::of(few, room).filter(|_| missed == 0);
            self.0 = many.map_or_else(|| Kind::Scarce(Scarce::of(few)), Kind::Many);
            self.put(share, missed, room);
        }
    }

    /// Adds what another counted; `map` gives this one's number of the other's.
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
        // The other may have seen ours, too.
        for ours in ours.into_iter().flat_map(|ours| &mut ours.late).filter(|l| l.share.what != 0) {
            if !late.iter().any(|(share, _)| share.id == ours.share.id()) {
                ours.missed = ours.missed.saturating_add(theirs.floor());
            }
        }
        late.into_iter().for_each(|(share, missed)| self.put(share, missed, room));
        self.put(Share { id: OTHERS, ..theirs.others.share() }, 0, room);
    }

    /// The most frequent first, and `OTHERS` last: a name says more than the rest does.
    pub fn sorted(&self) -> Vec<Share> {
        let (all, rivals): (&[Packed], Option<&Rivals>) = match &self.0 {
            Kind::Few(few) => (few, None),
            Kind::Many(many) => (&many.slots, many.rivals.as_deref()),
            Kind::Scarce(scarce) => (&scarce.stay, Some(&scarce.rivals)),
        };
        let late = rivals.into_iter().flat_map(|r| r.late.iter().map(|l| &l.share));
        let told = all.iter().chain(late).filter(|s| s.what != 0).map(|s| s.share());
        // Of some there was not even a number.
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

    /// Without what is in the room of all classes.
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
    /// Of a list, if there is room.
    fn of(few: &[Packed], room: &Arc<Room>) -> Option<Box<Many>> {
        let lease = Lease { room: room.clone(), bytes: 0 };
        let mut many = Box::new(Many { slots: Box::default(), used: 0, lease, rivals: None });
        let fits = many.resize(SLOTS);
        few.iter().filter(|_| fits).for_each(|share| many.insert(*share));
        fits.then_some(many)
    }

    /// Where a string is, or would be. There is always a free slot.
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
    /// `missed` is what is known of the string apart from what these know.
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

    /// What a string without a counter had at most.
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
