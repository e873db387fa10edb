//! Owns the parts of a running process and their order: store, socket, pages, runner; and back.

use super::progress::Opening;
use crate::{
    admin::server::{self, Served},
    config::{self, Config},
    handler::{BuildError, ReadyApp, RoutePlan, Routes},
    protocol::secret::KeySecret,
    runner::{self, ErrorText, Health, Runner, Settings},
    store::{self, ReceiptStore, sled},
    telemetry::{
        pages::{self, Pages},
        recorder,
    },
};
use std::{io, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, UnixListener},
    sync::watch,
    task::JoinHandle,
};

/// How long open requests may take when the process ends.
const PAGES_WAIT: Duration = Duration::from_secs(2);

/// Why a process cannot run, or ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Correct the app as its error says.
    #[error("the app does not hold")]
    App(#[from] BuildError),
    /// As its error says.
    #[error("the configuration does not hold")]
    Config(#[from] config::Error),
    /// As the store's error says.
    #[error("the store cannot be used")]
    Store(#[from] store::Error),
    /// Choose another address for `telemetry.listen`, or "off".
    #[error("cannot listen on {address} for metrics and health")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the operating system says.
        source: io::Error,
    },
    /// As its error says.
    #[error("metrics cannot be served")]
    Recorder(#[from] recorder::Error),
    /// As its error says.
    #[error("operators cannot be served")]
    Socket(#[from] server::Error),
    /// As its error says; receipts are durable.
    #[error("the runner ended")]
    Runner(#[from] runner::Error),
}

impl Error {
    /// The process's exit code; see the command's help.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Runner(error) => error.exit_code(),
            Self::Store(
                store::Error::InUse { .. }
                | store::Error::Foreign { .. }
                | store::Error::Format { .. }
                | store::Error::FileSystem { .. }
                | store::Error::Secret { .. },
            ) => 78,
            Self::Store(_) => 74,
            Self::App(_) | Self::Config(_) | Self::Listen { .. } | Self::Recorder(_) | Self::Socket(_) => 78,
        }
    }
}

/// Runs an app inside another program, on its runtime. [`crate::main`] is the whole program instead.
pub fn serve<S: Send + Sync + 'static>(config: Config, app: ReadyApp<S>) -> NeedsEnd<S> {
    NeedsEnd { config, app }
}

/// An app that runs once it is told until when.
#[must_use = "nothing runs before `.run_until(..)`"]
pub struct NeedsEnd<S> {
    config: Config,
    app: ReadyApp<S>,
}

impl<S: Send + Sync + 'static> NeedsEnd<S> {
    /// Runs until `end`, then drains: facts are durable and offsets committed when it returns, as far as `runner.stop_deadline`
    /// allows.
    ///
    /// # Errors
    /// When something is not set up, or the process must end. Receipts are durable, and the next start goes on from there.
    pub async fn run_until(self, end: impl Future<Output = ()>) -> Result<(), Error> {
        let (config, routes) = (self.config, Arc::new(self.app.build()?));
        let pages = match config.telemetry.listen {
            Some(address) => Some(TcpListener::bind(address).await.map_err(|source| Error::Listen { address, source })?),
            None => None,
        };
        let store = open(config.store.clone(), config.store.key_secret()?).await?;
        let beside = match Beside::begin(&config, routes, &store, pages) {
            Ok(beside) => beside,
            Err(error) => {
                close(store).await?;
                return Err(error);
            }
        };
        let (runner, beside) = beside;
        let ended = runner.run(end).await;
        beside.end(&config).await;
        // A runner that failed leaves the store unclosed: what it had admitted may have run, and the next start is told so.
        ended?;
        Ok(close(store).await?)
    }
}

/// What runs beside the runner.
struct Beside {
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<io::Result<()>>>,
}

impl Beside {
    fn begin(
        config: &Config, routes: Arc<Routes>, store: &Arc<dyn ReceiptStore>, pages: Option<TcpListener>,
    ) -> Result<(Runner, Self), Error> {
        let metrics = pages.as_ref().map(|_| recorder::install()).transpose()?;
        let socket: UnixListener = server::bind(&config.store.socket())?;
        let runner = Runner::new(settings(config, routes.operations()), routes, store.clone());
        let (stop, stopped) = watch::channel(false);
        let served = Served { store: store.clone(), operator: Arc::new(runner.operators()) };
        let mut tasks = vec![tokio::spawn(server::serve(socket, served, until(stopped.clone())))];
        if let (Some(listener), Some(metrics)) = (pages, metrics) {
            let (live, ready) = (runner.health(), runner.health());
            let within = config.kafka.poll_interval_max * 2 / 3;
            let pages = Pages { metrics, live: Arc::new(move || live.live(within)), ready: Arc::new(move || Health::ready(&ready)) };
            tasks.push(tokio::spawn(pages::serve(listener, pages, until(stopped))));
        }
        Ok((runner, Self { stop, tasks }))
    }

