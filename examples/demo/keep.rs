//! `--keep`: the runner again, with a trickle of invoices, until somebody ends it.

use crate::{
    sent::{Bill, TENANTS},
    service::INVOICES,
    stage::Stage,
    support,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// Between two invoices; every third comes twice.
const EVERY: Duration = Duration::from_millis(500);

/// Stays until Ctrl-C.
pub fn stay(stage: &mut Stage) -> Result<(), String> {
    stage.start_runner()?;
    stage.show.say(&format!(
        "  It stays up, with two invoices a second and some repeats, until Ctrl-C.\n\n      broker     {}",
        stage.cluster.brokers()
    ));
    stage.show.say(&format!(
        "      metrics    curl http://{}/metrics\n      health     curl http://{}/health/ready",
        stage.pages(),
        stage.pages()
    ));
    stage.show.say(&format!("      receipts   cargo run -q --release -- --config {} operations list", stage.configuration().display()));
    let end = Arc::new(AtomicBool::new(false));
    let ended = end.clone();
    support::runtime().spawn(async move { ended.store(tokio::signal::ctrl_c().await.is_ok(), Ordering::Release) });
    for number in (0_u64..).take_while(|_| !end.load(Ordering::Acquire)) {
        let bill = Bill::new(INVOICES, TENANTS[(number % 4) as usize], format!("KEEP-{number}"));
        let copies = if number % 3 == 0 { vec![bill.clone(), bill] } else { vec![bill] };
        stage.send(&copies);
        std::thread::sleep(EVERY);
        // The same Ctrl-C ends the other processes too.
        if !end.load(Ordering::Acquire) {
            stage.lives()?;
        }
    }
    Ok(())
}
