//! A program with and without huge pages, and what the difference means.

use std::io;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::launch::{
    Launch, MemlockLimits, WatchOptions, Watched, keep_thp_away, set_memlock, watch_program,
};
use crate::results::median_value;

/// What can be said about the difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SpeedVerdict {
    /// Every run with huge pages was quicker than every run without.
    Faster,
    /// Every run with huge pages was slower than every run without.
    Slower,
    /// The runs of both overlap: no difference that can be told from chance.
    None,
    /// Fewer than three runs of each: those differ by chance too often.
    Unknown,
}

/// Runs of each from which on the difference means something: without any, three of each are apart
/// by chance once in ten times, and one of each always is.
const ENOUGH: usize = 3;

/// How many times as fast.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SpeedGain {
    /// The median time without huge pages, divided by the median time with them.
    pub median: f64,
    /// The smallest ratio of any round.
    pub min: f64,
    /// The largest of them.
    pub max: f64,
    /// What that means.
    pub verdict: SpeedVerdict,
}

/// The gain; `None` where there is nothing to compare.
pub fn compute_gain(without: &[Duration], with: &[Duration]) -> Option<SpeedGain> {
    let seconds = |times: &[Duration]| times.iter().map(Duration::as_secs_f64).collect::<Vec<_>>();
    let (bare, told) = (seconds(without), seconds(with));
    let ratio = |slow: f64, quick: f64| Some(slow / quick).filter(|ratio| ratio.is_finite());
    let middle = ratio(median_value(&bare)?, median_value(&told)?)?;
    let rounds: Vec<f64> =
        bare.iter().zip(&told).filter_map(|(bare, told)| ratio(*bare, *told)).collect();
    let verdict = if with.len().min(without.len()) < ENOUGH {
        SpeedVerdict::Unknown
    } else if with.iter().max() < without.iter().min() {
        SpeedVerdict::Faster
    } else if without.iter().max() < with.iter().min() {
        SpeedVerdict::Slower
    } else {
        SpeedVerdict::None
    };
    let min = rounds.iter().copied().fold(middle, f64::min);
    let max = rounds.iter().copied().fold(middle, f64::max);
    Some(SpeedGain { median: middle, min, max, verdict })
}

/// The runs of both, in order.
#[derive(Clone, Debug, Default)]
pub struct ComparedRuns {
    /// Without hugewise's settings.
    pub without: Vec<Watched>,
    /// With the settings.
    pub with: Vec<Watched>,
    /// With ignored settings: repeated, and part of no figure.
    pub set_aside: Vec<Watched>,
}

/// What this process inherited and passes on.
#[derive(Clone, Copy, Debug)]
pub struct Inherited {
    /// Locked memory, before and after it was raised.
    pub memlock: (MemlockLimits, MemlockLimits),
    /// Whether transparent huge pages were kept away.
    pub thp_kept_away: bool,
}

/// How to compare.
#[derive(Clone, Copy, Debug)]
pub struct Comparison {
    /// Runs of each that count.
    pub rounds: u32,
    /// Whether the settings may be ignored by chance: such a run is repeated.
    pub by_chance: bool,
}

/// How often in a row a run with ignored settings is repeated. If three in four starts take them,
/// one in a thousand of these rows has none that does; if the program never does, the first row
/// shows that.
const REPEATS: u32 = 4;

/// Runs the program both ways `rounds` times, in alternating order, after one run of each that does
/// not count. A run that fails is returned alone. Errors: it cannot be started.
pub fn compare_runs(
    launch: &Launch,
    inherited: Inherited,
    comparison: Comparison,
    progress: &mut dyn FnMut(u32),
) -> io::Result<Result<ComparedRuns, Watched>> {
    let bare = launch.without_settings();
    let mut runs = ComparedRuns::default();
    let mut done = 0;
    let most = if comparison.by_chance { REPEATS } else { 0 };
    let mut repeats = most;
    for round in 0..=comparison.rounds {
        let first = round % 2 == 0;
        for told in [!first, first] {
            apply_inherited_limits(inherited, told)?;
            let one = loop {
                progress(done);
                let one = watch_program(
                    if told { launch } else { &bare },
                    WatchOptions { detached: true, text: false },
                )?;
                if !one.status.success() {
                    return Ok(Err(one));
                }
                match one.asks_for_thp() {
                    Some(false) if told && round > 0 && repeats > 0 => repeats -= 1,
                    asks => {
                        repeats = if told && asks == Some(true) { most } else { repeats };
                        break one;
                    }
                }
                runs.set_aside.push(one);
            };
            done += 1;
            if round > 0 {
                if told { runs.with.push(one) } else { runs.without.push(one) }
            }
        }
    }
    Ok(Ok(runs))
}

