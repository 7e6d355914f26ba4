//! The program.

use std::process::ExitCode;

fn main() -> ExitCode {
    // A server of the lab is this program started anew.
    if let Some(code) = hugewise_lab::fake_server::if_wanted() {
        return code;
    }
    hugewise_cli::run(std::env::args_os())
}
