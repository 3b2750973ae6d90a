//! Behaviour of trees, against a model of versioned keys and by figures. See each module.
#![allow(clippy::unwrap_used, clippy::type_complexity)]

mod build;
mod concurrent;
mod cost;
mod damage;
mod dead;
mod model;
mod owner;
mod packs;
mod private;
mod recovery;
mod renewal;
mod rows;
mod shape;
mod support;
