//! A program that was started with its memory on huge pages: what the renderers show.

use std::time::Duration;

use hugewise_lab::results::median;
use hugewise_lab::run::compare::{self, Gain};
use hugewise_lab::run::launch::Watched;
use hugewise_lab::run::memory::Memory;

/// How a program is started.
pub struct Started<'a> {
    /// What is done for it.
    pub done: &'a [String],
    /// What is not, and what to know.
    pub caveats: &'a [String],
}

/// How a program ran.
pub struct RunReport<'a> {
    /// The command line.
    pub command: &'a [String],
    /// The pages that were wished for: `thp`, `2M`, `1G`.
    pub pages: &'a str,
    /// What was done for it.
    pub done: &'a [String],
    /// What was not, and what to know.
    pub caveats: &'a [String],
    /// What was seen of them afterwards.
    pub noticed: &'a [String],
    /// Runs with the settings that ignored them, and are in no figure.
    pub set_aside: &'a [Watched],
    /// Its runs with the settings.
    pub with: &'a [Watched],
    /// Its runs without; none where nothing is compared.
    pub without: &'a [Watched],
}

impl RunReport<'_> {
    /// What was gained; `None` where nothing was compared.
    pub fn gain(&self) -> Option<Gain> {
        let times = |runs: &[Watched]| runs.iter().map(|run| run.wall).collect::<Vec<Duration>>();
        compare::gain(&times(self.without), &times(self.with))
    }
}

/// Times in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) count: usize,
}

/// Medians of the runs of one side; the peak is that of the largest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side {
    pub(crate) wall: Option<Spread>,
    pub(crate) user: Option<f64>,
    pub(crate) system: Option<f64>,
    pub(crate) peak: Option<Memory>,
    pub(crate) minor_faults: Option<u64>,
    pub(crate) major_faults: Option<u64>,
}

impl Side {
    pub(crate) fn new(runs: &[Watched]) -> Self {
        let seconds = |of: fn(&Watched) -> Duration| {
            let times: Vec<f64> = runs.iter().map(|run| of(run).as_secs_f64()).collect();
            median(&times).map(|median| Spread {
                median,
                min: times.iter().copied().fold(median, f64::min),
                max: times.iter().copied().fold(median, f64::max),
                count: times.len(),
            })
        };
        let middle = |of: fn(&Watched) -> u64| {
            let mut counts: Vec<u64> = runs.iter().map(of).collect();
            counts.sort_unstable();
            counts.get(counts.len() / 2).copied()
        };
        Self {
            wall: seconds(|run| run.wall),
            user: seconds(|run| run.user).map(|time| time.median),
            system: seconds(|run| run.system).map(|time| time.median),
            peak: runs.iter().filter_map(|run| run.peak).max_by_key(Memory::total),
            minor_faults: middle(|run| run.minor_faults),
            major_faults: middle(|run| run.major_faults),
        }
    }
}
