//! Fingerprints of any JSON: they never panic, are the same for the same parameters in any form, and differ where anything differs.

use crate::input::{bytes, cases, json, nested, number, value};
use proptest::prelude::*;
use receipted::{
    handler::{Identified, Routes},
    prelude::*,
    protocol::{
        fingerprint::{Error, Fingerprint},
        secret::Derivation,
    },
    testing::record,
};
use serde_json::Value;

async fn nothing() -> Result<Applied, Failure> {
    Ok(Applied::without_reference(()))
}

fn routes(parameters: receipted::handler::Parameters) -> Routes {
    let act = operation("act.v1").tenant(fixed("acme")).id(json_at("/id")).fingerprint(parameters);
    App::new().topic("t", act.handle(nothing)).with_state(()).build().unwrap()
}

fn json_at(pointer: &'static str) -> receipted::handler::Part {
    receipted::handler::json(pointer)
}

/// What a route makes of a value: its fingerprint, or what the error names.
fn of(routes: &Routes, value: &[u8]) -> Result<Fingerprint, String> {
    let record = record().value(value).build_for(routes, "t");
    match routes.identify("t", &record, &Derivation::Unkeyed) {
        Identified::Operation(identity) => Ok(identity.fingerprint),
        Identified::Invalid(invalid) => Err(invalid.to_string()),
        other => panic!("{other:?}"),
    }
}

/// Numbers as RFC 8785 has them, all doubles, but integers as they are: what may be taken for the same.
fn meaning(value: &Value) -> Value {
    match value {
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(whole), _, _) => Value::String(whole.to_string()),
            (None, Some(whole), _) => Value::String(whole.to_string()),
            (_, _, Some(float)) if float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0 => {
                Value::String(format!("{}", float as i64))
            }
            _ => Value::String(format!("float {number}")),
        },
        Value::String(text) => Value::String(format!("text {text}")),
        Value::Array(items) => items.iter().map(meaning).collect(),
        Value::Object(fields) => Value::Object(fields.iter().map(|(name, field)| (name.clone(), meaning(field))).collect()),
        other => other.clone(),
    }
}

proptest! {
    #![proptest_config(cases(4_000))]

    #[test]
    fn any_bytes_have_a_fingerprint_and_keep_it(value in value()) {
        let print = Fingerprint::of_value(&value);
        prop_assert_eq!(print, Fingerprint::of_value(&value));
        let mut other = value.clone();
        other.push(b'x');
        prop_assert!(print.differs(Fingerprint::of_value(&other)), "bytes that are no JSON are compared as they are");
    }

    #[test]
    fn two_values_that_mean_something_else_never_share_a_fingerprint(one in json(), other in json()) {
        let (Ok(a), Ok(b)) = (serde_json::from_str::<Value>(&one), serde_json::from_str::<Value>(&other)) else { return Ok(()) };
        let same = meaning(&a) == meaning(&b);
        if let (Ok(left), Ok(right)) = (Fingerprint::of_fields(&a, &[""]), Fingerprint::of_fields(&b, &[""])) {
            prop_assert_eq!(left == right, same, "{} and {}", one, other);
        }
        if !same {
            prop_assert!(Fingerprint::of_value(one.as_bytes()).differs(Fingerprint::of_value(other.as_bytes())), "{} and {}", one, other);
        }
    }

    #[test]
    fn a_number_is_compared_exactly_or_refused_by_its_place(one in number(), other in number()) {
        let print = |number: &str| of(&routes(json_fields(["/n"])), format!(r#"{{"id":"1","n":{number}}}"#).as_bytes());
        for number in [&one, &other] {
            if let Err(said) = print(number) {
                // Out of a double's range the value is no JSON for anybody; else the number is named by its place.
                let named = said.starts_with("fingerprint (json \"/n\")") || said.starts_with("id (json \"/id\"): not JSON: number out of range");
                prop_assert!(named, "{}", said);
            }
        }
        if let (Ok(left), Ok(right)) = (print(&one), print(&other)) {
            let [a, b] = [&one, &other].map(|number| meaning(&serde_json::from_str(number).expect("it has a fingerprint")));
            prop_assert_eq!(left == right, a == b, "{} and {}", one, other);
        }
    }

    #[test]
    fn of_a_name_that_is_there_twice_the_last_counts(first in json(), last in json()) {
        // Without an exact form the whole value is compared as its bytes.
        let exact = |text: &str| serde_json::from_str::<Value>(text).is_ok_and(|value| Fingerprint::of_fields(&value, &[""]).is_ok());
        if serde_json::from_str::<Value>(&first).is_err() || !exact(&last) {
            return Ok(());
        }
        let twice = format!(r#"{{"id":"1","n":{first},"n":{last}}}"#);
        let once = format!(r#"{{"id":"1","n":{last}}}"#);
        for parameters in [json_fields(["/n"]), json_fields(["/n/a", "/n/0"]), whole_value()] {
            let routes = routes(parameters);
            let [twice, once] = [&twice, &once].map(|text| of(&routes, text.as_bytes()));
            prop_assert_eq!(twice.ok(), once.ok());
        }
    }

    #[test]
    fn values_that_are_no_json_are_compared_as_bytes(one in bytes(), other in bytes()) {
        prop_assume!([&one, &other].into_iter().all(|bytes| serde_json::from_slice::<Value>(bytes).is_err()));
        prop_assert_eq!(Fingerprint::of_value(&one) == Fingerprint::of_value(&other), one == other);
    }
}

/// Deeper than any parser's stack: refused by the field that asks for it, and no obstacle where nobody does.
#[test]
fn ten_thousand_levels_end_as_an_answer() {
    for list in [true, false] {
        let deep = |inmost: &str| nested(10_000, list, inmost);
        let beside = |inmost: &str| [br#"{"id":"1","n":7,"deep":"#.as_slice(), &deep(inmost), b"}"].concat();
        let fields = routes(json_fields(["/n"]));
        assert_eq!(of(&fields, &beside("1")), of(&fields, br#"{"id":"1","n":7}"#), "nobody asked how deep the rest is");
        let whole = routes(whole_value());
        assert!(of(&whole, &beside("1")).is_err(), "the id cannot be read where the whole value has to be");
        let within = of(&routes(json_fields(["/deep"])), &beside("1")).unwrap_err();
        assert!(within.contains("not JSON: recursion limit exceeded"), "{within}");
        // As bytes, where the id comes from elsewhere.
        assert!(Fingerprint::of_value(&deep("1")).differs(Fingerprint::of_value(&deep("2"))));
        assert!(of(&fields, &deep("1")).unwrap_err().starts_with("id (json \"/id\"): "));
    }
}

#[test]
fn what_is_no_utf8_is_named() {
    let fields = routes(json_fields(["/n"]));
    let said = of(&fields, b"{\"id\":\"1\",\"n\":\"\xff\"}").unwrap_err();
    assert!(said.starts_with("id (json \"/id\"): not JSON"), "{said}");
    assert_eq!(Fingerprint::of_fields(&serde_json::json!({ "n": 1e300 }), &["/n"]), Err(Error::Inexact { pointer: "/n".into() }));
}
