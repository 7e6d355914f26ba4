//! What several kinds of files have in common: lines, mounts and sections.

use super::shape::is_harmless;

/// Filters a text line by line; a line that is taken out leaves its number behind.
pub(super) fn filter_lines(bytes: &[u8], keep: impl Fn(&str) -> Option<String>) -> Vec<u8> {
    let text = String::from_utf8_lossy(bytes);
    let kept: Vec<String> = text
        .split('\n')
        .map(|line| keep(line.trim_end_matches('\r')).unwrap_or_default())
        .collect();
    kept.join("\n").into_bytes()
}

/// Others than the kernel's own bear servers, users and now and then a password in their options.
pub(super) fn redact_mounts(bytes: &[u8]) -> Vec<u8> {
    const KINDS: [&str; 6] = ["hugetlbfs", "tmpfs", "cgroup", "cgroup2", "proc", "sysfs"];
    filter_lines(bytes, |line| {
        let kind = match line.split_once(" - ") {
            Some((_, after)) => after.split(' ').next(),
            None => line.split(' ').nth(2),
        };
        kind.filter(|kind| KINDS.contains(kind)).map(|_| line.to_owned())
    })
}

/// `[Service]`; what is written like one and is none has another's name.
pub(super) fn redact_section(line: &str) -> Option<String> {
    let (name, _) = line.strip_prefix('[')?.split_once(']')?;
    let sign = |sign: u8| sign.is_ascii_alphanumeric() || b"_.-@ ".contains(&sign);
    let plain = name.len() <= 64 && name.bytes().all(sign) && is_harmless(name);
    Some(if plain { format!("[{name}]") } else { "[-]".to_owned() })
}
