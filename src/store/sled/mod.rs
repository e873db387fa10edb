//! Owns the durable store of one process working alone: receipts in sled, made durable by one writer that commits in groups. The
//! bytes are in `docs/STORE_FORMAT.md`. It does not own the rules: `draft` judges.

mod blocks;
mod cache;
mod directory;
mod disk;
mod entries;
mod file_system;
mod format;
mod gather;
mod generations;
#[cfg(feature = "crash-points")]
mod kinds;
mod names;
mod offline;
mod open;
mod places;
mod probe;
mod progress;
mod room;
mod scan;
mod step;
mod topics;
pub mod transfer;
mod waker;
mod writer;

pub use super::FileSystem;
pub use file_system::DiskFacts;
pub use offline::{Report, adopt, verify, verify_watched};
pub use probe::{Probe, SyncTimes};
pub use step::{Stage, Step};

use self::{
    cache::{Cache, Found},
    directory::Directory,
    disk::Reader,
    places::{SHARDS, shard_of, short},
    room::Room,
    writer::Command,
};
use super::{
    Batch, Error, Identity, Imported, Marks, PARKED_BYTES, Partition, ReceiptStore, Reply, Sizes, WallClock, Which, check_binding,
    index::Index, self_test::PROBE, system_clock,
};
use crate::protocol::{
    change::{Incident, Totals},
    fingerprint::Fingerprint,
    key::KeyDigest,
    known::Known,
    note::Slot,
    park::{Park, ParkId, Payload, SlotNotes},
    secret::{Derivation, KeySecret},
};
use std::{
    collections::{BTreeMap, HashSet},
    fmt,
    path::PathBuf,
    sync::{
        Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard,
        mpsc::{SyncSender, TrySendError, sync_channel},
    },
    thread::JoinHandle,
};

/// The exit code of a process whose store could not be synced. What was acknowledged is durable; start again to read it back.
pub const SYNC_FAILED_EXIT_CODE: i32 = 74;

/// What happens when a write or a sync fails. The store is stopped in any case.
///
/// ```
/// # use receipted::store::sled::{OnSyncFailure, Options};
/// # use std::sync::Arc;
/// // Inside a service that must say good-bye first. The process has to end all the same.
/// let on_sync_failure = OnSyncFailure::Call(Arc::new(|error| eprintln!("receipts are stopped: {error}")));
/// let options = Options { on_sync_failure, ..Options::new("/var/lib/charges/receipts") };
/// ```
#[derive(Clone)]
pub enum OnSyncFailure {
    /// Print one line and end the process with [`SYNC_FAILED_EXIT_CODE`]: nobody may go on with a disk that forgot.
    Exit,
    /// Call this, once, from the writer, before the replies.
    Call(Arc<dyn Fn(&Error) + Send + Sync>),
}

/// How a store is opened.
///
/// ```
/// # use receipted::{protocol::secret::KeySecret, store::sled::Options};
/// let options = Options {
///     known_bytes_max: 512 << 20,                             // a busy topic with many repeats
///     disk_free_floor_bytes: 1 << 30,
///     key_secret: Some(KeySecret::new(b"32 bytes of chance from a vault.")?), // ids are personal data here
///     ..Options::new("/var/lib/charges/receipts")
/// };
/// # Ok::<(), receipted::protocol::secret::Error>(())
/// ```
#[derive(Clone)]
pub struct Options {
    /// Where it lives. Made if it is not there.
    pub directory: PathBuf,
    /// Which file systems it may lie on.
    pub file_system: FileSystem,
    /// Whether the open asks the disk for what the store builds on, and measures it.
    pub probe: Probe,
    /// sled's page cache, in bytes on disk; resident memory is several times that.
    pub cache_bytes: u64,
    /// Operations that are kept in memory, in bytes, so that repeats need no disk.
    pub known_bytes_max: usize,
    /// Batches that wait for the writer, at most.
    pub queue_batches_max: usize,
    /// Entries that share a sync, at most.
    pub group_entries_max: usize,
    /// Bytes of open parked records at which new work is not taken any more.
    pub parked_bytes_max: u64,
    /// Free bytes on the disk below which new work is not taken any more.
    pub disk_free_floor_bytes: u64,
    /// Bytes of a file that only holds space: given back below a quarter of the floor, so that completions can still be written. Made at
    /// an open with more room than this above the floor. 0, or a floor of 0, is none.
    pub ballast_bytes: u64,
    /// What happens when a write or a sync fails.
    pub on_sync_failure: OnSyncFailure,
    /// The secret that digests of keys are made with, and keys sealed. The store is bound to it when it is made, or while it is empty.
    pub key_secret: Option<KeySecret>,
    /// The writer's wall clock.
    pub clock: WallClock,
    /// For tests: called between writing and syncing; an error of it is the sync's.
    #[doc(hidden)]
    pub before_sync: Option<Arc<dyn Fn() -> std::io::Result<()> + Send + Sync>>,
    /// For tests: what the disk is taken to have free.
    #[doc(hidden)]
    pub free_bytes: Option<Arc<dyn Fn() -> u64 + Send + Sync>>,
}

