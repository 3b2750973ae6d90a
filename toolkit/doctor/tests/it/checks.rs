//! Checks that hold for any bytes as a file of samples. The tests here and a target in `fuzz/` at the root of the
//! repository call them.

use std::io::Write;

use frond_doctor::ring::{read, Writer, UNIT};
use frond_doctor::snapshot::Snapshot;

/// Reads the file, and continues it if possible.
pub fn ring(bytes: &[u8]) {
    let mut file = tempfile::tempfile().expect("a temporary file");
    file.write_all(bytes).expect("there is room");
    let mut before = 0_u64;
    let known = read(&file, &mut |_| {
        before += 1;
        true
    });
    let bound = 64 * UNIT;
    let again = file.try_clone().expect("a second descriptor");
    if let Ok(mut writer) = Writer::open(again, bound) {
        assert!(known.is_ok() || bytes.is_empty(), "something else is overwritten");
        writer.add(Snapshot::at(7.0)).expect("it fits");
        writer.flush().expect("it fits");
        assert!(file.metadata().expect("it is open").len() <= bound, "RG1: longer than its bound");
        let mut last = None;
        read(&file, &mut |sample| {
            last = Some(sample.at);
            true
        })
        .expect("there is one at least");
        assert_eq!(last, Some(7.0));
    }
}
