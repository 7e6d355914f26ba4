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

use crate::kernel::{KernelFiles, KernelMessages, OpenKernelFile};
use crate::ring::{About, LOCKED_MEMORY, REAL_TIME, RingError, RingFolder, RingKind};
use crate::sampler::{
    Backlog, CLOSE_MS, DiskWriter, Looker, ProcessWatch, RingWriter, Sampler, Shared, wall_clock_ms,
};

/// The default folder of the rings.
pub const USUAL_FOLDER: &str = "/var/lib/hugewise/record";
/// Blocks of seconds that wait for an unresponsive disk: 17 minutes.
const BACKLOG: usize = 256;
const BACKLOG_OF_MINUTES: usize = 16;
/// Microseconds that a real-time thread may run without a sleep before the kernel ends it.
const LONGEST_RUN: u64 = 1_000_000;
const STACK: usize = 256 << 10;
const SAMPLES_A_BLOCK: u64 = 4;
const MINUTES_A_BLOCK: u64 = 2;

/// How to record.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder of the rings.
    pub folder: PathBuf,
    /// From one sample to the next.
    pub interval: Duration,
    /// Hours in the ring of seconds.
    pub hours: u64,
    /// Days in the ring of minutes.
    pub days: u64,
    /// A program, with its arguments, that lists the database servers.
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

/// Its messages at the start.
#[derive(Clone, Debug)]
pub enum RecorderNotice {
    /// It does without that.
    Lacks(String),
    /// What became of a ring of another size.
    Moved(String),
    /// It records to that folder, which takes so many bytes.
    Records(PathBuf, u64),
}

/// The cost of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordingCost {
    /// Samples that were taken.
    pub samples: u64,
    /// Processor time of the thread that took them.
    pub sampling: Duration,
}

/// Records until SIGTERM or SIGINT.
/// Errors: no folder or ring can be written, or a thread or signal is not available.
pub fn run_recorder(
    options: &Options,
    tell: &dyn Fn(RecorderNotice),
) -> Result<RecordingCost, Error> {
    let mut lacks = Vec::new();
    let runs_before_others = take_rights(&mut lacks);
    let kernel = KernelFiles::open(&mut lacks);
    let messages = KernelMessages::open(&mut lacks);
    let about = describe_run(options, lacks);
    about.lacks.iter().for_each(|lack| tell(RecorderNotice::Lacks(lack.clone())));
    let folder = RingFolder::open(&options.folder)?;
    let blocks = blocks_per_ring(options);
    let open_ring = |kind, blocks| {
        let opened = folder.open_ring(kind, blocks, &about)?;
        opened.moved.iter().for_each(|moved| tell(RecorderNotice::Moved(moved.clone())));
        Ok::<_, Error>(opened)
    };
    let seconds = open_ring(RingKind::Seconds, blocks.0)?;
    let minutes = open_ring(RingKind::Minutes, blocks.1)?;
    let headers = [seconds.ring.header(), minutes.ring.header()];
    let bytes = headers.iter().map(|header| header.file_bytes()).sum();
    let abouts = headers.map(|header| header.about.clone());
    let writers = [
        RingWriter::for_seconds(headers[0].ring, headers[0].about.run, seconds.next),
        RingWriter::for_minutes(headers[1].ring, headers[1].about.run, minutes.next),
    ];
    let ends = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&ends))
            .map_err(|error| Error::Kernel("signals", error))?;
    }
    let backlogs = [Backlog::new(BACKLOG), Backlog::new(BACKLOG_OF_MINUTES)];
    let shared = Arc::new(Shared::new(backlogs, ends));
    let disk = DiskWriter::new(Arc::clone(&shared), [seconds.ring, minutes.ring]);
    let watch = ProcessWatch::new(Arc::clone(&shared), about.ticks, about.base_page / 1024)
        .map_err(|error| Error::Kernel("/proc", error))?;
    let looker = Looker::new(Arc::clone(&shared), options.looker.clone());
    let mut sampler = Sampler::new(shared, kernel, messages, writers, abouts, runs_before_others);
    let disk = spawn_thread("disk", move || {
        let _ = rustix::process::setpriority_process(None, -20);
        disk.run();
    })?;
    let watch = spawn_thread("processes", move || {
        let _ = rustix::process::setpriority_process(None, -10);
        watch.run();
    })?;
    let looker = (!options.looker.is_empty())
        .then(|| spawn_thread("instances", move || looker.run()))
        .transpose()?;
    tell(RecorderNotice::Records(options.folder.clone(), bytes));
    sampler.run(options.samples);
    let (sampling, samples) = sampler.taken;
    for thread in [Some(disk), Some(watch), looker].into_iter().flatten() {
        // One that panicked has nothing more to do.
        let _ = thread.join();
    }
    Ok(RecordingCost { samples, sampling: Duration::from_nanos(sampling) })
}

