use receipted::prelude::*;

async fn charge(op: Operation) -> Result<(), Failure> {
    println!("{}", op.provider_key());
    Ok(())
}

fn main() {
    let _route: Route<()> = operation("charge.v1").tenant(fixed("acme")).id(json("/id")).fingerprint(whole_value()).handle(charge);
}
