//! `frond-sim`: runs the simulator and reports.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use frond_sim::machine::faults::Canary;
use frond_sim::session::{canaries, hunt, missing, run_checked, run_seed, Failed, CANARY_IMAGES};
use frond_sim::sim::Stats;
use frond_sim::watch::{Limits, Runner, Watch};
use frond_sim::world::Profile;
use frond_vfs::{MemVfs, Vfs};
use parking_lot::Mutex;

/// Runs the storage engine on a simulated machine and crashes it.
#[derive(Parser, Clone)]
struct Args {
    /// Run this seed alone and print its trace.
    #[arg(long)]
    seed: Option<u64>,
    /// Run seeds until this many crash images were recovered.
    #[arg(long, default_value_t = 20_000)]
    images: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Threads; each runs seeds of its own.
    #[arg(long, default_value_t = 2)]
    jobs: u64,
    /// torn, errors, space, rot or swarm (a mix).
    #[arg(long, default_value = "swarm", value_parser = parse_profile)]
    profile: Profile,
    /// End after this many failures.
    #[arg(long, default_value_t = 10)]
    failures: usize,
    /// Look for seeded defects: each must be found.
    #[arg(long)]
    canaries: bool,
    /// With --seed: print no trace.
    #[arg(long)]
    quiet: bool,
    /// All runs hang: `deadlock` or `livelock`. For the test of the watcher.
    #[arg(long, hide = true, value_parser = parse_hang)]
    seeded_hang: Option<Canary>,
    /// Seconds without getting anywhere after which a run hangs (O7).
    #[arg(long, default_value_t = Limits::USUAL.busy.as_secs())]
    hang_after: u64,
}

fn parse_hang(name: &str) -> Result<Canary, String> {
    match name {
        "deadlock" => Ok(Canary::Deadlock),
        "livelock" => Ok(Canary::Livelock),
        _ => Err("deadlock or livelock".into()),
    }
}

fn parse_profile(name: &str) -> Result<Profile, String> {
    Profile::parse(name).ok_or_else(|| "one of torn, errors, space, rot, swarm".into())
}

fn main() {
    let args = Args::parse();
    let failed = match args.seed {
        _ if args.canaries => hunt_all(),
        Some(seed) => one(&args, seed),
        None => many(&args),
    };
    std::process::exit(i32::from(failed));
}

/// True when a seeded defect was not found.
fn hunt_all() -> bool {
    std::panic::set_hook(Box::new(|_| ()));
    let (mut found, mut missed) = (0, 0);
    for (name, canary) in canaries() {
        match hunt(canary) {
            Some(f) => {
                found += 1;
                let words: String = f.failure.0.chars().take(100).collect();
                println!("found    {name}: seed {}, {} images: {words}", f.seed, f.images);
            }
            None => {
                missed += 1;
                println!("FAILED   {name}: not found in {CANARY_IMAGES} images");
            }
        }
    }
    println!("{found} passed, {missed} failed");
    missed > 0
}

fn one(args: &Args, seed: u64) -> bool {
    let outcome = run_seed(seed, args.profile, None, !args.quiet);
    for line in &outcome.trace {
        println!("{line}");
    }
    println!("seed {seed}: {} images, trace {:016x}", outcome.stats.images, outcome.trace_hash);
    match &outcome.failure {
        Some(failure) => println!("FAILED {}", failure.0),
        None => println!("passed"),
    }
    outcome.failure.is_some()
}

/// Data that the threads of a session share.
struct Session {
    next: AtomicU64,
    stats: Mutex<Stats>,
    failed: Mutex<Vec<Failed>>,
    runs: AtomicU64,
    ended: AtomicBool,
    /// The threads, as they come.
    runners: Mutex<Vec<Runner>>,
}

fn many(args: &Args) -> bool {
    let clock: Arc<dyn Vfs> = Arc::new(MemVfs::new());
    let session = Arc::new(Session {
        next: AtomicU64::new(args.first),
        stats: Mutex::default(),
        failed: Mutex::default(),
        runs: AtomicU64::new(0),
        ended: AtomicBool::new(false),
        runners: Mutex::default(),
    });
    // The first message of a panic goes to the failure's report, not between the progress lines.
    std::panic::set_hook(Box::new(|_| ()));
    let started = clock.now();
    let mut threads = Vec::new();
    for job in 0..args.jobs {
        let (session, args) = (session.clone(), args.clone());
        let work = Box::new(move || worker(&session, &args));
        threads.extend(clock.spawn(&format!("sim-{job}"), work).expect("a thread can start"));
    }
    watch(&session, args, started, &*clock);
    for thread in threads {
        thread.join();
    }
    report(&session, args, clock.now() - started)
}

