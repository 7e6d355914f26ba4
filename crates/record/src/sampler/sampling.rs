//! The thread that takes samples: once a second, whatever the others wait for.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hugewise_host::sys::{cpu_time, run_as_others, run_before_others};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};

use super::message_text::compose_message;
use super::pace::{PaceChange, SamplePace};
use super::ring_writer::RingWriter;
use super::{KernelThreads, Shared, thread_cpu_ns, uptime_ms, wall_clock_ms};
use crate::Field;
use crate::kernel::{BUFFER, KernelFiles, KernelMessages, Spare};
use crate::notes::{Instances, RecordedEvent, RecordedEventKind, RecordedProcesses};
use crate::ring::{About, RingRecord};
use crate::sample::HostSample;

const MINUTE_MS: u64 = 60_000;
const ABOUT_MS: u64 = 3_600_000;
const MOST_MESSAGES: u32 = 20;
/// Memory is short below this part of it, or after so many microseconds of waits in a second.
const TIGHT_PART: u64 = 20;
const TIGHT_WAIT: u64 = 100_000;

pub(crate) struct Sampler {
    shared: Arc<Shared>,
    kernel: KernelFiles,
    messages: KernelMessages,
    buffer: Vec<u8>,
    sample: Box<HostSample>,
    seconds: RingWriter,
    minutes: RingWriter,
    about: [About; 2],
    interval: Duration,
    pace: SamplePace,
    threads: Box<KernelThreads>,
    processes: Box<RecordedProcesses>,
    instances: Box<Instances>,
    minute_due: u64,
    about_due: u64,
    stalled: Option<u64>,
    heard: u32,
    runs_before_others: bool,
    /// Nanoseconds that samples took, and their number.
    pub(crate) taken: (u64, u64),
}

impl Sampler {
    pub(crate) fn new(
        shared: Arc<Shared>,
        kernel: KernelFiles,
        messages: KernelMessages,
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
            // Not zeros, for which the kernel would allocate no memory before use.
            buffer: vec![1; BUFFER],
            sample: Box::default(),
            seconds,
            minutes,
            about,
            interval,
            pace: SamplePace::default(),
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

    /// Takes samples until the recorder ends, or `most` of them.
    pub(crate) fn run(&mut self, most: Option<u64>) {
        let mut due = monotonic_now();
        while !self.shared.is_over() {
            self.take_sample();
            if most.is_some_and(|most| self.taken.1 >= most) {
                break;
            }
            due += self.interval;
            // Missed samples are not caught up.
            if monotonic_now() > due + self.interval {
                due = monotonic_now();
            }
            self.wait_until(due);
        }
        let ended =
            RecordedEvent::new(wall_clock_ms(), RecordedEventKind::Recorder, b"recording stopped");
        for ring in [&mut self.seconds, &mut self.minutes] {
            ring.finish(&self.shared, &ended);
        }
        self.shared.is_finished.store(true, Ordering::Release);
        self.shared.ends.store(true, Ordering::Relaxed);
        self.shared.more.notify_all();
    }

    fn take_sample(&mut self) {
        let begun = thread_cpu_ns();
        self.sample.clear();
        (self.sample.wall, self.sample.uptime) = (wall_clock_ms(), uptime_ms());
        self.kernel.read(&mut self.buffer, self.pace.current_spare(), &mut self.sample);
        self.sample_cpu_clocks(begun);
        self.repeat_about();
        let wall = self.sample.wall;
        self.seconds.push(&self.shared, wall, &RingRecord::Sample(&self.sample));
        let minute = self.sample.uptime >= self.minute_due;
        if minute {
            self.minute_due = (self.sample.uptime / MINUTE_MS + 1) * MINUTE_MS;
            self.minutes.push(&self.shared, wall, &RingRecord::Sample(&self.sample));
        }
        if self.shared.processes.fetch_value(&mut self.processes) {
            self.seconds.push(&self.shared, wall, &RingRecord::Processes(&self.processes));
        }
        if self.shared.instances.fetch_value(&mut self.instances) {
            self.seconds.push(&self.shared, wall, &RingRecord::Instances(&self.instances));
        }
        if minute && self.processes.wall > 0 {
            self.minutes.push(&self.shared, wall, &RingRecord::Processes(&self.processes));
        }
        if minute && self.instances.wall > 0 {
            self.minutes.push(&self.shared, wall, &RingRecord::Instances(&self.instances));
        }
        self.record_pending_messages();
        self.read_kernel_messages();
        for ring in [&mut self.seconds, &mut self.minutes] {
            ring.tell_left_out(&self.shared, self.sample.uptime);
        }
        self.note_shortage();
        self.seconds.hand_over(&self.shared, false);
        self.minutes.hand_over(&self.shared, false);
        self.shared.more.notify_one();
        let took = thread_cpu_ns().saturating_sub(begun);
        self.taken = (self.taken.0 + took, self.taken.1 + 1);
        match self.pace.add_sample_time(took) {
            PaceChange::None => {}
            PaceChange::Spare(spare) => self.report_spare(spare),
            PaceChange::StepBack => self.step_back(),
            PaceChange::StepUp => self.step_up(),
        }
    }

    fn sample_cpu_clocks(&mut self, begun: u64) {
        self.shared.kernel_threads.fetch_value(&mut self.threads);
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
            ring.push(&self.shared, wall, &RingRecord::About(about));
        }
    }

