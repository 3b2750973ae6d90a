//! The targets of cargo-fuzz, each run once with a few bytes: what they call exists and takes what they give. The macro of
//! this file stands for that of `libfuzzer_sys`, which needs a nightly compiler.

use std::collections::BTreeSet;
use std::path::Path;

/// Makes of a target a function that runs it once.
#[macro_export]
macro_rules! fuzz_target {
    (|$bytes:ident: &[u8]| $check:expr) => {
        pub fn run() {
            let $bytes: &[u8] = b"some bytes";
            let _ = $check;
        }
    };
    (|$text:ident: &str| $check:expr) => {
        pub fn run() {
            let $text = "some text";
            let _ = $check;
        }
    };
}

macro_rules! targets {
    ($($path:literal $name:ident)*) => {
        $(
            #[path = $path]
            #[allow(unused_attributes)] // `no_main`, which is for programs.
            mod $name;
        )*

        #[test]
        fn every_target_of_cargo_fuzz_runs() {
            let _alone = crate::random::alone();
            $($name::run();)*
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz_targets");
            let files: BTreeSet<_> =
                folder.read_dir().unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
            let listed: BTreeSet<_> = [$(concat!(stringify!($name), ".rs").to_owned()),*].into();
            assert_eq!(files, listed);
        }
    };
}

targets! {
    "../../fuzz_targets/backup_pack.rs" backup_pack
    "../../fuzz_targets/backup_pin.rs" backup_pin
    "../../fuzz_targets/c_api.rs" c_api
    "../../fuzz_targets/capture.rs" capture
    "../../fuzz_targets/export_description.rs" export_description
    "../../fuzz_targets/expression.rs" expression
    "../../fuzz_targets/foreign_key.rs" foreign_key
    "../../fuzz_targets/general_log.rs" general_log
    "../../fuzz_targets/identity.rs" identity
    "../../fuzz_targets/key_statistics.rs" key_statistics
    "../../fuzz_targets/log_record.rs" log_record
    "../../fuzz_targets/log_segment.rs" log_segment
    "../../fuzz_targets/monitor.rs" monitor
    "../../fuzz_targets/raw_log.rs" raw_log
    "../../fuzz_targets/row.rs" row
    "../../fuzz_targets/run.rs" run
    "../../fuzz_targets/run_meta.rs" run_meta
    "../../fuzz_targets/run_page.rs" run_page
    "../../fuzz_targets/run_tail.rs" run_tail
    "../../fuzz_targets/samples.rs" samples
    "../../fuzz_targets/schema.rs" schema
    "../../fuzz_targets/slow_log.rs" slow_log
    "../../fuzz_targets/statement.rs" statement
    "../../fuzz_targets/table_definition.rs" table_definition
    "../../fuzz_targets/table_file.rs" table_file
    "../../fuzz_targets/table_image.rs" table_image
    "../../fuzz_targets/trunk_edit.rs" trunk_edit
    "../../fuzz_targets/trunk_node.rs" trunk_node
}
