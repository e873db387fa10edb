//! Owns the translation between notes and entries: what each note's value says, and how an operation is put together from its
//! entries. It reads nothing itself.

use super::{
    format::{self, CHUNK_BYTES, Damage, Key, Meta, NoteKey, RawPark},
    topics::Topics,
};
use crate::{
    protocol::{
        change::Total,
        key::OperationKey,
        known::Known,
        note::{Admission, Doubt, Fact, Verdict},
        park::{Closing, End, Park, Payload, RecordDigest},
        time::UnixMillis,
    },
    store::{Marks, draft::Note},
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Body of [`Meta::Store`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct StoreMeta {
    pub(super) format: u32,
    pub(super) store_id: [u8; 16],
    pub(super) made: UnixMillis,
}

/// Body of [`Meta::Counts`]: how many notes there are. Written with every group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Counts {
    /// Groups that were written, this one included.
    pub(super) groups: u64,
    /// Notes under operations.
    pub(super) notes: u64,
    /// Park notes.
    pub(super) parks: u64,
    /// Ends of park notes.
    pub(super) ends: u64,
    /// Chunks of parked records.
    pub(super) chunks: u64,
    /// Incidents.
    pub(super) incidents: u64,
}

/// Body of a claim.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Claim {
    pub(super) nonce: String,
    pub(super) at: UnixMillis,
}

/// Body of [`Key::Marks`].
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct StoredMarks {
    watermark: Option<i64>,
    committed: Option<i64>,
    adopted: Option<i64>,
}

/// Body of [`Key::Adoption`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Adoption {
    pub(super) offset: i64,
    pub(super) reason: String,
    pub(super) at: UnixMillis,
}

/// Body of [`Key::Park`]: the note, and what its chunks have to add up to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct StoredPark {
    pub(super) park: Park,
    pub(super) chunks: u32,
    pub(super) digest: [u8; 16],
}

impl From<Marks> for StoredMarks {
    fn from(marks: Marks) -> Self {
        Self { watermark: marks.watermark, committed: marks.committed, adopted: marks.adopted }
    }
}

impl From<StoredMarks> for Marks {
    fn from(stored: StoredMarks) -> Self {
        Self { watermark: stored.watermark, committed: stored.committed, adopted: stored.adopted }
    }
}

/// Entries of one group, each with the bytes of its key and value.
#[derive(Debug, Default)]
pub(super) struct Entries(pub(super) Vec<(Vec<u8>, Vec<u8>)>);

impl Entries {
    /// Adds an entry.
    pub(super) fn put<T: Serialize + ?Sized>(&mut self, key: Key, body: &T) -> Result<(), postcard::Error> {
        self.put_raw(key, &format::body(body)?);
        Ok(())
    }

    fn put_raw(&mut self, key: Key, body: &[u8]) {
        let key = key.bytes();
        let value = format::seal(&key, body);
        self.0.push((key, value));
    }

    /// Adds the entries of a note, and counts them.
    pub(super) fn note(&mut self, note: &Note, topics: &mut Topics, counts: &mut Counts) -> Result<(), postcard::Error> {
        match note {
            Note::Admission { key, name, attempt, admission } => {
                counts.notes += 1;
                self.put(Key::Operation(*key, NoteKey::Admission(*attempt)), &(name, admission))
            }
            Note::Fact { key, attempt, fact } => {
                counts.notes += 1;
                let body = format::body(fact)?;
                self.put_raw(Key::Operation(*key, NoteKey::Fact(*attempt, format::digest(&body))), &body);
                Ok(())
            }
            Note::Doubt { key, attempt, doubt } => {
                counts.notes += 1;
                self.put(Key::Operation(*key, NoteKey::Doubt(*attempt)), doubt)
            }
            Note::Verdict { key, verdict } => {
                counts.notes += 1;
                let body = format::body(verdict)?;
                self.put_raw(Key::Operation(*key, NoteKey::Verdict(format::digest(&body))), &body);
                Ok(())
            }
            Note::Held { key, park, slot, record } => {
                counts.notes += 1;
                self.put(Key::Operation(*key, NoteKey::Held(topics.raw_park(park), topics.raw_slot(slot))), record)
            }
            Note::Park { id, park, payload } => {
                counts.parks += 1;
                self.park(topics.raw_park(id), park, payload, counts)
            }
            Note::End { park, end } => {
                counts.ends += 1;
                self.put(Key::End(topics.raw_park(park)), end)
            }
            Note::Closed { slot, closing, record } => self.put(Key::Closed(topics.raw_slot(slot)), &(closing, record)),
            Note::Marks(partition, marks) => {
                let topic = topics.number(&partition.topic);
                self.put(Key::Marks { topic, partition: partition.number }, &StoredMarks::from(*marks))
            }
            Note::Total(total, value) => {
                let name = format::digest(&format::body(total)?);
                self.put(Key::Total(name), &(total, value))
            }
            Note::Incident(number, incident) => {
                counts.incidents += 1;
                self.put(Key::Incident(*number), incident)
            }
        }
    }

