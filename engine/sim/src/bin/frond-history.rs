//! `frond-history`: checks a recorded history for anomalies, or records one first.

use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use frond_sim::history::record::{record, Recording};
use frond_sim::history::{check, line, parse, predicates, Outcome};
use frond_vfs::{OpenHow, OsVfs, Vfs};

/// Checks histories of list appends (one JSON transaction per line) for isolation anomalies.
#[derive(Parser)]
struct Args {
    /// The history. Without it: record one from the embedded engine and check that.
    file: Option<std::path::PathBuf>,
    /// Recording: threads.
    #[arg(long, default_value_t = 4)]
    threads: u64,
    /// Recording: seconds at most.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Recording: transactions at most.
    #[arg(long, default_value_t = 30_000)]
    transactions: u64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the recorded history.
    #[arg(long)]
    print: bool,
    /// Anomalies that serializability forbids count as well (write skew). Recording: serializable transactions, which
    /// read by predicate.
    #[arg(long)]
    serializable: bool,
}

fn main() {
    let args = Args::parse();
    let history = match &args.file {
        Some(path) => load(path),
        None => {
            let recording = Recording {
                threads: args.threads,
                keys: 40,
                transactions: args.transactions,
                time: Duration::from_secs(args.seconds),
                seed: args.seed,
                canary: None,
            };
            let recorded = match args.serializable {
                true => predicates::record(recording),
                false => record(recording),
            };
            recorded.map_err(|e| e.to_string())
        }
    };
    let history = match history {
        Ok(history) => history,
        Err(e) => {
            eprintln!("{e}");
            std::process::exit(2);
        }
    };
    if args.print {
        history.iter().for_each(|t| println!("{}", line(t)));
    }
    let found = check(&history);
    let mut bad = 0;
    for a in &found {
        let counts = args.serializable || a.kind.forbidden_by_snapshot();
        bad += usize::from(counts);
        let label = if counts { "FAILED" } else { "allowed" };
        println!("{label} {:?}: transactions {:?}: {}", a.kind, a.txns, a.what);
    }
    let committed = history.iter().filter(|t| t.outcome == Outcome::Ok).count();
    println!("{} transactions, {committed} committed", history.len());
    println!("{} passed, {bad} failed", usize::from(bad == 0));
    std::process::exit(i32::from(bad > 0));
}

fn load(path: &std::path::Path) -> Result<Vec<frond_sim::history::Txn>, String> {
    let name = path.file_name().and_then(|n| n.to_str()).ok_or("not a file name")?;
    let dir = path.parent().filter(|p| !p.as_os_str().is_empty());
    let dir = dir.unwrap_or(std::path::Path::new("."));
    let vfs: Arc<dyn Vfs> = Arc::new(OsVfs::new(dir).map_err(|e| e.to_string())?);
    let file = vfs.open(name, OpenHow::READ).map_err(|e| format!("{name}: {e}"))?;
    let mut bytes = vec![0; file.len().map_err(|e| e.to_string())? as usize];
    file.read_exact_at(&mut bytes, 0).map_err(|e| format!("{name}: {e}"))?;
    parse(&mut &bytes[..])
}
