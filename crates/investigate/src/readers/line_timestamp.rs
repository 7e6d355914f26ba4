//! Lines that say when what follows was collected: as `date` prints them, in ISO 8601, in seconds
//! since the epoch, and as OSWatcher and ExaWatcher write them.

use crate::series::{Moment, Offset};
use crate::{Clock, Series};
use hugewise_model::calendar::{
    iso_date, midnight_seconds, month_number, parse_utc_offset, thousandths, time_of_day,
};

/// How months begin in the C library's languages besides English.
const ELSEWHERE: [&[&str]; 12] = [
    &["jan", "janv", "ene", "gen", "янв", "led", "sty", "oca", "січ"],
    &["feb", "fév", "fev", "fébr", "фев", "úno", "lut", "şub", "лют"],
    &["mär", "mar", "már", "mrz", "mrt", "maa", "мар", "bře", "бер"],
    &["apr", "avr", "abr", "апр", "dub", "kwi", "nis", "ápr", "кві"],
    &["mai", "may", "mag", "mei", "maj", "мая", "май", "kvě", "máj", "тра"],
    &["jun", "juin", "giu", "июн", "cze", "červn", "haz", "jún", "чер"],
    &["jul", "juil", "lug", "июл", "lip", "červen", "tem", "júl", "лип"],
    &["aug", "aoû", "ago", "авг", "srp", "sie", "ağu", "сер"],
    &["sep", "set", "сен", "zář", "wrz", "eyl", "szept", "вер"],
    &["oct", "okt", "ott", "out", "окт", "říj", "paź", "eki", "жов"],
    &["nov", "ноя", "lis", "kas", "лис"],
    &["dez", "déc", "dec", "dic", "des", "дек", "pro", "gru", "ara", "гру"],
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LineTimestamp {
    /// UTC where the offset is known, otherwise by the wall clock.
    pub(super) at: Moment,
    /// Seconds east of Greenwich, where the line has them; 0 for seconds since the epoch.
    pub(super) offset: Option<i32>,
    pub(super) zone: Option<String>,
}

impl LineTimestamp {
    /// A moment by a wall clock without a zone.
    pub(super) const fn at_wall_clock(at: Moment) -> Self {
        Self { at, offset: None, zone: None }
    }

    /// Parses a line that is nothing but a stamp.
    pub(super) fn parse(line: &str) -> Option<Self> {
        Self::parse_plain(line).or_else(|| Self::parse_localized(strip_decoration(line)?))
    }

    /// The same for a line in English or of numbers alone.
    pub(super) fn parse_plain(line: &str) -> Option<Self> {
        let line = strip_decoration(line)?;
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match words.as_slice() {
            [only] => parse_epoch(only).or_else(|| {
                let (date, time) = only.split_once('T')?;
                Self::from_parts(iso_date(date)?, time, None, None)
            }),
            [date, time] if date.contains('-') => {
                Self::from_parts(iso_date(date)?, time, None, None)
            }
            [date, time, zone] if date.contains('-') => {
                Self::from_parts(iso_date(date)?, time, None, Some(zone))
            }
            // ExaWatcher: zzz <05/13/2026 19:00:00> Count:1
            [date, time, ..] if date.contains('/') && line.contains("> Count:") => {
                let mut parts = date.split('/').map(|part| part.parse::<i64>().ok());
                let (month, day, year) = (parts.next()??, parts.next()??, parts.next()??);
                Self::from_parts(
                    midnight_seconds(year, month, day)?,
                    time.trim_end_matches('>'),
                    None,
                    None,
                )
            }
            // Sat Nov 21 23:44:11 UTC 2026, with AM or PM, and without a zone.
            [weekday, month, day, time, rest @ ..]
                if weekday.len() == 3 && month_number(month).is_some() =>
            {
                let (half, rest) = split_half_day(rest);
                let (year, zone) = match rest {
                    [year] => (year, None),
                    [zone, year] => (year, Some(*zone)),
                    _ => return None,
                };
                Self::from_parts(parse_day(year, month, day)?, time, half, zone)
            }
            // Sat 21 Nov 2026 11:44:11 PM UTC
            [weekday, day, month, year, time, rest @ ..]
                if weekday.len() == 3 && month_number(month).is_some() =>
            {
                let (half, rest) = split_half_day(rest);
                let zone = match rest {
                    [] => None,
                    [zone] => Some(*zone),
                    _ => return None,
                };
                Self::from_parts(parse_day(year, month, day)?, time, half, zone)
            }
            _ => None,
        }
    }

    /// What `date` prints in other languages (`Fr 20. Nov 08:00:00 CET 2026`, `ven. 20 nov. 2026
    /// 08:00:00 CET`, `2026年 11月 20日 金曜日 08:00:00 JST`), and common formats (`20.11.2026
    /// 08:00:00`, `11/20/2026 08:00:00`, `20261120_080000`). Each word has to be a part of it. The
    /// day comes first, unless month or year do or it is written with slashes.
    fn parse_localized(line: &str) -> Option<Self> {
        // Most lines are none, and every line of a file may be tried.
        let digits = line.bytes().filter(u8::is_ascii_digit).count();
        if digits < 8 || line.split_ascii_whitespace().count() > 8 {
            return None;
        }
        if let Some(stamp) = parse_compact(line) {
            return Some(stamp);
        }
        let mut parts = LocalizedStamp::default();
        for word in line.split_whitespace() {
            let word = word.trim_end_matches(',').trim_matches(['(', ')']);
            if !word.is_empty() {
                parts.push_word(word)?;
            }
        }
        let day = midnight_seconds(parts.year?, parts.month?, parts.day?)?;
        Self::from_parts(day, &parts.time?, parts.half, parts.zone)
    }

    /// `25 Nov 2026 12:40:06.386` by the wall clock, as Redis writes it.
    pub(super) fn from_day_and_time(
        day: &str,
        month: &str,
        year: &str,
        time: &str,
    ) -> Option<Self> {
        Self::from_parts(parse_day(year, month, day)?, time, None, None)
    }

    fn from_parts(
        midnight: i64,
        time: &str,
        half: Option<&str>,
        zone: Option<&str>,
    ) -> Option<Self> {
        // A fraction and an offset may follow the time.
        let length = time.len().min(8);
        let (clock, rest) = time.split_at_checked(length)?;
        let digits = rest
            .strip_prefix(['.', ','])
            .map_or(0, |rest| rest.bytes().take_while(u8::is_ascii_digit).count() + 1);
        let (part, behind) = rest.split_at_checked(digits)?;
        let mut second = time_of_day(clock)?;
        if let Some(half) = half {
            second = second % 43_200 + if half == "PM" { 43_200 } else { 0 };
        }
        let thousandths = part.get(1..).and_then(thousandths).unwrap_or(0);
        let zone = zone.or_else(|| (!behind.is_empty()).then_some(behind));
        let offset = zone.and_then(parse_utc_offset);
        let named = zone.filter(|zone| {
            let word = zone.bytes().all(|letter| letter.is_ascii_alphanumeric());
            offset.is_none() && word && zone.starts_with(|first: char| first.is_ascii_alphabetic())
        });
        if zone.is_some() && named.is_none() && offset.is_none() {
            return None;
        }
        let seconds = midnight + second - i64::from(offset.unwrap_or(0));
        let at = Moment(Moment::from_seconds(seconds).0.saturating_add(thousandths));
        Some(Self { at, offset, zone: named.map(str::to_owned) })
    }

    /// The moment by the series' clock, which the first stamp decides: UTC where it has an offset.
    pub(super) fn moment_on_clock(&self, series: &mut Series) -> Moment {
        if series.samples().is_empty() && series.covered.is_none() {
            series.clock = match self.offset {
                Some(_) => Clock::Utc { offsets: Vec::new() },
                None => Clock::Wall { zone: self.zone.clone() },
            };
        }
        let shifted = |seconds: i32| Moment(self.at.0.saturating_add(i64::from(seconds) * 1000));
        match (&mut series.clock, self.offset) {
            (Clock::Utc { offsets }, Some(seconds)) => {
                if offsets.last().is_none_or(|last| last.seconds != seconds) {
                    offsets.push(Offset { from: self.at, seconds });
                }
                self.at
            }
            // The last offset holds for a stamp without one.
            (Clock::Utc { offsets }, None) => {
                shifted(offsets.last().map_or(0, |last| -last.seconds))
            }
            (Clock::Wall { .. }, Some(seconds)) => shifted(seconds),
            (Clock::Wall { .. }, None) => self.at,
        }
    }
}

#[derive(Default)]
struct LocalizedStamp<'a> {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    time: Option<String>,
    half: Option<&'static str>,
    zone: Option<&'a str>,
    /// Whether a word was seen that must be the day of the week.
    weekday: bool,
}

