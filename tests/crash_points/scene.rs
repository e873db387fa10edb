//! Owns a world around the process under test: its topic, its destination with a script, its store, and its starts. It does not own
//! which faults there are.

use crate::{
    judge::Expected,
    support::{
        broker,
        cluster::{Record, record},
        destination::{Behaviour, Memory, Server, is, prefix},
        process::{self, Child, wait_until},
        service::{BOUND, Running, Service, operation_of},
    },
    world::{PLAN, RECORDS, SETTLED},
};
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// How long a process may take from its start until it is settled, or has ended. On a machine with nothing else to do it is two seconds.
const SETTLE: Duration = Duration::from_secs(90);
/// How long one that was told of a fault may do neither.
const STILL: Duration = Duration::from_secs(30);

/// What the destination is to do about an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Plain,
    /// It takes effect, and the first answer is lost.
    AnswerLost,
    /// The first request is lost.
    RequestLost,
    /// The destination is down at first.
    Later,
    /// It is down for good.
    Never,
    Refused,
}

pub struct Scene {
    pub service: Service,
    pub server: Server,
    pub expected: Expected,
    /// Records that were produced.
    pub records: usize,
    _folder: tempfile::TempDir,
}

/// What became of a process that is to die on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    ByItself,
    /// It settled before.
    Killed,
}

impl Scene {
    pub fn new(name: &str) -> Self {
        let (server, folder) = (Server::start(), tempfile::tempdir().expect("a folder"));
        server.memory(prefix("acme/charge/dedup-"), Memory::ByKey);
        let base = Service::new(name, 2, server.address(), folder.path());
        let service = Service { attempts_max: 3, quiet_ms: 300, drain_ms: 1_000, ..base };
        Self { service, server, expected: Expected::default(), records: 0, _folder: folder }
    }

    /// A record of a new operation that is to have this fate. The id begins with its route.
    pub fn operation(&mut self, id: &str, fate: Fate) -> Record {
        let operation = operation_of("acme", id);
        match fate {
            Fate::Plain => {}
            Fate::AnswerLost => drop(self.server.once(is(&operation), Behaviour::LoseAnswer)),
            Fate::RequestLost => drop(self.server.once(is(&operation), Behaviour::LoseRequest)),
            Fate::Later => drop(self.server.once(is(&operation), Behaviour::Unavailable)),
            Fate::Never => drop(self.server.always(is(&operation), Behaviour::Unavailable)),
            Fate::Refused => drop(self.server.always(is(&operation), Behaviour::Reject("no such account".into()))),
        }
        self.expected.operations.push(operation);
        charge(id, 7)
    }

    /// A record that can only become a dead letter.
    pub fn undecodable(&mut self, record: Record) -> Record {
        self.expected.undecodable.extend(record.value.clone());
        record
    }

    pub fn produce(&mut self, records: Vec<Record>) {
        self.records += records.len();
        let spread = records.into_iter().enumerate().map(|(at, record)| record.partition(i32::from(at % 3 == 2)));
        broker::shared().produce(&self.service.topic, spread);
    }

    pub fn start(&self, plan: Option<&str>) -> Running {
        let start = process::role("crashing").env(RECORDS, self.records.to_string());
        self.service.start_as(match plan {
            Some(plan) => start.env(PLAN, plan),
            None => start,
        })
    }

    /// Runs a process to its end; one that settles is told to stop. None when it stands still instead.
    pub fn run_to_its_end(&self, plan: &str) -> Option<()> {
        let mut child = self.start(Some(plan)).child;
        let (mut told, mut reached, end) = (false, None, Instant::now() + SETTLE);
        while child.ended().is_none() {
            if reached.is_none() && was_reached(&child, plan) {
                reached = Some(Instant::now());
            }
            if !told && child.newest_line(SETTLED).is_some() {
                child.signal(Signal::TERM);
                told = true;
            }
            if reached.is_some_and(|at: Instant| at.elapsed() > STILL) {
                eprintln!("{plan}: it stands still:\n{}", child.output());
                child.kill();
                return None;
            }
            assert!(Instant::now() < end, "{plan}: it is not reached, and it does not end:\n{}", child.output());
            process::pause();
        }
        child.wait(BOUND);
        assert!(was_reached(&child, plan), "{plan}: it is not reached:\n{}", child.output());
        Some(())
    }

    /// Runs a process until it dies, or kills it once it is settled.
    pub fn run_until_dead(&self, plan: Option<&str>) -> Ended {
        let mut child = self.start(plan).child;
        let mut ended = Ended::ByItself;
        wait_until(&format!("the death of {plan:?}"), SETTLE, || {
            if child.newest_line(SETTLED).is_some() {
                ended = Ended::Killed;
                child.kill();
            }
            child.ended().is_some()
        });
        let status = child.wait(BOUND);
        assert!(status.code().is_none(), "it was to be killed, and ended with {status}:\n{}", child.output());
        ended
    }

    /// Runs a process that nothing is done to, until everything is settled and committed. Gives what it said.
    pub fn run_whole(&self, plan: Option<&str>) -> Vec<String> {
        let mut child = self.start(plan).child;
        wait_until("a settled service", SETTLE, || {
            assert!(child.ended().is_none(), "the service ended:\n{}", child.output());
            child.newest_line(SETTLED).is_some()
        });
        // A store that was complete already says so before its partitions are even assigned.
        self.service.wait_committed(i64::try_from(self.records).expect("a number"));
        child.signal(Signal::TERM);
        child.wait_success(BOUND);
        child.lines()
    }
}

fn was_reached(child: &Child, plan: &str) -> bool {
    let point = plan.split(' ').next().unwrap_or_default();
    child.newest_line(&format!("receipted-crash-point {point} is here")).is_some()
}

/// A record of an operation, whose id begins with its route.
pub fn charge(id: &str, amount: u64) -> Record {
    let route = id.split('-').next().unwrap_or_default();
    record(format!(r#"{{"id":"{id}","amount":{amount}}}"#)).key(format!("key-{id}")).header("tenant", "acme").header("type", route)
}
