//! Owns the way from a client's record to a delivery: which operation it carries, and what the store knows of it. Runs on the
//! consumer thread, a batch at a time, so that a repeat costs no hop.

use super::spare::Spare;
use crate::{
    crash::point,
    handler::{Identified, Identity, Record, RoutePlan, Routes},
    protocol::{
        decision::is_answered,
        machine::{Arrived, Content, DeadLetterReason, Delivery, Lane, Replies, Subject},
        note::Slot,
        park::{Payload, SlotNotes},
        policy::Lanes,
        receipt::State,
        secret::Derivation,
    },
    store::{Error, Partition, ReceiptStore},
};
use std::{collections::BTreeMap, sync::Arc};

pub(super) struct Intake {
    routes: Arc<Routes>,
    store: Arc<dyn ReceiptStore>,
    /// How the store's digests are made.
    derivation: Derivation,
    lanes: BTreeMap<String, Lanes>,
    /// By route.
    replies: Vec<Replies>,
}

impl Intake {
    pub(super) fn new(routes: Arc<Routes>, store: Arc<dyn ReceiptStore>) -> Self {
        let lanes = routes.topics().map(|(topic, lanes)| (topic.to_string(), lanes)).collect();
        let replies = routes.operations().iter().map(replies).collect();
        let derivation = store.derivation();
        Self { routes, store, derivation, lanes, replies }
    }

    pub(super) fn topics(&self) -> Vec<String> {
        self.lanes.keys().cloned().collect()
    }

    /// Makes deliveries of a batch, in its order. Records that need nobody any more go to `spare`.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(super) fn deliveries(
        &self, partition: &Partition, batch: Vec<(i64, Arc<Payload>)>, spare: &mut Spare,
    ) -> Result<Vec<Delivery>, Error> {
        let slots: Vec<Slot> = batch.iter().map(|(offset, _)| partition.slot(*offset)).collect();
        let notes = self.store.slots(&slots);
        let mut deliveries = Vec::with_capacity(batch.len());
        for ((offset, payload), notes) in batch.into_iter().zip(notes) {
            let delivery = self.delivery(partition, offset, &payload, notes)?;
            if let Delivery::Answered { .. } = delivery {
                spare.give(payload);
            }
            deliveries.push(delivery);
        }
        Ok(deliveries)
    }

    fn delivery(&self, partition: &Partition, offset: i64, payload: &Arc<Payload>, notes: SlotNotes) -> Result<Delivery, Error> {
        let record = self.routes.record(&partition.topic, payload.clone());
        let identified = self.routes.identify(&partition.topic, &record, &self.derivation);
        if let Identified::Operation(identity) = &identified
            && self.is_answered(identity, &notes)
        {
            return Ok(Delivery::Answered { offset, route: identity.route });
        }
        let content = self.content_of(identified)?;
        let lane = self.lane(&partition.topic, payload, offset);
        Ok(Delivery::Record(Box::new(Arrived { offset, lane, record: payload.digest(), payload: payload.clone(), notes, content })))
    }

    /// Whether the operation is known to be applied, and its answer goes nowhere: the record is done as it arrives.
    fn is_answered(&self, identity: &Identity<'_>, notes: &SlotNotes) -> bool {
        let applied_with = self.store.applied(&identity.digest).filter(|_| self.replies[identity.route] == Replies::None);
        applied_with.is_some_and(|applied_with| is_answered(applied_with, notes, identity.fingerprint))
    }

    /// What the route makes of a record, with what the store knows of its operation: under its name, or under a former one.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(super) fn content(&self, topic: &str, payload: &Arc<Payload>) -> Result<Content, Error> {
        let record: Record = self.routes.record(topic, payload.clone());
        self.content_of(self.routes.identify(topic, &record, &self.derivation))
    }

    fn content_of(&self, identified: Identified<'_>) -> Result<Content, Error> {
        let identity = match identified {
            Identified::Skip => return Ok(Content::Skip),
            Identified::DeadLetter(detail) => return Ok(Content::DeadLetter(DeadLetterReason::Route, detail)),
            Identified::Invalid(invalid) => return Ok(Content::DeadLetter(DeadLetterReason::NoKey, invalid.to_string())),
            Identified::Operation(identity) => identity,
        };
        let (route, fingerprint, correlation) = (identity.route, identity.fingerprint, identity.correlation());
        let mut names = match identity.into_keys() {
            Ok(names) => names,
            Err(invalid) => return Ok(Content::DeadLetter(DeadLetterReason::NoKey, invalid.to_string())),
        };
        let keys: Vec<_> = names.iter().map(|(digest, _)| *digest).collect();
        point!("intake/unread", detail => return Err(Error::Io { action: "read", detail }));
        let loaded = self.store.load(&keys)?;
        point!("intake/read", detail => return Err(Error::Io { action: "read", detail }));
        let at = loaded.iter().position(|known| known.receipt.state() != State::New).unwrap_or(0);
        let ((key, name), known) = (names.swap_remove(at), loaded[at].clone());
        Ok(Content::Operation(Arc::new(Subject { key, name: Arc::new(name), route, fingerprint, correlation, known })))
    }

    fn lane(&self, topic: &str, payload: &Payload, offset: i64) -> Lane {
        match (self.lanes.get(topic).copied().unwrap_or_default(), &payload.key) {
            (Lanes::Partition, _) => Lane::Partition,
            (Lanes::Key, Some(key)) => {
                let mut first = [0; 8];
                first.copy_from_slice(&blake3::hash(key).as_bytes()[..8]);
                Lane::Key(u64::from_be_bytes(first))
            }
            (Lanes::Unordered, _) | (Lanes::Key, None) => Lane::Own(offset),
        }
    }
}

/// Whether a route hands its operations' answers on.
pub(super) fn replies(plan: &RoutePlan) -> Replies {
    if plan.has_reply() { Replies::Hook } else { Replies::None }
}
