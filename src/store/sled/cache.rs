//! Owns what is answered without the disk: applied operations as far as a repeat asks, open ones whole, and the certainty that a key
//! was never seen; and where the notes of the others are. It holds what is durable and nothing else.

use super::{
    generations::Generations,
    places::{Places, SHARDS, shard_of, short},
};
use crate::protocol::{fingerprint::Fingerprint, key::KeyDigest, known::Known};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// What an applied operation weighs: key and digest of its parameters, and the free places of a table.
const APPLIED_BYTES: usize = 112;
/// What an open operation is taken to weigh: its maps allocate whole nodes.
const OPEN_BYTES: usize = 4096;

/// Operations in memory.
pub(super) struct Cache {
    /// By the highest bits of the digest.
    shards: Vec<RwLock<Shard>>,
    nothing: Arc<Known>,
}

struct Shard {
    /// Whole, for more will be noted about them.
    open: Generations<Arc<Known>>,
    /// Nothing takes *applied* back, and a repeat asks for nothing else. The rest is read from disk.
    applied: Generations<Fingerprint>,
    places: Places,
}

/// What memory says about a key.
pub(super) enum Found {
    /// This is its durable state.
    Known(Arc<Known>),
    /// Its durable state is what these blocks hold. They are never changed, so that reading them takes no lock.
    In(Vec<u64>),
}

impl Cache {
    /// An empty one, for a store without operations.
    pub(super) fn new(bytes_max: usize) -> Self {
        let half = bytes_max / SHARDS / 2;
        let shard = || Shard {
            open: Generations::new(half / OPEN_BYTES),
            applied: Generations::new(half / APPLIED_BYTES),
            places: Places::default(),
        };
        Self { shards: std::iter::repeat_with(|| RwLock::new(shard())).take(SHARDS).collect(), nothing: Arc::default() }
    }

    /// Takes over where a scan found operations, a shard each.
    pub(super) fn set_places(&self, places: Vec<Places>) {
        for (number, places) in places.into_iter().enumerate() {
            self.write(number).places = places;
        }
    }

    /// Keeps what a scan found, as far as a repeat asks for it.
    pub(super) fn warm(&self, key: &KeyDigest, known: &Known) {
        if let Some(fingerprint) = known.applied_with() {
            self.write(shard_of(key)).applied.insert(*key, fingerprint);
        }
    }

    /// The digest of the parameters of an operation that is known here to be applied.
    pub(super) fn applied(&self, key: &KeyDigest) -> Option<Fingerprint> {
        let number = shard_of(key);
        let shard = self.read(number);
        let found = *shard.applied.get(key)?;
        let ages = shard.applied.is_old(key);
        drop(shard);
        if ages {
            self.write(number).applied.renew(key);
        }
        Some(found)
    }

    /// Looks a key up in memory.
    pub(super) fn find(&self, key: &KeyDigest) -> Found {
        let shard = self.read(shard_of(key));
        if let Some(known) = shard.open.get(key) {
            return Found::Known(known.clone());
        }
        let blocks = shard.places.get(short(key));
        if blocks.is_empty() { Found::Known(self.nothing.clone()) } else { Found::In(blocks) }
    }

    /// Keeps what was read from `blocks`, unless a group added to the operation since [`Self::find`] named them: a group that adds
    /// to an operation adds a block to its places.
    pub(super) fn keep(&self, key: &KeyDigest, known: &Arc<Known>, blocks: &[u64]) {
        let mut shard = self.write(shard_of(key));
        if shard.places.get(short(key)) == blocks {
            shard.insert(*key, known);
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
                shard.insert(*key, after);
            }
        }
    }

    /// Where operations of a shard are: those whose first bytes are not below `from`, ascending, at most `limit`.
    pub(super) fn places(&self, shard: usize, from: u64, limit: usize) -> Vec<(u64, Vec<u64>)> {
        self.read(shard).places.from(from, limit)
    }

    /// What the kept operations are taken to weigh.
    pub(super) fn bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.read().unwrap_or_else(PoisonError::into_inner).bytes()).sum()
    }

    fn read(&self, shard: usize) -> RwLockReadGuard<'_, Shard> {
        self.shards[shard].read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, shard: usize) -> RwLockWriteGuard<'_, Shard> {
        self.shards[shard].write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shard {
    fn insert(&mut self, key: KeyDigest, known: &Arc<Known>) {
        match known.applied_with() {
            Some(fingerprint) => {
                self.open.remove(&key);
                self.applied.insert(key, fingerprint);
            }
            None => self.open.insert(key, known.clone()),
        }
    }

    fn bytes(&self) -> usize {
        self.open.len() * OPEN_BYTES + self.applied.len() * APPLIED_BYTES
    }
}
