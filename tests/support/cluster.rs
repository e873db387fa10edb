//! Owns what a test does on a cluster, real or mock: topics, records, offsets of groups.
//! Does not own the broker's life.

use super::process::{pause, wait_for};
use super::wire::{self, RawRecord, Refused};
use super::{block_on, catch_quietly};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::{ClientConfig, FromClientConfig};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::{BaseRecord, DeliveryResult, Producer, ProducerContext, ThreadedProducer};
use rdkafka::{ClientContext, Offset, TopicPartitionList};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long any one step on the cluster may take.
pub const STEP_MAX: Duration = Duration::from_secs(30);

/// A record to produce. Made with [`record`], completed with its methods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    pub partition: Option<i32>,
    pub timestamp: Option<i64>,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

/// A record with a value and nothing else.
pub fn record(value: impl Into<Vec<u8>>) -> Record {
    Record { value: Some(value.into()), ..Record::default() }
}

/// A record without a value.
pub fn tombstone() -> Record {
    Record::default()
}

impl Record {
    pub fn key(self, key: impl Into<Vec<u8>>) -> Self {
        Self { key: Some(key.into()), ..self }
    }
    pub fn header(mut self, name: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push((name.into(), Some(value.into())));
        self
    }
    pub fn null_header(mut self, name: impl Into<Vec<u8>>) -> Self {
        self.headers.push((name.into(), None));
        self
    }
    pub fn partition(self, partition: i32) -> Self {
        Self { partition: Some(partition), ..self }
    }
    pub fn timestamp(self, timestamp: i64) -> Self {
        Self { timestamp: Some(timestamp), ..self }
    }
}

/// A record as the cluster holds it. Header names are bytes, since not all of them are text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub partition: i32,
    pub offset: i64,
    pub timestamp: Option<i64>,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl Stored {
    /// The value of the last header of that name, as text.
    pub fn header(&self, name: &str) -> Option<String> {
        let (_, value) = self.headers.iter().rev().find(|(stored, _)| stored == name.as_bytes())?;
        value.as_ref().map(|value| String::from_utf8_lossy(value).into_owned())
    }
    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.value.as_deref().unwrap_or_default()).into_owned()
    }
}

/// A committed offset: the next one to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    pub offset: i64,
    pub metadata: Vec<u8>,
}

impl Committed {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.metadata).into_owned()
    }
}

/// How a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionEnd {
    Commit,
    Abort,
}

/// A cluster by its address.
#[derive(Clone, Debug)]
pub struct Cluster(String);

impl Cluster {
    pub fn new(brokers: impl Into<String>) -> Self {
        Self(brokers.into())
    }

    /// What goes into `bootstrap.servers`.
    pub fn brokers(&self) -> &str {
        &self.0
    }

    fn address(&self) -> &str {
        self.0.split(',').next().unwrap_or_default()
    }

    /// A client's configuration with the address, and nothing else.
    pub fn config(&self) -> ClientConfig {
        ClientConfig::new().set("bootstrap.servers", &self.0).clone()
    }

    fn client<T: FromClientConfig>(&self) -> T {
        self.config().create().expect("a client")
    }

