//! Owns the built form of one operation: its policy, and its functions with their state captured. A panic of a team's code does not
//! leave it. When they are called is the runner's.

use super::{
    declaration::PassesKey,
    function::{Attempt, BoxFuture},
    gate::{Gated, Wrap},
    guard::{Guarded, guarded},
    operation::Delivery,
    outcome::Looked,
    part::{Part, Source},
    record::Invalid,
    reply::{Replied, Reply},
};
use crate::protocol::{
    outcome::Outcome,
    policy::{Lanes, Policy},
};
use std::fmt;

pub(super) type Erased<T> = Box<dyn Fn(&Delivery) -> Result<BoxFuture<T>, Invalid> + Send + Sync>;
pub(super) type ErasedReply = Box<dyn Fn(Reply) -> BoxFuture<Replied> + Send + Sync>;

/// One operation of the app, whichever topics carry it.
///
/// [`Routes`](super::Routes) shows what a runner does with it.
pub struct RoutePlan {
    /// The operation's name with its version.
    pub name: &'static str,
    /// What it declared, complete.
    pub policy: Policy,
    /// Bytes of JSON of an answer that are kept.
    pub answer_bytes_max: usize,
    pub(super) declared: Declared,
    pub(super) handler: Erased<Outcome>,
    pub(super) look_up: Option<Erased<Looked>>,
    pub(super) reply: Option<ErasedReply>,
    pub(super) layers: Vec<Wrap>,
}

/// What an operation declares, complete: what the `routes` command prints.
///
/// ```
/// # use receipted::prelude::*;
/// # async fn charge(op: Operation) -> Result<Applied, Failure> { Ok(Applied::new(op.provider_key(), ())) }
/// # fn app() -> App {
/// #     let charge = operation("charge.v1").tenant(fixed("acme")).id(json("/id")).fingerprint(whole_value()).handle(charge);
/// #     App::new().topic("payments", charge)
/// # }
/// // A test that holds what must not change unnoticed: another id is another operation, and would charge again.
/// let charge = &app().declared()?[0];
/// assert_eq!((charge.name, &charge.id[..]), ("charge.v1", &[r#"json "/id""#.to_string()][..]));
/// assert!(charge.takes_provider_key());
/// # Ok::<(), receipted::handler::BuildError>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Declared {
    /// The operation's name with its version.
    pub name: &'static str,
    /// Its contract, policies and limits.
    pub policy: Policy,
    /// The topics that carry it.
    pub topics: Vec<String>,
    /// In which order each of these is handled.
    pub lanes: Vec<Lanes>,
    /// Where the tenant comes from.
    pub tenant: Part,
    /// Where each part of the id comes from.
    pub id: Vec<String>,
    /// What must not change.
    pub fingerprint: String,
    /// Older names that it is looked up under.
    pub formerly: Vec<&'static str>,
    /// Bytes of JSON of an answer that are kept.
    pub answer_bytes_max: usize,
    pub(super) passes_key: PassesKey,
    pub(super) replies: bool,
    pub(super) layers: Vec<&'static str>,
}

impl RoutePlan {
    /// Extracts the handler's arguments. The handler is not called before the attempt is polled.
    ///
    /// # Errors
    /// Says what is wrong with the record; the operation stays as it was.
    pub fn prepare(&self, delivery: Delivery) -> Result<Attempt, Invalid> {
        let run = extracted(&self.handler, &delivery)?;
        Ok(Attempt::new(delivery.into_operation(), run))
    }

    /// The route's layers, made afresh: one for each runner. None where it has none.
    pub(crate) fn gate(&self) -> Option<Gated> {
        (!self.layers.is_empty()).then(|| Gated::new(self.layers.clone()))
    }

    /// Prepares the route's lookup; none where its contract has none.
    ///
    /// # Errors
    /// Says what is wrong with the record.
    pub fn look_up(&self, delivery: Delivery) -> Option<Result<BoxFuture<Looked>, Invalid>> {
        let lookup = self.look_up.as_ref()?;
        Some(extracted(lookup, &delivery).map(|run| -> BoxFuture<Looked> {
            let run = Guarded::new(run);
            Box::pin(async move { run.await.unwrap_or_else(|panic| Err(format!("lookup panicked: {panic}"))) })
        }))
    }

    /// Prepares a call of the route's reply hook; none where it has none.
    pub fn reply(&self, reply: Reply) -> Option<BoxFuture<Replied>> {
        let hook = self.reply.as_ref()?;
        Some(match guarded(|| hook(reply)) {
            Ok(run) => {
                let run = Guarded::new(run);
                Box::pin(async move { run.await.unwrap_or_else(|panic| Err(format!("reply hook panicked: {panic}"))) })
            }
            Err(panic) => Box::pin(async move { Err(format!("reply hook panicked: {panic}")) }),
        })
    }

    /// Whether repeats and results are handed on by a reply hook.
    #[must_use]
    pub fn has_reply(&self) -> bool {
        self.reply.is_some()
    }

