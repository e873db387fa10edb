//! Cases about offsets: what is committed, what comes again, and what becomes of it.

use crate::support::{
    broker,
    destination::{Behaviour, Memory, Server, any, is},
    service::{self, InDoubt, Order, Running, Service, charge, operation_of},
};
use receipted::store::ReceiptStore;
use tempfile::TempDir;

const CONTRACTS: [InDoubt; 3] = [InDoubt::Hold, InDoubt::Ask, InDoubt::Deduplicates];

fn place(name: &str, partitions: i32) -> (Server, TempDir, Service) {
    let (server, folder) = (Server::start(), tempfile::tempdir().unwrap());
    let service = Service::new(name, partitions, server.address(), folder.path());
    (server, folder, service)
}

/// One for each contract, on a destination that honestly knows its keys.
fn each_contract(name: &str, partitions: i32) -> impl Iterator<Item = (Server, TempDir, Service)> {
    CONTRACTS.into_iter().map(move |in_doubt| {
        let (server, folder, service) = place(name, partitions);
        server.memory(any(), Memory::ByKey);
        (server, folder, Service { in_doubt, order: Order::Unordered, ..service })
    })
}

fn open(service: &Service) -> Vec<&'static str> {
    service::parked(&service.open_store()).into_iter().map(|(_, reason)| reason).collect()
}

pub fn c03_a_rewind_by_2340_completed_records_dispatches_nothing() {
    let (server, _folder, service) = place("c03", 1);
    let service = Service { replies: true, ..service };
    let running = service.start();
    broker::shared().produce(&service.topic, (0..2_340).map(|id| charge("acme", id, 78)));
    service.wait_committed(2_340);
    running.stop();
    assert_eq!(server.requests("acme/"), 2_340);

    broker::shared().rewind(&service.group, &service.topic, 0, 0);
    let running = service.start();
    service.wait_committed(2_340);
    assert!(running.child.output().contains("moved back"), "operators are told");
    let said = running.stop();
    assert_eq!(server.requests("acme/"), 2_340, "not one dispatch");
    assert_eq!(server.ledger().excess(), 0);
    assert_eq!(said.sum("receipted_offset_regressions_total", &[]), Some(1.0));
    assert_eq!(said.sum("receipted_suppressed_total", &[("reason", "settled")]), Some(2_340.0));
    assert_eq!(said.sum("receipted_attempts_started_total", &[]), Some(0.0), "no permit for an effect was given");
    let replays = server.counts().iter().filter(|(name, _)| name.ends_with("/replay")).map(|(_, counts)| counts.effects).sum::<u64>();
    assert_eq!(replays, 2_340, "each was answered from its receipt");
}

pub fn c06_a_later_record_that_is_done_does_not_commit_an_earlier_one_that_runs() {
    for (server, _folder, service) in each_contract("c06", 1) {
        let (first, second) = (operation_of("acme", 1), operation_of("acme", 2));
        server.once(is(&first), Behaviour::AnswerLate);
        let answer = server.once(is(&second), Behaviour::AnswerLate);
        let mut running = service.start().ready();
        broker::shared().produce(&service.topic, [charge("acme", 1, 1), charge("acme", 2, 2)]);
        running.wait_open(2, 0);
        server.release(answer);
        running.wait_open(1, 0);
        running.kill();
        assert_eq!(service.committed(), 0, "the first still ran");
        server.release_all();

        let mut running = service.start();
        service.wait_committed(2);
        let held = matches!(service.in_doubt, InDoubt::Hold);
        running.wait_open(usize::from(held), usize::from(held));
        let said = running.stop();
        assert_eq!(server.count(&second).requests, 1, "the second is suppressed");
        assert_eq!(said.sum("receipted_suppressed_total", &[("reason", "settled")]), Some(1.0));
        let asked = server.count(&first);
        match service.in_doubt {
            InDoubt::Hold => assert_eq!((asked.requests, asked.lookups), (1, 0)),
            InDoubt::Ask => assert!(asked.requests == 1 && asked.lookups > 0, "{asked:?}"),
            _ => assert_eq!((asked.requests, asked.recognised), (2, 1)),
        }
        assert_eq!((server.ledger().total(), server.ledger().excess()), (2, 0));
    }
}

pub fn c07_a_stop_commits_up_to_the_lowest_record_that_is_not_done_and_loses_none() {
    let (server, _folder, service) = place("c07", 1);
    let service = Service { order: Order::Unordered, in_doubt: InDoubt::Ask, drain_ms: 500, ..service };
    let fifth = operation_of("acme", 5);
    let blocked = server.once(is(&fifth), Behaviour::Hang);
    let running = service.start().ready();
    broker::shared().produce(&service.topic, (0..10).map(|id| charge("acme", id, 1)));
    server.wait_hits(blocked, 1, service::BOUND);
    service.wait_committed(5);
    running.stop();
    assert_eq!((service.committed(), server.ledger().total()), (5, 9));
    server.release(blocked);

    let mut running = service.start();
    service.wait_committed(10);
    running.wait_open(0, 0);
    running.stop();
    let ledger = server.ledger();
    assert_eq!((ledger.total(), ledger.excess(), ledger.of(&fifth).len()), (10, 0, 1));
    let once = (0..10).filter(|id| *id != 5).all(|id| server.count(&operation_of("acme", id)).requests == 1);
    assert!(once, "those above the offset came again, and were suppressed");
}

