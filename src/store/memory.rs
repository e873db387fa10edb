//! Owns the store of tests and of the simulator: the same judgement as the durable one, on maps. It survives a simulated crash
//! ([`MemoryStore::restart`]) and no real one.

use super::{
    Appended, Batch, Error, Identity, Marks, PARKED_BYTES, Partition, PreviousStop, ReceiptStore, Reply, Sizes, WallClock, Which,
    draft::{Base, Draft, Group, Note, is_taken},
    index::Index,
    self_test::PROBE,
    system_clock,
};
use crate::protocol::{
    change::{Incident, Totals},
    fingerprint::Fingerprint,
    key::{KeyDigest, hex},
    known::{Answer, Known},
    note::Slot,
    park::{Park, ParkId, Payload, SlotNotes},
    time::UnixMillis,
};
use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    ops::Bound,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// What goes wrong with a group of batches.
///
/// How a test uses one: [`MemoryStore`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing landed, and the replies say that nobody knows. The store goes on.
    FailBefore,
    /// Everything landed, and the replies say that nobody knows. The store goes on.
    FailAfter,
    /// Nothing landed, and nobody is answered: a kill between write and sync. The store is stopped.
    Lose,
    /// Nothing landed, and the sync failed: the store is stopped.
    SyncFails,
}

/// Whether batches are committed as they come.
///
/// ```
/// # use receipted::{protocol::{known::Entry, note::Slot}, store::{Batch, ReceiptStore, memory::{Commit, MemoryStore}}};
/// # let entry = |offset| Entry::Watermark { slot: Slot { topic: "payments".into(), partition: 0, offset } };
/// let store = MemoryStore::new();
/// store.set_commit(Commit::WhenTold);
/// store.submit(Batch(vec![entry(8)]), Box::new(|appended| assert_eq!(appended.map(|done| done.group).ok(), Some(2))));
/// store.submit(Batch(vec![entry(9)]), Box::new(|appended| assert!(appended.is_ok())));
/// assert!(store.marks().is_empty()); // a test of yours looks at what holds in between
/// store.commit();
/// assert_eq!(store.marks().values().next().and_then(|marks| marks.watermark), Some(9));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Commit {
    /// Each batch is a group of its own, committed before `submit` returns.
    #[default]
    AtOnce,
    /// Batches wait for [`MemoryStore::commit`], which makes one group of them.
    WhenTold,
}

/// A store without a disk.
///
/// ```
/// use receipted::store::{Batch, ReceiptStore, memory::{Fault, MemoryStore}};
/// # use receipted::protocol::{known::Entry, note::Slot};
/// # let batch = Batch(vec![Entry::Watermark { slot: Slot { topic: "payments".into(), partition: 0, offset: 8 } }]);
/// // Does a runner of your own take an error for what it is? Nobody knows whether the batch landed: this one did.
/// let store = MemoryStore::new();
/// store.fail_next([Fault::FailAfter]);
/// assert!(store.append(batch).is_err());
/// let after_a_kill = store.restart();
/// assert_eq!(after_a_kill.identity().claim, store.identity().claim + 1);
/// assert_eq!(after_a_kill.marks().len(), 1);
/// ```
pub struct MemoryStore {
    identity: Identity,
    clock: WallClock,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    durable: Durable,
    faults: VecDeque<Fault>,
    commit: Commit,
    queue: VecDeque<(Batch, Reply)>,
    stopped: Option<Error>,
    parked_bytes_max: Option<u64>,
}

/// What a crash leaves.
#[derive(Default)]
struct Durable {
    known: BTreeMap<KeyDigest, Arc<Known>>,
    index: Index,
    payloads: BTreeMap<ParkId, Arc<Payload>>,
    incidents: Vec<Incident>,
    adoptions: Vec<(Partition, i64, String)>,
    binding: Option<(String, String)>,
    nonces: Vec<String>,
    clean: bool,
}

impl Base for Durable {
    fn known(&self, key: KeyDigest) -> Result<Arc<Known>, Error> {
        Ok(self.known.get(&key).cloned().unwrap_or_default())
    }

    fn index(&self) -> &Index {
        &self.index
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// An empty store on the system's clock.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(Arc::new(system_clock))
    }

    /// An empty store on a clock of the caller's.
    #[must_use]
    pub fn with_clock(clock: WallClock) -> Self {
        Self::start(Durable::default(), clock, Settings::default())
    }

    /// Lets the next groups fail, one fault each, in order.
    pub fn fail_next(&self, faults: impl IntoIterator<Item = Fault>) {
        self.lock().faults.extend(faults);
    }

    /// Chooses whether batches are committed as they come.
    pub fn set_commit(&self, commit: Commit) {
        self.lock().commit = commit;
    }

