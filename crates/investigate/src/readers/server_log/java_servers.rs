//! Logs of servers that run on a JVM: Elasticsearch, OpenSearch, Cassandra, Kafka, ZooKeeper.
//!
//! Texts are those of Elasticsearch 1 to 8 (JvmGcMonitorService.java, BootstrapChecks.java),
//! Cassandra 2.1 to 4 (GCInspector.java, FailureDetector.java) and ZooKeeper 3.4 to 3.8
//! (FileTxnLog.java).

use super::jvm::{long_pause_event, recognize_message};
use crate::event::{LogEvent, LogEventKind};
use crate::readers::line_timestamp::LineTimestamp;

/// Part of its time that a JVM spends in collections when its heap is as good as full.
const MOST_COLLECTING: f64 = 0.5;

pub(super) fn parse_java_line(line: &str) -> Option<(LineTimestamp, Option<LogEvent>)> {
    let (stamp, message) = parse_json_line(line)
        .or_else(|| parse_elasticsearch_line(line))
        .or_else(|| parse_cassandra_line(line))
        .or_else(|| parse_kafka_line(line))
        .or_else(|| parse_zookeeper_line(line))?;
    Some((stamp, parse_java_event(&message)))
}

/// `[2018-05-28T07:48:15,733][WARN ][o.e.m.j.JvmGcMonitorService] [node] text`; up to 2.4 with a blank
/// for the T, and other components.
fn parse_elasticsearch_line(line: &str) -> Option<(LineTimestamp, String)> {
    let (time, rest) = line.strip_prefix('[')?.split_once("][")?;
    let (level, rest) = rest.split_once("][")?;
    let (_, rest) = rest.split_once(']').filter(|_| is_level(level))?;
    let rest = rest.trim_start();
    // The node's name.
    let message = match rest.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
        Some((node, message)) if !node.contains(']') => message,
        _ => rest,
    };
    Some((LineTimestamp::parse(time)?, message.trim_start().to_owned()))
}

/// What Elasticsearch 7 and 8 write: an object a line.
fn parse_json_line(line: &str) -> Option<(LineTimestamp, String)> {
    if !line.starts_with('{') || !(line.contains("elasticsearch") || line.contains("opensearch")) {
        return None;
    }
    let members: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).ok()?;
    let first = |names: [&str; 2]| names.iter().find_map(|name| members.get(*name)?.as_str());
    let stamp = LineTimestamp::parse(first(["timestamp", "@timestamp"])?)?;
    first(["level", "log.level"]).filter(|level| is_level(level))?;
    Some((stamp, first(["message", "msg"])?.to_owned()))
}

/// `WARN  [Service Thread] 2018-05-28 07:48:15,733 GCInspector.java:284 - text`
fn parse_cassandra_line(line: &str) -> Option<(LineTimestamp, String)> {
    let (level, rest) = line.split_once(' ')?;
    let (_, rest) =
        rest.trim_start().strip_prefix('[').filter(|_| is_level(level))?.split_once("] ")?;
    let (place, message) = rest.split_once(" - ")?;
    let (time, place) = place.rsplit_once(' ')?;
    let is_place = place.split_once(".java:").is_some();
    Some((LineTimestamp::parse(time).filter(|_| is_place)?, message.to_owned()))
}

/// `[2018-05-28 07:48:15,733] WARN text (kafka.server.KafkaServer)`
fn parse_kafka_line(line: &str) -> Option<(LineTimestamp, String)> {
    let (time, rest) = line.strip_prefix('[')?.split_once("] ")?;
    let (level, message) = rest.split_once(' ').filter(|(level, _)| is_level(level))?;
    let is_kafkas = time.contains(',') && message.ends_with(')');
    let stamp = LineTimestamp::parse(time).filter(|_| level.len() > 3 && is_kafkas)?;
    Some((stamp, message.to_owned()))
}

/// `2018-05-28 07:48:15,733 [myid:1] - WARN  [SyncThread:1:FileTxnLog@334] - text`
fn parse_zookeeper_line(line: &str) -> Option<(LineTimestamp, String)> {
    let (time, rest) = line.split_once(" [myid:")?;
    let (_, rest) = rest.split_once("] - ")?;
    let (level, rest) = rest.split_once(' ')?;
    let (_, message) = rest.split_once("] - ").filter(|_| is_level(level))?;
    Some((LineTimestamp::parse(time)?, message.to_owned()))
}

fn is_level(word: &str) -> bool {
    matches!(word.trim_end(), "TRACE" | "DEBUG" | "INFO" | "WARN" | "ERROR" | "FATAL")
}

