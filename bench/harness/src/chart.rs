//! The chart: rows per second over rows inserted, as SVG.
//!
//! Purpose: one drawing used twice, inside the HTML page (colours are CSS variables, so that
//! it follows the reader's light or dark setting) and as a PNG (colours are fixed).
//!
//! Invariants
//!
//! - CH1. The y axis starts at zero: the areas under the lines are honest.
//! - CH2. Every line is labelled at its end, in its colour; there is no legend to look up.
//! - CH3. Labels do not overlap one another.
//! - CH4. The text of the drawing is ASCII and escaped.
//!
//! Not here: choose what is drawn (report.rs). Tested below.

use std::fmt::Write as _;

use crate::engines::Colours;
use crate::units;

const WIDTH: f64 = 1200.0;
const HEIGHT: f64 = 640.0;
const LEFT: f64 = 92.0;
const RIGHT: f64 = 985.0;
const TOP: f64 = 112.0;
const BOTTOM: f64 = 548.0;
/// Points of a line at most; more are put together, with their extremes as a band behind.
const MAX_POINTS: usize = 60;
/// Room for a label: its name and up to two lines below it.
const LABEL_HEIGHT: f64 = 62.0;
const LABEL_WIDTH: f64 = 190.0;

pub struct Series {
    pub label: &'static str,
    pub key: &'static str,
    pub colours: Colours,
    /// (rows inserted at the end, rows of the interval, seconds of the interval).
    pub intervals: Vec<(u64, u64, f64)>,
    /// Lines below the label's name, two at most: "5,120 rows/s at the end".
    pub notes: Vec<String>,
    /// Whether the line ends before the others because time was up: marked with a cross-bar.
    pub stopped: bool,
}

pub struct Chart {
    pub title: String,
    pub subtitle: String,
    pub footnote: String,
    pub series: Vec<Series>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Theme {
    /// Fixed colours on white.
    Light,
    /// `var(--...)`, defined by `css_variables` of the page.
    Css,
}

struct Ink {
    ground: &'static str,
    text: &'static str,
    faint: &'static str,
    grid: &'static str,
    font: &'static str,
}

impl Theme {
    fn ink(self) -> Ink {
        match self {
            Theme::Light => Ink {
                ground: "#ffffff",
                text: "#16202a",
                faint: "#5b6875",
                grid: "#e3e8ec",
                font: "DejaVu Sans",
            },
            Theme::Css => Ink {
                ground: "var(--ground)",
                text: "var(--text)",
                faint: "var(--faint)",
                grid: "var(--grid)",
                font: "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif",
            },
        }
    }

    fn colour(self, series: &Series) -> String {
        match self {
            Theme::Light => series.colours.light.to_string(),
            Theme::Css => format!("var(--{})", series.key),
        }
    }
}

/// Consecutive intervals of a line, put together.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bucket {
    rows: f64,
    mean: f64,
    low: f64,
    high: f64,
}

/// Puts intervals together until at most `limit` buckets of about as many rows are left.
fn buckets(intervals: &[(u64, u64, f64)], limit: usize) -> Vec<Bucket> {
    let usable: Vec<&(u64, u64, f64)> = intervals.iter().filter(|i| i.2 > 0.0).collect();
    let total: u64 = usable.iter().map(|i| i.1).sum();
    let size = total as f64 / limit as f64;
    let mut out: Vec<Bucket> = Vec::new();
    let (mut rows, mut seconds, mut low, mut high) = (0u64, 0.0, f64::MAX, 0.0f64);
    for (i, &&(at, r, s)) in usable.iter().enumerate() {
        let rate = r as f64 / s;
        rows += r;
        seconds += s;
        low = low.min(rate);
        high = high.max(rate);
        // Half an interval of slack: without it, buckets slightly larger than an interval would
        // take two each.
        if rows as f64 + r as f64 / 2.0 >= size || i + 1 == usable.len() {
            out.push(Bucket { rows: at as f64, mean: rows as f64 / seconds, low, high });
            (rows, seconds, low, high) = (0, 0.0, f64::MAX, 0.0);
        }
    }
    out
}

