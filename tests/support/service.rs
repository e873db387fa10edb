//! Owns a service under test: a process of this binary that runs receipted with one route against a destination. The parent says how
//! it is set; what took effect is the destination's ledger's to say.

use super::{
    broker,
    cluster::{self, Record},
    destination::{Apply, ApplyError, Destination},
    http::Samples,
    process::{self, Child, wait_until},
};
use receipted::{
    handler::{Applied, Contract, EffectExt, Failure, Finding, Json, Operation, ReadyApp, State, ask, destination_deduplicates, hold},
    prelude::*,
    protocol::{park::ParkId, policy::Lanes},
    runner::{ErrorText, FirstStart, Runner, Settings},
    store::{
        ReceiptStore, Which,
        sled::{Options, SledStore},
    },
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

/// How long a service may take to come up, or to stop.
pub const BOUND: Duration = Duration::from_secs(60);
const VARIABLE: &str = "RECEIPTED_TEST_SERVICE";

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum InDoubt {
    Hold,
    Ask,
    Deduplicates,
    DeduplicatesThenAsk,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Order {
    Key,
    Partition,
    Unordered,
}

/// How a service is set.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Service {
    pub brokers: String,
    pub group: String,
    pub topic: String,
    pub partitions: i32,
    pub store: PathBuf,
    pub destination: String,
    pub in_doubt: InDoubt,
    pub order: Order,
    pub permits: usize,
    pub tenant_permits_max: usize,
    pub partition_records_max: usize,
    pub time_limit_ms: u64,
    pub detached_max_ms: u64,
    pub quiet_ms: u64,
    pub attempts_max: u32,
    pub unresolved_max: u32,
    pub parked_bytes_max: u64,
    pub first_start: Option<String>,
    pub session_ms: u64,
    pub drain_ms: u64,
    pub dead_letters: String,
    pub client: BTreeMap<String, String>,
    pub instance: Option<String>,
    /// Answers of the reply hook go to this destination too, as requests under `reply/…`.
    pub replies: bool,
}

impl Service {
    /// A service on the shared broker, with a topic, a group and a store of its own.
    pub fn new(prefix: &str, partitions: i32, destination: &str, store: &std::path::Path) -> Self {
        let cluster = broker::shared();
        let topic = cluster.fresh_topic(prefix, partitions);
        let dead_letters = format!("{topic}.dead-letters");
        cluster.create_topic(&dead_letters, 1, &[]);
        Self {
            brokers: cluster.brokers().into(),
            group: cluster::unique(prefix),
            topic,
            partitions,
            store: store.join("receipts"),
            destination: destination.into(),
            in_doubt: InDoubt::Hold,
            order: Order::Key,
            permits: 16,
            tenant_permits_max: 16,
            partition_records_max: 1000,
            time_limit_ms: 30_000,
            detached_max_ms: 60_000,
            quiet_ms: 300,
            attempts_max: 5,
            unresolved_max: 100_000,
            parked_bytes_max: 1 << 30,
            first_start: Some("earliest".into()),
            session_ms: 10_000,
            drain_ms: 3_000,
            dead_letters,
            client: BTreeMap::new(),
            instance: None,
            replies: false,
        }
    }

    /// Starts it as a child process.
    pub fn start(&self) -> Running {
        let setting = serde_json::to_string(self).expect("a setting");
        let log = std::env::var("RECEIPTED_TEST_LOG").unwrap_or_else(|_| "warn".into());
        Running { child: process::role("service").env(VARIABLE, setting).env("RECEIPTED_TEST_LOG", log).start(), service: self.clone() }
    }

    /// Reads its store, while it is stopped.
    pub fn open_store(&self) -> SledStore {
        SledStore::open(&Options::new(&self.store)).expect("the store of a stopped service opens")
    }

    /// What the group has committed, summed over the partitions.
    pub fn committed(&self) -> i64 {
        let committed = |partition| broker::shared().committed(&self.group, &self.topic, partition).map(|committed| committed.offset);
        (0..self.partitions).filter_map(committed).sum()
    }

    /// Waits until the group has committed so many records over all partitions.
    #[track_caller]
    pub fn wait_committed(&self, records: i64) {
        wait_until(&format!("{records} committed offsets in {}", self.group), BOUND, || self.committed() >= records);
    }
}

/// A charge as a record: key, tenant header and value.
pub fn charge(tenant: &str, id: impl std::fmt::Display, amount: u64) -> Record {
    cluster::record(format!(r#"{{"id":"{id}","amount":{amount}}}"#)).key(format!("{tenant}-{id}")).header("tenant", tenant)
}

/// The operation of [`charge`] as the destination's ledger names it.
pub fn operation_of(tenant: &str, id: impl std::fmt::Display) -> String {
    format!("{tenant}/charge/{id}")
}

pub struct Running {
    pub child: Child,
    pub service: Service,
}

impl Running {
    /// Waits until every partition is open.
    pub fn ready(mut self) -> Self {
        let child = &mut self.child;
        wait_until("a ready service", BOUND, || {
            assert!(child.ended().is_none(), "the service ended:\n{}", child.output());
            child.lines().iter().any(|line| line.contains("service ready"))
        });
        self
    }

    pub fn kill(&mut self) {
        self.child.kill();
    }

    /// Stops it in good order, and gives what its metrics said at the end.
    pub fn stop(mut self) -> Samples {
        self.child.signal(rustix::process::Signal::TERM);
        self.child.wait_success(BOUND);
        let page: Vec<_> = self.child.lines().iter().filter_map(|line| line.strip_prefix("metric ").map(str::to_owned)).collect();
        Samples::parse(&page.join("\n")).unwrap_or_else(|line| panic!("not a sample: {line:?}"))
    }

    /// Waits until its store has so many operations in doubt, and so many open park notes.
    #[track_caller]
    pub fn wait_open(&mut self, doubts: usize, parked: usize) {
        let (child, open) = (&mut self.child, open_line(doubts, parked));
        wait_until(&format!("{open:?}"), BOUND, || {
            assert!(child.ended().is_none(), "the service ended:\n{}", child.output());
            child.newest_line(OPEN).is_some_and(|line| line == open)
        });
    }

    /// Waits until it ends by itself, and gives its exit code and what it said.
    pub fn refused(mut self) -> (i32, String) {
        let status = self.child.wait(BOUND);
        (status.code().unwrap_or(-1), self.child.output())
    }
}

/// How the line begins that tells what is open in the store.
const OPEN: &str = "service open: ";

fn open_line(doubts: usize, parked: usize) -> String {
    format!("{OPEN}{doubts} in doubt, {parked} parked")
}

#[derive(Clone)]
pub struct World {
    destination: Destination,
    replies: bool,
}

#[derive(Deserialize)]
struct Charge {
    id: String,
    amount: u64,
}

async fn handle(op: Operation, Json(charge): Json<Charge>, State(world): State<World>) -> Result<Applied<u64>, Failure> {
    let request = Apply::new(op.provider_key(), operation_of(op.tenant(), &charge.id)).amount(charge.amount).attempt(op.attempt());
    match world.destination.apply(request).await {
        Ok(done) if done.already => Ok(Applied::already(&done.reference, charge.amount)),
        Ok(done) => Ok(Applied::new(&done.reference, charge.amount)),
        Err(ApplyError::Rejected(why)) => Err(Failure::rejected(why)),
        Err(ApplyError::Unavailable) => Err("unavailable").no_effect(),
        Err(lost) => Err(lost)?,
    }
}

async fn find(op: Operation, State(world): State<World>) -> Result<Finding<u64>, ApplyError> {
    Ok(match world.destination.find(op.provider_key()).await? {
        Some(effect) => Finding::Found(Applied::new(&effect.reference, effect.amount)),
        None => Finding::NotFound,
    })
}

async fn reply(reply: receipted::handler::Reply, State(world): State<World>) -> Result<(), ApplyError> {
    let operation = reply.operation();
    let replay = if reply.is_replay() { "replay" } else { "original" };
    let request = Apply::new(operation.provider_key(), format!("reply/{}/{replay}", operation.id()[0]));
    world.destination.apply(request).await.map(drop)
}

fn app(service: &Service) -> ReadyApp<World> {
    let quiet = Duration::from_millis(service.quiet_ms);
    let hour = Duration::from_secs(24 * 3600);
    let contract: Contract<World> = match service.in_doubt {
        InDoubt::Hold => hold().after_quiet(quiet),
        InDoubt::Ask => ask(find).after_quiet(quiet),
        InDoubt::Deduplicates => destination_deduplicates(hour).then(hold().after_quiet(quiet)),
        InDoubt::DeduplicatesThenAsk => destination_deduplicates(hour).then(ask(find).after_quiet(quiet)),
    };
    let lanes = match service.order {
        Order::Key => Lanes::Key,
        Order::Partition => Lanes::Partition,
        Order::Unordered => Lanes::Unordered,
    };
    let operation = operation("charge.v1")
        .tenant(header("tenant"))
        .id(json("/id"))
        .fingerprint(json_fields(["/amount"]))
        .in_doubt(contract)
        .time_limit(Duration::from_millis(service.time_limit_ms))
        .detached_max(Duration::from_millis(service.detached_max_ms))
        .attempts_max(service.attempts_max)
        .unresolved_max(service.unresolved_max);
    let operation = if service.replies { operation.reply(reply) } else { operation };
    let world = World { destination: Destination::new(&service.destination), replies: service.replies };
    App::new().topic(service.topic.clone(), operation.handle(handle).lanes(lanes)).with_state(world)
}

fn settings(service: &Service) -> Settings {
    let seconds = Duration::from_secs;
    Settings {
        brokers: service.brokers.clone(),
        group: service.group.clone(),
        group_instance_id: service.instance.clone(),
        session_timeout: Duration::from_millis(service.session_ms),
        heartbeat_interval: Duration::from_millis(service.session_ms / 6),
        poll_interval_max: seconds(300),
        first_start: match service.first_start.as_deref() {
            None => FirstStart::Unset,
            Some("latest") => FirstStart::Latest,
            Some(_) => FirstStart::Earliest,
        },
        client: service.client.clone(),
        permits: service.permits,
        tenant_permits_max: service.tenant_permits_max,
        partition_records_max: service.partition_records_max,
        partition_bytes_max: 64 << 20,
        batch_records_max: 500,
        commit_interval: Duration::from_millis(100),
        drain_budget: Duration::from_millis(service.drain_ms),
        stop_deadline: Duration::from_millis(service.drain_ms * 3),
        lookups_max: 8,
        lookup_time_limit: seconds(5),
        look_up_back_off: (Duration::from_millis(50), Duration::from_millis(500)),
        reply_attempts_max: 3,
        reply_time_limit: seconds(5),
        park_record_bytes_max: 16 << 20,
        dead_letter_topic: service.dead_letters.clone(),
        dead_letter_within: seconds(5),
        error_text: ErrorText::Left,
    }
}

/// The child's side.
pub fn role() {
    let service: Service = serde_json::from_str(&std::env::var(VARIABLE).expect("a service is set")).expect("a setting");
    let filter = std::env::var("RECEIPTED_TEST_LOG").unwrap_or_else(|_| "warn".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).init();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let code = runtime.block_on(serve(service));
    std::process::exit(code);
}

async fn serve(service: Service) -> i32 {
    let options = Options { parked_bytes_max: service.parked_bytes_max, disk_free_floor_bytes: 0, ..Options::new(&service.store) };
    let store = match SledStore::open(&options) {
        Ok(store) => Arc::new(store),
        Err(error) => {
            eprintln!("error: {error}");
            return 73;
        }
    };
    let routes = Arc::new(app(&service).build().expect("the app builds"));
    let metrics = receipted::telemetry::recorder::install().expect("no other recorder");
    let watched = store.clone();
    tokio::spawn(async move {
        let mut before = String::new();
        loop {
            let open = open_line(watched.count(Which::InDoubt), watched.parked(None, usize::MAX).len());
            if open != before {
                println!("{open}");
                before = open;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    let runner = Runner::new(settings(&service), routes, store.clone());
    let health = runner.health();
    tokio::spawn(async move {
        while health.ready().is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        println!("service ready");
    });
    let mut term = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).expect("a signal handler");
    let ended = runner
        .run(async move {
            term.recv().await;
        })
        .await;
    metrics.render().lines().for_each(|line| println!("metric {line}"));
    if let Err(error) = store.close() {
        eprintln!("error: {error}");
        return 74;
    }
    match ended {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("error: {error}");
            i32::from(error.exit_code())
        }
    }
}

/// Every operation that a stopped service's store shows to a person: in doubt, parked, or with an incident.
pub fn listed(store: &SledStore) -> BTreeSet<String> {
    let pages = [Which::InDoubt, Which::Parked].into_iter().flat_map(|which| store.list(which, None, usize::MAX).expect("a listing"));
    let open = pages.map(|(_, known)| known);
    let incidents = store.incidents(0, usize::MAX).expect("the incidents");
    let doubled = incidents.into_iter().flat_map(|(_, incident)| store.load(&[incident.key]).expect("an operation"));
    let keys = open.chain(doubled).map(|known| known.key.clone().expect("the key is stored"));
    keys.map(|key| operation_of(key.tenant(), &key.id()[0])).collect()
}

/// Open park notes of a stopped service's store.
pub fn parked(store: &SledStore) -> Vec<(ParkId, &'static str)> {
    store.parked(None, 100_000).into_iter().map(|(id, park)| (id, park.reason.label())).collect()
}
