//! Owns the merge of defaults, file and variables, and the memory of where each value came from. It checks that a key is known and
//! has the type of its default; what a value means is checked in `resolve`.

use super::{DEFAULTS, Error, Origin, Raw, shown};
use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
};
use toml::{Table, Value};

/// What every variable of ours begins with.
const PREFIX: &str = "RECEIPTED__";
/// Passed through to the client: any name, plain values.
const SETTINGS: &str = "kafka.settings";
/// The team's own: anything.
const APP: &str = "app";
/// How different a key may be to be suggested.
const LIKENESS_MIN: f64 = 0.6;

pub(super) struct Layers {
    defaults: Table,
    merged: Table,
    origins: BTreeMap<String, Origin>,
}

impl Layers {
    pub(super) fn defaults() -> Result<Self, Error> {
        let mut defaults: Table = DEFAULTS.parse().map_err(|error: toml::de::Error| Error::Defaults { reason: error.to_string() })?;
        flatten_settings(&mut defaults, &Origin::Default)?;
        Ok(Self { merged: defaults.clone(), defaults, origins: BTreeMap::new() })
    }

    pub(super) fn file(&mut self, file: &Path) -> Result<(), Error> {
        let text = std::fs::read_to_string(file).map_err(|source| Error::Unreadable { file: file.into(), source })?;
        self.text(&text, &Origin::File(PathBuf::from(file)))
    }

    pub(super) fn text(&mut self, text: &str, origin: &Origin) -> Result<(), Error> {
        let mut layer: Table = text.parse().map_err(|error| not_toml(&error, text, origin))?;
        flatten_settings(&mut layer, origin)?;
        let defaults = std::mem::take(&mut self.defaults);
        let merged = merge(&mut self.merged, layer, Some(&defaults), "", origin, &mut self.origins);
        self.defaults = defaults;
        merged.map_err(|error| self.suggest(error))
    }

    pub(super) fn variables(&mut self, env: impl IntoIterator<Item = (OsString, OsString)>) -> Result<(), Error> {
        let mut ours = BTreeMap::new();
        for (name, value) in env {
            let Some(path) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else { continue };
            let value = value.into_string().map_err(|_| Error::NotText { name: format!("{PREFIX}{path}") })?;
            ours.insert(path.to_string(), value);
        }
        for (path, text) in ours {
            let origin = Origin::Variable(format!("{PREFIX}{path}"));
            self.variable(&path.to_ascii_lowercase(), text, &origin).map_err(|error| self.suggest(error))?;
        }
        Ok(())
    }

    /// The merged settings in their shape.
    pub(super) fn raw(&self) -> Result<Raw, Error> {
        Value::Table(self.merged.clone()).try_into().map_err(|error: toml::de::Error| Error::Defaults { reason: error.to_string() })
    }

    pub(super) fn merged(&self) -> &Table {
        &self.merged
    }

    /// Where the value of `key` came from.
    pub(super) fn origin(&self, key: &str) -> Origin {
        self.origins.get(key).cloned().unwrap_or(Origin::Default)
    }

    /// The value of `key` as it is written, hidden where it may be secret.
    pub(super) fn written(&self, key: &str) -> String {
        let inside = key.strip_prefix("kafka.settings.");
        let settings = || self.merged.get("kafka")?.get("settings");
        let value = match inside {
            Some(name) => settings().and_then(|settings| settings.get(name)),
            None => key.split_once('.').and_then(|(section, name)| self.merged.get(section)?.get(name)),
        };
        value.map_or_else(|| "\"\"".into(), |value| shown::value(key, value))
    }

    pub(super) fn invalid(&self, key: &str, reason: impl Into<String>, remedy: impl Into<String>) -> Error {
        let (value, reason, remedy) = (self.written(key).into(), reason.into().into(), remedy.into().into());
        Error::Invalid { key: key.into(), value, reason, origin: self.origin(key), remedy }
    }

    fn variable(&mut self, path: &str, text: String, origin: &Origin) -> Result<(), Error> {
        let mut segments: Vec<String> = path.split("__").map(String::from).collect();
        if segments.len() > 2 && segments[0] == "kafka" && segments[1] == "settings" {
            let name = segments.split_off(2).join("__").replace('_', ".");
            segments.push(name);
        }
        let key = segments.join(".");
        let (Some(last), false) = (segments.pop(), segments.iter().any(String::is_empty)) else {
            return Err(unknown(&key, origin));
        };
        let free = segments.first().is_some_and(|section| section == APP);
        let found = segments.iter().try_fold(&self.merged, |table, segment| table.get(segment)?.as_table());
        let known = found.and_then(|table| table.get(&last));
        let value = match known {
            Some(Value::Table(_)) => return Err(unknown(&key, origin)),
            Some(like) => typed(&key, text, like, origin)?,
            None if free => literal(text),
            None if segments.join(".") == SETTINGS => Value::String(text),
            None => return Err(unknown(&key, origin)),
        };
        let mut layer = Table::from_iter([(last, value)]);
        while let Some(segment) = segments.pop() {
            layer = Table::from_iter([(segment, Value::Table(layer))]);
        }
        let defaults = std::mem::take(&mut self.defaults);
        let merged = merge(&mut self.merged, layer, Some(&defaults), "", origin, &mut self.origins);
        self.defaults = defaults;
        merged
    }

    fn suggest(&self, error: Error) -> Error {
        let Error::UnknownKey { key, origin, .. } = error else { return error };
        let mut keys = Vec::new();
        collect(&self.defaults, "", &mut keys);
        let like = |known: &String| strsim::normalized_damerau_levenshtein(known, &key);
        let nearest = keys.into_iter().filter(|known| like(known) >= LIKENESS_MIN).max_by(|a, b| like(a).total_cmp(&like(b)));
        Error::UnknownKey { key, origin, nearest }
    }
}

