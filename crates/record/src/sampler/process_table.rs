//! The known processes, from one look to the next, and which of them changed most.

use crate::notes::{BoundedName, MOST_PROCESSES, RecordedProcess, RecordedProcesses};
use crate::sampler::process_stat::ProcessStat;

pub(crate) const NOBODY: u16 = u16::MAX;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) user_ticks: u64,
    pub(crate) system_ticks: u64,
    pub(crate) page_tables_kib: u64,
    pub(crate) resident_kib: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TrackedProcess {
    pub(crate) pid: u32,
    pub(crate) start: u64,
    pub(crate) parent: u32,
    pub(crate) command: [u8; 16],
    pub(crate) state: u8,
    /// Whether it has memory of its own, unlike kernel threads.
    pub(crate) has_memory: bool,
    pub(crate) now: Figures,
    pub(crate) reported: Figures,
    pub(crate) clock: u64,
    ran: bool,
    /// Whether it is read once more even if it does not run, to see what it was about to do.
    hot: bool,
    pub(crate) wanted: bool,
    chosen: bool,
    pub(crate) owner: u16,
}

impl TrackedProcess {
    pub(crate) fn new(pid: u32) -> Self {
        Self { pid, ran: true, wanted: true, owner: NOBODY, ..Self::default() }
    }

    /// `settled` for a process that is older than the recorder.
    pub(crate) fn update_from_stat(
        &mut self,
        stat: &ProcessStat,
        page_tables_kib: Option<u64>,
        page_kib: u64,
        settled: bool,
    ) {
        let now = Figures {
            user_ticks: stat.user_ticks,
            system_ticks: stat.system_ticks,
            page_tables_kib: page_tables_kib.unwrap_or(0),
            resident_kib: stat.resident.saturating_mul(page_kib),
        };
        if self.start != stat.start {
            // A new process, or one with a reused pid.
            self.reported = if settled { now } else { Figures::default() };
            self.owner = NOBODY;
        }
        self.start = stat.start;
        self.parent = stat.parent;
        self.command = stat.command;
        self.state = stat.state;
        self.has_memory = stat.virtual_bytes > 0;
        self.now = now;
        self.wanted = false;
        // A blocked process does not run, and may be unblocked.
        self.hot = self.ran || self.is_blocked();
        self.ran = false;
    }

    /// Notes its processor time, which tells whether it is to be read.
    pub(crate) const fn note_cpu_clock(&mut self, clock: u64) {
        self.ran = self.ran || clock != self.clock;
        self.wanted = self.wanted || self.ran || self.hot;
        self.clock = clock;
    }

    pub(crate) fn command_name(&self) -> &[u8] {
        self.command.split(|byte| *byte == 0).next().unwrap_or_default()
    }

    fn system_ticks_grown(&self) -> u64 {
        self.now.system_ticks.saturating_sub(self.reported.system_ticks)
    }

    fn user_ticks_grown(&self) -> u64 {
        self.now.user_ticks.saturating_sub(self.reported.user_ticks)
    }

    fn page_tables_grown(&self) -> u64 {
        self.now.page_tables_kib.saturating_sub(self.reported.page_tables_kib)
    }

    fn resident_grown(&self) -> u64 {
        self.now.resident_kib.saturating_sub(self.reported.resident_kib)
    }

    fn is_blocked(&self) -> bool {
        self.state == b'D'
    }
}

/// By what processes are chosen, how many, and from which value on.
type Choice = (fn(&TrackedProcess) -> u64, usize, u64);

const CHOICES: [Choice; 5] = [
    (TrackedProcess::system_ticks_grown, 7, 1),
    (TrackedProcess::page_tables_grown, 5, 64),
    (|known| u64::from(known.is_blocked()), 5, 1),
    (TrackedProcess::resident_grown, 4, 1024),
    (TrackedProcess::user_ticks_grown, 3, 1),
];

