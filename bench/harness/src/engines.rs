//! The engines that are compared, and the settings that make the comparison fair.
//!
//! Purpose: one file that defines equal settings. Every engine gets the same bytes of cache, the same durability (log
//! written at commit, synced about once a second; for `make bench-commit`, synced at commit), direct I/O and, unless
//! requested, no binary log. Beyond that each engine gets the settings that its own guides recommend for such a load on
//! fast storage, never its defaults where they are known to hurt it.
//!
//! Invariants
//!
//! - EN1. The memory that an engine may use for data is the cache size: write buffers count. MyRocks
//!   gets half for its block cache and half for its memtables; InnoDB one buffer pool; Frond one
//!   budget.
//! - EN2. All engines run in the same server binary, one after another, never two at a time.
//! - EN3. Names and colours of an engine are the same in terminal, chart and report.
//!
//! Not here: start servers (server.rs).
//!
//! Tested below.

use std::path::PathBuf;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    InnoDb,
    /// InnoDB with the change buffer, off by default since MariaDB 10.5.15.
    InnoDbChangeBuffer,
    MyRocks,
    Frond,
}

/// Colours on a light and on a dark ground.
pub struct Colours {
    pub light: &'static str,
    pub dark: &'static str,
}

pub const ALL: [Engine; 4] =
    [Engine::InnoDb, Engine::InnoDbChangeBuffer, Engine::MyRocks, Engine::Frond];

impl Engine {
    /// The word used in ENGINES=, in file names and in the raw results.
    pub fn key(self) -> &'static str {
        match self {
            Engine::InnoDb => "innodb",
            Engine::InnoDbChangeBuffer => "innodb-cb",
            Engine::MyRocks => "myrocks",
            Engine::Frond => "frond",
        }
    }

    pub fn from_key(key: &str) -> Option<Engine> {
        let key = key.trim().to_ascii_lowercase();
        let key = if key == "rocksdb" { "myrocks" } else { &key };
        ALL.into_iter().find(|e| e.key() == key)
    }

    /// The name for people.
    pub fn label(self) -> &'static str {
        match self {
            Engine::InnoDb => "InnoDB",
            Engine::InnoDbChangeBuffer => "InnoDB+cb",
            Engine::MyRocks => "MyRocks",
            Engine::Frond => "Frond",
        }
    }

    /// The name in CREATE TABLE ... ENGINE=.
    pub fn sql_name(self) -> &'static str {
        match self {
            Engine::InnoDb | Engine::InnoDbChangeBuffer => "InnoDB",
            Engine::MyRocks => "ROCKSDB",
            Engine::Frond => "Frond",
        }
    }

    pub fn colours(self) -> Colours {
        match self {
            Engine::InnoDb => Colours { light: "#2f6fd0", dark: "#6ea8ff" },
            Engine::InnoDbChangeBuffer => Colours { light: "#7b4fc9", dark: "#b79bff" },
            Engine::MyRocks => Colours { light: "#d97706", dark: "#ffb04d" },
            Engine::Frond => Colours { light: "#0f8a5f", dark: "#3ddc97" },
        }
    }

    /// Seconds after which the engine is stopped unless CAP= says otherwise. InnoDB does not reach
    /// the last row in any time that a demonstration may take; the chart shows where it stopped.
    pub fn default_cap_seconds(self) -> u64 {
        match self {
            Engine::InnoDb | Engine::InnoDbChangeBuffer => 75,
            Engine::MyRocks | Engine::Frond => 110,
        }
    }

    /// The shared object to load, if the engine is not built into the server.
    pub fn plugin(self) -> Option<&'static str> {
        match self {
            Engine::InnoDb | Engine::InnoDbChangeBuffer => None,
            Engine::MyRocks => Some("ha_rocksdb.so"),
            Engine::Frond => Some("ha_frond.so"),
        }
    }

    /// Lines for the [mariadbd] section, with `cache` bytes for the data of this engine.
    pub fn settings(self, cache: u64) -> Vec<String> {
        let mut lines = match self {
            Engine::InnoDb => innodb(cache, "none"),
            Engine::InnoDbChangeBuffer => innodb(cache, "all"),
            Engine::MyRocks => myrocks(cache),
            Engine::Frond => frond(cache),
        };
        if !matches!(self, Engine::InnoDb | Engine::InnoDbChangeBuffer) {
            // InnoDB stays in the server for the system tables; it gets its minimum.
            lines.push("innodb_buffer_pool_size=8M".into());
            lines.push("innodb_log_file_size=8M".into());
        }
        lines
    }

    /// The line that makes the engine sync its log at each commit; it has to come after [`settings`](Self::settings).
    pub fn synced_at_commit(self) -> &'static str {
        match self {
            Engine::InnoDb | Engine::InnoDbChangeBuffer => "innodb_flush_log_at_trx_commit=1",
            Engine::MyRocks => "rocksdb_flush_log_at_trx_commit=1",
            Engine::Frond => "loose_frond_flush_log_at_commit=1",
        }
    }

    /// The status variable that counts syncs: those of the log where the engine counts them separately, else of all files.
    pub fn syncs(self) -> &'static str {
        match self {
            Engine::InnoDb | Engine::InnoDbChangeBuffer => "Innodb_data_fsyncs",
            Engine::MyRocks => "Rocksdb_wal_synced",
            Engine::Frond => "Frond_log_syncs",
        }
    }

    /// Whether a file of the data directory holds table data (rows and indexes) of this engine; all
    /// others are logs and system files. `path` is relative to the data directory.
    pub fn is_table_data(self, path: &str) -> bool {
        match self {
            Engine::InnoDb => path.starts_with("iibench/") && path.ends_with(".ibd"),
            // The change buffer lives in the system tablespace.
            Engine::InnoDbChangeBuffer => path == "ibdata1" || Engine::InnoDb.is_table_data(path),
            Engine::MyRocks => path.starts_with("#rocksdb/") && path.ends_with(".sst"),
            Engine::Frond => path.starts_with("#frond/") && path.ends_with(".frd"),
        }
    }

    /// Whether a file belongs to the engine at all (table data, or its log), as opposed to the
    /// server's own tables and the minimum InnoDB beside it.
    pub fn is_own_file(self, path: &str) -> bool {
        match self {
            Engine::InnoDb | Engine::InnoDbChangeBuffer => {
                self.is_table_data(path) || path.starts_with("ib") || path.starts_with("undo")
            }
            Engine::MyRocks => path.starts_with("#rocksdb/"),
            Engine::Frond => path.starts_with("#frond/"),
        }
    }
}

