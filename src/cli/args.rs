//! Owns what the commands take. What they do is in the file of their noun.

use super::output::Output;
use crate::{
    admin::command::{Filter, OutcomeWord},
    protocol::{
        key::{Alphabet, KeyDigest, OperationKey},
        secret::Derivation,
    },
};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// The exit codes, as `--help` says them.
const EXIT_CODES: &str = "Exit codes: 0 done; 2 wrong arguments; 65 refused by a rule, with a remedy; 66 nothing known of it; 69 no \
process answers on that store; 70 failed otherwise; 74 the store failed; 75 try again, a restart may do; 78 configuration, app or cluster \
need a person first; 130 ended by a second signal.";

/// Business operations behind Kafka take effect once, and the doubtful ones are listed.
#[derive(Debug, Parser)]
#[command(version, about, after_help = EXIT_CODES)]
pub(super) struct Cli<C: Subcommand> {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(subcommand)]
    pub(super) command: C,
}

#[derive(Debug, Args)]
pub(super) struct Common {
    /// The configuration file. Variables RECEIPTED__SECTION__KEY go over it.
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// How answers are written.
    #[arg(long, global = true, value_enum, default_value_t = Output::Text)]
    pub(super) output: Output,
}

/// The commands of a program with an app.
#[allow(clippy::large_enum_variant, reason = "made once a process")]
#[derive(Debug, Subcommand)]
pub(super) enum AppCommand {
    /// Run the app until SIGTERM or SIGINT. A second signal ends it at once.
    Run,
    /// Print what each operation declares: key, fingerprint, what becomes of an attempt in doubt, limits.
    Routes {
        /// Everything that each declares, one below the other.
        #[arg(long)]
        details: bool,
    },
    #[command(flatten)]
    Shared(SharedCommand),
}

