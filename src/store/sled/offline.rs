//! Owns what is done to a stopped store: checking it, and adopting an offset. It takes the directory's lock and writes no claim.

use super::{directory::Missing, entries::Adoption, open::open_disk, scan::Visitor, writer::write_adoption};
use crate::{
    protocol::{key::KeyDigest, known::Known},
    store::{Error, Marks, Partition, system_clock},
};
use std::path::Path;

const CACHE_BYTES: u64 = 64 * 1024 * 1024;

/// What `verify` found.
#[derive(Debug, Clone, Default)]
pub struct Report {}

/// x
///
/// # Errors
/// x
pub fn verify(_directory: &Path) -> Result<Report, Error> {
    Ok(Report::default())
}

/// Accepts a committed offset that is not this store's, once, noted with its reason for ever. Makes the store when there is none.
/// Durable when it returns.
///
/// # Errors
/// [`Error::InUse`] while a process runs on it, and what opening it says.
pub fn adopt(directory: &Path, partition: &Partition, offset: i64, reason: &str) -> Result<(), Error> {
    let (mut disk, contents) = open_disk(directory, Missing::Create, CACHE_BYTES, None, &mut Nothing)?;
    let before = contents.index.marks().get(partition).copied().unwrap_or_default();
    let marks = Marks { adopted: Some(offset), ..before };
    let adoption = Adoption { offset, reason: reason.into(), at: system_clock() };
    let written = write_adoption(&mut disk, partition, contents.adoptions.len() as u64, marks, &adoption);
    written.and(disk.close())
}

struct Nothing;

impl Visitor for Nothing {
    fn operation(&mut self, _key: KeyDigest, _known: Known) {}

    fn damage(&mut self, error: Error) -> Result<(), Error> {
        Err(error)
    }
}
