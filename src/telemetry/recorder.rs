//! Owns the Prometheus recorder: how distributions are cut, and the text of the metrics page.

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

/// Seconds of a sync or a commit: from a fast disk to one that is in trouble.
const SECONDS: &[f64] = &[0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];
/// Entries that share a sync.
const GROUPS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 4096.0];

/// Why there are no metrics.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// This program was built wrong.
    #[error("metrics cannot be set up")]
    Build(#[from] BuildError),
    /// The program installs a recorder of its own: serve its pages, and set telemetry.listen = "off".
    #[error("this process has a metrics recorder already; set telemetry.listen = \"off\" to use that one")]
    Installed,
}

/// Builds a recorder that is not installed: for tests, and for programs that combine several.
///
/// # Errors
/// When its buckets are refused.
pub fn build() -> Result<PrometheusRecorder, Error> {
    let builder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Full("receipted_receipt_sync_seconds".into()), SECONDS)?
        .set_buckets_for_metric(Matcher::Full("receipted_commit_seconds".into()), SECONDS)?
        .set_buckets_for_metric(Matcher::Full("receipted_receipt_group_size".into()), GROUPS)?;
    Ok(builder.build_recorder())
}

/// Installs the recorder for this process. Its handle renders the page, and wants `run_upkeep` now and then.
///
/// # Errors
/// When the process has one already.
pub fn install() -> Result<PrometheusHandle, Error> {
    let recorder = build()?;
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder).map_err(|_| Error::Installed)?;
    Ok(handle)
}
