//! Owns the reading of both clocks. The only place in the runner that does.

use crate::protocol::time::{Monotonic, Now, UnixMillis};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The clocks of this process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock(Instant);

impl Clock {
    /// Starts the monotonic clock. A millisecond ahead of zero, which stands for everything before this process.
    #[allow(clippy::disallowed_methods, reason = "drivers read clocks, rules do not")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    #[allow(clippy::disallowed_methods, reason = "drivers read clocks, rules do not")]
    pub(crate) fn now(self) -> Now {
        let monotonic = Monotonic(crate::protocol::time::millis(self.0.elapsed()));
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX));
        Now { monotonic, wall: UnixMillis(wall) }
    }

    /// When `at` is, for a timer.
    pub(crate) fn instant(self, at: Monotonic) -> Instant {
        self.0 + Duration::from_millis(at.0)
    }
}
