//! Owns the second stage: text becomes durations, addresses and limits, each checked once and named when it does not fit.

use super::{
    Error, kafka as client,
    layers::Layers,
    raw, relations,
    value::{
        COUNT_MAX, brokers, count, directory, duration, file, first_start, group, listen, log_filter, member, required, size, topic, word,
    },
};
use crate::{handler::RoutePlan, protocol::time::UnixMillis, store::FileSystem};
use std::{collections::BTreeMap, fmt, net::SocketAddr, path::PathBuf, time::Duration};

/// Where to start when nothing is known of a partition that has records.
///
/// ```
/// # use receipted::{Config, config::FirstStart};
/// # let text = |first: &str| format!("kafka = {{ brokers = \"b:9092\", group = \"g\", first_start = \"{first}\" }}");
/// // A test that holds it: this service was taken over, and must not run what its predecessor has done.
/// let config = Config::from_text(&text("latest"))?;
/// assert_eq!(config.kafka.first_start, Some(FirstStart::Latest));
/// # Ok::<(), receipted::config::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstStart {
    /// With the oldest record.
    Earliest,
    /// With the next record.
    Latest,
    /// With the first record from this time on.
    At(UnixMillis),
}

/// Section `[kafka]`.
///
/// ```
/// # use receipted::Config;
/// # let text = "[kafka]\nbrokers = \"b:9092\"\ngroup = \"charges\"\n[kafka.settings]\n\"security.protocol\" = \"ssl\"";
/// // For another client of the same service: the cluster and its security, said once.
/// let kafka = Config::from_text(text)?.kafka;
/// assert_eq!((kafka.brokers.as_str(), kafka.settings["security.protocol"].as_str()), ("b:9092", "ssl"));
/// # Ok::<(), receipted::config::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Kafka {
    /// Addresses, with commas.
    pub brokers: String,
    /// The consumer group.
    pub group: String,
    /// Where to start where nothing is known; none refuses such a partition.
    pub first_start: Option<FirstStart>,
    /// The static member name; see [`Kafka::instance_id`].
    pub group_instance_id: Option<String>,
    /// `session.timeout.ms`.
    pub session_timeout: Duration,
    /// `heartbeat.interval.ms`.
    pub heartbeat_interval: Duration,
    /// `max.poll.interval.ms`.
    pub poll_interval_max: Duration,
    /// What passes through to the client, checked against the settings that are ours.
    pub settings: BTreeMap<String, String>,
}

impl Kafka {
    /// The static member name: as set, else made of the store's id, so that a copy of the store has the same.
    #[must_use]
    pub fn instance_id(&self, store_id: &str) -> String {
        self.group_instance_id.clone().unwrap_or_else(|| format!("receipted-{store_id}"))
    }
}

impl fmt::Debug for Kafka {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings = self.settings.iter().map(|(name, value)| (name, if client::is_secret(name) { "(hidden)" } else { value }));
        f.debug_struct("Kafka")
            .field("brokers", &self.brokers)
            .field("group", &self.group)
            .field("first_start", &self.first_start)
            .field("group_instance_id", &self.group_instance_id)
            .field("session_timeout", &self.session_timeout)
            .field("heartbeat_interval", &self.heartbeat_interval)
            .field("poll_interval_max", &self.poll_interval_max)
            .field("settings", &settings.collect::<BTreeMap<_, _>>())
            .finish()
    }
}

/// Section `[store]`.
///
/// ```
/// # use receipted::{Config, config::Error};
/// /// A command of your own that talks to the running process: it needs no cluster, and no other key of the file.
/// fn socket() -> Result<std::path::PathBuf, Error> {
///     Ok(Config::load_store(Some("charges.toml".as_ref()), std::env::vars_os())?.socket())
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Store {
    /// The receipts' directory.
    pub directory: PathBuf,
    /// The file with the secret that digests of keys are made with; see [`Store::key_secret`].
    pub key_secret_file: Option<PathBuf>,
    /// Which file systems it may lie on.
    pub file_system: FileSystem,
    /// Bytes of cache.
    pub cache_bytes: u64,
    /// Bytes of operations in memory, at most.
    pub known_bytes_max: usize,
    /// Bytes of parked records, at most.
    pub parked_bytes_max: u64,
    /// Bytes of one parked record, at most.
    pub park_record_bytes_max: u64,
    /// Free bytes below which nothing new is admitted.
    pub disk_free_floor_bytes: u64,
    /// Bytes of the file that holds space for completions.
    pub ballast_bytes: u64,
}

impl Store {
    /// The operator socket of the process that has this store open.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.directory.join("receipted.sock")
    }
}

