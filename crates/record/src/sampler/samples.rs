//! The thread that takes samples: once a second, whatever the others wait for.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hugewise_host::sys::{cpu_time, run_as_others, run_before_others};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};

use super::pace::{Change, Pace};
use super::words::worded;
use super::writer::RingWriter;
use super::{KernelThreads, Shared, uptime, used, wall};
use crate::Field;
use crate::kernel::{BUFFER, Kernel, Messages, Spare};
use crate::notes::{Event, EventKind, Instances, Processes};
use crate::ring::{About, Record};
use crate::sample::Sample;

/// From one sample of the ring of minutes to the next.
const MINUTE_MS: u64 = 60_000;
/// How often the ring says again what is known of the run.
const ABOUT_MS: u64 = 3_600_000;
/// Messages of the kernel that are listened to in a second.
const MOST_MESSAGES: u32 = 20;
/// Memory is short below this part of it, or where tasks waited for memory that many microseconds in a second.
const TIGHT_PART: u64 = 20;
const TIGHT_WAIT: u64 = 100_000;

/// The sampler.
pub(crate) struct Sampler {
    shared: Arc<Shared>,
    kernel: Kernel,
    messages: Messages,
    buffer: Vec<u8>,
    sample: Box<Sample>,
    seconds: RingWriter,
    minutes: RingWriter,
    about: [About; 2],
    interval: Duration,
    pace: Pace,
    threads: Box<KernelThreads>,
    processes: Box<Processes>,
    instances: Box<Instances>,
    minute_due: u64,
    about_due: u64,
    stalled: Option<u64>,
    heard: u32,
    runs_before_others: bool,
    /// How long samples took and how many there were, in nanoseconds.
    pub(crate) taken: (u64, u64),
}

impl Sampler {
    pub(crate) fn new(
        shared: Arc<Shared>,
        kernel: Kernel,
        messages: Messages,
        rings: [RingWriter; 2],
        about: [About; 2],
        runs_before_others: bool,
    ) -> Self {
        let [seconds, minutes] = rings;
        let interval = Duration::from_millis(about.first().map_or(1000, |about| about.interval_ms));
        Self {
            shared,
            kernel,
            messages,
            // Of zeros the kernel would give none before they are needed.
            buffer: vec![1; BUFFER],
            sample: Box::default(),
            seconds,
            minutes,
            about,
            interval,
            pace: Pace::default(),
            threads: Box::default(),
            processes: Box::default(),
            instances: Box::default(),
            minute_due: 0,
            about_due: 0,
            stalled: None,
            heard: 0,
            runs_before_others,
            taken: (0, 0),
        }
    }

    /// Takes samples until the recorder ends, or as many as that.
    pub(crate) fn run(&mut self, most: Option<u64>) {
        let mut due = now();
        while !self.shared.is_over() {
            self.take();
            if most.is_some_and(|most| self.taken.1 >= most) {
                break;
            }
            due += self.interval;
            // Samples that were missed are not made up for.
            if now() > due + self.interval {
                due = now();
            }
            self.wait(due);
        }
        let ended = Event::new(wall(), EventKind::Recorder, b"recording stopped");
        for ring in [&mut self.seconds, &mut self.minutes] {
            ring.end(&self.shared, &ended);
        }
        self.shared.is_finished.store(true, Ordering::Release);
        self.shared.ends.store(true, Ordering::Relaxed);
        self.shared.more.notify_all();
    }

