//! The front door.

use std::process::ExitCode;

fn main() -> ExitCode {
    hugewise_cli::run(std::env::args_os())
}