/// The binary log, with whole rows. `synced`: at each group of commits.
pub fn binary_log(synced: bool) -> Vec<String> {
    vec![
        "server_id=1".into(),
        "log_bin=binlog".into(),
        "binlog_format=ROW".into(),
        format!("sync_binlog={}", u8::from(synced)),
    ]
}

fn innodb(cache: u64, change_buffering: &str) -> Vec<String> {
    vec![
        format!("innodb_buffer_pool_size={cache}"),
        "innodb_flush_log_at_trx_commit=2".into(),
        "innodb_flush_method=O_DIRECT".into(),
        // A log large enough that checkpoints do not limit it.
        "innodb_log_file_size=1G".into(),
        "innodb_io_capacity=4000".into(),
        "innodb_io_capacity_max=20000".into(),
        "innodb_flush_neighbors=0".into(),
        format!("innodb_change_buffering={change_buffering}"),
    ]
}

fn myrocks(cache: u64) -> Vec<String> {
    let half = cache / 2;
    // Four memtables fill the half: one is written while others are flushed.
    let memtable = (half / 4).max(1 << 20);
    // Partitioned filters and indexes: the block cache has 64 shards, and a filter larger than a shard
    // (2 MiB here) would be read from disk for every lookup, which keeps the inserts at 300 rows/s.
    vec![
        format!("rocksdb_block_cache_size={half}"),
        format!("rocksdb_db_write_buffer_size={half}"),
        "rocksdb_flush_log_at_trx_commit=2".into(),
        "rocksdb_use_direct_reads=ON".into(),
        "rocksdb_use_direct_io_for_flush_and_compaction=ON".into(),
        "rocksdb_max_background_jobs=2".into(),
        "rocksdb_max_subcompactions=2".into(),
        format!(
            "rocksdb_default_cf_options=write_buffer_size={memtable};max_write_buffer_number=4;\
             target_file_size_base=32m;max_bytes_for_level_base=256m;\
             level0_file_num_compaction_trigger=4;level0_slowdown_writes_trigger=20;\
             level0_stop_writes_trigger=36;level_compaction_dynamic_level_bytes=true;\
             compression=kLZ4Compression;bottommost_compression=kLZ4Compression;\
             block_based_table_factory={{cache_index_and_filter_blocks=1;\
             filter_policy=bloomfilter:10:false;whole_key_filtering=1;\
             index_type=kTwoLevelIndexSearch;partition_filters=1;metadata_block_size=4096;\
             cache_index_and_filter_blocks_with_high_priority=1;\
             pin_top_level_index_and_filter=1;pin_l0_filter_and_index_blocks_in_cache=1}}"
        ),
    ]
}

