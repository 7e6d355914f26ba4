//! What a command needs from Debian, installed where that is allowed.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use super::{Failure, shell};

/// Files that are looked for, a star for any text, and the packages that have them.
pub type Needs = &'static [(&'static str, &'static str)];

/// Whether this machine's package manager is Debian's.
pub fn here() -> bool {
    Path::new("/etc/debian_version").exists()
}

/// Whether this runs as root.
pub fn root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// The packages of which a file is not there.
pub fn missing(needs: Needs) -> Vec<&'static str> {
    needs.iter().filter(|(file, _)| !exists(file)).map(|(_, package)| *package).collect()
}

/// Installs packages; services among them are not started.
pub fn install(packages: &[&str]) -> Result<(), Failure> {
    let _quiet = NoServices::new()?;
    let apt = || {
        let mut command = shell::command("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive");
        // A package may start services past that policy, and fail where no systemd runs: pcp does.
        command.env("SYSTEMD_OFFLINE", "1");
        command
    };
    shell::run(apt().args(["-qq", "update"]))?;
    shell::run(apt().args(["-qq", "-y", "install", "--no-install-recommends"]).args(packages))
}

fn exists(file: &str) -> bool {
    let Some((start, end)) = file.split_once('*') else { return Path::new(file).exists() };
    let folder = Path::new(start).parent().map(fs::read_dir);
    let paths =
        folder.and_then(Result::ok).into_iter().flatten().flatten().map(|entry| entry.path());
    paths
        .map(|path| path.to_string_lossy().into_owned())
        .any(|path| path.starts_with(start) && path.ends_with(end))
}

/// While this stands, Debian's packages do not start the services that they install.
struct NoServices {
    made: Option<&'static Path>,
}

impl NoServices {
    fn new() -> Result<Self, Failure> {
        let policy = Path::new("/usr/sbin/policy-rc.d");
        if policy.exists() {
            return Ok(Self { made: None });
        }
        // 101: action forbidden by policy.
        fs::write(policy, "#!/bin/sh\nexit 101\n")?;
        fs::set_permissions(policy, fs::Permissions::from_mode(0o755))?;
        Ok(Self { made: Some(policy) })
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if let Some(policy) = self.made {
            let _ = fs::remove_file(policy);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        assert!(exists(manifest));
        assert!(exists(&manifest.replace("argo", "*")));
        assert!(!exists(&manifest.replace("argo", "argh*")));
        assert!(!exists("/nowhere/*"));
    }
}
