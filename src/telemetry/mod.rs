//! Owns what operators see: the one table of metrics ([`table`]), one function per observable fact that logs and counts together
//! ([`observe`]), gauges read from the store ([`snapshot`]), and the pages that serve them. Does not own what happens, and changes
//! nothing.

#[cfg(feature = "cli")]
pub mod log;
pub mod observe;
#[cfg(feature = "cli")]
pub mod pages;
#[cfg(feature = "cli")]
pub mod recorder;
pub mod snapshot;
pub mod table;
