//! A program with and without: what is to be said of the difference.

use std::io;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::launch::{Launch, Memlock, Watch, Watched, keep_thp_away, set_memlock, watch};
use crate::results::median;

/// What is to be said of the difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Every run with huge pages was quicker than every run without.
    Faster,
    /// Every run with huge pages was slower than every run without.
    Slower,
    /// The runs of both lie among each other: no difference that could be told from chance.
    None,
}

/// How many times as quick.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gain {
    /// The median time without, over the median time with.
    pub median: f64,
    /// The least of the ratios of each round.
    pub min: f64,
    /// The largest of them.
    pub max: f64,
    /// What it amounts to.
    pub verdict: Verdict,
}

/// The gain; `None` where there is nothing to compare.
pub fn gain(without: &[Duration], with: &[Duration]) -> Option<Gain> {
    let seconds = |times: &[Duration]| times.iter().map(Duration::as_secs_f64).collect::<Vec<_>>();
    let (bare, told) = (seconds(without), seconds(with));
    let ratio = |slow: f64, quick: f64| Some(slow / quick).filter(|ratio| ratio.is_finite());
    let middle = ratio(median(&bare)?, median(&told)?)?;
    let rounds: Vec<f64> = bare.iter().zip(&told).filter_map(|(bare, told)| ratio(*bare, *told)).collect();
    let verdict = if with.iter().max() < without.iter().min() {
        Verdict::Faster
    } else if without.iter().max() < with.iter().min() {
        Verdict::Slower
    } else {
        Verdict::None
    };
    let min = rounds.iter().copied().fold(middle, f64::min);
    let max = rounds.iter().copied().fold(middle, f64::max);
    Some(Gain { median: middle, min, max, verdict })
}

/// The runs of both, in the order in which they ran.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    /// As the program is without hugewise.
    pub without: Vec<Watched>,
    /// As it is with the settings.
    pub with: Vec<Watched>,
}

/// What this process was started with, and what it hands on.
#[derive(Clone, Copy, Debug)]
pub struct Inherited {
    /// Locked memory, before and after it was raised.
    pub memlock: (Memlock, Memlock),
    /// Whether transparent huge pages were kept away.
    pub thp_kept_away: bool,
}

/// Runs the program both ways `rounds` times, after one run of each that does not count. Which goes first changes
/// from round to round. A run that fails ends it: it is the last one, on whichever side.
///
/// # Errors
/// Where it cannot be started.
pub fn compare(
    launch: &Launch,
    inherited: Inherited,
    rounds: u32,
    progress: &mut dyn FnMut(u32),
) -> io::Result<Result<Runs, Watched>> {
    let bare = launch.bare();
    let mut runs = Runs::default();
    let mut done = 0;
    for round in 0..=rounds {
        let first = round % 2 == 0;
        for told in [!first, first] {
            progress(done);
            inherit(inherited, told)?;
            let one = watch(if told { launch } else { &bare }, Watch { detached: true, text: false })?;
            done += 1;
            if !one.status.success() {
                return Ok(Err(one));
            }
            if round > 0 {
                if told { runs.with.push(one) } else { runs.without.push(one) }
            }
        }
    }
    Ok(Ok(runs))
}

fn inherit(inherited: Inherited, told: bool) -> io::Result<()> {
    let (before, after) = inherited.memlock;
    if before != after {
        set_memlock(if told { after } else { before }).or_else(|error| match told {
            // A hard limit that was raised by right goes down without one; a soft one always goes back.
            true => Err(error),
            false => set_memlock((before.0, after.1)),
        })?;
    }
    if inherited.thp_kept_away { keep_thp_away(!told) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gain_is_one_only_where_no_run_says_otherwise() {
        let times = |list: &[u64]| list.iter().map(|ms| Duration::from_millis(*ms)).collect::<Vec<_>>();
        let clear = gain(&times(&[4000, 4200, 4400]), &times(&[2000, 2100, 2200])).unwrap();
        assert_eq!(clear.verdict, Verdict::Faster);
        assert!((clear.median - 2.0).abs() < 1e-9 && (clear.min - 2.0).abs() < 1e-9);
        let overlapping = gain(&times(&[4000, 4200, 4400]), &times(&[3900, 4000, 4100])).unwrap();
        assert_eq!(overlapping.verdict, Verdict::None);
        assert_eq!(gain(&times(&[1000, 1100]), &times(&[1200, 1300])).unwrap().verdict, Verdict::Slower);
        assert_eq!(gain(&[], &[]), None);
        assert_eq!(gain(&times(&[0]), &times(&[0])), None);
    }
}
