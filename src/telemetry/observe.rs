//! Owns the observable facts: one function each, which logs and counts together, so that neither is forgotten. Texts carry digests,
//! never keys.

use crate::{
    protocol::{
        key::KeyDigest,
        note::Slot,
        outcome::Finding,
        park::ParkId,
        time::{UnixMillis, millis},
    },
    store::Partition,
};
use metrics::{counter, gauge, histogram};
use std::{fmt, time::Duration};

/// Records reached the runner.
pub fn records_fetched(topic: &str, records: usize) {
    counter!("receipted_records_fetched_total", "topic" => topic.to_string()).increment(records as u64);
}

/// So many records of an operation, or of none, ended like this, durably.
pub fn ended(topic: &str, operation: Option<&str>, outcome: &'static str, records: u64) {
    let operation = operation.unwrap_or(super::table::NO_OPERATION).to_string();
    counter!("receipted_operations_total", "topic" => topic.to_string(), "operation" => operation, "outcome" => outcome).increment(records);
}

/// Handlers were not run because of what is known.
pub fn suppressed(reason: &'static str, records: u64) {
    counter!("receipted_suppressed_total", "reason" => reason).increment(records);
}

/// Handlers were started.
pub fn attempts_started(kind: &'static str, attempts: u64) {
    counter!("receipted_attempts_started_total", "kind" => kind).increment(attempts);
}

/// Attempts ended, or passed their deadline.
pub fn attempts_finished(result: &'static str, attempts: u64) {
    counter!("receipted_attempts_finished_total", "result" => result).increment(attempts);
}

/// Attempts answered that were no longer current.
pub fn late_completions(relation: &'static str, result: &'static str, attempts: u64) {
    tracing::info!(relation, result, attempts, "late answer");
    counter!("receipted_late_completions_total", "relation" => relation, "result" => result).increment(attempts);
}

/// Records came with the key of a known operation and other parameters.
pub fn parameter_conflicts(side: &'static str, records: u64) {
    tracing::warn!(side, records, "same key, other parameters");
    counter!("receipted_parameter_conflicts_total", "side" => side).increment(records);
}

/// The group's offset was found moved back.
pub fn offset_regression(partition: &Partition, committed: i64, confirmed: i64) {
    let (topic, number) = (&*partition.topic, partition.number);
    tracing::warn!(
        topic,
        partition = number,
        committed,
        confirmed,
        "committed offset was moved back; repeats are answered from their receipts"
    );
    counter!("receipted_offset_regressions_total", "topic" => topic.to_string()).increment(1);
}

/// A partition is not read, and why.
pub fn partition_refused(partition: &Partition, refusal: &dyn fmt::Display) {
    tracing::error!(topic = &*partition.topic, partition = partition.number, %refusal, "partition refused");
    partition_held(partition, Held::Halted);
}

/// A partition stopped at a slot.
pub fn partition_halted(slot: &Slot, reason: &str) {
    tracing::error!(topic = &*slot.topic, partition = slot.partition, offset = slot.offset, reason, "partition halted");
    partition_held(&Partition::of(slot), Held::Halted);
}

/// Why a partition that is ours is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// Its log or its offsets make no sense.
    Halted,
    /// A person paused it.
    Paused,
}

impl Held {
    /// Every reason.
    pub const ALL: [Self; 2] = [Self::Halted, Self::Paused];

    /// The metric's label.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Halted => "halted",
            Self::Paused => "paused",
        }
    }
}

/// A partition is not read until something is done about it.
pub fn partition_held(partition: &Partition, why: Held) {
    hold(partition, why, 1.0);
}

/// A partition is read, or no longer ours.
pub fn partition_not_held(partition: &Partition) {
    Held::ALL.iter().for_each(|why| hold(partition, *why, 0.0));
}

fn hold(partition: &Partition, why: Held, value: f64) {
    let labels = [("topic", partition.topic.to_string()), ("partition", partition.number.to_string()), ("why", why.label().to_string())];
    gauge!("receipted_partition_held", &labels).set(value);
}