/// Section `[runner]`.
///
/// ```
/// # use receipted::Config;
/// # let config = Config::from_text("kafka = { brokers = \"b:9092\", group = \"g\" }\nrunner = { permits = 16, worker_threads = 2 }")?;
/// // As many connections to the bank as handlers can be at it, on as many threads as they have.
/// let (connections, threads) = (config.runner.permits, config.runner.threads());
/// assert_eq!((connections, threads), (16, 2));
/// # Ok::<(), receipted::config::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Runner {
    /// Handlers at the same time.
    pub permits: usize,
    /// Threads that handlers run on; see [`Runner::threads`].
    pub worker_threads: Option<usize>,
    /// Permits for one tenant; none where [`Runner::tenant_share`] follows from the app.
    pub tenant_permits_max: Option<usize>,
    /// Incomplete records of a partition, at most.
    pub partition_records_max: usize,
    /// Their bytes, at most.
    pub partition_bytes_max: u64,
    /// How long work waits without progress until it makes room for others.
    pub waiting_grace: Duration,
    /// Records of a batch, at most.
    pub batch_records_max: usize,
    /// Between commits.
    pub commit_interval: Duration,
    /// For running handlers at a revoke.
    pub drain_budget: Duration,
    /// For a stop.
    pub stop_deadline: Duration,
    /// Runs of a reply hook for one record, at most.
    pub reply_attempts_max: u32,
    /// For one run of a reply hook.
    pub reply_time_limit: Duration,
}

impl Runner {
    /// How many threads handlers run on: as set, else one fewer than the processors that this process may use, and at least one. The
    /// consumer and the store have threads of their own, and two workers that share a processor with them pass tasks to and fro.
    #[must_use]
    pub fn threads(&self) -> usize {
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        self.worker_threads.unwrap_or_else(|| processors().saturating_sub(1)).max(1)
    }

    /// How many permits one tenant may have: as set, else all where every route is fixed to one and the same tenant, for then nobody
    /// else could use the rest; else three quarters.
    #[must_use]
    pub fn tenant_share(&self, routes: &[RoutePlan]) -> usize {
        let mut tenants = routes.iter().map(RoutePlan::fixed_tenant);
        let first = tenants.next().flatten();
        let is_alone = first.is_some() && tenants.all(|tenant| tenant == first);
        let share = if is_alone { self.permits } else { self.permits - self.permits / 4 };
        self.tenant_permits_max.unwrap_or(share.max(1))
    }
}

/// Section `[reconcile]`.
///
/// A part of [`Config`](super::Config).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reconcile {
    /// Lookups at the same time.
    pub lookups_max: usize,
    /// For one lookup.
    pub lookup_time_limit: Duration,
    /// The first wait before asking again.
    pub again_first: Duration,
    /// The longest wait before asking again.
    pub again_max: Duration,
}

/// Section `[dead_letter]`.
///
/// ```
/// # use receipted::{Config, config::HeaderNames};
/// # let config = Config::from_text("kafka = { brokers = \"b:9092\", group = \"g\" }\ndead_letter = { header_names = \"spring\" }")?;
/// // For the tool that reads them: where they are, and under which names.
/// assert_eq!(config.dead_letter.topic, "g.dead-letters");
/// assert_eq!(config.dead_letter.header_names, HeaderNames::Spring);
/// # Ok::<(), receipted::config::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The topic.
    pub topic: String,
    /// Whether the error's text goes into the headers.
    pub include_error_text: bool,
    /// Under which names a dead letter's origin and cause stand, beside ours.
    pub header_names: HeaderNames,
    /// How long an acknowledgement may take.
    pub acknowledge_within: Duration,
}

/// Under which names a dead letter's origin and cause stand. Ours are always there.
///
/// A part of [`DeadLetter`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderNames {
    /// Ours alone.
    Receipted,
    /// Those of Spring Kafka's dead letters too: `kafka_dlt-original-topic` and so on.
    Spring,
    /// Those of Kafka Connect's dead-letter queue too: `__connect.errors.topic` and so on.
    Connect,
}

/// How log lines look.
///
/// A part of [`Telemetry`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Section `[telemetry]`.
///
/// ```
/// # use receipted::{Config, config::LogFormat};
/// # let config = Config::from_text("kafka = { brokers = \"b:9092\", group = \"g\" }\ntelemetry = { log_format = \"json\" }")?;
/// // A service with a log of its own lets it look alike.
/// let as_json = config.telemetry.log_format == LogFormat::Json;
/// assert!(as_json);
/// # Ok::<(), receipted::config::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Telemetry {
    /// Where metrics and health are served; none serves nothing.
    pub listen: Option<SocketAddr>,
    /// How log lines look.
    pub log_format: LogFormat,
    /// Which lines are logged.
    pub log_filter: String,
}

pub(super) fn kafka(raw: &raw::Kafka, layers: &Layers) -> Result<Kafka, Error> {
    for (name, value) in &raw.settings {
        if let Some(reason) = client::refused(name, value) {
            return Err(Error::Owned { name: name.clone(), origin: layers.origin(&format!("kafka.settings.{name}")), reason });
        }
    }
    required("kafka.brokers", &raw.brokers)?;
    required("kafka.group", &raw.group)?;
    brokers("kafka.brokers", &raw.brokers, layers)?;
    group("kafka.group", &raw.group, layers)?;
    relations::client(&raw.settings, layers)?;
    Ok(Kafka {
        brokers: raw.brokers.clone(),
        group: raw.group.clone(),
        first_start: first_start("kafka.first_start", &raw.first_start, layers)?,
        group_instance_id: member("kafka.group_instance_id", &raw.group_instance_id, layers)?,
        session_timeout: duration("kafka.session_timeout", &raw.session_timeout, layers)?,
        heartbeat_interval: duration("kafka.heartbeat_interval", &raw.heartbeat_interval, layers)?,
        poll_interval_max: duration("kafka.poll_interval_max", &raw.poll_interval_max, layers)?,
        settings: raw.settings.clone(),
    })
}

