//! Decides whether a difference is more than chance: Welch's test, and the correction for many tests.
//!
//! Written out because only four statistical functions are needed, and the crates that have them bring linear algebra.
//!
//! Invariants:
//!
//! - SG1. A p-value is between 0 and 1. `None` means that the data do not suffice for the test, never "no difference".
//! - SG2. All tests are two-sided.

/// Count, mean and variance (of the sample, divided by `n - 1`) of one side.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    pub n: f64,
    pub mean: f64,
    pub variance: f64,
}

impl Moments {
    /// The moments of values with their weights.
    pub fn of(values: impl Iterator<Item = (f64, f64)> + Clone) -> Moments {
        let n: f64 = values.clone().map(|(_, w)| w).sum();
        if n < 1.0 {
            return Moments::default();
        }
        let mean = values.clone().map(|(v, w)| v * w).sum::<f64>() / n;
        let squares: f64 = values.map(|(v, w)| w * (v - mean) * (v - mean)).sum();
        Moments { n, mean, variance: if n > 1.0 { squares / (n - 1.0) } else { 0.0 } }
    }
}

/// A number and the variance of its error; the variance is as well known as from `freedom` independent values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    pub value: f64,
    pub variance: f64,
    pub freedom: f64,
}

impl Moments {
    /// The mean of independent values.
    pub fn estimate(&self) -> Estimate {
        let variance = self.variance.max(0.0) / self.n;
        Estimate { value: self.mean, variance, freedom: self.n - 1.0 }
    }
}

impl Estimate {
    /// Adds a further source of error, whose variance is known less well.
    ///
    /// The whole variance then counts as known only that well: where the further source seems to be zero, that may be
    /// chance. (Degrees of freedom by Satterthwaite's formula give slightly more findings, and more of those are
    /// false.)
    pub fn widened(self, by: f64, freedom: f64) -> Estimate {
        let variance = self.variance + by.max(0.0);
        Estimate { variance, freedom: self.freedom.min(freedom), ..self }
    }
}

/// Degrees of freedom of a sum of variances (Welch, Satterthwaite).
fn joint(parts: [(f64, f64); 2]) -> f64 {
    let all: f64 = parts.iter().map(|(v, _)| v).sum();
    all * all / parts.iter().map(|(v, freedom)| v * v / freedom).sum::<f64>()
}

/// Welch's t-test: the probability that two estimates of the same value differ as much or more. `None` without a
/// degree of freedom.
pub fn differ(a: Estimate, b: Estimate) -> Option<f64> {
    if a.freedom.min(b.freedom) < 1.0 {
        return None;
    }
    let difference = (a.value - b.value).abs();
    let variance = a.variance + b.variance;
    if variance <= 0.0 {
        // Constants on both sides: they differ or they do not.
        return Some(if difference > 0.0 { 0.0 } else { 1.0 });
    }
    let freedom = joint([(a.variance, a.freedom), (b.variance, b.freedom)]);
    student(difference / variance.sqrt(), freedom)
}

/// Benjamini and Hochberg: adjusts p-values so that, if every value up to `q` is called a finding, at most a share `q`
/// of the findings is false. The order is kept.
pub fn adjust(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*b].total_cmp(&p[*a]));
    let mut adjusted = vec![1.0; p.len()];
    let mut least = 1.0_f64;
    for (i, at) in order.iter().enumerate() {
        let rank = (p.len() - i) as f64;
        least = least.min(p[*at] * p.len() as f64 / rank);
        adjusted[*at] = least;
    }
    adjusted
}

/// Both tails of Student's distribution beyond `t`.
fn student(t: f64, freedom: f64) -> Option<f64> {
    if !t.is_finite() || freedom.is_nan() || freedom <= 0.0 {
        return None;
    }
    // Beyond a million the normal distribution agrees to more digits than matter.
    let freedom = freedom.min(1e6);
    Some(incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5).clamp(0.0, 1.0))
}

