//! Owns the durable memory: the trait that every receipt store implements, and its contract. It decides nothing; `protocol::known`
//! says which entries stand.
//!
//! The contract, which one suite (`tests/store`) holds every implementation to:
//!
//! 1. **Durable on reply.** When a reply says done, the entries survive kill -9 and a power cut. An error means that nobody knows
//!    whether they do: load again before deciding anything.
//! 2. **A batch is atomic.** After a crash either every entry of it that stood is there, or none.
//! 3. **One writer.** Batches are judged in the order of submission, each entry on the state that those before it left. Permissions
//!    whose author saw another state are answered [`Answer::Lost`], and the rest of their batch stands.
//! 4. **Only what is durable is seen.** `load` and every listing show states whose notes are synced, never what a running sync carries.
//! 5. **Nothing is overwritten.** Entries are added; an operation's state is their join, and joining twice changes nothing.
//! 6. **Group commit.** What arrives while one sync runs goes into the next. No waiting window.
//! 7. **A failed sync is final.** The store answers every later call with an error, and the process should end.

mod digest_map;
mod draft;
mod error;
mod index;
pub mod memory;
mod self_test;
#[cfg(feature = "sled")]
pub mod sled;

pub use error::{Error, SecretProblem};
pub use self_test::self_test;

use error::PARKED_BYTES;

use crate::protocol::{
    change::{Incident, Totals},
    fingerprint::Fingerprint,
    key::KeyDigest,
    known::{Answer, Entry, Known},
    note::Slot,
    park::{Park, ParkId, Payload, SlotNotes},
    secret::Derivation,
    time::UnixMillis,
};
use std::{
    collections::BTreeMap,
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

/// Entries that are made durable together.
///
/// ```
/// # use receipted::{
/// #     protocol::{fingerprint::Fingerprint, key::KeyDigest, known::{Answer, Entry, Revision}, note::{Admission, AttemptId, Slot}, time::UnixMillis},
/// #     store::{Batch, ReceiptStore, memory::MemoryStore},
/// # };
/// # let (store, key) = (MemoryStore::new(), KeyDigest([7; 32]));
/// # let claim = store.identity().claim;
/// # let admission = Admission {
/// #     fingerprint: Fingerprint::Unchecked, slot: Slot { topic: "payments".into(), partition: 0, offset: 7 }, at: UnixMillis(0),
/// #     time_limit: std::time::Duration::from_secs(30), memory: None, key_generation: 0, budget_used: 1, correlation: None,
/// # };
/// # let admission = Box::new(admission);
/// // A runner of your own: an attempt is admitted before its handler runs, and only on the state that was looked at.
/// let seen = store.load(&[key])?[0].revision();
/// let admit = |number| {
///     let attempt = AttemptId { number, claim };
///     Entry::Admit { key, name: None, seen, attempt, admission: admission.clone(), within: None }
/// };
/// let first = store.append(Batch(vec![admit(1)]))?;
/// assert!(matches!(first.answers[..], [Answer::Done(_)])); // durable: call the handler
/// let second = store.append(Batch(vec![admit(2)]))?;
/// assert!(matches!(second.answers[..], [Answer::Lost(_)])); // somebody was first: decide afresh
/// # Ok::<(), receipted::store::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Batch(pub Vec<Entry>);

/// What became of a batch: an answer for each entry, in order, and what the sync cost.
///
/// A runner reads the answers as at [`Batch`].
#[derive(Debug, Clone)]
pub struct Appended {
    /// One for each entry of the batch.
    pub answers: Vec<Answer>,
    /// How many entries shared the sync.
    pub group: usize,
    /// How long writing and syncing the group took.
    pub sync: Duration,
}

/// Called once, from the store's writer, when a batch is durable or failed. It must not block. A writer that panics drops it uncalled.
pub type Reply = Box<dyn FnOnce(Result<Appended, Error>) + Send>;

/// Reads the wall clock for the writer: park notes that end, and the bounds of a destination's memory.
pub type WallClock = Arc<dyn Fn() -> UnixMillis + Send + Sync>;

/// Which store this is, and which process start holds it.
///
/// ```
/// # use receipted::store::{PreviousStop, ReceiptStore, memory::MemoryStore};
/// # let store = MemoryStore::new();
/// // The first line of a service's log: what its store is, and whether the process before it was killed.
/// let identity = store.identity();
/// println!("store {}, start {}", identity.store_id, identity.claim);
/// if identity.previous_stop == PreviousStop::Unclean {
///     println!("attempts that were running then are in doubt");
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Made once, with the store. 32 hexadecimal digits.
    pub store_id: String,
    /// Counts process starts: the claim of every attempt that this one admits.
    pub claim: u64,
    /// The random name of this claim, as it stands in commit metadata. 32 hexadecimal digits.
    pub nonce: String,
    /// Whether the previous claim was released by [`ReceiptStore::close`].
    pub previous_stop: PreviousStop,
}

