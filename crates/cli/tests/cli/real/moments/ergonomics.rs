//! What a Java machine takes where its flags leave its collector and its heap open: pages that
//! check reckons, and what comes of one page fewer, beside what the kernel counts.
//!
//! A set-up is started in a pool with room; what it takes is the number that all else is measured
//! by. Then it is started again in a pool of just as many pages, and in one that lacks one.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use hugewise_lab::guard::PoolGuard;
use hugewise_testkit::{Skip, require};

use super::forecast::{Forecast, Moment};
use super::kinds::{Jvm, Kind};
use super::stage::Stage;
use crate::real::harness::{self, Check};
use crate::real::namespace;

/// Flags of each JDK. The machine says itself how large its heap is, so that nothing is estimated.
const ON_ALL: &[&str] = &[
    "-XX:+UseG1GC -Xmx300m",
    "-XX:+UseG1GC -Xmx1025m",
    "-XX:+UseParallelGC -Xmx641m",
    "-XX:+UseSerialGC -Xmx333m",
    "-XX:+UseShenandoahGC -Xmx300m",
    "-XX:+UseZGC -Xms100m -Xmx600m",
    "-XX:+UseZGC -Xmx600m",
    "-XX:+UseZGC -XX:MaxRAM=2g",
    "-XX:+UseZGC -XX:MaxRAMPercentage=3",
    "-XX:MaxRAM=2g",
    "-XX:MaxRAMPercentage=3",
    "-XX:MaxRAM=17g",
    "-XX:ActiveProcessorCount=1 -Xmx300m",
    "-XX:+AggressiveHeap -XX:-UseNUMA -Xmx300m",
];

/// Flags of OpenJDK 17 alone.
const ON_17: &[&str] = &[
    "-XX:+UseG1GC -Xmx333m",
    "-XX:+UseG1GC -Xmx512m",
    "-XX:+UseG1GC -Xmx301m -XX:G1HeapRegionSize=3m",
    "-XX:+UseG1GC -Xmx301m -XX:G1HeapRegionSize=32m",
    "-XX:+UseG1GC -Xmx2049m",
    "-XX:+UseG1GC -Xmx300m -XX:ReservedCodeCacheSize=100m",
    "-XX:+UseG1GC -Xmx300m -XX:ReservedCodeCacheSize=15m",
    "-XX:+UseG1GC -Xmx300m -Xint",
    "-XX:+UseG1GC -Xmx300m -XX:TieredStopAtLevel=1",
    "-XX:+UseG1GC -Xmx300m -XX:-SegmentedCodeCache",
    "-XX:+UseG1GC -Xmx300m -XX:ObjectAlignmentInBytes=16",
    "-XX:+UseParallelGC -Xmx300m",
    "-XX:+UseParallelGC -Xmx1g -Xmn200m",
    "-XX:+UseParallelGC -Xmx1111m",
    "-XX:+UseSerialGC -Xmx1534m",
    "-XX:+UseSerialGC -Xmx1600m -XX:NewRatio=5",
    "-XX:+UseShenandoahGC -Xmx1g",
    "-XX:+UnlockExperimentalVMOptions -XX:+UseEpsilonGC -Xmx300m",
    "-XX:+UseZGC -Xms300m -Xmx300m",
    "-XX:+UseZGC -XX:MinHeapSize=64m -Xmx600m",
    "-XX:+UseZGC -XX:InitialRAMPercentage=1 -Xmx600m",
    "-XX:+UseZGC -XX:InitialHeapSize=101m -Xmx600m",
    "-XX:+UseZGC -Xmx600m -Xint",
    "-XX:+UseZGC -XX:MaxRAMFraction=30",
    "-XX:+UseG1GC -XX:MaxRAM=2g",
    "-XX:+UseParallelGC -XX:MaxRAM=2g",
    "-XX:+UseSerialGC -XX:MaxRAM=2g",
    "-XX:+UseParallelGC -XX:MaxRAMPercentage=3",
    "-XX:+UseSerialGC -XX:MaxRAMPercentage=2.7",
    "-XX:MaxRAMPercentage=2.7",
    "-XX:MaxRAMFraction=30",
    "-XX:MaxRAM=300m -XX:MinRAMPercentage=80",
    "-XX:MaxRAM=1g -XX:MaxRAMPercentage=60",
    "-XX:MaxRAM=5g",
    "-XX:MaxRAM=9g",
    "-XX:MaxRAM=2g -Xms700m",
    "-XX:MaxRAM=2g -XX:MinHeapSize=701m",
    "-XX:MaxRAM=2g -Xshare:off",
    "-XX:ActiveProcessorCount=1 -XX:MaxRAM=2g",
    "-XX:ActiveProcessorCount=1 -XX:+AlwaysActAsServerClassMachine -Xmx300m",
    "-XX:+NeverActAsServerClassMachine -Xmx300m",
    "-Xmx300m",
    "",
];