impl Options {
    /// The defaults, for a store in `directory`.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            file_system: FileSystem::Local,
            probe: Probe::On,
            cache_bytes: 64 * 1024 * 1024,
            known_bytes_max: 128 * 1024 * 1024,
            queue_batches_max: 4096,
            group_entries_max: 16_384,
            parked_bytes_max: 4 * 1024 * 1024 * 1024,
            disk_free_floor_bytes: 256 * 1024 * 1024,
            ballast_bytes: 64 * 1024 * 1024,
            on_sync_failure: OnSyncFailure::Exit,
            key_secret: None,
            clock: Arc::new(system_clock),
            before_sync: None,
            free_bytes: None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("directory", &self.directory).finish_non_exhaustive()
    }
}

/// The durable store. Dropping it without [`ReceiptStore::close`] counts as an unclean stop.
///
/// ```
/// use receipted::store::{PreviousStop, ReceiptStore, sled::{Options, SledStore}};
/// # use receipted::store::{FileSystem, sled::Probe};
/// # let directory = tempfile::tempdir()?;
/// # let options = Options { file_system: FileSystem::Any, probe: Probe::Off, ballast_bytes: 0, ..Options::new(directory.path()) };
///
/// let store = SledStore::open(&options)?;
/// assert!(SledStore::open(&options).is_err()); // one process, one store: the lock is the fence
/// store.close()?; // after the runner has drained
/// drop(store);
/// assert_eq!(SledStore::open(&options)?.identity().previous_stop, PreviousStop::Clean);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SledStore {
    identity: Identity,
    shared: Arc<Shared>,
    queue: SyncSender<Command>,
    queue_max: usize,
    writer: Mutex<Option<JoinHandle<()>>>,
    set_aside: Vec<PathBuf>,
    facts: DiskFacts,
}

/// What readers and the writer share.
struct Shared {
    reader: Arc<Reader>,
    directory: Arc<Directory>,
    cache: Cache,
    index: RwLock<Index>,
    stopped: OnceLock<Error>,
    binding: RwLock<Option<(String, String)>>,
    imported: RwLock<Option<Imported>>,
    nonces: HashSet<String>,
    parked_bytes_max: u64,
    room: Room,
}

impl Shared {
    fn index(&self) -> RwLockReadGuard<'_, Index> {
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_running(&self) -> Result<(), Error> {
        self.stopped.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    fn pressure(&self) -> Option<Error> {
        // The disk's bound first: at that one nothing is admitted, whatever room it would make here.
        let limit = self.parked_bytes_max;
        let parked = || (self.index().parked_bytes() >= limit).then_some(Error::Full { what: PARKED_BYTES, limit });
        self.room.pressure().or_else(parked)
    }

    /// An operation's durable state: from memory, else from the blocks that hold it, as it was when they were named.
    fn known(&self, key: &KeyDigest) -> Result<Arc<Known>, Error> {
        match self.cache.find(key) {
            Found::Known(known) => Ok(known),
            Found::In(blocks) => {
                let known = Arc::new(self.reader.known(key, &blocks)?);
                self.cache.keep(key, &known, &blocks);
                Ok(known)
            }
        }
    }

    /// Every operation above `after`, ascending, at most `limit`. From disk: memory does not have the whole digests.
    fn all(&self, after: Option<KeyDigest>, limit: usize) -> Result<Vec<(KeyDigest, Arc<Known>)>, Error> {
        let mut listed = Vec::new();
        let (from, shard) = after.map_or((0, 0), |after| (short(&after), shard_of(&after)));
        for shard in shard..SHARDS {
            // Two more: those that begin as `after` does may all be below it, and the probe of the self-test is not listed.
            let wanted = (limit - listed.len()).saturating_add(2);
            for (first, blocks) in self.cache.places(shard, from, wanted) {
                let operations = self.reader.operations(first, &blocks)?.into_iter();
                let above = operations.filter(|(key, _)| after.is_none_or(|after| *key > after) && *key != PROBE);
                let room = limit - listed.len();
                listed.extend(above.take(room).map(|(key, known)| (key, Arc::new(known))));
            }
            if listed.len() == limit {
                break;
            }
        }
        Ok(listed)
    }
}

impl fmt::Debug for SledStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SledStore").field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl SledStore {
    /// Damaged snapshot files that the open moved aside; the log replaced them. Worth a line in the log.
    #[must_use]
    pub fn set_aside(&self) -> &[PathBuf] {
        &self.set_aside
    }

    /// What the open saw of the disk. Worth a line in the log.
    #[must_use]
    pub fn disk(&self) -> &DiskFacts {
        &self.facts
    }

    /// What the operations in memory are taken to weigh, at most [`Options::known_bytes_max`].
    #[must_use]
    pub fn known_bytes(&self) -> usize {
        self.shared.cache.bytes()
    }

    fn ask(&self, command: impl FnOnce(SyncSender<Result<(), Error>>) -> Command) -> Result<(), Error> {
        self.shared.check_running()?;
        let (sender, receiver) = sync_channel(1);
        // Waits for a place in the queue: the writer empties it or ends, and then this returns too.
        self.queue.send(command(sender)).map_err(|_| gone())?;
        receiver.recv().unwrap_or_else(|_| Err(gone()))
    }

