//! Where it happens: the in-process broker, the destination's process, the runner's process, and waiting with a bound.

use crate::{
    sent::{Bill, Sent},
    service::{self, DEAD_LETTERS, GROUP, INVOICES, PAYOUTS, REMINDERS},
    show::{Show, grouped},
    support::{
        cluster::{Cluster, Record},
        destination::Control,
        http::{self, Samples},
        process::{self, Child},
    },
};
use rdkafka::{
    ClientConfig, Offset, TopicPartitionList,
    consumer::{BaseConsumer, CommitMode, Consumer},
    mocking::MockCluster,
    producer::DefaultProducerContext,
};
use std::{
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    time::{Duration, Instant},
};

/// How long any one thing may take before the demo says that it does not come.
const BOUND: Duration = Duration::from_secs(20);
/// Lines of the runner's log that an error quotes.
const QUOTED_LINES: usize = 12;
const QUOTED_COLUMNS: usize = 200;
const LOOK_EVERY: Duration = Duration::from_millis(50);
const TOPICS: [(&str, i32); 3] = [(INVOICES, 4), (REMINDERS, 2), (PAYOUTS, 2)];

pub struct Stage {
    pub show: Show,
    pub sent: Sent,
    pub cluster: Cluster,
    pub ledger: Control,
    address: String,
    /// Where every runner serves its pages; else each finds a place.
    listen: Option<SocketAddr>,
    runner: Option<Runner>,
    /// The last look at the metrics of each runner that has ended.
    past: Vec<Samples>,
    /// Records that were complete when that was last waited for.
    complete: u64,
    // Dropped in this order: the processes, the broker, the folder.
    _destination: Child,
    broker: Broker,
    folder: tempfile::TempDir,
}

/// The broker that the demo plays on.
enum Broker {
    /// Its own, in this process.
    Own { _broker: MockCluster<'static, DefaultProducerContext> },
    /// Somebody's. What the demo made there, it takes away again.
    Given,
}

impl Broker {
    /// A short session, so that the demo is: a real broker takes no shorter one as shipped.
    fn session(&self) -> Duration {
        match self {
            Self::Own { .. } => Duration::from_secs(3),
            Self::Given => Duration::from_secs(6),
        }
    }
}

struct Runner {
    child: Child,
    pages: String,
}

fn topics() -> impl Iterator<Item = (&'static str, i32)> {
    TOPICS.into_iter().chain([(DEAD_LETTERS, 1)])
}

fn own() -> Result<(Broker, Cluster), String> {
    let broker = MockCluster::new(1).map_err(|error| format!("no in-process broker: {error}"))?;
    for (topic, partitions) in topics() {
        broker.create_topic(topic, partitions, 1).map_err(|error| format!("no topic {topic}: {error}"))?;
    }
    let cluster = Cluster::new(broker.bootstrap_servers());
    cluster.ready(BOUND)?;
    Ok((Broker::Own { _broker: broker }, cluster))
}

/// Topics of the demo that are there already are somebody's, if only those of a demo that was cut short: they are not touched.
fn given(brokers: &str) -> Result<(Broker, Cluster), String> {
    let cluster = Cluster::new(brokers);
    cluster.ready(BOUND).map_err(|error| format!("{brokers}: {error}"))?;
    if let Some((there, _)) = topics().find(|(topic, _)| cluster.partitions(topic).is_some()) {
        return Err(format!(
            "{brokers} has a topic {there:?} already; delete the topics that begin with \"{GROUP}.\" and the group {GROUP:?} first"
        ));
    }
    topics().for_each(|(topic, partitions)| cluster.create_topic(topic, partitions, &[]));
    Ok((Broker::Given, cluster))
}

impl Stage {
    /// Starts the broker, unless one is given, and the destination.
    pub fn set(show: Show, brokers: Option<&str>, listen: Option<SocketAddr>) -> Result<Self, String> {
        let folder =
            tempfile::Builder::new().prefix("receipted-demo-").tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
        let (broker, cluster) = match brokers {
            Some(brokers) => given(brokers)?,
            None => own()?,
        };
        let mut destination = process::role("destination").start();
        let address = destination.wait_line("destination ", BOUND).trim_start_matches("destination ").to_owned();
        let (sent, past, ledger) = (Sent::default(), Vec::new(), Control::of(address.clone()));
        Ok(Self {
            show,
            sent,
            cluster,
            ledger,
            address,
            listen,
            runner: None,
            past,
            complete: 0,
            _destination: destination,
            broker,
            folder,
        })
    }

