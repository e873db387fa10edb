//! Owns the store's directory: the lock that keeps a second process out, what a killed process left behind, and which files and
//! directories have to be synced. It does not know what the files hold.

use super::{super::Error, probe, progress};
use rustix::fs::{FlockOperation, flock};
use std::{
    collections::BTreeSet,
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

const LOCK: &str = "lock";
const DATA: &str = "sled";
const ASIDE: &str = "aside";
/// How the name of a snapshot ends until it is whole.
const UNFINISHED: &str = ".generating";
/// Bytes of the log that are read at once.
const READ_BYTES: usize = 1 << 20;

/// A directory that this process holds until it is dropped.
#[derive(Debug)]
pub(super) struct Directory {
    root: PathBuf,
    data: PathBuf,
    lock: File,
    /// Damaged files that were moved out of the way.
    pub(super) aside: Vec<PathBuf>,
}

/// Whether a directory that is not there is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    Create,
    Refuse,
}

/// An error of the operating system, with what was tried.
pub(super) fn io(action: &'static str) -> impl Fn(io::Error) -> Error {
    move |error| Error::Io { action, detail: error.to_string() }
}

impl Directory {
    /// Takes the directory, makes it where it may, and clears what a kill during an open left.
    pub(super) fn take(root: &Path, missing: Missing) -> Result<Self, Error> {
        let data = root.join(DATA);
        if missing == Missing::Refuse && !data.join("db").exists() {
            return Err(Error::Io { action: "find a store", detail: format!("{} has none", root.display()) });
        }
        let created = !root.exists();
        fs::DirBuilder::new().recursive(true).mode(0o700).create(root).map_err(io("create its directory"))?;
        let lock = lock(root)?;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&data).map_err(io("create its directory"))?;
        if created && let Some(parent) = root.canonicalize().map_err(io("name its directory"))?.parent() {
            sync_directory(parent)?;
        }
        let mut directory = Self { root: root.into(), data, lock, aside: Vec::new() };
        directory.clean()?;
        directory.clear_first_start()?;
        Ok(directory)
    }

    /// Lets another process take the directory.
    pub(super) fn release(&self) -> Result<(), Error> {
        flock(&self.lock, FlockOperation::Unlock).map_err(|errno| io("unlock its directory")(errno.into()))
    }

    /// Where sled's files are.
    pub(super) fn data(&self) -> &Path {
        &self.data
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Our own handle of the `db` file, which is made where it is not there. An error of writing back is reported once for each open
    /// handle, so it stays open.
    pub(super) fn open_db(&self) -> Result<File, Error> {
        let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(self.data.join("db"));
        open.map_err(io("open its db file"))
    }

    /// Reads the log to its end, for what the disk says of it. sled takes a read that fails for the end of its log, and writes zeros
    /// over what follows; so nothing of it may be opened that cannot be read.
    pub(super) fn read_through(&self) -> Result<(), Error> {
        const STEP: &str = "read its db file";
        let mut file = match File::open(self.data.join("db")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            file => file.map_err(io(STEP))?,
        };
        let mut bytes = vec![0; READ_BYTES];
        while file.read(&mut bytes).map_err(io(STEP))? > 0 {}
        Ok(())
    }

    /// Removes the settings that sled wrote halfway when a first start was cut short: it refuses those, and there is nothing else yet.
    fn clear_first_start(&self) -> Result<(), Error> {
        let is_empty = |file: &Path| match fs::metadata(file) {
            Ok(meta) => Ok(meta.len() == 0),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
            Err(error) => Err(io("look at its files")(error)),
        };
        if is_empty(&self.data.join("db"))? && is_empty(&self.root.join(progress::FILE))? {
            remove(&self.data.join("conf"), "remove the settings of a first start that was cut short")?;
        }
        Ok(())
    }

    /// Syncs everything that sled only creates: `conf`, both directories and the blobs' one.
    pub(super) fn sync(&self) -> Result<(), Error> {
        let conf = File::open(self.data.join("conf")).map_err(io("open its conf file"))?;
        conf.sync_all().map_err(io("sync its conf file"))?;
        for directory in [&self.data.join("blobs"), &self.data, &self.root] {
            sync_directory(directory)?;
        }
        Ok(())
    }

    /// Syncs values that were too large for a page, which sled never does. `synced` has those that were synced before.
    pub(super) fn sync_blobs(&self, synced: &mut BTreeSet<PathBuf>) -> Result<(), Error> {
        let blobs = self.data.join("blobs");
        let there: BTreeSet<PathBuf> = list(&blobs)?.into_iter().collect();
        if there.is_subset(synced) {
            return Ok(());
        }
        for file in there.difference(synced) {
            match File::open(file).and_then(|file| file.sync_all()) {
                // sled removes what is superseded whenever it likes.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                result => result.map_err(io("sync a blob"))?,
            }
        }
        *synced = there;
        sync_directory(&blobs)
    }

    /// Values that lie in files of their own.
    pub(super) fn blobs(&self) -> Result<usize, Error> {
        Ok(list(&self.data.join("blobs"))?.len())
    }

    /// Bytes of the data files.
    pub(super) fn bytes(&self) -> Result<u64, Error> {
        let files = list(&self.data)?.into_iter().chain(list(&self.data.join("blobs"))?);
        // sled removes blobs and snapshots when it likes: one that is gone has no bytes.
        Ok(files.filter_map(|file| fs::metadata(file).ok()).filter(fs::Metadata::is_file).map(|meta| meta.len()).sum())
    }

    /// Bytes that are free for this user on the directory's disk.
    pub(super) fn free_bytes(&self) -> Result<u64, Error> {
        let stat = rustix::fs::fstatvfs(&self.lock).map_err(|errno| io("look at its disk")(errno.into()))?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    /// A kill during an open leaves a half written snapshot, and every later open fails on it. One that has no name yet is deleted:
    /// the snapshot before it is still there. One that has its name and does not check is moved aside: sled then reads the whole
    /// log, and the count of notes tells whether all came back.
    fn clean(&mut self) -> Result<(), Error> {
        probe::clean(&self.root)?;
        for file in list(&self.data)? {
            let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if !name.starts_with("snap.") {
                continue;
            }
            if name.ends_with(UNFINISHED) && is_whole(&file)? {
                // It lacks nothing but its name. sled may have zeroed already what this snapshot does not need.
                fs::rename(&file, file.with_extension("")).map_err(io("finish a snapshot"))?;
            } else if name.ends_with(UNFINISHED) {
                fs::remove_file(&file).map_err(io("delete an unfinished snapshot"))?;
            } else if !is_whole(&file)? {
                self.put_aside(&file)?;
            }
        }
        sync_directory(&self.data)
    }

    fn put_aside(&mut self, file: &Path) -> Result<(), Error> {
        let aside = self.root.join(ASIDE);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&aside).map_err(io("create a directory for damaged files"))?;
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let free = (0..).map(|number| aside.join(format!("{name}.{number}"))).find(|path| !path.exists());
        let to = free.unwrap_or_else(|| aside.join(name));
        fs::rename(file, &to).map_err(io("move a damaged file aside"))?;
        sync_directory(&aside)?;
        sync_directory(&self.root)?;
        self.aside.push(to);
        Ok(())
    }
}

