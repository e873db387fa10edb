//! Any configuration whatever: it is taken as written or refused by name, and never guessed at.

use proptest::prelude::*;
use receipted::config::{Config, DEFAULTS, Error, Origin};
use toml::{Table, Value};

/// Every key of the defaults, and some that are none.
fn keys() -> Vec<(String, String, Value)> {
    let defaults: Table = DEFAULTS.parse().unwrap();
    let mut keys = Vec::new();
    for (section, table) in &defaults {
        for (key, value) in table.as_table().unwrap().iter().filter(|(_, value)| !value.is_table()) {
            keys.push((section.clone(), key.clone(), value.clone()));
        }
    }
    for (section, key) in [("runner", "permitz"), ("kafka", "topic"), ("telemetry", "port"), ("stoer", "directory")] {
        keys.push((section.into(), key.into(), Value::Boolean(true)));
    }
    keys
}

/// Values near and far from what a key takes.
fn value() -> impl Strategy<Value = Value> {
    let durations = prop::sample::select(vec!["1ms", "250ms", "3s", "10s", "30s", "45s", "2m", "5m", "1h", "24h", "25h", "0s", "1"]);
    let words = prop::sample::select(vec![
        "",
        "local",
        "any",
        "earliest",
        "latest",
        "text",
        "json",
        "off",
        "info",
        "0.0.0.0:1",
        "b:9092",
        "a:1,b:2",
        "\u{7}",
        "é",
        "2026-03-01T00:00:00Z",
    ]);
    prop_oneof![
        4 => (0_i64..10_000).prop_map(Value::Integer),
        2 => any::<i64>().prop_map(Value::Integer),
        4 => durations.prop_map(|text| Value::String(text.into())),
        4 => words.prop_map(|text| Value::String(text.into())),
        1 => ".{0,300}".prop_map(Value::String),
        2 => any::<bool>().prop_map(Value::Boolean),
        1 => any::<f64>().prop_filter("TOML has no other", |f| f.is_finite()).prop_map(Value::Float),
        1 => Just(Value::Array(vec![Value::Integer(1)])),
    ]
}

/// A default, or a small change of it, so that many configurations are whole.
fn setting() -> impl Strategy<Value = (String, String, Value)> {
    let as_is = prop::sample::select(keys());
    prop_oneof![
        6 => as_is,
        5 => (prop::sample::select(keys()), 0_i64..200).prop_map(|((section, key, value), less)| match value {
            Value::Integer(number) => (section, key, Value::Integer((number - less).max(0))),
            other => (section, key, other),
        }),
        1 => (prop::sample::select(keys()), value()).prop_map(|((section, key, _), value)| (section, key, value)),
    ]
}

fn text(settings: &[(String, String, Value)]) -> (String, Table) {
    let mut table: Table = super::MINIMAL.parse().unwrap();
    for (section, key, value) in settings {
        let section = table.entry(section.as_str()).or_insert_with(|| Value::Table(Table::new()));
        section.as_table_mut().unwrap().insert(key.clone(), value.clone());
    }
    (table.to_string(), table)
}

/// The key that a refusal names, and the origin that it gives.
fn named(error: &Error) -> (String, Option<Origin>) {
    match error {
        Error::UnknownKey { key, origin, .. } | Error::WrongType { key, origin, .. } | Error::Invalid { key, origin, .. } => {
            (key.clone(), Some(origin.clone()))
        }
        Error::Missing { key, .. } => ((*key).to_string(), None),
        other => panic!("a text of known shape is refused as {other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_configuration_is_taken_as_written_or_refused_by_name(settings in prop::collection::vec(setting(), 0..6)) {
        let (text, table) = text(&settings);
        match Config::from_text(&text) {
            Ok(config) => {
                // No silent default: what was written is what is shown, from where it was written.
                let printed = format!("{config:?}");
                prop_assert!(printed.contains("permits"));
                for (section, keys) in &table {
                    for (key, value) in keys.as_table().unwrap().iter().filter(|_| section != "app") {
                        let name = format!("{section}.{key}");
                        let shown = config.shown().iter().find(|shown| shown.key == name).unwrap();
                        prop_assert_eq!(&shown.origin, &Origin::Text);
                        let follows = value.as_str() == Some("") || value.as_integer() == Some(0);
                        let same = format!("v = {}", shown.value).parse::<Table>().is_ok_and(|parsed| parsed["v"] == *value);
                        prop_assert!(follows || same, "{} is {} and was {}", name, shown.value, value);
                    }
                }
            }
            Err(error) => {
                let (key, origin) = named(&error);
                let said = error.to_string();
                prop_assert!(said.starts_with(&key), "{}", said);
                // It names a key that was written, or one whose default does not go with one that was.
                let written = |name: &str| table.iter().any(|(section, keys)| {
                    name == section || keys.as_table().unwrap().keys().any(|key| name == format!("{section}.{key}"))
                });
                let other = table.iter().flat_map(|(section, keys)| {
                    keys.as_table().unwrap().keys().map(move |key| format!("{section}.{key}"))
                }).any(|other| other != key && said.contains(&other));
                let follows = key == "dead_letter.topic" || said.contains("runner.tenant_permits_max");
                prop_assert!(written(&key) || other || follows, "{}", said);
                prop_assert!(origin.is_none_or(|origin| origin == Origin::Text || other || follows), "{}", said);
            }
        }
    }
}

/// The property above rests on both halves being reached.
#[test]
fn some_random_configurations_are_taken_and_some_are_refused() {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};
    let mut runner = TestRunner::deterministic();
    let taken = (0..1000).filter(|_| {
        let settings = prop::collection::vec(setting(), 0..6).new_tree(&mut runner).unwrap().current();
        Config::from_text(&text(&settings).0).is_ok()
    });
    let taken = taken.count();
    assert!((100..900).contains(&taken), "{taken} of 1000 are taken");
}
