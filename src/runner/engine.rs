//! Owns the loop: inbox in, machine, actions out, one batch to the store at the end of each turn. A loop without opinions.

use super::{
    Error, Health, Settings,
    clock::Clock,
    credit::Credits,
    inbox::{Command, Commands, Inbox, Opened, Ownership},
    intake::{Intake, replies},
    observe,
    operator::Pending,
    partitions::Stand,
    perform::Tasks,
    producer::Producer,
};
use crate::{
    crash::point,
    handler::Routes,
    protocol::{
        key::KeyDigest,
        machine::{Action, Assignment, Event, Limits, Machine, Route},
        time::{Monotonic, UnixMillis},
    },
    store::{Partition, PreviousStop, ReceiptStore, Which},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, mpsc},
    time::Duration,
};
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender},
    time::Instant,
};

/// Entries of the inbox that are taken in one turn.
const TURN_MAX: usize = 1024;
/// Operations that one page of a listing has.
const PAGE: usize = 1000;

/// How a runner ended.
pub(super) enum Ended {
    Stopped,
    Failed(Error),
}

pub(super) struct Parts {
    pub(super) settings: Settings,
    pub(super) routes: Arc<Routes>,
    pub(super) store: Arc<dyn ReceiptStore>,
    pub(super) health: Arc<Health>,
    pub(super) inbox: UnboundedSender<Inbox>,
    pub(super) commands: Commands,
    pub(super) credits: Credits,
    pub(super) intake: Arc<Intake>,
    pub(super) producer: Producer,
    pub(super) clock: Clock,
}

/// A revoke hook that waits.
struct Waiting {
    assignments: BTreeSet<Assignment>,
    done: mpsc::SyncSender<()>,
}

/// A partition as the engine sees it: how much has come, for credits and metrics.
pub(super) struct Here {
    pub(super) partition: Partition,
    pub(super) assignment: Assignment,
    /// The watermark, and when it last made progress.
    pub(super) progress: (i64, UnixMillis),
    pub(super) stand: Stand,
    records: usize,
    bytes: u64,
}

pub(super) struct Engine {
    pub(super) machine: Machine,
    pub(super) parts: Parts,
    pub(super) clock: Clock,
    pub(super) tasks: Tasks,
    pub(super) operators: Pending,
    pub(super) here: BTreeMap<usize, Here>,
    /// Partitions that are assigned and not read, and why.
    pub(super) refused: BTreeMap<Partition, String>,
    watch: observe::StoreWatch,
    revoking: Vec<Waiting>,
    ending: Option<Ending>,
    pub(super) failed: Option<Error>,
}

/// A planned stop on its way.
struct Ending {
    deadline: Instant,
    closing: Closing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Closing {
    Draining,
    Told,
}

impl Engine {
    pub(super) fn new(parts: Parts) -> Result<Self, Error> {
        let identity = parts.store.identity().clone();
        let careful = match identity.previous_stop {
            PreviousStop::Unclean => pages(&*parts.store, Which::InDoubt)?.into_iter().map(|(key, _)| key).collect(),
            PreviousStop::First | PreviousStop::Clean => BTreeSet::new(),
        };
        let mut machine = Machine::new(identity.claim, limits(&parts.settings), routes(&parts.routes), careful);
        let (producer, clock) = (parts.producer.clone(), parts.clock.clone());
        let tasks = Tasks::new(parts.inbox.clone(), parts.routes.clone(), parts.store.clone(), producer, &parts.settings);
        tasks.gates.routes().for_each(|route| machine.gate(route));
        observe::begin(&parts.routes, &*parts.store, clock.now().wall);
        Ok(Self {
            machine,
            parts,
            clock,
            tasks,
            operators: Pending::default(),
            here: BTreeMap::new(),
            refused: BTreeMap::new(),
            watch: observe::StoreWatch::default(),
            revoking: Vec::new(),
            ending: None,
            failed: None,
        })
    }

