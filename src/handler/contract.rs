//! Owns how a team declares what becomes of an attempt in doubt. The rules that follow from it are `protocol::doubt`.

use super::{
    function::{Arguments, Code, Function, Prepare, prepare},
    outcome::{IntoFinding, Looked},
};
use crate::protocol::policy::{self, Policy};
use std::time::Duration;

/// What becomes of an attempt in doubt.
///
/// ```
/// # use receipted::{handler::Contract, prelude::*};
/// # use std::time::Duration;
/// # async fn find(op: Operation) -> Result<Finding, std::io::Error> { Ok(Finding::NotFound) }
/// /// What the bank promises: it knows a key for a day; its search shows a payment within two minutes.
/// fn bank() -> Contract<()> {
///     let searched = ask(find).after_quiet(Duration::from_mins(2));
///     destination_deduplicates(Duration::from_hours(24)).then(searched)
/// }
/// # async fn charge(op: Operation) -> Result<Applied, Failure> { Ok(Applied::new(op.provider_key(), ())) }
/// let charge = operation("charge.v1").tenant(fixed("a")).id(json("/id")).fingerprint(whole_value()).in_doubt(bank()).handle(charge);
/// # assert!(App::new().topic("payments", charge).declared().is_ok());
/// ```
#[must_use = "give it to `.in_doubt(..)`"]
pub struct Contract<S>(pub(super) InDoubt<S>);

pub(super) enum InDoubt<S> {
    Hold { quiet: Duration },
    Ask { lookup: Lookup<S>, quiet: Duration },
    Rerun { memory: Duration, margin: Option<Duration>, then: Box<Contract<S>> },
}

pub(super) struct Lookup<S> {
    pub(super) code: Code,
    pub(super) prepare: Prepare<S, Looked>,
}

/// Parks it for a person, who cannot say "not done" before two minutes have passed (see [`Contract::after_quiet`]).
pub fn hold<S>() -> Contract<S> {
    Contract(InDoubt::Hold { quiet: Policy::default().contract.quiet() })
}

/// Parks it and asks the destination, through the team's own lookup, which only looks.
pub fn ask<S, L, A>(lookup: L) -> NeedsQuiet<S>
where
    L: Function<A, Output: Future<Output: IntoFinding> + Send>,
    A: Arguments<S>,
{
    NeedsQuiet(Lookup { code: Code::of::<L>(), prepare: prepare(lookup, IntoFinding::into_finding) })
}

/// **Runs the handler again**: the destination promises that a second use of `op.provider_key()` has no second effect, for so long.
/// Refused at build where the handler takes no `Operation`, for it cannot pass the key on.
pub fn destination_deduplicates(memory: Duration) -> NeedsThen {
    NeedsThen { memory, margin: None }
}

/// A contract that needs `.after_quiet(..)`.
///
/// See [`Contract`].
#[must_use = "say how long a lost request can still land: `.after_quiet(..)`"]
pub struct NeedsQuiet<S>(Lookup<S>);

impl<S> NeedsQuiet<S> {
    /// How long a lost request can still land, and how long the destination takes to show it. Until then, not found is no proof.
    pub fn after_quiet(self, quiet: Duration) -> Contract<S> {
        Contract(InDoubt::Ask { lookup: self.0, quiet })
    }
}

/// A contract that needs `.then(..)`.
///
/// See [`Contract`].
#[must_use = "say what holds once the destination has forgotten: `.then(..)`"]
pub struct NeedsThen {
    memory: Duration,
    margin: Option<Duration>,
}

impl NeedsThen {
    /// How much before the end of the memory the last rerun must start: at least the time that an attempt may live and its request may
    /// be on its way (`detached_max` and the quiet period), which is the default.
    pub fn margin(self, margin: Duration) -> Self {
        Self { margin: Some(margin), ..self }
    }

    /// What holds once the destination has forgotten.
    pub fn then<S>(self, contract: Contract<S>) -> Contract<S> {
        Contract(InDoubt::Rerun { memory: self.memory, margin: self.margin, then: Box::new(contract) })
    }
}

impl<S> Contract<S> {
    /// How long a lost request can still land: until then nobody may say "not done".
    pub fn after_quiet(self, quiet: Duration) -> Self {
        Self(match self.0 {
            InDoubt::Hold { .. } => InDoubt::Hold { quiet },
            InDoubt::Ask { lookup, .. } => InDoubt::Ask { lookup, quiet },
            InDoubt::Rerun { memory, margin, then } => InDoubt::Rerun { memory, margin, then: Box::new(then.after_quiet(quiet)) },
        })
    }

    /// The contract as the rules read it.
    pub(super) fn data(&self) -> policy::Contract {
        match &self.0 {
            InDoubt::Hold { quiet } => policy::Contract::Hold { quiet: *quiet },
            InDoubt::Ask { quiet, .. } => policy::Contract::Ask { quiet: *quiet },
            InDoubt::Rerun { memory, then, .. } => {
                policy::Contract::DestinationDeduplicates { memory: *memory, then: Box::new(then.data()) }
            }
        }
    }

    pub(super) fn lookup(&self) -> Option<&Lookup<S>> {
        match &self.0 {
            InDoubt::Hold { .. } => None,
            InDoubt::Ask { lookup, .. } => Some(lookup),
            InDoubt::Rerun { then, .. } => then.lookup(),
        }
    }
}
