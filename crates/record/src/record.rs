//! The recorder from its start to its end.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use hugewise_host::sys;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::kernel::{Held, Kernel, Messages};
use crate::ring::{About, Folder, HEADERS, Kind, RingError, RingFile};
use crate::sampler::{Backlog, CLOSE_MS, Disk, Looker, ProcessWatch, RingWriter, Sampler, Shared, wall};

/// Where it records unless somebody says otherwise.
pub const USUAL_FOLDER: &str = "/var/lib/hugewise/record";

/// Blocks of seconds that wait for a disk that does not answer: 17 minutes.
const BACKLOG: usize = 256;
/// The same of minutes.
const BACKLOG_OF_MINUTES: usize = 16;
/// Of a thread that runs before all others: without a sleep in a second of its time the kernel ends it.
const LONGEST_RUN: u64 = 1_000_000;
const STACK: usize = 256 << 10;
/// Samples a block has on average.
const SAMPLES_A_BLOCK: u64 = 4;
/// Minutes that a block of minutes has on average.
const MINUTES_A_BLOCK: u64 = 2;

/// How it is to record.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder of the rings.
    pub folder: PathBuf,
    /// From one sample to the next.
    pub interval: Duration,
    /// Hours that the ring of seconds has room for.
    pub hours: u64,
    /// Days that the ring of minutes has room for.
    pub days: u64,
    /// A program, with its arguments, that says which database servers there are.
    pub looker: Vec<String>,
    /// hugewise's version.
    pub version: String,
    /// Ends after so many samples.
    pub samples: Option<u64>,
}

/// Why it does not record.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The rings.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// The kernel.
    #[error("{0}: {1}")]
    Kernel(&'static str, #[source] std::io::Error),
}

/// What it has to say at its start.
#[derive(Clone, Debug)]
pub enum News {
    /// It does without that.
    Lacks(String),
    /// What became of a ring of another size.
    Moved(String),
    /// It records, to that folder, which takes so many bytes.
    Records(PathBuf, u64),
}

/// What it cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Samples that were taken.
    pub samples: u64,
    /// Processor time of the thread that took them.
    pub sampling: Duration,
}

/// Records until SIGTERM or SIGINT.
///
/// # Errors
/// There is no folder or ring to write to, or no thread or signal to be had.
pub fn record(options: &Options, tell: &dyn Fn(News)) -> Result<Cost, Error> {
    let mut lacks = Vec::new();
    let runs_before_others = take_rights(&mut lacks);
    let kernel = Kernel::open(&mut lacks);
    let messages = Messages::open(&mut lacks);
    let about = about(options, lacks);
    about.lacks.iter().for_each(|lack| tell(News::Lacks(lack.clone())));
    let folder = Folder::open(&options.folder)?;
    let blocks = blocks(options);
    let mut opened = Vec::new();
    for (kind, blocks) in [(Kind::Seconds, blocks.0), (Kind::Minutes, blocks.1)] {
        let one = folder.ring(kind, blocks, &about)?;
        one.moved.iter().for_each(|moved| tell(News::Moved(moved.clone())));
        opened.push(one);
    }
    let (Some(minutes), Some(seconds)) = (opened.pop(), opened.pop()) else { return Ok(Cost::default()) };
    let headers = [seconds.ring.header(), minutes.ring.header()];
    let bytes = headers.iter().map(|header| header.bytes()).sum();
    let abouts = headers.map(|header| header.about.clone());
    let id = |ring: &RingFile| (ring.header().ring, ring.header().about.run);
    let (of_seconds, of_minutes) = (id(&seconds.ring), id(&minutes.ring));
    let writers = [
        RingWriter::seconds(of_seconds.0, of_seconds.1, seconds.next),
        RingWriter::minutes(of_minutes.0, of_minutes.1, minutes.next),
    ];
    let ends = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&ends)).map_err(|error| Error::Kernel("signals", error))?;
    }
    let backlogs = [Backlog::new(BACKLOG), Backlog::new(BACKLOG_OF_MINUTES)];
    let shared = Arc::new(Shared::new(backlogs, ends));
    let disk = Disk::new(Arc::clone(&shared), [seconds.ring, minutes.ring]);
    let watch = ProcessWatch::new(Arc::clone(&shared), about.ticks, about.base_page / 1024)
        .map_err(|error| Error::Kernel("/proc", error))?;
    let looker = Looker::new(Arc::clone(&shared), options.looker.clone());
    let mut sampler = Sampler::new(shared, kernel, messages, writers, abouts, runs_before_others);
    let disk = start("disk", move || {
        let _ = rustix::process::setpriority_process(None, -20);
        disk.run();
    })?;
    let watch = start("processes", move || {
        let _ = rustix::process::setpriority_process(None, -10);
        watch.run();
    })?;
    let looker = if options.looker.is_empty() { None } else { Some(start("instances", move || looker.run())?) };
    tell(News::Records(options.folder.clone(), bytes));
    sampler.run(options.samples);
    let (sampling, samples) = sampler.taken;
    for thread in [Some(disk), Some(watch), looker].into_iter().flatten() {
        // One that panicked has nothing more to do.
        let _ = thread.join();
    }
    Ok(Cost { samples, sampling: Duration::from_nanos(sampling) })
}

