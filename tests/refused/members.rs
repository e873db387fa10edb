//! Another member of the group.

use super::*;
use rdkafka::consumer::{BaseConsumer, Consumer};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

/// A plain consumer in a thread of its own, until dropped.
struct Member {
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Member {
    fn join(service: &Service) -> Self {
        Self::join_as(service, None)
    }

    /// Under a static name, which the broker takes away from whoever has it.
    fn join_as(service: &Service, name: Option<&str>) -> Self {
        let end = Arc::new(AtomicBool::new(false));
        let (ended, topic) = (end.clone(), service.topic.clone());
        let mut config = broker::shared().config();
        config.set("group.id", &service.group).set("partition.assignment.strategy", "cooperative-sticky");
        config.set("enable.auto.commit", "false").set("session.timeout.ms", "6000").set("auto.offset.reset", "earliest");
        name.map(|name| config.set("group.instance.id", name));
        let consumer: BaseConsumer = config.create().unwrap();
        consumer.subscribe(&[&topic]).unwrap();
        let thread = std::thread::spawn(move || {
            while !ended.load(Ordering::Acquire) {
                drop(consumer.poll(std::time::Duration::from_millis(20)));
            }
            consumer.unsubscribe();
        });
        Self { end, thread: Some(thread) }
    }

    fn leave(self) {
        drop(self);
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Release);
        self.thread.take().unwrap().join().unwrap();
    }
}

fn wait_members(service: &Service, members: usize) {
    process::wait_until(&format!("{members} members of {}", service.group), service::BOUND, || {
        let (state, found) = broker::shared().group(&service.group);
        found.len() == members && (members == 0 || state == "Stable")
    });
}

pub fn another_live_member_is_refused_until_it_is_gone() {
    let world = world("member", 2);
    world.produce(0..1);
    let other = Member::join(&world.service);
    wait_members(&world.service, 1);
    world.service.assert_refused(&[&world.service.group, "another live member", "stop it"]);
    other.leave();
    wait_members(&world.service, 0);
    world.run_to(1);
    world.assert_effects(0..1);
}

pub fn a_member_that_joins_later_ends_this_one() {
    let World { server, mut service, folder } = world("joins", 2);
    service.session_ms = 1500;
    let world = World { server, service, folder };
    world.produce_to(0, 0..1);
    world.produce_to(1, 1..2);
    let running = world.service.start().ready();
    world.service.wait_committed(2);
    let other = Member::join(&world.service);
    let (code, said) = running.refused();
    assert_eq!(code, 78, "{said}");
    assert!(said.contains("only 1 of 2 partitions") && said.contains("another member") && said.contains("stop it"), "{said}");
    world.produce_to(0, 2..3);
    world.produce_to(1, 3..4);
    other.leave();
    wait_members(&world.service, 0);
    let running = world.service.start().ready();
    world.service.wait_committed(4);
    running.stop();
    world.assert_effects(0..4);
}

pub fn a_member_that_takes_the_name_over_ends_this_one() {
    let World { server, mut service, folder } = world("name", 1);
    (service.session_ms, service.instance) = (3000, Some(service.group.clone()));
    let world = World { server, service, folder };
    world.produce(0..1);
    let running = world.service.start().ready();
    world.service.wait_committed(1);
    let other = Member::join_as(&world.service, world.service.instance.as_deref());
    let (code, said) = running.refused();
    assert_eq!(code, 78, "{said}");
    assert!(said.contains(&format!("another process has taken the member name {:?}", world.service.group)), "{said}");
    assert!(said.contains("a copy of this receipt store") && said.contains("stop it"), "{said}");
    other.leave();
    wait_members(&world.service, 0);
    world.produce(1..2);
    world.run_to(2);
    world.assert_effects(0..2);
}

/// Settings made by hand are held to the same list as the configuration.
pub fn a_client_setting_that_is_ours_is_refused_with_its_reason() {
    for (name, reason) in [("enable.auto.commit", "an automatic commit would lose records"), ("acks", "every in-sync replica")] {
        let mut world = world("owned", 1);
        world.produce(0..1);
        world.service.client.insert(name.into(), "1".into());
        world.service.assert_refused(&[name, "not yours to set", reason]);
        world.service.client.remove(name);
        world.run_to(1);
        world.assert_effects(0..1);
    }
}
