//! Owns where log lines go: standard error, for people or as JSON.

use crate::config::{LogFormat, Telemetry};
use std::io::{IsTerminal, stderr};
use tracing_subscriber::{EnvFilter, fmt};

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Correct `telemetry.log_filter`: a level, or levels by module with commas.
    #[error("telemetry.log_filter: {0}")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
}

/// Begins to log. A program that logs already goes on as it does.
///
/// # Errors
/// When the filter is none.
pub fn begin(config: &Telemetry) -> Result<(), Error> {
    let filter = EnvFilter::try_new(&config.log_filter)?;
    let lines = fmt().with_env_filter(filter).with_writer(stderr).with_ansi(stderr().is_terminal());
    let begun = match config.log_format {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => lines.json().try_init(),
    };
    if let Err(other) = begun {
        tracing::debug!(%other, "a log was set up before");
    }
    Ok(())
}