/// The regularised incomplete beta function by its continued fraction (Lentz's way of evaluating it).
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    // The fraction converges quickly on this side of the mean; the other side is its mirror.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    const TINY: f64 = 1e-300;
    let log_front =
        a * x.ln() + b * (1.0 - x).ln() + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) - a.ln();
    let keep = |v: f64| if v.abs() < TINY { TINY } else { v };
    let mut c = 1.0;
    let mut d = 1.0 / keep(1.0 - (a + b) * x / (a + 1.0));
    let mut value = d;
    for m in 1..20_000 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        for step in [even, odd] {
            d = 1.0 / keep(1.0 + step * d);
            c = keep(1.0 + step / c);
            value *= c * d;
        }
        if (c * d - 1.0).abs() < 1e-12 {
            break;
        }
    }
    log_front.exp() * value
}

/// The logarithm of the gamma function for `x > 0`: Stirling's series, after moving small arguments up.
fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut shift) = (x, 0.0);
    while x < 10.0 {
        shift += x.ln();
        x += 1.0;
    }
    let inverse = 1.0 / x;
    let square = inverse * inverse;
    let series = inverse / 12.0
        * (1.0 - square / 30.0 * (1.0 - square * 2.0 / 7.0 * (1.0 - square * 3.0 / 4.0)));
    (x - 0.5) * x.ln() - x + 0.918_938_533_204_672_8 + series - shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_of_student_are_those_of_the_tables() {
        // Two-sided 5 % and 1 % points as every table of the distribution has them.
        for (t, freedom, p) in [
            (12.706, 1.0, 0.05),
            (2.776, 4.0, 0.05),
            (4.604, 4.0, 0.01),
            (2.228, 10.0, 0.05),
            (3.169, 10.0, 0.01),
            (1.984, 100.0, 0.05),
            (1.959_964, f64::INFINITY, 0.05),
            (2.575_829, f64::INFINITY, 0.01),
        ] {
            let found = student(t, freedom).unwrap();
            assert!((found - p).abs() < p * 0.003, "t {t} df {freedom}: {found}");
        }
        assert!((ln_gamma(0.5) - std::f64::consts::PI.sqrt().ln()).abs() < 1e-9);
        assert!((ln_gamma(6.0) - 120f64.ln()).abs() < 1e-9);
    }

    #[test]
    fn a_test_needs_two_values_and_sees_constants() {
        let test = |a: [f64; 3], b: [f64; 3]| {
            let side = |[n, mean, variance]: [f64; 3]| Moments { n, mean, variance }.estimate();
            differ(side(a), side(b))
        };
        assert_eq!(test([1.0, 1.0, 0.0], [50.0, 2.0, 1.0]), None);
        assert_eq!(test([9.0, 1.0, 0.0], [9.0, 2.0, 0.0]), Some(0.0));
        assert_eq!(test([9.0, 2.0, 0.0], [9.0, 2.0, 0.0]), Some(1.0));
        assert!(test([100.0, 1.0, 1.0], [100.0, 1.1, 1.0]).unwrap() > 0.4);
        assert!(test([1e6, 1.0, 1.0], [1e6, 1.1, 1.0]).unwrap() < 1e-100);
        assert_eq!(test([0.0, 0.0, 0.0], [9.0, f64::NAN, 1.0]), None);
    }

    #[test]
    fn a_badly_known_error_leaves_few_degrees_of_freedom() {
        let calls = Estimate { value: 1.0, variance: 1.0, freedom: 1e4 };
        assert_eq!(calls.widened(-1.0, 5.0), Estimate { freedom: 5.0, ..calls });
        assert_eq!(calls.widened(3.0, 9.0), Estimate { variance: 4.0, freedom: 9.0, ..calls });
        let (far, near) = (Estimate { value: 6.0, ..calls }, calls.widened(0.0, 6.0));
        assert!(differ(calls, far).unwrap() * 3.0 < differ(near, far.widened(0.0, 6.0)).unwrap());
    }

    #[test]
    fn many_tests_raise_the_bar() {
        assert_eq!(adjust(&[0.01, 0.04, 0.03, 0.5]), [0.04, 0.16 / 3.0, 0.16 / 3.0, 0.5]);
        assert!(adjust(&[]).is_empty());
    }
}
