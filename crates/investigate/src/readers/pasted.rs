//! What people paste: a part of a tool's output, out of a ticket, a mail or a terminal.
//!
//! What came along on the way is removed ([`clean`]), and what stands before the first known line
//! is left out. Tables of sar without their first line and lines without times are read if the
//! person says what they lack: when they began, and how far apart they are.

mod averages;
mod clean;
mod log_lines;
mod missing_part;
mod old_top;
pub(super) mod printed_table;
mod process_table;
mod processor_lines;
mod sections;
mod times;
mod undated;

use std::time::Duration;

use super::archive_format::{ArchiveFormat, recognize_format};
use super::pidstat::is_heading as is_pidstat;
use super::sysstat::text::{HEADLESS, is_heading};
use super::{
    count_bytes, is_empty, pidstat, proc_log, server_log, sysstat, system_log, unknown_format,
    vmstat,
};
use crate::{Clock, FileRefused, Moment, Series};
pub(super) use clean::is_noisy;
use hugewise_model::calendar;
use missing_part::explain_missing_part;
pub(super) use sections::read_sections;
use undated::read_undated;

/// Bytes of text that are looked through; nobody pastes more.
pub(super) const MOST: u64 = 16 << 20;
/// Lines at which a format may begin.
const MOST_BEFORE: usize = 400;
/// Bytes that tell a format at the first line.
const HEAD: usize = 64 << 10;
/// The same at other lines, and how many formats are tried.
const HEAD_BEHIND: usize = 4 << 10;
const MOST_TRIED: usize = 8;
/// The beginning of text that says none: no host's own time.
const NO_TIME: Moment = Moment(0);

/// What a person says of text that lacks it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pasted {
    /// How far apart lines without times are.
    pub interval: Option<Duration>,
    /// When they began, by the host's clock.
    pub began: Option<Moment>,
}

/// Whether text that begins like this may be read, once all of it is there: what begins with 64 KiB
/// of nothing is not collected.
pub(super) fn may_be_read(head: &[u8]) -> bool {
    let lines = clean::clean_lines(&clean::decode_text(head));
    if find_known_beginnings(&lines).next().is_some()
        || lines.iter().any(|line| is_heading(line) || is_pidstat(line))
    {
        return true;
    }
    let timed = times::extract_times(&lines, NO_TIME);
    let lines = timed.as_ref().map_or(lines.as_slice(), |timed| &timed.lines);
    lines.iter().any(|line| vmstat::is_heading(line) || proc_log::is_field(line))
}

/// Reads pasted text; `why` it was refused as it stands.
pub(super) fn read(
    bytes: &[u8],
    source: &str,
    pasted: Pasted,
    why: Option<FileRefused>,
) -> Result<Vec<Series>, FileRefused> {
    let refused = |lines: &[String]| {
        let lacks = explain_missing_part(lines).map(|lacks| FileRefused(lacks.to_owned()));
        lacks.or_else(|| why.clone()).unwrap_or_else(unknown_format)
    };
    let text = clean::decode_text(bytes);
    if text.contains('\0') {
        return Err(refused(&[]));
    }
    let lines = clean::clean_lines(&text);
    if let Some((from, mut all)) = read_known_part(&lines, source, pasted) {
        if let Some(before) = read_part_before(lines.get(..from), &all, source, pasted.began) {
            all.push(before);
        } else if from > 0 {
            let before = if from == 1 { "a line".to_owned() } else { format!("{from} lines") };
            all.iter_mut().for_each(|series| {
                series.add_problem(format!(
                    "{before} before it are from no known tool and are left out"
                ));
            });
        }
        return Ok(all);
    }
    if let Some(from) = lines.iter().position(|line| is_heading(line) || is_pidstat(line)) {
        return read_headless(&text_from(&lines, from), source, pasted);
    }
    if let Some(all) = read_undated(&lines, source, pasted)? {
        return Ok(all);
    }
    if let Some(series) = printed_table::read(&lines, source, pasted)? {
        return Ok(vec![series]);
    }
    if let Some(dated) = averages::date_averages(&lines, pasted.began.unwrap_or(NO_TIME)) {
        return read_averages(&dated, source, pasted);
    }
    if why.is_none()
        && let Some(text) = system_log::replace_unknown_prefix(&lines)
    {
        let read = system_log::FORMAT.read_pasted(
            text.as_bytes(),
            count_bytes(text.as_bytes()),
            source,
            pasted.began,
        );
        if let Ok(mut all) = read
            && !is_empty(&all)
        {
            // Nobody knows who wrote what stands behind it.
            all.iter_mut().for_each(|series| series.relayed = true);
            return Ok(all);
        }
    }
    // What a server says of its start tells more than that it says no time.
    let said = server_log::read_untimed(&text_from(&lines, 0), source, pasted.began);
    said.map(|series| vec![series]).ok_or_else(|| refused(&lines))
}

