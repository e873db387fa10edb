//! Owns sled: opening it, reading from it, and making entries durable (sled's `flush` alone is not durable on Linux). It judges
//! nothing and keeps no state but what entries are translated with.

use super::{
    super::Error,
    blocks::{self, Packer},
    directory::{Directory, io},
    entries::{Beside, Broken, Counts, Entries, Parks, StoreMeta, StoredPark, Translation, add},
    format::{self, Damage, FORMAT_SEALED, Key, Meta, NoteKey, RawPark},
    names::{Names, Opener},
    places::short,
    progress::Progress,
    topics::Topics,
    waker::Waker,
};
use crate::{
    crash::point_of_each,
    protocol::{
        change::Incident,
        key::{KeyDigest, hex},
        known::Known,
        park::{End, ParkId, Payload},
    },
    store::draft::Note,
};
use ::sled::{Batch, Config, Db, IVec};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    ops::RangeBounds,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
    time::Duration,
};

/// How often sled's own lock is tried, 20 ms apart.
const SLED_LOCK_TRIES_MAX: u32 = 100;

/// Called between writing and syncing: what it returns is the sync's result when it is an error.
pub(super) type BeforeSync = Arc<dyn Fn() -> std::io::Result<()> + Send + Sync>;

/// What readers and the writer share of an open store.
pub(super) struct Reader {
    root: PathBuf,
    db: RwLock<Option<Db>>,
    topics: RwLock<Topics>,
    /// As they are until something else is found.
    names: OnceLock<Names>,
}

/// An open store, as its writer has it.
pub(super) struct Disk {
    pub(super) reader: Arc<Reader>,
    pub(super) directory: Arc<Directory>,
    file: File,
    counts: Counts,
    progress: Progress,
    store_id: [u8; 16],
    blobs: BTreeSet<PathBuf>,
    _waker: Waker,
    before_sync: Option<BeforeSync>,
}

impl Disk {
    /// Opens sled in a directory that this process holds, and makes what it created durable.
    pub(super) fn open(directory: Arc<Directory>, cache_bytes: u64, before_sync: Option<BeforeSync>) -> Result<Self, Error> {
        let root = directory.root();
        let config = Config::new().path(directory.data()).cache_capacity(cache_bytes).use_compression(false);
        directory.read_through()?;
        // How far the store had come is durable before sled changes anything: what a power cut in the middle of this start takes from the log is
        // missed then.
        let progress = Progress::open(root)?;
        progress.sync()?;
        // Before sled writes: an error of writing back is reported to the handles that are open by then, and to each of them once.
        let file = directory.open_db()?;
        let db = open_sled(root, &config)?;
        let reader = Arc::new(Reader { root: root.into(), db: RwLock::new(Some(db)), topics: RwLock::default(), names: OnceLock::new() });
        let waker = Waker::start(config, Arc::downgrade(&reader))?;
        // Names first: sled has zeroed what its new snapshot does not need, and without that snapshot those zeros are a gap in its log.
        directory.sync()?;
        file.sync_all().map_err(io("sync its db file"))?;
        let mut blobs = BTreeSet::new();
        directory.sync_blobs(&mut blobs)?;
        let counts = Counts::default();
        Ok(Self { reader, directory, file, counts, progress, store_id: [0; 16], blobs, _waker: waker, before_sync })
    }

    /// What the progress file said at the open.
    pub(super) fn progress(&self) -> Option<([u8; 16], u64)> {
        self.progress.found
    }

    /// Takes over the store's name and the counts that it was left with.
    pub(super) fn resume(&mut self, store_id: [u8; 16], counts: Counts) {
        self.store_id = store_id;
        self.counts = counts;
    }

    /// Makes notes and entries durable, all or none. Returns in which block each note under an operation lies.
    pub(super) fn write(&mut self, notes: &[Note], entries: Entries) -> Result<Vec<(KeyDigest, u64)>, Error> {
        #[cfg(feature = "crash-points")]
        let kinds = super::kinds::kinds(notes, &entries);
        let (entries, places) = self.translate(notes, entries)?;
        point_of_each!("store/unwritten", kinds, said => return Err(io("write")(std::io::Error::other(said))));
        let mut batch = Batch::default();
        for (key, value) in entries.0 {
            batch.insert(key, value);
        }
        self.reader.with(|db| {
            db.apply_batch(batch).map_err(|error| translate(self.directory.root(), "write", error))?;
            db.flush().map_err(|error| translate(self.directory.root(), "write", error))?;
            Ok(())
        })?;
        point_of_each!("store/unsynced", kinds, said => return Err(io("sync")(std::io::Error::other(said))));
        self.sync()?;
        point_of_each!("store/unnoted", kinds, said => return Err(io("write its progress file")(std::io::Error::other(said))));
        self.progress.note(self.store_id, self.counts.groups)?;
        point_of_each!("store/unshown", kinds, said => return Err(io("sync")(std::io::Error::other(said))));
        Ok(places)
    }

