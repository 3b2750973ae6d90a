//! Settings for reading captured traffic.

use crate::sample::Sampling;

#[derive(Clone, Debug)]
pub struct Options {
    /// The servers' ports. Empty: 3306, and any other port on which a server's greeting or a
    /// client's statement is seen.
    pub ports: Vec<u16>,
    /// Seconds east of UTC of the machine that printed tcpdump's text. (Binary captures are UTC.)
    pub text_zone: i32,
    /// Read only some connections.
    pub sampling: Option<Sampling>,
    /// `QueryTime` ends with the last byte of the answer, not with the first.
    pub to_last_byte: bool,
    /// Names of commands as pt-query-digest makes them ("Init_db") instead of the server's
    /// ("Init DB").
    pub compat_names: bool,
    /// Bytes of a statement that are kept; the rest is only counted.
    pub longest_statement: usize,
    pub most_connections: usize,
    /// Bytes that all connections together may hold back and gather.
    pub most_memory: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            ports: Vec::new(),
            text_zone: 0,
            sampling: None,
            to_last_byte: false,
            compat_names: false,
            longest_statement: 1 << 20,
            most_connections: 16 << 10,
            most_memory: 24 << 20,
        }
    }
}
