//! Logs that grow, move and shrink while they are followed.

use super::*;
use frond_querylog::input::tail::QUIET;
use std::io::Write;
use std::path::Path;

fn event(i: u32) -> String {
    format!("# User@Host: u{i}[a] @ h []\n# Query_time: 0.{i:03}  Lock_time: 0\nselect {i};\n")
}

#[test]
fn a_rotated_log_is_read_to_its_end_and_then_the_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("slow.log");
    std::fs::write(&path, event(1)).unwrap();
    let options =
        Follow { path: path.clone(), interval: Duration::from_millis(3500), from_begin: true };
    let following = Following::open(&options, &Arc::new(Settings::default())).unwrap();
    let writer = std::thread::spawn({
        let path = path.clone();
        let moved = dir.path().join("slow.log.1");
        move || {
            let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
            // An event in two pieces, and one behind it after the rotation, as servers do until FLUSH LOGS.
            let whole = event(2);
            file.write_all(&whole.as_bytes()[..30]).unwrap();
            std::thread::sleep(Duration::from_millis(300));
            file.write_all(&whole.as_bytes()[30..]).unwrap();
            std::fs::rename(&path, moved).unwrap();
            std::thread::sleep(Duration::from_millis(300));
            file.write_all(event(3).as_bytes()).unwrap();
            std::fs::write(&path, event(4)).unwrap();
        }
    });
    let mut events = 0;
    let mut skips = 0;
    let each = &mut |outcome: Outcome| {
        events += outcome.events;
        skips += outcome.skips.count();
        false
    };
    following.run(each).unwrap();
    writer.join().unwrap();
    assert_eq!((events, skips), (4, 0));
}

#[test]
fn a_missing_log_is_said() {
    let options = Follow {
        path: PathBuf::from("/nonexistent/slow.log"),
        interval: Duration::from_secs(1),
        from_begin: false,
    };
    let error = Following::open(&options, &Arc::new(Settings::default())).err().unwrap();
    assert!(error.contains("no such file"), "{error}");
}

/// Follows the log for 8 s while `write` changes it; returns the events, and the parts that could not be
/// read.
fn followed(write: impl FnOnce(&Path) + Send + 'static) -> (Vec<String>, u64) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("slow.log");
    std::fs::write(&path, event(1)).unwrap();
    let options = Follow { path: path.clone(), interval: Duration::from_secs(8), from_begin: true };
    let (mut seen, mut skips) = (Vec::new(), 0);
    let group_by = crate::run::GroupBy::User;
    let settings = Settings { group_by, ..Settings::default() };
    let following = Following::open(&options, &Arc::new(settings)).unwrap();
    let writer = std::thread::spawn(move || write(&path));
    let each = &mut |outcome: Outcome| {
        seen.extend(outcome.table.classes.iter().map(|c| {
            let sample = &c.sample;
            let file = &outcome.files[sample.place.file as usize];
            assert!(sample.place.offset < file.bytes, "{} of {}", sample.place.offset, file.bytes);
            String::from_utf8(sample.sql.to_vec()).unwrap()
        }));
        skips += outcome.skips.count();
        false
    };
    following.run(each).unwrap();
    writer.join().unwrap();
    seen.sort();
    (seen, skips)
}

fn append(path: &Path, text: &str) {
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn pause(millis: u64) {
    std::thread::sleep(Duration::from_millis(millis));
}

#[test]
fn what_the_server_writes_to_the_old_log_after_the_rotation_is_read() {
    let (seen, skips) = followed(|path| {
        let old = path.with_extension("1");
        std::fs::rename(path, &old).unwrap();
        append(path, "");
        // The server does not know of the rotation yet, for longer than `QUIET`.
        pause(QUIET.as_millis() as u64 + 700);
        append(&old, &event(2));
        append(path, &event(3));
        // This file had the name for a few polls.
        pause(900);
        append(&old, &event(4));
        // Another rotation while the old file is not quiet.
        std::fs::rename(path, path.with_extension("2")).unwrap();
        append(path, &event(5));
    });
    assert_eq!(seen, ["select 1", "select 2", "select 3", "select 4", "select 5"]);
    assert_eq!(skips, 0);
}

#[test]
fn a_log_that_was_copied_and_emptied_is_read_from_its_begin() {
    let (seen, skips) = followed(|path| {
        append(path, &event(2));
        pause(700);
        std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(0).unwrap();
        pause(300);
        append(path, &event(3));
        pause(300);
        append(path, &event(4));
    });
    assert_eq!(seen, ["select 1", "select 2", "select 3", "select 4"]);
    assert_eq!(skips, 0);
}
