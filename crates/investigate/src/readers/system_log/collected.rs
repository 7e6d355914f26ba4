//! A log that hosts send their lines to: each host's lines are read by themselves.

use std::collections::BTreeMap;

use super::prefix::{LogLineTime, SystemLogLine};
use super::{
    LogSettings, SystemLogReader, is_boot_separator, is_kernel_headline, parse_journal_export,
};
use crate::gather::hosts::is_own_name;
use crate::readers::wrapped_log;
use crate::{FileRefused, Series};

/// Hosts of one log that are told apart.
const MOST_HOSTS: usize = 1024;

/// A warning on a terminal whose message comes in the next line: its time, and its host.
type Announcement = (LogLineTime, Option<String>);

pub(super) struct CollectedLog {
    source: String,
    settings: LogSettings,
    /// At least one.
    hosts: Vec<HostLog>,
    by_name: BTreeMap<String, usize>,
    /// Whose lines name no host, once there are several.
    nobody: Option<usize>,
    /// Whose the last line was.
    last: usize,
    announced: Option<Announcement>,
    /// The line before the first that has a time: whoever copies begins in the middle of a line.
    headline: Option<String>,
    begun: bool,
    /// Lines of hosts behind the last that there is room for.
    left_out: usize,
}

struct HostLog {
    name: Option<String>,
    reader: SystemLogReader,
    /// Whether a sender was seen as syslog names them: in a program's own log, the word behind the
    /// time is no host.
    has_sender: bool,
}

impl CollectedLog {
    pub(super) fn new(source: &str, settings: LogSettings) -> Self {
        let reader = SystemLogReader::new(source, settings);
        Self {
            source: source.to_owned(),
            settings,
            hosts: vec![HostLog { name: None, reader, has_sender: false }],
            by_name: BTreeMap::new(),
            nobody: None,
            last: 0,
            announced: None,
            headline: None,
            begun: false,
            left_out: 0,
        }
    }

    pub(super) fn parse_line(&mut self, line: &str) {
        if self.settings.bare {
            if let Some(host) = self.hosts.first_mut() {
                host.reader.push_untimed_line(line);
            }
            return;
        }
        if is_boot_separator(line) {
            if let Some(host) = self.hosts.get_mut(self.last) {
                host.reader.boot_ahead = host.reader.placed;
            }
            return;
        }
        if let Some(announcement) = SystemLogLine::parse_announcement(line) {
            let host = announcement.host.map(str::to_owned);
            self.announced = Some((announcement.when, host));
            return;
        }
        if let Some((when, host)) = self.announced.take_if(|_| !line.trim().is_empty()) {
            let announced =
                SystemLogLine { when, host: host.as_deref(), tag: "kernel", message: "" };
            if let Some((when, message)) = SystemLogLine::parse_announced(&announced, line) {
                let tag = "kernel";
                self.push_line(SystemLogLine { when, host: host.as_deref(), tag, message });
                return;
            }
        }
        if !line.starts_with('{') {
            match SystemLogLine::parse(line) {
                Some(line) => self.push_line(line),
                None if !self.begun => {
                    let line = line.trim_start();
                    self.headline = is_kernel_headline(line).then(|| line.to_owned());
                }
                None => {}
            }
        } else if let Some(exported) = parse_journal_export(line) {
            if let Some(line) = SystemLogLine::parse(&exported) {
                self.push_line(line);
            }
        } else if let Some((stamp, message)) = wrapped_log::unwrap_json_line(line)
            && let Some(line) = SystemLogLine::parse(&message)
        {
            self.push_line(line.dated_by(stamp));
        } else if let Some(line) = SystemLogLine::parse(line) {
            self.push_line(line);
        }
    }

    fn push_line(&mut self, line: SystemLogLine<'_>) {
        let room = self.hosts.get(self.last).map_or(0, |host| host.reader.room);
        let Some(at) = self.find_host(line.host) else {
            self.left_out += 1;
            return;
        };
        let Some(host) = self.hosts.get_mut(at) else { return };
        host.has_sender |= line.tag == "kernel" || line.tag.ends_with(']');
        host.reader.room = room;
        self.begun = true;
        host.reader.push_line(line, self.headline.take());
        self.last = at;
    }

    /// Whose a line is: of the host that it names; without a name, of the only one, or of nobody.
    fn find_host(&mut self, named: Option<&str>) -> Option<usize> {
        let Some(name) = named.filter(|name| is_own_name(name) && *name != "-") else {
            if self.hosts.len() == 1 {
                return Some(0);
            }
            if self.nobody.is_none() {
                self.nobody = self.add_host(None);
            }
            return self.nobody;
        };
        let is_last = |host: &&HostLog| host.name.as_deref() == Some(name);
        if self.hosts.get(self.last).is_some_and(|host| is_last(&host)) {
            return Some(self.last);
        }
        if let Some(at) = self.by_name.get(name) {
            return Some(*at);
        }
        let at = match self.hosts.first_mut().filter(|host| host.name.is_none()) {
            Some(first) => {
                first.name = Some(name.to_owned());
                0
            }
            None => self.add_host(Some(name))?,
        };
        self.by_name.insert(name.to_owned(), at);
        Some(at)
    }

