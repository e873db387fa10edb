//! The main job on an in-process broker: invoices of several tenants, and everything that usually goes wrong with them. At the end an
//! account compares the destination's ledger with the receipts; the exit code is 1 if it does not add up.
//!
//! `cargo run --release --example demo`, and with `-- --keep` it stays up afterwards, with metrics; with `-- --brokers HOST:PORT` it plays
//! on a real cluster, in topics and a group of its own that it takes away afterwards.

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

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    process::ExitCode,
};
use support::process;

const MEANING: &str = "
  What it means: nothing that was sent is missing, and no handler ran while an earlier attempt might have had its effect.
  What nobody can know is on a list instead of being guessed; a person asks the print shop and settles it.
  No client can stop a destination that breaks its word, but what it did is counted and has an incident.
";

fn main() -> ExitCode {
    if std::env::var(process::ROLE).is_ok_and(|role| role == service::ROLE) {
        process::end_with_parent();
        return service::main();
    }
    process::play(&[("destination", support::destination::role)]);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (keep, brokers) = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => (false, None),
        ["--keep"] => (true, None),
        ["--brokers", brokers] => (false, Some(brokers)),
        ["--keep", "--brokers", brokers] | ["--brokers", brokers, "--keep"] => (true, Some(brokers)),
        _ => {
            eprintln!("usage: demo [--keep] [--brokers HOST:PORT]");
            eprintln!("  --keep      stays up afterwards, with metrics");
            eprintln!("  --brokers   on this cluster, in topics and a group \"{}\" that are taken away afterwards", service::GROUP);
            return ExitCode::from(2);
        }
    };
    match run(keep, brokers) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("the demo cannot go on: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Plays, and says whether the account adds up.
fn run(keep: bool, brokers: Option<&str>) -> Result<bool, String> {
    let mut stage = stage::Stage::set(show::Show::new(), brokers)?;
    // The tests' support panics when something does not come. The account is made all the same, and says what is missing.
    let played = catch_unwind(AssertUnwindSafe(|| scenes::play(&mut stage))).unwrap_or_else(|_| Err("see above".into()));
    stage.show.rest();
    if let Err(error) = &played {
        stage.show.say(&format!("\n  SOMETHING DID NOT COME  {error}"));
    }
    let stopped = stage.stop_runner();
    let adds_up = account::settle(&stage).map(|adds_up| adds_up && played.is_ok() && stopped.is_ok());
    if !keep {
        stage.clear();
    }
    let adds_up = adds_up?;
    let took = stage.show.elapsed().as_secs_f32();
    stage.show.say(&if adds_up { format!("\n  It adds up.   [{took:.1} s]") } else { format!("\n  It does not add up.   [{took:.1} s]") });
    stopped?;
    if adds_up {
        stage.show.say(MEANING);
    }
    if keep {
        keep::stay(&mut stage)?;
        stage.stop_runner()?;
        stage.clear();
    }
    Ok(adds_up)
}