/// Round tick values from 0 to at least `max`, about `count` of them.
fn ticks(max: f64, count: usize) -> Vec<f64> {
    let rough = (max / count as f64).max(1.0);
    let magnitude = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|m| m * magnitude)
        .find(|s| *s >= rough)
        .unwrap_or(10.0 * magnitude);
    let last = (max / step).ceil().max(1.0) as usize;
    (0..=last).map(|i| i as f64 * step).collect()
}

/// Moves apart labels that overlap sideways, directly or through others; leaves the rest alone.
/// `wanted` has (x, y) of each label; the result has the new y of each.
fn place_labels(wanted: &[(f64, f64)], low: f64, high: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|a, b| wanted[*a].0.total_cmp(&wanted[*b].0));
    let mut out = vec![0.0; wanted.len()];
    for group in order.chunk_by(|a, b| wanted[*b].0 - wanted[*a].0 < LABEL_WIDTH) {
        let ys: Vec<f64> = group.iter().map(|i| wanted[*i].1).collect();
        for (i, place) in group.iter().zip(spread(&ys, LABEL_HEIGHT, low, high)) {
            out[*i] = place;
        }
    }
    out
}

/// Moves label centres apart until neighbours are `gap` away, staying within [low, high] as far as
/// they fit. Order is kept.
fn spread(wanted: &[f64], gap: f64, low: f64, high: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|a, b| wanted[*a].total_cmp(&wanted[*b]));
    let mut out = wanted.to_vec();
    let mut floor = low;
    for &i in &order {
        out[i] = out[i].max(floor);
        floor = out[i] + gap;
    }
    let mut ceiling = high;
    for &i in order.iter().rev() {
        out[i] = out[i].min(ceiling);
        ceiling = out[i] - gap;
    }
    out
}

pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Draws the chart.
pub fn svg(chart: &Chart, theme: Theme) -> String {
    let ink = theme.ink();
    let lines: Vec<Vec<Bucket>> =
        chart.series.iter().map(|s| buckets(&s.intervals, MAX_POINTS)).collect();
    let all = || lines.iter().flatten();
    let x_max = all().map(|b| b.rows).fold(1.0, f64::max);
    let highest = all().map(|b| b.mean).fold(1.0, f64::max);
    let y_ticks = ticks(highest * 1.04, 6);
    let y_max = y_ticks.last().copied().unwrap_or(1.0);
    let x = |rows: f64| LEFT + rows / x_max * (RIGHT - LEFT);
    let y = |rate: f64| BOTTOM - (rate / y_max).min(1.0) * (BOTTOM - TOP);

    let mut out = String::new();
    let _ =
        write!(out, r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" "#);
    let _ = writeln!(
        out,
        r#"role="img" aria-label="{}" style="font-family:{}">"#,
        escape(&chart.title),
        ink.font
    );
    let _ =
        writeln!(out, r#"<rect width="{WIDTH}" height="{HEIGHT}" style="fill:{}"/>"#, ink.ground);
    let mut text = Text { out: &mut out };
    text.put(28.0, 46.0, "start", 26.0, true, ink.text, &chart.title);
    text.put(28.0, 74.0, "start", 15.0, false, ink.faint, &chart.subtitle);
    axes(&mut text, &ink, x_max, &y_ticks, &x, &y);
    for (series, line) in chart.series.iter().zip(&lines) {
        draw_line(text.out, &theme.colour(series), line, &x, &y);
    }
    end_labels(&mut text, chart, &lines, theme, &x, &y);
    text.put(28.0, HEIGHT - 18.0, "start", 12.5, false, ink.faint, &chart.footnote);
    out.push_str("</svg>\n");
    out
}

struct Text<'a> {
    out: &'a mut String,
}

impl Text<'_> {
    #[allow(clippy::too_many_arguments)] // a text is a place, a style and a string
    fn put(&mut self, x: f64, y: f64, anchor: &str, size: f64, bold: bool, fill: &str, s: &str) {
        let weight = if bold { 700 } else { 400 };
        let _ = writeln!(
            self.out,
            r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" style="fill:{fill};font-size:{size}px;font-weight:{weight}">{}</text>"#,
            escape(s)
        );
    }

    fn rule(&mut self, from: (f64, f64), to: (f64, f64), stroke: &str, width: f64) {
        let _ = writeln!(
            self.out,
            r#"<line x1="{:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}" style="stroke:{stroke};stroke-width:{width}"/>"#,
            from.0, from.1, to.0, to.1
        );
    }
}

