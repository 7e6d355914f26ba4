//! The root file system in which the binary for arm64 is built: the installed toolchain has no
//! standard library for it, and Debian packages one.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::tools;
use hugewise_testkit::tools::{Failure, shell};

/// The one suite whose Rust is as new as hugewise asks for.
const SUITE: &str = "sid";

/// The compiler, the linker, what is linked in, what runs it, and what its tests pack archives
/// with.
const PACKAGES: &str = "rustc,cargo,gcc-aarch64-linux-gnu,libc6-dev-arm64-cross,libstd-rust-dev:arm64,qemu-user,\
                        bzip2,python3,xz-utils,zip,zstd";

/// How the root's folder begins; it ends with what it was made from.
const NAME: &str = "arm64-cross";

/// What runs the processor's programs in there.
pub(super) const EMULATOR: &str = "/usr/bin/qemu-aarch64";

/// Mounts the folders after the first where they are here, all but the last read-only, and runs a
/// program in there.
const INSIDE: &str = r#"
root=$1 source=$2 cargo=$3 build=$4; shift 4
mkdir -p "$root$source" "$root$cargo" "$root$build"
for folder in "$source" "$cargo"; do
    mount --bind "$folder" "$root$folder"
    mount -o remount,bind,ro "$root$folder"
done
mount --bind "$build" "$root$build"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
exec chroot "$root" env -C "$source" "$@"
"#;

/// cargo of that root, which reads the sources and the crates of this machine, writes to `build`
/// alone, and asks for no network. Needs root; the root is made once, of some 2 GB, and kept.
pub(super) fn cargo(cargo_home: &Path, build: &Path) -> Result<Command, Failure> {
    shell::run(shell::cargo().args(["fetch", "--locked"]))?;
    let mut cargo = inside(cargo_home, build)?;
    cargo.arg("cargo").env("CARGO_HOME", cargo_home).env("CARGO_NET_OFFLINE", "true");
    cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc");
    Ok(cargo)
}

/// A program in that root, which is to be added with its arguments.
pub(super) fn inside(cargo_home: &Path, build: &Path) -> Result<Command, Failure> {
    let root = root()?;
    fs::create_dir_all(build)?;
    let mut unshare = shell::command("unshare");
    unshare.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-euc", INSIDE, "sh"]);
    unshare.arg(root).arg(shell::root()).arg(cargo_home).arg(build);
    unshare.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", "/root");
    Ok(unshare)
}

fn root() -> Result<PathBuf, Failure> {
    let roots = super::roots();
    fs::create_dir_all(&roots)?;
    let mut hasher = DefaultHasher::new();
    (SUITE, PACKAGES).hash(&mut hasher);
    let root = roots.join(format!("{NAME}-{:016x}", hasher.finish()));
    if root.exists() {
        return Ok(root);
    }
    // Of another recipe, or half made.
    for entry in fs::read_dir(&roots)?.flatten() {
        if entry.file_name().to_string_lossy().starts_with(NAME) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    let part = root.with_extension("part");
    let mut mmdebstrap = tools::of_debian("/usr/bin/mmdebstrap", "mmdebstrap")?;
    // A mirror may be some days behind.
    mmdebstrap.args(["--quiet", "--mode=root", "--variant=minbase", "--architectures=amd64,arm64"]);
    mmdebstrap
        .arg("--aptopt=Acquire::Check-Valid-Until \"false\"")
        .arg(format!("--include={PACKAGES}"));
    shell::run(mmdebstrap.arg(SUITE).arg(&part))?;
    fs::rename(part, &root)?;
    Ok(root)
}