pub(super) fn store(raw: &raw::Store, layers: &Layers) -> Result<Store, Error> {
    let bytes = |key: &str, value, min| count(key, value, min, COUNT_MAX, layers);
    let file_systems = [("local", FileSystem::Local), ("any", FileSystem::Any)];
    let file_system = word("store.file_system", &raw.file_system, &file_systems, layers)?;
    Ok(Store {
        directory: directory("store.directory", &raw.directory, layers)?,
        key_secret_file: file("store.key_secret_file", &raw.key_secret_file, layers)?,
        file_system,
        known_bytes_max: size("store.known_bytes_max", raw.known_bytes_max, (1 << 16, COUNT_MAX), layers)?,
        cache_bytes: bytes("store.cache_bytes", raw.cache_bytes, 1 << 20)?,
        parked_bytes_max: bytes("store.parked_bytes_max", raw.parked_bytes_max, 0)?,
        park_record_bytes_max: count("store.park_record_bytes_max", raw.park_record_bytes_max, 1, 1_000_000_000, layers)?,
        ballast_bytes: bytes("store.ballast_bytes", raw.ballast_bytes, 0)?,
        disk_free_floor_bytes: bytes("store.disk_free_floor_bytes", raw.disk_free_floor_bytes, 0)?,
    })
}

pub(super) fn runner(raw: &raw::Runner, layers: &Layers) -> Result<Runner, Error> {
    let number = |key: &str, value, max| size(key, value, (1, max), layers);
    let permits = number("runner.permits", raw.permits, 1_000_000)?;
    let threads = size("runner.worker_threads", raw.worker_threads, (0, 1024), layers)?;
    let tenant = size("runner.tenant_permits_max", raw.tenant_permits_max, (0, 1_000_000), layers)?;
    Ok(Runner {
        permits,
        worker_threads: Some(threads).filter(|threads| *threads > 0),
        tenant_permits_max: Some(tenant).filter(|tenant| *tenant > 0),
        reply_attempts_max: u32::try_from(count("runner.reply_attempts_max", raw.reply_attempts_max, 1, 1000, layers)?).unwrap_or(1),
        reply_time_limit: duration("runner.reply_time_limit", &raw.reply_time_limit, layers)?,
        partition_records_max: number("runner.partition_records_max", raw.partition_records_max, 10_000_000)?,
        partition_bytes_max: count("runner.partition_bytes_max", raw.partition_bytes_max, 1, COUNT_MAX, layers)?,
        waiting_grace: duration("runner.waiting_grace", &raw.waiting_grace, layers)?,
        batch_records_max: number("runner.batch_records_max", raw.batch_records_max, 1_000_000)?,
        commit_interval: duration("runner.commit_interval", &raw.commit_interval, layers)?,
        drain_budget: duration("runner.drain_budget", &raw.drain_budget, layers)?,
        stop_deadline: duration("runner.stop_deadline", &raw.stop_deadline, layers)?,
    })
}

pub(super) fn reconcile(raw: &raw::Reconcile, layers: &Layers) -> Result<Reconcile, Error> {
    Ok(Reconcile {
        lookups_max: size("reconcile.lookups_max", raw.lookups_max, (1, 100_000), layers)?,
        lookup_time_limit: duration("reconcile.lookup_time_limit", &raw.lookup_time_limit, layers)?,
        again_first: duration("reconcile.again_first", &raw.again_first, layers)?,
        again_max: duration("reconcile.again_max", &raw.again_max, layers)?,
    })
}

pub(super) fn dead_letter(raw: &raw::DeadLetter, group: &str, layers: &Layers) -> Result<DeadLetter, Error> {
    let name = if raw.topic.is_empty() { format!("{group}.dead-letters") } else { raw.topic.clone() };
    topic("dead_letter.topic", &name, layers)?;
    let names = [("receipted", HeaderNames::Receipted), ("spring", HeaderNames::Spring), ("connect", HeaderNames::Connect)];
    Ok(DeadLetter {
        topic: name,
        include_error_text: raw.include_error_text,
        header_names: word("dead_letter.header_names", &raw.header_names, &names, layers)?,
        acknowledge_within: duration("dead_letter.acknowledge_within", &raw.acknowledge_within, layers)?,
    })
}

pub(super) fn telemetry(raw: &raw::Telemetry, layers: &Layers) -> Result<Telemetry, Error> {
    let formats = [("text", LogFormat::Text), ("json", LogFormat::Json)];
    let log_format = word("telemetry.log_format", &raw.log_format, &formats, layers)?;
    let listen = listen("telemetry.listen", &raw.listen, layers)?;
    log_filter("telemetry.log_filter", &raw.log_filter, layers)?;
    Ok(Telemetry { listen, log_format, log_filter: raw.log_filter.clone() })
}
