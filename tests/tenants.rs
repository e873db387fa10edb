//! One tenant's hot, failing or unresolved work does not hold up another's: counted in handler starts, as the destination sees them.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod support;

use support::{
    broker,
    destination::{Behaviour, Server, prefix},
    process::{self, wait_until},
    service::{self, InDoubt, Service, charge, operation_of},
};

const HOT: u32 = 300;
const OTHERS: u32 = 20;

/// Tenant `hot`'s records come first, then tenant `other`'s: to the same partition, or to the next one.
#[derive(Clone, Copy)]
enum Where {
    SamePartition,
    OtherPartition,
}

struct World {
    server: Server,
    service: Service,
    _folder: tempfile::TempDir,
}

fn world(name: &str, set: impl FnOnce(&mut Service)) -> World {
    let (server, folder) = (Server::start(), tempfile::tempdir().unwrap());
    let mut service = Service::new(name, 2, server.address(), folder.path());
    (service.permits, service.tenant_permits_max) = (4, 2);
    set(&mut service);
    World { server, service, _folder: folder }
}

impl World {
    fn produce(&self, place: Where, hot_key: Option<&str>) {
        let hot = (0..HOT).map(|id| {
            let record = charge("hot", id, 7).partition(0);
            if let Some(key) = hot_key { record.key(key) } else { record }
        });
        let partition = if matches!(place, Where::SamePartition) { 0 } else { 1 };
        let others = (0..OTHERS).map(|id| charge("other", id, 7).partition(partition));
        broker::shared().produce(&self.service.topic, hot.chain(others));
    }

    /// Waits until every operation of the other tenant took effect.
    fn wait_others(&self) {
        wait_until("the other tenant's effects", service::BOUND, || {
            (0..OTHERS).all(|id| self.server.count(&operation_of("other", id)).effects == 1)
        });
    }

    fn starts(&self, tenant: &str) -> u64 {
        self.server.requests(&format!("{tenant}/"))
    }

    /// Lets the rest finish, and sees that nothing was lost on the way.
    fn finish(self, running: service::Running) {
        self.server.release_all();
        let expected: Vec<String> =
            (0..HOT).map(|id| operation_of("hot", id)).chain((0..OTHERS).map(|id| operation_of("other", id))).collect();
        wait_until("the rest", service::BOUND, || self.server.ledger().lost(expected.iter().map(String::as_str)).is_empty());
        self.service.wait_committed(i64::from(HOT + OTHERS));
        running.stop();
        assert_eq!(self.server.ledger().excess(), 0);
    }
}

/// Every handler of the hot tenant hangs. The others all run, each once, while two of it have begun.
fn hanging(name: &str, place: Where, hot_key: Option<&str>) {
    let world = world(name, |_| {});
    world.server.always(prefix("hot/"), Behaviour::ApplyLate);
    world.produce(place, hot_key);
    let running = world.service.start().ready();
    world.wait_others();
    assert_eq!(world.starts("other"), u64::from(OTHERS));
    assert!(world.starts("hot") <= 2, "a tenant has at most its share of the permits");
    world.finish(running);
}

fn handlers_that_hang_keep_no_other_tenant_of_the_partition_waiting() {
    hanging("hang-same", Where::SamePartition, None);
}

fn handlers_that_hang_keep_no_tenant_of_another_partition_waiting() {
    hanging("hang-other", Where::OtherPartition, None);
}

fn a_hot_key_keeps_no_other_tenant_of_the_partition_waiting() {
    hanging("hot-same", Where::SamePartition, Some("one key"));
}

fn a_hot_key_keeps_no_tenant_of_another_partition_waiting() {
    hanging("hot-other", Where::OtherPartition, Some("one key"));
}

/// Handlers that hang hold a tenant's share of the permits, and its records the whole bound of the partition. What makes no progress is
/// set aside, so that the others are fetched at all, and runs once each when the handlers return.
fn filling(name: &str, hot_key: Option<&str>) {
    let world = world(name, |service| {
        service.partition_records_max = 100;
        service.waiting_grace_ms = 500;
    });
    world.server.always(prefix("hot/"), Behaviour::ApplyLate);
    world.produce(Where::SamePartition, hot_key);
    let running = world.service.start().ready();
    world.wait_others();
    assert_eq!(world.starts("other"), u64::from(OTHERS));
    assert!(world.starts("hot") <= 2, "nothing of the hanging tenant runs beyond its share");
    world.finish(running);
}

