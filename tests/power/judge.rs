//! Owns what a store has to hold after a power cut: everything that was acknowledged, of what was on its way all or nothing, and
//! nothing else. A store in memory that took the same steps says what that looks like.

use crate::{
    log::Event,
    make::*,
    work::{BINDING, LANES, Step, is_bound, options, place, step, take},
};
use receipted::{
    protocol::{
        change::{Incident, Totals},
        key::KeyDigest,
        known::{Known, Revision},
        park::{Park, ParkId, SlotNotes},
        time::UnixMillis,
    },
    store::{
        Error, Marks, Partition, ReceiptStore, Which,
        memory::MemoryStore,
        sled::{SledStore, verify},
    },
};
use std::{collections::BTreeMap, path::Path, sync::Arc};

/// What a process has said by some moment of its record.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Said {
    /// Acknowledged steps of each lane.
    pub done: [usize; LANES],
    /// Whether a lane's next step may be on its way.
    pub running: [bool; LANES],
    /// The name of the store, and of every process start that opened it.
    pub store_id: Option<String>,
    pub nonces: Vec<String>,
}

impl Said {
    pub fn take(&mut self, event: &Event) {
        let Event::Mark(mark) = event else { return };
        let words: Vec<&str> = mark.split(' ').collect();
        let number = |at: usize| words[at].parse::<usize>().expect("a number");
        match words[0] {
            "open" => {
                self.store_id = Some(words[1].into());
                self.nonces.push(words[2].into());
            }
            "begin" => self.running[number(1)] = true,
            "ack" => {
                self.done[number(1)] = number(2) + 1;
                self.running[number(1)] = false;
            }
            _ => {}
        }
    }

    /// Whether anybody was promised anything.
    pub fn promised(&self) -> bool {
        self.store_id.is_some()
    }

    /// Every state that may be there: each step that was on its way, or not.
    fn possible(&self) -> Vec<[usize; LANES]> {
        let all = (0..1_usize << LANES).filter(|bits| (0..LANES).all(|lane| bits >> lane & 1 == 0 || self.running[lane]));
        all.map(|bits| std::array::from_fn(|lane| self.done[lane] + (bits >> lane & 1))).collect()
    }
}

/// Everything that a store shows.
#[derive(Debug, PartialEq)]
struct Shown {
    operations: Vec<(KeyDigest, Arc<Known>)>,
    counts: [usize; 5],
    slots: Vec<SlotNotes>,
    parked: Vec<(ParkId, Arc<Park>)>,
    marks: BTreeMap<Partition, Marks>,
    totals: Totals,
    incidents: Vec<(u64, Incident)>,
    sizes: (u64, u64),
}

/// How many steps a lane can take, and slots of it are looked at.
pub const STEPS: usize = 60;
/// One turn in so many reads the whole store.
pub const WHOLE_ONE_IN: usize = 12;

fn show(store: &dyn ReceiptStore) -> Result<Shown, Error> {
    let operations = store.list(Which::All, None, usize::MAX)?;
    let listings = [Which::InDoubt, Which::Parked, Which::Disputed, Which::Superseded, Which::ReopenedWaiting];
    let slots: Vec<_> = (0..LANES).flat_map(|lane| (0..STEPS).map(move |offset| place(lane, offset))).collect();
    let sizes = store.sizes();
    Ok(Shown {
        counts: listings.map(|which| store.count(which)),
        slots: store.slots(&slots),
        parked: store.parked(None, usize::MAX),
        marks: store.marks(),
        totals: store.totals(),
        incidents: store.incidents(0, usize::MAX)?,
        sizes: (sizes.operations, sizes.parked_bytes),
        operations,
    })
}

/// Whether parked records are whole: the newest of each lane, and some of the others in turn.
fn records(store: &SledStore, shown: &Shown, turn: usize) -> Result<(), String> {
    let all: BTreeMap<&ParkId, &Arc<Park>> = shown.operations.iter().flat_map(|(_, known)| &known.parks).collect();
    let newest: BTreeMap<i32, &ParkId> = all.keys().map(|note| (note.slot.partition, *note)).collect();
    for (index, (note, park)) in all.iter().enumerate() {
        if index % 6 != turn % 6 && newest[&note.slot.partition] != *note {
            continue;
        }
        let record = store.payload(note).map_err(|error| format!("{note:?} does not read: {error}"))?;
        if record.is_none_or(|record| record.digest() != park.record || record.bytes() != park.bytes) {
            return Err(format!("the record of {note:?} is not what was parked"));
        }
    }
    Ok(())
}

/// Remembers what states look like: many images follow one.
pub struct Judge {
    steps: Vec<Vec<Step>>,
    expected: BTreeMap<[usize; LANES], Shown>,
}

impl Judge {
    pub fn new(large: usize) -> Self {
        let steps = (0..LANES).map(|lane| (0..STEPS).map(|number| step(lane, number, large)).collect()).collect();
        Self { steps, expected: BTreeMap::new() }
    }