    fn take(&mut self) {
        let begun = used();
        self.sample.clear();
        (self.sample.wall, self.sample.uptime) = (wall(), uptime());
        self.kernel.read(&mut self.buffer, self.pace.spare(), &mut self.sample);
        self.clocks(begun);
        self.repeat_about();
        let wall = self.sample.wall;
        self.seconds.push(&self.shared, wall, &Record::Sample(&self.sample));
        let minute = self.sample.uptime >= self.minute_due;
        if minute {
            self.minute_due = (self.sample.uptime / MINUTE_MS + 1) * MINUTE_MS;
            self.minutes.push(&self.shared, wall, &Record::Sample(&self.sample));
        }
        if self.shared.processes.fetch(&mut self.processes) {
            self.seconds.push(&self.shared, wall, &Record::Processes(&self.processes));
        }
        if self.shared.instances.fetch(&mut self.instances) {
            self.seconds.push(&self.shared, wall, &Record::Instances(&self.instances));
        }
        if minute && self.processes.wall > 0 {
            self.minutes.push(&self.shared, wall, &Record::Processes(&self.processes));
        }
        if minute && self.instances.wall > 0 {
            self.minutes.push(&self.shared, wall, &Record::Instances(&self.instances));
        }
        self.words();
        self.hear();
        for ring in [&mut self.seconds, &mut self.minutes] {
            ring.tell_left_out(&self.shared, self.sample.uptime);
        }
        self.note_shortage();
        self.seconds.hand_over(&self.shared, false);
        self.minutes.hand_over(&self.shared, false);
        self.shared.more.notify_one();
        let took = used().saturating_sub(begun);
        self.taken = (self.taken.0 + took, self.taken.1 + 1);
        match self.pace.took(took) {
            Change::None => {}
            Change::Spare(spare) => self.spare(spare),
            Change::StepBack => self.step_back(),
            Change::StepUp => self.step_up(),
        }
    }

    /// The processor time of threads of the kernel, and the recorder's own.
    fn clocks(&mut self, begun: u64) {
        self.shared.kernel_threads.fetch(&mut self.threads);
        for (field, pid) in self.threads.threads.iter().take(self.threads.count) {
            if let Some(clock) = cpu_time(*pid) {
                self.sample.add(*field, u64::try_from(clock.as_nanos()).unwrap_or(0));
            }
        }
        let others: u64 = self.shared.used.iter().map(|used| used.load(Ordering::Relaxed)).sum();
        self.sample.set(Field::RecorderCpu, begun + others);
    }

    fn repeat_about(&mut self) {
        if self.sample.uptime < self.about_due {
            return;
        }
        self.about_due = self.sample.uptime + ABOUT_MS;
        let wall = self.sample.wall;
        for (ring, about) in [&mut self.seconds, &mut self.minutes].into_iter().zip(&self.about) {
            ring.push(&self.shared, wall, &Record::About(about));
        }
    }

    /// What is lost and what other threads have to say.
    fn words(&mut self) {
        let [seconds, minutes] = self.shared.lost();
        let lost = [seconds + self.seconds.lost(), minutes + self.minutes.lost()];
        for (lost, ring) in lost.into_iter().zip(["seconds", "minutes"]) {
            if lost > 0 {
                self.say_with(
                    lost,
                    &[" blocks of the ring of ", ring, " were lost: the disk did not take them in time"],
                );
            }
        }
        if let Some(event) = self.shared.said() {
            self.event(&event);
        }
    }

    fn event(&mut self, event: &Event) {
        let uptime = self.sample.uptime;
        self.seconds.hear(&self.shared, uptime, event);
        self.minutes.hear(&self.shared, uptime, event);
    }

    fn say(&mut self, text: &str) {
        self.event(&Event::new(wall(), EventKind::Recorder, text.as_bytes()));
    }

    /// A number and words, without an allocation.
    fn say_with(&mut self, number: u64, words: &[&str]) {
        self.event(&worded(wall(), number, words));
    }

    /// What the kernel said since the last time; whether all of it was read.
    fn hear(&mut self) -> bool {
        let (wall, uptime) = (wall(), uptime());
        let (shared, heard) = (&self.shared, &mut self.heard);
        let mut rings = [&mut self.seconds, &mut self.minutes];
        self.messages.each(&mut self.buffer, wall, &mut |event| {
            *heard += 1;
            for ring in &mut rings {
                ring.hear(shared, uptime, &event);
            }
        })
    }

    fn note_shortage(&mut self) {
        let waited = self.sample.get(Field::PressureMemorySome);
        let waits = waited.zip(self.stalled).is_some_and(|(now, before)| now.saturating_sub(before) > TIGHT_WAIT);
        self.stalled = waited;
        let little = self
            .sample
            .get(Field::MemAvailable)
            .zip(self.sample.get(Field::MemTotal))
            .is_some_and(|(available, total)| available < total / TIGHT_PART);
        self.shared.is_tight.store(waits || little, Ordering::Relaxed);
    }

