//! receipted: business operations behind Kafka take effect once, and the doubtful ones are listed.

#[cfg(feature = "kafka")]
pub mod admin;
pub mod handler;
pub mod protocol;
#[cfg(feature = "kafka")]
pub mod runner;
pub mod store;
