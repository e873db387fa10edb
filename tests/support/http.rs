//! Owns a look at `/metrics` and `/health`, and the Prometheus text as numbers.
//! Does not own what the numbers should be.

use super::block_on;
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::net::TcpStream;

const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Status and body of a page. An error is its text: nobody listens, or no answer in ten seconds.
pub fn get(address: &str, path: &str) -> Result<(u16, String), String> {
    let (address, path) = (address.to_owned(), path.to_owned());
    block_on(async move {
        let fetched = tokio::time::timeout(ANSWER_MAX, fetch(&address, &path)).await;
        fetched.map_err(|_| format!("no answer in {ANSWER_MAX:?}"))?.map_err(|error| error.to_string())
    })
}

async fn fetch(address: &str, path: &str) -> Result<(u16, String), Box<dyn std::error::Error + Send + Sync>> {
    let stream = TokioIo::new(TcpStream::connect(address).await?);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await?;
    tokio::spawn(connection);
    let request = Request::get(path).header("host", address).body(Empty::<Bytes>::new())?;
    let response = sender.send_request(request).await?;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await?.to_bytes();
    Ok((status, String::from_utf8(body.to_vec())?))
}

/// A sample's name and labels.
pub type Series = (String, BTreeMap<String, String>);

/// All samples of a `/metrics` page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples(pub BTreeMap<Series, f64>);

impl Samples {
    /// Fetches the page. Fails unless it can be read.
    #[track_caller]
    pub fn at(address: &str) -> Self {
        let (status, text) = get(address, "/metrics").expect("the metrics page");
        assert_eq!(status, 200, "{text}");
        Self::parse(&text).unwrap_or_else(|line| panic!("not a sample: {line:?}"))
    }

    /// Reads the Prometheus text format. The error is the line that is none of it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines.map(|line| sample(line).ok_or_else(|| line.to_owned())).collect::<Result<_, _>>().map(Self)
    }

    /// The value of exactly that series.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let labels = labels.iter().map(|(label, value)| ((*label).to_owned(), (*value).to_owned())).collect();
        self.0.get(&(name.to_owned(), labels)).copied()
    }

    /// The sum over all series of that name whose labels contain these; `None` without one.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let fits = |all: &BTreeMap<String, String>| labels.iter().all(|(label, value)| all.get(*label).is_some_and(|v| v == value));
        let found: Vec<_> = self.0.iter().filter(|((own, all), _)| own == name && fits(all)).map(|(_, value)| *value).collect();
        (!found.is_empty()).then(|| found.iter().sum())
    }

    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.0.keys().map(|(name, _)| name.as_str()).collect();
        names.dedup();
        names
    }
}

fn sample(line: &str) -> Option<(Series, f64)> {
    let name_end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(name_end);
    let mut labels = BTreeMap::new();
    if let Some(mut inside) = rest.strip_prefix('{') {
        loop {
            inside = inside.trim_start_matches([',', ' ']);
            if let Some(after) = inside.strip_prefix('}') {
                rest = after;
                break;
            }
            let (label, after) = inside.split_once("=\"")?;
            let (value, after) = quoted(after)?;
            labels.insert(label.to_owned(), value);
            inside = after;
        }
    }
    let value = rest.split_whitespace().next()?;
    let value = match value {
        "+Inf" => f64::INFINITY,
        "-Inf" => f64::NEG_INFINITY,
        other => other.parse().ok()?,
    };
    (!name.is_empty()).then(|| ((name.to_owned(), labels), value))
}

/// A label's value up to its closing quote, and what follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match characters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}
