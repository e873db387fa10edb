//! Owns the bytes of the store: keys of fixed width, and values with a version and a checksum. `docs/STORE_FORMAT.md` describes
//! them; both change together, and a change raises [`VALUE_VERSION`] or [`FORMAT`]. It reads and writes no file.

use crate::protocol::{key::KeyDigest, note::AttemptId};
use serde::{Serialize, de::DeserializeOwned};

/// The layout of the whole store.
pub(super) const FORMAT: u32 = 2;
/// The same with keys that are sealed.
pub(super) const FORMAT_SEALED: u32 = 3;
/// The layout of a value.
pub(super) const VALUE_VERSION: u8 = 1;
/// Bytes of a parked record in one entry, at most: pages stay inside a segment.
pub(super) const CHUNK_BYTES: usize = 2048;

const META: u8 = 0x01;
const TOPIC: u8 = 0x02;
const CLAIM: u8 = 0x03;
const STOP: u8 = 0x04;
const MARKS: u8 = 0x05;
const ADOPTION: u8 = 0x06;
const TOTAL: u8 = 0x07;
const INCIDENT: u8 = 0x08;
const BLOCK: u8 = 0x11;
const PARK: u8 = 0x20;
const CHUNK: u8 = 0x21;
const CLOSED: u8 = 0x22;

/// What a single entry about the whole store says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Meta {
    /// Format, store id, when it was made.
    Store,
    /// Cluster and group.
    Binding,
    /// How many notes there are, so that a lost one is noticed.
    Counts,
    /// Which store this one was imported from, and what of it is unverified.
    Imports,
    /// Which secret the digests are made with.
    Secret,
}

/// A slot with its topic's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RawSlot {
    pub(super) topic: u32,
    pub(super) partition: i32,
    pub(super) offset: i64,
}

/// A park note's name with its topic's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RawPark {
    pub(super) slot: RawSlot,
    pub(super) number: u32,
}

/// One note under an operation, as a block names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoteKey {
    Admission(AttemptId),
    Fact(AttemptId),
    Doubt(AttemptId),
    Verdict,
    Parked(RawPark),
    Held(RawPark, RawSlot),
    Ended(RawPark),
}

/// The key of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Meta(Meta),
    Topic(u32),
    Claim(u64),
    Stop(u64),
    Marks { topic: u32, partition: i32 },
    Adoption { topic: u32, partition: i32, number: u64 },
    Total([u8; 8]),
    Incident(u64),
    Block(u64),
    Park(RawPark),
    End(RawPark),
    Chunk(RawPark, u32),
    Closed(RawSlot),
}

/// Whether a store of this format can be read.
pub(super) fn is_read(format: u32) -> bool {
    matches!(format, FORMAT | FORMAT_SEALED)
}

/// Why an entry cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Damage {
    Key,
    Short,
    Version(u8),
    Checksum,
    Body,
    Sealed,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Key => f.write_str("its key is none of ours"),
            Self::Short => f.write_str("its value is too short"),
            Self::Version(found) => write!(f, "its value has version {found}, and {VALUE_VERSION} is read"),
            Self::Checksum => f.write_str("its checksum does not match"),
            Self::Body => f.write_str("its body cannot be read"),
            Self::Sealed => f.write_str("its key was not sealed with the store's secret"),
        }
    }
}

