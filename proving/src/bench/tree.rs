//! What a program costs with all that it starts, whoever waits for it: a cluster's processes
//! outlive their parents.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use hugewise_model::Bytes;
use rustix::process::{Pid, WaitOptions, WaitStatus};

use hugewise_testkit::tools::Failure;

/// How often the memory is looked at.
const BETWEEN: Duration = Duration::from_millis(200);
/// How long what the program left behind may take to end.
const LINGER: Duration = Duration::from_secs(60);
/// A finished run of a program and its descendants.
pub(super) struct Cost {
    /// From its start to the program's own end.
    pub(super) wall: Duration,
    /// Seconds on processors, of all processes together.
    pub(super) busy: f64,
    /// The largest sum of their resident sets that was seen; pages that two share count twice.
    pub(super) peak: Bytes,
}

/// A control group of its own. The kernel counts what its processes run, whoever waits for them: of
/// what Spark's Python workers start, the times that parents are told lacked most.
struct Group(PathBuf);

impl Group {
    fn new() -> Result<Self, Failure> {
        let mounts = fs::read_to_string("/proc/self/mounts")?;
        let mounted = mounts.lines().find_map(|line| {
            let mut fields = line.split(' ');
            let (at, kind) = (fields.nth(1)?, fields.next()?);
            (kind == "cgroup2").then_some(at)
        });
        let mounted = mounted
            .ok_or("no cgroup2 is mounted, which counts what the cluster's processes run")?;
        let at = Path::new(mounted).join(format!("hugewise-bench-{}", std::process::id()));
        fs::create_dir(&at).map_err(|error| format!("{}: {error}", at.display()))?;
        Ok(Self(at))
    }

    /// The command, as a process of the group.
    fn within(&self, command: &Command) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo $$ >\"$0/cgroup.procs\" && exec \"$@\""]).arg(&self.0);
        shell.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        shell
    }

    /// Seconds on processors so far.
    fn busy(&self) -> Result<f64, Failure> {
        let stat = fs::read_to_string(self.0.join("cpu.stat"))?;
        let used =
            stat.lines().find_map(|line| line.strip_prefix("usage_usec ")?.parse::<f64>().ok());
        Ok(used.ok_or("cpu.stat has no usage_usec")? / 1e6)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // With processes in it, it stays, and the error of the run says so.
        let _ = fs::remove_dir(&self.0);
    }
}

/// Runs it until nothing is left of it, with this output and these errors. No other child of this
/// process may be running.
///
/// # Errors
/// It cannot be started, fails, or leaves processes behind that do not end.
pub(super) fn run(command: &Command, output: File, errors: File) -> Result<Cost, Failure> {
    // What loses its parent becomes ours, so that its end is seen.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let group = Group::new()?;
    let begun = Instant::now();
    let program = group.within(command).stdout(output).stderr(errors).spawn()?;
    let program = Pid::from_raw(i32::try_from(program.id())?);
    let mut ended: Option<(Duration, WaitStatus)> = None;
    let mut peak = 0;
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if Some(pid) == program => {
                ended = Some((begun.elapsed(), status))
            }
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
            Ok(Cost { wall, busy: group.busy()?, peak: Bytes::from_kib(peak) })
        }
        _ => Err(format!("{} failed", command.get_program().to_string_lossy()).into()),
    }
}

/// The fields from the state on; a name may have blanks in it.
fn after_name(stat: &str) -> impl Iterator<Item = &str> {
    stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace()
}

/// Processes below this one.
fn descendants() -> Result<Vec<u32>, Failure> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
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
    let count_of = |pid: &u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    };
    Ok(descendants()?.iter().filter_map(count_of).sum())
}
