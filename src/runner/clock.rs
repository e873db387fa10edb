//! Owns the reading of both clocks. The only place in the runner that does.

use crate::protocol::time::{Monotonic, Now, UnixMillis, millis};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::time::Instant;

/// The clocks of this process. Both only go forward: a system clock that is set back is followed by what the monotonic one counts.
/// The monotonic one is the runtime's, so that a test that pauses it has paused this one.
#[derive(Debug, Clone)]
pub(crate) struct Clock {
    start: Instant,
    wall: Wall,
    last: Arc<Mutex<Now>>,
}

/// Where the wall clock's time comes from.
#[derive(Debug, Clone, Copy)]
enum Wall {
    System,
    /// A time at the start, and what the monotonic clock counts since.
    Counted(UnixMillis),
}

impl Clock {
    /// Starts the monotonic clock. A millisecond ahead of zero, which stands for everything before this process.
    #[allow(clippy::disallowed_methods, reason = "drivers read clocks, rules do not")]
    pub(crate) fn start() -> Self {
        Self { start: Instant::now(), wall: Wall::System, last: Arc::default() }
    }

    /// Clocks that both go by the runtime's, from now on.
    #[allow(clippy::disallowed_methods, reason = "drivers read clocks, rules do not")]
    pub(crate) fn counted() -> Self {
        Self { start: Instant::now(), wall: Wall::Counted(system()), last: Arc::default() }
    }

    #[allow(clippy::disallowed_methods, reason = "drivers read clocks, rules do not")]
    pub(crate) fn now(&self) -> Now {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let monotonic = Monotonic(millis(self.start.elapsed()));
        let wall = match self.wall {
            Wall::System => system(),
            Wall::Counted(start) => UnixMillis(start.0.saturating_add(i64::try_from(monotonic.0).unwrap_or(i64::MAX))),
        };
        *last = onwards(*last, Now { monotonic, wall });
        *last
    }

    /// When `at` is, for a timer.
    pub(crate) fn instant(&self, at: Monotonic) -> Instant {
        self.start + Duration::from_millis(at.0)
    }
}

#[allow(clippy::disallowed_methods, reason = "drivers read clocks, rules do not")]
fn system() -> UnixMillis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    UnixMillis(since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX)))
}

/// What the clocks say after `last`: the wall clock as read, and where it was set back, as much later as has passed.
fn onwards(last: Now, read: Now) -> Now {
    let passed = i64::try_from(millis(read.monotonic.since(last.monotonic))).unwrap_or(i64::MAX);
    let wall = if read.wall >= last.wall { read.wall } else { UnixMillis(last.wall.0.saturating_add(passed)) };
    Now { monotonic: read.monotonic.max(last.monotonic), wall }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now(monotonic: u64, wall: i64) -> Now {
        Now { monotonic: Monotonic(monotonic), wall: UnixMillis(wall) }
    }

    #[test]
    fn a_wall_clock_that_is_set_back_goes_on_and_never_back() {
        let reads = [now(0, 1_000), now(10, 1_010), now(20, 500), now(30, 510), now(40, 5_000), now(50, 4_000), now(60, 5_500)];
        let mut last = Now::default();
        let given = reads.map(|read| {
            last = onwards(last, read);
            last.wall.0
        });
        assert_eq!(given, [1_000, 1_010, 1_020, 1_030, 5_000, 5_010, 5_500]);
    }
}