impl Key {
    /// The bytes of the key. Numbers are big-endian, and signed ones have their sign bit flipped, so that bytes sort as numbers do.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(32);
        match self {
            Self::Meta(meta) => out.extend([META, *meta as u8]),
            Self::Topic(number) => push(&mut out, TOPIC, &number.to_be_bytes()),
            Self::Claim(claim) => push(&mut out, CLAIM, &claim.to_be_bytes()),
            Self::Stop(claim) => push(&mut out, STOP, &claim.to_be_bytes()),
            Self::Marks { topic, partition } => push_partition(&mut out, MARKS, *topic, *partition),
            Self::Adoption { topic, partition, number } => {
                push_partition(&mut out, ADOPTION, *topic, *partition);
                out.extend(number.to_be_bytes());
            }
            Self::Total(digest) => push(&mut out, TOTAL, digest),
            Self::Incident(number) => push(&mut out, INCIDENT, &number.to_be_bytes()),
            Self::Block(number) => push(&mut out, BLOCK, &number.to_be_bytes()),
            Self::Park(park) => {
                out.push(PARK);
                park.push(&mut out);
                out.push(0);
            }
            Self::End(park) => {
                out.push(PARK);
                park.push(&mut out);
                out.push(1);
            }
            Self::Chunk(park, index) => {
                out.push(CHUNK);
                park.push(&mut out);
                out.extend(index.to_be_bytes());
            }
            Self::Closed(slot) => {
                out.push(CLOSED);
                slot.push(&mut out);
            }
        }
        out
    }

    /// Reads a key; none when it is none of ours.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut rest = Reader(bytes);
        let key = match rest.u8()? {
            META => Self::Meta(match rest.u8()? {
                0 => Meta::Store,
                1 => Meta::Binding,
                2 => Meta::Counts,
                3 => Meta::Imports,
                4 => Meta::Secret,
                _ => return None,
            }),
            TOPIC => Self::Topic(rest.u32()?),
            CLAIM => Self::Claim(rest.u64()?),
            STOP => Self::Stop(rest.u64()?),
            MARKS => Self::Marks { topic: rest.u32()?, partition: rest.i32()? },
            ADOPTION => Self::Adoption { topic: rest.u32()?, partition: rest.i32()?, number: rest.u64()? },
            TOTAL => Self::Total(rest.array()?),
            INCIDENT => Self::Incident(rest.u64()?),
            BLOCK => Self::Block(rest.u64()?),
            PARK => {
                let park = rest.park()?;
                match rest.u8()? {
                    0 => Self::Park(park),
                    1 => Self::End(park),
                    _ => return None,
                }
            }
            CHUNK => Self::Chunk(rest.park()?, rest.u32()?),
            CLOSED => Self::Closed(rest.slot()?),
            _ => return None,
        };
        rest.0.is_empty().then_some(key)
    }

    /// What every chunk of a park note begins with.
    pub(super) fn chunks(park: RawPark) -> Vec<u8> {
        let mut prefix = vec![CHUNK];
        park.push(&mut prefix);
        prefix
    }

    /// The ranges that hold everything but payload chunks.
    pub(super) fn without_chunks() -> [std::ops::Range<[u8; 1]>; 2] {
        [[0]..[CHUNK], [CLOSED]..[0xff]]
    }

    /// The range of payload chunks.
    pub(super) fn all_chunks() -> std::ops::Range<[u8; 1]> {
        [CHUNK]..[CHUNK + 1]
    }

    /// The range of park notes and their ends.
    pub(super) fn all_parks() -> std::ops::Range<[u8; 1]> {
        [PARK]..[PARK + 1]
    }
}

impl NoteKey {
    pub(super) fn push(&self, out: &mut Vec<u8>) {
        match self {
            Self::Admission(attempt) => push_attempt(out, 1, attempt),
            Self::Fact(attempt) => push_attempt(out, 2, attempt),
            Self::Doubt(attempt) => push_attempt(out, 3, attempt),
            Self::Verdict => out.push(4),
            Self::Parked(park) => {
                out.push(5);
                park.push(out);
            }
            Self::Held(park, slot) => {
                out.push(6);
                park.push(out);
                slot.push(out);
            }
            Self::Ended(park) => {
                out.push(7);
                park.push(out);
            }
        }
    }
}

impl RawSlot {
    fn push(&self, out: &mut Vec<u8>) {
        out.extend(self.topic.to_be_bytes());
        out.extend((self.partition.cast_unsigned() ^ (1 << 31)).to_be_bytes());
        out.extend((self.offset.cast_unsigned() ^ (1 << 63)).to_be_bytes());
    }
}

impl RawPark {
    fn push(&self, out: &mut Vec<u8>) {
        self.slot.push(out);
        out.extend(self.number.to_be_bytes());
    }
}

fn push(out: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    out.push(tag);
    out.extend(bytes);
}

