//! Runners killed at random moments on the real broker. The judge is the destination's ledger, and two naive protections show that
//! it bites. Rerun a seed with `RECEIPTED_SEED=n cargo test --test kills NAME`.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used)]

#[path = "kills/load.rs"]
mod load;
#[path = "kills/naive.rs"]
mod naive;
mod support;

use load::{Account, Dice, Load, kills, run_until_killed};
use naive::{Claim, Naive};
use receipted::store::{ReceiptStore, Which};
use std::collections::BTreeSet;
use support::{
    broker,
    cluster::Cluster,
    destination::{Behaviour, Memory, Server, any, is},
    process::{self, wait_until},
    service::{self, InDoubt, Service, charge, operation_of},
};

const PARTITIONS: i32 = 6;
const PERMITS: usize = 16;

struct Run {
    service: Service,
    server: Server,
    load: Load,
    account: Account,
    kills: usize,
    _folder: tempfile::TempDir,
}

/// Produces a load, kills the runner again and again, and lets the last one finish.
fn run(name: &str, operations: usize, count: usize, set: impl FnOnce(Service) -> Service, memory: Memory) -> Run {
    let mut dice = Dice::new(name);
    let (server, folder) = (Server::start(), tempfile::tempdir().unwrap());
    server.memory(any(), memory);
    let service = set(Service { permits: PERMITS, ..Service::new(name, PARTITIONS, server.address(), folder.path()) });
    let load = Load::new(&mut dice, operations);
    broker::shared().produce(&service.topic, load.records.clone());
    for (requests, kill) in kills(&mut dice, count, operations) {
        run_until_killed(&server, &mut service.start().child, requests, kill);
    }
    let mut running = service.start();
    service.wait_committed(i64::try_from(load.records.len()).unwrap());
    if !matches!(service.in_doubt, InDoubt::Hold) {
        running.wait_open(0, 0);
    }
    running.stop();
    let store = service.open_store();
    let account = Account::of(&load, &server.ledger(), &service::listed(&store));
    println!("{name}: {count} kills, {account}");
    Run { service, server, load, account, kills: count, _folder: folder }
}

impl Run {
    fn nothing_is_lost_and_nothing_doubled(&self) {
        assert_eq!((self.account.lost, self.account.doubled_silently, self.account.doubled_and_listed), (0, 0, 0));
        let cluster: &Cluster = broker::shared();
        for partition in 0..PARTITIONS {
            let end = cluster.log_range(&self.service.topic, partition).1;
            let committed = cluster.committed(&self.service.group, &self.service.topic, partition).map_or(0, |committed| committed.offset);
            assert_eq!(committed, end, "partition {partition} is done to its end");
        }
        assert_eq!(cluster.read_all(&self.service.dead_letters), [], "nothing of it was undecodable or exhausted");
    }
}

fn twenty_kills_under_hold_lose_nothing_and_repeat_nothing() {
    let run = run("hold", 20_000, 20, |service| service, Memory::None);
    run.nothing_is_lost_and_nothing_doubled();
    assert!(run.account.listed > 0, "kills between admission and fact leave doubts, and they are listed");
    assert!(run.account.listed <= run.kills * PERMITS, "at most the permits a kill");
    // Stronger than the ledger: no handler was even asked a second time.
    let counts = run.server.counts();
    let again = run.load.operations.iter().filter(|operation| counts.get(*operation).is_some_and(|c| c.requests > 1));
    assert_eq!(again.count(), 0);
    let silent = run.load.operations.iter().filter(|operation| !counts.contains_key(*operation)).count();
    assert!(silent <= run.account.listed, "what was never asked for is listed");
}

fn kills_under_ask_end_with_every_operation_applied_once() {
    let run = run("ask", 4_000, 6, |service| Service { in_doubt: InDoubt::Ask, ..service }, Memory::None);
    run.nothing_is_lost_and_nothing_doubled();
    assert_eq!((run.account.effects, run.account.listed), (4_000, 0));
    assert!(run.server.counts().values().map(|counts| counts.lookups).sum::<u64>() > 0, "there was something to ask about");
}

fn kills_under_an_honest_deduplicating_destination_end_with_every_operation_applied_once() {
    let run = run("deduplicates", 4_000, 6, |service| Service { in_doubt: InDoubt::Deduplicates, ..service }, Memory::ByKey);
    run.nothing_is_lost_and_nothing_doubled();
    assert_eq!((run.account.effects, run.account.listed), (4_000, 0));
    let counts = run.server.counts();
    let recognised: u64 = counts.values().map(|counts| counts.recognised).sum();
    assert!(recognised > 0, "reruns reached the destination");
    assert!(recognised <= (run.kills * PERMITS) as u64, "only what was in doubt ran again");
}

