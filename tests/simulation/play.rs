//! Owns how a plan is played, how the world heals in the end, and how a failing plan is made short.

use super::{
    plan::{Act, Commit, Destination, Leaves, Plan, Step, Sync, Word},
    world::{Asked, Broken, Violation, World, applied},
};
use receipted::{
    protocol::{
        known::Answer,
        machine::{AttemptKey, DeadLetterReason, Event},
        note::DoubtReason,
        outcome::{Finding, Outcome},
        start::Writer,
        time::Monotonic,
    },
    store::{ReceiptStore, Which, memory::Fault},
};
use std::{sync::Arc, time::Duration};

/// After so many milliseconds without anything but timers, nothing moves any more: records that wait for a person keep timers.
const STILL_MAX: u64 = 15_000;

/// What a plan came to.
pub struct Played {
    pub violation: Option<Violation>,
    pub seen: std::collections::BTreeMap<&'static str, u64>,
    pub trace: Vec<String>,
    pub handlers: u64,
}

/// Plays a plan to its end. A panic of the product is a violation too.
pub fn play(plan: &Plan, broken: Broken, traced: bool) -> Played {
    let told = std::panic::AssertUnwindSafe(|| {
        let mut world = World::new(plan, broken);
        world.trace = traced.then(Vec::new);
        for (number, step) in plan.steps.iter().enumerate() {
            world.tell(|| format!("{number}: {step:?}"));
            world.step(step);
            if world.violation.is_some() {
                break;
            }
        }
        if world.violation.is_none() {
            world.heal();
        }
        world
    });
    match std::panic::catch_unwind(told) {
        Ok(world) => {
            Played { violation: world.violation, seen: world.seen, trace: world.trace.unwrap_or_default(), handlers: world.requests }
        }
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned().or(panic.downcast_ref::<&str>().map(|text| (*text).to_string()));
            let violation = Violation { rule: "panic", detail: text.unwrap_or_default() };
            Played { violation: Some(violation), seen: Default::default(), trace: vec![], handlers: 0 }
        }
    }
}

impl World {
    fn step(&mut self, step: &Step) {
        match step {
            Step::Deliver { partition, count } => {
                let number = *partition as usize % self.setting.partitions;
                self.deliver(number, *count as usize);
            }
            Step::Sync(how) => self.sync(*how),
            Step::Take(count) => drop(self.take(*count as usize)),
            Step::Act { which, act, delay } => {
                let at = *which as usize % self.running.len().max(1);
                if let Some(attempt) = self.running.keys().nth(at).copied() {
                    self.act(attempt, *act, *delay);
                }
            }
            Step::Answer { which, well } => drop(self.answer(*which as usize, *well)),
            Step::CommitTick => self.tick(),
            Step::Commit(how) => (0..self.setting.partitions).for_each(|number| self.commit(number, *how)),
            Step::Wait(millis) => self.wait(*millis),
            Step::Stall(millis) => {
                self.pass(*millis);
                self.on(Event::Tick);
            }
            Step::Forward(millis) => {
                self.wall.fetch_add(i64::try_from(*millis).expect("short"), std::sync::atomic::Ordering::Relaxed);
                self.saw("the wall clock jumps");
            }
            Step::Kill { rewind, landed, back } => {
                self.rewind(*rewind);
                self.saw(if self.running.is_empty() { "an idle process is killed" } else { "a process is killed while handlers run" });
                self.kill(*landed, *back);
            }
            Step::Stop => self.stop(),
            Step::Leave { partition, how } => self.leave(*partition as usize % self.setting.partitions, *how),
            Step::Assign => self.assign(),
            Step::Operate { which, word } => self.operate(*which as usize, *word),
        }
        self.end_if_failed();
    }

    /// Time goes on, timer by timer.
    pub fn wait(&mut self, millis: u64) {
        let end = self.now + millis;
        while self.now < end {
            let until = self.machine.next_timer().map_or(end, |at| (at.0 + self.born).clamp(self.now + 1, end));
            self.pass(until - self.now);
            self.on(Event::Tick);
        }
    }

    /// A store that failed ends its process.
    fn end_if_failed(&mut self) {
        if self.failed {
            self.tell(|| "    the store failed: the process ends".into());
            self.saw("the store fails");
            self.kill(0, 0);
        }
    }

    fn sync(&mut self, how: Sync) {
        match how {
            _ if self.store.waiting() == 0 => return,
            Sync::Done => {}
            Sync::FailsBefore => self.store.fail_next([Fault::FailBefore]),
            Sync::FailsAfter => self.store.fail_next([Fault::FailAfter]),
            Sync::Broken => self.store.fail_next([Fault::SyncFails]),
        }
        self.sync_all();
        // Such a store says nothing any more, so that whoever asks it next ends the process.
        self.failed |= how == Sync::Broken;
    }

