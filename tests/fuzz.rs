//! Whatever comes in, ends as an answer or as an error that names what is wrong: no panic, nothing taken for something else.
//!
//! What fuzz targets would do, as properties that every run tries anew. `RECEIPTED_FUZZ=n` tries n times as many.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod support;

#[path = "fuzz/cluster.rs"]
mod cluster;
#[path = "fuzz/entries.rs"]
mod entries;
#[path = "fuzz/exports.rs"]
mod exports;
#[path = "fuzz/input.rs"]
mod input;
#[path = "fuzz/keys.rs"]
mod keys;
#[path = "fuzz/letters.rs"]
mod letters;
#[path = "fuzz/prints.rs"]
mod prints;
#[path = "fuzz/whole.rs"]
mod whole;
#[path = "fuzz/words.rs"]
mod words;

// What `store/sled/format.rs` is written against.
mod protocol {
    pub use receipted::protocol::{key, note};
}
