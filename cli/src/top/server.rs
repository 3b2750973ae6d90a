//! Samples of a running server for `frond_top`.

use frond_digest::live::Row;
use frond_locks::graph;
use frond_locks::model::Dump;
use frond_sqltext::Dialect;
use frond_top::sample::{trees, Sample, Statement, Wait, MOST};

use crate::digest::live::connect::{self, text, Server};
use crate::locks::server::innodb;
use crate::out::Outcome;
use crate::server_args::ServerOptions;

const NEEDS: &str = "PROCESS ON *.*";

const FROND_WAITS: &str = "SELECT WAIT_MS, WAITING_CONNECTION_ID, BLOCKING_CONNECTION_ID, \
    CONCAT_WS(' ', CONCAT_WS('.', TABLE_SCHEMA, TABLE_NAME), INDEX_NAME), WAITING_QUERY \
    FROM information_schema.FROND_LOCK_WAITS ORDER BY 1 DESC LIMIT 50";
/// InnoDB's waits that are shown.
const LONGEST: usize = 50;
const DIGESTS: &str =
    "SELECT DIGEST_TEXT, SUM(COUNT_STAR), SUM(SUM_TIMER_WAIT) / 1e12, SUM(SUM_ROWS_EXAMINED) \
    FROM performance_schema.events_statements_summary_by_digest WHERE DIGEST_TEXT IS NOT NULL \
    GROUP BY 1 ORDER BY 3 DESC LIMIT 200";
/// For MySQL, whose times are whole seconds.
const PROCESSES_OF_MYSQL: &str = "SELECT TIME, INFO FROM information_schema.PROCESSLIST \
    WHERE COMMAND NOT IN ('Sleep', 'Daemon') AND INFO IS NOT NULL AND ID <> CONNECTION_ID() ORDER BY 1 DESC LIMIT 200";
const PROCESSES: &str = "SELECT TIME_MS / 1000, INFO FROM information_schema.PROCESSLIST \
    WHERE COMMAND NOT IN ('Sleep', 'Daemon') AND INFO IS NOT NULL AND ID <> CONNECTION_ID() ORDER BY 1 DESC LIMIT 200";

/// A connection to the server, and what it has.
pub struct Asked {
    server: Server,
    has_frond: bool,
    has_innodb: bool,
    has_digests: bool,
}

impl Asked {
    pub fn connect(options: &ServerOptions) -> Outcome<Asked> {
        let mut server = options.watch(NEEDS)?;
        // InnoDB's times are those of the system, whatever the session's zone.
        server.run("SET SESSION time_zone = 'SYSTEM', character_set_results = utf8mb4")?;
        let has_frond = !server.columns("information_schema", "FROND_LOCK_WAITS")?.is_empty();
        let has_innodb = !server.columns("information_schema", "INNODB_LOCK_WAITS")?.is_empty();
        let on = server.value("SELECT @@global.performance_schema");
        let may = "SELECT 1 FROM performance_schema.events_statements_summary_by_digest LIMIT 1";
        // Without the privilege, the running statements are shown instead.
        let has_digests = matches!(on, Ok(Some(on)) if on == "1") && server.value(may).is_ok();
        Ok(Asked { server, has_frond, has_innodb, has_digests })
    }

    /// The state of this moment; `at` is in seconds since 1970.
    pub fn sample(&mut self, at: f64) -> Outcome<Sample> {
        let mut sample = Sample { at, server: self.server.name.clone(), ..Sample::default() };
        self.server.each_row("SHOW GLOBAL STATUS", &mut |row| {
            sample.put(&text(row, 0), &text(row, 1));
        })?;
        if self.has_frond {
            self.frond_waits(&mut sample)?;
            let mut status = String::new();
            self.server.each_row("SHOW ENGINE FROND STATUS", &mut |row| {
                status = text(row, 2);
            })?;
            sample.trees = trees(&status);
            sample
                .trees
                .sort_by_key(|tree| std::cmp::Reverse((tree.buffered_bytes, tree.stored_bytes)));
            sample.trees.truncate(4 * MOST);
        }
        if self.has_innodb {
            self.innodb_waits(&mut sample)?;
        }
        if self.has_digests {
            self.server.each_row(DIGESTS, &mut |row| {
                sample.statements.push(Statement {
                    class: text(row, 0),
                    count: number(row, 1) as u64,
                    seconds: number(row, 2),
                    rows_examined: number(row, 3) as u64,
                });
            })?;
        } else {
            self.running(&mut sample)?;
        }
        Ok(sample)
    }

    /// As `frond locks --live` reads them; a blocker that the server does not name is 0.
    fn innodb_waits(&mut self, sample: &mut Sample) -> Outcome<()> {
        let mut dump = Dump { given: Some(Vec::new()), ..Dump::default() };
        innodb(&mut self.server, &mut dump)?;
        let mut waits = graph::waits(&dump);
        let micros = |at: usize| dump.trxs[at].wait_micros.unwrap_or(0);
        waits.sort_by_key(|wait| std::cmp::Reverse(micros(wait.waiter)));
        let first = sample.waits.len();
        for wait in waits {
            let trx = &dump.trxs[wait.waiter];
            let place = trx.waiting_lock().map_or(String::new(), |lock| {
                let index = lock.page.as_ref().map_or("", |page| &*page.index);
                format!("{} {index}", lock.table).trim_end().to_owned()
            });
            let unnamed = wait.by.is_empty().then_some(0);
            let named = wait.by.iter().map(|by| dump.trxs[by.trx].thread.unwrap_or(0));
            for blocker in named.chain(unnamed) {
                sample.waits.push(Wait {
                    engine: "InnoDB".into(),
                    seconds: micros(wait.waiter) as f64 / 1e6,
                    waiter: trx.thread.unwrap_or(0),
                    blocker,
                    place: place.clone(),
                    statement: class(&trx.statement),
                });
            }
        }
        sample.waits.truncate(first + LONGEST);
        Ok(())
    }

    fn frond_waits(&mut self, sample: &mut Sample) -> Outcome<()> {
        self.server.each_row(FROND_WAITS, &mut |row| {
            sample.waits.push(Wait {
                engine: "Frond".into(),
                seconds: number(row, 0).max(0.0) / 1000.0,
                waiter: number(row, 1) as u64,
                blocker: number(row, 2) as u64,
                place: text(row, 3).replace('`', ""),
                statement: class(row.get(4).copied().flatten().unwrap_or_default()),
            });
        })
    }

    /// The running statements by class: their number, and the time of the longest.
    fn running(&mut self, sample: &mut Sample) -> Outcome<()> {
        sample.running_only = true;
        let sql = if self.server.mariadb { PROCESSES } else { PROCESSES_OF_MYSQL };
        self.server.each_row(sql, &mut |row| {
            let class = class(row.get(1).copied().flatten().unwrap_or_default());
            let seconds = number(row, 0).max(0.0);
            match sample.statements.iter_mut().find(|s| s.class == class) {
                Some(known) => {
                    known.count += 1;
                    known.seconds = known.seconds.max(seconds);
                }
                None => {
                    sample.statements.push(Statement { class, count: 1, seconds, rows_examined: 0 })
                }
            }
        })?;
        sample.statements.truncate(MOST);
        Ok(())
    }
}

/// A statement without its literals.
fn class(sql: &[u8]) -> String {
    let mut key = Vec::new();
    frond_sqltext::fingerprint(sql, Dialect::Frond, &mut key);
    String::from_utf8_lossy(&key[..key.len().min(1000)]).into_owned()
}

fn number(row: &Row<'_>, at: usize) -> f64 {
    connect::number(row, at).unwrap_or(0.0)
}
