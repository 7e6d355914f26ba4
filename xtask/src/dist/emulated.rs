//! What was built for arm64, tried without such a machine: qemu runs it, in the root file system
//! that it was built in.
//!
//! A process of qemu's is one of this machine's kernel, with this machine's page size: what the
//! program asks of a running kernel is not tried here, but its reading and its reckoning are.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{binary, cross, processor::ARM64};
use hugewise_testkit::tools::{Failure, shell};

/// Each captured host of the project: the programs for this processor and for arm64 have to say the
/// same of it, byte for byte.
pub(super) fn run(here: &Path, there: &Path) -> Result<(), Failure> {
    let cargo_home = binary::cargo_home()?;
    let mut count = 0;
    for host in captured()? {
        let native =
            exit_code_and_output(shell::command(here).args(["check", "--root"]).arg(&host))?;
        let mut emulated = cross::inside(&cargo_home, &super::builds())?;
        let emulated = exit_code_and_output(
            emulated.arg(cross::EMULATOR).arg(there).args(["check", "--root"]).arg(&host),
        )?;
        if native != emulated {
            return Err(format!(
                "{} is another host on arm64:\n{native:?}\n{emulated:?}",
                host.display()
            )
            .into());
        }
        count += 1;
    }
    println!("   {count} captured hosts, the same byte for byte");
    Ok(())
}

/// Folders and archives of fixtures/hosts, beside which stands what is said of them.
fn captured() -> Result<Vec<PathBuf>, Failure> {
    let mut hosts = Vec::new();
    for entry in fs::read_dir(shell::root().join("fixtures/hosts"))? {
        let path = entry?.path();
        if let Some(host) = path.to_str().and_then(|path| path.strip_suffix(".expected.txt")) {
            hosts.push(PathBuf::from(host));
        }
    }
    hosts.sort();
    if hosts.is_empty() { Err("no captured host is there".into()) } else { Ok(hosts) }
}

/// Exit code, and all that a program says.
fn exit_code_and_output(command: &mut Command) -> Result<(Option<i32>, String), Failure> {
    let output = command.output()?;
    Ok((
        output.status.code(),
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned(),
    ))
}

/// Which tests.
#[derive(clap::Args)]
pub(crate) struct Tests {
    /// Parts of tests' names; all tests when none is named.
    names: Vec<String>,
}

/// Crates whose own tests run: what reads a host, what knows servers, what judges.
const CRATES: [&str; 6] = [
    "hugewise-source",
    "hugewise-procfs",
    "hugewise-config",
    "hugewise-host",
    "hugewise-engines",
    "hugewise-diagnose",
];

/// Tests that cannot hold there, and why.
const CANNOT: [(&str, &str); 4] = [
    (
        "process::tests::the_live_machine_has_this_process",
        "the kernel's name for its program is qemu's",
    ),
    ("live::tests::page_sizes_agree_with_smaps", "qemu does not pass the ioctl PROCMAP_QUERY on"),
    (
        "owner::tests::a_way_that_is_known_is_gone_as_if_it_were_new",
        "it writes among the sources, which are read-only",
    ),
    (
        "sys::tests::what_a_process_has_run_is_what_proc_says",
        "a child of qemu has a thread of qemu's until it runs its program, which its clock counts \
             and its schedstat does not",
    ),
];

/// The crates' own tests, built for arm64 and run by qemu.
pub(crate) fn tests(Tests { names }: &Tests) -> Result<(), Failure> {
    let mut cargo = cross::cargo(&binary::cargo_home()?, &super::builds())?;
    cargo.args(["test", "--locked", "--lib", "--no-fail-fast", "--target", ARM64.target]);
    for name in CRATES {
        cargo.args(["--package", name]);
    }
    cargo.arg("--").args(names);
    for (test, why) in CANNOT {
        println!("   not under qemu: {test}: {why}");
        cargo.args(["--skip", test]);
    }
    cargo
        .env("CARGO_TARGET_DIR", super::builds())
        .env("RUSTFLAGS", "-C target-feature=+crt-static");
    cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", cross::EMULATOR);
    // What is emulated takes long enough without being slow by itself.
    shell::run(cargo.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_PROFILE_DEV_OPT_LEVEL", "1"))
}
