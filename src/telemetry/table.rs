//! Owns the names, kinds, labels and meanings of every metric. `docs/METRICS.md` is this table, and a test compares the two.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

/// How a metric counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only ever rises; a restart begins again at zero.
    Counter,
    /// Only ever rises, and is kept in the store: a crash hides nothing.
    Durable,
    /// A size now.
    Gauge,
    /// A distribution.
    Histogram,
}

impl Kind {
    /// The name that the documentation uses.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Durable => "durable counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A label, or two that go together, with the values that it has. Never a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Label {
    /// One of these.
    Of(&'static str, &'static [&'static str]),
    /// `topic`: each topic of the app.
    Topic,
    /// `topic` and `operation`: each pair of the app, and `none` for records without an operation.
    TopicOperation,
    /// `operation` and `contract`: each operation of the app with its contract for attempts in doubt.
    OperationContract,
    /// `operation`: each operation of the app.
    Operation,
    /// `topic` and `partition`: each partition, from its assignment on.
    TopicPartition,
}

/// One metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// How it counts.
    pub kind: Kind,
    /// Its labels.
    pub labels: &'static [Label],
    /// What it says.
    pub help: &'static str,
}

/// An operation on a topic, as the app serves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// The topic.
    pub topic: String,
    /// The operation's name with its version.
    pub operation: String,
    /// Its contract for attempts in doubt.
    pub contract: &'static str,
}

/// The operation's label of a record that has none.
pub const NO_OPERATION: &str = "none";

/// Ends of a record, in the order of the documentation.
pub const OUTCOMES: &[&str] = &["applied", "rejected", "suppressed", "skipped", "dead_lettered", "parked", "returned"];
const SUPPRESSED: Label = Label::Of("reason", &["settled", "running", "held"]);
const START_KINDS: Label = Label::Of("kind", &["first", "retry", "rerun", "resumed"]);
/// Ends of an attempt.
pub const RESULTS: &[&str] = &["applied", "already", "no_effect", "rejected", "unknown", "panic", "timeout", "cancelled", "not_started"];
const DOUBTS: Label = Label::Of("reason", &["unknown", "panic", "timeout", "cancelled", "crash"]);
const PARKS: Label =
    Label::Of("reason", &["unresolved", "conflict", "expired", "dead_letter_failed", "poison", "retry", "reply", "skipped"]);
const AUTHORS: &[&str] = &["reconcile", "operator", "late_fact", "superseded"];
const VERDICTS: &[&str] = &["applied", "already", "not_done", "no_effect", "rejected", "not_started"];

const fn metric(name: &'static str, kind: Kind, labels: &'static [Label], help: &'static str) -> Metric {
    Metric { name, kind, labels, help }
}