    /// Turns until the end, or until it must end.
    pub(super) async fn run(mut self, mut incoming: UnboundedReceiver<Inbox>, end: impl Future<Output = ()>) -> Ended {
        let mut actions = Vec::new();
        if let Err(error) = self.begin(&mut actions) {
            return self.fail(error);
        }
        let mut end = std::pin::pin!(end);
        let mut inbox = Vec::with_capacity(TURN_MAX);
        let mut commit = tokio::time::interval(self.parts.settings.commit_interval.min(Duration::from_secs(1)));
        commit.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let timer = self.next_wake();
            let event = tokio::select! {
                biased;
                () = &mut end, if self.ending.is_none() => {
                    self.begin_stop(&mut actions);
                    Event::Tick
                }
                _ = commit.tick() => {
                    self.observe();
                    Event::CommitTick
                }
                took = incoming.recv_many(&mut inbox, TURN_MAX) => {
                    debug_assert!(took > 0, "the engine holds a sender itself");
                    Event::Tick
                }
                () = tokio::time::sleep_until(timer) => Event::Tick,
            };
            if !inbox.is_empty() && inbox.len() < TURN_MAX {
                // What is ready to run runs once, and what it says shares this turn, its batch and its sync.
                tokio::task::yield_now().await;
                while inbox.len() < TURN_MAX
                    && let Ok(told) = incoming.try_recv()
                {
                    inbox.push(told);
                }
            }
            for told in inbox.drain(..) {
                if let Some(ended) = self.take(told, &mut actions) {
                    return ended;
                }
                if self.machine.has_batch() {
                    self.perform(&mut actions);
                }
            }
            self.machine.on(event, self.clock.now(), &mut actions);
            self.perform(&mut actions);
            self.give_credit();
            observe::tallies(self.machine.take_tallies(), &self.here, &self.parts.routes);
            if let Some(error) = self.failed.take() {
                return self.fail(error);
            }
            if let Some(ended) = self.end_stop() {
                return ended;
            }
        }
    }

    /// Takes up what the store says is in doubt or parked, or is to be asked about once more.
    fn begin(&mut self, actions: &mut Vec<Action>) -> Result<(), Error> {
        let mut open = pages(&*self.parts.store, Which::InDoubt)?;
        for which in [Which::Parked, Which::Unconfirmed, Which::Superseded] {
            open.extend(pages(&*self.parts.store, which)?);
        }
        for (key, known) in open {
            point!("reconcile/taken_up", detail => return Err(Error::Client { detail }));
            self.machine.on(Event::Doubtful { key, known }, self.clock.now(), actions);
        }
        Ok(())
    }

    fn take(&mut self, told: Inbox, actions: &mut Vec<Action>) -> Option<Ended> {
        point!(told.crash_point(), detail => return Some(self.fail(Error::Client { detail })));
        let event = match told {
            Inbox::Assigned(opened) => {
                self.assigned(opened, actions);
                return None;
            }
            Inbox::Revoked { assignments, ownership, done } => {
                self.revoked(&assignments, ownership, done, actions);
                return None;
            }
            Inbox::Arrived { assignment, deliveries, bytes } => {
                if let Some(here) = self.here.get_mut(&assignment.partition).filter(|here| here.assignment == assignment) {
                    here.records += deliveries.len();
                    here.bytes += bytes;
                }
                Event::Arrived { assignment, deliveries }
            }
            Inbox::Appended(ticket, Ok(appended)) => {
                observe::store_synced(appended.answers.len(), appended.group, appended.sync);
                Event::Appended { ticket, answers: appended.answers }
            }
            Inbox::Appended(ticket, Err(error)) => match error.bound() {
                Some(bound) => Event::Refused { ticket, bound },
                None => return Some(self.fail(error.into())),
            },
            Inbox::Stopped(Ok(())) if self.ending.is_some() => return Some(Ended::Stopped),
            Inbox::Stopped(Ok(())) => return Some(self.fail(Error::Client { detail: "the consumer thread ended".into() })),
            Inbox::Stopped(Err(error)) => return Some(self.fail(error)),
            Inbox::Committed(assignment, slot) => Event::Committed { assignment, slot },
            Inbox::Finished(attempt, outcome) => {
                self.tasks.ended(&attempt);
                Event::Finished { attempt, outcome }
            }
            Inbox::DeadLettered(work, result) => Event::DeadLettered { work, result },
            Inbox::Replied(work, result) => Event::Replied { work, result },
            Inbox::LookedUp(key, started, finding) => match self.load(key) {
                Some(known) => Event::LookedUp { key, known, started, finding },
                None => return None,
            },
            Inbox::Event(event) => *event,
            Inbox::Ask(route) if self.tasks.gates.may_start(route) => Event::MayStart { route },
            Inbox::Ask(_) => return None,
            Inbox::Operate(change, answer) => {
                self.operate(*change, answer, actions);
                return None;
            }
            Inbox::Partitions(ask, answer) => {
                self.asked(ask, answer, actions);
                return None;
            }
            Inbox::NotOpened(partition, reason) => {
                self.refused.insert(partition, reason);
                return None;
            }
            Inbox::OperatorProduced(request, result) => {
                self.operator_produced(request, result, actions);
                return None;
            }
        };
        self.machine.on(event, self.clock.now(), actions);
        None
    }

