//! The client/server protocol of MariaDB and MySQL, read from the outside: two byte streams with
//! gaps become commands and answers, and these become events.
//!
//! `session` is the state machine of a connection; `framing` cuts bytes into packets, and `unpack`
//! undoes compression before that; `handshake`, `answer` and `prepared` read the packets;
//! `recognise` finds packets where nothing is known about the bytes before them.

mod answer;
mod cursor;
mod framing;
mod handshake;
mod prepared;
mod recognise;
mod request;
mod session;
mod unpack;
mod words;

pub(super) use recognise::{is_greeting, is_statement};
pub(super) use session::{Attached, Session};
