//! An app inside a service that has a runtime, a log and an end of its own: `receipted::serve` instead of `receipted::main`.

use receipted::{Config, prelude::*};
use serde::Deserialize;
use std::{error::Error, future::Future};

#[derive(Deserialize)]
struct Welcome {
    email: String,
}

async fn welcome(op: Operation, Json(welcome): Json<Welcome>) -> Result<Applied, Failure> {
    Ok(Applied::new(format!("mail to {} under {}", welcome.email, op.provider_key()), ()))
}

fn app() -> App {
    let welcome = operation("welcome.v1").tenant(fixed("acme")).id(json("/email")).fingerprint(unchecked("only the address is sent"));
    App::new().topic("signups", welcome.handle(self::welcome))
}

/// What the service runs until: its own signal, a command of its supervisor, the end of something else. Facts are durable and offsets
/// committed when `run_until` returns.
async fn run(config: Config, end: impl Future<Output = ()>) -> Result<(), receipted::cli::Error> {
    receipted::serve(config, app().with_state(())).run_until(end).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let config = Config::load(Some("receipted.toml".as_ref()), std::env::vars_os())?;
    let end = async {
        if let Err(error) = tokio::signal::ctrl_c().await {
            eprintln!("no signals: {error}; ending");
        }
    };
    run(config, end).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use receipted::testing::{Rehearsal, record, rehearsal};
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn the_app_is_the_same_wherever_it_runs() -> Result<(), rehearsal::Error> {
        let mut app = Rehearsal::start(|| super::app().with_state(())).await?;
        for _ in 0..2 {
            app.deliver("signups", record().value(r#"{"email":"ada"}"#))?;
        }
        app.complete_within(Duration::from_secs(10)).await?;
        assert_eq!(app.state("acme", "welcome.v1", &["ada"])?, "applied");
        Ok(())
    }

    /// A service that cannot be set up says why, before anything is opened.
    #[tokio::test]
    async fn what_cannot_start_says_why() -> Result<(), Box<dyn Error>> {
        let taken = std::net::TcpListener::bind("127.0.0.1:0")?;
        let text = format!(
            "[kafka]\nbrokers = \"localhost:9092\"\ngroup = \"g\"\n[store]\ndirectory = \"never-made\"\n[telemetry]\nlisten = \"{}\"\n",
            taken.local_addr()?
        );
        let ended = run(Config::from_text(&text)?, std::future::pending()).await;
        assert!(ended.is_err_and(|error| error.to_string().starts_with("cannot listen on") && error.exit_code() == 78));
        assert!(!std::path::Path::new("never-made").exists());
        Ok(())
    }
}
