//! Owns a destination for tests: a ledger that outlives the app under test, and answers as it is told to.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// How a destination takes one request.
///
/// [`Destination`] takes a script of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Answers {
    /// It books, and says so.
    #[default]
    AtOnce,
    /// It books, and says so that much later.
    Late(Duration),
    /// It books, and its answer is lost: an error that says nothing of the effect.
    Lost,
    /// It books, and never answers.
    Never,
    /// It books although it knows the key, and says so: a destination that does not deduplicate after all.
    Again,
    /// It does not book, and says so.
    Down,
}

/// Whether a key that was booked is known when it comes again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Memory {
    Keeps,
    None,
}

/// What was booked.
///
/// Of a [`Destination`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect {
    /// The key that the handler gave.
    pub key: String,
    /// What the handler booked.
    pub what: String,
    /// The ledger's own name of it: `ref-1`, `ref-2`, …
    pub reference: String,
}

/// What a destination said.
///
/// What a handler makes of it: [`Destination`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Booked {
    /// Booked with this request, under this reference.
    Now(String),
    /// The key was booked before, under this reference.
    Before(String),
}

/// Why a destination said nothing of use.
///
/// What a handler makes of each: [`Destination`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// Nobody knows what became of the effect: answer *unknown*.
    #[error("connection reset before the answer")]
    Unanswered,
    /// Certainly nothing: answer *no effect*.
    #[error("down for maintenance; nothing was booked")]
    Down,
}

/// A ledger with a script. Clones are the same ledger.
///
/// ```
/// use receipted::{prelude::*, testing::{Answers, Booked, Destination, Fault, block_on, deliver, record}};
///
/// async fn book(op: Operation, State(ledger): State<Destination>) -> Result<Applied, Failure> {
///     match ledger.book(op.provider_key(), "an invoice").await {
///         Ok(Booked::Now(number)) => Ok(Applied::new(number, ())),
///         Ok(Booked::Before(number)) => Ok(Applied::already(number, ())),
///         Err(down @ Fault::Down) => Err(down).no_effect(),
///         Err(lost) => Err(lost).unknown(),
///     }
/// }
///
/// let ledger = Destination::deduplicating();
/// # let book = operation("book.v1").tenant(fixed("acme")).id(json("/id")).fingerprint(whole_value()).handle(book);
/// # let routes = App::new().topic("invoices", book).with_state(ledger.clone()).build()?;
/// ledger.next([Answers::Lost, Answers::AtOnce]);
/// let invoice = || record().value(r#"{"id":"i-1"}"#);
/// assert_eq!(block_on(deliver(&routes, "invoices", invoice())).label(), "unknown");
/// assert_eq!(block_on(deliver(&routes, "invoices", invoice())).label(), "already");
/// assert_eq!(ledger.effects().len(), 1); // not what was answered: what happened
/// # Ok::<(), receipted::handler::BuildError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Destination {
    memory: Memory,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    script: VecDeque<Answers>,
    effects: Vec<Effect>,
    requests: usize,
}

impl Destination {
    /// One that books each key once, for ever.
    #[must_use]
    pub fn deduplicating() -> Self {
        Self { memory: Memory::Keeps, shared: Arc::default() }
    }

    /// One that books whatever comes.
    #[must_use]
    pub fn forgetful() -> Self {
        Self { memory: Memory::None, shared: Arc::default() }
    }

    /// Says how the next requests are taken, one after another; those behind them at once.
    pub fn next(&self, answers: impl IntoIterator<Item = Answers>) {
        self.lock().script.extend(answers);
    }

    /// Takes a request, as the script says.
    ///
    /// # Errors
    /// What a client would see.
    pub async fn book(&self, key: impl ToString, what: impl ToString) -> Result<Booked, Fault> {
        let (answers, booked) = self.take(key.to_string(), what.to_string());
        match answers {
            Answers::AtOnce | Answers::Again => {}
            #[cfg(feature = "kafka")]
            Answers::Late(by) => tokio::time::sleep(by).await,
            // Without a runtime there is no clock to wait by.
            #[cfg(not(feature = "kafka"))]
            Answers::Late(_) => {}
            Answers::Lost => return Err(Fault::Unanswered),
            Answers::Never => std::future::pending::<()>().await,
            Answers::Down => return Err(Fault::Down),
        }
        booked.ok_or(Fault::Down)
    }

    /// The reference that a key was booked under first: what a lookup asks.
    #[must_use]
    pub fn find(&self, key: &str) -> Option<String> {
        self.lock().effects.iter().find(|effect| effect.key == key).map(|effect| effect.reference.clone())
    }

    /// Everything that was booked, in its order: assert on this, not on what was answered.
    #[must_use]
    pub fn effects(&self) -> Vec<Effect> {
        self.lock().effects.clone()
    }

    /// How many requests came.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.lock().requests
    }

    fn take(&self, key: String, what: String) -> (Answers, Option<Booked>) {
        let mut shared = self.lock();
        shared.requests += 1;
        let answers = shared.script.pop_front().unwrap_or_default();
        let known = shared.effects.iter().find(|effect| effect.key == key).map(|effect| effect.reference.clone());
        let known = known.filter(|_| self.memory == Memory::Keeps && answers != Answers::Again);
        let booked = match (answers, known) {
            (Answers::Down, _) => None,
            (_, Some(reference)) => Some(Booked::Before(reference)),
            (_, None) => {
                let reference = format!("ref-{}", shared.effects.len() + 1);
                shared.effects.push(Effect { key, what, reference: reference.clone() });
                Some(Booked::Now(reference))
            }
        };
        (answers, booked)
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
