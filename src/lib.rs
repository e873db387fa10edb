//! receipted: business operations behind Kafka take effect once, and the doubtful ones are listed.
//!
//! A record arrives; the business operation that it carries is looked up by a key of yours; the attempt is admitted durably; your handler
//! runs; what it says becomes a durable fact; only then does the offset move. A repeat is answered from the receipt. An attempt whose
//! answer got lost is *unresolved*: it is never run again silently, it is asked about, or shown to a person.
//!
//! # A handler
//!
//! A plain `async fn`. Its arguments are made of the record and of your state, in any order ([`Json`], [`Raw`], [`Headers`], [`State`],
//! [`Operation`], or your own [`FromDelivery`]). `Ok` says that the effect happened; `Err` says what is known instead:
//!
//! ```
//! use receipted::prelude::*;
//! # #[derive(serde::Deserialize)] struct Charge { account: String, cents: u64 }
//! # #[derive(serde::Serialize)] struct Charged { cents: u64 }
//! # #[derive(Clone)] struct Bank;
//! # type BankError = std::io::Error;
//! # impl Bank {
//! #     async fn limit(&self, _: &str) -> Result<u64, BankError> { Ok(1000) }
//! #     async fn charge(&self, key: &str, _: &Charge) -> Result<String, BankError> { Ok(key.into()) }
//! # }
//!
//! async fn charge(op: Operation, Json(c): Json<Charge>, State(bank): State<Bank>) -> Result<Applied<Charged>, Failure> {
//!     let limit = bank.limit(&c.account).await.no_effect()?; // before the effect: certain, try later
//!     if c.cents > limit {
//!         return Err(Failure::rejected("over the limit")); // certain, and final
//!     }
//!     let id = bank.charge(op.provider_key(), &c).await?; // a bare `?` means: we cannot tell
//!     Ok(Applied::new(&id, Charged { cents: c.cents })) // the destination's reference, and the answer for repeats
//! }
//! # let _: Route<Bank> = operation("charge.v1").tenant(fixed("a")).id(json("/id")).fingerprint(whole_value()).handle(charge);
//! ```
//!
//! Claiming that nothing happened takes a word: `.no_effect()?` or `.rejected()?`. Every other error, a panic, a timeout: unknown. An
//! error enum of your own says it variant by variant, where the handler *returns* it:
//!
//! ```
//! # use receipted::prelude::*;
//! enum PayError {
//!     OverTheLimit,
//!     NoAnswer(std::io::Error),
//! }
//!
//! impl IntoFailure for PayError {
//!     fn into_failure(self) -> Failure {
//!         match self {
//!             PayError::OverTheLimit => Failure::rejected("over the limit"),
//!             PayError::NoAnswer(error) => Failure::unknown(error),
//!         }
//!     }
//! }
//!
//! async fn pay(op: Operation) -> Result<Applied, PayError> {
//!     # if op.attempt() > 9 { return Err(PayError::OverTheLimit); }
//!     # if op.attempt() > 8 { return Err(PayError::NoAnswer(std::io::Error::other("lost"))); }
//!     Ok(Applied::without_reference(()))
//! }
//! # let _: Route<()> = operation("pay.v1").tenant(fixed("a")).id(json("/id")).fingerprint(whole_value()).handle(pay);
//! ```
//!
//! (In a handler that returns [`Failure`], a bare `?` on `PayError` would be unknown, like any error.) A handler must not spawn work that
//! outlives it: what happens after its answer has no receipt.
//!
//! # A lookup
//!
//! Asked about an attempt whose outcome nobody knows. It only looks; a lookup that fails is no evidence, and "not found" is proof only
//! after the quiet period, when a lost request can no longer land:
//!
//! ```
//! # use receipted::prelude::*;
//! # #[derive(Clone)] struct Bank;
//! # impl Bank { async fn find(&self, _: &str) -> Result<Option<String>, std::io::Error> { Ok(None) } }
//! async fn find_charge(op: Operation, State(bank): State<Bank>) -> Result<Finding, std::io::Error> {
//!     Ok(match bank.find(op.provider_key()).await? {
//!         Some(id) => Finding::Found(Applied::new(id, ())),
//!         None => Finding::NotFound,
//!     })
//! }
//! # let _ = ask::<Bank, _, _>(find_charge);
//! ```
//!
//! # Routes
//!
//! A route says which operation a record carries and what holds for it. Tenant, id and fingerprint are required, in any order; what is
//! missing is named by the compiler. The key is made of the business: a function as a part of it sees a [`Record`] without partition,
//! offset and time, so that a repeat cannot get another key.
//!
//! ```
//! # use receipted::prelude::*;
//! # use std::time::Duration;
//! # #[derive(Clone)] struct Bank;
//! # async fn charge(op: Operation) -> Result<Applied, Failure> { Ok(Applied::new(op.provider_key(), ())) }
//! # async fn ship() -> Result<Applied, Failure> { Ok(Applied::without_reference(())) }
//! # async fn find_charge(op: Operation) -> Result<Finding, std::io::Error> { Ok(Finding::NotFound) }
//! fn app() -> App<Bank> {
//!     App::new()
//!         .topic(
//!             "payments",
//!             by(header("type"))
//!                 .on(
//!                     "charge",
//!                     operation("charge.v1")
//!                         .tenant(header("tenant"))
//!                         .id(json("/charge_id"))
//!                         .fingerprint(json_fields(["/account", "/cents"])) // must not change under one id
//!                         .in_doubt(ask(find_charge).after_quiet(Duration::from_mins(2)))
//!                         .handle(charge),
//!                 )
//!                 .otherwise(dead_letter()),
//!         )
//!         .topic(
//!             "shipments",
//!             operation("ship.v1")
//!                 .tenant(fixed("acme"))
//!                 .id([json("/order"), json("/line")]) // several parts, never joined
//!                 .fingerprint(whole_value())
//!                 .handle(ship), // `hold()`: what is in doubt waits for a person
//!         )
//! }
//! # let routes = app().with_state(Bank).build().unwrap();
//! # assert_eq!(routes.operations().len(), 2);
//! ```
//!
//! What becomes of an attempt in doubt is the route's contract: [`hold()`](handler::hold), [`ask()`](handler::ask), or
//! [`destination_deduplicates()`](handler::destination_deduplicates), which runs the handler again for as long as the destination promises
//! to recognise `op.provider_key()`.
//!
//! # A test
//!
//! [`testing`] takes a record through its key, its arguments and its handler, without a broker:
//!
//! ```
//! # use receipted::prelude::*;
//! use receipted::testing::{block_on, deliver, record};
//!
//! # async fn ship() -> Result<Applied, Failure> { Ok(Applied::without_reference(())) }
//! # let app = App::new().topic(
//! #     "shipments",
//! #     operation("ship.v1").tenant(fixed("acme")).id([json("/order"), json("/line")]).fingerprint(whole_value()).handle(ship),
//! # );
//! let routes = app.with_state(()).build()?;
//! let became = block_on(deliver(&routes, "shipments", record().value(r#"{"order":"o-1","line":1}"#)));
//! assert_eq!(became.label(), "applied");
//!
//! let became = block_on(deliver(&routes, "shipments", record().value(r#"{"order":"o-1"}"#)));
//! assert_eq!(became.label(), "dead_lettered"); // id[1] (json "/line"): the value has no such field
//! # Ok::<(), receipted::handler::BuildError>(())
//! ```
//!
//! [`Failure`]: handler::Failure
//! [`FromDelivery`]: handler::FromDelivery
//! [`Headers`]: handler::Headers
//! [`Json`]: handler::Json
//! [`Operation`]: handler::Operation
//! [`Raw`]: handler::Raw
//! [`Record`]: handler::Record
//! [`State`]: handler::State

