//! Owns where an operation's notes are: the blocks that hold some of it, by the first eight bytes of its digest. Two operations that
//! share these bytes share their places, which costs reading a block in vain and never an answer. It reads nothing.

use crate::{protocol::key::KeyDigest, store::digest_map::DigestHasher};
use std::{
    collections::{HashMap, hash_map::Entry},
    hash::BuildHasherDefault,
};

/// Into how many parts operations are divided, by the highest bits of their digests, so that parts follow each other as digests do.
pub(super) const SHARDS: usize = 64;
/// Blocks that a store can have: what a place has bits for.
pub(super) const BLOCKS_MAX: u64 = 1 << BLOCK_BITS;

const BLOCK_BITS: u32 = 40;
/// How far a second block may lie behind the first to be noted beside it.
const GAP_MAX: u64 = (1 << (63 - BLOCK_BITS)) - 1;
const MORE: u64 = 1 << 63;

type Map<V> = HashMap<u64, V, BuildHasherDefault<DigestHasher>>;

/// The places of one shard: 16 bytes an operation, as long as two blocks hold it and they are not far apart.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// The first block, above it how much further the second is; or that `more` has them.
    near: Map<u64>,
    more: Map<Vec<u64>>,
}

/// The shard of a key.
pub(super) fn shard_of(key: &KeyDigest) -> usize {
    usize::from(key.0[0] >> 2)
}

/// The first eight bytes, ordered as the keys are.
pub(super) fn short(key: &KeyDigest) -> u64 {
    let mut short = [0; 8];
    short.copy_from_slice(&key.0[..8]);
    u64::from_be_bytes(short)
}

impl Places {
    /// Notes that a block, none below those before it, holds something of `short`. Says whether an earlier note did.
    pub(super) fn add(&mut self, short: u64, block: u64) -> bool {
        let mut near = match self.near.entry(short) {
            Entry::Vacant(vacant) => {
                vacant.insert(block);
                return false;
            }
            Entry::Occupied(near) => near,
        };
        if near.get() & MORE != 0 {
            let more = self.more.entry(short).or_default();
            if more.last() != Some(&block) {
                more.push(block);
            }
            return true;
        }
        let (first, second) = unpack(*near.get());
        if block == second.unwrap_or(first) {
            return true;
        }
        if second.is_none() && block - first <= GAP_MAX {
            near.insert(first | (block - first) << BLOCK_BITS);
        } else {
            self.more.insert(short, [Some(first), second, Some(block)].into_iter().flatten().collect());
            near.insert(MORE);
        }
        true
    }

    /// The blocks that hold something of `short`, ascending; none when there is nothing.
    pub(super) fn get(&self, short: u64) -> Vec<u64> {
        match self.near.get(&short) {
            None => Vec::new(),
            Some(near) if near & MORE != 0 => self.more.get(&short).cloned().unwrap_or_default(),
            Some(near) => {
                let (first, second) = unpack(*near);
                std::iter::once(first).chain(second).collect()
            }
        }
    }

    /// The lowest that are not below `from`, ascending, at most `limit`, each with its blocks.
    pub(super) fn from(&self, from: u64, limit: usize) -> Vec<(u64, Vec<u64>)> {
        let mut shorts: Vec<u64> = self.near.keys().copied().filter(|short| *short >= from).collect();
        if shorts.len() > limit {
            shorts.select_nth_unstable(limit);
            shorts.truncate(limit);
        }
        shorts.sort_unstable();
        shorts.into_iter().map(|short| (short, self.get(short))).collect()
    }
}

fn unpack(near: u64) -> (u64, Option<u64>) {
    let (first, gap) = (near & (BLOCKS_MAX - 1), near >> BLOCK_BITS);
    (first, (gap > 0).then_some(first + gap))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds blocks to an operation, and says what is found of it and of its neighbour.
    fn found(blocks: &[u64]) -> Vec<u64> {
        let mut places = Places::default();
        assert!(!places.add(6, 3));
        for (earlier, block) in blocks.iter().enumerate() {
            assert_eq!(places.add(7, *block), earlier > 0, "{blocks:?}");
        }
        assert_eq!(places.get(6), [3], "{blocks:?}");
        assert_eq!(places.from(7, 10), [(7, places.get(7))]);
        places.get(7)
    }

    #[test]
    fn a_second_block_is_found_however_far_behind_the_first() {
        for first in [0, 1, BLOCKS_MAX / 2 - 2] {
            for gap in [1, 2, GAP_MAX - 1, GAP_MAX, GAP_MAX + 1, GAP_MAX + 2, 2 * GAP_MAX + 1, 2 * GAP_MAX + 2, BLOCKS_MAX / 2] {
                assert_eq!(found(&[first, first + gap]), [first, first + gap]);
                assert_eq!(found(&[first, first + gap, first + gap + 1]), [first, first + gap, first + gap + 1]);
                assert_eq!(found(&[first, first + 1, first + 1 + gap]), [first, first + 1, first + 1 + gap]);
            }
        }
    }

    #[test]
    fn the_last_block_that_a_store_can_have_is_found() {
        let last = BLOCKS_MAX - 1;
        assert_eq!(found(&[last]), [last]);
        assert_eq!(found(&[last - GAP_MAX, last]), [last - GAP_MAX, last]);
        assert_eq!(found(&[0, last]), [0, last]);
    }

    #[test]
    fn a_block_is_noted_once_for_all_of_an_operations_notes_in_it() {
        let mut places = Places::default();
        for block in [4, 4, 4 + GAP_MAX + 1, 4 + GAP_MAX + 1, BLOCKS_MAX - 1, BLOCKS_MAX - 1] {
            places.add(7, block);
        }
        assert_eq!(places.get(7), [4, 4 + GAP_MAX + 1, BLOCKS_MAX - 1]);
        for block in [4, 4, 5, 5] {
            places.add(8, block);
        }
        assert_eq!(places.get(8), [4, 5]);
    }
}
