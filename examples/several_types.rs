//! Several operations on one topic, told apart by a header; one type that is left alone, and the rest to the dead letters.

use receipted::{
    prelude::*,
    testing::{Booked, Destination, Fault},
};
use serde::Deserialize;
use std::process::ExitCode;

#[derive(Deserialize)]
struct Order {
    order: String,
}

async fn tell(what: &str, op: &Operation, order: &Order, mail: &Destination) -> Result<Applied, Failure> {
    match mail.book(op.provider_key(), format!("{what} {}", order.order)).await {
        Ok(Booked::Now(id)) => Ok(Applied::new(id, ())),
        Ok(Booked::Before(id)) => Ok(Applied::already(id, ())),
        Err(down @ Fault::Down) => Err(down).no_effect(),
        Err(lost) => Err(lost)?,
    }
}

async fn confirm(op: Operation, Json(order): Json<Order>, State(mail): State<Destination>) -> Result<Applied, Failure> {
    tell("confirmed", &op, &order, &mail).await
}

async fn cancel(op: Operation, Json(order): Json<Order>, State(mail): State<Destination>) -> Result<Applied, Failure> {
    tell("cancelled", &op, &order, &mail).await
}

fn app() -> App<Destination> {
    // The same id under two names is two operations: an order may be confirmed once and cancelled once.
    let confirmed = operation("order.confirm.v1").tenant(header("tenant")).id(json("/order")).fingerprint(whole_value()).handle(confirm);
    let cancelled = operation("order.cancel.v1").tenant(header("tenant")).id(json("/order")).fingerprint(whole_value()).handle(cancel);
    let route = by(header("type")).on("confirmed", confirmed).on("cancelled", cancelled).on("viewed", skip());
    App::new().topic("orders", route.otherwise(dead_letter()))
}

fn main() -> ExitCode {
    receipted::main(app(), async |_config| Ok(Destination::deduplicating()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use receipted::testing::{Rehearsal, record, rehearsal};
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn each_type_goes_its_way_and_each_act_takes_effect_once() -> Result<(), rehearsal::Error> {
        let mail = Destination::forgetful();
        let outside = mail.clone();
        let mut app = Rehearsal::start(move || super::app().with_state(outside.clone())).await?;
        for kind in ["confirmed", "confirmed", "viewed", "cancelled", "paid", "cancelled"] {
            app.deliver("orders", record().key("7").header("tenant", "acme").header("type", kind).value(r#"{"order":"7"}"#))?;
        }
        app.complete_within(Duration::from_secs(10)).await?;
        let said: Vec<String> = mail.effects().into_iter().map(|effect| effect.what).collect();
        assert_eq!(said, ["confirmed 7", "cancelled 7"]);
        assert_eq!(app.dead_letters().len(), 1, "paid");
        Ok(())
    }
}
