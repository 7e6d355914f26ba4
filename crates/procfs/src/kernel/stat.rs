//! /proc/stat (Documentation/filesystems/proc.rst): the processors' time, and the run queue.

use hugewise_source::ParseError;

/// The file.
pub const PATH: &str = "/proc/stat";

/// What /proc/stat tells of all processors together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcStat {
    /// Time of all kinds, in ticks; guests' time is within the user's.
    pub all: u64,
    /// Time in the kernel: system, interrupts and soft interrupts.
    pub system: u64,
    /// Time spent idle or waiting for a disk.
    pub idle: u64,
    /// Tasks that run or want to.
    pub running: u64,
}

/// Reads the sum of all processors and the run queue. Fails where a number is missing or invalid.
pub fn parse(bytes: &[u8]) -> Result<ProcStat, ParseError> {
    let text = String::from_utf8_lossy(bytes);
    let mut stat = None;
    let mut running = None;
    for (line, content) in (1..).zip(text.lines()) {
        let number =
            |word: &str| word.parse::<u64>().map_err(|_| ParseError::at_line(line, "no number"));
        if let Some(numbers) = content.strip_prefix("cpu ") {
            let ticks: Vec<u64> =
                numbers.split_ascii_whitespace().map(number).collect::<Result<_, _>>()?;
            let at = |place: usize| ticks.get(place).copied().unwrap_or(0);
            if ticks.len() < 4 {
                return Err(ParseError::at_line(line, "too few numbers"));
            }
            stat = Some(ProcStat {
                // user, nice, system, idle, iowait, irq, softirq, steal; user and nice include the
                // guests'.
                all: ticks.iter().take(8).fold(0, |sum, ticks| sum.saturating_add(*ticks)),
                system: at(2).saturating_add(at(5)).saturating_add(at(6)),
                idle: at(3).saturating_add(at(4)),
                running: 0,
            });
        } else if let Some(count) = content.strip_prefix("procs_running ") {
            running = Some(number(count.trim())?);
        }
    }
    match (stat, running) {
        (Some(stat), Some(running)) => Ok(ProcStat { running, ..stat }),
        _ => Err(ParseError::whole_file("no sum of all processors, or no run queue")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "cpu  100 1 20 800 9 3 2 5 50 0\ncpu0 50 0 10 400 4 1 1 2 25 0\nintr 5 \
         0\nctxt 9\nbtime 1\n\
        processes 7\nprocs_running 3\nprocs_blocked 0\n";

    #[test]
    fn the_sum_of_all_processors() {
        let stat = parse(TEXT.as_bytes()).unwrap();
        assert_eq!(stat, ProcStat { all: 940, system: 25, idle: 809, running: 3 });
        assert!(parse(b"cpu  1 2 3\nprocs_running 1\n").is_err());
        assert!(parse(b"cpu  1 2 3 x\nprocs_running 1\n").is_err());
        assert!(parse(b"procs_running 1\n").is_err());
    }

    proptest! {
        #[test]
        fn kinds_of_time_are_summed(ticks in proptest::collection::vec(0..1_u64 << 40, 4..11), running: u64, own in 0..1_u64 << 40) {
            let words: Vec<_> = ticks.iter().map(ToString::to_string).collect();
            let text = format!("cpu  {}\ncpu0 {own} 1 2 3\nprocs_running {running}\n", words.join(" "));
            let count_of = |places: &[usize]| places.iter().filter_map(|place| ticks.get(*place)).sum::<u64>();
            let expected =
                ProcStat { all: count_of(&[0, 1, 2, 3, 4, 5, 6, 7]), system: count_of(&[2, 5, 6]), idle: count_of(&[3, 4]), running };
            prop_assert_eq!(parse(text.as_bytes()), Ok(expected));
        }

        #[test]
        fn a_torn_file_has_no_run_queue(length in 0..TEXT.find("procs_running ").unwrap()) {
            prop_assert!(parse(&TEXT.as_bytes()[..length]).is_err());
        }
    }
}
