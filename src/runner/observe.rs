//! Owns what the runner tells operators: each observable fact is one function that logs and counts together.

use super::engine::Here;
use crate::{
    handler::Routes,
    protocol::{
        key::KeyDigest,
        known::Entry,
        machine::{Assignment, Tally},
        note::Slot,
        outcome::Finding,
        park::ParkId,
        refused::Refused,
        settle::Changed,
        start::Refusal,
        time::UnixMillis,
    },
    store::{Partition, ReceiptStore},
};
use rdkafka::error::KafkaError;
use std::{collections::BTreeMap, time::Duration};

pub(super) fn partition_refused(topic: &str, partition: i32, refusal: &Refusal) {
    tracing::error!(topic, partition, %refusal, "partition refused");
}

pub(super) fn offset_regression(topic: &str, partition: i32, committed: i64, confirmed: i64) {
    tracing::warn!(topic, partition, committed, confirmed, "committed offset was moved back; repeats are answered from their receipts");
    metrics::counter!("receipted_offset_regressions_total", "topic" => topic.to_string()).increment(1);
}

pub(super) fn committed(_took: Duration) {}

pub(super) fn commit_failed(error: &KafkaError) {
    tracing::warn!(%error, "commit failed; tried again with the next one");
}

pub(super) fn lag(_topic: &str, _partition: i32, _lag: i64) {}

pub(super) fn client_error(error: &KafkaError, reason: &str) {
    tracing::warn!(%error, reason, "client");
}

pub(super) fn rebalance(kind: &'static str, partitions: usize) {
    tracing::info!(kind, partitions, "rebalance");
}

pub(super) fn partition_halted(topic: &str, partition: i32) {
    tracing::error!(topic, partition, "partition halted");
}

pub(super) fn halted(slot: &Slot, reason: &str) {
    tracing::error!(topic = %slot.topic, partition = slot.partition, offset = slot.offset, reason, "partition halted at this slot");
}

pub(super) fn records_fetched(topic: &str, records: usize) {
    metrics::counter!("receipted_records_fetched_total", "topic" => topic.to_string()).increment(records as u64);
}

pub(super) fn group_not_described(group: &str, error: &KafkaError) {
    tracing::info!(group, %error, "the broker does not describe groups; other members show at the assignment");
}

pub(super) fn partition_open(partition: &Partition, start: i64) {
    tracing::info!(topic = %partition.topic, partition = partition.number, start, "partition open");
}

pub(super) fn store_sync(_sync: Duration, _group: usize) {}

pub(super) fn stop_cut_off(alive: usize) {
    tracing::warn!(alive, "stop deadline reached; what still runs is found as an admission without a fact at the next start");
}

pub(super) fn looked_up(key: &KeyDigest, finding: &Result<Finding, String>) {
    match finding {
        Ok(_) => tracing::debug!(%key, "looked up"),
        Err(reason) => tracing::warn!(%key, reason, "lookup failed; it is no evidence"),
    }
}

pub(super) fn not_unparked(park: &ParkId, reason: &str) {
    tracing::error!(slot = %park.slot, number = park.number, reason, "parked record cannot run; it waits for a person");
}

pub(super) fn tallies(_tallies: BTreeMap<Tally, u64>, _here: &BTreeMap<usize, Here>, _routes: &Routes) {}

pub(super) fn store(_store: &dyn ReceiptStore, _now: UnixMillis) {}

pub(super) fn partitions(_watermarks: impl Iterator<Item = (Assignment, i64, usize)>, _here: &BTreeMap<usize, Here>) {}

pub(super) fn operator_changed(entry: &Entry, result: &Result<Changed, Refused>) {
    let key = entry.key().map(|key| key.to_string());
    match result {
        Ok(changed) => tracing::info!(key, state = changed.state, "changed by an operator"),
        Err(refused) => tracing::info!(key, %refused, "an operator's change was refused"),
    }
}