    fn assigned(&mut self, opened: Vec<Opened>, actions: &mut Vec<Action>) {
        for Opened { assignment, partition, start, known_complete } in opened {
            observe::partition_open(&partition, start);
            self.refused.remove(&partition);
            let (topic, number) = (partition.topic.clone(), partition.number);
            let progress = (start, self.clock.now().wall);
            self.here.insert(assignment.partition, Here { partition, assignment, progress, stand: Stand::default(), records: 0, bytes: 0 });
            let event = Event::Assigned { assignment, topic, number, start, known_complete };
            self.machine.on(event, self.clock.now(), actions);
        }
    }

    fn revoked(&mut self, assignments: &[Assignment], ownership: Ownership, done: mpsc::SyncSender<()>, actions: &mut Vec<Action>) {
        let now = self.clock.now();
        let until = now.monotonic.after(self.parts.settings.drain_budget);
        self.parts.health.closed(assignments.iter().filter(|assignment| self.counts_as_open(**assignment)).count());
        let waiting = assignments.iter().copied().filter(|assignment| self.machine.is_open(*assignment)).collect();
        self.revoking.push(Waiting { assignments: waiting, done });
        for assignment in assignments.iter().copied() {
            let event = match ownership {
                Ownership::Ours => Event::Revoke { assignment, until },
                Ownership::Lost => Event::Lost { assignment },
            };
            self.machine.on(event, now, actions);
        }
        self.answer_revokes();
    }

    pub(super) fn drained(&mut self, assignment: Assignment) {
        if let Some(here) = self.here.get(&assignment.partition) {
            observe::partition_left(&here.partition);
        }
        self.closed(assignment);
        for waiting in &mut self.revoking {
            waiting.assignments.remove(&assignment);
        }
        self.answer_revokes();
    }

    fn answer_revokes(&mut self) {
        self.revoking.retain(|waiting| {
            if waiting.assignments.is_empty() {
                // A hook that no longer waits has run into its own bound.
                let _ = waiting.done.send(());
            }
            !waiting.assignments.is_empty()
        });
    }

    /// Stops fetching, and lets every partition drain until the deadline.
    fn begin_stop(&mut self, actions: &mut Vec<Action>) {
        point!("stop/begun", detail => self.failed = Some(Error::Client { detail }));
        let settings = &self.parts.settings;
        #[allow(clippy::disallowed_methods, reason = "the stop's own bound")]
        let deadline = Instant::now() + settings.stop_deadline;
        let (now, budget) = (self.clock.now(), settings.drain_budget.min(settings.stop_deadline / 2));
        self.ending = Some(Ending { deadline, closing: Closing::Draining });
        self.parts.commands.tell(Command::StopFetching);
        let assignments: Vec<Assignment> = self.here.values().map(|here| here.assignment).collect();
        for assignment in assignments {
            self.machine.on(Event::Revoke { assignment, until: now.monotonic.after(budget) }, now, actions);
        }
    }

