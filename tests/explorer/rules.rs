//! Each rule left out alone: what breaks, and which guarantee it is. The rules are those of DESIGN 3 (the notes under its table) and 5.

use crate::{
    search::{breaks, holds},
    state::{Config, Destination, HONEST, People, Rule, ask, hold, remembers},
};

fn held() -> Config {
    Config { attempts: 2, people: HONEST, ..Config::new("hold", hold()) }
}

fn asked() -> Config {
    Config { slots: 1, attempts: 2, ..Config::new("ask", ask()) }
}

fn remembered() -> Config {
    Config { slots: 1, attempts: 2, ..Config::new("remembers, then ask", remembers(ask())) }
}

// Admission, fact, slot.

#[test]
fn a_handler_starts_only_after_its_admission_is_durable() {
    breaks(held().without(&[Rule::StartAfterSync]), "G2");
}

#[test]
fn a_handler_starts_only_when_its_admission_stands() {
    breaks(held().without(&[Rule::StartOnlyWhenAdmitted]), "G2");
}

#[test]
fn a_slot_is_complete_only_when_its_fact_is_durable() {
    breaks(held().without(&[Rule::CompleteWhenDurable]), "G1");
}

#[test]
fn decisions_read_synced_state_only() {
    breaks(held().without(&[Rule::DecideOnSynced]), "G1");
}

#[test]
fn rejected_settles_nothing_while_an_attempt_is_in_doubt() {
    breaks(Config { rejections: 1, ..remembered() }.without(&[Rule::RejectedAfterInDoubt]), "G1");
}

#[test]
fn arguments_are_extracted_before_the_admission_and_settle_nothing() {
    breaks(Config { undecodable: 1, ..held() }.without(&[Rule::ExtractionBeforeAdmission]), "G5");
}

#[test]
fn a_doubt_survives_a_crash() {
    breaks(held().without(&[Rule::DoubtSurvivesCrash]), "G2");
}

#[test]
fn nothing_in_doubt_is_rerun_blindly() {
    breaks(held().without(&[Rule::NoBlindRerun]), "G2");
}

#[test]
fn a_slot_that_was_closed_stays_closed() {
    let people = People { discard: true, ..HONEST };
    breaks(Config { refusals: 1, people, ..held() }.without(&[Rule::ClosedStaysClosed]), "C1");
}

#[test]
fn attempts_are_counted_durably_before_the_run() {
    let mut config = Config { attempts: 3, ..remembered() };
    config.policy.attempts_max = 2;
    holds(config.clone());
    breaks(config.without(&[Rule::BudgetIsDurable]), "B1");
}

// Parked work.

#[test]
fn in_doubt_work_is_parked_first() {
    breaks(asked().without(&[Rule::ParkFirst]), "L1");
}

#[test]
fn a_repeat_is_held_only_on_a_note_that_stands() {
    let people = People { discard: true, ..HONEST };
    breaks(Config { crashes: 0, refusals: 1, people, ..held() }.without(&[Rule::HeldSeesItsNote]), "L1");
}

#[test]
fn a_note_sees_the_state_that_it_rests_on_or_ends_with_the_settlement_that_it_missed() {
    holds(held().without(&[Rule::ParkSeesItsState]));
    breaks(Config { slots: 1, ..held() }.without(&[Rule::NotesEndWithSettlement]), "L1");
}

#[test]
fn a_parked_record_runs_again_whenever_its_operation_is_retryable() {
    breaks(Config { slots: 1, refusals: 1, ..held() }.without(&[Rule::ResumeWhenRetryable]), "L1");
}

#[test]
fn a_record_is_not_discarded_while_its_operation_is_in_doubt() {
    let people = People { discard: true, ..HONEST };
    breaks(Config { people, ..held() }.without(&[Rule::DiscardNotInDoubt]), "R1");
}

#[test]
fn a_record_is_not_discarded_once_it_has_begun_to_run() {
    let people = People { discard: true, ..HONEST };
    breaks(Config { refusals: 1, people, ..held() }.without(&[Rule::DiscardSeesItsState]), "R1");
}

#[test]
fn a_future_is_dropped_in_the_end() {
    breaks(Config { hang: true, ..held() }.without(&[Rule::DropAtDetachedMax]), "L1");
}

// The destination's memory.

#[test]
fn a_rerun_leaves_the_memory_its_margin() {
    breaks(remembered().without(&[Rule::MemoryHasMargin]), "one effect");
}

#[test]
fn the_memory_is_checked_again_when_the_admission_is_written() {
    breaks(remembered().without(&[Rule::MemoryIsCheckedAtWrite]), "one effect");
}

