//! What check foretells of now, of a server's next restart and of the next boot, beside what
//! systemd and the kernel make of it: where it takes a command line, a processor's largest pages,
//! the order of systemd's own services, or whoever starts a server.

mod servers;
mod set_ups;
mod words;

use std::time::Instant;

use super::check;
use crate::vm::{Hardware, Image, Machine, Scenario, Stage, ensure};
use hugewise_testkit::tools::Failure;

use servers::{Moment, Server};
use set_ups::{BOOTS, BOOTS_OF_OLD_KERNEL, FORGET, PREPARE};
use words::WORDS;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "moments",
    shows: "now, the next restart and the next boot as check foretells them, and as they come: \
         command line, 1 GiB pages, \
            files that lose, servers that are down, masked services, limits by who starts a server",
    run,
};

/// Where the surroundings say so, only set-ups are played whose names have this in them, and those
/// that share their boots.
const ASKED: &str = "HUGEWISE_SET_UP";

/// A set-up, from a machine that has booted without anything that is about huge pages.
struct SetUp {
    name: &'static str,
    /// Brings it about.
    arrange: &'static str,
    /// Its servers at the three moments, as the kernel and the server were seen to make them;
    /// `unknown` of a moment that nobody can foretell.
    expected: &'static [(Server, [&'static str; 3])],
}

fn run(stage: &Stage) -> Result<(), Failure> {
    let asked = std::env::var(ASKED).unwrap_or_default();
    let is_asked = |set_ups: &&[SetUp]| set_ups.iter().any(|set_up| set_up.name.contains(&asked));
    let mut tally = Tally::default();
    let begun = Instant::now();
    for (image, boots) in [(Image::OldKernel, BOOTS_OF_OLD_KERNEL), (Image::Plain, BOOTS)] {
        let boots: Vec<&[SetUp]> = boots.iter().copied().filter(is_asked).collect();
        if !boots.is_empty() {
            on(stage, image, &boots, &mut tally)?;
        }
    }
    ensure(tally.set_ups > 0 || !tally.wrong.is_empty(), || {
        format!("{ASKED}={asked} is in no name of a set-up")
    })?;
    let Tally { set_ups, forecasts, wrong } = tally;
    stage.report(&format!(
        "verdict: {set_ups} set-ups, {forecasts} forecasts, {} wrong; {} s",
        wrong.len(),
        begun.elapsed().as_secs()
    ));
    ensure(wrong.is_empty(), || wrong.join("\n"))
}

/// Plays set-ups on one machine.
fn on(stage: &Stage, image: Image, boots: &[&[SetUp]], tally: &mut Tally) -> Result<(), Failure> {
    let disk = stage.disk(image)?;
    // With less there is no gibibyte free in one piece even as the kernel starts.
    let mut machine = stage.boot(&disk, Hardware { memory_mib: 6144, ..Hardware::default() })?;
    stage.report(machine.must("uname -sr")?.trim());
    machine.must(PREPARE)?;
    machine.must(&format!("{WORDS}{FORGET}"))?;
    for set_ups in boots {
        machine = play(stage, machine, set_ups, tally)?;
        machine.must(&format!("{WORDS}{FORGET}"))?;
    }
    machine.power_off()
}

/// What was played, and what of it came otherwise.
#[derive(Default)]
struct Tally {
    set_ups: usize,
    forecasts: usize,
    wrong: Vec<String>,
}

/// Brings set-ups about, asks check, and lets each moment come.
fn play(
    stage: &Stage,
    mut machine: Machine,
    set_ups: &[SetUp],
    tally: &mut Tally,
) -> Result<Machine, Failure> {
    let mut script = WORDS.to_owned();
    for set_up in set_ups {
        stage.report(set_up.name);
        script.push_str(set_up.arrange);
        script.push('\n');
    }
    let arranged = machine.run(&script)?;
    if arranged.code != 0 {
        let names: Vec<&str> = set_ups.iter().map(|set_up| set_up.name).collect();
        tally.wrong.push(format!(
            "{}: not brought about: {}{}",
            names.join("; "),
            arranged.out,
            arranged.err
        ));
        return Ok(machine);
    }
    let said = check(&mut machine)?;
    let all = || {
        set_ups
            .iter()
            .flat_map(|set_up| set_up.expected.iter().map(move |(server, at)| (set_up, server, at)))
    };
    let mut came = Vec::new();
    for (_, server, _) in all() {
        came.push([server.seen(&mut machine)?, server.restarted(&mut machine)?, ""]);
    }
    machine = stage.reboot(machine)?;
    for ((set_up, server, expected), came) in all().zip(&mut came) {
        came[2] = server.booted(&mut machine, &said)?;
        let foretold = Moment::ALL.map(|moment| server.foretold(&said, moment));
        stage.report(&format!("  {}: foretold {foretold:?}, seen {came:?}", server.title()));
        let moments = Moment::ALL.into_iter().zip(&foretold).zip(came.iter().zip(expected.iter()));
        for ((moment, foretold), (seen, expected)) in moments {
            tally.forecasts += 1;
            let (seen, expected) = (*seen, *expected);
            // A set-up that is not what it says proves nothing, whatever was foretold of it.
            let right = match expected {
                "unknown" => foretold == "unknown",
                _ => seen == expected && foretold == seen,
            };
            if !right {
                tally.wrong.push(format!(
                    "{}: {} at {}: foretold {foretold} ({}), seen {seen}, meant to be {expected}",
                    set_up.name,
                    server.title(),
                    moment.as_str(),
                    server.why(&said, moment)
                ));
            }
        }
    }
    tally.set_ups += set_ups.len();
    Ok(machine)
}
