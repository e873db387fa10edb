//! The wrong offsets.

use super::*;
use crate::support::{
    cluster::Cluster,
    destination::{Behaviour, is},
    process::wait_until,
};

pub fn a_group_with_offsets_that_are_not_ours_is_adopted() {
    let world = world("not-ours", 1);
    world.produce(0..4);
    cluster().commit(&world.service.group, &world.service.topic, 0, 2, Some(b"\xff of another program"));
    world.service.assert_refused(&["committed offset 2", "not this receipt store's", "receipted store adopt"]);
    world.assert_effects([]);
    world.service.adopt(0, 2);
    world.run_to(4);
    world.assert_effects(2..4);
}

pub fn an_offset_set_forward_by_a_tool_is_refused() {
    let world = world("forward", 1);
    world.produce(0..2);
    world.run_to(2);
    world.produce(2..6);
    cluster().rewind(&world.service.group, &world.service.topic, 0, 4);
    world.service.assert_refused(&["committed offset 4", "not this receipt store's", "receipted store adopt"]);
    // Below the store's watermark it would have been a rewind. The remedy of one who did not mean it: the store's own offset.
    cluster().rewind(&world.service.group, &world.service.topic, 0, 2);
    world.run_to(6);
    world.assert_effects(0..6);
}

pub fn a_topic_with_records_needs_a_first_start() {
    for (first_start, expected) in [("earliest", 0..4), ("latest", 3..4)] {
        let World { server, mut service, folder } = world(first_start, 1);
        service.first_start = None;
        let mut world = World { server, service, folder };
        world.produce(0..3);
        world.service.assert_refused(&["no committed offset", "offsets 0 to 3", "kafka.first_start", "earliest", "latest"]);
        world.service.first_start = Some(first_start.into());
        let running = world.service.start().ready();
        world.produce(3..4);
        world.service.wait_committed_of(0, 4);
        running.stop();
        world.assert_effects(expected);
    }
}

pub fn a_first_start_at_the_end_is_decided_once() {
    let World { server, mut service, folder } = world("once", 2);
    service.first_start = Some("latest".into());
    let world = World { server, service, folder };
    world.produce_to(0, 0..3);
    world.produce_to(1, 3..6);
    world.service.start().ready().stop();
    // Nothing came while it ran. What comes now is not skipped by the next start, and what was skipped does not run.
    world.produce_to(0, 6..7);
    let running = world.service.start().ready();
    world.service.wait_committed_of(0, 4);
    running.stop();
    world.produce_to(1, 7..8);
    let running = world.service.start().ready();
    world.service.wait_committed_of(1, 4);
    running.stop();
    world.assert_effects(6..8);
}

pub fn a_truncated_log_halts_its_partition_and_names_what_is_missing() {
    let world = world("truncated", 2);
    world.produce_to(0, 0..2);
    world.run_to(2);
    world.produce_to(0, 2..6);
    world.produce_to(1, 6..8);
    cluster().delete_records(&world.service.topic, 0, 5);
    let mut running = world.service.start();
    let line = running.child.wait_line("partition refused", service::BOUND);
    assert!(line.contains("partition=0") && line.contains("from offset 2 to 5") && line.contains("--offset 5"), "{line}");
    world.service.wait_committed_of(1, 2);
    running.stop();
    world.assert_effects([0, 1, 6, 7]);
    assert_eq!(world.service.committed_of(0), Some(2));
    world.service.adopt(0, 5);
    world.run_to(6);
    world.assert_effects([0, 1, 5, 6, 7]);
}

pub fn a_log_truncated_under_a_running_service_ends_it_and_the_next_start_names_what_is_missing() {
    let World { server, mut service, folder } = world("cut", 1);
    service.partition_records_max = 1;
    service.client = [
        ("queued.min.messages", "1"),
        ("fetch.message.max.bytes", "200"),
        ("fetch.max.bytes", "33554432"),
        ("queued.max.messages.kbytes", "1"),
    ]
    .map(|(name, value)| (name.into(), value.into()))
    .into();
    let world = World { server, service, folder };
    let held = world.server.always(is(operation_of("acme", 0)), Behaviour::AnswerLate);
    let records = (0..400).map(|id| charge("acme", id, 7));
    cluster().produce_with(&world.service.topic, records, &[("batch.num.messages", "1"), ("linger.ms", "0")]);
    let running = world.service.start().ready();
    world.server.wait_hits(held, 1, service::BOUND);
    cluster().delete_records(&world.service.topic, 0, 390);
    world.server.release(held);
    let (code, said) = running.refused();
    assert_eq!(code, 75, "{said}");
    assert!(said.contains("truncated") && said.contains("restart"), "{said}");
    let mut running = world.service.start();
    let line = running.child.wait_line("partition refused", service::BOUND);
    assert!(line.contains("to 390 are missing"), "{line}");
    running.stop();
    world.service.adopt(0, 390);
    world.run_to(400);
    assert_eq!(world.server.ledger().excess(), 0);
}

