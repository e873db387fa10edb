//! Owns the actions: what the machine intends, done. Handlers, lookups, replies and dead letters run as tasks and report to the inbox.

use super::{
    Settings,
    engine::Engine,
    gates::Gates,
    inbox::{Command, Inbox, Teller, unsaid},
    observe,
    producer::{About, Producer},
};
use crate::{
    crash::point,
    handler::{self, Answered, AttemptInfo, Delivery, Operation, Record, Reply, Routes},
    protocol::{
        key::{KeyDigest, OperationKey},
        machine::{Action, AttemptKey, Event, Replay, StartKind, Subject, WorkId},
        note::{AttemptId, DoubtReason, Slot},
        outcome::Outcome,
        park::{ParkId, Payload},
        receipt::{Receipt, State},
    },
    store::{Batch, ReceiptStore},
};
use rustc_hash::FxHashMap;
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{Semaphore, mpsc::UnboundedSender},
    task::AbortHandle,
};
use tracing::Instrument;

/// Whether a route's contract rests on the destination knowing the key that its handler gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reliance {
    OnKey,
    None,
}

pub(super) struct Tasks {
    inbox: UnboundedSender<Inbox>,
    routes: Arc<Routes>,
    store: Arc<dyn ReceiptStore>,
    pub(super) producer: Producer,
    lookups: Arc<Semaphore>,
    lookup_time_limit: Duration,
    reply_time_limit: Duration,
    pub(super) gates: Gates,
    prepared: FxHashMap<WorkId, (handler::Attempt, Reliance)>,
    running: FxHashMap<AttemptKey, AbortHandle>,
}

impl Tasks {
    pub(super) fn new(
        inbox: UnboundedSender<Inbox>, routes: Arc<Routes>, store: Arc<dyn ReceiptStore>, producer: Producer, settings: &Settings,
    ) -> Self {
        Self {
            gates: Gates::new(&routes, &inbox),
            inbox,
            routes,
            store,
            producer,
            lookups: Arc::new(Semaphore::new(settings.lookups_max)),
            lookup_time_limit: settings.lookup_time_limit,
            reply_time_limit: settings.reply_time_limit,
            prepared: FxHashMap::default(),
            running: FxHashMap::default(),
        }
    }

    pub(super) fn ended(&mut self, attempt: &AttemptKey) {
        self.running.remove(attempt);
    }

    fn extract(
        &mut self, work: WorkId, attempt: AttemptId, generation: u32, kind: StartKind, payload: Arc<Payload>, subject: &Subject,
    ) -> Result<(), String> {
        let info = AttemptInfo {
            number: attempt.number,
            token: u64::from(attempt.number),
            key_generation: generation,
            correlation: subject.correlation.clone(),
            replay: if kind == StartKind::First { handler::Replay::First } else { handler::Replay::Repeat },
        };
        let delivery = delivery(payload, subject.name.clone(), subject.key, info);
        point!("attempt/unprepared", said => return Err(said));
        let plan = &self.routes.operations()[subject.route];
        let prepared = plan.prepare(delivery).map_err(|invalid| invalid.to_string())?;
        let reliance = if plan.relies_on_key() { Reliance::OnKey } else { Reliance::None };
        self.prepared.insert(work, (self.gates.around(subject.route, prepared), reliance));
        Ok(())
    }

    fn start(&mut self, work: WorkId, attempt: AttemptKey, slot: &Slot) {
        // A future that is dropped before it ended: nobody can tell.
        let dropped = || Outcome::Unknown(DoubtReason::Cancelled, "the future was dropped before it ended".into());
        let teller = Teller::new(self.inbox.clone(), move || Inbox::Finished(attempt, dropped()));
        point!("attempt/admitted", _said => return drop(teller));
        let Some((prepared, reliance)) = self.prepared.remove(&work) else { return drop(teller) };
        let operation = prepared.operation.clone();
        let span = tracing::info_span!(
            "attempt",
            topic = %slot.topic,
            partition = slot.partition,
            offset = slot.offset,
            operation = prepared.operation.name(),
            key = %attempt.0,
            attempt = attempt.1.number,
            correlation_id = prepared.operation.correlation_id().unwrap_or_default(),
        );
        let run = async move {
            point!("attempt/started", _said => return drop(teller));
            let outcome = prepared.await;
            point!("attempt/ended", _said => return drop(teller));
            if reliance == Reliance::OnKey && matches!(outcome, Outcome::Applied(_)) && !operation.key_was_taken() {
                observe::key_not_taken(operation.name());
            }
            teller.tell(Inbox::Finished(attempt, outcome));
        };
        self.running.insert(attempt, tokio::spawn(run.instrument(span)).abort_handle());
    }

