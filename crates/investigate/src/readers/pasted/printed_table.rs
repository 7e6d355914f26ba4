//! Tables that collectors print for people: dstat and dool, collectl's brief one, pmstat. Each is
//! written as the file of dstat that has the same columns.
//!
//! Names and units: dstat 0.7.4, dool 1.3, collectl 4.3 (formatit.ph), pmstat of PCP 6.

use super::undated::{CountedTimes, no_times};
use super::{Pasted, format_moment};
use crate::readers::dstat;
use crate::{FileRefused, Series, SourceFormat};

/// Lines that are looked through for headings.
const MOST_LINES: usize = 400;
/// Columns of a row; somebody's terminal has fewer letters.
const MOST_COLUMNS: usize = 256;
/// The column that dstat has its rows' times in.
const TIME: &str = "system:time";
const KIB: f64 = 1024.0;
/// A page of swap, as dstat counts it.
const PAGE: f64 = 4096.0;

/// Columns of collectl and pmstat, what dstat calls them, and the factor to its unit.
const COLUMNS: [(&str, &str, f64); 20] = [
    ("Time", TIME, 1.0),
    // All that is busy, less the kernel's part beside it.
    ("cpu", "total cpu usage:usr", 1.0),
    ("sys", "total cpu usage:sys", 1.0),
    ("inter", "system:int", 1.0),
    ("ctxsw", "system:csw", 1.0),
    ("Free", "memory usage:free", KIB),
    ("Buff", "memory usage:buff", KIB),
    ("Cach", "memory usage:cach", KIB),
    ("KBRead", "dsk/total:read", KIB),
    ("KBWrit", "dsk/total:writ", KIB),
    ("min", "load avg:1m", 1.0),
    ("swpd", "swap:used", KIB),
    ("free", "memory usage:free", KIB),
    ("buff", "memory usage:buff", KIB),
    ("cache", "memory usage:cach", KIB),
    ("pi", "paging:in", PAGE),
    ("po", "paging:out", PAGE),
    ("us", "total cpu usage:usr", 1.0),
    ("sy", "total cpu usage:sys", 1.0),
    ("id", "total cpu usage:idl", 1.0),
];

#[derive(Clone, Debug, PartialEq)]
struct PrintedTable {
    tool: &'static str,
    /// Columns by dstat's names, with the factor to its unit; a bar stands between groups of them.
    groups: Vec<Vec<(String, f64)>>,
}

/// Whether a text has such a table.
pub(in crate::readers) fn has_table(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head);
    let lines: Vec<String> = text.lines().take(MOST_LINES).map(str::to_owned).collect();
    find_first_table(&lines).is_some()
}

fn find_first_table(lines: &[String]) -> Option<PrintedTable> {
    let pairs = lines.iter().zip(lines.iter().skip(1)).take(MOST_LINES);
    pairs.into_iter().find_map(|(above, line)| PrintedTable::from_headings(above, line))
}

/// Reads all of them, one row behind the other; `None` where there is none.
pub(super) fn read(
    lines: &[String],
    source: &str,
    pasted: Pasted,
) -> Result<Option<Series>, FileRefused> {
    let Some(first) = find_first_table(lines) else { return Ok(None) };
    let told = pasted.interval.filter(|interval| !interval.is_zero());
    let began = pasted.began.unwrap_or(super::NO_TIME);
    let mut clock = told.map(|interval| CountedTimes { at: began, interval });
    let moment = format_moment(began);
    let (day, year) = (moment.get(..10).unwrap_or_default(), moment.get(..4).unwrap_or_default());
    let mut text = format!("\"Dstat 0.8.0 CSV output\"\n\"Cmdline:\",\"\",\"Date:\",\"{year}\"\n");
    let (mut table, mut above) = (None::<PrintedTable>, "");
    let mut is_counted = false;
    for line in lines {
        if let Some(next) = PrintedTable::from_headings(above, line) {
            // Each screenful has its headings.
            if table.as_ref() != Some(&next) {
                text += &next.render_headings();
            }
            table = Some(next);
        } else if let Some((time, row)) = table.as_ref().and_then(|table| table.parse_row(line)) {
            let time = match (time, &mut clock) {
                (Some(time), _) if time.contains('-') => time,
                (Some(time), _) => format!("{day} {time}"),
                (None, Some(clock)) => {
                    is_counted = true;
                    clock.next().replace('T', " ")
                }
                (None, None) => return Err(no_times()),
            };
            text += &format!("{time},{}\n", row.join(","));
        }
        above = line;
    }
    let mut series = dstat::read(&mut text.as_bytes(), source)?;
    (series.version, series.format) = (None, SourceFormat::Collector(first.tool));
    series.add_problem(match (is_counted, pasted.began) {
        (true, Some(_)) => "has no times: counted from --from by --interval",
        (false, Some(_)) => "its times say no day or no year: taken from --from",
        (_, None) => "its times say no day: shown as of 1970; --from says when it began",
    });
    Ok(Some(series))
}