fn start(name: &'static str, work: impl FnOnce() + Send + 'static) -> Result<std::thread::JoinHandle<()>, Error> {
    let builder = std::thread::Builder::new().name(name.to_owned()).stack_size(STACK);
    builder.spawn(work).map_err(|error| Error::Kernel("a thread", error))
}

/// Blocks of either ring.
fn blocks(options: &Options) -> (u64, u64) {
    let interval = u64::try_from(options.interval.as_millis()).unwrap_or(1000).max(1);
    let samples = options.hours * 3_600_000 / interval;
    // A block is closed when it is old, however little it has.
    let samples_a_block = (CLOSE_MS / interval).clamp(1, SAMPLES_A_BLOCK);
    // A tenth more: what the kernel says, and processes that need room.
    let seconds = samples / samples_a_block * 11 / 10;
    (seconds.max(64), (options.days * 1440 / MINUTES_A_BLOCK).max(64))
}

/// Memory that cannot be taken away, the first place at a processor, and no death for want of memory; whether it runs before
/// others. What it may not have is noted.
fn take_rights(lacks: &mut Vec<String>) -> bool {
    sys::one_heap();
    if let Err(error) = lock_memory() {
        lacks.push(format!("locked memory (CAP_IPC_LOCK or LimitMEMLOCK): {}", words(error)));
    }
    if let Err(error) = write_oom_score(b"-1000") {
        lacks.push(format!("safety from the OOM killer (CAP_SYS_RESOURCE or OOMScoreAdjust): {}", words(error)));
    }
    // A bound for a thread that nothing else could stop.
    let bounded = getrlimit(Resource::Rttime).maximum.map_or(LONGEST_RUN, |most| most.min(LONGEST_RUN));
    let bound = Rlimit { current: Some(bounded), maximum: Some(bounded) };
    match setrlimit(Resource::Rttime, bound).map_err(std::io::Error::from).and_then(|()| sys::run_before_others()) {
        Ok(()) => true,
        Err(error) => {
            let nice = rustix::process::setpriority_process(None, -20);
            let instead = if nice.is_ok() { "it runs at nice -20" } else { "it runs at normal priority" };
            lacks.push(format!("real-time scheduling (CAP_SYS_NICE): {error}; {instead}"));
            false
        }
    }
}

/// Nothing that was touched once is taken away again. Of the program itself that is what the recorder needs of it, where the
/// kernel can tell (Linux 4.4); all that it works on it touches at its start.
fn lock_memory() -> rustix::io::Result<()> {
    let all = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE;
    match mlockall(all | MlockAllFlags::ONFAULT) {
        Err(Errno::INVAL) => mlockall(all),
        done => done,
    }
}

fn words(error: Errno) -> std::io::Error {
    error.into()
}

/// Makes this process one of the first that are killed for want of memory, as everybody may.
///
/// # Errors
/// What the kernel says.
pub fn be_killed_first() -> std::io::Result<()> {
    Ok(write_oom_score(b"500")?)
}

fn write_oom_score(score: &[u8]) -> rustix::io::Result<()> {
    let file = openat(CWD, "/proc/self/oom_score_adj", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, score).map(drop)
}

fn about(options: &Options, lacks: Vec<String>) -> About {
    let host = rustix::system::uname();
    let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    let mut buffer = [0; 128];
    let boot = Held::open("/proc/sys/kernel/random/boot_id");
    let boot = boot.read(&mut buffer).map(|boot| String::from_utf8_lossy(boot).trim().to_owned());
    let began = wall();
    let zone = jiff::tz::TimeZone::system();
    let offset = jiff::Timestamp::from_millisecond(began).map_or(0, |now| zone.to_offset(now).seconds());
    About {
        run: 0,
        began,
        host: text(host.nodename()),
        kernel: text(host.release()),
        architecture: text(host.machine()),
        boot: boot.unwrap_or_default(),
        version: options.version.clone(),
        base_page: u64::try_from(rustix::param::page_size()).unwrap_or(4096),
        ticks: rustix::param::clock_ticks_per_second(),
        offset: i64::from(offset),
        interval_ms: u64::try_from(options.interval.as_millis()).unwrap_or(1000),
        lacks,
    }
}

/// Bytes of both rings together.
pub fn bytes(options: &Options) -> u64 {
    let (seconds, minutes) = blocks(options);
    (seconds + minutes + 2 * HEADERS as u64) * crate::ring::BLOCK as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: an hour has 3,600 samples of a second, four a block, and 360 of ten seconds, each in a block of its own.
    #[test]
    fn a_ring_has_room_for_the_hours_that_were_asked_for_at_any_interval() {
        let seconds = |interval, hours| {
            let options = Options {
                folder: PathBuf::new(),
                interval: Duration::from_secs(interval),
                hours,
                days: 1,
                looker: Vec::new(),
                version: String::new(),
                samples: None,
            };
            blocks(&options).0
        };
        assert_eq!([seconds(1, 1), seconds(2, 1), seconds(10, 1), seconds(60, 24)], [990, 990, 396, 1584]);
    }
}
