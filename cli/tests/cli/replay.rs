//! `frond replay` and `frond exporter` without a usable server or input: the message says what to do
//! instead.
//!
//! With servers: `tests/sql/replay.py`, `tests/sql/exporter.py`.

use std::process::Stdio;

use crate::programs::bounded;

fn refused(args: &[&str]) -> String {
    let mut command = bounded(env!("CARGO_BIN_EXE_frond"));
    let output = command.args(args).env_remove("MYSQL_PWD").stdin(Stdio::null()).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{args:?} {error}");
    error
}

#[test]
fn what_a_replay_cannot_do_is_said_before_anything_is_read() {
    let replay =
        |rest: &[&str]| refused(&[&["replay", "slow.log", "--no-defaults"], rest].concat());
    let nobody = "/nowhere/is/a.sock";
    for (rest, words) in [
        (
            &["--on", nobody, "--against", nobody][..],
            &["no such socket", "is the server running"][..],
        ),
        (&["--on", "me@", "--against", nobody], &["--on", "HOST:PORT"]),
        (&["--on", "host:port", "--against", nobody], &["'port' in 'host:port' is no port"]),
        (&["--on", "127.0.0.1:1", "--against", nobody], &["127.0.0.1:1", "nobody listens there"]),
        (&["--on", "./missing.cnf", "--against", nobody], &["missing.cnf"]),
        (&["--on", nobody, "--against", nobody, "--password-file", "-"], &["name a file"]),
        (&["--on", nobody, "--against", nobody, "--speed", "0"], &["between 0.001"]),
        (&["--on", nobody], &["--against"]),
    ] {
        let error = replay(rest);
        for word in words {
            assert!(error.contains(word), "{rest:?}: {error}");
        }
    }
}

#[test]
fn an_exporter_says_why_it_cannot_listen_or_ask() {
    let error = refused(&["exporter", "--once", "--no-defaults", "--socket", "/nowhere/is/a.sock"]);
    assert!(error.contains("no such socket"), "{error}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let error = refused(&["exporter", "--no-defaults", "--listen", &address]);
    assert!(error.contains(&format!("cannot listen at {address}")), "{error}");
    assert!(refused(&["exporter", "--listen", "somewhere"]).contains("--listen"));
}
