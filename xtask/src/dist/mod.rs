//! `cargo xtask dist`: everything that people install, built here, and tried where they would
//! install it.

mod bill;
mod binary;
mod cross;
pub(crate) mod emulated;
mod image;
mod installer;
mod packages;
mod processor;
mod tools;
mod trial;
mod wheel;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use processor::{ARM64, X86_64};

use hugewise_testkit::tools::{Failure, shell};

/// What to build.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Where it goes; target/packages/out when not given.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Where releases can be downloaded, for install.sh: the https:// address of the folder that
    /// holds what this makes.
    #[arg(long, value_name = "URL")]
    releases: Option<String>,
    /// Build it for arm64 too, in a root file system of Debian sid (as root).
    #[arg(long)]
    arm64: bool,
    /// Build the binary a second time, in another folder, and compare the two byte for byte.
    #[arg(long)]
    twice: bool,
    /// Try what was built in fresh root file systems of Debian (as root).
    #[arg(long = "try")]
    tried: bool,
    /// With --try: in these suites.
    #[arg(long, value_delimiter = ',', default_values_t = trial::SUITES.map(str::to_owned))]
    suites: Vec<String>,
}

/// What one release is made with.
struct Release {
    version: String,
    /// Seconds since 1970 that stand as the time of everything in it.
    epoch: u64,
    /// Where its parts go.
    out: PathBuf,
    /// Where cargo builds for it.
    build: PathBuf,
}

/// Builds it all.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let out = arguments.out.clone().unwrap_or_else(|| folder().join("out"));
    fs::create_dir_all(&out)?;
    // What another version left there is no part of this one.
    for path in files(&out)? {
        fs::remove_file(path)?;
    }
    let release =
        Release { version: version()?, epoch: epoch()?, out: out.canonicalize()?, build: builds() };
    let processors = if arguments.arm64 { &[X86_64, ARM64][..] } else { &[X86_64] };
    let mut binaries = Vec::new();
    for processor in processors {
        let named = |what: &str| format!("{what} for {}", processor.machine);
        let binary = timed(&named("binary"), || binary::build(&release, processor))?;
        if arguments.twice {
            timed(&named("binary, again,"), || binary::again(&release, processor, &binary))?;
        }
        timed(&named("archive"), || packages::archive(&release, processor, &binary))?;
        let (version, file) =
            (format!("{}-1", release.version), packages::deb_file(&release, processor));
        timed(&named("deb"), || packages::deb(&release, processor, &version, &file))?;
        timed(&named("rpm"), || packages::rpm(&release, processor))?;
        timed(&named("image"), || image::build(&release, processor, &binary))?;
        timed(&named("wheel"), || wheel::build(&release, processor, &binary))?;
        binaries.push(binary);
    }
    timed("bill of materials", || bill::build(&release, processors))?;
    timed("installer", || installer::build(&release, arguments.releases.as_deref()))?;
    list(&release.out)?;
    if !arguments.tried {
        return Ok(());
    }
    if let [here, there] = binaries.as_slice() {
        timed("captured hosts on arm64", || emulated::run(here, there))?;
    }
    trial::run(&release, &arguments.suites)
}

/// Parts of a release that `proving/` tries by themselves.
#[derive(clap::Subcommand)]
pub(crate) enum Part {
    /// The Debian package of a program for x86-64, in a folder that is empty.
    Deb { program: PathBuf, folder: PathBuf },
    /// The program for arm64, built where it is not there yet (as root).
    Arm64,
}

/// Makes the part, and prints its path last.
pub(crate) fn make_part(part: &Part) -> Result<(), Failure> {
    let file = match part {
        Part::Deb { program, folder } => package(program, folder)?,
        Part::Arm64 => for_arm64()?,
    };
    println!("{}", file.display());
    Ok(())
}

fn package(program: &Path, folder: &Path) -> Result<PathBuf, Failure> {
    let release = Release {
        version: version()?,
        epoch: epoch()?,
        out: folder.to_owned(),
        build: folder.join("build"),
    };
    let built = binary::folder(&release.build, &X86_64);
    fs::create_dir_all(&built)?;
    fs::copy(program, built.join("hugewise"))
        .map_err(|error| format!("{}: {error}", program.display()))?;
    let (version, file) = (format!("{}-1", release.version), packages::deb_file(&release, &X86_64));
    packages::deb(&release, &X86_64, &version, &file)?;
    Ok(file)
}

fn for_arm64() -> Result<PathBuf, Failure> {
    let release = Release {
        version: version()?,
        epoch: epoch()?,
        out: folder().join("out"),
        build: builds(),
    };
    timed("binary for arm64", || binary::build(&release, &ARM64))
}

/// Where all of it happens.
fn folder() -> PathBuf {
    shell::target().join("packages")
}

/// Where cargo builds for releases.
fn builds() -> PathBuf {
    folder().join("build")
}

/// Root file systems that are kept.
fn roots() -> PathBuf {
    folder().join("roots")
}

fn timed<T>(what: &str, work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    let begun = Instant::now();
    println!("== {what}");
    let done = work().map_err(|failure| format!("{what}: {failure}"))?;
    println!("== {what}: {} s", begun.elapsed().as_secs());
    Ok(done)
}

/// `path+file:///.../crates/cli#hugewise@0.1.0`
fn version() -> Result<String, Failure> {
    let told =
        String::from_utf8(shell::output(shell::cargo().args(["pkgid", "--package", "hugewise"]))?)?;
    let version = told.trim().rsplit(['@', '#']).next().unwrap_or_default();
    Ok(version.to_owned())
}

/// The time of the last commit, as <https://reproducible-builds.org/specs/source-date-epoch/> has
/// it; outside of a checkout, now.
fn epoch() -> Result<u64, Failure> {
    if let Some(set) = std::env::var_os("SOURCE_DATE_EPOCH") {
        return Ok(set.to_string_lossy().parse()?);
    }
    match shell::output(shell::command("git").args(["log", "-1", "--format=%ct"])) {
        Ok(seconds) => Ok(String::from_utf8(seconds)?.trim().parse()?),
        Err(_) => Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs()),
    }
}

/// The files of a folder, by name.
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
