//! Every rule, and nothing that touches the world: no async, clock, randomness, I/O or log. Drivers perform.
//!
//! Owns identity, the state of an operation, the decision about a delivery, what may settle a doubt, and the machine that carries
//! records through a partition. Does not own storage, handlers or Kafka.

#![deny(clippy::disallowed_methods, clippy::disallowed_types, clippy::disallowed_macros, clippy::iter_over_hash_type)]

mod canonical;
pub mod change;
mod context;
pub mod decision;
pub mod doubt;
pub mod fingerprint;
pub mod key;
pub mod known;
pub mod lookup;
pub mod machine;
pub mod note;
pub mod outcome;
pub mod park;
pub mod policy;
pub mod receipt;
pub mod refused;
pub mod secret;
pub mod settle;
pub mod skip;
pub mod start;
pub mod time;
pub mod watermark;
