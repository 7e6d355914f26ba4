//! How a program ran with its memory on huge pages.

use std::time::Duration;

use hugewise_lab::results::median_value;
use hugewise_lab::run::compare::{self, SpeedGain};
use hugewise_lab::run::launch::Watched;
use hugewise_lab::run::program_memory::ProgramMemory;

/// How a program is started.
pub struct RunPreamble<'a> {
    /// What is done for it.
    pub done: &'a [String],
    /// What is not, and what to know.
    pub caveats: &'a [String],
}

/// How a program ran.
pub struct RunReport<'a> {
    /// The command line.
    pub command: &'a [String],
    /// The pages that were asked for: `thp`, `2M`, `1G`.
    pub pages: &'a str,
    /// What was done for it.
    pub done: &'a [String],
    /// What was not, and what to know.
    pub caveats: &'a [String],
    /// What was seen of them afterwards.
    pub noticed: &'a [String],
    /// Runs that ignored the settings, and are in no figure.
    pub set_aside: &'a [Watched],
    /// Its runs with the settings.
    pub with: &'a [Watched],
    /// Its runs without; empty unless compared.
    pub without: &'a [Watched],
}

impl RunReport<'_> {
    /// What was gained; `None` unless compared.
    pub fn gain(&self) -> Option<SpeedGain> {
        let times = |runs: &[Watched]| runs.iter().map(|run| run.wall).collect::<Vec<Duration>>();
        compare::compute_gain(&times(self.without), &times(self.with))
    }
}

/// In seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeSpread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) count: usize,
}

/// Medians of one side's runs; the peak is the largest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunMedians {
    pub(crate) wall: Option<TimeSpread>,
    pub(crate) user: Option<f64>,
    pub(crate) system: Option<f64>,
    pub(crate) peak: Option<ProgramMemory>,
    pub(crate) minor_faults: Option<u64>,
    pub(crate) major_faults: Option<u64>,
}

impl RunMedians {
    pub(crate) fn new(runs: &[Watched]) -> Self {
        let seconds = |duration_of: fn(&Watched) -> Duration| {
            let times: Vec<f64> = runs.iter().map(|run| duration_of(run).as_secs_f64()).collect();
            median_value(&times).map(|median| TimeSpread {
                median,
                min: times.iter().copied().fold(median, f64::min),
                max: times.iter().copied().fold(median, f64::max),
                count: times.len(),
            })
        };
        let middle = |count_of: fn(&Watched) -> u64| {
            let mut counts: Vec<u64> = runs.iter().map(count_of).collect();
            counts.sort_unstable();
            counts.get(counts.len() / 2).copied()
        };
        Self {
            wall: seconds(|run| run.wall),
            user: seconds(|run| run.user).map(|time| time.median),
            system: seconds(|run| run.system).map(|time| time.median),
            peak: runs.iter().filter_map(|run| run.peak).max_by_key(ProgramMemory::total),
            minor_faults: middle(|run| run.minor_faults),
            major_faults: middle(|run| run.major_faults),
        }
    }
}
