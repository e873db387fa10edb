//! Power cuts and bad disks: a store's process is recorded, call by call; disks as a power cut may leave them are made of the record,
//! and each is opened by the real store. The same library makes calls fail.
#![allow(missing_docs, dead_code, clippy::unwrap_used, clippy::expect_used)]

/// Tests named after their functions.
macro_rules! trials {
    ($($function:ident),* $(,)?) => {
        vec![$(libtest_mimic::Trial::test(stringify!($function), || { $function(); Ok(()) })),*]
    };
}

#[path = "power/counts.rs"]
mod counts;
#[path = "power/cuts.rs"]
mod cuts;
#[path = "power/dice.rs"]
mod dice;
#[path = "power/disk.rs"]
mod disk;
#[path = "power/faults.rs"]
mod faults;
#[path = "power/judge.rs"]
mod judge;
#[path = "power/log.rs"]
mod log;
#[path = "power/loops.rs"]
mod loops;
#[path = "store/make.rs"]
mod make;
#[path = "power/outage.rs"]
mod outage;
#[path = "power/plan.rs"]
mod plan;
#[path = "support/process.rs"]
mod process;
#[path = "power/recorder.rs"]
mod recorder;
#[path = "power/work.rs"]
mod work;

fn main() {
    process::play(&[("work", work::role), ("judge", cuts::role), ("probe", loops::probe), ("cuts", loops::role)]);
    let trials = outage::trials().into_iter().chain(faults::trials()).chain(loops::trials()).collect();
    let conclusion = libtest_mimic::run(&libtest_mimic::Arguments::from_args(), trials);
    recorder::clean();
    conclusion.exit()
}