/// The commands that need no app.
#[derive(Debug, Subcommand)]
pub(super) enum SharedCommand {
    /// Check the configuration, and print every key with its value and where it came from. Secrets are not shown.
    CheckConfig {
        /// Ask the cluster too: topics, partitions, sizes, retention, the session's bounds. Joins no group and changes nothing.
        #[arg(long)]
        against_brokers: bool,
    },
    /// Look at operations, and settle the doubtful ones.
    #[command(subcommand)]
    Operations(OperationsCommand),
    /// Look at partitions of a running process; pause, resume, or go on past a slot that holds one up.
    #[command(subcommand)]
    Partitions(PartitionsCommand),
    /// Look after the store.
    #[command(subcommand)]
    Store(StoreCommand),
    /// Print what a shell completes this program's commands with: `source <(payments completions bash)`.
    Completions {
        /// Which shell.
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum PartitionsCommand {
    /// List every partition: whether it is read, how far it is, what holds it up.
    List {
        #[command(flatten)]
        at: StoreAt,
    },
    /// Let what runs of a partition end, commit, and read nothing more of it until it is resumed or the process starts again.
    Pause(PartitionArgs),
    /// Read a paused partition again, from where it stood.
    Resume(PartitionArgs),
    /// Send the record that a halted partition stands at to the dead-letter topic, note who skipped it and why, and read on.
    Skip {
        /// TOPIC/PARTITION/OFFSET, as listed.
        #[arg(value_name = "TOPIC/PARTITION/OFFSET")]
        slot: String,
        #[command(flatten)]
        word: Word,
        #[command(flatten)]
        at: StoreAt,
    },
}

/// A partition that is paused or resumed, and on whose word.
#[derive(Debug, Args)]
pub(super) struct PartitionArgs {
    /// TOPIC/PARTITION.
    #[arg(value_name = "TOPIC/PARTITION")]
    pub(super) partition: String,
    #[command(flatten)]
    pub(super) word: Word,
    #[command(flatten)]
    pub(super) at: StoreAt,
}

#[derive(Debug, Subcommand)]
pub(super) enum OperationsCommand {
    /// List operations by state; the doubtful ones when nothing else is said.
    List {
        /// Which.
        #[arg(long, value_enum, default_value_t = FilterArg::InDoubt)]
        state: FilterArg,
        /// Behind this line of the page before.
        #[arg(long)]
        after: Option<String>,
        /// Lines.
        #[arg(long, default_value_t = 50)]
        limit: usize,
        #[command(flatten)]
        at: StoreAt,
    },
    /// List duplicate effects, the oldest first: every effect beyond the first that was ever noticed.
    Duplicates {
        /// From this number on: `more` of the page before.
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// Lines.
        #[arg(long, default_value_t = 50)]
        limit: usize,
        #[command(flatten)]
        at: StoreAt,
    },
    /// Show one operation: attempts, evidence, verdicts, parked records.
    Show {
        #[command(flatten)]
        key: KeyArgs,
        #[command(flatten)]
        at: StoreAt,
    },
    /// Say what became of an operation in doubt, or take a rejection back.
    Settle {
        #[command(flatten)]
        key: KeyArgs,
        /// applied: the effect is there (also where every attempt so far said that it had none). not-done: it is not, and the operation runs again. rejected: it is not and must not be.
        #[arg(long, value_enum)]
        outcome: OutcomeArg,
        /// The destination's reference for the effect; with applied.
        #[arg(long)]
        reference: Option<String>,
        /// The attempts that this speaks of, as listed, with commas. Needed when several are in doubt and the effect is not there.
        #[arg(long, value_delimiter = ',')]
        attempts: Vec<String>,
        /// Why no request of the attempt can land any more, if you know better than the quiet period.
        #[arg(long, value_name = "REASON")]
        cannot_land_any_more: Option<String>,
        /// Give the next attempt a fresh key at the destination.
        #[arg(long)]
        fresh_key: bool,
        #[command(flatten)]
        word: Word,
        #[command(flatten)]
        at: StoreAt,
    },
    /// Send a parked record to the dead-letter topic.
    DeadLetter {
        #[command(flatten)]
        target: TargetArgs,
        #[command(flatten)]
        word: Word,
        #[command(flatten)]
        at: StoreAt,
    },
    /// Throw a parked record away.
    Discard {
        #[command(flatten)]
        target: TargetArgs,
        /// How many held repeats go with it.
        #[arg(long, value_name = "COUNT")]
        with_repeats: Option<usize>,
        #[command(flatten)]
        word: Word,
        #[command(flatten)]
        at: StoreAt,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum StoreCommand {
    /// Show the store of a running process at a glance.
    Status {
        #[command(flatten)]
        at: StoreAt,
    },
    /// Check every entry of a stopped store.
    Verify {
        #[command(flatten)]
        at: StoreAt,
    },
    /// Write all of a stopped store into one file, checked on the way. The file is there whole or not at all.
    Export {
        /// The new file; one that is there is not written over.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        at: StoreAt,
    },
    /// Make a new store of an export. It starts once an offset is adopted for each partition: the exported store may have gone on.
    Import {
        /// What `store export` wrote.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// The file with the exported store's secret, where it has one and the new store is to have another or none. The new store's is
        /// the configuration's `store.key_secret_file`.
        #[arg(long, value_name = "FILE")]
        exported_key_secret_file: Option<PathBuf>,
        #[command(flatten)]
        at: StoreAt,
    },
    /// Accept the group's committed offsets once, into a stopped store: the way in for an existing group, and past a refusal.
    Adopt {
        /// TOPIC for each of its partitions, or TOPIC/PARTITION.
        target: String,
        /// This offset instead of the one that the group has committed. Needs TOPIC/PARTITION.
        #[arg(long)]
        offset: Option<i64>,
        /// Why. Kept for ever.
        #[arg(long)]
        reason: String,
    },
}

/// Which store.
#[derive(Debug, Args)]
pub(super) struct StoreAt {
    /// The store's directory, instead of store.directory of the configuration.
    #[arg(long, value_name = "DIRECTORY")]
    pub(super) store: Option<PathBuf>,
}

/// On whose word.
#[derive(Debug, Args)]
pub(super) struct Word {
    /// Why. Kept for ever.
    #[arg(long)]
    pub(super) reason: String,
    /// Who says so. Kept for ever, beside the user id.
    #[arg(long, value_name = "NAME")]
    pub(super) by: String,
}

/// An operation, by its digest or by its key, which needs the configuration where that names a secret.
#[derive(Debug, Args)]
pub(super) struct KeyArgs {
    /// The digest, as listed.
    #[arg(conflicts_with_all = ["tenant", "operation", "id"], required_unless_present = "id")]
    digest: Option<String>,
    /// The tenant.
    #[arg(long, requires = "id")]
    tenant: Option<String>,
    /// The operation's name with its version.
    #[arg(long, requires = "id")]
    operation: Option<String>,
    /// The business id; once for each part of a composite one.
    #[arg(long, requires_all = ["tenant", "operation"])]
    id: Vec<String>,
}

impl KeyArgs {
    /// The digest, computed here: neither the key nor the secret goes anywhere.
    pub(super) fn digest(&self, derivation: &Derivation) -> Result<KeyDigest, String> {
        if let Some(digest) = &self.digest {
            return KeyDigest::parse(digest).ok_or_else(|| "a digest has 64 hexadecimal digits, as listed".into());
        }
        let (tenant, operation) = (self.tenant.as_deref().unwrap_or_default(), self.operation.as_deref().unwrap_or_default());
        OperationKey::new(tenant, operation, &self.id, Alphabet::Printable)
            .map(|key| derivation.digest(&key))
            .map_err(|error| error.to_string())
    }
}

/// A parked record, by its note or by its operation.
#[derive(Debug, Args)]
pub(super) struct TargetArgs {
    /// The operation's digest, as listed.
    #[arg(required_unless_present = "park", conflicts_with = "park")]
    pub(super) digest: Option<String>,
    /// The park note, as listed: topic/partition/offset#number.
    #[arg(long, value_name = "NOTE")]
    pub(super) park: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum FilterArg {
    All,
    InDoubt,
    Parked,
    Disputed,
    Superseded,
    Reopened,
}

impl From<FilterArg> for Filter {
    fn from(arg: FilterArg) -> Self {
        match arg {
            FilterArg::All => Self::All,
            FilterArg::InDoubt => Self::InDoubt,
            FilterArg::Parked => Self::Parked,
            FilterArg::Disputed => Self::Disputed,
            FilterArg::Superseded => Self::Superseded,
            FilterArg::Reopened => Self::Reopened,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum OutcomeArg {
    Applied,
    NotDone,
    Rejected,
    Reopened,
}

impl From<OutcomeArg> for OutcomeWord {
    fn from(arg: OutcomeArg) -> Self {
        match arg {
            OutcomeArg::Applied => Self::Applied,
            OutcomeArg::NotDone => Self::NotDone,
            OutcomeArg::Rejected => Self::Rejected,
            OutcomeArg::Reopened => Self::Reopened,
        }
    }
}