/// How the process before this one ended.
///
/// A part of [`Identity`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreviousStop {
    /// There was none.
    First,
    /// It closed the store.
    Clean,
    /// It did not: what it had admitted may have run.
    Unclean,
}

/// How far a partition is complete.
///
/// An offset that was adopted, in them: [`Partition`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Marks {
    /// Every slot below is complete.
    pub watermark: Option<i64>,
    /// The last offset that the broker confirmed as committed.
    pub committed: Option<i64>,
    /// A committed offset that an operator adopted and that has not been used yet.
    pub adopted: Option<i64>,
}

impl Marks {
    /// After an operator adopted an offset: that is where the partition is complete, also where it goes back. What was noted before
    /// speaks of another log.
    pub(crate) fn adopting(offset: i64) -> Self {
        Self { watermark: Some(offset), committed: None, adopted: Some(offset) }
    }
}

/// A topic and a partition.
///
/// ```
/// # use receipted::store::{Partition, ReceiptStore, memory::MemoryStore};
/// # let store = MemoryStore::new();
/// // After a disaster: where the group really is, on a person's word.
/// let payments = Partition { topic: "payments".into(), number: 3 };
/// store.adopt(&payments, 120, "restored from the copy of Monday")?;
/// assert_eq!(store.marks()[&payments].adopted, Some(120));
/// # Ok::<(), receipted::store::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition {
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition's number.
    pub number: i32,
}

impl Partition {
    /// The place of a record in it.
    #[must_use]
    pub fn slot(&self, offset: i64) -> Slot {
        Slot { topic: self.topic.clone(), partition: self.number, offset }
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.topic, self.number)
    }
}

/// Where an imported store came from, and what nobody has vouched for yet.
///
/// ```
/// # use receipted::store::{ReceiptStore, memory::MemoryStore};
/// /// What keeps an imported store from running, for a readiness page of your own.
/// fn missing(store: &dyn ReceiptStore) -> Option<String> {
///     let imported = store.imported().filter(|imported| !imported.unverified.is_empty())?;
///     Some(format!("adopt an offset for {}", imported.partitions()))
/// }
/// assert_eq!(missing(&MemoryStore::new()), None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The id of the store that was exported.
    pub from: String,
    /// When it was exported.
    pub exported: UnixMillis,
    /// Partitions for which no offset was adopted since the import, each with the watermark of the export: the exported store may have
    /// run what comes from there on, and settled what was parked or in doubt.
    pub unverified: BTreeMap<Partition, Option<i64>>,
}

impl Imported {
    /// Partitions that a text names, at most.
    const NAMED_MAX: usize = 50;

    /// The unverified partitions in words, with the offsets from which on they are.
    #[must_use]
    pub fn partitions(&self) -> String {
        let from = |(partition, watermark): (&Partition, &Option<i64>)| match watermark {
            Some(watermark) => format!("{partition} from offset {watermark} on"),
            None => format!("{partition} from its first offset on"),
        };
        let mut named: Vec<String> = self.unverified.iter().take(Self::NAMED_MAX).map(from).collect();
        if let Some(more) = self.unverified.len().checked_sub(Self::NAMED_MAX).filter(|more| *more > 0) {
            named.push(format!("and {more} more partitions"));
        }
        named.join(", ")
    }
}

