//! What a handler says becomes the outcome, and nothing is claimed without a word for it.

use crate::bank::*;
use receipted::{
    prelude::*,
    protocol::{
        note::{DoubtReason, REASON_BYTES_MAX, REFERENCE_BYTES_MAX},
        outcome::Outcome,
    },
    testing::record as bare,
};
use std::fmt;

#[test]
fn a_record_becomes_what_its_handler_knows() {
    let routes = routes(by(header("type")).on("charge", declared().handle(charge)).otherwise(skip()), Bank);
    let label = |record| became(&routes, record).label();
    assert_eq!(label(record("c7", "ada", 7)), "applied");
    assert_eq!(label(record("c7", "down", 7)), "no_effect");
    assert_eq!(label(record("c7", "ada", 5000)), "rejected");
    assert_eq!(label(record("c7", "lost", 7)), "unknown");
    assert_eq!(label(record("c7", "bug", 7)), "panic");
    assert_eq!(label(record("c7", "ada", 7).value(r#"{"charge_id":"c7"}"#)), "dead_lettered");
    assert_eq!(label(bare().header("type", "charge").value(r#"{"charge_id":"c7"}"#)), "dead_lettered");
    assert_eq!(label(bare().header("type", "refund").value("{}")), "skipped");
}

#[test]
fn a_bare_question_mark_is_unknown_for_every_kind_of_error() {
    async fn io() -> Result<Applied, Failure> {
        Err(std::io::Error::other("lost"))?;
        unreachable!()
    }
    async fn boxed() -> Result<Applied, Failure> {
        Err(BoxError::from("lost"))?;
        unreachable!()
    }
    async fn text() -> Result<Applied, Failure> {
        Err("lost")?;
        unreachable!()
    }
    async fn owned() -> Result<Applied, Failure> {
        Err(String::from("lost"))?;
        unreachable!()
    }
    async fn aloud() -> Result<Applied, Failure> {
        Err("lost").unknown()?;
        unreachable!()
    }
    let lost = Outcome::Unknown(DoubtReason::Unknown, "lost".into());
    for route in
        [declared().handle(io), declared().handle(boxed), declared().handle(text), declared().handle(owned), declared().handle(aloud)]
    {
        assert_eq!(outcome(&routes(route, ()), record("c1", "ada", 1)), lost);
    }
}

/// A team's own errors say variant by variant what is known.
enum PayError {
    Limit,
    Closed(BankError),
    Lost(BankError),
}

impl IntoFailure for PayError {
    fn into_failure(self) -> Failure {
        match self {
            Self::Limit => Failure::rejected("over the limit"),
            Self::Closed(error) => Failure::no_effect(error),
            Self::Lost(error) => Failure::unknown(error),
        }
    }
}

#[test]
fn own_errors_arguments_in_another_order_and_state_in_parts() {
    struct Parts {
        bank: Bank,
    }
    impl FromRef<Parts> for Bank {
        fn from_ref(parts: &Parts) -> Bank {
            parts.bank.clone()
        }
    }
    async fn pay(State(bank): State<Bank>, Json(c): Json<Charge>, op: Operation) -> Result<Applied, PayError> {
        if c.cents > bank.limit(&c.account).await.map_err(PayError::Closed)? {
            return Err(PayError::Limit);
        }
        Ok(Applied::new(bank.charge(op.provider_key(), &c).await.map_err(PayError::Lost)?, ()))
    }
    let routes = routes(declared().handle(pay), Parts { bank: Bank });
    let label = |account, cents| became(&routes, record("c1", account, cents)).label();
    assert_eq!(label("ada", 7), "applied");
    assert_eq!(label("ada", 5000), "rejected");
    assert_eq!(label("down", 7), "no_effect");
    assert_eq!(label("lost", 7), "unknown");
}

#[test]
fn state_may_be_shared_behind_an_arc() {
    let routes = routes(declared().handle(charge), std::sync::Arc::new(Bank));
    assert_eq!(became(&routes, record("c1", "ada", 7)).label(), "applied");
}

#[test]
fn references_are_kept_cut_or_none_and_already_is_told_apart() {
    async fn said(Json(kind): Json<serde_json::Value>) -> Result<Applied, Failure> {
        Ok(match kind["kind"].as_str() {
            Some("new") => Applied::new("b-1", ()),
            Some("already") => Applied::already("b-1", ()),
            Some("empty") => Applied::new("", ()),
            Some("long") => Applied::new("x".repeat(1000), ()),
            Some("longer") => Applied::new("x".repeat(1001), ()),
            _ => Applied::without_reference(()),
        })
    }
    let routes = routes(operation("say.v1").tenant(fixed("acme")).id(fixed("one")).fingerprint(whole_value()).handle(said), ());
    let applied = |kind: &str| match outcome(&routes, bare().value(format!(r#"{{"kind":"{kind}"}}"#))) {
        Outcome::Applied(applied) => applied,
        other => panic!("{other:?}"),
    };
    let reference = |kind| applied(kind).reference.map(|reference| reference.as_str().to_string());
    assert_eq!(reference("new").as_deref(), Some("b-1"));
    assert!(!applied("new").already && applied("already").already);
    assert_eq!((reference("empty"), reference("none")), (None, None));
    let (long, longer) = (reference("long").unwrap(), reference("longer").unwrap());
    assert!(long.len() <= REFERENCE_BYTES_MAX && long.starts_with("xxx"));
    assert_ne!(long, longer, "the digest tells references apart that are cut to the same prefix");
}

#[test]
fn an_errors_sources_are_kept_and_its_text_is_capped() {
    #[derive(Debug)]
    struct Outer(std::io::Error);
    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("charging failed")
        }
    }
    impl std::error::Error for Outer {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }
    async fn nested() -> Result<Applied, Failure> {
        Err(Failure::no_effect(Outer(std::io::Error::other("connection refused"))))
    }
    async fn long() -> Result<Applied, Failure> {
        Err(Failure::rejected("ä".repeat(10_000)))
    }
    let said = outcome(&routes(declared().handle(nested), ()), record("c1", "ada", 1));
    assert_eq!(said, Outcome::NoEffect("charging failed: connection refused".into()));
    match outcome(&routes(declared().handle(long), ()), record("c1", "ada", 1)) {
        Outcome::Rejected(text) => assert!(text.len() <= REASON_BYTES_MAX && text.ends_with('ä')),
        other => panic!("{other:?}"),
    }
}
