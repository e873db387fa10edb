use receipted::prelude::*;
use std::rc::Rc;

async fn book(key: Rc<str>) -> Result<String, std::io::Error> {
    Ok(key.to_string())
}

async fn charge(op: Operation) -> Result<Applied, Failure> {
    let key: Rc<str> = op.provider_key().into();
    let reference = book(key.clone()).await?;
    Ok(Applied::new(reference + &key, ()))
}

fn main() {
    let _route: Route<()> = operation("charge.v1").tenant(fixed("acme")).id(json("/id")).fingerprint(whole_value()).handle(charge);
}
