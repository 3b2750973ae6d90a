//! The tool against small databases: sound ones, damaged ones, wrong directories.

mod commands;
mod consistency;
mod damage;
mod sample;
