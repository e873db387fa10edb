//! Owns the writer's pure logic: what a group of batches adds to a store, and the answer to each entry. Both stores use it, so that
//! they judge, count and list alike. It writes nothing.

use super::{Answer, Batch, Error, Marks, Partition, digest_map::DigestMap, index::Index};
use crate::protocol::{
    change::{Incident, Total, Totals, changes},
    key::{KeyDigest, OperationKey},
    known::{Entry, Judgement, Known},
    machine::Bound,
    note::{Admission, AttemptId, Doubt, Fact, Ruling, Slot, Verdict},
    park::{Closing, End, EndKind, Openness, Park, ParkId, Payload, RecordDigest, SlotNotes},
    time::UnixMillis,
};
use std::{collections::BTreeMap, sync::Arc};

/// Bytes of text in a fact, doubt, verdict or park note, at most: sixteen of them fit into a page.
const NOTE_BYTES_MAX: u64 = 6 * 1024;
/// Bytes of text in an admission, at most: the longest key has 8.9 kB.
const ADMISSION_BYTES_MAX: u64 = 10 * 1024;
/// Bytes of a parked record, at most; the runner's own bound is below.
const PAYLOAD_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Bytes of a topic's name, at most (Kafka allows 249).
const TOPIC_BYTES_MAX: u64 = 255;

/// What a group is judged on: the state that the groups before it left.
pub(crate) trait Base {
    /// An operation as it is now.
    fn known(&self, key: KeyDigest) -> Result<Arc<Known>, Error>;
    /// The listings, marks and totals as they are now.
    fn index(&self) -> &Index;
}

/// One thing to write down.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Note {
    Admission { key: KeyDigest, name: Option<Arc<OperationKey>>, attempt: AttemptId, admission: Box<Admission> },
    Fact { key: KeyDigest, attempt: AttemptId, fact: Fact },
    Doubt { key: KeyDigest, attempt: AttemptId, doubt: Doubt },
    Verdict { key: KeyDigest, verdict: Box<Verdict> },
    Park { id: ParkId, park: Arc<Park>, payload: Arc<Payload> },
    Held { key: KeyDigest, park: ParkId, slot: Slot, record: RecordDigest },
    End { key: Option<KeyDigest>, park: ParkId, end: End },
    Closed { slot: Slot, closing: Closing, record: RecordDigest },
    Marks(Partition, Marks),
    Total(Total, u64),
    Incident(u64, Incident),
}

/// What a group adds: the notes to write, and what to show once they are durable.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) notes: Vec<Note>,
    /// Operations before and after.
    pub(crate) touched: Vec<(KeyDigest, Arc<Known>, Arc<Known>)>,
    pub(crate) slots: BTreeMap<Slot, SlotNotes>,
    pub(crate) marks: BTreeMap<Partition, Marks>,
    /// Changed counters with their new values.
    pub(crate) totals: Totals,
    pub(crate) incidents: Vec<(u64, Incident)>,
    pub(crate) opened: Vec<(ParkId, Arc<Park>)>,
    pub(crate) ended: Vec<ParkId>,
}

/// A group while it is judged.
pub(crate) struct Draft<'a> {
    base: &'a dyn Base,
    now: UnixMillis,
    overlay: DigestMap<(Arc<Known>, Arc<Known>)>,
    /// Park notes without an operation, as if their slot were one.
    orphans: BTreeMap<Slot, Arc<Known>>,
    group: Group,
}

/// What an entry is judged on.
#[derive(Debug, Clone)]
enum Subject {
    Operation(KeyDigest),
    Orphan(Slot),
}

impl<'a> Draft<'a> {
    pub(crate) fn new(base: &'a dyn Base, now: UnixMillis) -> Self {
        Self { base, now, overlay: DigestMap::default(), orphans: BTreeMap::new(), group: Group::default() }
    }

