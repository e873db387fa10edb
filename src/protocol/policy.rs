//! Owns what a route declares, as plain data: its contract for attempts in doubt, its policies and its limits.

use std::time::Duration;

/// What becomes of an attempt in doubt.
///
/// ```
/// # use receipted::protocol::policy::Contract;
/// # use std::time::Duration;
/// let searched = Contract::Ask { quiet: Duration::from_mins(2) };
/// let contract = Contract::DestinationDeduplicates { memory: Duration::from_hours(24), then: Box::new(searched) };
/// // For a table of what all routes promise: how long must a person wait before anybody may say "not done"?
/// assert_eq!((contract.last().label(), contract.quiet()), ("ask", Duration::from_mins(2)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contract {
    /// The destination deduplicates by the provider key for `memory` from the first admission under that key: run again in the
    /// lane while that holds, then as `then` says.
    DestinationDeduplicates {
        /// How long the destination remembers a key.
        memory: Duration,
        /// What holds afterwards.
        then: Box<Contract>,
    },
    /// Parked, and the destination is asked. "Not found" is proof only for attempts that ended at least `quiet` before the lookup
    /// started.
    Ask {
        /// How long a lost request can still land.
        quiet: Duration,
    },
    /// Parked for a person, who cannot say "not done" before `quiet` has passed.
    Hold {
        /// How long a lost request can still land.
        quiet: Duration,
    },
}

impl Contract {
    /// The name that metrics and listings use.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Self::DestinationDeduplicates { .. } => "destination_deduplicates",
            Self::Ask { .. } => "ask",
            Self::Hold { .. } => "hold",
        }
    }

    /// The contract that holds once the destination has forgotten: itself, unless it rests on a memory.
    #[must_use]
    pub fn last(&self) -> &Self {
        let mut contract = self;
        while let Self::DestinationDeduplicates { then, .. } = contract {
            contract = then;
        }
        contract
    }

    /// How long a lost request can still land, as the last contract declares it.
    #[must_use]
    pub fn quiet(&self) -> Duration {
        match self.last() {
            Self::Ask { quiet } | Self::Hold { quiet } => *quiet,
            Self::DestinationDeduplicates { .. } => Duration::MAX,
        }
    }

    /// The destination's memory, where the contract rests on one.
    #[must_use]
    pub fn memory(&self) -> Option<Duration> {
        if let Self::DestinationDeduplicates { memory, .. } = self { Some(*memory) } else { None }
    }
}

/// What becomes of a record whose operation is known with other parameters.
///
/// ```
/// # use receipted::prelude::*;
/// # async fn charge(op: Operation) -> Result<Applied, Failure> { Ok(Applied::new(op.provider_key(), ())) }
/// // The producer sends corrections under the same id, and the first charge stands.
/// let route: Route<()> = operation("charge.v1")
///     .tenant(fixed("acme"))
///     .id(json("/id"))
///     .fingerprint(json_fields(["/cents"]))
///     .on_conflict(OnConflict::FirstWins)
///     .handle(charge);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnConflict {
    /// Set aside for a person.
    #[default]
    Park,
    /// Sent to the dead-letter topic.
    DeadLetter,
    /// Answered as rejected: this record only, the operation stays as it is.
    Reject,
    /// The first parameters stand; the record is suppressed, counted and logged as a warning.
    FirstWins,
}

/// What becomes of a record whose receipt was pruned.
///
/// ```
/// # use receipted::prelude::*;
/// # async fn index(op: Operation) -> Result<Applied, Failure> { Ok(Applied::new(op.provider_key(), ())) }
/// // Another run of a search index's entry does no harm, and a person need not be asked.
/// let route: Route<()> = operation("index.v1")
///     .tenant(fixed("acme"))
///     .id(json("/id"))
///     .fingerprint(whole_value())
///     .on_expired(OnExpired::Run)
///     .handle(index);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnExpired {
    /// Set aside for a person.
    #[default]
    Park,
    /// Run, and counted as a readmission.
    Run,
}

