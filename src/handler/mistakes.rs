//! What must not compile, as documentation tests. The complete route comes first and compiles, so that the others fail for the reason
//! that they name.

/// ```
/// # use receipted::prelude::*;
/// # #[derive(Clone)] struct Bank;
/// # #[derive(serde::Deserialize)] struct Charge;
/// async fn charge(op: Operation, Json(charge): Json<Charge>, State(bank): State<Bank>) -> Result<Applied, Failure> {
///     Ok(Applied::new(op.provider_key(), ()))
/// }
/// let route = operation("charge.v1").tenant(fixed("acme")).id(json("/id")).fingerprint(whole_value()).handle(charge);
/// let app: App<Bank> = App::new().topic("payments", route);
/// # app.with_state(Bank).build().unwrap();
/// ```
/// No tenant:
/// ```compile_fail,E0277
/// # use receipted::prelude::*;
/// async fn charge(op: Operation) -> Result<Applied, Failure> { Ok(Applied::new(op.provider_key(), ())) }
/// let route: Route<()> = operation("charge.v1").id(json("/id")).fingerprint(whole_value()).handle(charge);
/// ```
/// No id:
/// ```compile_fail,E0277
/// # use receipted::prelude::*;
/// async fn charge(op: Operation) -> Result<Applied, Failure> { Ok(Applied::new(op.provider_key(), ())) }
/// let route: Route<()> = operation("charge.v1").tenant(fixed("acme")).fingerprint(whole_value()).handle(charge);
/// ```
/// No fingerprint:
/// ```compile_fail,E0277
/// # use receipted::prelude::*;
/// async fn charge(op: Operation) -> Result<Applied, Failure> { Ok(Applied::new(op.provider_key(), ())) }
/// let route: Route<()> = operation("charge.v1").tenant(fixed("acme")).id(json("/id")).handle(charge);
/// ```
/// No handler:
/// ```compile_fail,E0308
/// # use receipted::prelude::*;
/// let route: Route<()> = operation("charge.v1").tenant(fixed("acme")).id(json("/id")).fingerprint(whole_value());
/// ```
/// Nothing said about other values:
/// ```compile_fail,E0308
/// # use receipted::prelude::*;
/// let route: Route<()> = by(header("type")).on("ping", skip());
/// ```
/// An app whose state lacks what the handler takes:
/// ```compile_fail,E0277
/// # use receipted::prelude::*;
/// # #[derive(Clone)] struct Bank;
/// async fn charge(State(bank): State<Bank>) -> Result<Applied, Failure> { Ok(Applied::without_reference(())) }
/// let route: Route<()> = operation("charge.v1").tenant(fixed("acme")).id(json("/id")).fingerprint(whole_value()).handle(charge);
/// ```
/// A handler whose error says nothing about the effect:
/// ```compile_fail,E0277
/// # use receipted::prelude::*;
/// async fn charge() -> Result<Applied, std::io::Error> { Ok(Applied::without_reference(())) }
/// let route: Route<()> = operation("charge.v1").tenant(fixed("acme")).id(json("/id")).fingerprint(whole_value()).handle(charge);
/// ```
/// A handler that does not say that the effect happened:
/// ```compile_fail,E0277
/// # use receipted::prelude::*;
/// async fn charge() -> Result<(), Failure> { Ok(()) }
/// let route: Route<()> = operation("charge.v1").tenant(fixed("acme")).id(json("/id")).fingerprint(whole_value()).handle(charge);
/// ```
/// An argument that no record gives:
/// ```compile_fail,E0277
/// # use receipted::prelude::*;
/// async fn charge(name: String) -> Result<Applied, Failure> { Ok(Applied::new(name, ())) }
/// let route: Route<()> = operation("charge.v1").tenant(fixed("acme")).id(json("/id")).fingerprint(whole_value()).handle(charge);
/// ```
/// A lookup that claims "no effect":
/// ```compile_fail,E0277
/// # use receipted::prelude::*;
/// # use std::time::Duration;
/// async fn find() -> Result<Finding, Failure> { Err("timeout").no_effect() }
/// let contract: receipted::handler::Contract<()> = ask(find).after_quiet(Duration::from_mins(2));
/// ```
/// A lookup without a quiet period:
/// ```compile_fail,E0308
/// # use receipted::prelude::*;
/// async fn find() -> Result<Finding, std::io::Error> { Ok(Finding::NotFound) }
/// let contract: receipted::handler::Contract<()> = ask(find);
/// ```
/// A tenant of several parts, which only an id may have:
/// ```compile_fail,E0277
/// # use receipted::prelude::*;
/// let route = operation::<()>("charge.v1").tenant([header("region"), header("tenant")]);
/// ```
/// A delivery doubled:
/// ```compile_fail,E0599
/// # use receipted::prelude::*;
/// fn twice(delivery: Delivery) -> [Delivery; 2] { [delivery.clone(), delivery] }
/// ```
/// An attempt doubled:
/// ```compile_fail,E0599
/// # use receipted::handler::Attempt;
/// fn twice(attempt: Attempt) -> [Attempt; 2] { [attempt.clone(), attempt] }
/// ```
/// A failure relabelled:
/// ```compile_fail,E0599
/// # use receipted::prelude::*;
/// fn relabel(helper: Result<(), Failure>) -> Result<(), Failure> { helper.no_effect() }
/// ```
/// A record's place or time as an identity:
/// ```compile_fail,E0599
/// # use receipted::prelude::*;
/// fn unstable(record: &Record) -> Result<String, BoxError> { Ok(record.offset().to_string()) }
/// ```
#[derive(Debug)]
pub struct MustNotCompile;