/// The same, which ask for large pages by another flag than `UseLargePages`, or by it and another.
const OF_OTHER_KINDS: &[&str] = &[
    "-XX:+UseHugeTLBFS -Xmx300m -XX:+UseParallelGC",
    "-XX:+UseHugeTLBFS -XX:MaxRAM=2g",
    "-XX:+UseSHM -Xmx300m -XX:+UseParallelGC",
    "-XX:+UseSHM -Xmx600m -XX:+UseG1GC",
    "-XX:+UseSHM -XX:+UseLargePages -Xmx301m -XX:+UseSerialGC",
    "-XX:+UseSHM -XX:+UseHugeTLBFS -Xmx300m -XX:+UseParallelGC",
    "-XX:+AggressiveHeap -Xmx600m",
    // Without counters its heap is what it has mapped.
    "-XX:-UsePerfData -XX:+UseLargePages -XX:+UseG1GC -XX:MaxRAM=2g",
    "-XX:-UsePerfData -XX:+UseLargePages -XX:+UseG1GC -XX:MaxRAM=17g",
    "-XX:-UsePerfData -XX:+UseLargePages -XX:ActiveProcessorCount=1 -Xmx300m",
];

/// Room for the largest heap above.
const ROOM: u64 = 3400;

/// The `java` of each JDK here, and its version.
fn find_jdks() -> Vec<(PathBuf, String)> {
    let folders = fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten();
    let jdk_of = |folder: PathBuf| {
        let java = folder.join("bin/java");
        let release = fs::read_to_string(folder.join("release")).ok()?;
        let version = release.lines().find_map(|line| line.strip_prefix("JAVA_VERSION="))?;
        java.is_file().then(|| (java, version.trim_matches('"').to_owned()))
    };
    let mut jdks: Vec<_> = folders
        .filter(|folder| folder.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|folder| jdk_of(folder.path()))
        .collect();
    jdks.sort();
    jdks
}

/// What the machine itself says of two flags, in pages of 2 MiB: its first and its largest heap.
fn ask_heap_pages(java: &Path, flags: &str) -> (u64, u64) {
    let mut command = Command::new(java);
    command.args(flags.split_ascii_whitespace()).args(["-XX:+PrintFlagsFinal", "-version"]);
    let said = harness::must(&mut command);
    let value = |name: &str| -> u64 {
        let line = said.lines().find(|line| line.contains(&format!(" {name} "))).unwrap();
        let value = line.split_once('=').unwrap().1.split_ascii_whitespace().next().unwrap();
        value.parse::<u64>().unwrap().div_ceil(2 << 20)
    };
    (value("InitialHeapSize"), value("MaxHeapSize"))
}

/// Pages of 2 MiB that a process has mapped, those of a file in several places once.
fn pages_mapped(pid: u32) -> u64 {
    let smaps = fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap_or_default();
    let mut head: Vec<&str> = Vec::new();
    let (mut private, mut shared) = (0, BTreeSet::new());
    for line in smaps.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match words.as_slice() {
            [range, ..] if range.contains('-') && !range.ends_with(':') => head = words,
            ["KernelPageSize:", "2048", "kB"] => {
                let number = |text: &str| u64::from_str_radix(text, 16).unwrap();
                let (start, end) = head[0].split_once('-').unwrap();
                let pages = (number(end) - number(start)) >> 21;
                if head[1].ends_with('s') {
                    let first = number(head[2]) >> 21;
                    shared.extend((first..first + pages).map(|page| (head[4].to_owned(), page)));
                } else {
                    private += pages;
                }
            }
            _ => {}
        }
    }
    private + shared.len() as u64
}

struct Table<'a> {
    java: &'a Path,
    server: &'a Jvm,
    guard: &'a PoolGuard,
    wrong: Vec<String>,
    forecasts: usize,
}