    /// Puts entries of another store into this new one, as they are. Not durable before [`Disk::filled`].
    pub(super) fn fill(&self, entries: Vec<(Vec<u8>, Vec<u8>)>) -> Result<(), Error> {
        let mut batch = Batch::default();
        entries.into_iter().for_each(|(key, value)| batch.insert(key, value));
        self.reader.with(|db| db.apply_batch(batch).map_err(|error| translate(self.directory.root(), "write", error)))
    }

    /// Makes all that it was filled with durable.
    pub(super) fn filled(&mut self, store_id: [u8; 16], groups: u64) -> Result<(), Error> {
        self.reader.with(|db| db.flush().map(drop).map_err(|error| translate(self.directory.root(), "write", error)))?;
        self.sync()?;
        self.progress.note(store_id, groups)
    }

    fn translate(&mut self, notes: &[Note], entries: Entries) -> Result<(Entries, Vec<(KeyDigest, u64)>), Error> {
        self.counts.groups += 1;
        let mut topics = self.reader.topics_mut();
        let blocks = Packer::new(self.counts.blocks);
        let names = self.reader.names();
        let mut translation = Translation { entries, blocks, topics: &mut topics, names, counts: &mut self.counts };
        let translated = notes.iter().try_for_each(|note| translation.note(note)).and_then(|()| translation.finish());
        translated.map_err(|error| Error::Io { action: "translate a note", detail: error.to_string() })
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.directory.sync_blobs(&mut self.blobs)?;
        if let Some(before_sync) = &self.before_sync {
            before_sync().map_err(io("sync"))?;
        }
        self.file.sync_data().map_err(io("sync"))
    }

    /// Lets sled go (its last handle flushes), and then the directory.
    pub(super) fn close(&self) -> Result<(), Error> {
        self.reader.let_go()?;
        self.progress.sync()?;
        self.directory.release()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // Where an open or a write has failed this is the way out, and that error is the one to be told.
        drop(self.let_go());
    }
}

