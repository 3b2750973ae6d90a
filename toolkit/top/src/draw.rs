//! A view on a terminal.
//!
//! ```text
//! frond top  SERVER                       up, time      1 line
//! statements and rows | Frond's memory and debt         8 lines
//! waits                                                 the rest, shared: each list gets the lines it needs, at
//! least
//! trees                                                 a head and a line
//! statements
//! keys                                                  1 line
//! ```
//!
//! Text of a server goes through `clean`: no control character reaches a terminal.

use frond_event::numbers;
use ratatui::backend::TestBackend;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use ratatui::{Frame, Terminal};

use crate::view::View;

/// The list that gets all the room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Focus {
    #[default]
    All,
    Waits,
    Trees,
    Statements,
}

/// What is shown besides the view.
#[derive(Clone, Debug, Default)]
pub struct Screen {
    pub focus: Focus,
    /// `paused`, `recording to FILE`, `sample 5 of 60`.
    pub note: String,
    pub keys: &'static str,
}

/// Lines of the two panels at the top.
const PANELS: u16 = 8;
/// Columns of the left panel; lines of the right one have 41 at most.
const LEFT: u16 = 39;

/// The screen as text, for output without a terminal.
pub fn text(view: &View<'_>, screen: &Screen, width: u16, height: u16) -> String {
    let Ok(mut terminal) = Terminal::new(TestBackend::new(width.max(1), height.max(1)));
    let _ = terminal.draw(|frame| draw(frame, view, screen));
    let buffer = terminal.backend().buffer();
    let mut out = String::new();
    for y in 0..buffer.area.height {
        let line: String = (0..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect();
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

pub fn draw(frame: &mut Frame<'_>, view: &View<'_>, screen: &Screen) {
    let area = frame.area();
    let panels = if screen.focus == Focus::All { PANELS } else { 0 };
    let [title, top, lists, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(panels),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(area);
    put_title(frame, title, view, screen);
    let [left, right] =
        Layout::horizontal([Constraint::Length(LEFT), Constraint::Min(0)]).areas(top);
    frame.render_widget(Paragraph::new(server(view)), left);
    frame.render_widget(Paragraph::new(frond(view, right.width)), right);
    let width = usize::from(lists.width);
    let all = [
        (Focus::Waits, waits(view, width)),
        (Focus::Trees, trees(view, width)),
        (Focus::Statements, statements(view, width)),
    ];
    let chosen: Vec<&Vec<Line<'_>>> = all
        .iter()
        .filter(|(focus, _)| screen.focus == Focus::All || *focus == screen.focus)
        .map(|(_, lines)| lines)
        .collect();
    let wanted: Vec<usize> = chosen.iter().map(|lines| lines.len()).collect();
    let mut rest = lists;
    for (lines, height) in chosen.into_iter().zip(share(&wanted, usize::from(lists.height))) {
        let [part, below] =
            Layout::vertical([Constraint::Length(height as u16), Constraint::Min(0)]).areas(rest);
        let shown: Vec<Line<'_>> = lines.iter().take(height).cloned().collect();
        frame.render_widget(Paragraph::new(shown), part);
        rest = below;
    }
    frame.render_widget(
        Paragraph::new(screen.keys).style(Style::new().add_modifier(Modifier::DIM)),
        keys,
    );
}

/// Lines for each list: as many as it wants if there is room, otherwise equal shares.
fn share(wanted: &[usize], room: usize) -> Vec<usize> {
    let mut given = vec![0; wanted.len()];
    for _ in 0..room {
        let hungry = (0..wanted.len()).filter(|i| given[*i] < wanted[*i]);
        let Some(next) = hungry.min_by_key(|i| given[*i]) else { break };
        given[next] += 1;
    }
    given
}

fn put_title(frame: &mut Frame<'_>, area: Rect, view: &View<'_>, screen: &Screen) {
    let clock = numbers::time((view.now.at * 1e6) as i64);
    let clock = clock.split('.').next().unwrap_or_default().to_owned();
    let up =
        view.value("uptime").map(|s| format!("up {}, ", numbers::duration(s))).unwrap_or_default();
    let note = match screen.note.as_str() {
        "" => String::new(),
        note => format!("{}, ", clean(note, 30)),
    };
    let right = format!("{note}{up}{clock}");
    let room = usize::from(area.width).saturating_sub(right.chars().count() + 12);
    let left = format!("frond top  {:<room$} ", clean(&view.now.server, room));
    let bold = Style::new().add_modifier(Modifier::BOLD);
    frame.render_widget(Line::from(vec![Span::styled(left, bold), Span::raw(right)]), area);
}

fn server(view: &View<'_>) -> Vec<Line<'static>> {
    let rate = |names: &[&str]| per_second(view.rates(names));
    vec![
        head("SERVER              a second"),
        pair("statements", rate(&["questions"]), "slow", rate(&["slow_queries"])),
        pair("select", rate(&["com_select"]), "commit", rate(&["com_commit"])),
        pair("insert", rate(&["com_insert"]), "update", rate(&["com_update"])),
        pair("delete", rate(&["com_delete"]), "sent", per_second_bytes(view.rate("bytes_sent"))),
        pair(
            "rows by key",
            rate(&["handler_read_key"]),
            "scanned",
            rate(&["handler_read_rnd_next"]),
        ),
        pair(
            "connections",
            plain(view.value("threads_connected")),
            "running",
            plain(view.value("threads_running")),
        ),
        pair(
            "InnoDB waits",
            plain(view.value("innodb_row_lock_current_waits")),
            "history",
            plain(view.value("innodb_history_list_length")),
        ),
    ]
}

fn pair(a: &str, x: String, b: &str, y: String) -> Line<'static> {
    Line::from(format!("{a:<12}{x:>8}  {b:<8}{y:>7}"))
}

fn frond(view: &View<'_>, width: u16) -> Vec<Line<'static>> {
    let Some(memory) = view.memory() else {
        return vec![head("FROND"), Line::from("not in this server")];
    };
    let bar = usize::from(width).saturating_sub(31).min(40);
    let of = |name: &str, now: f64, limit: f64| {
        Line::from(format!("{name:<13} {:>8} {}", bytes(now), gauge(now / limit.max(1.0), bar)))
    };
    let mut lines = vec![head("FROND")];
    let used: f64 = memory.parts.iter().map(|(_, bytes)| bytes).sum();
    lines.push(of("memory", used, memory.limit));
    let parts: Vec<String> = memory
        .parts
        .iter()
        .map(|(name, size)| format!("{} {}", short(name), bytes(*size)))
        .collect();
    lines.push(Line::from(parts.join(" ")));
    for (name, part, limit) in [
        ("merge debt", "frond_merge_debt_bytes", "frond_merge_debt_limit"),
        ("buffered", "frond_write_buffer_bytes", "frond_write_buffer_limit"),
    ] {
        match view.of_limit(part, limit) {
            Some((now, limit)) => lines.push(of(name, now, limit)),
            None => lines.push(Line::from(format!("{name:<13} -"))),
        }
    }
    let percent = |share: Option<f64>| share.map_or("-".into(), |s| format!("{:.0} %", s * 100.0));
    lines.push(Line::from(format!(
        "commits {:>6}/s log {:>7} sync {:>7}",
        per_second(view.rate("frond_commits")),
        per_second_bytes(view.rate("frond_log_bytes_appended")),
        view.sync_seconds().map_or("-".into(), numbers::duration)
    )));
    lines.push(Line::from(format!(
        "jobs    {:>6}/s hits {:>5} delayed {:>5}",
        per_second(view.rate("frond_jobs")),
        percent(view.hits()),
        percent(view.rate("frond_writers_delayed_micros").map(|d| d / 1e6))
    )));
    lines.push(Line::from(format!(
        "waits   {:>6}/s deadlocks {:>4} snap {:>4}",
        per_second(view.rate("frond_lock_waits")),
        plain(view.value("frond_deadlocks")),
        plain(view.value("frond_snapshots"))
    )));
    lines
}

fn short(name: &str) -> &str {
    match name {
        "write buffers" => "write",
        "locks" => "lock",
        "metadata" => "meta",
        other => other,
    }
}

fn waits(view: &View<'_>, width: usize) -> Vec<Line<'static>> {
    let waits = view.waits();
    let mut lines = vec![head(&format!(
        "{:<8}{:>9}{:>10}{:>10}  {}",
        "WAITS", "for", "who", "behind", "where, statement"
    ))];
    if waits.is_empty() {
        lines.push(Line::from("none"));
    }
    for wait in waits {
        let text = format!(
            "{:<8}{:>9}{:>10}{:>10}  {}, {}",
            clean(&wait.engine, 7),
            numbers::duration(wait.seconds),
            wait.waiter,
            // The server does not say who it is.
            if wait.blocker == 0 { "?".into() } else { wait.blocker.to_string() },
            clean(&wait.place, 60),
            wait.statement
        );
        lines.push(Line::from(clean(&text, width)));
    }
    lines
}

fn trees(view: &View<'_>, width: usize) -> Vec<Line<'static>> {
    let name = width.saturating_sub(52).clamp(8, 60);
    let mut lines = vec![head(&format!(
        "{:<name$}{:>4}{:>10}{:>10}{:>10}{:>6}{:>12}",
        "TREES", "idx", "entries", "change/s", "stored", "runs", "buffered"
    ))];
    let trees = view.trees();
    if trees.is_empty() {
        lines.push(Line::from("none"));
    }
    for (tree, change) in trees {
        lines.push(Line::from(format!(
            "{:<name$}{:>4}{:>10}{:>10}{:>10}{:>6}{:>12}",
            clean(&tree.table, name - 1),
            tree.index,
            numbers::count(tree.entries as f64),
            per_second(change),
            bytes(tree.stored_bytes as f64),
            tree.runs,
            bytes(tree.buffered_bytes as f64)
        )));
    }
    lines
}

fn statements(view: &View<'_>, width: usize) -> Vec<Line<'static>> {
    let what = if view.now.running_only { "RUNNING NOW" } else { "STATEMENTS" };
    let (calls, load) = if view.now.running_only { ("count", "for") } else { ("calls/s", "load") };
    let mut lines = vec![head(&format!("{what:<12}{calls:>8}{load:>9}{:>10}  class", "rows"))];
    let all = view.statements();
    if all.is_empty() {
        lines.push(Line::from("none yet"));
    }
    for (class, count, time, rows) in all {
        let (time, rows) = match view.now.running_only {
            true => (numbers::duration(time), String::new()),
            false => (format!("{time:.3}"), numbers::count(rows)),
        };
        let text = format!("{:<12}{:>8}{time:>9}{rows:>10}  {class}", "", numbers::count(count));
        lines.push(Line::from(clean(&text, width)));
    }
    lines
}

fn head(text: &str) -> Line<'static> {
    Line::styled(text.to_owned(), Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED))
}

/// `[#####.....]`; plain letters, for terminals that have nothing else.
fn gauge(share: f64, width: usize) -> String {
    let share = if share.is_finite() { share.max(0.0) } else { 0.0 };
    let full = ((share.min(1.0) * width as f64).round() as usize).min(width);
    format!("[{}{}] {:>3.0}%", "#".repeat(full), ".".repeat(width - full), share * 100.0)
}

fn per_second(rate: Option<f64>) -> String {
    rate.map_or("-".into(), |rate| match rate {
        r if r.abs() < 0.05 => "0".into(),
        r if r.abs() < 10.0 => format!("{r:.1}"),
        r if r.abs() < 10_000.0 => format!("{r:.0}"),
        r => numbers::count(r.round()),
    })
}

fn per_second_bytes(rate: Option<f64>) -> String {
    rate.map_or("-".into(), bytes)
}

fn plain(value: Option<f64>) -> String {
    value.map_or("-".into(), numbers::count)
}

fn bytes(n: f64) -> String {
    let mut value = n.max(0.0);
    for unit in ["B", "K", "M", "G", "T"] {
        if value < 999.5 {
            let digits = if unit == "B" || value >= 9.95 { 0 } else { 1 };
            return format!("{value:.digits$}{unit}");
        }
        value /= 1024.0;
    }
    format!("{value:.0}P")
}

/// At most `most` characters, none of which a terminal takes for a command.
fn clean(text: &str, most: usize) -> String {
    let harmless =
        |c: char| if c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c) { ' ' } else { c };
    text.chars().take(most).map(harmless).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_shared_and_nobody_gets_more_than_it_has() {
        assert_eq!(share(&[2, 30, 30], 13), [2, 6, 5]);
        assert_eq!(share(&[2, 3, 4], 50), [2, 3, 4]);
        assert_eq!(share(&[5, 5, 5], 0), [0, 0, 0]);
        assert_eq!(share(&[5], 3), [3]);
    }

    #[test]
    fn sizes_and_gauges_are_bounded() {
        assert_eq!((bytes(0.0).as_str(), bytes(1500.0).as_str()), ("0B", "1.5K"));
        assert_eq!(bytes(f64::MAX).len(), bytes(f64::MAX).len());
        assert_eq!(gauge(0.5, 4), "[##..]  50%");
        assert_eq!(gauge(7.0, 4), "[####] 700%");
        assert_eq!(gauge(f64::NAN, 2), "[..]   0%");
        assert_eq!(clean("a\x1b[31mb\u{202e}", 20), "a [31mb ");
    }
}
