//! Holders: what keeps log from being trimmed.
//!
//! A holder names the oldest record that it still needs. These are tables, with changes that no image
//! of theirs has, commits that are in the log but not in the buffers yet (K4), prepared transactions, and
//! a backup that has not copied the log yet.
//! Whatever else reads the log later (a replica) is one more holder: it implements
//! the trait, and `trim_log` asks it. A table can be made to let go ([`Core::shorten_log`]), by an image, and a
//! prepared transaction ([`Core::renew_prepared`]), by another record.
//!
//! Holders are asked after the log's end was read (K2): records that they begin to need meanwhile
//! are behind that end.
//!
//! [`Core::shorten_log`]: crate::commit::core::Core::shorten_log
//! [`Core::renew_prepared`]: crate::commit::core::Core::renew_prepared

use std::sync::Arc;

use frond_base::Lsn;
use frond_txn::CommitClock;

use crate::table::Table;

/// See the module.
pub trait Holder {
    /// The start of the oldest record that is needed; `None`: no record that is in the log now.
    fn holds_log_from(&self) -> Option<Lsn>;
}

impl Holder for Arc<Table> {
    fn holds_log_from(&self) -> Option<Lsn> {
        match self.is_dropped() {
            true => None,
            false => self.needed_from(),
        }
    }
}

impl<H: Holder> Holder for &H {
    fn holds_log_from(&self) -> Option<Lsn> {
        H::holds_log_from(self)
    }
}

impl Holder for CommitClock {
    fn holds_log_from(&self) -> Option<Lsn> {
        self.applied_upto()
    }
}

/// The holder that needs the oldest record, and that record's start.
pub fn oldest<H: Holder>(holders: impl IntoIterator<Item = H>) -> Option<(Lsn, H)> {
    let holding = holders.into_iter().filter_map(|h| h.holds_log_from().map(|lsn| (lsn, h)));
    holding.min_by_key(|(lsn, _)| *lsn)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct From(Option<Lsn>);

    impl Holder for From {
        fn holds_log_from(&self) -> Option<Lsn> {
            self.0
        }
    }

    #[test]
    fn holder_of_the_oldest_record_is_found_among_those_that_hold_none() {
        let found = oldest([From(None), From(Some(9)), From(Some(4)), From(None)]);
        assert_eq!(found.map(|(lsn, holder)| (lsn, holder.0)), Some((4, Some(4))));
        assert!(oldest([From(None)]).is_none());
    }
}
