//! The screen, drawn from recordings.
#![allow(clippy::unwrap_used)] // Helpers of tests count as tests.

use frond_top::draw::{text, Focus, Screen};
use frond_top::recording;
use frond_top::sample::{Sample, Statement, Tree, Wait};
use frond_top::view::View;

/// Two seconds of a busy server.
fn samples() -> [Sample; 2] {
    let mut samples = [0, 1].map(|i| Sample {
        at: 1_767_290_000.0 + 2.0 * f64::from(i),
        server: "10.11.18-MariaDB at /run/mysqld/mysqld.sock".into(),
        ..Sample::default()
    });
    for (name, first, then) in [
        ("Uptime", "4000", "4002"),
        ("Questions", "10000", "12468"),
        ("Com_select", "5000", "6000"),
        ("Threads_running", "3", "4"),
        ("Frond_commits", "100", "700"),
        ("Frond_cache_bytes_limit", "268435456", "268435456"),
        ("Frond_page_cache_bytes", "104857600", "104857600"),
        ("Frond_write_memory_bytes", "29360128", "29360128"),
        ("Frond_merge_debt_bytes", "0", "52428800"),
        ("Frond_merge_debt_limit", "104857600", "104857600"),
        ("Frond_log_syncs", "10", "20"),
        ("Frond_log_sync_micros", "1000", "51000"),
        ("Frond_page_cache_hits", "0", "990"),
        ("Frond_page_cache_misses", "0", "10"),
        ("Password", "1", "1"),
    ] {
        samples[0].put(name, first);
        samples[1].put(name, then);
    }
    for (i, sample) in samples.iter_mut().enumerate() {
        let i = i as u64;
        sample.trees = (0..30)
            .map(|t| Tree {
                table: format!("shop/orders{t}"),
                entries: 1_000_000 + i * 1000 * t,
                stored_bytes: 9 << 20,
                runs: 3,
                ..Tree::default()
            })
            .collect();
        sample.statements = (0..20)
            .map(|s| Statement {
                class: format!("select c{s} from t where id = ?\x1b[2J"),
                count: 10 + i * s * 10,
                seconds: (i * s) as f64 * 0.25,
                rows_examined: 0,
            })
            .collect();
    }
    samples[1].waits = vec![
        Wait {
            engine: "Frond".into(),
            seconds: 1.0,
            waiter: 7,
            blocker: 5,
            place: "shop.t PRIMARY".into(),
            ..Wait::default()
        },
        Wait {
            engine: "InnoDB".into(),
            seconds: 31.0,
            waiter: 8,
            blocker: 7,
            place: "shop.u k".into(),
            ..Wait::default()
        },
    ];
    samples
}

fn screen(focus: Focus, width: u16, height: u16) -> String {
    let [before, now] = samples();
    let screen = Screen { focus, note: String::new(), keys: "q quit" };
    text(&View::new(&now, Some(&before)), &screen, width, height)
}

#[test]
fn eighty_by_twenty_four_has_all_of_it() {
    let shown = screen(Focus::All, 80, 24);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.len(), 24);
    assert!(lines.iter().all(|l| l.chars().count() <= 80), "{shown}");
    for words in [
        "frond top  10.11.18-MariaDB at",
        "2026-01-01 17:53:22",
        "statements      1234",
        "select           500",
        "commits    300/s",
        "sync     5ms",
        "hits  99 %",
        "memory            128M [",
        "merge debt         50M [",
        " 50%",
        "slow          -",
        "delayed     -",
        "snap    -",
        "pages 100M write 28M meta 0B lock 0B",
        "shop.u k",
        "shop/orders29",
        "14.5k",
        "select c19 from t where id = ?",
        "q quit",
    ] {
        assert!(shown.contains(words), "{words}:\n{shown}");
    }
    let position = |words: &str| lines.iter().position(|l| l.contains(words)).unwrap();
    assert!(position("shop.u k") < position("shop.t PRIMARY"), "{shown}");
    assert!(!shown.contains('\x1b'), "{shown}");
}

#[test]
fn any_size_is_drawn_and_a_chosen_list_gets_the_room() {
    for (width, height) in [(1, 1), (20, 5), (80, 10), (300, 100)] {
        let shown = screen(Focus::All, width, height);
        assert_eq!(shown.lines().count(), usize::from(height));
    }
    let trees = screen(Focus::Trees, 80, 24);
    assert_eq!(trees.matches("shop/orders").count(), 21, "{trees}");
    assert!(!trees.contains("merge debt"));
    let statements = screen(Focus::Statements, 80, 24);
    assert_eq!(statements.matches("select c").count(), 19, "{statements}");
}

#[test]
fn a_server_without_frond_and_a_first_sample_are_shown_as_what_they_are() {
    let one = Sample { server: "8.0.36 at db:3306".into(), ..Sample::default() };
    let shown = text(&View::new(&one, None), &Screen::default(), 80, 24);
    for words in ["not in this server", "statements         -", "none"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
}

#[test]
fn a_recording_is_read_as_it_was_written() {
    let all = samples();
    let mut bytes = Vec::new();
    recording::begin(&mut bytes).unwrap();
    for sample in &all {
        recording::write(sample, &mut bytes).unwrap();
    }
    assert_eq!(recording::read(&mut &bytes[..]).unwrap(), all);
    assert!(!String::from_utf8_lossy(&bytes).contains("password"));
    // Cut at any byte: whole lines are read, or the error says that there are none.
    for cut in (0..bytes.len()).step_by(97) {
        match recording::read(&mut &bytes[..cut]) {
            Ok(read) => assert!(read == all[..read.len()], "{cut}"),
            Err(what) => assert!(
                what.starts_with("no recording") || what.contains("no sample"),
                "{cut} {what}"
            ),
        }
    }
}

#[test]
fn what_is_no_recording_is_refused() {
    for (bytes, words) in [
        (&b""[..], "no recording"),
        (b"\x7fELF\0\0\n", "no recording"),
        (b"{\"frond_top\":1}\n", "no sample"),
        (b"{\"frond_top\":1}\n{}\n[1, 2\n", "line 3"),
        (b"{\"frond_top\":1}\n{\"at\":\"late\"}\n", "line 2"),
    ] {
        let error = recording::read(&mut &bytes[..]).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
}