    /// Whether the contract rests on the destination knowing the key that the handler gives it.
    #[cfg(feature = "kafka")]
    pub(crate) fn relies_on_key(&self) -> bool {
        self.policy.contract.memory().is_some()
    }

    /// Whether the handler takes the `Operation`, without which it cannot give the destination an idempotency key.
    #[must_use]
    pub fn passes_key(&self) -> bool {
        self.declared.passes_key == PassesKey::Can
    }

    /// The tenant that every record of the route has; none where the record tells.
    #[must_use]
    pub fn fixed_tenant(&self) -> Option<&str> {
        if let Source::Fixed(tenant) = self.declared.tenant.source() { Some(tenant) } else { None }
    }

    /// The topics that carry the operation.
    #[must_use]
    pub fn topics(&self) -> &[String] {
        &self.declared.topics
    }

    /// The operation's older names, newest first as declared.
    #[must_use]
    pub fn formerly(&self) -> &[&'static str] {
        &self.declared.formerly
    }
}

/// Arguments are made by a team's code, and so may panic.
fn extracted<T>(prepare: &Erased<T>, delivery: &Delivery) -> Result<BoxFuture<T>, Invalid> {
    guarded(|| prepare(delivery)).unwrap_or_else(|panic| Err(Invalid::new(format_args!("extracting an argument panicked: {panic}"))))
}

/// The route's contract in words, a line each: what the `routes` command prints.
impl fmt::Display for RoutePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.declared.fmt(f)
    }
}

impl Declared {
    /// What becomes of the same key with other parameters.
    #[must_use]
    pub fn on_conflict(&self) -> &'static str {
        conflict(&self.policy)
    }

    /// What becomes of a repeat whose receipt is gone.
    #[must_use]
    pub fn on_expired(&self) -> &'static str {
        expired(&self.policy)
    }

    /// Whether its handler gets the key that a destination deduplicates by.
    #[must_use]
    pub fn takes_provider_key(&self) -> bool {
        self.passes_key == PassesKey::Can
    }

    /// The types of its layers, the innermost first.
    #[must_use]
    pub fn layers(&self) -> &[&'static str] {
        &self.layers
    }

    /// Whether answers are handed on by a reply hook.
    #[must_use]
    pub fn replies(&self) -> bool {
        self.replies
    }
}

impl fmt::Display for Declared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (about, policy) = (self, &self.policy);
        writeln!(f, "{}", self.name)?;
        let topics = about.topics.iter().zip(&about.lanes).map(|(topic, lanes)| format!("{topic} ({})", lanes.label()));
        writeln!(f, "  topics       {}", topics.collect::<Vec<_>>().join(", "))?;
        writeln!(f, "  tenant       {}", about.tenant)?;
        writeln!(f, "  id           {}", about.id.join(", "))?;
        writeln!(f, "  fingerprint  {}", about.fingerprint)?;
        if !about.formerly.is_empty() {
            writeln!(f, "  formerly     {}", about.formerly.join(", "))?;
        }
        write!(f, "  in doubt     {}", policy.contract.label())?;
        if let Some(memory) = policy.contract.memory() {
            write!(f, " for {memory:?} less {:?}, then {}", policy.margin, policy.contract.last().label())?;
        }
        writeln!(f, ", quiet period {:?}", policy.contract.quiet())?;
        writeln!(f, "  conflict     {}", conflict(policy))?;
        writeln!(f, "  expired      {}", expired(policy))?;
        writeln!(f, "  time limit   {:?}, detached up to {:?}", policy.time_limit, policy.detached_max)?;
        let back_off = &policy.back_off;
        writeln!(
            f,
            "  attempts     {} at most, {:?} to {:?} apart, given up after {:?}",
            policy.attempts_max, back_off.first, back_off.max, back_off.give_up
        )?;
        writeln!(f, "  unresolved   {} at most", policy.unresolved_max)?;
        if !self.layers.is_empty() {
            writeln!(f, "  layers       {}", self.layers.join(", "))?;
        }
        let key = if self.passes_key == PassesKey::Can { "the handler takes it" } else { "not taken: the destination cannot deduplicate" };
        writeln!(f, "  provider key {key}")?;
        write!(f, "  answer       up to {} bytes kept, {}", self.answer_bytes_max, if self.replies { "handed on" } else { "not handed on" })
    }
}

fn conflict(policy: &Policy) -> &'static str {
    use crate::protocol::policy::OnConflict;
    match policy.on_conflict {
        OnConflict::Park => "parked",
        OnConflict::DeadLetter => "dead-lettered",
        OnConflict::Reject => "rejected",
        OnConflict::FirstWins => "the first wins",
    }
}

fn expired(policy: &Policy) -> &'static str {
    use crate::protocol::policy::OnExpired;
    match policy.on_expired {
        OnExpired::Park => "parked",
        OnExpired::Run => "run again",
    }
}

impl fmt::Debug for RoutePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoutePlan").field("name", &self.name).field("policy", &self.policy).finish_non_exhaustive()
    }
}
