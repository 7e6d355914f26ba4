//! The archive, the Debian package and the RPM.

use std::fs;
use std::path::{Path, PathBuf};

use super::{DEBIAN, MACHINE, Release, TARGET};
use crate::{Failure, shell};

/// What makes the Debian package.
const CARGO_DEB: (&str, &str) = ("cargo-deb", "3.8.0");
/// What makes the RPM.
const CARGO_RPM: (&str, &str) = ("cargo-generate-rpm", "0.21.1");

/// One folder with the binary, the manual pages, completions, units and licences, as a reproducible `.tar.gz`.
pub(super) fn archive(release: &Release, binary: &Path) -> Result<(), Failure> {
    let name = format!("hugewise-{}-linux-{MACHINE}", release.version);
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
    for (from, to) in [("docs/man", "man"), ("docs/completions", "completions"), ("packaging/systemd", "systemd")] {
        let to = top.join(to);
        fs::create_dir_all(&to)?;
        for path in super::files(&shell::root().join(from))? {
            fs::copy(&path, to.join(path.file_name().unwrap_or_default()))?;
        }
    }
    // gzip's own header would say when, and tar's who and in which order.
    let mut tar = shell::command("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=u+rw,go+r-w,a+X"]);
    tar.arg(format!("--mtime=@{}", release.epoch)).arg("--use-compress-program=gzip -9n");
    let file = release.out.join(format!("{name}.tar.gz"));
    shell::run(tar.arg("-C").arg(&folder).arg("-cf").arg(&file).arg(&name))?;
    Ok(fs::remove_dir_all(top)?)
}

/// Where the Debian package of a release goes.
pub(super) fn deb_file(release: &Release) -> PathBuf {
    release.out.join(format!("hugewise_{}-1_{DEBIAN}.deb", release.version))
}

/// Where the RPM goes.
pub(super) fn rpm_file(release: &Release) -> PathBuf {
    release.out.join(format!("hugewise-{}-1.{MACHINE}.rpm", release.version))
}

/// A Debian package in that version.
pub(super) fn deb(release: &Release, version: &str, file: &Path) -> Result<(), Failure> {
    let mut cargo_deb = shell::command(shell::tool(CARGO_DEB, &[])?);
    cargo_deb.args(["--no-build", "--no-strip", "--package", "hugewise", "--target", TARGET, "--deb-version", version]);
    cargo_deb.env("CARGO_TARGET_DIR", &release.build).env("SOURCE_DATE_EPOCH", release.epoch.to_string());
    shell::run(cargo_deb.arg("--output").arg(file))
}

/// The RPM, for everything that has rpm: it depends on no library.
pub(super) fn rpm(release: &Release) -> Result<(), Failure> {
    let mut cargo_rpm = shell::command(shell::tool(CARGO_RPM, &[])?);
    cargo_rpm.args(["--package", "crates/cli", "--target", TARGET, "--arch", MACHINE]);
    cargo_rpm.arg("--target-dir").arg(&release.build);
    cargo_rpm.args(["--source-date", &release.epoch.to_string()]);
    shell::run(cargo_rpm.arg("--output").arg(rpm_file(release)))
}
