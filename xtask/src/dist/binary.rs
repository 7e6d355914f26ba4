//! The binary that runs on every Linux of its processor: statically linked, so that it asks for no
//! C library of the host.
//!
//! glibc is linked in rather than musl: its allocator and string functions are what everything here
//! is measured with, and the installed toolchain can do it without another standard library.

use std::fs;
use std::path::{Path, PathBuf};

use super::processor::{Processor, X86_64};
use super::{Release, cross, tools};
use hugewise_testkit::tools::{Failure, shell};

/// Builds it.
pub(super) fn build(release: &Release, processor: &Processor) -> Result<PathBuf, Failure> {
    let binary = build_in(release, processor, &release.build)?;
    check(&binary)?;
    Ok(binary)
}

/// Builds it a second time, in another folder, which must make no difference.
pub(super) fn again(release: &Release, processor: &Processor, first: &Path) -> Result<(), Failure> {
    let folder = release.build.with_file_name("build-again");
    let second = build_in(release, processor, &folder)?;
    if fs::read(first)? != fs::read(&second)? {
        return Err(format!("{} and {} differ", first.display(), second.display()).into());
    }
    println!("built twice, byte for byte the same");
    Ok(fs::remove_dir_all(folder)?)
}

fn build_in(release: &Release, processor: &Processor, folder: &Path) -> Result<PathBuf, Failure> {
    let cargo_home = cargo_home()?;
    let build = [
        "build",
        "--profile",
        "dist",
        "--locked",
        "--package",
        "hugewise",
        "--target",
        processor.target,
    ];
    let mut cargo = if processor.target == X86_64.target {
        shell::cargo()
    } else {
        cross::cargo(&cargo_home, folder)?
    };
    cargo.args(build);
    cargo.env("CARGO_TARGET_DIR", folder).env("SOURCE_DATE_EPOCH", release.epoch.to_string());
    cargo.env("RUSTFLAGS", flags(folder, &cargo_home, shell::root()));
    shell::run(&mut cargo)?;
    let binary = self::folder(folder, processor).join("hugewise");
    fs::create_dir_all(self::folder(folder, processor))?;
    fs::copy(folder.join(processor.target).join("dist/hugewise"), &binary)?;
    Ok(binary)
}

/// Where the tools that make packages look for the program, whatever its profile is called.
pub(super) fn folder(build: &Path, processor: &Processor) -> PathBuf {
    build.join(processor.target).join("release")
}

/// Nothing of the machine that builds is to be in it: neither its C library's version nor where its
/// folders lie.
///
/// Of several names that fit a folder rustc takes the last: where cargo builds lies below the
/// source.
fn flags(build: &Path, cargo_home: &Path, source: &Path) -> String {
    let renamed = [(source, "hugewise"), (cargo_home, "cargo"), (build, "build")];
    let renamed =
        renamed.map(|(folder, name)| format!("--remap-path-prefix={}=/{name}", folder.display()));
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

/// That it asks for no loader and no library, whatever was promised to the linker, and names no
/// folder of this machine.
fn check(binary: &Path) -> Result<(), Failure> {
    let mut readelf = tools::of_debian("/usr/bin/readelf", "binutils")?;
    let told =
        shell::output(readelf.args(["--program-headers", "--dynamic", "--wide"]).arg(binary))?;
    let told = String::from_utf8_lossy(&told);
    for (sign, why) in [("INTERP", "a loader"), ("(NEEDED)", "a library")] {
        if told.contains(sign) {
            return Err(format!("{} asks for {why}: it is not static", binary.display()).into());
        }
    }
    if told.lines().any(|line| line.trim_start().starts_with("GNU_STACK") && line.contains("RWE")) {
        return Err(format!("{}: its stack is executable", binary.display()).into());
    }
    let data = fs::read(binary)?;
    for folder in [shell::root(), &cargo_home()?] {
        let here = folder.display().to_string();
        if data.windows(here.len()).any(|part| part == here.as_bytes()) {
            return Err(format!("{} holds the path {here}", binary.display()).into());
        }
    }
    println!("{}: {} bytes, asks for no loader and no library", binary.display(), data.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With rustc itself: the same source, built in two folders below it, is the same.
    #[test]
    fn the_folder_that_it_is_built_in_makes_no_difference() {
        let source = tempfile::tempdir().unwrap();
        let text = "#![crate_type = \"lib\"]\npub const FILE: &str = file!();\npub static WHERE: \
             &str = FILE;\n";
        let built = ["build", "build-again"].map(|name| {
            let folder = source.path().join(name);
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("generated.rs"), text).unwrap();
            let mut rustc = shell::command("rustc");
            rustc.args(
                flags(&folder, Path::new("/nowhere"), source.path())
                    .split(' ')
                    .filter(|flag| !flag.is_empty()),
            );
            rustc
                .args(["--crate-name", "generated", "--emit", "obj", "-o"])
                .arg(folder.join("generated.o"));
            shell::output(rustc.arg(folder.join("generated.rs"))).unwrap();
            fs::read(folder.join("generated.o")).unwrap()
        });
        let [first, second] = built;
        assert!(first == second && first.windows(19).any(|part| part == b"/build/generated.rs"));
    }
}
