//! Transactions that a coordinator (MariaDB's binary log) ends in groups: when a round of group commit is worth its sync.
//!
//! A transaction that is prepared while a group is being written to the binary log joins the next group, whenever that
//! begins. So one sync of this log for each of those groups is enough: the first round after a group ended syncs at once,
//! for the next group; a second one waits until that group has ended, and then syncs for more. Without this, 64
//! connections need 1.4 to 2.1 syncs for each group of the binary log, and the rate is 4 % lower.
//!
//! - WCO1. Nothing is lost by waiting: a round waits [`MOST_WAIT`] at most. After a round has waited in vain, no round
//!   waits before another group ends. So transactions that stay prepared (XA) delay nobody.
//! - WCO2. With few connections nothing waits: each transaction's latency counts there.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// With fewer transactions under way no round waits.
const MANY: i64 = 6;
/// Longest wait of a round: the time of some groups of the binary log on a slow device.
const MOST_WAIT: Duration = Duration::from_millis(4);

/// Prepared transactions on their way through a coordinator.
#[derive(Default)]
pub(crate) struct Coordinated {
    /// Transactions that are durable and have not ended.
    under_way: AtomicI64,
    /// Groups that have ended.
    groups: AtomicU64,
    rounds: Mutex<Rounds>,
    group_ended: Condvar,
}

#[derive(Default)]
struct Rounds {
    /// The value of `groups` when the last round began.
    groups_before: u64,
    /// The value of `groups` when a round last waited in vain.
    in_vain: Option<u64>,
    /// Whether a round waits.
    waits: bool,
}

impl Coordinated {
    /// One more prepared transaction is durable.
    pub fn add(&self) {
        self.under_way.fetch_add(1, Ordering::Relaxed);
    }

    /// A prepared transaction has ended. `is_first`: it is the first of its group to end.
    pub fn end(&self, is_first: bool) {
        self.under_way.fetch_sub(1, Ordering::Relaxed);
        if is_first {
            self.groups.fetch_add(1, Ordering::Relaxed);
            if self.rounds.lock().waits {
                self.group_ended.notify_one();
            }
        }
    }

    /// A round for prepared transactions begins: returns when its sync is due, and whether it waited for the end of a
    /// group.
    pub fn begin_round(&self) -> bool {
        let mut rounds = self.rounds.lock();
        let groups = self.groups.load(Ordering::Relaxed);
        let is_second = groups == std::mem::replace(&mut rounds.groups_before, groups);
        let many = self.under_way.load(Ordering::Relaxed) >= MANY;
        if !is_second || !many || rounds.in_vain == Some(groups) {
            return false;
        }
        rounds.waits = true;
        // A wake-up without a cause only means an early sync.
        self.group_ended.wait_for(&mut rounds, MOST_WAIT);
        rounds.waits = false;
        rounds.groups_before = self.groups.load(Ordering::Relaxed);
        rounds.in_vain = (rounds.groups_before == groups).then_some(groups);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(under_way: i64) -> Coordinated {
        let all = Coordinated::default();
        (0..under_way).for_each(|_| all.add());
        all.groups.store(1, Ordering::Relaxed);
        all
    }

    #[test]
    fn the_first_round_after_a_group_does_not_wait_and_the_second_does() {
        let all = with(MANY + 1);
        assert!(!all.begin_round());
        std::thread::scope(|scope| {
            let second = scope.spawn(|| all.begin_round());
            while !all.rounds.lock().waits && !second.is_finished() {
                std::thread::yield_now();
            }
            all.end(true);
            assert!(second.join().is_ok_and(|waited| waited));
        });
    }

    #[test]
    fn few_transactions_never_wait_and_those_that_stay_prepared_delay_one_round() {
        let few = with(MANY - 1);
        assert!(!few.begin_round());
        assert!(!few.begin_round(), "WCO2");
        let idle = with(MANY);
        assert!(!idle.begin_round());
        assert!(idle.begin_round());
        assert!(!idle.begin_round(), "WCO1");
        assert!(!idle.begin_round(), "WCO1");
    }
}
