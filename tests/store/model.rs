//! Random histories: every store gives the same answers and shows the same state, whatever is repeated, lost, or reopened between;
//! and a receipt is the same set in whatever order it came together.

use crate::{
    fixture::{Fixture, KINDS, Stop},
    make::*,
};
use libtest_mimic::{Failed, Trial};
use proptest::{
    prelude::*,
    test_runner::{Config, TestCaseError, TestRunner},
};
use receipted::{
    protocol::{
        known::{Entry, Revision},
        note::{Doubt, DoubtReason, Fact, Ruling},
        park::{Closing, EndKind, ParkReason},
        receipt::Receipt,
        time::UnixMillis,
    },
    store::{Batch, ReceiptStore, Which},
};

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |name: &str, test: fn()| {
        Trial::test(name, move || {
            test();
            Ok::<(), Failed>(())
        })
    };
    vec![
        trial("model::all_stores_agree_on_every_history", all_stores_agree_on_every_history),
        trial("model::a_receipt_is_the_same_set_in_any_order", a_receipt_is_the_same_set_in_any_order),
    ]
}

#[derive(Debug, Clone, Copy)]
enum Seen {
    Current,
    Old,
}

#[derive(Debug, Clone)]
enum Op {
    Admit(u8, u32, Seen),
    Fact(u8, u32, u8),
    Doubt(u8, u32, DoubtReason),
    Rule(u8, Vec<u32>, u8, Seen),
    Park(Option<u8>, i64, u32, ParkReason, Seen),
    Hold(u8, i64, i64, Seen),
    End(Option<u8>, i64, u32, u8),
    Close(i64, u8),
    Watermark(i64),
    Committed(i64),
}

#[derive(Debug, Clone)]
enum Step {
    Append(Vec<Op>),
    Repeat,
    Reopen(bool),
}

const IDS: [&str; 3] = ["a", "b", "c"];

fn seen_strategy() -> impl Strategy<Value = Seen> {
    prop_oneof![4 => Just(Seen::Current), 1 => Just(Seen::Old)]
}

fn op() -> impl Strategy<Value = Op> {
    let id = || 0..3_u8;
    let number = || 1..4_u32;
    let offset = || 0..6_i64;
    let doubt = prop::sample::select(&DoubtReason::ALL[..]);
    let reason = || prop::sample::select(&ParkReason::ALL[..]);
    prop_oneof![
        4 => (id(), number(), seen_strategy()).prop_map(|(id, number, seen)| Op::Admit(id, number, seen)),
        3 => (id(), number(), 0..6_u8).prop_map(|(id, number, fact)| Op::Fact(id, number, fact)),
        2 => (id(), number(), doubt).prop_map(|(id, number, reason)| Op::Doubt(id, number, reason)),
        2 => (id(), prop::collection::vec(number(), 0..3), 0..4_u8, seen_strategy())
            .prop_map(|(id, attempts, ruling, seen)| Op::Rule(id, attempts, ruling, seen)),
        3 => (prop::option::weighted(0.8, id()), offset(), number(), reason(), seen_strategy())
            .prop_map(|(id, offset, number, reason, seen)| Op::Park(id, offset, number, reason, seen)),
        2 => (id(), offset(), offset(), seen_strategy()).prop_map(|(id, park, slot, seen)| Op::Hold(id, park, slot, seen)),
        2 => (prop::option::weighted(0.8, id()), offset(), number(), 0..3_u8)
            .prop_map(|(id, offset, number, kind)| Op::End(id, offset, number, kind)),
        1 => (offset(), 0..2_u8).prop_map(|(offset, closing)| Op::Close(offset, closing)),
        1 => offset().prop_map(Op::Watermark),
        1 => offset().prop_map(Op::Committed),
    ]
}

fn history() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => prop::collection::vec(op(), 1..6).prop_map(Step::Append),
        1 => Just(Step::Repeat),
        1 => any::<bool>().prop_map(Step::Reopen),
    ];
    prop::collection::vec(step, 1..14)
}

