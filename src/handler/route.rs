//! Owns what happens to the records of a topic: one operation, several told apart by a part of the record, or none. It does not own
//! how an operation is declared.

use super::{
    declaration::Declaration,
    part::{IntoPart, Part},
};
use crate::protocol::policy::Lanes;
use std::sync::Arc;

/// What happens to a record. Cheap to clone, so that two topics can share one.
///
/// ```
/// # use receipted::prelude::*;
/// # async fn move_money(op: Operation) -> Result<Applied, Failure> { Ok(Applied::new(op.provider_key(), ())) }
/// fn transfers() -> Route<()> {
///     operation("transfer.v1")
///         .tenant(header("tenant"))
///         .id(json("/id"))
///         .fingerprint(whole_value())
///         .handle(move_money)
///         .lanes(Lanes::Partition) // one after another, whatever their record keys
/// }
/// # assert!(App::new().topic("transfers", transfers()).declared().is_ok());
/// ```
#[must_use = "give it to `.topic(..)`, `.on(..)` or `.otherwise(..)`"]
pub struct Route<S> {
    pub(super) branch: Branch<S>,
    pub(super) lanes: Option<Lanes>,
}

pub(super) enum Branch<S> {
    Skip,
    DeadLetter,
    By(Arc<By<S>>),
    Run(Arc<Declaration<S>>),
}

pub(super) struct By<S> {
    pub(super) part: Part,
    pub(super) on: Vec<(&'static str, Route<S>)>,
    pub(super) otherwise: Route<S>,
}

impl<S> Route<S> {
    pub(super) fn of(declaration: Arc<Declaration<S>>) -> Self {
        Self { branch: Branch::Run(declaration), lanes: None }
    }

    /// In which order the topic's records are handled: one after another per record key, by default. Said of a topic's whole route.
    pub fn lanes(self, lanes: Lanes) -> Self {
        Self { lanes: Some(lanes), ..self }
    }
}

impl<S> Clone for Route<S> {
    fn clone(&self) -> Self {
        let branch = match &self.branch {
            Branch::Skip => Branch::Skip,
            Branch::DeadLetter => Branch::DeadLetter,
            Branch::By(by) => Branch::By(by.clone()),
            Branch::Run(declaration) => Branch::Run(declaration.clone()),
        };
        Self { branch, lanes: self.lanes }
    }
}

/// Leaves the record alone, counted.
pub fn skip<S>() -> Route<S> {
    Route { branch: Branch::Skip, lanes: None }
}

/// Sends the record to the dead letters.
pub fn dead_letter<S>() -> Route<S> {
    Route { branch: Branch::DeadLetter, lanes: None }
}

/// Tells several operations on one topic apart by a part of the record. A record without that part is invalid, not *otherwise*.
pub fn by<S>(part: impl IntoPart) -> NeedsOtherwise<S> {
    NeedsOtherwise { part: part.into_part(), on: Vec::new() }
}

/// A route that needs `.otherwise(..)`.
///
/// ```
/// # use receipted::prelude::*;
/// # async fn charge(op: Operation) -> Result<Applied, Failure> { Ok(Applied::new(op.provider_key(), ())) }
/// # let charge = operation("charge.v1").tenant(fixed("a")).id(json("/id")).fingerprint(whole_value()).handle(charge);
/// let route: Route<()> = by(header("type"))
///     .on("charge", charge)
///     .on("ping", skip())
///     .otherwise(dead_letter()); // a type that nobody thought of is looked at by a person
/// # assert!(App::new().topic("payments", route).declared().is_ok());
/// ```
#[must_use = "say what becomes of the values that it does not name: `.otherwise(skip())` or `.otherwise(dead_letter())`"]
pub struct NeedsOtherwise<S> {
    part: Part,
    on: Vec<(&'static str, Route<S>)>,
}

impl<S> NeedsOtherwise<S> {
    /// What happens to records with this value.
    pub fn on(mut self, value: &'static str, route: Route<S>) -> Self {
        self.on.push((value, route));
        self
    }

    /// What happens to records with any other value.
    pub fn otherwise(self, route: Route<S>) -> Route<S> {
        Route { branch: Branch::By(Arc::new(By { part: self.part, on: self.on, otherwise: route })), lanes: None }
    }
}