/// In which order the records of a partition are handled.
///
/// ```
/// # use receipted::prelude::*;
/// # async fn send(op: Operation) -> Result<Applied, Failure> { Ok(Applied::new(op.provider_key(), ())) }
/// # let send = operation("mail.v1").tenant(fixed("acme")).id(json("/id")).fingerprint(whole_value()).handle(send);
/// // Mails need no order: a slow one holds none of the same record key up.
/// let app: App = App::new().topic("mails", send.lanes(Lanes::Unordered));
/// # assert!(app.declared().is_ok());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Lanes {
    /// One after another per record key; a record without key has a lane of its own.
    #[default]
    Key,
    /// One after another.
    Partition,
    /// As permits come.
    Unordered,
}

impl Lanes {
    /// In words.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Key => "in order of each record key",
            Self::Partition => "in order of the partition",
            Self::Unordered => "in no order",
        }
    }
}

/// The waits between attempts that certainly had no effect.
///
/// ```
/// # use receipted::protocol::policy::BackOff;
/// # use std::time::Duration;
/// // How long does a record wait, all in all, before its sixth attempt? Three seconds, by default.
/// let waits: Duration = (1..=5).map(|used| BackOff::default().wait(used)).sum();
/// assert_eq!(waits, Duration::from_millis(3100));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackOff {
    /// After the first attempt.
    pub first: Duration,
    /// At most.
    pub max: Duration,
    /// Since the slot's first attempt; then its attempts are exhausted.
    pub give_up: Duration,
}

impl Default for BackOff {
    fn default() -> Self {
        Self { first: Duration::from_millis(100), max: Duration::from_secs(30), give_up: Duration::from_secs(3600) }
    }
}

impl BackOff {
    /// The wait after the `used`-th attempt: doubled each time, up to the maximum.
    #[must_use]
    pub fn wait(&self, used: u32) -> Duration {
        self.first.saturating_mul(1_u32.checked_shl(used.saturating_sub(1)).unwrap_or(u32::MAX)).min(self.max)
    }
}

/// Everything that a route declares and a rule needs.
///
/// ```
/// # use receipted::prelude::*;
/// # async fn charge(op: Operation) -> Result<Applied, Failure> { Ok(Applied::new(op.provider_key(), ())) }
/// # let charge = operation("charge.v1").tenant(fixed("acme")).id(json("/id")).fingerprint(whole_value()).handle(charge);
/// # let app: App = App::new().topic("payments", charge);
/// // A test of what a team agreed on for all of its routes.
/// for declared in app.declared()? {
///     assert!(declared.policy.attempts_max <= 10, "{}: ask before you raise it", declared.name);
/// }
/// # Ok::<(), receipted::handler::BuildError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// For attempts in doubt.
    pub contract: Contract,
    /// For changed parameters.
    pub on_conflict: OnConflict,
    /// For pruned receipts.
    pub on_expired: OnExpired,
    /// How long a handler may run before its attempt counts as unknown.
    pub time_limit: Duration,
    /// How long a timed-out future is kept for its late answer, from its start. Ten times the time limit by default.
    pub detached_max: Duration,
    /// Attempts of one slot, at most.
    pub attempts_max: u32,
    /// Between attempts without effect.
    pub back_off: BackOff,
    /// Unresolved operations of this route, at most; then it pauses with an alert.
    pub unresolved_max: u32,
    /// How much earlier than the destination's memory a rerun must start: the longest that one can still be on its way. At least
    /// [`Policy::margin_min`]; a smaller one is refused when the application is built.
    pub margin: Duration,
    /// Raise the provider key's generation after a stated *no effect*, for destinations that replay stored errors under a key.
    pub fresh_key_after_no_effect: FreshKey,
}

/// Whether a stated *no effect* raises the generation of the provider key.
///
/// A part of [`Policy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FreshKey {
    /// The key stays.
    #[default]
    Never,
    /// The next attempt has a new key.
    AfterNoEffect,
}

impl Policy {
    /// The least margin: a future may live for `detached_max`, and its last request may be on its way for the quiet period.
    #[must_use]
    pub fn margin_min(&self) -> Duration {
        self.detached_max.saturating_add(self.contract.quiet())
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            contract: Contract::Hold { quiet: Duration::from_secs(120) },
            on_conflict: OnConflict::default(),
            on_expired: OnExpired::default(),
            time_limit: Duration::from_secs(30),
            detached_max: Duration::from_secs(300),
            attempts_max: 10,
            back_off: BackOff::default(),
            unresolved_max: 1000,
            margin: Duration::from_secs(420),
            fresh_key_after_no_effect: FreshKey::Never,
        }
    }
}
