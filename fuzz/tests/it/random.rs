//! Mutations for some seconds each. One target at a time: allocations are counted for the process.

use std::fmt::Write as _;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use frond_fuzz::{find, mutate, Target, TARGETS};
use frond_run::testing::TestRng;
use stats_alloc::Region;

use crate::MEMORY;

/// The longest that one input may take, of a processor.
const LONGEST: Duration = Duration::from_secs(2);

/// Processor time of this thread so far: other processes make no difference.
fn clock() -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(told.split(' ').next().unwrap().parse().unwrap())
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect(name))
}

pub fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        write!(out, "{byte:02x}").unwrap();
        out
    })
}

/// Checks one input, its memory and its time. What is above the limit of memory is measured again: allocations are counted for
/// the process, and the harness begins and ends other tests meanwhile.
pub fn check(target: &Target, input: &[u8]) -> Result<bool, String> {
    const ATTEMPTS: usize = 3;
    let most = target.base + target.per_byte * input.len();
    let mut least = usize::MAX;
    for _ in 0..ATTEMPTS {
        let (region, began) = (Region::new(MEMORY), clock());
        let outcome = catch_unwind(AssertUnwindSafe(|| (target.check)(input)));
        let (used, took) = (region.change(), clock() - began);
        let Ok(accepted) = outcome else { return Err("it panics, see above".into()) };
        if took > LONGEST {
            return Err(format!("{took:?} are spent on {} bytes (HB3)", input.len()));
        }
        let allocated = used.bytes_allocated + used.bytes_reallocated.max(0) as usize;
        if allocated <= most {
            return Ok(accepted);
        }
        least = least.min(allocated);
    }
    Err(format!("{least} bytes are allocated for {} (HB2: {most})", input.len()))
}

fn drive(name: &str) {
    let _alone = alone();
    let target = find(name).unwrap();
    let days = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() / 86400;
    let seed = number("FROND_FUZZ_SEED").unwrap_or(days);
    let seconds = Duration::from_secs(number("FROND_FUZZ_SECONDS").unwrap_or(2));
    let mut rng = TestRng::new(seed);
    let mut seeds = (target.seeds)(seed);
    assert!(!seeds.is_empty(), "{name} has no seeds");
    let fail = |input: &[u8], why: String| -> ! {
        panic!("{name}, FROND_FUZZ_SEED={seed}: {why}; the input:\n{}", hex(input))
    };
    let mut accepted = 0;
    for input in &seeds {
        accepted += usize::from(check(target, input).unwrap_or_else(|why| fail(input, why)));
    }
    // Of trunk edits, nodes and log records some only make sense with others.
    let most =
        if matches!(name, "trunk_edit" | "trunk_node" | "log_record") { 1 } else { seeds.len() };
    assert!(accepted >= most, "{accepted} of {} seeds are accepted", seeds.len());
    let (began, mut inputs, mut kept, mut accepted) = (clock(), 0, 0, 0);
    while clock() - began < seconds {
        let mut input = seeds[rng.below(seeds.len() as u64) as usize].clone();
        let other = &seeds[rng.below(seeds.len() as u64) as usize];
        mutate::mutate(&mut rng, &mut input, other);
        let ok = check(target, &input).unwrap_or_else(|why| fail(&input, why));
        accepted += u64::from(ok);
        inputs += 1;
        // Some accepted inputs are changed further: two wrong fields may fit each other.
        if ok && accepted % 8 == 0 && seeds.len() < 400 {
            seeds.push(input);
            kept += 1;
        }
    }
    println!("{name}: {inputs} inputs, {accepted} accepted, seed {seed}, {kept} changed further");
    assert!(inputs > 0);
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            drive(stringify!($name));
        })*

        #[test]
        fn every_target_is_run() {
            let all: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(all, [$(stringify!($name)),*]);
        }
    };
}

targets! {
    run_meta run_page run_tail run trunk_edit trunk_node table_image table_file identity log_segment log_record
    backup_pin export_description backup_pack table_definition foreign_key key_statistics schema row
    c_api
}

/// A driver that sees nothing proves nothing.
#[test]
fn a_check_that_panics_or_takes_too_much_is_noticed() {
    let _alone = alone();
    let target =
        |check| Target { name: "broken", seeds: |_| vec![], check, per_byte: 1, base: 1000 };
    assert!(check(&target(|_| true), b"x").is_ok());
    assert!(check(&target(|input| panic!("{input:?}")), b"x").is_err());
    let greedy = |_: &[u8]| std::hint::black_box(vec![1u8; 5000]).len() > 1;
    assert!(check(&target(greedy), b"x").unwrap_err().contains("HB2"));
    let slow = |_: &[u8]| {
        let began = clock();
        while clock() - began < LONGEST + Duration::from_millis(50) {}
        true
    };
    let slow = Target { base: 1 << 40, ..target(slow) };
    assert!(check(&slow, b"x").unwrap_err().contains("HB3"));
}