    /// Judges a batch on what the batches before it left. An error leaves the draft as it was.
    pub(crate) fn batch(&mut self, batch: Batch) -> Result<Vec<Answer>, Error> {
        for entry in &batch.0 {
            check_size(entry)?;
            if let Some(key) = entry.key()
                && !self.overlay.contains_key(&key)
            {
                let known = self.base.known(key)?;
                self.overlay.insert(key, (known.clone(), known));
            }
        }
        Ok(batch.0.into_iter().map(|entry| self.judge(entry)).collect())
    }

    /// The group as judged.
    pub(crate) fn finish(mut self) -> Group {
        let changed = self.overlay.into_iter().filter(|(_, (before, after))| !Arc::ptr_eq(before, after));
        self.group.touched = changed.map(|(key, (before, after))| (key, before, after)).collect();
        let group = &mut self.group;
        group.notes.extend(group.marks.iter().map(|(partition, marks)| Note::Marks(partition.clone(), *marks)));
        group.notes.extend(group.totals.iter().map(|(total, value)| Note::Total(total.clone(), *value)));
        group.notes.extend(group.incidents.iter().map(|(number, incident)| Note::Incident(*number, incident.clone())));
        self.group
    }

    fn judge(&mut self, entry: Entry) -> Answer {
        let subject = match &entry {
            Entry::Watermark { slot } => {
                let mut marks = self.marks(slot);
                if marks.watermark.is_none_or(|watermark| watermark < slot.offset) {
                    marks.watermark = Some(slot.offset);
                    self.group.marks.insert(Partition::of(slot), marks);
                }
                return Answer::Done(None);
            }
            Entry::Committed { slot } => {
                let before = self.marks(slot);
                let marks = Marks { committed: Some(slot.offset), adopted: None, ..before };
                if marks != before {
                    self.group.marks.insert(Partition::of(slot), marks);
                }
                return Answer::Done(None);
            }
            Entry::Close { slot, closing, record } => {
                self.close(slot, *closing, *record);
                return Answer::Done(None);
            }
            Entry::End { key: Some(key), .. } => Subject::Operation(*key),
            Entry::End { key: None, park, .. } => Subject::Orphan(park.slot.clone()),
            Entry::Park { id, park, .. } => park.key.map_or_else(|| Subject::Orphan(id.slot.clone()), Subject::Operation),
            Entry::Admit { key, .. }
            | Entry::Fact { key, .. }
            | Entry::Doubt { key, .. }
            | Entry::Rule { key, .. }
            | Entry::Hold { key, .. } => Subject::Operation(*key),
        };
        self.operate(&subject, entry)
    }

    fn operate(&mut self, subject: &Subject, entry: Entry) -> Answer {
        let before = self.known(subject);
        let done = |known| Answer::Done(if matches!(subject, Subject::Operation(_)) { Some(known) } else { None });
        if let Entry::Park { id, park, .. } = &entry {
            let slot = self.slot(&id.slot);
            if slot.parked.as_ref().is_some_and(|(own, kept, _)| own == id && kept == park) {
                return done(before);
            }
            // The slot may have been parked for another operation, or for none: a number is used once.
            if id.number <= slot.times {
                return Answer::Lost(before);
            }
        }
        // The end of a note that is not there says nothing.
        if let Entry::End { park, .. } = &entry
            && !before.parks.contains_key(park)
        {
            return done(before);
        }
        let mut after = Known::clone(&before);
        match after.judge(&entry, self.now) {
            Judgement::Lost => Answer::Lost(before),
            Judgement::Repeated => done(before),
            Judgement::Added => {
                let after = Arc::new(after);
                self.added(subject, entry, &before, &after);
                done(after)
            }
        }
    }

