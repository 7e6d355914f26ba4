//! What kubectl prints of kills for memory: events of a node (`get events`, `describe node`), and how
//! a container ended (`describe pod`, `get pod -o yaml` and `-o json`, `docker inspect`); and how other
//! tools say that a process ended, in one line ([`process_end`](super::process_end)).
//!
//! Texts are those of Kubernetes 1.10 to 1.34 (pkg/kubelet/oom, kubectl's describe), and the kernel's
//! own, which node-problem-detector passes on.

use std::io::Read;

use super::archive_format::{ArchiveFormat, Promise};
use super::line_timestamp::LineTimestamp;
use super::lines::{self, LONGEST_LINE};
use super::process_end::{ProcessEnd, parse_end_line};
use super::system_log;
use crate::event::{LogEvent, LogEventKind};
use crate::series::{Mark, MarkKind, UnplacedTimes};
use crate::{FileRefused, Moment, Series, SourceFormat};

const MOST_EVENTS: usize = 20_000;
/// Lines between a container's reason and the time of its end.
const NEAR: usize = 7;

/// Events and containers' ends.
pub static FORMAT: ArchiveFormat = ArchiveFormat {
    name: "kubernetes",
    called: "what kubectl, Docker or a shell says of an end",
    tools: &[],
    is_text: true,
    recognize: |text| Promise::likely_if(is_of_kubectl(text)),
    read: |file| read(file.stream, file.source, file.began).map(|series| vec![series]),
};

fn is_of_kubectl(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    text.lines().any(|line| {
        parse_event_line(line).is_some()
            || parse_end_line(line).is_some()
            || split_field(line).is_some_and(|field| {
                let is_kill = || system_log::parse_kernel_kill(field.1).is_some();
                end_of_field(field).is_some()
                    || (field.0 == "message" && text.contains("OOMKilling") && is_kill())
            })
    })
}

/// Reads what kubectl printed; `began` is when, as a person says.
///
/// # Errors
/// It cannot be read.
pub fn read(
    stream: &mut dyn Read,
    source: &str,
    began: Option<Moment>,
) -> Result<Series, FileRefused> {
    let series = Series::new(source, SourceFormat::SystemLog);
    let mut reader = KubectlReader { series, ..KubectlReader::default() };
    let end = lines::for_each_line(stream, LONGEST_LINE, |line| reader.push_line(line));
    let mut series = reader.into_series(began);
    end.note_problem(&mut series);
    if series.marks.is_empty() {
        return Err(FileRefused("says of no kill for memory".to_owned()));
    }
    Ok(series.finish())
}

#[derive(Default)]
struct KubectlReader {
    series: Series,
    line: usize,
    pod: Option<String>,
    /// Where and how a container's end was said to be, and when one ended.
    killed: Option<(usize, ContainerEnd)>,
    ended: Option<(usize, LineTimestamp)>,
    /// Where an event's reason was OOMKilling, and what the kernel said.
    oom_killing: Option<usize>,
    kill: Option<(usize, LogEvent)>,
    /// Where the last such end was told, and its place among the marks.
    told: Option<(usize, usize)>,
    untimed: Vec<LogEvent>,
}

impl KubectlReader {
    fn push_line(&mut self, line: &str) {
        self.line += 1;
        if let Some(event) = parse_event_line(line) {
            // Usually kubectl prints how long ago it was.
            let stamps = line.split_whitespace().filter(|word| word.contains('T'));
            let stamp = stamps.filter_map(LineTimestamp::parse).next();
            return self.push_event(stamp.as_ref(), event);
        }
        if let Some(ProcessEnd { stamp, event }) = parse_end_line(line) {
            return self.push_event(stamp.as_ref(), event);
        }
        match split_field(line) {
            Some(("name", name)) if line.starts_with("Name:") => self.pod = Some(name.to_owned()),
            Some(("reason", "OOMKilling")) => self.oom_killing = Some(self.line),
            Some(("message", said)) => {
                self.kill = system_log::parse_kernel_kill(said).map(|event| (self.line, event));
            }
            Some(("finished" | "finishedat", time)) => {
                self.ended = LineTimestamp::parse(time).map(|stamp| (self.line, stamp));
            }
            Some(field) => {
                if let Some(end) = end_of_field(field) {
                    self.note_end(end);
                }
            }
            None => {}
        }
        if let Some(((killed, end), (ended, stamp))) = self.killed.zip(self.ended.clone())
            && killed.abs_diff(ended) <= NEAR
        {
            (self.killed, self.ended) = (None, None);
            self.told = Some((self.line, self.series.marks.len()));
            let event = self.describe_end(end);
            self.push_event(Some(&stamp), event);
        }
        self.push_told_kill();
    }

