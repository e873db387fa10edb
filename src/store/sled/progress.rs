//! Owns the file that says how far this store had come: the number of its last durable group. sled cuts its log off at the first
//! damaged record when it opens, and what is left looks whole; this file is how that is noticed. It is written after each sync and
//! synced only at the next start, before sled changes anything, and at a stop: it is never ahead of the log.

use super::{super::Error, directory::io};
use std::{
    fs::{File, OpenOptions},
    io::ErrorKind,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
};

/// Its name in the store's directory.
pub(super) const FILE: &str = "progress";
const MAGIC: [u8; 4] = *b"rcp1";
const BYTES: usize = 32;

/// The open file.
#[derive(Debug)]
pub(super) struct Progress {
    file: File,
    /// What it said when it was opened, where it said anything.
    pub(super) found: Option<([u8; 16], u64)>,
}

impl Progress {
    /// Opens the file, makes it when it is not there, and reads it. One that does not check says nothing.
    pub(super) fn open(root: &Path) -> Result<Self, Error> {
        let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(root.join(FILE));
        let file = open.map_err(io("open its progress file"))?;
        let mut bytes = [0; BYTES];
        let found = match file.read_exact_at(&mut bytes, 0) {
            Ok(()) => parse(&bytes),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => None,
            Err(error) => return Err(io("read its progress file")(error)),
        };
        Ok(Self { file, found })
    }

    /// Notes that a group is durable.
    pub(super) fn note(&self, store_id: [u8; 16], groups: u64) -> Result<(), Error> {
        let mut bytes = [0; BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..20].copy_from_slice(&store_id);
        bytes[20..28].copy_from_slice(&groups.to_be_bytes());
        let sum = crc32c::crc32c(&bytes[..28]);
        bytes[28..].copy_from_slice(&sum.to_be_bytes());
        self.file.write_all_at(&bytes, 0).map_err(io("write its progress file"))
    }

    /// Makes what is noted survive a power cut.
    pub(super) fn sync(&self) -> Result<(), Error> {
        self.file.sync_all().map_err(io("sync its progress file"))
    }
}

fn parse(bytes: &[u8; BYTES]) -> Option<([u8; 16], u64)> {
    let (checked, sum) = bytes.split_last_chunk::<4>()?;
    if checked[..4] != MAGIC || crc32c::crc32c(checked) != u32::from_be_bytes(*sum) {
        return None;
    }
    Some((*checked[4..].first_chunk()?, u64::from_be_bytes(*checked[20..].first_chunk()?)))
}
