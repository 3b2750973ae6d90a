//! The order of classes, and how many are shown.

use crate::nearest::did_you_mean;
use crate::stats::distribution::base_units;
use crate::stats::Class;
use frond_event::{Metric, Unit};

/// Rankings without an attribute.
const WORDS: [&str; 10] =
    ["time", "mean", "p50", "p95", "p99", "max", "count", "rows", "lock", "variance"];

/// Characters of a column's title.
pub const TITLE: usize = 9;

/// The number of an attribute by which classes are ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregate {
    Sum,
    Mean,
    Min,
    Max,
    P50,
    P95,
    P99,
    Count,
    VarianceToMean,
}

/// The order of the classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    pub metric: Metric,
    pub aggregate: Aggregate,
}

impl Default for Order {
    fn default() -> Self {
        Order { metric: Metric::QueryTime, aggregate: Aggregate::Sum }
    }
}

impl std::str::FromStr for Order {
    type Err = String;

    /// `time`, `p95`, `count`, `rows`, `lock`, `variance`, or `ATTRIBUTE:AGGREGATE`.
    fn from_str(text: &str) -> Result<Order, String> {
        let of = |metric, aggregate| Ok(Order { metric, aggregate });
        match text.to_ascii_lowercase().as_str() {
            "time" | "total" => return of(Metric::QueryTime, Aggregate::Sum),
            "mean" | "avg" => return of(Metric::QueryTime, Aggregate::Mean),
            "p50" | "median" => return of(Metric::QueryTime, Aggregate::P50),
            "p95" => return of(Metric::QueryTime, Aggregate::P95),
            "p99" => return of(Metric::QueryTime, Aggregate::P99),
            "max" => return of(Metric::QueryTime, Aggregate::Max),
            "count" | "calls" => return of(Metric::QueryTime, Aggregate::Count),
            "rows" => return of(Metric::RowsExamined, Aggregate::Sum),
            "lock" => return of(Metric::LockTime, Aggregate::Sum),
            "variance" => return of(Metric::QueryTime, Aggregate::VarianceToMean),
            _ => {}
        }
        let (name, aggregate) = text.split_once(':').unwrap_or((text, "sum"));
        let metric = Metric::from_name(name.as_bytes()).ok_or_else(|| {
            let metrics = Metric::ALL.iter().map(|m| m.name());
            let hint = did_you_mean(name, WORDS.into_iter().chain(metrics));
            format!(
                "cannot rank by '{name}': it is none of {} and no attribute of a slow log with a number{hint}",
                WORDS.join(", ")
            )
        })?;
        let aggregate = match aggregate.to_ascii_lowercase().as_str() {
            "sum" => Aggregate::Sum,
            "avg" | "mean" => Aggregate::Mean,
            "min" => Aggregate::Min,
            "max" => Aggregate::Max,
            "p50" | "median" => Aggregate::P50,
            "p95" | "95" => Aggregate::P95,
            "p99" => Aggregate::P99,
            "cnt" | "count" => Aggregate::Count,
            "vm" | "v/m" => Aggregate::VarianceToMean,
            other => {
                return Err(format!(
                    "cannot rank by '{other}': say sum, mean, min, max, p50, p95, p99, count or vm"
                ))
            }
        };
        of(metric, aggregate)
    }
}

impl Order {
    /// In words.
    pub fn describe(self) -> String {
        let what = self.metric.label().to_ascii_lowercase();
        match self.aggregate {
            Aggregate::Count => "number of calls".into(),
            Aggregate::VarianceToMean => format!("variance of {what}"),
            Aggregate::Sum => format!("total {what}"),
            Aggregate::Mean => format!("mean {what}"),
            Aggregate::Min => format!("smallest {what}"),
            Aggregate::Max => format!("largest {what}"),
            Aggregate::P50 => format!("median {what}"),
            Aggregate::P95 => format!("95th percentile of {what}"),
            Aggregate::P99 => format!("99th percentile of {what}"),
        }
    }

    /// The title of a column; `None` if it is one of those that every profile has.
    pub fn title(self) -> Option<String> {
        let of_time = self.metric == Metric::QueryTime;
        let word = match self.aggregate {
            Aggregate::Count => return None,
            Aggregate::Sum | Aggregate::Mean | Aggregate::P95 | Aggregate::VarianceToMean
                if of_time =>
            {
                return None
            }
            Aggregate::Sum => return Some(self.metric.label().chars().take(TITLE).collect()),
            Aggregate::Min => "least",
            Aggregate::Max => "max",
            Aggregate::P50 => "p50",
            Aggregate::P95 => "p95",
            Aggregate::P99 => "p99",
            Aggregate::Mean => "mean",
            Aggregate::VarianceToMean => "V/M",
        };
        Some(if of_time { word.into() } else { "Ranked by".into() })
    }

    /// The unit of its numbers.
    pub fn unit(self) -> Unit {
        match self.aggregate {
            Aggregate::Count => Unit::Count,
            _ => self.metric.unit(),
        }
    }

