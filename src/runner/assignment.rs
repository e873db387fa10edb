//! Owns which partitions this process has: the decision where each starts, its epoch, and whether it is read, halted or let go.

use super::{
    Error,
    context::Context,
    partitions::Then,
    settings::{BROKER_WAIT, FirstStart, Settings},
};
use crate::{
    protocol::{
        known::Entry,
        machine::Assignment,
        start::{self, Acquaintance, Lineage, Metadata, Refusal, Situation, Start, Writer},
    },
    store::{Batch, Partition, ReceiptStore},
};
use rdkafka::{
    ClientContext, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

/// How long a request may take that only makes reading begin sooner: as long as it would take without.
const WAKE_WAIT: Duration = Duration::from_secs(1);

/// How far a partition is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Assigned and paused: not every partition has come yet.
    Waiting,
    /// Read.
    Open,
    /// Not read: its log lost records.
    Halted,
    /// Not read: a person paused it.
    Paused,
    /// Given back.
    Closed,
}

#[derive(Debug, Clone)]
pub(super) struct Owned {
    pub(super) assignment: Assignment,
    pub(super) origin: Origin,
    pub(super) stage: Stage,
    pub(super) start: Start,
    /// What the group had committed.
    pub(super) committed: Option<i64>,
    /// A watermark whose commit is not confirmed.
    pub(super) commit: Option<i64>,
}

/// Where a partition's start comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// An assignment by the group.
    Assigned,
    /// It was held; the client still has the position that it was read to before.
    Held,
}

/// The partitions by name. An index is kept for ever, an epoch counts the assignments.
#[derive(Debug, Default)]
pub(super) struct Ownerships {
    partitions: BTreeMap<Partition, Owned>,
    /// What a person paused, through rebalances.
    paused: BTreeSet<Partition>,
}

impl Ownerships {
    pub(super) fn get(&self, partition: &Partition) -> Option<&Owned> {
        self.partitions.get(partition)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&Partition, &mut Owned)> {
        self.partitions.iter_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Partition, &Owned)> {
        self.partitions.iter()
    }

    pub(super) fn by_assignment(&mut self, assignment: Assignment) -> Option<(&Partition, &mut Owned)> {
        self.partitions.iter_mut().find(|(_, owned)| owned.assignment == assignment && owned.stage != Stage::Closed)
    }

    /// Takes a partition in under a new epoch. One that is paused stays so.
    pub(super) fn take(&mut self, partition: Partition, committed: Option<i64>, start: Start, stage: Stage) -> Stage {
        let stage = if stage == Stage::Waiting && self.paused.contains(&partition) { Stage::Paused } else { stage };
        let (index, before) = (self.partitions.len(), self.partitions.get(&partition).map(|owned| owned.assignment));
        let assignment = before.map_or(Assignment { partition: index, epoch: 1 }, Assignment::next);
        self.partitions.insert(partition, Owned { assignment, origin: Origin::Assigned, stage, start, committed, commit: None });
        stage
    }

    /// Holds a partition that was drained: paused, or to be read again at once from there. Names it, while it is this process's.
    pub(super) fn hold(&mut self, assignment: Assignment, from: i64, then: Then) -> Option<Partition> {
        let (partition, owned) = self.partitions.iter_mut().find(|(_, owned)| owned.assignment == assignment)?;
        let (partition, given_back) = (partition.clone(), owned.stage == Stage::Closed);
        owned.start.known_complete = owned.start.known_complete.max(from);
        owned.start.offset = from;
        if then == Then::Pause {
            self.paused.insert(partition.clone());
        }
        if given_back {
            return None;
        }
        owned.stage = Stage::Paused;
        Some(partition)
    }

    /// Has a held partition wait to be opened, under a new epoch.
    pub(super) fn release(&mut self, partition: &Partition) {
        self.paused.remove(partition);
        let Some(owned) = self.partitions.get_mut(partition).filter(|owned| owned.stage == Stage::Paused) else { return };
        owned.assignment = owned.assignment.next();
        (owned.origin, owned.stage, owned.committed) = (Origin::Held, Stage::Waiting, None);
    }

    /// How many are assigned, whether read or not.
    pub(super) fn held(&self) -> usize {
        self.partitions.values().filter(|owned| owned.stage != Stage::Closed).count()
    }
}

/// Asks broker and store about newly assigned partitions, and decides where each starts.
///
/// # Errors
/// When the broker does not answer within its bound.
pub(super) fn situations(
    consumer: &BaseConsumer<Context>, partitions: &[Partition], settings: &Settings, store: &dyn ReceiptStore,
) -> Result<Vec<Situation>, Error> {
    let marks = store.marks();
    let lineage = if store.imported().is_some() { Lineage::Imported } else { Lineage::Own };
    let committed = committed(consumer, partitions, store)?;
    let mut situations = Vec::with_capacity(partitions.len());
    for (partition, committed) in partitions.iter().zip(committed) {
        let number = partition.number;
        let fetched = consumer.fetch_watermarks(&partition.topic, number, BROKER_WAIT);
        let (low, high) = fetched.map_err(|source| Error::broker("ask for a partition's first and last offset", &source))?;
        let own = marks.get(partition).copied().unwrap_or_default();
        let known = marks.keys().any(|other| other.topic == partition.topic);
        let fresh = committed.is_none() && own.watermark.is_none();
        situations.push(Situation {
            committed,
            low,
            high,
            watermark: own.watermark,
            confirmed: own.committed,
            adopted: own.adopted,
            topic_known: if known { Acquaintance::Known } else { Acquaintance::New },
            first_start: if fresh { first_start(consumer, partition, settings)? } else { start::FirstStart::Unset },
            lineage,
        });
    }
    Ok(situations)
}

