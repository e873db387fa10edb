//! Owns blocks: how the notes of a group are packed into entries, and how they are found in one again. An entry a note costs the disk
//! and the processor several times as much. It reads and writes no file, and knows no note's body.

use super::{
    format::{self, Damage, Key, NoteKey, VALUE_VERSION},
    names,
    places::BLOCKS_MAX,
};
use crate::protocol::key::KeyDigest;
use serde::Serialize;

/// Bytes of a value that holds several notes, at most: sixteen, which sled lets a page have, stay far below what it puts into a file
/// of its own.
const BLOCK_BYTES: usize = 4096;
/// Version and checksum.
const SEAL_BYTES: usize = 5;

/// Why a note cannot be packed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("{0}")]
    Body(#[from] postcard::Error),
    #[error("a note has {0} bytes")]
    Length(usize),
    #[error("there are {BLOCKS_MAX} blocks")]
    Blocks,
    #[error("{0}")]
    Name(#[from] names::Error),
}

/// The notes of one group while they are packed.
#[derive(Debug, Default)]
pub(super) struct Packer {
    /// The number of the block that is being filled.
    next: u64,
    /// Its value without the checksum; empty when there is none.
    value: Vec<u8>,
    /// Full ones.
    pub(super) entries: Vec<(Vec<u8>, Vec<u8>)>,
    /// In which block each note lies, in order.
    pub(super) places: Vec<(KeyDigest, u64)>,
}

impl Packer {
    /// Begins with this block.
    pub(super) fn new(next: u64) -> Self {
        Self { next, ..Self::default() }
    }

    /// Adds a note: to the block that is being filled, where it fits, else to the next one.
    pub(super) fn add<T: Serialize + ?Sized>(&mut self, key: &KeyDigest, note: NoteKey, body: &T) -> Result<(), Error> {
        self.put(key, note, |value| Ok(postcard::to_extend(body, value)?))
    }

    /// The same with a body that is written already.
    pub(super) fn add_written(&mut self, key: &KeyDigest, note: NoteKey, body: &[u8]) -> Result<(), Error> {
        self.put(key, note, |mut value| {
            value.extend(body);
            Ok(value)
        })
    }

    fn put(&mut self, key: &KeyDigest, note: NoteKey, write: impl FnOnce(Vec<u8>) -> Result<Vec<u8>, Error>) -> Result<(), Error> {
        if self.value.is_empty() {
            self.value.reserve(BLOCK_BYTES);
            self.value.push(VALUE_VERSION);
        }
        let start = self.value.len();
        self.value.extend(key.0);
        note.push(&mut self.value);
        let at = self.value.len();
        self.value.extend([0; 2]);
        self.value = write(std::mem::take(&mut self.value))?;
        let bytes = self.value.len() - at - 2;
        let length = u16::try_from(bytes).map_err(|_| Error::Length(bytes))?;
        self.value[at..at + 2].copy_from_slice(&length.to_be_bytes());
        if self.value.len() - 1 + SEAL_BYTES > BLOCK_BYTES && start > 1 {
            let note = self.value.split_off(start);
            self.seal();
            self.value.reserve(BLOCK_BYTES);
            self.value.push(VALUE_VERSION);
            self.value.extend(note);
        }
        self.places.push((*key, self.next));
        Ok(())
    }

    /// Seals the last block. Returns the number of the next one, or none when the store can have no more.
    pub(super) fn finish(&mut self) -> Option<u64> {
        if !self.value.is_empty() {
            self.seal();
        }
        (self.next <= BLOCKS_MAX).then_some(self.next)
    }

    fn seal(&mut self) {
        let key = Key::Block(self.next).bytes();
        let mut value = std::mem::take(&mut self.value);
        format::checksum(&key, &mut value);
        self.entries.push((key, value));
        self.next += 1;
    }
}

/// The notes in a block's body, in order: operation, name, body.
pub(super) fn notes(mut body: &[u8]) -> impl Iterator<Item = Result<(KeyDigest, NoteKey, &[u8]), Damage>> {
    std::iter::from_fn(move || {
        if body.is_empty() {
            return None;
        }
        let note = format::note(&mut body).ok_or(Damage::Body);
        if note.is_err() {
            body = &[];
        }
        Some(note)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes after one block more than these.
    fn after(blocks: u64) -> Option<u64> {
        let mut packer = Packer::new(blocks);
        packer.add(&KeyDigest([1; 32]), NoteKey::Verdict, &"body").ok()?;
        packer.finish()
    }

    #[test]
    fn a_store_has_as_many_blocks_as_a_place_has_bits_for_and_no_more() {
        assert_eq!(after(BLOCKS_MAX - 2), Some(BLOCKS_MAX - 1));
        assert_eq!(after(BLOCKS_MAX - 1), Some(BLOCKS_MAX), "the last one is full, and the store with it");
        assert_eq!(after(BLOCKS_MAX), None);
        assert_eq!(Packer::new(BLOCKS_MAX).finish(), Some(BLOCKS_MAX), "a group without notes still fits");
    }
}
