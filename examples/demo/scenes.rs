//! What goes wrong, scene by scene. Each says what was sent, what happened (from the runner's metrics) and what the destination's
//! ledger has.

use crate::{
    sent::{Bill, TENANTS},
    service::{INVOICES, PAYOUTS, REMINDERS},
    show::grouped,
    stage::Stage,
    support::{
        cluster::{Record, record},
        destination::{Behaviour, Memory, is, prefix},
    },
};
type Played = Result<(), String>;

const INVOICES_SENT: usize = 1000;
const REPEATS: usize = 300;

/// Plays them all.
pub fn play(stage: &mut Stage) -> Played {
    start(stage)?;
    repeats(stage)?;
    repeats_at_the_same_time(stage)?;
    rewind(stage)?;
    changed_and_undecodable(stage)?;
    lost_answers_at_the_bank(stage)?;
    lost_answers_at_the_print_shop(stage)?;
    kill(stage)?;
    broken_promise(stage)
}

fn start(stage: &mut Stage) -> Played {
    stage.show.scene("A broker in this process, a destination and a runner in processes of their own");
    stage.show.fact("broker", &format!("{} (in process; speaks Kafka's protocol)", stage.cluster.brokers()));
    stage.show.fact(
        "topics",
        "invoices (a bank that can be asked), reminders (a print shop that cannot), payouts (a provider that deduplicates)",
    );
    let took = stage.start_runner()?;
    let text = format!(
        "pid {}, serves 8 partitions after {:.1} s; receipts in {}",
        stage.runner_pid(),
        took.as_secs_f32(),
        stage.store().display()
    );
    stage.show.fact("runner", &text);
    Ok(())
}

fn repeats(stage: &mut Stage) -> Played {
    stage.show.scene("Invoices of four tenants, many of them delivered twice");
    let invoice = |number: usize| Bill::new(INVOICES, TENANTS[number % TENANTS.len()], format!("INV-{number:04}"));
    let mut bills: Vec<Bill> = (0..INVOICES_SENT).map(invoice).collect();
    // Each repeat comes some records after its first delivery.
    for number in 0..REPEATS {
        bills.insert((number * 4 + 40).min(bills.len()), invoice(number * 3));
    }
    let seen = Seen::now(stage);
    stage.send(&bills);
    stage.wait_complete()?;
    stage.show.fact("sent", &format!("{} invoices, and {REPEATS} of them again under new delivery ids", grouped(INVOICES_SENT as u64)));
    seen.tell(stage, "");
    Ok(())
}

fn repeats_at_the_same_time(stage: &mut Stage) -> Played {
    stage.show.scene("The same invoice on two partitions at the same moment");
    let bills =
        |partition| -> Vec<Bill> { (0..8).map(|number| Bill::new(INVOICES, "acme", format!("TWIN-{number}")).on(partition)).collect() };
    let slow = stage.ledger.times(8, prefix("acme/invoice.v1/TWIN"), Behaviour::AnswerLate);
    let seen = Seen::now(stage);
    stage.send(&bills(0));
    stage.wait("the slow bookings have begun", |stage| stage.ledger.hits(slow) == 8)?;
    stage.send(&bills(1));
    let fetched = stage.sent.records + stage.sent.read_again;
    stage.wait("the repeats have come", |stage| stage.counted("receipted_records_fetched_total", &[]) >= fetched)?;
    stage.ledger.release(slow);
    stage.wait_complete()?;
    stage.show.fact("sent", "8 invoices, and all of them again on another partition while their handlers still ran");
    seen.tell(stage, ": the repeats waited for the answer of the first");
    Ok(())
}

fn rewind(stage: &mut Stage) -> Played {
    stage.show.scene("An operator moves the group's offsets back to the beginning");
    let seen = Seen::now(stage);
    stage.stop_runner()?;
    let again = stage.rewind(INVOICES)?;
    stage.start_runner()?;
    stage.wait_complete()?;
    stage.show.fact("sent", &format!("nothing; all {} records of the topic invoices were read again", grouped(again)));
    seen.tell(stage, "");
    Ok(())
}

