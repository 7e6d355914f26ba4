//! Plays one cause in a machine of its own, with all collectors beside it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::causes::Cause;
use super::collectors::{START, STOP};
use crate::Failure;
use crate::vm::machine::{Clock, Disk, Hardware, Machine};

/// When the machine's clock begins: nothing in its archives depends on the day on which it is played.
pub(super) const BEGINS: &str = "2026-11-02T08:00:00";
/// Nanoseconds of an instruction, as a power of two: a processor of 62 million instructions a second, which two processors
/// share. QEMU is about as quick here, so that time passes as usual while it is busy.
const SHIFT: u8 = 4;
/// Seconds of nothing afterwards.
const AFTER: u32 = 130;
/// How long one may take here.
const LIMIT: Duration = Duration::from_secs(3 * 3600);
/// The file of a folder that says when it was; without it the run was not finished.
const TRUTH: &str = "truth";

/// When a cause was at work, in seconds since 1970, as the machine's script noted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Truth {
    pub(super) from: i64,
    pub(super) to: i64,
}

impl Truth {
    /// Of a run that was kept; `None` where there is none.
    pub(super) fn kept(folder: &Path) -> Option<Self> {
        Self::read(&fs::read_to_string(folder.join(TRUTH)).ok()?)
    }

    fn read(text: &str) -> Option<Self> {
        let line = text.lines().rev().find_map(|line| line.strip_prefix("truth "))?;
        let (from, to) = line.split_once(' ')?;
        Some(Self { from: from.parse().ok()?, to: to.trim().parse().ok()? })
    }
}

/// What machines start from.
pub(super) struct Scene {
    pub(super) image: PathBuf,
    pub(super) programs: PathBuf,
}

/// Plays it, and leaves its archives in the folder.
pub(super) fn play(scene: &Scene, cause: &Cause, folder: &Path) -> Result<Truth, Failure> {
    let begun = Instant::now();
    let disk = Disk::over(&scene.image)?;
    let mut machine = Machine::boot_at(&disk, &scene.programs, hardware(cause), BEGINS)?;
    let said = match cause.hangs {
        None => machine.must_within(&script(cause), LIMIT)?,
        Some(seconds) => {
            let last = machine.must_within(&before_hang(cause), LIMIT)?;
            let last: i64 = last.trim().parse().map_err(|_| format!("the machine says of its time: {last}"))?;
            let again = last + i64::from(seconds);
            let mut machine = machine.power_cut_until(&utc(again)?)?;
            let said = machine.must_within(&after_hang(cause), LIMIT)?;
            format!("{said}\ntruth {last} {again}\n")
        }
    };
    disk.unpack(folder)?;
    let truth = Truth::read(&said).ok_or_else(|| format!("the machine says of the run: {said}"))?;
    fs::write(folder.join(TRUTH), said)?;
    println!("   {}: played in {} s", cause.name, begun.elapsed().as_secs());
    Ok(truth)
}

const fn hardware(cause: &Cause) -> Hardware {
    Hardware {
        memory_mib: 1024,
        nodes: 1,
        cpu: "max,la57=off",
        clock: Clock::Instructions { shift: SHIFT, leaps: !cause.disks },
        leaves: true,
        slow_disk: cause.slow_disk,
    }
}

fn script(cause: &Cause) -> String {
    let Cause { before, quiet, does, lasts, .. } = cause;
    format!(
        "export LANG=C TZ=UTC lasts={lasts}
{before}{START}sleep {quiet}
from=$(date +%s)
{does}to=$(date +%s)
sleep {AFTER}
{STOP}{LEAVE}echo truth $from $to
"
    )
}

/// What stands on the disk is what is left.
fn before_hang(cause: &Cause) -> String {
    let Cause { quiet, .. } = cause;
    format!("export LANG=C TZ=UTC\n{START}for part in $(seq {quiet}); do sleep 1; done\nsync\ndate +%s\n")
}

fn after_hang(cause: &Cause) -> String {
    let Cause { lasts, .. } = cause;
    format!("export LANG=C TZ=UTC\n{START}sleep {lasts}\n{STOP}{LEAVE}")
}

const LEAVE: &str = "tar -cf /dev/vdc -C /var/log/collected .\nsync\n";

fn utc(seconds: i64) -> Result<String, Failure> {
    let mut date = crate::shell::command("date");
    let said = crate::shell::output(date.args(["-u", "-d", &format!("@{seconds}"), "+%FT%T"]))?;
    Ok(String::from_utf8(said)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_of_the_machine_is_the_truth() {
        let said = "truth-telling\ntruth 100 400\n";
        assert_eq!(Truth::read(said), Some(Truth { from: 100, to: 400 }));
        assert_eq!(Truth::read("truth 100\n"), None);
        assert_eq!(Truth::read("truth from to\n"), None);
    }
}
