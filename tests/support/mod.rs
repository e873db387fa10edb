//! Owns what every suite stands on: a real broker, a destination with a ledger, child processes, a look at metrics.
//! Does not own any expectation: no test lives here, and nothing here knows receipts.
#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used)]

pub mod broker;
pub mod cluster;
pub mod destination;
pub mod http;
pub mod process;
pub mod service;
pub mod wire;

use std::cell::Cell;
use std::sync::{Once, OnceLock, mpsc};

/// The runtime of the support code itself, apart from whatever a test runs on.
pub fn runtime() -> &'static tokio::runtime::Runtime {
    static RUNTIME: OnceLock<tokio::runtime::Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime"))
}

/// Runs a future to its end from any thread, inside another runtime too.
pub fn block_on<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> T {
    let (send, receive) = mpsc::channel();
    runtime().spawn(async move {
        // A receiver that is gone has panicked, and says so itself.
        let _ = send.send(future.await);
    });
    receive.recv().expect("the future panicked; its own text stands above")
}

/// The kind of every test that needs the real broker; `make test-fast` leaves them out by this name.
pub const REAL_BROKER: &str = "real broker";

/// Names tests after their functions: `trials![one, two]`, and `trials![real broker: one, two]` where they need that.
#[macro_export]
macro_rules! trials {
    (real broker: $($function:path),* $(,)?) => {
        $crate::trials![$($function),*].into_iter().map(|trial| trial.with_kind($crate::support::REAL_BROKER)).collect::<Vec<_>>()
    };
    ($($function:path),* $(,)?) => {
        vec![$(libtest_mimic::Trial::test(stringify!($function).replace(' ', ""), || { $function(); Ok(()) })),*]
    };
}

/// Runs something that panics inside a library by design, and keeps that panic out of the output.
pub fn catch_quietly<T>(act: impl FnOnce() -> T) -> Option<T> {
    thread_local! { static QUIET: Cell<bool> = const { Cell::new(false) }; }
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !QUIET.get() {
                loud(panic)
            }
        }));
    });
    QUIET.set(true);
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
    QUIET.set(false);
    caught.ok()
}
