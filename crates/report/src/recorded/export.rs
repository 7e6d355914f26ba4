//! A ring for other people's tools.

use std::fs::{DirBuilder, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use hugewise_record::ring::{Entry, read_in_order};
use hugewise_record::{Pool, Process, Sample, status};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::oswatcher::{meminfo, vmstat};

fn refused(why: impl std::fmt::Display) -> io::Error {
    io::Error::other(why.to_string())
}

/// Writes a folder as OSWatcher does, which is made, readable by its owner alone.
///
/// # Errors
/// The ring cannot be read, or something has the folder's name, or the disk takes no more.
pub fn oswatcher(ring: &Path, folder: &Path) -> io::Result<()> {
    let file = status::open(ring)?;
    let make = |path: &Path| DirBuilder::new().mode(0o700).create(path);
    make(folder)?;
    let mut tools = ["meminfo", "vmstat"].map(|tool| Hours::new(folder, tool));
    for tool in &tools {
        make(&tool.folder)?;
    }
    let mut before: Option<(u64, Box<Sample>)> = None;
    let mut failed = Ok(());
    let mut host = String::new();
    let mut page = 4096;
    read_in_order(&file, &mut |position, entry| match entry {
        Entry::About(about) => {
            host.clone_from(&about.host);
            page = about.base_page;
        }
        Entry::Sample(sample) if failed.is_ok() => {
            let earlier = before.take().filter(|(run, _)| *run == position.run).map(|(_, sample)| sample);
            failed = write(&mut tools, &host, page, earlier.as_deref(), sample);
            before = Some((position.run, Box::new(sample.clone())));
        }
        _ => {}
    })
    .map_err(refused)?;
    failed?;
    tools.into_iter().try_for_each(Hours::finish)
}

fn write(tools: &mut [Hours; 2], host: &str, page: u64, before: Option<&Sample>, sample: &Sample) -> io::Result<()> {
    let Ok(at) = Timestamp::from_millisecond(sample.wall) else { return Ok(()) };
    let time = at.to_zoned(TimeZone::UTC);
    let hour = time.strftime("%y.%m.%d.%H00").to_string();
    let stamp = time.strftime("zzz ***%a %b %e %H:%M:%S UTC %Y").to_string();
    let [memory, table] = tools;
    let out = memory.hour(host, &hour)?;
    writeln!(out, "{stamp}")?;
    meminfo(sample, out)?;
    let out = table.hour(host, &hour)?;
    writeln!(out, "{stamp}")?;
    match before {
        Some(before) => vmstat(before, sample, page, out),
        None => Ok(()),
    }
}

/// The files of one tool, one an hour.
struct Hours {
    folder: PathBuf,
    tool: &'static str,
    open: Option<(String, BufWriter<File>)>,
}

impl Hours {
    fn new(folder: &Path, tool: &'static str) -> Self {
        Self { folder: folder.join(format!("osw{tool}")), tool, open: None }
    }

    fn hour(&mut self, host: &str, hour: &str) -> io::Result<&mut BufWriter<File>> {
        if self.open.as_ref().is_none_or(|(of, _)| of != hour) {
            self.close()?;
            let fit = |one: char| one.is_ascii_alphanumeric() || matches!(one, '.' | '-');
            let host: String = host.chars().map(|one| if fit(one) { one } else { '-' }).collect();
            let path = self.folder.join(format!("{host}_{}_{hour}.dat", self.tool));
            // A clock that went back leads to an hour that was there.
            let file = File::options().create(true).append(true).mode(0o600).open(path)?;
            let is_new = file.metadata()?.len() == 0;
            let mut out = BufWriter::new(file);
            if is_new {
                writeln!(out, "Linux OSWbb v8.0.1 {host}\nSNAP_INTERVAL 1")?;
            }
            self.open = Some((hour.to_owned(), out));
        }
        self.open.as_mut().map(|(_, out)| out).ok_or_else(|| refused("no file"))
    }

    fn close(&mut self) -> io::Result<()> {
        self.open.take().map_or(Ok(()), |(_, mut out)| out.flush())
    }

    fn finish(mut self) -> io::Result<()> {
        self.close()
    }
}

/// Writes everything that is in a ring, a line of JSON each.
///
/// # Errors
/// The ring cannot be read, or the disk takes no more.
pub fn lines(ring: &Path, out: &mut dyn Write) -> io::Result<()> {
    let file = status::open(ring)?;
    let mut failed = Ok(());
    read_in_order(&file, &mut |position, entry| {
        if failed.is_err() {
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