/// A person paused or resumed a partition.
pub fn partition_act(partition: &Partition, act: &'static str, by: &str, uid: u32, reason: &str) {
    tracing::warn!(topic = &*partition.topic, partition = partition.number, by, uid, act, reason, "partition changed by an operator");
}

/// A person's change of a partition was refused.
pub fn partition_act_refused(partition: &Partition, act: &'static str, code: &str) {
    tracing::warn!(topic = &*partition.topic, partition = partition.number, act, code, "operator's change of a partition refused");
}

/// A partition is read from here on.
pub fn partition_open(partition: &Partition, start: i64) {
    tracing::info!(topic = &*partition.topic, partition = partition.number, start, "partition open");
    partition_not_held(partition);
}

/// The assignment changed.
pub fn rebalance(kind: &'static str, partitions: usize) {
    tracing::info!(kind, partitions, "rebalance");
    counter!("receipted_rebalances_total", "kind" => kind).increment(1);
}

/// Offsets were committed.
pub fn committed(took: Duration) {
    histogram!("receipted_commit_seconds").record(took.as_secs_f64());
}

/// A commit failed. It is tried again with the next one.
pub fn commit_failed(error: &dyn fmt::Display) {
    tracing::warn!(%error, "commit failed; tried again with the next one");
    counter!("receipted_commit_failures_total").increment(1);
}

/// A Kafka client reported an error. What repeats itself is left out, and told again with how many were.
pub fn client_error(client: &'static str, error: &dyn fmt::Display, reason: &str, told: Option<u64>) {
    let left_out = told.filter(|left_out| *left_out > 0);
    match told {
        Some(_) => tracing::warn!(client, %error, reason, left_out, "client"),
        None => tracing::debug!(client, %error, reason, "client"),
    }
    counter!("receipted_client_errors_total").increment(1);
}

/// A Kafka client reaches no broker at all. What repeats itself is left out, and told again with how many were.
pub fn brokers_silent(client: &'static str, brokers: &str, reason: &str, told: Option<u64>) {
    let left_out = told.filter(|left_out| *left_out > 0);
    match told {
        Some(_) => tracing::error!(
            client,
            brokers,
            reason,
            left_out,
            "no broker answers; check kafka.brokers, the network and the security settings"
        ),
        None => tracing::debug!(client, brokers, reason, "no broker answers"),
    }
    counter!("receipted_client_errors_total").increment(1);
}

/// A Kafka client reaches a broker again.
pub fn brokers_answer(client: &'static str, left_out: u64) {
    tracing::info!(client, left_out, "a broker answers again");
}

/// A line of a Kafka client's own log, by its severity there. What is not told shows at "debug".
pub fn client_says(client: &'static str, severity: i32, facility: &str, text: &str, told: Option<u64>) {
    let left_out = told.filter(|left_out| *left_out > 0);
    match (told, severity) {
        (Some(_), ..=3) => tracing::error!(target: "librdkafka", client, facility, left_out, "{text}"),
        (Some(_), 4) => tracing::warn!(target: "librdkafka", client, facility, left_out, "{text}"),
        (Some(_), 5 | 6) => tracing::info!(target: "librdkafka", client, facility, "{text}"),
        _ => tracing::debug!(target: "librdkafka", client, facility, "{text}"),
    }
}

/// The client measured a partition's lag; it says -1 while it does not know.
pub fn lag(topic: &str, partition: i32, records: i64) {
    if records >= 0 {
        gauge!("receipted_lag_records", "topic" => topic.to_string(), "partition" => partition.to_string()).set(records as f64);
    }
}

/// How far a partition is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Offset of the lowest slot that is not complete.
    pub watermark: i64,
    /// Slots between it and the last one taken.
    pub gap: u64,
    /// Records that are on their way.
    pub in_flight: usize,
    /// When the watermark last moved, or nothing was left to do.
    pub since: UnixMillis,
}

