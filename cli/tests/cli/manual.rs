//! Man pages and completions: they are complete, and the tools that read them accept them.

use std::process::{Command, Output, Stdio};

use clap::{Command as Definition, CommandFactory};
use frond_cli::args::Cli;

use crate::programs::bounded;

fn frond(args: &[&str]) -> Output {
    bounded(env!("CARGO_BIN_EXE_frond")).args(args).output().unwrap()
}

fn text(args: &[&str]) -> String {
    let output = frond(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Every command with the words to type for it, `frond` itself first.
fn commands() -> Vec<(Vec<String>, Definition)> {
    fn collect(at: &[String], command: &Definition, all: &mut Vec<(Vec<String>, Definition)>) {
        all.push((at.to_vec(), command.clone()));
        for sub in command.get_subcommands().filter(|c| c.get_name() != "help") {
            collect(&[at, &[sub.get_name().to_owned()]].concat(), sub, all);
        }
    }
    let mut root = Cli::command();
    root.build();
    let mut all = Vec::new();
    collect(&[], &root, &mut all);
    assert!(all.len() >= 11, "{}", all.len());
    all
}

fn options(command: &Definition) -> Vec<String> {
    command
        .get_opts()
        .chain(command.get_arguments().filter(|a| !a.is_positional()))
        .filter(|a| !a.is_hide_set())
        .filter_map(|a| a.get_long().map(|long| format!("--{long}")))
        .collect()
}

/// A page as a reader sees it, without the marks of the formatter.
fn plain(roff: &str) -> String {
    ["\\fB", "\\fI", "\\fR", "\\"].iter().fold(roff.to_owned(), |text, mark| text.replace(mark, ""))
}

#[test]
fn every_option_of_every_command_is_in_its_man_page() {
    for (path, command) in commands() {
        let mut args = vec!["man"];
        args.extend(path.iter().map(String::as_str));
        let page = plain(&text(&args));
        for option in options(&command) {
            assert!(page.contains(&option), "{path:?} {option}");
        }
        for sub in command.get_subcommands().filter(|c| c.get_name() != "help") {
            assert!(
                page.contains(&format!(
                    "frond-{}",
                    [&path[..], &[sub.get_name().into()]].concat().join("-")
                )),
                "{path:?} {}",
                sub.get_name()
            );
        }
    }
    let digest = plain(&text(&["man", "digest"]));
    for part in [".SH EXAMPLES", ".SH \"EXIT STATUS\"", ".SH \"SEE ALSO\"", "tcpdump"] {
        assert!(digest.contains(part), "{part}");
    }
}

#[test]
fn all_pages_are_written_where_a_package_wants_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("share/man/man1");
    text(&["man", "--all", path.to_str().unwrap()]);
    let mut names: Vec<String> = std::fs::read_dir(&path)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let mut wanted: Vec<String> = commands()
        .iter()
        .map(|(at, _)| format!("{}.1", [&["frond".to_owned()][..], at].concat().join("-")))
        .collect();
    wanted.sort();
    assert_eq!(names, wanted);
}

#[test]
fn the_formatter_has_nothing_to_complain_about() {
    let Ok(groff) = Command::new("groff").arg("--version").output() else {
        eprintln!("skipped: no groff");
        return;
    };
    assert!(groff.status.success());
    for command in ["digest", "check"] {
        let mut child = Command::new("groff")
            .args(["-man", "-Tutf8", "-ww", "-z"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let page = text(&["man", command]);
        std::io::Write::write_all(child.stdin.as_mut().unwrap(), page.as_bytes()).unwrap();
        let said = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&said.stderr), "", "{command}");
    }
}

#[test]
fn every_option_is_completed_in_every_shell() {
    for shell in ["bash", "zsh", "fish"] {
        let script = text(&["completions", shell]);
        for (path, command) in commands() {
            for option in options(&command) {
                // fish names them without the dashes.
                let name =
                    if shell == "fish" { format!("-l {}", &option[2..]) } else { option.clone() };
                assert!(script.contains(&name), "{shell} {path:?} {option}");
            }
        }
        for value in ["ptqd-3.2", "mariadb-digest", "tcpdump", "percona"] {
            assert!(script.contains(value), "{shell} {value}");
        }
    }
}

#[test]
fn shells_accept_the_scripts() {
    let dir = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let file = dir.path().join(shell);
        std::fs::write(&file, text(&["completions", shell])).unwrap();
        match Command::new(shell).arg("-n").arg(&file).output() {
            Err(_) => eprintln!("skipped: no {shell}"),
            Ok(said) => {
                assert!(said.status.success(), "{shell}: {}", String::from_utf8_lossy(&said.stderr))
            }
        }
    }
    // And bash completes with it.
    let ask = format!(
        "source {}; COMP_WORDS=(frond digest --orde); COMP_CWORD=2; _frond frond --orde digest; echo ${{COMPREPLY[@]}}",
        dir.path().join("bash").display()
    );
    if let Ok(said) = Command::new("bash").args(["-c", &ask]).output() {
        assert_eq!(String::from_utf8_lossy(&said.stdout).trim(), "--order-by");
    }
}

#[test]
fn a_command_that_is_not_there_is_told() {
    let output = frond(&["man", "digset"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("no command 'digset'") && said.contains("digest"), "{said}");
}
