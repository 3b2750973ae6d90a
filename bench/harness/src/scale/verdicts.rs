//! The limits, and whether the figures meet them.

/// Collects limits while the sections run.
#[derive(Default)]
pub struct Verdicts {
    /// What was compared, and whether the limit is met; `None`: unknown.
    lines: Vec<(String, Option<bool>)>,
}

impl Verdicts {
    /// `count` engines could not be measured.
    pub fn missing(&mut self, count: usize) {
        if count > 0 {
            self.lines.push((format!("{count} engines are missing"), Some(false)));
        }
    }

    /// `value` must be at most `limit`.
    pub fn at_most(&mut self, what: &str, value: f64, limit: f64) {
        let met = value.is_finite() && value <= limit;
        self.lines.push((format!("{what}: {value:.2} (<= {limit})"), Some(met)));
    }

    /// As [`Verdicts::at_most`] for a ratio; `None`: the denominator is too small to be measured.
    pub fn ratio_at_most(&mut self, what: &str, value: Option<f64>, limit: f64) {
        match value {
            Some(value) => self.at_most(what, value, limit),
            None => self.lines.push((format!("{what}: too small to compare"), None)),
        }
    }

    /// `value` must be at least `limit`.
    pub fn at_least(&mut self, what: &str, value: f64, limit: f64) {
        let met = value.is_finite() && value >= limit;
        self.lines.push((format!("{what}: {value:.2} (>= {limit})"), Some(met)));
    }

    /// Prints all of them; true if none was missed.
    pub fn report(&self) -> bool {
        println!("\n  What must hold");
        for (text, met) in &self.lines {
            let word = match met {
                Some(true) => "met",
                Some(false) => "MISSED",
                None => "-",
            };
            println!("  {word:<6} {text}");
        }
        self.lines.iter().all(|(_, met)| *met != Some(false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_limit_or_no_number_fails() {
        let mut v = Verdicts::default();
        v.missing(0);
        v.at_most("a", 1.0, 1.0);
        v.at_least("b", 2.0, 1.0);
        v.ratio_at_most("nothing to compare with", None, 1.0);
        assert!(v.report());
        v.at_most("c", f64::NAN, 1.0);
        assert!(!v.report());
        let mut v = Verdicts::default();
        v.at_least("d", 0.9, 1.0);
        assert!(!v.report());
    }
}