    /// Waits until a broker answers.
    pub fn ready(&self, bound: Duration) -> Result<(), String> {
        // Before that, librdkafka would log each refused connection.
        let deadline = Instant::now() + bound;
        while let Err(error) = std::net::TcpStream::connect(self.address()) {
            if Instant::now() > deadline {
                return Err(error.to_string());
            }
            pause();
        }
        let consumer: BaseConsumer = self.config().create().map_err(|error| error.to_string())?;
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(500));
        match consumer.fetch_metadata(None, left) {
            Ok(metadata) if metadata.brokers().is_empty() => Err("it knows no broker yet".into()),
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    // ---- topics

    /// Creates a topic with a name of its own, and returns the name.
    pub fn fresh_topic(&self, prefix: &str, partitions: i32) -> String {
        let name = unique(prefix);
        self.create_topic(&name, partitions, &[]);
        name
    }

    /// Creates a topic, and waits until each partition has a leader.
    #[track_caller]
    pub fn create_topic(&self, name: &str, partitions: i32, config: &[(&str, &str)]) {
        let (admin, topic) = (self.client::<AdminClient<DefaultClientContext>>(), name.to_owned());
        let config: Vec<_> = config.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let created = block_on(async move {
            let mut new = NewTopic::new(&topic, partitions, TopicReplication::Fixed(1));
            for (key, value) in &config {
                new = new.set(key, value);
            }
            admin.create_topics([&new], &options()).await
        });
        created.expect("an answer")[0].as_ref().unwrap_or_else(|(topic, error)| panic!("{topic} was not created: {error}"));
        wait_for(&format!("leaders for {name}"), STEP_MAX, || (self.partitions(name) == usize::try_from(partitions).ok()).then_some(()));
    }

    /// How many partitions with a leader a topic has; `None` without the topic.
    pub fn partitions(&self, topic: &str) -> Option<usize> {
        let metadata = self.client::<BaseConsumer>().fetch_metadata(Some(topic), STEP_MAX).expect("metadata");
        let topic = metadata.topics().first()?;
        topic.error().is_none().then(|| topic.partitions().iter().filter(|partition| partition.leader() >= 0).count())
    }

    /// Deletes a topic, and waits until it is gone.
    #[track_caller]
    pub fn delete_topic(&self, name: &str) {
        let (admin, topic) = (self.client::<AdminClient<DefaultClientContext>>(), name.to_owned());
        let deleted = block_on(async move { admin.delete_topics(&[&topic], &options()).await });
        deleted.expect("an answer")[0].as_ref().unwrap_or_else(|(topic, error)| panic!("{topic} was not deleted: {error}"));
        wait_for(&format!("the end of {name}"), STEP_MAX, || self.partitions(name).is_none().then_some(()));
    }

    /// Deletes a group that nobody is in any more.
    #[track_caller]
    pub fn delete_group(&self, name: &str) {
        let (admin, group) = (self.client::<AdminClient<DefaultClientContext>>(), name.to_owned());
        let deleted = block_on(async move { admin.delete_groups(&[&group], &options()).await });
        deleted.expect("an answer")[0].as_ref().unwrap_or_else(|(group, error)| panic!("{group} was not deleted: {error}"));
    }

    /// Raises the number of partitions of a topic.
    #[track_caller]
    pub fn add_partitions(&self, name: &str, partitions: usize) {
        let (admin, topic) = (self.client::<AdminClient<DefaultClientContext>>(), name.to_owned());
        let added =
            block_on(async move { admin.create_partitions(&[rdkafka::admin::NewPartitions::new(&topic, partitions)], &options()).await });
        added.expect("an answer")[0].as_ref().unwrap_or_else(|(topic, error)| panic!("{topic} was not widened: {error}"));
        wait_for(&format!("leaders for {name}"), STEP_MAX, || (self.partitions(name) == Some(partitions)).then_some(()));
    }

    /// Deletes the records below an offset.
    #[track_caller]
    pub fn delete_records(&self, topic: &str, partition: i32, before: i64) {
        let admin = self.client::<AdminClient<DefaultClientContext>>();
        let mut offsets = TopicPartitionList::new();
        offsets.add_partition_offset(topic, partition, Offset::Offset(before)).expect("an offset");
        block_on(async move { admin.delete_records(&offsets, &options()).await.map(drop) }).expect("the records are deleted");
        wait_for("the new start of the log", STEP_MAX, || (self.log_range(topic, partition).0 >= before).then_some(()));
    }

    /// The first offset of a partition and the one after its last.
    #[track_caller]
    pub fn log_range(&self, topic: &str, partition: i32) -> (i64, i64) {
        self.client::<BaseConsumer>().fetch_watermarks(topic, partition, STEP_MAX).expect("both ends of the log")
    }

    // ---- records

    /// Produces records in order, and returns where each ended up. Fails unless all are stored.
    #[track_caller]
    pub fn produce(&self, topic: &str, records: impl IntoIterator<Item = Record>) -> Vec<(i32, i64)> {
        self.produce_with(topic, records, &[])
    }

    /// The same with settings of the producer, such as `("compression.type", "zstd")`.
    ///
    /// A record with a header name that is not UTF-8 goes a way of its own: uncompressed, and to partition 0 if it names none.
    #[track_caller]
    pub fn produce_with(&self, topic: &str, records: impl IntoIterator<Item = Record>, settings: &[(&str, &str)]) -> Vec<(i32, i64)> {
        let places = Places::default();
        let mut config = self.config();
        config.set("message.max.bytes", "33000000").set("enable.idempotence", "true").set("linger.ms", "5");
        config.set("partitioner", "murmur2_random");
        for (key, value) in settings {
            config.set(*key, *value);
        }
        let producer: ThreadedProducer<Places> = config.create_with_context(places.clone()).expect("a producer");
        let mut count = 0;
        for record in records {
            if record.headers.iter().all(|(name, _)| std::str::from_utf8(name).is_ok()) {
                send(&producer, topic, &record, count);
            } else {
                producer.flush(STEP_MAX).expect("the records before are stored");
                places.note(count, self.produce_raw(topic, record));
            }
            count += 1;
        }
        producer.flush(STEP_MAX).expect("the records are stored");
        let mut places = std::mem::take(&mut *places.0.lock().unwrap());
        places.sort_unstable_by_key(|(index, _)| *index);
        assert_eq!(places.len(), count, "each record has one place");
        places.into_iter().map(|(index, place)| place.unwrap_or_else(|error| panic!("record {index} is not stored: {error}"))).collect()
    }

    /// Produces records in a transaction, and ends it. They take the default partition where they name none.
    #[track_caller]
    pub fn transaction(&self, topic: &str, records: impl IntoIterator<Item = Record>, end: TransactionEnd) {
        let places = Places::default();
        let producer: ThreadedProducer<Places> =
            self.config().set("transactional.id", unique("transaction")).create_with_context(places).expect("a producer");
        producer.init_transactions(STEP_MAX).expect("transactions");
        producer.begin_transaction().expect("a transaction");
        records.into_iter().enumerate().for_each(|(index, record)| send(&producer, topic, &record, index));
        producer.flush(STEP_MAX).expect("the records are stored");
        match end {
            TransactionEnd::Commit => producer.commit_transaction(STEP_MAX).expect("committed"),
            TransactionEnd::Abort => producer.abort_transaction(STEP_MAX).expect("aborted"),
        }
    }

    fn produce_raw(&self, topic: &str, record: Record) -> Result<(i32, i64), String> {
        let partition = record.partition.unwrap_or(0);
        let timestamp = record.timestamp.unwrap_or_else(now_millis);
        let raw = RawRecord { offset: 0, timestamp, key: record.key, value: record.value, headers: record.headers };
        let offset = wire::produce(self.address(), topic, partition, &[raw]).map_err(|error| error.to_string())?;
        Ok((partition, offset))
    }

    /// All records of a topic in the order of partition and offset.
    #[track_caller]
    pub fn read_all(&self, topic: &str) -> Vec<Stored> {
        let partitions = i32::try_from(self.partitions(topic).unwrap_or_else(|| panic!("there is no topic {topic}"))).expect("a number");
        let mut config = self.config();
        config.set("group.id", "receipted-tests-reader").set("enable.auto.commit", "false").set("enable.partition.eof", "true");
        config.set("isolation.level", "read_uncommitted").set("fetch.wait.max.ms", "10").set("fetch.message.max.bytes", "33000000");
        let consumer: BaseConsumer = config.create().expect("a consumer");
        let mut assignment = TopicPartitionList::new();
        for partition in 0..partitions {
            assignment.add_partition_offset(topic, partition, Offset::Beginning).expect("an offset");
        }
        consumer.assign(&assignment).expect("assigned");
        let mut open: BTreeSet<_> = (0..partitions).collect();
        let mut found = Vec::new();
        let deadline = Instant::now() + STEP_MAX;
        while !open.is_empty() {
            assert!(Instant::now() < deadline, "{topic} could not be read in {STEP_MAX:?}");
            match consumer.poll(Duration::from_millis(100)) {
                Some(Ok(stored)) => found.push(self.stored(topic, &stored)),
                Some(Err(KafkaError::PartitionEOF(partition))) => drop(open.remove(&partition)),
                Some(Err(error)) => panic!("{topic} could not be read: {error}"),
                None => {}
            }
        }
        found.sort_by_key(|stored| (stored.partition, stored.offset));
        found
    }

    fn stored(&self, topic: &str, stored: &rdkafka::message::BorrowedMessage<'_>) -> Stored {
        let (partition, offset) = (stored.partition(), stored.offset());
        // A name that is not UTF-8 panics in the library; such a record is read again by hand.
        let headers = catch_quietly(|| {
            let headers = stored.headers().map(|headers| headers.iter().map(|one| (one.key.into(), one.value.map(Into::into))).collect());
            headers.unwrap_or_default()
        });
        let headers = headers.unwrap_or_else(|| self.raw(topic, partition, offset).headers);
        let (key, value) = (stored.key().map(Into::into), stored.payload().map(Into::into));
        Stored { partition, offset, timestamp: stored.timestamp().to_millis(), key, value, headers }
    }

    fn raw(&self, topic: &str, partition: i32, offset: i64) -> RawRecord {
        let batches = wire::fetch(self.address(), topic, partition, offset, 33_000_000).expect("the records");
        let records = batches.into_iter().flat_map(|batch| batch.records);
        records.into_iter().find(|record| record.offset == offset).expect("an uncompressed record at that offset")
    }

    /// The compression of each batch that a partition holds.
    #[track_caller]
    pub fn codecs(&self, topic: &str, partition: i32) -> BTreeSet<&'static str> {
        let start = self.log_range(topic, partition).0;
        wire::fetch(self.address(), topic, partition, start, 33_000_000)
            .expect("the batches")
            .into_iter()
            .map(|batch| batch.codec)
            .collect()
    }

