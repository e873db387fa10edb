use receipted::prelude::*;
use std::time::Duration;

async fn find(_op: Operation) -> Result<Finding, Failure> {
    Err("timeout").no_effect()
}

fn main() {
    let _contract: receipted::handler::Contract<()> = ask(find).after_quiet(Duration::from_mins(2));
}
