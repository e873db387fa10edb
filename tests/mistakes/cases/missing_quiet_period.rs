use receipted::prelude::*;

async fn charge(op: Operation) -> Result<Applied, Failure> {
    Ok(Applied::new(op.provider_key(), ()))
}

async fn find() -> Result<Finding, std::io::Error> {
    Ok(Finding::NotFound)
}

fn main() {
    let operation = operation("charge.v1").tenant(fixed("acme")).id(json("/id")).fingerprint(whole_value());
    let _route: Route<()> = operation.in_doubt(ask(find)).handle(charge);
}
