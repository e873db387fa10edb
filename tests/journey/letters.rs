//! Cases about dead letters, and about what must not become one.

use crate::support::{
    broker,
    cluster::record,
    destination::{Behaviour, Server, any},
    service::{self, Service, charge},
};
use receipted::store::ReceiptStore;

/// An undecodable record among good ones, and a dead-letter topic that does not take it.
fn not_taken(prefix: &str, topic: impl FnOnce(&str)) {
    let (server, folder) = (Server::start(), tempfile::tempdir().unwrap());
    let base = Service::new(prefix, 1, server.address(), folder.path());
    let service = Service { dead_letters: format!("{}.strict", base.topic), ..base };
    topic(&service.dead_letters);
    let running = service.start();
    let broken = record("x".repeat(4_000)).key("broken").header("tenant", "acme");
    broker::shared().produce(&service.topic, [charge("acme", 1, 1), broken, charge("acme", 2, 1), charge("acme", 3, 1)]);
    service.wait_committed(4);
    assert!(running.child.output().contains("dead-letter topic does not take this record"), "{}", running.child.output());
    let said = running.stop();
    assert_eq!((server.ledger().total(), server.ledger().excess()), (3, 0), "the others go on");
    assert_eq!(said.sum("receipted_parked", &[("reason", "dead_letter_failed")]), Some(1.0));
    let store = service.open_store();
    let parked = service::parked(&store);
    assert_eq!(parked.iter().map(|(park, reason)| (park.slot.offset, *reason)).collect::<Vec<_>>(), [(1, "dead_letter_failed")]);
    let payload = store.payload(&parked[0].0).unwrap().unwrap();
    assert_eq!((payload.value.map(|value| value.len()), payload.key.as_deref()), (Some(4_000), Some(b"broken".as_slice())));
}

pub fn c72_a_dead_letter_topic_that_is_missing_parks_here_and_the_partition_goes_on() {
    not_taken("c72-missing", |_| {});
}

pub fn c72_a_dead_letter_topic_that_refuses_parks_here_and_the_partition_goes_on() {
    not_taken("c72-small", |name| broker::shared().create_topic(name, 1, &[("max.message.bytes", "1000")]));
}

pub fn c75_a_destination_that_is_away_for_a_while_dead_letters_nothing() {
    let (server, folder) = (Server::start(), tempfile::tempdir().unwrap());
    let service = Service { attempts_max: 10, ..Service::new("c75", 2, server.address(), folder.path()) };
    let away = server.always(any(), Behaviour::Unavailable);
    let running = service.start();
    broker::shared().produce(&service.topic, (0..252).map(|id| charge("acme", id, 1)));
    server.wait_hits(away, 3 * 252, service::BOUND);
    server.release(away);
    service.wait_committed(252);
    running.stop();
    let ledger = server.ledger();
    assert_eq!((ledger.total(), ledger.excess()), (252, 0));
    assert!(server.counts().values().all(|counts| counts.requests <= 10), "bounded");
    assert_eq!(broker::shared().read_all(&service.dead_letters), []);
    assert_eq!(service::parked(&service.open_store()), []);
}
