//! What an arm64 machine is made of: Debian 13's PostgreSQL, and its kernels with base pages of 4
//! KiB and of 16 KiB.
//!
//! Packages are unpacked and no more, as none of their scripts can run on this processor. What they
//! would have set up is for the machine's first script.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use super::image::{self, Suite};
use hugewise_testkit::tools::{Failure, debian, shell};

const NEEDS: debian::Needs =
    &[("/usr/bin/mmdebstrap", "mmdebstrap"), ("/usr/bin/qemu-system-aarch64", "qemu-system-arm")];

const SUITE: Suite = Suite::Trixie;

/// A shell with all that belongs to it, the server, and both kernels.
const PACKAGES: &str =
    "base-files,dash,busybox-static,postgresql-17,linux-image-arm64,linux-image-arm64-16k";

/// What nothing in the machine reads: all of it would lie in its memory.
const LEFT_OUT: [&str; 13] = [
    "/usr/share/doc/*",
    "/usr/share/man/*",
    "/usr/share/info/*",
    "/usr/share/locale/*",
    "/usr/share/i18n/*",
    "/usr/share/perl*",
    "/usr/lib/aarch64-linux-gnu/perl*",
    "/usr/lib/aarch64-linux-gnu/gconv/*",
    "/usr/lib/aarch64-linux-gnu/libLLVM*",
    "/usr/lib/postgresql/*/lib/bitcode/*",
    "/usr/lib/postgresql/*/lib/llvmjit*",
    "/usr/lib/linux-image-*",
    "/usr/lib/modules/*",
];

/// Its files and its kernels.
pub(super) struct Parts {
    /// Everything but the kernels.
    pub(super) root: PathBuf,
    /// That of the usual base pages.
    pub(super) kernel_4k: PathBuf,
    /// That of base pages of 16 KiB.
    pub(super) kernel_16k: PathBuf,
}

/// All of them, fetched where they are not there yet.
pub(super) fn parts() -> Result<Parts, Failure> {
    image::need(NEEDS)?;
    let mut hasher = DefaultHasher::new();
    (SUITE, PACKAGES, LEFT_OUT).hash(&mut hasher);
    let folder = super::folder()?.join(format!("arm64-{:016x}", hasher.finish()));
    if !folder.exists() {
        image::forget("arm64-")?;
        fetch(&folder)?;
    }
    let kernels = folder.join("kernels");
    let (kernel_4k, kernel_16k) = (image::newest(&kernels, "4k")?, image::newest(&kernels, "16k")?);
    Ok(Parts { root: folder.join("root"), kernel_4k, kernel_16k })
}

fn fetch(folder: &Path) -> Result<(), Failure> {
    let part = tempfile::Builder::new().prefix("build-").tempdir_in(super::folder()?)?;
    let (root, kernels) = (part.path().join("root"), part.path().join("kernels"));
    let mut mmdebstrap = shell::command("mmdebstrap");
    mmdebstrap.args([
        "--quiet",
        "--mode=root",
        "--variant=extract",
        "--architectures=arm64",
        "--skip=check/qemu",
    ]);
    // A mirror may be some days behind.
    mmdebstrap.args([
        "--aptopt=Acquire::Languages \"none\"",
        "--aptopt=Acquire::Check-Valid-Until \"false\"",
    ]);
    mmdebstrap.args(LEFT_OUT.map(|path| format!("--dpkgopt=path-exclude={path}")));
    shell::run(mmdebstrap.arg(format!("--include={PACKAGES}")).arg(SUITE.name()).arg(&root))?;
    fs::create_dir(&kernels)?;
    let boot = root.join("boot");
    for entry in fs::read_dir(&boot)?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(release) = name.strip_prefix("vmlinuz-") {
            let pages = if release.ends_with("-16k") { "16k" } else { "4k" };
            fs::copy(entry.path(), kernels.join(format!("{pages}-{release}")))?;
        }
    }
    fs::remove_dir_all(boot)?;
    Ok(fs::rename(part.path(), folder)?)
}

/// What is tried in it: the program that was named if it is one for arm64, otherwise the one that a
/// release has, built here.
pub(super) fn program(given: Option<&Path>) -> Result<PathBuf, Failure> {
    match given {
        Some(program) if is_for_arm64(&fs::read(program)?) => Ok(program.to_owned()),
        _ => shell::dist_part(&["arm64".as_ref()]),
    }
}

/// By the machine in its ELF header: `EM_AARCH64` of elf(5).
fn is_for_arm64(program: &[u8]) -> bool {
    program.starts_with(b"\x7fELF") && program.get(18..20) == Some(&183_u16.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_very_program_is_for_the_processor_that_runs_it() {
        let own = fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(is_for_arm64(&own), cfg!(target_arch = "aarch64"));
        assert!(!is_for_arm64(b"#!/bin/sh"));
    }
}