fn handlers_that_hang_and_fill_the_bound_keep_no_other_tenant_waiting() {
    filling("fill-tenant", None);
}

fn a_hot_key_that_hangs_and_fills_the_bound_keeps_no_other_tenant_waiting() {
    filling("fill-key", Some("one key"));
}

/// Every attempt of the hot tenant fails. Its records wait for their next attempts, and make room where they hold more than half
/// of the partition's bound.
fn failing(name: &str, place: Where) {
    let world = world(name, |service| {
        service.partition_records_max = 100;
        service.attempts_max = 100_000;
    });
    let failing = world.server.always(prefix("hot/"), Behaviour::Unavailable);
    world.produce(place, None);
    let running = world.service.start().ready();
    world.wait_others();
    assert_eq!(world.starts("other"), u64::from(OTHERS));
    assert_eq!(world.server.ledger().total(), OTHERS as usize, "nothing of the failing tenant took effect meanwhile");
    world.server.wait_hits(failing, 1, service::BOUND);
    world.finish(running);
}

fn work_that_fails_keeps_no_other_tenant_of_the_partition_waiting() {
    failing("fail-same", Where::SamePartition);
}

fn work_that_fails_keeps_no_tenant_of_another_partition_waiting() {
    failing("fail-other", Where::OtherPartition);
}

/// Every answer to the hot tenant is lost, and its lookups do not answer: it is unresolved, and the others run.
fn unresolved(name: &str, place: Where) {
    let world = world(name, |service| {
        service.in_doubt = InDoubt::Ask;
        service.partition_records_max = 100;
    });
    world.server.always(prefix("hot/"), Behaviour::LoseAnswer);
    let silent = world.server.lookups(support::destination::any(), support::destination::Lookup::Unavailable);
    world.produce(place, None);
    let running = world.service.start().ready();
    world.wait_others();
    assert_eq!(world.starts("other"), u64::from(OTHERS));
    world.service.wait_committed(i64::from(HOT + OTHERS));
    world.server.wait_hits(silent, 1, service::BOUND);
    let starts = world.starts("hot");
    assert_eq!(starts, u64::from(HOT), "nothing of the unresolved runs again");
    world.finish(running);
}

fn unresolved_work_keeps_no_other_tenant_of_the_partition_waiting() {
    unresolved("doubt-same", Where::SamePartition);
}

fn unresolved_work_keeps_no_tenant_of_another_partition_waiting() {
    unresolved("doubt-other", Where::OtherPartition);
}

/// With one permit for all, tenants take turns: the others are through long before the queue of the hot one.
fn tenants_take_turns_for_permits() {
    let world = world("turns", |service| (service.permits, service.tenant_permits_max) = (1, 1));
    world.produce(Where::SamePartition, None);
    let running = world.service.start().ready();
    world.service.wait_committed(i64::from(HOT + OTHERS));
    running.stop();
    let ledger = world.server.ledger();
    let last = ledger.0.iter().rposition(|effect| effect.tenant == "other").unwrap();
    let before = ledger.0[..last].iter().filter(|effect| effect.tenant == "hot").count();
    assert!(before < HOT as usize / 2, "{before} handlers of the hot tenant ran before the other's last");
}

fn main() {
    let tests = trials![real broker:
        handlers_that_hang_keep_no_other_tenant_of_the_partition_waiting,
        handlers_that_hang_keep_no_tenant_of_another_partition_waiting,
        a_hot_key_keeps_no_other_tenant_of_the_partition_waiting,
        a_hot_key_keeps_no_tenant_of_another_partition_waiting,
        handlers_that_hang_and_fill_the_bound_keep_no_other_tenant_waiting,
        a_hot_key_that_hangs_and_fills_the_bound_keeps_no_other_tenant_waiting,
        work_that_fails_keeps_no_other_tenant_of_the_partition_waiting,
        work_that_fails_keeps_no_tenant_of_another_partition_waiting,
        unresolved_work_keeps_no_other_tenant_of_the_partition_waiting,
        unresolved_work_keeps_no_tenant_of_another_partition_waiting,
        tenants_take_turns_for_permits,
    ];
    process::run(tests, &[("service", service::role)]);
}
