//! What a program costs with all that it starts, whoever waits for it: a cluster's processes outlive their parents.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use hugewise_model::Bytes;
use rustix::process::{Pid, WaitOptions, WaitStatus};

use crate::Failure;

/// How often the memory is looked at.
const BETWEEN: Duration = Duration::from_millis(200);
/// How long what the program left behind may take to end.
const LINGER: Duration = Duration::from_secs(60);
/// Ticks of a second in /proc/PID/stat, on all that hugewise runs on.
const TICKS: f64 = 100.0;

/// A finished run of a program and its descendants.
pub(super) struct Cost {
    /// From its start to the program's own end.
    pub(super) wall: Duration,
    /// Seconds on processors, of all processes together.
    pub(super) busy: f64,
    /// The largest sum of their resident sets that was seen; pages that two share count twice.
    pub(super) peak: Bytes,
}

/// Runs it until nothing is left of it. No other child of this process may be running.
///
/// # Errors
/// It cannot be started, fails, or leaves processes behind that do not end.
pub(super) fn run(command: &mut Command) -> Result<Cost, Failure> {
    // What loses its parent becomes ours, so that nobody's time is lost.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let before = waited_for()?;
    let begun = Instant::now();
    let program = Pid::from_raw(i32::try_from(command.spawn()?.id())?);
    let mut ended: Option<(Duration, WaitStatus)> = None;
    let mut peak = 0;
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if Some(pid) == program => ended = Some((begun.elapsed(), status)),
            Ok(Some(_)) => {}
            Ok(None) => {
                peak = peak.max(resident()?);
                if ended.is_some_and(|(wall, _)| begun.elapsed() > wall + LINGER) {
                    return Err(format!("it left processes behind: {:?}", descendants()?).into());
                }
                thread::sleep(BETWEEN);
            }
            Err(rustix::io::Errno::CHILD) => break,
            Err(error) => return Err(error.into()),
        }
    }
    match ended {
        Some((wall, status)) if status.exit_status() == Some(0) => {
            Ok(Cost { wall, busy: waited_for()? - before, peak: Bytes::from_kib(peak) })
        }
        _ => Err(format!("{} failed", command.get_program().to_string_lossy()).into()),
    }
}

/// Seconds on processors of all children that were waited for, theirs included: cutime and cstime of proc(5).
fn waited_for() -> Result<f64, Failure> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = after_name(&stat).collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok());
    let both = ticks(13).zip(ticks(14)).ok_or("/proc/self/stat is not as proc(5) says")?;
    Ok((both.0 + both.1) / TICKS)
}

/// The fields from the state on; a name may have blanks in it.
fn after_name(stat: &str) -> impl Iterator<Item = &str> {
    stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace()
}

/// Processes below this one.
fn descendants() -> Result<Vec<u32>, Failure> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // It may have ended meanwhile.
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        if let Some(parent) = after_name(&stat).nth(1).and_then(|parent| parent.parse().ok()) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut open = vec![std::process::id()];
    while let Some(parent) = open.pop() {
        let below = children.remove(&parent).unwrap_or_default();
        found.extend(&below);
        open.extend(below);
    }
    Ok(found)
}

/// KiB that they have in memory.
fn resident() -> Result<u64, Failure> {
    let of = |pid: &u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    };
    Ok(descendants()?.iter().filter_map(of).sum())
}
