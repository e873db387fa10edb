//! Owns the reading of one value: text to durations, counts, names and addresses, each refused with what to write instead. What one key
//! demands of another is in `relations`.

use super::{Error, layers::Layers, resolve::FirstStart};
use crate::{handler::is_topic_name, protocol::time::UnixMillis};
use std::{
    net::SocketAddr,
    path::PathBuf,
    time::{Duration, UNIX_EPOCH},
};

/// Bytes of a Kafka topic or group name, at most.
const NAME_BYTES_MAX: usize = 249;
/// The largest count or size that a key takes.
pub(super) const COUNT_MAX: i64 = 1 << 50;
/// The longest duration that a key takes.
const DURATION_MAX: Duration = Duration::from_secs(24 * 3600);

pub(super) fn required(key: &'static str, value: &str) -> Result<(), Error> {
    if value.trim().is_empty() {
        let variable = format!("RECEIPTED__{}", key.to_ascii_uppercase().replace('.', "__"));
        return Err(Error::Missing { key, variable });
    }
    Ok(())
}

/// One or more of host:port, with commas.
pub(super) fn brokers(key: &str, text: &str, layers: &Layers) -> Result<(), Error> {
    let wrong =
        |reason: String| Err(layers.invalid(key, reason, "write host:port, several with commas, as in \"kafka-1:9092,kafka-2:9092\""));
    for broker in text.split(',').map(str::trim) {
        if broker.is_empty() {
            return wrong("has an empty part".into());
        }
        if let Some((scheme, _)) = broker.split_once("://") {
            return wrong(format!("has {scheme:?} in front of a broker; kafka.settings.\"security.protocol\" says that"));
        }
        if broker.contains(|c: char| !c.is_alphanumeric() && !".-_:[]%".contains(c)) {
            return wrong(format!("holds {broker:?}, which is no host:port"));
        }
        // Without a port it is 9092; an IPv6 address stands in brackets.
        let port = match broker.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && (!host.contains(':') || host.ends_with(']')) => Some(port),
            Some(_) if broker.ends_with(']') => None,
            Some(_) => return wrong(format!("holds {broker:?}, which is no host:port")),
            None => None,
        };
        if port.is_some_and(|port| port.parse::<u16>().map_or(true, |port| port == 0)) {
            return wrong(format!("holds {broker:?}, whose port is no number from 1 to 65535"));
        }
    }
    Ok(())
}

pub(super) fn group(key: &str, name: &str, layers: &Layers) -> Result<(), Error> {
    let reason = if name.len() > NAME_BYTES_MAX {
        format!("has {} bytes", name.len())
    } else if name.chars().any(char::is_control) {
        "holds a control character".into()
    } else if name.trim() != name {
        "begins or ends with a space".into()
    } else {
        return Ok(());
    };
    Err(layers.invalid(key, reason, format!("write a name of at most {NAME_BYTES_MAX} bytes, without spaces around it")))
}

/// A topic's name as Kafka takes it. `name` may follow from another key.
pub(super) fn topic(key: &str, name: &str, layers: &Layers) -> Result<(), Error> {
    if is_topic_name(name) {
        return Ok(());
    }
    let reason = if layers.written(key) == "\"\"" {
        format!("makes it {name:?}, which is no name that Kafka takes")
    } else {
        "is no name that Kafka takes".into()
    };
    Err(layers.invalid(key, reason, format!("write 1 to {NAME_BYTES_MAX} letters, digits, dots, underscores and hyphens")))
}

/// A static member name, as the broker takes it: like a topic's.
pub(super) fn member(key: &str, name: &str, layers: &Layers) -> Result<Option<String>, Error> {
    if !name.is_empty() {
        topic(key, name, layers)?;
    }
    Ok(Some(name.to_string()).filter(|name| !name.is_empty()))
}

pub(super) fn directory(key: &str, path: &str, layers: &Layers) -> Result<PathBuf, Error> {
    let reason = match path {
        "" => "is empty",
        path if path.chars().any(char::is_control) => "holds a control character",
        path => return Ok(PathBuf::from(path)),
    };
    Err(layers.invalid(key, reason, "write the directory of the receipts, on a local disk that stays"))
}

