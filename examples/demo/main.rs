//! The main job on an in-process broker: invoices of several tenants, and everything that usually goes wrong with them. At the end an
//! account compares the destination's ledger with the receipts; the exit code is 1 if it does not add up.
//!
//! `cargo run --release --example demo`, and with `-- --keep` it stays up afterwards, with metrics; with `-- --brokers HOST:PORT` it plays
//! on a real cluster, in topics and a group of its own that it takes away afterwards; `-- --listen 127.0.0.1:9464` says where its metrics are.

mod account;
mod keep;
mod scenes;
mod sent;
mod service;
mod show;
mod stage;
/// The destination, its ledger and the care for child processes are those of the tests.
#[path = "../../tests/support/mod.rs"]
mod support;

use clap::Parser as _;
use std::{
    net::SocketAddr,
    panic::{AssertUnwindSafe, catch_unwind},
    process::ExitCode,
};
use support::process;

const MEANING: &str = "
  What it means: nothing that was sent is missing, and no handler ran while an earlier attempt might have had its effect.
  What nobody can know is on a list instead of being guessed; a person asks the print shop and settles it.
  No client can stop a destination that breaks its word, but what it did is counted and has an incident.
";

/// The main job with everything that usually goes wrong, and an account at the end.
#[derive(clap::Parser)]
struct Arguments {
    /// Stay up afterwards, with metrics.
    #[arg(long)]
    keep: bool,
    /// Play on this cluster, in topics and a group "receipted-demo" that are taken away afterwards.
    #[arg(long, value_name = "HOST:PORT")]
    brokers: Option<String>,
    /// Serve metrics here from the beginning, to watch it play; else where there is a free port.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
}

fn main() -> ExitCode {
    if std::env::var(process::ROLE).is_ok_and(|role| role == service::ROLE) {
        process::end_with_parent();
        return service::main();
    }
    process::play(&[("destination", support::destination::role)]);
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("the demo cannot go on: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Plays, and says whether the account adds up.
fn run(arguments: &Arguments) -> Result<bool, String> {
    let mut stage = stage::Stage::set(show::Show::new(), arguments.brokers.as_deref(), arguments.listen)?;
    // The tests' support panics when something does not come. The account is made all the same, and says what is missing.
    let played = catch_unwind(AssertUnwindSafe(|| scenes::play(&mut stage))).unwrap_or_else(|_| Err("see above".into()));
    stage.show.rest();
    if let Err(error) = &played {
        stage.show.say(&format!("\n  SOMETHING DID NOT COME  {error}"));
    }
    let stopped = stage.stop_runner();
    let adds_up = account::settle(&stage).map(|adds_up| adds_up && played.is_ok() && stopped.is_ok());
    if !arguments.keep {
        stage.clear();
    }
    let adds_up = adds_up?;
    let took = stage.show.elapsed().as_secs_f32();
    stage.show.say(&if adds_up { format!("\n  It adds up.   [{took:.1} s]") } else { format!("\n  It does not add up.   [{took:.1} s]") });
    stopped?;
    if adds_up {
        stage.show.say(MEANING);
    }
    if arguments.keep {
        keep::stay(&mut stage)?;
        stage.stop_runner()?;
        stage.clear();
    }
    Ok(adds_up)
}
