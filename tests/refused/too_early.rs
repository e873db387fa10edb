//! An operator who is too early.

use super::*;
use crate::support::{
    destination::{Behaviour, is},
    process::wait_until,
};
use receipted::{
    protocol::{
        doubt,
        note::Author,
        refused::Refused,
        settle::{Act, Change, Settle, Settlement},
    },
    store::{ReceiptStore, Which},
};

fn not_done(key: receipted::protocol::key::KeyDigest) -> Change {
    let settle = Settle { key, outcome: Settlement::NotDone, attempts: None, cannot_land_any_more: None, fresh_key: false };
    Change { act: Act::Settle(settle), by: Author::Operator { name: "ada".into(), uid: 1000 }, reason: "not seen at the bank".into() }
}

pub fn not_done_is_refused_while_the_timed_out_future_lives() {
    let World { server, mut service, folder } = world("too-early", 1);
    (service.time_limit_ms, service.quiet_ms) = (200, 0);
    let world = World { server, service, folder };
    let slow = world.server.once(is(operation_of("acme", 0)), Behaviour::ApplyLate);
    world.produce(0..1);
    let running = world.service.start_here();
    // Past its time limit it is parked, and its slot is complete.
    world.service.wait_committed_of(0, 1);
    world.server.wait_hits(slow, 1, service::BOUND);
    let (key, _) = running.store.list(Which::InDoubt, None, 10).unwrap().pop().expect("it is listed");
    let refused = running.perform(not_done(key)).unwrap_err();
    assert!(matches!(refused, Refused::Doubt(doubt::Refusal::StillRuns { .. })), "{refused:?}");
    assert!(refused.remedy().contains("wait until it has ended"), "{}", refused.remedy());
    assert_eq!(running.store.count(Which::InDoubt), 1);
    // The effect comes late, and is the truth: with *not done* it would have come twice.
    world.server.release(slow);
    wait_until("the late answer", service::BOUND, || running.store.count(Which::InDoubt) == 0);
    assert_eq!(running.store.count(Which::Parked), 0);
    let refused = running.perform(not_done(key)).unwrap_err();
    assert_eq!(refused.code(), "does_not_fit");
    running.stop();
    world.assert_effects(0..1);
    assert_eq!(world.server.count(&operation_of("acme", 0)).requests, 1);
}
