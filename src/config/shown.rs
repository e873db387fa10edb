//! Owns how settings are shown: every key, its value, where it came from, and no secret.

use super::{Origin, kafka, layers::Layers};
use toml::{Table, Value};

/// What stands in the place of a value that is not shown.
const HIDDEN: &str = "(hidden)";

/// One key as `check-config` prints it.
///
/// ```
/// # use receipted::{Config, config::Origin};
/// # let config = Config::from_text("kafka = { brokers = \"b:9092\", group = \"g\" }\napp = { token = \"t\" }")?;
/// // What is not the default, for the first line of a log: no secret stands in it.
/// let set = config.shown().iter().filter(|shown| shown.origin != Origin::Default);
/// let line: Vec<String> = set.map(|shown| format!("{} = {}", shown.key, shown.value)).collect();
/// assert!(line.contains(&"app.token = (hidden)".to_string()));
/// # Ok::<(), receipted::config::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The key with its section.
    pub key: String,
    /// Its value as TOML, or in words where it follows from the app; hidden where it may be secret. Nothing is known of the team's own,
    /// so they are all hidden.
    pub value: String,
    /// Where it came from.
    pub origin: Origin,
}

pub(super) fn shown(layers: &Layers) -> Vec<Shown> {
    let mut shown = Vec::new();
    walk(layers.merged(), "", layers, &mut shown);
    shown
}

fn walk(table: &Table, path: &str, layers: &Layers, shown: &mut Vec<Shown>) {
    for (name, value) in table {
        let key = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        if let Value::Table(below) = value {
            walk(below, &key, layers, shown);
            continue;
        }
        let value = self::value(&key, value);
        shown.push(Shown { origin: layers.origin(&key), key, value });
    }
}

/// A value as TOML, hidden where it may be secret.
pub(super) fn value(key: &str, value: &Value) -> String {
    let secret = key.starts_with("app.") || key.strip_prefix("kafka.settings.").is_some_and(kafka::is_secret);
    if secret { HIDDEN.into() } else { value.to_string() }
}
