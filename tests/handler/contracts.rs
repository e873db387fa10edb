//! A route's contract and limits become the policy that the rules read, complete.

use crate::bank::*;
use receipted::{
    handler::{AttemptInfo, RoutePlan},
    prelude::*,
    protocol::{
        outcome::Finding as Found,
        policy::{BackOff, Contract, FreshKey, Policy},
    },
    testing::{block_on, look_up},
};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_hours(24);

fn policy(route: Route<Bank>) -> Policy {
    routes(route, Bank).operations()[0].policy.clone()
}

#[test]
fn a_route_that_says_nothing_has_the_default_policy_except_a_margin_that_covers_the_quiet_period() {
    let default = Policy::default();
    let margin = default.detached_max + default.contract.quiet();
    assert_eq!(policy(declared().handle(charge)), Policy { margin, ..default });
}

#[test]
fn every_limit_reaches_the_policy() {
    let route = declared()
        .in_doubt(hold().after_quiet(7 * SECOND))
        .on_conflict(OnConflict::Reject)
        .on_expired(OnExpired::Run)
        .time_limit(2 * SECOND)
        .detached_max(3 * SECOND)
        .attempts_max(4)
        .back_off(5 * SECOND, 6 * SECOND)
        .give_up(8 * SECOND)
        .unresolved_max(9)
        .fresh_key_after_no_effect()
        .handle(charge);
    let expected = Policy {
        contract: Contract::Hold { quiet: 7 * SECOND },
        on_conflict: OnConflict::Reject,
        on_expired: OnExpired::Run,
        time_limit: 2 * SECOND,
        detached_max: 3 * SECOND,
        attempts_max: 4,
        back_off: BackOff { first: 5 * SECOND, max: 6 * SECOND, give_up: 8 * SECOND },
        unresolved_max: 9,
        margin: 10 * SECOND,
        fresh_key_after_no_effect: FreshKey::AfterNoEffect,
    };
    assert_eq!(policy(route), expected);
}

#[test]
fn detached_max_is_ten_times_the_time_limit_unless_said() {
    assert_eq!(policy(declared().time_limit(2 * SECOND).handle(charge)).detached_max, 20 * SECOND);
    assert_eq!(policy(declared().detached_max(40 * SECOND).time_limit(2 * SECOND).handle(charge)).detached_max, 40 * SECOND);
}

#[test]
fn the_margin_covers_a_living_attempt_and_a_request_on_its_way_unless_more_is_said() {
    let contract = || destination_deduplicates(DAY);
    let route = declared().in_doubt(contract().then(hold().after_quiet(60 * SECOND)));
    let policy_of = policy(route.handle(charge));
    assert_eq!(policy_of.margin, 360 * SECOND);
    assert_eq!(
        policy_of.contract,
        Contract::DestinationDeduplicates { memory: DAY, then: Box::new(Contract::Hold { quiet: 60 * SECOND }) }
    );
    let route = declared().in_doubt(contract().margin(1000 * SECOND).then(ask(find_charge).after_quiet(60 * SECOND)));
    assert_eq!(policy(route.handle(charge)).margin, 1000 * SECOND);
}

#[test]
fn the_last_contract_is_asked_and_hold_has_nobody_to_ask() {
    let looked = |route: Route<Bank>, id: &str| block_on(look_up(&routes(route, Bank), "payments", record(id, "ada", 7)));
    let asks = || ask(find_charge).after_quiet(SECOND);
    for contract in [asks(), destination_deduplicates(DAY).then(asks())] {
        let route = declared().in_doubt(contract).handle(charge);
        assert!(matches!(looked(route.clone(), "c7"), Ok(Found::Found(found)) if found.len() == 1));
        assert_eq!(looked(route.clone(), "c8"), Ok(Found::NotFound));
        assert_eq!(looked(route, "down"), Err("the bank is closed".into()));
    }
    let held = routes(declared().handle(charge), Bank);
    assert!(held.operations()[0].look_up(delivery(&held, record("c7", "ada", 7), AttemptInfo::default())).is_none());
}

#[test]
fn a_lookup_may_see_several_effects_and_names_at_least_one() {
    async fn several() -> Result<Finding, BankError> {
        Ok(Finding::FoundSeveral(vec![Applied::new("a", ()), Applied::new("b", ())]))
    }
    async fn none() -> Result<Finding, BankError> {
        Ok(Finding::FoundSeveral(vec![]))
    }
    async fn pending() -> Result<Finding, BankError> {
        Ok(Finding::Pending)
    }
    let looked = |contract| block_on(look_up(&routes(declared().in_doubt(contract).handle(charge), Bank), "payments", record("c", "a", 1)));
    match looked(ask(several).after_quiet(SECOND)) {
        Ok(Found::Found(found)) => assert_eq!(found.len(), 2),
        other => panic!("{other:?}"),
    }
    assert!(looked(ask(none).after_quiet(SECOND)).is_err(), "an empty list is no proof of absence");
    assert_eq!(looked(ask(pending).after_quiet(SECOND)), Ok(Found::Pending));
}

#[test]
fn a_lookup_with_a_bad_argument_is_invalid_and_not_evidence() {
    async fn find(_: Json<Charge>) -> Result<Finding, BankError> {
        Ok(Finding::NotFound)
    }
    let routes = routes(declared::<()>().in_doubt(ask(find).after_quiet(SECOND)).handle(nothing), ());
    let delivery = delivery(&routes, record("c7", "a", 1).value(r#"{"charge_id":"c7"}"#), AttemptInfo::default());
    assert!(matches!(routes.operations()[0].look_up(delivery), Some(Err(_))));
}

#[test]
fn a_plan_prints_its_documented_contract() {
    let contract = destination_deduplicates(DAY).then(ask(find_charge).after_quiet(SECOND));
    let routes = routes(declared().in_doubt(contract).formerly("charge.v0").handle(charge), Bank);
    let printed = routes.to_string();
    for word in ["charge.v1", "payments", r#"header "tenant""#, r#"json "/charge_id""#, "/account, /cents", "charge.v0"] {
        assert!(printed.contains(word), "{word} is missing in\n{printed}");
    }
    assert!(printed.contains("destination_deduplicates for 86400s less 301s, then ask, quiet period 1s"), "{printed}");
}

#[test]
fn a_plan_says_whether_its_handler_can_pass_the_key_on() {
    let passes = |route: Route<Bank>| RoutePlan::passes_key(&routes(route, Bank).operations()[0]);
    assert!(passes(declared().handle(charge)));
    assert!(!passes(declared().handle(nothing)));
}
