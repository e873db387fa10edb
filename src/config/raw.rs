//! Owns the configuration as written: the shape of `config/default.toml`, unchecked. No key has a default here, so that the file is
//! the one list of them.

use serde::Deserialize;
use std::collections::BTreeMap;

/// The settings as written, merged.
///
/// What programs use is the checked [`Config`](super::Config).
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Raw {
    pub(super) kafka: Kafka,
    pub(super) store: Store,
    pub(super) runner: Runner,
    pub(super) reconcile: Reconcile,
    pub(super) dead_letter: DeadLetter,
    pub(super) telemetry: Telemetry,
    pub(super) app: toml::Table,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Kafka {
    pub(super) brokers: String,
    pub(super) group: String,
    pub(super) first_start: String,
    pub(super) group_instance_id: String,
    pub(super) session_timeout: String,
    pub(super) heartbeat_interval: String,
    pub(super) poll_interval_max: String,
    pub(super) settings: BTreeMap<String, String>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Store {
    pub(super) directory: String,
    pub(super) key_secret_file: String,
    pub(super) file_system: String,
    pub(super) cache_bytes: i64,
    pub(super) known_bytes_max: i64,
    pub(super) parked_bytes_max: i64,
    pub(super) park_record_bytes_max: i64,
    pub(super) disk_free_floor_bytes: i64,
    pub(super) ballast_bytes: i64,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Runner {
    pub(super) permits: i64,
    pub(super) worker_threads: i64,
    pub(super) tenant_permits_max: i64,
    pub(super) partition_records_max: i64,
    pub(super) partition_bytes_max: i64,
    pub(super) waiting_grace: String,
    pub(super) batch_records_max: i64,
    pub(super) commit_interval: String,
    pub(super) drain_budget: String,
    pub(super) stop_deadline: String,
    pub(super) reply_attempts_max: i64,
    pub(super) reply_time_limit: String,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reconcile {
    pub(super) lookups_max: i64,
    pub(super) lookup_time_limit: String,
    pub(super) again_first: String,
    pub(super) again_max: String,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeadLetter {
    pub(super) topic: String,
    pub(super) include_error_text: bool,
    pub(super) header_names: String,
    pub(super) acknowledge_within: String,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Telemetry {
    pub(super) listen: String,
    pub(super) log_format: String,
    pub(super) log_filter: String,
}
