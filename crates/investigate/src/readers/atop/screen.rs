//! What atop shows on its screen and `atop -r` prints: a line with host and clock, and lines of fields
//! with names, `MEM | tot 1.0G | free 505.4M | cache 228.0M |`. Rows of processes are left out.

use std::io::Read;

use hugewise_model::calendar::{midnight_seconds, time_of_day};

use super::AtopReader;
use crate::readers::lines::{self, LONGEST_LINE, LineStreamEnd};
use crate::{Clock, FileRefused, Series};

/// Names of the fields of each line, in the order of `atop -P`; a dash stands for what a screen lacks.
/// Sizes are in bytes.
const FIELDS: &[(&str, &[&str])] = &[
    ("CPL", &["-", "avg1", "avg5", "avg15", "csw", "intr"]),
    ("MEM", &["-", "tot", "free", "cache", "buff", "slab", "dirty", "slrec", "-", "shmem"]),
    ("SWP", &["-", "tot", "free", "-", "vmcom", "vmlim"]),
    ("PAG", &["-", "scan", "stall", "-", "swin", "swout", "oomkill", "compact"]),
];
/// The same of processors, whose times are percent of one.
const PROCESSORS: [&str; 9] = ["sys", "user", "-", "idle", "wait", "irq", "-", "steal", "guest"];
const LONGEST_SAMPLE: usize = 64;

/// `ATOP - db1   2009/06/18  15:32:34   -----   900 seconds elapsed`: host, wall clock and interval.
struct ScreenHead<'a> {
    host: &'a str,
    wall: i64,
    seconds: u64,
}

impl<'a> ScreenHead<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.trim_start().strip_prefix("ATOP - ")?.split_ascii_whitespace();
        let host = words.next()?;
        let mut date = words.next()?.split('/').map(|part| part.parse::<i64>().ok());
        let midnight = midnight_seconds(date.next()??, date.next()??, date.next()??)?;
        let wall = midnight + time_of_day(words.next()?)?;
        let rest: Vec<&str> = words.collect();
        let seconds = match rest.as_slice() {
            [.., seconds, "seconds", "elapsed"] => seconds.parse().ok()?,
            [.., elapsed, "elapsed"] => parse_elapsed(elapsed)?,
            _ => return None,
        };
        Some(Self { host, wall, seconds })
    }
}

/// `10m0s`, `1h2m3s`, `12d3h4m`
fn parse_elapsed(word: &str) -> Option<u64> {
    let mut seconds = 0_u64;
    let mut rest = word;
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_digit())?;
        let (number, unit) = rest.split_at_checked(end)?;
        let factor = match unit.bytes().next()? {
            b'd' => 86_400,
            b'h' => 3600,
            b'm' => 60,
            b's' => 1,
            _ => return None,
        };
        seconds = seconds.checked_add(number.parse::<u64>().ok()?.checked_mul(factor)?)?;
        rest = unit.get(1..)?;
    }
    Some(seconds)
}

pub(super) fn is_atop_screen(text: &str) -> bool {
    text.lines().take(40).any(|line| ScreenHead::parse(line).is_some())
}

/// Reads such screens, one after another.
///
/// # Errors
/// None has a line with a clock.
pub(super) fn read(stream: &mut dyn Read, source: &str) -> Result<Series, FileRefused> {
    let mut reader = AtopReader::new(source, false);
    reader.series.clock = Clock::Wall { zone: None };
    let mut sample: Vec<String> = Vec::new();
    let end = lines::for_each_line(stream, LONGEST_LINE, |line| {
        if ScreenHead::parse(line).is_some() {
            push_screen(&mut reader, &sample);
            sample.clear();
        }
        if sample.len() < LONGEST_SAMPLE {
            sample.push(line.to_owned());
        }
    });
    if end == LineStreamEnd::Whole || !sample.is_empty() {
        push_screen(&mut reader, &sample);
    }
    let mut series = reader.series;
    if series.samples().is_empty() {
        return Err(FileRefused("holds no atop sample".into()));
    }
    end.note_problem(&mut series);
    Ok(series.finish())
}

