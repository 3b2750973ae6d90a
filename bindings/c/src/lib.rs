//! The C API: `include/frond.h` (databases, keys and values) and `include/frond_rows.h` (typed rows) and
//! `include/frond_foreign.h` (foreign keys).
//!
//! - A1. No panic crosses the boundary: every function runs inside [`error::guard`].
//! - A2. Pointers are checked for NULL; that they point to what the header says is the caller's contract,
//!   and each `// SAFETY:` line names which part of it.
//! - A3. `struct_size` fields are checked before any other field is read.
//! - A4. Numbers and structures of the headers stand in [`abi`] alone, whose tests compare them with the headers.
//!
//! Tested by the C program in `bindings/c/example` and by the MariaDB plugin.
#![allow(non_camel_case_types)]
// The safety contract of every function is its documentation in the header.
#![allow(clippy::missing_safety_doc)]

mod abi;
mod db;
mod error;
mod foreign;
mod kv;
mod pointers;
mod prepared;
mod report;
mod rows;
mod storage;
mod table;
mod txn;