    /// Closes the consumer once everything is drained; gives up at the deadline, which is safe.
    fn end_stop(&mut self) -> Option<Ended> {
        let idle = self.machine.is_idle();
        let ending = self.ending.as_mut()?;
        #[allow(clippy::disallowed_methods, reason = "the stop's own bound")]
        if Instant::now() >= ending.deadline {
            observe::stop_cut_off(self.machine.alive());
            return Some(Ended::Stopped);
        }
        if idle && ending.closing == Closing::Draining {
            point!("stop/drained", detail => return Some(self.fail(Error::Client { detail })));
            ending.closing = Closing::Told;
            self.parts.commands.tell(Command::Close);
        }
        None
    }

    fn next_wake(&self) -> Instant {
        let timer = self.machine.next_timer().map(|at: Monotonic| self.clock.instant(at));
        let ending = self.ending.as_ref().map(|ending| ending.deadline);
        #[allow(clippy::disallowed_methods, reason = "a bound for the wait")]
        let latest = Instant::now() + Duration::from_secs(1);
        [timer, ending].into_iter().flatten().fold(latest, Instant::min)
    }

    fn give_credit(&self) {
        for here in self.here.values() {
            let (records, bytes) = self.machine.in_flight(here.assignment.partition);
            self.parts.credits.left(here.assignment, here.records.saturating_sub(records), here.bytes.saturating_sub(bytes));
        }
        if self.parts.credits.take_starved() {
            self.parts.commands.wake();
        }
    }

    fn observe(&mut self) {
        let pressure = self.parts.store.pressure();
        let full = pressure.as_ref().map(ToString::to_string);
        let paused: Vec<&str> = self.machine.paused_routes().map(|route| self.parts.routes.operations()[route].name).collect();
        let reason = match (&full, paused.is_empty()) {
            (Some(full), _) => Some(full.clone()),
            (None, false) => Some(format!("too many unresolved operations of {}", paused.join(", "))),
            (None, true) => None,
        };
        self.parts.health.paused(reason);
        let mut actions = Vec::new();
        self.machine.on(Event::StoreFull(pressure.and_then(|full| full.bound())), self.clock.now(), &mut actions);
        let now = self.clock.now().wall;
        self.watch.turn(&self.parts.store, now);
        for (assignment, watermark, gap) in self.machine.watermarks() {
            if let Some(here) = self.here.get_mut(&assignment.partition) {
                observe::progress(here, watermark, gap, self.machine.in_flight(assignment.partition).0, now);
            }
        }
        self.perform(&mut actions);
    }

    /// Loads one operation; a store that cannot be read ends the runner.
    pub(super) fn load(&mut self, key: KeyDigest) -> Option<Arc<crate::protocol::known::Known>> {
        match self.parts.store.load(&[key]) {
            Ok(mut known) => known.pop(),
            Err(error) => {
                self.failed.get_or_insert(error.into());
                None
            }
        }
    }

    /// Ends the consumer thread too: nothing more is fetched, and nothing more becomes durable here.
    fn fail(&mut self, error: Error) -> Ended {
        self.parts.commands.tell(Command::Close);
        Ended::Failed(error)
    }
}

fn limits(settings: &Settings) -> Limits {
    Limits {
        permits: settings.permits,
        tenant_permits_max: settings.tenant_permits_max,
        partition_records_max: settings.partition_records_max,
        partition_bytes_max: settings.partition_bytes_max,
        waiting_grace: settings.waiting_grace,
        park_record_bytes_max: settings.park_record_bytes_max,
        reply_attempts_max: settings.reply_attempts_max,
        reply_back_off: Duration::from_secs(1),
        look_up_back_off: settings.look_up_back_off,
    }
}

fn routes(routes: &Routes) -> Vec<Route> {
    let route = |plan: &crate::handler::RoutePlan| Route {
        names: std::iter::once(plan.name).chain(plan.formerly().iter().copied()).map(String::from).collect(),
        policy: plan.policy.clone(),
        replies: replies(plan),
    };
    routes.operations().iter().map(route).collect()
}

type Page = Vec<(KeyDigest, Arc<crate::protocol::known::Known>)>;

/// Every operation of a listing.
fn pages(store: &dyn ReceiptStore, which: Which) -> Result<Page, Error> {
    let mut all: Page = Vec::new();
    loop {
        let page = store.list(which, all.last().map(|(key, _)| *key), PAGE)?;
        if page.is_empty() {
            return Ok(all);
        }
        all.extend(page);
    }
}
