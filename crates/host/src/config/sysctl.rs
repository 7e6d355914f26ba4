//! sysctl.d(5): which kernel settings the next boot brings.
//!
//! Where systemd starts the host, systemd-sysctl reads sysctl.d alone; /etc/sysctl.conf counts through
//! a link in /etc/sysctl.d (`99-sysctl.conf` on Debian and Red Hat), and not at all where that link is
//! missing (Debian 13). Without systemd an init script runs `sysctl --system` of procps, which reads
//! /etc/sysctl.conf last.
//!
//! Files below /run count for neither: /run is empty when a host boots.

mod procps;
mod settle;

use hugewise_model::{Observed, configuration::Place, configuration::SysctlAssignment};

use super::files::{Names, joined, place, stacked};
use super::pattern;
use super::read_line::{read_lines, strip};
use super::systemd;
use crate::Door;

pub use settle::{Kind, SETTINGS, settled};

/// Folders, the strongest first (systemd 252). /lib is /usr/lib by another name or, in archives, its only copy.
const FOLDERS: [&str; 4] = ["/etc/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d"];

/// systemd's service that applies the files: nothing in them counts where it is masked.
pub(super) const SERVICE: &str = "systemd-sysctl.service";

/// A line that systemd-sysctl takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// With dots, as [`dotted`] has it; may be a pattern.
    pub key: String,
    /// `None` for `-key` alone, which takes a key out of what patterns match and takes back what was said of it before.
    pub value: Option<String>,
    /// Where it stands.
    pub place: Place,
}

/// Who carries the files out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// systemd-sysctl: of one key the last line alone is written.
    Systemd,
    /// `sysctl --system` of procps: every line is written, in order.
    Procps,
}

/// All assignments that count, in the order in which they are made; the last one of a key wins. Patterns stand as the
/// settings of [`SETTINGS`] that they match. Absent where the host has neither sysctl.d nor a sysctl.conf that counts.
pub fn read(door: &mut Door<'_>) -> Observed<Vec<SysctlAssignment>> {
    let program = if started_by_systemd(door) { Program::Systemd } else { Program::Procps };
    if program == Program::Systemd && systemd::mask(door, SERVICE).is_some() {
        return Observed::Known(Vec::new());
    }
    let files = stacked(door, &FOLDERS, ".conf", Names { any_hides: true, dotted: program == Program::Procps });
    let own = if program == Program::Systemd { Observed::Absent } else { door.read("/etc/sysctl.conf") };
    let mut paths = match files {
        Observed::Known(paths) => paths,
        Observed::Absent if own.is_absent() => return Observed::Absent,
        Observed::Absent => Vec::new(),
        unknown => return unknown.map(|_| Vec::new()),
    };
    if !own.is_absent() {
        paths.push("/etc/sysctl.conf".to_owned());
    }
    let parse = if program == Program::Systemd { parse_lines } else { procps::parse_lines };
    joined(door, &paths, parse).map(|lines| settled(&lines, program))
}

pub(super) fn started_by_systemd(door: &Door<'_>) -> bool {
    match door.source.read("/proc/1/comm") {
        Observed::Known(comm) => comm.trim_ascii() == b"systemd",
        _ => ["/etc/systemd/system.conf", "/usr/lib/systemd/system.conf"]
            .iter()
            .any(|path| !door.source.read(path).is_absent()),
    }
}

/// Assignments of one file as they are written: keys may be patterns, and values are whatever stands behind the sign.
pub fn parse(file: &str, bytes: &[u8]) -> Vec<SysctlAssignment> {
    let lines = parse_lines(file, bytes).into_iter();
    lines.filter_map(|line| Some(SysctlAssignment { key: line.key, value: line.value?, place: line.place })).collect()
}

