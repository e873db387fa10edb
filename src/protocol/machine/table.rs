//! Owns lookup by name, where no order is asked for: thousands of entries are found several times for every record. It never shows its
//! own order, so that the same events give the same actions.

use rustc_hash::FxBuildHasher;
use std::hash::Hash;

/// A map that is looked up and counted, and whose order nobody sees.
#[derive(Debug)]
#[allow(clippy::disallowed_types, reason = "this module keeps its order hidden")]
pub(super) struct Table<K, V>(std::collections::HashMap<K, V, FxBuildHasher>);

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self(Default::default())
    }
}

impl<K: Hash + Eq + Ord + Clone, V> Table<K, V> {
    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.0.get(key)
    }

    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.0.get_mut(key)
    }

    pub(super) fn contains_key(&self, key: &K) -> bool {
        self.0.contains_key(key)
    }

    pub(super) fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.0.insert(key, value)
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        self.0.remove(key)
    }

    pub(super) fn get_or_insert_with(&mut self, key: K, value: impl FnOnce() -> V) -> &mut V {
        self.0.entry(key).or_insert_with(value)
    }

    /// How many entries are so.
    pub(super) fn count(&self, which: impl Fn(&V) -> bool) -> usize {
        self.0.values().filter(|value| which(value)).count()
    }

    /// The names of the entries that are so, in their own order.
    pub(super) fn names(&self, which: impl Fn(&V) -> bool) -> Vec<K> {
        let mut names: Vec<K> = self.0.iter().filter(|(_, value)| which(value)).map(|(key, _)| key.clone()).collect();
        names.sort_unstable();
        names
    }
}
