//! What people paste: a part of what a tool printed, out of a ticket, a mail or a terminal, with what came along on the way.
//!
//! What the way left is taken off ([`clean`]), and what stands before the first line that is known is left out. Tables of sar
//! without their first line and lines without any time are read where the person says what they lack: when they began, and how
//! far apart they are.

mod clean;
mod times;

use std::time::Duration;

use super::calendar::time_of_day;
use super::sysstat::text::{HEADLESS, is_heading};
use super::{Format, UNKNOWN, read_known};
use crate::{Clock, Moment, Refused, Series};
pub(super) use clean::is_noisy;

/// Text that is looked through; nobody pastes more.
pub(super) const MOST: usize = 16 << 20;
/// Lines at which a format may begin.
const MOST_BEFORE: usize = 400;
/// Bytes that tell a format, and how often one may turn out to be none.
const HEAD: usize = 64 << 10;
/// The same behind the first line.
const HEAD_BEHIND: usize = 4 << 10;
const MOST_TRIED: usize = 8;
/// When something began of which nobody says it: no host's own time.
const NO_TIME: Moment = Moment(0);

/// What a person says of text that does not say it itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pasted {
    /// How far apart lines without times are.
    pub interval: Option<Duration>,
    /// When they began, by the host's clock.
    pub began: Option<Moment>,
    /// Whether it is all that there is: then a log of seconds since the kernel started needs no calendar.
    pub alone: bool,
}

/// Reads pasted text; `why` it was refused as it stands.
///
/// # Errors
/// Nothing in it is known, or it lacks times and nobody says them.
pub(super) fn read(bytes: &[u8], source: &str, pasted: Pasted, why: Option<Refused>) -> Result<Vec<Series>, Refused> {
    let refused = |lines: &[String]| {
        let lacks = lacking(lines).map(|lacks| Refused(lacks.to_owned()));
        lacks.or_else(|| why.clone()).unwrap_or_else(|| Refused(UNKNOWN.into()))
    };
    let text = clean::decoded(bytes);
    if text.contains('\0') {
        return Err(refused(&[]));
    }
    let lines = clean::lines(&text);
    let plain = |from: usize| {
        let mut text = lines.get(from..).unwrap_or_default().join("\n");
        text.push('\n');
        text
    };
    let mut tried = 0_usize;
    // What is known by itself, once it is clean.
    for from in (0..lines.len()).take(MOST_BEFORE) {
        let line = lines.get(from).map_or("", String::as_str);
        // No format begins with numbers alone.
        let numbers = line.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_whitespace());
        if numbers || !may_begin(line) {
            continue;
        }
        // What may stand anywhere in the beginning was looked for with the first line.
        let most = if from == 0 { HEAD } else { HEAD_BEHIND };
        let Some(format) = Format::of(head(lines.get(from..).unwrap_or_default(), most).as_bytes()) else { continue };
        // Text that looks like something at every line is read as often as this, and no more.
        tried += 1;
        if tried > MOST_TRIED {
            break;
        }
        let text = plain(from);
        let mut all = match read_known(format, &mut text.as_bytes(), source, false) {
            Ok(all) if super::is_empty(&all) => continue,
            Ok(all) => all,
            Err(refused) if pasted.alone && pasted.began.is_none() && since_boot(&refused) => {
                vec![super::system_log::read_from(&mut text.as_bytes(), source, Some(NO_TIME))?]
            }
            Err(_) => continue,
        };
        if from > 0 {
            let before = if from == 1 { "a line".to_owned() } else { format!("{from} lines") };
            all.iter_mut().for_each(|series| {
                series.problem(format!("{before} before it are from no known tool and are left out"))
            });
        }
        return Ok(all);
    }
    if let Some(from) = lines.iter().position(|line| is_heading(line)) {
        return sar(&plain(from), source, pasted);
    }
    undated(&lines, source, pasted)?.ok_or_else(|| refused(&lines))
}

/// Whether a system log was refused because nothing says when the kernel started.
fn since_boot(refused: &Refused) -> bool {
    refused.0.starts_with(super::system_log::SINCE_BOOT)
}

