//! What is wrong with a record is named: the part, where it should come from, and why. Nothing in a record panics.

use crate::bank::*;
use proptest::prelude::{ProptestConfig, any, prop_assert, proptest};
use receipted::{
    handler::Identified,
    prelude::*,
    protocol::secret::Derivation,
    testing::{Delivered, record as bare},
};

fn said(routes: &receipted::handler::Routes, record: receipted::testing::RecordBuilder) -> String {
    invalid(routes, record).to_string()
}

#[test]
fn the_error_names_part_source_and_reason() {
    let routes = routes(declared().handle(charge), Bank);
    let with = |value: &str| said(&routes, bare().header("tenant", "acme").value(value));
    assert_eq!(said(&routes, bare().value("{}")), r#"tenant (header "tenant"): the record has no such header"#);
    assert_eq!(said(&routes, bare().null_header("tenant").value("{}")), r#"tenant (header "tenant"): it is null"#);
    assert_eq!(said(&routes, bare().header("tenant", [0xff]).value("{}")), r#"tenant (header "tenant"): it is not UTF-8"#);
    assert_eq!(said(&routes, bare().header("tenant", "").value(r#"{"charge_id":"c"}"#)), r#"tenant (header "tenant"): is empty"#);
    assert_eq!(with("{}"), r#"id (json "/charge_id"): the value has no such field"#);
    assert_eq!(with(r#"{"charge_id":null}"#), r#"id (json "/charge_id"): it is null"#);
    assert_eq!(with(r#"{"charge_id":[1]}"#), r#"id (json "/charge_id"): it is neither a string nor an integer"#);
    assert!(with("{").starts_with(r#"id (json "/charge_id"): not JSON: "#));
    assert!(with(r#"{"charge_id":"a b"}"#).starts_with(r#"id (json "/charge_id"): has the character ' ' at byte 1"#));
    assert!(with(&format!(r#"{{"charge_id":"{}"}}"#, "x".repeat(129))).starts_with(r#"id (json "/charge_id"): has 129 bytes"#));
}

#[test]
fn a_part_of_a_composite_id_is_named_by_its_place() {
    let id = [json("/order"), json("/line")];
    let routes = routes(operation("ship.v1").tenant(fixed("acme")).id(id).fingerprint(whole_value()).handle(nothing), ());
    let fault = invalid(&routes, bare().value(r#"{"order":"o1"}"#));
    assert_eq!((fault.part(), fault.reason()), (Some(r#"id[1] (json "/line")"#), "the value has no such field"));
    let fault = invalid(&routes, bare().value(r#"{"order":"o1","line":""}"#));
    assert_eq!((fault.part(), fault.reason()), (Some(r#"id[1] (json "/line")"#), "is empty"));
}

#[test]
fn floats_are_refused_as_key_parts_and_integers_are_not() {
    let routes = routes(declared().handle(charge), Bank);
    for float in ["1.5", "1.0", "1e3", "-0", "18446744073709551616", "1e400"] {
        let record = bare().header("tenant", "acme").value(format!(r#"{{"charge_id":{float}}}"#));
        assert!(said(&routes, record).starts_with(r#"id (json "/charge_id"): "#), "{float}");
    }
    for integer in ["0", "-5", "9223372036854775808"] {
        let record = bare().header("tenant", "acme").value(format!(r#"{{"charge_id":{integer}}}"#));
        assert_eq!(identity(&routes, record).into_key().id(), [integer]);
    }
}

#[test]
fn a_fingerprint_that_cannot_be_exact_names_its_field() {
    let routes = routes(declared().handle(charge), Bank);
    let fault = invalid(&routes, record("c", "a", 1).value(r#"{"charge_id":"c","account":"a","cents":1e300}"#));
    assert_eq!(fault.part(), Some(r#"fingerprint (json "/cents")"#));
}

#[test]
fn an_error_of_a_teams_own_function_is_named_with_its_part() {
    let own = |_: &Record| Err("no such customer".into());
    let routes = routes(operation("c.v1").tenant(fixed("a")).id(own).fingerprint(whole_value()).handle(nothing), ());
    assert_eq!(said(&routes, bare().value("{}")), "id (function): no such customer");
}

#[test]
fn a_record_without_its_type_is_invalid_and_one_of_another_type_is_not() {
    let routes = routes(by(header("type")).on("charge", declared().handle(charge)).otherwise(skip()), Bank);
    assert_eq!(said(&routes, bare().value("{}")), r#"by (header "type"): the record has no such header"#);
    assert!(matches!(identified(&routes, bare().header("type", "other").value("{}")), Identified::Skip));
}

#[test]
fn a_tombstone_is_skipped_whatever_else_it_lacks() {
    let routes = routes(declared().handle(charge), Bank);
    assert!(matches!(identified(&routes, bare()), Identified::Skip));
    assert_eq!(became(&routes, bare().key("k")), Delivered::Skipped);
}

#[test]
fn an_argument_that_does_not_decode_names_the_value() {
    let routes = routes(declared().handle(charge), Bank);
    match became(&routes, record("c7", "ada", 7).value(r#"{"charge_id":"c7","account":"ada"}"#)) {
        Delivered::DeadLettered(reason) => assert!(reason.starts_with("value: missing field `cents`"), "{reason}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_topic_without_route_is_named() {
    let routes = routes(declared().handle(charge), Bank);
    match routes.identify("elsewhere", &record("c", "a", 1).build(), &Derivation::Unkeyed) {
        Identified::Invalid(fault) => assert_eq!(fault.to_string(), "topic: the app has no route for it"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn texts_of_invalid_are_capped() {
    let fault = Invalid::of("x".repeat(5000), "y".repeat(5000));
    assert!(fault.to_string().len() < 1100);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_bytes_in_a_record_make_identification_panic(
        value in any::<Vec<u8>>(), key in any::<Option<Vec<u8>>>(), name in any::<Vec<u8>>(), text in any::<Option<Vec<u8>>>(), json in any::<bool>(),
    ) {
        let routes = routes(
            by(header("type")).on("charge", declared().correlation(record_key()).handle(charge)).otherwise(dead_letter()),
            Bank,
        );
        let value = if json { format!(r#"{{"charge_id":"{}"}}"#, String::from_utf8_lossy(&value)).into_bytes() } else { value };
        let mut record = bare().value(value).header(name, text.clone().unwrap_or_default()).header("tenant", "t").header("type", "charge");
        if let Some(key) = key {
            record = record.key(key);
        }
        if text.is_none() {
            record = record.null_header("tenant");
        }
        let ended = matches!(became(&routes, record), Delivered::Ran(_) | Delivered::DeadLettered(_));
        prop_assert!(ended);
    }
}