pub fn an_offset_rewound_is_answered_from_receipts_and_counted() {
    let world = world("rewound", 1);
    world.produce(0..5);
    world.run_to(5);
    cluster().rewind(&world.service.group, &world.service.topic, 0, 1);
    world.produce(5..6);
    let mut running = world.service.start();
    let line = running.child.wait_line("moved back", service::BOUND);
    assert!(line.contains("committed=1") && line.contains("confirmed=5"), "{line}");
    world.service.wait_committed_of(0, 6);
    let metrics = running.stop();
    assert_eq!(metrics.sum("receipted_offset_regressions_total", &[]), Some(1.0));
    world.assert_effects(0..6);
    let requests: Vec<u64> = (0..6).map(|id| world.server.count(&operation_of("acme", id)).requests).collect();
    assert_eq!(requests, [1; 6], "the handler is not run again");
}

pub fn a_recreated_topic_halts_until_its_offsets_are_adopted() {
    let world = world("recreated", 1);
    world.produce(0..5);
    world.run_to(5);
    recreate(cluster(), &world.service);
    world.produce(5..8);
    let mut running = world.service.start();
    let line = running.child.wait_line("partition refused", service::BOUND);
    assert!(line.contains("above the end of the log at 3") && line.contains("recreated") && line.contains("--offset 0"), "{line}");
    running.stop();
    world.assert_effects(0..5);
    world.service.adopt(0, 0);
    world.run_to(3);
    world.assert_effects(0..8);
    // The new log's offsets are the store's own from here on, below the old ones too.
    world.produce(8..9);
    world.run_to(4);
    world.assert_effects(0..9);
}

pub fn a_recreated_topic_halts_at_a_slot_where_another_record_is_parked() {
    let world = world("recreated-parked", 1);
    world.server.once(is(operation_of("acme", 1)), Behaviour::LoseAnswer);
    world.produce(0..3);
    world.run_to(3);
    recreate(cluster(), &world.service);
    world.produce(10..13);
    world.service.adopt(0, 0);
    let mut running = world.service.start();
    let line = running.child.wait_line("partition halted", service::BOUND);
    assert!(line.contains("offset=1") && line.contains("recreated"), "{line}");
    running.stop();
    assert!(world.service.committed_of(0).is_none_or(|offset| offset <= 1), "the offset does not pass the slot");
    assert_eq!(world.server.count(&operation_of("acme", 11)).requests, 0);
}

pub fn a_partition_added_later_starts_at_its_first_record() {
    let World { server, mut service, folder } = world("widened", 1);
    service.first_start = Some("latest".into());
    service.client = [("topic.metadata.refresh.interval.ms".into(), "500".into())].into();
    let world = World { server, service, folder };
    let running = world.service.start().ready();
    world.produce_to(0, 0..1);
    world.service.wait_committed_of(0, 1);
    cluster().add_partitions(&world.service.topic, 2);
    world.produce_to(1, 1..3);
    // The running member takes it up when it hears of it,
    world.service.wait_committed_of(1, 2);
    running.stop();
    cluster().add_partitions(&world.service.topic, 3);
    world.produce_to(2, 3..5);
    // and so does the next start.
    let running = world.service.start().ready();
    world.service.wait_committed_of(2, 2);
    running.stop();
    world.assert_effects(0..5);
}

fn cluster() -> &'static Cluster {
    broker::shared()
}

fn recreate(cluster: &Cluster, service: &Service) {
    cluster.delete_topic(&service.topic);
    cluster.create_topic(&service.topic, 1, &[]);
    wait_until("an empty log", service::BOUND, || cluster.log_range(&service.topic, 0) == (0, 0));
}