/// Where a partition stands.
pub fn progress(partition: &Partition, progress: Progress) {
    let labels = [("topic", partition.topic.to_string()), ("partition", partition.number.to_string())];
    gauge!("receipted_watermark", &labels).set(progress.watermark as f64);
    gauge!("receipted_watermark_gap_records", &labels).set(progress.gap as f64);
    gauge!("receipted_records_in_flight", &labels).set(progress.in_flight as f64);
    gauge!("receipted_progress_timestamp_seconds", &labels).set(progress.since.0 as f64 / 1000.0);
}

/// A partition is no longer read here: its gauges say nothing more.
pub fn partition_left(partition: &Partition) {
    let labels = [("topic", partition.topic.to_string()), ("partition", partition.number.to_string())];
    for name in ["receipted_watermark_gap_records", "receipted_records_in_flight", "receipted_lag_records"] {
        gauge!(name, &labels).set(0.0);
    }
}

/// Entries were handed to the store.
pub fn store_submitted(entries: usize) {
    gauge!("receipted_receipts_pending").increment(entries as f64);
}

/// A batch of so many entries is durable; its group commit had this size and took so long.
pub fn store_synced(entries: usize, group: usize, sync: Duration) {
    gauge!("receipted_receipts_pending").decrement(entries as f64);
    histogram!("receipted_receipt_sync_seconds").record(sync.as_secs_f64());
    histogram!("receipted_receipt_group_size").record(group as f64);
    if sync > Duration::from_secs(1) {
        tracing::warn!(entries = group, took_ms = millis(sync), "slow group commit");
    }
}

/// A lookup ended.
pub fn looked_up(key: &KeyDigest, finding: &Result<Finding, String>) {
    let result = match finding {
        Ok(Finding::Found(_)) => "found",
        Ok(Finding::NotFound) => "not_found",
        Ok(Finding::Pending) => "pending",
        Err(_) => "failed",
    };
    match finding {
        Ok(_) => tracing::debug!(%key, result, "looked up"),
        Err(reason) => tracing::warn!(%key, reason, "lookup failed; it is no evidence"),
    }
    counter!("receipted_lookups_total", "result" => result).increment(1);
}

/// The dead-letter topic did not take a record: it is parked here, and the gauge `parked{reason="dead_letter_failed"}` rises.
pub fn dead_letter_failed(slot: &Slot, error: &str) {
    tracing::error!(%slot, error, "dead-letter topic does not take this record");
}

/// A parked record cannot run as it is.
pub fn not_unparked(park: &ParkId, reason: &str) {
    tracing::error!(slot = %park.slot, number = park.number, reason, "parked record cannot run; it waits for a person");
}

/// The stop deadline cut handlers off.
pub fn stop_cut_off(alive: usize) {
    tracing::warn!(alive, "stop deadline reached; what still runs is found as an admission without a fact at the next start");
}

/// The broker does not say who is in the group.
pub fn group_not_described(group: &str, error: &dyn fmt::Display) {
    tracing::info!(group, %error, "the broker does not describe groups; other members show at the assignment");
}

/// A person's change was written.
pub fn operator_changed(by: &str, uid: u32, key: Option<KeyDigest>, what: &str, reason: &str) {
    let key = key.map(|key| key.to_string());
    tracing::warn!(by, uid, key, what, reason, "changed by an operator");
}

/// A person's change was refused.
pub fn operator_refused(by: &str, uid: u32, what: &str, code: &str) {
    tracing::warn!(by, uid, what, code, "operator's change refused");
}

/// An attempt took effect under a contract that rests on the destination knowing its key, and nobody asked for that key.
pub fn key_not_taken(operation: &str) {
    tracing::warn!(
        operation,
        "the handler did not take op.provider_key(), and its contract says that the destination deduplicates by it: a rerun would double the effect"
    );
    counter!("receipted_provider_key_unused_total", "operation" => operation.to_string()).increment(1);
}

/// The store could not be read for the metrics. It says so itself where it matters.
pub fn snapshot_failed(error: &dyn fmt::Display) {
    tracing::warn!(%error, "store cannot be read for metrics");
}
