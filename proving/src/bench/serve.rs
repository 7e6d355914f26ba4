//! `cargo xtask bench serve`: what a scrape of `hugewise serve` costs beside one of node_exporter,
//! and how much memory it holds after many.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use hugewise_testkit::measure;
use rustix::process::{Pid, Signal};

use super::scrape::Connection;
use super::{BACKGROUND, Server, median};
use hugewise_testkit::tools::{Failure, debian, programs};

/// How it is measured.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Database sessions on the host.
    #[arg(long, default_value_t = 300)]
    sessions: u32,
    /// Scrapes of each whose time on processors is taken, in turn; each is a reading of its own.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    scrapes: u32,
    /// Scrapes after which memory is looked at.
    #[arg(long, default_value_t = 100_000)]
    scrapes_for_memory: u32,
    /// Measure this hugewise instead of the one of this workspace.
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
}

const NODE_EXPORTER: &str = "/usr/bin/prometheus-node-exporter";
const NEEDS: debian::Needs = &[(NODE_EXPORTER, "prometheus-node-exporter")];
/// What the sessions share: their number costs, its size does not.
const SEGMENT: &str = "64M";
/// The first scrapes find files, caches and heaps cold.
const WARM_UP: u32 = 5;
/// Connections that are kept open for the many scrapes.
const CONNECTIONS: u32 = 4;
/// From one scrape to the next: more than the second for which `serve` hands out the same reading.
const APART: Duration = Duration::from_millis(1200);
/// What it may take of node_exporter's time, and how much memory.
const WANTED_RATIO: f64 = 0.85;
const WANTED_MIB: f64 = 30.0;

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let missing = debian::missing(NEEDS);
    if !missing.is_empty() {
        debian::install(&missing)?;
    }
    let hugewise = programs::hugewise(arguments.program.as_deref())?;
    let _server = Server::start(arguments.sessions.saturating_add(BACKGROUND), SEGMENT)?;
    let own = Exporter::hugewise(&hugewise)?;
    let cheap = scrape_in_turn(&own, &Exporter::node_exporter()?, arguments)?;
    let small =
        arguments.scrapes_for_memory == 0 || scrape_often(&own, arguments.scrapes_for_memory)?;
    if cheap && small { Ok(()) } else { Err("serve costs more than it may".into()) }
}

/// Each exporter's time on processors, from one scrape to the next; whether ours is as wanted.
fn scrape_in_turn(
    own: &Exporter,
    other: &Exporter,
    arguments: &Arguments,
) -> Result<bool, Failure> {
    println!("{} sessions; {} scrapes of each, in turn", arguments.sessions, arguments.scrapes);
    let (mut own_connection, mut other_connection) = (own.connect()?, other.connect()?);
    let mut round = || -> Result<([Duration; 2], u64), Failure> {
        let before = [own.busy()?, other.busy()?];
        let begun = Instant::now();
        let said = own_connection.scrape()?;
        other_connection.scrape()?;
        // What a scrape leaves to be done after its answer is part of it.
        thread::sleep(APART.saturating_sub(begun.elapsed()));
        let after = [own.busy()?, other.busy()?];
        let took = [after[0].saturating_sub(before[0]), after[1].saturating_sub(before[1])];
        Ok((took, readings(&said)?))
    };
    let mut last = 0;
    for _ in 0..WARM_UP {
        last = round()?.1;
    }
    let (mut own_times, mut other_times) = (Vec::new(), Vec::new());
    for _ in 0..arguments.scrapes {
        let ([own_time, other_time], reading) = round()?;
        if reading != last + 1 {
            return Err(
                format!("reading {reading} came after {last}: not every scrape made one").into()
            );
        }
        last = reading;
        own_times.push(own_time);
        other_times.push(other_time);
    }
    let (own_mean, other_mean) = (mean(&own_times), mean(&other_times));
    let (own_median, other_median) = (median(own_times), median(other_times));
    let ratio = own_median.as_secs_f64() / other_median.as_secs_f64();
    let of_means = own_mean.as_secs_f64() / other_mean.as_secs_f64();
    println!(
        "hugewise serve   {:9.2} ms of CPU a scrape (median; mean {:.2})",
        ms(own_median),
        ms(own_mean)
    );
    println!(
        "node_exporter    {:9.2} ms of CPU a scrape (median; mean {:.2})",
        ms(other_median),
        ms(other_mean)
    );
    println!(
        "ratio            {ratio:9.2}    (of means {of_means:.2}; wanted: at most {WANTED_RATIO})"
    );
    println!(
        "memory of node_exporter {:.1} MiB now, {:.1} at most",
        other.mib("VmRSS")?,
        other.mib("VmHWM")?
    );
    println!("{}", if ratio <= WANTED_RATIO { "as wanted" } else { "more than wanted" });
    Ok(ratio <= WANTED_RATIO)
}

