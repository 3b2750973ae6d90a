//! The files of a run: raw JSON, Markdown, HTML page, PNG.
//!
//! Purpose: all results of a run, in one directory. The page needs nothing from
//! the network and no script.
//!
//! Tested below.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::chart::{self, escape, Chart, Series, Theme};
use crate::engines::Engine;
use crate::png;
use crate::result::{ratio_text, subject, EngineResult, Verified, METRICS};
use crate::table;
use crate::units;

/// The settings of the run, for all engines.
#[derive(Clone, Debug, Serialize)]
pub struct Setup {
    pub server: String,
    pub cpus: usize,
    pub memory_bytes: u64,
    pub cache_bytes: u64,
    pub rows: u64,
    pub seed: u64,
    pub query_rate: u32,
    pub total_seconds: f64,
    /// Engines that were asked for and have no result, with the reason.
    pub missing: Vec<(String, String)>,
}

#[derive(Serialize)]
struct Raw<'a> {
    setup: &'a Setup,
    results: &'a [EngineResult],
}

/// Notes that belong to the numbers; also printed on the terminal.
pub fn notes(setup: &Setup, results: &[EngineResult]) -> Vec<String> {
    let mut notes = Vec::new();
    for r in results {
        if r.stopped_early() {
            notes.push(format!(
                "{} was stopped by the clock after {:.0} s at {} of {} rows: its numbers are for the \
                 smaller table, and its rate was still changing.",
                r.label,
                r.end.seconds,
                units::grouped(r.end.rows),
                units::grouped(r.rows_wanted)
            ));
        }
        if !r.settled {
            notes.push(format!(
                "{} still worked in the background {:.0} s after the last row; work after that is \
                 not counted.",
                r.label, r.settle_seconds
            ));
        }
        match &r.verified {
            Verified::Ok => {}
            Verified::Timeout => notes.push(format!(
                "{}: the check of the table took too long and was given up.",
                r.label
            )),
            Verified::Wrong(why) => notes.push(format!("{}: WRONG CONTENT: {why}", r.label)),
        }
        if r.end.query_errors > 0 {
            notes.push(format!("{}: {} queries failed.", r.label, r.end.query_errors));
        }
        if r.end.query_rounds_missed > 0 {
            notes.push(format!(
                "{}: queries were too slow for {} of {} rounds of their clock.",
                r.label,
                r.end.query_rounds_missed,
                r.end.query_rounds + r.end.query_rounds_missed
            ));
        }
    }
    let checked: Vec<&str> =
        results.iter().filter(|r| r.verified == Verified::Ok).map(|r| r.label).collect();
    if !checked.is_empty() {
        notes.push(format!(
            "Count and sums through the primary key and all three indexes equal what was sent: {}.",
            checked.join(", ")
        ));
    }
    let client: Vec<String> = results
        .iter()
        .map(|r| {
            format!(
                "{} {} us ({} us of it making the text)",
                r.label,
                units::significant(r.client_cpu_us_per_row()),
                units::significant(r.client_text_us_per_row())
            )
        })
        .collect();
    if !client.is_empty() {
        notes.push(format!("The client's own CPU per row: {}.", client.join(", ")));
    }
    notes.push(format!(
        "Server costs are of the whole process from the first insert until its background work is \
         quiet (20 s at most), and include {} rounds of queries per second. Rows that an engine \
         keeps in its log and write buffers at that time are not yet in its table files.",
        setup.query_rate
    ));
    notes
}

fn build_chart(setup: &Setup, results: &[EngineResult]) -> Chart {
    let series = results
        .iter()
        .filter_map(|r| {
            let engine = Engine::from_key(r.engine)?;
            let rate = units::grouped(r.rate_at_end().round() as u64);
            let mut notes = vec![format!("{rate} rows/s at the end")];
            if r.stopped_early() {
                notes.push(format!("stopped after {:.0} s", r.end.seconds));
            }
            Some(Series {
                label: r.label,
                key: r.engine,
                colours: engine.colours(),
                intervals: r
                    .points
                    .iter()
                    .map(|p| (p.rows, p.interval_rows, p.interval_seconds))
                    .collect(),
                notes,
                stopped: r.stopped_early(),
            })
        })
        .collect();
    Chart {
        title: "Insert rate with three secondary indexes kept up to date".into(),
        subtitle: format!(
            "iiBench, one client, 1000 rows per statement, {} of cache for each engine; higher is \
             better",
            units::bytes(setup.cache_bytes)
        ),
        footnote: format!(
            "{}, {} CPUs; same server, rows, durability and queries for every engine. Band: slowest \
             and fastest interval.",
            setup.server, setup.cpus
        ),
        series,
    }
}