    /// Sets the bound of [`ReceiptStore::pressure`] on the bytes of parked records.
    pub fn set_parked_bytes_max(&self, max: u64) {
        self.lock().parked_bytes_max = Some(max);
    }

    /// How many batches wait for [`Self::commit`].
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.lock().queue.len()
    }

    /// Commits every waiting batch as one group, and answers. All of it is durable when this returns, or its fault has struck.
    pub fn commit(&self) {
        let mut shared = self.lock();
        let waiting: Vec<(Batch, Reply)> = shared.queue.drain(..).collect();
        let (results, replies) = waiting.into_iter().unzip::<Batch, Reply, Vec<_>, Vec<_>>();
        let answers = shared.commit_group(results, (self.clock)());
        drop(shared);
        for (reply, answer) in replies.into_iter().zip(answers) {
            if let Some(answer) = answer {
                reply(answer);
            }
        }
    }

    /// Ends this process start as a kill would, and begins the next one on what is durable. This handle is stopped; waiting batches
    /// are lost and their replies dropped.
    #[must_use]
    pub fn restart(&self) -> Self {
        let mut shared = self.lock();
        let durable = std::mem::take(&mut shared.durable);
        shared.stopped = Some(Error::Stopped { detail: "the process ended".into() });
        let settings = Settings { commit: shared.commit, parked_bytes_max: shared.parked_bytes_max };
        let lost: Vec<(Batch, Reply)> = shared.queue.drain(..).collect();
        drop(shared);
        drop(lost);
        Self::start(durable, self.clock.clone(), settings)
    }

    /// Adopted offsets with their reasons, oldest first.
    #[must_use]
    pub fn adoptions(&self) -> Vec<(Partition, i64, String)> {
        self.lock().durable.adoptions.clone()
    }

    fn start(mut durable: Durable, clock: WallClock, settings: Settings) -> Self {
        let claim = durable.nonces.len() as u64 + 1;
        let previous_stop = match (durable.nonces.is_empty(), durable.clean) {
            (true, _) => PreviousStop::First,
            (false, true) => PreviousStop::Clean,
            (false, false) => PreviousStop::Unclean,
        };
        let nonce = hex(&blake3::hash(&claim.to_be_bytes()).as_bytes()[..16]);
        durable.nonces.push(nonce.clone());
        durable.clean = false;
        let identity = Identity { store_id: "0".repeat(32), claim, nonce, previous_stop };
        let Settings { commit, parked_bytes_max } = settings;
        let shared = Shared { durable, commit, parked_bytes_max, ..Shared::default() };
        Self { identity, clock, shared: Arc::new(Mutex::new(shared)) }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, unless the store is stopped.
    fn running(&self) -> Result<MutexGuard<'_, Shared>, Error> {
        let shared = self.lock();
        match &shared.stopped {
            Some(error) => Err(error.clone()),
            None => Ok(shared),
        }
    }
}

#[derive(Debug, Default)]
struct Settings {
    commit: Commit,
    parked_bytes_max: Option<u64>,
}

impl Shared {
    /// Judges and adds a group; none for a batch that is never answered.
    fn commit_group(&mut self, batches: Vec<Batch>, now: UnixMillis) -> Vec<Option<Result<Appended, Error>>> {
        let count = batches.len();
        let all = |error: &Error| (0..count).map(|_| Some(Err(error.clone()))).collect();
        if let Some(error) = &self.stopped {
            return all(error);
        }
        if batches.is_empty() {
            return Vec::new();
        }
        let fault = self.faults.pop_front();
        let unknown = Error::Io { action: "sync", detail: "as the test told it".into() };
        match fault {
            Some(Fault::FailBefore) => return all(&unknown),
            Some(Fault::Lose) => {
                self.stopped = Some(Error::Stopped { detail: "the process ended".into() });
                return batches.iter().map(|_| None).collect();
            }
            Some(Fault::SyncFails) => {
                self.stopped = Some(Error::Stopped { detail: unknown.to_string() });
                return all(&unknown);
            }
            Some(Fault::FailAfter) | None => {}
        }
        let pressure = self.pressure();
        let mut draft = Draft::new(&self.durable, now);
        let size = batches.iter().map(|batch| batch.0.len()).sum();
        let judge = |batch: Batch| match &pressure {
            Some(full) if !is_taken(&batch, full, &self.durable.index) => Err(full.clone()),
            _ => draft.batch(batch),
        };
        let judged: Vec<Result<Vec<Answer>, Error>> = batches.into_iter().map(judge).collect();
        let group = draft.finish();
        self.durable.add(&group);
        let appended = |answers| Appended { answers, group: size, sync: Duration::ZERO };
        match fault {
            Some(_) => all(&unknown),
            None => judged.into_iter().map(|answers| Some(answers.map(appended))).collect(),
        }
    }

