//! Owns the translation between notes and entries: what each note's value says, and how an operation is put together from its
//! entries. It reads nothing itself.

use super::{
    blocks::{self, Packer},
    format::{self, CHUNK_BYTES, Damage, Key, Meta, NoteKey, RawPark},
    names::Names,
    topics::Topics,
};
use crate::{
    protocol::{
        change::Total,
        key::{KeyDigest, OperationKey},
        known::Known,
        note::{Admission, AttemptId, Doubt, Fact, Verdict},
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
    /// Blocks; the number of the next one.
    pub(super) blocks: u64,
}

/// One import, in the body of [`Meta::Imports`], which lists them oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Import {
    /// The store that was exported.
    pub(super) from: [u8; 16],
    pub(super) exported: UnixMillis,
    pub(super) at: UnixMillis,
    /// Adoptions that came with it: those with this number and above were made since.
    pub(super) adoptions: u64,
    /// Partitions that were known, each with its watermark.
    pub(super) partitions: Vec<(String, i32, Option<i64>)>,
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

/// The notes of one group while they are translated.
pub(super) struct Translation<'a> {
    pub(super) entries: Entries,
    pub(super) blocks: Packer,
    pub(super) topics: &'a mut Topics,
    pub(super) names: &'a Names,
    pub(super) counts: &'a mut Counts,
}

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
}

impl Translation<'_> {
    /// Adds a note, and counts it.
    pub(super) fn note(&mut self, note: &Note) -> Result<(), blocks::Error> {
        let entries = &mut self.entries;
        match note {
            Note::Admission { key, name, attempt, admission } => {
                return self.admission(key, *attempt, name.as_deref(), admission);
            }
            Note::Fact { key, attempt, fact } => return self.under(key, NoteKey::Fact(*attempt), fact),
            Note::Doubt { key, attempt, doubt } => return self.under(key, NoteKey::Doubt(*attempt), doubt),
            Note::Verdict { key, verdict } => return self.under(key, NoteKey::Verdict, verdict),
            Note::Held { key, park, slot, record } => {
                let note = NoteKey::Held(self.topics.raw_park(park), self.topics.raw_slot(slot));
                return self.under(key, note, record);
            }
            Note::Park { id, park, payload } => {
                self.counts.parks += 1;
                let id = self.topics.raw_park(id);
                return self.park(id, park, payload);
            }
            Note::End { key, park, end } => {
                self.counts.ends += 1;
                let park = self.topics.raw_park(park);
                entries.put(Key::End(park), end)?;
                if let Some(key) = key {
                    return self.under(key, NoteKey::Ended(park), &());
                }
            }
            Note::Closed { slot, closing, record } => entries.put(Key::Closed(self.topics.raw_slot(slot)), &(closing, record))?,
            Note::Marks(partition, marks) => {
                let topic = self.topics.number(&partition.topic);
                entries.put(Key::Marks { topic, partition: partition.number }, &StoredMarks::from(*marks))?;
            }
            Note::Total(total, value) => entries.put(Key::Total(format::digest(&format::body(total)?)), &(total, value))?,
            Note::Incident(number, incident) => {
                self.counts.incidents += 1;
                entries.put(Key::Incident(*number), incident)?;
            }
        }
        Ok(())
    }

    fn admission(
        &mut self, key: &KeyDigest, attempt: AttemptId, name: Option<&OperationKey>, admission: &Admission,
    ) -> Result<(), blocks::Error> {
        self.counts.notes += 1;
        put_admission(&mut self.blocks, self.names, key, attempt, name, admission)
    }

    fn under<T: Serialize + ?Sized>(&mut self, key: &KeyDigest, note: NoteKey, body: &T) -> Result<(), blocks::Error> {
        self.counts.notes += 1;
        self.blocks.add(key, note, body)
    }

    fn park(&mut self, id: RawPark, park: &Park, payload: &Payload) -> Result<(), blocks::Error> {
        let record = format::body(payload)?;
        let chunks = record.chunks(CHUNK_BYTES);
        let stored =
            StoredPark { park: park.clone(), chunks: u32::try_from(chunks.len()).unwrap_or(u32::MAX), digest: format::digest(&record) };
        for (index, chunk) in (0..).zip(chunks) {
            self.counts.chunks += 1;
            self.entries.put_raw(Key::Chunk(id, index), chunk);
        }
        self.entries.put(Key::Park(id), &stored)?;
        match park.key {
            Some(key) => self.under(&key, NoteKey::Parked(id), &()),
            None => Ok(()),
        }
    }

    /// Adds the blocks, the names that got a number while the notes were translated, and the counts. Returns all entries, and in which
    /// block each note lies.
    pub(super) fn finish(mut self) -> Result<(Entries, Vec<(KeyDigest, u64)>), blocks::Error> {
        self.counts.blocks = self.blocks.finish().ok_or(blocks::Error::Blocks)?;
        for (number, name) in self.topics.take_new() {
            self.entries.put(Key::Topic(number), &*name)?;
        }
        self.entries.put(Key::Meta(Meta::Counts), &*self.counts)?;
        self.entries.0.append(&mut self.blocks.entries);
        Ok((self.entries, self.blocks.places))
    }
}

