//! Files of /proc/PID: what is read of them, and of processes that are no servers not even their names.

use super::arguments::command_line;
use super::shape::{GONE, Shape};
use super::{Keeps, lines};
use crate::process::{maps, status};

/// The bytes to keep of a file of one process; `None` where nobody vouches for the kind.
pub(super) fn process_file(process: &str, rest: &[&str], bytes: &[u8], keeps: &Keeps) -> Option<Vec<u8>> {
    let server = keeps.servers.has(process);
    match rest {
        ["cmdline"] if server => Some(command_line(bytes, keeps)),
        // One that has none is none.
        ["cmdline"] => Some(if bytes.iter().all(|byte| *byte == 0) { Vec::new() } else { b"-\0".to_vec() }),
        ["status"] => {
            let named = server || keeps.servers.is_starter(process);
            Some(lines::lines(bytes, |line| status_line(line, named)))
        }
        ["limits"] => Some(lines::lines(bytes, limits_line)),
        ["cgroup"] if server => Some(bytes.to_vec()),
        ["cgroup"] if keeps.servers.is_neighbour(process) => Some(lines::lines(bytes, service_line)),
        ["cgroup"] => Some(b"0::/\n".to_vec()),
        ["comm"] => Some(if bytes.trim_ascii() == b"systemd" { b"systemd\n".to_vec() } else { b"-\n".to_vec() }),
        ["mounts" | "mountinfo"] => Some(lines::mounts(bytes)),
        ["maps"] => Some(lines::lines(bytes, |line| maps_line(line, keeps))),
        // Sizes in pages.
        ["statm"] => Some(lines::lines(bytes, |line| {
            line.bytes().all(|sign| sign.is_ascii_digit() || sign == b' ').then(|| line.to_owned())
        })),
        ["numa_maps"] => Some(lines::lines(bytes, numa_maps_line)),
        ["smaps"] => Some(lines::lines(bytes, |line| smaps_line(line, keeps))),
        _ => None,
    }
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

fn limits_line(line: &str) -> Option<String> {
    line.starts_with("Max locked memory").then(|| line.to_owned())
}

/// A line of /proc/PID/cgroup as far as the service, which is root's to name.
fn service_line(line: &str) -> Option<String> {
    let end = line.find(".service").map(|at| at + ".service".len())?;
    let whole = line.get(end..).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    line.get(..end).filter(|_| whole).map(str::to_owned)
}

/// A mapping that is read, with what its name tells.
fn maps_line(line: &str, keeps: &Keeps) -> Option<String> {
    let read = maps::one(line.as_bytes())?;
    if !read.matters() && !read.could_be_hugetlb() {
        return None;
    }
    let name = String::from_utf8_lossy(read.name);
    let before = line.get(..line.len().checked_sub(read.name.len())?)?.trim_end();
    Some(format!("{before} {}", mapping_name(&name, keeps)).trim_end().to_owned())
}

/// What a mapping's name tells of its memory; all else in it was somebody's choice.
fn mapping_name(name: &str, keeps: &Keeps) -> String {
    let (plain, deleted) = name.strip_suffix(" (deleted)").map_or((name, ""), |plain| (plain, " (deleted)"));
    let kernels = matches!(plain, "" | "[heap]" | "[stack]" | "/dev/zero" | "/anon_hugepage");
    let system_v = plain.strip_prefix("/SYSV").is_some_and(|key| key.bytes().all(|sign| sign.is_ascii_hexdigit()));
    if kernels || system_v || keeps.servers.files.contains(name) {
        return name.to_owned();
    }
    let mount = keeps
        .servers
        .hugetlbfs
        .iter()
        .filter(|mount| plain.strip_prefix(mount.as_str()).is_some_and(|rest| rest.starts_with('/')));
    let kept = if plain.starts_with('[') {
        "[-]".to_owned()
    } else if let Some(mount) = mount.max_by_key(|mount| mount.len()) {
        format!("{mount}/{GONE}")
    } else if let Some(known) = keeps.mappings.iter().find(|known| plain.starts_with(**known)) {
        format!("{known}{}", plain.strip_prefix(*known).filter(|rest| is_number(rest)).unwrap_or_default())
    } else if let Some(known) =
        ["/memfd:", "/dev/shm/", "/hugepages", "/hugetlbfs"].into_iter().find(|known| plain.starts_with(known))
    {
        format!("{known}{GONE}")
    } else if let Some(known) =
        ["/hsperfdata_", "/hugepages", "/hugetlbfs", "huge"].into_iter().find(|known| plain.contains(known))
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
    let mut kept = vec![words.next().filter(|start| start.bytes().all(|sign| sign.is_ascii_hexdigit()))?];
    let size = |word: &&str| word.strip_prefix("kernelpagesize_kB=").is_some_and(is_number) || *word == "huge";
    kept.extend(words.filter(size));
    Some(kept.join(" "))
}

fn smaps_line(line: &str, keeps: &Keeps) -> Option<String> {
    if let Some(size) = line.strip_prefix("KernelPageSize:") {
        let number = size.trim().strip_suffix("kB")?.trim();
        return is_number(number).then(|| line.to_owned());
    }
    let read = maps::one(line.as_bytes())?;
    let before = line.get(..line.len().checked_sub(read.name.len())?)?.trim_end();
    let name = String::from_utf8_lossy(read.name);
    Some(format!("{before} {}", mapping_name(&name, keeps)).trim_end().to_owned())
}

/// Where a link of a process points, as far as that is read.
pub(super) fn link(path: &str, target: &str, keeps: &Keeps) -> Option<String> {
    let Some((process, name)) = path.strip_prefix("/proc/").and_then(|rest| rest.split_once('/')) else {
        return Some(target.to_owned());
    };
    if !process.bytes().all(|digit| digit.is_ascii_digit()) {
        return Some(target.to_owned());
    }
    match name {
        "exe" if keeps.servers.has(process) => program(target),
        "exe" if keeps.servers.is_neighbour(process) => shell(target),
        "cwd" if keeps.servers.reads_folder_of(process) => Some(target.to_owned()),
        "root" if keeps.servers.has(process) => Some(target.to_owned()),
        "root" => (target == "/").then(|| target.to_owned()),
        "exe" | "cwd" => None,
        name if name.starts_with("fd/") => open_file(target),
        _ => Some(target.to_owned()),
    }
}

/// An open file: a socket, by whose number its peer is told, and a trace file of Oracle's, by which the folder of its logs is.
fn open_file(target: &str) -> Option<String> {
    let is_trace = || Shape::Path.fits(target) && target.contains("/diag/") && target.contains("/trace/");
    (target.starts_with("socket:[") || is_trace()).then(|| target.to_owned())
}

/// The script that starts a server and waits for it is run by one of these.
fn shell(path: &str) -> Option<String> {
    const SHELLS: [&str; 6] = ["sh", "bash", "dash", "ksh", "ksh93", "busybox"];
    let name = path.rsplit('/').next()?;
    SHELLS.contains(&name).then(|| format!("/bin/{name}"))
}

/// A program's path; one that could be more than a path is its name alone.
fn program(path: &str) -> Option<String> {
    let (plain, deleted) = path.strip_suffix(" (deleted)").map_or((path, ""), |plain| (plain, " (deleted)"));
    let name = plain.rsplit('/').next().filter(|name| Shape::Path.fits(name))?;
    Some(if Shape::Path.fits(plain) { path.to_owned() } else { format!("/{GONE}/{name}{deleted}") })
}