/// What some text lacks that would make it readable.
fn lacking(lines: &[String]) -> Option<&'static str> {
    let any = |of: &dyn Fn(&str) -> bool| lines.iter().any(|line| of(line.trim()));
    let numbers = |words: &[&str]| words.iter().filter(|word| word.bytes().any(|digit| digit.is_ascii_digit())).count();
    let rows = |of: &dyn Fn(&[&str]) -> bool| {
        let words = |line: &String| line.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>();
        lines.iter().map(words).filter(|words| of(&words.iter().map(String::as_str).collect::<Vec<_>>())).count() >= 2
    };
    if any(&|line| line.contains("Large Pages Information") || line.starts_with("PAGESIZE  AVAILABLE_PAGES"))
        || any(&|line| line.starts_with("Starting ORACLE instance") || line.starts_with("ORA-"))
    {
        Some(
            "is a part of Oracle's alert log without a time: take it from a line with a date on; hugewise verify reads what an \
             instance says of its pages when it starts",
        )
    } else if any(&|line| super::server_log::is_undated(line)) {
        Some("is a part of PostgreSQL's log without times: log_line_prefix = '%m [%p] ' writes them")
    } else if any(&|line| line.starts_with("Mem:")) && any(&|line| line.starts_with("total ")) {
        Some(
            "is what free prints, which says nothing of page tables and is not read: \
             `while true; do date; cat /proc/meminfo; sleep 3; done` is",
        )
    } else if rows(&|words| {
        words.len() >= 13 && words.iter().all(|word| word.bytes().all(|digit| digit.is_ascii_digit()))
    }) {
        Some("has lines of numbers without headings: put the line `r b swpd free ...` of vmstat before them")
    } else if rows(&|words| {
        words.len() >= 4
            && words.first().is_some_and(|first| time_of_day(first).is_some())
            && numbers(words) + 1 >= words.len()
    }) {
        Some(
            "has lines of numbers without headings: put the line of sar before them that says `CPU %user ...` or the like",
        )
    } else {
        None
    }
}

