//! `cargo xtask vm`: what hugewise promises about reboots, on real ones.

mod arm64;
mod debian_kernels;
pub(crate) mod host;
pub(crate) mod image;
pub(crate) mod machine;
mod recipe;
mod scenarios;

use std::cell::OnceCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use tempfile::TempDir;

use image::Image;
use machine::{Disk, Hardware, Machine};

use hugewise_testkit::tools::{Failure, programs, shell};

/// Which scenarios.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Names of scenarios; all of them when none is named.
    scenarios: Vec<String>,
    /// Name the scenarios and what each shows; run none.
    #[arg(long)]
    list: bool,
    /// Show all that plan, apply and undo print.
    #[arg(long)]
    verbose: bool,
    /// Take this hugewise instead of the one of this workspace.
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
}

/// One story from a fresh disk to its end.
struct Scenario {
    name: &'static str,
    shows: &'static str,
    run: fn(&Stage) -> Result<(), Failure>,
}

/// What a scenario starts from.
struct Stage {
    /// Where programs go, until the last scenario is done.
    folder: TempDir,
    programs: OnceCell<PathBuf>,
    given: Option<PathBuf>,
    verbose: bool,
}

impl Stage {
    /// A fresh disk of that image.
    fn disk(&self, image: Image) -> Result<Disk, Failure> {
        Disk::over(&image.disk()?)
    }

    /// The disk of programs: hugewise and the stand-in, built where a scenario asks for them. They
    /// lie beside it, by their names.
    fn programs(&self) -> Result<&Path, Failure> {
        if let Some(disk) = self.programs.get() {
            return Ok(disk);
        }
        let programs = [
            ("hugewise", &*programs::hugewise(self.given.as_deref())?),
            ("standin", &*programs::standin()?),
        ];
        let disk = machine::programs(self.folder.path(), &programs)?;
        Ok(self.programs.get_or_init(|| disk))
    }

    /// A machine on that disk, up and running.
    fn boot(&self, disk: &Disk, hardware: Hardware) -> Result<Machine, Failure> {
        let programs = self.programs()?;
        self.timed("up", || Machine::boot(disk, programs, hardware))
    }

    /// The machine after a reboot.
    fn reboot(&self, machine: Machine) -> Result<Machine, Failure> {
        self.timed("rebooted", || machine.reboot())
    }

    /// The machine after its power was cut.
    fn power_cut(&self, machine: Machine) -> Result<Machine, Failure> {
        self.timed("power cut, up again", || machine.power_cut())
    }

    fn timed<T>(
        &self,
        what: &str,
        work: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let begun = Instant::now();
        let done = work()?;
        self.report(&format!("{what} after {} s", begun.elapsed().as_secs()));
        Ok(done)
    }

    /// What the scenario saw.
    fn report(&self, text: &str) {
        println!("   {text}");
    }

    /// The whole of a command's output, where it is wanted.
    fn show(&self, title: &str, text: &str) {
        self.report(title);
        if self.verbose {
            for line in text.lines() {
                println!("   | {line}");
            }
        }
    }
}

/// Fails with that reason unless it holds.
fn ensure(holds: bool, why: impl FnOnce() -> String) -> Result<(), Failure> {
    if holds { Ok(()) } else { Err(why().into()) }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.list {
        for scenario in scenarios::ALL {
            println!("{:14}{}", scenario.name, scenario.shows);
        }
        return Ok(());
    }
    let chosen = choose(&arguments.scenarios)?;
    image::prepare()?;
    let folder = tempfile::Builder::new().prefix("programs-").tempdir_in(folder()?)?;
    let (programs, given) = (OnceCell::new(), arguments.program.clone());
    let stage = Stage { folder, programs, given, verbose: arguments.verbose };
    let mut failed = Vec::new();
    for scenario in chosen {
        println!("== {}: {}", scenario.name, scenario.shows);
        let begun = Instant::now();
        let result = (scenario.run)(&stage);
        let seconds = begun.elapsed().as_secs();
        match result {
            Ok(()) => println!("== {}: passed in {seconds} s", scenario.name),
            Err(failure) => {
                println!("== {}: FAILED in {seconds} s: {failure}", scenario.name);
                failed.push(scenario.name);
            }
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(" ")).into()) }
}

fn choose(names: &[String]) -> Result<Vec<&'static Scenario>, Failure> {
    if names.is_empty() {
        return Ok(scenarios::ALL.iter().collect());
    }
    let find = |name: &String| {
        let found = scenarios::ALL.iter().find(|scenario| scenario.name == name);
        found.ok_or_else(|| format!("no scenario `{name}`; --list names them").into())
    };
    names.iter().map(find).collect()
}

/// Where images and what scenarios write are kept.
pub(crate) fn folder() -> Result<PathBuf, Failure> {
    let folder = shell::target().join("vm");
    fs::create_dir_all(&folder)?;
    Ok(folder)
}
