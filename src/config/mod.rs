//! Owns what can be set: the keys (`config/default.toml` is the full list), where a value came from, and the checked result. Two
//! stages: as written ([`Raw`]), then resolved and checked once ([`Config`]). Does not own what a setting does.
//!
//! A value comes from the last of: the embedded defaults, a file, `RECEIPTED__SECTION__KEY` variables.

mod error;
pub mod kafka;
mod layers;
mod raw;
mod relations;
mod resolve;
mod secret_file;
mod shown;
mod value;

pub use crate::store::FileSystem;
pub use error::{Error, Origin};
pub use raw::Raw;
pub use resolve::{DeadLetter, FirstStart, HeaderNames, Kafka, LogFormat, Reconcile, Runner, Store, Telemetry};
pub use secret_file::key_secret;
pub use shown::Shown;

use layers::Layers;
use serde::de::DeserializeOwned;
use std::{ffi::OsString, fmt, path::Path};

/// The embedded list of every key, with its default and what it means.
pub const DEFAULTS: &str = include_str!("../../config/default.toml");

/// The settings, resolved and checked. Its `Debug` form shows no secret and nothing of the team's own table.
///
/// ```
/// use receipted::Config;
///
/// #[derive(serde::Deserialize)]
/// struct Own { bank_url: String }
///
/// let config = Config::from_text(
///     r#"
///     kafka = { brokers = "localhost:9092", group = "charges" }
///     app = { bank_url = "https://bank.example" }
///     "#,
/// )?;
/// let own: Own = config.app()?; // what your handlers need stands in the same file
/// assert_eq!(own.bank_url, "https://bank.example");
/// # Ok::<(), receipted::config::Error>(())
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Config {
    /// The cluster and the group.
    pub kafka: Kafka,
    /// The receipts.
    pub store: Store,
    /// The work.
    pub runner: Runner,
    /// The lookups.
    pub reconcile: Reconcile,
    /// The dead letters.
    pub dead_letter: DeadLetter,
    /// Metrics, health, logs.
    pub telemetry: Telemetry,
    app: toml::Table,
    shown: Vec<Shown>,
}

impl Config {
    /// Reads the defaults, then `file`, then the variables of `env` (pass `std::env::vars_os()`).
    ///
    /// # Errors
    /// Names the key, and the file or variable that it came from.
    pub fn load(file: Option<&Path>, env: impl IntoIterator<Item = (OsString, OsString)>) -> Result<Self, Error> {
        Self::resolve(layers(file, env)?)
    }

    /// Reads the defaults, then `text` as a file would be read: for tests, and for programs that bring their settings along.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn from_text(text: &str) -> Result<Self, Error> {
        let mut layers = Layers::defaults()?;
        layers.text(text, &Origin::Text)?;
        Self::resolve(layers)
    }

    /// Reads the section `[store]` alone, so that commands on a store need no cluster. Every other key must still be known.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn load_store(file: Option<&Path>, env: impl IntoIterator<Item = (OsString, OsString)>) -> Result<Store, Error> {
        let layers = layers(file, env)?;
        resolve::store(&layers.raw()?.store, &layers)
    }

    /// Reads the team's own table `[app]`.
    ///
    /// # Errors
    /// When it does not have the shape of `T`; names the key, never the value.
    pub fn app<T: DeserializeOwned>(&self) -> Result<T, Error> {
        self.app.clone().try_into().map_err(|error| Error::App { reason: without_value(&error) })
    }

    /// Every key with its value and where it came from, without secrets: what `check-config` prints.
    #[must_use]
    pub fn shown(&self) -> &[Shown] {
        &self.shown
    }

    /// Where a key that is not set follows from others, its value is shown.
    fn show_resolved(&mut self) {
        let share = || format!("{}, or {} where the app has one tenant", self.runner.tenant_share(&[]), self.runner.permits);
        let resolved = [
            ("dead_letter.topic", format!("{:?}", self.dead_letter.topic)),
            ("kafka.group_instance_id", format!("{:?}", self.kafka.instance_id("<store id>"))),
            ("runner.worker_threads", self.runner.threads().to_string()),
            ("runner.tenant_permits_max", self.runner.tenant_permits_max.map_or_else(share, |set| set.to_string())),
        ];
        for (key, value) in resolved {
            if let Some(shown) = self.shown.iter_mut().find(|shown| shown.key == key) {
                shown.value = value;
            }
        }
    }

    fn resolve(layers: Layers) -> Result<Self, Error> {
        let raw = layers.raw()?;
        let kafka = resolve::kafka(&raw.kafka, &layers)?;
        let mut config = Self {
            store: resolve::store(&raw.store, &layers)?,
            runner: resolve::runner(&raw.runner, &layers)?,
            reconcile: resolve::reconcile(&raw.reconcile, &layers)?,
            dead_letter: resolve::dead_letter(&raw.dead_letter, &kafka.group, &layers)?,
            telemetry: resolve::telemetry(&raw.telemetry, &layers)?,
            shown: shown::shown(&layers),
            app: raw.app,
            kafka,
        };
        relations::check(&config, &layers)?;
        config.show_resolved();
        Ok(config)
    }
}

fn layers(file: Option<&Path>, env: impl IntoIterator<Item = (OsString, OsString)>) -> Result<Layers, Error> {
    let mut layers = Layers::defaults()?;
    if let Some(file) = file {
        layers.file(file)?;
    }
    layers.variables(env)?;
    Ok(layers)
}

/// What does not fit, and where, without the value itself: a team's setting may be a secret.
fn without_value(error: &toml::de::Error) -> String {
    let (words, whole) = (error.message(), error.to_string());
    let place = whole.rsplit_once("\nin `").map(|(_, key)| format!(" in `{}", key.trim_end())).unwrap_or_default();
    if ["missing field", "unknown field", "duplicate field"].iter().any(|start| words.starts_with(start)) {
        return format!("{}{place}", words.trim_end());
    }
    match words.rfind(", expected ") {
        Some(at) => format!("another value is{}{place}", &words.trim_end()[at + 1..]),
        None => format!("a value is not accepted{place}"),
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.shown.iter().map(|shown| (&shown.key, &shown.value))).finish()
    }
}
