//! Owns what a runner is set to, resolved, and the client settings that follow from it.

use rdkafka::ClientConfig;
use std::{collections::BTreeMap, time::Duration};

use super::Error;
use crate::{
    config::{HeaderNames, kafka},
    protocol::time::UnixMillis,
};

/// Where to start on a topic that has records and no committed offset.
///
/// A part of [`Settings`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstStart {
    /// Not said: refused on a topic that has records.
    Unset,
    /// With the first record.
    Earliest,
    /// After the last one.
    Latest,
    /// With the first record of that time.
    At(UnixMillis),
}

/// What a runner is set to.
///
/// ```
/// # use receipted::runner::{ErrorText, FirstStart, Settings};
/// /// What differs on a cluster for tests: everything from the first record on, and letters that say all.
/// fn on_a_test_cluster(settings: Settings) -> Settings {
///     Settings {
///         brokers: "localhost:9092".into(),
///         first_start: FirstStart::Earliest,
///         error_text: ErrorText::Included,
///         ..settings
///     }
/// }
/// ```
#[derive(Clone)]
pub struct Settings {
    /// Where the cluster is.
    pub brokers: String,
    /// The consumer group.
    pub group: String,
    /// The static member name; `receipted-<store id>` when not set.
    pub group_instance_id: Option<String>,
    /// After how long without heartbeat the broker takes the partitions away.
    pub session_timeout: Duration,
    /// How often the client says that it lives.
    pub heartbeat_interval: Duration,
    /// After how long without a poll the client gives its partitions up.
    pub poll_interval_max: Duration,
    /// Where to start without an offset.
    pub first_start: FirstStart,
    /// librdkafka settings, as given. Those that are receipted's own are refused when the runner starts, as in the configuration.
    pub client: BTreeMap<String, String>,
    /// Handlers that run at the same time.
    pub permits: usize,
    /// Of these, for one tenant.
    pub tenant_permits_max: usize,
    /// Records of one partition on their way.
    pub partition_records_max: usize,
    /// Their bytes.
    pub partition_bytes_max: u64,
    /// How long work waits without progress until it makes room for others.
    pub waiting_grace: Duration,
    /// Records handed over at once.
    pub batch_records_max: usize,
    /// Between two commits.
    pub commit_interval: Duration,
    /// How long running handlers may finish when a partition is taken away.
    pub drain_budget: Duration,
    /// How long a stop may take.
    pub stop_deadline: Duration,
    /// Lookups at the same time.
    pub lookups_max: usize,
    /// How long one lookup may take.
    pub lookup_time_limit: Duration,
    /// Between two lookups of one operation: at first, and at most.
    pub look_up_back_off: (Duration, Duration),
    /// Runs of a reply hook for one record, and the wait between them.
    pub reply_attempts_max: u32,
    /// Between two runs of a reply hook, and how long one may take.
    pub reply_time_limit: Duration,
    /// Bytes of a record that can be parked.
    pub park_record_bytes_max: u64,
    /// Where dead letters go.
    pub dead_letter_topic: String,
    /// How long the topic may take.
    pub dead_letter_within: Duration,
    /// Whether headers carry the error's text.
    pub error_text: ErrorText,
    /// Under which names a dead letter's origin and cause stand, beside ours.
    pub header_names: HeaderNames,
}

/// Whether a dead letter's headers carry the error's text, which may hold personal data.
///
/// A part of [`Settings`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorText {
    /// They do.
    Included,
    /// They do not.
    Left,
}

/// Every wait for the broker outside the poll loop has this bound.
pub(super) const BROKER_WAIT: Duration = Duration::from_secs(15);

/// How the settings begin that only a consumer has.
const OF_CONSUMERS: &[&str] = &["fetch.", "queued.", "max.partition.fetch.bytes", "check.crcs"];
/// How the settings begin that only a producer has.
const OF_PRODUCERS: &[&str] = &[
    "queue.buffering.",
    "batch.",
    "compression.",
    "linger.ms",
    "retries",
    "message.send.max.retries",
    "message.timeout.ms",
    "delivery.timeout.ms",
    "request.timeout.ms",
    "partitioner",
    "sticky.partitioning.linger.ms",
];

impl Settings {
    /// The consumer's settings. Those that make offsets move only after receipts are not to be changed.
    pub(super) fn consumer(&self, store_id: &str) -> ClientConfig {
        let instance = self.instance(store_id);
        let mut client = self.client(OF_PRODUCERS);
        client
            .set("group.id", &self.group)
            .set("group.instance.id", &instance)
            .set("client.id", &instance)
            .set("session.timeout.ms", self.session_timeout.as_millis().to_string())
            .set("heartbeat.interval.ms", self.heartbeat_interval.as_millis().to_string())
            .set("max.poll.interval.ms", self.poll_interval_max.as_millis().to_string())
            .set("partition.assignment.strategy", "cooperative-sticky")
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "error")
            .set("isolation.level", "read_committed")
            .set("enable.partition.eof", "false");
        client
    }

    /// The settings of a client that looks at the group and does not join it.
    pub(super) fn observer(&self) -> ClientConfig {
        let mut client = self.client(OF_PRODUCERS);
        client.set("group.id", &self.group).set("enable.auto.commit", "false");
        client
    }

    /// The dead-letter producer's settings.
    pub(super) fn producer(&self, store_id: &str) -> ClientConfig {
        let mut client = self.client(OF_CONSUMERS);
        let bytes = self.park_record_bytes_max.saturating_add(1 << 20).min(1_000_000_000);
        client
            .set("client.id", format!("{}-dead-letters", self.instance(store_id)))
            .set("acks", "all")
            .set("enable.idempotence", "true")
            .set("message.max.bytes", bytes.to_string())
            .set("message.timeout.ms", self.dead_letter_within.as_millis().to_string());
        client
    }

    /// Refuses client settings that are receipted's own, by the configuration's list and with its reasons, and an app that would read
    /// its own dead letters.
    pub(super) fn check<'a>(&self, mut topics: impl Iterator<Item = &'a str>) -> Result<(), Error> {
        if topics.any(|topic| topic == self.dead_letter_topic) {
            return Err(Error::Loop { topic: self.dead_letter_topic.clone() });
        }
        let refused = |(name, value): (&String, &String)| kafka::refused(name, value).map(|reason| (name.clone(), reason));
        match self.client.iter().find_map(refused) {
            Some((name, reason)) => Err(Error::Owned { name, reason }),
            None => Ok(()),
        }
    }

    /// The static member name.
    pub(super) fn instance(&self, store_id: &str) -> String {
        self.group_instance_id.clone().unwrap_or_else(|| format!("receipted-{store_id}"))
    }

    /// The settings as given, without those that only the other kind of client understands: it would warn of each.
    fn client(&self, not_of: &[&str]) -> ClientConfig {
        let mut client = ClientConfig::new();
        for (name, value) in self.client.iter().filter(|(name, _)| !not_of.iter().any(|other| name.starts_with(other))) {
            client.set(name, value);
        }
        client.set("bootstrap.servers", &self.brokers);
        client
    }
}
