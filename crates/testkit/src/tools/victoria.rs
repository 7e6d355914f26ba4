//! VictoriaMetrics as Debian has it, below target/tools. Debian 12 has none: it comes from the
//! release after, and is only unpacked.

use std::fs;
use std::path::PathBuf;

use super::{Failure, shell};

/// Where packages come from.
const SOURCE: &str = "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] \
     http://deb.debian.org/debian trixie main\n";

/// Where its programs are once they are there.
pub fn programs() -> PathBuf {
    shell::target().join("tools/victoria-metrics/usr/bin")
}

/// Downloads and unpacks it, where it is not there yet.
///
/// # Errors
/// The package cannot be had.
pub fn install() -> Result<(), Failure> {
    if programs().join("vmalert").exists() {
        return Ok(());
    }
    let folder = shell::target().join("tools/victoria-metrics");
    let work = tempfile::Builder::new().prefix("victoria-").tempdir_in(shell::target())?;
    let path = |name: &str| work.path().join(name);
    for name in ["lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(path(name))?;
    }
    fs::write(path("sources.list"), SOURCE)?;
    // This machine's own sources and lists stay as they are.
    let apt = || {
        let mut apt = shell::command("apt-get");
        apt.current_dir(work.path()).args([
            "-qq",
            "-o",
            "Acquire::Languages=none",
            "-o",
            "APT::Sandbox::User=root",
        ]);
        for (option, name) in
            [("Etc::sourcelist", "sources.list"), ("State::lists", "lists"), ("Cache", "cache")]
        {
            apt.arg("-o").arg(format!("Dir::{option}={}", path(name).display()));
        }
        apt.args(["-o", "Dir::Etc::sourceparts=/dev/null"]);
        apt
    };
    shell::output(apt().arg("update"))?;
    shell::output(apt().args(["download", "victoria-metrics"]))?;
    let package = fs::read_dir(work.path())?.flatten().map(|entry| entry.path());
    let package = package.filter(|path| path.extension().is_some_and(|end| end == "deb")).last();
    let package = package.ok_or("apt-get downloaded no victoria-metrics")?;
    let _ = fs::remove_dir_all(&folder);
    shell::output(shell::command("dpkg-deb").arg("--extract").arg(package).arg(&folder))?;
    for left_out in ["vmagent", "vmalert-tool", "vmauth", "vmbackup", "vmctl", "vmrestore"] {
        fs::remove_file(programs().join(left_out))?;
    }
    Ok(())
}
