use receipted::prelude::*;

async fn charge(op: Operation) -> Result<Applied, std::io::Error> {
    Ok(Applied::new(op.provider_key(), ()))
}

fn main() {
    let _route: Route<()> = operation("charge.v1").tenant(fixed("acme")).id(json("/id")).fingerprint(whole_value()).handle(charge);
}
