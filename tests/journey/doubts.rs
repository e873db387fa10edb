//! Cases about answers that are lost, late or contradict, and about repeats of what is under way.

use crate::support::{
    broker,
    destination::{Behaviour, Memory, Server, any, is},
    process::wait_until,
    service::{self, InDoubt, Service, charge, operation_of},
};
use receipted::{protocol::change::Total, store::ReceiptStore};
use tempfile::TempDir;

fn place(name: &str, partitions: i32) -> (Server, TempDir, Service) {
    let (server, folder) = (Server::start(), tempfile::tempdir().unwrap());
    let service = Service::new(name, partitions, server.address(), folder.path());
    (server, folder, service)
}

pub fn c02_a_process_killed_in_front_of_a_congested_destination_leaves_one_effect_or_a_listing() {
    let (server, _folder, service) = place("c02", 2);
    let (late, hung) = (server.times(4, any(), Behaviour::AnswerLate), server.times(4, any(), Behaviour::Hang));
    let mut running = service.start();
    broker::shared().produce(&service.topic, (0..40).map(|id| charge("acme", id, 1)));
    server.wait_hits(late, 4, service::BOUND);
    server.wait_hits(hung, 4, service::BOUND);
    // As the kernel does when memory is out.
    running.kill();
    server.release_all();
    let running = service.start();
    service.wait_committed(40);
    running.stop();
    let (ledger, listed) = (server.ledger(), service::listed(&service.open_store()));
    assert!(listed.len() >= 8, "what was congested is listed: {listed:?}");
    for operation in (0..40).map(|id| operation_of("acme", id)) {
        let effects = ledger.of(&operation).len();
        assert!(effects == 1 || (effects == 0 && listed.contains(&operation)), "{operation}: {effects} effects");
    }
    let asked_once = (0..40).all(|id| server.count(&operation_of("acme", id)).requests <= 1);
    assert!(asked_once, "and none was silently run again");
}

pub fn c10_a_process_that_dies_between_admission_and_effect_drops_nothing() {
    let (server, _folder, service) = place("c10", 1);
    let service = Service { in_doubt: InDoubt::Ask, ..service };
    let kill = server.once(any(), Behaviour::KillBefore);
    let mut running = service.start();
    broker::shared().produce(&service.topic, [charge("acme", "alert", 1)]);
    server.wait_hits(kill, 1, service::BOUND);
    running.child.wait(service::BOUND);
    assert_eq!(server.ledger().total(), 0);
    let mut running = service.start();
    service.wait_committed(1);
    running.wait_open(0, 0);
    running.stop();
    assert_eq!(server.ledger().of(&operation_of("acme", "alert")).len(), 1, "asked, not found, and sent");
}

pub fn c17_a_destination_that_already_has_it_closes_the_attempt_that_lost_its_answer() {
    let (server, _folder, service) = place("c17", 1);
    let service = Service { in_doubt: InDoubt::Deduplicates, ..service };
    server.memory(any(), Memory::ByKey);
    server.once(any(), Behaviour::LoseAnswer);
    let mut running = service.start();
    broker::shared().produce(&service.topic, [charge("acme", 1, 5)]);
    service.wait_committed(1);
    running.wait_open(0, 0);
    let said = running.stop();
    let count = server.count(&operation_of("acme", 1));
    assert_eq!((count.effects, count.requests, count.recognised), (1, 2, 1));
    assert_eq!(said.sum("receipted_attempts_finished_total", &[("result", "already")]), Some(1.0));
    let store = service.open_store();
    assert_eq!((service::parked(&store).len(), store.incidents(0, 10).unwrap().len()), (0, 0), "no doubt, and no duplicate");
    assert_eq!(store.totals().get(&Total::PriorEffects("unknown_attempt".into())), Some(&1));
}

pub fn c67_an_old_key_with_another_amount_is_parked_and_counted() {
    let (server, _folder, service) = place("c67", 1);
    let running = service.start();
    broker::shared().produce(&service.topic, [charge("acme", 1, 10), charge("acme", 1, 20)]);
    service.wait_committed(2);
    let said = running.stop();
    assert_eq!(server.ledger().of(&operation_of("acme", 1)).iter().map(|effect| effect.amount).collect::<Vec<_>>(), [10]);
    let parked = service::parked(&service.open_store());
    assert_eq!(parked.iter().map(|(park, reason)| (park.slot.offset, *reason)).collect::<Vec<_>>(), [(1, "conflict")]);
    assert_eq!(said.sum("receipted_parameter_conflicts_total", &[]), Some(1.0));
    // Right after a start no more is in memory of an applied operation than two digests.
    let running = service.start();
    broker::shared().produce(&service.topic, [charge("acme", 1, 30), charge("acme", 1, 10)]);
    service.wait_committed(4);
    let said = running.stop();
    assert_eq!(server.ledger().of(&operation_of("acme", 1)).len(), 1);
    let parked = service::parked(&service.open_store());
    assert_eq!(parked.iter().map(|(park, reason)| (park.slot.offset, *reason)).collect::<Vec<_>>(), [(1, "conflict"), (2, "conflict")]);
    assert_eq!(said.sum("receipted_suppressed_total", &[("reason", "settled")]), Some(1.0));
}

pub fn c69_the_same_event_five_times_and_two_at_once_is_one_increment() {
    let (server, _folder, service) = place("c69", 2);
    let credit = operation_of("acme", "credit");
    let late = server.once(is(&credit), Behaviour::AnswerLate);
    let running = service.start();
    let cluster = broker::shared();
    cluster.produce(&service.topic, (0..4).map(|delivery| charge("acme", "credit", 1).partition(delivery % 2)));
    server.wait_hits(late, 1, service::BOUND);
    server.release(late);
    service.wait_committed(4);
    cluster.produce(&service.topic, [charge("acme", "credit", 1)]);
    service.wait_committed(5);
    let said = running.stop();
    assert_eq!((server.count(&credit).requests, server.ledger().total()), (1, 1));
    assert_eq!(said.sum("receipted_suppressed_total", &[]), Some(4.0));
}

pub fn c31_a_repeat_on_another_partition_waits_for_the_attempt_that_runs() {
    let (server, _folder, service) = place("c31", 2);
    let operation = operation_of("acme", 1);
    let late = server.once(is(&operation), Behaviour::AnswerLate);
    let running = service.start();
    let cluster = broker::shared();
    cluster.produce(&service.topic, [charge("acme", 1, 1).partition(0)]);
    server.wait_hits(late, 1, service::BOUND);
    cluster.produce(&service.topic, [charge("acme", 1, 1).partition(1), charge("acme", 2, 1).partition(1)]);
    wait_until("the neighbour behind the repeat", service::BOUND, || server.ledger().total() == 2);
    assert_eq!((server.count(&operation).requests, service.committed()), (1, 0));
    server.release(late);
    service.wait_committed(3);
    let said = running.stop();
    assert_eq!((server.count(&operation).requests, server.ledger().excess()), (1, 0));
    assert_eq!(said.sum("receipted_suppressed_total", &[("reason", "running")]), Some(1.0));
}
