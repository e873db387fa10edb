//! Owns the operations that are answered without the disk: the ones used lately, and the certainty that a key was never seen; and where
//! the notes of the others are. It holds what is durable and nothing else.

use super::places::{Places, SHARDS, shard_of, short};
use crate::{
    protocol::{
        key::{KeyDigest, OperationKey},
        known::Known,
        note::Slot,
        park::{End, Park, ParkId, RecordDigest},
        receipt::Receipt,
    },
    store::digest_map::DigestMap,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicBool, Ordering},
    },
};

/// What an entry costs beside its packed bytes: its key twice, its place in map and ring.
const ENTRY_BYTES: usize = 128;
/// What an unpacked operation is taken to weigh: its maps allocate whole nodes.
const LIVE_BYTES: usize = 4096;

/// Operations in memory.
pub(super) struct Cache {
    /// By the highest bits of the digest.
    shards: Vec<RwLock<Shard>>,
    shard_bytes_max: usize,
    nothing: Arc<Known>,
}

#[derive(Default)]
struct Shard {
    kept: DigestMap<Kept>,
    /// Kept keys in the order in which they are looked at for eviction.
    ring: VecDeque<KeyDigest>,
    places: Places,
    bytes: usize,
    /// What the last packing left: room for the next one.
    scratch: Vec<u8>,
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
    /// Its durable state is what these blocks hold. They are never changed, so that reading them takes no lock.
    In(Vec<u64>),
}

impl Cache {
    /// An empty one that knows these places, one for each shard.
    pub(super) fn new(bytes_max: usize, places: Vec<Places>) -> Self {
        let shards = places.into_iter().map(|places| RwLock::new(Shard { places, ..Shard::default() })).collect();
        Self { shards, shard_bytes_max: bytes_max / SHARDS, nothing: Arc::default() }
    }

    /// Looks a key up in memory.
    pub(super) fn find(&self, key: &KeyDigest) -> Found {
        let shard = self.read(shard_of(key));
        if let Some(known) = shard.kept(key) {
            return Found::Known(known);
        }
        let blocks = shard.places.get(short(key));
        if blocks.is_empty() { Found::Known(self.nothing.clone()) } else { Found::In(blocks) }
    }

    /// Keeps what was read from `blocks`, unless a group added to the operation since [`Self::find`] named them: a group that adds
    /// to an operation adds a block to its places.
    pub(super) fn keep(&self, key: &KeyDigest, known: &Arc<Known>, blocks: &[u64]) {
        let mut shard = self.write(shard_of(key));
        if !shard.kept.contains_key(key) && shard.places.get(short(key)) == blocks {
            shard.insert(*key, known, self.shard_bytes_max);
        }
    }

    /// Shows what a group left, which is durable now. Both lists come back in the order of shards; each shard shows all of it at once.
    pub(super) fn publish(&self, places: &mut [(KeyDigest, u64)], touched: &mut [(KeyDigest, Arc<Known>, Arc<Known>)]) {
        places.sort_by_key(|(key, _)| shard_of(key));
        touched.sort_by_key(|(key, ..)| shard_of(key));
        let (mut places, mut touched) = (&*places, &*touched);
        for number in 0..SHARDS {
            let (own_places, more) = places.split_at(places.partition_point(|(key, _)| shard_of(key) <= number));
            let (own, rest) = touched.split_at(touched.partition_point(|(key, ..)| shard_of(key) <= number));
            (places, touched) = (more, rest);
            if own_places.is_empty() {
                continue;
            }
            let mut shard = self.write(number);
            for (key, block) in own_places {
                shard.places.add(short(key), *block);
            }
            for (key, _, after) in own {
                shard.insert(*key, after, self.shard_bytes_max);
            }
        }
    }

    /// Where operations of a shard are: those whose first bytes are not below `from`, ascending, at most `limit`.
    pub(super) fn places(&self, shard: usize, from: u64, limit: usize) -> Vec<(u64, Vec<u64>)> {
        self.read(shard).places.from(from, limit)
    }

    /// What the kept operations are taken to weigh.
    pub(super) fn bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.read().unwrap_or_else(PoisonError::into_inner).bytes).sum()
    }

    fn read(&self, shard: usize) -> RwLockReadGuard<'_, Shard> {
        self.shards[shard].read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, shard: usize) -> RwLockWriteGuard<'_, Shard> {
        self.shards[shard].write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shard {
    fn kept(&self, key: &KeyDigest) -> Option<Arc<Known>> {
        let kept = self.kept.get(key)?;
        kept.used.store(true, Ordering::Relaxed);
        match &kept.form {
            Form::Live(known) => Some(known.clone()),
            Form::Packed(bytes) => unpack(bytes).map(Arc::new),
        }
    }

    fn insert(&mut self, key: KeyDigest, known: &Arc<Known>, bytes_max: usize) {
        let packed = if known.receipt.state().is_settled() { pack(known, &mut self.scratch) } else { None };
        let form = packed.map_or_else(|| Form::Live(known.clone()), Form::Packed);
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

fn pack(known: &Known, scratch: &mut Vec<u8>) -> Option<Box<[u8]>> {
    let Known { key, receipt, parks, ends, held } = known;
    scratch.clear();
    *scratch = postcard::to_extend(&PackedRef { key, receipt, parks, ends, held }, std::mem::take(scratch)).ok()?;
    Some(scratch.as_slice().into())
}

fn unpack(bytes: &[u8]) -> Option<Known> {
    let Packed { key, receipt, parks, ends, held } = postcard::from_bytes(bytes).ok()?;
    Some(Known { key, receipt, parks, ends, held })
}
