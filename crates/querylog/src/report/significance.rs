//! Is a difference more than chance: Welch's test, a test of two shares, and the correction for many tests.
//!
//! Written out because only four functions of statistics are needed and the crates that have them bring linear algebra.
//!
//! Invariants:
//! 1. A p-value is between 0 and 1. `None` means that the data do not suffice for the test, never "no difference".
//! 2. All tests are two-sided.

/// Count, mean and variance (of the sample, by `n - 1`) of one side.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    pub n: f64,
    pub mean: f64,
    pub variance: f64,
}

impl Moments {
    /// Of values with their weights.
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

/// Welch's t-test for different means without assuming equal variances. Less than two values on a side: `None`.
pub fn welch(a: Moments, b: Moments) -> Option<f64> {
    if a.n < 2.0 || b.n < 2.0 {
        return None;
    }
    let (va, vb) = (a.variance.max(0.0) / a.n, b.variance.max(0.0) / b.n);
    let difference = (a.mean - b.mean).abs();
    if va + vb <= 0.0 {
        // Constants on both sides: they differ or they do not.
        return Some(if difference > 0.0 { 0.0 } else { 1.0 });
    }
    let t = difference / (va + vb).sqrt();
    let freedom = (va + vb).powi(2) / (va * va / (a.n - 1.0) + vb * vb / (b.n - 1.0));
    student(t, freedom)
}

/// The chance that two shares, `hits` of `n` each, differ as much or more if they were one. `None` where fewer than
/// five hits or misses are expected on a side: the normal approximation would lie there.
pub fn two_shares(hits_a: f64, a: f64, hits_b: f64, b: f64) -> Option<f64> {
    if a < 1.0 || b < 1.0 {
        return None;
    }
    let pooled = (hits_a + hits_b) / (a + b);
    let least = a.min(b) * pooled.min(1.0 - pooled);
    if least < 5.0 {
        return None;
    }
    let spread = (pooled * (1.0 - pooled) * (1.0 / a + 1.0 / b)).sqrt();
    student((hits_a / a - hits_b / b).abs() / spread, f64::INFINITY)
}

/// Benjamini and Hochberg: p-values so adjusted that calling everything up to `q` a finding makes at most that share of
/// the findings false. The order is kept.
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
    // Beyond a million the normal distribution is the same to more digits than matter.
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
    fn welch_needs_two_values_and_sees_constants() {
        let side = |n: f64, mean: f64, variance: f64| Moments { n, mean, variance };
        assert_eq!(welch(side(1.0, 1.0, 0.0), side(50.0, 2.0, 1.0)), None);
        assert_eq!(welch(side(9.0, 1.0, 0.0), side(9.0, 2.0, 0.0)), Some(0.0));
        assert_eq!(welch(side(9.0, 2.0, 0.0), side(9.0, 2.0, 0.0)), Some(1.0));
        assert!(welch(side(100.0, 1.0, 1.0), side(100.0, 1.1, 1.0)).unwrap() > 0.4);
        assert!(welch(side(1e6, 1.0, 1.0), side(1e6, 1.1, 1.0)).unwrap() < 1e-100);
    }

    #[test]
    fn small_counts_are_not_judged() {
        assert_eq!(two_shares(1.0, 20.0, 9.0, 20.0).map(|p| p < 0.01), Some(true));
        assert_eq!(two_shares(1.0, 20.0, 2.0, 20.0), None);
        assert_eq!(two_shares(0.0, 0.0, 2.0, 20.0), None);
    }

    #[test]
    fn many_tests_raise_the_bar() {
        assert_eq!(adjust(&[0.01, 0.04, 0.03, 0.5]), [0.04, 0.16 / 3.0, 0.16 / 3.0, 0.5]);
        assert!(adjust(&[]).is_empty());
    }
}
