//! Plays causes in a machine of their own, with all collectors beside them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::causes::{Cause, Play};
use super::collectors::{START, STOP};
use crate::vm::machine::{Clock, Disk, Hardware, Machine};
use hugewise_testkit::tools::{Failure, shell};

/// When the machine's clock begins: nothing in its archives depends on the day on which it is
/// played.
pub(super) const BEGINS: &str = "2026-11-02T08:00:00";
/// Seconds of nothing after each cause: incidents of the longest interval do not meet.
const BETWEEN: u32 = 240;
/// How long one may take here.
const LIMIT: Duration = Duration::from_secs(3 * 3600);
/// The file of a folder that says when each cause was at work; without it the play was not
/// finished.
const TRUTH: &str = "truth";

/// When a cause was at work, in seconds since 1970, as the machine's script noted it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlayedTruth {
    pub(super) cause: String,
    pub(super) from: i64,
    pub(super) to: i64,
}

impl PlayedTruth {
    /// Of a play that was kept; none where there is none.
    pub(super) fn read(folder: &Path) -> Vec<Self> {
        fs::read_to_string(folder.join(TRUTH)).map(|text| Self::parse(&text)).unwrap_or_default()
    }

    fn parse(text: &str) -> Vec<Self> {
        text.lines().filter_map(Self::line).collect()
    }

    fn line(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.strip_prefix("truth ")?.split(' ').collect();
        let [cause, from, to] = words.as_slice() else { return None };
        Some(Self { cause: (*cause).to_owned(), from: from.parse().ok()?, to: to.parse().ok()? })
    }
}

/// What machines start from.
pub(super) struct Scene {
    pub(super) image: PathBuf,
    pub(super) programs: PathBuf,
}

/// Plays these causes of it, and leaves their archives in the folder.
pub(super) fn play(
    scene: &Scene,
    play: &Play,
    causes: &[&Cause],
    folder: &Path,
) -> Result<(), Failure> {
    let begun = Instant::now();
    let disk = Disk::over(&scene.image)?;
    let mut machine = Machine::boot_at(&disk, &scene.programs, hardware(play), BEGINS)?;
    println!("   {}: up after {} s", play.name, begun.elapsed().as_secs());
    let said = match (play.hangs, causes) {
        (Some(seconds), [cause]) => {
            let last = machine.must_within(&before_hang(play), LIMIT)?;
            let last: i64 =
                last.trim().parse().map_err(|_| format!("the machine says of its time: {last}"))?;
            let again = last + i64::from(seconds);
            let mut machine = machine.power_cut_until(&utc(again)?)?;
            machine.must_within(&after_hang(cause), LIMIT)?;
            format!("truth {} {last} {again}\n", cause.name)
        }
        _ => machine.must_within(&script(play, causes), LIMIT)?,
    };
    disk.unpack(folder)?;
    if PlayedTruth::parse(&said).len() != causes.len() {
        return Err(format!("the machine says of the play: {said}").into());
    }
    fs::write(folder.join(TRUTH), said)?;
    println!("   {}: played in {} s", play.name, begun.elapsed().as_secs());
    Ok(())
}

const fn hardware(play: &Play) -> Hardware {
    Hardware {
        memory_mib: 1024,
        nodes: 1,
        cpu: "max,la57=off",
        clock: Clock::Instructions { shift: play.shift, leaps: !play.disks },
        leaves: true,
        slow_disk: play.slow_disk,
        ssh: None,
    }
}

fn script(play: &Play, causes: &[&Cause]) -> String {
    let Play { before, quiet, .. } = play;
    let causes: String = causes.iter().map(|cause| one(cause)).collect();
    format!("{ENVIRONMENT}{before}{START}sleep {quiet}\n{causes}{STOP}{LEAVE}")
}

fn one(cause: &Cause) -> String {
    let Cause { name, does, lasts, .. } = cause;
    format!(
        "lasts={lasts}\nfrom=$(date +%s)\n{does}echo truth {name} $from $(date +%s)\nsleep \
             {BETWEEN}\n"
    )
}

/// What stands on the disk is what is left. It resets itself, once it has said its time: until it
/// heard from us, much time could pass in there.
fn before_hang(play: &Play) -> String {
    let reset = "(sleep 30; echo b >/proc/sysrq-trigger) >/dev/null 2>&1 &";
    format!("{ENVIRONMENT}{START}sleep {}\nsync\ndate +%s\n{reset}\n", play.quiet)
}

fn after_hang(cause: &Cause) -> String {
    format!("{ENVIRONMENT}{START}sleep {}\n{STOP}{LEAVE}", cause.lasts)
}

/// As [`Collector::samples_at`](super::collectors::Collector::samples_at) has it.
const ENVIRONMENT: &str = "export LANG=C TZ=UTC atops='10 60'\n";

const LEAVE: &str = "tar -cf /dev/vdc -C /var/log/collected .\nsync\n";

fn utc(seconds: i64) -> Result<String, Failure> {
    let mut date = shell::command("date");
    let said = shell::output(date.args(["-u", "-d", &format!("@{seconds}"), "+%FT%T"]))?;
    Ok(String::from_utf8(said)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::causes;
    use super::*;

    #[test]
    fn every_script_is_one_that_bash_reads() {
        for play in causes::PLAYS {
            let all: Vec<&Cause> = play.causes.iter().collect();
            let scripts = match (play.hangs, all.as_slice()) {
                (Some(_), [cause]) => vec![before_hang(play), after_hang(cause)],
                (_, causes) => vec![script(play, causes)],
            };
            for script in scripts {
                let mut bash = shell::command("bash");
                let read = shell::output(bash.args(["-n", "-c", &script]));
                assert!(read.is_ok(), "{}: {read:?}\n{script}", play.name);
            }
        }
    }

    #[test]
    fn what_the_machine_says_of_each_cause_is_the_truth() {
        let read = PlayedTruth::parse(
            "truth-telling\ntruth backup 100 400\ntruth quiet 100\ntruth hang from to\n",
        );
        assert_eq!(read, [PlayedTruth { cause: "backup".to_owned(), from: 100, to: 400 }]);
    }
}