    fn record_pending_messages(&mut self) {
        let [seconds, minutes] = self.shared.take_lost();
        let lost = [seconds + self.seconds.take_lost(), minutes + self.minutes.take_lost()];
        for (lost, ring) in lost.into_iter().zip(["seconds", "minutes"]) {
            if lost > 0 {
                self.record_counted_message(
                    lost,
                    &[
                        " blocks of the ring of ",
                        ring,
                        " were lost: the disk did not take them in time",
                    ],
                );
            }
        }
        if let Some(event) = self.shared.take_message() {
            self.record_event(&event);
        }
    }

    fn record_event(&mut self, event: &RecordedEvent) {
        let uptime = self.sample.uptime;
        self.seconds.admit_event(&self.shared, uptime, event);
        self.minutes.admit_event(&self.shared, uptime, event);
    }

    fn record_message(&mut self, text: &str) {
        self.record_event(&RecordedEvent::new(
            wall_clock_ms(),
            RecordedEventKind::Recorder,
            text.as_bytes(),
        ));
    }

    /// Without an allocation.
    fn record_counted_message(&mut self, number: u64, words: &[&str]) {
        self.record_event(&compose_message(wall_clock_ms(), number, words));
    }

    /// Whether all were read.
    fn read_kernel_messages(&mut self) -> bool {
        let (wall, uptime) = (wall_clock_ms(), uptime_ms());
        let (shared, heard) = (&self.shared, &mut self.heard);
        let mut rings = [&mut self.seconds, &mut self.minutes];
        self.messages.read_messages(&mut self.buffer, wall, &mut |event| {
            *heard += 1;
            for ring in &mut rings {
                ring.admit_event(shared, uptime, &event);
            }
        })
    }

    fn note_shortage(&mut self) {
        let waited = self.sample.get(Field::PressureMemorySome);
        let waits = waited
            .zip(self.stalled)
            .is_some_and(|(now, before)| now.saturating_sub(before) > TIGHT_WAIT);
        self.stalled = waited;
        let little = self
            .sample
            .get(Field::MemAvailable)
            .zip(self.sample.get(Field::MemTotal))
            .is_some_and(|(available, total)| available < total / TIGHT_PART);
        self.shared.is_tight.store(waits || little, Ordering::Relaxed);
    }

