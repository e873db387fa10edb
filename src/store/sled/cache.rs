//! Owns the operations that are answered without the disk: those that a running group touches (as they were before it), the ones
//! used lately, and the certainty that a key was never seen. It holds durable states only.

use crate::protocol::{
    key::{KeyDigest, OperationKey},
    known::Known,
    note::Slot,
    park::{End, Park, ParkId, RecordDigest},
    receipt::Receipt,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    hash::{BuildHasherDefault, Hasher},
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicBool, Ordering},
    },
};

const SHARDS: usize = 64;
/// What an entry costs beside its packed bytes: its key twice, its place in map and ring.
const ENTRY_BYTES: usize = 128;
/// What an unpacked operation is taken to weigh: its maps allocate whole nodes.
const LIVE_BYTES: usize = 4096;

/// Keys are digests: their bytes are as good as any hash of them.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct DigestHasher(u64);

type Build = BuildHasherDefault<DigestHasher>;

impl Hasher for DigestHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        if let Some(chunk) = bytes.first_chunk() {
            self.0 = u64::from_be_bytes(*chunk);
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }

    fn write_usize(&mut self, _length: usize) {}
}

/// Operations in memory.
pub(super) struct Cache {
    shards: Vec<RwLock<Shard>>,
    shard_bytes_max: usize,
    nothing: Arc<Known>,
}

#[derive(Default)]
struct Shard {
    /// As they were before the running group.
    pinned: HashMap<KeyDigest, Arc<Known>, Build>,
    kept: HashMap<KeyDigest, Kept, Build>,
    /// Kept keys in the order in which they are looked at for eviction.
    ring: VecDeque<KeyDigest>,
    /// Eight bytes of every key that has an entry: about 20 bytes of memory a receipt.
    seen: HashSet<u64, Build>,
    bytes: usize,
    /// Raised with every pin, so that a reader knows whether what it read may be half of a group.
    pins: u64,
}

struct Kept {
    form: Form,
    bytes: usize,
    used: AtomicBool,
}

/// Settled operations are kept packed: ten times as many fit.
enum Form {
    Live(Arc<Known>),
    Packed(Box<[u8]>),
}

/// What memory says about a key.
pub(super) enum Found {
    /// This is its durable state.
    Known(Arc<Known>),
    /// Only the disk can tell. With the number to give to [`Cache::keep`].
    Ask(u64),
}

/// What became of a state that was read from disk.
pub(super) enum Read {
    /// It is durable; or this one is.
    Sound(Arc<Known>),
    /// A group ran meanwhile, and it may be half of it.
    Torn,
}

impl Cache {
    pub(super) fn new(bytes_max: usize) -> Self {
        let shards = (0..SHARDS).map(|_| RwLock::default()).collect();
        Self { shards, shard_bytes_max: bytes_max / SHARDS, nothing: Arc::default() }
    }

    /// Notes at open that a key has entries.
    pub(super) fn saw(&self, key: &KeyDigest) {
        self.write(key).seen.insert(short(key));
    }

    /// Looks a key up in memory.
    pub(super) fn find(&self, key: &KeyDigest) -> Found {
        let shard = self.read(key);
        if let Some(known) = shard.durable(key) {
            return Found::Known(known);
        }
        if shard.seen.contains(&short(key)) { Found::Ask(shard.pins) } else { Found::Known(self.nothing.clone()) }
    }

    /// Keeps what was read from disk, if no group touched its shard since [`Self::find`] gave `pins`.
    pub(super) fn keep(&self, key: &KeyDigest, known: Arc<Known>, pins: u64) -> Read {
        let mut shard = self.write(key);
        if let Some(newer) = shard.durable(key) {
            return Read::Sound(newer);
        }
        if shard.pins != pins {
            return Read::Torn;
        }
        shard.insert(*key, &known, self.shard_bytes_max);
        Read::Sound(known)
    }

    /// Holds the state from before a group, until [`Self::publish`] shows the one after it.
    pub(super) fn pin(&self, key: &KeyDigest, before: Arc<Known>) {
        let mut shard = self.write(key);
        shard.pins += 1;
        shard.pinned.insert(*key, before);
    }

