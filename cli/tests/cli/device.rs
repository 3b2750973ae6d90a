//! `frond bench device`: its result, the requests that it refuses, and that its files never stay.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::programs::{bounded, has};

fn device(args: &[&str]) -> Output {
    bounded(env!("CARGO_BIN_EXE_frond")).args(["bench", "device"]).args(args).output().unwrap()
}

fn refused(args: &[&str]) -> String {
    let o = device(args);
    assert_eq!(o.status.code(), Some(2), "{}", String::from_utf8_lossy(&o.stdout));
    assert!(o.stdout.is_empty());
    String::from_utf8(o.stderr).unwrap()
}

/// Values in the tables of its page.
#[rustfmt::skip]
const DEVICE_VALUES: &[&str] = &[
    "cached", "direct", "larger_than_memory", "statx", "fill", "random_read", "random_write", "sequential_read", "sequential_write",
    "fsync_append", "fsync_overwrite", "fdatasync_append", "fdatasync_overwrite",
    // Only present for a known device; in a container none is known.
    "model", "rotational", "logical_block_bytes", "physical_block_bytes", "write_cache", "scheduler", "atomic_write_bytes",
];

fn files(dir: &Path) -> usize {
    std::fs::read_dir(dir).unwrap().count()
}

#[test]
fn two_seconds_measure_everything_and_leave_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().to_str().unwrap();
    let o = device(&[place, "--seconds", "2", "--size", "32M", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&o.stdout).unwrap();
    // 1: the directory of temporary files may be in memory.
    assert_eq!(o.status.code(), Some(i32::from(json["cache"] == "cached")), "{json}");
    assert_eq!(json["schema"], 1);
    let figures = json["figures"].as_array().unwrap();
    let count = |kind: &str| figures.iter().filter(|f| f["kind"] == kind).count();
    assert_eq!([count("random_read"), count("random_write"), count("fill")], [21, 12, 1]);
    for kind in ["fsync_append", "fsync_overwrite", "fdatasync_append", "fdatasync_overwrite"] {
        assert_eq!(count(kind), 2, "alone and with readers");
    }
    assert!(figures.iter().all(|f| f["operations"].as_u64() > Some(0)));
    assert_eq!(json["tearing"]["proven"], false);
    assert!(json["settings"].as_array().unwrap().iter().any(|s| s["name"] == "frond_direct_io"));
    // Approximate: a disk that is slow to sync takes longer, but not without end.
    assert!(json["seconds"].as_f64().unwrap() < 60.0, "{}", json["seconds"]);
    assert_eq!(files(dir.path()), 0);
    crate::schemas::assert_documented("bench-device.md", &json, DEVICE_VALUES);
}

#[test]
fn the_text_has_figures_settings_and_reasons() {
    let dir = tempfile::tempdir().unwrap();
    let o = device(&[dir.path().to_str().unwrap(), "--seconds", "1", "--size", "32M"]);
    let text = String::from_utf8(o.stdout).unwrap();
    for part in [
        "Random reads\n",
        "64 KiB      64",
        "fdatasync  is written again        4",
        "Not proven",
        "# InnoDB\ninnodb_",
        "# MyRocks\n",
        "# Frond\nfrond_direct_io=",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(o.stderr.is_empty(), "no progress without a terminal");
}

#[test]
fn what_cannot_be_measured_is_refused_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().to_str().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert!(refused(&[file.to_str().unwrap()]).contains("not a directory"));
    assert!(refused(&[dir.path().join("none").to_str().unwrap()]).contains("none"));
    for size in ["0", "1", "31M"] {
        assert!(refused(&[place, "--size", size]).contains("at least 32 MiB"), "{size}");
    }
    let text = refused(&[place, "--size", "8000000G"]);
    assert!(text.contains("must stay free") && text.contains("--size"), "{text}");
    assert!(refused(&[place, "--seconds", "0"]).contains("--seconds"));
    assert!(refused(&[place, "--size", "x"]).contains("is not a number"));
    // This is read-only for everybody, root included.
    let text = refused(&["/proc/self"]);
    assert!(text.starts_with("frond: ") && text.contains("/proc/"), "{text}");
    assert_eq!(files(dir.path()), 1, "what was there before");
}

#[test]
fn no_permission_is_an_error_that_names_the_file() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o555)).unwrap();
    let args = ["bench", "device", dir.path().to_str().unwrap(), "--size", "32M", "--seconds", "1"];
    let program = env!("CARGO_BIN_EXE_frond");
    // Root may write everywhere, so the test must give that up first.
    let root = std::fs::write(dir.path().join("probe"), "").is_ok();
    if root && !has("setpriv") {
        return;
    }
    let mut command = match root {
        false => bounded(program),
        true => {
            let mut command = bounded("setpriv");
            command.args(["--bounding-set=-all", "--inh-caps=-all", "--reuid=0", "--", program]);
            command
        }
    };
    let o = command.args(args).output().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let text = String::from_utf8_lossy(&o.stderr).into_owned();
    assert_eq!(o.status.code(), Some(2), "{text}");
    assert!(text.contains("frond-bench-device.") && text.contains("denied"), "{text}");
    assert_eq!(files(dir.path()), usize::from(root));
}

#[test]
fn a_signal_ends_it_at_once_and_the_files_are_gone() {
    for (signal, wait) in [("-INT", 400), ("-TERM", 50), ("-HUP", 1200)] {
        let dir = tempfile::tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_frond"))
            .args(["bench", "device", "--seconds", "60", "--size", "64M"])
            .arg(dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        while files(dir.path()) < 2 {
            assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(wait));
        let kill = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        assert!(kill.success());
        let mut waits = 0;
        while child.try_wait().unwrap().is_none() {
            waits += 1;
            if waits > 3000 {
                child.kill().unwrap();
                panic!("{signal}: still running after 30 s");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let o = child.wait_with_output().unwrap();
        assert_eq!(o.status.code(), Some(2), "{signal}");
        assert!(String::from_utf8_lossy(&o.stderr).contains("interrupted"), "{signal}");
        assert!(o.stdout.is_empty());
        assert_eq!(files(dir.path()), 0, "{signal}");
    }
}