fn parse_java_event(message: &str) -> Option<LogEvent> {
    if message.starts_with("[gc]") {
        return parse_gc_monitor(message);
    }
    if let Some(rest) = message.split_once(" GC in ").map(|(_, rest)| rest)
        && let Some((milliseconds, _)) = rest.split_once("ms")
    {
        return long_pause_event("a collection", milliseconds.trim().parse().ok()?);
    }
    if let Some(rest) = message.strip_prefix("Not marking nodes down due to local pause of ") {
        // Nanoseconds, and milliseconds in later versions.
        let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        let pause: f64 = rest.get(..digits)?.parse().ok()?;
        let milliseconds = if rest.get(digits..)?.starts_with("ms") { pause } else { pause / 1e6 };
        return long_pause_event("a collection, or its host stood still", milliseconds);
    }
    if message.starts_with("fsync-ing the write ahead log in ") {
        let what = "ZooKeeper waited for its disk (fsync of its log)";
        return Some(LogEvent::new(LogEventKind::DiskWait, what));
    }
    if message.contains("bootstrap check") && message.contains(" failed") {
        let what = "Elasticsearch did not start: its checks of the host failed";
        return Some(LogEvent::new(LogEventKind::ServerRefused, what));
    }
    // Elasticsearch and OpenSearch; Cassandra.
    if message.starts_with("fatal error in thread [") && message.contains("exiting")
        || message.starts_with("JVM state determined to be unstable.")
    {
        let what = "a server in a JVM ended itself after an error that it cannot go on with";
        return Some(LogEvent::new(LogEventKind::ServerFailed, what));
    }
    if message.starts_with("Unable to lock JVM Memory") {
        let what = "a JVM could not lock its heap in memory (memlock)";
        return Some(LogEvent::new(LogEventKind::ServerTrouble, what));
    }
    if message == "started" {
        return Some(LogEvent::new(LogEventKind::ServerStarted, "Elasticsearch started"));
    }
    recognize_message(message)
}

/// `[gc][472] overhead, spent [2.6s] collecting in the last [3.2s]`, `[gc][old][472][3] duration
/// [12.5s], collections [1]/[13s], ...`
fn parse_gc_monitor(message: &str) -> Option<LogEvent> {
    let value_after = |words: &str| {
        let (value, _) = message.split_once(words)?.1.split_once(']')?;
        parse_seconds(value)
    };
    if let Some(spent) = value_after("overhead, spent [") {
        let whole = value_after("collecting in the last [")?;
        let what = "a JVM spent most of its time in garbage collection: its heap is full";
        let is_full = spent >= 1.0 && spent >= whole * MOST_COLLECTING;
        return is_full.then(|| LogEvent::new(LogEventKind::ServerTrouble, what));
    }
    long_pause_event("a collection", value_after("duration [")? * 1000.0)
}

/// `2.6s`, `790ms`, `1.2m`
fn parse_seconds(text: &str) -> Option<f64> {
    let unit = text.find(|letter: char| letter.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at_checked(unit)?;
    let factor = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    Some(number.parse::<f64>().ok().filter(|number| number.is_finite())? * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_servers_lines_are_read() {
        // `date -u -d '2018-05-28 07:48:15' +%s`
        let at = 1_527_493_695_733;
        let full = "a JVM spent most of its time in garbage collection: its heap is full";
        for (line, event) in [
            (
                "[2018-05-28T07:48:15,733][WARN ][o.e.m.j.JvmGcMonitorService] [ehTZyzV] [gc][472] \
                 overhead, spent [2.6s] collecting in the last [3.2s]",
                Some((LogEventKind::ServerTrouble, full)),
            ),
            (
                r#"{"type":"server","timestamp":"2018-05-28T07:48:15,733Z","level":"WARN","component":"o.e.m.j.JvmGcMonitorService","cluster.name":"elasticsearch","message":"[gc][472] overhead, spent [2.6s] collecting in the last [3.2s]"}"#,
                Some((LogEventKind::ServerTrouble, full)),
            ),
            (
                "[2018-05-28 07:48:15,733][WARN ][monitor.jvm              ] [node 1] \
                 [gc][old][472][3] duration [12.5s], collections [1]/[13s], total [12.5s]/[13m]",
                Some((LogEventKind::ServerTrouble, "a JVM stood still for 12.5 s: a collection")),
            ),
            (
                "WARN  [Service Thread] 2018-05-28 07:48:15,733 GCInspector.java:284 - G1 Old \
                 Generation GC in 12500ms.  G1 Eden Space: 1 -> 0;",
                Some((LogEventKind::ServerTrouble, "a JVM stood still for 12.5 s: a collection")),
            ),
            (
                "2018-05-28 07:48:15,733 [myid:1] - WARN  [SyncThread:1:FileTxnLog@334] - fsync-ing \
                 the write ahead log in SyncThread:1 took 12345ms which will adversely effect \
                 operation latency",
                Some((LogEventKind::DiskWait, "ZooKeeper waited for its disk (fsync of its log)")),
            ),
            (
                "[2018-05-28 07:48:15,733] INFO [KafkaServer id=0] started \
                 (kafka.server.KafkaServer)",
                None,
            ),
            // A young collection of a busy second.
            (
                "[2018-05-28T07:48:15,733][INFO ][o.e.m.j.JvmGcMonitorService] [ehTZyzV] [gc][472] \
                 overhead, spent [290ms] collecting in the last [1s]",
                None,
            ),
        ] {
            let (stamp, told) = parse_java_line(line).unwrap();
            let told = told.map(|event| (event.kind, event.what));
            assert_eq!(stamp.at.0, at, "{line}");
            assert_eq!(told, event.map(|(kind, what)| (kind, what.to_owned())), "{line}");
        }
        for line in [
            "[2018-05-28T07:48:15.733+0000][0.001s][info][gc] Using G1",
            "WARN  [main] hello",
            "2018-05-28 07:48:15,733 WARN hello",
        ] {
            assert_eq!(parse_java_line(line), None, "{line}");
        }
    }
}
