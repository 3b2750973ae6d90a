//! Runs statements: one thread reads and distributes them, the others run them.
//!
//! A session of the log always runs on the same thread, with a connection of its own to each server. So the order within
//! sessions is the log's (RP2), and sessions on different threads overlap. Which server comes first alternates from
//! statement to statement, because the first execution warms the machine's caches for the second.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use frond_event::{Event, Kind, Sink, Skip as Unread};
use frond_sqltext::{Dialect, StatementKind};

use crate::answer::Answer;
use crate::compare::{aggregates_differ, compare, keys_differ, Verdict, What};
use crate::read::read;
use crate::report::{Difference, Totals};
use crate::statement::{duty, reads_clock, undetermined, without_limit, Duty, Skip};

/// A session on one server. `Err`: the session is lost; an error that the server returns is an answer.
pub trait Target {
    /// Runs a statement to its last row.
    fn run(&mut self, sql: &[u8]) -> Result<Answer, String>;
    /// Changes the default database.
    fn choose(&mut self, db: &[u8]) -> Result<Answer, String>;
}

/// Opens sessions; called by all threads.
pub trait Servers: Sync {
    fn open(&self) -> Result<[Box<dyn Target>; 2], String>;
}

#[derive(Clone, Debug)]
pub struct Settings {
    /// Also run statements that write.
    pub writes: bool,
    /// Number of sessions that run at the same time.
    pub threads: usize,
    /// Connections to each server; for a new one, the session that was idle longest is closed.
    pub connections: usize,
    /// How many times as fast as the log; `None`: as fast as possible.
    pub speed: Option<f64>,
    /// The most statements to run.
    pub limit: Option<u64>,
    /// Only statements of these databases; empty: of all.
    pub databases: Vec<String>,
    /// Number of differences that are kept.
    pub shown: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            writes: false,
            threads: 1,
            connections: 64,
            speed: None,
            limit: None,
            databases: Vec::new(),
            shown: 50,
        }
    }
}

/// The most statements that wait for a thread.
const QUEUE: usize = 64;

struct Job {
    session: u64,
    /// The session ends; `sql` is empty.
    quits: bool,
    compared: bool,
    sql: Vec<u8>,
    db: Vec<u8>,
    start: Option<i64>,
    offset: u64,
    due: Option<Instant>,
}

/// The data that threads share.
struct Shared<'a> {
    settings: &'a Settings,
    servers: &'a dyn Servers,
    totals: Mutex<Totals>,
    /// A server is lost: no more statements are run.
    stopped: AtomicBool,
}

impl Shared<'_> {
    fn totals(&self) -> std::sync::MutexGuard<'_, Totals> {
        self.totals.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn fail(&self, what: String) {
        self.stopped.store(true, Ordering::Relaxed);
        self.totals().failure.get_or_insert(what);
    }
}

/// Runs the statements of `files`. `stop` is asked between statements.
pub fn run(
    files: &[PathBuf],
    settings: &Settings,
    servers: &dyn Servers,
    stop: &dyn Fn() -> bool,
) -> Totals {
    let shared = Shared {
        settings,
        servers,
        totals: Mutex::new(Totals::default()),
        stopped: AtomicBool::new(false),
    };
    let begin = Instant::now();
    std::thread::scope(|scope| {
        let mut queues = Vec::new();
        for _ in 0..settings.threads.max(1) {
            let (send, receive) = sync_channel(QUEUE);
            queues.push(send);
            let shared = &shared;
            scope.spawn(move || Worker::new(shared).work(&receive));
        }
        let mut reader = Reader { shared: &shared, queues, begin: None, sent: 0, stop };
        for (number, file) in files.iter().enumerate() {
            if reader.ended() {
                break;
            }
            if let Err(what) = read(file, number as u32, &mut reader) {
                shared.totals().problems.push(what);
            }
        }
    });
    let mut totals = shared.totals.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    totals.seconds = begin.elapsed().as_secs_f64();
    totals
}