fn changed_and_undecodable(stage: &mut Stage) -> Played {
    stage.show.scene("Records that must not run: the same key with another amount, and records that are no invoice");
    let seen = Seen::now(stage);
    let changed: Vec<Bill> = (0..3).map(|number| Bill::new(INVOICES, TENANTS[number], format!("INV-{number:04}")).cents(999_900)).collect();
    for bill in &changed {
        *stage.sent.changed.entry(bill.operation()).or_default() += 1;
    }
    stage.send(&changed);
    let broken: [Record; 4] = [
        record("this is not JSON").header("tenant", "acme"),
        record(r#"{"id":"INV-9001","cents":4200}"#),
        record(r#"{"id":"INV-9002"}"#).header("tenant", "acme"),
        record(r#"{"id":"no spaces in a key","cents":4200}"#).header("tenant", "acme"),
    ];
    stage.send_undecodable(broken.to_vec());
    stage.wait_complete()?;
    let parked = stage.counted("receipted_parameter_conflicts_total", &[]);
    let dead = stage.counted("receipted_operations_total", &[("outcome", "dead_lettered")]);
    stage.show.fact("sent", "3 known invoices with another amount; not JSON, no tenant, no amount, a malformed id");
    stage.show.fact("happened", &format!("{parked} parked for a person (conflict), {dead} sent to the dead-letter topic; no handler ran"));
    seen.ledger(stage);
    Ok(())
}

fn lost_answers_at_the_bank(stage: &mut Stage) -> Played {
    stage.show.scene("Answers lost, at a bank that can be asked   (contract: ask)");
    let bills = |name: &str| -> Vec<Bill> { (0..5).map(|number| Bill::new(INVOICES, "birch", format!("{name}-{number}"))).collect() };
    stage.ledger.times(5, prefix("birch/invoice.v1/BOOKED"), Behaviour::LoseAnswer);
    stage.ledger.times(5, prefix("birch/invoice.v1/NEVER"), Behaviour::LoseRequest);
    let seen = Seen::now(stage);
    stage.send(&bills("BOOKED"));
    stage.send(&bills("NEVER"));
    stage.wait_complete()?;
    stage.wait("the lookups have settled them", |stage| {
        let settled = |verdict| stage.counted("receipted_unresolved_closed_total", &[("verdict", verdict), ("by", "reconcile")]);
        settled("applied") >= 5 && settled("not_done") >= 5 && stage.ledger.ledger().total() >= seen.effects + 10
    })?;
    stage.show.fact("sent", "10 invoices: 5 are booked and the answer is lost, 5 requests are lost before they arrive");
    stage
        .show
        .fact("happened", "to the runner all 10 look the same: unresolved, parked, asked about. 5 were found; 5 were not, and ran again");
    seen.ledger(stage);
    Ok(())
}

fn lost_answers_at_the_print_shop(stage: &mut Stage) -> Played {
    stage.show.scene("Answers lost, at a print shop that nobody can ask   (contract: hold)");
    let (printed, lost) = (Bill::new(REMINDERS, "cobalt", "REM-1"), Bill::new(REMINDERS, "cobalt", "REM-2"));
    stage.ledger.once(is(printed.operation()), Behaviour::LoseAnswer);
    stage.ledger.once(is(lost.operation()), Behaviour::LoseRequest);
    stage.sent.unknowable.insert(printed.operation(), "unknown");
    stage.sent.unknowable.insert(lost.operation(), "unknown");
    let seen = Seen::now(stage);
    stage.send(&[printed.clone(), lost, Bill::new(REMINDERS, "cobalt", "REM-3")]);
    stage.wait_complete()?;
    stage.send(&[printed]);
    stage.wait_complete()?;
    stage.show.fact("sent", "3 reminders: one printed and its answer lost, one request lost, one as it should be; the first one again");
    seen.tell(stage, "");
    stage.show.fact("", "2 are unresolved: nobody knows, so nobody runs them again until a person has settled them");
    Ok(())
}

fn kill(stage: &mut Stage) -> Played {
    stage.show.scene("The runner is killed (kill -9) between effect and fact, and started again");
    let (reminder, invoice) = (Bill::new(REMINDERS, "delta", "REM-4"), Bill::new(INVOICES, "delta", "KILLED-1"));
    let printing = stage.ledger.once(is(reminder.operation()), Behaviour::AnswerLate);
    stage.ledger.once(is(invoice.operation()), Behaviour::KillAfter);
    stage.sent.unknowable.insert(reminder.operation(), "crash");
    let seen = Seen::now(stage);
    let before = stage.samples();
    stage.send(std::slice::from_ref(&reminder));
    stage.wait("the reminder is printed", |stage| stage.ledger.hits(printing) == 1)?;
    stage.send(std::slice::from_ref(&invoice));
    let died = stage.runner_dies(before)?;
    let took = stage.start_runner()?;
    stage.send(&[reminder, invoice.clone()]);
    stage.wait_complete()?;
    let settled = |stage: &Stage| stage.counted("receipted_unresolved_closed_total", &[("verdict", "applied"), ("by", "reconcile")]) >= 6;
    stage.wait("the lookup has settled the invoice", settled)?;
    stage.show.fact("sent", "an invoice and a reminder, killed after both took effect; both again after the restart");
    stage.show.fact(
        "happened",
        &format!("{died}; back after {:.1} s; each attempt was found as an admission without a fact:", took.as_secs_f32()),
    );
    stage.show.fact("", "the bank was asked and knew the invoice; the reminder is unresolved (crash). Neither ran again");
    seen.ledger(stage);
    Ok(())
}

fn broken_promise(stage: &mut Stage) -> Played {
    stage.show.scene("A provider that promised to deduplicate, and does not   (contract: destination_deduplicates)");
    let (kept, broken) = (Bill::new(PAYOUTS, "acme", "PAY-1"), Bill::new(PAYOUTS, "acme", "PAY-2"));
    stage.ledger.memory(is(kept.operation()), Memory::ByKey);
    stage.ledger.memory(is(broken.operation()), Memory::None);
    stage.ledger.once(is(kept.operation()), Behaviour::LoseAnswer);
    let late = stage.ledger.once(is(broken.operation()), Behaviour::AnswerLate);
    stage.sent.doubled.insert(broken.operation());
    let seen = Seen::now(stage);
    stage.send(&[kept, broken]);
    stage.wait_complete()?;
    stage.ledger.release(late);
    stage.wait("the late answer is counted", |stage| stage.counted("receipted_duplicate_effects_total", &[]) >= 1)?;
    stage
        .show
        .fact("sent", "2 payouts; the first loses its answer, the second gets none in time: both run again under the same provider key");
    stage.show.fact("happened", "the first was recognised; the second was booked again, and then its first attempt answered late,");
    stage.show.fact("", "with another reference: one duplicate effect, counted, with an incident");
    seen.ledger(stage);
    Ok(())
}

/// What had been counted when a scene began.
struct Seen {
    handlers: u64,
    suppressed: [u64; 3],
    effects: usize,
}

/// The reasons why a handler is not run for a repeat.
pub const REASONS: [&str; 3] = ["settled", "running", "held"];

impl Seen {
    fn now(stage: &Stage) -> Self {
        let suppressed = REASONS.map(|reason| stage.counted("receipted_suppressed_total", &[("reason", reason)]));
        Self { handlers: stage.ledger.requests(""), suppressed, effects: stage.ledger.ledger().total() }
    }

    /// How many handlers ran and how many repeats were suppressed since, and what the ledger has.
    fn tell(&self, stage: &Stage, remark: &str) {
        let now = Self::now(stage);
        let by: Vec<String> = (REASONS.iter().zip(now.suppressed.iter().zip(self.suppressed)))
            .filter(|(_, (now, before))| **now > *before)
            .map(|(reason, (now, before))| format!("{} {reason}", grouped(now - before)))
            .collect();
        let repeats = if by.is_empty() { String::new() } else { format!("; repeats not run: {}", by.join(", ")) };
        stage.show.fact("happened", &format!("{} handlers ran{repeats}{remark}", grouped(now.handlers - self.handlers)));
        self.ledger(stage);
    }

    fn ledger(&self, stage: &Stage) {
        let effects = stage.ledger.ledger().total();
        let (new, all) = (grouped((effects - self.effects) as u64), grouped(effects as u64));
        stage.show.fact("ledger", &format!("{new} new effects, {all} in all"));
    }
}
