//! Owns what a lookup's answer is good for: which attempts it settles and how, and which are owed another look. When the destination
//! is asked is the machine's; that an answer stands is the writer's.

use super::{
    doubt::{Future, provable},
    known::fits,
    note::{Applied, AttemptId, Author, Ruling},
    outcome::Finding,
    receipt::{Receipt, State},
    time::Monotonic,
};
use std::{collections::BTreeSet, time::Duration};

/// A lookup that has answered: when it started, and what holds meanwhile.
#[derive(Debug, Clone, Copy)]
pub struct Look<F> {
    /// When it started: only what was over by then is proved by it.
    pub started: Monotonic,
    /// What this process knows of an attempt's future.
    pub future: F,
    /// How long a lost request can still land.
    pub quiet: Duration,
    /// When the last *not done* or *rejected* was given, or this process began.
    pub ruled: Monotonic,
    /// The generation of the provider key that it asked with: it says nothing of attempts under another key.
    pub generation: u32,
}

impl<F: Fn(AttemptId) -> Future> Look<F> {
    /// The verdicts that `finding` is good for, in the order in which they are to be written, together. None when it proves nothing.
    ///
    /// Every effect that was not known is recorded. It settles the attempts in doubt where they can all be told to be covered by it
    /// (see [`covered`]). Not found is proof for the attempts that were quiet, and a second time confirms the first.
    #[must_use]
    pub fn verdicts(&self, receipt: &Receipt, finding: &Finding) -> Vec<(Ruling, BTreeSet<AttemptId>)> {
        let found: &[Applied] = match finding {
            Finding::Pending => return Vec::new(),
            Finding::Found(found) => found,
            Finding::NotFound => &[],
        };
        let (undecided, owed) = (self.under_key(receipt, receipt.undecided()), self.under_key(receipt, receipt.unconfirmed()));
        let new: Vec<&Applied> = found.iter().filter(|applied| is_new(receipt, applied)).collect();
        if !new.is_empty() {
            let of = if !undecided.is_empty() {
                let denied = self.under_key(receipt, receipt.denied()).len();
                covered(&undecided, denied, new.len(), &self.future, self.quiet, self.started)
            } else if owed.len() <= new.len() || self.confirms(receipt) {
                owed
            } else {
                BTreeSet::new()
            };
            return new.into_iter().map(|applied| (Ruling::Applied(applied.clone()), of.clone())).collect();
        }
        let proved = provable(&undecided, &self.future, self.quiet, self.started);
        let verdict = match found.first() {
            _ if proved.is_empty() => (Ruling::NotDone, if self.confirms(receipt) { owed } else { proved }),
            // The effect is known, and no other can land: the attempts beside it are settled by the same.
            Some(known) if proved == undecided => (Ruling::Applied(known.clone()), undecided),
            Some(_) => return Vec::new(),
            None => (Ruling::NotDone, proved),
        };
        let stands = !verdict.1.is_empty() && fits(receipt, &verdict.0, &verdict.1, &Author::Reconcile).is_ok();
        if stands { vec![verdict] } else { Vec::new() }
    }

    /// Whether it is the second look that confirms an earlier *not done* where it shows nothing new: every attempt without a fact of
    /// its own had ended, and was quiet; and so long again had passed since that verdict.
    fn confirms(&self, receipt: &Receipt) -> bool {
        let open = self.under_key(receipt, receipt.without_fact());
        self.started >= self.ruled.after(self.quiet) && provable(&open, &self.future, self.quiet, self.started) == open
    }

    fn under_key(&self, receipt: &Receipt, mut attempts: BTreeSet<AttemptId>) -> BTreeSet<AttemptId> {
        attempts.retain(|attempt| receipt.admissions().get(attempt).is_none_or(|own| own.key_generation == self.generation));
        attempts
    }
}

/// The attempts in doubt that so many effects settle, seen by somebody who began to look at `started`. All of them, where there is one
/// for each, and for each of the `denied`, whose effect it may be just as well; or where it was late enough to see every effect that
/// there will be. Else none: the operation is applied, and the attempts stay to be asked about, so that an effect that lands later is
/// not taken for the one that was found.
#[must_use]
pub fn covered(
    undecided: &BTreeSet<AttemptId>, denied: usize, effects: usize, future: impl Fn(AttemptId) -> Future, quiet: Duration,
    started: Monotonic,
) -> BTreeSet<AttemptId> {
    let all = undecided.len() + denied <= effects || provable(undecided, future, quiet, started) == *undecided;
    if all { undecided.clone() } else { BTreeSet::new() }
}

/// An effect without a reference is told from none, and not from another.
fn is_new(receipt: &Receipt, found: &Applied) -> bool {
    match &found.reference {
        Some(reference) => !receipt.effects().references.contains(reference),
        None => !matches!(receipt.state(), State::Applied(_)),
    }
}