#[test]
fn the_memory_is_what_was_promised_when_the_attempt_was_admitted() {
    let config = Config { before: Some(hold()), people: HONEST, ..Config::new("hold, then remembers", remembers(hold())) };
    breaks(config.without(&[Rule::MemoryIsStored]), "one effect");
}

#[test]
fn a_clock_that_went_backwards_counts_as_over() {
    breaks(Config { clock_back: 2, ..remembered() }.without(&[Rule::ClockBackIsOver]), "one effect");
}

#[test]
fn the_key_rises_only_while_no_attempt_is_in_doubt() {
    let people = People { fresh_key: true, ..HONEST };
    let config = Config { slots: 1, crashes: 0, people, ..Config::new("remembers, new keys", remembers(hold())) };
    breaks(config.without(&[Rule::KeyRisesOnlyWhileRetryable]), "one effect");
}

// Lookups.

#[test]
fn not_found_is_no_proof_before_the_quiet_period_is_over() {
    breaks(asked().without(&[Rule::QuietBeforeProof]), "G2");
}

#[test]
fn the_quiet_period_starts_when_the_future_ends() {
    breaks(asked().without(&[Rule::QuietStartsAtTheEnd]), "G2");
}

#[test]
fn the_quiet_period_of_a_dead_process_starts_at_the_restart() {
    breaks(asked().without(&[Rule::QuietRestarts]), "G2");
}

#[test]
fn only_a_lookup_that_started_after_the_quiet_period_is_proof() {
    breaks(asked().without(&[Rule::ProofByStart]), "G2");
}

#[test]
fn reconcile_works_through_operations_and_not_through_notes() {
    let people = People { dead_letter: true, ..People::default() };
    breaks(Config { people, ..asked() }.without(&[Rule::LookThroughOperations]), "L1");
}

#[test]
fn a_found_effect_covers_no_attempt_that_may_still_land() {
    let config = Config { destination: Destination::Rebooks, ..remembered() };
    breaks(config.without(&[Rule::FoundCoversOnlyWhatItSaw]), "G3");
}

#[test]
fn what_a_lookup_found_stands_whatever_happened_meanwhile() {
    let config = Config { destination: Destination::Rebooks, ..remembered() };
    breaks(config.without(&[Rule::FoundStandsAlways]), "G3");
}

#[test]
fn after_not_done_the_destination_is_asked_once_more() {
    let config = Config { destination: Destination::LandsLate, ..asked() };
    breaks(config.without(&[Rule::SecondLook]), "G3");
}

#[test]
fn the_second_look_is_owed_after_a_crash_too() {
    let config = Config { destination: Destination::LandsLate, ..asked() };
    breaks(config.without(&[Rule::SecondLookSurvivesCrash]), "G3");
}

#[test]
fn the_second_look_comes_another_quiet_period_later() {
    let config = Config { destination: Destination::LandsLate, ..asked() };
    breaks(config.without(&[Rule::LookLooksLate]), "G3");
}

// Verdicts.

#[test]
fn nobody_says_not_done_while_a_future_lives() {
    breaks(held().without(&[Rule::VerdictWaitsForFuture]), "G2");
}

#[test]
fn nobody_says_not_done_before_the_quiet_period_is_over() {
    breaks(held().without(&[Rule::VerdictWaitsForQuiet]), "G2");
}

#[test]
fn a_verdict_waits_for_a_fact_on_its_way_or_sees_that_it_came() {
    let config = Config { slots: 1, people: People { wrong: 1, ..HONEST }, ..held() };
    holds(config.clone().without(&[Rule::VerdictWaitsForFact]));
    holds(config.clone().without(&[Rule::VerdictSeesItsState]));
    breaks(config.without(&[Rule::VerdictWaitsForFact, Rule::VerdictSeesItsState]), "D1");
}

#[test]
fn not_done_covers_only_attempts_that_its_author_saw() {
    let config = Config { slots: 1, attempts: 2, people: HONEST, ..Config::new("remembers, then hold", remembers(hold())) };
    holds(config.clone().without(&[Rule::VerdictNamesAttempts]));
    holds(config.clone().without(&[Rule::VerdictSeesItsState]));
    breaks(Config { attempts: 3, ..config }.without(&[Rule::VerdictNamesAttempts, Rule::VerdictSeesItsState]), "G2");
}

#[test]
fn time_alone_settles_nothing() {
    breaks(Config { people: People::default(), ..held() }.without(&[Rule::NoVerdictByTimer]), "G2");
}