/// Takes the lock file, which names the process that has it.
fn lock(root: &Path) -> Result<File, Error> {
    let path = root.join(LOCK);
    let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
    let mut file = open.map_err(io("open its lock file"))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut text = String::new();
            let pid = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
            return Err(Error::InUse { directory: root.into(), pid });
        }
        Err(errno) => return Err(io("lock its directory")(errno.into())),
    }
    file.set_len(0).map_err(io("write its lock file"))?;
    file.rewind().map_err(io("write its lock file"))?;
    writeln!(file, "{}", std::process::id()).map_err(io("write its lock file"))?;
    Ok(file)
}

fn list(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    match fs::read_dir(directory) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>().map_err(io("list its directory")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(io("list its directory")(error)),
    }
}

/// Removes a file that may be there.
pub(super) fn remove(file: &Path, action: &'static str) -> Result<(), Error> {
    match fs::remove_file(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result.map_err(io(action)),
    }
}

/// Makes what was created, renamed or removed in a directory durable.
pub(super) fn sync_directory(directory: &Path) -> Result<(), Error> {
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(io("sync a directory"))
}

/// Whether a snapshot file ends with its length and the CRC-32 of what is before: how sled 0.34 writes it.
fn is_whole(file: &Path) -> Result<bool, Error> {
    let bytes = fs::read(file).map_err(io("read a snapshot"))?;
    let Some((rest, sum)) = bytes.split_last_chunk::<4>() else { return Ok(false) };
    let Some((body, _)) = rest.split_last_chunk::<8>() else { return Ok(false) };
    Ok(!body.is_empty() && crc32fast::hash(body) == u32::from_le_bytes(*sum))
}