fn facts(which: u8) -> Fact {
    match which {
        0 => Fact::Applied(applied("ref-1")),
        1 => Fact::Applied(applied("ref-2")),
        2 => Fact::Applied(applied("")),
        3 => Fact::Rejected("over the limit".into()),
        4 => Fact::NoEffect("busy".into()),
        _ => Fact::NotStarted,
    }
}

fn ruling(which: u8) -> Ruling {
    match which {
        0 => Ruling::Applied(applied("ref-9")),
        1 => Ruling::NotDone,
        2 => Ruling::Rejected,
        _ => Ruling::Reopened,
    }
}

fn entry(store: &dyn ReceiptStore, op: &Op) -> Entry {
    let revision = |id: u8, seen: Seen| match seen {
        Seen::Current => seen_of(store, id),
        Seen::Old => Revision(seen_of(store, id).0.saturating_sub(1)),
    };
    let closing = |which: u8| if which == 0 { Closing::DeadLettered } else { Closing::Discarded };
    match op {
        Op::Admit(id, number, seen) => admit(IDS[usize::from(*id)], *number, revision(*id, *seen)),
        Op::Fact(id, number, which) => fact(IDS[usize::from(*id)], *number, facts(*which)),
        Op::Doubt(id, number, reason) => doubt(IDS[usize::from(*id)], *number, *reason),
        Op::Rule(id, attempts, which, seen) => rule(IDS[usize::from(*id)], revision(*id, *seen), attempts, ruling(*which)),
        Op::Park(id, offset, number, reason, seen) => {
            let rests = id.filter(|_| reason.follows_operation()).map(|id| revision(id, *seen));
            park(id.map(|id| IDS[usize::from(id)]), rests, *offset, *number, *reason)
        }
        Op::Hold(id, park, offset, seen) => Entry::Hold {
            key: key(IDS[usize::from(*id)]),
            seen: revision(*id, *seen),
            park: park_id(*park, 1),
            slot: slot(*offset),
            record: payload(&format!("repeat {offset}")).digest(),
        },
        Op::End(id, offset, number, which) => {
            let kind = [EndKind::Settled, EndKind::DeadLettered, EndKind::Discarded][usize::from(*which)].clone();
            end(id.map(|id| IDS[usize::from(id)]), *offset, *number, kind)
        }
        Op::Close(offset, which) => {
            let record = payload(&format!("record {offset}")).digest();
            Entry::Close { slot: slot(*offset), closing: closing(*which), record }
        }
        Op::Watermark(offset) => Entry::Watermark { slot: slot(*offset) },
        Op::Committed(offset) => Entry::Committed { slot: slot(*offset) },
    }
}

fn seen_of(store: &dyn ReceiptStore, id: u8) -> Revision {
    seen(store, IDS[usize::from(id)])
}

/// Everything that a store shows, as text.
fn shown(store: &dyn ReceiptStore) -> String {
    let listings = [Which::All, Which::InDoubt, Which::Parked, Which::Disputed, Which::Superseded, Which::ReopenedWaiting];
    let listed: Vec<_> = listings.iter().map(|which| (store.list(*which, None, 99).expect("lists"), store.count(*which))).collect();
    let slots: Vec<_> = (0..6).map(slot).collect();
    let payloads: Vec<_> = (0..6).flat_map(|offset| (1..4).map(move |number| park_id(offset, number))).collect();
    let payloads: Vec<_> = payloads.iter().map(|id| store.payload(id).expect("reads")).collect();
    format!(
        "{listed:#?}\n{:#?}\n{:#?}\n{:#?}\n{:#?}\n{:#?}\n{payloads:?}\n{:?}",
        store.slots(&slots),
        store.parked(None, 99),
        store.marks(),
        store.totals(),
        store.incidents(0, 99).expect("reads"),
        (store.sizes().operations, store.sizes().parked_bytes),
    )
}

