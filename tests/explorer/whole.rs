//! With every rule in place no guarantee is broken, and from every state something leads to an end.

use crate::{
    search::holds,
    state::{Config, Destination, HONEST, People, ask, hold, remembers},
};

#[test]
fn hold_with_honest_people() {
    holds(Config { attempts: 2, rejections: 1, people: HONEST, ..Config::new("hold", hold()) });
}

#[test]
fn hold_after_two_crashes_and_a_rewind() {
    holds(Config { attempts: 2, crashes: 2, rewinds: 1, people: HONEST, ..Config::new("hold", hold()) });
}

#[test]
fn hold_with_attempts_without_effect() {
    holds(Config { slots: 1, refusals: 2, people: HONEST, ..Config::new("hold, no effect", hold()) });
}

#[test]
fn hold_with_nobody_sets_everything_aside() {
    holds(Config { crashes: 2, rewinds: 1, refusals: 1, settles: false, ..Config::new("hold, nobody", hold()) });
}

#[test]
fn hold_with_three_deliveries() {
    holds(Config { slots: 3, attempts: 2, crashes: 0, people: HONEST, ..Config::new("hold, three deliveries", hold()) });
}

#[test]
fn hold_with_wrong_and_hasty_people() {
    let people = People { wrong: 1, vouching: 1, ..HONEST };
    holds(Config { slots: 1, attempts: 2, people, ..Config::new("hold, wrong people", hold()) });
}

#[test]
fn hold_with_people_who_reject_and_reopen() {
    let people = People { reject: true, reopen: 1, ..HONEST };
    holds(Config { slots: 1, rejections: 1, people, ..Config::new("hold, reopened", hold()) });
}

#[test]
fn hold_with_people_who_set_aside() {
    let people = People { discard: true, dead_letter: true, ..HONEST };
    holds(Config { attempts: 2, crashes: 0, refusals: 1, people, ..Config::new("hold, set aside", hold()) });
}

#[test]
fn hold_with_people_who_set_aside_and_rewind() {
    let people = People { discard: true, dead_letter: true, ..HONEST };
    holds(Config { slots: 1, attempts: 2, crashes: 2, rewinds: 1, refusals: 1, people, ..Config::new("hold, set aside", hold()) });
}

#[test]
fn hold_with_futures_that_never_end_and_room_to_make() {
    holds(Config { attempts: 2, hang: true, room: true, people: HONEST, ..Config::new("hold, hanging", hold()) });
}

#[test]
fn ask_with_two_deliveries() {
    holds(Config { attempts: 2, ..Config::new("ask", ask()) });
}

#[test]
fn ask_with_three_attempts() {
    holds(Config { slots: 1, refusals: 1, rejections: 1, ..Config::new("ask", ask()) });
}

#[test]
fn ask_after_two_crashes_and_a_rewind() {
    holds(Config { slots: 1, attempts: 2, crashes: 2, rewinds: 1, ..Config::new("ask", ask()) });
}

#[test]
fn ask_with_a_request_that_lands_late() {
    holds(Config { slots: 1, destination: Destination::LandsLate, ..Config::new("ask, late request", ask()) });
}

#[test]
fn ask_with_wrong_and_hasty_people() {
    let people = People { wrong: 1, vouching: 1, ..HONEST };
    holds(Config { slots: 1, attempts: 2, people, ..Config::new("ask, wrong people", ask()) });
}

#[test]
fn ask_with_records_that_are_dead_lettered_and_do_not_decode() {
    let people = People { dead_letter: true, ..People::default() };
    holds(Config { slots: 1, attempts: 2, undecodable: 1, people, ..Config::new("ask, dead letters", ask()) });
}

#[test]
fn a_destination_that_remembers_then_ask() {
    holds(Config { attempts: 2, ..Config::new("remembers, then ask", remembers(ask())) });
}

#[test]
fn a_destination_that_remembers_then_hold() {
    holds(Config { slots: 1, attempts: 2, crashes: 2, people: HONEST, ..Config::new("remembers, then hold", remembers(hold())) });
}

#[test]
fn a_destination_that_remembers_with_three_attempts() {
    holds(Config { slots: 1, crashes: 0, ..Config::new("remembers, then ask", remembers(ask())) });
}

#[test]
fn a_destination_that_remembers_while_the_clock_goes_back() {
    holds(Config { slots: 1, attempts: 2, clock_back: 2, ..Config::new("remembers, clock back", remembers(ask())) });
}

#[test]
fn a_destination_that_books_again_then_ask() {
    let config = Config::new("books again, then ask", remembers(ask()));
    holds(Config { slots: 1, attempts: 2, crashes: 2, destination: Destination::Rebooks, ..config });
}

#[test]
fn a_destination_that_books_again_then_hold() {
    let config = Config::new("books again, then hold", remembers(hold()));
    holds(Config { slots: 1, attempts: 2, destination: Destination::Rebooks, people: HONEST, ..config });
}

#[test]
fn a_destination_that_remembers_with_new_keys() {
    let people = People { fresh_key: true, ..HONEST };
    holds(Config { slots: 1, crashes: 0, people, ..Config::new("remembers, new keys", remembers(hold())) });
}

#[test]
fn a_destination_that_remembers_with_futures_that_never_end() {
    let config = Config::new("remembers, hanging", remembers(hold()));
    holds(Config { slots: 1, attempts: 2, hang: true, room: true, people: HONEST, ..config });
}

#[test]
fn a_contract_that_changes_with_a_deployment() {
    holds(Config {
        slots: 1,
        attempts: 2,
        crashes: 2,
        before: Some(hold()),
        people: HONEST,
        ..Config::new("hold, then remembers", remembers(hold()))
    });
}
