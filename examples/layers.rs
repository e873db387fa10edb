//! Layers around attempts: tower's limits, the circuit breaker, and a layer of one's own that measures. Writes a letter for each record of
//! the topic `letters`, at a printer that is easily overrun.

use receipted::{
    handler::{Attempt, Attempts, BoxFuture, Breaker, LayerFailure, Ran},
    prelude::*,
    testing::{Booked, Destination, Fault},
};
use std::{
    process::ExitCode,
    task::{Context, Poll},
    time::{Duration, Instant},
};
use tower::{
    Layer, Service,
    limit::{ConcurrencyLimitLayer, RateLimitLayer},
};

async fn print(op: Operation, State(printer): State<Destination>) -> Result<Applied, Failure> {
    match printer.book(op.provider_key(), op.id().join("/")).await {
        Ok(Booked::Now(number)) => Ok(Applied::new(number, ())),
        Ok(Booked::Before(number)) => Ok(Applied::already(number, ())),
        Err(Fault::Down) => Err(Failure::no_effect("the printer is down")),
        Err(other) => Err(Failure::unknown(other)),
    }
}

/// Logs what each attempt took, and what became of it.
#[derive(Clone)]
struct Measure;

struct Measured(Attempts);

impl Layer<Attempts> for Measure {
    type Service = Measured;

    fn layer(&self, inner: Attempts) -> Measured {
        Measured(inner)
    }
}

impl Service<Attempt> for Measured {
    type Response = Ran;
    type Error = LayerFailure; // it has no failure of its own, and passes on those of the layers in it
    type Future = BoxFuture<Result<Ran, LayerFailure>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), LayerFailure>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, attempt: Attempt) -> Self::Future {
        let (key, run) = (attempt.operation.digest(), self.0.call(attempt));
        Box::pin(async move {
            let began = Instant::now();
            let ran = run.await?;
            tracing::info!(%key, took = ?began.elapsed(), outcome = ran.outcome().label(), "an attempt ended");
            Ok(ran)
        })
    }
}

/// Whatever prints there shares this breaker: clones are one.
fn app(printer: &Breaker) -> App<Destination> {
    let letter = operation("letter.print.v1").tenant(fixed("acme")).id(json("/id")).fingerprint(whole_value());
    let layered = letter
        .layer(Measure)
        .layer(printer.clone())
        .layer(ConcurrencyLimitLayer::new(4))
        .layer(RateLimitLayer::new(50, Duration::from_secs(1)))
        .time_limit(Duration::from_secs(20));
    App::new().topic("letters", layered.handle(print))
}

fn printer() -> Breaker {
    Breaker::new("printer").opens_after(3).stays_open(Duration::from_secs(10))
}

fn main() -> ExitCode {
    receipted::main(app(&printer()), async |_config| Ok(Destination::deduplicating()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use receipted::testing::{Answers, Rehearsal, record, rehearsal};

    #[tokio::test(start_paused = true)]
    async fn while_the_printer_is_down_letters_wait_and_then_each_is_printed_once() -> Result<(), rehearsal::Error> {
        let (printer, breaker) = (Destination::deduplicating(), super::printer());
        printer.next([Answers::Down, Answers::Down, Answers::Down]);
        let (outside, shared) = (printer.clone(), breaker.clone());
        let mut app = Rehearsal::start(move || super::app(&shared).with_state(outside.clone())).await?;
        for id in 0..100 {
            app.deliver("letters", record().value(format!(r#"{{"id":"l-{id}"}}"#)))?;
        }
        app.until(Duration::from_secs(5), || breaker.is_open()).await?;
        app.complete_within(Duration::from_secs(60)).await?;
        assert_eq!((printer.effects().len(), app.in_doubt()?, app.dead_letters().len()), (100, 0, 0));
        Ok(())
    }
}
