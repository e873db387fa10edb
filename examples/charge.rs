//! Charges a bank account for each record of the topic `payments`, once per charge however often the record comes.
//!
//! The bank is kept in memory here. It refuses an account named `down` before the effect, and loses its answer after the effect for
//! one named `lost`: that attempt is unknown, and the lookup finds out.

use receipted::prelude::*;
use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    io,
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

#[derive(Deserialize)]
struct Charge {
    account: String,
    cents: u64,
}

#[derive(Serialize)]
struct Charged {
    cents: u64,
}

async fn charge(op: Operation, Json(c): Json<Charge>, State(bank): State<Bank>) -> Result<Applied<Charged>, Failure> {
    let limit = bank.limit(&c.account).await.no_effect()?; // before the effect: certain, try later
    if c.cents > limit {
        return Err(Failure::rejected("over the limit")); // certain, and final
    }
    let id = bank.charge(op.provider_key(), &c).await?; // a bare `?` means: we cannot tell
    Ok(Applied::new(&id, Charged { cents: c.cents })) // the destination's reference, and the answer for repeats
}

/// Only looks. A failed lookup is no evidence, and "not found" only after the quiet period.
async fn find_charge(op: Operation, State(bank): State<Bank>) -> Result<Finding<Charged>, BankError> {
    Ok(match bank.find(op.provider_key()).await? {
        Some(booked) => Finding::Found(Applied::new(&booked.id, Charged { cents: booked.cents })),
        None => Finding::NotFound,
    })
}

fn app() -> App<Bank> {
    App::new().topic(
        "payments",
        by(header("type"))
            .on(
                "charge",
                operation("charge.v1")
                    .tenant(header("tenant"))
                    .id(json("/charge_id"))
                    .fingerprint(json_fields(["/account", "/cents"]))
                    .in_doubt(ask(find_charge).after_quiet(Duration::from_mins(2)))
                    .handle(charge),
            )
            .otherwise(dead_letter()),
    )
}

fn main() -> ExitCode {
    receipted::main(app(), async |_config| Ok(Bank::default()))
}

/// A bank that knows each idempotency key once.
#[derive(Clone, Default)]
struct Bank(Arc<Mutex<HashMap<String, Booked>>>);

#[derive(Clone)]
struct Booked {
    id: String,
    cents: u64,
}

type BankError = io::Error;

impl Bank {
    async fn limit(&self, account: &str) -> Result<u64, BankError> {
        if account == "down" { Err(BankError::other("the bank is closed")) } else { Ok(1000) }
    }

    async fn charge(&self, key: &str, charge: &Charge) -> Result<String, BankError> {
        let mut books = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let next = format!("booking-{}", books.len() + 1);
        let booked = books.entry(key.into()).or_insert(Booked { id: next, cents: charge.cents });
        if charge.account == "lost" { Err(BankError::other("connection reset")) } else { Ok(booked.id.clone()) }
    }

    async fn find(&self, key: &str) -> Result<Option<Booked>, BankError> {
        Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use receipted::{
        handler::Routes,
        protocol::outcome::Finding as Found,
        testing::{RecordBuilder, block_on, deliver, look_up, record},
    };

    fn routes() -> Routes {
        app().with_state(Bank::default()).build().expect("a sound app")
    }

    fn charge(id: &str, account: &str, cents: u64) -> RecordBuilder {
        let value = format!(r#"{{"charge_id":"{id}","account":"{account}","cents":{cents}}}"#);
        record().header("type", "charge").header("tenant", "acme").value(value)
    }

    #[test]
    fn a_charge_becomes_what_the_bank_did() {
        let routes = routes();
        let became = |record| block_on(deliver(&routes, "payments", record)).label();
        assert_eq!(became(charge("c-1", "ada", 700)), "applied");
        assert_eq!(became(charge("c-2", "ada", 7000)), "rejected");
        assert_eq!(became(charge("c-3", "down", 700)), "no_effect");
        assert_eq!(became(charge("c-4", "lost", 700)), "unknown");
        assert_eq!(became(record().header("type", "refund").value("{}")), "dead_lettered");
    }

    #[test]
    fn the_lookup_finds_the_charge_whose_answer_was_lost() {
        let routes = routes();
        let looked = |id: &str| block_on(look_up(&routes, "payments", charge(id, "lost", 700)));
        assert_eq!(looked("c-4"), Ok(Found::NotFound));
        block_on(deliver(&routes, "payments", charge("c-4", "lost", 700)));
        assert!(matches!(looked("c-4"), Ok(Found::Found(found)) if found.len() == 1));
    }
}
