//! x
/// x
pub mod command;
