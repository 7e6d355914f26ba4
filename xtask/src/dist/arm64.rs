//! The binary for arm64, from a root file system of Debian sid: its compiler brings the standard library for other processors,
//! which the package registries have for no other toolchain.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Arch, Release, binary, tools};
use crate::{Failure, shell};

/// The compiler, the linker, and the static C library of the other processor.
const PACKAGES: &str = "rustc,cargo,ca-certificates,gcc,libc6-dev,gcc-aarch64-linux-gnu,libc6-dev-arm64-cross,libstd-rust-dev:arm64";

/// Builds it below that folder.
pub(super) fn build(release: &Release, folder: &Path) -> Result<(), Failure> {
    let root = root(release)?;
    let cargo_home = binary::cargo_home()?;
    fs::create_dir_all(folder)?;
    // The host's folders stand at the same places in every build, wherever they are on this machine.
    let binds: [(&Path, &str); 3] = [(shell::root(), "hugewise"), (&cargo_home, "cargo"), (folder, "build")];
    let mut script = String::from("set -e\n");
    for (from, to) in binds {
        let to = root.join(to);
        fs::create_dir_all(&to)?;
        script += &format!("mount --bind '{}' '{}'\n", from.display(), to.display());
    }
    script += &format!("mount -t proc proc '{0}/proc'\nexec chroot '{0}' /bin/sh -c \"$1\"\n", root.display());
    let arch = Arch::Arm64;
    let flags = binary::flags(Path::new("/build"), Path::new("/cargo"), Path::new("/hugewise"));
    let inside = format!(
        "cd /hugewise && export CARGO_HOME=/cargo CARGO_TARGET_DIR=/build SOURCE_DATE_EPOCH={} RUSTFLAGS='{flags}' \
         CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc && \
         exec cargo build --release --locked --package hugewise --target {}",
        release.epoch,
        arch.target(),
    );
    let mut unshare = shell::command("unshare");
    shell::run(unshare.args(["--mount", "--pid", "--fork", "sh", "-c", &script, "sh", &inside]))
}

/// Made once; its compiler is then the same for every build.
fn root(release: &Release) -> Result<PathBuf, Failure> {
    let root = release.build.with_file_name("arm64-root");
    if root.join("usr/bin/cargo").exists() {
        return Ok(root);
    }
    if root.exists() {
        fs::remove_dir_all(&root)?;
    }
    let mut mmdebstrap = tools::debian_tool("/usr/bin/mmdebstrap", "mmdebstrap")?;
    mmdebstrap.args(["--quiet", "--mode=root", "--variant=apt", "--architectures=amd64,arm64"]);
    // A mirror may be some days behind.
    mmdebstrap.arg("--aptopt=Acquire::Check-Valid-Until \"false\"");
    mmdebstrap.arg("--aptopt=Acquire::Languages \"none\"");
    mmdebstrap.arg(format!("--include={PACKAGES}")).arg("sid").arg(&root);
    shell::run(&mut mmdebstrap)?;
    Ok(root)
}
