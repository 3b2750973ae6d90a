//! The longest time in which no connection sent anything.
//!
//! Packets show that a clock was set back (their times go back), but not that it was set forward: a
//! statement that was running then seems to have taken as long as the jump. The truth is
//! unknown, but the report can say that for so long no packet of any connection was captured.

use frond_event::{Event, Metric, Micros};

/// Shorter pauses are normal: ten minutes, in nanoseconds.
const LONG: i64 = 600_000_000_000;

/// See the module's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Silence {
    /// Begin and end, microseconds since the epoch.
    pub between: Option<(Micros, Micros)>,
    /// Number of statements whose times include it.
    pub statements: u64,
}

impl Silence {
    /// Notes the time of a packet and that of the next one.
    #[inline]
    pub(super) fn packets(&mut self, before: i64, now: i64) {
        if now.saturating_sub(before) >= LONG {
            self.begin(before.div_euclid(1000), now.div_euclid(1000));
        }
    }

    #[cold]
    fn begin(&mut self, from: Micros, to: Micros) {
        let known = self.between.map_or(0, |(from, to)| to.saturating_sub(from));
        // A silence within no statement's time does no harm.
        if self.statements == 0 || to.saturating_sub(from) > known {
            *self = Silence { between: Some((from, to)), statements: 0 };
        }
    }

    #[inline]
    pub(super) fn event(&mut self, event: &Event<'_>) {
        let (Some((from, to)), Some(start)) = (self.between, event.start) else { return };
        if start > from {
            return;
        }
        let time = event.metrics.get(Metric::QueryTime).unwrap_or(0) / 1000;
        let end = start.saturating_add(i64::try_from(time).unwrap_or(i64::MAX));
        self.statements += u64::from(end >= to);
    }
}
