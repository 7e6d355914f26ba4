//! Measurements and virtual machines are a workspace of their own, `proving/`: nobody who changes a
//! line of the product has to compile them.

use std::ffi::OsString;
use std::process::ExitCode;

use hugewise_testkit::tools::shell;

/// What `cargo xtask --help` says of them.
pub(crate) const HELP: &str = "\
Commands of proving/, built when one of them is asked for:
  bench      Measure: check, lab, investigate, metrics, record, serve, fleet
  exactness  Compare the pages that hugewise says with those that servers need (as root)
  forecast   Compare the page tables that hugewise forecasts with the kernel's (as root)
  incident   Make virtual machines ill, and see whether investigate names why (as root)
  jvm        Compare what hugewise foretells of Java machines with what they take (as root)
  newcomer   Type the commands of the documents on a fresh Debian (as root)
  vm         Run what hugewise promises about reboots in virtual machines (as root)";

/// Hands the command on, and its exit code back.
pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    let mut cargo = shell::cargo();
    cargo.args(["run", "--quiet", "--locked", "--manifest-path", "proving/Cargo.toml", "--"]);
    cargo.args(arguments).env("CARGO_TARGET_DIR", shell::target());
    match cargo.status() {
        Ok(status) => {
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            code.map_or(ExitCode::FAILURE, ExitCode::from)
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