    /// Shows the state after a group, which is durable now.
    pub(super) fn publish(&self, key: &KeyDigest, after: &Arc<Known>) {
        let mut shard = self.write(key);
        shard.seen.insert(short(key));
        shard.insert(*key, after, self.shard_bytes_max);
        shard.pinned.remove(key);
    }

    /// What the kept operations are taken to weigh.
    pub(super) fn bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.read().unwrap_or_else(PoisonError::into_inner).bytes).sum()
    }

    fn read(&self, key: &KeyDigest) -> RwLockReadGuard<'_, Shard> {
        self.shards[usize::from(key.0[31]) % SHARDS].read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, key: &KeyDigest) -> RwLockWriteGuard<'_, Shard> {
        self.shards[usize::from(key.0[31]) % SHARDS].write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shard {
    fn durable(&self, key: &KeyDigest) -> Option<Arc<Known>> {
        if let Some(known) = self.pinned.get(key) {
            return Some(known.clone());
        }
        let kept = self.kept.get(key)?;
        kept.used.store(true, Ordering::Relaxed);
        match &kept.form {
            Form::Live(known) => Some(known.clone()),
            Form::Packed(bytes) => unpack(bytes).map(Arc::new),
        }
    }

    fn insert(&mut self, key: KeyDigest, known: &Arc<Known>, bytes_max: usize) {
        let packed = if known.receipt.state().is_settled() { pack(known) } else { None };
        let form = packed.map_or_else(|| Form::Live(known.clone()), |packed| Form::Packed(packed.into_boxed_slice()));
        let weight = if let Form::Packed(packed) = &form { packed.len() } else { LIVE_BYTES };
        let bytes = ENTRY_BYTES + weight;
        self.bytes += bytes;
        match self.kept.insert(key, Kept { form, bytes, used: AtomicBool::new(true) }) {
            Some(old) => self.bytes -= old.bytes,
            None => self.ring.push_back(key),
        }
        self.evict(bytes_max);
    }

    /// Drops what was not used since it was last looked at. Each key is looked at twice at most, so that this ends.
    fn evict(&mut self, bytes_max: usize) {
        let mut looks = self.ring.len() * 2;
        while self.bytes > bytes_max && looks > 0 {
            looks -= 1;
            let Some(key) = self.ring.pop_front() else { return };
            match self.kept.get(&key) {
                Some(kept) if kept.used.swap(false, Ordering::Relaxed) => self.ring.push_back(key),
                _ => {
                    if let Some(old) = self.kept.remove(&key) {
                        self.bytes -= old.bytes;
                    }
                }
            }
        }
    }
}

/// For the filter and its hash: other bytes than those that choose the shard.
fn short(key: &KeyDigest) -> u64 {
    let mut short = [0; 8];
    short.copy_from_slice(&key.0[..8]);
    u64::from_be_bytes(short)
}

#[derive(Serialize)]
struct PackedRef<'a> {
    key: &'a Option<Arc<OperationKey>>,
    receipt: &'a Receipt,
    parks: &'a BTreeMap<ParkId, Arc<Park>>,
    ends: &'a BTreeMap<ParkId, End>,
    held: &'a BTreeMap<ParkId, BTreeMap<Slot, RecordDigest>>,
}

#[derive(Deserialize)]
struct Packed {
    key: Option<Arc<OperationKey>>,
    receipt: Receipt,
    parks: BTreeMap<ParkId, Arc<Park>>,
    ends: BTreeMap<ParkId, End>,
    held: BTreeMap<ParkId, BTreeMap<Slot, RecordDigest>>,
}

fn pack(known: &Known) -> Option<Vec<u8>> {
    let Known { key, receipt, parks, ends, held } = known;
    postcard::to_stdvec(&PackedRef { key, receipt, parks, ends, held }).ok()
}

fn unpack(bytes: &[u8]) -> Option<Known> {
    let Packed { key, receipt, parks, ends, held } = postcard::from_bytes(bytes).ok()?;
    Some(Known { key, receipt, parks, ends, held })
}