impl Reader {
    /// Drops sled's handle, which flushes and syncs, and panics when that fails.
    fn let_go(&self) -> Result<(), Error> {
        let db = self.db.write().unwrap_or_else(PoisonError::into_inner).take();
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(db)));
        dropped.map_err(|_| Error::Io { action: "close its db file", detail: "its last sync failed".into() })
    }

    /// Runs `read` on the open database. A panic of sled is damage.
    pub(super) fn with<T>(&self, read: impl FnOnce(&Db) -> Result<T, Error>) -> Result<T, Error> {
        // A handle of its own: `read` may come back here, and `close` must not wait between.
        let db = self.db.read().unwrap_or_else(PoisonError::into_inner).clone();
        let db = db.ok_or_else(|| Error::Stopped { detail: "the store is closed".into() })?;
        guard(&self.root, || read(&db))
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn topics(&self) -> RwLockReadGuard<'_, Topics> {
        self.topics.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn topics_mut(&self) -> RwLockWriteGuard<'_, Topics> {
        self.topics.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// How the store's keys are written.
    pub(super) fn names(&self) -> &Names {
        self.names.get().unwrap_or(&Names::Clear)
    }

    /// Finds out how the store's keys are written, and whether `opener` may have it. Says nothing about a store that is not sealed: it
    /// may be empty.
    pub(super) fn recognize(&self, opener: Opener<'_>) -> Result<(), Error> {
        if self.format()? != Some(FORMAT_SEALED) {
            return Ok(());
        }
        let missing = || Error::Corrupt { directory: self.root.clone(), detail: "the entry that names its secret is missing".into() };
        let bound = self.get_read(Key::Meta(Meta::Secret))?.ok_or_else(missing)?;
        self.name(opener.names(bound).map_err(|problem| Error::Secret { directory: self.root.clone(), problem })?);
        Ok(())
    }

    /// Says how the store's keys are written, once.
    pub(super) fn name(&self, names: Names) {
        // A second word is the same as the first: a store is opened once.
        drop(self.names.set(names));
    }

    /// The error for an entry that cannot be read.
    pub(super) fn damaged(&self, key: &[u8], damage: Damage) -> Error {
        let what = match Key::parse(key) {
            Some(Key::Block(number)) => format!("block {number}"),
            _ => format!("entry {}", hex(key)),
        };
        Error::Corrupt { directory: self.root.clone(), detail: format!("{what}: {damage}") }
    }

    fn missing(&self, what: &str, id: RawPark) -> Error {
        let detail = format!("{what} {} is missing", hex(&Key::Park(id).bytes()));
        Error::Corrupt { directory: self.root.clone(), detail }
    }

    /// Every entry of a range with its checked body.
    pub(super) fn each(
        &self, range: impl RangeBounds<Vec<u8>>, mut visit: impl FnMut(Key, &[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.with(|db| {
            for entry in db.range(range) {
                let (key, value) = entry.map_err(|error| translate(&self.root, "read", error))?;
                let (parsed, body) = self.check(&key, &value)?;
                visit(parsed, body)?;
            }
            Ok(())
        })
    }

    /// Every entry of a range as it is.
    pub(super) fn raw(&self, range: std::ops::Range<[u8; 1]>, mut visit: impl FnMut(&[u8], &[u8])) -> Result<(), Error> {
        self.with(|db| {
            for entry in db.range(range) {
                let (key, value) = entry.map_err(|error| translate(&self.root, "read", error))?;
                visit(&key, &value);
            }
            Ok(())
        })
    }

    /// The key and body of an entry.
    pub(super) fn check<'a>(&self, key: &[u8], value: &'a [u8]) -> Result<(Key, &'a [u8]), Error> {
        let parsed = Key::parse(key).ok_or_else(|| self.damaged(key, Damage::Key))?;
        let body = format::unseal(key, value).map_err(|damage| self.damaged(key, damage))?;
        Ok((parsed, body))
    }

    /// One entry's value, unchecked.
    fn get(&self, key: &[u8]) -> Result<Option<IVec>, Error> {
        self.with(|db| db.get(key).map_err(|error| translate(&self.root, "read", error)))
    }

    /// Every entry as it is, in the order of their keys.
    pub(super) fn all<E>(&self, mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), E>) -> Result<Result<(), E>, Error> {
        self.with(|db| {
            for entry in db.iter() {
                let (key, value) = entry.map_err(|error| translate(&self.root, "read", error))?;
                if let Err(error) = visit(&key, &value) {
                    return Ok(Err(error));
                }
            }
            Ok(Ok(()))
        })
    }

    /// The store's name, where it has one.
    pub(super) fn meta(&self) -> Result<Option<StoreMeta>, Error> {
        self.get_read(Key::Meta(Meta::Store))
    }

    fn get_read<T: serde::de::DeserializeOwned>(&self, key: Key) -> Result<Option<T>, Error> {
        let key = key.bytes();
        let Some(value) = self.get(&key)? else { return Ok(None) };
        let (_, body) = self.check(&key, &value)?;
        format::read(body).map(Some).map_err(|damage| self.damaged(&key, damage))
    }

    /// An operation, from the blocks that hold its notes.
    pub(super) fn known(&self, key: &KeyDigest, blocks: &[u64]) -> Result<Known, Error> {
        let mut known = Known::default();
        for block in blocks {
            self.notes(*block, |at, digest, note, body| if digest == *key { self.add(&mut known, key, at, note, body) } else { Ok(()) })?;
        }
        Ok(known)
    }

    /// Every operation whose digest begins with these eight bytes, ascending, from the blocks that hold their notes.
    pub(super) fn operations(&self, first: u64, blocks: &[u64]) -> Result<BTreeMap<KeyDigest, Known>, Error> {
        let mut operations: BTreeMap<KeyDigest, Known> = BTreeMap::new();
        for block in blocks {
            self.notes(*block, |at, digest, note, body| {
                if short(&digest) == first { self.add(operations.entry(digest).or_default(), &digest, at, note, body) } else { Ok(()) }
            })?;
        }
        Ok(operations)
    }

    /// Every note of a block, with the block's key.
    pub(super) fn notes(
        &self, block: u64, mut visit: impl FnMut(&[u8], KeyDigest, NoteKey, &[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let key = Key::Block(block).bytes();
        let value = self.get(&key)?.ok_or_else(|| {
            let detail = format!("block {block} is missing");
            Error::Corrupt { directory: self.root.clone(), detail }
        })?;
        let (_, body) = self.check(&key, &value)?;
        for note in blocks::notes(body) {
            let (digest, note, body) = note.map_err(|damage| self.damaged(&key, damage))?;
            visit(&key, digest, note, body)?;
        }
        Ok(())
    }

    /// Adds one note to an operation. `at` is the key of its entry.
    pub(super) fn add(&self, known: &mut Known, key: &KeyDigest, at: &[u8], note: NoteKey, body: &[u8]) -> Result<(), Error> {
        let beside = Beside { topics: &self.topics(), names: self.names(), parks: self };
        add(known, key, note, body, &beside).map_err(|broken| match broken {
            Broken::Entry(damage) => self.damaged(at, damage),
            Broken::Store(error) => error,
        })
    }

    /// The format of the whole store, wherever it has one.
    pub(super) fn format(&self) -> Result<Option<u32>, Error> {
        let key = Key::Meta(Meta::Store).bytes();
        let Some(value) = self.get(&key)? else { return Ok(None) };
        let (_, body) = self.check(&key, &value)?;
        format::first(body).map(Some).map_err(|damage| self.damaged(&key, damage))
    }

    /// The record of a park note, whole and checked.
    pub(super) fn payload(&self, park: &ParkId) -> Result<Option<Payload>, Error> {
        let Some(raw) = self.topics().find_park(park) else { return Ok(None) };
        let Some(stored) = self.get_read::<StoredPark>(Key::Park(raw))? else { return Ok(None) };
        let record = self.record(raw, &stored)?;
        format::read(&record).map(Some).map_err(|damage| self.damaged(&Key::Park(raw).bytes(), damage))
    }

    /// The bytes of a parked record, put together from its chunks and checked.
    pub(super) fn record(&self, raw: RawPark, stored: &StoredPark) -> Result<Vec<u8>, Error> {
        let mut record = Vec::new();
        let mut next = 0;
        self.with(|db| {
            for entry in db.scan_prefix(Key::chunks(raw)) {
                let (key, value) = entry.map_err(|error| translate(&self.root, "read", error))?;
                let (parsed, body) = self.check(&key, &value)?;
                if parsed != Key::Chunk(raw, next) {
                    break;
                }
                record.extend_from_slice(body);
                next += 1;
            }
            Ok(())
        })?;
        if next != stored.chunks || format::digest::<16>(&record) != stored.digest {
            let detail = format!("park note {}: {next} of {} chunks add up", hex(&Key::Park(raw).bytes()), stored.chunks);
            return Err(Error::Corrupt { directory: self.root.clone(), detail });
        }
        Ok(record)
    }

    /// Incidents by number.
    pub(super) fn incidents(&self, range: std::ops::Range<u64>) -> Result<Vec<(u64, Incident)>, Error> {
        let mut incidents = Vec::new();
        let range = Key::Incident(range.start).bytes()..Key::Incident(range.end).bytes();
        self.each(range, |key, body| {
            if let Key::Incident(number) = key {
                incidents.push((number, format::read(body).map_err(|damage| self.damaged(&key.bytes(), damage))?));
            }
            Ok(())
        })?;
        Ok(incidents)
    }
}

impl Parks for Reader {
    fn park(&self, id: RawPark) -> Result<StoredPark, Error> {
        self.get_read(Key::Park(id))?.ok_or_else(|| self.missing("park note", id))
    }

    fn end(&self, id: RawPark) -> Result<End, Error> {
        self.get_read(Key::End(id))?.ok_or_else(|| self.missing("the end of park note", id))
    }
}

/// Opens sled. A reader of a store that this process has just closed may hold sled's own lock a moment longer.
fn open_sled(root: &Path, config: &Config) -> Result<Db, Error> {
    let mut tries = 0;
    loop {
        let opened = guard(root, || config.open().map_err(|error| translate(root, "open", error)));
        match opened {
            Err(Error::Io { detail, .. }) if detail.contains("acquire lock") && tries < SLED_LOCK_TRIES_MAX => {
                tries += 1;
                std::thread::sleep(Duration::from_millis(20));
            }
            opened => return opened,
        }
    }
}

/// What sled's error means here.
pub(super) fn translate(root: &Path, action: &'static str, error: ::sled::Error) -> Error {
    match error {
        ::sled::Error::Io(error) => io(action)(error),
        error => Error::Corrupt { directory: root.into(), detail: format!("cannot {action}: {error}") },
    }
}

/// Turns a panic of sled into an error: it panics on some damage.
fn guard<T>(root: &Path, run: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        let detail = format!("sled panicked: {}", text.unwrap_or("without a word"));
        Err(Error::Corrupt { directory: root.into(), detail })
    })
}
