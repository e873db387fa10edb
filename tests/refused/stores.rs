//! The wrong store.

use super::*;
use crate::support::{
    cluster::Cluster,
    destination::{Behaviour, is},
    process::wait_until,
};
use receipted::{
    protocol::{
        fingerprint::Fingerprint,
        key::KeyDigest,
        known::{Entry, Revision},
        note::{Admission, AttemptId, Slot},
        time::UnixMillis,
    },
    store::{
        Batch, ReceiptStore,
        sled::{FileSystem, Options, SledStore, transfer, verify},
    },
};
use rustix::process::Signal;
use std::time::Duration;

pub fn a_fresh_directory_is_refused_until_the_old_one_is_back() {
    let world = world("fresh", 1);
    world.produce(0..3);
    world.run_to(3);
    let fresh = world.service.with_store(&world.folder.path().join("fresh"));
    fresh.assert_refused(&["another receipt store", "run with that store", "receipted store adopt"]);
    world.produce(3..4);
    world.run_to(4);
    world.assert_effects(0..4);
}

pub fn a_fresh_directory_goes_on_once_the_offset_is_adopted() {
    let world = world("adopted", 1);
    world.produce(0..3);
    world.run_to(3);
    let fresh = world.service.with_store(&world.folder.path().join("fresh"));
    world.produce(3..4);
    fresh.assert_refused(&["committed offset 3", "receipted store adopt"]);
    fresh.adopt(0, 3);
    run_to(&fresh, 4);
    world.assert_effects(0..4);
    // Adopted once: from here on the offsets are the new store's, and the old one is refused.
    run_to(&fresh, 4);
    world.service.assert_refused(&["another receipt store"]);
}

/// A copy made while the service stands still, after `first` records; the service then goes on to `all` and stops.
fn aged(world: &World, first: u32, all: u32) -> Service {
    let older = world.service.with_store(&world.folder.path().join("older"));
    world.produce(0..first);
    let running = world.service.start().ready();
    world.service.wait_committed_of(0, i64::from(first));
    running.child.signal(Signal::STOP);
    copy(&world.service.store, &older.store);
    running.child.signal(Signal::CONT);
    world.produce(first..all);
    world.service.wait_committed_of(0, i64::from(all));
    running.stop();
    older
}

pub fn a_store_that_took_a_second_admission_is_refused_before_anything_runs() {
    let world = world("self-test", 1);
    world.produce(0..1);
    let store = world.service.open_store();
    let attempts = [1, 2].map(|number| AttemptId { number, claim: 1 });
    let admission = Admission {
        fingerprint: Fingerprint::Unchecked,
        slot: Slot { topic: "any".into(), partition: 0, offset: 0 },
        at: UnixMillis(0),
        time_limit: Duration::ZERO,
        memory: None,
        key_generation: 0,
        budget_used: 1,
        correlation: None,
    };
    let key = KeyDigest(*b"receipted self-test probe key v1");
    let admit = |(seen, attempt): (usize, AttemptId)| {
        let (seen, admission) = (Revision(seen as u64), Box::new(admission.clone()));
        Entry::Admit { key, name: None, seen, attempt, admission, within: None }
    };
    store.append(Batch(attempts.into_iter().enumerate().map(admit).collect())).unwrap();
    store.close().unwrap();
    drop(store);
    world.service.assert_refused(&["failed its self-test", "nothing was started", "receipted store verify"]);
    world.assert_effects([]);
}

pub fn an_older_copy_is_refused_until_the_newest_is_back() {
    let world = world("older", 1);
    let older = aged(&world, 3, 6);
    older.assert_refused(&["committed offset 6", "watermark 3", "older copy", "restore the newest one", "receipted store adopt"]);
    world.produce(6..7);
    world.run_to(7);
    world.assert_effects(0..7);
}

pub fn an_older_copy_goes_on_once_the_offset_is_adopted() {
    let world = world("older-adopted", 1);
    let older = aged(&world, 3, 6);
    older.assert_refused(&["older copy"]);
    older.adopt(0, 6);
    world.produce(6..7);
    run_to(&older, 7);
    run_to(&older, 7);
    world.assert_effects(0..7);
}

