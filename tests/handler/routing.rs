//! Which operation a record carries, and which routes may share one.

use crate::bank::*;
use receipted::{
    handler::{BuildError, Identified, NeedsHandler, Parameters, Part, Routes},
    prelude::*,
    protocol::secret::Derivation,
    testing::record as bare,
};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

type Declared = NeedsHandler<Bank, Part, Vec<Part>, Parameters>;

fn built(first: Route<Bank>, second: Route<Bank>) -> Result<Routes, BuildError> {
    App::new().topic("payments", first).topic("payments.replayed", second).with_state(Bank).build()
}

#[test]
fn topics_are_listed_with_their_lanes_and_operations_once() {
    let first = by(header("type")).on("charge", declared().handle(charge)).otherwise(skip()).lanes(Lanes::Partition);
    let routes = built(first, declared().handle(charge)).expect("a sound app");
    assert_eq!(routes.topics().collect::<Vec<_>>(), [("payments", Lanes::Partition), ("payments.replayed", Lanes::Key)]);
    assert_eq!(routes.operations().len(), 1);
    assert_eq!(routes.operations()[0].topics(), ["payments", "payments.replayed"]);
}

#[test]
fn a_replay_through_another_topic_is_the_same_operation() {
    let routes = built(declared().handle(charge), declared().handle(charge)).expect("a sound app");
    let record = record("c7", "ada", 7).build();
    match (routes.identify("payments", &record, &Derivation::Unkeyed), routes.identify("payments.replayed", &record, &Derivation::Unkeyed))
    {
        (Identified::Operation(a), Identified::Operation(b)) => assert_eq!((a.route, a.digest), (b.route, b.digest)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn several_types_on_one_topic_find_their_operation_at_any_depth() {
    let named = |name| operation(name).tenant(fixed("acme")).id(json("/id")).fingerprint(whole_value()).handle(nothing);
    let refunds = by(json("/kind")).on("full", named("refund.v1")).otherwise(dead_letter());
    let route = by(header("type")).on("charge", named("charge.v1")).on("refund", refunds).otherwise(skip());
    let routes = routes(route, ());
    let name = |kind: &str, value: &str| match identified(&routes, bare().header("type", kind).value(value)) {
        Identified::Operation(identity) => routes.operations()[identity.route].name.to_string(),
        Identified::DeadLetter(reason) => reason,
        other => panic!("{other:?}"),
    };
    assert_eq!(name("charge", r#"{"id":1}"#), "charge.v1");
    assert_eq!(name("refund", r#"{"id":1,"kind":"full"}"#), "refund.v1");
    assert_eq!(name("refund", r#"{"id":1,"kind":"part"}"#), r#"no operation for json "/kind" with "part""#);
    assert!(matches!(identified(&routes, bare().header("type", "x").value("{}")), Identified::Skip));
}

#[test]
fn one_route_may_serve_two_topics_even_where_its_functions_cannot_be_compared() {
    let prefix = String::from("eu-");
    let id = move |record: &Record| Ok(format!("{prefix}{}", record.json("/charge_id")?));
    let route: Route<Bank> = operation("charge.v1").tenant(fixed("a")).id(id).fingerprint(whole_value()).handle(charge);
    assert_eq!(built(route.clone(), route).expect("a sound app").operations().len(), 1);
}

fn lower(record: &Record) -> Result<String, BoxError> {
    Ok(record.json("/charge_id")?.to_lowercase())
}

fn upper(record: &Record) -> Result<String, BoxError> {
    Ok(record.json("/charge_id")?.to_uppercase())
}

#[test]
fn functions_that_capture_nothing_are_compared_by_what_they_are() {
    let with =
        |id: fn(&Record) -> Result<String, BoxError>| operation("c.v1").tenant(fixed("a")).id(id).fingerprint(whole_value()).handle(charge);
    let item = || operation("c.v1").tenant(fixed("a")).id(lower).fingerprint(whole_value()).handle(charge);
    let other = || operation("c.v1").tenant(fixed("a")).id(upper).fingerprint(whole_value()).handle(charge);
    assert!(built(item(), item()).is_ok());
    assert!(matches!(built(item(), other()), Err(BuildError::Unequal { what: "id", .. })));
    assert!(built(with(lower), with(lower)).is_err(), "a pointer's code is not known when it is built");
}

#[test]
fn routes_that_share_a_name_are_equal_or_refused_with_what_differs() {
    async fn other_find() -> Result<Finding, BankError> {
        Ok(Finding::NotFound)
    }
    async fn answer(_: Reply) -> Result<(), BankError> {
        Ok(())
    }
    let key = |tenant: Part, id: Part, print: Parameters| operation("charge.v1").tenant(tenant).id(id).fingerprint(print);
    let print = || json_fields(["/cents", "/account"]); // in another order, which does not matter
    let base = || key(header("tenant"), json("/charge_id"), print());
    let asks = |quiet: Duration| base().in_doubt(ask(find_charge).after_quiet(quiet));
    let differs = |first: Declared, second: Declared, expected: &str| match built(first.handle(charge), second.handle(charge)) {
        Err(BuildError::Unequal { place, what }) => {
            assert_eq!((place.topic.as_str(), place.operation.as_str(), what), ("payments.replayed", "charge.v1", expected));
        }
        other => panic!("{expected}: {other:?}"),
    };
    differs(base(), key(header("scope"), json("/charge_id"), print()), "tenant");
    differs(base(), key(header("tenant"), json("/id"), print()), "id");
    differs(base(), key(header("tenant"), json("/charge_id"), whole_value()), "fingerprint");
    differs(base(), base().alphabet(Alphabet::Printable), "alphabet");
    differs(base(), base().formerly("charge.v0"), "older name");
    differs(base(), asks(SECOND), "in-doubt contract");
    differs(asks(SECOND), asks(2 * SECOND), "in-doubt contract");
    differs(asks(SECOND), base().in_doubt(ask(other_find).after_quiet(SECOND)), "in-doubt contract");
    differs(base(), base().time_limit(SECOND), "policy or limit");
    differs(base(), base().answer_bytes_max(1), "answer_bytes_max");
    differs(base(), base().reply(answer), "reply hook");
    assert!(matches!(built(base().handle(charge), base().handle(nothing)), Err(BuildError::Unequal { what: "handler", .. })));
    assert!(built(asks(SECOND).reply(answer).handle(charge), asks(SECOND).reply(answer).handle(charge)).is_ok());
    assert!(built(base().handle(charge), base().correlation(header("r")).handle(charge)).is_ok(), "a correlation id is no identity");
}