// For the product alone: tests unwrap, and their functions need no documentation.
#![warn(missing_docs, clippy::unwrap_used, clippy::expect_used)]

#[cfg(feature = "kafka")]
pub mod admin;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "kafka")]
pub mod config;
#[cfg(any(feature = "kafka", feature = "sled"))]
mod crash;
pub mod handler;
pub mod prelude;
pub mod protocol;
#[cfg(feature = "kafka")]
pub mod runner;
pub mod store;
#[cfg(feature = "kafka")]
pub mod telemetry;
pub mod testing;

#[cfg(feature = "cli")]
pub use cli::{main, serve};
#[cfg(feature = "kafka")]
pub use config::Config;

/// The examples of the README, compiled.
#[cfg(all(doctest, feature = "cli"))]
#[doc = include_str!("../README.md")]
pub struct Readme;

/// The program of the first day.
#[cfg(all(doctest, feature = "cli"))]
#[doc = include_str!("../docs/FIRST_DAY.md")]
pub struct FirstDayPage;

/// Those of the page about tests.
#[cfg(all(doctest, feature = "kafka"))]
#[doc = include_str!("../docs/TESTING.md")]
pub struct TestingPage;

/// Those of the page about handlers.
#[cfg(doctest)]
#[doc = include_str!("../docs/HANDLERS.md")]
pub struct HandlersPage;
