//! The workloads of `make bench-oltp`: sysbench's own, and the scripts of `bench/oltp`.

/// A step of the benchmark. Each runs for one engine at a time, without a pause inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Reads of tables that were loaded, read once, and not written since.
    Clean,
    /// Changes.
    Writes,
    /// The same reads, right after the changes.
    Written,
    /// Loads that have tables of their own.
    Apart,
}

#[derive(Clone, Copy, Debug)]
pub struct Workload {
    pub name: &'static str,
    /// A script of sysbench, or a file of `bench/oltp` if it ends in `.lua`.
    pub script: &'static str,
    pub phase: Phase,
    /// Transactions of one measurement, at scale 1.
    pub events: u32,
    /// Connections; 0: as many as asked for.
    pub threads: u32,
    /// Run before each measurement, in the engine's database. `{engine}` is its name.
    pub setup: &'static str,
}

const fn read(name: &'static str, script: &'static str, events: u32) -> Workload {
    Workload { name, script, phase: Phase::Clean, events, threads: 0, setup: "" }
}

const fn write(name: &'static str, events: u32) -> Workload {
    Workload { name, script: name, phase: Phase::Writes, events, threads: 0, setup: "" }
}

const READS: [Workload; 6] = [
    read("oltp_point_select", "oltp_point_select", 80_000),
    read("oltp_read_only", "oltp_read_only", 3_000),
    read("select_random_points", "select_random_points", 20_000),
    read("select_random_ranges", "select_random_ranges", 20_000),
    read("COUNT(*)", "count.lua", 8),
    read("full scan", "scan.lua", 4),
];

const WRITES: [Workload; 6] = [
    write("oltp_update_index", 20_000),
    write("oltp_update_non_index", 20_000),
    write("oltp_insert", 20_000),
    write("oltp_delete", 20_000),
    write("oltp_write_only", 6_000),
    write("oltp_read_write", 3_000),
];

const APART: [Workload; 3] = [
    Workload {
        name: "queue table, SKIP LOCKED",
        script: "queue.lua",
        phase: Phase::Apart,
        events: 8_000,
        threads: 0,
        // The table is kept from round to round: if the queue degrades, later rounds show it.
        setup: "CREATE TABLE IF NOT EXISTS queue (id BIGINT AUTO_INCREMENT PRIMARY KEY, \
                payload VARCHAR(200)) ENGINE={engine}",
    },
    Workload {
        name: "one counter",
        script: "counter.lua",
        phase: Phase::Apart,
        events: 10_000,
        threads: 64,
        setup: "CREATE TABLE IF NOT EXISTS counter (id INT PRIMARY KEY, n BIGINT) ENGINE={engine}; \
                REPLACE INTO counter VALUES (1, 0)",
    },
    Workload {
        name: "updates, open snapshot",
        script: "snapshot.lua",
        phase: Phase::Apart,
        events: 20_000,
        threads: 0,
        setup: "CREATE OR REPLACE TABLE versions (id INT PRIMARY KEY, n BIGINT, c CHAR(100)) ENGINE={engine}; \
                INSERT INTO versions SELECT seq, 0, 'c' FROM seq_1_to_2000",
    },
];

/// All workloads of a phase, in the order in which they run.
pub fn of(phase: Phase) -> Vec<Workload> {
    let written = READS.iter().map(|w| Workload { phase: Phase::Written, ..*w });
    let all = READS.into_iter().chain(WRITES).chain(written).chain(APART);
    all.filter(|w| w.phase == phase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_phase_has_its_workloads_and_reads_are_repeated() {
        let names = |p| of(p).iter().map(|w| w.name).collect::<Vec<_>>();
        assert_eq!(names(Phase::Clean), names(Phase::Written));
        assert_eq!(names(Phase::Writes).len(), 6);
        assert_eq!(names(Phase::Apart).len(), 3);
    }

    #[test]
    fn scripts_exist() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../oltp");
        let phases = [Phase::Clean, Phase::Apart];
        for script in phases.into_iter().flat_map(of).map(|w| w.script) {
            assert!(!script.ends_with(".lua") || folder.join(script).is_file(), "{script}");
        }
    }
}
