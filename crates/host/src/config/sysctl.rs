//! sysctl.d(5): which kernel settings the next boot brings.
//!
//! Where systemd starts the host, systemd-sysctl reads sysctl.d alone; /etc/sysctl.conf counts through
//! a link in /etc/sysctl.d (`99-sysctl.conf` on Debian and Red Hat), and not at all where that link is
//! missing (Debian 13). Without systemd a script decides, see [`super::starter`]: `sysctl --system` of procps, which reads
//! /etc/sysctl.conf last; /etc/sysctl.conf first and /etc/sysctl.d after it; or /etc/sysctl.conf alone.
//!
//! Files below /run count for neither: /run is empty when a host boots.

mod procps;
mod settle;

use hugewise_model::Observed;
use hugewise_model::configuration::{Place, SysctlAssignment, SysctlFiles};

use super::files::{Names, joined, place, stacked};
use super::pattern;
use super::read_line::{read_lines, strip};
use super::{starter, systemd};
use crate::Door;

pub use settle::{Kind, SETTINGS, settled};

/// Folders, the strongest first (systemd 252). /lib is /usr/lib by another name or, in archives, its only copy.
const FOLDERS: [&str; 4] = ["/etc/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d"];

/// The folder that rc.sysinit reads.
const FOLDER: &str = "/etc/sysctl.d";

/// Files that rc.sysinit passes over: `is_ignored_file` of initscripts.
const IGNORED: [&str; 6] = ["~", ".bak", ".orig", ".rpmnew", ".rpmorig", ".rpmsave"];

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

/// How the lines of files are carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// systemd-sysctl: of one key the last line alone is written.
    Systemd,
    /// sysctl of procps: every line is written, in order.
    Procps,
}

/// All assignments that count, in the order in which they are made; the last one of a key wins. Patterns stand as the
/// settings of [`SETTINGS`] that they match. Absent where the host has no file that counts.
pub fn read(door: &mut Door<'_>) -> Observed<Vec<SysctlAssignment>> {
    let with_dots = Names { any_hides: true, dotted: true };
    let without_dots = Names { any_hides: true, dotted: false };
    match starter::read(door).sysctl {
        SysctlFiles::Folders if systemd::mask(door, starter::SYSCTL_SERVICE).is_some() => Observed::Known(Vec::new()),
        SysctlFiles::Folders => {
            let files = stacked(door, &FOLDERS, ".conf", without_dots);
            files.and_then(|paths| joined(door, &paths, parse_lines)).map(|lines| settled(&lines, Program::Systemd))
        }
        SysctlFiles::FoldersThenConf => {
            let files = stacked(door, &FOLDERS, ".conf", with_dots);
            in_turn(door, files, Conf::Last, procps::parse_lines)
        }
        SysctlFiles::ConfThenFolder { any_name } => {
            let mut files = stacked(door, &[FOLDER], if any_name { "" } else { ".conf" }, without_dots);
            if let Observed::Known(paths) = &mut files {
                paths.retain(|path| !IGNORED.iter().any(|end| path.ends_with(end)));
            }
            in_turn(door, files, Conf::First, procps::parse_old_lines)
        }
        SysctlFiles::Conf => in_turn(door, Observed::Absent, Conf::First, procps::parse_old_lines),
        SysctlFiles::ConfAtLeast => {
            let files = stacked(door, &[FOLDER], "", without_dots);
            let folder = in_turn(door, files, Conf::Neither, procps::parse_old_lines);
            let known = |one: &SysctlAssignment| SETTINGS.iter().any(|(setting, _)| *setting == one.key);
            if let Some(first) = folder.known().and_then(|all| all.iter().find(|one| known(one))) {
                let why = format!("cannot tell whether {} is read at boot", first.place.file);
                return Observed::Malformed(why);
            }
            in_turn(door, Observed::Absent, Conf::First, procps::parse_old_lines)
        }
    }
}

/// Where /etc/sysctl.conf is read among other files.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Conf {
    First,
    Last,
    Neither,
}

/// Files of which every line is written, in order.
fn in_turn(
    door: &mut Door<'_>,
    files: Observed<Vec<String>>,
    conf: Conf,
    parse: fn(&str, &[u8]) -> Vec<Line>,
) -> Observed<Vec<SysctlAssignment>> {
    const CONF: &str = "/etc/sysctl.conf";
    let own = if conf == Conf::Neither { Observed::Absent } else { door.read(CONF) };
    let mut paths = match files {
        Observed::Known(paths) => paths,
        Observed::Absent if own.is_absent() => return Observed::Absent,
        Observed::Absent => Vec::new(),
        unknown => return unknown.map(|_| Vec::new()),
    };
    if !own.is_absent() {
        let at = if conf == Conf::First { 0 } else { paths.len() };
        paths.insert(at, CONF.to_owned());
    }
    joined(door, &paths, parse).map(|lines| settled(&lines, Program::Procps))
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

    /// `apply_sysctl` of initscripts: sysctl.conf, then every file of /etc/sysctl.d but backups; of `sysctl -p` every line is
    /// written, and procps 3.2 knows neither `-key` nor patterns.
    #[test]
    fn rc_sysinit_reads_sysctl_conf_first_and_the_folder_where_it_does_at_all() {
        let files = MapSource::new()
            .file("/proc/1/comm", "init\n")
            .file("/etc/sysctl.conf", "vm.nr_hugepages=3\nvm.swappiness=10\n")
            .file("/etc/sysctl.d/oracle", "vm.nr_hugepages = 4\n-vm.nr_hugepages=5\nvm.*=6\n")
            .file("/etc/sysctl.d/.hidden", "vm.nr_hugepages=7\n")
            .file("/etc/sysctl.d/zz.rpmsave", "vm.nr_hugepages=7\n")
            .link("/etc/sysctl.d/zz", "/dev/null")
            .file("/usr/lib/sysctl.d/zz.conf", "vm.nr_hugepages=8\n");
        let by = |script: &str| files.clone().file("/etc/rc.d/rc.sysinit", script);
        let rhel6 = by("apply_sysctl\n");
        assert_eq!(winner(&rhel6, "vm.nr_hugepages"), won("4", "/etc/sysctl.d/oracle:1"));
        assert_eq!(winner(&rhel6, "vm.swappiness"), won("10", "/etc/sysctl.conf:2"));
        let rhel4 = by("action $\"Configuring kernel parameters: \" sysctl -e -p /etc/sysctl.conf\n");
        assert_eq!(winner(&rhel4, "vm.nr_hugepages"), won("3", "/etc/sysctl.conf:1"));
        let debian = by("").file("/etc/init.d/procps", "sysctl --system\n");
        assert_eq!(winner(&debian, "vm.nr_hugepages"), won("3", "/etc/sysctl.conf:1"));
    }

    #[test]
    fn where_it_is_not_known_that_the_folder_is_read_no_line_in_it_is_passed_over() {
        let suse = MapSource::new()
            .file("/etc/os-release", "PRETTY_NAME=\"SUSE Linux Enterprise Server 11 SP4\"\n")
            .file("/etc/sysctl.conf", "vm.nr_hugepages=3\n")
            .file("/etc/sysctl.d/net", "net.ipv4.ip_forward=1\n");
        assert_eq!(winner(&suse, "vm.nr_hugepages"), won("3", "/etc/sysctl.conf:1"));
        let both = suse.file("/etc/sysctl.d/pages", "vm.nr_hugepages=4\n");
        let why = "cannot tell whether /etc/sysctl.d/pages is read at boot".to_owned();
        assert_eq!(read(&mut Door::new(&both)), Observed::Malformed(why));
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