fn axes(
    text: &mut Text,
    ink: &Ink,
    x_max: f64,
    y_ticks: &[f64],
    x: &dyn Fn(f64) -> f64,
    y: &dyn Fn(f64) -> f64,
) {
    for &tick in y_ticks {
        let (at, stroke) = (y(tick), if tick == 0.0 { ink.faint } else { ink.grid });
        text.rule((LEFT, at), (RIGHT, at), stroke, 1.0);
        let label = units::short_count(tick);
        text.put(LEFT - 12.0, at + 5.0, "end", 14.0, false, ink.faint, &label);
    }
    for tick in ticks(x_max, 6).into_iter().filter(|t| *t <= x_max * 1.001) {
        text.rule((x(tick), BOTTOM), (x(tick), BOTTOM + 6.0), ink.faint, 1.0);
        let label = units::short_count(tick);
        text.put(x(tick), BOTTOM + 24.0, "middle", 14.0, false, ink.faint, &label);
    }
    text.put(28.0, TOP - 12.0, "start", 13.0, true, ink.faint, "rows/s");
    let middle = (LEFT + RIGHT) / 2.0;
    text.put(middle, BOTTOM + 48.0, "middle", 13.0, true, ink.faint, "rows inserted");
}

fn draw_line(
    out: &mut String,
    colour: &str,
    line: &[Bucket],
    x: &dyn Fn(f64) -> f64,
    y: &dyn Fn(f64) -> f64,
) {
    let path = |points: &mut dyn Iterator<Item = (f64, f64)>| {
        points.map(|(px, py)| format!("{px:.1},{py:.1}")).collect::<Vec<_>>().join(" ")
    };
    if line.iter().any(|b| b.high > b.low) {
        let upper = line.iter().map(|b| (x(b.rows), y(b.high)));
        let lower = line.iter().rev().map(|b| (x(b.rows), y(b.low)));
        let _ = writeln!(
            out,
            r#"<polygon points="{}" style="fill:{colour};opacity:0.13"/>"#,
            path(&mut upper.chain(lower))
        );
    }
    let _ = writeln!(
        out,
        r#"<polyline points="{}" style="fill:none;stroke:{colour};stroke-width:3;stroke-linejoin:round;stroke-linecap:round"/>"#,
        path(&mut line.iter().map(|b| (x(b.rows), y(b.mean))))
    );
}

