//! Inputs: opens and unpacks files, recognises their formats, cuts logs into pieces, follows logs that grow.

pub mod detect;
pub mod open;
pub mod pump;
pub mod tail;

pub use detect::Format;
pub use open::{Input, InputError, Origin};