    // ---- groups

    /// What a group has committed for a partition.
    #[track_caller]
    pub fn committed(&self, group: &str, topic: &str, partition: i32) -> Option<Committed> {
        let found = self.at_coordinator(group, |address| wire::committed(address, group, topic, partition));
        found.map(|(offset, metadata)| Committed { offset, metadata })
    }

    /// Sets a group's offset from outside, as an operator's rewind does: without metadata. Waits until the group has no member.
    #[track_caller]
    pub fn rewind(&self, group: &str, topic: &str, partition: i32, offset: i64) {
        self.commit(group, topic, partition, offset, None);
    }

    /// The same with metadata of any bytes.
    #[track_caller]
    pub fn commit(&self, group: &str, topic: &str, partition: i32, offset: i64, metadata: Option<&[u8]>) {
        self.at_coordinator(group, |address| wire::commit(address, group, topic, partition, offset, metadata));
    }

    #[track_caller]
    fn at_coordinator<T>(&self, group: &str, act: impl Fn(&str) -> std::io::Result<T>) -> T {
        const AGAIN: [i16; 4] =
            [Refused::COORDINATOR_LOADING, Refused::COORDINATOR_NOT_AVAILABLE, Refused::NOT_COORDINATOR, Refused::UNKNOWN_MEMBER];
        wait_for(&format!("the coordinator of group {group}, and no member in it"), STEP_MAX, || {
            let done = wire::coordinator(self.address(), group).and_then(|address| act(&address));
            match done {
                Ok(done) => Some(done),
                Err(error) if wire::refusal(&error).is_some_and(|code| AGAIN.contains(&code)) => None,
                Err(error) => panic!("group {group}: {error}"),
            }
        })
    }

