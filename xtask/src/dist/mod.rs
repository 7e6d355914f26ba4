//! `cargo xtask dist`: everything that people install, built here, and tried where they would install it.

mod arm64;
mod binary;
mod chart;
mod crates;
mod image;
mod installer;
mod packages;
mod sbom;
mod tools;
mod trial;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::{Failure, shell};

/// What to build.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// For which processors.
    #[arg(long = "arch", value_enum, value_delimiter = ',', default_values_t = [Arch::X86_64])]
    arches: Vec<Arch>,
    /// Only these parts.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// Where it goes; target/dist when not given.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Where releases can be downloaded, for install.sh: the folder that holds what this makes.
    #[arg(long, value_name = "URL")]
    releases: Option<String>,
    /// Build each binary a second time, in another folder, and compare the two byte for byte.
    #[arg(long)]
    twice: bool,
    /// Try what was built in fresh root file systems of Debian (as root).
    #[arg(long = "try")]
    tried: bool,
    /// With --try: in these suites.
    #[arg(long, value_delimiter = ',', default_values_t = trial::SUITES.map(str::to_owned))]
    suites: Vec<String>,
}

/// A processor that there is a binary for.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Arch {
    #[value(name = "x86-64")]
    X86_64,
    #[value(name = "arm64")]
    Arm64,
}

/// A part of a release.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// The static binary, and its archive with manual pages, completions and units.
    Binary,
    /// The Debian package.
    Deb,
    /// The RPM package.
    Rpm,
    /// The container image, as an OCI archive.
    Image,
    /// The Helm chart of the DaemonSet.
    Chart,
    /// The bill of materials, in CycloneDX.
    Sbom,
    /// What `cargo publish` would send, tried without sending.
    Crates,
    /// install.sh, which verifies what it downloads, and SHA256SUMS.
    Installer,
}

impl Arch {
    /// rustc's name of it.
    fn target(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64-unknown-linux-gnu",
            Self::Arm64 => "aarch64-unknown-linux-gnu",
        }
    }

    /// As `uname -m` says it, and RPM.
    fn machine(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Arm64 => "aarch64",
        }
    }

    /// As Debian and container images say it.
    fn debian(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }
}

/// What one release is made with.
struct Release {
    version: &'static str,
    /// Seconds since 1970 that stand as the time of everything in it.
    epoch: u64,
    /// Where its parts go.
    out: PathBuf,
    /// Where cargo builds for it.
    build: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let folder = shell::target().join("dist");
    let out = arguments.out.clone().unwrap_or_else(|| folder.join("out"));
    fs::create_dir_all(&out)?;
    let release = Release { version: env!("CARGO_PKG_VERSION_OF_HUGEWISE"), epoch: epoch()?, out, build: folder.join("build") };
    let wants = |part| arguments.only.is_empty() || arguments.only.contains(&part);

    for &arch in &arguments.arches {
        let binary = timed("binary", || binary::build(&release, arch))?;
        if arguments.twice {
            timed("binary, again", || binary::again(&release, arch, &binary))?;
        }
        if wants(Part::Binary) {
            timed("archive", || packages::archive(&release, arch, &binary))?;
        }
        if wants(Part::Deb) {
            timed("deb", || packages::deb(&release, arch))?;
        }
        if wants(Part::Rpm) {
            timed("rpm", || packages::rpm(&release, arch))?;
        }
        if wants(Part::Image) {
            timed("image", || image::build(&release, arch, &binary))?;
        }
    }
    if wants(Part::Chart) {
        timed("chart", || chart::build(&release))?;
    }
    if wants(Part::Sbom) {
        timed("bill of materials", || sbom::build(&release))?;
    }
    if wants(Part::Crates) {
        timed("crates", || crates::publish_dry())?;
    }
    if wants(Part::Installer) {
        timed("installer", || installer::build(&release, arguments.releases.as_deref()))?;
    }
    list(&release.out)?;
    if arguments.tried { trial::run(&release, &arguments.arches, &arguments.suites) } else { Ok(()) }
}

fn timed<T>(what: &str, work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    let begun = Instant::now();
    println!("== {what}");
    let done = work().map_err(|failure| format!("{what}: {failure}"))?;
    println!("== {what}: {} s", begun.elapsed().as_secs());
    Ok(done)
}

/// The time of the last commit, as <https://reproducible-builds.org/specs/source-date-epoch/> has it; outside of a checkout,
/// now.
fn epoch() -> Result<u64, Failure> {
    if let Some(set) = std::env::var_os("SOURCE_DATE_EPOCH") {
        return Ok(set.to_string_lossy().parse()?);
    }
    match shell::output(shell::command("git").args(["log", "-1", "--format=%ct"])) {
        Ok(seconds) => Ok(String::from_utf8(seconds)?.trim().parse()?),
        Err(_) => Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs()),
    }
}

/// The files of a folder that are part of a release, by name.
fn files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn list(folder: &Path) -> Result<(), Failure> {
    println!("\n{}:", folder.display());
    for path in files(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        println!("  {:>11}  {name}", fs::metadata(&path)?.len());
    }
    Ok(())
}