/// Puts `layer` over `into`. `known` is the same table of the defaults; none below a free table.
fn merge(
    into: &mut Table, layer: Table, known: Option<&Table>, path: &str, origin: &Origin, origins: &mut BTreeMap<String, Origin>,
) -> Result<(), Error> {
    for (name, value) in layer {
        let key = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let free = known.is_none() || path == SETTINGS;
        match (known.and_then(|known| known.get(&name)), value) {
            (None, _) if !free => return Err(unknown(&key, origin)),
            (Some(Value::Table(known)), Value::Table(layer)) => {
                let below = into.entry(name).or_insert_with(|| Value::Table(Table::new()));
                let Value::Table(below) = below else { return Err(unknown(&key, origin)) };
                merge(below, layer, Some(known).filter(|_| key != APP), &key, origin, origins)?;
            }
            (None, Value::Table(layer)) => {
                if !into.get(&name).is_some_and(Value::is_table) {
                    into.insert(name.clone(), Value::Table(Table::new()));
                }
                if let Some(Value::Table(below)) = into.get_mut(&name) {
                    merge(below, layer, None, &key, origin, origins)?;
                }
            }
            (Some(like), value) if !free && !like.same_type(&value) => {
                return Err(wrong_type(&key, &value, expected(like), origin));
            }
            (_, value) => {
                into.insert(name, value);
                origins.insert(key, origin.clone());
            }
        }
    }
    Ok(())
}

/// `security.protocol = "SSL"` without quotes is a table in a table to TOML; to the client it is one name. All values become text.
fn flatten_settings(layer: &mut Table, origin: &Origin) -> Result<(), Error> {
    let Some(settings) = layer.get_mut("kafka").and_then(|kafka| kafka.get_mut("settings")) else { return Ok(()) };
    let Value::Table(written) = settings else {
        return Err(wrong_type(SETTINGS, settings, "a table: [kafka.settings]", origin));
    };
    let mut flat = Table::new();
    let mut open: Vec<(String, Value)> = std::mem::take(written).into_iter().collect();
    while let Some((name, value)) = open.pop() {
        let text = match value {
            Value::Table(below) => {
                open.extend(below.into_iter().map(|(last, value)| (format!("{name}.{last}"), value)));
                continue;
            }
            Value::String(text) => text,
            Value::Integer(number) => number.to_string(),
            Value::Boolean(truth) => truth.to_string(),
            other => {
                let key = format!("{SETTINGS}.{name}");
                return Err(wrong_type(&key, &other, "a string, an integer or a boolean", origin));
            }
        };
        flat.insert(name, Value::String(text));
    }
    *written = flat;
    Ok(())
}

/// A variable's text as the type that the key has already.
fn typed(key: &str, text: String, like: &Value, origin: &Origin) -> Result<Value, Error> {
    let parsed = match like {
        Value::String(_) => return Ok(Value::String(text)),
        Value::Integer(_) => text.replace('_', "").parse().ok().map(Value::Integer),
        Value::Boolean(_) => text.parse().ok().map(Value::Boolean),
        Value::Float(_) => text.parse().ok().map(Value::Float),
        _ => return Ok(literal(text)),
    };
    parsed.ok_or_else(|| wrong_type(key, &Value::String(text), expected(like), origin))
}

/// A variable's text for a key of the team that no file sets: a TOML value where it is one, else the text itself.
fn literal(text: String) -> Value {
    let parsed = format!("value = {text}").parse::<Table>().ok().filter(|table| table.len() == 1);
    parsed.and_then(|mut table| table.remove("value")).unwrap_or(Value::String(text))
}

fn collect(table: &Table, path: &str, keys: &mut Vec<String>) {
    for (name, value) in table {
        let key = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match value {
            Value::Table(below) => collect(below, &key, keys),
            _ => keys.push(key),
        }
    }
}

fn unknown(key: &str, origin: &Origin) -> Error {
    Error::UnknownKey { key: key.into(), origin: origin.clone(), nearest: None }
}

/// The parser's words and place, without the line itself: it may hold a secret.
fn not_toml(error: &toml::de::Error, text: &str, origin: &Origin) -> Error {
    let start = error.span().map_or(0, |span| span.start.min(text.len()));
    let line = text.as_bytes()[..start].iter().filter(|byte| **byte == b'\n').count() + 1;
    Error::NotToml { origin: origin.clone(), line, reason: error.message().to_string() }
}

fn wrong_type(key: &str, value: &Value, expected: &'static str, origin: &Origin) -> Error {
    let shown = if value.is_table() { "{ .. }".into() } else { shown::value(key, value) };
    Error::WrongType { key: key.into(), origin: origin.clone(), value: shown, found: article(value), expected }
}

/// How a value of this type is written.
fn expected(like: &Value) -> &'static str {
    match like {
        Value::String(_) => "a string, in quotes",
        Value::Integer(_) => "an integer, without quotes and unit",
        Value::Boolean(_) => "true or false, without quotes",
        Value::Float(_) => "a number, without quotes",
        Value::Datetime(_) => "a date",
        Value::Array(_) => "an array",
        Value::Table(_) => "a table",
    }
}

fn article(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "a string",
        Value::Integer(_) => "an integer",
        Value::Float(_) => "a float",
        Value::Boolean(_) => "a boolean",
        Value::Datetime(_) => "a date",
        Value::Array(_) => "an array",
        Value::Table(_) => "a table",
    }
}
