//! A ring for other people's tools.

use std::io::{self, Write};
use std::path::Path;

use hugewise_record::ring::{Entry, read_in_order};
use hugewise_record::{Pool, Process, status};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::Span;

pub(super) fn refused(why: impl std::fmt::Display) -> io::Error {
    io::Error::other(why.to_string())
}

/// Writes everything that is in a ring of a stretch of time, a line of JSON each.
///
/// # Errors
/// The ring cannot be read, or the disk takes no more.
pub fn lines(ring: &Path, span: Span, out: &mut dyn Write) -> io::Result<()> {
    let file = status::open(ring)?;
    let mut failed = Ok(());
    read_in_order(&file, &mut |position, entry| {
        if failed.is_err() || !wall(&entry).is_none_or(|at| span.has(at)) {
            return;
        }
        let mut line = line(entry);
        if let Some(map) = line.as_object_mut() {
            map.insert("run".to_owned(), position.run.into());
        }
        failed = writeln!(out, "{line}");
    })
    .map_err(refused)?;
    failed?;
    out.flush()
}

/// When it was written; `None` of what holds for a whole run.
fn wall(entry: &Entry<'_>) -> Option<i64> {
    match entry {
        Entry::Sample(sample) => Some(sample.wall),
        Entry::About(_) => None,
        Entry::Processes(all) => Some(all.wall),
        Entry::Instances(all) => Some(all.wall),
        Entry::Event(event) => Some(event.wall),
    }
}

/// Whether a ring has a sample of a stretch of time.
///
/// # Errors
/// The ring cannot be read.
pub fn has_sample(ring: &Path, span: Span) -> io::Result<bool> {
    let mut found = false;
    let file = status::open(ring)?;
    read_in_order(&file, &mut |_, entry| found |= matches!(entry, Entry::Sample(sample) if span.has(sample.wall)))
        .map_err(refused)?;
    Ok(found)
}

fn time(milliseconds: i64) -> Option<String> {
    Timestamp::from_millisecond(milliseconds).ok().map(|time| time.to_string())
}

fn line(entry: Entry<'_>) -> Value {
    match entry {
        Entry::Sample(sample) => {
            let fields: serde_json::Map<_, _> =
                sample.fields().map(|(field, value)| (field.name().to_owned(), value.into())).collect();
            let pools: Vec<_> = sample.pools().iter().map(pool).collect();
            json!({ "kind": "sample", "time": time(sample.wall), "uptime_ms": sample.uptime, "fields": fields, "pools": pools })
        }
        Entry::About(about) => json!({
            "kind": "about", "time": time(about.began), "host": about.host, "kernel": about.kernel,
            "architecture": about.architecture, "boot": about.boot, "version": about.version, "base_page_bytes": about.base_page,
            "ticks_per_second": about.ticks, "utc_offset_seconds": about.offset, "interval_ms": about.interval_ms,
            "lacks": about.lacks,
        }),
        Entry::Processes(all) => json!({
            "kind": "processes", "time": time(all.wall), "interval_ms": all.interval_ms, "processes": all.processes,
            "blocked": all.blocked, "left_out": all.left_out, "page_tables_kib": all.page_tables_kib,
            "changed_most": all.listed().iter().map(process).collect::<Vec<_>>(),
        }),
        Entry::Instances(all) => {
            let instance = |one: &hugewise_record::Instance| {
                json!({
                    "name": one.name.text(), "processes": one.processes, "sessions": one.sessions,
                    "page_tables_kib": one.page_tables_kib,
                })
            };
            json!({
                "kind": "instances", "time": time(all.wall), "age_ms": all.age_ms,
                "instances": all.listed().iter().map(instance).collect::<Vec<_>>(),
            })
        }
        Entry::Event(event) => {
            json!({ "kind": "event", "time": time(event.wall), "event": event.kind.name(), "text": event.text() })
        }
    }
}

fn pool(pool: &Pool) -> Value {
    json!({
        "page_kib": pool.page_kib, "node": pool.node, "total": pool.total, "free": pool.free, "reserved": pool.reserved,
        "surplus": pool.surplus, "overcommit": pool.overcommit,
    })
}

fn process(process: &Process) -> Value {
    let wait = Some(process.wait.text()).filter(|wait| !wait.is_empty());
    let stack = Some(process.stack.text()).filter(|stack| !stack.is_empty());
    json!({
        "pid": process.pid, "state": char::from(process.state).to_string(), "command": process.command.text(),
        "system_ms": process.system_ms, "user_ms": process.user_ms, "page_tables_kib": process.page_tables_kib,
        "page_tables_grown_kib": process.page_tables_grown_kib, "resident_kib": process.resident_kib,
        "resident_grown_kib": process.resident_grown_kib, "waits_in": wait, "stack": stack,
    })
}
