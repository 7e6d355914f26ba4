//! What was built, as a new user installs it: in fresh root file systems of several Debians, which
//! have no Rust, from the package, from install.sh, and from the RPM.

use std::fs;
use std::path::{Path, PathBuf};

use super::processor::X86_64;
use super::{Release, packages, tools};
use hugewise_testkit::tools::{Failure, shell};

/// Debian 11, 12, 13 and the next one.
pub(super) const SUITES: [&str; 4] = ["bullseye", "bookworm", "trixie", "sid"];

/// Packages that a root has beside the least that Debian is.
const PACKAGES: &str = "ca-certificates,systemd,rpm";

/// In one version: another one may see more.
const RPMLINT: &str = "2.10.0";

/// A captured host for those commands that need one with something wrong.
const FIXTURE: &str = "fixtures/hosts/no-pool-postgresql";

/// Tries all in each suite, and says which held.
pub(super) fn run(release: &Release, suites: &[String]) -> Result<(), Failure> {
    super::timed("lintian and rpmlint", || lint(release))?;
    let next = release.build.join("next");
    fs::create_dir_all(&next)?;
    // Only Debian's revision is another: what an upgrade does is seen with it.
    let newer = format!("{}-2", release.version);
    packages::deb(
        release,
        &X86_64,
        &newer,
        &next.join(format!("hugewise_{newer}_{}.deb", X86_64.debian)),
    )?;
    for suite in suites {
        super::timed(&format!("tried in Debian {suite}"), || {
            in_suite(release, suite, &newer, &next)
        })?;
    }
    Ok(())
}

/// What the distributions' own programs say of the packages: nothing that is not explained beside
/// them.
fn lint(release: &Release) -> Result<(), Failure> {
    let (deb, rpm) = (packages::deb_file(release, &X86_64), packages::rpm_file(release, &X86_64));
    let mut lintian = tools::of_debian("/usr/bin/lintian", "lintian")?;
    shell::run(lintian.args(["--allow-root", "--fail-on", "error,warning"]).arg(deb))?;
    // It reads the package with rpm's own module, and calls these.
    for (file, package) in [
        ("/usr/share/doc/python3-rpm", "python3-rpm"),
        ("/usr/bin/rpm", "rpm"),
        ("/usr/bin/rpm2cpio", "rpm2cpio"),
        ("/usr/bin/cpio", "cpio"),
    ] {
        tools::of_debian(file, package)?;
    }
    let mut rpmlint = tools::of_python("rpmlint", RPMLINT)?;
    shell::run(
        rpmlint
            .arg("--strict")
            .arg("--config")
            .arg(shell::root().join("packaging/rpm/rpmlint.toml"))
            .arg(rpm),
    )
}

fn in_suite(release: &Release, suite: &str, newer: &str, next: &Path) -> Result<(), Failure> {
    let root = fresh(suite)?;
    let dist = root.join("dist");
    fs::create_dir_all(&dist)?;
    for folder in [release.out.as_path(), next] {
        for path in super::files(folder)? {
            fs::copy(&path, dist.join(path.file_name().unwrap_or_default()))?;
        }
    }
    let mut cp = shell::command("cp");
    shell::run(cp.arg("-a").arg(shell::root().join(FIXTURE)).arg(root.join("db")))?;
    let script = include_str!("trial.sh")
        .replace("@VERSION@", &release.version)
        .replace("@NEWER@", newer)
        .replace("@DEBIAN@", X86_64.debian)
        .replace("@MACHINE@", X86_64.machine);
    fs::write(dist.join("trial.sh"), script)?;
    // rpm takes itself out of the root's mounts, for which the root has to be one.
    let mounted = "mount --bind \"$1\" \"$1\" && mount -t proc proc \"$1/proc\" && mount -t sysfs \
         -o ro sysfs \"$1/sys\" && \
                   exec chroot \"$1\" /bin/sh -eu /dist/trial.sh";
    let mut unshare = shell::command("unshare");
    unshare.args(["--mount", "--pid", "--fork", "sh", "-c", mounted, "sh"]).arg(&root);
    unshare
        .env_clear()
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", "/root");
    shell::run(&mut unshare)?;
    Ok(fs::remove_dir_all(root)?)
}

/// A root file system of that suite as it was made; made once, unpacked anew each time.
fn fresh(suite: &str) -> Result<PathBuf, Failure> {
    let roots = super::roots();
    fs::create_dir_all(&roots)?;
    let tar = roots.join(format!("{suite}.tar"));
    if !tar.exists() {
        let mut mmdebstrap = tools::of_debian("/usr/bin/mmdebstrap", "mmdebstrap")?;
        // A mirror may be some days behind.
        mmdebstrap.args([
            "--quiet",
            "--mode=root",
            "--variant=minbase",
            "--aptopt=Acquire::Check-Valid-Until \"false\"",
        ]);
        let part = tar.with_extension("part.tar");
        shell::run(mmdebstrap.arg(format!("--include={PACKAGES}")).arg(suite).arg(&part))?;
        fs::rename(part, &tar)?;
    }
    let root = roots.join(suite);
    if root.exists() {
        fs::remove_dir_all(&root)?;
    }
    fs::create_dir(&root)?;
    let mut unpack = shell::command("tar");
    shell::run(unpack.arg("--numeric-owner").arg("-xf").arg(&tar).arg("-C").arg(&root))?;
    Ok(root)
}
