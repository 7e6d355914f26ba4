//! The storm: a host that runs out of memory over its page tables, and the same one on huge pages.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use super::collectors::Collector;
use super::figures::Figures;
use super::gaps::{self, Gap};
use super::play;
use super::story::{self, Pages, Told};
use crate::Failure;
use crate::vm::machine::{Clock, Disk, Hardware, Machine};

/// Its swap is a file on its disk.
const HARDWARE: Hardware = Hardware {
    memory_mib: 1024,
    nodes: 1,
    cpu: "max,la57=off",
    clock: Clock::Instructions { shift: 4, leaps: false },
    leaves: true,
    slow_disk: None,
};

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

/// What both runs start from.
pub(super) struct Scene {
    pub(super) hugewise: PathBuf,
    pub(super) image: PathBuf,
    pub(super) programs: PathBuf,
    pub(super) archives: PathBuf,
    pub(super) verbose: bool,
}

impl Scene {
    /// On base pages and on huge ones; what is wrong.
    pub(super) fn both(&self) -> Result<Vec<String>, Failure> {
        let base = self.play(Pages::Base)?;
        let gaps = gaps::of(&self.archives.join(Pages::Base.folder()))?;
        gaps::print(&gaps);
        let huge = self.play(Pages::Huge { lots: base.told.lots, seconds: base.told.seconds })?;
        println!(
            "\n| run | sessions | page tables | %system | free low | swap | scanned by kswapd, directly | verdict | window |"
        );
        println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- |");
        base.print();
        huge.print();
        let mut wrong = base.storm_is_named();
        wrong.extend(huge.nothing_is_named());
        wrong.extend(gaps.iter().filter_map(Gap::too_large));
        Ok(wrong)
    }

    fn play(&self, pages: Pages) -> Result<Run, Failure> {
        println!("== {}", pages.name());
        let begun = Instant::now();
        let disk = Disk::over(&self.image)?;
        let mut machine = Machine::boot_at(&disk, &self.programs, HARDWARE, play::BEGINS)?;
        println!("   up after {} s", begun.elapsed().as_secs());
        let folder = self.archives.join(pages.folder());
        let mut tell = |said: &str| {
            if self.verbose {
                println!("   {said}");
            }
        };
        let told = story::run(&mut machine, pages, &mut tell)?;
        drop(machine);
        disk.unpack(&folder)?;
        let (sessions, seconds, killed) = (told.sessions(), told.seconds, told.killed);
        println!("   {sessions} sessions within {seconds} s, {killed} of them killed by the kernel");
        let figures = Figures::of(&Collector::Sar.archive(&folder, 1))?;
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