impl<'a> LocalizedStamp<'a> {
    /// `None` where the word is no part of a stamp.
    fn push_word(&mut self, word: &'a str) -> Option<()> {
        if self.push_time(word) {
            return Some(());
        }
        let number = |units: [char; 2]| word.strip_suffix(units).and_then(|word| word.parse().ok());
        let plain = || word.trim_end_matches('.').parse::<i64>().ok();
        if let Some([year, month, day]) = numeric_date(word) {
            (self.year, self.month, self.day) = (Some(year), Some(month), Some(day));
        } else if let Some(year) = number(['年', '년']) {
            self.year = Some(year);
        } else if let Some(day) = number(['日', '일']) {
            self.day = Some(day);
        } else if let Some(number) = plain().filter(|_| !word.contains(['+', '-'])) {
            self.push_number(number)?;
        } else if matches!(word, "AM" | "PM" | "am" | "pm") {
            self.half = Some(if word.eq_ignore_ascii_case("pm") { "PM" } else { "AM" });
        } else if let Some(number) = month_named(word) {
            // Tuesday comes first, and is March's name in some languages.
            self.month = Some(number);
        } else if self.time.is_some() && self.zone.is_none() && may_be_zone(word) {
            self.zone = Some(word);
        } else if self.weekday
            || word.chars().any(char::is_numeric)
            || !word.chars().any(char::is_alphabetic)
        {
            return None;
        } else {
            self.weekday = true;
        }
        Some(())
    }

