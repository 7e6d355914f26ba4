//! QEMU's messages, on standard error or in libvirt's log of a machine.
//!
//! A memory backend of huge pages has no other to fall back on, so QEMU either starts with it or ends. Of
//! success it says nothing, and without the command line a log does not tell whether huge pages were asked for.

use hugewise_model::{Bytes, Engine};

use crate::logs::{Excerpt, Format, LogReport, LogVerdict, amount, number_after};

pub(super) static FORMAT: Format = Format {
    marks: &["qemu-system-", "qemu-kvm: ", "starting up libvirt version", "for guest RAM", "failed to resize memfd"],
    hints: &["qemu"],
    read,
};

const FAILURES: &[&str] = &[
    "unable to map backing store for guest RAM",
    "can't open backing store",
    "failed to resize memfd",
    "unable to create backing store",
    "Insufficient free host memory pages available to allocate guest RAM",
    "can't preallocate guest RAM",
    "failed to create memfd",
];

fn read(excerpt: &Excerpt) -> Option<LogReport> {
    let lines: Vec<&str> = excerpt.lines().collect();
    let started = lines.iter().rposition(|line| line.contains("starting up libvirt version"));
    let lines = lines.get(started.unwrap_or(0)..).unwrap_or_default();
    let is_ours = |line: &&str| {
        line.contains("qemu-system-")
            || line.contains("qemu-kvm: ")
            || FAILURES.iter().any(|words| line.contains(words))
    };
    if started.is_none() && !lines.iter().any(is_ours) {
        return None;
    }
    let libvirt = started.is_some();
    let mut report = LogReport::new(Engine::Qemu, if libvirt { "libvirt machine log" } else { "qemu messages" });
    if libvirt {
        let stamp = lines.first().and_then(|line| line.split_once(": starting up"));
        report.started_at = stamp.map(|(stamp, _)| stamp.to_owned());
    }
    let failed = lines.iter().rposition(|line| FAILURES.iter().any(|words| line.contains(words)));
    let ended = lines.iter().rposition(|line| line.contains("terminating on signal"));
    let asked = lines.iter().rposition(|line| asks(line));
    match failed {
        // Messages alone have no start between them: one that ran since is another one.
        Some(at) if libvirt || ended.is_none_or(|ended| ended < at) => {
            let line = lines.get(at).copied().unwrap_or_default();
            report.error(line);
            report.decide(LogVerdict::Failed);
            report.needed_bytes = number_after(line, "failed to resize memfd to ").map(Bytes);
            report.needed_bytes =
                report.needed_bytes.or_else(|| asked.and_then(|asked| backends(lines.get(asked).copied()?)));
            if line.contains("Invalid argument") {
                report.reason = "the backend's size is not a multiple of its page size".into();
            } else if line.contains("No such file or directory") {
                report.reason = "mem-path names no folder".into();
            }
        }
        _ => {
            if let Some(line) = asked.and_then(|at| lines.get(at)) {
                report.evidence(line);
            }
            report.unknown("QEMU logs only failures; its mappings show the rest");
        }
    }
    Some(report)
}

fn asks(line: &str) -> bool {
    ["hugetlb=on", "\"hugetlb\":true", "hugepages", "-mem-path"].iter().any(|words| line.contains(words))
}

/// Bytes of the memory backends on a command line.
fn backends(line: &str) -> Option<Bytes> {
    let objects = line.split("-object ").skip(1).filter(|object| object.contains("memory-backend-"));
    let size = |object: &str| {
        let bytes = ["\"size\":", ",size="].iter().find_map(|key| {
            let text = object.get(object.find(key)? + key.len()..)?;
            amount(text)
        })?;
        asks(object).then_some(bytes)
    };
    let sizes: Vec<Bytes> = objects.filter_map(size).collect();
    (!sizes.is_empty()).then(|| sizes.into_iter().sum())
}
