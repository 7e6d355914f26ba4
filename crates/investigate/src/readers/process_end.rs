//! How processes ended, by whoever started them: shells, systemctl, Docker's tools and kubectl, each in
//! one line.
//!
//! Texts are those of bash 3 to 5 (jobs.c), systemd 219 to 257 (`systemctl status`), Docker 17 to 27
//! (`docker events`, `docker ps`, compose) and kubectl 1.10 to 1.34. Signal 9 is the kernel's for memory
//! or anybody's: a container's 137 is `docker kill` and a probe that failed as well.

use serde_json::Value;

use super::line_timestamp::LineTimestamp;
use crate::Moment;
use crate::event::{LogEvent, LogEventKind};

const LONGEST_NAME: usize = 64;

/// How a process ended, and when, if the line says so.
pub(super) struct ProcessEnd {
    pub(super) stamp: Option<LineTimestamp>,
    pub(super) event: LogEvent,
}

impl ProcessEnd {
    fn killed(stamp: Option<LineTimestamp>, who: &str, by: &str) -> Self {
        let who = shorten_name(who);
        let what = format!("{who} was killed (signal 9), as {by}: by somebody, or for memory");
        Self { stamp, event: LogEvent::new(LogEventKind::ServerKilled, what) }
    }

    fn for_memory(stamp: Option<LineTimestamp>, who: &str, by: &str) -> Self {
        let what = format!("a process of {} was killed for memory, as {by}", shorten_name(who));
        Self { stamp, event: LogEvent::new(LogEventKind::UnitKilled, what) }
    }
}

pub(super) fn parse_end_line(line: &str) -> Option<ProcessEnd> {
    parse_shell_line(line)
        .or_else(|| parse_docker_event(line))
        .or_else(|| parse_docker_event_object(line))
        .or_else(|| parse_container_list(line))
        .or_else(|| parse_compose_end(line))
        .or_else(|| parse_unit_state(line))
        .or_else(|| parse_pod_row(line))
        .or_else(|| parse_eviction(line))
}

fn shorten_name(name: &str) -> &str {
    name.get(..name.floor_char_boundary(LONGEST_NAME)).unwrap_or(name)
}

/// `/usr/bin/mysql_install_db: line 469:    35 Killed                  "$mysqld" ...` of a script,
/// `[1]+  Killed                  java -jar app.jar` of a terminal. bash fills the words up to 24.
fn parse_shell_line(line: &str) -> Option<ProcessEnd> {
    let at = line.find(" Killed  ")?;
    let (before, command) = (line.get(..at)?, line.get(at + " Killed  ".len()..)?);
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let command = command.trim_start();
    let program = command.split_ascii_whitespace().next()?.trim_matches('"');
    let of_script = before.rsplit_once(": line ").is_some_and(|(_, rest)| {
        rest.split_once(':').is_some_and(|(line, pid)| is_number(line) && is_number(pid.trim()))
    });
    let of_job = before.strip_prefix('[').and_then(|rest| rest.split_once(']')).is_some_and(
        |(job, rest)| {
            is_number(job)
                && rest.trim_start_matches(['+', '-']).split_ascii_whitespace().all(is_number)
        },
    );
    let name = program.rsplit('/').next().unwrap_or(program);
    (of_script || of_job).then(|| ProcessEnd::killed(None, name, "its shell says"))
}

/// `2019-05-04T18:05:45.011072877-05:00 container oom 29d72966e0be (..., name=db)`, and `die` with
/// `exitCode=137`.
fn parse_docker_event(line: &str) -> Option<ProcessEnd> {
    let (time, rest) = line.split_once(" container ")?;
    let (action, rest) = rest.split_once(' ')?;
    let stamp = LineTimestamp::parse_plain(time).filter(|_| time.contains('T'))?;
    let (id, attributes) = rest.split_once(" (").filter(|(id, _)| is_hexadecimal(id))?;
    let attributes = attributes.trim_end().strip_suffix(')').unwrap_or(attributes);
    let value_of = |name: &str| {
        let mut all = attributes.split(", ").filter_map(|pair| pair.split_once('='));
        all.find(|(key, _)| *key == name).map(|(_, value)| value)
    };
    let name = value_of("io.kubernetes.pod.name").or_else(|| value_of("name"));
    let name = name.unwrap_or_else(|| id.get(..12).unwrap_or(id));
    let who = format!("the container {}", shorten_name(name));
    match action {
        "oom" => Some(ProcessEnd::for_memory(Some(stamp), &who, "Docker says")),
        "die" if value_of("exitCode") == Some("137") => {
            Some(ProcessEnd::killed(Some(stamp), &who, "Docker says"))
        }
        _ => None,
    }
}