    fn push_time(&mut self, word: &str) -> bool {
        let is_clock = || word.get(..word.len().min(8)).and_then(time_of_day).is_some();
        if self.time.is_none() && is_clock() {
            self.time = Some(word.to_owned());
        } else if let Some([hour, minute, second]) =
            parse_units(word, ["時", "分", "秒"]).or_else(|| parse_units(word, ["时", "分", "秒"]))
        {
            self.time = Some(format!("{hour:02}:{minute:02}:{second:02}"));
        } else if self.day.is_some()
            && self.time.is_none()
            && let Some(time) = parse_dotted_time(word)
        {
            self.time = Some(time);
        } else {
            return false;
        }
        true
    }

    fn push_number(&mut self, number: i64) -> Option<()> {
        match number {
            1..=31 if self.day.is_none() => self.day = Some(number),
            // Year, month and day, as in Korean.
            1..=31 if self.year.is_some() && self.month.is_none() => {
                (self.month, self.day) = (self.day, Some(number));
            }
            1970.. if self.year.is_none() => self.year = Some(number),
            _ => return None,
        }
        Some(())
    }
}

fn may_be_zone(word: &str) -> bool {
    let is_name =
        (2..=5).contains(&word.len()) && word.bytes().all(|letter| letter.is_ascii_uppercase());
    is_name || parse_utc_offset(word).is_some()
}