    async fn end(self, config: &Config) {
        self.stop.send_replace(true);
        for mut task in self.tasks {
            if tokio::time::timeout(PAGES_WAIT, &mut task).await.is_err() {
                task.abort();
            }
        }
        if let Err(error) = std::fs::remove_file(config.store.socket()) {
            tracing::debug!(%error, "operator socket is left behind; the next start replaces it");
        }
    }
}

async fn until(mut stopped: watch::Receiver<bool>) {
    // An error means that the sender is gone, which is the end too.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

async fn open(config: config::Store, key_secret: Option<KeySecret>) -> Result<Arc<dyn ReceiptStore>, store::Error> {
    let options = sled::Options {
        cache_bytes: config.cache_bytes,
        known_bytes_max: config.known_bytes_max,
        parked_bytes_max: config.parked_bytes_max,
        disk_free_floor_bytes: config.disk_free_floor_bytes,
        ballast_bytes: config.ballast_bytes,
        file_system: config.file_system,
        key_secret,
        ..sled::Options::new(config.directory)
    };
    let store = blocking(move || {
        let mut opening = Opening::begin();
        sled::SledStore::open_watched(&options, &mut |step| opening.step(step))
    });
    let store = store.await?;
    tell(&store);
    Ok(Arc::new(store))
}

/// Logs what the store's disk is.
fn tell(store: &sled::SledStore) {
    let disk = store.disk();
    let times = disk.syncs.map(|syncs| (syncs.p50.as_micros(), syncs.max.as_micros()));
    let (sync_p50_micros, sync_max_micros) = times.unzip();
    tracing::info!(file_system = %disk.file_system, sync_p50_micros, sync_max_micros, "disk of the store");
    if disk.is_memory {
        tracing::warn!(file_system = %disk.file_system, "the store is in memory: nothing survives a power cut");
    }
}

async fn close(store: Arc<dyn ReceiptStore>) -> Result<(), store::Error> {
    blocking(move || store.close()).await
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, store::Error> + Send + 'static) -> Result<T, store::Error> {
    let gone = |error: tokio::task::JoinError| Err(store::Error::Stopped { detail: error.to_string() });
    tokio::task::spawn_blocking(work).await.unwrap_or_else(gone)
}

/// What a configuration sets the runner of an app with these routes to.
pub(super) fn settings(config: &Config, routes: &[RoutePlan]) -> Settings {
    let (kafka, runner, reconcile, letters) = (&config.kafka, &config.runner, &config.reconcile, &config.dead_letter);
    Settings {
        brokers: kafka.brokers.clone(),
        group: kafka.group.clone(),
        group_instance_id: kafka.group_instance_id.clone(),
        session_timeout: kafka.session_timeout,
        heartbeat_interval: kafka.heartbeat_interval,
        poll_interval_max: kafka.poll_interval_max,
        first_start: match kafka.first_start {
            None => runner::FirstStart::Unset,
            Some(config::FirstStart::Earliest) => runner::FirstStart::Earliest,
            Some(config::FirstStart::Latest) => runner::FirstStart::Latest,
            Some(config::FirstStart::At(at)) => runner::FirstStart::At(at),
        },
        client: kafka.settings.clone(),
        permits: runner.permits,
        tenant_permits_max: runner.tenant_share(routes),
        waiting_grace: runner.waiting_grace,
        partition_records_max: runner.partition_records_max,
        partition_bytes_max: runner.partition_bytes_max,
        batch_records_max: runner.batch_records_max,
        commit_interval: runner.commit_interval,
        drain_budget: runner.drain_budget,
        stop_deadline: runner.stop_deadline,
        lookups_max: reconcile.lookups_max,
        lookup_time_limit: reconcile.lookup_time_limit,
        look_up_back_off: (reconcile.again_first, reconcile.again_max),
        reply_attempts_max: runner.reply_attempts_max,
        reply_time_limit: runner.reply_time_limit,
        park_record_bytes_max: config.store.park_record_bytes_max,
        dead_letter_topic: letters.topic.clone(),
        dead_letter_within: letters.acknowledge_within,
        error_text: if letters.include_error_text { ErrorText::Included } else { ErrorText::Left },
        header_names: letters.header_names,
    }
}
