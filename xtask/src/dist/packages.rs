//! The archive, the Debian package and the RPM.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Release, processor::Processor};
use hugewise_testkit::tools::{Failure, shell};

/// What makes the Debian package.
const CARGO_DEB: (&str, &str) = ("cargo-deb", "3.8.0");
/// What makes the RPM.
const CARGO_RPM: (&str, &str) = ("cargo-generate-rpm", "0.21.1");

/// One folder with the binary, the manual pages, completions, units and licences, as a reproducible
/// `.tar.gz`.
pub(super) fn archive(
    release: &Release,
    processor: &Processor,
    binary: &Path,
) -> Result<(), Failure> {
    let name = format!("hugewise-{}-linux-{}", release.version, processor.machine);
    let folder = release.build.join("archive");
    let top = folder.join(&name);
    if top.exists() {
        fs::remove_dir_all(&top)?;
    }
    fs::create_dir_all(&top)?;
    fs::copy(binary, top.join("hugewise"))?;
    for file in ["README.md", "CHANGELOG.md", "SECURITY.md", "LICENSE-APACHE", "LICENSE-MIT"] {
        fs::copy(shell::root().join(file), top.join(file))?;
    }
    for (from, to) in
        [("docs/man", "man"), ("docs/completions", "completions"), ("packaging/systemd", "systemd")]
    {
        let to = top.join(to);
        fs::create_dir_all(&to)?;
        for path in super::files(&shell::root().join(from))? {
            fs::copy(&path, to.join(path.file_name().unwrap_or_default()))?;
        }
    }
    let mut tar = tar(release);
    tar.arg("--use-compress-program=gzip -9n");
    let file = release.out.join(format!("{name}.tar.gz"));
    shell::run(tar.arg("-C").arg(&folder).arg("-cf").arg(&file).arg(&name))?;
    Ok(fs::remove_dir_all(top)?)
}

/// tar that says neither who packed, nor when, nor in which order; whoever compresses has to keep
/// gzip from saying when.
pub(super) fn tar(release: &Release) -> Command {
    let mut tar = shell::command("tar");
    tar.args(["--format=gnu", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.arg("--mode=u+rw,go+r-w,a+X").arg(format!("--mtime=@{}", release.epoch));
    tar
}

/// Where the Debian package of a release goes.
pub(super) fn deb_file(release: &Release, processor: &Processor) -> PathBuf {
    release.out.join(format!("hugewise_{}-1_{}.deb", release.version, processor.debian))
}

/// Where the RPM goes.
pub(super) fn rpm_file(release: &Release, processor: &Processor) -> PathBuf {
    release.out.join(format!("hugewise-{}-1.{}.rpm", release.version, processor.machine))
}

/// A Debian package in that version.
pub(super) fn deb(
    release: &Release,
    processor: &Processor,
    version: &str,
    file: &Path,
) -> Result<(), Failure> {
    let mut cargo_deb = shell::command(shell::tool(CARGO_DEB, &[])?);
    cargo_deb.args([
        "--no-build",
        "--no-strip",
        "--package",
        "hugewise",
        "--target",
        processor.target,
    ]);
    cargo_deb.args(["--deb-version", version]);
    cargo_deb
        .env("CARGO_TARGET_DIR", &release.build)
        .env("SOURCE_DATE_EPOCH", release.epoch.to_string());
    shell::run(cargo_deb.arg("--output").arg(file))
}

/// The RPM, for everything that has rpm: it depends on no library.
pub(super) fn rpm(release: &Release, processor: &Processor) -> Result<(), Failure> {
    let mut cargo_rpm = shell::command(shell::tool(CARGO_RPM, &[])?);
    cargo_rpm.args([
        "--package",
        "crates/cli",
        "--target",
        processor.target,
        "--arch",
        processor.machine,
    ]);
    cargo_rpm.arg("--target-dir").arg(&release.build);
    cargo_rpm.args(["--source-date", &release.epoch.to_string()]);
    shell::run(cargo_rpm.arg("--output").arg(rpm_file(release, processor)))
}