    fn added(&mut self, subject: &Subject, entry: Entry, before: &Arc<Known>, after: &Arc<Known>) {
        let key = if let Subject::Operation(key) = subject { *key } else { KeyDigest([0; 32]) };
        let changes = changes(key, before, after, &entry, self.now);
        self.write(entry, before);
        for (id, park) in after.parks.iter().filter(|(id, _)| !before.parks.contains_key(*id)) {
            let slot = self.slot(&id.slot);
            let notes = SlotNotes { times: id.number, parked: Some((id.clone(), park.clone(), Openness::Open)), ..slot };
            self.group.slots.insert(id.slot.clone(), notes);
            self.group.opened.push((id.clone(), park.clone()));
        }
        if after.ends.len() > before.ends.len() {
            for (id, end) in after.ends.iter().filter(|(id, _)| !before.ends.contains_key(*id)) {
                self.end(id, end, after);
            }
        }
        for (total, more) in changes.totals {
            let value = self.base.index().totals().get(&total).copied().unwrap_or(0);
            *self.group.totals.entry(total).or_insert(value) += more;
        }
        for incident in changes.incidents {
            let number = self.base.index().incidents() + self.group.incidents.len() as u64;
            self.group.incidents.push((number, incident));
        }
        match subject {
            Subject::Operation(key) => {
                self.overlay.entry(*key).or_insert_with(|| (before.clone(), before.clone())).1.clone_from(after);
            }
            Subject::Orphan(slot) => drop(self.orphans.insert(slot.clone(), after.clone())),
        }
    }

    fn write(&mut self, entry: Entry, before: &Known) {
        let note = match entry {
            Entry::Admit { key, name, attempt, admission, .. } => {
                let name = name.filter(|_| before.key.is_none());
                Note::Admission { key, name, attempt, admission }
            }
            Entry::Fact { key, attempt, fact } => Note::Fact { key, attempt, fact },
            Entry::Doubt { key, attempt, doubt } => Note::Doubt { key, attempt, doubt },
            Entry::Rule { key, verdict, .. } => Note::Verdict { key, verdict },
            Entry::Park { id, park, payload, .. } => Note::Park { id, park, payload },
            Entry::Hold { key, park, slot, record, .. } => Note::Held { key, park, slot, record },
            // Its end is among the new ends, and the others have no operation.
            Entry::End { .. } | Entry::Close { .. } | Entry::Watermark { .. } | Entry::Committed { .. } => return,
        };
        self.group.notes.push(note);
    }

    /// A park note ends; a dead letter or discard closes its slot and those of the repeats that it held.
    fn end(&mut self, id: &ParkId, end: &End, after: &Known) {
        let key = after.parks.get(id).and_then(|park| park.key);
        self.group.notes.push(Note::End { key, park: id.clone(), end: end.clone() });
        self.group.ended.push(id.clone());
        let mut notes = self.slot(&id.slot);
        if let Some((newest, _, openness)) = &mut notes.parked
            && newest == id
        {
            *openness = Openness::Ended;
            self.group.slots.insert(id.slot.clone(), notes);
        }
        let closing = match end.kind {
            EndKind::Settled => return,
            EndKind::DeadLettered => Closing::DeadLettered,
            EndKind::Discarded => Closing::Discarded,
        };
        if let Some(park) = after.parks.get(id) {
            self.close(&id.slot, closing, park.record);
        }
        for (slot, record) in after.held.get(id).into_iter().flatten() {
            self.close(slot, closing, *record);
        }
    }

    fn close(&mut self, slot: &Slot, closing: Closing, record: RecordDigest) {
        let mut notes = self.slot(slot);
        if notes.closed != Some((closing, record)) {
            notes.closed = Some((closing, record));
            self.group.slots.insert(slot.clone(), notes);
            self.group.notes.push(Note::Closed { slot: slot.clone(), closing, record });
        }
    }

    fn known(&self, subject: &Subject) -> Arc<Known> {
        match subject {
            Subject::Operation(key) => self.overlay.get(key).map(|(_, now)| now.clone()).unwrap_or_default(),
            Subject::Orphan(slot) => self.orphans.get(slot).cloned().unwrap_or_else(|| {
                let open = self.base.index().open_in(slot).filter(|(_, park)| park.key.is_none());
                Arc::new(Known { parks: open.map(|(id, park)| (id.clone(), park.clone())).collect(), ..Known::default() })
            }),
        }
    }

