//! The runner's process, and all that a team writes for it: a handler, a lookup, three routes, a `main`; and its configuration.

use crate::support::destination::{Apply, ApplyError, Destination};
use receipted::{config::Config, prelude::*};
use serde::Deserialize;
use std::{net::SocketAddr, path::Path, process::ExitCode, time::Duration};

/// The topics, each with its own promise about what becomes of a lost answer.
pub const INVOICES: &str = "receipted-demo.invoices";
pub const REMINDERS: &str = "receipted-demo.reminders";
pub const PAYOUTS: &str = "receipted-demo.payouts";
pub const DEAD_LETTERS: &str = "receipted-demo.dead-letters";
pub const GROUP: &str = "receipted-demo";
/// The name of this process among the demo's.
pub const ROLE: &str = "runner";

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

/// The runner's `main`: every command that receipted has, for this app.
pub fn main() -> ExitCode {
    receipted::main(app(), async |config: &Config| Ok(Destination::new(config.app::<Settings>()?.destination)))
}

/// The team's own settings.
#[derive(Deserialize)]
struct Settings {
    destination: String,
}

/// The configuration: everything that it does not name is as shipped.
pub fn configuration(brokers: &str, session: Duration, store: &Path, pages: SocketAddr, destination: &str) -> String {
    let session = session.as_secs();
    format!(
        r#"[kafka]
brokers = "{brokers}"
group = "{GROUP}"
first_start = "earliest"
# The in-process broker serves a successor only after the dead member's session: short, so that the demo is.
session_timeout = "{session}s"
heartbeat_interval = "500ms"

[kafka.settings]
# It also lets a fetch wait to its end, even when records come.
"fetch.wait.max.ms" = 10

[store]
directory = {store:?}
# It shows what the program does, on whatever disk there is.
file_system = "any"
disk_free_floor_bytes = 0

[runner]
permits = 16
commit_interval = "100ms"

[reconcile]
again_first = "100ms"

[dead_letter]
topic = "{DEAD_LETTERS}"
include_error_text = true

[telemetry]
listen = "{pages}"

[app]
destination = "{destination}"
"#
    )
}