    /// The number of a class; classes without the attribute come last.
    pub fn value(self, class: &Class) -> f64 {
        if self.aggregate == Aggregate::Count {
            return class.weight.max(class.count) as f64;
        }
        if self.aggregate == Aggregate::Sum {
            return class.scaled_sum(self.metric) as f64 / base_units(self.metric.unit());
        }
        let Some(summary) = class.summary(self.metric) else { return -1.0 };
        let known = match self.aggregate {
            Aggregate::Min => summary.known.min,
            Aggregate::Max => summary.known.max,
            Aggregate::P50 | Aggregate::P95 | Aggregate::P99 | Aggregate::VarianceToMean => {
                summary.known.shape
            }
            Aggregate::Sum | Aggregate::Mean | Aggregate::Count => true,
        };
        if !known {
            return -1.0;
        }
        let base = match self.aggregate {
            Aggregate::Mean => summary.mean(),
            Aggregate::Min => summary.min as f64,
            Aggregate::Max => summary.max as f64,
            Aggregate::P50 => summary.quantile(0.5) as f64,
            Aggregate::P95 => summary.quantile(0.95) as f64,
            Aggregate::P99 => summary.quantile(0.99) as f64,
            _ => return summary.variance_to_mean(),
        };
        base / base_units(self.metric.unit())
    }
}

/// The number of classes shown: until they make up `share` of the total, but at most `most`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    pub share: f64,
    pub most: usize,
}

impl Default for Limit {
    fn default() -> Self {
        Limit { share: 0.95, most: 20 }
    }
}

impl std::str::FromStr for Limit {
    type Err = String;

    /// `20`, `95%`, `95%:20`.
    fn from_str(text: &str) -> Result<Limit, String> {
        let fail =
            || format!("'{text}' is no limit: say a number (20), a share (95%) or both (95%:20)");
        let number = |t: &str| t.parse::<usize>().map_err(|_| fail());
        let share = |t: &str| -> Result<f64, String> {
            let percent: f64 = t.strip_suffix('%').ok_or_else(fail)?.parse().map_err(|_| fail())?;
            if (0.0..=100.0).contains(&percent) {
                Ok(percent / 100.0)
            } else {
                Err(fail())
            }
        };
        match text.split_once(':') {
            Some((part, most)) => Ok(Limit { share: share(part)?, most: number(most)? }),
            None if text.ends_with('%') => Ok(Limit { share: share(text)?, most: usize::MAX }),
            None => Ok(Limit { share: 1.0, most: number(text)? }),
        }
    }
}

/// Classes that are shown although their rank is too low: slow and not rare.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outliers {
    /// Seconds of the 95th percentile.
    pub at_least: f64,
    pub count: u64,
}

impl Default for Outliers {
    fn default() -> Self {
        Outliers { at_least: 1.0, count: 10 }
    }
}

/// Why a class is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Rank,
    Outlier,
}

/// The order of all classes (indices), and why each of the leading ones is shown.
pub fn rank(
    classes: &[Class],
    order: Order,
    limit: Limit,
    outliers: Option<Outliers>,
) -> (Vec<usize>, Vec<Reason>) {
    rank_among(classes, 0..classes.len(), order, limit, outliers)
}

/// As `rank`, for the classes with the indices in `among`.
pub fn rank_among(
    classes: &[Class],
    among: impl Iterator<Item = usize>,
    order: Order,
    limit: Limit,
    outliers: Option<Outliers>,
) -> (Vec<usize>, Vec<Reason>) {
    let mut ranked: Vec<(f64, usize)> = among.map(|i| (order.value(&classes[i]), i)).collect();
    ranked.sort_by(|a, b| {
        b.0.total_cmp(&a.0)
            // Of equal classes, the one that came first in the inputs, as in pt-query-digest 3.2.
            .then_with(|| classes[a.1].begun.cmp(&classes[b.1].begun))
            .then_with(|| classes[a.1].key.cmp(&classes[b.1].key))
    });
    let total: f64 = ranked.iter().map(|r| r.0.max(0.0)).sum();
    let additive = matches!(order.aggregate, Aggregate::Sum | Aggregate::Count);
    let (mut shown, mut hidden, mut reasons) = (Vec::new(), Vec::new(), Vec::new());
    let mut sum = 0.0;
    for (value, class) in ranked {
        // A share of a sum of maxima would mean nothing. And a sum does not reach all classes:
        // classes of statements that never returned add nothing to it.
        let wanted = !additive || limit.share >= 1.0 || sum < total * limit.share || total <= 0.0;
        if shown.len() < limit.most && wanted {
            shown.push(class);
            reasons.push(Reason::Rank);
            sum += value.max(0.0);
            continue;
        }
        let is_outlier = outliers.is_some_and(|o| {
            classes[class].count >= o.count
                && classes[class]
                    .summary(Metric::QueryTime)
                    .is_some_and(|s| s.known.shape && s.quantile(0.95) as f64 / 1e9 >= o.at_least)
        });
        if is_outlier {
            shown.push(class);
            reasons.push(Reason::Outlier);
        } else {
            hidden.push(class);
        }
    }
    shown.extend(hidden);
    (shown, reasons)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read() {
        assert_eq!("20".parse(), Ok(Limit { share: 1.0, most: 20 }));
        assert_eq!("95%:20".parse(), Ok(Limit { share: 0.95, most: 20 }));
        assert_eq!("50%".parse(), Ok(Limit { share: 0.5, most: usize::MAX }));
        for bad in ["", "x", "95:20", "120%", "%:1"] {
            assert!(bad.parse::<Limit>().is_err(), "{bad}");
        }
    }

    #[test]
    fn orders_are_read() {
        assert_eq!("time".parse(), Ok(Order::default()));
        assert_eq!(
            "Bytes_sent:sum".parse(),
            Ok(Order { metric: Metric::BytesSent, aggregate: Aggregate::Sum })
        );
        assert_eq!(
            "Query_time:cnt".parse(),
            Ok(Order { metric: Metric::QueryTime, aggregate: Aggregate::Count })
        );
        assert!("nonsense".parse::<Order>().is_err() && "Query_time:x".parse::<Order>().is_err());
    }
}