/// Every metric.
pub const TABLE: &[Metric] = &[
    metric("receipted_records_fetched_total", Kind::Counter, &[Label::Topic], "Records that reached the runner."),
    metric(
        "receipted_operations_total",
        Kind::Counter,
        &[Label::TopicOperation, Label::Of("outcome", OUTCOMES)],
        "Records by what became of them, each once, when durable. Returned: given back at a revoke, not handled here.",
    ),
    metric(
        "receipted_records_in_flight",
        Kind::Gauge,
        &[Label::TopicPartition],
        "Records that are fetched and not complete. Fetched is the sum of the outcomes and of these.",
    ),
    metric("receipted_suppressed_total", Kind::Counter, &[SUPPRESSED], "Records whose handler was not run because of what is known."),
    metric("receipted_attempts_started_total", Kind::Counter, &[START_KINDS], "Handlers started, after their admission was durable."),
    metric(
        "receipted_attempts_finished_total",
        Kind::Counter,
        &[Label::Of("result", RESULTS)],
        "Attempts by what they said of their effect.",
    ),
    metric(
        "receipted_late_completions_total",
        Kind::Counter,
        &[Label::Of("relation", &["superseded", "deposed", "after_timeout"]), Label::Of("result", RESULTS)],
        "Answers of attempts that were no longer current.",
    ),
    metric(
        "receipted_duplicate_effects_total",
        Kind::Durable,
        &[
            Label::Of("detector", &["late_completion", "receipt_conflict", "destination", "audit"]),
            Label::Of("certainty", &["certain", "suspected"]),
        ],
        "Times that the outside world changed once more than it should. Each has an incident in the store.",
    ),
    metric(
        "receipted_prior_effects_found_total",
        Kind::Durable,
        &[Label::Of("cause", &["unknown_attempt", "expired", "lost_store", "foreign"])],
        "Times that the destination said that it had the effect already.",
    ),
    metric(
        "receipted_parameter_conflicts_total",
        Kind::Counter,
        &[Label::Of("side", &["second"])],
        "Records that came with the key of a known operation and other parameters.",
    ),
    metric("receipted_unresolved", Kind::Gauge, &[DOUBTS], "Attempts that may have had their effect, and nobody knows."),
    metric("receipted_unresolved_oldest_seconds", Kind::Gauge, &[DOUBTS], "Age of the oldest of these."),
    metric(
        "receipted_unresolved_opened_total",
        Kind::Durable,
        &[DOUBTS],
        "Attempts that became unresolved. Opened less closed is unresolved.",
    ),
    metric(
        "receipted_unresolved_closed_total",
        Kind::Durable,
        &[Label::Of("verdict", VERDICTS), Label::Of("by", AUTHORS)],
        "Unresolved attempts by what settled them.",
    ),
    metric("receipted_parked", Kind::Gauge, &[PARKS], "Records set aside durably."),
    metric("receipted_parked_oldest_seconds", Kind::Gauge, &[PARKS], "Age of the oldest of these."),
    metric("receipted_parked_bytes", Kind::Gauge, &[], "Bytes of parked records. The bound is store.parked_bytes_max."),
    metric("receipted_parked_opened_total", Kind::Durable, &[PARKS], "Records that were parked."),
    metric(
        "receipted_parked_closed_total",
        Kind::Durable,
        &[PARKS, Label::Of("by", &["runner", "reconcile", "operator"])],
        "Park notes that ended, by who ended them.",
    ),
    metric(
        "receipted_provider_key_unused_total",
        Kind::Counter,
        &[Label::Operation],
        "Effects under destination_deduplicates whose handler never took the key that the destination is to know it by. Must stay 0.",
    ),
    metric("receipted_disputed", Kind::Gauge, &[], "Operations whose evidence contradicts itself."),
    metric(
        "receipted_superseded_unproved",
        Kind::Gauge,
        &[],
        "Applied operations with an undecided attempt beside the one that was applied.",
    ),
    metric("receipted_reopened_waiting", Kind::Gauge, &[], "Reopened operations without a record to run from."),
    metric(
        "receipted_store_receipts",
        Kind::Gauge,
        &[],
        "Operations that the store holds. Nothing is pruned yet: it grows with every new operation.",
    ),
    metric("receipted_store_bytes", Kind::Gauge, &[], "Bytes of the store on its disk."),
    metric("receipted_disk_free_bytes", Kind::Gauge, &[], "Bytes free on that disk. The floor is store.disk_free_floor_bytes."),
    metric("receipted_receipts_pending", Kind::Gauge, &[], "Entries handed to the store and not answered."),
    metric("receipted_receipt_sync_seconds", Kind::Histogram, &[], "Time of each group commit, written and synced."),
    metric("receipted_receipt_group_size", Kind::Histogram, &[], "Entries that shared a group commit."),
    metric(
        "receipted_route_info",
        Kind::Gauge,
        &[Label::OperationContract],
        "1 for each operation. Under a contract that cannot tell, a zero elsewhere reads not measured.",
    ),
    metric(
        "receipted_lookups_total",
        Kind::Counter,
        &[Label::Of("result", &["found", "not_found", "pending", "failed"])],
        "Lookups by what they saw. A failed one is no evidence.",
    ),
    metric(
        "receipted_progress_timestamp_seconds",
        Kind::Gauge,
        &[Label::TopicPartition],
        "When the watermark last moved, or nothing was left to do.",
    ),
    metric("receipted_watermark", Kind::Gauge, &[Label::TopicPartition], "Offset of the lowest slot that is not complete."),
    metric(
        "receipted_lag_records",
        Kind::Gauge,
        &[Label::TopicPartition],
        "Records between the committed offset and the log's end, as the client measures it.",
    ),
    metric(
        "receipted_watermark_gap_records",
        Kind::Gauge,
        &[Label::TopicPartition],
        "Slots between the watermark and the last one taken: how far a slow head holds the partition back.",
    ),
    metric("receipted_rebalances_total", Kind::Counter, &[Label::Of("kind", &["assign", "revoke"])], "Changes of the assignment."),
    metric(
        "receipted_partition_held",
        Kind::Gauge,
        &[Label::TopicPartition, Label::Of("why", &["halted", "paused"])],
        "1 for a partition that is not read until somebody does something about it.",
    ),
    metric("receipted_offset_regressions_total", Kind::Counter, &[Label::Topic], "Times that the group's offset was found moved back."),
    metric("receipted_commit_seconds", Kind::Histogram, &[], "Time of each offset commit."),
    metric("receipted_commit_failures_total", Kind::Counter, &[], "Offset commits that failed and are tried again."),
    metric("receipted_client_errors_total", Kind::Counter, &[], "Errors that the Kafka clients reported."),
];

