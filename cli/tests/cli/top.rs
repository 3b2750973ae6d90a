//! `frond top` without a terminal, and from recordings.

use std::process::Stdio;

use crate::programs::bounded;

fn top(args: &[&str]) -> (i32, String, String) {
    let mut command = bounded(env!("CARGO_BIN_EXE_frond"));
    let output = command.arg("top").args(args).stdin(Stdio::null()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_recording_is_shown_as_text_and_what_is_none_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let sample = |at: u32, commits: u32| {
        format!(
            "{{\"at\":{at},\"server\":\"10.11 at s\",\"status\":{{\"frond_commits\":{commits},\
             \"frond_cache_bytes_limit\":1048576}},\"trees\":[{{\"table\":\"shop/t\",\"entries\":5}}]}}\n"
        )
    };
    let good =
        format!("{{\"frond_top\":1}}\n{}{}{}", sample(100, 0), sample(110, 0), sample(120, 50));
    let good = file("good.top", &good);
    let (status, out, error) = top(&["--once", "--replay", &good]);
    assert_eq!((status, error.as_str()), (0, ""));
    for words in ["10.11 at s", "commits    5.0/s", "shop/t"] {
        assert!(out.contains(words), "{words}: {out}");
    }
    for (args, words) in [
        (vec!["--once", "--replay", &file("bad.top", "x\n")], "bad.top: no recording"),
        (vec!["--once", "--replay", "/nowhere/x.top"], "/nowhere/x.top: "),
        (vec!["--replay", &good], "needs a terminal"),
        (vec!["--replay", &good, "--record", "x"], "cannot be used with"),
        (vec!["--once", "--no-defaults", "--socket", "/nowhere/s"], "is the server running"),
    ] {
        let (status, out, error) = top(&args);
        assert_eq!((status, out.as_str()), (2, ""), "{args:?}");
        assert!(error.contains(words), "{words}: {error}");
    }
}
