//! A team's own error enum: it says once, variant by variant, what is known about the effect, and every handler that returns it says the
//! same. Sends a parcel for each record of the topic `parcels`.

use receipted::{
    handler::IntoFailure,
    prelude::*,
    testing::{Booked, Destination, Fault},
};
use serde::Deserialize;
use std::process::ExitCode;

#[derive(Deserialize)]
struct Parcel {
    to: String,
    grams: u32,
}

#[derive(Debug, thiserror::Error)]
enum DepotError {
    #[error("no such address: {0}")]
    Address(String),
    #[error("the depot is closed")]
    Closed,
    #[error("the connection broke before the answer")]
    Broken,
}

/// The one place where the team decides what an error means.
impl IntoFailure for DepotError {
    fn into_failure(self) -> Failure {
        match self {
            Self::Address(_) => Failure::rejected(self), // refused for good: a repeat is refused too
            Self::Closed => Failure::no_effect(self),    // certainly nothing sent: tried again
            Self::Broken => Failure::unknown(self),      // it may be on its way: the contract decides
        }
    }
}

async fn send(op: Operation, Json(parcel): Json<Parcel>, State(depot): State<Destination>) -> Result<Applied, DepotError> {
    if parcel.to.is_empty() {
        return Err(DepotError::Address(parcel.to));
    }
    match depot.book(op.provider_key(), format!("{} g to {}", parcel.grams, parcel.to)).await {
        Ok(Booked::Now(number)) => Ok(Applied::new(number, ())),
        Ok(Booked::Before(number)) => Ok(Applied::already(number, ())),
        Err(Fault::Down) => Err(DepotError::Closed),
        Err(_) => Err(DepotError::Broken),
    }
}

fn app() -> App<Destination> {
    let route = operation("parcel.send.v1").tenant(fixed("acme")).id(json("/id")).fingerprint(json_fields(["/to", "/grams"]));
    App::new().topic("parcels", route.in_doubt(hold()).handle(send))
}

fn main() -> ExitCode {
    receipted::main(app(), async |_config| Ok(Destination::deduplicating()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use receipted::testing::{Answers, Rehearsal, record, rehearsal};
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn each_variant_becomes_what_it_says() -> Result<(), rehearsal::Error> {
        let depot = Destination::deduplicating();
        depot.next([Answers::Down, Answers::AtOnce, Answers::Lost]);
        let outside = depot.clone();
        let mut app = Rehearsal::start(move || super::app().with_state(outside.clone())).await?;
        for (id, to) in [("p-1", "ada"), ("p-2", ""), ("p-3", "bob")] {
            app.deliver("parcels", record().value(format!(r#"{{"id":"{id}","to":"{to}","grams":10}}"#)))?;
            app.complete_within(Duration::from_secs(60)).await?;
        }
        let state = |id: &str| app.state("acme", "parcel.send.v1", &[id]);
        assert_eq!((state("p-1")?, state("p-2")?, state("p-3")?), ("applied", "rejected", "in_doubt"));
        assert_eq!((depot.requests(), depot.effects().len()), (3, 2), "the first came again after its back-off");
        Ok(())
    }
}
