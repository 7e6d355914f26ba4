//! Files of /proc/PID: what is read of them, and of processes that are no servers not even their
//! names.

use std::collections::BTreeSet;

use super::arguments::command_line;
use super::shape::{GONE, ValueShape};
use super::{Keeps, line_filter};
use hugewise_procfs::process::{maps, status};

/// The bytes to keep of a file of one process; `None` where nobody vouches for the kind.
pub(super) fn process_file(
    process: &str,
    rest: &[&str],
    bytes: &[u8],
    keeps: &Keeps,
) -> Option<Vec<u8>> {
    let server = includes(&keeps.servers.processes, process);
    match rest {
        ["cmdline"] if server => Some(command_line(bytes, keeps)),
        // One that has none is none.
        ["cmdline"] if bytes.iter().all(|byte| *byte == 0) => Some(Vec::new()),
        ["cmdline"] => Some(b"-\0".to_vec()),
        ["status"] => {
            let named = server || includes(&keeps.servers.starters, process);
            Some(line_filter::filter_lines(bytes, |line| status_line(line, named)))
        }
        ["limits"] => Some(line_filter::filter_lines(bytes, limits_line)),
        ["cgroup"] if server => Some(bytes.to_vec()),
        ["cgroup"] if includes(&keeps.servers.neighbours, process) => {
            Some(line_filter::filter_lines(bytes, service_line))
        }
        ["cgroup"] => Some(b"0::/\n".to_vec()),
        ["comm"] if bytes.trim_ascii() == b"systemd" => Some(b"systemd\n".to_vec()),
        ["comm"] => Some(b"-\n".to_vec()),
        ["mountinfo"] if process != "self" => {
            let text = String::from_utf8_lossy(bytes);
            let points: Vec<&str> = text.lines().filter_map(hugetlbfs_point).collect();
            Some(line_filter::filter_lines(bytes, |line| hugetlbfs_line(line, &points)))
        }
        ["mounts" | "mountinfo"] => Some(line_filter::redact_mounts(bytes)),
        ["maps"] => Some(line_filter::filter_lines(bytes, |line| maps_line(line, keeps))),
        ["statm"] => Some(line_filter::filter_lines(bytes, |line| {
            line.bytes().all(|sign| sign.is_ascii_digit() || sign == b' ').then(|| line.to_owned())
        })),
        ["numa_maps"] => Some(line_filter::filter_lines(bytes, numa_maps_line)),
        ["smaps"] => Some(line_filter::filter_lines(bytes, |line| smaps_line(line, keeps))),
        _ => None,
    }
}

fn includes(processes: &BTreeSet<u32>, process: &str) -> bool {
    process.parse().is_ok_and(|pid| processes.contains(&pid))
}

fn status_line(line: &str, named: bool) -> Option<String> {
    let (key, value) = line.split_once(':')?;
    match key {
        "Name" if !named => Some(format!("Name:\t{GONE}")),
        // An executable's name is what its user likes; servers' have plain ones.
        "Name" if !is_plain_name(value.trim()) => Some(format!("Name:\t{GONE}")),
        _ => status::is_read(key).then(|| line.to_owned()),
    }
}

/// `ora_pmon_+ASM1`, `redis-server`.
fn is_plain_name(name: &str) -> bool {
    name.bytes().all(|sign| sign.is_ascii_alphanumeric() || b"_-+.$#:@/".contains(&sign))
}

/// Where a line of mountinfo has a hugetlbfs.
fn hugetlbfs_point(line: &str) -> Option<&str> {
    let (before, behind) = line.split_once(" - ")?;
    behind.starts_with("hugetlbfs ").then(|| before.split(' ').nth(4)).flatten()
}

