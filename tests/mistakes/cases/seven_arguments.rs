use receipted::prelude::*;

async fn charge(
    op: Operation,
    _headers: Headers,
    _a: Raw,
    _b: Raw,
    _c: Raw,
    _d: Raw,
    _e: Raw,
) -> Result<Applied, Failure> {
    Ok(Applied::new(op.provider_key(), ()))
}

fn main() {
    let _route: Route<()> = operation("charge.v1").tenant(fixed("acme")).id(json("/id")).fingerprint(whole_value()).handle(charge);
}
