//! Owns reading a whole store: what an open rebuilds its memory from, and what `verify` checks. It writes nothing.

use super::{
    super::{Error, Imported, Marks, Partition},
    blocks,
    disk::Reader,
    entries::{Adoption, Claim, Counts, Import, StoreMeta, StoredClosing, StoredMarks, StoredPark, StoredTotal},
    format::{self, Damage, FORMAT, Key, Meta, RawPark},
    gather::{Gather, Pass},
    names::Opener,
    places::Places,
    step::ENTRIES_A_STEP,
};
use crate::{
    protocol::{
        change::Incident,
        key::{KeyDigest, hex},
        known::Known,
        park::{End, Openness, Park, ParkId, SlotNotes},
        secret::SecretFingerprint,
    },
    store::index::Index,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

/// What a store holds apart from its operations.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) meta: Option<StoreMeta>,
    pub(super) binding: Option<(String, String)>,
    pub(super) secret: Option<SecretFingerprint>,
    pub(super) claims: BTreeMap<u64, Claim>,
    pub(super) stops: BTreeSet<u64>,
    pub(super) adoptions: Vec<(Partition, Adoption)>,
    pub(super) imports: Vec<Import>,
    /// Partitions with an adoption since the last import.
    pub(super) accepted: BTreeSet<Partition>,
    pub(super) index: Index,
    /// As written with the last group.
    pub(super) stored: Counts,
    /// As found.
    pub(super) found: Counts,
    /// The first block that is not there, of those below the last.
    pub(super) gap: Option<u64>,
    /// Incidents of each operation.
    pub(super) incidents: BTreeMap<KeyDigest, u64>,
    /// Where operations' notes are, a shard each.
    pub(super) places: Vec<Places>,
}

/// What a scan reports while it runs.
pub(super) trait Visitor {
    /// An operation. Once more and complete, when notes came after it was settled.
    fn operation(&mut self, key: KeyDigest, known: Known);
    /// Damage. The scan goes on when this is no error.
    fn damage(&mut self, error: Error) -> Result<(), Error>;
    /// How many entries were read, of about how many. Now and then.
    fn read(&mut self, _done: u64, _of: u64) {}
}

/// Wants no operation and takes no damage.
pub(super) struct Strict;

impl Visitor for Strict {
    fn operation(&mut self, _key: KeyDigest, _known: Known) {}

    fn damage(&mut self, error: Error) -> Result<(), Error> {
        Err(error)
    }
}

struct Scan<'a, V> {
    reader: &'a Reader,
    visitor: &'a mut V,
    contents: Contents,
    gather: Gather<'a>,
    park: Option<(ParkId, Arc<Park>, Openness)>,
    read: u64,
}

/// Reads everything but payload chunks.
pub(super) fn scan<V: Visitor>(reader: &Reader, opener: Opener<'_>, visitor: &mut V) -> Result<Contents, Error> {
    // Before anything that another format may have.
    if let Some(found) = reader.format()?.filter(|found| !format::is_read(*found)) {
        return Err(Error::Format { directory: reader.root().into(), found, expected: FORMAT });
    }
    reader.recognize(opener)?;
    let mut scan = Scan { reader, visitor, contents: Contents::default(), gather: Gather::new(reader), park: None, read: 0 };
    for range in Key::without_chunks() {
        reader.with(|db| {
            for entry in db.range(range) {
                let (key, value) = entry.map_err(|error| super::disk::translate(reader.root(), "read", error))?;
                scan.count();
                let read = reader.check(&key, &value).and_then(|(parsed, body)| scan.entry(&key, parsed, body));
                if let Err(error) = read {
                    scan.visitor.damage(error)?;
                }
            }
            Ok(())
        })?;
        scan.end_operations()?;
        scan.end_park();
    }
    scan.contents.places = scan.gather.places;
    Ok(scan.contents)
}

