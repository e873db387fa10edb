//! Owns why a configuration is refused, and where a value came from. Never holds the value of a setting that may be secret.

use std::{fmt, path::PathBuf};

/// Where a value came from.
///
/// A part of [`Error`], and of [`Shown`](super::Shown).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The embedded defaults.
    Default,
    /// A file.
    File(PathBuf),
    /// An environment variable.
    Variable(String),
    /// A text that the program gave.
    Text,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Variable(name) => write!(f, "variable {name}"),
            Self::Text => f.write_str("text"),
        }
    }
}

/// Why the configuration is refused.
///
/// ```
/// # use receipted::Config;
/// // A typing error is no setting: it stops the start, and says what was meant.
/// let error = Config::from_text("runner = { permit = 16 }").unwrap_err();
/// assert!(error.to_string().starts_with("runner.permit is no key of receipted"));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Correct the path, or the file's permissions.
    #[error("cannot read configuration file {file:?}")]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What the operating system says.
        source: std::io::Error,
    },
    /// Correct the line.
    #[error("{origin}, line {line}: {reason}")]
    NotToml {
        /// The file.
        origin: Origin,
        /// The line, from 1.
        line: usize,
        /// The parser's words.
        reason: String,
    },
    /// Correct or remove the key; `config/default.toml` lists every one.
    #[error("{key} is no key of receipted ({origin}): {}", .nearest.as_ref().map_or_else(
        || "remove it, or write it under [app] if it is the team's own".into(), |key| format!("did you mean {key}?")))]
    UnknownKey {
        /// The key with its section.
        key: String,
        /// Where it stands.
        origin: Origin,
        /// The known key that is most like it.
        nearest: Option<String>,
    },
    /// Write the value as the expected type.
    #[error("{key} = {value} is {found} ({origin}): write {expected}")]
    WrongType {
        /// The key with its section.
        key: String,
        /// Where it stands.
        origin: Origin,
        /// The value; hidden where it may be secret.
        value: String,
        /// What it is.
        found: &'static str,
        /// What it must be, with how that is written.
        expected: &'static str,
    },
    /// Remove the setting; the reason says what to set instead, where there is something.
    #[error("kafka.settings.{name} is not yours to set ({origin}): remove it; {reason}")]
    Owned {
        /// The client's name of the setting.
        name: String,
        /// Where it stands.
        origin: Origin,
        /// Why it is refused.
        reason: &'static str,
    },
    /// Set the key.
    #[error("{key} is not set; set it in the configuration file (`--config FILE`), or as {variable}")]
    Missing {
        /// The key with its section.
        key: &'static str,
        /// The variable that sets it.
        variable: String,
    },
    /// Correct the value, or the other key that the reason names.
    #[error("{key} = {value} {reason} ({origin}): {remedy}")]
    Invalid {
        /// The key with its section.
        key: String,
        /// The value; hidden where it may be secret.
        value: Box<str>,
        /// What is wrong.
        reason: Box<str>,
        /// Where it stands.
        origin: Origin,
        /// What to write instead.
        remedy: Box<str>,
    },
    /// Write a secret there, as `openssl rand -hex 32` makes one, and let this user read it.
    #[error(
        "{named_by} = {file:?} cannot be taken for a secret: {reason}; write one there, as `openssl rand -hex 32` makes it, and let this user alone read it"
    )]
    SecretFile {
        /// The key or the argument that names the file.
        named_by: &'static str,
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Give the variable a value of valid UTF-8.
    #[error("variable {name} is not valid UTF-8")]
    NotText {
        /// The variable.
        name: String,
    },
    /// Correct the table `[app]`, as the program's own documentation says.
    #[error("table [app]: {reason}")]
    App {
        /// What does not fit.
        reason: String,
    },
    /// This program was built wrong.
    #[error("embedded defaults: {reason}")]
    Defaults {
        /// What does not fit.
        reason: String,
    },
}
