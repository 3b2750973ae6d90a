use std::collections::BTreeMap;

use super::*;
use crate::stats::names::UNKNOWN;

/// The true counts and times, by string.
type Truth = BTreeMap<NameId, (u64, u64)>;

fn add(top: &mut Top, truth: &mut Truth, id: NameId, room: &Arc<Room>) {
    let time = u64::from(id) + 7;
    top.add(id, time, room);
    let sum = truth.entry(id).or_default();
    *sum = (sum.0 + 1, sum.1 + time);
}

/// Checks TP1.
fn check(top: &Top, truth: &Truth) {
    let shares = top.sorted();
    for share in shares.iter().filter(|s| s.id != OTHERS) {
        assert!(share.count <= truth[&share.id].0 && share.time <= truth[&share.id].1);
    }
    let sum = shares.iter().fold((0, 0), |sum, s| (sum.0 + s.count, sum.1 + s.time));
    assert_eq!(sum, truth.values().fold((0, 0), |sum, s| (sum.0 + s.0, sum.1 + s.1)));
    let mut ids: Vec<NameId> = shares.iter().map(|s| s.id).collect();
    ids.sort_unstable();
    assert!(ids.windows(2).all(|w| w[0] != w[1]), "{ids:?}");
}

fn is_exact(top: &Top, truth: &Truth) -> bool {
    let shares: Truth = top.sorted().iter().map(|s| (s.id, (s.count, s.time))).collect();
    shares == *truth
}

#[test]
fn counts_are_exact_while_there_is_room() {
    let room = Arc::new(Room::default());
    let (mut top, mut truth) = (Top::default(), Truth::new());
    // Unknown strings have a number, too.
    for i in 0..200_000_u32 {
        let id = if i % 3 == 0 { i % 40 } else { i % 5000 };
        add(&mut top, &mut truth, if id == OTHERS { UNKNOWN } else { id }, &room);
    }
    check(&top, &truth);
    assert!(is_exact(&top, &truth) && top.sorted().len() == 4999);
    let taken = (ROOM - room.0.load(Ordering::Relaxed)) as usize;
    assert!(taken > 4999 * 16 && taken < 4999 * 30, "{taken}");
    assert!(top.clone().memory() > taken && top.memory() < 100);
    drop(top);
    assert_eq!(room.0.load(Ordering::Relaxed), ROOM);
}

#[test]
fn who_comes_late_is_seen_without_room() {
    for bytes in [0, 1000, 1500] {
        let room = Room::of(bytes);
        let (mut top, mut truth) = (Top::default(), Truth::new());
        for i in 0..2000 {
            add(&mut top, &mut truth, 100 + i % 100, &room);
        }
        for i in 0..60_000 {
            add(&mut top, &mut truth, 2 + i % 3, &room);
        }
        check(&top, &truth);
        assert!(!is_exact(&top, &truth));
        let most: Vec<_> = top.sorted().iter().take(3).map(|s| (s.id, s.count)).collect();
        assert_eq!(most, [(4, 20_000), (3, 20_000), (2, 20_000)]);
    }
}

#[test]
fn a_string_with_more_than_its_part_has_a_counter() {
    let mut seed = 3_u32;
    for bytes in [0, 1000] {
        let room = Room::of(bytes);
        let (mut top, mut truth) = (Top::default(), Truth::new());
        for i in 0..100_000_u32 {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // One in five events is of one string; all other strings are rare.
            let id = if i > 30_000 && i % 5 == 0 { 77 } else { 1000 + (seed >> 12) % 50_000 };
            add(&mut top, &mut truth, id, &room);
        }
        check(&top, &truth);
        let found = top.sorted().into_iter().find(|s| s.id == 77).map_or(0, |s| s.count);
        assert!(truth[&77].0 - found <= 100_000 / LATE as u64, "{found}");
    }
}

/// Parts with and without room are added to each other.
#[test]
fn parts_add_up() {
    for sizes in [[0, 0], [0, 1 << 20], [1 << 20, 0], [1000, 1000], [1 << 20, 1 << 20]] {
        let mut truth = Truth::new();
        let rooms = sizes.map(Room::of);
        let mut parts = [Top::default(), Top::default()];
        for i in 0..30_000 {
            for (part, (top, room)) in parts.iter_mut().zip(&rooms).enumerate() {
                let id = if i % 2 == 0 { 50 + part as u32 } else { 100 + i * i % 997 };
                add(top, &mut truth, id, room);
            }
        }
        let [mut ours, theirs] = parts;
        ours.merge(&theirs, |id| id, &rooms[0]);
        check(&ours, &truth);
        let first: Vec<NameId> = ours.sorted().iter().take(2).map(|s| s.id).collect();
        assert!(first.contains(&50) && first.contains(&51), "{first:?}");
        assert_eq!(is_exact(&ours, &truth), sizes == [1 << 20; 2]);
        // A short list, merged with a table.
        let mut short = Top::default();
        add(&mut short, &mut truth, 50, &rooms[0]);
        short.merge(&ours, |id| id, &Room::of(0));
        check(&short, &truth);
        assert!(short.sorted()[0].id == 50 || short.sorted()[1].id == 50);
    }
}

#[test]
fn counts_saturate() {
    let room = Arc::new(Room::default());
    let mut top = Top::default();
    for _ in 0..3 {
        top.add_share(Share { id: 5, count: u64::MAX / 2, time: u64::MAX / 2 }, &room);
        top.add(5, 1, &room);
    }
    let share = top.sorted()[0];
    assert_eq!((share.id, share.count, share.time), (5, u64::MAX >> NAME_BITS, u64::MAX));
}
