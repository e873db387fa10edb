//! Owns putting operations together while blocks are read in order: an operation's notes lie in several, and not all operations can
//! be in memory at once. It does not own what is made of them.

use super::{
    super::Error,
    disk::Reader,
    format::NoteKey,
    places::{Places, SHARDS, shard_of, short},
};
use crate::{
    protocol::{key::KeyDigest, known::Known},
    store::{digest_map::DigestMap, index::is_listed},
};
use std::collections::BTreeSet;

/// Operations of which some notes were read.
pub(super) struct Gather<'a> {
    reader: &'a Reader,
    /// Where every note was, a shard each.
    pub(super) places: Vec<Places>,
    /// Those that may go on.
    open: DigestMap<Known>,
    /// Those that went on after they were taken to be complete, or share their first bytes with another: read once more at the end.
    again: BTreeSet<KeyDigest>,
}

/// An operation as a pass found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pass {
    /// For the first time.
    First,
    /// Whole, after it was given out as settled without what came later.
    Again,
}

impl<'a> Gather<'a> {
    pub(super) fn new(reader: &'a Reader) -> Self {
        let places = std::iter::repeat_with(Places::default).take(SHARDS).collect();
        Self { reader, places, open: DigestMap::default(), again: BTreeSet::new() }
    }

    /// Takes a note of a block whose key is `at`. Gives out an operation that is settled and in no listing: nearly always that is all.
    pub(super) fn note(
        &mut self, block: u64, at: &[u8], key: KeyDigest, note: NoteKey, body: &[u8],
    ) -> Result<Option<(KeyDigest, Known)>, Error> {
        let seen = self.places[shard_of(&key)].add(short(&key), block);
        if seen && !self.open.contains_key(&key) {
            self.again.insert(key);
            return Ok(None);
        }
        let known = self.open.entry(key).or_default();
        self.reader.add(known, &key, at, note, body)?;
        let may_settle = matches!(note, NoteKey::Fact(_) | NoteKey::Verdict | NoteKey::Ended(_));
        let complete = may_settle && known.receipt.state().is_settled() && !is_listed(known);
        Ok(if complete { self.open.remove(&key).map(|known| (key, known)) } else { None })
    }

    /// Gives out what is left.
    pub(super) fn finish(&mut self, mut give: impl FnMut(KeyDigest, Pass, Result<Known, Error>) -> Result<(), Error>) -> Result<(), Error> {
        for (key, known) in std::mem::take(&mut self.open) {
            give(key, Pass::First, Ok(known))?;
        }
        for key in std::mem::take(&mut self.again) {
            let blocks = self.places[shard_of(&key)].get(short(&key));
            // Who came first with these eight bytes was given out; others that share them never were.
            let mut first = None;
            let mut known = Known::default();
            let read = blocks.iter().try_for_each(|block| {
                self.reader.notes(*block, |at, digest, note, body| {
                    if short(&digest) == short(&key) {
                        first.get_or_insert(digest);
                    }
                    if digest == key { self.reader.add(&mut known, &key, at, note, body) } else { Ok(()) }
                })
            });
            let pass = if first == Some(key) { Pass::Again } else { Pass::First };
            give(key, pass, read.map(|()| known))?;
        }
        Ok(())
    }
}
