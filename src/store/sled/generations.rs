//! Owns forgetting: a map of a bounded number of entries that keeps those used lately. It does not own what they are.

use crate::{protocol::key::KeyDigest, store::digest_map::DigestMap};

/// Two maps of half the bound each. When the young one is full the old one is forgotten and takes its place, so that what was used
/// since then is there still, and no entry has a place in a list.
#[derive(Debug)]
pub(super) struct Generations<V> {
    young: DigestMap<V>,
    old: DigestMap<V>,
    half_max: usize,
}

impl<V> Generations<V> {
    /// Holds `max` entries at most.
    pub(super) fn new(max: usize) -> Self {
        Self { young: DigestMap::default(), old: DigestMap::default(), half_max: max / 2 }
    }

    pub(super) fn get(&self, key: &KeyDigest) -> Option<&V> {
        self.young.get(key).or_else(|| self.old.get(key))
    }

    /// Whether the entry will be forgotten with the next generation unless it is renewed.
    pub(super) fn is_old(&self, key: &KeyDigest) -> bool {
        !self.young.contains_key(key)
    }

    /// Makes an old entry young.
    pub(super) fn renew(&mut self, key: &KeyDigest) {
        if let Some(value) = self.old.remove(key) {
            self.insert(*key, value);
        }
    }

    /// Puts an entry in, in place of what was there.
    pub(super) fn insert(&mut self, key: KeyDigest, value: V) {
        self.old.remove(&key);
        if self.half_max == 0 {
            return;
        }
        if self.young.len() >= self.half_max && !self.young.contains_key(&key) {
            std::mem::swap(&mut self.young, &mut self.old);
            self.young.clear();
        }
        self.young.insert(key, value);
    }

    pub(super) fn remove(&mut self, key: &KeyDigest) {
        self.young.remove(key);
        self.old.remove(key);
    }

    pub(super) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}