    /// A group's state and its members' client ids.
    #[track_caller]
    pub fn group(&self, group: &str) -> (String, Vec<String>) {
        let list = self.client::<BaseConsumer>().fetch_group_list(Some(group), STEP_MAX).expect("the group");
        list.groups().first().map_or_else(Default::default, |found| {
            (found.state().to_owned(), found.members().iter().map(|member| member.client_id().to_owned()).collect())
        })
    }
}

/// A name that no other test uses.
pub fn unique(prefix: &str) -> String {
    format!("{prefix}-{}", &uuid::Uuid::new_v4().simple().to_string()[..12])
}

pub fn now_millis() -> i64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(0))
}

fn options() -> AdminOptions {
    AdminOptions::new().operation_timeout(Some(STEP_MAX)).request_timeout(Some(STEP_MAX))
}

fn send(producer: &ThreadedProducer<Places>, topic: &str, record: &Record, index: usize) {
    let names = || record.headers.iter().map(|(name, value)| (std::str::from_utf8(name).expect("looked at before"), value));
    let headers = names().fold(OwnedHeaders::new(), |all, (key, value)| all.insert(Header { key, value: value.as_ref() }));
    let mut next = BaseRecord::with_opaque_to(topic, Box::new(index));
    next.partition = record.partition;
    next.timestamp = record.timestamp;
    next.key = record.key.as_deref();
    next.payload = record.value.as_deref();
    next.headers = (!record.headers.is_empty()).then_some(headers);
    let deadline = Instant::now() + STEP_MAX;
    while let Err((error, back)) = producer.send(next) {
        let full = matches!(error, KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull));
        assert!(full && Instant::now() < deadline, "record {index} cannot be sent: {error}");
        next = back;
        pause();
    }
}

/// Where each record ended up, by its index; or why it did not.
#[derive(Clone, Default)]
struct Places(Arc<Mutex<Vec<Place>>>);
type Place = (usize, Result<(i32, i64), String>);

impl Places {
    fn note(&self, index: usize, place: Result<(i32, i64), String>) {
        self.0.lock().unwrap().push((index, place));
    }
}

impl ClientContext for Places {}

impl ProducerContext for Places {
    type DeliveryOpaque = Box<usize>;

    fn delivery(&self, result: &DeliveryResult<'_>, index: Box<usize>) {
        let place = result.as_ref().map(|stored| (stored.partition(), stored.offset())).map_err(|(error, _)| error.to_string());
        self.note(*index, place);
    }
}
