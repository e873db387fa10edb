//! The reply hook on the real thing: at least once with outcome and replay, retried within bounds, then parked.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod support;

use support::{
    broker,
    destination::{Behaviour, Server, is},
    process,
    service::{self, Service, charge, operation_of},
};

struct World {
    server: Server,
    service: Service,
    _folder: tempfile::TempDir,
}

fn world(name: &str) -> World {
    let (server, folder) = (Server::start(), tempfile::tempdir().unwrap());
    let mut service = Service::new(name, 1, server.address(), folder.path());
    service.replies = true;
    World { server, service, _folder: folder }
}

/// The reply's request, as the service's hook makes it.
fn reply(id: u32, outcome: &str, replay: &str) -> String {
    format!("reply/{id}/{outcome}/{replay}")
}

impl World {
    fn replies(&self, id: u32, outcome: &str, replay: &str) -> u64 {
        self.server.count(&reply(id, outcome, replay)).requests
    }
}

fn an_answer_is_handed_on_with_its_outcome_and_a_repeat_as_a_replay() {
    let world = world("replies");
    world.server.always(is(operation_of("acme", 2)), Behaviour::Reject("over the limit".into()));
    broker::shared().produce(&world.service.topic, [1, 2].map(|id| charge("acme", id, 7)));
    let running = world.service.start().ready();
    world.service.wait_committed(2);
    assert_eq!((world.replies(1, "applied", "original"), world.replies(2, "rejected", "original")), (1, 1));
    broker::shared().produce(&world.service.topic, [1, 2, 1].map(|id| charge("acme", id, 7)));
    world.service.wait_committed(5);
    running.stop();
    assert_eq!((world.replies(1, "applied", "replay"), world.replies(2, "rejected", "replay")), (2, 1));
    assert_eq!((world.replies(1, "applied", "original"), world.replies(2, "rejected", "original")), (1, 1));
    assert_eq!(world.server.requests("acme/"), 2, "the handler is not run for an answer");
}

fn a_kill_during_the_reply_hands_the_answer_on_again() {
    let world = world("reply-kill");
    let kill = world.server.once(is(reply(1, "applied", "original")), Behaviour::KillBefore);
    broker::shared().produce(&world.service.topic, [charge("acme", 1, 7)]);
    let mut running = world.service.start().ready();
    world.server.wait_hits(kill, 1, service::BOUND);
    running.child.wait(service::BOUND);
    assert!(world.service.committed() <= 0, "the slot is not complete before its answer is handed on");
    let running = world.service.start().ready();
    world.service.wait_committed(1);
    running.stop();
    assert_eq!((world.replies(1, "applied", "original"), world.replies(1, "applied", "replay")), (1, 1));
    assert_eq!(world.server.count(&operation_of("acme", 1)).requests, 1);
}

fn a_reply_that_fails_is_tried_again_within_bounds_and_then_parked() {
    let world = world("reply-fails");
    world.server.always(is(reply(1, "applied", "original")), Behaviour::LoseRequest);
    world.server.once(is(reply(2, "applied", "original")), Behaviour::LoseRequest);
    broker::shared().produce(&world.service.topic, [1, 2].map(|id| charge("acme", id, 7)));
    let running = world.service.start().ready();
    world.service.wait_committed(2);
    running.stop();
    assert_eq!((world.replies(1, "applied", "original"), world.replies(2, "applied", "original")), (3, 2));
    assert_eq!(world.server.requests("acme/"), 2, "the operations ran once");
    let parked = service::parked(&world.service.open_store());
    assert_eq!(parked.iter().map(|(id, why)| (id.slot.offset, *why)).collect::<Vec<_>>(), [(0, "reply")]);
}

fn main() {
    let tests = trials![real broker:
        an_answer_is_handed_on_with_its_outcome_and_a_repeat_as_a_replay,
        a_kill_during_the_reply_hands_the_answer_on_again,
        a_reply_that_fails_is_tried_again_within_bounds_and_then_parked,
    ];
    process::run(tests, &[("service", service::role)]);
}