fn push_screen(reader: &mut AtopReader, lines: &[String]) {
    let Some(head) = lines.first().and_then(|line| ScreenHead::parse(line)) else { return };
    let is_of_host =
        reader.series.host.get_or_insert_with(|| head.host.to_owned()).as_str() == head.host;
    let last = reader.series.samples().last().map(|last| last.at.0);
    if !is_of_host || last >= Some(head.wall.saturating_mul(1000)) {
        return;
    }
    // Behind the system's own lines.
    reader.reset = lines.iter().any(|line| line.contains(" activity since boot "));
    reader.begin_sample(head.wall, head.seconds, None);
    for line in lines {
        let mut parts = line.split('|').map(str::trim);
        let label = parts.next().unwrap_or_default();
        let fields: Vec<(&str, f64)> = parts.filter_map(parse_field).collect();
        let value =
            |name: &str| fields.iter().find(|(field, _)| *field == name).map(|(_, one)| *one);
        if label == "CPU" {
            let ticks: Vec<Option<f64>> = PROCESSORS.iter().map(|name| value(name)).collect();
            let all: f64 = ticks.iter().take(8).flatten().sum();
            let processors = Some((all / 100.0).round()).filter(|count| *count >= 1.0);
            let values = [Some(100.0), processors].into_iter().chain(ticks).collect();
            reader.record_fields("CPU", values, head.seconds);
        } else if let Some((label, names)) = FIELDS.iter().find(|(known, _)| *known == label) {
            // The first is the page that sizes are counted in.
            let page = Some(1.0).filter(|_| *label != "PAG");
            let values = names.iter().skip(1).map(|name| value(name));
            reader.record_fields(
                label,
                std::iter::once(page).chain(values).collect(),
                head.seconds,
            );
        }
    }
    reader.series.base_page = None;
}

/// `free  505.4M`, `sys     8%`, `scan 301120`; no rate of `atop -1`, `scan 0/s`.
fn parse_field(part: &str) -> Option<(&str, f64)> {
    let (name, value) = part.split_once(char::is_whitespace)?;
    let value = value.trim();
    let value = value.strip_suffix('%').unwrap_or(value);
    let (number, factor) = match value.bytes().last()? {
        b'K' => (value.strip_suffix('K')?, 1024.0),
        b'M' => (value.strip_suffix('M')?, 1_048_576.0),
        b'G' => (value.strip_suffix('G')?, 1_073_741_824.0),
        b'T' => (value.strip_suffix('T')?, 1_099_511_627_776.0),
        _ => (value, 1.0),
    };
    Some((name, number.parse::<f64>().ok().filter(|value| value.is_finite())? * factor))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Metric;

    /// atop 1.23 of two processors: since the boot, and fifteen minutes.
    const SCREENS: &str = "\
ATOP - db1                2009/06/18  15:02:34              197 seconds elapsed
CPU | sys      8% | user     13% | irq       1% | idle    147% | wait     31% |
MEM | tot    1.0G | free  505.4M | cache 228.0M | buff   17.4M | slab   21.6M |
                *** system and process activity since boot ***
  PID MINFLT MAJFLT      VSTEXT  VSIZE  RSIZE  VGROW  RGROW  MEM CMD     1/1

ATOP - db1                2009/06/18  15:32:34              900 seconds elapsed
CPU | sys     14% | user    114% | irq       2% | idle     61% | wait      9% |
cpu | sys      7% | user     61% | irq       0% | idle     30% | cpu001 w  2% |
CPL | avg1   2.42 | avg5    2.39 | avg15   1.84 | csw  9501242 | intr 1695234 |
MEM | tot    1.0G | free   15.0M | cache 545.4M | buff   49.5M | slab   41.0M |
SWP | tot    1.0G | free  512.0M |              | vmcom 749.2M | vmlim   1.5G |
PAG | scan 301500 | stall      0 |              | swin     180 | swout   4500 |
";

    #[test]
    fn a_screen_is_a_sample() {
        assert!(is_atop_screen(SCREENS));
        let series = read(&mut SCREENS.as_bytes(), "atop.txt").unwrap();
        // `date -u -d '2009-06-18 15:32:34' +%s`
        let last = series.samples().last().unwrap();
        assert_eq!((series.samples().len(), last.at.0 / 1000), (2, 1_245_339_154));
        assert_eq!(series.host.as_deref(), Some("db1"));
        assert_eq!(series.value(Metric::CpuUser, 0), None);
        let mib = 1_048_576.0;
        for (metric, value) in [
            (Metric::Processors, 2.0),
            (Metric::CpuUser, 57.0),
            (Metric::CpuSystem, 8.0),
            (Metric::CpuIowait, 4.5),
            (Metric::Load1, 2.42),
            (Metric::MemFree, 15.0 * mib),
            (Metric::SwapUsed, 512.0 * mib),
            (Metric::Scan, 335.0),
            (Metric::AllocStall, 0.0),
            (Metric::SwapOut, 5.0),
        ] {
            let found = series.value(metric, 1).unwrap();
            assert!((found - value).abs() < 1e-6, "{metric:?}: {found}");
        }
        assert_eq!(parse_elapsed("1h2m3s"), Some(3723));
    }
}
