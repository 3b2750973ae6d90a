//! Few and many connections: what contention costs.

use std::process::{Command, Stdio};

use super::common::{header, line, Options, Subject};
use super::verdicts::Verdicts;
use crate::engines::Engine;
use crate::interrupt;
use crate::sample::sample;
use crate::server::Server;
use crate::units;

const WORKLOADS: [&str; 3] = ["oltp_point_select", "oltp_update_non_index", "oltp_insert"];
const FEW: u32 = 4;
const MANY: u32 = 64;
const ROWS: u32 = 100_000;

/// The least allowed ratio: the rate of many connections over that of few.
const LEAST: f64 = 0.95;

#[derive(Clone, Copy, Default)]
struct Measured {
    /// Statements per second.
    rate: f64,
    /// CPU seconds of the server per statement.
    cpu_seconds: f64,
}

pub fn run(
    options: &Options,
    server: &Server,
    subjects: &[Subject],
    verdicts: &mut Verdicts,
) -> Result<(), String> {
    if options.seconds == 0 {
        return Ok(());
    }
    let columns = [FEW, MANY].into_iter().flat_map(|n| [format!("{n} conn."), "CPU".into()]);
    header("statements/s, CPU of each", columns.chain(["many/few".into()]));
    for subject in subjects {
        let Subject::Engine(engine) = *subject else { continue };
        sysbench(server, *subject, WORKLOADS[0], &["prepare".into()])?;
        for workload in WORKLOADS {
            // Both in turn, twice; the better of the two rates counts.
            let mut best = [Measured::default(); 2];
            for _ in 0..2 {
                for (best, threads) in best.iter_mut().zip([FEW, MANY]) {
                    if interrupt::requested() {
                        return Err(interrupt::MESSAGE.into());
                    }
                    let now = measure(options, server, *subject, workload, threads)?;
                    if now.rate > best.rate {
                        *best = now;
                    }
                }
            }
            let quotient = best[1].rate / best[0].rate.max(1e-9);
            let name = format!("{} {}", subject.label(), workload.trim_start_matches("oltp_"));
            let cells = best.iter().flat_map(|m| {
                [units::grouped(m.rate.round() as u64), units::micros(m.cpu_seconds * 1e6)]
            });
            line(&name, cells.chain([format!("{quotient:.2}x")]));
            if engine == Engine::Frond {
                let name = format!("{workload}: {MANY} connections over {FEW}");
                verdicts.at_least(&name, quotient, LEAST);
            }
        }
        sysbench(server, *subject, WORKLOADS[0], &["cleanup".into()])?;
    }
    Ok(())
}

fn measure(
    options: &Options,
    server: &Server,
    subject: Subject,
    workload: &str,
    threads: u32,
) -> Result<Measured, String> {
    let before = sample(server.pid())?.cpu_seconds;
    let arguments =
        [format!("--threads={threads}"), format!("--time={}", options.seconds), "run".into()];
    let text = sysbench(server, subject, workload, &arguments)?;
    let cpu = sample(server.pid())?.cpu_seconds - before;
    let rate = crate::sysbench::rate(&text)
        .ok_or_else(|| format!("sysbench's report is not understood:\n{text}"))?;
    let statements = rate * f64::from(options.seconds);
    Ok(Measured { rate, cpu_seconds: cpu / statements.max(1.0) })
}

fn sysbench(
    server: &Server,
    subject: Subject,
    workload: &str,
    arguments: &[String],
) -> Result<String, String> {
    let out = Command::new("sysbench")
        .arg(workload)
        .arg("--db-driver=mysql")
        .arg(format!("--mysql-socket={}", server.socket().display()))
        .args(["--mysql-user=root", "--rand-seed=1", "--rand-type=uniform"])
        .arg(format!("--mysql-db={}", subject.database()))
        .arg(format!("--mysql_storage_engine={}", subject.sql_name()))
        .args(["--tables=1", &format!("--table-size={ROWS}")])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("cannot start sysbench: {e}"))?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    if out.status.success() {
        return Ok(text);
    }
    Err(format!("sysbench failed:\n{text}{}", String::from_utf8_lossy(&out.stderr)))
}