/// The month that a word names, in full or in short, in a language of the C library; `11月`.
pub(super) fn month_named(word: &str) -> Option<i64> {
    if let Some(month) = month_number(word) {
        return Some(month);
    }
    if let Some(number) = word.strip_suffix(['月', '월']) {
        return number.parse().ok().filter(|month| (1..=12).contains(month));
    }
    let lower = word.trim_end_matches('.').to_lowercase();
    let named = |begins: &[&str]| begins.iter().any(|begin| lower.starts_with(begin));
    let letters = lower.chars().all(char::is_alphabetic) && lower.chars().count() >= 3;
    let place = ELSEWHERE.iter().position(|begins| named(begins)).filter(|_| letters)?;
    i64::try_from(place + 1).ok()
}

/// `20.11.2026`, `20/11/2026`, `11/20/2026`, `11/20/26`, `2026/11/20`; with slashes preferably month first.
fn numeric_date(word: &str) -> Option<[i64; 3]> {
    let stroke = word.contains('/');
    let mut parts = word.trim_end_matches('.').split(['.', '/', '-']).map(|part| {
        let digits =
            (1..=4).contains(&part.len()) && part.bytes().all(|digit| digit.is_ascii_digit());
        part.parse::<i64>().ok().filter(|_| digits)
    });
    let (one, two, three) = (parts.next()??, parts.next()??, parts.next()??);
    if parts.next().is_some() {
        return None;
    }
    match (one, two, three) {
        (1970.., _, _) => Some([one, two, three]),
        (_, _, 1970..) if stroke && one <= 12 => Some([three, one, two]),
        (_, _, 1970..) => Some([three, two, one]),
        // The C locale's own form, as iostat and sar print it.
        (_, _, 0..=99) if stroke && one <= 12 => Some([2000 + three, one, two]),
        (_, _, 0..=99) if stroke => Some([2000 + three, two, one]),
        _ => None,
    }
}

/// `8時32分50秒`.
fn parse_units(word: &str, units: [&str; 3]) -> Option<[i64; 3]> {
    let (hour, rest) = word.split_once(units[0])?;
    let (minute, rest) = rest.split_once(units[1])?;
    let second = rest.strip_suffix(units[2])?;
    Some([hour.parse().ok()?, minute.parse().ok()?, second.parse().ok()?])
}

/// `14:05:09` of `14.05.09`, as in Finnish.
fn parse_dotted_time(word: &str) -> Option<String> {
    let time = word.replace('.', ":");
    (word.matches('.').count() == 2 && time_of_day(&time).is_some()).then_some(time)
}

/// `20261120_080000`, `20261120080000`, `2026-11-20_08:00:00`.
fn parse_compact(line: &str) -> Option<LineTimestamp> {
    if line.contains(' ') || !(14..=19).contains(&line.len()) {
        return None;
    }
    let digits: String = line.chars().filter(char::is_ascii_digit).collect();
    let others = line.chars().filter(|letter| !letter.is_ascii_digit());
    if digits.len() != 14 || !others.clone().all(|letter| matches!(letter, '-' | '_' | ':' | '.')) {
        return None;
    }
    let part = |from: usize, to: usize| digits.get(from..to)?.parse::<i64>().ok();
    let day = midnight_seconds(part(0, 4)?, part(4, 6)?, part(6, 8)?)?;
    let time = format!("{}:{}:{}", digits.get(8..10)?, digits.get(10..12)?, digits.get(12..14)?);
    LineTimestamp::from_parts(day, &time, None, None)
}

/// A line without decoration around a stamp; `None` where it is too long for one.
fn strip_decoration(line: &str) -> Option<&str> {
    let line = line.trim();
    if line.len() > 80 {
        return None;
    }
    let line = line.strip_prefix("zzz").unwrap_or(line);
    let line = line.trim_start_matches(['*', '#', '=', '-', '<', '[', ' ']);
    Some(line.trim_end_matches(['#', '=', '-', ']', ' ', ':']))
}

fn parse_day(year: &str, month: &str, day: &str) -> Option<i64> {
    midnight_seconds(year.parse().ok()?, month_number(month)?, day.parse().ok()?)
}

