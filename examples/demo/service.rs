//! The runner's process. The first half is what a team writes: a handler, a lookup, three routes. The rest starts receipted with it.

use crate::support::destination::{Apply, ApplyError, Destination};
use receipted::{
    handler::BuildError,
    prelude::*,
    runner::{ErrorText, FirstStart, Runner, Settings},
    store::{
        ReceiptStore,
        sled::{Options, SledStore},
    },
    telemetry::{pages, recorder},
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

/// The topics, each with its own promise about what becomes of a lost answer.
pub const INVOICES: &str = "invoices";
pub const REMINDERS: &str = "reminders";
pub const PAYOUTS: &str = "payouts";
pub const DEAD_LETTERS: &str = "billing.dead-letters";
pub const GROUP: &str = "billing";

/// How long a handler thinks before it calls the destination, so that there is something to see.
const THINKS: Duration = Duration::from_millis(5);
/// How long a lost request can still land at these destinations.
const QUIET: Duration = Duration::from_millis(300);
/// How long the payment provider says that it remembers a key.
const MEMORY: Duration = Duration::from_hours(24);

#[derive(Deserialize)]
struct Invoice {
    id: String,
    cents: u64,
}

async fn book(op: Operation, Json(invoice): Json<Invoice>, State(destination): State<Destination>) -> Result<Applied<u64>, Failure> {
    tokio::time::sleep(THINKS).await;
    // The ledger knows the operation by the name that the account uses; the destination itself goes by the provider key.
    let name = format!("{}/{}/{}", op.tenant(), op.name(), invoice.id);
    let request = Apply::new(op.provider_key(), name).amount(invoice.cents).attempt(op.attempt());
    match destination.apply(request).await {
        Ok(done) if done.already => Ok(Applied::already(&done.reference, invoice.cents)),
        Ok(done) => Ok(Applied::new(&done.reference, invoice.cents)),
        Err(ApplyError::Rejected(why)) => Err(Failure::rejected(why)), // certain, and final
        Err(ApplyError::Unavailable) => Err("unavailable").no_effect(), // certain: tried again later
        Err(lost) => Err(lost)?,                                       // a bare `?`: we cannot tell
    }
}

/// Only looks.
async fn find(op: Operation, State(destination): State<Destination>) -> Result<Finding<u64>, ApplyError> {
    Ok(match destination.find(op.provider_key()).await? {
        Some(effect) => Finding::Found(Applied::new(&effect.reference, effect.amount)),
        None => Finding::NotFound,
    })
}

fn app() -> App<Destination> {
    let invoice = operation("invoice.v1")
        .tenant(header("tenant"))
        .id(json("/id"))
        .fingerprint(json_fields(["/cents"]))
        .in_doubt(ask(find).after_quiet(QUIET)); // the bank can be asked
    let reminder = operation("reminder.v1")
        .tenant(header("tenant"))
        .id(json("/id"))
        .fingerprint(json_fields(["/cents"]))
        .in_doubt(hold().after_quiet(QUIET)); // the print shop cannot: a person settles it
    let payout = operation("payout.v1")
        .tenant(header("tenant"))
        .id(json("/id"))
        .fingerprint(json_fields(["/cents"]))
        .time_limit(Duration::from_millis(500))
        .detached_max(Duration::from_secs(20))
        .in_doubt(destination_deduplicates(MEMORY).then(ask(find).after_quiet(QUIET))); // the provider says: just send it again
    App::new().topic(INVOICES, invoice.handle(book)).topic(REMINDERS, reminder.handle(book)).topic(PAYOUTS, payout.handle(book))
}

/// What the parent says to a runner's process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Service {
    pub brokers: String,
    pub destination: String,
    pub store: PathBuf,
}

/// The variable that carries it.
pub const VARIABLE: &str = "RECEIPTED_DEMO_SERVICE";

fn settings(service: &Service) -> Settings {
    let (seconds, millis) = (Duration::from_secs, Duration::from_millis);
    // On the in-process broker a dead member's session must be over before the next one is served: short, so that a restart is.
    Settings {
        brokers: service.brokers.clone(),
        group: GROUP.into(),
        group_instance_id: None,
        session_timeout: seconds(3),
        heartbeat_interval: millis(500),
        poll_interval_max: seconds(60),
        first_start: FirstStart::Earliest,
        client: BTreeMap::from([("fetch.wait.max.ms".into(), "10".into()), ("fetch.queue.backoff.ms".into(), "2".into())]),
        permits: 16,
        tenant_permits_max: 12,
        partition_records_max: 4096,
        partition_bytes_max: 32 << 20,
        batch_records_max: 1024,
        commit_interval: millis(100),
        drain_budget: seconds(3),
        stop_deadline: seconds(8),
        lookups_max: 8,
        lookup_time_limit: seconds(5),
        look_up_back_off: (millis(100), seconds(1)),
        reply_attempts_max: 3,
        reply_time_limit: seconds(5),
        park_record_bytes_max: 16 << 20,
        dead_letter_topic: DEAD_LETTERS.into(),
        dead_letter_within: seconds(5),
        error_text: ErrorText::Included,
    }
}

/// Why the runner's process ends with another code than 0.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("no setting from the parent: {0}")]
    Setting(String),
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    App(#[from] BuildError),
    #[error(transparent)]
    Store(#[from] receipted::store::Error),
    #[error(transparent)]
    Metrics(#[from] recorder::Error),
    #[error(transparent)]
    Runner(#[from] receipted::runner::Error),
}

/// The child's side.
pub fn role() {
    tracing_subscriber::fmt().with_env_filter("info").with_writer(std::io::stderr).with_ansi(false).init();
    let ended = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Error::from).and_then(|on| on.block_on(serve()));
    if let Err(error) = ended {
        eprintln!("error: {error}");
        std::process::exit(if let Error::Runner(error) = &error { i32::from(error.exit_code()) } else { 1 });
    }
}

async fn serve() -> Result<(), Error> {
    let setting = std::env::var(VARIABLE).map_err(|error| Error::Setting(error.to_string()))?;
    let service: Service = serde_json::from_str(&setting).map_err(|error| Error::Setting(error.to_string()))?;
    let metrics = recorder::install()?;
    let routes = Arc::new(app().with_state(Destination::new(&service.destination)).build()?);
    let store = Arc::new(SledStore::open(&Options { disk_free_floor_bytes: 0, ..Options::new(&service.store) })?);
    let runner = Runner::new(settings(&service), routes, store.clone());
    let (live, ready) = (runner.health(), runner.health());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("pages {}", listener.local_addr()?);
    let pages =
        pages::Pages { metrics, live: Arc::new(move || live.live(Duration::from_secs(10))), ready: Arc::new(move || ready.ready()) };
    tokio::spawn(pages::serve(listener, pages, std::future::pending()));
    let mut term = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    let ended = runner.run(async move { drop(term.recv().await) }).await;
    store.close()?;
    Ok(ended?)
}