/// The same with three kills, and a plain set of keys in place of receipts.
fn naive(name: &str, claim: Claim) -> Account {
    let mut dice = Dice::new(name);
    let (server, folder) = (Server::start(), tempfile::tempdir().unwrap());
    let operations = 20_000;
    let load = Load::new(&mut dice, operations);
    let topic = broker::shared().fresh_topic(name, PARTITIONS);
    broker::shared().produce(&topic, load.records.clone());
    let naive = Naive::new(&topic, server.address(), folder.path().join("claims"), claim);
    for (requests, kill) in kills(&mut dice, 3, operations) {
        run_until_killed(&server, &mut naive.start(), requests, kill);
    }
    let mut child = naive.start();
    wait_until("the naive consumer at the end of its topic", service::BOUND, || {
        assert!(child.ended().is_none(), "{}", child.output());
        let done = |partition| broker::shared().committed(&naive.group, &topic, partition).map_or(0, |committed| committed.offset);
        (0..PARTITIONS).map(done).sum::<i64>() >= i64::try_from(load.records.len()).unwrap()
    });
    let account = Account::of(&load, &server.ledger(), &BTreeSet::new());
    println!("{name}: 3 kills, {account}");
    account
}

fn a_set_that_is_written_first_loses() {
    let account = naive("claim-first", Claim::First);
    assert!(account.lost > 0, "{account}");
}

fn a_set_that_is_written_afterwards_doubles() {
    let account = naive("claim-after", Claim::After);
    assert!(account.doubled_silently > 0, "{account}");
}

fn a_kill_leaves_at_most_as_many_in_doubt_as_there_are_permits() {
    let (server, folder) = (Server::start(), tempfile::tempdir().unwrap());
    let service = Service { permits: PERMITS, ..Service::new("queued", PARTITIONS, server.address(), folder.path()) };
    broker::shared().produce(&service.topic, (0..10_000).map(|id| charge("acme", id, 1)));
    server.times(3_000, any(), Behaviour::Answer);
    let hung = server.always(any(), Behaviour::Hang);
    let mut running = service.start();
    server.wait_hits(hung, PERMITS as u64, service::BOUND);
    running.kill();
    server.release(hung);
    let store = service.open_store();
    let in_doubt = store.count(Which::InDoubt);
    drop(store);
    println!("queued: 10000 records, {PERMITS} permits, 1 kill: {in_doubt} in doubt");
    assert_eq!(in_doubt, PERMITS, "those that hung, and nothing that only waited");
    let running = service.start();
    service.wait_committed(10_000);
    running.stop();
    let unresolved = service::parked(&service.open_store());
    assert!(unresolved.len() <= PERMITS && unresolved.iter().all(|(_, reason)| *reason == "unresolved"), "{unresolved:?}");
    assert_eq!((server.ledger().total(), server.ledger().excess()), (10_000 - unresolved.len(), 0));
}

fn a_handler_that_kills_its_process_is_parked_after_its_attempts_and_its_neighbours_are_not() {
    let (server, folder) = (Server::start(), tempfile::tempdir().unwrap());
    server.memory(any(), Memory::ByKey);
    let base = Service::new("poison", 1, server.address(), folder.path());
    let service = Service { in_doubt: InDoubt::Deduplicates, attempts_max: 3, ..base };
    broker::shared().produce(&service.topic, (0..12).map(|id| charge("acme", id, 1)));
    let poison = operation_of("acme", 5);
    let killing = server.always(is(&poison), Behaviour::KillBefore);
    let mut deaths = 0;
    let running = loop {
        let mut running = service.start();
        wait_until("a death or the end of the topic", service::BOUND, || running.child.ended().is_some() || service.committed() == 12);
        match running.child.ended() {
            Some(status) => assert!(status.code().is_none(), "killed by a signal: {}", running.child.output()),
            None => break running,
        }
        deaths += 1;
    };
    running.stop();
    assert_eq!((deaths, server.hits(killing)), (3, 3));
    let parked = service::parked(&service.open_store());
    let parked: Vec<_> = parked.iter().map(|(park, reason)| (park.slot.offset, *reason)).collect();
    assert_eq!(parked, [(5, "poison")]);
    let ledger = server.ledger();
    assert_eq!((ledger.total(), ledger.excess(), ledger.of(&poison).len()), (11, 0, 0));
}

fn main() {
    let tests = trials![real broker:
        twenty_kills_under_hold_lose_nothing_and_repeat_nothing,
        kills_under_ask_end_with_every_operation_applied_once,
        kills_under_an_honest_deduplicating_destination_end_with_every_operation_applied_once,
        a_set_that_is_written_first_loses,
        a_set_that_is_written_afterwards_doubles,
        a_kill_leaves_at_most_as_many_in_doubt_as_there_are_permits,
        a_handler_that_kills_its_process_is_parked_after_its_attempts_and_its_neighbours_are_not,
    ];
    process::run(tests, &[("service", service::role), ("naive", naive::role)]);
}
