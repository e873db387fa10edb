//! Owns the operators' way into the engine: a change is decided on the newest state, with what this process knows of futures, and
//! answered when it is durable.

use super::{
    engine::Engine,
    inbox::{Inbox, Teller, unsaid},
    observe,
    partitions::{PartitionAsk, PartitionLine, Then},
};
use crate::{
    handler::BoxFuture,
    protocol::{
        key::KeyDigest,
        known::{Answer, Entry, Known},
        machine::{Action, DeadLetterReason, Event},
        note::Slot,
        park::{Park, ParkId, SlotNotes},
        refused::Refused,
        settle::{Act, Change, Changed, Decided, Scene, Target, changed, decide},
        skip::{Halted, Skipped},
    },
    store::{self, Partition},
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::sync::{mpsc::UnboundedSender, oneshot};

/// Changes that wait for an answer, at most.
const WAITING_MAX: usize = 64;

/// Does what people ask for: what the socket needs of a runner.
///
/// ```
/// # use receipted::{handler::BoxFuture, protocol::{refused::Refused, settle::{Change, Changed}}, runner::{Operator, PartitionAsk, PartitionLine}};
/// /// For tests of a page of your own, in the place of a runner's [`Operators`](receipted::runner::Operators): nothing runs.
/// struct Gone;
///
/// impl Operator for Gone {
///     fn perform(&self, _: Change) -> BoxFuture<Result<Changed, Refused>> {
///         Box::pin(async { Err(Refused::Unavailable { reason: "the runner does not run".into() }) })
///     }
///
///     fn partitions(&self, _: PartitionAsk) -> BoxFuture<Result<Vec<PartitionLine>, Refused>> {
///         Box::pin(async { Ok(Vec::new()) })
///     }
/// }
/// ```
pub trait Operator: Send + Sync {
    /// Decides about a change, and makes it durable.
    fn perform(&self, change: Change) -> BoxFuture<Result<Changed, Refused>>;
    /// Answers with where the partitions that were asked about stand, once they stand there.
    fn partitions(&self, ask: PartitionAsk) -> BoxFuture<Result<Vec<PartitionLine>, Refused>>;
}

impl Operator for Operators {
    fn perform(&self, change: Change) -> BoxFuture<Result<Changed, Refused>> {
        let own = self.clone();
        Box::pin(async move { own.perform(change).await })
    }

    fn partitions(&self, ask: PartitionAsk) -> BoxFuture<Result<Vec<PartitionLine>, Refused>> {
        let own = self.clone();
        Box::pin(async move { own.partitions(ask).await })
    }
}

/// Through which a running process is asked to settle, dead-letter or discard.
///
/// ```
/// # use receipted::{prelude::*, runner::{PartitionAsk, Reading}, testing::{Rehearsal, record}};
/// # async fn ship(op: Operation) -> Result<Applied, Failure> { Ok(Applied::new(op.provider_key(), ())) }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// # let mut app = Rehearsal::start(|| {
/// #     let ship = operation("ship.v1").tenant(fixed("acme")).id(json("/id")).fingerprint(whole_value()).handle(ship);
/// #     App::new().topic("orders", ship).with_state(())
/// # })
/// # .await?;
/// # app.deliver("orders", record().value(r#"{"id":"o-1"}"#))?;
/// # app.complete_within(std::time::Duration::from_secs(10)).await?;
/// // For a page of your own, of `Runner::operators()` or of a rehearsal: where does each partition stand?
/// let operators = app.operators().ok_or("it does not run")?;
/// let lines = operators.partitions(PartitionAsk::List).await?;
/// let halted: Vec<_> = lines.iter().filter(|line| line.reading == Reading::Halted).collect();
/// assert_eq!((lines.len(), halted.len()), (1, 0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Operators(UnboundedSender<Inbox>);

impl Operators {
    pub(super) fn new(inbox: UnboundedSender<Inbox>) -> Self {
        Self(inbox)
    }

    /// Decides about a change on the newest state and makes it durable.
    ///
    /// # Errors
    /// Says why it is refused and what to do instead; nothing was written. [`Refused::Unavailable`] when the runner does not run.
    pub async fn perform(&self, change: Change) -> Result<Changed, Refused> {
        let (answer, answered) = oneshot::channel();
        self.tell(Inbox::Operate(Box::new(change), answer))?;
        answered.await.unwrap_or_else(|_| Err(Self::gone()))
    }

    pub(super) fn tell(&self, inbox: Inbox) -> Result<(), Refused> {
        self.0.send(inbox).map_err(|_| Self::gone())
    }

    pub(super) fn gone() -> Refused {
        Refused::Unavailable { reason: "the runner does not run".into() }
    }
}

type AnswerTo = oneshot::Sender<Result<Changed, Refused>>;

/// A change on its way: to the disk, or to the dead-letter topic first.
struct Waiting {
    write: Write,
    answer: AnswerTo,
}

/// What is written down of a change.
#[derive(Clone)]
enum Write {
    Entry(Entry),
    /// With the index of the partition that goes on.
    Skip(usize, Skipped),
}

impl Write {
    /// What the answer is about.
    fn entry(&self) -> &Entry {
        match self {
            Self::Entry(entry) => entry,
            Self::Skip(_, skipped) => &skipped.end,
        }
    }

    fn event(self, request: u64) -> Event {
        match self {
            Self::Entry(entry) => Event::Operator { request, entry },
            Self::Skip(_, skipped) => Event::Skip { request, skipped },
        }
    }
}

#[derive(Default)]
pub(super) struct Pending {
    waiting: BTreeMap<u64, Waiting>,
    next: u64,
}

impl Engine {
    /// Decides about an operator's change.
    pub(super) fn operate(&mut self, change: Change, answer: AnswerTo, actions: &mut Vec<Action>) {
        if self.operators.waiting.len() >= WAITING_MAX {
            let reason = format!("{WAITING_MAX} changes wait already");
            return reply(answer, Err(Refused::Unavailable { reason }));
        }
        match self.decide_change(&change) {
            Err(refused) => reply(answer, Err(refused)),
            Ok(Decided::Write(entry)) => {
                let request = self.wait_for(Write::Entry(entry.clone()), answer);
                self.machine.on(Event::Operator { request, entry }, self.clock.now(), actions);
            }
            Ok(Decided::DeadLetter { park, note, then }) => {
                let request = self.wait_for(Write::Entry(then), answer);
                self.send_parked(request, park, &note);
            }
            Ok(Decided::Skip(skipped)) => self.send_skipped(&change, skipped, answer),
        }
    }

    fn decide_change(&mut self, change: &Change) -> Result<Decided, Refused> {
        let unavailable = |error: store::Error| Refused::Unavailable { reason: error.to_string() };
        let (key, slot) = match &change.act {
            Act::Settle(settle) => (Some(settle.key), SlotNotes::default()),
            Act::DeadLetter(Target::Operation(key)) | Act::Discard { target: Target::Operation(key), .. } => {
                (Some(*key), SlotNotes::default())
            }
            Act::DeadLetter(Target::Park(park)) | Act::Discard { target: Target::Park(park), .. } => {
                let slot = self.notes(&park.slot);
                (slot.parked.as_ref().and_then(|(_, note, _)| note.key), slot)
            }
            Act::Skip(slot) => (None, self.notes(slot)),
        };
        let known = match key {
            Some(key) => self.parts.store.load(&[key]).map_err(unavailable)?.pop().unwrap_or_default(),
            None => Arc::default(),
        };
        let future = |attempt| key.map_or(crate::protocol::doubt::Future::Alive, |key| self.machine.future(key, attempt));
        let quiet = self.quiet(&known);
        let halted = if let Act::Skip(slot) = &change.act { self.halted(slot).map(|(_, halted)| halted) } else { None };
        decide(change, &Scene { known: &known, slot: &slot, halted, future, quiet, now: self.clock.now() })
    }

    fn notes(&self, slot: &Slot) -> SlotNotes {
        self.parts.store.slots(std::slice::from_ref(slot)).pop().unwrap_or_default()
    }

    /// What the partition of a slot is halted at, with its index.
    fn halted(&self, slot: &Slot) -> Option<(usize, &Halted)> {
        let here = self.here.values().find(|here| here.partition == Partition::of(slot))?;
        Some((here.assignment.partition, self.machine.halted(here.assignment.partition)?))
    }

    /// Sends the record that a partition stands at to the dead-letter topic.
    fn send_skipped(&mut self, change: &Change, skipped: Skipped, answer: AnswerTo) {
        let Act::Skip(slot) = &change.act else { return };
        let Some((index, halted)) = self.halted(slot) else { return reply(answer, Err(Refused::NotHalted { at: None })) };
        let asked = self.operators.waiting.values().any(|waiting| matches!(waiting.write, Write::Skip(at, _) if at == index));
        if asked || !self.counts_as_open(self.here[&index].assignment) {
            return reply(answer, Err(Refused::Unavailable { reason: "it is being skipped already".into() }));
        }
        let detail = format!("skipped: {}", halted.reason);
        let known = match halted.subject.as_ref().map(|subject| self.parts.store.load(&[subject.key])) {
            Some(Err(error)) => return reply(answer, Err(Refused::Unavailable { reason: error.to_string() })),
            Some(Ok(mut known)) => known.pop().unwrap_or_default(),
            None => Arc::default(),
        };
        let about = halted.subject.as_deref().map(|subject| super::producer::About::of_subject(subject, &known.receipt));
        let letter = self.tasks.producer.letter(slot, DeadLetterReason::Operator, &detail, &halted.payload, about.as_ref());
        let (producer, inbox) = (self.tasks.producer.clone(), self.parts.inbox.clone());
        let request = self.wait_for(Write::Skip(index, skipped), answer);
        let teller = Teller::new(inbox, move || Inbox::OperatorProduced(request, Err(unsaid())));
        producer.send(letter, move |result| teller.tell(Inbox::OperatorProduced(request, result)));
    }

    /// The quiet period of an operation's route; without a route nobody knows one, and only a person who vouches ends it.
    fn quiet(&self, known: &Known) -> Duration {
        let name = known.key.as_ref().map(|key| key.operation());
        let plan =
            self.parts.routes.operations().iter().find(|plan| Some(plan.name) == name || plan.formerly().iter().any(|n| Some(*n) == name));
        plan.map_or(Duration::MAX, |plan| plan.policy.contract.quiet())
    }

    fn wait_for(&mut self, write: Write, answer: AnswerTo) -> u64 {
        self.operators.next += 1;
        self.operators.waiting.insert(self.operators.next, Waiting { write, answer });
        self.operators.next
    }

    /// Sends a parked record to the dead-letter topic; its end is written when that is acknowledged.
    fn send_parked(&self, request: u64, park: ParkId, note: &Park) {
        let (store, producer) = (self.parts.store.clone(), self.tasks.producer.clone());
        let teller = Teller::new(self.parts.inbox.clone(), move || Inbox::OperatorProduced(request, Err(unsaid())));
        let (key, detail) = (note.key, format!("{}: {}", note.reason.label(), note.detail));
        tokio::task::spawn_blocking(move || {
            let read = store.payload(&park).and_then(|payload| Ok((payload, load(&*store, key)?)));
            match read {
                Ok((Some(payload), known)) => {
                    let about = known.key.as_ref().zip(key).map(|(name, key)| super::producer::About::of(&known.receipt, key, name));
                    let letter = producer.letter(&park.slot, DeadLetterReason::Operator, &detail, &payload, about.as_ref());
                    producer.send(letter, move |result| teller.tell(Inbox::OperatorProduced(request, result)));
                }
                Ok((None, _)) => teller.tell(Inbox::OperatorProduced(request, Err("the record is gone".into()))),
                Err(error) => teller.tell(Inbox::OperatorProduced(request, Err(error.to_string()))),
            }
        });
    }

    pub(super) fn operator_produced(&mut self, request: u64, result: Result<(), String>, actions: &mut Vec<Action>) {
        match result {
            Ok(()) => {
                let Some(write) = self.operators.waiting.get(&request).map(|waiting| waiting.write.clone()) else { return };
                self.machine.on(write.event(request), self.clock.now(), actions);
            }
            Err(reason) => {
                if let Some(waiting) = self.operators.waiting.remove(&request) {
                    reply(waiting.answer, Err(Refused::NotTaken { reason }));
                }
            }
        }
    }

    /// Answers a change; after a skip, what lets the partition go on.
    pub(super) fn operator_answered(&mut self, request: u64, answer: &Answer) -> Option<Event> {
        let Waiting { write, answer: to } = self.operators.waiting.remove(&request)?;
        let entry = write.entry();
        let result = match answer {
            Answer::Done(known) => Ok(changed(entry, known.as_deref().unwrap_or(&Known::default()))),
            Answer::Lost(_) => Err(Refused::Moved),
        };
        observe::operator_changed(entry, &result);
        let goes_on = match (&write, &result) {
            (Write::Skip(index, _), Ok(_)) => self.drain(*index, Then::Reopen, Vec::new()),
            _ => None,
        };
        reply(to, result);
        goes_on
    }
}

fn load(store: &dyn store::ReceiptStore, key: Option<KeyDigest>) -> Result<Arc<Known>, store::Error> {
    match key {
        Some(key) => Ok(store.load(&[key])?.pop().unwrap_or_default()),
        None => Ok(Arc::default()),
    }
}

/// Answers; an asker that went away meanwhile sees the change in the listing.
fn reply(to: AnswerTo, result: Result<Changed, Refused>) {
    drop(to.send(result));
}