    fn spare(&mut self, spare: Spare) {
        let micros = self.pace.average() / 1000;
        match spare {
            Spare { nodes: false, .. } => self.say("samples are complete again"),
            Spare { disks: false, .. } => {
                self.say_with(micros, &[" us of CPU per sample is too much: dropping per-node pools"]);
            }
            Spare { .. } => {
                self.say_with(micros, &[" us of CPU per sample is too much: dropping disks and TCP too"]);
            }
        }
    }

    fn step_back(&mut self) {
        if self.runs_before_others && run_as_others().is_ok() {
            let _ = rustix::process::setpriority_process(None, -20);
            let milliseconds = self.pace.average() / 1_000_000;
            self.say_with(
                milliseconds,
                &[" ms of CPU per sample is too much: running at nice -20 instead of SCHED_FIFO"],
            );
        }
    }

    fn step_up(&mut self) {
        if self.runs_before_others && run_before_others().is_ok() {
            self.say("running under SCHED_FIFO again");
        }
    }

    /// Sleeps until then; a message of the kernel is taken as soon as it is there.
    fn wait(&mut self, due: Duration) {
        let mut listens = true;
        loop {
            let left = due.saturating_sub(now());
            if left.is_zero() || self.shared.is_over() {
                break;
            }
            let time = Timespec { tv_sec: left.as_secs().try_into().unwrap_or(1), tv_nsec: left.subsec_nanos().into() };
            let woken = match self.messages.file().filter(|_| listens) {
                Some(file) => poll(&mut [PollFd::new(&file, PollFlags::IN)], Some(&time)),
                None => poll(&mut [], Some(&time)),
            };
            if matches!(woken, Ok(1..)) {
                let before = self.heard;
                // A flood of messages waits for the next second.
                listens = self.hear() && self.heard < MOST_MESSAGES;
                if self.heard > before {
                    self.seconds.hand_over(&self.shared, false);
                    self.minutes.hand_over(&self.shared, false);
                    self.shared.more.notify_one();
                }
            }
        }
        self.heard = 0;
    }
}

fn now() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use hugewise_lab::counting::Counting;

    use super::*;
    use crate::sampler::Backlog;

    fn sampler() -> Sampler {
        let backlogs = [Backlog::new(4), Backlog::new(4)];
        let shared = Arc::new(Shared::new(backlogs, Arc::new(AtomicBool::new(false))));
        let mut missing = Vec::new();
        let (kernel, messages) = (Kernel::open(&mut missing), Messages::open(&mut missing));
        let rings = [RingWriter::seconds(1, 1, 0), RingWriter::minutes(2, 1, 0)];
        let about = About { interval_ms: 1, ..About::default() };
        Sampler::new(shared, kernel, messages, rings, [about.clone(), about], false)
    }

    /// Sixty seconds, over the end of blocks and past what the backlog holds, with words and with what others left.
    #[test]
    fn nothing_is_allocated_for_a_sample() {
        let mut sampler = sampler();
        sampler.take();
        let before = Counting::allocations();
        for second in 0..60 {
            let process = crate::Process { pid: second, state: b'R', ..crate::Process::default() };
            let mut processes = Processes { wall: 1, ..Processes::default() };
            processes.push(process);
            sampler.shared.processes.leave(&processes);
            sampler.shared.instances.leave(&Instances { wall: 1, ..Instances::default() });
            // As if a second had gone by.
            sampler.minute_due = if second % 20 == 0 { 0 } else { u64::MAX };
            sampler.seconds.close_after(if second % 4 == 0 { 0 } else { u64::MAX });
            sampler.take();
            sampler.say_with(u64::from(second), &[" words"]);
            sampler.spare(Spare { nodes: true, disks: false });
        }
        assert_eq!(Counting::allocations() - before, 0);
        assert!(sampler.seconds.sequence() > 10);
        assert_eq!(Counting::allocations(), before, "asking counts nothing");
        drop(vec![0_u8; 100]);
        assert_eq!(Counting::allocations(), before + 1, "what is allocated is counted");
    }
}