/// The same of `docker events --format '{{json .}}'`.
fn parse_docker_event_object(line: &str) -> Option<ProcessEnd> {
    if !line.starts_with('{') || !line.contains("\"Actor\"") {
        return None;
    }
    let members: serde_json::Map<String, Value> = serde_json::from_str(line).ok()?;
    let attributes = members.get("Actor")?.get("Attributes")?;
    let value_of = |name: &str| attributes.get(name)?.as_str();
    members.get("Type")?.as_str().filter(|kind| *kind == "container")?;
    let at = Moment::from_seconds(members.get("time")?.as_i64()?);
    let stamp = Some(LineTimestamp { at, offset: Some(0), zone: None });
    let who = format!("the container {}", shorten_name(value_of("name").unwrap_or("?")));
    match members.get("Action")?.as_str()? {
        "oom" => Some(ProcessEnd::for_memory(stamp, &who, "Docker says")),
        "die" if value_of("exitCode") == Some("137") => {
            Some(ProcessEnd::killed(stamp, &who, "Docker says"))
        }
        _ => None,
    }
}

fn is_hexadecimal(id: &str) -> bool {
    id.len() >= 12 && id.bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// `4f66ad9a0b2e   mysql:8   "docker-entrypoint.s…"   2 hours ago   Exited (137) 5 minutes ago   db`
fn parse_container_list(line: &str) -> Option<ProcessEnd> {
    let id = line.split_ascii_whitespace().next().filter(|id| is_hexadecimal(id))?;
    let (_, rest) = line.split_once(" Exited (137) ")?;
    let name = rest.split_ascii_whitespace().next_back().unwrap_or(id);
    let who = format!("the container {}", shorten_name(name));
    rest.contains(" ago").then(|| ProcessEnd::killed(None, &who, "Docker says"))
}

/// `db_1 exited with code 137` of docker compose.
fn parse_compose_end(line: &str) -> Option<ProcessEnd> {
    let (name, code) = line.trim().split_once(" exited with code ")?;
    let is_name = !name.is_empty()
        && name.len() <= LONGEST_NAME
        && name.bytes().all(|letter| letter.is_ascii_alphanumeric() || b"-_.".contains(&letter));
    let is_killed = code == "137" || code.starts_with("137 ");
    (is_name && is_killed)
        .then(|| ProcessEnd::killed(None, &format!("the container {name}"), "Docker says"))
}

/// `Active: failed (Result: oom-kill) since Mon 2021-06-07 08:12:13 UTC; 5min ago`; of a unit whose
/// process was killed, `Process: 1234 ExecStart=/usr/sbin/mysqld (code=killed, signal=KILL)`.
fn parse_unit_state(line: &str) -> Option<ProcessEnd> {
    let line = line.trim_start();
    if let Some((_, rest)) = line.split_once("(Result: oom-kill)")
        && line.starts_with("Active: ")
    {
        let time = rest.trim_start().strip_prefix("since ").unwrap_or(rest);
        let time = time.split(';').next().unwrap_or(time).trim();
        let stamp = LineTimestamp::parse(time).or_else(|| {
            // The day of the week comes first.
            LineTimestamp::parse(time.split_once(' ')?.1)
        });
        return Some(ProcessEnd::for_memory(stamp, "the unit", "systemd says"));
    }
    let begins = line.starts_with("Process: ") || line.starts_with("Main PID: ");
    let is_killed = line.contains("(code=killed, signal=KILL)");
    let command = line.split_once("ExecStart=").map_or("its main process", |(_, command)| command);
    let name = command.split(" (").next().unwrap_or(command).split(' ').next().unwrap_or(command);
    let name = if command.starts_with('/') { name } else { "a unit's main process" };
    (begins && is_killed).then(|| ProcessEnd::killed(None, name, "systemd says"))
}

/// `postgres-0   0/1   OOMKilled   5   10m`
fn parse_pod_row(line: &str) -> Option<ProcessEnd> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let at =
        words.iter().position(|word| *word == "OOMKilled").filter(|at| (2..=3).contains(at))?;
    let is_ready = words
        .get(at - 1)?
        .split_once('/')
        .is_some_and(|(ready, all)| [ready, all].iter().all(|text| text.parse::<u32>().is_ok()));
    let pod = format!("the pod {}", words.get(at - 2)?);
    is_ready.then(|| ProcessEnd::for_memory(None, &pod, "Kubernetes says (OOMKilled)"))
}