/// Lines of one file. What is neither an assignment nor `-key` is skipped, as systemd-sysctl does after a warning.
pub(crate) fn parse_lines(file: &str, bytes: &[u8]) -> Vec<Line> {
    let parsed = |(line, text): (u64, std::borrow::Cow<'_, str>)| {
        if text.starts_with(['#', ';']) {
            return None;
        }
        let (key, value) = match text.split_once('=') {
            Some((key, value)) => (key.strip_prefix('-').unwrap_or(key), Some(strip(value).to_owned())),
            None => (text.strip_prefix('-')?, None),
        };
        let key = dotted(strip(key));
        (!key.is_empty()).then(|| Line { key, value, place: place(file, line) })
    };
    read_lines(bytes).filter_map(parsed).collect()
}

/// A key with dots between its parts. The first separator decides: after a slash the key is a path, in
/// which dots are part of names and are written as slashes between dots.
pub fn dotted(key: &str) -> String {
    let swapped = |text: &str| {
        let other = |character| match character {
            '.' => '/',
            '/' => '.',
            same => same,
        };
        text.chars().map(other).collect::<String>()
    };
    let is_path = key.find(['.', '/']).is_some_and(|at| key.get(at..=at) == Some("/"));
    let path = if is_path { key.to_owned() } else { swapped(key) };
    // Doubled separators and parts that are one dot go away, as in any path.
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    swapped(&parts.join("/"))
}

/// The file of a key below /proc/sys.
pub fn file_of(key: &str) -> String {
    let other = |character| match character {
        '.' => '/',
        '/' => '.',
        same => same,
    };
    format!("/proc/sys/{}", key.chars().map(other).collect::<String>())
}

