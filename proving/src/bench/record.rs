//! `cargo xtask bench record`: what the flight recorder costs among many sessions.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use hugewise_testkit::measure;
use rustix::process::{Pid, Signal};

use super::{BACKGROUND, Server};
use hugewise_testkit::tools::{Failure, programs};

/// How it is measured.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Database sessions on the host.
    #[arg(long, default_value_t = 300)]
    sessions: u32,
    /// Seconds of recording that are measured.
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(10..))]
    seconds: u64,
    /// Measure this hugewise instead of the one of this workspace.
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
}

/// What the sessions share: their number costs, its size does not.
const SEGMENT: &str = "64M";
/// The first samples find files, caches and heaps cold.
const WARM_UP: Duration = Duration::from_secs(8);
/// Of one processor, in percent, and of memory that cannot be taken away.
const WANTED_PERCENT: f64 = 0.5;
const WANTED_MIB: f64 = 16.0;

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let hugewise = programs::hugewise(arguments.program.as_deref())?;
    let _server = Server::start(arguments.sessions.saturating_add(BACKGROUND), SEGMENT)?;
    let folder = tempfile::tempdir()?;
    let recorder = Recorder::start(&hugewise, folder.path())?;
    thread::sleep(WARM_UP);
    let (before, threads, begun) =
        (measure::process_cpu_time(recorder.0.id())?, recorder.threads()?, Instant::now());
    let (written, looks) = (recorder.written()?, recorder.children()?);
    thread::sleep(Duration::from_secs(arguments.seconds));
    let (after, passed) =
        (measure::process_cpu_time(recorder.0.id())?, begun.elapsed().as_secs_f64());
    let looks = recorder.children()?.saturating_sub(looks).as_secs_f64();
    let took = after.saturating_sub(before).as_secs_f64() + looks;
    let percent = took * 100.0 / passed;
    println!("{} sessions that rest; {passed:.0} s of samples, one a second", arguments.sessions);
    println!("time of a processor a sample   {:8.2} ms", took * 1e3 / passed);
    for ((name, now), (_, then)) in recorder.threads()?.iter().zip(&threads) {
        println!(
            "  thread {name:<22} {:8.2} ms",
            now.saturating_sub(*then).as_secs_f64() * 1e3 / passed
        );
    }
    println!("  program that finds the servers{:8.2} ms", looks * 1e3 / passed);
    println!("of one processor               {percent:8.2} %   (wanted: at most {WANTED_PERCENT})");
    let (resident, most, locked) = (
        recorder.mib("status", "VmRSS")?,
        recorder.mib("status", "VmHWM")?,
        recorder.mib("smaps_rollup", "Locked")?,
    );
    println!(
        "memory                         {resident:8.1} MiB, {most:.1} at most, {locked:.1} locked \
             (wanted: at most {WANTED_MIB})"
    );
    #[allow(clippy::cast_precision_loss, reason = "megabytes of a day")]
    let a_day = recorder.written()?.saturating_sub(written) as f64 / passed * 86_400.0 / 1e6;
    println!("written to the disk            {a_day:8.0} MB a day");
    let room: u64 = ["seconds.ring", "minutes.ring"]
        .iter()
        .map(|name| fs::metadata(folder.path().join(name)).map_or(0, |facts| facts.blocks() * 512))
        .sum();
    println!(
        "room on the disk               {:8} MiB, a day of seconds and 30 days of minutes",
        room >> 20
    );
    drop(recorder);
    let good = percent <= WANTED_PERCENT && most <= WANTED_MIB;
    println!("{}", if good { "as wanted" } else { "more than wanted" });
    if good { Ok(()) } else { Err("the recorder costs more than it may".into()) }
}

/// A recorder, asked to end when dropped.
struct Recorder(Child);

impl Recorder {
    fn start(program: &std::path::Path, folder: &std::path::Path) -> Result<Self, Failure> {
        let mut command = Command::new(program);
        let mut child =
            command.args(["record", "--out"]).arg(folder).stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take();
        let recorder = Self(child);
        let said = output
            .map(BufReader::new)
            .and_then(|output| output.lines().next())
            .transpose()?
            .unwrap_or_default();
        if said.starts_with("recording to ") {
            Ok(recorder)
        } else {
            Err("the recorder did not start".into())
        }
    }

    /// The processor time of each of its threads, to the clock tick.
    fn threads(&self) -> Result<Vec<(String, Duration)>, Failure> {
        let mut threads = Vec::new();
        for entry in fs::read_dir(format!("/proc/{}/task", self.0.id()))? {
            let path = entry?.path();
            let name = fs::read_to_string(path.join("comm"))?.trim().to_owned();
            let ran = fs::read_to_string(path.join("schedstat"))?;
            let nanoseconds = ran.split(' ').next().unwrap_or_default().parse()?;
            threads.push((name, Duration::from_nanos(nanoseconds)));
        }
        Ok(threads)
    }

    /// The processor time of what it started and saw the end of.
    fn children(&self) -> Result<Duration, Failure> {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.0.id()))?;
        let fields =
            text.rsplit(')').next().unwrap_or_default().split_ascii_whitespace().skip(13).take(2);
        let ticks = fields.map(str::parse::<u64>).sum::<Result<u64, _>>()?;
        Ok(Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second()))
    }

    fn mib(&self, file: &str, name: &str) -> Result<f64, Failure> {
        let text = fs::read_to_string(format!("/proc/{}/{file}", self.0.id()))?;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).ok_or("no such line")?;
        Ok(kib.parse::<f64>()? / 1024.0)
    }

    /// Bytes that it wrote.
    fn written(&self) -> Result<u64, Failure> {
        let text = fs::read_to_string(format!("/proc/{}/io", self.0.id()))?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("write_bytes: "))
            .ok_or("no such line in io")?;
        Ok(line.parse()?)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let pid = Pid::from_child(&self.0);
        let _ = rustix::process::kill_process(pid, Signal::TERM);
        let _ = self.0.wait();
    }
}