/// Writes all files into `out` and returns their paths, the page first.
pub fn write(out: &Path, setup: &Setup, results: &[EngineResult]) -> Result<Vec<PathBuf>, String> {
    let put = |name: &str, text: &str| -> Result<PathBuf, String> {
        let path = out.join(name);
        fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(path)
    };
    let chart = build_chart(setup, results);
    let cells = table::cells(results);
    let raw = serde_json::to_string_pretty(&Raw { setup, results }).map_err(|e| e.to_string())?;
    let html = put("iibench.html", &page(setup, results, &chart::svg(&chart, Theme::Css), &cells))?;
    let mut files = vec![html];
    let picture = out.join("iibench.png");
    match png::write(&chart::svg(&chart, Theme::Light), &picture) {
        Ok(()) => files.push(picture),
        // A missing renderer must not cost the results of a long run.
        Err(why) => eprintln!("warning: no PNG: {why}"),
    }
    files.push(put("iibench.md", &markdown(setup, results, &cells))?);
    files.push(put("iibench.json", &raw)?);
    Ok(files)
}

fn markdown(setup: &Setup, results: &[EngineResult], cells: &[Vec<String>]) -> String {
    let mut out = format!(
        "# iiBench\n\n{}, {} CPUs, {} of cache, {} rows wanted, seed {}.\n\n{}\n",
        setup.server,
        setup.cpus,
        units::bytes(setup.cache_bytes),
        units::grouped(setup.rows),
        setup.seed,
        table::markdown(cells)
    );
    for note in notes(setup, results) {
        out.push_str(&format!("- {note}\n"));
    }
    out
}

