//! The likeliest mistakes of a team: none compiles, and what the compiler says names the remedy. The texts are those of the Rust version
//! in Cargo.toml. `TRYBUILD=overwrite cargo test -p receipted-mistakes` writes them anew; read them before they are kept.

#[test]
fn each_mistake_is_refused_in_words_that_help() {
    let mistakes = trybuild::TestCases::new();
    mistakes.compile_fail("cases/*.rs");
}

/// The route that each mistake departs from, so that a mistake fails for the reason that it names.
#[cfg(test)]
mod right {
    use receipted::prelude::*;

    #[derive(Clone)]
    struct Bank;

    #[derive(serde::Deserialize)]
    struct Charge {
        cents: u64,
    }

    async fn charge(op: Operation, Json(charge): Json<Charge>, State(_bank): State<Bank>) -> Result<Applied<u64>, Failure> {
        Ok(Applied::new(op.provider_key(), charge.cents))
    }

    #[test]
    fn the_complete_route_compiles_and_is_taken() {
        let route = operation("charge.v1").tenant(fixed("acme")).id(json("/id")).fingerprint(whole_value()).handle(charge);
        let app: App<Bank> = App::new().topic("payments", route);
        assert_eq!(app.with_state(Bank).build().map_err(|error| error.to_string()).map(|routes| routes.operations().len()), Ok(1));
    }
}
