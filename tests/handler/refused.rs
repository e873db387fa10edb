//! What is wrong with an app is refused when it is built, with topic, operation and remedy.

use crate::bank::*;
use receipted::{
    handler::{BuildError, IntoId, Parameters},
    prelude::*,
    protocol::key::Error as KeyError,
};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_hours(24);

fn refusal(app: App<Bank>) -> BuildError {
    app.with_state(Bank).build().expect_err("the app is unsound")
}

fn refused(route: Route<Bank>) -> BuildError {
    refusal(App::new().topic("payments", route))
}

/// Refused, and the text names topic and operation.
fn named(route: Route<Bank>) -> BuildError {
    let error = refused(route);
    let text = error.to_string();
    assert!(text.contains("\"payments\"") && text.contains("\"charge.v1\""), "{text}");
    assert!(!text.ends_with('.') && !text.contains('\n'), "{text}");
    error
}

#[test]
fn an_app_without_operations_is_refused() {
    assert_eq!(refusal(App::new()), BuildError::Empty);
    assert_eq!(refused(by(header("type")).on("a", skip()).otherwise(dead_letter())), BuildError::Empty);
}

#[test]
fn a_topic_is_declared_once_and_by_a_name_that_kafka_takes() {
    let app = App::new().topic("payments", declared().handle(charge)).topic("payments", skip());
    assert!(matches!(refusal(app), BuildError::TopicTwice { topic } if topic == "payments"));
    for name in ["", ".", "..", "a b", "ä", &"x".repeat(250)] {
        assert!(matches!(refusal(App::new().topic(name, declared().handle(charge))), BuildError::TopicName { .. }), "{name}");
    }
}

#[test]
fn a_value_is_routed_once_and_lanes_belong_to_the_whole_topic() {
    let twice = by(header("type")).on("a", declared().handle(charge)).on("a", skip()).otherwise(skip());
    assert!(matches!(refused(twice), BuildError::ValueTwice { value, .. } if value == "a"));
    let inner = by(header("type")).on("a", declared().handle(charge).lanes(Lanes::Partition)).otherwise(skip());
    assert!(matches!(refused(inner), BuildError::InnerLanes { .. }));
    let otherwise = by(header("type")).on("a", declared().handle(charge)).otherwise(skip().lanes(Lanes::Partition));
    assert!(matches!(refused(otherwise), BuildError::InnerLanes { .. }));
}

#[test]
fn an_operation_name_carries_its_version() {
    for name in ["charge", "charge.v", "charge.vx", ".v1", "charge v.v1", ""] {
        let route = operation(name).tenant(fixed("a")).id(json("/id")).fingerprint(whole_value()).handle(charge);
        assert!(matches!(refused(route), BuildError::Name { .. }), "{name}");
    }
    let route = operation("charge").tenant(fixed("a")).id(json("/id")).fingerprint(whole_value()).handle(charge);
    assert!(matches!(refused(route), BuildError::Name { error: KeyError::NoVersion { .. }, .. }));
}

