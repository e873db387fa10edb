//! Any record, and any way to make a key of it: a key that is its parts and nothing else, or an error that names the part.

use crate::input::{NAMES, cases, payload, plausible};
use proptest::{prelude::*, sample::select};
use receipted::{
    handler::{BuildError, Identified, Parameters, Part, Routes},
    prelude::*,
    protocol::{key::OperationKey, park::Payload, secret::Derivation},
};
use std::{fmt, sync::Arc};

async fn nothing() -> Result<Applied, Failure> {
    Ok(Applied::without_reference(()))
}

/// A way to make a key that somebody might declare.
#[derive(Debug, Clone)]
struct Declared {
    tenant: Part,
    id: Vec<Part>,
    by: Option<Part>,
    parameters: Parameters,
    alphabet: Alphabet,
    correlation: Option<Part>,
}

struct Any(Vec<Part>);

impl receipted::handler::IntoId for Any {
    fn into_id(self) -> Vec<Part> {
        self.0
    }
}

fn pointer() -> impl Strategy<Value = String> {
    let known =
        ["", "/a", "/b", "/tenant", "/type", "/a/0", "/0", "/a~1b", "/a/a/a", "/\u{0}integer", "/é", "/01", "/-", "no slash", "/~2"];
    prop_oneof![6 => select(known.to_vec()).prop_map(String::from), 1 => "(/[ab0~]{0,3}){0,4}", 1 => ".{0,6}"]
}

fn part() -> impl Strategy<Value = Part> {
    let name = select(NAMES.to_vec()).prop_map(String::from);
    prop_oneof![
        2 => prop_oneof![Just("acme".to_string()), ".{0,8}", Just("x".repeat(129))].prop_map(fixed),
        4 => name.prop_map(header),
        6 => pointer().prop_map(json),
        1 => Just(record_key()),
        1 => Just((|record: &Record| Ok(record.json("/a")?.into_owned())).into_part()),
        1 => Just((|_: &Record| -> Result<String, BoxError> { Err("it is \u{7} no use".into()) }).into_part()),
        1 => Just((|record: &Record| Ok(record.headers().map(|(name, _)| String::from_utf8(name.into()).expect("UTF-8")).collect())).into_part()),
    ]
}

fn declared() -> impl Strategy<Value = Declared> {
    let parameters = select(vec![
        json_fields(["/a", "/b"]),
        json_fields([""]),
        json_fields(["/a/0", "/\u{0}integer"]),
        whole_value(),
        unchecked("a test"),
    ]);
    let alphabet = select(vec![Alphabet::Token, Alphabet::Printable]);
    let optional = || prop::option::weighted(0.3, part());
    let id = prop::collection::vec(part(), 1..4);
    (part(), id, optional(), parameters, alphabet, optional()).prop_map(|(tenant, id, by, parameters, alphabet, correlation)| Declared {
        tenant,
        id,
        by,
        parameters,
        alphabet,
        correlation,
    })
}

impl Declared {
    fn routes(self) -> Result<Routes, BuildError> {
        let declared = operation("act.v1").tenant(self.tenant).id(Any(self.id)).fingerprint(self.parameters).alphabet(self.alphabet);
        let declared = match self.correlation {
            Some(part) => declared.correlation(part),
            None => declared,
        };
        let route = match self.by {
            Some(part) => by(part).on("charge", declared.handle(nothing)).on("acme", skip()).otherwise(dead_letter()),
            None => declared.handle(nothing),
        };
        App::new().topic("t", route).with_state(()).build()
    }
}

fn any_record() -> impl Strategy<Value = Payload> {
    prop_oneof![payload(), plausible()]
}

fn shown(text: impl fmt::Display) -> String {
    text.to_string()
}

proptest! {
    #![proptest_config(cases(3_000))]

    #[test]
    fn any_record_has_a_key_that_is_its_parts_or_an_error_that_names_one(declared in declared(), payload in any_record()) {
        let (alphabet, parts) = (declared.alphabet, declared.id.len());
        let routes = match declared.clone().routes() {
            Ok(routes) => routes,
            Err(refused) => {
                prop_assert!(!shown(&refused).is_empty());
                return Ok(());
            }
        };
        let payload = Arc::new(payload);
        let record = routes.record("t", payload.clone());
        match routes.identify("t", &record, &Derivation::Unkeyed) {
            Identified::Skip => prop_assert!(payload.value.is_none() || declared.by.is_some()),
            Identified::DeadLetter(reason) => prop_assert!(declared.by.is_some() && reason.len() < 2_000),
            Identified::Invalid(invalid) => {
                let named = invalid.part().unwrap_or_default().to_string();
                let known = ["tenant (", "id (", "id[", "fingerprint (", "by ("];
                prop_assert!(known.iter().any(|part| named.starts_with(part)), "{}", invalid);
                prop_assert!(!invalid.reason().is_empty() && shown(&invalid).len() <= 1_026, "{}", invalid);
            }
            Identified::Operation(identity) => {
                let (digest, print) = (identity.digest, identity.fingerprint);
                prop_assert!(identity.correlation().is_none_or(|id| id.len() <= 128 && !id.chars().any(char::is_control)));
                let key = identity.into_key();
                prop_assert_eq!(key.id().len(), parts);
                let again = OperationKey::new(key.tenant(), key.operation(), key.id(), alphabet);
                prop_assert_eq!(again.map(|again| again.digest()), Ok(digest));
                // A delivery more, read in one piece, is the same operation.
                let whole = Record::new(payload);
                match routes.identify("t", &whole, &Derivation::Unkeyed) {
                    Identified::Operation(other) => prop_assert_eq!((other.digest, other.fingerprint), (digest, print)),
                    // A field that no part of the key is made of may be no JSON that can be built.
                    Identified::Invalid(other) => prop_assert!(shown(&other).contains("not JSON"), "{}", other),
                    other => prop_assert!(false, "{:?}", other),
                }
            }
        }
    }
}

/// The property above rests on each end being reached.
#[test]
fn some_of_these_records_have_a_key_and_some_have_none() {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};
    let mut runner = TestRunner::deterministic();
    let mut ends = [0; 3];
    for _ in 0..2_000 {
        let (declared, payload) = (declared(), any_record()).new_tree(&mut runner).unwrap().current();
        let Ok(routes) = declared.routes() else { continue };
        let record = routes.record("t", Arc::new(payload));
        let end = match routes.identify("t", &record, &Derivation::Unkeyed) {
            Identified::Operation(_) => 0,
            Identified::Invalid(_) => 1,
            Identified::Skip | Identified::DeadLetter(_) => 2,
        };
        ends[end] += 1;
    }
    assert!(ends.iter().all(|count| *count > 60), "{ends:?}");
}
