//! `cargo xtask fuzz`: every target for a while.

use crate::{Failure, shell};

pub(crate) fn run(seconds: u32) -> Result<(), Failure> {
    // The proxy of rustup knows +nightly; the cargo that runs this does not.
    let fuzz = || {
        let mut command = shell::command("cargo");
        command.args(["+nightly", "fuzz"]);
        command
    };
    let listed = shell::output(fuzz().arg("list"))
        .map_err(|failure| format!("{failure}\n`cargo install cargo-fuzz` and a nightly toolchain are needed"))?;
    for target in String::from_utf8(listed)?.lines() {
        shell::run(fuzz().args(["run", target, "--", &format!("-max_total_time={seconds}")]))?;
    }
    Ok(())
}
