//! Loops of two to four statements in turn (A, B, A, B) on one connection.
//!
//! A statement whose class equals that of `n` statements before continues a loop of the period `n`. The state of a
//! connection is its last classes and, for each period, for how long it has continued.
//!
//! Invariants:
//!
//! - LO1. A connection's state has a fixed size, and a statement costs `LONGEST` comparisons at most.
//! - LO2. A loop is counted with its smallest period: A, A, A, A is no loop of A, A, and A, B, A, B none of four.
//! - LO3. Loops that differ only in where they begin (A, B and B, A) are one (`Key`).

/// The most statements in a turn.
pub const LONGEST: usize = 4;

const SHORTEST: usize = 2;

/// As many classes as a loop of the longest period needs, and the one before it.
const KEPT: usize = LONGEST + 1;

/// The classes of a turn, in the order in which they run; a shorter turn is filled up with zeros.
pub type Turn = [u64; LONGEST];

/// The rotation of a turn that is smallest.
pub type Key = Turn;

/// The last statements of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Loops {
    /// Number of statements so far; statement `n` is at `n % KEPT`.
    seen: usize,
    classes: [u64; KEPT],
    /// For each of them, the nanoseconds of all statements before it.
    times: [u64; KEPT],
    time: u64,
    open: [Open; LONGEST - SHORTEST + 1],
}

/// A loop of one period that may go on.
#[derive(Clone, Copy, Debug, Default)]
struct Open {
    /// Statements that continued it; 0: there is none.
    continued: usize,
    /// The class before it; 0: none.
    before: u64,
    /// Nanoseconds of all statements before it.
    time: u64,
}

/// A loop that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Loop {
    /// The classes from where it began.
    pub turn: Turn,
    pub turns: u64,
    pub statements: u64,
    pub time: u64,
    pub before: u64,
}

impl Loops {
    /// Adds the connection's next statement; `ended` gets the loops that it does not continue.
    pub fn add(&mut self, class: u64, time: u64, mut ended: impl FnMut(Loop)) {
        for period in SHORTEST..=LONGEST {
            if self.back(period) != Some(class) {
                self.end(period, &mut ended);
                continue;
            }
            let (before, begin) = (self.back(period + 1).unwrap_or(0), self.place(period));
            let open = &mut self.open[period - SHORTEST];
            if open.continued == 0 {
                *open = Open { continued: 0, before, time: self.times[begin] };
            }
            open.continued += 1;
        }
        let place = self.seen % KEPT;
        (self.classes[place], self.times[place]) = (class, self.time);
        self.time = self.time.saturating_add(time);
        self.seen += 1;
    }

    /// The connection ended.
    pub fn finish(&mut self, mut ended: impl FnMut(Loop)) {
        for period in SHORTEST..=LONGEST {
            self.end(period, &mut ended);
        }
    }

    /// The index of the statement `n` before the next one.
    fn place(&self, n: usize) -> usize {
        (self.seen + KEPT - n) % KEPT
    }

    fn back(&self, n: usize) -> Option<u64> {
        (n <= self.seen).then(|| self.classes[self.place(n)])
    }

    fn end(&mut self, period: usize, ended: &mut impl FnMut(Loop)) {
        let open = std::mem::take(&mut self.open[period - SHORTEST]);
        if open.continued == 0 {
            return;
        }
        let statements = open.continued + period;
        let mut turn = [0; LONGEST];
        for (i, class) in turn.iter_mut().enumerate().take(period) {
            // The number of statements from `i` to the next one, counted from the loop's beginning,
            // without whole turns.
            let n = (statements - i - 1) % period + 1;
            *class = self.classes[self.place(n)];
        }
        let smaller = (1..period).filter(|n| period.is_multiple_of(*n));
        if smaller.into_iter().any(|n| (n..period).all(|i| turn[i] == turn[i - n])) {
            return;
        }
        ended(Loop {
            turn,
            turns: (statements / period) as u64,
            statements: statements as u64,
            time: self.time.saturating_sub(open.time),
            before: open.before,
        });
    }
}

