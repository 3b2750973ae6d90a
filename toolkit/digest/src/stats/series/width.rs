//! The widths of intervals. Series of classes double their width, because statistics need as many intervals as there
//! is room for. The series of everything has many intervals and uses the steps of a clock, because people read it.

/// Widths in seconds by level, ascending. Each divides the next, and any two times are in one interval of the last.
pub trait Widths: Clone + Default {
    const SECONDS: &'static [u64];
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Doubled;

impl Widths for Doubled {
    const SECONDS: &'static [u64] = &{
        let mut widths = [1; 33];
        let mut level = 1;
        while level < widths.len() {
            widths[level] = 2 * widths[level - 1];
            level += 1;
        }
        widths
    };
}

/// The units in which people divide time, as far as each divides the next; then days, doubled.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

impl Widths for Clock {
    const SECONDS: &'static [u64] = &{
        let clock = [
            1,
            5,
            15,
            30,
            MINUTE,
            5 * MINUTE,
            15 * MINUTE,
            30 * MINUTE,
            HOUR,
            3 * HOUR,
            6 * HOUR,
            12 * HOUR,
            DAY,
        ];
        let mut widths = [0; 29];
        let mut level = 0;
        while level < widths.len() {
            widths[level] =
                if level < clock.len() { clock[level] } else { DAY << (level + 1 - clock.len()) };
            level += 1;
        }
        widths
    };
}

/// The least width, in seconds, of which at most `most` intervals cover the time from `begin` to `end`, and into which
/// intervals of `least` seconds can be put.
pub fn covering(begin: i64, end: i64, least: i64, most: i64) -> i64 {
    let few = |width: i64| {
        i128::from(end.div_euclid(width)) - i128::from(begin.div_euclid(width)) < i128::from(most)
    };
    let mut width = least.max(1);
    while width < i64::MAX && !few(width) {
        let next = Clock::SECONDS.iter().map(|w| *w as i64).find(|w| *w > width);
        let on_clock = Clock::SECONDS.contains(&(width as u64));
        width = next.filter(|_| on_clock).unwrap_or(width.saturating_mul(2));
    }
    width
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<W: Widths>() {
        let widths = W::SECONDS;
        assert!(widths.windows(2).all(|w| w[1] % w[0] == 0 && w[1] > w[0]));
        assert_eq!(u64::from(u32::MAX) / widths[widths.len() - 1], 0);
        assert!(widths[widths.len() - 1] < u64::MAX / 1_000_000_000 / 2, "nanoseconds fit");
    }

    #[test]
    fn each_width_divides_the_next_and_the_last_is_enough() {
        check::<Doubled>();
        check::<Clock>();
    }

    #[test]
    fn intervals_are_few_and_whole() {
        assert_eq!(covering(0, 479, 1, 480), 1);
        assert_eq!(covering(0, 480, 1, 480), 5);
        assert_eq!(covering(0, 86_399, 1, 480), 300);
        assert_eq!(covering(0, 10_000, 64, 40), 256);
        assert_eq!(covering(i64::MIN, i64::MAX, 1, 2), i64::MAX);
        assert!(covering(-5, 5, i64::MAX, 2) == i64::MAX);
    }
}