/// A file's path; none where it is empty.
pub(super) fn file(key: &str, path: &str, layers: &Layers) -> Result<Option<PathBuf>, Error> {
    if path.chars().any(char::is_control) {
        return Err(layers.invalid(key, "holds a control character", "write the path of a file"));
    }
    Ok(Some(PathBuf::from(path)).filter(|path| !path.as_os_str().is_empty()))
}

pub(super) fn duration(key: &str, text: &str, layers: &Layers) -> Result<Duration, Error> {
    let remedy = "write a number with its unit, from \"1ms\" to \"24h\", as in \"250ms\", \"30s\" or \"1h 30m\"";
    let parsed = humantime::parse_duration(text).map_err(|error| layers.invalid(key, format!("is no duration: {error}"), remedy))?;
    match parsed {
        short if short.as_millis() == 0 => Err(layers.invalid(key, "is too short", remedy)),
        long if long > DURATION_MAX => Err(layers.invalid(key, "is too long", remedy)),
        fits => Ok(fits),
    }
}

pub(super) fn count(key: &str, value: i64, min: i64, max: i64, layers: &Layers) -> Result<u64, Error> {
    let reason = if value < min { "is too small" } else { "is too large" };
    let fits = u64::try_from(value).ok().filter(|_| (min..=max).contains(&value));
    fits.ok_or_else(|| layers.invalid(key, reason, format!("write {min} to {max}")))
}

pub(super) fn size(key: &str, value: i64, (min, max): (i64, i64), layers: &Layers) -> Result<usize, Error> {
    count(key, value, min, max, layers).map(|number| usize::try_from(number).unwrap_or(usize::MAX))
}

/// One of a few words.
pub(super) fn word<T: Copy>(key: &str, text: &str, words: &[(&str, T)], layers: &Layers) -> Result<T, Error> {
    let known = || words.iter().map(|(word, _)| format!("{word:?}")).collect::<Vec<_>>().join(" or ");
    let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
    found.ok_or_else(|| layers.invalid(key, "is not known", format!("write {}", known())))
}

pub(super) fn first_start(key: &str, text: &str, layers: &Layers) -> Result<Option<FirstStart>, Error> {
    let wrong = || layers.invalid(key, "is not known", "write \"earliest\", \"latest\" or a time in UTC such as \"2026-03-01T00:00:00Z\"");
    Ok(match text {
        "" => None,
        "earliest" => Some(FirstStart::Earliest),
        "latest" => Some(FirstStart::Latest),
        time => {
            let since = humantime::parse_rfc3339(time).ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok()).ok_or_else(wrong)?;
            Some(FirstStart::At(UnixMillis(i64::try_from(since.as_millis()).map_err(|_| wrong())?)))
        }
    })
}

pub(super) fn listen(key: &str, text: &str, layers: &Layers) -> Result<Option<SocketAddr>, Error> {
    let remedy = "write \"address:port\" with a numeric address, as in \"0.0.0.0:9464\", or \"off\"";
    match text {
        "off" => Ok(None),
        address => address.parse().map(Some).map_err(|_| layers.invalid(key, "is no address to listen on", remedy)),
    }
}

/// Directives with commas, each `level`, `module`, `module=level` or one of a span: the same words that the log takes.
pub(super) fn log_filter(key: &str, text: &str, layers: &Layers) -> Result<(), Error> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    let wrong = |part: &str| {
        let remedy = "write a level (off, error, warn, info, debug, trace), or levels by module as in \"info,receipted::runner=debug\"";
        Err(layers.invalid(key, format!("holds {part:?}, which is no level and no module with one"), remedy))
    };
    for part in text.split(',').map(str::trim) {
        let is_level = |word: &str| LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word));
        let fits = match part.rsplit_once('=') {
            // A span's fields hold such a sign too; the log reads those.
            Some((module, level)) => !module.is_empty() && (is_level(level) || part.contains('[')),
            // A single word that is no level would be taken for a module, and everything else go silent.
            None => is_level(part) || part.contains("::") || part.contains('['),
        };
        if !fits {
            return wrong(part);
        }
    }
    Ok(())
}
