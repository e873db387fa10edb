//! Owns the odd things that are fed in: bytes, JSON texts as nobody writes them, records.

use proptest::{prelude::*, sample::select, strategy::Union};
use receipted::protocol::park::Payload;

/// So many cases, or as many times more as `RECEIPTED_FUZZ` says.
pub fn cases(count: u32) -> ProptestConfig {
    let times = std::env::var("RECEIPTED_FUZZ").ok().and_then(|times| times.parse().ok()).unwrap_or(1);
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(count * times) }
}

/// Names that routes ask for, and some that they do not.
pub const NAMES: [&str; 8] = ["a", "b", "tenant", "type", "0", "a/b", "\u{0}integer", "é"];

pub fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        ".{0,40}".prop_map(String::into_bytes),
        "[A-Za-z0-9_.:-]{1,20}".prop_map(String::into_bytes),
        select(vec!["", "\u{0}", "null", "charge", "\u{feff}{}", "\r\n", "acme"]).prop_map(|text| text.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 500..600),
    ]
}

/// Digits of any length, in every form that a number may have.
pub fn number() -> impl Strategy<Value = String> {
    let odd = ["-0", "0.0", "1e400", "-1e400", "1e-400", "9007199254740993", "18446744073709551616", "1E+2", "5e-324", "0e0"];
    prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        any::<u64>().prop_map(|number| number.to_string()),
        any::<f64>().prop_filter("JSON has no other", |float| float.is_finite()).prop_map(|float| format!("{float:e}")),
        "-?[1-9][0-9]{0,400}",
        "-?[1-9][0-9]{0,20}\\.[0-9]{1,400}",
        select(odd.to_vec()).prop_map(String::from),
    ]
}

/// JSON texts with names twice, names that are escaped, numbers of any size, spaces anywhere.
pub fn json() -> impl Strategy<Value = String> {
    let text = prop_oneof!["[a-z]{0,4}".prop_map(|text| format!("{text:?}")), Just("\"\\ud800\"".into()), Just("\"\\u0000\"".into())];
    let leaf = prop_oneof![Just("null".to_string()), Just("true".to_string()), number(), text];
    leaf.prop_recursive(4, 24, 5, |inner| {
        let name = select(NAMES.to_vec()).prop_map(|name| serde_json::to_string(name).expect("a name"));
        let field = (name, inner.clone(), 0..3_usize).prop_map(|(name, value, spaces)| format!("{name}{}:{value}", " ".repeat(spaces)));
        prop_oneof![
            prop::collection::vec(field, 0..5).prop_map(|fields| format!("{{{}}}", fields.join(","))),
            prop::collection::vec(inner, 0..4).prop_map(|items| format!("[{}]", items.join(","))),
        ]
    })
}

/// A value: JSON, JSON that was cut or has another byte, or no JSON at all.
pub fn value() -> impl Strategy<Value = Vec<u8>> {
    let broken = (json(), any::<prop::sample::Index>(), any::<Option<u8>>()).prop_map(|(text, at, byte)| {
        let mut bytes = text.into_bytes();
        let at = at.index(bytes.len());
        match byte {
            Some(byte) => bytes[at] = byte,
            None => bytes.truncate(at),
        }
        bytes
    });
    Union::new_weighted(vec![
        (4, json().prop_map(String::into_bytes).boxed()),
        (2, broken.boxed()),
        (1, bytes().boxed()),
        (1, (1..3_000_usize, any::<bool>()).prop_map(|(levels, list)| nested(levels, list, "1")).boxed()),
    ])
}

/// A value so many levels deep.
pub fn nested(levels: usize, list: bool, inmost: &str) -> Vec<u8> {
    let (open, close) = if list { ("[", "]") } else { ("{\"a\":", "}") };
    format!("{}{inmost}{}", open.repeat(levels), close.repeat(levels)).into_bytes()
}

pub fn headers() -> impl Strategy<Value = Vec<(Vec<u8>, Option<Vec<u8>>)>> {
    let ours = ["x-receipted-reason", "x-receipted-raw-headers", "x-receipted-origin-offset", "x-correlation-id", "traceparent"];
    let name = prop_oneof![
        3 => select(NAMES.to_vec()).prop_map(|name| name.as_bytes().to_vec()),
        1 => select(ours.to_vec()).prop_map(|name| name.as_bytes().to_vec()),
        1 => bytes(),
    ];
    prop::collection::vec((name, prop::option::weighted(0.8, bytes())), 0..6)
}

/// Any record that a topic may hold.
pub fn payload() -> impl Strategy<Value = Payload> {
    (prop::option::of(bytes()), prop::option::weighted(0.9, value()), headers(), any::<Option<i64>>())
        .prop_map(|(key, value, headers, timestamp)| Payload { key, value, headers, timestamp })
}

/// One that looks as a route expects it, but for a part or two.
pub fn plausible() -> impl Strategy<Value = Payload> {
    let word = || prop_oneof![8 => "[a-z0-9]{1,6}".prop_map(|word| format!("{word:?}")), 2 => any::<i64>().prop_map(|id| id.to_string()), 1 => json()];
    let header = prop_oneof![8 => "[a-z0-9]{1,6}".prop_map(String::into_bytes), 1 => bytes()];
    (prop::collection::vec(word(), NAMES.len()), prop::collection::vec(header, NAMES.len()), any::<bool>()).prop_map(
        |(fields, headers, list)| {
            let field = |(name, value)| format!("{}:{value}", serde_json::to_string(name).expect("a name"));
            let value = match list {
                true => format!("[{}]", fields.join(",")),
                false => format!("{{{}}}", NAMES.iter().zip(&fields).map(field).collect::<Vec<_>>().join(",")),
            };
            let headers = NAMES.iter().zip(headers).map(|(name, value)| (name.as_bytes().to_vec(), Some(value))).collect();
            Payload { key: Some(b"k-1".to_vec()), value: Some(value.into_bytes()), headers, timestamp: None }
        },
    )
}
