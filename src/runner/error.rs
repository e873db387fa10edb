//! Owns why a runner must end, with the remedy in each text.

use crate::{protocol::start::Refusal, store};
use rdkafka::error::KafkaError;

/// Why a runner cannot start, or must end.
///
/// ```
/// # use receipted::runner::Error;
/// # use std::process::ExitCode;
/// /// A supervisor restarts at 74 and 75; at 78 a person has something to set right first.
/// fn exit(ended: Result<(), Error>) -> ExitCode {
///     match ended {
///         Ok(()) => ExitCode::SUCCESS,
///         Err(error) => {
///             eprintln!("{error}");
///             error.exit_code().into()
///         }
///     }
/// }
/// assert_eq!(exit(Err(Error::Loop { topic: "payments".into() })), ExitCode::from(78));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// As the store's error says; then restart.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// Leave it out of the client settings; where a field of the settings does the same, set that.
    #[error("client setting {name} is not yours to set: {reason}")]
    Owned {
        /// The setting.
        name: String,
        /// Why.
        reason: &'static str,
    },
    /// Name another topic for dead letters, or take the route out.
    #[error(
        "topic {topic:?} is read by the app and is its dead-letter topic: each dead letter would come in again; name another as dead_letter.topic, or take the route out"
    )]
    Loop {
        /// The topic.
        topic: String,
    },
    /// Check `kafka.brokers`, the network and the security settings.
    #[error("no answer from the brokers at {brokers}{}; check kafka.brokers, the network and the security settings", reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default())]
    Unreachable {
        /// The addresses.
        brokers: String,
        /// What the client said last, where it said why.
        reason: Option<String>,
    },
    /// Correct `kafka.settings`: a file that is not there, a key whose password is another one.
    #[error("the Kafka client does not start with these settings: {detail}; correct kafka.settings")]
    NoClient {
        /// The client's words.
        detail: String,
    },
    /// As the client's words say; then restart.
    #[error("cannot {action}: {detail}")]
    Broker {
        /// What was tried.
        action: &'static str,
        /// The client's words.
        detail: String,
    },
    /// Create the topic, or correct the app's route.
    #[error("topic {topic:?} does not exist; create it, or correct the app's route")]
    NoTopic {
        /// The topic.
        topic: String,
    },
    /// Stop the other member; one process per group, until receipts follow their partitions.
    #[error("group {group:?} has another live member ({member}); stop it: one process per group, with one store")]
    OtherMember {
        /// The group.
        group: String,
        /// The member's id.
        member: String,
    },
    /// Stop the other member; one process per group, until receipts follow their partitions.
    #[error(
        "only {assigned} of {partitions} partitions are assigned here: another member of the group holds the rest; stop it: one process per group, with one store (or partitions were added while this one was away; then start it again)"
    )]
    NotAlone {
        /// How many are assigned.
        assigned: usize,
        /// How many there are.
        partitions: usize,
    },
    /// Stop the other process: it uses this store's name, so that it is a copy, or was given the same `kafka.group_instance_id`.
    #[error(
        "another process has taken the member name {name:?} in the group: a copy of this receipt store runs, or one with the same group.instance.id; stop it, and start this one again: one process per group, with one store"
    )]
    NameTaken {
        /// The static member name.
        name: String,
    },
    /// Make sure that the exported store never runs again, compare with the destination, and adopt an offset for each partition.
    #[error(
        "this store was imported, and the store that it was exported from ({from}) may have gone on: records of {partitions} may have run, and parked or doubtful ones been settled, with receipts that are not here; make sure that the other one never runs again, compare with the destination, and then accept an offset once for each with `receipted store adopt TOPIC[/PARTITION] --reason …` (with `--offset N` where the group has committed none)"
    )]
    Unverified {
        /// The other store's id.
        from: String,
        /// The partitions, each with the offset from which on nothing is known.
        partitions: String,
    },
    /// As the refusal says.
    #[error("partition {partition} is refused: {refusal}")]
    Refused {
        /// Which.
        partition: store::Partition,
        /// Why, with the remedy.
        refusal: Refusal,
    },
    /// Restart: receipts are durable.
    #[error("the client cannot go on: {detail}")]
    Client {
        /// The client's words.
        detail: String,
    },
}

impl Error {
    pub(super) fn broker(action: &'static str, source: &KafkaError) -> Self {
        match source {
            KafkaError::ClientCreation(detail) => Self::NoClient { detail: detail.clone() },
            other => Self::Broker { action, detail: other.to_string() },
        }
    }

    /// Refuses an imported store of which nobody has said how far the other one came.
    pub(super) fn unverified(store: &dyn store::ReceiptStore) -> Result<(), Self> {
        match store.imported() {
            Some(imported) if !imported.unverified.is_empty() => {
                Err(Self::Unverified { partitions: imported.partitions(), from: imported.from })
            }
            _ => Ok(()),
        }
    }

    /// The process's exit code: 74 when the store failed, 78 when a person must change something first, 75 when a restart may do.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Store(store::Error::Io { .. } | store::Error::Stopped { .. } | store::Error::Corrupt { .. }) => 74,
            Self::Store(_)
            | Self::Owned { .. }
            | Self::Loop { .. }
            | Self::NoClient { .. }
            | Self::NoTopic { .. }
            | Self::OtherMember { .. }
            | Self::NotAlone { .. }
            | Self::NameTaken { .. }
            | Self::Unverified { .. }
            | Self::Refused { .. } => 78,
            Self::Unreachable { .. } | Self::Broker { .. } | Self::Client { .. } => 75,
        }
    }
}
