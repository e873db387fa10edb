//! A record's whole way on the real broker, with kills. The judge is the destination's ledger.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used)]

#[path = "journey/doubts.rs"]
mod doubts;
#[path = "journey/letters.rs"]
mod letters;
#[path = "journey/offsets.rs"]
mod offsets;
#[path = "journey/partitions.rs"]
mod partitions;
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
        doubts::c02_a_process_killed_in_front_of_a_congested_destination_leaves_one_effect_or_a_listing,
        doubts::c10_a_process_that_dies_between_admission_and_effect_drops_nothing,
        doubts::c17_a_destination_that_already_has_it_closes_the_attempt_that_lost_its_answer,
        doubts::c31_a_repeat_on_another_partition_waits_for_the_attempt_that_runs,
        doubts::c67_an_old_key_with_another_amount_is_parked_and_counted,
        doubts::c69_the_same_event_five_times_and_two_at_once_is_one_increment,
        letters::c72_a_dead_letter_topic_that_is_missing_parks_here_and_the_partition_goes_on,
        letters::c72_a_dead_letter_topic_that_refuses_parks_here_and_the_partition_goes_on,
        letters::c75_a_destination_that_is_away_for_a_while_dead_letters_nothing,
        offsets::c03_a_rewind_by_2340_completed_records_dispatches_nothing,
        offsets::c06_a_later_record_that_is_done_does_not_commit_an_earlier_one_that_runs,
        offsets::c07_a_stop_commits_up_to_the_lowest_record_that_is_not_done_and_loses_none,
        offsets::c08_automatic_commits_cannot_be_switched_on_and_a_record_that_crashed_comes_again,
        offsets::c12_tasks_that_were_started_and_not_finished_come_again_and_go_by_their_contract,
        offsets::c40_a_hundred_repeats_of_what_is_done_are_suppressed_and_their_offsets_move,
        offsets::c76_an_error_moves_no_offset_until_there_is_an_outcome,
        partitions::a_paused_partition_waits_whole_and_the_other_goes_on,
        partitions::a_halted_partition_goes_on_without_the_slot_that_a_person_skips,
    ];
    process::run(tests, &[("service", service::role)]);
}