/// The hugetlbfs of a container, and which of their folders something else lies over. What else it
/// has mounted, and from where, says where its secrets are.
fn hugetlbfs_line(line: &str, points: &[&str]) -> Option<String> {
    if hugetlbfs_point(line).is_some() {
        return Some(line.to_owned());
    }
    let (before, behind) = line.split_once(" - ")?;
    let [id, parent, device, _root, path] = before.split(' ').take(5).collect::<Vec<_>>()[..]
    else {
        return None;
    };
    let kind = behind.split(' ').next()?;
    let is_over = |point: &&str| {
        path.strip_prefix(*point).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    points
        .iter()
        .any(is_over)
        .then(|| format!("{id} {parent} {device} / {path} rw - {kind} none rw"))
}

fn limits_line(line: &str) -> Option<String> {
    line.starts_with("Max locked memory").then(|| line.to_owned())
}

/// A line of /proc/PID/cgroup as far as the service, which is root's to name.
fn service_line(line: &str) -> Option<String> {
    let end = line.find(".service").map(|at| at + ".service".len())?;
    let whole = line.get(end..).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    line.get(..end).filter(|_| whole).map(str::to_owned)
}

fn maps_line(line: &str, keeps: &Keeps) -> Option<String> {
    let read = maps::parse_single_line(line.as_bytes())?;
    if !read.may_matter() && !read.could_be_hugetlb() {
        return None;
    }
    redact_mapping(line, read.name, keeps)
}

/// What a mapping's name tells of its memory; all else in it was somebody's choice.
fn mapping_name(name: &str, keeps: &Keeps) -> String {
    let (plain, deleted) =
        name.strip_suffix(" (deleted)").map_or((name, ""), |plain| (plain, " (deleted)"));
    let kernels = matches!(plain, "" | "[heap]" | "[stack]" | "/dev/zero" | "/anon_hugepage");
    let system_v = plain
        .strip_prefix("/SYSV")
        .is_some_and(|key| key.bytes().all(|sign| sign.is_ascii_hexdigit()));
    if kernels || system_v || keeps.servers.files.contains(name) {
        return name.to_owned();
    }
    let mount = keeps.servers.hugetlbfs.iter().filter(|mount| {
        plain.strip_prefix(mount.as_str()).is_some_and(|rest| rest.starts_with('/'))
    });
    let kept = if plain.starts_with('[') {
        "[-]".to_owned()
    } else if let Some(mount) = mount.max_by_key(|mount| mount.len()) {
        format!("{mount}/{GONE}")
    } else if let Some(known) = keeps.mappings.iter().find(|known| plain.starts_with(**known)) {
        let number = plain.strip_prefix(*known).filter(|rest| is_number(rest));
        format!("{known}{}", number.unwrap_or_default())
    } else if let Some(known) = ["/memfd:", "/dev/shm/", "/hugepages", "/hugetlbfs"]
        .into_iter()
        .find(|known| plain.starts_with(known))
    {
        format!("{known}{GONE}")
    } else if let Some(known) = ["/hsperfdata_", "/hugepages", "/hugetlbfs", "huge"]
        .into_iter()
        .find(|known| plain.contains(known))
    {
        format!("/{GONE}{known}")
    } else {
        format!("/{GONE}")
    };
    kept + deleted
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|digit| digit.is_ascii_digit() || digit == b'_')
}

fn numa_maps_line(line: &str) -> Option<String> {
    let mut words = line.split_ascii_whitespace();
    let mut kept =
        vec![words.next().filter(|start| start.bytes().all(|sign| sign.is_ascii_hexdigit()))?];
    let size = |word: &&str| {
        word.strip_prefix("kernelpagesize_kB=").is_some_and(is_number) || *word == "huge"
    };
    kept.extend(words.filter(size));
    Some(kept.join(" "))
}

fn smaps_line(line: &str, keeps: &Keeps) -> Option<String> {
    if let Some(size) = line.strip_prefix("KernelPageSize:") {
        let number = size.trim().strip_suffix("kB")?.trim();
        return is_number(number).then(|| line.to_owned());
    }
    let read = maps::parse_single_line(line.as_bytes())?;
    redact_mapping(line, read.name, keeps)
}

fn redact_mapping(line: &str, name: &[u8], keeps: &Keeps) -> Option<String> {
    let before = line.get(..line.len().checked_sub(name.len())?)?.trim_end();
    let name = mapping_name(&String::from_utf8_lossy(name), keeps);
    Some(format!("{before} {name}").trim_end().to_owned())
}

pub(super) fn redact_process_link(path: &str, target: &str, keeps: &Keeps) -> Option<String> {
    let Some((process, name)) = path.strip_prefix("/proc/").and_then(|rest| rest.split_once('/'))
    else {
        return Some(target.to_owned());
    };
    if !process.bytes().all(|digit| digit.is_ascii_digit()) {
        return Some(target.to_owned());
    }
    match name {
        "exe" if includes(&keeps.servers.processes, process) => redact_program_path(target),
        "exe" if includes(&keeps.servers.neighbours, process) => redact_shell_path(target),
        "cwd" if includes(&keeps.servers.folders, process) => Some(target.to_owned()),
        "root" if includes(&keeps.servers.processes, process) => Some(target.to_owned()),
        "root" => (target == "/").then(|| target.to_owned()),
        "exe" | "cwd" => None,
        name if name.starts_with("fd/") => open_file(target),
        _ => Some(target.to_owned()),
    }
}

/// A socket, whose number tells its peer; a trace file of Oracle's, which tells its logs' folder.
fn open_file(target: &str) -> Option<String> {
    let is_trace = || {
        ValueShape::Path.matches_value(target)
            && target.contains("/diag/")
            && target.contains("/trace/")
    };
    (target.starts_with("socket:[") || is_trace()).then(|| target.to_owned())
}

/// The script that starts a server and waits for it is run by one of these.
fn redact_shell_path(path: &str) -> Option<String> {
    const SHELLS: [&str; 6] = ["sh", "bash", "dash", "ksh", "ksh93", "busybox"];
    let name = path.rsplit('/').next()?;
    SHELLS.contains(&name).then(|| format!("/bin/{name}"))
}

/// A program's path; one that could be more than a path is its name alone.
fn redact_program_path(path: &str) -> Option<String> {
    let (plain, deleted) =
        path.strip_suffix(" (deleted)").map_or((path, ""), |plain| (plain, " (deleted)"));
    let name = plain.rsplit('/').next().filter(|name| ValueShape::Path.matches_value(name))?;
    let is_path = ValueShape::Path.matches_value(plain);
    Some(if is_path { path.to_owned() } else { format!("/{GONE}/{name}{deleted}") })
}
