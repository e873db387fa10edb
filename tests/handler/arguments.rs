//! Arguments come before the handler, in any order, and the handler comes with the first poll.

use crate::bank::*;
use receipted::{
    handler::AttemptInfo,
    prelude::*,
    protocol::{
        note::{Applied as Kept, Reference},
        outcome::Outcome,
    },
    testing::{block_on, record as bare},
};
use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

#[test]
fn a_plain_function_is_not_called_before_the_attempt_is_polled() {
    fn effect(State(calls): State<Arc<AtomicU32>>) -> std::future::Ready<Result<Applied, Failure>> {
        calls.fetch_add(1, Ordering::Relaxed); // an effect outside of the future that it returns
        std::future::ready(Ok(Applied::without_reference(())))
    }
    let calls = Arc::new(AtomicU32::new(0));
    let routes = routes(declared().handle(effect), calls.clone());
    let prepare = || routes.operations()[0].prepare(delivery(&routes, record("c7", "ada", 7), AttemptInfo::default())).expect("arguments");
    drop(prepare());
    drop(prepare().into_future());
    let attempt = prepare();
    assert_eq!(attempt.operation.tenant(), "acme");
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    assert_eq!(block_on(attempt.into_future()).label(), "applied");
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[test]
fn raw_headers_operation_and_own_extractors_give_what_the_record_holds() {
    struct Kind(String);
    impl<S> FromDelivery<S> for Kind {
        fn from_delivery(delivery: &Delivery, _: &S) -> Result<Self, Invalid> {
            Ok(Self(delivery.record().header("type")?.into()))
        }
    }
    async fn show(Kind(kind): Kind, headers: Headers, Raw(value): Raw, op: Operation) -> Result<Applied, Failure> {
        let odd = headers.iter().filter(|(name, _)| std::str::from_utf8(name).is_err()).count();
        let text = headers.get("text").unwrap_or("none");
        Ok(Applied::new(format!("{kind} {} {odd} {text} {}/{}/{:?}", value.len(), op.tenant(), op.name(), op.id()), ()))
    }
    let routes = routes(declared().handle(show), ());
    let record = record("c7", "ada", 7).header([0xff, 0xfe], "x").header("text", "t").null_header("null");
    match outcome(&routes, record) {
        Outcome::Applied(Kept { reference: Some(reference), .. }) => {
            assert_eq!(Reference::as_str(&reference), r#"charge 44 1 t acme/charge.v1/["c7"]"#);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(became(&routes, bare().header("tenant", "acme").value(r#"{"charge_id":"c7"}"#)).label(), "dead_lettered");
}

#[test]
fn json_arguments_are_as_exact_as_their_type() {
    #[derive(serde::Deserialize)]
    struct Wide {
        wide: u128,
    }
    async fn show(Json(value): Json<Wide>) -> Result<Applied, Failure> {
        Ok(Applied::new(value.wide, ()))
    }
    let exact = "170141183460469231731687303715884105727";
    let routes = routes(declared().handle(show), ());
    match outcome(&routes, record("c7", "a", 1).value(format!(r#"{{"charge_id":"c7","wide":{exact}}}"#))) {
        Outcome::Applied(Kept { reference, .. }) => assert_eq!(reference.as_ref().map(Reference::as_str), Some(exact)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn six_arguments_are_taken_and_none_is_needed() {
    async fn six(_: Operation, _: Headers, _: Raw, _: Json<serde_json::Value>, _: State<Bank>, _: State<Bank>) -> Result<Applied, Failure> {
        Ok(Applied::without_reference(()))
    }
    assert_eq!(became(&routes(declared().handle(six), Bank), record("c7", "ada", 7)).label(), "applied");
    assert_eq!(became(&routes(declared().handle(nothing), Bank), record("c7", "ada", 7)).label(), "applied");
}

#[test]
fn the_value_is_parsed_once() {
    let record = record("c7", "ada", 7).build();
    let (first, second) = (record.json_value().expect("JSON"), record.json_value().expect("JSON"));
    assert!(std::ptr::eq(first, second));
}

#[test]
fn a_replay_and_its_correlation_are_shown_to_the_handler() {
    async fn show(op: Operation) -> Result<Applied, Failure> {
        Ok(Applied::new(format!("{} {:?}", op.is_replay(), op.correlation_id()), ()))
    }
    let routes = routes(declared().handle(show), ());
    let info = AttemptInfo { correlation: Some("r-1".into()), replay: receipted::handler::Replay::Repeat, ..AttemptInfo::default() };
    let attempt = routes.operations()[0].prepare(delivery(&routes, record("c7", "ada", 7), info)).expect("arguments");
    match block_on(attempt.into_future()) {
        Outcome::Applied(Kept { reference: Some(reference), .. }) => assert_eq!(reference.as_str(), r#"true Some("r-1")"#),
        other => panic!("{other:?}"),
    }
}