    /// The engine takes what the store answered.
    pub fn take(&mut self, count: usize) -> bool {
        let mut took = false;
        for _ in 0..count {
            let Some((ticket, appended)) = self.inbox.lock().expect("one thread").pop_front() else { break };
            took = true;
            match appended {
                Ok(appended) => {
                    self.tell(|| format!("    {} entries are durable", appended.answers.len()));
                    for answer in &appended.answers {
                        match answer {
                            Answer::Done(Some(known)) => self.judge_known(known),
                            Answer::Done(None) => {}
                            Answer::Lost(_) => self.saw("a permission is lost"),
                        }
                    }
                    self.on(Event::Appended { ticket, answers: appended.answers });
                }
                Err(error) => match error.bound() {
                    Some(bound) => {
                        self.saw("a batch is refused: the store is full");
                        self.on(Event::Refused { ticket, bound });
                    }
                    None => self.failed = true,
                },
            }
        }
        took
    }

    pub fn tick(&mut self) {
        let full = self.store.pressure().and_then(|full| full.bound());
        if full.is_some() {
            self.saw("the store is at a bound");
        }
        if self.machine.paused_routes().next().is_some() {
            self.saw("a route is paused");
        }
        self.on(Event::StoreFull(full));
        self.on(Event::CommitTick);
    }

    pub fn act(&mut self, attempt: AttemptKey, act: Act, delay: u64) {
        let running = self.running[&attempt].clone();
        let unknown = |reason| Outcome::Unknown(reason, String::new());
        let (id, now) = (attempt.1, self.now);
        let outcome = match act {
            _ if running.sent => {
                let landed = self.truth.of(&running.name).iter().find(|effect| effect.attempt == id);
                match landed.map(|effect| effect.reference.clone()) {
                    Some(reference) => {
                        self.saw("a hanging request is answered late");
                        Outcome::Applied(applied(&reference))
                    }
                    None => unknown(DoubtReason::Unknown),
                }
            }
            Act::Apply => Outcome::Applied(applied(&self.truth.request(&running, id, now))),
            Act::LoseAnswer => {
                self.truth.request(&running, id, now);
                unknown(DoubtReason::Unknown)
            }
            Act::GiveUp => {
                let delay = self.delay(delay);
                self.truth.send(&running, id, now, delay);
                unknown(DoubtReason::Unknown)
            }
            Act::Hang => {
                let delay = self.delay(delay);
                self.truth.send(&running, id, now, delay);
                self.running.entry(attempt).and_modify(|running| running.sent = true);
                return self.saw("a handler hangs");
            }
            Act::PanicBefore => unknown(DoubtReason::Panic),
            Act::NoEffect => Outcome::NoEffect("503".into()),
            Act::Reject => {
                self.saw("a handler rejects");
                Outcome::Rejected("over the limit".into())
            }
        };
        let outcome = match outcome {
            Outcome::Unknown(..) if self.broken == Broken::UnknownIsNoEffect => Outcome::NoEffect("gone".into()),
            outcome => outcome,
        };
        self.running.remove(&attempt);
        self.requests += 1;
        self.tell(|| format!("    {} attempt {}/{}: {}", running.name, id.number, id.claim, outcome.label()));
        self.on(Event::Finished { attempt, outcome });
    }

    /// Something outside answers. `well` is 0 for an answer that helps nobody.
    pub fn answer(&mut self, which: usize, well: u64) -> bool {
        if self.asked.is_empty() {
            return false;
        }
        let result = if well == 0 { Err("down".to_string()) } else { Ok(()) };
        let event = match self.asked.remove(which % self.asked.len()) {
            Asked::Load(key) => {
                let name = self.names[&key].clone();
                self.tell(|| format!("    {name} is loaded"));
                Event::Doubtful { key, known: self.known(key) }
            }
            Asked::Unpark(key, park) => {
                self.tell(|| format!("    the parked record {park:?} is read"));
                self.saw("a parked record is taken up");
                let number = usize::try_from(park.slot.partition).expect("valid");
                let row = self.broker.row(number, park.slot.offset).cloned();
                match (self.store.payload(&park).ok().flatten(), row) {
                    (Some(payload), Some(row)) => {
                        let (record, subject) = (payload.digest(), Arc::new(self.subject(&row)));
                        Event::Unparked { slot: park.slot.clone(), park, payload: Arc::new(payload), record, subject }
                    }
                    _ => Event::NotUnparked { key },
                }
            }
            Asked::DeadLetter { work, slot, reason } => {
                if result.is_ok() {
                    self.saw("a record goes to the dead-letter topic");
                    self.broker.dead_letter(usize::try_from(slot.partition).expect("valid"), slot.offset, reason);
                }
                Event::DeadLettered { work, result }
            }
            Asked::Letter { request, entry, slot } => {
                if result.is_err() {
                    return true;
                }
                self.broker.dead_letter(usize::try_from(slot.partition).expect("valid"), slot.offset, DeadLetterReason::Operator);
                Event::Operator { request, entry }
            }
            Asked::Reply(work) => Event::Replied { work, result },
            Asked::LookUp { key, started, at, name, seen } => {
                let finding = match well {
                    0 => Err("503".into()),
                    1 => Ok(Finding::Pending),
                    2 if self.setting.destination == Destination::Denies && !self.healed && !seen.is_empty() => {
                        self.saw("a lookup denies what is there");
                        self.truth.broken.insert(name.clone());
                        Ok(Finding::NotFound)
                    }
                    _ => {
                        self.truth.looked.insert(name.clone(), at);
                        let found: Vec<_> = seen.iter().map(|reference| applied(reference)).collect();
                        Ok(if found.is_empty() { Finding::NotFound } else { Finding::Found(found) })
                    }
                };
                self.tell(|| format!("    lookup of {name}: {finding:?}"));
                self.saw("a lookup ends");
                let started = if self.broken == Broken::HastyLookups { Monotonic(started.0 + 100_000) } else { started };
                Event::LookedUp { key, known: self.known(key), started, finding }
            }
        };
        self.on(event);
        true
    }