fn push_partition(out: &mut Vec<u8>, tag: u8, topic: u32, partition: i32) {
    push(out, tag, &topic.to_be_bytes());
    out.extend((partition.cast_unsigned() ^ (1 << 31)).to_be_bytes());
}

fn push_attempt(out: &mut Vec<u8>, kind: u8, attempt: &AttemptId) {
    push(out, kind, &attempt.number.to_be_bytes());
    out.extend(attempt.claim.to_be_bytes());
}

/// Takes a note off the front of a block's body.
pub(super) fn note<'a>(body: &mut &'a [u8]) -> Option<(KeyDigest, NoteKey, &'a [u8])> {
    let mut rest = Reader(body);
    let (digest, note) = (KeyDigest(rest.array()?), rest.note()?);
    let length = usize::from(u16::from_be_bytes(rest.array()?));
    let (own, rest) = rest.0.split_at_checked(length)?;
    *body = rest;
    Some((digest, note, own))
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    fn i32(&mut self) -> Option<i32> {
        self.u32().map(|number| (number ^ (1 << 31)).cast_signed())
    }

    fn i64(&mut self) -> Option<i64> {
        self.u64().map(|number| (number ^ (1 << 63)).cast_signed())
    }

    fn slot(&mut self) -> Option<RawSlot> {
        Some(RawSlot { topic: self.u32()?, partition: self.i32()?, offset: self.i64()? })
    }

    fn park(&mut self) -> Option<RawPark> {
        Some(RawPark { slot: self.slot()?, number: self.u32()? })
    }

    fn attempt(&mut self) -> Option<AttemptId> {
        Some(AttemptId { number: self.u32()?, claim: self.u64()? })
    }

    fn note(&mut self) -> Option<NoteKey> {
        Some(match self.u8()? {
            1 => NoteKey::Admission(self.attempt()?),
            2 => NoteKey::Fact(self.attempt()?),
            3 => NoteKey::Doubt(self.attempt()?),
            4 => NoteKey::Verdict,
            5 => NoteKey::Parked(self.park()?),
            6 => NoteKey::Held(self.park()?, self.slot()?),
            7 => NoteKey::Ended(self.park()?),
            _ => return None,
        })
    }
}

/// The first bytes of a digest.
pub(super) fn digest<const N: usize>(body: &[u8]) -> [u8; N] {
    let mut short = [0; N];
    let whole = *blake3::hash(body).as_bytes();
    short.iter_mut().zip(whole).for_each(|(byte, from)| *byte = from);
    short
}

/// A body's bytes.
pub(super) fn body<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, postcard::Error> {
    postcard::to_stdvec(value)
}

/// A value: version, body, CRC32C over key, version and body.
pub(super) fn seal(key: &[u8], body: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(body.len() + 5);
    value.push(VALUE_VERSION);
    value.extend(body);
    checksum(key, &mut value);
    value
}

/// Adds the checksum to a version and a body.
pub(super) fn checksum(key: &[u8], value: &mut Vec<u8>) {
    let sum = crc32c::crc32c_append(crc32c::crc32c(key), value);
    value.extend(sum.to_be_bytes());
}

/// The body of a value, checked.
pub(super) fn unseal<'a>(key: &[u8], value: &'a [u8]) -> Result<&'a [u8], Damage> {
    let (sealed, sum) = value.split_last_chunk::<4>().ok_or(Damage::Short)?;
    let (version, body) = sealed.split_first().ok_or(Damage::Short)?;
    if crc32c::crc32c_append(crc32c::crc32c(key), sealed) != u32::from_be_bytes(*sum) {
        return Err(Damage::Checksum);
    }
    if *version != VALUE_VERSION {
        return Err(Damage::Version(*version));
    }
    Ok(body)
}

/// What a body says.
pub(super) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Damage> {
    match postcard::take_from_bytes(body) {
        Ok((value, [])) => Ok(value),
        Ok(_) | Err(_) => Err(Damage::Body),
    }
}

/// The first field of a body: the rest may be another version's.
pub(super) fn first<T: DeserializeOwned>(body: &[u8]) -> Result<T, Damage> {
    postcard::take_from_bytes(body).map(|(value, _)| value).map_err(|_| Damage::Body)
}
