//! Programs that kill before memory is exhausted, and what systemd says of units that lost a
//! process: systemd-oomd since systemd 247 (`Marked` for `Killed` since 258), earlyoom since 1.0,
//! oomd.

use crate::event::{LogEvent, LogEventKind};

/// The event in the line of a service with this tag, `systemd-oomd[581]`.
pub(super) fn parse_service_kill(tag: &str, message: &str) -> Option<LogEvent> {
    let said = |kind, what: String| Some(LogEvent::new(kind, what));
    match tag.split('[').next().unwrap_or_default() {
        "systemd-oomd" => {
            if let Some(rest) = message.strip_prefix("oomd attempting to kill ") {
                let pid = rest.split_once(" with KILL")?.0;
                return said(LogEventKind::UserspaceKill, format!("systemd-oomd killed pid {pid}"));
            }
            let told = message
                .strip_prefix("Killed ")
                .and_then(|rest| rest.split_once(" due to "))
                .or_else(|| message.strip_prefix("Marked ")?.split_once(" for killing due to "));
            let (group, why) = told?;
            let why = describe_reason(why);
            said(LogEventKind::UserspaceKill, format!("systemd-oomd killed {group}: {why}"))
        }
        // Before 1.1, where it was told to leave the choice to the kernel (-k).
        "earlyoom" if message.starts_with("Invoking oom killer") => {
            let what = "earlyoom had the kernel kill a process: memory was low";
            said(LogEventKind::UserspaceKill, what.to_owned())
        }
        "earlyoom"
            if message.starts_with("Killing process ") && message.contains(" with signal ") =>
        {
            let name = message.split('\'').nth(1).unwrap_or("?");
            let what = format!("earlyoom sent a signal to {name}: memory was low");
            said(LogEventKind::UserspaceKill, what)
        }
        "earlyoom" => {
            let (signal, rest) = message.strip_prefix("sending ")?.split_once(" to process ")?;
            let pid = rest.split(' ').next().unwrap_or_default();
            let name = rest.split('"').nth(1).unwrap_or("?");
            let size = super::oom::word_after(rest, "VmRSS ")
                .map_or_else(String::new, |size| format!(", {size} MiB"));
            said(
                LogEventKind::UserspaceKill,
                format!("earlyoom sent {signal} to {name} (pid {pid}{size}): memory was low"),
            )
        }
        "oomd" => parse_oomd_kill(message),
        "kubelet" => {
            let is_told = ["ust evict pod(s) to reclaim memory", "attempting to reclaim memory"]
                .iter()
                .any(|words| message.contains(words))
                || message.contains("resourceName=\"memory\"")
                    && message.contains("viction manager: ");
            let what = "kubelet began to put pods out: the node was low on memory";
            is_told.then(|| LogEvent::new(LogEventKind::UserspaceKill, what))
        }
        "systemd" => parse_unit_kill(message),
        _ => None,
    }
}

/// `mem avail:    19 of   950 MiB ( 2.10%), swap free:  153 of 1023 MiB (15.03%)` of earlyoom.
pub(super) fn parse_available_share<'a>(tag: &str, message: &'a str) -> Option<&'a str> {
    let rest = message.strip_prefix("mem avail:").filter(|_| tag.starts_with("earlyoom"))?;
    let share = rest.split_once('(')?.1.split_once('%')?.0.trim();
    share.parse::<f64>().ok().map(|_| share)
}

/// `oomd kill: 12.34 ... system.slice/batch.service 4096 ruleset:[...]`, also in the kernel's log.
pub(super) fn parse_oomd_kill(message: &str) -> Option<LogEvent> {
    // Three pressures come first: more than a process can put into its name.
    let mut words = message.strip_prefix("oomd kill: ")?.split_ascii_whitespace();
    for _ in 0..3 {
        words.next()?.parse::<f64>().ok()?;
    }
    let group = words.next()?;
    Some(LogEvent::new(LogEventKind::UserspaceKill, format!("oomd killed {group}")))
}

/// `memory pressure for /a.slice being 86.80% > 80.00% for > 20s with reclaim activity`, and
/// `memory used (1) / total (2) and swap used (3) / total (4) being more than 90.00%`.
fn describe_reason(why: &str) -> String {
    if let Some((_, rest)) = why.strip_prefix("memory pressure for ").and_then(|rest| {
        let (group, rest) = rest.split_once(" being ")?;
        Some((group, rest))
    }) && let Some((pressure, _)) = rest.split_once('%')
    {
        return format!("its tasks waited for memory in {pressure} % of the time");
    }
    match why.rsplit_once("being more than ") {
        Some((_, limit)) => {
            let limit = limit.trim_end_matches(['.', '%']);
            format!("more than {limit} % of memory and of swap was used")
        }
        None => why.trim_end_matches('.').to_owned(),
    }
}

fn parse_unit_kill(message: &str) -> Option<LogEvent> {
    let (unit, what) = message.split_once(": ")?;
    if unit.contains(' ') {
        return None;
    }
    if let Some(signal) = what.strip_prefix("Main process exited, code=") {
        return parse_server_end(unit, signal);
    }
    if let Some(rest) = what.strip_prefix("systemd-oomd killed ")
        && rest.contains(" process(es) in this unit")
    {
        return Some(LogEvent::new(
            LogEventKind::UserspaceKill,
            format!("systemd-oomd killed processes of {unit} before memory was exhausted"),
        ));
    }
    let killed = [
        "A process of this unit has been killed by the OOM killer",
        "The kernel OOM killer killed some processes in this unit",
        "Failed with result 'oom-kill'",
    ];
    if !killed.iter().any(|words| what.starts_with(words)) {
        return None;
    }
    Some(LogEvent::new(
        LogEventKind::UnitKilled,
        format!("a process of {unit} was killed for memory, as systemd says"),
    ))
}

/// How units of database servers are called, as packages and their instances name them.
const SERVERS: &[&str] = &[
    "postgres",
    "mysql",
    "mariadb",
    "mongo",
    "redis",
    "valkey",
    "oracle",
    "elasticsearch",
    "opensearch",
    "cassandra",
    "kafka",
    "clickhouse",
    "edb-as",
];

/// `killed, status=9/KILL` and `dumped, status=6/ABRT` of a server's unit. SIGTERM is an order.
fn parse_server_end(unit: &str, signal: &str) -> Option<LogEvent> {
    let (_, signal) =
        signal.split_once(", status=").filter(|(code, _)| matches!(*code, "killed" | "dumped"))?;
    let signal = signal.trim_end();
    let is_server = SERVERS.iter().any(|name| unit.starts_with(name));
    let is_order = matches!(signal, "15/TERM" | "2/INT" | "1/HUP");
    (is_server && !is_order).then(|| {
        let what = format!("{unit} was ended by a signal ({signal}), as systemd says");
        LogEvent::new(LogEventKind::ServerFailed, what)
    })
}
