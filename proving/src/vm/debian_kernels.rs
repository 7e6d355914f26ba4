//! Kernels of Debian's releases, by its own package manager, kept under target/vm/kernels.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use hugewise_testkit::tools::{Failure, shell};

const ARCHIVE: &str = "http://deb.debian.org/debian";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// What depends on the newest one.
const NEWEST: &str = "linux-image-cloud-amd64";

/// The newest cloud kernel of that release, fetched where it is not there yet.
pub(crate) fn newest_cloud_kernel(suite: &str) -> Result<PathBuf, Failure> {
    let folder = super::folder()?.join("kernels").join(suite);
    fs::create_dir_all(&folder)?;
    if let Some(kernel) = kernel_in(&folder)? {
        return Ok(kernel);
    }
    let work = tempfile::Builder::new().prefix("kernel-").tempdir_in(super::folder()?)?;
    let apt = Apt::new(work.path(), suite)?;
    shell::output(apt.command("apt-get").args(["-qq", "update"]))?;
    let mut packages = Vec::new();
    for package in apt.kernels()? {
        shell::output(
            apt.command("apt-get").args(["-qq", "download", &package]).current_dir(work.path()),
        )?;
        packages.push(package);
    }
    let root = work.path().join("root");
    for entry in fs::read_dir(work.path())?.flatten() {
        if entry.path().extension().is_some_and(|name| name == "deb") {
            shell::output(shell::command("dpkg-deb").arg("-x").arg(entry.path()).arg(&root))?;
        }
    }
    let found = kernel_in(&root.join("boot"))?.or(newer_place(&root)?);
    let found = found.ok_or_else(|| format!("{suite}: no kernel in {}", packages.join(" ")))?;
    let kept = folder.join(found.file_name().unwrap_or_default());
    fs::copy(&found, &kept)?;
    Ok(kept)
}

fn kernel_in(folder: &Path) -> Result<Option<PathBuf>, Failure> {
    if !folder.exists() {
        return Ok(None);
    }
    let paths = fs::read_dir(folder)?.flatten().map(|entry| entry.path());
    let is_kernel = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz"))
    };
    Ok(paths.filter(is_kernel).max())
}

/// Newer packages leave the copy below /boot to their scripts.
fn newer_place(root: &Path) -> Result<Option<PathBuf>, Failure> {
    let modules = root.join("usr/lib/modules");
    if !modules.exists() {
        return Ok(None);
    }
    for entry in fs::read_dir(modules)?.flatten() {
        if let Some(kernel) = kernel_in(&entry.path())? {
            return Ok(Some(kernel));
        }
    }
    Ok(None)
}

/// apt with nothing of this machine's but the keys.
struct Apt(Vec<String>);

impl Apt {
    fn new(work: &Path, suite: &str) -> Result<Self, Failure> {
        for folder in ["state/lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(work.join(folder))?;
        }
        fs::write(
            work.join("sources"),
            format!("deb [signed-by={KEYRING}] {ARCHIVE} {suite} main\n"),
        )?;
        let work = work.display();
        Ok(Self(vec![
            format!("Dir::State={work}/state"),
            format!("Dir::Cache={work}/cache"),
            format!("Dir::Etc::sourcelist={work}/sources"),
            "Dir::Etc::sourceparts=-".into(),
            "Dir::State::status=/dev/null".into(),
            "APT::Sandbox::User=root".into(),
        ]))
    }

    fn command(&self, program: &str) -> Command {
        let mut command = shell::command(program);
        self.0.iter().for_each(|option| {
            command.args(["-o", option]);
        });
        command
    }

    /// The packages with the kernel itself: what the newest one depends on.
    fn kernels(&self) -> Result<Vec<String>, Failure> {
        let mut command = self.command("apt-cache");
        command.args([
            "depends",
            "--recurse",
            "--no-recommends",
            "--no-suggests",
            "--no-conflicts",
            "--no-breaks",
        ]);
        let said = shell::output(command.args(["--no-replaces", "--no-enhances", NEWEST]))?;
        let said = String::from_utf8(said)?;
        let is_kernel = |name: &&str| {
            let rest =
                name.strip_prefix("linux-image-").or_else(|| name.strip_prefix("linux-binary-"));
            rest.is_some_and(|rest| rest.starts_with(|sign: char| sign.is_ascii_digit()))
        };
        Ok(said.lines().filter(is_kernel).map(str::to_owned).collect())
    }
}
