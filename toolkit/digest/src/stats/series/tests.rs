use super::*;

#[test]
fn the_order_of_events_does_not_matter() {
    let times: Vec<i64> = (0..500).map(|i| (i * i * 31) % 100_000).collect();
    let (mut a, mut b) = (Series::<Doubled>::default(), Series::<Doubled>::default());
    let mut parts =
        [Series::<Doubled>::default(), Series::<Doubled>::default(), Series::<Doubled>::default()];
    for (i, t) in times.iter().enumerate() {
        a.add(t * SECOND + 999_999, 7, 32);
        b.add(times[times.len() - 1 - i] * SECOND + 500_000, 7, 32);
        parts[i % 3].add(t * SECOND + 1, 7, 32);
    }
    let [mut merged, second, third] = parts;
    merged.merge(&second, 32);
    merged.merge(&third, 32);
    assert_eq!(a.at_width(1), b.at_width(1));
    assert_eq!(a.at_width(1), merged.at_width(1));
    let all = a.at_width(1);
    assert!(all.len() <= 32 && all.len() > 8);
    assert_eq!(all.iter().map(|(_, i)| i.count).sum::<u32>(), 500);
    assert!(all.windows(2).all(|w| w[0].0 < w[1].0));
}

#[test]
fn what_is_packed_is_what_was_added() {
    let mut series = Series::<Doubled>::default();
    let mut sums = std::collections::BTreeMap::new();
    for i in 0..2000_u64 {
        // Nanoseconds and microseconds, none and the most there can be.
        let time = [0, 1, 999, 5_000, 123_456_789, 499_999_000][i as usize % 6] * (i % 3);
        let second = (i as i64 * 7919) % 30 * 100_000 + 1_700_000_000;
        series.add(second * SECOND + 999_999, time, 40);
        let sum: &mut (u32, u64) = sums.entry(second).or_default();
        *sum = (sum.0 + 1, sum.1 + time);
    }
    assert_eq!(series.count, 28, "all but two are packed");
    let found = series.at_width(1).into_iter().map(|(at, i)| (at, (i.count, i.time)));
    assert!(found.eq(sums));
    assert!(series.memory() < 30 * 16 + ROOM, "{}", series.memory());
}

#[test]
fn intervals_begin_at_multiples_of_their_width() {
    let mut series = Series::<Doubled>::default();
    for second in [100, 101, 163, 5, -5] {
        series.add(second * SECOND, 1, 100);
    }
    assert_eq!(series.width(), 1);
    let at: Vec<_> = series.at_width(60).iter().map(|(t, i)| (*t, i.count)).collect();
    assert_eq!(at, [(0, 2), (64, 2), (128, 1)]);
}

/// (begin in seconds, count, nanoseconds)
fn shown<W: Widths>(series: &Series<W>) -> Vec<(i64, u32, u64)> {
    series.at_width(1).into_iter().map(|(at, i)| (at, i.count, i.time)).collect()
}

fn random(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed >> 8
}

/// Events (end in microseconds, nanoseconds): short ones, long ones, some that end with a second, a few of days.
fn events(seed: u64, n: usize, seconds: i64) -> Vec<(i64, u64)> {
    let mut seed = seed | 1;
    let one = |_| {
        let at = random(&mut seed) as i64 % (seconds * SECOND) + 1_700_000_000 * SECOND;
        let time = 1 << (random(&mut seed) % 38);
        match random(&mut seed) % 10 {
            0 => (at / SECOND * SECOND, time),
            1 => (at, 0),
            2 => (at, time * 300),
            _ => (at, random(&mut seed) % time),
        }
    };
    (0..n).map(one).collect()
}

#[test]
fn a_long_statement_is_in_all_intervals_in_which_it_ran() {
    let begin = 1_773_144_060;
    let mut series = Series::<Clock>::default();
    for second in (0..900).step_by(10) {
        series.add((begin - 60 + second) * SECOND + 100_000, 100_000_000, 40);
    }
    series.add((begin + 600) * SECOND, 600_000_000_000, 40);
    let all = series.at_width(60);
    let load = |minute: usize| all[minute].1.time as f64 / 60e9;
    assert!((1..11).all(|minute| (load(minute) - 1.01).abs() < 1e-9), "{all:?}");
    assert!([0, 11, 12, 13, 14].iter().all(|minute| load(*minute) < 0.02), "{all:?}");
    // A statement counts where it ends.
    assert_eq!(all.iter().map(|(_, i)| i.count).collect::<Vec<_>>()[10..13], [6, 7, 6]);
}

#[test]
fn all_orders_and_parts_of_long_statements_give_the_truth() {
    all_orders::<Doubled>();
    all_orders::<Clock>();
}

fn all_orders<W: Widths>() {
    for (seed, seconds, limit) in
        [(1, 30, 40), (2, 3000, 40), (3, 90_000, 40), (4, 90_000, 300), (5, 3, 2), (6, 4000, 7)]
    {
        let events = events(seed, 400, seconds);
        let mut one = Series::<W>::default();
        let mut back = Series::<W>::default();
        let mut parts = [(); 5].map(|()| Series::<W>::default());
        for (i, (end, time)) in events.iter().enumerate() {
            one.add(*end, *time, limit);
            parts[i * i % 5].add(*end, *time, limit);
        }
        events.iter().rev().for_each(|(end, time)| back.add(*end, *time, limit));
        let mut merged = Series::<W>::default();
        parts.iter().rev().for_each(|part| merged.merge(part, limit));
        assert_eq!(shown(&one), shown(&back), "{seed}");
        assert_eq!(shown(&one), shown(&merged), "{seed}");
        // The width is the least at which there are few enough intervals, and each interval has its part of the
        // time.
        let width = one.width();
        let truth = |width: i64| {
            let mut all = std::collections::BTreeMap::<i64, (u32, u64)>::new();
            let ns = width * 1_000_000_000;
            for (end, time) in &events {
                let (end, mut at) = (end * 1000, end * 1000 - *time as i64);
                all.entry(end / ns).or_default().0 += 1;
                while at < end {
                    let to = ((at / ns + 1) * ns).min(end);
                    all.entry(at / ns).or_default().1 += (to - at) as u64;
                    at = to;
                }
            }
            all.into_iter().map(|(at, (n, time))| (at * width, n, time)).collect::<Vec<_>>()
        };
        assert_eq!(shown(&one), truth(width), "{seed}");
        assert!(one.at_width(1).len() <= limit, "{seed}");
        let finer = W::SECONDS.iter().rev().find(|w| **w < width as u64);
        assert!(finer.is_none_or(|w| truth(*w as i64).len() > limit), "{seed}: {width}");
        assert_eq!(
            one.at_width(1).iter().map(|(_, i)| i.time).sum::<u64>(),
            events.iter().map(|(_, time)| time).sum::<u64>(),
            "{seed}"
        );
    }
}

#[test]
fn no_statement_is_too_long_and_none_is_before_1970() {
    extremes::<Doubled>();
    extremes::<Clock>();
}

fn extremes<W: Widths>() {
    for times in [[u64::MAX, 5], [5, u64::MAX], [u64::MAX, u64::MAX]] {
        let mut series = Series::<W>::default();
        for time in times {
            series.add(1_700_000_000 * SECOND, time, 40);
            series.add(-7 * SECOND, 9, 40);
            series.add(i64::MAX, 1_000, 40);
        }
        let all = shown(&series);
        assert!(all.len() <= 40 && all[0].0 == 0, "{all:?}");
        assert_eq!(all.iter().map(|i| i.1).sum::<u32>(), 6);
    }
}