    fn park(&mut self, id: RawPark, park: &Park, payload: &Payload, counts: &mut Counts) -> Result<(), postcard::Error> {
        let record = format::body(payload)?;
        let chunks = record.chunks(CHUNK_BYTES);
        let stored =
            StoredPark { park: park.clone(), chunks: u32::try_from(chunks.len()).unwrap_or(u32::MAX), digest: format::digest(&record) };
        for (index, chunk) in (0..).zip(chunks) {
            counts.chunks += 1;
            self.put_raw(Key::Chunk(id, index), chunk);
        }
        if let Some(key) = park.key {
            counts.notes += 1;
            self.put(Key::Operation(key, NoteKey::Parked(id)), &())?;
        }
        self.put(Key::Park(id), &stored)
    }

    /// Adds the names that got a number while the notes were translated, and the counts.
    pub(super) fn finish(&mut self, topics: &mut Topics, counts: &Counts) -> Result<(), postcard::Error> {
        for (number, name) in topics.take_new() {
            self.put(Key::Topic(number), &*name)?;
        }
        self.put(Key::Meta(Meta::Counts), counts)
    }
}

/// Where the rest of a park note is.
pub(super) trait Parks {
    /// The note and its end.
    fn park(&self, id: RawPark) -> Result<(StoredPark, Option<End>), crate::store::Error>;
}

/// Why an operation cannot be put together.
pub(super) enum Broken {
    Entry(Damage),
    Store(crate::store::Error),
}

impl From<Damage> for Broken {
    fn from(damage: Damage) -> Self {
        Self::Entry(damage)
    }
}

/// Adds one entry to an operation.
pub(super) fn add(known: &mut Known, note: NoteKey, body: &[u8], topics: &Topics, parks: &dyn Parks) -> Result<(), Broken> {
    match note {
        NoteKey::Admission(attempt) => {
            let (name, admission): (Option<Arc<OperationKey>>, Admission) = format::read(body)?;
            known.key = known.key.take().or(name);
            known.receipt.admit(attempt, admission);
        }
        NoteKey::Fact(attempt, _) => known.receipt.learn(attempt, format::read::<Fact>(body)?),
        NoteKey::Doubt(attempt) => known.receipt.doubt(attempt, format::read::<Doubt>(body)?),
        NoteKey::Verdict(_) => known.receipt.rule(format::read::<Verdict>(body)?),
        NoteKey::Parked(raw) => {
            let id = topics.park(raw).ok_or(Damage::Key)?;
            let (stored, end) = parks.park(raw).map_err(Broken::Store)?;
            if let Some(end) = end {
                known.ends.insert(id.clone(), end);
            }
            known.parks.insert(id, Arc::new(stored.park));
        }
        NoteKey::Held(park, slot) => {
            let (park, slot) = (topics.park(park).ok_or(Damage::Key)?, topics.slot(slot).ok_or(Damage::Key)?);
            known.held.entry(park).or_default().insert(slot, format::read::<RecordDigest>(body)?);
        }
    }
    Ok(())
}

/// Body of [`Key::Closed`].
pub(super) type StoredClosing = (Closing, RecordDigest);
/// Body of [`Key::Total`].
pub(super) type StoredTotal = (Total, u64);
