//! Owns what a person sees of a command that takes long: nothing for two seconds, then a line at the terminal. It measures nothing.

use super::output::Output;
use crate::store::sled::{Stage, Step};
use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::{
    io::{IsTerminal, stderr},
    sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel},
    thread,
    time::{Duration, Instant},
};

/// How long nothing is shown.
const QUIET: Duration = Duration::from_secs(2);
/// How often the line lives.
const TICK: Duration = Duration::from_millis(100);

/// How often the log of a start says how far it is, where there is no terminal.
const WORD: Duration = Duration::from_secs(10);

/// How far a command is, on standard error.
pub(super) struct Progress {
    line: Option<(ProgressBar, SyncSender<()>)>,
}

impl Progress {
    /// Begins to count the time. Shows nothing to programs, and nothing where there is no terminal.
    pub(super) fn begin(output: Output) -> Self {
        if output == Output::Json || !stderr().is_terminal() {
            return Self { line: None };
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()).with_style(ProgressStyle::default_spinner());
        let (ended, end) = sync_channel(0);
        let shown = bar.clone();
        // A thread of its own: opening a store says nothing while it takes long. Without it there is no line, and that is all.
        let spawned = thread::Builder::new().name("receipted-progress".into()).spawn(move || {
            if end.recv_timeout(QUIET) == Err(RecvTimeoutError::Timeout) {
                shown.set_draw_target(ProgressDrawTarget::stderr());
                shown.enable_steady_tick(TICK);
            }
        });
        Self { line: spawned.ok().map(|_| (bar, ended)) }
    }

    pub(super) fn step(&self, step: Step) {
        if let Some((bar, _)) = &self.line {
            bar.set_message(words(step));
        }
    }

    /// Takes the line away.
    pub(super) fn end(self) {
        drop(self);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((bar, ended)) = self.line.take() {
            drop(ended);
            bar.finish_and_clear();
        }
    }
}

/// How far the open of a run's store is: the line at a terminal, and a word to the log now and then elsewhere.
pub(super) struct Opening {
    progress: Progress,
    said: Instant,
}

impl Opening {
    pub(super) fn begin() -> Self {
        Self { progress: Progress::begin(Output::Text), said: Instant::now() }
    }

    pub(super) fn step(&mut self, step: Step) {
        self.progress.step(step);
        if self.progress.line.is_none() && self.said.elapsed() >= WORD {
            self.said = Instant::now();
            tracing::info!(entries = step.done, of = step.of, "opening the store: {}", words(step));
        }
    }
}

fn words(Step { stage, done, of }: Step) -> String {
    let (what, unit) = match stage {
        Stage::Opening => return "opening the store".into(),
        Stage::Syncing => return "waiting for the disk".into(),
        Stage::Checking => ("checking", "entries"),
        Stage::CheckingRecords => ("checking parked records", "pieces"),
        Stage::Writing => ("writing", "entries"),
        Stage::Reading => return format!("reading keys: {} of {}{}", HumanBytes(done), HumanBytes(of), percent(done, of)),
        Stage::Filling => return format!("reading {} of {}{}", HumanBytes(done), HumanBytes(of), percent(done, of)),
    };
    match of {
        0 => format!("{what}: {} {unit}", HumanCount(done)),
        of => format!("{what}: {} {unit}{}", HumanCount(done), percent(done, of)),
    }
}

fn percent(done: u64, of: u64) -> String {
    match done.min(of).saturating_mul(100).checked_div(of) {
        Some(percent) => format!(" ({percent} %)"),
        None => String::new(),
    }
}
