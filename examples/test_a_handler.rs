//! A handler and its tests: without a broker, with an outside world that loses answers, and with time that passes when it is told to.
//! `cargo test --example test_a_handler` runs them; docs/TESTING.md says what each is for.

use receipted::{
    prelude::*,
    testing::{Booked, Destination, Fault},
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Invoice {
    cents: u64,
}

async fn issue(op: Operation, Json(invoice): Json<Invoice>, State(books): State<Destination>) -> Result<Applied, Failure> {
    match books.book(op.provider_key(), invoice.cents).await {
        Ok(Booked::Now(number)) => Ok(Applied::new(number, ())),
        Ok(Booked::Before(number)) => Ok(Applied::already(number, ())),
        Err(down @ Fault::Down) => Err(down).no_effect(),
        Err(lost) => Err(lost)?,
    }
}

fn app() -> App<Destination> {
    let issue_once = operation("invoice.issue.v1")
        .tenant(header("tenant"))
        .id(json("/id"))
        .fingerprint(json_fields(["/cents"]))
        .in_doubt(destination_deduplicates(std::time::Duration::from_hours(24)).then(hold()))
        .handle(issue);
    App::new().topic("invoices", issue_once)
}

fn main() {
    println!("run the tests: cargo test --example test_a_handler");
    drop(app());
}

#[cfg(test)]
mod tests {
    use super::*;
    use receipted::testing::{Answers, RecordBuilder, Rehearsal, block_on, deliver, record, rehearsal};
    use std::time::Duration;

    fn invoice(id: &str, cents: u64) -> RecordBuilder {
        record().key(id).header("tenant", "acme").value(format!(r#"{{"id":"{id}","cents":{cents}}}"#))
    }

    async fn start(books: &Destination) -> Result<Rehearsal, rehearsal::Error> {
        let books = books.clone();
        Rehearsal::start(move || app().with_state(books.clone())).await
    }

    /// One record through key, arguments and handler: nothing is remembered.
    #[test]
    fn an_invoice_is_booked_and_one_without_an_amount_is_not() {
        let routes = app().with_state(Destination::deduplicating()).build().expect("a sound app");
        let became = |record| block_on(deliver(&routes, "invoices", record)).label();
        assert_eq!(became(invoice("1", 100)), "applied");
        assert_eq!(became(record().header("tenant", "acme").value(r#"{"id":"1"}"#)), "dead_lettered");
        assert_eq!(became(record().value(r#"{"id":"1","cents":100}"#)), "dead_lettered");
    }

    /// The whole app: however often it comes, the ledger has one line.
    #[tokio::test(start_paused = true)]
    async fn a_repeat_books_nothing() -> Result<(), rehearsal::Error> {
        let books = Destination::forgetful();
        let mut app = start(&books).await?;
        for _ in 0..3 {
            app.deliver("invoices", invoice("4711", 100))?;
        }
        app.complete_within(Duration::from_secs(10)).await?;
        assert_eq!(books.effects().len(), 1);
        Ok(())
    }

    /// The answer is lost, the process is killed, and the next one asks with the same key.
    #[tokio::test(start_paused = true)]
    async fn a_crash_after_the_booking_books_nothing_twice() -> Result<(), rehearsal::Error> {
        let books = Destination::deduplicating();
        books.next([Answers::Never]);
        let mut app = start(&books).await?;
        app.deliver("invoices", invoice("4711", 100))?;
        app.until(Duration::from_secs(1), || books.requests() == 1).await?;
        app.kill().await;
        assert_eq!(app.state("acme", "invoice.issue.v1", &["4711"])?, "in_doubt");
        app.restart().await?;
        app.complete_within(Duration::from_secs(60)).await?;
        assert_eq!((books.effects().len(), books.requests()), (1, 2));
        assert_eq!(app.state("acme", "invoice.issue.v1", &["4711"])?, "applied");
        Ok(())
    }

    /// An hour of a closed destination takes no time.
    #[tokio::test(start_paused = true)]
    async fn a_destination_that_is_down_is_tried_again() -> Result<(), rehearsal::Error> {
        let books = Destination::deduplicating();
        books.next([Answers::Down; 8]);
        let mut app = start(&books).await?;
        app.deliver("invoices", invoice("4711", 100))?;
        app.complete_within(Duration::from_secs(3600)).await?;
        assert_eq!((books.effects().len(), books.requests()), (1, 9));
        Ok(())
    }
}