    fn abort(&mut self, attempt: &AttemptKey) {
        if let Some(handle) = self.running.remove(attempt) {
            handle.abort();
        }
    }

    fn reply(&self, work: WorkId, receipt: &Receipt, subject: &Subject, replay: Replay, payload: Arc<Payload>) {
        let answered = match receipt.state() {
            State::Applied(applied) => Answered::Applied(applied.clone()),
            State::Rejected(reason) => Answered::Rejected(reason.into()),
            _ => return drop(self.inbox.send(Inbox::Replied(work, Err("the operation is not settled".into())))),
        };
        let last = receipt.admissions().iter().next_back();
        let info = AttemptInfo {
            number: last.map_or(1, |(attempt, _)| attempt.number),
            token: last.map_or(1, |(attempt, _)| u64::from(attempt.number)),
            key_generation: last.map_or(0, |(_, admission)| admission.key_generation),
            correlation: subject.correlation.clone(),
            replay: if replay == Replay::Original { handler::Replay::First } else { handler::Replay::Repeat },
        };
        let delivery = delivery(payload, subject.name.clone(), subject.key, info);
        let Some(call) = self.routes.operations()[subject.route].reply(Reply::new(delivery, answered)) else {
            return drop(self.inbox.send(Inbox::Replied(work, Ok(()))));
        };
        let limit = self.reply_time_limit;
        let teller = Teller::new(self.inbox.clone(), move || Inbox::Replied(work, Err(unsaid())));
        tokio::spawn(async move {
            point!("reply/unsent", said => return teller.tell(Inbox::Replied(work, Err(said))));
            let result = tokio::time::timeout(limit, call).await.unwrap_or_else(|_| Err("no answer within its time limit".into()));
            point!("reply/sent", said => return teller.tell(Inbox::Replied(work, Err(said))));
            teller.tell(Inbox::Replied(work, result));
        });
    }

