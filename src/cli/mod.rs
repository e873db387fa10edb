//! Owns the commands: noun, then verb, one file a noun. Does not own what they ask for: the running process answers over its socket,
//! because the store's lock keeps a second process out.

mod args;
mod check_config;
mod entry;
mod operations;
mod output;
mod partitions;
mod progress;
mod routes;
mod serve;
mod store;

pub use entry::{bare, main};
pub use serve::{Error, NeedsEnd, serve};
