//! Owns what the broker and the process say to each other: assignments, deliveries, commits.

use super::{
    broker::{Kind, Row},
    plan::Commit,
    world::{Broken, Here, TOPIC, World, partition},
};
use receipted::{
    protocol::{
        decision::is_answered,
        known::Entry,
        machine::{Arrived, Content, DeadLetterReason, Delivery, Event, Subject},
        start::{Acquaintance, FirstStart, Lineage, Situation, Writer},
    },
    store::{Batch, ReceiptStore},
};
use std::sync::Arc;

impl World {
    /// Every partition that is not here comes.
    pub fn assign(&mut self) {
        for number in 0..self.setting.partitions {
            if self.here[number].open || self.machine.is_open(self.assignment(number)) {
                continue;
            }
            let partition = partition(number);
            let marks = self.store.marks().get(&partition).copied().unwrap_or_default();
            let log = &self.broker.logs[number];
            let situation = Situation {
                committed: log.committed,
                low: 0,
                high: log.end(),
                watermark: marks.watermark,
                confirmed: marks.committed,
                adopted: marks.adopted,
                topic_known: Acquaintance::New,
                first_start: FirstStart::Earliest,
                lineage: Lineage::Own,
            };
            let start = match situation.decide() {
                Ok(start) => start,
                Err(refusal) => return self.wrong("start", format!("partition {number} is refused: {refusal}; {situation:?}")),
            };
            if marks.watermark.is_none() {
                let entry = Entry::Watermark { slot: partition.slot(start.offset) };
                self.store.submit(Batch(vec![entry]), Box::new(|_| {}));
                self.store.commit();
            }
            // A start that the broker does not know yet.
            let noted = (log.committed.map(|(offset, _)| offset) != Some(start.offset)).then_some(start.offset);
            let here = &mut self.here[number];
            *here = Here { epoch: here.epoch + 1, open: true, next: start.offset, reached: start.offset, noted };
            self.tell(|| format!("    partition {number} is read from {} (complete below {})", start.offset, start.known_complete));
            let assignment = self.assignment(number);
            let number = i32::try_from(number).expect("few");
            let (start, known_complete) = (start.offset, start.known_complete);
            self.on(Event::Assigned { assignment, topic: TOPIC.into(), number, start, known_complete });
        }
    }

    /// Records come.
    pub fn deliver(&mut self, number: usize, count: usize) -> bool {
        let here = self.here[number].clone();
        let room = self.setting.partition_records_max.saturating_sub(self.machine.in_flight(number).0);
        if !here.open || room == 0 {
            return false;
        }
        let (mut offset, end) = (here.next, self.broker.logs[number].end());
        let mut deliveries = Vec::new();
        while offset < end && deliveries.len() < count.min(room) {
            deliveries.extend(self.delivery(number, offset));
            offset += 1;
        }
        if offset == here.reached {
            return false;
        }
        let assignment = self.assignment(number);
        self.here[number].next = offset;
        self.here[number].reached = offset;
        self.tell(|| format!("    partition {number} delivers {:?}", deliveries.iter().map(Delivery::offset).collect::<Vec<_>>()));
        self.on(Event::Arrived { assignment, deliveries });
        self.on(Event::Reached { assignment, offset });
        if self.broken == Broken::CommitsOnArrival {
            self.here[number].noted = Some(offset);
        }
        true
    }

    fn delivery(&mut self, number: usize, offset: i64) -> Option<Delivery> {
        let row = self.broker.row(number, offset)?.clone();
        let content = match row.kind {
            Kind::Gap => return None,
            Kind::Tombstone => Content::Skip,
            Kind::NoKey => Content::DeadLetter(DeadLetterReason::NoKey, "no key".into()),
            Kind::Operation | Kind::Undecodable => Content::Operation(Arc::new(self.subject(&row))),
        };
        let (payload, slot) = (row.payload(), partition(number).slot(offset));
        let (record, notes) = (payload.digest(), self.store.slots(&[slot]).pop().unwrap_or_default());
        if let Content::Operation(subject) = &content
            && !self.setting.replies
            && let Some(with) = self.store.applied(&subject.key)
            && is_answered(with, &notes, subject.fingerprint)
        {
            self.saw("a repeat is answered as it arrives");
            return Some(Delivery::Answered { offset, route: subject.route });
        }
        let lane = row.lane(self.setting.lanes, offset);
        Some(Delivery::Record(Box::new(Arrived { offset, lane, payload: Arc::new(payload), record, notes, content })))
    }

    pub fn subject(&self, row: &Row) -> Subject {
        let name = row.key();
        let (key, known) = (name.digest(), self.known(name.digest()));
        Subject { key, name: Arc::new(name), route: row.route, fingerprint: row.fingerprint(), correlation: None, known }
    }

    /// The driver tries to commit what is noted.
    pub fn commit(&mut self, number: usize, fate: Commit) {
        let Some(offset) = self.here[number].noted else { return };
        if fate == Commit::Lost {
            return self.saw("a commit is lost");
        }
        self.tell(|| format!("    partition {number} is committed at {offset} ({fate:?})"));
        self.judge_complete(number, offset);
        self.broker.logs[number].committed = Some((offset, Writer::ThisStore));
        if fate == Commit::Unconfirmed {
            return self.saw("a commit is not confirmed");
        }
        self.here[number].noted = None;
        let assignment = self.assignment(number);
        let slot = partition(number).slot(offset);
        self.on(Event::Committed { assignment, slot });
    }
}
