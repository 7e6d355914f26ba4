//! What the name of an OSWatcher or ExaWatcher file tells: the host and the hour.

use super::super::line_timestamp::LineTimestamp;
use crate::Moment;
use hugewise_model::calendar::{midnight_seconds, time_of_day};

const HOUR: i64 = 3600;
/// What can stand behind a stamp, before seconds.
pub(super) const INTERVAL: &str = " Sample interval:";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OsWatcherFileName {
    pub(super) host: Option<String>,
    /// The beginning of its hour by the wall clock, in seconds since 1970.
    hour: Option<i64>,
}

impl OsWatcherFileName {
    /// `db1_vmstat_26.11.21.2300.dat.gz`,
    /// `2015_01_19_03_04_58_VmstatExaWatcher_db1.example.com.dat.bz2`. The host can hold dots and
    /// underscores.
    pub(super) fn from_path(path: &str) -> Self {
        let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
        let Some((name, _)) = name.split_once(".dat") else { return Self::default() };
        if let Some((before, host)) = name.split_once("ExaWatcher_") {
            let parts: Vec<i64> = before.split('_').map_while(|part| part.parse().ok()).collect();
            let hour = match parts.as_slice() {
                &[year, month, day, hour @ 0..=23, ..] => {
                    midnight_seconds(year, month, day).map(|day| day + hour * HOUR)
                }
                _ => None,
            };
            return Self { host: Some(host.to_owned()).filter(|host| !host.is_empty()), hour };
        }
        let mut parts = name.rsplitn(3, '_');
        let (date, _, host) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
        let hour = parse_name_hour(date);
        Self {
            host: host.filter(|host| hour.is_some() && !host.is_empty()).map(str::to_owned),
            hour,
        }
    }

    /// In an unknown language the day is the name's, and only the time the line's.
    pub(super) fn parse_stamp(&self, line: &str) -> Option<LineTimestamp> {
        let line = line.split_once(INTERVAL).map_or(line, |(line, _)| line);
        let by_name = || {
            let words = line.strip_prefix("zzz ***")?.split_ascii_whitespace();
            let hour = self.hour?;
            let time = words.into_iter().find_map(time_of_day)?;
            // Of the two halves of the day, the name's. A late snapshot goes to the file of its
            // start.
            let of_day = hour.rem_euclid(24 * HOUR) / HOUR;
            let said = time / HOUR;
            let passed = [said, said + 12]
                .into_iter()
                .map(|hour| (hour - of_day).rem_euclid(24))
                .find(|hour| *hour <= 1)?;
            let at = Moment::from_seconds(hour + passed * HOUR + time % HOUR);
            Some(LineTimestamp { at, offset: None, zone: None })
        };
        // Some languages leave out the half of the day.
        LineTimestamp::parse_plain(line).or_else(by_name).or_else(|| LineTimestamp::parse(line))
    }
}

/// `26.11.21.2300`, or `11.21.26.2300` before OSWatcher 2.1.
fn parse_name_hour(date: &str) -> Option<i64> {
    let parts: Vec<i64> = date.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let &[one, two, three, time] = parts.as_slice() else { return None };
    let hour = Some(time / 100).filter(|hour| (0..24).contains(hour))?;
    let year_first = midnight_seconds(one.saturating_add(2000), two, three);
    let month_first = midnight_seconds(three.saturating_add(2000), one, two);
    // Archives of before 2013 with the year first have stamps in English.
    let day = if one > 12 { year_first } else { month_first.or(year_first) };
    day.map(|day| day + hour * HOUR)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `date -u -d '2026-11-21 23:00' +%s`
    const ELEVEN: i64 = 1_795_302_000;

    #[test]
    fn names_are_split_from_the_right() {
        for (path, host, hour) in [
            ("oswvmstat/db1_vmstat_26.11.21.2300.dat", Some("db1"), Some(ELEVEN)),
            ("a_b.example.com_meminfo_26.11.21.2300.dat.gz", Some("a_b.example.com"), Some(ELEVEN)),
            ("/x/db1_top_11.21.26.2300.dat", Some("db1"), Some(ELEVEN)),
            (
                "Vmstat.ExaWatcher/2026_11_21_23_04_58_VmstatExaWatcher_db1.example.com.dat.bz2",
                Some("db1.example.com"),
                Some(ELEVEN),
            ),
            ("vmstat.log", None, None),
            ("db1_vmstat_x.dat", None, None),
            (
                "db1_vmstat_9223372036854775807.1.9223372036854775807.9223372036854775807.dat",
                None,
                None,
            ),
            (
                "9223372036854775807_1_9223372036854775807_5_VmstatExaWatcher_db1.dat",
                Some("db1"),
                None,
            ),
        ] {
            let named = OsWatcherFileName::from_path(path);
            assert_eq!((named.host.as_deref(), named.hour), (host, hour), "{path}");
        }
    }

    #[test]
    fn a_stamp_in_another_language_is_of_the_names_hour() {
        let named = OsWatcherFileName::from_path("db1_meminfo_26.11.21.2300.dat");
        let at = |line: &str| named.parse_stamp(line).map(|stamp| stamp.at.0 / 1000 - ELEVEN);
        assert_eq!(at("zzz ***Sa 21. Nov 23:01:30 CET 2026"), Some(90));
        assert_eq!(at("zzz ***2026\u{5e74} 11\u{6708} 21\u{65e5} 11:01:30 CST"), Some(90));
        assert_eq!(at("zzz ***So 22. Nov 00:00:05 CET 2026"), Some(3605));
        assert_eq!(at("zzz ***Sa 21. Nov 17:01:30 CET 2026"), Some(90 - 6 * 3600));
        assert_eq!(at("zzz ***Warning. Traceroute response is spanning snapshot intervals."), None);
        assert_eq!(at("23:01:30"), None);
        assert_eq!(at("zzz ***Sat Nov 21 23:01:30 UTC 2026 Sample interval: 5 secconds"), Some(90));
        assert_eq!(at("zzz ***Sat Nov 21 23:01:30 UTC 2026"), Some(90));
    }
}
