//! Inputs: opening and unpacking files, recognising what they are, cutting logs into pieces.

pub mod detect;
pub mod open;
pub mod pump;

pub use detect::Format;
pub use open::{Input, InputError, Origin};
