//! What every receipt store has to do, run against each of them; and what the durable one does about kills, damage and locks.
//! `cargo test --test store -- sled::` runs one store's part.

#[cfg(feature = "sled")]
#[path = "store/blocks.rs"]
mod blocks;
#[path = "store/contract.rs"]
mod contract;
#[cfg(feature = "sled")]
#[path = "store/disk.rs"]
mod disk;
#[cfg(feature = "sled")]
#[path = "store/durable.rs"]
mod durable;
#[path = "store/fixture.rs"]
mod fixture;
#[cfg(feature = "sled")]
#[path = "store/kill.rs"]
mod kill;
#[path = "store/make.rs"]
mod make;
#[path = "store/model.rs"]
mod model;
#[cfg(feature = "sled")]
#[path = "store/sealed.rs"]
mod sealed;
#[path = "store/self_test.rs"]
mod self_test;
#[cfg(feature = "sled")]
#[path = "store/steps.rs"]
mod steps;
#[cfg(feature = "sled")]
#[path = "store/transfer.rs"]
mod transfer;

use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(feature = "sled")]
    if let Some(code) = kill::role() {
        return code;
    }
    let mut trials = Vec::new();
    for kind in fixture::KINDS {
        trials.extend(contract::trials(*kind));
    }
    trials.extend(model::trials());
    trials.extend(self_test::trials());
    #[cfg(feature = "sled")]
    trials.extend(
        durable::trials()
            .into_iter()
            .chain(kill::trials())
            .chain(blocks::trials())
            .chain(disk::trials())
            .chain(transfer::trials())
            .chain(sealed::trials())
            .chain(steps::trials()),
    );
    libtest_mimic::run(&libtest_mimic::Arguments::from_args(), trials).exit_code()
}
