//! What people do to partitions of a running process.

use crate::support::{
    broker,
    cluster::record,
    destination::{Behaviour, Server, is},
    process::wait_until,
    service::{self, Service, charge, operation_of},
};
use receipted::{
    protocol::{
        note::Author,
        refused::Refused,
        settle::{Act, Change},
    },
    runner::{PartitionAsk, PartitionLine, Reading, Word},
    store::{Partition, sled::verify},
};

fn partition(service: &Service, number: i32) -> Partition {
    Partition { topic: service.topic.as_str().into(), number }
}

fn word() -> Word {
    Word { by: Author::Operator { name: "ada".into(), uid: 1000 }, reason: "their maintenance".into() }
}

fn skip(service: &Service, offset: i64) -> Change {
    Change { act: Act::Skip(partition(service, 0).slot(offset)), by: word().by, reason: "agreed with billing".into() }
}

fn reading(lines: &[PartitionLine]) -> Vec<(i32, Reading)> {
    lines.iter().map(|line| (line.partition.number, line.reading)).collect()
}

fn to(number: i32, id: i64) -> crate::support::cluster::Record {
    charge("acme", id, 1).partition(number)
}

/// What runs ends, what comes waits on the broker, the other partition goes on; and afterwards nothing is missing or doubled.
pub fn a_paused_partition_waits_whole_and_the_other_goes_on() {
    let (server, folder) = (Server::start(), tempfile::tempdir().unwrap());
    let service = Service { drain_ms: 30_000, ..Service::new("paused", 2, server.address(), folder.path()) };
    let late = server.once(is(operation_of("acme", 1)), Behaviour::AnswerLate);
    let here = service.start_here();
    broker::shared().produce(&service.topic, (1..=50).map(|id| to(0, id)));
    server.wait_hits(late, 1, service::BOUND);
    let paused = here.asking(PartitionAsk::Pause(partition(&service, 0), word()));
    wait_until("a partition that drains", service::BOUND, || reading(&here.ask(PartitionAsk::List).unwrap())[0] == (0, Reading::Draining));
    server.release(late);
    assert_eq!(reading(&paused().unwrap()), [(0, Reading::Paused)]);
    let done = server.ledger().total();
    broker::shared().produce(&service.topic, (51..=80).map(|id| to(0, id)).chain((101..=140).map(|id| to(1, id))));
    service.wait_committed_of(1, 40);
    assert_eq!(server.ledger().total(), done + 40, "nothing of the paused one");
    let lines = here.ask(PartitionAsk::List).unwrap();
    assert_eq!(reading(&lines), [(0, Reading::Paused), (1, Reading::Open)]);
    let again = here.ask(PartitionAsk::Pause(partition(&service, 0), word())).unwrap();
    assert_eq!(reading(&again), [(0, Reading::Paused)], "said twice is said once");
    here.ask(PartitionAsk::Resume(partition(&service, 0), word())).unwrap();
    service.wait_committed_of(0, 80);
    assert_eq!(here.ask(PartitionAsk::Pause(partition(&service, 7), word())), Err(Refused::NoPartition));
    here.stop();
    let ledger = server.ledger();
    assert_eq!((ledger.total(), ledger.excess()), (120, 0));
}

/// A record whose outcome nobody knows, too large to be parked: the partition halts there, and goes on once a person has it skipped.
pub fn a_halted_partition_goes_on_without_the_slot_that_a_person_skips() {
    let (server, folder) = (Server::start(), tempfile::tempdir().unwrap());
    let service = Service { park_record_bytes_max: 1_000, ..Service::new("skipped", 1, server.address(), folder.path()) };
    server.once(is(operation_of("acme", 1)), Behaviour::LoseAnswer);
    let large = record(format!(r#"{{"id":"1","amount":1,"note":"{}"}}"#, "x".repeat(2_000))).key("acme-1").header("tenant", "acme");
    let here = service.start_here();
    broker::shared().produce(&service.topic, [charge("acme", 0, 1), large].into_iter().chain((2..200).map(|id| charge("acme", id, 1))));
    wait_until("a halted partition", service::BOUND, || reading(&here.ask(PartitionAsk::List).unwrap()) == [(0, Reading::Halted)]);
    let line = here.ask(PartitionAsk::List).unwrap().remove(0);
    assert_eq!(
        (line.halted_at, line.detail.as_ref().is_some_and(|why| why.contains("park_record_bytes_max"))),
        (Some(1), true),
        "{line:?}"
    );
    let refused = here.ask(PartitionAsk::Resume(partition(&service, 0), word())).unwrap_err();
    assert!(matches!(&refused, Refused::Halted { .. }) && refused.remedy().contains("partitions skip"), "{refused:?}");
    let slot = partition(&service, 0).slot(1);
    assert_eq!(here.perform(skip(&service, 2)), Err(Refused::NotHalted { at: Some(slot) }));
    here.perform(skip(&service, 1)).unwrap();
    service.wait_committed_of(0, 200);
    assert_eq!(reading(&here.ask(PartitionAsk::List).unwrap()), [(0, Reading::Open)]);
    assert!(matches!(here.perform(skip(&service, 1)), Err(Refused::NotHalted { at: None })));
    here.stop();
    let ledger = server.ledger();
    assert_eq!((ledger.total(), ledger.excess()), (200, 0), "the skipped one took effect, and nobody was told");
    let letters = broker::shared().read_all(&service.dead_letters);
    assert_eq!(letters.len(), 1, "{letters:?}");
    assert_eq!(
        (letters[0].header("x-receipted-origin-offset").as_deref(), letters[0].header("x-receipted-reason").as_deref()),
        (Some("1"), Some("operator"))
    );
    let store = service.open_store();
    assert_eq!(service::listed(&store).into_iter().collect::<Vec<_>>(), [operation_of("acme", 1)], "still in doubt, and listed");
    assert_eq!(service::parked(&store), []);
    drop(store);
    let report = verify(&service.store).unwrap();
    assert!(report.is_sound(), "{report}");
    // The next start begins behind it.
    broker::shared().produce(&service.topic, [charge("acme", 200, 1)]);
    let running = service.start();
    service.wait_committed_of(0, 201);
    running.stop();
    assert_eq!((server.requests("acme/"), server.ledger().excess()), (201, 0));
}
