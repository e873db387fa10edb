//! What a team writes: handlers, keys, contracts, routes and the app. Owns the way from a record to a prepared attempt and from a
//! handler's answer to an outcome. Does not own when anything runs, what is durable, or Kafka.

mod app;
#[cfg(feature = "tower")]
mod breaker;
mod build;
mod check;
mod contract;
mod correlation;
mod declaration;
mod extract;
mod formats;
mod function;
mod gate;
mod guard;
#[cfg(feature = "tower")]
pub mod layer;
mod link;
#[cfg(doctest)]
pub mod mistakes;
mod operation;
mod outcome;
mod parameters;
mod part;
mod plan;
mod pointers;
mod record;
mod reply;
mod route;
mod routes;

pub use app::{App, ReadyApp};
#[cfg(feature = "tower")]
pub use breaker::{Breaker, Breaking};
#[cfg(feature = "kafka")]
pub(crate) use check::is_topic_name;
pub use check::{Error as BuildError, Place};
pub use contract::{Contract, NeedsQuiet, NeedsThen, ask, destination_deduplicates, hold};
pub use correlation::{CORRELATION_BYTES_MAX, CORRELATION_HEADER};
pub use declaration::{ANSWER_BYTES_DEFAULT, Given, NeedsHandler, NoFingerprint, NoId, NoTenant, operation};
pub use extract::{FromDelivery, FromRef, Headers, Json, Raw, State};
pub use formats::{CloudEvent, Decode, Framed, Text, unframed};
pub use function::{Arguments, Attempt, BoxFuture, Function, Running};
#[cfg(feature = "kafka")]
pub(crate) use gate::Gated;
pub use gate::Ran;
#[cfg(feature = "tower")]
pub use layer::{AttemptLayer, Attempts, LayerFailure};
pub use operation::{AttemptInfo, Delivery, Operation, Replay};
pub use outcome::{Applied, BoxError, EffectExt, Failure, Finding, IntoFailure, IntoFinding, IntoOutcome, Looked};
pub use parameters::{Parameters, json_fields, unchecked, whole_value};
pub use part::{IntoId, IntoPart, Part, fixed, header, json, record_key};
pub use plan::{Declared, RoutePlan};
pub use record::{Invalid, Record};
pub use reply::{Answered, Replied, Reply, ReplyArguments};
pub use route::{NeedsOtherwise, Route, by, dead_letter, skip};
pub use routes::{Identified, Identity, Routes};
