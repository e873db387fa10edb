//! Owns what the runner tells telemetry: its own words, put into facts.

use super::{engine::Here, partitions::Word};
use crate::{
    handler::Routes,
    protocol::{known::Entry, machine::Tally, note::Author, refused::Refused, settle::Changed, time::UnixMillis},
    store::{Partition, ReceiptStore},
    telemetry::{
        observe::{self, Progress},
        snapshot,
        table::{self, Served},
    },
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use tokio::task::JoinHandle;

pub(super) use crate::telemetry::observe::{
    Held, brokers_answer, brokers_silent, client_error, client_says, commit_failed, committed, dead_letter_failed, group_not_described,
    key_not_taken, lag, looked_up, not_unparked, offset_regression, partition_act_refused, partition_halted, partition_held,
    partition_left, partition_not_held, partition_open, partition_refused, rebalance, records_fetched, stop_cut_off, store_submitted,
    store_synced,
};

/// Makes every series exist: what the store knows as it stands there, the others at zero. In this order, so that no look in between finds a
/// durable counter at zero: Prometheus would take that for a reset, and count everything once more.
pub(super) fn begin(routes: &Routes, store: &dyn ReceiptStore, now: UnixMillis) {
    if let Err(error) = snapshot::export(store, now) {
        observe::snapshot_failed(&error);
    }
    let mut served = BTreeSet::new();
    for plan in routes.operations() {
        let contract = plan.policy.contract.label();
        served.extend(plan.topics().iter().map(|topic| (topic.clone(), plan.name.to_string(), contract)));
    }
    let served: Vec<Served> = served.into_iter().map(|(topic, operation, contract)| Served { topic, operation, contract }).collect();
    table::describe_and_zero(&served);
}

/// Counts what became durable since the last turn.
pub(super) fn tallies(tallies: BTreeMap<Tally, u64>, here: &BTreeMap<usize, Here>, routes: &Routes) {
    for (tally, count) in tallies {
        match tally {
            Tally::Outcome(partition, route, outcome) => {
                let topic = here.get(&partition).map_or("unknown", |here| &here.partition.topic);
                let operation = route.and_then(|route| routes.operations().get(route)).map(|plan| plan.name);
                observe::ended(topic, operation, outcome, count);
            }
            Tally::Suppressed(reason) => observe::suppressed(reason, count),
            Tally::Started(kind) => observe::attempts_started(kind.label(), count),
            Tally::Finished(result) => observe::attempts_finished(result, count),
            Tally::Late(relation, result) => observe::late_completions(relation, result, count),
            Tally::Conflict(side) => observe::parameter_conflicts(side, count),
        }
    }
}

/// Says where a partition stands. Its watermark makes progress when it moves, and when nothing is left to do.
pub(super) fn progress(here: &mut Here, watermark: i64, gap: u64, in_flight: usize, now: UnixMillis) {
    if here.progress.0 != watermark || in_flight == 0 {
        here.progress = (watermark, now);
    }
    observe::progress(&here.partition, Progress { watermark, gap, in_flight, since: here.progress.1 });
}

/// A person paused or resumed a partition.
pub(super) fn partition_act(partition: &Partition, act: &'static str, word: &Word) {
    let (name, uid) = if let Author::Operator { name, uid } = &word.by { (name.as_str(), *uid) } else { ("nobody", 0) };
    observe::partition_act(partition, act, name, uid, &word.reason);
}

/// What became of a person's change once it was decided.
pub(super) fn operator_changed(entry: &Entry, result: &Result<Changed, Refused>) {
    let (by, what, reason) = match entry {
        Entry::Rule { verdict, .. } => (Some(&verdict.by), verdict.ruling.label(), verdict.reason.as_str()),
        Entry::End { end, .. } => (end.by.as_ref(), end.kind.label(), end.reason.as_str()),
        _ => (None, "entry", ""),
    };
    let (name, uid) = if let Some(Author::Operator { name, uid }) = by { (name.as_str(), *uid) } else { ("nobody", 0) };
    match result {
        Ok(changed) => observe::operator_changed(name, uid, changed.key, what, reason),
        Err(refused) => observe::operator_refused(name, uid, what, refused.code()),
    }
}

/// Reads the store for metrics, beside the engine and one turn at a time.
#[derive(Default)]
pub(super) struct StoreWatch(Option<JoinHandle<()>>);

impl StoreWatch {
    pub(super) fn turn(&mut self, store: &Arc<dyn ReceiptStore>, now: UnixMillis) {
        if self.0.as_ref().is_some_and(|running| !running.is_finished()) {
            return;
        }
        let store = store.clone();
        self.0 = Some(tokio::task::spawn_blocking(move || {
            if let Err(error) = snapshot::export(&*store, now) {
                observe::snapshot_failed(&error);
            }
        }));
    }
}
