//! Owns what every suite stands on: a real broker, a destination with a ledger, child processes, a look at metrics.
//! Does not own any expectation: no test lives here, and nothing here knows receipts.
#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used)]

pub mod broker;
pub mod cluster;
pub mod destination;
pub mod http;
pub mod process;
pub mod wire;

use std::sync::{OnceLock, mpsc};

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

/// Names tests after their functions: `trials![one, two]`.
#[macro_export]
macro_rules! trials {
    ($($function:path),* $(,)?) => {
        vec![$(libtest_mimic::Trial::test(stringify!($function).replace(' ', ""), || { $function(); Ok(()) })),*]
    };
}
