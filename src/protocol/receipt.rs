//! Owns what is known about one operation: a growing set of notes, and the state that is computed from it. Order, repetition and
//! merging do not change the state (DESIGN 3). It does not decide what to do; `decision` does.

use super::{
    note::{Admission, Applied, AttemptId, Doubt, DoubtReason, Fact, Reference, Ruling, Slot, Verdict},
    policy::FreshKey,
    time::UnixMillis,
};
use litemap::LiteMap;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// What the store holds about an operation. Only ever added to. Nearly every operation has one admission and one fact, and there are
/// many: sorted lists take what they hold, where a tree allocates whole nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Receipt {
    /// Shared: states before and after have most of them in common.
    admissions: LiteMap<AttemptId, Arc<Admission>>,
    facts: LiteMap<AttemptId, Vec<Fact>>,
    doubts: BTreeMap<AttemptId, Doubt>,
    verdicts: BTreeSet<Verdict>,
}

/// The state of an operation: a function of its receipt alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State<'a> {
    /// Nothing is known.
    New,
    /// These attempts may have had their effect and nobody has proved either way.
    InDoubt(BTreeSet<AttemptId>),
    /// The effect happened.
    Applied(&'a Applied),
    /// Refused for good; no attempt can have had the effect.
    Rejected(&'a str),
    /// Every earlier attempt certainly had no effect.
    Retryable,
}

impl State<'_> {
    /// The name that listings use.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Self::New => "new",
            Self::InDoubt(_) => "in_doubt",
            Self::Applied(_) => "applied",
            Self::Rejected(_) => "rejected",
            Self::Retryable => "retryable",
        }
    }

    /// Applied or rejected.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        matches!(self, Self::Applied(_) | Self::Rejected(_))
    }
}

/// One statement about what an attempt did, from a fact or a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    Applied,
    Rejected,
    Nothing,
}

/// How often the outside world changed for one operation.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Effects {
    /// The different references.
    pub references: BTreeSet<Reference>,
    /// Attempts that say they made an effect without a reference. Not those that say the destination had it already, and one
    /// fewer for each verdict that found an effect of theirs under its reference.
    pub unnamed: BTreeSet<AttemptId>,
}

impl Effects {
    /// Effects beyond the first that certainly happened: different references.
    #[must_use]
    pub fn extra_certain(&self) -> usize {
        self.references.len().saturating_sub(1)
    }

    /// Effects beyond the first that may have happened: applied attempts without a reference beside another.
    #[must_use]
    pub fn extra_suspected(&self) -> usize {
        (self.references.len() + self.unnamed.len()).saturating_sub(1) - self.extra_certain()
    }
}

impl Receipt {
    /// Adds an admission. The same attempt is admitted once; a second note of it changes nothing.
    pub fn admit(&mut self, attempt: AttemptId, admission: impl Into<Arc<Admission>>) {
        reserve_first(&mut self.admissions);
        self.admissions.try_insert(attempt, admission.into());
    }

    /// Adds a fact.
    pub fn learn(&mut self, attempt: AttemptId, fact: Fact) {
        match self.facts.get_mut(&attempt) {
            Some(facts) => {
                if let Err(at) = facts.binary_search(&fact) {
                    facts.insert(at, fact);
                }
            }
            None => {
                reserve_first(&mut self.facts);
                self.facts.insert(attempt, vec![fact]);
            }
        }
    }

    /// Adds a doubt. The first reason of an attempt stays.
    pub fn doubt(&mut self, attempt: AttemptId, doubt: Doubt) {
        self.doubts.entry(attempt).or_insert(doubt);
    }

    /// Adds a verdict.
    pub fn rule(&mut self, verdict: Verdict) {
        self.verdicts.insert(verdict);
    }

    /// Adds everything that `other` knows: a set union. Of two doubts about one attempt the earlier stays, so that the order of
    /// joins does not matter.
    pub fn join(&mut self, other: &Self) {
        for (attempt, admission) in &other.admissions {
            match self.admissions.get_mut(attempt) {
                Some(own) if admission < own => own.clone_from(admission),
                Some(_) => {}
                None => self.admit(*attempt, admission.clone()),
            }
        }
        for (attempt, fact) in other.facts.iter().flat_map(|(attempt, facts)| facts.iter().map(move |fact| (attempt, fact))) {
            self.learn(*attempt, fact.clone());
        }
        for (attempt, doubt) in &other.doubts {
            let own = self.doubts.entry(*attempt).or_insert_with(|| doubt.clone());
            if (doubt.at, doubt) < (own.at, &*own) {
                own.clone_from(doubt);
            }
        }
        self.verdicts.extend(other.verdicts.iter().cloned());
    }