    /// The reason, the message and the times of one event are near to each other, in any order.
    fn push_told_kill(&mut self) {
        let (Some(reason), Some((told, _)), Some((timed, stamp))) =
            (self.oom_killing, &self.kill, &self.ended)
        else {
            return;
        };
        if [*told, *timed].iter().any(|line| line.abs_diff(reason) > 2 * NEAR) {
            return;
        }
        let stamp = stamp.clone();
        (self.oom_killing, self.ended) = (None, None);
        if let Some((_, event)) = self.kill.take() {
            self.push_event(Some(&stamp), event);
        }
    }

    /// The reason and the exit code of one container are in lines near to each other.
    fn note_end(&mut self, end: ContainerEnd) {
        // Fields are sorted by their names: the time may stand between both.
        if let Some((line, place)) = self.told.take_if(|(line, _)| self.line - *line <= NEAR) {
            let event = self.describe_end(end);
            if end == ContainerEnd::ForMemory
                && let Some(mark) = self.series.marks.get_mut(place)
            {
                mark.kind = MarkKind::Event(event);
            }
            self.told = Some((line, place));
            return;
        }
        match self.killed {
            Some((at, before)) if self.line - at <= NEAR => {
                self.killed = Some((at, before.max(end)));
            }
            _ => {
                self.push_untimed_end();
                self.killed = Some((self.line, end));
            }
        }
    }

    fn describe_end(&self, end: ContainerEnd) -> LogEvent {
        let pod = self.pod.as_ref().map_or_else(String::new, |pod| format!(" of pod {pod}"));
        match end {
            ContainerEnd::Killed => {
                let what = format!(
                    "a container{pod} was killed (exit code 137): by somebody, by a probe, or for \
                     memory"
                );
                LogEvent::new(LogEventKind::ServerKilled, what)
            }
            ContainerEnd::ForMemory => {
                let what = format!(
                    "a container{pod} was killed for memory, as Kubernetes says (OOMKilled)"
                );
                LogEvent::new(LogEventKind::UnitKilled, what)
            }
        }
    }

    fn push_untimed_end(&mut self) {
        if let Some((_, end)) = self.killed.take() {
            let event = self.describe_end(end);
            self.push_event(None, event);
        }
    }

    fn push_event(&mut self, stamp: Option<&LineTimestamp>, event: LogEvent) {
        if self.series.marks.len() + self.untimed.len() >= MOST_EVENTS {
            return;
        }
        let Some(stamp) = stamp else { return self.untimed.push(event) };
        let at = stamp.moment_on_clock(&mut self.series);
        self.series.extend_coverage(at);
        self.series.marks.push(Mark { at, kind: MarkKind::Event(event) });
    }

    fn into_series(mut self, began: Option<Moment>) -> Series {
        self.push_untimed_end();
        let Self { mut series, untimed, .. } = self;
        if untimed.is_empty() {
            return series;
        }
        if !series.marks.is_empty() {
            series.add_problem(format!("{} events without times are left out", untimed.len()));
            return series;
        }
        let at = began.unwrap_or_default();
        series.extend_coverage(at);
        series.unplaced = began.is_none().then_some(UnplacedTimes::Untimed);
        let marks = untimed.into_iter().map(|event| Mark { at, kind: MarkKind::Event(event) });
        series.marks.extend(marks);
        series
    }
}

