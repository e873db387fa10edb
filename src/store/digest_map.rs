//! Owns maps whose keys are digests: their bytes are as good as any hash of them. It does not own what the maps hold.

use crate::protocol::key::KeyDigest;
use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

/// A map from digests.
pub(crate) type DigestMap<V> = HashMap<KeyDigest, V, BuildHasherDefault<DigestHasher>>;

/// Takes the first eight bytes. Rotated: the table's tag is made of the highest bits of a hash and its place of the lowest, and the
/// highest bits of a digest are the same all over a shard.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct DigestHasher(u64);

impl Hasher for DigestHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        if let Some(chunk) = bytes.first_chunk() {
            self.write_u64(u64::from_be_bytes(*chunk));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = word.rotate_right(7);
    }

    fn write_usize(&mut self, _length: usize) {}
}