    pub fn store(&self) -> PathBuf {
        self.folder.path().join("receipts")
    }

    pub fn configuration(&self) -> PathBuf {
        self.folder.path().join("demo.toml")
    }

    pub fn pages(&self) -> &str {
        self.runner.as_ref().map_or("", |runner| &runner.pages)
    }

    pub fn runner_pid(&self) -> u32 {
        self.runner.as_ref().map_or(0, |runner| runner.child.pid())
    }

    /// Takes away what it made on somebody's broker.
    pub fn clear(&self) {
        if let Broker::Given = self.broker {
            topics().for_each(|(topic, _)| self.cluster.delete_topic(topic));
            self.cluster.delete_group(GROUP);
        }
    }

    // ---- the runner

    /// Starts the runner and waits until it serves every partition. Says how long that took.
    pub fn start_runner(&mut self) -> Result<Duration, String> {
        let began = Instant::now();
        let pages = self.listen.map_or_else(free_address, Ok).map_err(|error| format!("no free port: {error}"))?;
        let text = service::configuration(self.cluster.brokers(), self.broker.session(), &self.store(), pages, &self.address);
        std::fs::write(self.configuration(), text).map_err(|error| format!("no configuration: {error}"))?;
        let child = process::role(service::ROLE).arg("run").arg("--config").arg(self.configuration()).start();
        self.runner = Some(Runner { child, pages: pages.to_string() });
        self.wait("the runner serves every partition", |stage| {
            http::get(stage.pages(), "/health/ready").is_ok_and(|(status, _)| status == 200)
        })?;
        Ok(began.elapsed())
    }

    /// Stops the runner in good order.
    pub fn stop_runner(&mut self) -> Result<(), String> {
        self.past.push(self.samples());
        let Some(mut runner) = self.runner.take() else { return Ok(()) };
        runner.child.signal(rustix::process::Signal::TERM);
        let status = runner.child.wait(BOUND);
        if status.success() { Ok(()) } else { Err(format!("the runner ended with {status}\n{}", tail(&runner.child))) }
    }

    /// Waits until the runner is dead, and keeps what it had counted when `before` was taken.
    pub fn runner_dies(&mut self, before: Samples) -> Result<String, String> {
        let Some(mut runner) = self.runner.take() else { return Err("there is no runner".into()) };
        let status = runner.child.wait(BOUND);
        self.past.push(before);
        Ok(status.to_string())
    }

    // ---- what is sent

    pub fn send(&mut self, bills: &[Bill]) {
        for (topic, _) in TOPICS {
            let chosen: Vec<&Bill> = bills.iter().filter(|bill| bill.topic == topic).collect();
            if !chosen.is_empty() {
                let places = self.cluster.produce(topic, chosen.iter().map(|bill| bill.record()));
                self.sent.note(topic, &places);
                self.sent.operations.extend(chosen.iter().map(|bill| bill.operation()));
            }
        }
    }

    /// Sends records that are no bill.
    pub fn send_undecodable(&mut self, records: Vec<Record>) {
        self.sent.undecodable.extend(records.iter().map(|record| record.value.clone().unwrap_or_default()));
        let places = self.cluster.produce(INVOICES, records);
        self.sent.note(INVOICES, &places);
    }