/// `Warning  Evicted  5m  kubelet  The node was low on resource: memory. Container postgres was
/// using 2000Mi, which exceeds its request of 0.`
fn parse_eviction(line: &str) -> Option<ProcessEnd> {
    let (before, rest) = line.split_once("The node was low on resource: memory")?;
    let is_event = before.contains("Evicted") || before.trim_start().starts_with("Message:");
    let container =
        rest.split_once("ontainer ").and_then(|(_, rest)| rest.split_once(" was using "));
    let who = container.map_or("a pod", |(name, _)| shorten_name(name));
    let what = format!("kubelet ended {who}: the node was low on memory");
    is_event.then(|| ProcessEnd {
        stamp: None,
        event: LogEvent::new(LogEventKind::UserspaceKill, what),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use LogEventKind::{ServerKilled, UnitKilled, UserspaceKill};

    #[test]
    fn each_tools_words_for_an_end_are_read() {
        for (line, kind, words) in [
            (
                "/usr/bin/mysql_install_db: line 469:    35 Killed                  \
                 \"$mysqld_bootstrap\" $defaults",
                ServerKilled,
                "$mysqld_bootstrap was killed",
            ),
            (
                "/opt/tomcat/bin/catalina.sh: line 434:  2824 Killed                  \
                 \"/usr/java/bin/java\" \"-Dx=y\"",
                ServerKilled,
                "java was killed (signal 9), as its shell says",
            ),
            ("[1]+  Killed                  java -jar app.jar", ServerKilled, "java was killed"),
            (
                "2019-05-04T18:05:45.011072877-05:00 container oom 29d72966e0beb17d (image=x, \
                 name=db)",
                UnitKilled,
                "a process of the container db was killed for memory, as Docker says",
            ),
            (
                "2021-03-04T10:00:00.000000000Z container die 29d72966e0be (exitCode=137, \
                 image=postgres:13, name=db)",
                ServerKilled,
                "the container db was killed (signal 9)",
            ),
            (
                r#"{"status":"oom","id":"29d7","Type":"container","Action":"oom","Actor":{"ID":"29d7","Attributes":{"name":"db"}},"time":1556}"#,
                UnitKilled,
                "the container db",
            ),
            (
                "4f66ad9a0b2e   mysql:8   \"docker-entry\"   2 hours ago   Exited (137) 5 minutes \
                 ago             db",
                ServerKilled,
                "the container db",
            ),
            ("db_1 exited with code 137", ServerKilled, "the container db_1 was killed"),
            (
                "     Active: failed (Result: oom-kill) since Mon 2021-06-07 08:12:13 UTC; 5min ago",
                UnitKilled,
                "a process of the unit was killed for memory, as systemd says",
            ),
            (
                "  Process: 1234 ExecStart=/usr/sbin/mysqld (code=killed, signal=KILL)",
                ServerKilled,
                "/usr/sbin/mysqld was killed",
            ),
            ("postgres-0   0/1     OOMKilled   5          10m", UnitKilled, "the pod postgres-0"),
            (
                "  Warning  Evicted  5m  kubelet, node1  The node was low on resource: memory. \
                 Container postgres was using 2000Mi, which exceeds its request of 0.",
                UserspaceKill,
                "kubelet ended postgres: the node was low on memory",
            ),
        ] {
            let end = parse_end_line(line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(end.event.kind, kind, "{line}");
            assert!(end.event.what.contains(words), "{line}: {}", end.event.what);
        }
        let active =
            "Active: failed (Result: oom-kill) since Mon 2021-06-07 08:12:13 UTC; 5min ago";
        // `date -u -d '2021-06-07 08:12:13' +%s`
        let stamp = parse_end_line(active).unwrap().stamp.unwrap();
        assert_eq!(stamp.at, Moment::from_seconds(1_623_053_533));
    }

    #[test]
    fn other_ends_and_other_words_are_none() {
        for line in [
            "Killed  x",
            "he said: [1]  Killed  by a friend",
            "x: line 12: 13 Terminated              sleep 5",
            "2021-03-04T10:00:00Z container die 29d72966e0be (exitCode=0, name=db)",
            "2021-03-04T10:00:00Z container kill 29d72966e0be (name=db, signal=9)",
            "4f66ad9a0b2e   mysql:8   \"x\"   2 hours ago   Exited (0) 5 minutes ago   db",
            "db_1 exited with code 1",
            "Active: active (running) since Mon 2021-06-07 08:12:13 UTC; 5min ago",
            "Process: 1234 ExecStart=/usr/sbin/mysqld (code=exited, status=1/FAILURE)",
            "OOMKilled is what pods are when 1/1",
            "The node was low on resource: memory",
        ] {
            assert!(parse_end_line(line).is_none(), "{line}");
        }
    }
}