/// What a listing asks for.
///
/// ```
/// # use receipted::store::{Error, ReceiptStore, Which, memory::MemoryStore};
/// /// Every operation that nobody can tell about, page by page: for a report of your own.
/// fn in_doubt(store: &dyn ReceiptStore) -> Result<Vec<String>, Error> {
///     let (mut all, mut after) = (Vec::new(), None);
///     loop {
///         let page = store.list(Which::InDoubt, after, 500)?;
///         let Some((last, _)) = page.last() else { return Ok(all) };
///         after = Some(*last);
///         all.extend(page.iter().map(|(digest, known)| format!("{digest}: {} attempts", known.receipt.admissions().len())));
///     }
/// }
/// assert!(in_doubt(&MemoryStore::new())?.is_empty());
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Every operation.
    All,
    /// Undecided attempts, whether parked or not, and not applied.
    InDoubt,
    /// With an open park note.
    Parked,
    /// With contradicting evidence.
    Disputed,
    /// Applied, with undecided attempts beside it.
    Superseded,
    /// With an attempt whose absence rests on a single denial: a destination that can be asked is asked once more.
    Unconfirmed,
    /// Reopened, and without a parked record to run from.
    ReopenedWaiting,
}

/// Which file systems a store on disk is opened on.
///
/// ```
/// # use receipted::store::FileSystem;
/// // Tests have their directory wherever it is; a service has a local disk.
/// let file_system = if cfg!(test) { FileSystem::Any } else { FileSystem::Local };
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileSystem {
    /// Those of a local disk that writes in place; network, user-space and copy-on-write ones are refused.
    Local,
    /// Any: whoever sets this knows what a sync and a lock mean there.
    Any,
}

/// Sizes and counts, for metrics.
///
/// ```
/// # use receipted::store::{ReceiptStore, memory::MemoryStore};
/// /// For an alert of your own, long before the store takes nothing new.
/// fn is_short_of_room(store: &dyn ReceiptStore) -> bool {
///     let sizes = store.sizes();
///     sizes.disk_free_bytes < 10 * sizes.parked_bytes
/// }
/// assert!(!is_short_of_room(&MemoryStore::new()));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sizes {
    /// Operations that have a receipt.
    pub operations: u64,
    /// Bytes on disk.
    pub store_bytes: u64,
    /// Bytes free on that disk.
    pub disk_free_bytes: u64,
    /// Bytes of parked records.
    pub parked_bytes: u64,
}

