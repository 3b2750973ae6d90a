//! Inputs: opens and unpacks files, recognises their formats, cuts logs into pieces.

pub mod detect;
pub mod open;
pub mod pump;

pub use detect::Format;
pub use open::{Input, InputError, Origin};
