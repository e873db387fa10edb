//! Owns what may settle a doubt: when a rerun is safe, from when on a lookup is proof, and when nobody may say "not done" (DESIGN 5).

use super::{
    note::{AttemptId, Ruling},
    policy::{Contract, FreshKey, Policy},
    receipt::Receipt,
    time::{Monotonic, UnixMillis, millis},
};
use std::{collections::BTreeSet, time::Duration};

/// What this process knows of an attempt's future.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Future {
    /// It lives, before or past its deadline.
    Alive,
    /// It ended, and what it said is not durable yet.
    FactPending,
    /// It ended or was dropped at this moment; for an attempt of an earlier process, the moment this one started.
    EndedAt(Monotonic),
}

/// What the contract makes of an operation in doubt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Run again in the lane, if the admission is written within these wall-clock bounds: until the memory, less the margin, is
    /// over, counted from the first admission under this key.
    Rerun {
        /// The latest time noted. Earlier means that the clock went backwards.
        from: UnixMillis,
        /// Later means that the destination may have forgotten.
        until: UnixMillis,
    },
    /// Park it; a lookup or a person settles it from there.
    Park,
    /// It may be rerun, but its attempts are used up: park it as poison.
    Exhausted,
}

/// Decides what the contract makes of an operation in doubt. `budget_used` counts the attempts of this slot.
#[must_use]
pub fn step(policy: &Policy, receipt: &Receipt, now: UnixMillis, budget_used: u32) -> Step {
    let Some(memory) = stored_memory(policy, receipt) else {
        return Step::Park;
    };
    let Some((from, until)) = window(receipt, memory, policy.margin) else {
        return Step::Park;
    };
    if now < from || now >= until {
        return Step::Park;
    }
    if budget_used >= policy.attempts_max { Step::Exhausted } else { Step::Rerun { from, until } }
}

/// The memory that a rerun may rest on: the route's, and never more than what was stored with any admission in doubt. An attempt
/// that was admitted under another contract, or went under another key than the rerun's, was not promised to be deduplicated.
fn stored_memory(policy: &Policy, receipt: &Receipt) -> Option<Duration> {
    let Contract::DestinationDeduplicates { memory, .. } = &policy.contract else {
        return None;
    };
    let newest = receipt.next_key_generation(FreshKey::Never);
    receipt.undecided().iter().try_fold(*memory, |least, attempt| {
        let admission = receipt.admissions().get(attempt).filter(|admission| admission.key_generation == newest)?;
        Some(least.min(admission.memory?))
    })
}

/// The wall-clock bounds of a rerun: from the latest time noted to the end of the memory, less the margin, since the first admission
/// under the newest key.
fn window(receipt: &Receipt, memory: Duration, margin: Duration) -> Option<(UnixMillis, UnixMillis)> {
    let generation = receipt.admissions().values().map(|admission| admission.key_generation).max()?;
    let under_key = receipt.admissions().values().filter(|admission| admission.key_generation == generation);
    let first = under_key.map(|admission| admission.at).min()?;
    let length = i64::try_from(millis(memory.saturating_sub(margin))).unwrap_or(i64::MAX);
    Some((receipt.latest()?, UnixMillis(first.0.saturating_add(length))))
}

/// The attempts for which a lookup that started at `started` and found nothing is proof of absence: their futures had ended, their
/// facts were durable, and the quiet period was over by then.
#[must_use]
pub fn provable(
    attempts: &BTreeSet<AttemptId>, future: impl Fn(AttemptId) -> Future, quiet: Duration, started: Monotonic,
) -> BTreeSet<AttemptId> {
    attempts.iter().copied().filter(|attempt| quiet_until(future(*attempt), quiet).is_some_and(|until| started >= until)).collect()
}

/// When the quiet period of an attempt is over; none while its future lives or its fact is on the way.
#[must_use]
pub fn quiet_until(future: Future, quiet: Duration) -> Option<Monotonic> {
    match future {
        Future::Alive | Future::FactPending => None,
        Future::EndedAt(end) => Some(end.after(quiet)),
    }
}

/// Why a verdict is refused for now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Wait until it has ended, at the latest at `detached_max`.
    #[error("attempt {} still runs; its answer may come any moment", .attempt.number)]
    StillRuns {
        /// The attempt.
        attempt: AttemptId,
    },
    /// Ask again in a moment.
    #[error("attempt {} has ended and its fact is being written", .attempt.number)]
    FactPending {
        /// The attempt.
        attempt: AttemptId,
    },
    /// Wait, or say why no request can land any more.
    #[error("a lost request of attempt {} can still land for {} ms; say --cannot-land-any-more REASON if you know better", .attempt.number, .left.as_millis())]
    Quiet {
        /// The attempt.
        attempt: AttemptId,
        /// How long the quiet period still lasts.
        left: Duration,
    },
}

/// Whether the author of a verdict vouches that no request is on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Vouched {
    /// A person said why no request can land any more. It shortens the quiet period, never a living future.
    CannotLand,
    /// Nobody did.
    No,
}

/// Whether `ruling` may be given now. "Applied" always may: it is evidence. "Not done" and "rejected" may not while a future lives,
/// while its fact is not durable, or before the quiet period is over.
///
/// # Errors
/// Names the attempt that stands in the way.
pub fn may_rule(
    ruling: &Ruling, attempts: &BTreeSet<AttemptId>, future: impl Fn(AttemptId) -> Future, quiet: Duration, vouched: &Vouched,
    now: Monotonic,
) -> Result<(), Refusal> {
    if !matches!(ruling, Ruling::NotDone | Ruling::Rejected) {
        return Ok(());
    }
    for attempt in attempts.iter().copied() {
        match future(attempt) {
            Future::Alive => return Err(Refusal::StillRuns { attempt }),
            Future::FactPending => return Err(Refusal::FactPending { attempt }),
            Future::EndedAt(end) if *vouched == Vouched::No && now < end.after(quiet) => {
                return Err(Refusal::Quiet { attempt, left: Duration::from_millis(end.after(quiet).0 - now.0) });
            }
            Future::EndedAt(_) => {}
        }
    }
    Ok(())
}