    fn join_writer(&self) {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer
            && writer.join().is_err()
        {
            // Its panic is printed already, and every caller that waits for it has its error.
            self.shared.stopped.get_or_init(gone);
        }
    }
}

fn gone() -> Error {
    Error::Stopped { detail: "the writer is gone".into() }
}

impl ReceiptStore for SledStore {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn derivation(&self) -> Derivation {
        // Only a command on a stopped store may lack the secret.
        self.shared.reader.names().derivation().unwrap_or_default()
    }

    fn bind(&self, cluster: &str, group: &str) -> Result<(), Error> {
        let bound = self.shared.binding.read().unwrap_or_else(PoisonError::into_inner).clone();
        match bound {
            Some(bound) => check_binding(&bound, cluster, group),
            None => self.ask(|reply| Command::Bind { cluster: cluster.into(), group: group.into(), reply }),
        }
    }

    fn wrote_nonce(&self, nonce: &str) -> Result<bool, Error> {
        self.shared.check_running()?;
        Ok(self.shared.nonces.contains(nonce))
    }

    fn load(&self, keys: &[KeyDigest]) -> Result<Vec<Arc<Known>>, Error> {
        self.shared.check_running()?;
        keys.iter().map(|key| self.shared.known(key)).collect()
    }

    fn applied(&self, key: &KeyDigest) -> Option<Fingerprint> {
        self.shared.cache.applied(key)
    }

    fn slots(&self, slots: &[Slot]) -> Vec<SlotNotes> {
        let index = self.shared.index();
        slots.iter().map(|slot| index.slot(slot)).collect()
    }

    fn pressure(&self) -> Option<Error> {
        self.shared.pressure()
    }

    fn submit(&self, batch: Batch, reply: Reply) {
        if let Err(error) = self.shared.check_running() {
            return reply(Err(error));
        }
        match self.queue.try_send(Command::Append(batch, reply)) {
            Ok(()) => {}
            Err(TrySendError::Full(Command::Append(_, reply))) => {
                reply(Err(Error::Full { what: "batches that wait for the writer", limit: self.queue_max as u64 }));
            }
            Err(TrySendError::Disconnected(Command::Append(_, reply))) => {
                reply(Err(self.shared.stopped.get().cloned().unwrap_or_else(gone)));
            }
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
        }
    }

    fn list(&self, which: Which, after: Option<KeyDigest>, limit: usize) -> Result<Vec<(KeyDigest, Arc<Known>)>, Error> {
        self.shared.check_running()?;
        let keys = self.shared.index().keys(which, after, limit);
        if let Some(keys) = keys {
            return keys.into_iter().map(|key| Ok((key, self.shared.known(&key)?))).collect();
        }
        self.shared.all(after, limit)
    }

    fn count(&self, which: Which) -> usize {
        self.shared.index().count(which)
    }

    fn parked(&self, after: Option<&ParkId>, limit: usize) -> Vec<(ParkId, Arc<Park>)> {
        self.shared.index().parks(after, limit)
    }

    fn payload(&self, park: &ParkId) -> Result<Option<Payload>, Error> {
        self.shared.check_running()?;
        let durable = self.shared.index().slot(&park.slot).times >= park.number;
        if durable { self.shared.reader.payload(park) } else { Ok(None) }
    }

    fn marks(&self) -> BTreeMap<Partition, Marks> {
        self.shared.index().marks().clone()
    }

    fn adopt(&self, partition: &Partition, offset: i64, reason: &str) -> Result<(), Error> {
        let (partition, reason) = (partition.clone(), reason.to_string());
        self.ask(|reply| Command::Adopt { partition, offset, reason, reply })
    }

    fn imported(&self) -> Option<Imported> {
        self.shared.imported.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn totals(&self) -> Totals {
        self.shared.index().totals().clone()
    }

    fn incidents(&self, from: u64, limit: usize) -> Result<Vec<(u64, Incident)>, Error> {
        self.shared.check_running()?;
        let end = self.shared.index().incidents().min(from.saturating_add(limit as u64));
        if from >= end { Ok(Vec::new()) } else { self.shared.reader.incidents(from..end) }
    }

    fn sizes(&self) -> Sizes {
        // A size that cannot be read is shown as zero: the next write will say why.
        let store_bytes = self.shared.directory.bytes().unwrap_or(0);
        let disk_free_bytes = self.shared.directory.free_bytes().unwrap_or(0);
        let index = self.shared.index();
        Sizes { operations: index.operations(), store_bytes, disk_free_bytes, parked_bytes: index.parked_bytes() }
    }

    fn close(&self) -> Result<(), Error> {
        self.ask(|reply| Command::Close { reply })?;
        self.join_writer();
        Ok(())
    }
}

impl Drop for SledStore {
    fn drop(&mut self) {
        // The writer ends when its queue has no sender any more.
        let (nobody, _) = sync_channel(0);
        drop(std::mem::replace(&mut self.queue, nobody));
        self.join_writer();
    }
}