/// How a container ended, as far as one field says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ContainerEnd {
    Killed,
    ForMemory,
}

fn end_of_field(field: (&str, &str)) -> Option<ContainerEnd> {
    match field {
        ("reason", "OOMKilled") | ("oomkilled", "true") => Some(ContainerEnd::ForMemory),
        ("exitcode", "137") => Some(ContainerEnd::Killed),
        _ => None,
    }
}

/// `57m Warning SystemOOM node/db1 System OOM encountered, victim process: postgres, pid: 4711`,
/// `Warning OOMKilling 7m kernel-monitor Memory cgroup out of memory: Killed process ...`
fn parse_event_line(line: &str) -> Option<LogEvent> {
    let mut words = line.split_whitespace();
    match words.find(|word| matches!(*word, "SystemOOM" | "OOMKilling"))? {
        "SystemOOM" => {
            let (_, rest) = line.split_once("System OOM encountered")?;
            let victim = rest.split_once("victim process: ").map(|(_, victim)| victim.trim());
            let victim = victim.map_or("a process", |victim| victim.trim_end_matches(','));
            let what = format!("killed {victim}: the host was out of memory, as kubelet says");
            Some(LogEvent::new(LogEventKind::OutOfMemory, what))
        }
        _ => ["Memory cgroup out of memory: ", "Out of memory: "]
            .iter()
            .find_map(|begin| system_log::parse_kernel_kill(line.get(line.find(begin)?..)?)),
    }
}

