//! The storm: a host that runs out of memory over its page tables, and the same one on huge pages.

use std::path::Path;
use std::time::Instant;

use hugewise_investigate::{Incident, IncidentVerdict, Moment, Options, investigate};

use super::collectors::Collector;
use super::figures::Figures;
use super::gaps::{self, Gap};
use super::play::{self, Scene};
use super::story::{self, MachineReport, Pages};
use crate::vm::machine::{Clock, Disk, Hardware, Machine};
use hugewise_testkit::tools::Failure;

/// Its swap is a file on its disk.
const HARDWARE: Hardware = Hardware {
    memory_mib: 1024,
    nodes: 1,
    cpu: "max,la57=off",
    clock: Clock::Instructions { shift: 3, leaps: false },
    leaves: true,
    slow_disk: None,
    ssh: None,
};

/// What the storm is to be taken for.
const VERDICT: IncidentVerdict = IncidentVerdict::ReclaimByPageTables;

/// As whom the server's processes run.
const CULPRIT: &str = "oracle";

/// One run and what came of it.
struct StormRun {
    pages: Pages,
    told: MachineReport,
    figures: Figures,
    incidents: Vec<Incident>,
}

/// On base pages and on huge ones, each left in its folder; what is there already is not played.
pub(super) fn play(scene: &Scene, archives: &Path, verbose: bool) -> Result<(), Failure> {
    let base = one(scene, archives, Pages::Base, verbose)?;
    one(scene, archives, Pages::Huge { lots: base.lots, seconds: base.seconds }, verbose)?;
    Ok(())
}

fn one(
    scene: &Scene,
    archives: &Path,
    pages: Pages,
    verbose: bool,
) -> Result<MachineReport, Failure> {
    let folder = archives.join(pages.folder());
    if let Some(told) = MachineReport::read(&folder) {
        return Ok(told);
    }
    println!("== {}", pages.name());
    let begun = Instant::now();
    let disk = Disk::over(&scene.image)?;
    let mut machine = Machine::boot_at(&disk, &scene.programs, HARDWARE, play::BEGINS)?;
    println!("   up after {} s", begun.elapsed().as_secs());
    let mut tell = |said: &str| {
        if verbose {
            println!("   {said}");
        }
    };
    let told = story::run(&disk, &mut machine, pages, &folder, &mut tell)?;
    let (sessions, seconds, killed) = (told.sessions(), told.seconds, told.killed);
    println!("   {sessions} sessions within {seconds} s, {killed} of them killed by the kernel");
    println!("   done after {} s", begun.elapsed().as_secs());
    Ok(told)
}

/// What is said of both, where they are in the folder, printed; what is wrong in it.
pub(super) fn judge(archives: &Path) -> Result<Vec<String>, Failure> {
    let Some(base) = StormRun::read(archives, Pages::Base)? else {
        return Ok(vec![format!("the storm is not in {}", archives.display())]);
    };
    let folder = archives.join(Pages::Base.folder());
    let gaps = gaps::find_gaps(&folder)?;
    gaps::print(&gaps);
    let mut wrong = base.storm_is_named();
    wrong.extend(gaps.iter().filter_map(Gap::too_large));
    let culprits: Vec<String> = investigate_archive(&Collector::Recorder.archive(&folder, 1))?
        .into_iter()
        .filter(|incident| incident.verdict == VERDICT)
        .flat_map(|incident| incident.who)
        .collect();
    println!();
    culprits.iter().for_each(|culprit| println!("by the recorder's word: {culprit}"));
    if !culprits.iter().any(|culprit| culprit.contains(CULPRIT)) {
        wrong.push("the recorder does not say who did it".to_owned());
    }
    let huge =
        StormRun::read(archives, Pages::Huge { lots: base.told.lots, seconds: base.told.seconds })?;
    println!(
        "\n| run | sessions | page tables | %system | free low | swap | scanned by kswapd, \
             directly | verdict | window |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- |");
    base.print();
    match huge {
        Some(huge) => {
            huge.print();
            wrong.extend(huge.nothing_is_named());
        }
        None => wrong.push(format!("the storm on huge pages is not in {}", archives.display())),
    }
    Ok(wrong)
}

fn investigate_archive(archive: &Path) -> Result<Vec<Incident>, Failure> {
    let options = Options { zone: Some("UTC".to_owned()), ..Options::default() };
    let said = investigate(&[archive.to_owned()], &options, &|_| ())?;
    Ok(said.hosts.into_iter().flat_map(|host| host.incidents).collect())
}

/// Whether it is of the time from one moment to another, in seconds since 1970.
const fn meets(incident: &Incident, from: i64, to: i64) -> bool {
    incident.from.0 <= 1000 * to && 1000 * from <= incident.to.0
}

/// A moment's hour, minute and second of UTC.
fn clock(moment: Moment) -> String {
    let second = moment.0.div_euclid(1000).rem_euclid(86_400);
    format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

impl StormRun {
    /// Of what is in the folder.
    fn read(archives: &Path, pages: Pages) -> Result<Option<Self>, Failure> {
        let folder = archives.join(pages.folder());
        let Some(said) = MachineReport::read(&folder) else { return Ok(None) };
        let figures = Figures::read(&Collector::Sar.archive(&folder, 1))?;
        Ok(Some(Self { pages, told: said, figures, incidents: investigate_archive(&folder)? }))
    }

    fn print(&self) {
        let Figures { page_tables, system, free_low, swap, scans, .. } = &self.figures;
        let (verdicts, windows): (Vec<_>, Vec<_>) = self
            .incidents
            .iter()
            .map(|incident| {
                let Incident { verdict, confidence, .. } = incident;
                let (from, to) = (clock(incident.from), clock(incident.to));
                (format!("{} ({confidence})", verdict.name()), format!("{from} to {to}"))
            })
            .unzip();
        let or_none = |texts: Vec<String>| {
            if texts.is_empty() { "none".to_owned() } else { texts.join(", ") }
        };
        println!(
            "| {} | {} | {page_tables:.1} % | {:.1}, at most {:.1} | {free_low:.0} MiB | \
                 {swap:.0} MiB | {:.0}, {:.0} /s | {} | {} |",
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
        let MachineReport { from, to, .. } = &self.told;
        let named = self
            .incidents
            .iter()
            .any(|incident| incident.verdict == VERDICT && meets(incident, *from, *to));
        if !named {
            wrong.push(format!("no {} between {from} and {to}", VERDICT.name()));
        }
        if self.incidents.iter().any(|incident| !meets(incident, *from, *to)) {
            wrong.push(format!("an incident on base pages that is not between {from} and {to}"));
        }
        wrong
    }

    /// What is said of a host that has no trouble but for hundreds of logins within a minute.
    fn nothing_is_named(&self) -> Vec<String> {
        self.incidents
            .iter()
            .filter(|incident| incident.verdict != IncidentVerdict::LoginStorm)
            .map(|incident| format!("{} on huge pages, where nothing is", incident.verdict.name()))
            .collect()
    }
}
