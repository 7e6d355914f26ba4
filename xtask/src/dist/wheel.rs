//! The wheel: the same binary for whoever installs with pip, as the jobs of a cluster do.

use std::fs;
use std::path::{Path, PathBuf};

use super::processor::Processor;
use super::{Release, tools};
use hugewise_testkit::tools::{Failure, shell};

/// What writes a wheel's list of files and packs it.
const WHEEL: (&str, &str) = ("wheel", "0.45.1");
const SUMMARY: &str =
    "Huge pages for database servers on Linux: check, size, plan, apply, undo, investigate";

/// Packs it, and where this machine is one of its kind installs it in an environment of its own to
/// see that it runs.
pub(super) fn build(
    release: &Release,
    processor: &Processor,
    binary: &Path,
) -> Result<(), Failure> {
    let Release { version, epoch, out, build } = release;
    let folder = build.join("wheel");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let top = folder.join(format!("hugewise-{version}"));
    let (scripts, about) = (
        top.join(format!("hugewise-{version}.data/scripts")),
        top.join(format!("hugewise-{version}.dist-info")),
    );
    fs::create_dir_all(&scripts)?;
    fs::create_dir_all(about.join("licenses"))?;
    fs::copy(binary, scripts.join("hugewise"))?;
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        fs::copy(shell::root().join(licence), about.join("licenses").join(licence))?;
    }
    fs::write(about.join("WHEEL"), platforms(processor.machine))?;
    fs::write(
        about.join("METADATA"),
        metadata(version, &fs::read_to_string(shell::root().join("README.md"))?),
    )?;
    let (name, pinned) = WHEEL;
    let mut wheel = tools::of_python(name, pinned)?;
    wheel
        .env("SOURCE_DATE_EPOCH", epoch.to_string())
        .arg("pack")
        .arg(&top)
        .arg("--dest-dir")
        .arg(out);
    shell::run(&mut wheel)?;
    if processor.machine == std::env::consts::ARCH {
        runs(&file(release, processor)?, version, &folder.join("environment"))?;
    }
    Ok(fs::remove_dir_all(folder)?)
}

/// The binary asks for no C library, so it runs with every one: of glibc since 2.17, which is the
/// oldest that pip knows by number, and of musl.
fn platforms(machine: &str) -> String {
    let tags = ["manylinux_2_17", "manylinux2014", "musllinux_1_1"]
        .map(|tag| format!("Tag: py3-none-{tag}_{machine}\n"));
    format!("Wheel-Version: 1.0\nGenerator: hugewise\nRoot-Is-Purelib: false\n{}", tags.concat())
}

fn metadata(version: &str, readme: &str) -> String {
    format!(
        "Metadata-Version: 2.1\nName: hugewise\nVersion: {version}\nSummary: {SUMMARY}\nLicense: \
             MIT OR Apache-2.0\n\
         Requires-Python: >=3.7\nClassifier: Operating System :: POSIX :: Linux\n\
         Description-Content-Type: text/markdown\n\n{readme}"
    )
}

/// Where it is: its name says what it runs on.
fn file(release: &Release, processor: &Processor) -> Result<PathBuf, Failure> {
    let files = super::files(&release.out)?;
    let end = format!("_{}.whl", processor.machine);
    let wheel = files.into_iter().find(|path| path.to_string_lossy().ends_with(&end));
    wheel.ok_or_else(|| format!("{} has no wheel", release.out.display()).into())
}

/// As somebody installs it who has Python and nothing else.
fn runs(wheel: &Path, version: &str, environment: &Path) -> Result<(), Failure> {
    shell::run(
        shell::command("/usr/bin/python3").args(["-m", "venv", "--clear"]).arg(environment),
    )?;
    let mut pip = shell::command(environment.join("bin/pip"));
    shell::run(
        pip.args(["install", "--quiet", "--disable-pip-version-check", "--no-index"]).arg(wheel),
    )?;
    let said = shell::output(shell::command(environment.join("bin/hugewise")).arg("--version"))?;
    let said = String::from_utf8_lossy(&said);
    if said.trim() == format!("hugewise {version}") {
        Ok(())
    } else {
        Err(format!("installed by pip it says {said:?}").into())
    }
}
