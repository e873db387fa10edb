//! Owns the socket: who may come, and which request means what. Looks go to the store, changes to the runner.

use super::{
    command::{EndRequest, EndWord, List, Malformed, Refusal, SettleRequest, parse_digest},
    duplicates::DuplicatesAsk,
    look,
    partitions::{PartitionRequest, PartitionView, PartitionWord, SkipRequest},
};
use crate::{
    protocol::{refused::Refused, settle::Change, time::UnixMillis},
    runner::{Operator, PartitionAsk},
    store::ReceiptStore,
};
use axum::{
    Json, Router,
    extract::{ConnectInfo, DefaultBodyLimit, Path, Query, State, connect_info::Connected},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
    serve::IncomingStream,
};
use serde::Serialize;
use std::{
    fs,
    io::ErrorKind,
    os::unix::{
        ffi::OsStrExt,
        fs::{FileTypeExt, PermissionsExt},
    },
    path::{Path as FilePath, PathBuf},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};
use tokio::net::UnixListener;

/// Bytes of a request, at most.
const REQUEST_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a socket's path, at most: the operating system's own bound.
const PATH_BYTES_MAX: usize = 107;

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Give the store a directory with a shorter path, or start in it and name it relatively.
    #[error("path of the operator socket {path:?} has more than {PATH_BYTES_MAX} bytes")]
    TooLong {
        /// The path.
        path: PathBuf,
    },
    /// Look at what stands at that path; it is not a socket of ours.
    #[error("{path:?} is in the way of the operator socket")]
    InTheWay {
        /// The path.
        path: PathBuf,
    },
    /// See what the operating system says.
    #[error("operator socket {path:?}: {source}")]
    Io {
        /// The path.
        path: PathBuf,
        /// Its words.
        source: std::io::Error,
    },
}

/// Who is at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// The user id that the operating system reports; none when it does not.
    pub uid: Option<u32>,
}

impl Connected<IncomingStream<'_, UnixListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, UnixListener>) -> Self {
        Self { uid: stream.io().peer_cred().ok().map(|credentials| credentials.uid()) }
    }
}

/// What the socket speaks for.
#[derive(Clone)]
pub struct Served {
    /// The store that is looked at.
    pub store: Arc<dyn ReceiptStore>,
    /// Who performs changes.
    pub operator: Arc<dyn Operator>,
}

/// Makes the socket, for its owner alone. The caller holds the store's lock, so that one left there by a process that was killed can
/// be replaced.
///
/// # Errors
/// When the path is too long, taken by something else, or refused.
pub fn bind(path: &FilePath) -> Result<UnixListener, Error> {
    let io = |source| Error::Io { path: path.into(), source };
    if path.as_os_str().as_bytes().len() > PATH_BYTES_MAX {
        return Err(Error::TooLong { path: path.into() });
    }
    match fs::symlink_metadata(path) {
        Ok(there) if there.file_type().is_socket() => fs::remove_file(path).map_err(io)?,
        Ok(_) => return Err(Error::InTheWay { path: path.into() }),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(io(error)),
    }
    let listener = UnixListener::bind(path).map_err(io)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(io)?;
    Ok(listener)
}

/// Serves until `end`.
///
/// # Errors
/// When the listener fails.
pub async fn serve(listener: UnixListener, served: Served, end: impl Future<Output = ()> + Send + 'static) -> std::io::Result<()> {
    let service = router(served).into_make_service_with_connect_info::<Peer>();
    axum::serve(listener, service).with_graceful_shutdown(end).await
}

fn router(served: Served) -> Router {
    Router::new()
        .route("/status", get(status))
        .route("/operations", get(list))
        .route("/operations/{key}", get(show))
        .route("/settle", post(settle))
        .route("/dead-letter", post(dead_letter))
        .route("/discard", post(discard))
        .route("/duplicates", get(duplicates))
        .route("/partitions", get(partitions))
        .route("/partitions/pause", post(pause))
        .route("/partitions/resume", post(resume))
        .route("/partitions/skip", post(skip))
        .layer(DefaultBodyLimit::max(REQUEST_BYTES_MAX))
        .with_state(served)
}

async fn status(State(served): State<Served>, ConnectInfo(peer): ConnectInfo<Peer>) -> Response {
    match admitted(peer) {
        Ok(_) => looked(move || Ok(look::status(&*served.store))).await,
        Err(refused) => refused,
    }
}

async fn list(State(served): State<Served>, ConnectInfo(peer): ConnectInfo<Peer>, Query(list): Query<List>) -> Response {
    match admitted(peer) {
        Ok(_) => looked(move || look::list(&*served.store, &list, now())).await,
        Err(refused) => refused,
    }
}

async fn duplicates(State(served): State<Served>, ConnectInfo(peer): ConnectInfo<Peer>, Query(ask): Query<DuplicatesAsk>) -> Response {
    match admitted(peer) {
        Ok(_) => looked(move || Ok(super::duplicates::list(&*served.store, ask, now())?)).await,
        Err(refused) => refused,
    }
}

