//! One business act has one key, however its record comes; and no two acts share one.

use crate::bank::*;
use proptest::prelude::*;
use receipted::{
    handler::{AttemptInfo, Identified, Record},
    prelude::*,
    protocol::{fingerprint::Fingerprint, key::OperationKey},
    testing::record as bare,
};
use std::collections::BTreeSet;

#[test]
fn c63_same_business_fields_under_other_transport_ids_are_one_operation() {
    let routes = routes(declared().handle(charge), Bank);
    let first = identity(&routes, record("c7", "ada", 7).header("message-id", "m-1").key("k1"));
    let second = identity(&routes, record("c7", "ada", 7).header("message-id", "m-2").key("k2").header("retry", "1"));
    assert_eq!((first.digest, first.fingerprint), (second.digest, second.fingerprint));
    assert_eq!(first.into_key(), second.into_key());
}

#[test]
fn composite_ids_never_join_ambiguously() {
    let routes = routes(
        operation("ship.v1").tenant(fixed("acme")).id([json("/order"), json("/line")]).fingerprint(unchecked("a test")).handle(nothing),
        (),
    );
    let key = |order: &str, line: &str| identity(&routes, bare().value(format!(r#"{{"order":"{order}","line":"{line}"}}"#))).digest;
    let pairs = [("ab", "c"), ("a", "bc"), ("a.b", "c"), ("a", "b.c"), ("a:b", "c"), ("a", "b:c"), ("c", "ab"), ("bc", "a")];
    let digests: BTreeSet<_> = pairs.iter().map(|(order, line)| key(order, line)).collect();
    assert_eq!(digests.len(), pairs.len());
}

#[test]
fn an_integer_and_its_text_are_the_same_id() {
    let routes = routes(declared().handle(charge), Bank);
    let number = bare().header("tenant", "acme").value(r#"{"charge_id":18446744073709551615}"#);
    let text = bare().header("tenant", "acme").value(r#"{"charge_id":"18446744073709551615"}"#);
    assert_eq!(identity(&routes, number).digest, identity(&routes, text).digest);
}

#[test]
fn key_parts_come_from_every_source() {
    fn lower(record: &Record) -> Result<String, BoxError> {
        Ok(record.json("/charge_id")?.to_lowercase())
    }
    let routes = routes(
        operation("ship.v1")
            .tenant(|record: &Record| Ok(record.header("tenant")?.to_uppercase()))
            .id([record_key(), fixed("x"), header("type"), json("/cents"), lower.into_part()])
            .fingerprint(whole_value())
            .handle(nothing),
        (),
    );
    let key = identity(&routes, record("C7", "ada", 7).key("k1")).into_key();
    assert_eq!((key.tenant(), key.operation()), ("ACME", "ship.v1"));
    assert_eq!(key.id(), ["k1", "x", "charge", "7", "c7"]);
}

#[test]
fn the_last_of_several_headers_counts() {
    let routes = routes(declared().handle(charge), Bank);
    assert_eq!(identity(&routes, record("c7", "ada", 7).header("tenant", "beta")).into_key().tenant(), "beta");
}

#[test]
fn a_wider_alphabet_is_the_routes_word() {
    let id = r#"{"charge_id":"Straße 7/b"}"#;
    let narrow = routes(declared().handle(charge), Bank);
    let wide = routes(declared().alphabet(Alphabet::Printable).handle(charge), Bank);
    assert!(invalid(&narrow, record("c", "a", 1).value(id)).reason().contains("'ß'"));
    assert_eq!(identity(&wide, record("c", "a", 1).value(id)).into_key().id(), ["Straße 7/b"]);
}

/// Those of ASCII, the one after them, and those that Latin-1 added: none of them is seen where a key is shown.
#[test]
fn no_alphabet_has_control_characters() {
    for alphabet in [Alphabet::Token, Alphabet::Printable] {
        let routes = routes(declared().alphabet(alphabet).handle(charge), Bank);
        for code in (0..0x20).chain(0x7f..0xa0) {
            let id = format!(r#"{{"charge_id":"a\u{code:04x}"}}"#);
            let refused = invalid(&routes, record("c", "a", 1).value(id));
            assert!(refused.reason().contains("at byte 1"), "{alphabet:?} {code:#x}: {}", refused.reason());
        }
    }
}

#[test]
fn older_names_give_the_keys_that_they_had() {
    let old = routes(declared().handle(charge), Bank);
    let new = operation("charge.v3").tenant(header("tenant")).id(json("/charge_id")).fingerprint(whole_value());
    let new = routes(new.formerly("charge.v2").formerly("charge.v1").handle(charge), Bank);
    let found = identity(&new, record("c7", "ada", 7)).into_keys().expect("sound names");
    let names: Vec<_> = found[1..].iter().map(|(digest, key)| (key.operation(), *digest == key.digest())).collect();
    assert_eq!(names, [("charge.v2", true), ("charge.v1", true)]);
    assert_eq!(found[2].0, identity(&old, record("c7", "ada", 7)).digest);
    assert_ne!(found[0].0, found[1].0);
}

#[test]
fn the_fingerprint_sees_the_named_fields_and_no_others() {
    let routes = routes(declared().handle(charge), Bank);
    let print = |value: &str| identity(&routes, record("c", "a", 1).value(value)).fingerprint;
    let base = print(r#"{"charge_id":"c7","account":"ada","cents":7}"#);
    assert_eq!(base, print(r#"{"cents":7, "account":"ada","note":"other","charge_id":"c7"}"#));
    for other in [r#""account":"ada","cents":8"#, r#""account":"bob","cents":7"#, r#""account":"ada""#, r#""account":"ada","cents":null"#] {
        assert!(base.differs(print(&format!(r#"{{"charge_id":"c7",{other}}}"#))), "{other}");
    }
    assert!(print(r#"{"charge_id":"c7"}"#).differs(print(r#"{"charge_id":"c7","cents":null}"#)));
}

#[test]
fn a_whole_value_is_compared_in_any_form_and_unchecked_never() {
    let key = || operation("c.v1").tenant(fixed("a")).id(fixed("b"));
    let whole = routes(key().fingerprint(whole_value()).handle(nothing), ());
    let print = |value: &[u8]| identity(&whole, bare().value(value)).fingerprint;
    assert_eq!(print(br#"{"a":1,"b":2}"#), print(br#"{ "b":2, "a":1 }"#));
    assert!(print(br#"{"a":1}"#).differs(print(br#"{"a":2}"#)));
    assert!(print(&[0, 159, 1]).differs(print(&[0, 159, 2])), "bytes that are no JSON");
    let free = routes(key().fingerprint(unchecked("nothing to compare")).handle(nothing), ());
    assert_eq!(identity(&free, bare().value("{}")).fingerprint, Fingerprint::Unchecked);
}

#[test]
fn the_provider_key_is_one_over_attempts_and_changes_with_its_generation_only() {
    let routes = routes(declared().handle(charge), Bank);
    let about = |number, token, key_generation| {
        let info = AttemptInfo { number, token, key_generation, ..AttemptInfo::default() };
        delivery(&routes, record("c7", "ada", 7), info).operation().clone()
    };
    let (first, later, fresh) = (about(1, 1, 0), about(4, 77, 0), about(4, 77, 1));
    assert_eq!((first.provider_key(), first.provider_uuid()), (later.provider_key(), later.provider_uuid()));
    assert!(first.provider_key() != fresh.provider_key() && first.provider_uuid() != fresh.provider_uuid());
    assert!(first.provider_key().len() <= 64);
    assert_eq!((later.attempt(), later.fencing_token()), (4, 77));
}

#[test]
fn an_operation_prints_its_digest_and_never_its_key() {
    let routes = routes(declared().handle(charge), Bank);
    let delivery = delivery(&routes, record("c7-secret", "ada", 7), AttemptInfo::default());
    let identity = identity(&routes, record("c7-secret", "ada", 7));
    for printed in [format!("{:?}", delivery.operation()), format!("{delivery:?} {:?}", delivery.record()), format!("{identity:?}")] {
        assert!(!printed.contains("secret") && !printed.contains("acme"), "{printed}");
    }
    assert!(format!("{:?}", delivery.operation()).contains(&identity.digest.to_string()));
}

#[test]
fn the_correlation_id_is_the_header_else_the_trace_id_else_none() {
    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    let traceparent = format!("00-{TRACE}-00f067aa0ba902b7-01");
    let routes = routes(declared().handle(charge), Bank);
    let found = |record| identity(&routes, record).correlation();
    let base = || record("c7", "ada", 7);
    assert_eq!(found(base()), None);
    assert_eq!(found(base().header("traceparent", traceparent.clone())).as_deref(), Some(TRACE));
    assert_eq!(found(base().header("traceparent", traceparent.clone()).header("x-correlation-id", "r-1")).as_deref(), Some("r-1"));
    for unusable in [b"".as_slice(), b"  ", b"a\nb", &[0xff, 0xfe]] {
        let record = base().header("x-correlation-id", unusable).header("traceparent", traceparent.clone());
        assert_eq!(found(record).as_deref(), Some(TRACE));
    }
    let zeros = format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32));
    for broken in ["", "00", "00-4bf9-00f067aa0ba902b7-01", "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", &zeros] {
        assert_eq!(found(base().header("traceparent", broken)), None, "{broken}");
    }
    assert_eq!(found(base().header("x-correlation-id", "x".repeat(1000))).map(|id| id.len()), Some(128));
}

#[test]
fn the_correlation_id_may_come_from_elsewhere_and_never_makes_a_record_invalid() {
    let routes = routes(declared().correlation(json("/trace/id")).handle(charge), Bank);
    let found = |value: &str| identity(&routes, record("c", "a", 1).value(value)).correlation();
    assert_eq!(found(r#"{"charge_id":"c7","trace":{"id":"t-1"}}"#).as_deref(), Some("t-1"));
    assert_eq!(found(r#"{"charge_id":"c7","trace":{"id":1.5}}"#), None);
    assert_eq!(found(r#"{"charge_id":"c7"}"#), None);
}

/// JSON texts whose names and places are often those that the test asks for, some of them twice in one object.
fn nested() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        Just("null".to_string()),
        Just("true".to_string()),
        any::<i64>().prop_map(|number| number.to_string()),
        Just("1.5".to_string()),
        "[a-c]{1,3}".prop_map(|text| format!("{text:?}")),
        Just("\"\\u0061\"".to_string()),
    ];
    scalar.prop_recursive(4, 32, 4, |inner| {
        let name = prop_oneof![Just("a"), Just("b"), Just("c"), Just("a/b"), Just("01"), Just("0"), Just("\\u0061")];
        let field = (name, inner.clone()).prop_map(|(name, value)| format!("\"{name}\": {value}"));
        prop_oneof![
            prop::collection::vec(field, 0..5).prop_map(|fields| format!("{{{}}}", fields.join(", "))),
            prop::collection::vec(inner, 0..4).prop_map(|items| format!("[{}]", items.join(","))),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// G8: a record's key is exactly its (tenant, operation, id), whatever the parts hold.
    #[test]
    fn g8_a_key_is_its_triple_and_nothing_else(
        a in ["[a-c.:]{1,3}", "[a-c.:]{1,3}", "[a-c.:]{1,3}"], b in ["[a-c.:]{1,3}", "[a-c.:]{1,3}", "[a-c.:]{1,3}"], other in any::<bool>(),
    ) {
        let keys = |name: &'static str| {
            let id = [json("/order"), json("/line")];
            routes(operation(name).tenant(header("tenant")).id(id).fingerprint(unchecked("a test")).handle(nothing), ())
        };
        let (one, two) = (keys("ship.v1"), keys(if other { "ship.v2" } else { "ship.v1" }));
        let of = |routes, [tenant, order, line]: &[String; 3]| {
            let value = serde_json::json!({ "order": order, "line": line });
            let found = identity(routes, bare().header("tenant", tenant.as_str()).json(&value));
            (found.digest, found.into_key())
        };
        let (first, second) = (of(&one, &a), of(&two, &b));
        let same = a == b && !other;
        prop_assert_eq!(first.1 == second.1, same);
        prop_assert_eq!(first.0 == second.0, same);
        let direct = OperationKey::new(&a[0], "ship.v1", &a[1..], Alphabet::Token).expect("a key");
        prop_assert_eq!(first.0, direct.digest());
    }

    /// Reading only the fields that name a record finds in any text what reading all of it finds.
    #[test]
    fn an_identity_is_the_same_whether_the_whole_value_is_read_or_its_fields_alone(
        text in prop_oneof![
            3 => nested(),
            1 => (nested(), any::<prop::sample::Index>()).prop_map(|(text, at)| text.chars().take(at.index(text.len().max(1))).collect()),
        ],
    ) {
        let id = [json("/a"), json("/b/a"), json("/b/0"), json("/a~1b/01"), json("")];
        for id in id.into_iter().map(|id| [id, json("/b")]) {
            let declared = || operation("ship.v1").tenant(fixed("acme")).id(id.clone());
            let alone = routes(declared().fingerprint(json_fields(["/b", "/a/b", "/c/1/a", "/b/1"])).handle(nothing), ());
            // A function may look at anything, so that the whole value is read.
            let reads_all = |record: &Record| Ok(record.json("/a").map(drop).map_or_else(|_| "none".into(), |()| "some".into()));
            let whole = operation("ship.v1").tenant(fixed("acme")).id(id.clone());
            let whole = whole.fingerprint(json_fields(["/b", "/a/b", "/c/1/a", "/b/1"])).correlation(reads_all).handle(nothing);
            let whole = routes(whole, ());
            let said = |routes| match identified(routes, bare().value(text.as_str())) {
                Identified::Operation(found) => format!("{:?} {:?}", found.digest, found.fingerprint),
                // How far a parser says that it came is its own.
                other => format!("{other:?}").split_inclusive("not JSON").next().map(String::from).unwrap_or_default(),
            };
            prop_assert_eq!(said(&alone), said(&whole), "{}", text);
        }
    }
}