impl PrintedTable {
    /// The two lines above a table: groups, and columns.
    fn from_headings(above: &str, line: &str) -> Option<Self> {
        let words = line.trim_start_matches('#').split_ascii_whitespace();
        let known = |word: &str| {
            let found = COLUMNS.iter().find(|(name, ..)| *name == word);
            found.map_or_else(Default::default, |(_, name, factor)| ((*name).to_owned(), *factor))
        };
        let (tool, groups) = if above.trim_start().starts_with("#<--") && line.starts_with('#') {
            ("collectl", vec![words.map(known).collect()])
        } else if above.split_ascii_whitespace().next() == Some("loadavg")
            && line.contains(" swpd ")
        {
            ("pcp", vec![words.skip(1).map(known).collect()])
        } else {
            ("dstat", Self::groups_of_dstat(above, line)?)
        };
        let columns = groups.iter().map(Vec::len).sum::<usize>();
        (columns <= MOST_COLUMNS).then_some(Self { tool, groups })
    }

    /// `----total-cpu-usage---- -dsk/total-` above `usr sys idl wai stl| read  writ`
    fn groups_of_dstat(above: &str, line: &str) -> Option<Vec<Vec<(String, f64)>>> {
        let titles: Vec<&str> = above.split_ascii_whitespace().collect();
        let groups: Vec<&str> = line.split('|').collect();
        let is_title = |title: &&str| title.starts_with('-') && title.ends_with('-');
        if titles.len() != groups.len() || !titles.iter().all(is_title) {
            return None;
        }
        let named = titles.iter().zip(groups).map(|(title, names)| {
            let title = title.trim_matches('-').replace('-', " ");
            // Numbers of events are shortened by thousands, bytes by 1,024.
            let factor = if title == "system" { 1000.0 } else { KIB };
            let name = |name: &str| match name {
                "time" | "date/time" => (TIME.to_owned(), factor),
                name => (format!("{title}:{name}"), factor),
            };
            names.split_ascii_whitespace().map(name).collect::<Vec<_>>()
        });
        let named: Vec<Vec<(String, f64)>> = named.collect();
        named.iter().all(|names| !names.is_empty()).then_some(named)
    }

    fn render_headings(&self) -> String {
        let columns = self.groups.iter().flatten().filter(|(name, _)| name != TIME);
        let (mut titles, mut names) = ("\"system\"".to_owned(), "\"time\"".to_owned());
        for (title, name) in columns.map(|(name, _)| name.split_once(':').unwrap_or(("-", "-"))) {
            titles += &format!(",\"{title}\"");
            names += &format!(",\"{name}\"");
        }
        format!("{titles}\n{names}\n")
    }

    /// A row's time, and its values; those of a group with other words than numbers are empty.
    fn parse_row(&self, line: &str) -> Option<(Option<String>, Vec<String>)> {
        let parts: Vec<&str> = line.split('|').collect();
        if parts.len() != self.groups.len() {
            return None;
        }
        let (mut time, mut row, mut numbers) = (None, Vec::new(), 0_usize);
        for (group, part) in self.groups.iter().zip(parts) {
            let words: Vec<&str> = part.split_ascii_whitespace().collect();
            if let [(name, _)] = group.as_slice()
                && name == TIME
            {
                time = Some(words.join(" "));
                continue;
            }
            let fits = words.len() == group.len();
            for (at, (name, factor)) in group.iter().enumerate() {
                let word = words.get(at).copied().filter(|_| fits);
                if name == TIME {
                    time = word.map(str::to_owned);
                    continue;
                }
                let value = word.and_then(|word| self.parse_value(word, *factor));
                numbers += usize::from(value.is_some());
                row.push(value.map_or_else(String::new, |value| value.to_string()));
            }
        }
        if self.tool == "collectl"
            && let [busy, system, ..] = row.as_mut_slice()
            && let (Ok(all), Ok(kernel)) = (busy.parse::<f64>(), system.parse::<f64>())
        {
            *busy = (all - kernel).max(0.0).to_string();
        }
        (numbers * 2 > row.len()).then_some((time, row))
    }

    /// `5423B`, `94k`, `59.7G`, `4041m`; a number without a unit is of its column's.
    fn parse_value(&self, word: &str, factor: f64) -> Option<f64> {
        let plain = word.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
        let number = plain.parse::<f64>().ok().filter(|number| number.is_finite())?;
        let power = match word.get(plain.len()..)? {
            "" if self.tool == "dstat" => 0,
            "" => return Some(number * factor),
            "B" => 0,
            "k" | "K" => 1,
            "m" | "M" => 2,
            "g" | "G" => 3,
            "t" | "T" => 4,
            _ => return None,
        };
        let unit = if self.tool == "dstat" { factor } else { KIB };
        Some(number * unit.powi(power))
    }
}