/// Where the rest of a park note is.
pub(super) trait Parks {
    /// The note.
    fn park(&self, id: RawPark) -> Result<StoredPark, crate::store::Error>;
    /// Its end.
    fn end(&self, id: RawPark) -> Result<End, crate::store::Error>;
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

/// Packs an admission, with the whole key where it has one.
pub(super) fn put_admission(
    blocks: &mut Packer, names: &Names, key: &KeyDigest, attempt: AttemptId, name: Option<&OperationKey>, admission: &Admission,
) -> Result<(), blocks::Error> {
    let note = NoteKey::Admission(attempt);
    if let Names::Clear = names {
        return blocks.add(key, note, &(name, admission));
    }
    let seal = |name| Ok::<_, blocks::Error>(names.seal(key, &format::body(name)?)?);
    blocks.add(key, note, &(name.map(seal).transpose()?, admission))
}

/// What an admission's body says: the whole key, where the note has it and it can be read, and the admission.
pub(super) fn admitted(names: &Names, key: &KeyDigest, body: &[u8]) -> Result<(Option<OperationKey>, Admission), Damage> {
    if let Names::Clear = names {
        return format::read(body);
    }
    let (sealed, admission): (Option<Vec<u8>>, Admission) = format::read(body)?;
    let name = sealed.map(|sealed| names.open(key, &sealed)).transpose()?.flatten();
    Ok((name, admission))
}

/// What is needed beside a note to read it.
pub(super) struct Beside<'a> {
    pub(super) topics: &'a Topics,
    pub(super) names: &'a Names,
    pub(super) parks: &'a dyn Parks,
}

/// Adds one note to an operation.
pub(super) fn add(known: &mut Known, key: &KeyDigest, note: NoteKey, body: &[u8], beside: &Beside<'_>) -> Result<(), Broken> {
    let Beside { topics, names, parks } = beside;
    match note {
        NoteKey::Admission(attempt) => {
            let (name, admission) = admitted(names, key, body)?;
            known.key = known.key.take().or(name.map(Arc::new));
            known.receipt.admit(attempt, admission);
        }
        NoteKey::Fact(attempt) => known.receipt.learn(attempt, format::read::<Fact>(body)?),
        NoteKey::Doubt(attempt) => known.receipt.doubt(attempt, format::read::<Doubt>(body)?),
        NoteKey::Verdict => known.receipt.rule(format::read::<Verdict>(body)?),
        NoteKey::Parked(raw) => {
            let id = topics.park(raw).ok_or(Damage::Key)?;
            known.parks.insert(id, Arc::new(parks.park(raw).map_err(Broken::Store)?.park));
        }
        NoteKey::Ended(raw) => {
            let id = topics.park(raw).ok_or(Damage::Key)?;
            known.ends.insert(id, parks.end(raw).map_err(Broken::Store)?);
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