    fn look_up(&self, lookup: LookUp, clock: super::clock::Clock) {
        let (routes, store, permits) = (self.routes.clone(), self.store.clone(), self.lookups.clone());
        let limit = self.lookup_time_limit;
        let LookUp { key, name, route, park, attempt, key_generation } = lookup;
        let begun = clock.now().monotonic;
        let teller = Teller::new(self.inbox.clone(), move || Inbox::LookedUp(key, begun, Err(unsaid())));
        tokio::spawn(async move {
            let permit = permits.acquire_owned().await;
            let read = tokio::task::spawn_blocking(move || store.payload(&park)).await;
            let payload = match read {
                Ok(Ok(Some(payload))) => Ok(Arc::new(payload)),
                Ok(Ok(None)) => Err("the parked record is gone".to_string()),
                Ok(Err(error)) => Err(error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            // The quiet period is compared with when the lookup started, so that this is read before it does.
            let started = clock.now().monotonic;
            point!("lookup/unasked", said => return teller.tell(Inbox::LookedUp(key, started, Err(said))));
            let finding = match payload.and_then(|payload| {
                let info = AttemptInfo { number: attempt.number, token: u64::from(attempt.number), key_generation, ..Default::default() };
                let delivery = delivery(payload, name, key, info);
                routes.operations()[route].look_up(delivery).ok_or("the route has no lookup")?.map_err(|invalid| invalid.to_string())
            }) {
                Ok(run) => tokio::time::timeout(limit, run).await.unwrap_or_else(|_| Err("no answer within its time limit".into())),
                Err(reason) => Err(reason),
            };
            point!("lookup/answered", said => return teller.tell(Inbox::LookedUp(key, started, Err(said))));
            observe::looked_up(&key, &finding);
            drop(permit);
            teller.tell(Inbox::LookedUp(key, started, finding));
        });
    }
}

fn delivery(payload: Arc<Payload>, name: Arc<OperationKey>, key: KeyDigest, info: AttemptInfo) -> Delivery {
    Delivery::new(Arc::new(Record::new(payload)), Operation::new(name, key, info))
}

/// No future outlives its runner: another one of this process may count quiet periods from its own start.
impl Drop for Tasks {
    fn drop(&mut self) {
        self.running.values().for_each(AbortHandle::abort);
    }
}

/// What a lookup is made of.
struct LookUp {
    key: KeyDigest,
    name: Arc<OperationKey>,
    route: usize,
    park: ParkId,
    attempt: AttemptId,
    key_generation: u32,
}

impl Engine {
    /// Performs actions until none is left, then hands the gathered entries to the store as one batch.
    pub(super) fn perform(&mut self, actions: &mut Vec<Action>) {
        let mut after = Vec::new();
        loop {
            let now = self.clock.now();
            for action in actions.drain(..) {
                if let Some(event) = self.act(action) {
                    self.machine.on(event, now, &mut after);
                }
            }
            std::mem::swap(actions, &mut after);
            if actions.is_empty() {
                self.ask(actions);
            }
            if actions.is_empty() {
                self.machine.flush(actions);
                if actions.is_empty() {
                    return;
                }
            }
        }
    }

    /// Asks the routes with layers whose work could start, so that what may joins the batch that is being gathered.
    fn ask(&mut self, actions: &mut Vec<Action>) {
        let now = self.clock.now();
        for route in self.machine.take_asks() {
            if self.tasks.gates.may_start(route) {
                self.machine.on(Event::MayStart { route }, now, actions);
            }
        }
    }

    /// Performs one action; an answer that is there at once comes back as an event.
    fn act(&mut self, action: Action) -> Option<Event> {
        match action {
            Action::Append { ticket, entries } => {
                observe::store_submitted(entries.len());
                // A writer that panicked drops what it was to answer.
                let gone = || crate::store::Error::Stopped { detail: "the writer is gone".into() };
                let teller = Teller::new(self.parts.inbox.clone(), move || Inbox::Appended(ticket, Err(gone())));
                let reply = Box::new(move |appended| teller.tell(Inbox::Appended(ticket, appended)));
                self.parts.store.submit(Batch(entries), reply);
            }
            Action::Extract { work, attempt, key_generation, kind, payload, subject } => {
                let result = self.tasks.extract(work, attempt, key_generation, kind, payload, &subject);
                return Some(Event::Extracted { work, result });
            }
            Action::Forget { work } => drop(self.tasks.prepared.remove(&work)),
            Action::Start { work, attempt, slot } => self.tasks.start(work, attempt, &slot),
            Action::Abort { attempt } => self.tasks.abort(&attempt),
            Action::DeadLetter { work, slot, reason, detail, payload, subject, receipt } => {
                let about = subject.as_deref().map(|subject| About::of_subject(subject, &receipt));
                let letter = self.tasks.producer.letter(&slot, reason, &detail, &payload, about.as_ref());
                let teller = Teller::new(self.parts.inbox.clone(), move || Inbox::DeadLettered(work, Err(unsaid())));
                self.tasks.producer.send(letter, move |result| {
                    if let Err(error) = &result {
                        observe::dead_letter_failed(&slot, error);
                    }
                    teller.tell(Inbox::DeadLettered(work, result));
                });
            }
            Action::Reply { work, receipt, subject, replay, payload } => self.tasks.reply(work, &receipt, &subject, replay, payload),
            Action::Load { key } => return self.load(key).map(|known| Event::Doubtful { key, known }),
            Action::Unpark { key, park } => self.unpark(key, park),
            Action::LookUp { key, name, route, park, attempt, key_generation } => {
                self.tasks.look_up(LookUp { key, name, route, park, attempt, key_generation }, self.clock.clone());
            }
            Action::Commit { assignment, offset } => {
                point!("commit/asked", detail => self.failed = Some(super::Error::Client { detail }));
                self.parts.commands.tell(Command::Commit(assignment, offset));
            }
            Action::Drained { assignment } => self.drained(assignment),
            Action::Halt { assignment, slot, reason } => {
                observe::partition_halted(&slot, &reason);
                self.parts.health.closed(1);
                self.parts.commands.tell(Command::Halt(assignment));
            }
            Action::Answer { request, answer } => return self.operator_answered(request, &answer),
        }
        None
    }

    /// Reads a parked record and finds its operation again.
    fn unpark(&self, key: KeyDigest, park: ParkId) {
        let (store, intake) = (self.parts.store.clone(), self.parts.intake.clone());
        let teller = Teller::new(self.parts.inbox.clone(), move || Inbox::Event(Box::new(Event::NotUnparked { key })));
        tokio::task::spawn_blocking(move || {
            point!("unpark/unread", _said => return drop(teller));
            let read = store.payload(&park).map_err(|error| error.to_string()).and_then(|payload| {
                let payload = Arc::new(payload.ok_or("the record is gone")?);
                let content = intake.content(&park.slot.topic, &payload).map_err(|error| error.to_string())?;
                Ok((payload, content))
            });
            let event = match read {
                Ok((payload, crate::protocol::machine::Content::Operation(subject))) if subject.key == key => {
                    let (slot, record) = (park.slot.clone(), payload.digest());
                    Event::Unparked { park, slot, payload, record, subject }
                }
                Ok(_) => {
                    observe::not_unparked(&park, "its route makes another operation of it, or none");
                    Event::NotUnparked { key }
                }
                Err(reason) => {
                    observe::not_unparked(&park, &reason);
                    Event::NotUnparked { key }
                }
            };
            teller.tell(Inbox::Event(Box::new(event)));
        });
    }
}