/// As much of some lines as tells a format.
fn head(lines: &[String], most: usize) -> String {
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

/// Whether it is worth to look whether a format begins here: it does so at a line of some words.
fn may_begin(line: &str) -> bool {
    line.len() <= 4096
}

/// `2026-11-21T08:00:00`, by the clock that the moment is of.
fn shown(at: Moment) -> String {
    let time = jiff::Timestamp::from_millisecond(at.0).unwrap_or_default();
    jiff::tz::Offset::UTC.to_datetime(time).to_string()
}

/// Tables of sar without their first line, of a day that is said or of none.
fn sar(text: &str, source: &str, pasted: Pasted) -> Result<Vec<Series>, Refused> {
    let day = shown(pasted.began.unwrap_or(NO_TIME));
    let day = day.split('T').next().unwrap_or("1970-01-01");
    let whole = format!("Linux - ({HEADLESS}) {day}\n{text}");
    let mut all = read_known(Format::Sar, &mut whole.as_bytes(), source, false)?;
    for series in &mut all {
        (series.host, series.kernel) = (None, None);
        series.problem(match pasted.began {
            Some(_) => "begins without sar's first line: its day is taken from --from".to_owned(),
            None => "begins without sar's first line, which has the day: shown as 1970-01-01; give the day with --from"
                .to_owned(),
        });
    }
    Ok(all)
}

/// Lines of vmstat, and fields of /proc/meminfo or /proc/vmstat again and again, with times of day or dates in the same line, or
/// without any time; `None` for anything else.
fn undated(lines: &[String], source: &str, pasted: Pasted) -> Result<Option<Vec<Series>>, Refused> {
    let began = pasted.began.unwrap_or(NO_TIME);
    let timed = times::of(lines, began);
    let lines = timed.as_ref().map_or(lines, |timed| &timed.lines);
    let heading = lines.iter().position(|line| super::vmstat::is_heading(line));
    let first = lines.iter().position(|line| super::proc_log::is_field(line));
    let (from, of_vmstat) = match (heading, first) {
        (Some(heading), _) => (heading, true),
        (None, Some(first)) => (first, false),
        (None, None) => return Ok(None),
    };
    let lines = lines.get(from..).unwrap_or_default();
    let format = if of_vmstat { Format::Vmstat } else { Format::ProcLog };
    let of_no_zone = |mut all: Vec<Series>| {
        all.iter_mut().filter(|_| of_vmstat).for_each(|series| series.clock = Clock::Wall { zone: None });
        all
    };
    if let Some(timed) = &timed {
        let text = if of_vmstat { times::vmstat(timed) } else { times::fields(timed) };
        let mut all = of_no_zone(read_known(format, &mut text.as_bytes(), source, false)?);
        for series in all.iter_mut().filter(|_| !timed.dated) {
            series.problem(match pasted.began {
                Some(_) => "its times say no day or no year: taken from --from".to_owned(),
                None => "its times say no day or no year: shown as of 1970; --from says it".to_owned(),
            });
        }
        return Ok(Some(all));
    }
    let Some(interval) = pasted.interval.filter(|interval| !interval.is_zero()) else {
        return Err(Refused(
            "has no times: say with --interval 3s how far apart its lines are, and with --from when they began".into(),
        ));
    };
    let mut clock = Ticks { at: began, interval };
    let text = if of_vmstat { vmstat(lines, &mut clock) } else { fields(lines, &mut clock) };
    let mut all = of_no_zone(read_known(format, &mut text.as_bytes(), source, false)?);
    for series in &mut all {
        series.problem(match pasted.began {
            Some(_) => "has no times: counted from --from by --interval".to_owned(),
            None => "has no times: counted by --interval from 1970-01-01; say with --from when it began".to_owned(),
        });
    }
    Ok(Some(all))
}

/// Moments one after another, as text.
struct Ticks {
    at: Moment,
    interval: Duration,
}

impl Ticks {
    fn next(&mut self) -> String {
        let shown = shown(self.at);
        let step = i64::try_from(self.interval.as_millis()).unwrap_or(i64::MAX);
        self.at = Moment(self.at.0.saturating_add(step));
        shown
    }
}

/// As `vmstat -t` prints it.
fn vmstat(lines: &[String], clock: &mut Ticks) -> String {
    let mut text = String::new();
    for line in lines {
        let first = line.split_ascii_whitespace().next();
        if super::vmstat::is_heading(line) {
            text += &format!("{line}                 UTC\n");
        } else if first.is_some_and(|word| word.bytes().all(|digit| digit.is_ascii_digit())) {
            text += &format!("{line} {}\n", clock.next().replace('T', " "));
        }
    }
    text
}

/// As a loop with `date` before each look prints it: a look begins where the first of its fields comes again.
fn fields(lines: &[String], clock: &mut Ticks) -> String {
    let name = |line: &str| line.split_ascii_whitespace().next().map(str::to_owned);
    let known = || lines.iter().filter(|line| super::proc_log::is_field(line));
    let first = known().next().and_then(|line| name(line));
    let mut text = String::new();
    for line in known() {
        if name(line) == first {
            text += &format!("{}\n", clock.next());
        }
        // What somebody wrote beside it is none of its.
        text += &line.split_ascii_whitespace().take(3).collect::<Vec<_>>().join(" ");
        text.push('\n');
    }
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn text_that_looks_like_something_at_every_line_is_refused() {
        let text = "{ \"not\": \"sadf\"\n".repeat(20_000);
        assert!(read(text.as_bytes(), "x", Pasted::default(), None).is_err());
    }

    /// A loop over page tables, a sample every three seconds from 08:00:00 on, as `form` has it.
    fn tables(form: impl Fn(&str, &str) -> String) -> String {
        let look = |at: u32| form(&format!("08:00:{:02}", at * 3), &format!("PageTables: {:>8} kB", 400_000 + at));
        (0..10).map(|at| look(at) + "\n").collect()
    }

    /// The same of vmstat.
    fn vmstats(form: impl Fn(&str, &str) -> String, headings: &str) -> String {
        let look =
            |at: u32| form(&format!("08:00:{:02}", at * 3), &format!("2 0 0 {} 2 3 0 0 1 2 3 4 5 6 88 1 0", 4000 + at));
        format!("{headings}\n{}", (0..10).map(|at| look(at) + "\n").collect::<String>())
    }

    const HEADINGS: &str = "r b swpd free buff cache si so bi bo in cs us sy id wa st";

    fn read_given(text: &str, pasted: Pasted) -> Result<Vec<Series>, Refused> {
        super::super::read_as(text.as_bytes(), "x", super::super::How { pasted: Some(pasted), judged: false })
    }

    #[test]
    fn times_are_read_wherever_they_stand() {
        // `date -u -d '2026-11-20 08:00:00' +%s`; 08:00 of 1970-01-01.
        let (day, of_1970) = (1_795_161_600, 28_800);
        for (what, text, first) in [
            ("behind", tables(|time, field| format!("{field}\n{time}")), of_1970),
            ("before", tables(|time, field| format!("{time}\n{field}")), of_1970),
            ("in the line", tables(|time, field| format!("{time} {field}")), of_1970),
            ("in the line with a date", tables(|time, field| format!("2026-11-20 {time} {field}")), day),
            ("in the line as date writes it", tables(|time, field| format!("Fri Nov 20 {time} CET 2026 {field}")), day),
            ("behind in the line", tables(|time, field| format!("{field}   Fr 20. Nov {time} CET 2026")), day),
            ("in German", tables(|time, field| format!("{field}\nFr 20. Nov {time} CET 2026")), day),
            (
                "above, as watch has it",
                tables(|time, field| {
                    format!("Every 3.0s: grep PageTables /proc/meminfo   db1: Fri Nov 20 {time} 2026\n\n{field}")
                }),
                day,
            ),
            ("with the file's name", tables(|time, field| format!("2026-11-20 {time}\n/proc/meminfo:{field}")), day),
            (
                "with numbers of lines",
                {
                    let text = tables(|time, field| format!("{field}\n2026-11-20 {time}"));
                    text.lines().zip(1..).map(|(line, at)| format!("{at:5}  {line}\n")).collect()
                },
                day,
            ),
            ("before vmstat", vmstats(|time, row| format!("2026-11-20 {time} {row}"), HEADINGS), day),
            (
                "before all of vmstat",
                vmstats(|time, row| format!("{time} {row}"), &format!("08:00:00 {HEADINGS}")),
                of_1970,
            ),
            ("before vmstat as ts has it", vmstats(|time, row| format!("Jan 01 {time} {row}"), HEADINGS), of_1970),
        ] {
            let all =
                read_given(&text, Pasted::default()).unwrap_or_else(|refused| panic!("{what}: {refused}\n{text}"));
            let [series] = all.as_slice() else { panic!("{what}") };
            let rows: Vec<i64> = series.samples().iter().map(|sample| sample.at.0 / 1000 - first).collect();
            assert_eq!(rows, (0..10).map(|at| at * 3).collect::<Vec<_>>(), "{what}");
            assert_eq!(series.clock.offset_at(Moment(0)), None, "{what}");
        }
        let midnight =
            (0..4).map(|at| format!("PageTables: 1 kB\n{}\n", ["23:59:54", "23:59:57", "00:00:00", "00:00:03"][at]));
        let all = read_given(&midnight.collect::<String>(), Pasted::default()).unwrap();
        let rows: Vec<i64> = all[0].samples().iter().map(|sample| sample.at.0 / 1000 - 86_394).collect();
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
            let all = read_given(&text, pasted).unwrap_or_else(|refused| panic!("{what}: {refused}"));
            assert_eq!(all[0].samples().len(), 5000, "{what}");
            assert_eq!(all[0].value(crate::Metric::CpuSystem, 4999), Some(6.0), "{what}");
            assert_eq!(all[0].clock, Clock::Wall { zone: None }, "{what}: nobody says that it was UTC");
        }
    }

    #[test]
    fn who_gives_too_little_is_told_what_lacks() {
        for (text, lacks) in [
            ("08:00:01 all 1.00 2.00 97.00\n08:01:01 all 1.00 2.00 97.00\n", "the line of sar before them"),
            (
                "2 0 0 4000 2 3 0 0 1 2 3 4 5 6 88 1 0\n2 0 0 4000 2 3 0 0 1 2 3 4 5 6 88 1 0\n",
                "`r b swpd free ...` of vmstat",
            ),
            (
                "*** Large Pages Information ***\nTotal Shared Global Region in Large Pages = 602 MB (100%)\n",
                "a line with a date on",
            ),
            ("LOG:  database system is ready to accept connections\n", "log_line_prefix"),
            ("       total used free shared\nMem: 1 2 3 4\nSwap: 0 0 0\n", "what free prints"),
            (
                " r b w   swap  free  re  mf pi po fr de sr s0 s1 s2 s3   in   sy   cs us sy id\n 0 0 0 1 4 1 2 0 0 0 0 0 1 0 0 0 4 3 2 1 2 97\n",
                "vmstat prints on another system",
            ),
            (
                " r  b   avm   fre  re  pi  po  fr   sr  cy  in   sy  cs us sy id wa    pc    ec\n 1 0 1 2 0 0 0 0 0 0 2 1 5 5 3 92 0 0.1 10.2\n",
                "vmstat prints on another system",
            ),
            (
                "08:00:00 runq-sz %runocc swpq-sz %swpocc\n08:01:00 2.1 50 0.0 0\n08:02:00 2.1 50 0.0 0\n",
                "sar prints on another system",
            ),
        ] {
            let refused = read_given(text, Pasted::default()).unwrap_err().0;
            assert!(refused.contains(lacks), "{text}: {refused}");
        }
    }

    #[test]
    fn what_is_around_a_table_hides_it_from_nobody() {
        let sar = "Linux 6.1.0 (db1) \t11/20/26 \t_x86_64_\t(2 CPU)\n\n08:00:00     CPU     %user     %nice   %system\n\
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
        assert_eq!(read_given(&indented, Pasted::default()).unwrap()[0].host.as_deref(), Some("db1"));
        let coloured = sar.replace("all", "\u{1b}[1;34mall\u{1b}[m");
        assert_eq!(
            read_given(&coloured, Pasted::default()).unwrap()[0].value(crate::Metric::CpuSystem, 0),
            Some(10.05)
        );
    }

    #[test]
    fn a_log_of_seconds_is_read_where_it_is_all() {
        let text = "[ 4321.000001] INFO: task oracle:4711 blocked for more than 120 seconds.\n";
        let alone = Pasted { alone: true, ..Pasted::default() };
        assert_eq!(read_given(text, alone).unwrap()[0].events().count(), 1);
        for pasted in [Pasted::default(), Pasted { began: Some(Moment(1)), ..alone }] {
            assert!(read_given(text, pasted).unwrap_err().0.contains("dmesg -T"));
        }
    }
}
