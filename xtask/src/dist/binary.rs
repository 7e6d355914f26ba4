//! The binary that runs on every Linux of its processor: statically linked, so that it asks for no C library of the host.
//!
//! glibc is linked in rather than musl: its allocator and string functions are what everything here is measured with, and the
//! installed toolchain can do it without another standard library.

use std::fs;
use std::path::{Path, PathBuf};

use object::elf::{DT_NEEDED, EM_AARCH64, EM_X86_64, FileHeader64, PT_DYNAMIC, PT_GNU_STACK, PT_INTERP, PF_X};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Endianness, endian::Endian};

use super::{Arch, Release, arm64};
use crate::{Failure, shell};

/// Builds it.
pub(super) fn build(release: &Release, arch: Arch) -> Result<PathBuf, Failure> {
    let binary = build_in(release, arch, &release.build)?;
    check(arch, &binary)?;
    Ok(binary)
}

/// Builds it a second time, in another folder, which must make no difference.
pub(super) fn again(release: &Release, arch: Arch, first: &Path) -> Result<(), Failure> {
    let folder = release.build.with_file_name("build-again");
    let second = build_in(release, arch, &folder)?;
    if fs::read(first)? != fs::read(&second)? {
        return Err(format!("{} and {} differ", first.display(), second.display()).into());
    }
    println!("{} twice, byte for byte the same", arch.target());
    Ok(fs::remove_dir_all(folder)?)
}

fn build_in(release: &Release, arch: Arch, folder: &Path) -> Result<PathBuf, Failure> {
    match arch {
        Arch::X86_64 => {
            let mut cargo = shell::cargo();
            cargo.args(["build", "--release", "--locked", "--package", "hugewise", "--target", arch.target()]);
            cargo.env("CARGO_TARGET_DIR", folder).env("SOURCE_DATE_EPOCH", release.epoch.to_string());
            cargo.env("RUSTFLAGS", flags(folder, &cargo_home()?, shell::root()));
            shell::run(&mut cargo)?;
        }
        Arch::Arm64 => arm64::build(release, folder)?,
    }
    Ok(folder.join(arch.target()).join("release/hugewise"))
}

/// Nothing of the machine that builds is to be in it: neither its C library's version nor where its folders lie.
pub(super) fn flags(build: &Path, cargo_home: &Path, source: &Path) -> String {
    let renamed = [(build, "build"), (cargo_home, "cargo"), (source, "hugewise")];
    let renamed = renamed.map(|(folder, name)| format!("--remap-path-prefix={}=/{name}", folder.display()));
    format!("-C target-feature=+crt-static {}", renamed.join(" "))
}

/// Where cargo keeps the sources of other crates.
pub(super) fn cargo_home() -> Result<PathBuf, Failure> {
    if let Some(folder) = std::env::var_os("CARGO_HOME") {
        return Ok(PathBuf::from(folder));
    }
    let home = std::env::var_os("HOME").ok_or("neither CARGO_HOME nor HOME is set")?;
    Ok(PathBuf::from(home).join(".cargo"))
}

/// That it asks for no loader and no library, whatever was promised to the linker.
fn check(arch: Arch, binary: &Path) -> Result<(), Failure> {
    let data = fs::read(binary)?;
    let data = data.as_slice();
    let header = FileHeader64::<Endianness>::parse(data)?;
    let endian = header.endian()?;
    let machine = match arch {
        Arch::X86_64 => EM_X86_64,
        Arch::Arm64 => EM_AARCH64,
    };
    if header.e_machine(endian) != machine {
        return Err(format!("{} is for another processor", binary.display()).into());
    }
    for segment in header.program_headers(endian, data)? {
        match segment.p_type(endian) {
            PT_INTERP => return Err("it asks for a loader: it is not static".into()),
            PT_GNU_STACK if segment.p_flags(endian) & PF_X != 0 => return Err("its stack is executable".into()),
            PT_DYNAMIC => {
                let entries = segment.dynamic(endian, data)?.unwrap_or_default();
                if entries.iter().any(|entry| needs_library(entry, endian)) {
                    return Err("it asks for a library: it is not static".into());
                }
            }
            _ => {}
        }
    }
    println!("{}: {} bytes, asks for no loader and no library", binary.display(), data.len());
    Ok(())
}

fn needs_library<E: Endian>(entry: &object::elf::Dyn64<E>, endian: E) -> bool {
    entry.tag32(endian) == Some(DT_NEEDED)
}
