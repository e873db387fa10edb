//! The program without an app: for operators of any team's service.

use std::process::ExitCode;

fn main() -> ExitCode {
    receipted::cli::bare()
}