/// Name and value of `  Reason:  OOMKilled`, `reason: OOMKilled` and `"reason": "OOMKilled",`.
fn split_field(line: &str) -> Option<(&'static str, &str)> {
    let (name, value) = line.split_once(':')?;
    let name = name.trim().trim_start_matches("- ").trim_matches('"');
    let known = [
        ("name", "name"),
        ("reason", "reason"),
        ("finished", "finished"),
        ("finishedat", "finishedat"),
        ("firsttimestamp", "finished"),
        ("lasttimestamp", "finished"),
        ("message", "message"),
        ("exit code", "exitcode"),
        ("exitcode", "exitcode"),
        ("oomkilled", "oomkilled"),
    ];
    let (_, name) = known.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
    Some((name, value.trim().trim_end_matches(',').trim_matches(['"', '\''])))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list_events(text: &str) -> Vec<(i64, LogEventKind, String)> {
        let series = read(&mut text.as_bytes(), "kubectl.txt", None).unwrap();
        series.events().map(|(at, event)| (at.0, event.kind, event.what.clone())).collect()
    }

    #[test]
    fn events_of_a_node_are_read() {
        let text = "LAST SEEN   TYPE      REASON       OBJECT       MESSAGE\n\
            57m         Warning   SystemOOM    node/db04    System OOM encountered, victim process: \
            postgres, pid: 967770\n\
            56m         Warning   OOMKilling   node/db04    Memory cgroup out of memory: Killed \
            process 967771 (postgres) total-vm:4300000kB, anon-rss:2048kB, file-rss:0kB, \
            shmem-rss:0kB, UID:999 pgtables:0kB oom_score_adj:979\n";
        let [system, group] = &list_events(text)[..] else { panic!() };
        assert_eq!(system.1, LogEventKind::OutOfMemory);
        assert!(system.2.starts_with("killed postgres, pid: 967770: the host"), "{}", system.2);
        assert_eq!(group.1, LogEventKind::CgroupOutOfMemory);
        assert!(
            group.2.starts_with("killed postgres (pid 967771, 2.0 MiB private)"),
            "{}",
            group.2
        );
        // Both of the kernel's lines in one, with a time, as Kubernetes 1.12 had them.
        let dated = "default Warning node3.164b 2020-11-27T19:01:27+08:00 OOMKilling Out of memory: \
                     Kill process 16711 (stress) score 205 or sacrifice child Killed process 16711 \
                     (stress) total-vm:1kB\n";
        // `date -u -d 2020-11-27T19:01:27+08:00 +%s`
        let [(at, kind, what)] = &list_events(dated)[..] else { panic!() };
        assert_eq!((*at, *kind), (1_606_474_887_000, LogEventKind::OutOfMemory));
        assert!(what.starts_with("killed stress (pid 16711)"), "{what}");
    }

    /// As an exporter of events writes them, and `kubectl get events -o yaml`.
    #[test]
    fn an_event_as_an_object_has_the_kernels_words() {
        let said = "Memory cgroup out of memory: Killed process 3504804 (kubectl) \
                    total-vm:753508kB, anon-rss:58776kB, file-rss:29400kB, shmem-rss:0kB";
        let json = format!(
            "{{\n\"reason\": \"OOMKilling\",\n\"message\": \"{said}\",\n\"source\": {{\n\
             \"component\": \"kernel-monitor\"\n}},\n\"lastTimestamp\": \
             \"2023-06-13T14:35:38Z\"\n}}\n"
        );
        let yaml = format!(
            "  lastTimestamp: \"2023-06-13T14:35:38Z\"\n  message: '{said}'\n  metadata:\n    \
             name: node1\n  reason: OOMKilling\n"
        );
        for text in [json, yaml] {
            assert!(is_of_kubectl(text.as_bytes()), "{text}");
            // `date -u -d 2023-06-13T14:35:38Z +%s`
            let [(at, kind, what)] = &list_events(&text)[..] else { panic!("{text}") };
            assert_eq!((*at, *kind), (1_686_666_938_000, LogEventKind::CgroupOutOfMemory));
            assert!(what.starts_with("killed kubectl (pid 3504804"), "{what}");
        }
    }

    #[test]
    fn a_container_that_was_killed_for_memory_is_an_event_of_its_end() {
        let describe = "Name:         pg-0\nContainers:\n  postgres:\n    State:          Running\n      \
            Started:      Fri, 15 Sep 2023 09:56:20 +0200\n    Last State:     Terminated\n      \
            Reason:       OOMKilled\n      Exit Code:    137\n      \
            Started:      Fri, 15 Sep 2023 09:50:14 +0200\n      \
            Finished:     Fri, 15 Sep 2023 09:56:17 +0200\n";
        let yaml = "    lastState:\n      terminated:\n        exitCode: 137\n        \
            finishedAt: \"2023-09-15T07:56:17Z\"\n        reason: OOMKilled\n        \
            startedAt: \"2023-09-15T07:50:14Z\"\n";
        let json = "\"terminated\": {\n\"exitCode\": 137,\n\"finishedAt\": \
            \"2023-09-15T07:56:17Z\",\n\"reason\": \"OOMKilled\",\n\"startedAt\": \
            \"2023-09-15T07:50:14Z\"\n}\n";
        for (text, of) in [(describe, " of pod pg-0"), (yaml, ""), (json, "")] {
            assert!(is_of_kubectl(text.as_bytes()), "{text}");
            // `date -u -d 2023-09-15T07:56:17Z +%s`
            let what =
                format!("a container{of} was killed for memory, as Kubernetes says (OOMKilled)");
            assert_eq!(
                list_events(text),
                [(1_694_764_577_000, LogEventKind::UnitKilled, what)],
                "{text}"
            );
        }
        let cut = "    Last State:     Terminated\n      Reason:       OOMKilled\n";
        let series = read(&mut cut.as_bytes(), "pod.txt", None).unwrap();
        assert_eq!((series.unplaced, series.marks.len()), (Some(UnplacedTimes::Untimed), 1));
        // A container that ended otherwise, and other words of kills.
        for other in ["Reason: Error\nFinished: x\n", "reason: OOMKilling\n", "OOMKilled\n"] {
            assert!(!is_of_kubectl(other.as_bytes()), "{other}");
        }
    }
}