/// Whether a key is a pattern of keys.
fn is_pattern(key: &str) -> bool {
    pattern::is_pattern(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::map::MapSource;
    use hugewise_model::Configuration;
    use proptest::prelude::*;

    fn winner(source: &MapSource, key: &str) -> Option<(String, String)> {
        let mut door = Door::new(source);
        let configuration = Configuration { sysctl: read(&mut door), ..Configuration::default() };
        let won = configuration.sysctl_winner(key)?;
        Some((won.value.clone(), won.place.to_string()))
    }

    fn won(value: &str, place: &str) -> Option<(String, String)> {
        Some((value.to_owned(), place.to_owned()))
    }

    #[test]
    fn keys_follow_their_first_separator() {
        // The examples of sysctl.d(5).
        assert_eq!(dotted("kernel/domainname"), "kernel.domainname");
        assert_eq!(dotted("net.ipv4.conf.enp3s0/200.forwarding"), "net.ipv4.conf.enp3s0/200.forwarding");
        assert_eq!(dotted("net/ipv4/conf/enp3s0.200/forwarding"), "net.ipv4.conf.enp3s0/200.forwarding");
        assert_eq!(dotted("/vm//nr_hugepages"), "vm.nr_hugepages");
        assert_eq!(dotted("vm"), "vm");
    }

    #[test]
    fn lines_that_assign_nothing_are_skipped() {
        let text = b"# vm.nr_hugepages=1\n ; x=1\n\nvm.nr_hugepages = 512 \n-vm.swappiness=1\nnonsense\n-vm.skip\n= 4\nvm/overcommit_memory=2\r\nnet.*.rp_filter=1\nkernel.x=a=b";
        let found = parse("/f", text);
        let seen: Vec<_> = found.iter().map(|a| (a.key.as_str(), a.value.as_str(), a.place.line)).collect();
        assert_eq!(
            seen,
            [
                ("vm.nr_hugepages", "512", 4),
                ("vm.swappiness", "1", 5),
                ("vm.overcommit_memory", "2", 9),
                ("net.*.rp_filter", "1", 10),
                ("kernel.x", "a=b", 11)
            ]
        );
    }

    #[test]
    fn the_last_file_name_wins_whatever_its_folder() {
        let source = MapSource::new()
            .file("/proc/1/comm", "systemd\n")
            .file("/etc/sysctl.conf", "# mine\nvm.nr_hugepages=3\n")
            .link("/etc/sysctl.d/99-sysctl.conf", "../sysctl.conf")
            .file("/etc/sysctl.d/10-db.conf", "vm.nr_hugepages=1\nvm.swappiness=1\n")
            .file("/usr/lib/sysctl.d/99-zz.conf", "vm.nr_hugepages=4\n")
            .file("/usr/lib/sysctl.d/10-db.conf", "vm.swappiness=60\nvm.max_map_count=1\n");
        assert_eq!(winner(&source, "vm.nr_hugepages"), won("4", "/usr/lib/sysctl.d/99-zz.conf:1"));
        assert_eq!(winner(&source, "vm.swappiness"), won("1", "/etc/sysctl.d/10-db.conf:2"));
        assert_eq!(winner(&source, "vm.max_map_count"), None);
        let masked = source.link("/usr/local/lib/sysctl.d/99-zz.conf", "/dev/null");
        assert_eq!(winner(&masked, "vm.nr_hugepages"), won("3", "/etc/sysctl.d/99-sysctl.conf:2"));
    }

    #[test]
    fn sysctl_conf_counts_through_its_link_or_without_systemd() {
        let files = MapSource::new()
            .file("/etc/sysctl.conf", "vm.nr_hugepages=3\n")
            .file("/etc/sysctl.d/99-zz.conf", "vm.nr_hugepages=4\n");
        assert_eq!(winner(&files, "vm.nr_hugepages"), won("3", "/etc/sysctl.conf:1"));
        let systemd = files.file("/etc/systemd/system.conf", "");
        assert_eq!(winner(&systemd, "vm.nr_hugepages"), won("4", "/etc/sysctl.d/99-zz.conf:1"));
        let nothing = MapSource::new();
        assert_eq!(read(&mut Door::new(&nothing)), Observed::Absent);
    }

    #[test]
    fn nothing_below_run_outlives_the_boot() {
        let source =
            MapSource::new().file("/proc/1/comm", "systemd\n").file("/run/sysctl.d/70.conf", "vm.nr_hugepages=3\n");
        assert_eq!(read(&mut Door::new(&source)), Observed::Absent);
        let kept = source.file("/etc/sysctl.d/60.conf", "vm.nr_hugepages=4\n");
        assert_eq!(winner(&kept, "vm.nr_hugepages"), won("4", "/etc/sysctl.d/60.conf:1"));
        // It hides nothing then either, and masks no service.
        let hidden = kept
            .link("/run/sysctl.d/60.conf", "/dev/null")
            .link("/run/systemd/system/systemd-sysctl.service", "/dev/null");
        assert_eq!(winner(&hidden, "vm.nr_hugepages"), won("4", "/etc/sysctl.d/60.conf:1"));
        let procps = hidden.file("/proc/1/comm", "init\n");
        assert_eq!(winner(&procps, "vm.nr_hugepages"), won("4", "/etc/sysctl.d/60.conf:1"));
    }

    #[test]
    fn a_denied_file_leaves_no_winner() {
        let source =
            MapSource::new().file("/etc/sysctl.d/10.conf", "vm.nr_hugepages=3\n").denied("/etc/sysctl.d/20.conf");
        let mut door = Door::new(&source);
        assert_eq!(read(&mut door), Observed::Denied);
        assert_eq!(door.unread.first().map(|u| u.what.as_str()), Some("/etc/sysctl.d/20.conf"));
    }

    proptest! {
        #[test]
        fn an_assignment_reads_back(key in "[a-z]{1,8}(\\.[a-z_]{1,8}){1,3}", value in "[a-z0-9]{1,9}( [0-9]{1,4})?", blank in "[ \t]{0,3}") {
            let found = parse("/f", format!("{blank}{key}{blank}={blank}{value}{blank}\n").as_bytes());
            prop_assert_eq!(found.len(), 1);
            prop_assert_eq!(&found[0].key, &key);
            prop_assert_eq!(&found[0].value, &value);
            let slashes = key.replace('.', "/");
            prop_assert_eq!(dotted(&slashes), key);
        }
    }
}
