use receipted::prelude::*;

#[derive(serde::Deserialize)]
struct Charge;

async fn charge(op: Operation, _charge: Charge) -> Result<Applied, Failure> {
    Ok(Applied::new(op.provider_key(), ()))
}

fn main() {
    let _route: Route<()> = operation("charge.v1").tenant(fixed("acme")).id(json("/id")).fingerprint(whole_value()).handle(charge);
}