#[test]
fn sources_that_can_give_nothing_are_refused() {
    let tenant =
        |part: receipted::handler::Part| operation("charge.v1").tenant(part).id(json("/id")).fingerprint(whole_value()).handle(charge);
    for part in [header(""), json("id"), json("$.id"), json("/a~2"), fixed(""), fixed("two words"), fixed("x".repeat(129))] {
        let shown = part.to_string();
        assert!(matches!(named(tenant(part)), BuildError::Source { part, .. } if part == "tenant"), "{shown}");
    }
    assert!(named(tenant(json("order.id"))).to_string().contains(r#"say "/order/id""#));
    assert!(matches!(named(declared().correlation(header("")).handle(charge)), BuildError::Source { part, .. } if part == "correlation"));
    let kind = by(header("")).on("a", declared().handle(charge)).otherwise(skip());
    assert!(matches!(refused(kind), BuildError::Source { part, .. } if part == "by"));
}

#[test]
fn an_id_has_one_to_sixteen_sound_parts() {
    fn id(id: impl IntoId) -> Route<Bank> {
        operation("charge.v1").tenant(fixed("a")).id(id).fingerprint(whole_value()).handle(charge)
    }
    let none: [receipted::handler::Part; 0] = [];
    assert!(matches!(named(id(none)), BuildError::IdParts { parts: 0, .. }));
    assert!(matches!(named(id([(); 17].map(|()| json("/a")))), BuildError::IdParts { parts: 17, .. }));
    assert!(matches!(named(id([json("/a"), json("b")])), BuildError::Source { part, .. } if part == "id[1]"));
    assert!(App::new().topic("t", id([(); 16].map(|()| json("/a")))).with_state(Bank).build().is_ok());
}

#[test]
fn a_fingerprint_names_fields_or_a_reason() {
    let print = |print: Parameters| operation("charge.v1").tenant(fixed("a")).id(json("/id")).fingerprint(print).handle(charge);
    for parameters in [json_fields([]), json_fields(["/a", "b"]), unchecked(" ")] {
        assert!(matches!(named(print(parameters)), BuildError::Parameters { .. }));
    }
}

#[test]
fn an_older_name_is_a_name_another_one_and_no_longer_in_use() {
    for names in [vec!["charge"], vec!["charge.v1"], vec!["charge.v0", "charge.v0"]] {
        let route = names.iter().fold(declared(), |route, name| route.formerly(name)).handle(charge);
        assert!(matches!(named(route), BuildError::Formerly { .. }), "{names:?}");
    }
    let older = operation("charge.v0").tenant(header("tenant")).id(json("/charge_id")).fingerprint(whole_value()).handle(charge);
    let both = by(header("type")).on("old", older).on("new", declared().formerly("charge.v0").handle(charge)).otherwise(skip());
    assert!(matches!(named(both), BuildError::Formerly { name, .. } if name == "charge.v0"));
}

#[test]
fn limits_that_make_no_sense_are_refused_by_name() {
    let limit = |route: Route<Bank>| match named(route) {
        BuildError::Limit { limit, .. } => limit,
        other => panic!("{other:?}"),
    };
    assert_eq!(limit(declared().time_limit(Duration::ZERO).handle(charge)), "time_limit");
    assert_eq!(limit(declared().time_limit(2 * SECOND).detached_max(SECOND).handle(charge)), "detached_max");
    assert_eq!(limit(declared().attempts_max(0).handle(charge)), "attempts_max");
    assert_eq!(limit(declared().unresolved_max(0).handle(charge)), "unresolved_max");
    assert_eq!(limit(declared().back_off(Duration::ZERO, SECOND).handle(charge)), "back_off");
    assert_eq!(limit(declared().back_off(2 * SECOND, SECOND).handle(charge)), "back_off");
    assert_eq!(limit(declared().give_up(Duration::ZERO).handle(charge)), "give_up");
    assert_eq!(limit(declared().answer_bytes_max(4097).handle(charge)), "answer_bytes_max");
    assert!(App::new().topic("t", declared().answer_bytes_max(4096).handle(charge)).with_state(Bank).build().is_ok());
}

#[test]
fn a_rerun_needs_a_handler_that_can_pass_the_key_on() {
    let contract = || destination_deduplicates(DAY).then(hold());
    assert!(matches!(named(declared().in_doubt(contract()).handle(nothing)), BuildError::CannotPassKey { .. }));

    struct Keyed(#[allow(dead_code, reason = "kept to be passed on")] Operation);
    impl<S> FromDelivery<S> for Keyed {
        const GIVES_OPERATION: bool = true;

        fn from_delivery(delivery: &Delivery, _: &S) -> Result<Self, Invalid> {
            Ok(Self(delivery.operation().clone()))
        }
    }
    async fn keyed(_: Raw, _: Keyed) -> Result<Applied, Failure> {
        Ok(Applied::without_reference(()))
    }
    assert!(App::new().topic("t", declared().in_doubt(contract()).handle(keyed)).with_state(Bank).build().is_ok());
}

#[test]
fn a_margin_covers_a_living_attempt_and_stays_below_the_memory() {
    let route = |memory: Duration, margin: Duration| {
        let contract = destination_deduplicates(memory).margin(margin).then(hold().after_quiet(5 * SECOND));
        declared().time_limit(SECOND).in_doubt(contract).handle(charge)
    };
    assert!(matches!(named(route(DAY, 14 * SECOND)), BuildError::Margin { least, .. } if least == 15 * SECOND));
    assert!(matches!(named(route(15 * SECOND, 15 * SECOND)), BuildError::Memory { .. }));
    assert!(App::new().topic("t", route(16 * SECOND, 15 * SECOND)).with_state(Bank).build().is_ok());
    let nested = destination_deduplicates(DAY).then(destination_deduplicates(DAY).then(hold()));
    assert!(matches!(named(declared().in_doubt(nested).handle(charge)), BuildError::MemoryTwice { .. }));
}
