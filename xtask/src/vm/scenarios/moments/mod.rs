//! What check foretells of now, of a server's next restart and of the next boot, beside what systemd and the kernel make
//! of it: where it takes a command line, a processor's largest pages, the order of systemd's own services, or whoever
//! starts a server.

mod servers;
mod set_ups;

use std::time::Instant;

use super::check;
use crate::Failure;
use crate::vm::{Hardware, Image, Scenario, Stage, ensure};

use servers::{Moment, Server};
use set_ups::{FORGET, PREPARE, SET_UPS, WORDS};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "moments",
    shows: "now, the next restart and the next boot as check foretells them, and as they come: command line, 1 GiB pages, \
            files that lose, servers that are down, masked services, limits by who starts a server",
    run,
};

/// Where the surroundings say so, only set-ups are played whose names have this in them.
const ASKED: &str = "HUGEWISE_SET_UP";

/// A set-up, from a machine that has booted without anything that is about huge pages.
struct SetUp {
    name: &'static str,
    /// Brings it about.
    arrange: &'static str,
    /// Its servers at the three moments, as the kernel and the server were seen to make them; `unknown` of a moment that
    /// nobody can foretell.
    expected: &'static [(Server, [&'static str; 3])],
}

fn run(stage: &Stage) -> Result<(), Failure> {
    let disk = stage.disk(Image::Plain)?;
    // With less there is no gibibyte free in one piece even as the kernel starts.
    let mut machine = stage.boot(&disk, Hardware { memory_mib: 6144, ..Hardware::default() })?;
    machine.must(PREPARE)?;
    machine.must(&format!("{WORDS}{FORGET}"))?;
    let mut wrong = Vec::new();
    let mut forecasts = 0;
    let begun = Instant::now();
    let asked = std::env::var(ASKED).unwrap_or_default();
    let chosen: Vec<&SetUp> = SET_UPS.iter().filter(|it| it.name.contains(&asked)).collect();
    ensure(!chosen.is_empty(), || format!("{ASKED}={asked} is in no name of a set-up"))?;
    for set_up in &chosen {
        stage.say(set_up.name);
        let arranged = machine.run(&format!("{WORDS}{}", set_up.arrange))?;
        if arranged.code != 0 {
            wrong.push(format!("{}: it cannot be brought about: {}{}", set_up.name, arranged.out, arranged.err));
            machine.must(&format!("{WORDS}{FORGET}"))?;
            continue;
        }
        let said = check(&mut machine)?;
        let mut came = Vec::new();
        for (server, _) in set_up.expected {
            came.push([server.seen(&mut machine)?, server.restarted(&mut machine)?, ""]);
        }
        machine = stage.reboot(machine)?;
        for ((server, expected), came) in set_up.expected.iter().zip(&mut came) {
            came[2] = server.booted(&mut machine, &said)?;
            let foretold = Moment::ALL.map(|moment| server.foretold(&said, moment));
            stage.say(&format!("  {}: foretold {foretold:?}, seen {came:?}", server.title()));
            for (at, moment) in Moment::ALL.into_iter().enumerate() {
                forecasts += 1;
                let (foretold, seen, expected) = (&foretold[at], came[at], expected[at]);
                // A set-up that is not what it says proves nothing, whatever was foretold of it.
                let right = match expected {
                    "unknown" => foretold == "unknown",
                    _ => seen == expected && foretold == seen,
                };
                if !right {
                    wrong.push(format!(
                        "{}: {} at {}: foretold {foretold} ({}), seen {seen}, meant to be {expected}",
                        set_up.name,
                        server.title(),
                        moment.as_str(),
                        server.why(&said, moment)
                    ));
                }
            }
        }
        machine.must(&format!("{WORDS}{FORGET}"))?;
    }
    let set_ups = chosen.len();
    stage.say(&format!(
        "verdict: {set_ups} set-ups, {forecasts} forecasts, {} wrong; {} s",
        wrong.len(),
        begun.elapsed().as_secs()
    ));
    ensure(wrong.is_empty(), || wrong.join("\n"))?;
    machine.power_off()
}
