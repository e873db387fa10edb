//! Owns the way from a client's record to a delivery: which operation it carries, and what the store knows of it. Runs on the
//! consumer thread, a batch at a time, so that a repeat costs no hop.

use crate::{
    handler::{Identified, Record, RoutePlan, Routes},
    protocol::{
        machine::{Arrived, Content, DeadLetterReason, Delivery, Lane, Replies, Subject},
        note::Slot,
        park::Payload,
        policy::Lanes,
        receipt::State,
    },
    store::{Error, Partition, ReceiptStore},
};
use std::{collections::BTreeMap, sync::Arc};

pub(super) struct Intake {
    routes: Arc<Routes>,
    store: Arc<dyn ReceiptStore>,
    lanes: BTreeMap<String, Lanes>,
    /// By route.
    replies: Vec<Replies>,
}

impl Intake {
    pub(super) fn new(routes: Arc<Routes>, store: Arc<dyn ReceiptStore>) -> Self {
        let lanes = routes.topics().map(|(topic, lanes)| (topic.to_string(), lanes)).collect();
        let replies = routes.operations().iter().map(replies).collect();
        Self { routes, store, lanes, replies }
    }

    pub(super) fn topics(&self) -> Vec<String> {
        self.lanes.keys().cloned().collect()
    }

    /// Makes deliveries of a batch, in its order.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(super) fn deliveries(&self, partition: &Partition, batch: Vec<(i64, Payload)>) -> Result<Vec<Delivery>, Error> {
        let slots: Vec<Slot> = batch.iter().map(|(offset, _)| partition.slot(*offset)).collect();
        let notes = self.store.slots(&slots);
        let mut deliveries = Vec::with_capacity(batch.len());
        for ((offset, payload), notes) in batch.into_iter().zip(notes) {
            let payload = Arc::new(payload);
            let content = self.content(&partition.topic, &payload)?;
            if let Some(answered) = Delivery::answered(offset, &notes, &content, |route| self.replies[route]) {
                deliveries.push(answered);
                continue;
            }
            let lane = self.lane(&partition.topic, &payload, offset);
            deliveries.push(Delivery::Record(Box::new(Arrived { offset, lane, record: payload.digest(), payload, notes, content })));
        }
        Ok(deliveries)
    }

    /// What the route makes of a record, with what the store knows of its operation: under its name, or under a former one.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(super) fn content(&self, topic: &str, payload: &Arc<Payload>) -> Result<Content, Error> {
        let identity = match self.routes.identify(topic, &Record::new(payload.clone())) {
            Identified::Skip => return Ok(Content::Skip),
            Identified::DeadLetter(detail) => return Ok(Content::DeadLetter(DeadLetterReason::Route, detail)),
            Identified::Invalid(invalid) => return Ok(Content::DeadLetter(DeadLetterReason::NoKey, invalid.to_string())),
            Identified::Operation(identity) => identity,
        };
        let mut names = vec![(identity.digest, identity.key)];
        names.extend(identity.formerly.into_iter().map(|(digest, key)| (digest, Arc::new(key))));
        let keys: Vec<_> = names.iter().map(|(digest, _)| *digest).collect();
        let loaded = self.store.load(&keys)?;
        let at = loaded.iter().position(|known| known.receipt.state() != State::New).unwrap_or(0);
        let ((key, name), known) = (names.swap_remove(at), loaded[at].clone());
        let (route, fingerprint, correlation) = (identity.route, identity.fingerprint, identity.correlation);
        Ok(Content::Operation(Arc::new(Subject { key, name, route, fingerprint, correlation, known })))
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