    fn slot(&self, slot: &Slot) -> SlotNotes {
        self.group.slots.get(slot).cloned().unwrap_or_else(|| self.base.index().slot(slot))
    }

    fn marks(&self, slot: &Slot) -> Marks {
        let partition = Partition::of(slot);
        let base = || self.base.index().marks().get(&partition).copied().unwrap_or_default();
        self.group.marks.get(&partition).copied().unwrap_or_else(base)
    }
}

/// Whether a store at its bound takes a batch: not one of new work alone. At the bound of parked bytes an attempt for a record that is
/// parked is none, for it makes room.
pub(crate) fn is_taken(batch: &Batch, full: &Error, index: &Index) -> bool {
    let makes_room = |entry: &Entry| match entry {
        Entry::Admit { key, admission, .. } if full.bound() == Some(Bound::ParkedBytes) => {
            index.open_in(&admission.slot).any(|(_, park)| park.key == Some(*key))
        }
        _ => false,
    };
    let is_new = |entry: &Entry| matches!(entry, Entry::Admit { .. } | Entry::Park { .. }) && !makes_room(entry);
    let permissions = batch.0.iter().all(|entry| matches!(entry, Entry::Admit { .. } | Entry::Park { .. }));
    !permissions || !batch.0.iter().any(is_new)
}

fn check_size(entry: &Entry) -> Result<(), Error> {
    let texts = |texts: &[&str]| texts.iter().map(|text| text.len()).sum::<usize>();
    let applied = |applied: &crate::protocol::note::Applied| {
        let answer = match &applied.answer {
            crate::protocol::note::Answer::Json(text) | crate::protocol::note::Answer::Absent(text) => text.as_str(),
        };
        texts(&[answer, applied.reference.as_ref().map_or("", |reference| reference.as_str())])
    };
    let fits = |what, bytes: usize, limit| {
        let bytes = bytes as u64;
        if bytes > limit { Err(Error::TooLarge { what, bytes, limit }) } else { Ok(()) }
    };
    match entry {
        Entry::Admit { name, admission, .. } => {
            let name = name.as_ref().map_or(0, |name| name.canonical_len());
            fits("topic", admission.slot.topic.len(), TOPIC_BYTES_MAX)?;
            fits("admission", name + admission.correlation.as_ref().map_or(0, String::len), ADMISSION_BYTES_MAX)
        }
        Entry::Fact { fact, .. } => match fact {
            Fact::Applied(effect) => fits("answer", applied(effect), NOTE_BYTES_MAX),
            Fact::Rejected(reason) | Fact::NoEffect(reason) => fits("reason", reason.len(), NOTE_BYTES_MAX),
            Fact::NotStarted => Ok(()),
        },
        Entry::Doubt { doubt, .. } => fits("detail", doubt.detail.len(), NOTE_BYTES_MAX),
        Entry::Rule { verdict, .. } => {
            let effect = if let Ruling::Applied(effect) = &verdict.ruling { applied(effect) } else { 0 };
            fits("verdict", texts(&[&verdict.reason]) + effect + verdict.attempts.len() * 16, NOTE_BYTES_MAX)
        }
        Entry::Park { id, park, payload, .. } => {
            fits("topic", id.slot.topic.len(), TOPIC_BYTES_MAX)?;
            fits("detail", park.detail.len(), NOTE_BYTES_MAX)?;
            fits("parked record", usize::try_from(payload.bytes()).unwrap_or(usize::MAX), PAYLOAD_BYTES_MAX)
        }
        Entry::End { end, .. } => fits("reason", end.reason.len(), NOTE_BYTES_MAX),
        Entry::Hold { slot, .. } | Entry::Close { slot, .. } | Entry::Watermark { slot } | Entry::Committed { slot } => {
            fits("topic", slot.topic.len(), TOPIC_BYTES_MAX)
        }
    }
}