impl<V: Visitor> Scan<'_, V> {
    fn entry(&mut self, bytes: &[u8], key: Key, body: &[u8]) -> Result<(), Error> {
        let read = self.whole_store(key, body).map_err(|damage| self.reader.damaged(bytes, damage))?;
        if read {
            return Ok(());
        }
        match key {
            Key::Block(number) => self.block(bytes, number, body),
            _ => self.slot(key, body).map_err(|damage| self.reader.damaged(bytes, damage)),
        }
    }

    fn count(&mut self) {
        self.read += 1;
        if self.read.is_multiple_of(ENTRIES_A_STEP) {
            let Counts { blocks, parks, ends, incidents, .. } = self.contents.stored;
            self.visitor.read(self.read, blocks + parks + ends + incidents);
        }
    }

    fn block(&mut self, bytes: &[u8], number: u64, body: &[u8]) -> Result<(), Error> {
        let found = &mut self.contents.found;
        if number != found.blocks && self.contents.gap.is_none() {
            self.contents.gap = Some(found.blocks);
        }
        found.blocks += 1;
        for note in blocks::notes(body) {
            let (key, note, body) = note.map_err(|damage| self.reader.damaged(bytes, damage))?;
            found.notes += 1;
            if let Some((key, known)) = self.gather.note(number, bytes, key, note, body)? {
                self.contents.index.found(key, &known);
                self.visitor.operation(key, known);
            }
        }
        Ok(())
    }

    /// Entries about the store, its partitions and its counters; false for the others.
    fn whole_store(&mut self, key: Key, body: &[u8]) -> Result<bool, Damage> {
        let contents = &mut self.contents;
        match key {
            Key::Meta(Meta::Store) => contents.meta = Some(format::read(body)?),
            Key::Meta(Meta::Binding) => contents.binding = Some(format::read(body)?),
            Key::Meta(Meta::Counts) => contents.stored = format::read(body)?,
            Key::Meta(Meta::Secret) => contents.secret = Some(format::read(body)?),
            Key::Meta(Meta::Imports) => contents.imports = format::read(body)?,
            Key::Topic(number) => self.reader.topics_mut().insert(number, &format::read::<String>(body)?),
            Key::Claim(claim) => drop(contents.claims.insert(claim, format::read(body)?)),
            Key::Stop(claim) => drop(contents.stops.insert(claim)),
            Key::Marks { topic, partition } => {
                let partition = partition_of(self.reader, topic, partition)?;
                contents.index.mark(partition, Marks::from(format::read::<StoredMarks>(body)?));
            }
            Key::Adoption { topic, partition, number } => {
                let partition = partition_of(self.reader, topic, partition)?;
                // The entry about imports sorts before adoptions.
                if contents.imports.last().is_some_and(|import| number >= import.adoptions) {
                    contents.accepted.insert(partition.clone());
                }
                contents.adoptions.push((partition, format::read(body)?));
            }
            Key::Total(_) => {
                let (total, value) = format::read::<StoredTotal>(body)?;
                contents.index.set_total(total, value);
            }
            Key::Incident(number) => {
                let incident: Incident = format::read(body)?;
                *contents.incidents.entry(incident.key).or_default() += 1;
                contents.found.incidents += 1;
                contents.index.set_incidents(number + 1);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn slot(&mut self, key: Key, body: &[u8]) -> Result<(), Damage> {
        match key {
            Key::Park(raw) => {
                self.contents.found.parks += 1;
                self.end_park();
                let park = format::read::<StoredPark>(body)?.park;
                self.park = Some((self.park_id(raw)?, Arc::new(park), Openness::Open));
            }
            Key::End(raw) => {
                self.contents.found.ends += 1;
                let id = self.park_id(raw)?;
                format::read::<End>(body)?;
                match &mut self.park {
                    Some((current, _, openness)) if *current == id => *openness = Openness::Ended,
                    _ => return Err(Damage::Key),
                }
            }
            Key::Closed(raw) => {
                let (closing, record) = format::read::<StoredClosing>(body)?;
                let slot = self.reader.topics().slot(raw).ok_or(Damage::Key)?;
                let notes = SlotNotes { closed: Some((closing, record)), ..self.contents.index.slot(&slot) };
                self.contents.index.note_slot(&slot, &notes);
            }
            _ => {}
        }
        Ok(())
    }

    fn park_id(&self, raw: RawPark) -> Result<ParkId, Damage> {
        self.reader.topics().park(raw).ok_or(Damage::Key)
    }

    fn end_operations(&mut self) -> Result<(), Error> {
        let (index, visitor) = (&mut self.contents.index, &mut *self.visitor);
        self.gather.finish(|key, pass, known| {
            let known = match known {
                Ok(known) => known,
                Err(error) => return visitor.damage(error),
            };
            match pass {
                Pass::First => index.found(key, &known),
                // It was counted, and it was in no listing.
                Pass::Again => index.classify(key, None, &known),
            }
            visitor.operation(key, known);
            Ok(())
        })
    }

    fn end_park(&mut self) {
        let Some((id, park, openness)) = self.park.take() else { return };
        let times = id.number;
        let slot = id.slot.clone();
        if openness == Openness::Open {
            self.contents.index.open(id.clone(), park.clone());
        }
        let notes = SlotNotes { times, parked: Some((id, park, openness)), closed: None };
        self.contents.index.note_slot(&slot, &notes);
    }
}

fn partition_of(reader: &Reader, topic: u32, number: i32) -> Result<Partition, Damage> {
    let topic = reader.topics().name(topic).cloned().ok_or(Damage::Key)?;
    Ok(Partition { topic, number })
}

impl Contents {
    /// Where the store came from, and what of it is unverified.
    pub(super) fn imported(&self) -> Option<Imported> {
        let import = self.imports.last()?;
        let known = import.partitions.iter();
        let known = known.map(|(topic, number, watermark)| (Partition { topic: topic.as_str().into(), number: *number }, *watermark));
        let unverified = known.filter(|(partition, _)| !self.accepted.contains(partition)).collect();
        Some(Imported { from: hex(&import.from), exported: import.exported, unverified })
    }

    /// Whether the store can be read by this program, and whether every note that was counted is there.
    pub(super) fn check(&self, root: &Path, progress: Option<([u8; 16], u64)>) -> Result<(), Error> {
        let corrupt = |detail: String| Error::Corrupt { directory: root.into(), detail };
        let Some(meta) = &self.meta else {
            if self.found != Counts::default() || !self.claims.is_empty() {
                return Err(corrupt("the entry that names the store is missing".into()));
            }
            return match progress {
                None => Ok(()),
                Some((_, groups)) => Err(corrupt(format!("{groups} groups were durable, and none are there"))),
            };
        };
        if let Some((store_id, groups)) = progress {
            if store_id != meta.store_id {
                return Err(corrupt("its progress file is another store's".into()));
            }
            if groups > self.stored.groups {
                let there = self.stored.groups;
                return Err(corrupt(format!("{groups} groups were durable, and {there} are there: the end of the log is lost")));
            }
        }
        if let Some(gap) = self.gap {
            return Err(corrupt(format!("block {gap} is missing")));
        }
        let pairs = [
            ("blocks", self.stored.blocks, self.found.blocks),
            ("notes", self.stored.notes, self.found.notes),
            ("park notes", self.stored.parks, self.found.parks),
            ("ends of park notes", self.stored.ends, self.found.ends),
            ("incidents", self.stored.incidents, self.found.incidents),
        ];
        match pairs.iter().find(|(_, stored, found)| stored != found) {
            Some((what, stored, found)) => Err(corrupt(format!("{stored} {what} were written, and {found} are there"))),
            None => Ok(()),
        }
    }
}