/// A durable store of receipts. See the module's contract.
///
/// ```
/// use receipted::{prelude::*, protocol::key::OperationKey, store::{self, ReceiptStore, memory::MemoryStore}};
///
/// /// What a support page of your own says of an operation, from the store of the running app.
/// fn state(store: &dyn ReceiptStore, tenant: &str, id: &str) -> Result<&'static str, BoxError> {
///     let key = OperationKey::new(tenant, "charge.v1", &[id.to_string()], Alphabet::Token)?;
///     let known = store.load(&[store.derivation().digest(&key)])?;
///     Ok(known[0].receipt.state().label())
/// }
///
/// let store = MemoryStore::new();
/// store::self_test(&store)?; // of a store of your own: does it refuse what it must?
/// assert_eq!(state(&store, "acme", "c-1")?, "new");
/// # Ok::<(), BoxError>(())
/// ```
pub trait ReceiptStore: Send + Sync + 'static {
    /// Which store this is.
    fn identity(&self) -> &Identity;

    /// How the digests are made under which this store knows operations.
    fn derivation(&self) -> Derivation {
        Derivation::Unkeyed
    }

    /// Binds the store to a cluster and a group, once and durably; later calls compare.
    ///
    /// # Errors
    /// [`Error::Foreign`] when it is bound to others.
    fn bind(&self, cluster: &str, group: &str) -> Result<(), Error>;

    /// Whether `nonce` names a claim that this store has written.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn wrote_nonce(&self, nonce: &str) -> Result<bool, Error>;

    /// Reads operations, in the order of `keys`; an unknown one is empty. May touch the disk.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn load(&self, keys: &[KeyDigest]) -> Result<Vec<Arc<Known>>, Error>;

    /// The digest of an operation's parameters when it is durably applied, so that its repeats are answered at once; none where that
    /// is not so, and also where memory alone does not say. From memory.
    fn applied(&self, key: &KeyDigest) -> Option<Fingerprint>;

    /// Reads what is known of slots themselves, in their order. From memory.
    fn slots(&self, slots: &[Slot]) -> Vec<SlotNotes>;

    /// The bound that the store is at, if it is at one: admit and park nothing new until this is none again. Facts, doubts, verdicts
    /// and ends are taken all the same; a batch of nothing but admissions and park notes is answered with this error. From memory.
    fn pressure(&self) -> Option<Error> {
        None
    }

    /// Hands a batch to the writer and returns at once. When the queue is full the reply gets [`Error::Full`] before this returns.
    fn submit(&self, batch: Batch, reply: Reply);

    /// Submits and waits; never call it from async code.
    ///
    /// # Errors
    /// When nobody knows whether the batch is durable.
    fn append(&self, batch: Batch) -> Result<Appended, Error> {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        self.submit(batch, Box::new(move |appended| drop(sender.send(appended))));
        receiver.recv().unwrap_or_else(|_| Err(Error::Stopped { detail: "the writer is gone".into() }))
    }

    /// Lists operations with keys above `after`, ascending, at most `limit`.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn list(&self, which: Which, after: Option<KeyDigest>, limit: usize) -> Result<Vec<(KeyDigest, Arc<Known>)>, Error>;

    /// How many operations a listing has, other than of [`Which::All`]. From memory.
    fn count(&self, which: Which) -> usize;

    /// Lists open park notes above `after`, ascending, at most `limit`. From memory. Also those without an operation.
    fn parked(&self, after: Option<&ParkId>, limit: usize) -> Vec<(ParkId, Arc<Park>)>;

    /// The record of a park note, whole; none when there is no such note.
    ///
    /// # Errors
    /// When it cannot be read, or is damaged.
    fn payload(&self, park: &ParkId) -> Result<Option<Payload>, Error>;

    /// How far each partition is complete. From memory.
    fn marks(&self) -> BTreeMap<Partition, Marks>;

    /// Accepts a committed offset that is not this store's, once, noted with its reason for ever.
    ///
    /// # Errors
    /// When the note cannot be made durable.
    fn adopt(&self, partition: &Partition, offset: i64, reason: &str) -> Result<(), Error>;

    /// Where the store came from when it was imported. From memory.
    fn imported(&self) -> Option<Imported> {
        None
    }

    /// The durable counters.
    fn totals(&self) -> Totals;

    /// Incidents from number `from` on, oldest first, at most `limit`.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn incidents(&self, from: u64, limit: usize) -> Result<Vec<(u64, Incident)>, Error>;

    /// Sizes and counts.
    fn sizes(&self) -> Sizes;

    /// Writes what is queued, notes the clean stop durably, and lets the directory go.
    ///
    /// # Errors
    /// When the last batch or the note could not be made durable.
    fn close(&self) -> Result<(), Error>;
}

/// Compares what a store is bound to with what a run names.
fn check_binding(bound: &(String, String), cluster: &str, group: &str) -> Result<(), Error> {
    for (what, bound, given) in [("cluster", &bound.0, cluster), ("group", &bound.1, group)] {
        if bound != given {
            return Err(Error::Foreign { what, bound: bound.clone(), given: given.into() });
        }
    }
    Ok(())
}

/// The system's wall clock.
#[must_use]
fn system_clock() -> UnixMillis {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    UnixMillis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
