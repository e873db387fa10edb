//! Owns the pages on TCP: metrics and health. Nothing that changes state is served here.

use axum::{
    Json, Router,
    extract::State,
    http::{StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use metrics_exporter_prometheus::PrometheusHandle;
use serde::Serialize;
use std::{sync::Arc, time::Duration};
use tokio::net::TcpListener;

/// How often distributions are folded when nobody reads the page, so that they do not grow.
const UPKEEP: Duration = Duration::from_secs(5);

/// Answers a question about health, with the reason where the answer is no.
pub type Probe = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// What the pages show.
#[derive(Clone)]
pub struct Pages {
    /// Renders `/metrics`.
    pub metrics: PrometheusHandle,
    /// Answers `/health/live`: the process does its work, or a restart is due.
    pub live: Probe,
    /// Answers `/health/ready`: every partition is open and nothing is paused.
    pub ready: Probe,
}

/// A health page's body.
#[derive(Debug, Serialize)]
struct Health {
    ok: bool,
    reasons: Vec<String>,
}

/// The pages as a service, for programs that serve HTTP anyway.
pub fn router(pages: Pages) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/health/live", get(async |State(pages): State<Pages>| health(&pages.live)))
        .route("/health/ready", get(async |State(pages): State<Pages>| health(&pages.ready)))
        .with_state(pages)
}

/// Serves the pages until `end`.
///
/// # Errors
/// When the listener fails.
pub async fn serve(listener: TcpListener, pages: Pages, end: impl Future<Output = ()> + Send + 'static) -> std::io::Result<()> {
    let handle = pages.metrics.clone();
    let upkeep = async {
        let mut tick = tokio::time::interval(UPKEEP);
        loop {
            tick.tick().await;
            handle.run_upkeep();
        }
    };
    tokio::select! {
        served = axum::serve(listener, router(pages)).with_graceful_shutdown(end) => served,
        () = upkeep => Ok(()),
    }
}

async fn metrics(State(pages): State<Pages>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], pages.metrics.render())
}

fn health(probe: &Probe) -> impl IntoResponse + use<> {
    match probe() {
        Ok(()) => (StatusCode::OK, Json(Health { ok: true, reasons: vec![] })),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, Json(Health { ok: false, reasons: vec![reason] })),
    }
}