/// Distributes events to threads.
struct Reader<'a> {
    shared: &'a Shared<'a>,
    queues: Vec<SyncSender<Job>>,
    /// The log's first time, and the moment at which it was read.
    begin: Option<(i64, Instant)>,
    sent: u64,
    stop: &'a dyn Fn() -> bool,
}

impl Reader<'_> {
    fn ended(&self) -> bool {
        let enough = self.shared.settings.limit.is_some_and(|limit| self.sent >= limit);
        enough || self.shared.stopped.load(Ordering::Relaxed)
    }

    /// Waits until the statement is due.
    fn pace(&mut self, start: Option<i64>) -> Option<Instant> {
        let (speed, start) = (self.shared.settings.speed?, start?);
        let (first, begin) = *self.begin.get_or_insert_with(|| (start, Instant::now()));
        let after = (start.saturating_sub(first)).max(0) as f64 / 1e6 / speed;
        // A year is longer than any log, and an Instant can hold it.
        let due = begin + Duration::from_secs_f64(after.min(3.2e7));
        while !(self.stop)() && !self.shared.stopped.load(Ordering::Relaxed) {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(Duration::from_millis(100)));
        }
        Some(due)
    }

    fn send(&mut self, job: Job) {
        let queue = &self.queues[(job.session % self.queues.len() as u64) as usize];
        if queue.send(job).is_err() {
            self.shared.fail("a thread ended early".into());
        }
    }
}

impl Sink for Reader<'_> {
    fn event(&mut self, event: &Event<'_>) {
        if self.ended() {
            return;
        }
        if (self.stop)() {
            self.shared.stopped.store(true, Ordering::Relaxed);
            self.shared.totals().interrupted = true;
            return;
        }
        let session = match event.connection {
            0 => event.thread_id.unwrap_or(0),
            connection => connection,
        };
        let mut job = Job {
            session,
            quits: event.kind == Kind::Quit || event.sql == b"administrator command: Quit",
            compared: false,
            sql: Vec::new(),
            db: event.db.to_vec(),
            start: event.start,
            offset: event.place.offset,
            due: None,
        };
        if job.quits {
            return self.send(job);
        }
        self.shared.totals().read += 1;
        let databases = &self.shared.settings.databases;
        let wanted = |db: &[u8]| databases.iter().any(|name| name.as_bytes() == db);
        let duty = match databases.is_empty() || wanted(event.db) {
            true => duty(event, self.shared.settings.writes),
            false => Duty::Skip(Skip::OtherDatabase),
        };
        match duty {
            Duty::Skip(why) => {
                *self.shared.totals().skipped.entry(why).or_default() += 1;
                return;
            }
            Duty::Run => job.compared = true,
            Duty::Session => {}
        }
        job.due = self.pace(event.start);
        job.sql = event.sql.to_vec();
        self.sent += 1;
        self.send(job);
    }

    fn skip(&mut self, _: Unread) {
        self.shared.totals().unreadable += 1;
    }
}

struct Session {
    targets: [Box<dyn Target>; 2],
    db: Vec<u8>,
    used: u64,
}

/// A thread that runs sessions.
struct Worker<'a> {
    shared: &'a Shared<'a>,
    sessions: HashMap<u64, Session>,
    turn: u64,
    key: Vec<u8>,
}

