//! The short way to the canonical form writes the library's bytes, or leaves them to the library.

#![allow(clippy::expect_used, reason = "a test that cannot set its scene has failed")]

use proptest::{
    collection::{btree_map, vec},
    prelude::{Just, ProptestConfig, Strategy, any, prop_assert_eq, prop_oneof, proptest},
};
use receipted::protocol::fingerprint::Fingerprint;
use serde_json::{Value, json};

/// What the library and a digest of its bytes give.
fn by_library(value: &Value) -> Fingerprint {
    let bytes = serde_json_canonicalizer::to_vec(value).expect("a canonical form");
    let mut hasher = blake3::Hasher::new_derive_key("receipted 2026 fingerprint json v1");
    hasher.update(&bytes);
    let mut half = [0; 16];
    half.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    Fingerprint::Digest(half)
}

/// JSON without integers beyond 2^53 and names that begin with a zero byte, which have a form of our own.
fn value() -> impl Strategy<Value = Value> {
    let number = prop_oneof![
        (-(1_i64 << 53)..=1 << 53).prop_map(Value::from),
        (-1000_i64..1000).prop_map(Value::from),
        (-1e9..1e9).prop_map(|float: f64| Value::from(float)),
        (-1000_i32..1000).prop_map(|whole| Value::from(f64::from(whole))),
        any::<f64>().prop_filter("a number that has the form", |float| float.abs() < 9_007_199_254_740_992.0).prop_map(Value::from),
    ];
    let text = prop_oneof![any::<String>(), "[ -~\\n\\t\"\\\\/\u{7f}\u{1}]{0,8}"];
    let leaf = prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), number, text.clone().prop_map(Value::from)];
    leaf.prop_recursive(4, 32, 6, move |inner| {
        let text = text.clone().prop_filter("a name with a form of our own", |name| !name.starts_with('\0'));
        let name = prop_oneof!["[a-zA-Z_/\"\\\\]{0,6}", text];
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            btree_map(name, inner, 0..6).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_whole_value_has_the_librarys_digest(value in value()) {
        let bytes = value.to_string();
        let parsed: Value = serde_json::from_str(&bytes).expect("JSON");
        prop_assert_eq!(Fingerprint::of_value(bytes.as_bytes()), by_library(&json!({ "value": parsed })));
    }

    #[test]
    fn fields_have_the_librarys_digest_in_any_order(a in value(), b in value()) {
        let value = json!({ "a": a, "b": b, "c": 1 });
        let expected = by_library(&json!({ "fields": { "/a": value["a"], "/b": value["b"] } }));
        for pointers in [["/a", "/b"], ["/b", "/a"]] {
            prop_assert_eq!(Fingerprint::of_fields(&value, &pointers).expect("exact"), expected);
        }
    }
}

/// Where a float's usual spelling is not the form's.
#[test]
fn whole_and_tiny_floats_have_the_librarys_digest() {
    for text in ["1.0", "-0.0", "1e2", "9e15", "1e-7", "5e-324", "0.1"] {
        let value: Value = serde_json::from_str(text).expect("JSON");
        assert_eq!(Fingerprint::of_value(text.as_bytes()), by_library(&json!({ "value": value })), "{text}");
    }
    assert_eq!(Fingerprint::of_value(b"1.0"), Fingerprint::of_value(b"1"), "one number");
}

#[test]
fn names_beyond_ascii_keep_the_order_of_utf_16() {
    let value = json!({ "\u{e000}": 1, "\u{10000}": 2 });
    assert_eq!(Fingerprint::of_value(value.to_string().as_bytes()), by_library(&json!({ "value": value })));
}

#[test]
fn large_integers_are_told_apart_from_their_neighbours() {
    let print = |number: u64| Fingerprint::of_fields(&json!({ "a": number }), &["/a"]).expect("exact");
    for number in [1 << 53, (1 << 53) + 1, u64::MAX - 1] {
        assert!(print(number).differs(print(number + 1)), "{number}");
    }
}

/// A large integer has a form of its own, and no record can write that form.
#[test]
fn a_large_integer_is_not_an_object_that_looks_like_its_form() {
    let print = |value: Value| Fingerprint::of_fields(&value, &["/a"]).expect("exact");
    let number = (1_u64 << 53) + 1;
    let form = |name: &str| json!({ "a": { name: number.to_string() } });
    assert!(print(json!({ "a": number })).differs(print(form("\0integer"))));
    assert!(print(form("\0integer")).differs(print(form("\0\0integer"))));
    let whole = |value: Value| Fingerprint::of_value(value.to_string().as_bytes());
    assert!(whole(json!({ "a": number })).differs(whole(form("\0integer"))));
}
