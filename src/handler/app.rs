//! Owns the app: topics with their routes, and the state that handlers share. It runs nothing.

use super::{build, check::Error, plan::Declared, route::Route, routes::Routes};

/// The routes of a program whose handlers share an `S`.
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
