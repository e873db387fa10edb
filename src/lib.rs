//! receipted: business operations behind Kafka take effect once, and the doubtful ones are listed.

#[cfg(feature = "kafka")]
pub mod admin;
#[cfg(feature = "kafka")]
pub mod config;
pub mod handler;
pub mod prelude;
pub mod protocol;
#[cfg(feature = "kafka")]
pub mod runner;
pub mod store;
pub mod testing;