async fn show(State(served): State<Served>, ConnectInfo(peer): ConnectInfo<Peer>, Path(key): Path<String>) -> Response {
    if let Err(refused) = admitted(peer) {
        return refused;
    }
    let key = match parse_digest(&key) {
        Ok(key) => key,
        Err(malformed) => return answer(StatusCode::BAD_REQUEST, &Refusal::from(&malformed)),
    };
    let unknown = Refusal {
        code: "unknown".into(),
        message: "nothing is known of this operation".into(),
        remedy: "check tenant, operation and id; see `operations list --state all`".into(),
    };
    match tokio::task::spawn_blocking(move || look::show(&*served.store, key, now())).await {
        Ok(Ok(Some(view))) => answer(StatusCode::OK, &view),
        Ok(Ok(None)) => answer(StatusCode::NOT_FOUND, &unknown),
        Ok(Err(error)) => unreadable(&error),
        Err(error) => unreadable(&error),
    }
}

async fn settle(State(served): State<Served>, ConnectInfo(peer): ConnectInfo<Peer>, Json(request): Json<SettleRequest>) -> Response {
    perform(&served, peer, |uid| request.change(uid)).await
}

async fn dead_letter(State(served): State<Served>, ConnectInfo(peer): ConnectInfo<Peer>, Json(request): Json<EndRequest>) -> Response {
    perform(&served, peer, |uid| request.change(EndWord::DeadLetter, uid)).await
}

async fn discard(State(served): State<Served>, ConnectInfo(peer): ConnectInfo<Peer>, Json(request): Json<EndRequest>) -> Response {
    perform(&served, peer, |uid| request.change(EndWord::Discard, uid)).await
}

async fn partitions(State(served): State<Served>, ConnectInfo(peer): ConnectInfo<Peer>) -> Response {
    asked(&served, peer, |_| Ok(PartitionAsk::List)).await
}

async fn pause(State(served): State<Served>, ConnectInfo(peer): ConnectInfo<Peer>, Json(request): Json<PartitionRequest>) -> Response {
    asked(&served, peer, |uid| request.ask(PartitionWord::Pause, uid)).await
}

async fn resume(State(served): State<Served>, ConnectInfo(peer): ConnectInfo<Peer>, Json(request): Json<PartitionRequest>) -> Response {
    asked(&served, peer, |uid| request.ask(PartitionWord::Resume, uid)).await
}

async fn skip(State(served): State<Served>, ConnectInfo(peer): ConnectInfo<Peer>, Json(request): Json<SkipRequest>) -> Response {
    perform(&served, peer, |uid| request.change(uid)).await
}

async fn asked(served: &Served, peer: Peer, ask: impl FnOnce(u32) -> Result<PartitionAsk, Malformed>) -> Response {
    match admitted(peer).map(ask) {
        Ok(Ok(ask)) => match served.operator.partitions(ask).await {
            Ok(lines) => answer(StatusCode::OK, &lines.into_iter().map(PartitionView::from).collect::<Vec<_>>()),
            Err(refused) => refusal(&refused),
        },
        Ok(Err(malformed)) => answer(StatusCode::BAD_REQUEST, &Refusal::from(&malformed)),
        Err(refused) => refused,
    }
}

async fn perform(served: &Served, peer: Peer, change: impl FnOnce(u32) -> Result<Change, Malformed>) -> Response {
    let change = match admitted(peer).map(change) {
        Ok(Ok(change)) => change,
        Ok(Err(malformed)) => return answer(StatusCode::BAD_REQUEST, &Refusal::from(&malformed)),
        Err(refused) => return refused,
    };
    match served.operator.perform(change).await {
        Ok(changed) => answer(StatusCode::OK, &super::command::Done::from(changed)),
        Err(refused) => refusal(&refused),
    }
}

fn refusal(refused: &Refused) -> Response {
    let status = if let Refused::Unavailable { .. } = refused { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::CONFLICT };
    answer(status, &Refusal::from(refused))
}

/// The socket is its owner's and root's: its mode says so, and this says it again for the moment before the mode was set.
#[allow(clippy::result_large_err, reason = "the answer itself")]
fn admitted(peer: Peer) -> Result<u32, Response> {
    let own = rustix::process::geteuid().as_raw();
    peer.uid.filter(|uid| *uid == own || *uid == 0).ok_or_else(|| {
        let message = "this socket is for the user that runs receipted".to_string();
        let refusal = Refusal { code: "not_yours".into(), message, remedy: format!("ask as user id {own}, or as root") };
        answer(StatusCode::FORBIDDEN, &refusal)
    })
}

async fn looked<T: Serialize + Send + 'static>(look: impl FnOnce() -> Result<T, look::Failed> + Send + 'static) -> Response {
    match tokio::task::spawn_blocking(look).await {
        Ok(Ok(found)) => answer(StatusCode::OK, &found),
        Ok(Err(look::Failed::Malformed(malformed))) => answer(StatusCode::BAD_REQUEST, &Refusal::from(&malformed)),
        Ok(Err(look::Failed::Store(error))) => unreadable(&error),
        Err(error) => unreadable(&error),
    }
}

fn unreadable(error: &dyn std::fmt::Display) -> Response {
    let (code, message) = ("unreadable".into(), error.to_string());
    answer(StatusCode::SERVICE_UNAVAILABLE, &Refusal { code, message, remedy: "see the health page and the log".into() })
}

fn answer<T: Serialize>(status: StatusCode, body: &T) -> Response {
    (status, Json(body)).into_response()
}

#[allow(clippy::disallowed_methods, reason = "ages are shown to people")]
fn now() -> UnixMillis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixMillis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
