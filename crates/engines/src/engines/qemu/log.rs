//! QEMU's messages, on standard error or in libvirt's log of a machine.
//!
//! A memory backend of huge pages has no fallback: QEMU starts with it or ends. It does not log
//! success, and without the command line a log does not tell whether huge pages were asked for.

use hugewise_model::{Bytes, Engine};

use super::meanings::MEANINGS;
use crate::shared::logs::{
    Excerpt, LogReport, LogVerdict, ServerLogFormat, number_after, parse_amount,
    tells_refused_start,
};

pub(super) static FORMAT: ServerLogFormat = ServerLogFormat {
    marks: &[
        "qemu-system-",
        "qemu-kvm: ",
        "starting up libvirt version",
        "for guest RAM",
        "failed to resize memfd",
    ],
    hints: &["qemu"],
    read,
    read_paste: |_| None,
};

fn is_refusal(line: &str) -> bool {
    tells_refused_start(MEANINGS, line)
}

fn read(excerpt: &Excerpt) -> Option<LogReport> {
    let lines: Vec<&str> = excerpt.complete_lines().collect();
    let started = lines.iter().rposition(|line| line.contains("starting up libvirt version"));
    let lines = lines.get(started.unwrap_or(0)..).unwrap_or_default();
    let is_ours = |line: &&str| {
        line.contains("qemu-system-") || line.contains("qemu-kvm: ") || is_refusal(line)
    };
    if started.is_none() && !lines.iter().any(is_ours) {
        return None;
    }
    let libvirt = started.is_some();
    let mut report =
        LogReport::new(Engine::Qemu, if libvirt { "libvirt machine log" } else { "qemu messages" });
    if libvirt {
        let stamp = lines.first().and_then(|line| line.split_once(": starting up"));
        report.started_at = stamp.map(|(stamp, _)| stamp.to_owned());
    }
    let failed = lines.iter().rposition(|line| is_refusal(line));
    let ended = lines.iter().rposition(|line| line.contains("terminating on signal"));
    let asked = lines.iter().rposition(|line| asks_for_huge_pages(line));
    match failed {
        // Messages alone have no start between them: one that ran since is another one.
        Some(at) if libvirt || ended.is_none_or(|ended| ended < at) => {
            let line = lines.get(at).copied().unwrap_or_default();
            report.add_error(line);
            report.set_verdict(LogVerdict::Failed);
            report.needed_bytes = number_after(line, "failed to resize memfd to ").map(Bytes);
            report.needed_bytes = report.needed_bytes.or_else(|| {
                asked.and_then(|asked| parse_backend_bytes(lines.get(asked).copied()?))
            });
            if line.contains("Invalid argument") {
                report.reason = "the backend's size is not a multiple of its page size".into();
            } else if line.contains("No such file or directory") {
                report.reason = "mem-path names no folder".into();
            }
        }
        _ => {
            if let Some(line) = asked.and_then(|at| lines.get(at)) {
                report.add_evidence(line);
            }
            report.set_unknown("QEMU logs only failures; its mappings show the rest");
        }
    }
    Some(report)
}

fn asks_for_huge_pages(line: &str) -> bool {
    ["hugetlb=on", "\"hugetlb\":true", "hugepages", "-mem-path"]
        .iter()
        .any(|words| line.contains(words))
}

fn parse_backend_bytes(line: &str) -> Option<Bytes> {
    let objects =
        line.split("-object ").skip(1).filter(|object| object.contains("memory-backend-"));
    let size = |object: &str| {
        let bytes = ["\"size\":", ",size="].iter().find_map(|key| {
            let text = object.get(object.find(key)? + key.len()..)?;
            parse_amount(text)
        })?;
        asks_for_huge_pages(object).then_some(bytes)
    };
    let sizes: Vec<Bytes> = objects.filter_map(size).collect();
    (!sizes.is_empty()).then(|| sizes.into_iter().sum())
}
