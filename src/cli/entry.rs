//! Owns the whole program: a team's binary with every command, and the bare one that needs no app.

use super::{
    args::{AppCommand, Cli, Common, SharedCommand},
    check_config, operations,
    output::{Failure, end},
    partitions,
    routes::{self, Shape},
    serve, store,
};
use crate::{
    config::Config,
    handler::{App, BoxError, Declared},
    telemetry::log,
};
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use std::{io, process::ExitCode, time::Duration};
use tokio::{
    runtime::{Builder, Handle, Runtime},
    signal::unix::{Signal, SignalKind, signal},
};

/// How long tasks that still run may take when the process ends.
const END_WAIT: Duration = Duration::from_secs(1);
/// The exit code of a second signal.
const SECOND_SIGNAL: i32 = 130;

/// The whole program: `run`, `routes`, `check-config`, `operations …`, `store …`. Only `run` connects. Starts a runtime of its own.
///
/// ```no_run
/// # use receipted::prelude::*;
/// # async fn greet(op: Operation) -> Result<Applied, Failure> { let _ = op; Ok(Applied::without_reference(())) }
/// fn app() -> App {
///     App::new().topic("greetings", operation("greet.v1").tenant(fixed("acme")).id(json("/id")).fingerprint(whole_value()).handle(greet))
/// }
///
/// fn main() -> std::process::ExitCode { receipted::main(app(), async |_config| Ok(())) }
/// ```
pub fn main<S: Send + Sync + 'static>(app: App<S>, connect: impl AsyncFnOnce(&Config) -> Result<S, BoxError>) -> ExitCode {
    let Cli { common, command } = Cli::<AppCommand>::parse();
    let done = outside_a_runtime().and_then(|()| match command {
        AppCommand::Run => run(app, connect, &common),
        AppCommand::Routes { details } => routes::run(&app, if details { Shape::Details } else { Shape::Table }, common.output),
        AppCommand::Shared(SharedCommand::Completions { shell }) => {
            completions::<AppCommand>(shell);
            Ok(())
        }
        AppCommand::Shared(command) => shared(command, &common, || Ok(app.declared()?)),
    });
    end(done, common.output)
}

/// The program without an app: `check-config`, `operations …`, `store …`.
#[must_use]
pub fn bare() -> ExitCode {
    let Cli { common, command } = Cli::<SharedCommand>::parse();
    end(outside_a_runtime().and_then(|()| shared(command, &common, || Ok(Vec::new()))), common.output)
}

/// Names the program as it was started: a team's binary has a name of its own.
fn completions<C: Subcommand>(shell: Shell) {
    let started = std::env::args_os().next().map(std::path::PathBuf::from);
    let name = started.as_deref().and_then(|path| path.file_name()).map_or_else(|| "receipted".into(), |name| name.to_string_lossy());
    // The generator for bash loses its way in a name with a hyphen: it is given one without, and only the line that names the program the
    // real one.
    let plain = if shell == Shell::Bash { name.replace('-', "_") } else { name.to_string() };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::<C>::command(), &plain, &mut script);
    for line in String::from_utf8_lossy(&script).lines() {
        match line.strip_suffix(&plain).filter(|_| line.trim_start().starts_with("complete ")) {
            Some(before) => println!("{before}{name}"),
            None => println!("{line}"),
        }
    }
}

/// `declared` is asked only by what needs the app: an app that does not hold must not keep an operator from settling.
fn shared(command: SharedCommand, common: &Common, declared: impl FnOnce() -> Result<Vec<Declared>, Failure>) -> Result<(), Failure> {
    let (config, output) = (common.config.as_deref(), common.output);
    match command {
        SharedCommand::Completions { shell } => {
            completions::<SharedCommand>(shell);
            Ok(())
        }
        SharedCommand::CheckConfig { against_brokers: false } => check_config::run(config, output),
        SharedCommand::CheckConfig { against_brokers: true } => {
            small_runtime()?.block_on(check_config::against(config, &declared()?, output))
        }
        SharedCommand::Operations(command) => small_runtime()?.block_on(operations::run(command, config, output)),
        SharedCommand::Partitions(command) => small_runtime()?.block_on(partitions::run(command, config, output)),
        SharedCommand::Store(command) => small_runtime()?.block_on(store::run(command, config, output)),
    }
}

fn run<S: Send + Sync + 'static>(
    app: App<S>, connect: impl AsyncFnOnce(&Config) -> Result<S, BoxError>, common: &Common,
) -> Result<(), Failure> {
    let config = Config::load(common.config.as_deref(), std::env::vars_os())?;
    app.declared()?;
    log::begin(&config.telemetry).map_err(|error| Failure::set_up(error.to_string(), "correct telemetry.log_filter"))?;
    let runtime = Builder::new_multi_thread().worker_threads(config.runner.threads()).enable_all().build()?;
    let ended = runtime.block_on(async {
        let mut signals = Signals::new()?;
        let connected = tokio::select! {
            connected = connect(&config) => connected,
            () = signals.next() => return Ok(()),
        };
        let state = connected.map_err(|error| Failure::failed(format!("the app could not connect: {error}")))?;
        serve::serve(config, app.with_state(state)).run_until(signals.stop()).await.map_err(Failure::from)
    });
    runtime.shutdown_timeout(END_WAIT);
    ended
}

/// A runtime inside a runtime cannot wait: tokio would panic with words of its own.
fn outside_a_runtime() -> Result<(), Failure> {
    match Handle::try_current() {
        Err(_) => Ok(()),
        Ok(_) => Err(Failure::set_up(
            "receipted::main was called inside an async runtime, and starts one itself",
            "make it a plain `fn main() -> ExitCode`, or run the app with `receipted::serve(config, app).run_until(end).await`",
        )),
    }
}

fn small_runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// SIGTERM and SIGINT.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// Ends with the first signal. The second one ends the process at once, which is safe: receipts are durable.
    async fn stop(mut self) {
        self.next().await;
        tracing::info!("stopping: no more records are fetched; a second signal ends at once");
        tokio::spawn(async move {
            self.next().await;
            tracing::warn!("second signal: ending at once");
            std::process::exit(SECOND_SIGNAL);
        });
    }
}
