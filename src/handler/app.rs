//! Owns the app: topics with their routes, and the state that handlers share. It runs nothing.

use super::{build, check::Error, plan::Declared, route::Route, routes::Routes};

/// The routes of a program whose handlers share an `S`.
///
/// ```
/// # use receipted::prelude::*;
/// # async fn charge(op: Operation) -> Result<Applied, Failure> { Ok(Applied::new(op.provider_key(), ())) }
/// let charges = operation("charge.v1").tenant(header("tenant")).id(json("/id")).fingerprint(whole_value()).handle(charge);
/// // One operation, whichever topic its records come from: a charge of both is made once.
/// let app = App::new().topic("payments", charges.clone()).topic("payments.retry", charges);
/// assert_eq!(app.with_state(()).build()?.operations().len(), 1);
/// # Ok::<(), receipted::handler::BuildError>(())
/// ```
#[must_use = "an app without its state does nothing: `.with_state(..)`"]
pub struct App<S = ()> {
    pub(super) topics: Vec<(String, Route<S>)>,
}

impl<S: Send + Sync + 'static> App<S> {
    /// An app without topics.
    #[allow(clippy::new_without_default, reason = "an app without topics is refused")]
    pub fn new() -> Self {
        Self { topics: Vec::new() }
    }

    /// What happens to the records of a topic.
    pub fn topic(mut self, name: impl Into<String>, route: Route<S>) -> Self {
        self.topics.push((name.into(), route));
        self
    }

    /// Checks everything that was declared, and says what each operation declares. Needs no state: nothing is connected.
    ///
    /// # Errors
    /// The first declaration that does not hold, with topic, operation and remedy.
    pub fn declared(&self) -> Result<Vec<Declared>, Error> {
        build::declared(self)
    }

    /// Gives it the state of its handlers. `()` where they share none.
    pub fn with_state(self, state: S) -> ReadyApp<S> {
        ReadyApp { app: self, state }
    }
}

/// An app with its state.
///
/// ```
/// # use receipted::prelude::*;
/// # #[derive(Clone)] struct Bank { url: &'static str }
/// # async fn charge(State(bank): State<Bank>) -> Result<Applied, Failure> { Ok(Applied::new(bank.url, ())) }
/// /// What `main` runs, and what tests build against a bank of their own.
/// fn app(bank: Bank) -> ReadyApp<Bank> {
///     let charge = operation("charge.v1").tenant(fixed("acme")).id(json("/id")).fingerprint(whole_value()).handle(charge);
///     App::new().topic("payments", charge).with_state(bank)
/// }
/// assert!(app(Bank { url: "http://localhost" }).build().is_ok());
/// ```
#[must_use = "run it, or build its routes"]
pub struct ReadyApp<S> {
    app: App<S>,
    state: S,
}

impl<S: Send + Sync + 'static> ReadyApp<S> {
    /// Checks everything that was declared, and makes the form that a runner uses.
    ///
    /// # Errors
    /// The first declaration that does not hold, with topic, operation and remedy.
    pub fn build(self) -> Result<Routes, Error> {
        build::build(&self.app, self.state)
    }
}
