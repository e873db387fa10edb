//! Owns the commands' side of the socket: one request, one answer, and what its absence means.

use super::{
    command::{Done, EndRequest, EndWord, List, Refusal, SettleRequest},
    duplicates::{Duplicates, DuplicatesAsk},
    look::Status,
    partitions::{PartitionRequest, PartitionView, PartitionWord, SkipRequest},
    view::{Listing, OperationView},
};
use crate::protocol::key::KeyDigest;
use http_body_util::{BodyExt, Full};
use hyper::{Method, Request, StatusCode, body::Bytes};
use hyper_util::rt::TokioIo;
use serde::{Serialize, de::DeserializeOwned};
use std::{io::ErrorKind, path::PathBuf, time::Duration};
use tokio::net::UnixStream;

/// How long an answer may take: a dead letter is acknowledged in it.
const ANSWER_MAX: Duration = Duration::from_secs(150);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Start the process that runs on this store, or name its directory.
    #[error("no process answers at {path:?}; is receipted running on this store?")]
    NotRunning {
        /// The socket.
        path: PathBuf,
    },
    /// Ask as the user that runs it, or as root.
    #[error("not allowed to use {path:?}")]
    NotAllowed {
        /// The socket.
        path: PathBuf,
    },
    /// The process refused; the refusal says what to do.
    #[error("{}", .0.message)]
    Refused(Refusal),
    /// The process stopped answering. A change may have been written all the same: look before asking again.
    #[error("no answer from {path:?}: {reason}")]
    Broken {
        /// The socket.
        path: PathBuf,
        /// What happened.
        reason: String,
    },
}

/// Asks the process that runs on a store.
#[derive(Debug, Clone)]
pub struct Client {
    path: PathBuf,
}

impl Client {
    /// Names the socket. Nothing is opened yet.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// The store at a glance.
    ///
    /// # Errors
    /// When nobody answers.
    pub async fn status(&self) -> Result<Status, Error> {
        self.ask(Method::GET, "/status", None::<&()>).await
    }

    /// A page of a listing.
    ///
    /// # Errors
    /// When nobody answers, or the request makes no sense.
    pub async fn list(&self, list: &List) -> Result<Listing, Error> {
        let state = serde_json::to_value(list.state).ok().and_then(|state| state.as_str().map(String::from)).unwrap_or_default();
        let after = list.after.as_ref().map(|after| format!("&after={}", after.replace('#', "%23"))).unwrap_or_default();
        self.ask(Method::GET, &format!("/operations?state={state}&limit={}{after}", list.limit), None::<&()>).await
    }

    /// A page of duplicate effects.
    ///
    /// # Errors
    /// When nobody answers.
    pub async fn duplicates(&self, ask: DuplicatesAsk) -> Result<Duplicates, Error> {
        self.ask(Method::GET, &format!("/duplicates?from={}&limit={}", ask.from, ask.limit), None::<&()>).await
    }

    /// One operation with everything.
    ///
    /// # Errors
    /// When nobody answers, or nothing is known of it.
    pub async fn show(&self, key: KeyDigest) -> Result<OperationView, Error> {
        self.ask(Method::GET, &format!("/operations/{key}"), None::<&()>).await
    }

    /// Gives a verdict.
    ///
    /// # Errors
    /// When it is refused, or nobody answers.
    pub async fn settle(&self, request: &SettleRequest) -> Result<Done, Error> {
        self.ask(Method::POST, "/settle", Some(request)).await
    }

    /// Ends a park note.
    ///
    /// # Errors
    /// When it is refused, or nobody answers.
    pub async fn end(&self, word: EndWord, request: &EndRequest) -> Result<Done, Error> {
        let path = match word {
            EndWord::DeadLetter => "/dead-letter",
            EndWord::Discard => "/discard",
        };
        self.ask(Method::POST, path, Some(request)).await
    }

    /// Where every partition stands.
    ///
    /// # Errors
    /// When nobody answers.
    pub async fn partitions(&self) -> Result<Vec<PartitionView>, Error> {
        self.ask(Method::GET, "/partitions", None::<&()>).await
    }

    /// Pauses or resumes a partition. Answered once it stands as asked.
    ///
    /// # Errors
    /// When it is refused, or nobody answers.
    pub async fn partition(&self, word: PartitionWord, request: &PartitionRequest) -> Result<Vec<PartitionView>, Error> {
        let path = match word {
            PartitionWord::Pause => "/partitions/pause",
            PartitionWord::Resume => "/partitions/resume",
        };
        self.ask(Method::POST, path, Some(request)).await
    }

    /// Has a halted partition go on without the slot that it stands at.
    ///
    /// # Errors
    /// When it is refused, or nobody answers.
    pub async fn skip(&self, request: &SkipRequest) -> Result<Done, Error> {
        self.ask(Method::POST, "/partitions/skip", Some(request)).await
    }

    async fn ask<B: Serialize, T: DeserializeOwned>(&self, method: Method, path: &str, body: Option<&B>) -> Result<T, Error> {
        let asked = tokio::time::timeout(ANSWER_MAX, self.exchange(method, path, body)).await;
        let (status, bytes) = asked.unwrap_or_else(|_| Err(self.broken(&format!("nothing within {} s", ANSWER_MAX.as_secs()))))?;
        if status == StatusCode::OK {
            return serde_json::from_slice(&bytes).map_err(|error| self.broken(&format!("an answer of another version ({error})")));
        }
        let refusal = serde_json::from_slice(&bytes).map_err(|_| self.broken(&format!("{status} {}", String::from_utf8_lossy(&bytes))))?;
        Err(Error::Refused(refusal))
    }

    async fn exchange<B: Serialize>(&self, method: Method, path: &str, body: Option<&B>) -> Result<(StatusCode, Bytes), Error> {
        let stream = UnixStream::connect(&self.path).await.map_err(|error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => Error::NotRunning { path: self.path.clone() },
            ErrorKind::PermissionDenied => Error::NotAllowed { path: self.path.clone() },
            _ => self.broken(&error),
        })?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| self.broken(&error))?;
        // The answer itself says whether the connection held.
        tokio::spawn(connection);
        let json = body.map(serde_json::to_vec).transpose().map_err(|error| self.broken(&error))?.unwrap_or_default();
        let request = Request::builder().method(method).uri(path).header("host", "receipted").header("content-type", "application/json");
        let request = request.body(Full::new(Bytes::from(json))).map_err(|error| self.broken(&error))?;
        let response = sender.send_request(request).await.map_err(|error| self.broken(&error))?;
        let status = response.status();
        let bytes = response.into_body().collect().await.map_err(|error| self.broken(&error))?.to_bytes();
        Ok((status, bytes))
    }

    fn broken(&self, reason: &dyn std::fmt::Display) -> Error {
        Error::Broken { path: self.path.clone(), reason: reason.to_string() }
    }
}