/// Reports those that changed most, each once, and resets what all changed. `wait` tells where a
/// blocked one waits.
pub(crate) fn choose_most_changed(
    known: &mut [TrackedProcess],
    ticks: u64,
    report: &mut RecordedProcesses,
    wait: &mut dyn FnMut(&TrackedProcess) -> (BoundedName, BoundedName),
) {
    for (value, most, least) in CHOICES {
        for _ in 0..most {
            let best = known.iter_mut().filter(|one| !one.chosen).max_by_key(|one| value(one));
            let Some(best) = best.filter(|best| value(best) >= least) else { break };
            best.chosen = true;
            let milliseconds =
                |count: u64| count.saturating_mul(1000).checked_div(ticks).unwrap_or(0);
            let (wait, stack) = if best.is_blocked() { wait(best) } else { Default::default() };
            let grown =
                |now: u64, before: u64| now.cast_signed().saturating_sub(before.cast_signed());
            report.push(RecordedProcess {
                pid: best.pid,
                state: best.state,
                command: BoundedName::new(best.command_name()),
                system_ms: milliseconds(best.system_ticks_grown()),
                user_ms: milliseconds(best.user_ticks_grown()),
                page_tables_kib: best.has_memory.then_some(best.now.page_tables_kib),
                page_tables_grown_kib: grown(
                    best.now.page_tables_kib,
                    best.reported.page_tables_kib,
                ),
                resident_kib: best.has_memory.then_some(best.now.resident_kib),
                resident_grown_kib: grown(best.now.resident_kib, best.reported.resident_kib),
                wait,
                stack,
            });
        }
    }
    for one in known {
        one.chosen = false;
        one.reported = one.now;
    }
}

const _: () = {
    let mut all = 0;
    let mut place = 0;
    while place < CHOICES.len() {
        #[allow(clippy::indexing_slicing, reason = "by the compiler")]
        let (_, most, _) = CHOICES[place];
        all += most;
        place += 1;
    }
    assert!(all <= MOST_PROCESSES, "each choice has room");
};

#[cfg(test)]
mod tests {
    use super::*;

    fn example_stat(command: &[u8], state: u8, system_ticks: u64, start: u64) -> ProcessStat {
        let mut name = [0; 16];
        name[..command.len()].copy_from_slice(command);
        ProcessStat {
            command: name,
            state,
            system_ticks,
            start,
            virtual_bytes: 1,
            resident: 10,
            ..ProcessStat::default()
        }
    }

    #[test]
    fn those_that_changed_most_are_listed_once_and_then_begin_anew() {
        let mut known: Vec<TrackedProcess> = (1..=100).map(TrackedProcess::new).collect();
        for (place, one) in (0..).zip(&mut known) {
            one.update_from_stat(&example_stat(b"idle", b'S', 50, 7), Some(100), 4, true);
            if place == 40 {
                one.update_from_stat(&example_stat(b"busy", b'R', 550, 7), Some(4000), 4, true);
            }
            if place == 60 {
                one.update_from_stat(&example_stat(b"hung", b'D', 50, 7), Some(100), 4, true);
            }
        }
        let mut asked = Vec::new();
        let mut look = |known: &mut [TrackedProcess]| {
            let mut report = RecordedProcesses::default();
            choose_most_changed(known, 100, &mut report, &mut |one| {
                asked.push(one.pid);
                (BoundedName::new(b"io_schedule"), BoundedName::default())
            });
            report
        };
        let first = look(&mut known);
        let [busy, hung] = first.listed_processes() else { panic!("{first:?}") };
        assert_eq!((busy.pid, busy.system_ms, busy.page_tables_grown_kib), (41, 5000, 3900));
        assert_eq!((hung.pid, hung.state, hung.wait.to_text()), (61, b'D', "io_schedule".into()));
        // The second look finds nothing new but the one that still hangs.
        let second = look(&mut known);
        assert_eq!(second.listed_processes().iter().map(|one| one.pid).collect::<Vec<_>>(), [61]);
        assert_eq!(asked, [61, 61]);
    }

    #[test]
    fn one_that_rests_is_read_once_more_and_then_no_longer() {
        let mut one = TrackedProcess::new(5);
        // Looks at its clock, and whether it was read at each.
        let mut read = |clock: u64, state: u8| {
            one.note_cpu_clock(clock);
            let wanted = one.wanted;
            if wanted {
                one.update_from_stat(&example_stat(b"x", state, 1, 7), None, 4, false);
            }
            wanted
        };
        assert_eq!([1, 1, 1, 1].map(|clock| read(clock, b'S')), [true, true, false, false]);
        assert_eq!([2, 2, 2].map(|clock| read(clock, b'S')), [true, true, false]);
        // It blocks, is read for as long as it does, and once more when it rests.
        assert_eq!([3, 3, 3, 3].map(|clock| read(clock, b'D')), [true; 4]);
        assert_eq!([3, 3].map(|clock| read(clock, b'S')), [true, false]);
    }

    #[test]
    fn a_number_that_another_process_got_begins_at_nothing() {
        let mut one = TrackedProcess::new(5);
        one.update_from_stat(&example_stat(b"old", b'S', 900, 7), Some(100), 4, true);
        one.owner = 3;
        one.update_from_stat(&example_stat(b"new", b'S', 20, 8), Some(50), 4, false);
        assert_eq!(
            (one.system_ticks_grown(), one.owner, one.page_tables_grown()),
            (20, NOBODY, 50)
        );
    }
}
