//! The program: reads the command line, runs one command, chooses the exit status (CLI2, CLI3).
#![forbid(unsafe_code)]

use std::io::{BufWriter, IsTerminal, Write};
use std::process::ExitCode;

use clap::Parser;
use frond_cli::args::{BenchCommand, CheckArgs, Cli, Command, DumpArgs};
use frond_cli::out::Outcome;
use frond_cli::{
    backup, bench, check, digest, doctor, dump, exporter, indexes, locks, log, manual, open,
    replay, stat, top,
};

/// The result of a command.
enum End {
    Fine,
    /// Problems were found, or a threshold was missed.
    Problems,
}

impl From<bool> for End {
    fn from(fine: bool) -> End {
        if fine {
            End::Fine
        } else {
            End::Problems
        }
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut out = BufWriter::new(std::io::stdout().lock());
    let end = run(cli.command, &mut out).and_then(|end| {
        out.flush()?;
        Ok(end)
    });
    // Dropping the buffer would write the rest once more.
    let _ = out.into_parts();
    match end {
        Ok(End::Fine) => ExitCode::SUCCESS,
        Ok(End::Problems) => ExitCode::from(1),
        Err(e) if e.is_closed_pipe() => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("frond: {e}");
            ExitCode::from(2)
        }
    }
}

fn run(command: Command, out: &mut dyn Write) -> Outcome<End> {
    match command {
        Command::Check(args) => run_check(&args, out),
        Command::Stat(args) => {
            let vfs = open::directory(&args.dir)?;
            stat::run(vfs, args.table.as_deref(), args.json, out)?;
            Ok(End::Fine)
        }
        Command::Dump(args) => run_dump(args, out),
        Command::Log(args) => {
            let vfs = open::directory(&args.dir)?;
            log::run(vfs, args.summary, args.json, out).map(End::from)
        }
        Command::Digest(args) => digest::run(&args, out).map(End::from),
        Command::Indexes(args) => indexes::run(&args, out).map(End::from),
        Command::Locks(args) => locks::run(&args, out).map(End::from),
        Command::Doctor(args) => doctor::run(&args, out).map(End::from),
        Command::Top(args) => top::run(&args, out).map(End::from),
        Command::Exporter(args) => exporter::run(&args, out).map(End::from),
        Command::Replay(args) => replay::run(&args, out).map(End::from),
        Command::Backup(command) => backup::run(&command, out).map(End::from),
        Command::Man(args) => manual::man(&args, out).map(|()| End::Fine),
        Command::Completions(args) => {
            manual::completions(&args, out);
            Ok(End::Fine)
        }
        Command::Bench(command) => match command {
            BenchCommand::Iibench(args) => bench::iibench::run(&args, out).map(End::from),
            BenchCommand::Device(args) => bench::device::run(&args, out).map(End::from),
            BenchCommand::Codec(args) => bench::micro::codec(&args, out).map(End::from),
            BenchCommand::Allocator(args) => {
                bench::micro::allocator(&args, out).map(|()| End::Fine)
            }
            BenchCommand::Buffer(args) => bench::micro::buffer(&args, out).map(|()| End::Fine),
        },
    }
}

fn run_check(args: &CheckArgs, out: &mut dyn Write) -> Outcome<End> {
    let vfs = open::directory(&args.dir)?;
    let options =
        check::Options { cache_bytes: args.cache, table: args.table.clone(), rows: !args.no_rows };
    // On a terminal one line that changes; in a file one line per step would be noise.
    let shown = !args.quiet && std::io::stderr().is_terminal();
    let mut progress = |what: &str| {
        if shown {
            eprint!("\r\x1b[K{what}");
        }
    };
    let report = check::run(vfs, &options, &mut progress);
    if shown {
        eprint!("\r\x1b[K");
    }
    let report = report?;
    if args.json {
        report.write_json(out)?;
    } else {
        report.write_text(out)?;
    }
    Ok(report.is_clean().into())
}

fn run_dump(args: DumpArgs, out: &mut dyn Write) -> Outcome<End> {
    let vfs = open::directory(&args.dir)?;
    let options = dump::Options {
        table: args.table,
        index: args.index,
        format: args.format,
        limit: args.limit,
        header: !args.no_header,
        cache_bytes: args.cache,
    };
    dump::run(vfs, &options, out)?;
    Ok(End::Fine)
}
