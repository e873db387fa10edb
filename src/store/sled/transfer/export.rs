//! Owns the way out: a stopped store is checked, and every entry of it goes into a file that is there whole or not at all.

use super::{
    super::{
        super::system_clock,
        directory::sync_directory,
        offline::audited,
        step::{ENTRIES_A_STEP, Stage, Step},
    },
    Error, StoreError,
    file::{Header, Sink},
    io_error,
};
use crate::{protocol::time::UnixMillis, store::sled::disk::Disk};
use rustix::{
    fs::{CWD, RenameFlags, renameat_with},
    io::Errno,
};
use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::ErrorKind,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// What an export holds.
///
/// Where it goes next: [`Filled`](super::Filled).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    /// The store that was exported.
    pub store_id: String,
    /// Cluster and group that it is bound to.
    pub binding: Option<(String, String)>,
    /// When.
    pub at: UnixMillis,
    /// Entries in the file.
    pub entries: u64,
    /// The file's length.
    pub bytes: u64,
    /// Operations.
    pub operations: u64,
    /// Unresolved attempts.
    pub unresolved: u64,
    /// Open park notes.
    pub parked: u64,
}

/// Checks a stopped store and writes all of it into a new file, which is durable when this returns. Tells now and then how far it is.
///
/// # Errors
/// [`Error::Exists`], [`Error::Unsound`], [`StoreError::InUse`] while a process runs on it, and what opening it says. No file is left then.
pub fn export(directory: &Path, file: &Path, watch: &mut dyn FnMut(Step)) -> Result<Exported, Error> {
    if fs::symlink_metadata(file).is_ok() {
        return Err(Error::Exists { file: file.into() });
    }
    let (disk, report) = audited(directory, None, watch)?;
    if let Some(first) = report.problems.first() {
        disk.close()?;
        return Err(Error::Unsound { problems: report.problems_total, first: first.clone() });
    }
    let at = system_clock();
    let written = write(&disk, file, report.binding.clone(), at, watch);
    disk.close()?;
    let (entries, bytes) = written?;
    let (operations, unresolved, parked) = (report.operations, report.unresolved, report.parked);
    Ok(Exported { store_id: report.store_id, binding: report.binding, at, entries, bytes, operations, unresolved, parked })
}

fn write(
    disk: &Disk, file: &Path, binding: Option<(String, String)>, at: UnixMillis, watch: &mut dyn FnMut(Step),
) -> Result<(u64, u64), Error> {
    let (beside, folder) = (beside(file), folder(file));
    let open = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside);
    let opened = open.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Error::Unfinished { path: beside.clone() },
        _ => io_error("make", &beside)(error),
    })?;
    let written = fill(disk, &beside, opened, binding, at, watch).and_then(|written| {
        name(&beside, file)?;
        sync_directory(folder)?;
        Ok(written)
    });
    if written.is_err() {
        // Where that fails too, the next export says that it is there.
        drop(fs::remove_file(&beside));
    }
    written
}

fn fill(
    disk: &Disk, beside: &Path, opened: File, binding: Option<(String, String)>, at: UnixMillis, watch: &mut dyn FnMut(Step),
) -> Result<(u64, u64), Error> {
    let none = || StoreError::Io { action: "find a store", detail: "it has no name".into() };
    let meta = disk.reader.meta()?.ok_or_else(none)?;
    let by = env!("CARGO_PKG_VERSION").into();
    let header = Header { format: meta.format, store_id: meta.store_id, made: meta.made, binding, at, by };
    let mut sink = Sink::new(beside, opened, &header)?;
    disk.reader.all(|key, value| {
        if sink.entries().is_multiple_of(ENTRIES_A_STEP) {
            watch(Step { stage: Stage::Writing, done: sink.entries(), of: 0 });
        }
        sink.entry(key, value)
    })??;
    watch(Step { stage: Stage::Syncing, done: 0, of: 0 });
    let entries = sink.entries();
    Ok((entries, sink.finish()?))
}

/// Gives the finished file its name, unless another has it by now.
fn name(beside: &Path, file: &Path) -> Result<(), Error> {
    match renameat_with(CWD, beside, CWD, file, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        Err(Errno::EXIST) => Err(Error::Exists { file: file.into() }),
        // This file system cannot do both at once.
        Err(Errno::INVAL | Errno::NOSYS) if fs::symlink_metadata(file).is_ok() => Err(Error::Exists { file: file.into() }),
        Err(Errno::INVAL | Errno::NOSYS) => fs::rename(beside, file).map_err(io_error("name", file)),
        Err(errno) => Err(io_error("name", file)(errno.into())),
    }
}

/// What a file is called while it is not whole.
fn beside(file: &Path) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(".partial");
    name.into()
}

/// The directory that a path lies in.
pub(super) fn folder(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