/// Notes where partitions start that the store knows nothing of, durably and before their first record: the next start must not
/// decide again, about a log that has grown meanwhile.
///
/// # Errors
/// When the store fails.
pub(super) fn note_first_starts(owned: &Ownerships, store: &dyn ReceiptStore) -> Result<(), Error> {
    let marks = store.marks();
    let first = owned
        .iter()
        .filter(|(partition, owned)| owned.stage == Stage::Waiting && marks.get(*partition).is_none_or(|marks| marks.watermark.is_none()));
    let entries: Vec<Entry> = first.map(|(partition, owned)| Entry::Watermark { slot: partition.slot(owned.start.offset) }).collect();
    if !entries.is_empty() {
        store.append(Batch(entries))?;
    }
    Ok(())
}

fn committed(
    consumer: &BaseConsumer<Context>, partitions: &[Partition], store: &dyn ReceiptStore,
) -> Result<Vec<Option<(i64, Writer)>>, Error> {
    let list = list(partitions.iter().map(|partition| (partition, Offset::Invalid)))?;
    let answered = consumer.committed_offsets(list, BROKER_WAIT).map_err(|source| Error::broker("ask for committed offsets", &source))?;
    partitions
        .iter()
        .map(|partition| {
            let Some(found) = answered.find_partition(&partition.topic, partition.number) else { return Ok(None) };
            found.error().map_err(|source| Error::broker("ask for committed offsets", &source))?;
            let Offset::Offset(offset) = found.offset() else { return Ok(None) };
            // The binding panics on metadata that is not UTF-8; such text is nobody's of ours.
            let text = catch_unwind(AssertUnwindSafe(|| found.metadata().to_string())).unwrap_or_default();
            Ok(Some((offset, writer(&Metadata::parse(&text), store)?)))
        })
        .collect()
}

fn writer(metadata: &Metadata, store: &dyn ReceiptStore) -> Result<Writer, Error> {
    match metadata {
        Metadata::Other => Ok(Writer::Nobody),
        Metadata::Ours { store_id, .. } if *store_id != store.identity().store_id => Ok(Writer::OtherStore),
        Metadata::Ours { nonce, .. } => Ok(if store.wrote_nonce(nonce)? { Writer::ThisStore } else { Writer::Copy }),
    }
}

fn first_start(consumer: &BaseConsumer<Context>, partition: &Partition, settings: &Settings) -> Result<start::FirstStart, Error> {
    Ok(match settings.first_start {
        FirstStart::Unset => start::FirstStart::Unset,
        FirstStart::Earliest => start::FirstStart::Earliest,
        FirstStart::Latest => start::FirstStart::Latest,
        FirstStart::At(time) => {
            let list = list([(partition, Offset::Offset(time.0))])?;
            let found = consumer.offsets_for_times(list, BROKER_WAIT).map_err(|source| Error::broker("find an offset by time", &source))?;
            let offset = found.find_partition(&partition.topic, partition.number).map(|found| found.offset());
            start::FirstStart::At(time, if let Some(Offset::Offset(offset)) = offset { Some(offset) } else { None })
        }
    })
}

/// Has paused partitions read, each from its start.
///
/// The client can lose an order to start or to resume that meets another one on its way (librdkafka #2190, #5591), and says nothing;
/// the partition then is never read. A seek says whether its partition is being read, and from where.
///
/// # Errors
/// When a partition is not being read.
pub(super) fn resume(consumer: &BaseConsumer<Context>, starts: &[(Partition, i64)]) -> Result<(), Error> {
    let at = |offset: fn(i64) -> Offset| list(starts.iter().map(|(partition, start)| (partition, offset(*start))));
    consumer.resume(&at(|_| Offset::Invalid)?).map_err(|source| Error::broker("resume partitions", &source))?;
    let sought = consumer.seek_partitions(at(Offset::Offset)?, BROKER_WAIT);
    for element in sought.map_err(|source| Error::broker("begin to read partitions", &source))?.elements() {
        element.error().map_err(|source| Error::broker("begin to read a partition", &source))?;
    }
    // The client's thread for a broker sleeps up to a second after it found its partitions paused, and no resume wakes it; a request
    // to that broker does.
    if let Err(error) = consumer.offsets_for_times(at(|_| Offset::End)?, WAKE_WAIT) {
        consumer.context().error(error, "asked for last offsets");
    }
    Ok(())
}

/// A list for the client, to be dropped in the scope that made it: a client whose list outlives a close never closes.
pub(super) fn list<'a>(partitions: impl IntoIterator<Item = (&'a Partition, Offset)>) -> Result<TopicPartitionList, Error> {
    let mut list = TopicPartitionList::new();
    for (partition, offset) in partitions {
        let added = list.add_partition_offset(&partition.topic, partition.number, offset);
        added.map_err(|source| Error::broker("name an offset", &source))?;
    }
    Ok(list)
}

/// What an assignment leads to.
pub(super) fn decide(situation: &Situation) -> (Start, Stage, Option<Refusal>) {
    match situation.decide() {
        Ok(start) => (start, Stage::Waiting, None),
        Err(refusal) => {
            let start = Start { offset: situation.high, known_complete: situation.high, regression: None };
            (start, Stage::Halted, Some(refusal))
        }
    }
}
