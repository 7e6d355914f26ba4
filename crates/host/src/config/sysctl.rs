//! sysctl.d(5): which kernel settings the next boot brings.
//!
//! Where systemd starts the host, systemd-sysctl reads sysctl.d alone; /etc/sysctl.conf counts through
//! a link in /etc/sysctl.d (`99-sysctl.conf` on Debian and Red Hat), and not at all where that link is
//! missing (Debian 13). Without systemd an init script runs `sysctl --system` of procps, which reads
//! /etc/sysctl.conf last.

use hugewise_model::{Observed, configuration::SysctlAssignment};

use super::files::{joined, lines, overlaid, place};
use crate::Door;

/// Folders, the strongest first (systemd 252). /lib is /usr/lib by another name or, in archives, its only copy.
const FOLDERS: [&str; 5] =
    ["/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d"];

/// All assignments in the order in which they are made; the last one of a key wins.
/// Absent where the host has neither sysctl.d nor a sysctl.conf that counts.
pub fn read(door: &mut Door<'_>) -> Observed<Vec<SysctlAssignment>> {
    let files = overlaid(door, &FOLDERS, ".conf");
    let own = if started_by_systemd(door) { Observed::Absent } else { door.read("/etc/sysctl.conf") };
    let mut paths = match files {
        Observed::Known(paths) => paths,
        Observed::Absent if own.is_absent() => return Observed::Absent,
        Observed::Absent => Vec::new(),
        unknown => return unknown.map(|_| Vec::new()),
    };
    if !own.is_absent() {
        paths.push("/etc/sysctl.conf".to_owned());
    }
    joined(door, &paths, parse)
}

fn started_by_systemd(door: &Door<'_>) -> bool {
    match door.source.read("/proc/1/comm") {
        Observed::Known(comm) => comm.trim_ascii() == b"systemd",
        _ => ["/etc/systemd/system.conf", "/usr/lib/systemd/system.conf"]
            .iter()
            .any(|path| !door.source.read(path).is_absent()),
    }
}

/// Assignments of one file. What is no assignment is skipped, as systemd-sysctl does after a warning; so is
/// `-key` without a value, which only takes a key out of what patterns match. Keys with `*` stay as they are.
pub fn parse(file: &str, bytes: &[u8]) -> Vec<SysctlAssignment> {
    let assignment = |(line, text): (u64, std::borrow::Cow<'_, str>)| {
        let text = text.trim();
        if text.starts_with(['#', ';']) {
            return None;
        }
        let (key, value) = text.split_once('=')?;
        let key = key.trim();
        let key = dotted(key.strip_prefix('-').unwrap_or(key));
        (!key.is_empty()).then(|| SysctlAssignment { key, value: value.trim().to_owned(), place: place(file, line) })
    };
    lines(bytes).filter_map(assignment).collect()
}

/// A key with dots between its parts. The first separator decides: after a slash the key is a path, in
/// which dots are part of names and are written as slashes between dots.
pub fn dotted(key: &str) -> String {
    match key.find(['.', '/']).and_then(|at| key.get(at..=at)) {
        Some("/") => key
            .split('/')
            .filter(|part| !part.is_empty())
            .map(|part| part.replace('.', "/"))
            .collect::<Vec<_>>()
            .join("."),
        _ => key.to_owned(),
    }
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
        let masked = source.link("/run/sysctl.d/99-zz.conf", "/dev/null");
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
    fn a_denied_file_leaves_no_winner() {
        let source =
            MapSource::new().file("/etc/sysctl.d/10.conf", "vm.nr_hugepages=3\n").denied("/etc/sysctl.d/20.conf");
        let mut door = Door::new(&source);
        assert_eq!(read(&mut door), Observed::Denied);
        assert_eq!(door.unread.first().map(|u| u.what.as_str()), Some("/etc/sysctl.d/20.conf"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            parse("/f", &bytes);
        }

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