    /// Moves the group's offsets of a topic back to the beginning, as an operator's tool does while nobody runs. The in-process broker
    /// takes offsets from members only, so the tool joins the group.
    pub fn rewind(&mut self, topic: &'static str) -> Result<u64, String> {
        let failed = |error: rdkafka::error::KafkaError| format!("offsets cannot be moved back: {error}");
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.cluster.brokers()).set("group.id", GROUP).set("enable.auto.commit", "false");
        config
            .set("partition.assignment.strategy", "cooperative-sticky")
            .set("session.timeout.ms", self.broker.session().as_millis().to_string());
        let tool: BaseConsumer = config.create().map_err(failed)?;
        tool.subscribe(&[topic]).map_err(failed)?;
        let partitions = TOPICS.iter().find(|(name, _)| *name == topic).map_or(0, |(_, partitions)| *partitions);
        self.wait("the operator's tool is in the group", |_| {
            drop(tool.poll(Duration::ZERO));
            tool.assignment().is_ok_and(|list| i32::try_from(list.count()) == Ok(partitions))
        })?;
        let mut list = TopicPartitionList::new();
        for partition in 0..partitions {
            list.add_partition_offset(topic, partition, Offset::Offset(0)).map_err(failed)?;
        }
        tool.commit(&list, CommitMode::Sync).map_err(failed)?;
        tool.unsubscribe();
        let again = self.sent.ends.iter().filter(|((name, _), _)| *name == topic).map(|(_, end)| end.unsigned_abs()).sum();
        self.sent.read_again += again;
        Ok(again)
    }

    // ---- what is seen

    /// The runner's metrics.
    pub fn samples(&self) -> Samples {
        let page = http::get(self.pages(), "/metrics").map(|(_, text)| text);
        page.and_then(|text| Samples::parse(&text)).unwrap_or_default()
    }

    /// A counter over all runners so far.
    pub fn counted(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        let now = self.samples();
        // Counts are whole and small.
        self.past.iter().chain([&now]).filter_map(|samples| samples.sum(name, labels)).sum::<f64>() as u64
    }

    /// Records whose slots are complete, as the group's committed offsets say.
    pub fn committed(&self) -> u64 {
        let of = |(topic, partition): &(&'static str, i32)| self.cluster.committed(GROUP, topic, *partition);
        self.sent.ends.keys().filter_map(of).map(|committed| committed.offset.unsigned_abs()).sum()
    }

    /// Waits until every record that was sent is complete, and the offsets say so.
    pub fn wait_complete(&mut self) -> Result<(), String> {
        let all = self.sent.ends.values().sum::<i64>().unsigned_abs();
        let ended = |stage: &Self| stage.counted("receipted_operations_total", &[]);
        let (before, after) = (self.complete, self.sent.records + self.sent.read_again);
        self.watch(
            "every record is complete",
            |stage| stage.committed() == all,
            |stage| {
                let effects = grouped(stage.ledger.ledger().total() as u64);
                let text = format!("records · {effects} effects in the ledger");
                stage.show.progress(ended(stage).saturating_sub(before), after.saturating_sub(before), &text);
            },
        )?;
        self.complete = after;
        Ok(())
    }

    /// Waits for something, while the runner must not end.
    pub fn wait(&mut self, what: &str, done: impl FnMut(&Self) -> bool) -> Result<(), String> {
        let text = format!("waiting until {what}");
        self.watch(what, done, |stage| stage.show.waiting(&text))
    }

    /// Fails when the runner has ended.
    pub fn lives(&mut self) -> Result<(), String> {
        let Some(runner) = &mut self.runner else { return Ok(()) };
        let Some(status) = runner.child.ended() else { return Ok(()) };
        Err(format!("the runner ended with {status}\n{}", tail(&runner.child)))
    }

    fn watch(&mut self, what: &str, mut done: impl FnMut(&Self) -> bool, show: impl Fn(&Self)) -> Result<(), String> {
        let deadline = Instant::now() + BOUND;
        while !done(self) {
            self.lives()?;
            if Instant::now() > deadline {
                let said = self.runner.as_ref().map(|runner| tail(&runner.child)).unwrap_or_default();
                return Err(format!("waited {} s in vain: {what}\n{said}", BOUND.as_secs()));
            }
            show(self);
            std::thread::sleep(LOOK_EVERY);
        }
        self.show.rest();
        Ok(())
    }
}

/// An address that the kernel has free, for pages whose port must be known before they are served.
fn free_address() -> std::io::Result<SocketAddr> {
    TcpListener::bind("127.0.0.1:0")?.local_addr()
}

/// The last words of a process.
fn tail(child: &Child) -> String {
    let lines = child.lines();
    let last = &lines[lines.len().saturating_sub(QUOTED_LINES)..];
    last.iter().map(|line| format!("      | {line:.QUOTED_COLUMNS$}\n")).collect()
}