/// Memory after so many scrapes, as fast as they come; whether it is as wanted.
fn scrape_often(own: &Exporter, scrapes: u32) -> Result<bool, Failure> {
    let (before, begun) = (own.mib("VmRSS")?, Instant::now());
    let mut connections = (0..CONNECTIONS).map(|_| own.connect()).collect::<Result<Vec<_>, _>>()?;
    let mut bytes = 0;
    for (_, at) in (0..scrapes).zip((0..connections.len()).cycle()) {
        if let Some(connection) = connections.get_mut(at) {
            bytes = connection.scrape()?.len();
        }
    }
    let (now, most) = (own.mib("VmRSS")?, own.mib("VmHWM")?);
    println!(
        "{scrapes} scrapes of {bytes} bytes in {:.0} s over {CONNECTIONS} connections",
        begun.elapsed().as_secs_f64()
    );
    println!(
        "memory of serve  {now:9.1} MiB (wanted: below {WANTED_MIB}); {before:.1} before, \
             {most:.1} at most"
    );
    Ok(now < WANTED_MIB)
}

/// How often the host was read so far, as the metrics say.
fn readings(metrics: &str) -> Result<u64, Failure> {
    let value = metrics.lines().find_map(|line| line.strip_prefix("hugewise_readings_total "));
    Ok(value.ok_or("the metrics do not count readings")?.parse()?)
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn mean(times: &[Duration]) -> Duration {
    let sum: Duration = times.iter().sum();
    u32::try_from(times.len()).ok().and_then(|count| sum.checked_div(count)).unwrap_or_default()
}

/// An exporter that runs; asked to end when dropped.
pub(super) struct Exporter {
    child: Child,
    address: SocketAddr,
}

impl Exporter {
    pub(super) fn hugewise(program: &Path) -> Result<Self, Failure> {
        let mut child = Command::new(program)
            .args(["serve", "--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take();
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut exporter = Self { child, address: nowhere };
        let said = output
            .map(BufReader::new)
            .and_then(|output| output.lines().next())
            .transpose()?
            .unwrap_or_default();
        let address = said.strip_prefix("listening at http://").ok_or("serve did not start")?;
        exporter.address = address.parse()?;
        Ok(exporter)
    }

    /// With its default collectors.
    fn node_exporter() -> Result<Self, Failure> {
        // It does not say which port the kernel gave it.
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let mut command = Command::new(NODE_EXPORTER);
        // What it misses here (systemd, udev) it says at each scrape.
        command.arg(format!("--web.listen-address={address}")).stderr(Stdio::null());
        let exporter = Self { child: command.spawn()?, address };
        let begun = Instant::now();
        while exporter.connect().is_err() {
            if begun.elapsed() > Duration::from_secs(60) {
                return Err("node_exporter does not listen".into());
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(exporter)
    }

    pub(super) fn connect(&self) -> Result<Connection, Failure> {
        Connection::open(self.address)
    }

    /// Its time on processors so far.
    fn busy(&self) -> Result<Duration, Failure> {
        Ok(measure::process_cpu_time(self.child.id())?)
    }

    /// A line of /proc/PID/status.
    fn mib(&self, name: &str) -> Result<f64, Failure> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let kib = line
            .and_then(|line| line.trim().strip_suffix(" kB"))
            .ok_or("no such line in status")?;
        Ok(kib.parse::<f64>()? / 1024.0)
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, Signal::TERM);
        }
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_are_found() {
        assert_eq!(
            readings("# TYPE hugewise_readings_total counter\nhugewise_readings_total 17\n")
                .unwrap(),
            17
        );
        assert!(readings("").is_err());
    }
}