/// What to say of ignored settings; `with` are the runs that count.
pub fn describe_ignored_settings(with: &[Watched], set_aside: &[Watched]) -> Vec<String> {
    let ignored = with.iter().filter(|run| run.asks_for_thp() == Some(false)).count();
    let mut lines = Vec::new();
    match (ignored, with.len()) {
        (0, _) => {}
        (1, 1) => lines.push(
            "the program asked for no huge pages, or only a few: glibc ignored the setting, or the \
             program's memory does not come from malloc"
                .to_owned(),
        ),
        (all, runs) if all == runs => lines.push(format!(
            "none of its {} runs with the settings asked for more than a few huge pages: its \
             memory does not come from malloc, or glibc ignored the setting each time",
            runs + set_aside.len()
        )),
        (some, runs) => lines.push(format!(
            "{some} of the {runs} runs with huge pages had none, because glibc ignored the \
             setting: the figures mix both"
        )),
    }
    if !set_aside.is_empty() && ignored < with.len() {
        let times: Vec<f64> = set_aside.iter().map(|run| run.wall.as_secs_f64()).collect();
        lines.push(format!(
            "glibc ignored the setting in {} more runs, which are in no figure (median {:.2} s); \
             without --compare, such a run is not repeated",
            set_aside.len(),
            median_value(&times).unwrap_or(0.0)
        ));
    }
    lines
}

fn apply_inherited_limits(inherited: Inherited, told: bool) -> io::Result<()> {
    let (before, after) = inherited.memlock;
    if before != after {
        set_memlock(if told { after } else { before }).or_else(|error| match told {
            // A hard limit that was raised with privileges goes down without; a soft one always
            // goes back.
            true => Err(error),
            false => set_memlock((before.0, after.1)),
        })?;
    }
    if inherited.thp_kept_away { keep_thp_away(!told) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::program_memory::ProgramMemory;

    fn run(anonymous: u64, asked: u64) -> Watched {
        let none = Duration::ZERO;
        Watched {
            status: std::process::ExitStatus::default(),
            wall: Duration::from_millis(1500),
            user: none,
            system: none,
            minor_faults: 0,
            major_faults: 0,
            largest_resident: 0,
            peak: Some(ProgramMemory { anonymous, asked, ..ProgramMemory::default() }),
            looks: 1,
            text: None,
        }
    }

    #[test]
    fn runs_that_ignored_what_was_set_are_never_mixed_in_silence() {
        let (asks, ignores, small) = (run(1 << 30, 1 << 30), run(1 << 30, 0), run(1 << 20, 0));
        assert_eq!(describe_ignored_settings(&[asks.clone(), small], &[]), Vec::<String>::new());
        let said =
            |with: &[Watched], aside: &[Watched]| describe_ignored_settings(with, aside).join("; ");
        assert!(said(std::slice::from_ref(&ignores), &[]).contains("asked for no huge pages"));
        let mixed =
            said(&[asks.clone(), ignores.clone(), asks.clone()], std::slice::from_ref(&ignores));
        assert!(mixed.contains("1 of the 3 runs") && mixed.contains("in 1 more runs"), "{mixed}");
        let aside = said(&[asks.clone(), asks], &[ignores.clone(), ignores.clone()]);
        assert!(aside.contains("2 more runs, which are in no figure (median 1.50 s)"), "{aside}");
        let never = said(&[ignores.clone(), ignores.clone()], &vec![ignores; 4]);
        assert!(never.contains("none of its 6 runs"), "{never}");
    }

    #[test]
    fn a_gain_is_one_only_where_no_run_says_otherwise() {
        let times =
            |list: &[u64]| list.iter().map(|ms| Duration::from_millis(*ms)).collect::<Vec<_>>();
        let clear = compute_gain(&times(&[4000, 4200, 4400]), &times(&[2000, 2100, 2200])).unwrap();
        assert_eq!(clear.verdict, SpeedVerdict::Faster);
        assert!((clear.median - 2.0).abs() < 1e-9 && (clear.min - 2.0).abs() < 1e-9);
        let overlapping =
            compute_gain(&times(&[4000, 4200, 4400]), &times(&[3900, 4000, 4100])).unwrap();
        assert_eq!(overlapping.verdict, SpeedVerdict::None);
        assert_eq!(
            compute_gain(&times(&[1000, 1100, 1050]), &times(&[1200, 1300, 1250])).unwrap().verdict,
            SpeedVerdict::Slower
        );
        assert_eq!(
            compute_gain(&times(&[1000, 1100]), &times(&[1200, 1300])).unwrap().verdict,
            SpeedVerdict::Unknown
        );
        assert_eq!(compute_gain(&[], &[]), None);
        assert_eq!(compute_gain(&times(&[0]), &times(&[0])), None);
    }
}