pub fn an_older_copy_with_another_start_since_is_refused_too() {
    let world = world("older-start", 1);
    let older = world.service.with_store(&world.folder.path().join("older"));
    world.produce(0..2);
    world.run_to(2);
    copy(&world.service.store, &older.store);
    world.produce(2..4);
    world.run_to(4);
    older.assert_refused(&["committed offset 4", "older copy", "restore the newest one", "receipted store adopt"]);
    older.adopt(0, 4);
    world.produce(4..5);
    run_to(&older, 5);
    world.assert_effects(0..5);
}

pub fn a_copy_beside_the_original_is_refused_and_the_original_goes_on() {
    let world = world("copy", 1);
    world.produce(0..2);
    world.run_to(2);
    let beside = world.service.with_store(&world.folder.path().join("beside"));
    copy(&world.service.store, &beside.store);
    let mut original = world.service.start().ready();
    world.produce(2..4);
    world.service.wait_committed_of(0, 4);
    // The copy takes the member's name over; its own start finds offsets that it did not write, and it leaves.
    let said = beside.assert_refused(&["committed offset 4", "a copy of it runs elsewhere", "stop the other one"]);
    assert!(said.contains(&format!("{}/0", world.service.topic)), "{said}");
    // The remedy: the original alone. It comes back by itself, unless it noticed the other one before that left.
    world.produce(4..5);
    wait_until("the original", service::BOUND, || original.child.ended().is_some() || world.service.committed_of(0) == Some(5));
    if let Some(status) = original.child.ended() {
        assert_eq!(status.code(), Some(78), "{}", original.child.output());
        world.run_to(5);
    } else {
        original.stop();
    }
    world.assert_effects(0..5);
}

/// A new store made of an export of the service's store, which stands still.
fn imported(world: &World) -> Service {
    let new = world.service.with_store(&world.folder.path().join("imported"));
    let file = world.folder.path().join("export");
    transfer::export(&world.service.store, &file, &mut |_| {}).unwrap();
    transfer::import(&file, &new.store, &transfer::Secrets::default(), &mut |_| {}).unwrap();
    new
}

pub fn an_imported_store_is_refused_until_its_offsets_are_adopted() {
    let world = world("imported", 1);
    world.produce(0..3);
    world.run_to(3);
    let new = imported(&world);
    // The exported store goes on, and its offsets are lost: nothing but the import itself tells that two records ran meanwhile.
    world.produce(3..5);
    world.run_to(5);
    cluster().rewind(&world.service.group, &world.service.topic, 0, 3);
    world.produce(5..6);
    let from = format!("{}/0 from offset 3 on", world.service.topic);
    new.assert_refused(&["imported", &from, "make sure that the other one never runs again", "receipted store adopt"]);
    world.assert_effects(0..5);
    new.adopt(0, 5);
    run_to(&new, 6);
    run_to(&new, 6);
    world.service.assert_refused(&["another receipt store"]);
    world.assert_effects(0..6);
}

pub fn what_is_parked_in_an_imported_store_waits_for_that_too() {
    let world = world("imported-parked", 1);
    world.server.once(is(operation_of("acme", 1)), Behaviour::LoseAnswer);
    world.produce(0..3);
    world.run_to(3);
    let requests = || world.server.count(&operation_of("acme", 1)).requests;
    let (new, before) = (imported(&world), requests());
    assert_eq!(verify(&new.store).unwrap().parked, 1);
    new.assert_refused(&["imported", "parked or doubtful ones been settled"]);
    assert_eq!(requests(), before, "nothing of it is taken up");
}

pub fn a_store_of_another_cluster_or_group_is_refused() {
    let world = world("foreign", 1);
    world.produce(0..1);
    let bound = world.service.with_store(&world.folder.path().join("bound"));
    let store = SledStore::open(&Options { file_system: FileSystem::Any, ..Options::new(&bound.store) }).unwrap();
    store.bind("another-cluster", &bound.group).unwrap();
    store.close().unwrap();
    drop(store);
    bound.assert_refused(&["another-cluster", "use the store of that cluster", "a fresh directory"]);
    world.run_to(1);
    let other_group = Service { group: support::cluster::unique("foreign"), ..world.service.clone() };
    other_group.assert_refused(&[&world.service.group, "use the store of that group"]);
    world.assert_effects(0..1);
}

fn cluster() -> &'static Cluster {
    broker::shared()
}
