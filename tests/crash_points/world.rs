//! Owns the service under test: one process, three routes (one of each contract), a store on disk, and what its parent is told: which
//! crash point is reached, and that nothing is open any more but what waits for a person.

use crate::support::{
    destination::Destination,
    service::{self, Service, World},
};
use receipted::{
    handler::{Contract, ReadyApp, ask, destination_deduplicates, hold},
    prelude::*,
    runner::Runner,
    store::{
        ReceiptStore, Which,
        sled::{FileSystem, Options, SledStore},
    },
};
use std::{path::Path, sync::Arc, time::Duration};

/// What the child is told to do at a crash point.
pub const PLAN: &str = "RECEIPTED_CRASH_POINT";
/// How many records there are, after which it may say that it is done.
pub const RECORDS: &str = "RECEIPTED_TEST_RECORDS";
/// What it says once everything is complete, and nothing is open but what a person settles.
pub const SETTLED: &str = "service settled";
/// The route whose doubts wait for a person.
const HELD: &str = "hold.v1";

fn app(service: &Service) -> ReadyApp<World> {
    let quiet = Duration::from_millis(service.quiet_ms);
    let hour = Duration::from_secs(3600);
    let route = |name: &'static str, contract: Contract<World>| {
        operation(name)
            .tenant(header("tenant"))
            .id(json("/id"))
            .fingerprint(json_fields(["/amount"]))
            .in_doubt(contract)
            .time_limit(Duration::from_millis(service.time_limit_ms))
            .attempts_max(service.attempts_max)
            .back_off(Duration::from_millis(20), Duration::from_millis(100))
    };
    let held = route(HELD, hold().after_quiet(quiet)).reply(service::reply);
    let asked = route("ask.v1", ask(service::find).after_quiet(quiet));
    let deduplicated = route("dedup.v1", destination_deduplicates(hour).then(hold().after_quiet(quiet)));
    let routes = by(header("type"))
        .on("hold", held.handle(service::handle))
        .on("ask", asked.handle(service::handle))
        .on("dedup", deduplicated.handle(service::handle))
        .otherwise(dead_letter());
    let world = World { destination: Destination::new(&service.destination), replies: true };
    App::new().topic(service.topic.clone(), routes).with_state(world)
}

pub fn options(store: &Path) -> Options {
    Options { disk_free_floor_bytes: 0, file_system: FileSystem::Any, ..Options::new(store) }
}

/// What is not complete, or open without waiting for a person. That an offset is committed is the broker's to say.
fn open(store: &SledStore, records: i64) -> Vec<String> {
    let complete: i64 = store.marks().values().filter_map(|marks| marks.watermark).sum();
    let listed = |which| {
        let open = store.list(which, None, usize::MAX).unwrap_or_default().into_iter();
        let mine = open.filter_map(|(_, known)| known.key.clone().filter(|key| key.operation() != HELD).map(|key| (key, known)));
        mine.map(move |(key, known)| format!("{which:?} {} {:?} {}", key.operation(), key.id(), known.receipt.state().label()))
    };
    let missing = (complete < records).then(|| format!("complete to {complete} of {records}"));
    missing.into_iter().chain([Which::InDoubt, Which::Parked, Which::Unconfirmed].into_iter().flat_map(listed)).collect()
}

/// The child's side.
pub fn role() {
    let service: Service = serde_json::from_str(&std::env::var(service::VARIABLE).expect("a service is set")).expect("a setting");
    let records = std::env::var(RECORDS).expect("a number of records").parse().expect("a number");
    let filter = std::env::var("RECEIPTED_TEST_LOG").unwrap_or_else(|_| "warn".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).init();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let code = runtime.block_on(serve(service, records));
    std::process::exit(code);
}

async fn serve(service: Service, records: i64) -> i32 {
    let store = match SledStore::open(&options(&service.store)) {
        Ok(store) => Arc::new(store),
        Err(error) => {
            eprintln!("error: {error}");
            return 73;
        }
    };
    let routes = Arc::new(app(&service).build().expect("the app builds"));
    let runner = Runner::new(service::settings(&service), routes, store.clone());
    let mut term = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).expect("a signal handler");
    let watched = store.clone();
    std::thread::spawn(move || {
        for turn in 1.. {
            let open = open(&watched, records);
            if open.is_empty() {
                break;
            }
            if turn % 1000 == 0 {
                println!("still open: {open:?}");
            }
            std::thread::park_timeout(Duration::from_millis(10));
        }
        println!("{SETTLED}");
    });
    let ended = runner
        .run(async move {
            term.recv().await;
        })
        .await;
    let closed = store.close();
    for error in [ended.as_ref().err().map(ToString::to_string), closed.as_ref().err().map(ToString::to_string)].into_iter().flatten() {
        eprintln!("error: {error}");
    }
    i32::from(ended.is_err() || closed.is_err())
}
