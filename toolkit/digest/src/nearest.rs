//! The existing name that is most similar to a mistyped one.

/// The candidate most similar to `name`, if one is similar enough.
pub fn nearest<'c>(name: &str, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
    let name = name.to_ascii_lowercase();
    if name.len() > 64 {
        return None;
    }
    candidates
        .map(|candidate| (distance(&name, &candidate.to_ascii_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.len() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The number of insertions, removals, replacements and swaps of neighbours that lead from `a` to
/// `b`.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let width = b.len() + 1;
    let mut rows = vec![0; (a.len() + 1) * width];
    for i in 0..=a.len() {
        for j in 0..width {
            rows[i * width + j] = if i == 0 || j == 0 {
                i + j
            } else {
                let other = usize::from(a[i - 1] != b[j - 1]);
                let mut best = (rows[(i - 1) * width + j] + 1)
                    .min(rows[i * width + j - 1] + 1)
                    .min(rows[(i - 1) * width + j - 1] + other);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    best = best.min(rows[(i - 2) * width + j - 2] + 1);
                }
                best
            };
        }
    }
    rows[a.len() * width + b.len()]
}

/// The end of a sentence which says that `name` does not exist.
pub fn did_you_mean<'c>(name: &str, candidates: impl Iterator<Item = &'c str>) -> String {
    nearest(name, candidates).map_or_else(String::new, |found| format!("; did you mean '{found}'?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_name_and_another_word_none() {
        let names = || ["user", "db", "Rows_examined"].into_iter();
        for (typed, meant) in [
            ("usr", Some("user")),
            ("uesr", Some("user")),
            ("rows_exmined", Some("Rows_examined")),
            ("dbs", Some("db")),
            ("program_name", None),
        ] {
            assert_eq!(nearest(typed, names()), meant, "{typed}");
        }
        assert_eq!(did_you_mean("usr", names()), "; did you mean 'user'?");
        assert_eq!(did_you_mean("zzzzz", names()), "");
    }
}