fn text_from(lines: &[String], from: usize) -> String {
    let mut text = lines.get(from..).unwrap_or_default().join("\n");
    text.push('\n');
    text
}

/// Lines at which a format may begin, that format, and its first bytes.
fn find_known_beginnings(
    lines: &[String],
) -> impl Iterator<Item = (usize, &'static ArchiveFormat, String)> {
    lines.iter().enumerate().take(MOST_BEFORE).filter_map(|(from, line)| {
        // No format begins with numbers alone.
        let numbers = line.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_whitespace());
        if numbers || !may_begin(line) {
            return None;
        }
        // Marks anywhere in the beginning were looked for with the first line.
        let most = if from == 0 { HEAD } else { HEAD_BEHIND };
        let head = head_of_lines(lines.get(from..).unwrap_or_default(), most);
        let (format, _) = recognize_format(head.as_bytes())?;
        Some((from, format, head))
    })
}

fn read_known_part(lines: &[String], source: &str, pasted: Pasted) -> Option<(usize, Vec<Series>)> {
    for (from, format, head) in find_known_beginnings(lines).take(MOST_TRIED) {
        let text = text_from(lines, from);
        let head = count_bytes(head.as_bytes());
        let read = format.read_pasted(text.as_bytes(), head, source, pasted.began);
        if let Some(all) = read.ok().filter(|all| !is_empty(all)) {
            return Some((from, all));
        }
    }
    None
}

/// What a server says before the first line with a time, which something else wrote: at that time.
fn read_part_before(
    lines: Option<&[String]>,
    all: &[Series],
    source: &str,
    began: Option<Moment>,
) -> Option<Series> {
    let lines = lines.filter(|lines| !lines.is_empty())?;
    let first = all.iter().filter(|series| series.unplaced.is_none());
    let at = began.or_else(|| first.filter_map(Series::span).map(|(from, _)| from).min())?;
    let mut said = server_log::read_untimed(&text_from(lines, 0), source, Some(at))?;
    said.relayed = true;
    Some(said)
}

fn head_of_lines(lines: &[String], most: usize) -> String {
    let mut head = String::new();
    for line in lines.iter().take_while(|line| may_begin(line)) {
        if head.len() + line.len() > most {
            break;
        }
        head.push_str(line);
        head.push('\n');
    }
    head
}

fn may_begin(line: &str) -> bool {
    line.len() <= 4096
}

fn format_moment(at: Moment) -> String {
    calendar::format_wall_time(at.0).unwrap_or_else(|| "1970-01-01T00:00:00".into())
}

/// What sar or pidstat printed behind its first line, which is missing.
fn read_headless(text: &str, source: &str, pasted: Pasted) -> Result<Vec<Series>, FileRefused> {
    let whole = text_behind_banner(text, pasted);
    let first = text.lines().next();
    let (mut all, tool) = if first.is_some_and(is_pidstat) {
        (pidstat::read(&mut whole.as_bytes(), source)?, "pidstat")
    } else {
        (sysstat::text::read(&mut whole.as_bytes(), source)?, "sar")
    };
    all.iter_mut().for_each(|series| note_missing_banner(series, tool, pasted));
    Ok(all)
}

fn read_averages(
    dated: &[String],
    source: &str,
    pasted: Pasted,
) -> Result<Vec<Series>, FileRefused> {
    let mut all = read_headless(&text_from(dated, 0), source, pasted)?;
    for series in &mut all {
        series.add_problem(
            "has averages of a run alone: they do not say of when, and hide what was short",
        );
    }
    Ok(all)
}

/// Text behind the first line that sysstat's tools write, with the day that a person gave.
fn text_behind_banner(text: &str, pasted: Pasted) -> String {
    let day = format_moment(pasted.began.unwrap_or(NO_TIME));
    let day = day.split('T').next().unwrap_or("1970-01-01");
    format!("Linux - ({HEADLESS}) {day}\n{text}")
}

