//! The processes that are known, from one look to the next; which of them changed most.

use crate::notes::{MOST_PROCESSES, Name, Process, Processes};
use crate::sampler::stat::Stat;

/// Whose a process is of which that is not known.
pub(crate) const NOBODY: u16 = u16::MAX;

/// What a process is known to have used and to hold.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) user_ticks: u64,
    pub(crate) system_ticks: u64,
    pub(crate) page_tables_kib: u64,
    pub(crate) resident_kib: u64,
}

/// A process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) pid: u32,
    pub(crate) start: u64,
    pub(crate) parent: u32,
    pub(crate) command: [u8; 16],
    pub(crate) state: u8,
    /// It has memory of its own: it is no thread of the kernel.
    pub(crate) has_memory: bool,
    pub(crate) now: Figures,
    pub(crate) reported: Figures,
    /// What all its threads had run when it was read.
    pub(crate) clock: u64,
    /// It has run since it was read.
    ran: bool,
    /// It is read once more even where it does not run: what it was about to do is seen then.
    hot: bool,
    /// It is to be read.
    pub(crate) wanted: bool,
    /// It is among those that changed most.
    chosen: bool,
    /// Which instance's, or [`NOBODY`].
    pub(crate) owner: u16,
}

impl Known {
    pub(crate) fn new(pid: u32) -> Self {
        Self {
            pid,
            start: 0,
            parent: 0,
            command: [0; 16],
            state: 0,
            has_memory: false,
            now: Figures::default(),
            reported: Figures::default(),
            clock: 0,
            ran: true,
            hot: false,
            wanted: true,
            chosen: false,
            owner: NOBODY,
        }
    }

    /// What its stat says; `settled` where it was there before the recorder was.
    pub(crate) fn update(&mut self, stat: &Stat, page_tables_kib: Option<u64>, page_kib: u64, settled: bool) {
        let now = Figures {
            user_ticks: stat.user_ticks,
            system_ticks: stat.system_ticks,
            page_tables_kib: page_tables_kib.unwrap_or(0),
            resident_kib: stat.resident.saturating_mul(page_kib),
        };
        if self.start != stat.start {
            // Another process that got its number, or one that is new.
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
        // One that is blocked does not run, and may be so no longer.
        self.hot = self.ran || self.is_blocked();
        self.ran = false;
    }

    /// What its clock says at a look, which tells whether it is to be read.
    pub(crate) const fn tick(&mut self, clock: u64) {
        self.ran = self.ran || clock != self.clock;
        self.wanted = self.wanted || self.ran || self.hot;
        self.clock = clock;
    }

    pub(crate) fn command(&self) -> &[u8] {
        self.command.split(|byte| *byte == 0).next().unwrap_or_default()
    }

    fn system(&self) -> u64 {
        self.now.system_ticks.saturating_sub(self.reported.system_ticks)
    }

    fn user(&self) -> u64 {
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

/// By what processes are chosen, how many, and from which number on one counts.
type Choice = (fn(&Known) -> u64, usize, u64);

const CHOICES: [Choice; 5] = [
    (Known::system, 7, 1),
    (Known::page_tables_grown, 5, 64),
    (|known| u64::from(known.is_blocked()), 5, 1),
    (Known::resident_grown, 4, 1024),
    (Known::user, 3, 1),
];

/// Puts those that changed most into `report`, each once, and has what they changed begin anew for all. `wait` tells of one in
/// state D where it waits.
pub(crate) fn choose(
    known: &mut [Known],
    ticks: u64,
    report: &mut Processes,
    wait: &mut dyn FnMut(&Known) -> (Name, Name),
) {
    for (value, most, least) in CHOICES {
        for _ in 0..most {
            let best = known.iter_mut().filter(|one| !one.chosen).max_by_key(|one| value(one));
            let Some(best) = best.filter(|best| value(best) >= least) else { break };
            best.chosen = true;
            let milliseconds = |count: u64| count.saturating_mul(1000).checked_div(ticks).unwrap_or(0);
            let (wait, stack) = if best.is_blocked() { wait(best) } else { Default::default() };
            let grown = |now: u64, before: u64| now.cast_signed().saturating_sub(before.cast_signed());
            report.push(Process {
                pid: best.pid,
                state: best.state,
                command: Name::new(best.command()),
                system_ms: milliseconds(best.system()),
                user_ms: milliseconds(best.user()),
                page_tables_kib: best.has_memory.then_some(best.now.page_tables_kib),
                page_tables_grown_kib: grown(best.now.page_tables_kib, best.reported.page_tables_kib),
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
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn stat(command: &[u8], state: u8, system_ticks: u64, start: u64) -> Stat {
        let mut name = [0; 16];
        name[..command.len()].copy_from_slice(command);
        Stat { command: name, state, system_ticks, start, virtual_bytes: 1, resident: 10, ..Stat::default() }
    }

    #[test]
    fn those_that_changed_most_are_listed_once_and_then_begin_anew() {
        let mut known: Vec<Known> = (1..=100).map(Known::new).collect();
        for (place, one) in (0..).zip(&mut known) {
            one.update(&stat(b"idle", b'S', 50, 7), Some(100), 4, true);
            if place == 40 {
                one.update(&stat(b"busy", b'R', 550, 7), Some(4000), 4, true);
            }
            if place == 60 {
                one.update(&stat(b"hung", b'D', 50, 7), Some(100), 4, true);
            }
        }
        let mut asked = Vec::new();
        let mut look = |known: &mut [Known]| {
            let mut report = Processes::default();
            choose(known, 100, &mut report, &mut |one| {
                asked.push(one.pid);
                (Name::new(b"io_schedule"), Name::default())
            });
            report
        };
        let first = look(&mut known);
        let [busy, hung] = first.listed() else { panic!("{first:?}") };
        assert_eq!((busy.pid, busy.system_ms, busy.page_tables_grown_kib), (41, 5000, 3900));
        assert_eq!((hung.pid, hung.state, hung.wait.text()), (61, b'D', "io_schedule".into()));
        // The second look finds nothing new but the one that still hangs.
        let second = look(&mut known);
        assert_eq!(second.listed().iter().map(|one| one.pid).collect::<Vec<_>>(), [61]);
        assert_eq!(asked, [61, 61]);
    }

    #[test]
    fn one_that_rests_is_read_once_more_and_then_no_longer() {
        let mut one = Known::new(5);
        // Looks at its clock, and whether it was read at each.
        let mut read = |clock: u64, state: u8| {
            one.tick(clock);
            let wanted = one.wanted;
            if wanted {
                one.update(&stat(b"x", state, 1, 7), None, 4, false);
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
        let mut one = Known::new(5);
        one.update(&stat(b"old", b'S', 900, 7), Some(100), 4, true);
        one.owner = 3;
        one.update(&stat(b"new", b'S', 20, 8), Some(50), 4, false);
        assert_eq!((one.system(), one.owner, one.page_tables_grown()), (20, NOBODY, 50));
    }
}
