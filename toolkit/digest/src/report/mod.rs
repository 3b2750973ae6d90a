//! Reports: the document (`model`), how it is made (`build`, `rank`), and the renderers.

pub(crate) mod build;
pub mod csv;
pub mod diff;
pub mod html;
pub mod json;
pub mod model;
pub mod ptqd;
pub mod ptqd_numbers;
pub mod rank;
pub mod redact;
pub mod significance;
pub mod text;

pub use build::{build, Options};
pub use model::Report;