impl<'a> Worker<'a> {
    fn new(shared: &'a Shared<'a>) -> Worker<'a> {
        Worker { shared, sessions: HashMap::new(), turn: 0, key: Vec::new() }
    }

    fn work(mut self, jobs: &Receiver<Job>) {
        // After a failure the queue is still emptied, so that the reader does not wait.
        while let Ok(job) = jobs.recv() {
            if self.shared.stopped.load(Ordering::Relaxed) {
                continue;
            }
            if job.quits {
                self.sessions.remove(&job.session);
            } else if let Err(what) = self.job(&job) {
                self.shared.fail(what);
            }
        }
    }

    fn job(&mut self, job: &Job) -> Result<(), String> {
        self.turn += 1;
        let turn = self.turn;
        let shared = self.shared;
        if !self.sessions.contains_key(&job.session) {
            let most = (shared.settings.connections / shared.settings.threads.max(1)).max(1);
            if self.sessions.len() >= most {
                let oldest = self.sessions.iter().min_by_key(|(_, s)| s.used).map(|(id, _)| *id);
                oldest.map(|id| self.sessions.remove(&id));
                shared.totals().closed_early += 1;
            }
            let targets = shared.servers.open()?;
            shared.totals().sessions += 1;
            self.sessions.insert(job.session, Session { targets, db: Vec::new(), used: 0 });
        }
        let Some(session) = self.sessions.get_mut(&job.session) else { return Ok(()) };
        session.used = turn;
        if !job.db.is_empty() && job.db != session.db {
            let [a, b] = &mut session.targets;
            let chosen = [a.choose(&job.db)?, b.choose(&job.db)?];
            session.db.clear();
            if chosen.iter().any(|answer| answer.error.is_some()) {
                // In another database the statement would mean other tables: USE is what is compared.
                let verdict = settings_differ(&job.sql, &chosen[0], &chosen[1]);
                self.count(job, &chosen, verdict);
                return Ok(());
            }
            session.db.clone_from(&job.db);
        }
        let writes = !matches!(StatementKind::of(&job.sql), StatementKind::Select);
        if job.compared && (writes || reads_clock(&job.sql)) {
            // Both sessions get the log's time; a statement without a time gets a fixed one.
            let micros = job.start.unwrap_or(1_000_000_000_000_000).max(1);
            let set = format!("SET timestamp = {}.{:06}", micros / 1_000_000, micros % 1_000_000);
            for target in &mut session.targets {
                target.run(set.as_bytes())?;
            }
        }
        let late = job.due.map(|due| Instant::now().saturating_duration_since(due));
        let answers = both(&mut session.targets, &job.sql, turn % 2 == 1)?;
        let [a, b] = &answers;
        let uses = StatementKind::of(&job.sql) == StatementKind::Use;
        if uses && (a.error.is_none() || b.error.is_none()) {
            // The statement may have changed the database of one server, so the next one sets it again.
            session.db.clear();
        }
        // The read-only session refuses statements that would write (RP1).
        let refused =
            |answer: &Answer| answer.error.as_ref().is_some_and(|(code, _)| *code == 1792);
        if !shared.settings.writes && (refused(a) || refused(b)) {
            *shared.totals().skipped.entry(Skip::MayWrite).or_default() += 1;
            return Ok(());
        }
        let mut verdict = match job.compared {
            true => compare(&job.sql, a, b),
            false => settings_differ(&job.sql, a, b),
        };
        if matches!(verdict, Verdict::Different(..)) && job.compared {
            verdict = doubted(verdict, job, &mut session.targets, &answers)?;
        }
        if let Some(late) = late {
            let mut totals = shared.totals();
            totals.latest = totals.latest.max(late.as_secs_f64());
        }
        self.count(job, &answers, verdict);
        Ok(())
    }

    /// Adds what became of a statement to the totals.
    fn count(&mut self, job: &Job, answers: &[Answer; 2], verdict: Verdict) {
        let [a, b] = answers;
        frond_sqltext::fingerprint(&job.sql, Dialect::Frond, &mut self.key);
        self.key.truncate(4096);
        let shared = self.shared;
        let mut totals = shared.totals();
        if job.compared {
            totals.run += 1;
            for (side, answer) in answers.iter().enumerate() {
                totals.nanos[side] += answer.nanos;
                totals.errors[side] += u64::from(answer.error.is_some());
            }
            if a.error.is_none() && b.error.is_none() {
                totals.classes.pair(&self.key, [a.nanos, b.nanos]);
            }
        } else {
            totals.set_up += 1;
        }
        match verdict {
            Verdict::Same => totals.same += u64::from(job.compared),
            Verdict::Undetermined(why) => {
                totals.classes.class(&self.key).undetermined += 1;
                *totals.undetermined.entry(why).or_default() += 1;
            }
            Verdict::Different(what, [on, against]) => {
                let class = totals.classes.class(&self.key);
                class.differences += 1;
                // A class that always differs must not hide the others.
                let few = class.differences <= 3;
                *totals.different.entry(what).or_default() += 1;
                if few && totals.shown.len() < shared.settings.shown {
                    totals.shown.push(Difference {
                        what: what.name().into(),
                        class: String::from_utf8_lossy(&self.key).into_owned(),
                        statement: String::from_utf8_lossy(&job.sql[..job.sql.len().min(4096)])
                            .into_owned(),
                        db: String::from_utf8_lossy(&job.db).into_owned(),
                        session: job.session,
                        offset: job.offset,
                        on,
                        against,
                    });
                }
            }
        }
    }
}

