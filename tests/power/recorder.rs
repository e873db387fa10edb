//! Owns the recorder's library and processes that run under it.

use crate::{
    judge::Said,
    log::{self, Event},
    process::{self, Child, Start},
    work::{LANES, Orders, Stop},
};
use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
    time::Duration,
};

/// How long a recorded process may take on a busy machine.
pub const BOUND: Duration = Duration::from_secs(300);

/// The library, built once in each test run.
pub fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/power/recorder.c");
        let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("recorder-{}.so", std::process::id()));
        let mut command = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()));
        command.args(["-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"]).arg(&built).arg(&source).arg("-ldl");
        let output = command.output().expect("a C compiler, as cc or by CC");
        assert!(output.status.success(), "the recorder is not built: {}", String::from_utf8_lossy(&output.stderr));
        built
    })
}

/// Removes the library that this process built.
pub fn clean() {
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("recorder-{}.so", std::process::id()));
    drop(std::fs::remove_file(built));
}

/// A role under the library, which looks at `root`.
pub fn under(role: &str, root: &Path) -> Start {
    process::role(role).env("LD_PRELOAD", library()).env("RECORDER_ROOT", root)
}

/// A folder with a directory that is recorded, in which a store is made, and the record beside it.
pub struct World {
    folder: tempfile::TempDir,
}

impl World {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        std::fs::create_dir(folder.path().join("disk")).expect("made");
        Self { folder }
    }

    /// What is recorded.
    pub fn disk(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    pub fn store(&self) -> PathBuf {
        self.disk().join("store")
    }

    pub fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    pub fn start(&self, from: [usize; LANES], to: usize, stop: Stop, large: usize, probe: bool) -> Start {
        let marks = self.folder.path().join("log.marks");
        let orders = Orders { root: self.store(), marks, from, to, kill: stop == Stop::Kill, large, probe };
        let orders = serde_json::to_string(&orders).expect("orders");
        under("work", &self.disk()).env("RECORDER_LOG", self.log()).env("POWER_ORDERS", orders)
    }

    /// Runs the next process, from where the ones before came to.
    pub fn run(&self, before: &Said, to: usize, stop: Stop, large: usize) {
        let mut child = self.start(before.done, to, stop, large, true).start();
        let status = child.wait(BOUND);
        match stop {
            Stop::Close => assert!(status.success(), "{status}: {}", child.output()),
            Stop::Kill => assert!(status.code().is_none(), "{status}: {}", child.output()),
        }
    }

    pub fn events(&self) -> Vec<Event> {
        log::read(&self.log())
    }

    /// What has been said by the end of the record.
    pub fn said(&self, mut before: Said) -> Said {
        if self.log().exists() {
            self.events().iter().for_each(|event| before.take(event));
        }
        before
    }
}

/// The text of a child that has ended, for a failure.
pub fn ended(child: &mut Child) -> (Option<i32>, String) {
    let status = child.wait(BOUND);
    (status.code(), child.output())
}
