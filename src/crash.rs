//! Owns the named crash points: places on the way from a record to its committed offset where a test has this process die, panic, fail
//! or stall. Without the feature `crash-points` nothing of them is built. It does not own what a fault leads to.

/// A place with a name. What stands behind it is what its step returns, or does, when it is told to fail.
#[cfg(feature = "crash-points")]
macro_rules! point {
    ($name:expr, $said:ident => $fails:expr) => {
        if let Some($said) = $crate::crash::reach($name) {
            $fails
        }
    };
}
#[cfg(not(feature = "crash-points"))]
macro_rules! point {
    ($($any:tt)*) => {};
}

/// The same place for each kind of what is on its way: `place/kind`.
#[cfg(all(feature = "sled", feature = "crash-points"))]
macro_rules! point_of_each {
    ($place:expr, $kinds:expr, $said:ident => $fails:expr) => {
        for kind in &$kinds {
            $crate::crash::point!(&format!("{}/{kind}", $place), $said => $fails);
        }
    };
}
#[cfg(all(feature = "sled", not(feature = "crash-points")))]
macro_rules! point_of_each {
    ($($any:tt)*) => {};
}

pub(crate) use point;
#[cfg(feature = "sled")]
pub(crate) use point_of_each;

#[cfg(feature = "crash-points")]
pub(crate) use planned::reach;

#[cfg(feature = "crash-points")]
mod planned {
    use std::{
        sync::{
            OnceLock,
            atomic::{AtomicU64, Ordering},
        },
        time::Duration,
    };

    /// `POINT HIT FAULT`: what becomes of this process at the so manieth time that it reaches a point. `count` as the whole of it says
    /// every point that is reached.
    const VARIABLE: &str = "RECEIPTED_CRASH_POINT";
    /// How each line of ours begins. A build without the feature does not have these bytes (`tests/tidy.rs`).
    const MARK: &str = "receipted-crash-point";
    /// Longer than a quiet period, a commit interval and a back-off of the suite, and shorter than its waits.
    const DELAY: Duration = Duration::from_millis(700);

    enum Plan {
        Nothing,
        Count,
        At { name: String, hit: u64, fault: Fault },
    }

    #[derive(Clone, Copy)]
    enum Fault {
        Abort,
        Panic,
        Error,
        Delay,
    }

    fn plan() -> Plan {
        let Ok(text) = std::env::var(VARIABLE) else { return Plan::Nothing };
        if text == "count" {
            return Plan::Count;
        }
        let mut parts = text.split(' ');
        let parsed = (|| {
            let (name, hit) = (parts.next()?.to_owned(), parts.next()?.parse().ok()?);
            let fault = match parts.next()? {
                "abort" => Fault::Abort,
                "panic" => Fault::Panic,
                "error" => Fault::Error,
                "delay" => Fault::Delay,
                _ => return None,
            };
            Some(Plan::At { name, hit, fault })
        })();
        parsed.unwrap_or_else(|| panic!("{VARIABLE}={text:?} is not `POINT HIT FAULT`"))
    }

    /// Gives the words to fail with, where that is the plan.
    pub(crate) fn reach(reached: &str) -> Option<String> {
        static PLAN: OnceLock<Plan> = OnceLock::new();
        static HITS: AtomicU64 = AtomicU64::new(0);
        match PLAN.get_or_init(plan) {
            Plan::Nothing => None,
            Plan::Count => {
                eprintln!("{MARK} {reached}");
                None
            }
            Plan::At { name, .. } if name != reached => None,
            Plan::At { hit, .. } if HITS.fetch_add(1, Ordering::SeqCst) + 1 != *hit => None,
            Plan::At { fault, .. } => {
                eprintln!("{MARK} {reached} is here");
                befall(*fault, reached)
            }
        }
    }

    fn befall(fault: Fault, reached: &str) -> Option<String> {
        match fault {
            Fault::Abort => {
                // As from outside: no handler, no destructor, no buffer is flushed.
                let killed = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
                panic!("not killed: {killed:?}");
            }
            Fault::Panic => panic!("{MARK} {reached}"),
            Fault::Error => Some(format!("{MARK} {reached}")),
            Fault::Delay => {
                std::thread::sleep(DELAY);
                None
            }
        }
    }
}