    fn pressure(&self) -> Option<Error> {
        let limit = self.parked_bytes_max?;
        (self.durable.index.parked_bytes() >= limit).then_some(Error::Full { what: PARKED_BYTES, limit })
    }
}

impl Durable {
    fn add(&mut self, group: &Group) {
        for note in &group.notes {
            match note {
                Note::Park { id, payload, .. } => drop(self.payloads.insert(id.clone(), payload.clone())),
                Note::Incident(_, incident) => self.incidents.push(incident.clone()),
                _ => {}
            }
        }
        self.known.extend(group.touched.iter().map(|(key, _, after)| (*key, after.clone())));
        self.index.publish(group);
    }
}

impl ReceiptStore for MemoryStore {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn bind(&self, cluster: &str, group: &str) -> Result<(), Error> {
        let mut shared = self.running()?;
        let bound = shared.durable.binding.get_or_insert_with(|| (cluster.into(), group.into()));
        super::check_binding(bound, cluster, group)
    }

    fn wrote_nonce(&self, nonce: &str) -> Result<bool, Error> {
        Ok(self.running()?.durable.nonces.iter().any(|own| own == nonce))
    }

    fn load(&self, keys: &[KeyDigest]) -> Result<Vec<Arc<Known>>, Error> {
        let shared = self.running()?;
        keys.iter().map(|key| shared.durable.known(*key)).collect()
    }

    fn applied(&self, key: &KeyDigest) -> Option<Fingerprint> {
        self.lock().durable.known.get(key)?.applied_with()
    }

    fn slots(&self, slots: &[Slot]) -> Vec<SlotNotes> {
        let shared = self.lock();
        slots.iter().map(|slot| shared.durable.index.slot(slot)).collect()
    }

    fn pressure(&self) -> Option<Error> {
        self.lock().pressure()
    }

    fn submit(&self, batch: Batch, reply: Reply) {
        let mut shared = self.lock();
        if shared.commit == Commit::WhenTold && shared.stopped.is_none() {
            shared.queue.push_back((batch, reply));
            return;
        }
        let answers = shared.commit_group(vec![batch], (self.clock)());
        drop(shared);
        if let Some(answer) = answers.into_iter().next().flatten() {
            reply(answer);
        }
    }

    fn list(&self, which: Which, after: Option<KeyDigest>, limit: usize) -> Result<Vec<(KeyDigest, Arc<Known>)>, Error> {
        let shared = self.running()?;
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        match shared.durable.index.keys(which, after, limit) {
            Some(keys) => keys.into_iter().map(|key| Ok((key, shared.durable.known(key)?))).collect(),
            None => {
                let all = shared.durable.known.range((from, Bound::Unbounded)).filter(|(key, _)| **key != PROBE).take(limit);
                Ok(all.map(|(key, known)| (*key, known.clone())).collect())
            }
        }
    }

    fn count(&self, which: Which) -> usize {
        self.lock().durable.index.count(which)
    }

    fn parked(&self, after: Option<&ParkId>, limit: usize) -> Vec<(ParkId, Arc<Park>)> {
        self.lock().durable.index.parks(after, limit)
    }

    fn payload(&self, park: &ParkId) -> Result<Option<Payload>, Error> {
        Ok(self.running()?.durable.payloads.get(park).map(|payload| Payload::clone(payload)))
    }

    fn marks(&self) -> BTreeMap<Partition, Marks> {
        self.lock().durable.index.marks().clone()
    }

    fn adopt(&self, partition: &Partition, offset: i64, reason: &str) -> Result<(), Error> {
        let mut shared = self.running()?;
        shared.durable.index.mark(partition.clone(), Marks::adopting(offset));
        shared.durable.adoptions.push((partition.clone(), offset, reason.into()));
        Ok(())
    }

    fn totals(&self) -> Totals {
        self.lock().durable.index.totals().clone()
    }

    fn incidents(&self, from: u64, limit: usize) -> Result<Vec<(u64, Incident)>, Error> {
        let shared = self.running()?;
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        let incidents = shared.durable.incidents.iter().enumerate().skip(from).take(limit);
        Ok(incidents.map(|(number, incident)| (number as u64, incident.clone())).collect())
    }

    fn sizes(&self) -> Sizes {
        let shared = self.lock();
        let index = &shared.durable.index;
        Sizes { operations: index.operations(), parked_bytes: index.parked_bytes(), ..Sizes::default() }
    }

    fn close(&self) -> Result<(), Error> {
        self.commit();
        let mut shared = self.running()?;
        shared.durable.clean = true;
        shared.stopped = Some(Error::Stopped { detail: "the store is closed".into() });
        Ok(())
    }
}