    fn expected(&mut self, state: [usize; LANES]) -> &Shown {
        if self.expected.len() > 24 {
            self.expected.clear();
        }
        let steps = &self.steps;
        self.expected.entry(state).or_insert_with(|| {
            let store = MemoryStore::with_clock(Arc::new(|| UnixMillis(9)));
            for (lane, done) in state.into_iter().enumerate() {
                for (number, step) in steps[lane][..done].iter().enumerate() {
                    match step.clone() {
                        Step::Append(batch) => {
                            let answers = store.append(batch).expect("memory takes it").answers;
                            assert!(!answers.iter().any(is_lost), "step {number} of lane {lane} does not stand");
                        }
                        other => take(&store, other).expect("memory takes it"),
                    }
                }
            }
            // As after a start.
            show(&store.restart()).expect("memory reads")
        })
    }

    /// Opens a store as a power cut left it, and says what is wrong with it. Some turns also read every byte of it, and write.
    pub fn judge(&mut self, root: &Path, said: &Said, snapshot: Snapshot, turn: usize) -> Result<Verdict, String> {
        let store = match SledStore::open(&options(root)) {
            Ok(store) => store,
            Err(error @ Error::Corrupt { .. }) if snapshot == Snapshot::NameLost => {
                assert!(error.to_string().contains("copy the directory aside before anything else"), "{error}");
                return Ok(Verdict::GapAfterLostSnapshot);
            }
            Err(error) if said.promised() => return Err(format!("it does not open: {error}")),
            Err(error @ (Error::Corrupt { .. } | Error::Io { .. })) => return Ok(Verdict::Refused(error.to_string())),
            Err(error) => return Err(format!("it does not open, and says nothing of use: {error}")),
        };
        self.compare(&store, said, turn)?;
        if turn.is_multiple_of(WHOLE_ONE_IN) {
            append(&store, vec![admit("after-the-cut", 1, Revision(0)), done("after-the-cut", 1, "x")]);
            store.close().map_err(|error| format!("it does not close: {error}"))?;
            drop(store);
            let report = verify(root).map_err(|error| format!("it cannot be verified: {error}"))?;
            if !report.is_sound() {
                return Err(format!("it is not sound: {report}"));
            }
        }
        Ok(Verdict::AllThere)
    }

    fn compare(&mut self, store: &SledStore, said: &Said, turn: usize) -> Result<(), String> {
        let wrong = |error: Error| format!("it does not read: {error}");
        if said.store_id.as_ref().is_some_and(|id| *id != store.identity().store_id) {
            return Err("it is another store".into());
        }
        for nonce in &said.nonces {
            if !store.wrote_nonce(nonce).map_err(wrong)? {
                return Err(format!("process start {nonce} is not known"));
            }
        }
        if is_bound(said.done[0]) {
            let (own, other) = (store.bind(BINDING.0, BINDING.1), store.bind("another", BINDING.1));
            if own.is_err() || !matches!(other, Err(Error::Foreign { .. })) {
                return Err(format!("it was bound: {own:?}, {other:?}"));
            }
        }
        let shown = show(store).map_err(wrong)?;
        let possible = said.possible();
        if possible.iter().any(|state| *self.expected(*state) == shown) {
            return records(store, &shown, turn);
        }
        let expected = self.expected(possible[0]);
        Err(format!("{said:?}: {}", expected.differs(&shown)))
    }
}

/// Whether an image has the snapshot of a start that was cut. sled zeroes what that snapshot does not need before anybody can sync the
/// snapshot's name. Where the zeros are on the disk and the file has not even the name that it was written and synced under, which ext4
/// and xfs do not do, the store is refused: with all that was acknowledged in what is there, and sled unable to read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Snapshot {
    AsItWas,
    NameLost,
}

/// What became of an image that is as it may be.
#[derive(Debug)]
pub enum Verdict {
    AllThere,
    /// See [`Snapshot`]: it is refused.
    GapAfterLostSnapshot,
    /// Nothing was promised, and it was not opened.
    Refused(String),
}

impl Shown {
    /// In few words.
    fn differs(&self, other: &Self) -> String {
        let operations = |shown: &Self| shown.operations.iter().map(|(key, known)| (*key, known.revision().0)).collect::<BTreeMap<_, _>>();
        let (own, others) = (operations(self), operations(other));
        let fewer: Vec<_> = own.iter().filter(|(key, notes)| others.get(*key).is_none_or(|found| found < notes)).collect();
        let more: Vec<_> = others.iter().filter(|(key, notes)| own.get(*key).is_none_or(|wanted| wanted < notes)).collect();
        format!(
            "of {} operations {} have fewer notes, {} have more; {:?} and {:?}; marks {:?} and {:?}",
            own.len(),
            fewer.len(),
            more.len(),
            (self.counts, self.sizes, self.incidents.len()),
            (other.counts, other.sizes, other.incidents.len()),
            self.marks,
            other.marks,
        )
    }
}