/// Runs one statement on both servers, one after the other.
fn both(
    targets: &mut [Box<dyn Target>; 2],
    sql: &[u8],
    first: bool,
) -> Result<[Answer; 2], String> {
    let [a, b] = targets;
    if first {
        let on = a.run(sql)?;
        Ok([on, b.run(sql)?])
    } else {
        let against = b.run(sql)?;
        Ok([a.run(sql)?, against])
    }
}

/// For statements that set up a session only errors are compared.
fn settings_differ(sql: &[u8], a: &Answer, b: &Answer) -> Verdict {
    compare(sql, &a.only_error(), &b.only_error())
}

/// These make a server of MariaDB refuse groups with other columns, and end what takes too long; others call them wrong.
const FULL_GROUPS: &[u8] =
    b"SET STATEMENT sql_mode = CONCAT(@@sql_mode, ',ONLY_FULL_GROUP_BY') FOR ";
const TIMED: &[u8] = b"SET STATEMENT max_statement_time = 60 FOR ";

/// Keeps a difference only if no right answer could have been the other one (RP3).
fn doubted(
    found: Verdict,
    job: &Job,
    targets: &mut [Box<dyn Target>; 2],
    answers: &[Answer; 2],
) -> Result<Verdict, String> {
    if let Some(why) = undetermined(&job.sql, &job.db) {
        return Ok(Verdict::Undetermined(why));
    }
    if StatementKind::of(&job.sql) != StatementKind::Select {
        return Ok(found);
    }
    let again = both(targets, &job.sql, true)?;
    let moved = |side: usize| compare(&job.sql, &answers[side], &again[side]) != Verdict::Same;
    if moved(0) || moved(1) {
        return Ok(Verdict::Undetermined("the same server answers differently a second time"));
    }
    if matches!(found, Verdict::Different(What::Rows | What::Order, _)) {
        // A column that neither is grouped by nor follows from the groups may have the value of any row of a group.
        let full = [FULL_GROUPS, &job.sql].concat();
        let refused = |answer: &Answer| {
            answer.error.as_ref().is_some_and(|(code, _)| matches!(code, 1055 | 1140))
        };
        let [a, b] = answers;
        if both(targets, &full, true)?.iter().any(refused) && !aggregates_differ(&job.sql, a, b) {
            return Ok(Verdict::Undetermined("a column of no group: any of its rows may show it"));
        }
        let whole = without_limit(&job.sql).filter(|_| !keys_differ(&job.sql, a, b));
        if let Some(whole) = whole {
            let mut timed = both(targets, &[TIMED, &whole].concat(), true)?;
            if timed.iter().any(|answer| matches!(answer.error, Some((1064, _)))) {
                timed = both(targets, &whole, true)?;
            }
            let [a, b] = timed;
            return Ok(match compare(&whole, &a, &b) {
                Verdict::Same | Verdict::Undetermined(_) => {
                    Verdict::Undetermined("LIMIT among rows that the order does not tell apart")
                }
                different => different,
            });
        }
    }
    Ok(found)
}
