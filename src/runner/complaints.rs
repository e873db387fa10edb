//! Owns how often what a client complains of is told: each kind once in a while, with how many were left out, and once that a broker
//! answers again. Everything is counted, and at the level "debug" told.

use super::{clock::Clock, observe};
use crate::protocol::time::Monotonic;
use rdkafka::{
    ClientContext, Statistics,
    config::RDKafkaLogLevel,
    consumer::ConsumerContext,
    error::{KafkaError, RDKafkaErrorCode},
};
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// A kind of complaint is told at most once in so long.
const TOLD_EVERY: Duration = Duration::from_secs(10);
/// Kinds that are kept apart. Those beyond them are one.
const KINDS_MAX: usize = 32;
const OTHERS: &str = "others";

/// What one client has complained of.
#[derive(Debug, Default)]
struct Complaints {
    kinds: BTreeMap<String, Kind>,
    /// It was told that no broker answers.
    silent: bool,
}

#[derive(Debug)]
struct Kind {
    told: Monotonic,
    left_out: u64,
}

impl Complaints {
    /// Whether a complaint is told now, and then how many of its kind were not since the last one.
    fn told(&mut self, kind: &str, now: Monotonic) -> Option<u64> {
        let kind = if self.kinds.len() < KINDS_MAX || self.kinds.contains_key(kind) { kind } else { OTHERS };
        let Some(known) = self.kinds.get_mut(kind) else {
            self.kinds.insert(kind.into(), Kind { told: now, left_out: 0 });
            return Some(0);
        };
        if now.since(known.told) < TOLD_EVERY {
            known.left_out += 1;
            return None;
        }
        known.told = now;
        Some(std::mem::take(&mut known.left_out))
    }

    /// The same for the complaint that no broker answers, which has an end.
    fn told_silent(&mut self, kind: &str, now: Monotonic) -> Option<u64> {
        let told = self.told(kind, now);
        self.silent |= told.is_some();
        told
    }

    /// Whether it is told now that a broker answers, and then how many complaints were left out that will not be told of any more.
    fn answered(&mut self) -> Option<u64> {
        let left_out = || self.kinds.values_mut().map(|kind| std::mem::take(&mut kind.left_out)).sum();
        std::mem::take(&mut self.silent).then(left_out)
    }
}

/// What a client says, on its way to the log.
pub(super) struct Voice {
    client: &'static str,
    brokers: String,
    clock: Clock,
    complaints: Mutex<Complaints>,
    last: Mutex<Option<String>>,
}

impl Voice {
    pub(super) fn new(client: &'static str, brokers: &str) -> Self {
        Self { client, brokers: brokers.into(), clock: Clock::start(), complaints: Mutex::default(), last: Mutex::default() }
    }

    /// Why the last connection failed, as the client says it.
    pub(super) fn reason(&self) -> Option<String> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn complaints(&self) -> MutexGuard<'_, Complaints> {
        self.complaints.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A broker has answered.
    pub(super) fn answered(&self) {
        if let Some(left_out) = self.complaints().answered() {
            observe::brokers_answer(self.client, left_out);
        }
    }
}

impl ConsumerContext for Voice {}

impl ClientContext for Voice {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        // A connection's end comes as an error too.
        let is_told_as_error = facility == "FAIL" && level as i32 <= RDKafkaLogLevel::Error as i32;
        let may_repeat = level as i32 <= RDKafkaLogLevel::Warning as i32 && facility != "CONFWARN";
        let told = match (is_told_as_error, may_repeat) {
            (true, _) => None,
            (false, true) => self.complaints().told(facility, self.clock.now().monotonic),
            (false, false) => Some(0),
        };
        observe::client_says(self.client, level as i32, facility, text, told);
    }

    /// Statistics come every few seconds, and say who is connected.
    fn stats(&self, statistics: Statistics) {
        if statistics.brokers.values().any(|broker| broker.state == "UP") {
            self.answered();
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        let (now, code) = (self.clock.now().monotonic, error.rdkafka_error_code());
        let kind = format!("{code:?}");
        if code == Some(RDKafkaErrorCode::AllBrokersDown) {
            let told = self.complaints().told_silent(&kind, now);
            observe::brokers_silent(self.client, &self.brokers, reason, told);
        } else {
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason.into());
            let told = self.complaints().told(&kind, now);
            observe::client_error(self.client, &error, reason, told);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Monotonic {
        Monotonic(1 + seconds * 1000)
    }

    #[test]
    fn each_kind_is_told_once_in_a_while_with_how_many_were_left_out() {
        let mut complaints = Complaints::default();
        let told: Vec<Option<u64>> = (0..25).map(|second| complaints.told("refused", at(second))).collect();
        let expected = |second| match second {
            0 => Some(0),
            10 | 20 => Some(9),
            _ => None,
        };
        assert_eq!(told, (0..25).map(expected).collect::<Vec<_>>());
        assert_eq!(complaints.told("timed out", at(25)), Some(0), "another kind has its own turn");
    }

    #[test]
    fn a_broker_that_answers_again_is_told_once_for_each_silence_that_was_told() {
        let mut complaints = Complaints::default();
        assert_eq!(complaints.told("refused", at(0)), Some(0));
        assert_eq!(complaints.answered(), None, "one broker of several was away: nobody was told of a silence");
        assert_eq!(complaints.told_silent("down", at(1)), Some(0));
        assert_eq!((complaints.told_silent("down", at(2)), complaints.told("refused", at(2))), (None, None));
        assert_eq!((complaints.answered(), complaints.answered()), (Some(2), None));
        assert_eq!(complaints.told_silent("down", at(3)), None, "it comes and goes");
        assert_eq!(complaints.answered(), None, "and what was not told has no end that is");
        assert_eq!(complaints.told_silent("down", at(11)), Some(1));
        assert_eq!(complaints.answered(), Some(0));
    }

    #[test]
    fn kinds_without_end_are_kept_as_one() {
        let mut complaints = Complaints::default();
        let told = (0..1_000).filter(|kind| complaints.told(&kind.to_string(), at(0)).is_some()).count();
        assert_eq!((told, complaints.kinds.len()), (KINDS_MAX + 1, KINDS_MAX + 1));
        assert_eq!(complaints.told("0", at(10)), Some(0), "those that are known go on");
    }
}
