//! The recorder's samples for other tools.

use std::io::{self, Write};
use std::path::Path;

use hugewise_model::calendar;
use hugewise_record::ring::{RingEntry, read_in_order};
use hugewise_record::{RecordedPool, RecordedProcess, status};
use serde_json::{Value, json};

use super::ExportSpan;

pub(super) fn export_error(why: impl std::fmt::Display) -> io::Error {
    io::Error::other(why.to_string())
}

/// Writes a ring's entries of a time span, a line of JSON each.
///
/// # Errors
/// Where the ring cannot be read, or the disk is full.
pub fn export_json_lines(ring: &Path, span: ExportSpan, out: &mut dyn Write) -> io::Result<()> {
    let file = status::open_ring(ring)?;
    let mut failed = Ok(());
    read_in_order(&file, &mut |position, entry| {
        if failed.is_err() || !entry_wall_time(&entry).is_none_or(|at| span.contains_moment(at)) {
            return;
        }
        let mut line = entry_to_json(entry);
        if let Some(map) = line.as_object_mut() {
            map.insert("run".to_owned(), position.run.into());
        }
        failed = writeln!(out, "{line}");
    })
    .map_err(export_error)?;
    failed?;
    out.flush()
}

/// `None` for what holds for a whole run.
fn entry_wall_time(entry: &RingEntry<'_>) -> Option<i64> {
    match entry {
        RingEntry::Sample(sample) => Some(sample.wall),
        RingEntry::About(_) => None,
        RingEntry::Processes(all) => Some(all.wall),
        RingEntry::Instances(all) => Some(all.wall),
        RingEntry::Event(event) => Some(event.wall),
    }
}

/// Whether a ring has a sample of a time span.
///
/// # Errors
/// Where the ring cannot be read.
pub fn has_sample(ring: &Path, span: ExportSpan) -> io::Result<bool> {
    let mut found = false;
    let file = status::open_ring(ring)?;
    read_in_order(&file, &mut |_, entry| {
        found |= matches!(entry, RingEntry::Sample(sample) if span.contains_moment(sample.wall))
    })
    .map_err(export_error)?;
    Ok(found)
}

fn format_millis(milliseconds: i64) -> Option<String> {
    calendar::format_with_offset(milliseconds, None)
}

fn entry_to_json(entry: RingEntry<'_>) -> Value {
    match entry {
        RingEntry::Sample(sample) => {
            let fields: serde_json::Map<_, _> = sample
                .known_fields()
                .map(|(field, value)| (field.name().to_owned(), value.into()))
                .collect();
            let pools: Vec<_> = sample.pools().iter().map(pool_to_json).collect();
            json!({ "kind": "sample", "time": format_millis(sample.wall), "uptime_ms": sample.uptime, "fields": fields, "pools": pools })
        }
        RingEntry::About(about) => json!({
            "kind": "about", "time": format_millis(about.began), "host": about.host, "kernel": about.kernel,
            "architecture": about.architecture, "boot": about.boot, "version": about.version, "base_page_bytes": about.base_page,
            "ticks_per_second": about.ticks, "utc_offset_seconds": about.offset, "interval_ms": about.interval_ms,
            "lacks": about.lacks,
        }),
        RingEntry::Processes(all) => json!({
            "kind": "processes", "time": format_millis(all.wall), "interval_ms": all.interval_ms, "processes": all.processes,
            "blocked": all.blocked, "left_out": all.left_out, "page_tables_kib": all.page_tables_kib,
            "changed_most": all.listed_processes().iter().map(process_to_json).collect::<Vec<_>>(),
        }),
        RingEntry::Instances(all) => {
            let instance = |one: &hugewise_record::RecordedInstance| {
                json!({
                    "name": one.name.to_text(), "processes": one.processes, "sessions": one.sessions,
                    "page_tables_kib": one.page_tables_kib,
                })
            };
            json!({
                "kind": "instances", "time": format_millis(all.wall), "age_ms": all.age_ms,
                "instances": all.listed_instances().iter().map(instance).collect::<Vec<_>>(),
            })
        }
        RingEntry::Event(event) => {
            json!({ "kind": "event", "time": format_millis(event.wall), "event": event.kind.name(), "text": event.to_text() })
        }
    }
}

fn pool_to_json(pool: &RecordedPool) -> Value {
    json!({
        "page_kib": pool.page_kib, "node": pool.node, "total": pool.total, "free": pool.free, "reserved": pool.reserved,
        "surplus": pool.surplus, "overcommit": pool.overcommit,
    })
}

fn process_to_json(process: &RecordedProcess) -> Value {
    let wait = Some(process.wait.to_text()).filter(|wait| !wait.is_empty());
    let stack = Some(process.stack.to_text()).filter(|stack| !stack.is_empty());
    json!({
        "pid": process.pid, "state": char::from(process.state).to_string(), "command": process.command.to_text(),
        "system_ms": process.system_ms, "user_ms": process.user_ms, "page_tables_kib": process.page_tables_kib,
        "page_tables_grown_kib": process.page_tables_grown_kib, "resident_kib": process.resident_kib,
        "resident_grown_kib": process.resident_grown_kib, "waits_in": wait, "stack": stack,
    })
}
