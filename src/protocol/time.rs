//! Owns the two readings of time that a rule may see. The driver reads the clocks; nothing here does.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Wall-clock milliseconds since the Unix epoch. It may jump; only dates and the memory of a destination are measured in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct UnixMillis(pub i64);

/// Milliseconds on the monotonic clock of this process, from its start. It never goes back and means nothing in another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Monotonic(pub u64);

impl Monotonic {
    /// The moment `wait` later; saturates.
    #[must_use]
    pub fn after(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(millis(wait)))
    }

    /// How long ago `earlier` was; zero when it lies ahead.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// Both clocks, read together by the driver before it calls the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Now {
    /// For waits, deadlines and quiet periods.
    pub monotonic: Monotonic,
    /// For dates in notes and the memory of a destination.
    pub wall: UnixMillis,
}

/// Whole milliseconds of a duration; saturates.
#[must_use]
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
