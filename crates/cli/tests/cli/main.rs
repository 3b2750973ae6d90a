//! The tool against small databases: sound ones, damaged ones, wrong directories.
#![allow(clippy::unwrap_used)] // Helpers of tests count as tests.
#![allow(clippy::disallowed_methods)] // Damage is done behind the vfs.

mod commands;
mod consistency;
mod damage;
mod forged;
mod sample;