/// The key of a turn, which is the same for each place at which the turn may begin.
pub(super) fn key(turn: Turn) -> Key {
    let period = turn.iter().position(|class| *class == 0).unwrap_or(LONGEST);
    let from = |first: usize| {
        let mut other = [0; LONGEST];
        for (i, class) in other.iter_mut().enumerate().take(period) {
            *class = turn[(first + i) % period];
        }
        other
    };
    (0..period).map(from).min().unwrap_or(turn)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finds loops of at least five turns in statements whose classes are letters; each statement takes 10 ns.
    fn loops(statements: &str) -> Vec<(String, u64, u64, u64, char)> {
        let mut found = Vec::new();
        let mut each = |l: Loop| {
            let name = |class: u64| if class == 0 { '-' } else { class as u8 as char };
            let turn = l.turn.iter().filter(|c| **c != 0).map(|c| name(*c)).collect();
            if l.turns >= 5 {
                found.push((turn, l.turns, l.statements, l.time, name(l.before)));
            }
        };
        let mut connection = Loops::default();
        for class in statements.bytes() {
            connection.add(class.into(), 10, &mut each);
        }
        connection.finish(&mut each);
        found
    }

    #[test]
    fn turns_of_two_to_four_statements_are_found_with_what_came_before() {
        let one = |turn: &str, turns, statements, before| {
            (turn.to_owned(), turns, statements, statements * 10, before)
        };
        assert_eq!(loops("xABABABABABy"), [one("AB", 5, 10, 'x')]);
        assert_eq!(loops("ABABABABABA"), [one("AB", 5, 11, '-')]);
        assert_eq!(loops(&("qx".to_owned() + &"ABC".repeat(7) + "z")), [one("ABC", 7, 21, 'x')]);
        assert_eq!(loops(&("x".to_owned() + &"AABC".repeat(6))), [one("AABC", 6, 24, 'x')]);
        assert_eq!(loops(&"AAB".repeat(5)), [one("AAB", 5, 15, '-')]);
        let twice = "AB".repeat(5) + "x" + &"AB".repeat(6);
        assert_eq!(loops(&twice), [one("AB", 5, 10, '-'), one("AB", 6, 12, 'x')]);
    }

    #[test]
    fn runs_of_one_class_and_short_loops_are_none() {
        for none in ["AAAAAAAAAAAAAAAAAAAA", "ABABABAB", "ABCDE", "ABCDEABCDEABCDEABCDEABCDE", ""] {
            assert_eq!(loops(none), [], "{none}");
        }
        // A loop of four that is twice a loop of two counts as the latter.
        assert_eq!(loops(&"ABAB".repeat(5)).len(), 1);
    }

    #[test]
    fn where_a_loop_begins_makes_no_difference() {
        assert_eq!(key([3, 1, 2, 0]), key([1, 2, 3, 0]));
        assert_eq!(key([1, 2, 1, 3]), key([1, 3, 1, 2]));
        assert_ne!(key([1, 2, 3, 0]), key([1, 3, 2, 0]));
    }

    /// Compares with a search in the whole sequence.
    #[test]
    fn what_is_found_is_what_a_slow_search_finds() {
        let mut random = 12_345_u64;
        let mut next = move |n: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % n
        };
        for _ in 0..3000 {
            let turn: Vec<u8> = (0..2 + next(3)).map(|_| b'A' + next(3) as u8).collect();
            let mut text: Vec<u8> = (0..next(6)).map(|_| b'A' + next(4) as u8).collect();
            text.extend(turn.iter().cycle().take(next(40) as usize));
            text.extend((0..next(6)).map(|_| b'A' + next(4) as u8));
            let mut slow = Vec::new();
            for period in SHORTEST..=LONGEST {
                let mut at = 0;
                while at + period < text.len() {
                    let length = (at + period..text.len())
                        .take_while(|i| text[*i] == text[*i - period])
                        .count();
                    let whole = &text[at..at + period];
                    let primitive = (1..period)
                        .filter(|n| period.is_multiple_of(*n))
                        .all(|n| (n..period).any(|i| whole[i] != whole[i - n]));
                    if length > 0 && primitive && (length + period) / period >= 5 {
                        slow.push((String::from_utf8(whole.to_vec()).unwrap(), length + period));
                    }
                    at += length + 1;
                }
            }
            let text = String::from_utf8(text).unwrap();
            let mut found: Vec<_> = loops(&text).into_iter().map(|l| (l.0, l.2 as usize)).collect();
            slow.sort();
            found.sort();
            assert_eq!(found, slow, "{text}");
        }
    }
}
