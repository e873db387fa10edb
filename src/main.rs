//! x

// For the product alone: tests unwrap, and their functions need no documentation.
#![warn(missing_docs, clippy::unwrap_used, clippy::expect_used)]

fn main() {}