const STYLE: &str = "
:root { --ground:#ffffff; --page:#f5f7f8; --text:#16202a; --faint:#5b6875; --grid:#e3e8ec; }
@media (prefers-color-scheme: dark) {
  :root { --ground:#161c22; --page:#0e1317; --text:#e8edf1; --faint:#9aa7b3; --grid:#2b343c; }
}
* { box-sizing: border-box; }
body { margin:0; padding:32px 20px 64px; background:var(--page); color:var(--text);
  font:16px/1.5 system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif; }
main { max-width:1200px; margin:0 auto; }
h1 { font-size:28px; margin:0 0 4px; } h2 { font-size:19px; margin:36px 0 10px; }
p.sub { color:var(--faint); margin:0 0 24px; }
.card { background:var(--ground); border:1px solid var(--grid); border-radius:12px; overflow:auto; }
.card svg { display:block; width:100%; height:auto; }
.tiles { display:flex; flex-wrap:wrap; gap:12px; margin:0 0 16px; }
.tile { flex:1 1 180px; padding:14px 18px; }
.tile b { display:block; font-size:26px; line-height:1.2; color:var(--frond); }
.tile span { color:var(--faint); font-size:14px; }
table { border-collapse:collapse; width:100%; font-variant-numeric:tabular-nums; font-size:15px; }
th,td { padding:7px 16px; text-align:right; white-space:nowrap; border-top:1px solid var(--grid); }
tr:first-child th { border-top:0; } th:first-child,td:first-child { text-align:left; }
th { font-weight:600; } td.ratio { font-weight:600; } td.worse { color:var(--faint); }
ul { padding-left:20px; color:var(--faint); } li { margin:4px 0; }
details { margin:8px 0; } summary { cursor:pointer; }
pre { margin:8px 0 0; padding:12px 16px; overflow:auto; font-size:13px; }
";

fn page(setup: &Setup, results: &[EngineResult], svg: &str, cells: &[Vec<String>]) -> String {
    let mut out = String::from("<!doctype html>\n<html lang=\"en\">\n<head>\n");
    out.push_str("<meta charset=\"utf-8\">\n");
    out.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    out.push_str("<meta name=\"color-scheme\" content=\"light dark\">\n");
    out.push_str("<title>Frond: iiBench</title>\n<style>");
    out.push_str(STYLE);
    out.push_str(&engine_colours());
    out.push_str("</style>\n</head>\n<body>\n<main>\n");
    out.push_str("<h1>iiBench: Frond and its rivals</h1>\n");
    out.push_str(&format!(
        "<p class=\"sub\">{}, {} CPUs, {} memory. Cache {} for each engine. {} rows wanted, seed {}. \
         The whole run took {:.0} s.</p>\n",
        escape(&setup.server),
        setup.cpus,
        units::bytes(setup.memory_bytes),
        units::bytes(setup.cache_bytes),
        units::grouped(setup.rows),
        setup.seed,
        setup.total_seconds
    ));
    out.push_str(&tiles(results));
    out.push_str(&format!("<div class=\"card\">\n{svg}</div>\n"));
    out.push_str("<h2>Numbers</h2>\n");
    out.push_str(&html_table(cells, results.len()));
    out.push_str("<h2>Notes</h2>\n<ul>\n");
    for note in notes(setup, results) {
        out.push_str(&format!("<li>{}</li>\n", escape(&note)));
    }
    for (engine, why) in &setup.missing {
        out.push_str(&format!("<li>{} did not run: {}</li>\n", escape(engine), escape(why)));
    }
    out.push_str("</ul>\n<h2>Settings</h2>\n");
    for r in results {
        let mut text = r.settings.join("\n");
        if !r.reported_settings.is_empty() {
            text.push_str("\n\n# as the server reports them\n");
            text.push_str(&r.reported_settings.join("\n"));
        }
        out.push_str(&format!(
            "<details><summary>{}</summary><pre class=\"card\">{}</pre></details>\n",
            r.label,
            escape(&text)
        ));
    }
    out.push_str("</main>\n</body>\n</html>\n");
    out
}

/// The engines' colours as variables, for the light and for the dark setting.
fn engine_colours() -> String {
    let (mut light, mut dark) = (String::new(), String::new());
    for e in crate::engines::ALL {
        light.push_str(&format!("--{}:{};", e.key(), e.colours().light));
        dark.push_str(&format!("--{}:{};", e.key(), e.colours().dark));
    }
    format!(":root{{{light}}}\n@media (prefers-color-scheme: dark){{:root{{{dark}}}}}\n")
}

/// The headline: how many times better Frond is, where it counts. Nothing when Frond did not run.
fn tiles(results: &[EngineResult]) -> String {
    let Some(frond) = subject(results).filter(|r| r.engine == "frond") else {
        return String::new();
    };
    let wanted = [
        ("rows/s, last tenth", "rows per second at the end"),
        ("server CPU per row", "less server CPU per row"),
        ("written per row", "fewer bytes written per row"),
    ];
    let mut out = String::from("<div class=\"tiles\">\n");
    for rival in results.iter().filter(|r| r.engine != frond.engine) {
        for (name, words) in wanted {
            let metric = METRICS.iter().find(|m| m.name == name);
            if let Some(ratio) = metric.and_then(|m| m.times_better(frond, rival)) {
                out.push_str(&format!(
                    "<div class=\"card tile\"><b>{}</b><span>{words}, against {}</span></div>\n",
                    ratio_text(ratio),
                    rival.label
                ));
            }
        }
    }
    out.push_str("</div>\n");
    out
}

fn html_table(cells: &[Vec<String>], engines: usize) -> String {
    let mut out = String::from("<div class=\"card\"><table>\n");
    for (i, row) in cells.iter().enumerate() {
        out.push_str("<tr>");
        for (c, cell) in row.iter().enumerate() {
            let tag = if i == 0 { "th" } else { "td" };
            let class = match () {
                () if i == 0 || c <= engines => "",
                () if cell.starts_with("0.") => " class=\"ratio worse\"",
                () => " class=\"ratio\"",
            };
            out.push_str(&format!("<{tag}{class}>{}</{tag}>", escape(cell)));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table></div>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::tests::steady;

    fn setup() -> Setup {
        Setup {
            server: "MariaDB 10.11".into(),
            cpus: 2,
            memory_bytes: 8 << 30,
            cache_bytes: 256 << 20,
            rows: 1_000_000,
            seed: 1,
            query_rate: 10,
            total_seconds: 60.0,
            missing: vec![("myrocks".into(), "no <plugin>".into())],
        }
    }

    #[test]
    fn page_is_self_contained_and_follows_the_reader() {
        let results =
            [steady(Engine::InnoDb, 400_000, 9_000.0), steady(Engine::Frond, 1_000_000, 90_000.0)];
        let cells = table::cells(&results);
        let svg = chart::svg(&build_chart(&setup(), &results), Theme::Css);
        let html = page(&setup(), &results, &svg, &cells);
        assert!(html.contains("prefers-color-scheme: dark"));
        assert!(html.contains("--frond:"));
        assert!(html.contains("no &lt;plugin&gt;"));
        assert!(html.contains("10.0x</b>"));
        let links = html.replace("http://www.w3.org/2000/svg", "");
        for outside in ["http://", "https://", "<script", "@import", "url("] {
            assert!(!links.contains(outside), "the page refers to {outside}");
        }
    }

    #[test]
    fn wrong_content_and_early_stops_are_said() {
        let mut slow = steady(Engine::InnoDb, 400_000, 9_000.0);
        slow.verified = Verified::Wrong("pdc: 1 row missing".into());
        slow.settled = false;
        let text = notes(&setup(), &[slow]).join("\n");
        assert!(text.contains("at 400,000 of 1,000,000 rows"));
        assert!(text.contains("WRONG CONTENT: pdc: 1 row missing"));
        assert!(text.contains("still worked in the background"));
        assert!(!text.contains("equal what was sent"));
    }

    #[test]
    fn all_files_are_written() {
        let dir = tempfile::tempdir().unwrap();
        let results = [steady(Engine::Frond, 1_000_000, 90_000.0)];
        let files = write(dir.path(), &setup(), &results).unwrap();
        let names: Vec<_> = files.iter().filter_map(|f| f.file_name()?.to_str()).collect();
        // There is no picture on a machine that cannot render one.
        assert!(
            names.len() == 4 || names.len() == 3 && !names.contains(&"iibench.png"),
            "{names:?}"
        );
        assert!(files.iter().all(|f| fs::metadata(f).unwrap().len() > 200));
    }
}
