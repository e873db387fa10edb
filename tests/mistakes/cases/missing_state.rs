use receipted::prelude::*;

#[derive(Clone)]
struct Bank;

async fn charge(op: Operation, State(_bank): State<Bank>) -> Result<Applied, Failure> {
    Ok(Applied::new(op.provider_key(), ()))
}

fn main() {
    let route = operation("charge.v1").tenant(fixed("acme")).id(json("/id")).fingerprint(whole_value()).handle(charge);
    let _app: App<String> = App::new().topic("payments", route);
}