    fn add_host(&mut self, name: Option<&str>) -> Option<usize> {
        if self.hosts.len() >= MOST_HOSTS {
            return None;
        }
        let mut reader = SystemLogReader::new(&self.source, self.settings);
        // Lines of one file are of the same years.
        if let Some(last) = self.hosts.get(self.last) {
            reader.timeline.enter_year_of(&last.reader.timeline);
        }
        let name = name.map(str::to_owned);
        self.hosts.push(HostLog { name, reader, has_sender: false });
        Some(self.hosts.len() - 1)
    }

    pub(super) fn into_series(self) -> Result<Vec<Series>, FileRefused> {
        let first_year = self.hosts.iter().find_map(|host| host.reader.first_year);
        let only = self.hosts.len() == 1;
        let mut refused = None;
        let mut all = Vec::new();
        for mut host in self.hosts {
            if !only && !host.has_sender && host.reader.series.marks.is_empty() {
                continue;
            }
            host.reader.series.host = host.name.or(host.reader.series.host);
            match host.reader.into_series(first_year) {
                Ok(series) => all.push(series),
                Err(why) => refused = Some(why),
            }
        }
        if let Some(series) = all.last_mut().filter(|_| self.left_out > 0) {
            let left_out = self.left_out;
            series.add_problem(format!(
                "has lines of more than {MOST_HOSTS} hosts; {left_out} lines are left out"
            ));
        }
        match refused {
            Some(why) if all.is_empty() => Err(why),
            _ => Ok(all),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    const KILL: &str = "Out of memory: Killed process 7 (mysqld) total-vm:1kB, anon-rss:1kB, \
         file-rss:0kB, shmem-rss:0kB";

    fn count_events_by_host(text: &str) -> Vec<(Option<String>, usize)> {
        let mut log = CollectedLog::new("messages", LogSettings::default());
        text.lines().for_each(|line| log.parse_line(line));
        let all = log.into_series().unwrap();
        all.iter().map(|series| (series.host.clone(), series.events().count())).collect()
    }

    /// rsyslog's and journald's central file: each line names its host.
    #[test]
    fn lines_of_a_collected_log_are_of_the_host_that_they_name() {
        let on =
            |host: &str, rest: &str| format!("2026-11-21T22:47:35+00:00 {host} kernel: {rest}\n");
        let json = |host: &str, rest: &str| {
            format!(
                "{{\"__REALTIME_TIMESTAMP\":\"1795301255000000\",\"_HOSTNAME\":\"{host}\",\
                 \"SYSLOG_IDENTIFIER\":\"kernel\",\"MESSAGE\":\"{rest}\"}}\n"
            )
        };
        for line_of in [&on as &dyn Fn(&str, &str) -> String, &json] {
            let text = line_of("db1", "x") + &line_of("db2", KILL) + &line_of("db1", "y");
            let found = count_events_by_host(&text);
            assert_eq!(found, [(Some("db1".into()), 0), (Some("db2".into()), 1)], "{text}");
        }
        // Before it has a name, a host is called localhost.
        let text = on("localhost", KILL) + &on("db1", "x") + &on("localhost", KILL);
        assert_eq!(count_events_by_host(&text), [(Some("db1".into()), 2)]);
        let text = on("db1", "x") + &on("db2", "x") + &on("localhost", KILL);
        let nobody = (Some("localhost".into()), 1);
        assert_eq!(count_events_by_host(&text)[2], nobody);
    }

    /// Docker's json-file around the kernel's own line: the day is the runtime's.
    #[test]
    fn a_kernels_line_in_json_has_the_time_of_whoever_wrapped_it() {
        let line = format!(
            "{{\"log\":\"[ 1000.100000] {KILL}\\n\",\"stream\":\"stdout\",\
             \"time\":\"2026-11-21T22:47:35.1Z\"}}\n"
        );
        let mut log = CollectedLog::new("x-json.log", LogSettings::default());
        log.parse_line(line.trim_end());
        let series = log.into_series().unwrap().remove(0);
        // `date -u -d '2026-11-21 22:47:35' +%s`
        let moments: Vec<i64> = series.events().map(|(at, _)| at.0).collect();
        assert_eq!((moments, series.relayed), (vec![1_795_301_255_100], true));
    }

    /// Words that programs write behind a time in a log of their own.
    #[test]
    fn a_word_that_is_no_host_is_none() {
        let text = "Nov 21 22:47:35 db1 kernel: x\n2026-11-21T22:47:36Z INFO worker: started\n";
        assert_eq!(count_events_by_host(text), [(Some("db1".into()), 0)]);
    }
}