fn worker(session: &Session, args: &Args) {
    let me = match Runner::this_thread() {
        Ok(me) => me,
        Err(e) => {
            println!("FAILED to watch the runs: /proc does not show this thread: {e}");
            println!("0 passed, 1 failed");
            std::process::exit(1);
        }
    };
    session.runners.lock().push(me.clone());
    while !session.ended.load(Ordering::Relaxed) {
        let seed = session.next.fetch_add(1, Ordering::Relaxed);
        me.begin(seed);
        let outcome = run_checked(seed, args.profile, args.seeded_hang);
        me.end();
        session.runs.fetch_add(1, Ordering::Relaxed);
        let mut stats = session.stats.lock();
        stats.add(&outcome.stats);
        let enough = stats.images + stats.rotten_images >= args.images;
        drop(stats);
        if let Some(failure) = outcome.failure {
            let failed = Failed { seed, profile: args.profile, failure };
            println!("FAILED seed {seed}: {}\n    {}", failed.failure.0, failed.replay());
            let mut all = session.failed.lock();
            all.push(failed);
            if all.len() >= args.failures {
                session.ended.store(true, Ordering::Relaxed);
            }
        }
        if enough {
            session.ended.store(true, Ordering::Relaxed);
        }
    }
}

/// Prints progress, and ends the process when a run hangs (O7).
fn watch(session: &Arc<Session>, args: &Args, started: Duration, clock: &dyn Vfs) {
    let pause = parking_lot::Condvar::new();
    let mutex = Mutex::new(());
    let after = Duration::from_secs(args.hang_after);
    let mut watch = Watch::new(Limits { asleep: after, busy: after });
    let mut known = 0;
    let mut next_line = started + Duration::from_secs(10);
    loop {
        pause.wait_for(&mut mutex.lock(), Duration::from_millis(100));
        let now = clock.now();
        let runners = session.runners.lock().clone();
        runners[known..].iter().for_each(|r| watch.add(r.clone()));
        known = runners.len();
        if let Some((seed, stuck)) = watch.look(now) {
            println!("FAILED seed {seed}: O7: the run hangs: {stuck}");
            println!(
                "    cargo run --release -p frond-sim -- --seed {seed} --profile {}",
                args.profile.name()
            );
            println!("{} passed, 1 failed", session.runs.load(Ordering::Relaxed));
            std::process::exit(1);
        }
        // A thread has a handle to the session until it ends.
        if Arc::strong_count(session) == 1 {
            return;
        }
        if now >= next_line {
            next_line = now + Duration::from_secs(10);
            let stats = session.stats.lock();
            println!(
                "{:>4} s: {} runs, {} images recovered, {} failed",
                (now - started).as_secs(),
                session.runs.load(Ordering::Relaxed),
                stats.images + stats.rotten_images,
                session.failed.lock().len()
            );
        }
    }
}

fn report(session: &Session, args: &Args, took: Duration) -> bool {
    let stats = session.stats.lock();
    let failed = session.failed.lock();
    let runs = session.runs.load(Ordering::Relaxed);
    println!("\n{runs} runs in {} s, profile {}", took.as_secs(), args.profile.name());
    println!(
        "{} crash images recovered, {} of them of crashes within recovery; {} damaged images, {} \
         noticed",
        stats.images, stats.nested_images, stats.rotten_images, stats.rot_detected
    );
    println!(
        "{} commits, {} reads compared, {} conflicts, {} lock refusals, {} restarts, {} failed \
         calls, {} full disks",
        stats.commits,
        stats.reads,
        stats.conflicts,
        stats.lock_refusals,
        stats.restarts,
        stats.failed_calls,
        stats.full_disks
    );
    for (name, n) in &stats.events {
        println!("  {n:>9}  {name}");
    }
    let crashed = stats.points.0.values().filter(|(_, c)| *c > 0).count();
    println!("{} crash points passed, {crashed} of them crashed at", stats.points.0.len());
    for (point, (passed, crashed)) in &stats.points.0 {
        println!("  {passed:>9} {crashed:>7}  {point}");
    }
    for f in failed.iter() {
        println!("FAILED seed {}: {}\n    {}", f.seed, f.failure.0, f.replay());
    }
    // Required events are checked in large enough sessions only.
    let absent = if stats.images >= 15_000 { missing(&stats, args.profile) } else { Vec::new() };
    for what in &absent {
        println!("FAILED never happened: {what}");
    }
    println!(
        "other seeds: cargo run --release -p frond-sim -- --images {} --profile {} --first {}",
        args.images,
        args.profile.name(),
        session.next.load(Ordering::Relaxed)
    );
    println!("{} passed, {} failed", runs - failed.len() as u64, failed.len() + absent.len());
    !failed.is_empty() || !absent.is_empty()
}