/// The prefix `loose_` lets a build that does not know a setting start without it; the driver
/// prints the settings that the server then reports.
fn frond(cache: u64) -> Vec<String> {
    vec![
        format!("loose_frond_cache_size={cache}"),
        "loose_frond_flush_log_at_commit=2".into(),
        "loose_frond_direct_io=ON".into(),
    ]
}

/// Directories of the plugins' shared objects.
#[derive(Clone, Debug)]
pub struct PluginDirs {
    /// The installed server's directory: MyRocks.
    pub server: PathBuf,
    /// The directory in which ha_frond.so was built.
    pub frond: PathBuf,
}

impl PluginDirs {
    /// The directory to load `engine` from. `Err` says why its plugin cannot be loaded from there.
    pub fn for_engine(&self, engine: Engine) -> Result<PathBuf, String> {
        let dir = if engine == Engine::Frond { &self.frond } else { &self.server };
        match engine.plugin() {
            Some(file) if !dir.join(file).is_file() => {
                Err(format!("{} does not exist", dir.join(file).display()))
            }
            _ => Ok(dir.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_engine_is_found_by_its_key() {
        for e in ALL {
            assert_eq!(Engine::from_key(e.key()), Some(e));
        }
        assert_eq!(Engine::from_key(" InnoDB "), Some(Engine::InnoDb));
        assert_eq!(Engine::from_key("rocksdb"), Some(Engine::MyRocks));
        assert_eq!(Engine::from_key("aria"), None);
    }

    #[test]
    fn no_engine_gets_more_memory_than_the_cache() {
        let cache = 256 << 20;
        let sizes = |e: Engine, names: &[&str]| -> u64 {
            let settings = e.settings(cache);
            names
                .iter()
                .map(|n| {
                    let prefix = format!("{n}=");
                    let value = settings.iter().find_map(|l| l.strip_prefix(&prefix)).unwrap();
                    value.parse::<u64>().unwrap()
                })
                .sum()
        };
        assert_eq!(sizes(Engine::InnoDb, &["innodb_buffer_pool_size"]), cache);
        let both = ["rocksdb_block_cache_size", "rocksdb_db_write_buffer_size"];
        assert_eq!(sizes(Engine::MyRocks, &both), cache);
        assert_eq!(sizes(Engine::Frond, &["loose_frond_cache_size"]), cache);
    }

    #[test]
    fn log_files_are_not_counted_as_table_data() {
        assert!(Engine::InnoDb.is_table_data("iibench/purchases_index.ibd"));
        assert!(!Engine::InnoDb.is_table_data("ib_logfile0"));
        assert!(Engine::InnoDb.is_own_file("ib_logfile0"));
        assert!(Engine::MyRocks.is_table_data("#rocksdb/000012.sst"));
        assert!(!Engine::MyRocks.is_table_data("#rocksdb/000011.log"));
        assert!(!Engine::Frond.is_own_file("ibdata1"));
        assert!(Engine::Frond.is_table_data("#frond/7.frd"));
    }

    #[test]
    fn a_missing_plugin_names_the_file() {
        let dirs = PluginDirs { server: "/nowhere/a".into(), frond: "/nowhere/b".into() };
        assert!(dirs.for_engine(Engine::InnoDb).is_ok());
        assert!(dirs.for_engine(Engine::Frond).unwrap_err().contains("/nowhere/b/ha_frond.so"));
    }
}