/// Labels at the ends of the lines. Lines that reach the right edge share one column of labels;
/// a line that stopped early has its label where it stopped.
fn end_labels(
    text: &mut Text,
    chart: &Chart,
    lines: &[Vec<Bucket>],
    theme: Theme,
    x: &dyn Fn(f64) -> f64,
    y: &dyn Fn(f64) -> f64,
) {
    let ink = theme.ink();
    let ends: Vec<(&Series, f64, f64)> = chart
        .series
        .iter()
        .zip(lines)
        .filter_map(|(s, line)| line.last().map(|b| (s, x(b.rows), y(b.mean))))
        .collect();
    let wanted: Vec<(f64, f64)> = ends.iter().map(|e| (e.1, e.2)).collect();
    let places = place_labels(&wanted, TOP + 10.0, BOTTOM - 44.0);
    for ((series, ex, ey), place) in ends.into_iter().zip(places) {
        let colour = theme.colour(series);
        if series.stopped {
            text.rule((ex, ey - 9.0), (ex, ey + 9.0), &colour, 3.0);
        }
        let _ = writeln!(
            text.out,
            r#"<circle cx="{ex:.1}" cy="{ey:.1}" r="5.5" style="fill:{colour}"/>"#
        );
        let lx = ex + 14.0;
        let _ = writeln!(
            text.out,
            r#"<g style="paint-order:stroke;stroke:{};stroke-width:5;stroke-linejoin:round">"#,
            ink.ground
        );
        text.put(lx, place, "start", 18.0, true, &colour, series.label);
        for (i, note) in series.notes.iter().enumerate() {
            let below = place + 19.0 + 17.0 * i as f64;
            text.put(lx, below, "start", 13.0, false, ink.faint, note);
        }
        text.out.push_str("</g>\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::Engine;

    fn series(engine: Engine, count: u64, rate: f64) -> Series {
        Series {
            label: engine.label(),
            key: engine.key(),
            colours: engine.colours(),
            intervals: (1..=count).map(|i| (i * 1000, 1000, 1000.0 / rate)).collect(),
            notes: vec!["at the end <&>".into()],
            stopped: count < 100,
        }
    }

    fn chart() -> Chart {
        Chart {
            title: "Title".into(),
            subtitle: "Sub".into(),
            footnote: "Foot".into(),
            series: vec![
                series(Engine::Frond, 500, 150_000.0),
                series(Engine::MyRocks, 500, 148_000.0),
                series(Engine::InnoDb, 40, 5_000.0),
            ],
        }
    }

    #[test]
    fn every_line_is_drawn_and_labelled_in_its_colour() {
        let svg = svg(&chart(), Theme::Light);
        assert_eq!(svg.matches("<polyline").count(), 3);
        for e in [Engine::Frond, Engine::MyRocks, Engine::InnoDb] {
            assert!(svg.contains(&format!(">{}</text>", e.label())));
            assert!(svg.contains(&format!("stroke:{}", e.colours().light)));
        }
        assert!(svg.contains("at the end &lt;&amp;&gt;"), "text is escaped");
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn the_page_version_has_no_fixed_colour() {
        let svg = svg(&chart(), Theme::Css);
        assert!(svg.contains("var(--frond)") && svg.contains("var(--ground)"));
        assert!(!svg.contains(":#"), "a fixed colour would not follow the dark setting");
    }

    #[test]
    fn an_empty_chart_is_still_a_drawing() {
        let mut chart = chart();
        chart.series.iter_mut().for_each(|s| s.intervals.clear());
        let svg = svg(&chart, Theme::Light);
        assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN"));
    }

    #[test]
    fn buckets_keep_rows_time_and_extremes() {
        let intervals = [(10, 10, 1.0), (20, 10, 2.0), (30, 10, 1.0), (40, 10, 1.0)];
        let b = buckets(&intervals, 2);
        assert_eq!(b.len(), 2);
        assert_eq!(b[0], Bucket { rows: 20.0, mean: 20.0 / 3.0, low: 5.0, high: 10.0 });
        assert_eq!(b[1], Bucket { rows: 40.0, mean: 10.0, low: 10.0, high: 10.0 });
        assert_eq!(buckets(&intervals, 100).len(), 4);
        assert!(buckets(&[], 10).is_empty());
        assert!(buckets(&[(5, 5, 0.0)], 10).is_empty(), "no rate without time");
    }

    #[test]
    fn ticks_are_round_and_cover_the_data() {
        assert_eq!(ticks(156_000.0, 6), [0.0, 50e3, 100e3, 150e3, 200e3]);
        assert_eq!(ticks(5e6, 6), [0.0, 1e6, 2e6, 3e6, 4e6, 5e6]);
        assert!(ticks(0.0, 6).last().unwrap() >= &1.0);
    }

    #[test]
    fn labels_side_by_side_stay_where_they_are() {
        let places = place_labels(&[(900.0, 300.0), (100.0, 310.0), (900.0, 305.0)], 0.0, 500.0);
        assert_eq!(places, [300.0, 310.0, 300.0 + LABEL_HEIGHT]);
        assert!(place_labels(&[], 0.0, 1.0).is_empty());
    }

    #[test]
    fn labels_are_moved_apart_in_order() {
        let places = spread(&[100.0, 110.0, 105.0], 40.0, 0.0, 500.0);
        assert_eq!(places, [100.0, 180.0, 140.0]);
        let low = spread(&[490.0, 495.0], 40.0, 0.0, 500.0);
        assert_eq!(low, [460.0, 500.0]);
    }
}