impl Table<'_> {
    fn forecast(&self, stage: &Stage<'_>) -> (Check, Forecast) {
        let check = harness::check();
        let forecast = Forecast::of(&check, "jvm", stage.pid(0));
        (check, forecast)
    }

    fn compare(&mut self, flags: &str, what: &str, foretold: &str, seen: &str, why: &str) {
        self.forecasts += 1;
        if foretold != seen {
            self.wrong.push(format!("{flags}: {what}: foretold {foretold} ({why}), seen {seen}"));
        }
    }

    /// Restarts it, and says what the kernel counts.
    fn restart(&self, stage: &Stage<'_>, whole: u64) -> &'static str {
        let (state, _) = stage.restart(0);
        if state.as_str() == "does_not_start" {
            return state.as_str();
        }
        match pages_mapped(stage.pid(0)) {
            0 => "none",
            pages if pages == whole => "all",
            _ => "partly",
        }
    }

    fn play(&mut self, flags: &str) {
        let begun = Instant::now();
        let servers: [&dyn Kind; 1] = [self.server];
        let stage = Stage::new(self.guard, &servers);
        stage.pool(ROOM);
        stage.start(0, flags);
        let whole = pages_mapped(stage.pid(0));
        assert!(whole > 0, "{flags}: takes no pages");
        let (check, forecast) = self.forecast(&stage);
        self.compare(flags, "now", forecast.state(Moment::Now), "all", forecast.why(Moment::Now));
        let needs = &check.instance("jvm", stage.pid(0))["demand"]["needed_pages"];
        let mut needed = whole;
        let mut pools = vec![whole, whole - 1];
        if flags.contains("UseZGC") {
            let (first, largest) = ask_heap_pages(self.java, flags);
            needed = whole - first + largest;
            // Its code cache comes first, and is had or not; its first heap is had or it exits.
            if flags.contains("-Xms100m") {
                pools.extend([0, 1, first - 1, first, whole - first - 1, whole - first]);
            }
        }
        self.compare(flags, "needs", &needs.to_string(), &needed.to_string(), "");

        for pages in pools {
            if stage.running().is_empty() {
                stage.pool(ROOM);
                stage.start(0, flags);
            }
            let what = format!("restart in {pages}");
            stage.pool(pages);
            let (_, forecast) = self.forecast(&stage);
            let seen = self.restart(&stage, whole);
            let (foretold, why) = (forecast.state(Moment::Restart), forecast.why(Moment::Restart));
            self.compare(flags, &what, foretold, seen, why);
            if seen == "does_not_start" {
                continue;
            }
            let (_, forecast) = self.forecast(&stage);
            for moment in [Moment::Now, Moment::Restart] {
                let what = format!("{moment} in {pages}, once it runs");
                self.compare(flags, &what, forecast.state(moment), seen, forecast.why(moment));
            }
        }
        drop(stage);
        eprintln!(
            "ergonomics  {flags}: {whole} pages, {} wrong so far; {:.1} s",
            self.wrong.len(),
            begun.elapsed().as_secs_f64()
        );
    }
}

fn play_all(java: &Path, version: &str, tables: &[Vec<String>]) {
    let guard = require!(PoolGuard::take_for_test());
    let server = require!(Jvm::of_jdk(java));
    let mut table = Table { java, server: &server, guard: &guard, wrong: Vec::new(), forecasts: 0 };
    for flags in tables.iter().flatten() {
        table.play(flags);
    }
    let Table { wrong, forecasts, .. } = table;
    let verdict = format!("ergonomics  {version}: {forecasts} forecasts, {} wrong", wrong.len());
    eprintln!("{verdict}");
    assert!(wrong.is_empty(), "{verdict}\n{}", wrong.join("\n"));
}

fn with_large_pages(flags: &[&str]) -> Vec<String> {
    flags.iter().map(|flags| format!("-XX:+UseLargePages {flags}")).collect()
}

#[test]
fn what_openjdk_17_chooses_is_reckoned_as_it_chooses() {
    let name = "moments::ergonomics::what_openjdk_17_chooses_is_reckoned_as_it_chooses";
    if !require!(namespace::inside(name)) {
        return;
    }
    let jdks = find_jdks();
    let jdk = jdks.iter().find(|(_, version)| version.starts_with("17."));
    let (java, version) = require!(jdk.ok_or(Skip("no OpenJDK 17".into())));
    let others = OF_OTHER_KINDS.iter().map(ToString::to_string).collect();
    play_all(java, version, &[with_large_pages(ON_ALL), with_large_pages(ON_17), others]);
}

#[test]
fn what_other_jdks_choose_is_reckoned_as_they_choose() {
    let name = "moments::ergonomics::what_other_jdks_choose_is_reckoned_as_they_choose";
    if !require!(namespace::inside(name)) {
        return;
    }
    for (java, version) in find_jdks().iter().filter(|(_, version)| !version.starts_with("17.")) {
        play_all(java, version, &[with_large_pages(ON_ALL)]);
    }
}
