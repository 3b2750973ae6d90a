//! Whether a class's users are interactive or batch.
//!
//! Users are matched when their events are counted, and a class remembers the result: its list of users may not
//! have them all (`top`).

/// Patterns of users' names (with `*`).
#[derive(Clone, Debug, Default)]
pub struct Patterns {
    pub interactive: Vec<String>,
    pub batch: Vec<String>,
}

/// Bits of a class: a user of this group sent one of its statements.
pub(super) const INTERACTIVE: u8 = 1;
pub(super) const BATCH: u8 = 2;

/// Number of these bits in a record.
pub(super) const WAITING_BITS: u32 = 2;

/// The groups of users, in the order in which they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    Interactive,
    Unknown,
    Batch,
}

impl Waiting {
    /// The group of a class with these bits: interactive if one of its users is.
    pub(super) fn of(bits: u8) -> Waiting {
        match bits {
            0 => Waiting::Unknown,
            BATCH => Waiting::Batch,
            _ => Waiting::Interactive,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Waiting::Interactive => "interactive",
            Waiting::Unknown => "",
            Waiting::Batch => "batch",
        }
    }
}

/// The patterns, and which of them have matched a user.
#[derive(Debug, Default)]
pub(super) struct Groups(Vec<(String, u8, bool)>);

impl Groups {
    pub fn new(patterns: &Patterns) -> Groups {
        let of = |patterns: &[String], bit| -> Vec<_> {
            patterns.iter().map(|pattern| (pattern.clone(), bit, false)).collect()
        };
        Groups([of(&patterns.interactive, INTERACTIVE), of(&patterns.batch, BATCH)].concat())
    }

    /// The bits of a user who sent a statement.
    pub fn bits(&mut self, user: &[u8]) -> u8 {
        if self.0.is_empty() {
            return 0;
        }
        let user = String::from_utf8_lossy(user);
        let mut bits = 0;
        for (pattern, bit, found) in &mut self.0 {
            if matches(pattern, &user) {
                bits |= *bit;
                *found = true;
            }
        }
        bits
    }

    /// Patterns that matched nobody who sent a statement.
    pub fn missing(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|pattern| !pattern.2).map(|pattern| &*pattern.0)
    }
}

/// True if `name` matches `pattern`, in which `*` stands for anything.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((begin, rest)) => {
            let Some(left) = name.strip_prefix(begin) else { return false };
            (0..=left.len())
                .filter(|i| left.is_char_boundary(*i))
                .any(|i| matches(rest, &left[i..]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_user_names() {
        assert!(
            matches("web*", "web1")
                && matches("*", "")
                && matches("a*c*e", "abcde")
                && matches("x", "x")
        );
        assert!(!matches("web", "web1") && !matches("a*c", "abd"));
    }

    #[test]
    fn patterns_that_match_nobody_are_told() {
        let [interactive, batch] =
            [["web*", "x"], ["web2", "y"]].map(|l| l.map(str::to_owned).into());
        let mut groups = Groups::new(&Patterns { interactive, batch });
        assert_eq!(groups.bits(b"web2"), INTERACTIVE | BATCH);
        assert_eq!((groups.bits(b"y"), groups.bits(b"\xff")), (BATCH, 0));
        assert_eq!(groups.missing().collect::<Vec<_>>(), ["x"]);
    }
}
