//! The archive, the Debian package and the RPM.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Arch, Release, tools};
use crate::{Failure, shell};

/// What makes the Debian package.
const CARGO_DEB: (&str, &str) = ("cargo-deb", "3.7.0");
/// What makes the RPM.
const CARGO_RPM: (&str, &str) = ("cargo-generate-rpm", "0.21.0");

/// One folder with the binary, the manual pages, completions, units and licences, as a reproducible `.tar.gz`.
pub(super) fn archive(release: &Release, arch: Arch, binary: &Path) -> Result<(), Failure> {
    let name = format!("hugewise-{}-linux-{}", release.version, arch.machine());
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
        copy_folder(&shell::root().join(from), &top.join(to))?;
    }
    let file = release.out.join(format!("{name}.tar.gz"));
    // gzip's own header would say when, and tar's who and in which order.
    let mut tar = shell::command("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=u+rw,go+r-w,a+X"]);
    tar.arg(format!("--mtime=@{}", release.epoch)).arg("--use-compress-program=gzip -9n");
    shell::run(tar.arg("-C").arg(&folder).arg("-cf").arg(&file).arg(&name))?;
    Ok(fs::remove_dir_all(top)?)
}

/// The Debian package.
pub(super) fn deb(release: &Release, arch: Arch) -> Result<(), Failure> {
    changelog(release)?;
    let program = tools::of_crate(CARGO_DEB.0, CARGO_DEB.1)?;
    let mut cargo_deb = shell::command(program);
    cargo_deb.args(["--no-build", "--no-strip", "--package", "hugewise", "--target", arch.target()]);
    cargo_deb.env("CARGO_TARGET_DIR", &release.build).env("SOURCE_DATE_EPOCH", release.epoch.to_string());
    cargo_deb.env("CARGO", std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let file = release.out.join(format!("hugewise_{}_{}.deb", release.version, arch.debian()));
    shell::run(cargo_deb.arg("--output").arg(file))
}

/// The RPM, for everything that has rpm: it depends on no library.
pub(super) fn rpm(release: &Release, arch: Arch) -> Result<(), Failure> {
    let program = tools::of_crate(CARGO_RPM.0, CARGO_RPM.1)?;
    let pages = compressed_pages(release)?;
    let mut cargo_rpm = shell::command(program);
    cargo_rpm.args(["--package", "crates/cli", "--target", arch.target(), "--arch", arch.machine()]);
    cargo_rpm.arg("--target-dir").arg(&release.build);
    cargo_rpm.args(["--source-date", &release.epoch.to_string()]);
    cargo_rpm.env("CARGO_TARGET_DIR", &release.build);
    let file = release.out.join(format!("hugewise-{}-1.{}.rpm", release.version, arch.machine()));
    shell::run(cargo_rpm.arg("--output").arg(file))?;
    Ok(fs::remove_dir_all(pages)?)
}

/// Debian's form of a changelog: the one that people read is installed beside it.
fn changelog(release: &Release) -> Result<(), Failure> {
    let mut date = shell::command("date");
    let date = shell::output(date.args(["--utc", "-R", "-d", &format!("@{}", release.epoch)]))?;
    let text = format!(
        "hugewise ({}) unstable; urgency=medium\n\n  * What changed stands in /usr/share/doc/hugewise/CHANGELOG.md.gz.\n\n -- {}  {}\n",
        release.version,
        "hugewise developers <hugewise@localhost>",
        String::from_utf8(date)?.trim(),
    );
    fs::create_dir_all(&release.build)?;
    Ok(fs::write(release.build.join("debian-changelog"), text)?)
}

/// RPM's tools compress manual pages while they build a package; here nothing does.
fn compressed_pages(release: &Release) -> Result<PathBuf, Failure> {
    let folder = release.build.join("man");
    copy_folder(&shell::root().join("docs/man"), &folder)?;
    for page in super::files(&folder)? {
        shell::run(shell::command("gzip").args(["-9nf"]).arg(page))?;
    }
    Ok(folder)
}

fn copy_folder(from: &Path, to: &Path) -> Result<(), Failure> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    fs::create_dir_all(to)?;
    for path in super::files(from)? {
        if let Some(name) = path.file_name() {
            fs::copy(&path, to.join(name))?;
        }
    }
    Ok(())
}
