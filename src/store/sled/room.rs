//! Owns how much room the disk has: the floor below which new work is not taken, and the ballast, a file that only holds space and is
//! given back when that runs out, so that completions can still be written. It does not own the store's bytes.

use super::{
    super::Error,
    Options,
    directory::{Directory, io, remove, sync_directory},
};
use rustix::{
    fs::{FallocateFlags, fallocate},
    io::Errno,
};
use std::{
    fs::{self, File, OpenOptions},
    io::{ErrorKind, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// The ballast's name in the store's directory.
const FILE: &str = "ballast";
/// Bytes of a block as `st_blocks` counts them, on every file system.
const BLOCK_BYTES: u64 = 512;

/// For tests: what the disk has free.
pub(super) type FreeBytes = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The room on the store's disk, as last measured.
pub(super) struct Room {
    directory: Arc<Directory>,
    floor: u64,
    /// Bytes that the ballast has while it is there; none where there is no floor.
    ballast: u64,
    holds: AtomicBool,
    free: AtomicU64,
    measured: Option<FreeBytes>,
}

impl Room {
    /// Measures before anything is written, and gives the ballast back where that is needed: an open writes too.
    pub(super) fn open(directory: Arc<Directory>, options: &Options) -> Result<Self, Error> {
        let floor = options.disk_free_floor_bytes;
        let ballast = if floor == 0 { 0 } else { options.ballast_bytes };
        let (holds, free) = (AtomicBool::new(false), AtomicU64::new(0));
        let room = Self { directory, floor, ballast, holds, free, measured: options.free_bytes.clone() };
        room.free.store(room.free_bytes()?, Ordering::Relaxed);
        // One of another size, or with holes, holds nothing back: it came from a kill, a copy, or another setting.
        if room.is_low() || !room.is_whole()? {
            room.give_back()?;
        } else {
            room.holds.store(true, Ordering::Relaxed);
        }
        Ok(room)
    }

    /// Makes the ballast when it is not there and there is room for it above the floor.
    pub(super) fn fill(&self) -> Result<(), Error> {
        let free = self.free_bytes()?;
        if !self.holds.load(Ordering::Relaxed) && self.ballast > 0 && free > self.floor.saturating_add(self.ballast) {
            self.make()?;
        }
        self.free.store(self.free_bytes()?, Ordering::Relaxed);
        Ok(())
    }

    /// Measures after a group, and gives the ballast back where completions need it.
    pub(super) fn measure(&self) {
        // What cannot be measured takes no new work; the ballast stays, nobody knows whether it is needed.
        let free = self.free_bytes().ok();
        self.free.store(free.unwrap_or(0), Ordering::Relaxed);
        if free.is_some() && self.is_low() && self.holds.load(Ordering::Relaxed) && self.give_back().is_ok() {
            self.free.store(self.free_bytes().unwrap_or(0), Ordering::Relaxed);
        }
    }

    /// The floor where the disk is below it. Space that the ballast gave back is not for new work, until there is as much beside it.
    pub(super) fn pressure(&self) -> Option<Error> {
        let owed = if self.holds.load(Ordering::Relaxed) { 0 } else { self.ballast };
        let limit = self.floor.saturating_add(owed);
        let what = if owed == 0 { "disk_free_floor_bytes" } else { "disk_free_floor_bytes + ballast_bytes" };
        (self.free.load(Ordering::Relaxed) < limit).then_some(Error::Full { what, limit })
    }

    fn free_bytes(&self) -> Result<u64, Error> {
        self.measured.as_ref().map_or_else(|| self.directory.free_bytes(), |measured| Ok(measured()))
    }

    fn is_low(&self) -> bool {
        self.free.load(Ordering::Relaxed) < self.floor / 4
    }

    fn path(&self) -> PathBuf {
        self.directory.root().join(FILE)
    }

    fn is_whole(&self) -> Result<bool, Error> {
        match fs::metadata(self.path()) {
            Ok(meta) => Ok(self.ballast > 0 && meta.len() == self.ballast && meta.blocks().saturating_mul(BLOCK_BYTES) >= self.ballast),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(io("look at its ballast")(error)),
        }
    }

    fn give_back(&self) -> Result<(), Error> {
        remove(&self.path(), "remove its ballast")?;
        self.holds.store(false, Ordering::Relaxed);
        // Freed blocks can be written again once the removal is on disk.
        sync_directory(self.directory.root())
    }

    fn make(&self) -> Result<(), Error> {
        let open = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(self.path());
        let file = open.map_err(io("make its ballast"))?;
        match allocate(&file, self.ballast).and_then(|()| file.sync_all()) {
            Ok(()) => {}
            // Somebody else took the room, or may use no more of it: the store works without.
            Err(error) if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge) => {
                return self.give_back();
            }
            Err(error) => return Err(io("make its ballast")(error)),
        }
        sync_directory(self.directory.root())?;
        self.holds.store(true, Ordering::Relaxed);
        Ok(())
    }
}

/// Gives a file blocks of its own, by zeros where the file system does not do it by itself.
fn allocate(file: &File, bytes: u64) -> std::io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, bytes) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => zeros(file, bytes),
        result => Ok(result?),
    }
}

fn zeros(mut file: &File, bytes: u64) -> std::io::Result<()> {
    let chunk = vec![0; 1 << 20];
    let mut left = bytes;
    while left > 0 {
        let some = usize::try_from(left).unwrap_or(usize::MAX).min(chunk.len());
        file.write_all(&chunk[..some])?;
        left -= some as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_nothing_allocates_zeros_do() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let bytes = (3 << 20) + 5;
        zeros(file.as_file(), bytes).and_then(|()| file.as_file().sync_all()).expect("written");
        let meta = file.as_file().metadata().expect("it is there");
        assert_eq!(meta.len(), bytes);
        assert!(meta.blocks() * BLOCK_BYTES >= bytes);
    }
}