    fn report_spare(&mut self, spare: Spare) {
        let micros = self.pace.average_ns() / 1000;
        match spare {
            Spare { nodes: false, .. } => self.record_message("samples are complete again"),
            Spare { disks: false, .. } => {
                self.record_counted_message(
                    micros,
                    &[" us of CPU per sample is too much: dropping per-node pools"],
                );
            }
            Spare { .. } => {
                self.record_counted_message(
                    micros,
                    &[" us of CPU per sample is too much: dropping disks and TCP too"],
                );
            }
        }
    }

    fn step_back(&mut self) {
        if self.runs_before_others && run_as_others().is_ok() {
            let _ = rustix::process::setpriority_process(None, -20);
            let milliseconds = self.pace.average_ns() / 1_000_000;
            self.record_counted_message(
                milliseconds,
                &[" ms of CPU per sample is too much: running at nice -20 instead of SCHED_FIFO"],
            );
        }
    }

    fn step_up(&mut self) {
        if self.runs_before_others && run_before_others().is_ok() {
            self.record_message("running under SCHED_FIFO again");
        }
    }

    /// Sleeps until then, but records the kernel's messages at once.
    fn wait_until(&mut self, due: Duration) {
        let mut listens = true;
        loop {
            let left = due.saturating_sub(monotonic_now());
            if left.is_zero() || self.shared.is_over() {
                break;
            }
            let time = Timespec {
                tv_sec: left.as_secs().try_into().unwrap_or(1),
                tv_nsec: left.subsec_nanos().into(),
            };
            let woken = match self.messages.poll_descriptor().filter(|_| listens) {
                Some(file) => poll(&mut [PollFd::new(&file, PollFlags::IN)], Some(&time)),
                None => poll(&mut [], Some(&time)),
            };
            if matches!(woken, Ok(1..)) {
                let before = self.heard;
                // A flood of messages waits for the next second.
                listens = self.read_kernel_messages() && self.heard < MOST_MESSAGES;
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

fn monotonic_now() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use hugewise_testkit::allocation_counter::Counting;

    use super::*;
    use crate::sampler::Backlog;

    fn sampler() -> Sampler {
        let backlogs = [Backlog::new(4), Backlog::new(4)];
        let shared = Arc::new(Shared::new(backlogs, Arc::new(AtomicBool::new(false))));
        let mut missing = Vec::new();
        let (kernel, messages) =
            (KernelFiles::open(&mut missing), KernelMessages::open(&mut missing));
        let rings = [RingWriter::for_seconds(1, 1, 0), RingWriter::for_minutes(2, 1, 0)];
        let about = About { interval_ms: 1, ..About::default() };
        Sampler::new(shared, kernel, messages, rings, [about.clone(), about], false)
    }

    /// Sixty seconds, over the end of blocks and past what the backlog holds, with words and with
    /// what others left.
    #[test]
    fn nothing_is_allocated_for_a_sample() {
        let mut sampler = sampler();
        sampler.take_sample();
        let before = Counting::thread_allocations();
        for second in 0..60 {
            let process = crate::RecordedProcess {
                pid: second,
                state: b'R',
                ..crate::RecordedProcess::default()
            };
            let mut processes = RecordedProcesses { wall: 1, ..RecordedProcesses::default() };
            processes.push(process);
            sampler.shared.processes.leave_value(&processes);
            sampler.shared.instances.leave_value(&Instances { wall: 1, ..Instances::default() });
            // As if a second had gone by.
            sampler.minute_due = if second % 20 == 0 { 0 } else { u64::MAX };
            sampler.seconds.close_after(if second % 4 == 0 { 0 } else { u64::MAX });
            sampler.take_sample();
            sampler.record_counted_message(u64::from(second), &[" words"]);
            sampler.report_spare(Spare { nodes: true, disks: false });
        }
        assert_eq!(Counting::thread_allocations() - before, 0);
        assert!(sampler.seconds.sequence() > 10);
        assert_eq!(Counting::thread_allocations(), before, "asking counts nothing");
        drop(vec![0_u8; 100]);
        assert_eq!(Counting::thread_allocations(), before + 1, "what is allocated is counted");
    }
}