/// Describes every metric to the installed recorder, and makes every series exist: at zero, unless it has a value already.
pub fn describe_and_zero(served: &[Served]) {
    for metric in TABLE {
        let unit = if metric.name.ends_with("_seconds") {
            Unit::Seconds
        } else if metric.name.ends_with("_bytes") {
            Unit::Bytes
        } else {
            Unit::Count
        };
        match metric.kind {
            Kind::Counter | Kind::Durable => describe_counter!(metric.name, unit, metric.help),
            Kind::Gauge => describe_gauge!(metric.name, unit, metric.help),
            Kind::Histogram => describe_histogram!(metric.name, unit, metric.help),
        }
        for labels in series(metric, served) {
            match metric.kind {
                Kind::Counter | Kind::Durable => metrics::counter!(metric.name, &labels).increment(0),
                Kind::Gauge if metric.labels == [Label::OperationContract] => metrics::gauge!(metric.name, &labels).set(1.0),
                Kind::Gauge => metrics::gauge!(metric.name, &labels).increment(0.0),
                Kind::Histogram => drop(metrics::histogram!(metric.name, &labels)),
            }
        }
    }
}

/// The labels of every series that a metric has from the start.
#[must_use]
pub fn series(metric: &Metric, served: &[Served]) -> Vec<Vec<(&'static str, String)>> {
    let mut all = vec![Vec::new()];
    for label in metric.labels {
        let values = values(*label, served);
        all = all.iter().flat_map(|labels| values.iter().map(move |value| [&labels[..], &value[..]].concat())).collect();
    }
    all
}

fn values(label: Label, served: &[Served]) -> Vec<Vec<(&'static str, String)>> {
    let topics: std::collections::BTreeSet<&str> = served.iter().map(|served| served.topic.as_str()).collect();
    match label {
        Label::Of(name, values) => values.iter().map(|value| vec![(name, (*value).to_string())]).collect(),
        Label::Topic => topics.into_iter().map(|topic| vec![("topic", topic.into())]).collect(),
        Label::TopicOperation => {
            let none = topics.into_iter().map(|topic| (topic, NO_OPERATION));
            let pairs = served.iter().map(|served| (served.topic.as_str(), served.operation.as_str()));
            pairs.chain(none).map(|(topic, operation)| vec![("topic", topic.into()), ("operation", operation.into())]).collect()
        }
        Label::OperationContract => {
            served.iter().map(|served| vec![("operation", served.operation.clone()), ("contract", served.contract.into())]).collect()
        }
        Label::Operation => served.iter().map(|served| vec![("operation", served.operation.clone())]).collect(),
        Label::TopicPartition => Vec::new(),
    }
}

/// The table as `docs/METRICS.md` has it.
#[must_use]
pub fn markdown() -> String {
    let mut text = String::from("| metric | kind | labels | what it says |\n|---|---|---|---|\n");
    for metric in TABLE {
        let labels: Vec<String> = metric.labels.iter().map(|label| label_text(*label)).collect();
        text.push_str(&format!("| `{}` | {} | {} | {} |\n", metric.name, metric.kind.label(), labels.join("; "), metric.help));
    }
    text
}

fn label_text(label: Label) -> String {
    match label {
        Label::Of(name, values) => format!("{name} = {}", values.join(", ")),
        Label::Topic => "topic".into(),
        Label::TopicOperation => "topic, operation".into(),
        Label::OperationContract => "operation, contract".into(),
        Label::Operation => "operation".into(),
        Label::TopicPartition => "topic, partition".into(),
    }
}