    fn rewind(&mut self, rewind: Option<(u64, u64)>) {
        let Some((number, back)) = rewind else { return };
        let log = &mut self.broker.logs[number as usize % self.setting.partitions];
        if let Some((committed, _)) = log.committed {
            log.committed = Some(((committed - i64::try_from(back).expect("short")).max(0), Writer::Nobody));
            self.saw("the group is rewound");
        }
    }

    fn leave(&mut self, number: usize, how: Leaves) {
        if !self.here[number].open {
            return;
        }
        let (assignment, now) = (self.assignment(number), self.clock().monotonic);
        match how {
            Leaves::Revoked => {
                self.saw("a partition is revoked");
                self.on(Event::Revoke { assignment, until: now.after(Duration::from_millis(300)) });
            }
            Leaves::Lost => {
                self.saw("a partition is lost");
                self.here[number].open = false;
                self.here[number].noted = None;
                self.on(Event::Lost { assignment });
            }
        }
    }

    /// A planned stop: what still runs at the deadline is cut off.
    fn stop(&mut self) {
        for number in 0..self.setting.partitions {
            self.leave(number, Leaves::Revoked);
        }
        for _ in 0..40 {
            self.sync_all();
            self.take(usize::MAX);
            self.tick();
            if self.machine.is_idle() {
                break;
            }
            self.pass(20);
            self.on(Event::Tick);
        }
        if self.machine.is_idle() && self.running.is_empty() && self.store.close().is_ok() {
            self.saw("a process stops cleanly");
            self.restart(0);
        } else {
            self.saw("a stop is cut off");
            self.kill(0, 0);
        }
    }

    /// Everything works from here on, and people look after what is left.
    fn heal(&mut self) {
        self.tell(|| "the world heals".into());
        self.healed = true;
        self.store.set_parked_bytes_max(u64::MAX);
        for _ in 0..12 {
            self.quiesce();
            if self.violation.is_some() {
                return;
            }
            self.judge_asked();
            let left = self.store.count(Which::InDoubt);
            if left == 0 {
                break;
            }
            // A person waits for the quiet period, and looks.
            self.wait(11_000);
            (0..left).for_each(|which| self.operate(which, Word::AsSeen));
        }
        self.quiesce();
        self.pass(100_000);
        self.judge_end();
    }

    /// Goes on until nothing moves any more but clocks.
    fn quiesce(&mut self) {
        let mut last = self.now;
        for _ in 0..50_000 {
            if self.violation.is_some() {
                return;
            }
            self.assign();
            let mut moved = (0..self.setting.partitions).filter(|number| self.deliver(*number, 100)).count() > 0;
            self.sync_all();
            moved |= self.take(usize::MAX);
            self.end_if_failed();
            // A parked record that waits for a permit is looked at again and again; that alone moves nothing.
            let only_load = matches!(self.asked.first(), Some(Asked::Load(_)));
            moved |= self.answer(0, 5) && !only_load;
            if let Some(attempt) = self.running.keys().next().copied() {
                self.act(attempt, Act::Apply, 0);
                moved = true;
            }
            if moved {
                last = self.now;
            }
            if moved || only_load {
                continue;
            }
            if self.now > last + STILL_MAX {
                return;
            }
            self.tick();
            (0..self.setting.partitions).for_each(|number| self.commit(number, Commit::Done));
            if self.store.waiting() > 0 || !self.inbox.lock().expect("one thread").is_empty() {
                continue;
            }
            match self.machine.next_timer() {
                Some(at) => self.pass(at.0.saturating_sub(self.clock().monotonic.0).max(1)),
                None => return,
            }
            self.on(Event::Tick);
        }
        self.wrong("liveness", "something goes on for ever".into());
    }
}