fn split_half_day<'a, 'b>(words: &'a [&'b str]) -> (Option<&'b str>, &'a [&'b str]) {
    match words {
        [half @ ("AM" | "PM"), rest @ ..] => (Some(half), rest),
        rest => (None, rest),
    }
}

/// `date +%s`, from 2001 on, or `date +%s.%N`: UTC, an offset of 0.
fn parse_epoch(word: &str) -> Option<LineTimestamp> {
    let (seconds, part) = word.split_once('.').unwrap_or((word, ""));
    let digits = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit());
    let sound = (10..=11).contains(&seconds.len()) && digits(seconds) && digits(part);
    let seconds = seconds.parse().ok().filter(|_| sound)?;
    let at = Moment(Moment::from_seconds(seconds).0.saturating_add(thousandths(part)?));
    Some(LineTimestamp { at, offset: Some(0), zone: None })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    /// `date -u -d '2026-11-21 22:47:35' +%s`
    const THEN: i64 = 1_795_301_255;

    #[test]
    fn stamps_of_many_tools_are_one_moment() {
        for (line, zone, offset) in [
            ("Sat Nov 21 22:47:35 UTC 2026", None, Some(0)),
            ("zzz ***Sat Nov 21 22:47:35 CST 2026", Some("CST"), None),
            ("Sat Nov 21 10:47:35 PM IST 2026", Some("IST"), None),
            ("Sat 21 Nov 2026 10:47:35 PM UTC", None, Some(0)),
            ("Sat Nov 21 22:47:35 2026", None, None),
            ("zzz <11/21/2026 22:47:35> Count:1", None, None),
            ("2026-11-21 22:47:35", None, None),
            ("2026-11-21 22:47:35 EST", Some("EST"), None),
            ("2026-11-22T04:17:35+05:30", None, Some(19_800)),
            ("2026-11-22 04:17:35 +0530", None, Some(19_800)),
            ("2026-11-21T22:47:35Z", None, Some(0)),
            ("=== 2026-11-21 22:47:35 ===", None, None),
            ("1795301255", None, Some(0)),
        ] {
            let stamp = LineTimestamp {
                at: Moment::from_seconds(THEN),
                offset,
                zone: zone.map(str::to_owned),
            };
            assert_eq!(LineTimestamp::parse(line), Some(stamp), "{line}");
        }
        let part = LineTimestamp::parse("2026-11-21T22:47:35.25Z").unwrap();
        assert_eq!(part.at, Moment(THEN * 1000 + 250));
        assert_eq!(
            LineTimestamp::parse("1795301255.250000001").unwrap().at,
            Moment(THEN * 1000 + 250)
        );
    }

    /// As `date` of coreutils 9.1 printed 2026-11-21 22:47:35 and 2026-03-17 14:05:09 in these
    /// languages, and what people have it print.
    #[test]
    fn stamps_of_many_languages_are_one_moment() {
        for (line, zone) in [
            ("Sa 21. Nov 22:47:35 CET 2026", Some("CET")),
            ("sam. 21 nov. 2026 22:47:35 CET", Some("CET")),
            ("sáb 21 nov 2026 22:47:35 CET", Some("CET")),
            ("sab 21 nov 2026, 22:47:35, CET", Some("CET")),
            ("2026年 11月 21日 土曜日 22:47:35 JST", Some("JST")),
            ("2026年 11月 21日 土曜日 22時47分35秒 JST", Some("JST")),
            ("2026. 11. 21. (토) 22:47:35 KST", Some("KST")),
            ("So 21. listopadu 2026, 22:47:35 CET", Some("CET")),
            ("lør 21 nov 22:47:35 CET 2026", Some("CET")),
            ("la 21.11.2026 22.47.35 EET", Some("EET")),
            ("2026. nov. 21., szombat, 22:47:35 CET", Some("CET")),
            ("sob, 21 lis 2026, 22:47:35 CET", Some("CET")),
            ("Сб 21 ноя 2026 22:47:35 MSK", Some("MSK")),
            ("субота, 21 листопада 2026 22:47:35 EET", Some("EET")),
            ("Cmt 21 Kas 2026 22:47:35 CET", Some("CET")),
            ("Sat 21 Nov 22:47:35 CET 2026", Some("CET")),
            ("21.11.2026 22:47:35", None),
            ("11/21/2026 22:47:35", None),
            ("21/11/2026 22:47:35", None),
            ("2026/11/21 22:47:35", None),
            ("20261121_224735", None),
            ("20261121224735", None),
            ("2026-11-21_22:47:35", None),
        ] {
            let stamp = LineTimestamp {
                at: Moment::from_seconds(THEN),
                offset: None,
                zone: zone.map(str::to_owned),
            };
            assert_eq!(LineTimestamp::parse(line), Some(stamp), "{line}");
        }
        // `date -u -d '2026-11-17 14:05:09' +%s`: Tuesdays are called as March is.
        for line in [
            "mar 17 nov 2026 14:05:09 CET",
            "mar. 17 nov. 2026 14:05:09 CET",
            "mar 17 nov 2026, 14:05:09, CET",
        ] {
            assert_eq!(
                LineTimestamp::parse(line).map(|stamp| stamp.at),
                Some(Moment::from_seconds(1_794_924_309)),
                "{line}"
            );
        }
    }

    #[test]
    fn what_is_no_stamp_is_none() {
        for line in [
            "",
            "zzz ***Warning. Traceroute response is spanning snapshot intervals.",
            "MemTotal:       24731272 kB",
            "pgfault 1795301255",
            "2026-11-21",
            "22:47:35",
            "Sat Nov 31 22:47:35 UTC 2026",
            "Sat Nov 21 25:47:35 UTC 2026",
            "17953012",
            "ven 20 nov",
            "20.11.2026",
            "the log of 20 Nov 2026 from 08:00:00 on",
            "2026-11-21 22:47:35 4711",
            "31.02.2026 08:00:00",
        ] {
            assert_eq!(LineTimestamp::parse(line), None, "{line}");
        }
    }

    #[test]
    fn the_first_stamp_decides_the_clock() {
        let lines = ["2026-11-21 22:47:35", "2026-11-21 22:47:36 +0100"];
        for (first, moments) in [(0, [THEN, THEN + 1]), (1, [THEN - 3599, THEN - 3600])] {
            let mut series =
                Series::new("log", crate::SourceFormat::Loop(crate::CollectedTool::Meminfo));
            let item = [lines[first], lines[1 - first]].map(|line| {
                let at = LineTimestamp::parse(line).unwrap().moment_on_clock(&mut series);
                series.push(at, None);
                at
            });
            assert_eq!(item, moments.map(Moment::from_seconds));
            let at = series.samples()[0].at;
            assert_eq!(series.clock.offset_at(at), (first == 1).then_some(3600));
        }
    }

    #[test]
    fn what_date_prints_here_is_now() {
        for arguments in
            [&[][..], &["-Iseconds"], &["+%s"], &["+%F %T %z"], &["--rfc-3339=seconds"]]
        {
            let output = Command::new("date")
                .args(arguments)
                .env("LC_ALL", "C")
                .env("TZ", "UTC")
                .output()
                .unwrap();
            let stamp = LineTimestamp::parse(&String::from_utf8(output.stdout).unwrap()).unwrap();
            let now = std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .unwrap()
                .as_millis();
            let now = i64::try_from(now).unwrap();
            assert!((now - 10_000..=now).contains(&stamp.at.0), "{arguments:?}");
        }
    }

    proptest! {
        #[test]
        fn a_moment_reads_back_as_date_prints_it(seconds in 1_000_000_000..2_524_608_000_i64) {
            let at = jiff::Timestamp::from_second(seconds).unwrap().to_zoned(jiff::tz::TimeZone::UTC);
            for format in ["%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S+00:00", "%a %b %e %H:%M:%S UTC \
                 %Y", "%s"] {
                let line = at.strftime(format).to_string();
                let read = LineTimestamp::parse(&line).map(|stamp| stamp.at);
                prop_assert_eq!(read, Some(Moment::from_seconds(seconds)), "{}", line);
            }
        }
    }
}