fn note_missing_banner(series: &mut Series, tool: &str, pasted: Pasted) {
    (series.host, series.kernel) = (None, None);
    // Seconds since 1970 have their day.
    if matches!(series.clock, Clock::Utc { .. }) {
        return;
    }
    series.add_problem(match pasted.began {
        Some(_) => format!("begins without {tool}'s first line: its day is taken from --from"),
        None => format!(
            "begins without {tool}'s first line, which has the day: shown as 1970-01-01; give the \
             day with --from"
        ),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_looks_like_something_at_every_line_is_refused() {
        let text = "{ \"not\": \"sadf\"\n".repeat(20_000);
        assert!(read(text.as_bytes(), "x", Pasted::default(), None).is_err());
    }

    /// A loop over page tables, a sample every three seconds from 08:00:00 on, as `form` has it.
    fn page_table_log(form: impl Fn(&str, &str) -> String) -> String {
        let look = |at: u32| {
            form(&format!("08:00:{:02}", at * 3), &format!("PageTables: {:>8} kB", 400_000 + at))
        };
        (0..10).map(|at| look(at) + "\n").collect()
    }

    /// The same of vmstat.
    fn vmstat_log(form: impl Fn(&str, &str) -> String, headings: &str) -> String {
        let look = |at: u32| {
            form(
                &format!("08:00:{:02}", at * 3),
                &format!("2 0 0 {} 2 3 0 0 1 2 3 4 5 6 88 1 0", 4000 + at),
            )
        };
        format!("{headings}\n{}", (0..10).map(|at| look(at) + "\n").collect::<String>())
    }

    const HEADINGS: &str = "r b swpd free buff cache si so bi bo in cs us sy id wa st";

    fn read_given(text: &str, pasted: Pasted) -> Result<Vec<Series>, FileRefused> {
        super::super::read_as(
            text.as_bytes(),
            "x",
            super::super::ReadingMode { pasted: Some(pasted), ..Default::default() },
        )
    }

    #[test]
    fn times_are_read_wherever_they_stand() {
        // `date -u -d '2026-11-20 08:00:00' +%s`; 08:00 of 1970-01-01.
        let (day, of_1970) = (1_795_161_600, 28_800);
        for (what, text, first) in [
            ("behind", page_table_log(|time, field| format!("{field}\n{time}")), of_1970),
            ("before", page_table_log(|time, field| format!("{time}\n{field}")), of_1970),
            ("in the line", page_table_log(|time, field| format!("{time} {field}")), of_1970),
            (
                "in the line with a date",
                page_table_log(|time, field| format!("2026-11-20 {time} {field}")),
                day,
            ),
            (
                "in the line as date writes it",
                page_table_log(|time, field| format!("Fri Nov 20 {time} CET 2026 {field}")),
                day,
            ),
            (
                "behind in the line",
                page_table_log(|time, field| format!("{field}   Fr 20. Nov {time} CET 2026")),
                day,
            ),
            (
                "in German",
                page_table_log(|time, field| format!("{field}\nFr 20. Nov {time} CET 2026")),
                day,
            ),
            (
                "above, as watch has it",
                page_table_log(|time, field| {
                    format!(
                        "Every 3.0s: grep PageTables /proc/meminfo   db1: Fri Nov 20 {time} \
                             2026\n\n{field}"
                    )
                }),
                day,
            ),
            (
                "with the file's name",
                page_table_log(|time, field| format!("2026-11-20 {time}\n/proc/meminfo:{field}")),
                day,
            ),
            (
                "with numbers of lines",
                {
                    let text = page_table_log(|time, field| format!("{field}\n2026-11-20 {time}"));
                    text.lines().zip(1..).map(|(line, at)| format!("{at:5}  {line}\n")).collect()
                },
                day,
            ),
            (
                "before vmstat",
                vmstat_log(|time, row| format!("2026-11-20 {time} {row}"), HEADINGS),
                day,
            ),
            (
                "before all of vmstat",
                vmstat_log(|time, row| format!("{time} {row}"), &format!("08:00:00 {HEADINGS}")),
                of_1970,
            ),
            (
                "before vmstat as ts has it",
                vmstat_log(|time, row| format!("Jan 01 {time} {row}"), HEADINGS),
                of_1970,
            ),
        ] {
            let all = read_given(&text, Pasted::default())
                .unwrap_or_else(|refused| panic!("{what}: {refused}\n{text}"));
            let [series] = all.as_slice() else { panic!("{what}") };
            let rows: Vec<i64> =
                series.samples().iter().map(|sample| sample.at.0 / 1000 - first).collect();
            assert_eq!(rows, (0..10).map(|at| at * 3).collect::<Vec<_>>(), "{what}");
            assert_eq!(series.clock.offset_at(Moment(0)), None, "{what}");
        }
        let midnight = (0..4).map(|at| {
            format!("PageTables: 1 kB\n{}\n", ["23:59:54", "23:59:57", "00:00:00", "00:00:03"][at])
        });
        let all = read_given(&midnight.collect::<String>(), Pasted::default()).unwrap();
        let rows: Vec<i64> =
            all[0].samples().iter().map(|sample| sample.at.0 / 1000 - 86_394).collect();
        assert_eq!(rows, [0, 3, 6, 9]);
    }

    #[test]
    fn lines_without_times_are_counted_however_many_there_are() {
        let pasted = Pasted { interval: Some(Duration::from_secs(3)), ..Pasted::default() };
        for (what, headings, rows) in [
            ("all columns", HEADINGS, "2 0 0 4000 2 3 0 0 1 2 3 4 5 6 88 1 0\n"),
            ("some of them", "r b free si so us sy id wa", "2 0 4000 0 0 5 6 88 1\n"),
            ("out of a spreadsheet", "r,b,swpd,free,us,sy,id,wa", "2,0,0,4000,5,6,88,1\n"),
            (
                "a table of a page",
                "| r | b | swpd | free | us | sy | id | wa |\n|---|---|---|---|---|---|---|---|",
                "| 2 | 0 | 0 | 4000 | 5 | 6 | 88 | 1 |\n",
            ),
        ] {
            let text = format!("{headings}\n{}", rows.repeat(5000));
            let all =
                read_given(&text, pasted).unwrap_or_else(|refused| panic!("{what}: {refused}"));
            assert_eq!(all[0].samples().len(), 5000, "{what}");
            assert_eq!(all[0].value(crate::Metric::CpuSystem, 4999), Some(6.0), "{what}");
            assert_eq!(
                all[0].clock,
                Clock::Wall { zone: None },
                "{what}: nobody says that it was UTC"
            );
        }
    }

    #[test]
    fn who_gives_too_little_is_told_what_lacks() {
        for (text, lacks) in [
            (
                "08:00:01 all 1.00 2.00 97.00\n08:01:01 all 1.00 2.00 97.00\n",
                "the line of sar before them",
            ),
            (
                "2 0 0 4000 2 3 0 0 1 2 3 4 5 6 88 1 0\n2 0 0 4000 2 3 0 0 1 2 3 4 5 6 88 1 0\n",
                "`r b swpd free ...` of vmstat",
            ),
            (
                "*** Large Pages Information ***\nTotal Shared Global Region in Large Pages = 602 \
                     MB (100%)\n",
                "a line with a date on",
            ),
            ("LOG:  database system is ready to accept connections\n", "log_line_prefix"),
            ("       total used free shared\nMem: 1 2 3 4\nSwap: 0 0 0\n", "what free prints"),
            (
                " r b w   swap  free  re  mf pi po fr de sr s0 s1 s2 s3   in   sy   cs us sy id\n \
                     0 0 0 1 4 1 2 0 0 0 0 0 1 0 0 0 4 3 2 1 2 97\n",
                "vmstat prints on another system",
            ),
            (
                " r  b   avm   fre  re  pi  po  fr   sr  cy  in   sy  cs us sy id \
                     wa    pc    ec\n 1 0 1 2 0 0 0 0 0 0 2 1 5 5 3 92 0 0.1 10.2\n",
                "vmstat prints on another system",
            ),
            (
                "08:00:00 runq-sz %runocc swpq-sz %swpocc\n08:01:00 2.1 50 0.0 0\n08:02:00 2.1 50 \
                     0.0 0\n",
                "sar prints on another system",
            ),
        ] {
            let refused = read_given(text, Pasted::default()).unwrap_err().0;
            assert!(refused.contains(lacks), "{text}: {refused}");
        }
    }

    #[test]
    fn what_is_around_a_table_hides_it_from_nobody() {
        let sar = "Linux 6.1.0 (db1) \t11/20/26 \t_x86_64_\t(2 \
             CPU)\n\n08:00:00     CPU     %user     %nice   %system\n\
                   08:01:00     all     57.29     32.66     10.05\n08:02:00     all     57.29     32.66     10.05\n";
        for (before, behind) in [
            ("{noformat}\n", "{noformat}\n"),
            ("<pre>\n", "</pre>\n"),
            ("```\n", "```\n"),
            ("{code:bash}\n", "{code}\n"),
        ] {
            let all = read_given(&format!("{before}{sar}{behind}"), Pasted::default()).unwrap();
            assert_eq!(all[0].samples().len(), 2, "{before}");
        }
        let indented: String = sar.lines().map(|line| format!("    {line}\n")).collect();
        assert_eq!(
            read_given(&indented, Pasted::default()).unwrap()[0].host.as_deref(),
            Some("db1")
        );
        let coloured = sar.replace("all", "\u{1b}[1;34mall\u{1b}[m");
        assert_eq!(
            read_given(&coloured, Pasted::default()).unwrap()[0].value(crate::Metric::CpuSystem, 0),
            Some(10.05)
        );
    }

    #[test]
    fn a_log_of_seconds_has_no_time_that_anybody_could_say() {
        let text = "[ 4321.000001] INFO: task oracle:4711 blocked for more than 120 seconds.\n";
        assert_eq!(read_given(text, Pasted::default()).unwrap()[0].events().count(), 1);
        let began = Pasted { began: Some(Moment(1)), ..Pasted::default() };
        let read = read_given(text, began).unwrap();
        assert_eq!(read[0].events().count(), 1);
        assert_eq!(read[0].unplaced, Some(crate::series::UnplacedTimes::SinceBoot));
    }
}
