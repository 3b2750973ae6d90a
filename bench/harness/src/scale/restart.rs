//! Time from the start of a killed server to its first answer from a table.

use std::path::Path;
use std::time::{Duration, Instant};

use super::common::{header, line, seconds, settings, Options};
use super::verdicts::Verdicts;
use crate::engines::Engine;
use crate::server::{Server, Site};

/// A table of this many bytes is emptied before the next load: an hour of it would fill a disk.
const TABLE_MOST: u64 = 4 << 30;
const TABLE_BYTES: &str = "SELECT data_length + index_length FROM information_schema.tables \
                           WHERE table_schema = 'r' AND table_name = 't'";

pub fn run(
    options: &Options,
    site: &Site,
    plugins: &Path,
    verdicts: &mut Verdicts,
) -> Result<(), String> {
    if options.kills == 0 {
        return Ok(());
    }
    println!(
        "\n  {} s of load before each kill; frond_recovery_target={}",
        options.load, options.recovery_target
    );
    let mut rows = Vec::new();
    for &engine in &options.engines {
        let mut lines = settings(options, plugins, &[engine], false);
        lines.push(format!("loose_frond_recovery_target={}", options.recovery_target));
        let mut server = Server::start(site, "restart", &lines)?;
        if !server.has_engine(engine.sql_name()) {
            continue;
        }
        let alone = again(&mut server, "SELECT 1")?;
        server.sql(&format!(
            "CREATE DATABASE r; CREATE TABLE r.t (id BIGINT AUTO_INCREMENT PRIMARY KEY, a INT, b INT, \
             c CHAR(60), KEY (a), KEY (b)) ENGINE={}",
            engine.sql_name()
        ))?;
        let mut times = Vec::new();
        for n in 1..=options.kills {
            load(&server, Duration::from_secs(options.load.into()))?;
            match again(&mut server, "SELECT MAX(id) FROM r.t") {
                Ok(time) => {
                    // A run of hours says how far it is.
                    println!("  {} kill {n}: {time:.2} s", engine.label());
                    times.push(time);
                }
                Err(why) if engine != Engine::Frond => {
                    println!(
                        "  {} did not come back: {why}\n{}",
                        engine.label(),
                        server.log_errors()
                    );
                    break;
                }
                Err(why) => return Err(why),
            }
            let bytes = server.sql(TABLE_BYTES)?;
            let bytes: u64 =
                bytes.trim().parse().map_err(|_| format!("bytes of r.t: {bytes:?}"))?;
            if bytes > TABLE_MOST {
                server.sql("TRUNCATE TABLE r.t")?;
            }
        }
        let mut cells = vec![alone];
        cells.extend(&times);
        rows.push((engine, cells));
        if engine == Engine::Frond {
            let worst = times.into_iter().fold(0.0, f64::max);
            verdicts.at_most(
                "restart: s after a kill, over the server's start",
                worst - alone,
                f64::from(options.recovery_target),
            );
        }
    }
    let mut columns = vec!["server alone".to_string()];
    columns.extend((1..=options.kills).map(|i| format!("kill {i}")));
    header("first answer after", columns);
    for (engine, cells) in rows {
        line(engine.label(), cells.into_iter().map(seconds));
    }
    Ok(())
}

/// Kills the server, starts it again, and waits for the answer to `query`.
fn again(server: &mut Server, query: &str) -> Result<f64, String> {
    server.kill()?;
    let begun = Instant::now();
    server.restart()?;
    server.sql(query)?;
    Ok(begun.elapsed().as_secs_f64())
}

/// Inserts rows from sequences, 10 000 rows per transaction at random places of two indexes. A faster
/// engine inserts more of them and has more to recover.
fn load(server: &Server, length: Duration) -> Result<(), String> {
    // The server looks for a sequence's table in the current database, hence USE. CRC-32 stands for chance: it
    // continues from the last row, and gives the same values in each run.
    let mut script = String::from("USE r;\n");
    for _ in 0..10 {
        script.push_str(
            "SET @n = (SELECT IFNULL(MAX(id), 0) FROM t);\n\
             INSERT INTO t (a, b, c) SELECT CRC32(@n + seq) >> 2, CRC32(-(@n + seq)) >> 2, \
             SHA2(seq, 224) FROM seq_1_to_10000;\n",
        );
    }
    let until = Instant::now() + length;
    while Instant::now() < until {
        server.script(&script)?;
    }
    Ok(())
}
