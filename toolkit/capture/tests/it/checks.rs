//! Checks that hold for any bytes as a capture. The tests here, the tests of dependent crates and
//! the targets in `fuzz/` at the root of the repository call them.

use frond_capture::{Options, Traffic};
use frond_event::{Event, ForEach, Stream};

/// Captured traffic, in pieces.
pub fn capture(bytes: &[u8]) {
    let options = Options { most_connections: 8, most_memory: 1 << 20, ..Options::default() };
    let mut traffic = Traffic::new(options);
    let mut sink = ForEach::new(|_: &Event<'_>| {});
    for piece in bytes.chunks(997) {
        if traffic.feed(piece, &mut sink).is_err() {
            return;
        }
    }
    traffic.finish(&mut sink);
}
