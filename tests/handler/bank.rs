//! A bank, its handler and lookup, and the short ways of the tests through a built app.

use receipted::{
    handler::{AttemptInfo, Delivery, Identified, Identity, NeedsHandler, Part, Routes},
    prelude::*,
    protocol::{outcome::Outcome, secret::Derivation},
    testing::{self, Delivered, RecordBuilder, block_on},
};
use serde::{Deserialize, Serialize};
use std::{io, sync::Arc};

#[derive(Deserialize)]
pub(crate) struct Charge {
    pub(crate) account: String,
    pub(crate) cents: u64,
}

#[derive(Serialize)]
pub(crate) struct Charged {
    pub(crate) cents: u64,
}

pub(crate) async fn charge(op: Operation, Json(c): Json<Charge>, State(bank): State<Bank>) -> Result<Applied<Charged>, Failure> {
    let limit = bank.limit(&c.account).await.no_effect()?;
    if c.cents > limit {
        return Err(Failure::rejected("over the limit"));
    }
    let id = bank.charge(op.provider_key(), &c).await?;
    Ok(Applied::new(&id, Charged { cents: c.cents }))
}

pub(crate) async fn find_charge(op: Operation, State(bank): State<Bank>) -> Result<Finding<Charged>, BankError> {
    Ok(match bank.find(op.id()).await? {
        Some((id, cents)) => Finding::Found(Applied::new(id, Charged { cents })),
        None => Finding::NotFound,
    })
}

#[derive(Clone, Default)]
pub(crate) struct Bank;
pub(crate) type BankError = io::Error;

impl Bank {
    pub(crate) async fn limit(&self, account: &str) -> Result<u64, BankError> {
        if account == "down" { Err(BankError::other("the bank is closed")) } else { Ok(1000) }
    }

    pub(crate) async fn charge(&self, key: &str, c: &Charge) -> Result<String, BankError> {
        match c.account.as_str() {
            "lost" => Err(BankError::other("no answer")),
            "bug" => panic!("a bug at the bank"),
            _ => Ok(format!("ref:{key}")),
        }
    }

    /// Knows the id `c7` only.
    pub(crate) async fn find(&self, id: &[String]) -> Result<Option<(String, u64)>, BankError> {
        match id {
            [down] if down == "down" => Err(BankError::other("the bank is closed")),
            _ => Ok((id == ["c7"]).then(|| ("ref:c7".into(), 7))),
        }
    }
}

/// `charge.v1` as every example declares it, without handler.
pub(crate) fn declared<S>() -> NeedsHandler<S, Part, Vec<Part>, receipted::handler::Parameters> {
    operation("charge.v1").tenant(header("tenant")).id(json("/charge_id")).fingerprint(json_fields(["/account", "/cents"]))
}

/// A handler that takes nothing and applies nothing in particular.
pub(crate) async fn nothing() -> Result<Applied, Failure> {
    Ok(Applied::without_reference(()))
}

/// One topic, `payments`, with this route.
pub(crate) fn routes<S: Send + Sync + 'static>(route: Route<S>, state: S) -> Routes {
    App::new().topic("payments", route).with_state(state).build().expect("a sound app")
}

pub(crate) fn record(id: &str, account: &str, cents: u64) -> RecordBuilder {
    let value = format!(r#"{{"charge_id":"{id}","account":"{account}","cents":{cents}}}"#);
    testing::record().header("type", "charge").header("tenant", "acme").value(value)
}

pub(crate) fn became(routes: &Routes, record: RecordBuilder) -> Delivered {
    block_on(testing::deliver(routes, "payments", record))
}

/// The outcome of a record whose handler runs.
pub(crate) fn outcome(routes: &Routes, record: RecordBuilder) -> Outcome {
    match became(routes, record) {
        Delivered::Ran(outcome) => outcome,
        other => panic!("the handler did not run: {other:?}"),
    }
}

/// The record lives as long as the test.
pub(crate) fn identified(routes: &Routes, record: RecordBuilder) -> Identified<'_> {
    routes.identify("payments", Box::leak(Box::new(record.build_for(routes, "payments"))), &Derivation::Unkeyed)
}

pub(crate) fn identity(routes: &Routes, record: RecordBuilder) -> Identity<'_> {
    match identified(routes, record) {
        Identified::Operation(identity) => identity,
        other => panic!("no operation: {other:?}"),
    }
}

/// Why a record has no valid identity.
pub(crate) fn invalid(routes: &Routes, record: RecordBuilder) -> Invalid {
    match identified(routes, record) {
        Identified::Invalid(invalid) => invalid,
        other => panic!("not invalid: {other:?}"),
    }
}

/// A delivery of the record's operation, as the runner makes one.
pub(crate) fn delivery(routes: &Routes, record: RecordBuilder, info: AttemptInfo) -> Delivery {
    let record = record.build_for(routes, "payments");
    match routes.identify("payments", &record, &Derivation::Unkeyed) {
        Identified::Operation(identity) => {
            let digest = identity.digest;
            Delivery::new(record.clone(), Operation::new(Arc::new(identity.into_key()), digest, info))
        }
        other => panic!("no operation: {other:?}"),
    }
}
