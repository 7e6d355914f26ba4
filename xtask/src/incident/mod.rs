//! `cargo xtask incident`: a host that runs out of memory over its page tables, in a virtual machine, and what
//! `hugewise investigate` says of the archives that it left; then the same on huge pages, of which nothing is to be said.

mod figures;
mod story;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use crate::vm;
use crate::vm::image::{self, Image};
use crate::vm::machine::{self, Disk, Hardware, Machine};
use crate::{Failure, exactness};
use figures::Figures;
use story::{Pages, Told};

/// How it is run.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Show all that investigate prints.
    #[arg(long)]
    verbose: bool,
    /// Keep the archives in this folder.
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
    /// Take this hugewise instead of the one of this workspace.
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
}

/// Its swap is a file on its disk.
const HARDWARE: Hardware = Hardware { memory_mib: 1024, nodes: 1, cpu: "max,la57=off" };

/// What the storm is to be taken for.
const VERDICT: &str = "reclaim-by-page-tables";

/// One run and what came of it.
struct Run {
    pages: Pages,
    told: Told,
    figures: Figures,
    incidents: Vec<Incident>,
}

/// One incident of an investigation.
struct Incident {
    verdict: String,
    confidence: String,
    from: String,
    to: String,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    image::prepare()?;
    let hugewise = exactness::hugewise(arguments.program.as_deref())?;
    let image = Image::Collectors.disk()?;
    let folder = tempfile::Builder::new().prefix("incident-").tempdir_in(vm::folder()?)?;
    let programs = machine::programs(folder.path(), &[("standin", &exactness::standin()?)])?;
    let archives = arguments.keep.clone().unwrap_or_else(|| folder.path().join("archives"));
    let scene = Scene { hugewise, image, programs, archives, verbose: arguments.verbose };

    let base = scene.play(Pages::Base)?;
    let huge = scene.play(Pages::Huge { lots: base.told.lots, seconds: base.told.seconds })?;
    println!(
        "\n| run | sessions | page tables | %system | free low | swap | scanned by kswapd, directly | verdict | window |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- |");
    base.print();
    huge.print();
    let mut wrong = base.storm_is_named();
    wrong.extend(huge.nothing_is_named());
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ").into()) }
}

/// What both runs start from.
struct Scene {
    hugewise: PathBuf,
    image: PathBuf,
    programs: PathBuf,
    archives: PathBuf,
    verbose: bool,
}

impl Scene {
    fn play(&self, pages: Pages) -> Result<Run, Failure> {
        println!("== {}", pages.name());
        let begun = Instant::now();
        let disk = Disk::over(&self.image)?;
        let mut machine = Machine::boot(&disk, &self.programs, HARDWARE)?;
        println!("   up after {} s", begun.elapsed().as_secs());
        let folder = self.archives.join(pages.folder());
        let mut tell = |said: &str| {
            if self.verbose {
                println!("   {said}");
            }
        };
        let told = story::run(&mut machine, pages, &folder, &mut tell)?;
        drop(machine);
        let (sessions, seconds, killed) = (told.sessions(), told.seconds, told.killed);
        println!("   {sessions} sessions within {seconds} s, {killed} of them killed by the kernel");
        let figures = Figures::of(&folder.join("sa"))?;
        let incidents = self.investigate(&folder)?;
        println!("   {} samples read; done after {} s", figures.samples, begun.elapsed().as_secs());
        Ok(Run { pages, told, figures, incidents })
    }

    fn investigate(&self, folder: &Path) -> Result<Vec<Incident>, Failure> {
        if self.verbose {
            self.show(folder)?;
        }
        let mut command = Command::new(&self.hugewise);
        let output = command.arg("investigate").arg(folder).args(["--format", "json"]).stdin(Stdio::null()).output()?;
        let said: Value = serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("investigate: {error}: {}", String::from_utf8_lossy(&output.stderr)))?;
        let incidents =
            said.get("incidents").and_then(Value::as_array).ok_or("investigate says nothing of incidents")?;
        Ok(incidents.iter().map(Incident::of).collect())
    }

    fn show(&self, folder: &Path) -> Result<(), Failure> {
        let output = Command::new(&self.hugewise).arg("investigate").arg(folder).stdin(Stdio::null()).output()?;
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            println!("   | {line}");
        }
        Ok(())
    }
}

impl Incident {
    fn of(value: &Value) -> Self {
        let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or("?").to_owned();
        // The machine's zone is UTC: what follows the seconds is the same for all.
        let time = |field: &str| text(field).chars().take(19).collect();
        Self { verdict: text("verdict"), confidence: text("confidence"), from: time("from"), to: time("to") }
    }

    /// Whether it is of the time from one moment to another, all of them UTC.
    fn meets(&self, from: &str, to: &str) -> bool {
        self.from.as_str() <= to && from <= self.to.as_str()
    }
}

impl Run {
    fn print(&self) {
        let Figures { page_tables, system, free_low, swap, scans, .. } = &self.figures;
        let (verdicts, windows): (Vec<_>, Vec<_>) = self
            .incidents
            .iter()
            .map(|incident| {
                let Incident { verdict, confidence, from, to } = incident;
                (format!("{verdict} ({confidence})"), format!("{from} to {to}"))
            })
            .unzip();
        let or_none = |texts: Vec<String>| if texts.is_empty() { "none".to_owned() } else { texts.join(", ") };
        println!(
            "| {} | {} | {page_tables:.1} % | {:.1}, at most {:.1} | {free_low:.0} MiB | {swap:.0} MiB | {:.0}, {:.0} /s | {} | {} |",
            self.pages.name(),
            self.told.sessions(),
            system.0,
            system.1,
            scans.0,
            scans.1,
            or_none(verdicts),
            or_none(windows),
        );
    }

    /// What is not as it must be of a storm.
    fn storm_is_named(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        if self.figures.scans.0 + self.figures.scans.1 == 0.0 {
            wrong.push("memory was never short on base pages".to_owned());
        }
        let Told { from, to, .. } = &self.told;
        let named = self.incidents.iter().any(|incident| incident.verdict == VERDICT && incident.meets(from, to));
        if !named {
            wrong.push(format!("no {VERDICT} between {from} and {to}"));
        }
        if self.incidents.iter().any(|incident| !incident.meets(from, to)) {
            wrong.push(format!("an incident on base pages that is not between {from} and {to}"));
        }
        wrong
    }

    /// What is said of a host that has no trouble.
    fn nothing_is_named(&self) -> Vec<String> {
        self.incidents.iter().map(|incident| format!("{} on huge pages, where nothing is", incident.verdict)).collect()
    }
}