fn spawn_thread(
    name: &'static str,
    work: impl FnOnce() + Send + 'static,
) -> Result<std::thread::JoinHandle<()>, Error> {
    let builder = std::thread::Builder::new().name(name.to_owned()).stack_size(STACK);
    builder.spawn(work).map_err(|error| Error::Kernel("a thread", error))
}

fn blocks_per_ring(options: &Options) -> (u64, u64) {
    let interval = u64::try_from(options.interval.as_millis()).unwrap_or(1000).max(1);
    let samples = options.hours * 3_600_000 / interval;
    // A block is closed at a certain age, however little it has.
    let samples_a_block = (CLOSE_MS / interval).clamp(1, SAMPLES_A_BLOCK);
    // A tenth more for messages and processes.
    let seconds = samples / samples_a_block * 11 / 10;
    (seconds.max(64), (options.days * 1440 / MINUTES_A_BLOCK).max(64))
}

/// Locks memory, takes real-time priority and safety from the OOM killer; what is refused is noted.
/// Whether it runs before others.
fn take_rights(lacks: &mut Vec<String>) -> bool {
    sys::one_heap();
    if let Err(error) = lock_memory() {
        lacks.push(format!(
            "{LOCKED_MEMORY} (CAP_IPC_LOCK or LimitMEMLOCK): {}",
            std::io::Error::from(error)
        ));
    }
    if let Err(error) = write_oom_score(b"-1000") {
        lacks.push(format!(
            "safety from the OOM killer (CAP_SYS_RESOURCE or OOMScoreAdjust): {}",
            std::io::Error::from(error)
        ));
    }
    // Stops a runaway thread that nothing else could stop.
    let bounded =
        getrlimit(Resource::Rttime).maximum.map_or(LONGEST_RUN, |most| most.min(LONGEST_RUN));
    let bound = Rlimit { current: Some(bounded), maximum: Some(bounded) };
    match setrlimit(Resource::Rttime, bound)
        .map_err(std::io::Error::from)
        .and_then(|()| sys::run_before_others())
    {
        Ok(()) => true,
        Err(error) => {
            let nice = rustix::process::setpriority_process(None, -20);
            let instead =
                if nice.is_ok() { "it runs at nice -20" } else { "it runs at normal priority" };
            lacks.push(format!("{REAL_TIME} (CAP_SYS_NICE): {error}; {instead}"));
            false
        }
    }
}

/// Pages that were touched once stay. With ONFAULT (Linux 4.4) that is only what the recorder needs
/// of the program; its own buffers it touches at the start.
fn lock_memory() -> rustix::io::Result<()> {
    let all = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE;
    match mlockall(all | MlockAllFlags::ONFAULT) {
        Err(Errno::INVAL) => mlockall(all),
        done => done,
    }
}

/// Makes this process one of the first victims of the OOM killer. Errors: the kernel refuses.
pub fn be_killed_first() -> std::io::Result<()> {
    Ok(write_oom_score(b"500")?)
}

fn write_oom_score(score: &[u8]) -> rustix::io::Result<()> {
    let file =
        openat(CWD, "/proc/self/oom_score_adj", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, score).map(drop)
}

fn describe_run(options: &Options, lacks: Vec<String>) -> About {
    let host = rustix::system::uname();
    let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    let mut buffer = [0; 128];
    let boot = OpenKernelFile::open("/proc/sys/kernel/random/boot_id");
    let boot = boot.read(&mut buffer).map(|boot| String::from_utf8_lossy(boot).trim().to_owned());
    let began = wall_clock_ms();
    let zone = jiff::tz::TimeZone::system();
    let offset =
        jiff::Timestamp::from_millisecond(began).map_or(0, |now| zone.to_offset(now).seconds());
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

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: an hour has 3,600 samples of a second, four a block, and 360 of ten seconds, each
    /// in a block of its own.
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
            blocks_per_ring(&options).0
        };
        assert_eq!(
            [seconds(1, 1), seconds(2, 1), seconds(10, 1), seconds(60, 24)],
            [990, 990, 396, 1584]
        );
    }
}