pub fn c08_automatic_commits_cannot_be_switched_on_and_a_record_that_crashed_comes_again() {
    let (server, _folder, mut service) = place("c08", 2);
    // The defaults of a client, which are refused by name however they come.
    for (name, value) in [("enable.auto.commit", "true"), ("enable.auto.offset.store", "true"), ("auto.commit.interval.ms", "10")] {
        service.client.insert(name.into(), value.into());
        service.assert_refused(&[name, "not yours to set"]);
        service.client.clear();
    }
    let hung = server.once(is(operation_of("acme", 1)), Behaviour::Hang);
    let mut running = service.start().ready();
    broker::shared().produce(&service.topic, [charge("acme", 1, 1).partition(0)]);
    server.wait_hits(hung, 1, service::BOUND);
    broker::shared().produce(&service.topic, [charge("acme", 2, 1).partition(1)]);
    service.wait_committed(1);
    running.kill();
    assert!(
        broker::shared().committed(&service.group, &service.topic, 0).is_none_or(|committed| committed.offset == 0),
        "handed over, and not committed"
    );
    server.release_all();
    let running = service.start();
    service.wait_committed(2);
    running.stop();
    assert_eq!(open(&service), ["unresolved"], "redelivered, and listed");
}

pub fn c12_tasks_that_were_started_and_not_finished_come_again_and_go_by_their_contract() {
    for (server, _folder, service) in each_contract("c12", 2) {
        let service = Service { permits: 20, tenant_permits_max: 20, ..service };
        let hung = server.always(any(), Behaviour::Hang);
        let mut running = service.start().ready();
        broker::shared().produce(&service.topic, (0..20).map(|id| charge("acme", id, 1)));
        server.wait_hits(hung, 20, service::BOUND);
        running.kill();
        assert_eq!((service.committed(), server.ledger().total()), (0, 0), "none is done because it was started");
        server.release(hung);

        let mut running = service.start();
        service.wait_committed(20);
        let held = if matches!(service.in_doubt, InDoubt::Hold) { 20 } else { 0 };
        running.wait_open(held, held);
        running.stop();
        let ledger = server.ledger();
        assert_eq!((ledger.total(), ledger.excess()), (20 - held, 0), "{:?}", service.in_doubt);
        assert_eq!(open(&service).len(), held);
    }
}

pub fn c40_a_hundred_repeats_of_what_is_done_are_suppressed_and_their_offsets_move() {
    let (server, _folder, service) = place("c40", 1);
    let running = service.start();
    broker::shared().produce(&service.topic, [charge("acme", 1, 1)]);
    service.wait_committed(1);
    broker::shared().produce(&service.topic, (0..100).map(|_| charge("acme", 1, 1)));
    service.wait_committed(101);
    let said = running.stop();
    assert_eq!(server.count(&operation_of("acme", 1)).requests, 1);
    assert_eq!(said.sum("receipted_suppressed_total", &[("reason", "settled")]), Some(100.0));
    assert_eq!(broker::shared().read_all(&service.dead_letters), []);
    assert_eq!(open(&service), [""; 0]);
}

pub fn c76_an_error_moves_no_offset_until_there_is_an_outcome() {
    let (server, _folder, service) = place("c76", 1);
    let service = Service { order: Order::Unordered, attempts_max: 50, ..service };
    let failing = server.always(is(operation_of("acme", 0)), Behaviour::Unavailable);
    let lost = server.once(is(operation_of("acme", 1)), Behaviour::LoseRequest);
    let running: Running = service.start();
    broker::shared().produce(&service.topic, (0..10).map(|id| charge("acme", id, 1)));
    // Its back-offs are longer than the time between two commits.
    server.wait_hits(failing, 4, service::BOUND);
    server.wait_hits(lost, 1, service::BOUND);
    crate::support::process::wait_until("the neighbours", service::BOUND, || server.ledger().total() == 8);
    assert_eq!(service.committed(), 0, "an error is no acknowledgement");
    server.release(failing);
    service.wait_committed(10);
    running.stop();
    let store = service.open_store();
    assert_eq!(service::parked(&store).iter().map(|(park, reason)| (park.slot.offset, *reason)).collect::<Vec<_>>(), [(1, "unresolved")]);
    let payload = store.payload(&service::parked(&store)[0].0).unwrap().unwrap();
    assert_eq!(payload.value.as_deref(), Some(br#"{"id":"1","amount":1}"#.as_slice()), "kept whole until somebody settles it");
    assert_eq!((server.ledger().total(), server.ledger().excess()), (9, 0));
}
