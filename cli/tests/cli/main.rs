//! The tool against small databases: sound ones, damaged ones, wrong directories.
#![allow(clippy::unwrap_used)] // Helpers of tests count as tests.
#![allow(clippy::disallowed_methods)] // The tests damage files behind the vfs.

#[path = "../../../toolkit/page/tests/it/browser.rs"]
mod browser;
#[path = "../../../toolkit/sqltext/tests/it/client.rs"]
#[allow(dead_code)] // Other test binaries share it.
mod client;
mod commands;
mod consistency;
mod damage;
mod device;
mod doctor;
mod forged;
mod indexes;
mod inputs;
mod live;
mod locks;
mod manual;
mod mistakes;
mod pages;
#[path = "../../../toolkit/sqltext/tests/it/programs.rs"]
mod programs;
mod recipes;
mod replay;
mod sample;
mod schemas;
mod secrets;
mod tool;
mod top;
