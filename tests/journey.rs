//! A record's whole way on the real broker, with kills. The judge is the destination's ledger.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod support;

use support::{
    broker,
    destination::{Behaviour, Server, any},
    process,
    service::{self, Service, charge, operation_of},
};

fn an_operation_takes_effect_once_and_its_offset_is_committed() {
    let (server, folder) = (Server::start(), tempfile::tempdir().unwrap());
    let service = Service::new("once", 2, server.address(), folder.path());
    let running = service.start().ready();
    let records: Vec<_> = (0..20).flat_map(|id| [charge("acme", id, 7), charge("acme", id, 7)]).collect();
    broker::shared().produce(&service.topic, records);
    service.wait_committed(40);
    running.stop();
    let ledger = server.ledger();
    assert_eq!((ledger.total(), ledger.excess()), (20, 0));
    assert_eq!(ledger.of(&operation_of("acme", 3)).len(), 1);
}

fn c01_a_kill_between_effect_and_fact_is_listed_and_never_run_again() {
    let (server, folder) = (Server::start(), tempfile::tempdir().unwrap());
    let service = Service::new("c01", 1, server.address(), folder.path());
    let kill = server.once(any(), Behaviour::KillAfter);
    let mut running = service.start().ready();
    broker::shared().produce(&service.topic, [charge("acme", 1, 500)]);
    server.wait_hits(kill, 1, service::BOUND);
    running.child.wait(service::BOUND);
    let running = service.start().ready();
    service.wait_committed(1);
    running.stop();
    assert_eq!(server.ledger().total(), 1);
    let store = service.open_store();
    assert_eq!(service::parked(&store).iter().map(|(_, reason)| *reason).collect::<Vec<_>>(), ["unresolved"]);
}

fn main() {
    let tests = trials![real broker:
        an_operation_takes_effect_once_and_its_offset_is_committed,
        c01_a_kill_between_effect_and_fact_is_listed_and_never_run_again,
    ];
    process::run(tests, &[("service", service::role)]);
}
