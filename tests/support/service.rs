//! Owns a service under test: a process of this binary that runs receipted with one route against a destination. The parent says how
//! it is set; what took effect is the destination's ledger's to say.

use super::{
    block_on, broker,
    cluster::{self, Record},
    destination::{Apply, ApplyError, Destination},
    http::Samples,
    process::{self, Child, wait_until},
    runtime,
};
use receipted::{
    config::HeaderNames,
    handler::{
        Answered, Applied, Contract, EffectExt, Failure, Finding, Json, Operation, ReadyApp, State, ask, destination_deduplicates, hold,
    },
    prelude::*,
    protocol::{
        park::ParkId,
        policy::Lanes,
        refused::Refused,
        settle::{Change, Changed},
    },
    runner::{ErrorText, FirstStart, Operators, PartitionAsk, PartitionLine, Runner, Settings},
    store::{
        Partition, ReceiptStore, Which,
        sled::{self, FileSystem, Options, SledStore},
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
/// Where a child finds how it is set.
pub const VARIABLE: &str = "RECEIPTED_TEST_SERVICE";

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
    pub waiting_grace_ms: u64,
    pub time_limit_ms: u64,
    pub detached_max_ms: u64,
    pub quiet_ms: u64,
    pub attempts_max: u32,
    pub unresolved_max: u32,
    pub parked_bytes_max: u64,
    /// Bounds of the store's caches, where the test is about what is beside them.
    pub caches: Option<u32>,
    pub first_start: Option<String>,
    pub session_ms: u64,
    pub drain_ms: u64,
    pub dead_letters: String,
    /// `spring` or `connect`.
    pub letter_names: Option<String>,
    pub park_record_bytes_max: u64,
    pub client: BTreeMap<String, String>,
    pub instance: Option<String>,
    /// Answers of the reply hook go to this destination too, as requests for `reply/ID/OUTCOME/REPLAY`.
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
            waiting_grace_ms: 10_000,
            time_limit_ms: 30_000,
            detached_max_ms: 60_000,
            quiet_ms: 300,
            attempts_max: 5,
            unresolved_max: 100_000,
            parked_bytes_max: 1 << 30,
            caches: None,
            first_start: Some("earliest".into()),
            session_ms: 10_000,
            drain_ms: 3_000,
            dead_letters,
            letter_names: None,
            park_record_bytes_max: 16 << 20,
            client: BTreeMap::new(),
            instance: None,
            replies: false,
        }
    }

    /// Starts it as a child process.
    pub fn start(&self) -> Running {
        self.start_as(process::role("service"))
    }

    /// Starts it with another program before it, such as `strace -D`.
    pub fn start_under(&self, program: &str, arguments: &[&str]) -> Running {
        self.start_as(process::role("service").under(program, arguments))
    }

    /// Runs it in this process, for what only its own handles show.
    pub fn start_here(&self) -> Here {
        let (store, runner) = set_up(self).expect("a store");
        let (operators, (end, ended)) = (runner.operators(), tokio::sync::oneshot::channel::<()>());
        let run = runtime().spawn(runner.run(async move { drop(ended.await) }));
        Here { store, operators, end, run }
    }

    /// Starts it in another role, or with a setting of the test's own.
    pub fn start_as(&self, start: process::Start) -> Running {
        let setting = serde_json::to_string(self).expect("a setting");
        let log = std::env::var("RECEIPTED_TEST_LOG").unwrap_or_else(|_| "warn".into());
        Running { child: start.env(VARIABLE, setting).env("RECEIPTED_TEST_LOG", log).start(), service: self.clone() }
    }

    /// Starts it, and waits until it refuses: with exit code 78, and with each of these words in what it says.
    #[track_caller]
    pub fn assert_refused(&self, words: &[&str]) -> String {
        let (code, said) = self.start().refused();
        assert_eq!(code, 78, "{said}");
        let error = said.lines().find(|line| line.contains("error: ")).unwrap_or_else(|| panic!("it says no error:\n{said}")).to_owned();
        words.iter().for_each(|word| assert!(error.contains(word), "{word:?} is missing in {error:?}\n{said}"));
        error
    }

    /// The same service with another store.
    pub fn with_store(&self, directory: &std::path::Path) -> Self {
        Self { store: directory.join("receipts"), ..self.clone() }
    }

    /// Accepts an offset of a partition on the stopped store.
    #[track_caller]
    pub fn adopt(&self, partition: i32, offset: i64) {
        let partition = Partition { topic: self.topic.as_str().into(), number: partition };
        sled::adopt(&self.store, &partition, offset, "a test says so").expect("adopted");
    }

    /// Reads its store, while it is stopped.
    pub fn open_store(&self) -> SledStore {
        SledStore::open(&Options { file_system: FileSystem::Any, ..Options::new(&self.store) })
            .expect("the store of a stopped service opens")
    }

    /// What the group has committed, summed over the partitions.
    pub fn committed(&self) -> i64 {
        (0..self.partitions).filter_map(|partition| self.committed_of(partition)).sum()
    }

    pub fn committed_of(&self, partition: i32) -> Option<i64> {
        broker::shared().committed(&self.group, &self.topic, partition).map(|committed| committed.offset)
    }

    /// Waits until the group has committed this offset of a partition.
    #[track_caller]
    pub fn wait_committed_of(&self, partition: i32, offset: i64) {
        wait_until(&format!("offset {offset} of partition {partition} in {}", self.group), BOUND, || {
            self.committed_of(partition).is_some_and(|committed| committed >= offset)
        });
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

/// A service in this process.
pub struct Here {
    pub store: Arc<SledStore>,
    operators: Operators,
    end: tokio::sync::oneshot::Sender<()>,
    run: tokio::task::JoinHandle<Result<(), receipted::runner::Error>>,
}

impl Here {
    /// Asks for an operator's change.
    pub fn perform(&self, change: Change) -> Result<Changed, Refused> {
        let operators = self.operators.clone();
        block_on(async move { operators.perform(change).await })
    }

    /// Asks about partitions, and waits for the answer.
    pub fn ask(&self, ask: PartitionAsk) -> Result<Vec<PartitionLine>, Refused> {
        self.asking(ask)()
    }

    /// Asks about partitions; what is returned waits for the answer.
    pub fn asking(&self, ask: PartitionAsk) -> impl FnOnce() -> Result<Vec<PartitionLine>, Refused> + use<> {
        let operators = self.operators.clone();
        let asked = runtime().spawn(async move { operators.partitions(ask).await });
        || block_on(asked).expect("no panic")
    }

    /// Stops it in good order.
    pub fn stop(self) {
        let Self { store, end, run, .. } = self;
        drop(end);
        block_on(run).expect("no panic").expect("a stop in good order");
        store.close().expect("closed");
    }
}

#[derive(Clone)]
pub struct World {
    pub destination: Destination,
    pub replies: bool,
}

#[derive(Deserialize)]
pub struct Charge {
    id: String,
    amount: u64,
}

pub async fn handle(op: Operation, Json(charge): Json<Charge>, State(world): State<World>) -> Result<Applied<u64>, Failure> {
    let request = Apply::new(op.provider_key(), operation_of(op.tenant(), &charge.id)).amount(charge.amount).attempt(op.attempt());
    match world.destination.apply(request).await {
        Ok(done) if done.already => Ok(Applied::already(&done.reference, charge.amount)),
        Ok(done) => Ok(Applied::new(&done.reference, charge.amount)),
        Err(ApplyError::Rejected(why)) => Err(Failure::rejected(why)),
        Err(ApplyError::Unavailable) => Err("unavailable").no_effect(),
        Err(lost) => Err(lost)?,
    }
}

pub async fn find(op: Operation, State(world): State<World>) -> Result<Finding<u64>, ApplyError> {
    Ok(match world.destination.find(op.provider_key()).await? {
        Some(effect) => Finding::Found(Applied::new(&effect.reference, effect.amount)),
        None => Finding::NotFound,
    })
}

pub async fn reply(reply: receipted::handler::Reply, State(world): State<World>) -> Result<(), ApplyError> {
    let operation = reply.operation();
    let replay = if reply.is_replay() { "replay" } else { "original" };
    let outcome = if matches!(reply.answered(), Answered::Applied(_)) { "applied" } else { "rejected" };
    let request = Apply::new(operation.provider_key(), format!("reply/{}/{outcome}/{replay}", operation.id()[0]));
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

pub fn settings(service: &Service) -> Settings {
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
        waiting_grace: Duration::from_millis(service.waiting_grace_ms),
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
        park_record_bytes_max: service.park_record_bytes_max,
        dead_letter_topic: service.dead_letters.clone(),
        dead_letter_within: seconds(5),
        error_text: ErrorText::Left,
        header_names: match service.letter_names.as_deref() {
            None => HeaderNames::Receipted,
            Some("spring") => HeaderNames::Spring,
            Some(_) => HeaderNames::Connect,
        },
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

fn set_up(service: &Service) -> Result<(Arc<SledStore>, Runner), receipted::store::Error> {
    let mut options = Options {
        parked_bytes_max: service.parked_bytes_max,
        disk_free_floor_bytes: 0,
        file_system: FileSystem::Any,
        ..Options::new(&service.store)
    };
    if let Some(bytes) = service.caches {
        (options.cache_bytes, options.known_bytes_max) = (u64::from(bytes), bytes as usize);
    }
    let store = Arc::new(SledStore::open(&options)?);
    let routes = Arc::new(app(service).build().expect("the app builds"));
    Ok((store.clone(), Runner::new(settings(service), routes, store)))
}

async fn serve(service: Service) -> i32 {
    let (store, runner) = match set_up(&service) {
        Ok(set_up) => set_up,
        Err(error) => {
            eprintln!("error: {error}");
            return 73;
        }
    };
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
