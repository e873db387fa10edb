//! Wrong stores, wrong offsets, other members: each is refused with its remedy in the text, and the remedy works.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod support;

#[path = "refused/members.rs"]
mod members;
#[path = "refused/offsets.rs"]
mod offsets;
#[path = "refused/stores.rs"]
mod stores;
#[path = "refused/too_early.rs"]
mod too_early;

use std::path::Path;
use support::{
    broker,
    destination::Server,
    process,
    service::{self, Service, charge, operation_of},
};

/// A destination, and a service with a folder for its stores.
struct World {
    server: Server,
    service: Service,
    folder: tempfile::TempDir,
}

fn world(prefix: &str, partitions: i32) -> World {
    let (server, folder) = (Server::start(), tempfile::tempdir().unwrap());
    let service = Service::new(prefix, partitions, server.address(), folder.path());
    World { server, service, folder }
}

impl World {
    /// Produces charges with these ids to partition 0.
    fn produce(&self, ids: impl IntoIterator<Item = u32>) {
        self.produce_to(0, ids);
    }

    fn produce_to(&self, partition: i32, ids: impl IntoIterator<Item = u32>) {
        broker::shared().produce(&self.service.topic, ids.into_iter().map(|id| charge("acme", id, 7).partition(partition)));
    }

    /// Runs the service until the group has committed this offset of partition 0, and stops it.
    fn run_to(&self, offset: i64) {
        run_to(&self.service, offset);
    }

    /// Exactly these operations took effect, each once.
    #[track_caller]
    fn assert_effects(&self, ids: impl IntoIterator<Item = u32>) {
        let (ledger, expected) = (self.server.ledger(), ids.into_iter().map(|id| operation_of("acme", id)).collect::<Vec<_>>());
        assert_eq!(ledger.lost(expected.iter().map(String::as_str)), [""; 0], "lost");
        assert_eq!(ledger.unexpected(expected.iter().map(String::as_str)), [""; 0], "unexpected");
        assert_eq!(ledger.excess(), 0);
    }
}

fn run_to(service: &Service, offset: i64) {
    let running = service.start().ready();
    service.wait_committed_of(0, offset);
    running.stop();
}

/// Copies a store's directory.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target)
        } else {
            assert!(std::fs::copy(entry.path(), target).is_ok())
        }
    }
}

fn main() {
    let tests = trials![real broker:
        stores::a_fresh_directory_is_refused_until_the_old_one_is_back,
        stores::a_fresh_directory_goes_on_once_the_offset_is_adopted,
        stores::a_store_that_took_a_second_admission_is_refused_before_anything_runs,
        stores::an_older_copy_is_refused_until_the_newest_is_back,
        stores::an_older_copy_goes_on_once_the_offset_is_adopted,
        stores::an_older_copy_with_another_start_since_is_refused_too,
        stores::a_copy_beside_the_original_is_refused_and_the_original_goes_on,
        stores::an_imported_store_is_refused_until_its_offsets_are_adopted,
        stores::what_is_parked_in_an_imported_store_waits_for_that_too,
        stores::a_store_of_another_cluster_or_group_is_refused,
        members::another_live_member_is_refused_until_it_is_gone,
        members::a_member_that_joins_later_ends_this_one,
        members::a_client_setting_that_is_ours_is_refused_with_its_reason,
        members::a_member_that_takes_the_name_over_ends_this_one,
        offsets::a_group_with_offsets_that_are_not_ours_is_adopted,
        offsets::an_offset_set_forward_by_a_tool_is_refused,
        offsets::a_topic_with_records_needs_a_first_start,
        offsets::a_first_start_at_the_end_is_decided_once,
        offsets::a_truncated_log_halts_its_partition_and_names_what_is_missing,
        offsets::a_log_truncated_under_a_running_service_ends_it_and_the_next_start_names_what_is_missing,
        offsets::an_offset_rewound_is_answered_from_receipts_and_counted,
        offsets::a_recreated_topic_halts_until_its_offsets_are_adopted,
        offsets::a_recreated_topic_halts_at_a_slot_where_another_record_is_parked,
        offsets::a_partition_added_later_starts_at_its_first_record,
        too_early::not_done_is_refused_while_the_timed_out_future_lives,
    ];
    process::run(tests, &[("service", service::role)]);
}