    /// How many notes it holds. The set only grows, so that equal counts of one operation mean the same set.
    #[must_use]
    pub fn notes(&self) -> usize {
        self.admissions.len() + self.facts.values().map(Vec::len).sum::<usize>() + self.doubts.len() + self.verdicts.len()
    }

    /// The state: the first line of DESIGN 3 that holds.
    #[must_use]
    pub fn state(&self) -> State<'_> {
        if let Some(applied) = self.applied() {
            return State::Applied(applied);
        }
        let undecided = self.undecided();
        if !undecided.is_empty() {
            return State::InDoubt(undecided);
        }
        if let Some(reason) = self.rejection() {
            return State::Rejected(reason);
        }
        if self.admissions.is_empty() && self.facts.is_empty() && self.verdicts.is_empty() {
            return State::New;
        }
        State::Retryable
    }

    /// Admitted attempts without fact or verdict, also of an applied operation (*superseded, unproved*).
    #[must_use]
    pub fn undecided(&self) -> BTreeSet<AttemptId> {
        self.admissions.keys().copied().filter(|attempt| self.said(*attempt).next().is_none()).collect()
    }

    /// Whether there is an undecided attempt.
    #[must_use]
    pub fn has_undecided(&self) -> bool {
        self.admissions.keys().any(|attempt| self.said(*attempt).next().is_none())
    }

    /// Undecided attempts whose doubt is noted, while the operation is not applied: what the gauge `unresolved` counts.
    #[must_use]
    pub fn unresolved(&self) -> BTreeMap<AttemptId, DoubtReason> {
        if self.doubts.is_empty() || self.applied().is_some() {
            return BTreeMap::new();
        }
        self.undecided().into_iter().filter_map(|attempt| Some((attempt, self.doubts.get(&attempt)?.reason))).collect()
    }

    /// The evidence that the effect happened: the one without *already* first, so that joins do not change the answer.
    #[must_use]
    pub fn applied(&self) -> Option<&Applied> {
        let mut all = self.all_applied().map(|(_, applied)| applied);
        let first = all.next()?;
        Some(all.fold(first, |best, other| if (other.already, other) < (best.already, best) { other } else { best }))
    }

    /// Whether evidence contradicts evidence: a verdict said "not done" or "rejected" of an attempt that was applied.
    #[must_use]
    pub fn is_disputed(&self) -> bool {
        let negative = self.verdicts.iter().filter(|v| matches!(v.ruling, Ruling::NotDone | Ruling::Rejected));
        let mut denied = negative.flat_map(|v| v.attempts.iter().copied());
        denied.any(|attempt| self.said(attempt).any(|said| said == Said::Applied))
    }

    /// Attempts whose absence rests on a single verdict *not done* or *rejected*, with nothing that contradicts it: a destination that
    /// can be asked is asked once more, another quiet period later, and a second *not done* confirms. Durable, so that a crash between
    /// the two forgets nothing.
    #[must_use]
    pub fn unconfirmed(&self) -> BTreeSet<AttemptId> {
        self.denials().into_iter().filter(|(_, times)| *times == 1).map(|(attempt, _)| attempt).collect()
    }

    /// Attempts whose absence rests on verdicts alone, however many: an effect that is found may yet be one of theirs.
    #[must_use]
    pub fn denied(&self) -> BTreeSet<AttemptId> {
        self.denials().into_keys().collect()
    }

    fn denials(&self) -> BTreeMap<AttemptId, usize> {
        let mut denials: BTreeMap<AttemptId, usize> = BTreeMap::new();
        for (attempt, _) in self.covered(|ruling| matches!(ruling, Ruling::NotDone | Ruling::Rejected)) {
            *denials.entry(attempt).or_default() += 1;
        }
        denials.retain(|attempt, _| !self.facts.contains_key(attempt) && self.said(*attempt).all(|said| said != Said::Applied));
        denials
    }

    /// Admitted attempts whose own handler has not said what became of them: those that a lookup must be late enough for.
    #[must_use]
    pub fn without_fact(&self) -> BTreeSet<AttemptId> {
        self.admissions.keys().filter(|attempt| !self.facts.contains_key(attempt)).copied().collect()
    }

    /// Whether more than one note speaks of an effect: only then can there be one beyond the first.
    #[must_use]
    pub(crate) fn may_have_extra(&self) -> bool {
        self.all_applied().nth(1).is_some()
    }

    /// Every effect that is known.
    #[must_use]
    pub fn effects(&self) -> Effects {
        let references = self.all_applied().filter_map(|(_, applied)| applied.reference.clone()).collect();
        let unnamed = |fact: &Fact| matches!(fact, Fact::Applied(applied) if applied.reference.is_none() && !applied.already);
        let mut unnamed: BTreeSet<AttemptId> =
            self.facts.iter().filter(|(_, facts)| facts.iter().any(unnamed)).map(|(attempt, _)| *attempt).collect();
        for verdict in self.verdicts.iter().filter(|v| matches!(&v.ruling, Ruling::Applied(found) if found.reference.is_some())) {
            if let Some(found) = verdict.attempts.iter().find(|attempt| unnamed.contains(attempt)) {
                unnamed.remove(found);
            }
        }
        Effects { references, unnamed }
    }

    /// The number of the next attempt.
    #[must_use]
    pub fn next_number(&self) -> u32 {
        let admitted = self.admissions.keys().chain(self.facts.keys()).map(|attempt| attempt.number).max();
        admitted.unwrap_or(0).saturating_add(1)
    }

    /// The generation of the provider key for the next attempt: the newest in use, raised by a verdict that says so, or by a stated
    /// *no effect* where the route wants that, about an attempt under it. Never raised while any attempt is in doubt: a new key would
    /// switch the destination's own protection off.
    #[must_use]
    pub fn next_key_generation(&self, fresh: FreshKey) -> u32 {
        let newest = self.admissions.values().map(|admission| admission.key_generation).max().unwrap_or(0);
        if self.state() != State::Retryable {
            return newest;
        }
        let no_effect = |attempt: &AttemptId| self.facts.get(attempt).is_some_and(|f| f.iter().any(|f| matches!(f, Fact::NoEffect(_))));
        let ruled = |attempt: &AttemptId| self.verdicts.iter().any(|v| v.fresh_key && v.attempts.contains(attempt));
        let mut under = self.admissions.iter().filter(|(_, admission)| admission.key_generation == newest).map(|(attempt, _)| attempt);
        let raised = under.any(|attempt| ruled(attempt) || (fresh == FreshKey::AfterNoEffect && no_effect(attempt)));
        newest.saturating_add(u32::from(raised))
    }

    /// Attempts of `slot` that count against its budget: those since the last verdict that began a new one, without those that are
    /// known not to have started.
    #[must_use]
    pub fn budget_used(&self, slot: &Slot) -> u32 {
        let fresh = self.covered(|ruling| matches!(ruling, Ruling::NotDone | Ruling::Reopened));
        let since = fresh.map(|(attempt, _)| attempt.number).max().unwrap_or(0);
        let started = |attempt: &AttemptId| self.facts.get(attempt).is_none_or(|facts| !facts.contains(&Fact::NotStarted));
        let used = self.admissions.iter().filter(|(a, admission)| a.number > since && admission.slot == *slot && started(a)).count();
        u32::try_from(used).unwrap_or(u32::MAX)
    }

    /// The parameters' digest: the first that an admission has.
    #[must_use]
    pub fn fingerprint(&self) -> Option<super::fingerprint::Fingerprint> {
        let mut all = self.admissions.values().map(|admission| admission.fingerprint);
        let first = all.clone().next();
        all.find(|fingerprint| *fingerprint != super::fingerprint::Fingerprint::Unchecked).or(first)
    }

    /// The latest wall-clock time that any note carries: an earlier reading means that the clock went backwards.
    #[must_use]
    pub fn latest(&self) -> Option<UnixMillis> {
        let admitted = self.admissions.values().map(|admission| admission.at);
        admitted.chain(self.doubts.values().map(|doubt| doubt.at)).chain(self.verdicts.iter().map(|verdict| verdict.at)).max()
    }

    /// The admissions by attempt.
    #[must_use]
    pub fn admissions(&self) -> &LiteMap<AttemptId, Arc<Admission>> {
        &self.admissions
    }

    /// The facts by attempt, each in order.
    #[must_use]
    pub fn facts(&self) -> &LiteMap<AttemptId, Vec<Fact>> {
        &self.facts
    }

    /// The doubts by attempt.
    #[must_use]
    pub fn doubts(&self) -> &BTreeMap<AttemptId, Doubt> {
        &self.doubts
    }

    /// The verdicts.
    #[must_use]
    pub fn verdicts(&self) -> &BTreeSet<Verdict> {
        &self.verdicts
    }

    /// Whether any attempt has a rejection that was taken back and none that stands.
    #[must_use]
    pub fn is_reopened(&self) -> bool {
        self.verdicts.iter().any(|verdict| verdict.ruling == Ruling::Reopened) && self.state() == State::Retryable
    }

    fn all_applied(&self) -> impl Iterator<Item = (Option<AttemptId>, &Applied)> {
        let facts = self.facts.iter().flat_map(|(attempt, facts)| facts.iter().map(move |fact| (Some(*attempt), fact)));
        let facts = facts.filter_map(|(attempt, fact)| if let Fact::Applied(applied) = fact { Some((attempt, applied)) } else { None });
        let verdicts = self.verdicts.iter().filter_map(|verdict| match &verdict.ruling {
            Ruling::Applied(applied) => Some((None, applied)),
            _ => None,
        });
        facts.chain(verdicts)
    }

    fn rejection(&self) -> Option<&str> {
        self.standing_rejections().next().map(|(_, reason)| reason)
    }

    /// Attempts whose rejection was not taken back: what a verdict *reopened* names.
    #[must_use]
    pub fn rejected(&self) -> BTreeSet<AttemptId> {
        self.standing_rejections().map(|(attempt, _)| attempt).collect()
    }

    fn standing_rejections(&self) -> impl Iterator<Item = (AttemptId, &str)> {
        let reopened: BTreeSet<AttemptId> = self.covered(|ruling| *ruling == Ruling::Reopened).map(|(attempt, _)| attempt).collect();
        let facts = self.facts.iter().flat_map(|(attempt, facts)| facts.iter().map(move |fact| (*attempt, fact)));
        let facts =
            facts.filter_map(|(attempt, fact)| if let Fact::Rejected(reason) = fact { Some((attempt, reason.as_str())) } else { None });
        let ruled = self.covered(|ruling| *ruling == Ruling::Rejected).map(|(attempt, verdict)| (attempt, verdict.reason.as_str()));
        facts.chain(ruled).filter(move |(attempt, _)| !reopened.contains(attempt))
    }

    fn covered(&self, which: impl Fn(&Ruling) -> bool) -> impl Iterator<Item = (AttemptId, &Verdict)> {
        let verdicts = self.verdicts.iter().filter(move |verdict| which(&verdict.ruling));
        verdicts.flat_map(|verdict| verdict.attempts.iter().map(move |attempt| (*attempt, verdict)))
    }

    fn said(&self, attempt: AttemptId) -> impl Iterator<Item = Said> {
        let facts = self.facts.get(&attempt).into_iter().flatten().map(|fact| match fact {
            Fact::Applied(_) => Said::Applied,
            Fact::Rejected(_) => Said::Rejected,
            Fact::NoEffect(_) | Fact::NotStarted => Said::Nothing,
        });
        let verdicts = self.verdicts.iter().filter(move |verdict| verdict.attempts.contains(&attempt));
        // Reopened takes a rejection back and says nothing about the effect.
        let verdicts = verdicts.filter_map(|verdict| match verdict.ruling {
            Ruling::Applied(_) => Some(Said::Applied),
            Ruling::Rejected => Some(Said::Rejected),
            Ruling::NotDone => Some(Said::Nothing),
            Ruling::Reopened => None,
        });
        facts.chain(verdicts)
    }
}

/// Room for exactly one: most maps never hold more.
fn reserve_first<V>(map: &mut LiteMap<AttemptId, V>) {
    if map.is_empty() {
        map.reserve(1);
    }
}