fn all_stores_agree_on_every_history() {
    let config = Config { cases: 32, failure_persistence: None, ..Config::default() };
    let run = TestRunner::new(config).run(&history(), |steps| {
        let mut fixtures: Vec<Fixture> = KINDS.iter().map(|kind| Fixture::new(*kind)).collect();
        let mut last = Vec::new();
        for step in &steps {
            match step {
                Step::Reopen(clean) => {
                    let stop = if *clean { Stop::Clean } else { Stop::Killed };
                    fixtures.iter_mut().for_each(|fixture| fixture.reopen(stop));
                }
                Step::Append(ops) => {
                    last = ops.iter().map(|op| entry(fixtures[0].store(), op)).collect();
                    agree(&fixtures, &last)?;
                }
                Step::Repeat => agree(&fixtures, &last)?,
            }
        }
        let first = shown(fixtures[0].store());
        for fixture in &mut fixtures {
            prop_assert_eq!(&shown(fixture.store()), &first);
            fixture.reopen(Stop::Killed);
            prop_assert_eq!(&shown(fixture.store()), &first);
        }
        Ok(())
    });
    run.expect("the stores agree");
}

fn agree(fixtures: &[Fixture], entries: &[Entry]) -> Result<(), TestCaseError> {
    let answers = |fixture: &Fixture| fixture.store().append(Batch(entries.to_vec())).expect("the batch is durable").answers;
    let first = answers(&fixtures[0]);
    for fixture in &fixtures[1..] {
        prop_assert_eq!(&answers(fixture), &first);
    }
    Ok(())
}

#[derive(Debug, Clone)]
enum Piece {
    Admission(u32),
    Fact(u32, u8),
    Doubt(u32),
    Verdict(Vec<u32>, u8),
}

fn add(receipt: &mut Receipt, piece: &Piece) {
    match piece {
        Piece::Admission(number) => receipt.admit(attempt(*number), admission(i64::from(*number))),
        Piece::Fact(number, which) => receipt.learn(attempt(*number), facts(*which)),
        Piece::Doubt(number) => {
            let doubt = Doubt { reason: DoubtReason::Timeout, detail: format!("{number}"), at: UnixMillis(1) };
            receipt.doubt(attempt(*number), doubt);
        }
        Piece::Verdict(attempts, which) => {
            let Entry::Rule { verdict, .. } = rule("a", Revision(0), attempts, ruling(*which)) else { unreachable!() };
            receipt.rule(*verdict);
        }
    }
}

fn a_receipt_is_the_same_set_in_any_order() {
    let piece = prop_oneof![
        (1..4_u32).prop_map(Piece::Admission),
        (1..4_u32, 0..6_u8).prop_map(|(number, which)| Piece::Fact(number, which)),
        (1..4_u32).prop_map(Piece::Doubt),
        (prop::collection::vec(1..4_u32, 0..3), 0..4_u8).prop_map(|(attempts, which)| Piece::Verdict(attempts, which)),
    ];
    let pieces = prop::collection::vec(piece, 0..10)
        .prop_flat_map(|pieces| (Just(pieces.clone()), Just(pieces).prop_shuffle(), prop::collection::vec(any::<bool>(), 10)));
    let config = Config { cases: 2000, failure_persistence: None, ..Config::default() };
    let run = TestRunner::new(config).run(&pieces, |(pieces, shuffled, side)| {
        let mut straight = Receipt::default();
        pieces.iter().for_each(|piece| add(&mut straight, piece));
        let mut twice = Receipt::default();
        shuffled.iter().chain(&shuffled).for_each(|piece| add(&mut twice, piece));
        prop_assert_eq!(&twice, &straight);
        // Two halves that meet, in either order, and once more.
        let (mut left, mut right) = (Receipt::default(), Receipt::default());
        for (piece, side) in shuffled.iter().zip(side.iter().cycle()) {
            add(if *side { &mut left } else { &mut right }, piece);
        }
        let (mut one, mut other) = (left.clone(), right.clone());
        one.join(&right);
        other.join(&left);
        one.join(&other);
        prop_assert_eq!(&one, &straight);
        prop_assert_eq!(&other, &straight);
        prop_assert_eq!(one.state(), straight.state());
        prop_assert_eq!(one.notes(), straight.notes());
        Ok(())
    });
    run.expect("order and repetition change nothing");
}
