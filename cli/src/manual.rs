//! Man pages and shell completions, made from the definitions that read the command line, so that
//! they cannot disagree with it.
//!
//! The program writes them itself (`frond man`, `frond completions`), instead of a build script
//! leaving them in a directory that users do not find: a package calls the binary it has just built, and
//! a user who copied only the binary has them, too. `make man` lays them out as a package installs
//! them.
//!
//! Tested by `tests/cli/manual.rs`: every option is in every page and completion.

use std::io::Write;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_mangen::roff::{roman, Roff};
use clap_mangen::Man;

use crate::args::{Cli, CompletionsArgs, ManArgs};
use crate::out::{Failure, Outcome};

const SECTION: &str = "1";

/// All commands, with their full names (`frond-bench-iibench`).
fn commands() -> Command {
    let mut all = Cli::command().disable_help_subcommand(true);
    all.build();
    all
}

/// Writes one page to `out`, or all pages as files.
pub fn man(args: &ManArgs, out: &mut dyn Write) -> Outcome<()> {
    let all = commands();
    if let Some(dir) = &args.all {
        return write_all(&all, dir);
    }
    let mut command = &all;
    for name in &args.command {
        command = command.find_subcommand(name).ok_or_else(|| {
            let known: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
            Failure::Request(match known.is_empty() {
                true => format!("'{}' has no commands of its own", command.get_name()),
                false => format!("no command '{name}': there are {}", known.join(", ")),
            })
        })?;
    }
    page(command, out)
}

/// Every page below `command` into `dir`.
#[allow(clippy::disallowed_methods)] // A page is no file of a database.
fn write_all(command: &Command, dir: &Path) -> Outcome<()> {
    let fail = |path: &Path, e| Failure::Request(format!("{}: {e}", path.display()));
    std::fs::create_dir_all(dir).map_err(|e| fail(dir, e))?;
    let mut text = Vec::new();
    page(command, &mut text)?;
    let path = dir.join(file_name(command));
    std::fs::write(&path, text).map_err(|e| fail(&path, e))?;
    command.get_subcommands().filter(|c| !c.is_hide_set()).try_for_each(|c| write_all(c, dir))
}

fn page_name(command: &Command) -> &str {
    command.get_display_name().unwrap_or(command.get_name())
}

fn file_name(command: &Command) -> String {
    format!("{}.{SECTION}", page_name(command))
}

fn page(command: &Command, mut out: &mut dyn Write) -> Outcome<()> {
    let man = Man::new(command.clone())
        .title(page_name(command).to_uppercase())
        .section(SECTION)
        .source(concat!("frond ", env!("CARGO_PKG_VERSION")))
        .manual("Frond");
    man.render_title(&mut out)?;
    man.render_name_section(&mut out)?;
    // The usage line: a list of fifty options would say nothing.
    let usage = command.clone().render_usage().to_string();
    let mut synopsis = Roff::new();
    synopsis.control("SH", ["SYNOPSIS"]).text([roman(usage.trim_start_matches("Usage: ").trim())]);
    out.write_all(synopsis.to_roff().as_bytes())?;
    man.render_description_section(&mut out)?;
    if command.get_arguments().any(|a| !a.is_hide_set()) {
        let mut options = Vec::new();
        man.render_options_section(&mut options)?;
        // Groups of options are parts of the section, not sections beside it.
        let options = String::from_utf8_lossy(&options)
            .replace("\n.SH ", "\n.SS ")
            .replace("\n.SS OPTIONS", "\n.SH OPTIONS");
        out.write_all(options.as_bytes())?;
    }
    if command.get_subcommands().any(|c| !c.is_hide_set()) {
        man.render_subcommands_section(&mut out)?;
    }
    if let Some(text) = command.get_after_long_help() {
        out.write_all(sections(&text.to_string()).to_roff().as_bytes())?;
    }
    if command.get_name() != "frond" {
        let mut also = Roff::new();
        also.control("SH", ["SEE ALSO"]).text([roman("frond(1)")]);
        out.write_all(also.to_roff().as_bytes())?;
    }
    Ok(())
}

/// The text behind the options, whose paragraphs begin with what would be a heading: `Examples:`.
fn sections(text: &str) -> Roff {
    let mut roff = Roff::new();
    for paragraph in text.split("\n\n") {
        let (title, body) = paragraph.split_once(':').unwrap_or(("Notes", paragraph));
        roff.control("SH", [title.to_uppercase().as_str()]);
        // Lines of commands are not filled, sentences are.
        let lines = body.starts_with('\n');
        if lines {
            roff.control("nf", []);
        }
        roff.text([roman(body.trim_matches('\n').trim_start_matches(' '))]);
        if lines {
            roff.control("fi", []);
        }
    }
    roff
}

/// Writes the completion script of a shell.
pub fn completions(args: &CompletionsArgs, mut out: &mut dyn Write) {
    clap_complete::generate(args.shell, &mut Cli::command(), "frond", &mut out);
}
