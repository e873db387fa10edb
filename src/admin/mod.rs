//! Owns the operators' way in: commands over a Unix socket in the store's directory. Does not own the rules (`protocol::settle`) nor
//! their execution (`runner::Operators`).

#[cfg(feature = "cli")]
pub mod client;
pub mod command;
pub mod duplicates;
pub mod look;
pub mod partitions;
#[cfg(feature = "cli")]
pub mod server;
pub mod view;
