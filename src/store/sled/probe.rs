//! Owns the question whether the disk does what the store builds on: written, synced, renamed, synced again, it is there, and how long a
//! sync takes. It does not own what follows from the answer.

use super::{
    super::Error,
    directory::{io, remove, sync_directory},
};
use std::{
    fs::{self, OpenOptions},
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    time::{Duration, Instant},
};

/// Whether an open asks the disk.
///
/// ```
/// # use receipted::store::{FileSystem, sled::{Options, Probe}};
/// /// For tests that open many stores and trust the disk with none.
/// fn options(directory: &std::path::Path) -> Options {
///     Options { file_system: FileSystem::Any, probe: Probe::Off, ballast_bytes: 0, ..Options::new(directory) }
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// It writes, syncs, renames and reads a small file, sixteen times.
    On,
    /// It does not.
    Off,
}

/// What syncs of the probe took.
///
/// A part of [`DiskFacts`](super::DiskFacts).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SyncTimes {
    /// Half of them took no longer.
    pub p50: Duration,
    /// None took longer.
    pub max: Duration,
}

const ROUNDS: u8 = 16;
const BYTES: usize = 512;
const NEW: &str = "probe.new";
const FILE: &str = "probe";

/// Removes what a killed probe left.
pub(super) fn clean(root: &Path) -> Result<(), Error> {
    [NEW, FILE].into_iter().try_for_each(|name| remove(&root.join(name), "remove a probe of its disk"))
}

/// Asks the disk under `root`, and leaves nothing there.
pub(super) fn run(root: &Path) -> Result<SyncTimes, Error> {
    let mut times = Vec::with_capacity(usize::from(ROUNDS));
    for number in 0..ROUNDS {
        times.push(round(root, number)?);
    }
    clean(root)?;
    times.sort_unstable();
    let at = |index: usize| times.get(index).copied().unwrap_or_default();
    Ok(SyncTimes { p50: at((times.len() - 1) / 2), max: at(times.len() - 1) })
}

/// One round: what it writes differs from the one before, so that what is read back cannot be that one's.
fn round(root: &Path, number: u8) -> Result<Duration, Error> {
    let (new, path) = (root.join(NEW), root.join(FILE));
    let written = [number ^ 0xa5; BYTES];
    let open = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new);
    let mut file = open.map_err(io("probe its disk (create a file)"))?;
    file.write_all(&written).map_err(io("probe its disk (write a file)"))?;
    let started = Instant::now();
    file.sync_all().map_err(io("probe its disk (sync a file)"))?;
    let took = started.elapsed();
    fs::rename(&new, &path).map_err(io("probe its disk (rename a file)"))?;
    sync_directory(root).map_err(|error| match error {
        Error::Io { detail, .. } => Error::Io { action: "probe its disk (sync the directory)", detail },
        error => error,
    })?;
    read_back(&path, &written)?;
    Ok(took)
}

fn read_back(path: &Path, written: &[u8]) -> Result<(), Error> {
    const STEP: &str = "probe its disk (read a file back)";
    let read = fs::read(path).map_err(io(STEP))?;
    if read == written {
        return Ok(());
    }
    let detail = format!("{} bytes that were written and synced are not what is read", written.len());
    Err(Error::Io { action: STEP, detail })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory() -> tempfile::TempDir {
        tempfile::tempdir().expect("a temporary directory")
    }

    #[test]
    fn a_probe_measures_and_leaves_nothing() {
        let directory = directory();
        let times = run(directory.path()).expect("a disk that works");
        assert!(Duration::ZERO < times.p50 && times.p50 <= times.max, "{times:?}");
        assert_eq!(fs::read_dir(directory.path()).expect("it is there").count(), 0);
    }

    #[test]
    fn a_step_that_fails_is_named() {
        let directory = directory();
        let step = |root: &Path| run(root).expect_err("it fails").to_string();
        let said = step(&directory.path().join("gone"));
        assert!(said.contains("probe its disk (create a file)"), "{said}");
        fs::create_dir(directory.path().join(FILE)).expect("made");
        let said = step(directory.path());
        assert!(said.contains("probe its disk (rename a file)"), "{said}");
    }

    #[test]
    fn what_is_read_back_has_to_be_what_was_written() {
        let directory = directory();
        let path = directory.path().join(FILE);
        fs::write(&path, b"written").expect("written");
        assert!(read_back(&path, b"written").is_ok());
        for other in [&b"writtem"[..], b"writte", b"written."] {
            let said = read_back(&path, other).expect_err("it differs").to_string();
            assert!(said.contains("(read a file back)") && said.contains("not what is read"), "{said}");
        }
    }
}
