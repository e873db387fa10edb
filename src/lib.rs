//! receipted: business operations behind Kafka take effect once, and the doubtful ones are listed.

pub mod handler;
pub mod protocol;
pub mod store;
