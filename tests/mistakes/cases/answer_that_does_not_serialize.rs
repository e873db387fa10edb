use receipted::prelude::*;

struct Charged;

async fn charge(op: Operation) -> Result<Applied<Charged>, Failure> {
    Ok(Applied::new(op.provider_key(), Charged))
}

fn main() {
    let _route: Route<()> = operation("charge.v1").tenant(fixed("acme")).id(json("/id")).fingerprint(whole_value()).handle(charge);
}
