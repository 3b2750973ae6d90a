//! The tool against small databases: sound ones, damaged ones, wrong directories.
#![allow(clippy::disallowed_methods)] // Tests damage files behind the vfs.

mod commands;
mod consistency;
mod damage;
mod sample;
