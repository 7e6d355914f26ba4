//! `cargo xtask fuzz`: every target for a while.

use hugewise_testkit::tools::{Failure, shell};

/// No input may take more memory at once; the sanitizer's own comes on top in all.
const LIMITS: [&str; 2] = ["-malloc_limit_mb=256", "-rss_limit_mb=1024"];

pub(crate) fn run(seconds: u32) -> Result<(), Failure> {
    // The proxy of rustup knows +nightly; the cargo that runs this does not.
    let fuzz = || {
        let mut command = shell::command("cargo");
        command.args(["+nightly", "fuzz"]);
        command
    };
    let listed = shell::output(fuzz().arg("list")).map_err(|failure| {
        format!("{failure}\n`cargo install cargo-fuzz` and a nightly toolchain are needed")
    })?;
    for target in String::from_utf8(listed)?.lines() {
        let seconds = format!("-max_total_time={seconds}");
        shell::run(fuzz().args(["run", target, "--", &seconds]).args(LIMITS))?;
    }
    Ok(())
}
