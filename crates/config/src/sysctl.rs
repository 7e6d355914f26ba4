//! sysctl.d(5): which kernel settings the next boot brings.
//!
//! Where systemd starts the host, systemd-sysctl reads sysctl.d alone; /etc/sysctl.conf counts
//! through a link in /etc/sysctl.d (`99-sysctl.conf` on Debian and Red Hat), and not at all where
//! that link is missing (Debian 13). Without systemd a script decides, see [`super::init_system`]:
//! `sysctl --system` of procps, which reads /etc/sysctl.conf last; /etc/sysctl.conf first and
//! /etc/sysctl.d after it; or /etc/sysctl.conf alone.
//!
//! Files below /run count for neither: /run is empty when a host boots.

mod procps;
mod resolve;

use hugewise_model::Observed;
use hugewise_model::configuration::{FileLocation, SysctlAssignment, SysctlFiles};

use super::files::{OverlayNameRules, file_location, overlay_files_with, parse_all_files};
use super::read_line::{read_lines, strip_whitespace};
use super::{init_system, systemd};
use hugewise_source::FactReader;

pub(crate) use resolve::resolve_assignments;
pub use resolve::{SETTINGS, SysctlValueKind};

/// Folders, the strongest first (systemd 252). /lib is /usr/lib by another name or, in archives,
/// its only copy.
const FOLDERS: [&str; 4] =
    ["/etc/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d"];

const FOLDER: &str = "/etc/sysctl.d";

/// Files that rc.sysinit passes over: `is_ignored_file` of initscripts.
const IGNORED: [&str; 6] = ["~", ".bak", ".orig", ".rpmnew", ".rpmorig", ".rpmsave"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SysctlLine {
    /// With dots, as [`to_dotted_key`] has it; may be a pattern.
    pub(crate) key: String,
    /// `None` for `-key` alone, which keeps patterns off a key and takes back what was said of it.
    pub(crate) value: Option<String>,
    pub(crate) place: FileLocation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SysctlProgram {
    /// systemd-sysctl: of one key the last line alone is written.
    Systemd,
    /// sysctl of procps: every line is written, in order.
    Procps,
}

/// All assignments that count, in the order in which they are made; the last of a key wins.
/// Patterns stand as the [`SETTINGS`] that they match. Absent where no file counts.
pub fn read(door: &mut FactReader<'_>) -> Observed<Vec<SysctlAssignment>> {
    let with_dots = OverlayNameRules { any_hides: true, dotted: true };
    let without_dots = OverlayNameRules { any_hides: true, dotted: false };
    match init_system::read(door).sysctl {
        SysctlFiles::Folders if systemd::find_mask(door, init_system::SYSCTL_SERVICE).is_some() => {
            Observed::Known(Vec::new())
        }
        SysctlFiles::Nothing { .. } => Observed::Known(Vec::new()),
        SysctlFiles::Folders => {
            let files = overlay_files_with(door, &FOLDERS, ".conf", without_dots);
            files
                .and_then(|paths| parse_all_files(door, &paths, parse_lines))
                .map(|lines| resolve_assignments(&lines, SysctlProgram::Systemd))
        }
        SysctlFiles::FoldersThenConf => {
            let files = overlay_files_with(door, &FOLDERS, ".conf", with_dots);
            read_in_turn(door, files, Conf::Last, procps::parse_lines)
        }
        SysctlFiles::ConfThenFolder { any_name } => {
            let suffix = if any_name { "" } else { ".conf" };
            let mut files = overlay_files_with(door, &[FOLDER], suffix, without_dots);
            if let Observed::Known(paths) = &mut files {
                paths.retain(|path| !IGNORED.iter().any(|end| path.ends_with(end)));
            }
            read_in_turn(door, files, Conf::First, procps::parse_old_lines)
        }
        SysctlFiles::Conf => {
            read_in_turn(door, Observed::Absent, Conf::First, procps::parse_old_lines)
        }
        SysctlFiles::ConfAtLeast => {
            let files = overlay_files_with(door, &[FOLDER], "", without_dots);
            let folder = read_in_turn(door, files, Conf::Neither, procps::parse_old_lines);
            let known =
                |one: &SysctlAssignment| SETTINGS.iter().any(|(setting, _)| *setting == one.key);
            if let Some(first) = folder.as_known().and_then(|all| all.iter().find(|one| known(one)))
            {
                let why = format!("cannot tell whether {} is read at boot", first.place.file);
                return Observed::Malformed(why);
            }
            read_in_turn(door, Observed::Absent, Conf::First, procps::parse_old_lines)
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Conf {
    First,
    Last,
    Neither,
}

fn read_in_turn(
    door: &mut FactReader<'_>,
    files: Observed<Vec<String>>,
    conf: Conf,
    parse: fn(&str, &[u8]) -> Vec<SysctlLine>,
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
    parse_all_files(door, &paths, parse)
        .map(|lines| resolve_assignments(&lines, SysctlProgram::Procps))
}

/// Assignments of one file as they are written: keys may be patterns, and values are whatever
/// stands behind the sign.
pub fn parse(file: &str, bytes: &[u8]) -> Vec<SysctlAssignment> {
    let set =
        |SysctlLine { key, value, place }| Some(SysctlAssignment { key, value: value?, place });
    parse_lines(file, bytes).into_iter().filter_map(set).collect()
}

/// What is neither an assignment nor `-key` is skipped, as systemd-sysctl does after a warning.
pub(crate) fn parse_lines(file: &str, bytes: &[u8]) -> Vec<SysctlLine> {
    let parsed = |(line, text): (u64, std::borrow::Cow<'_, str>)| {
        if text.starts_with(['#', ';']) {
            return None;
        }
        let (key, value) = match text.split_once('=') {
            Some((key, value)) => {
                (key.strip_prefix('-').unwrap_or(key), Some(strip_whitespace(value).to_owned()))
            }
            None => (text.strip_prefix('-')?, None),
        };
        let key = to_dotted_key(strip_whitespace(key));
        (!key.is_empty()).then(|| SysctlLine { key, value, place: file_location(file, line) })
    };
    read_lines(bytes).filter_map(parsed).collect()
}

/// A key with dots between its parts. The first separator decides: after a slash the key is a path,
/// in which dots are part of names and are written as slashes between dots.
pub fn to_dotted_key(key: &str) -> String {
    let is_path = key.find(['.', '/']).is_some_and(|at| key.get(at..=at) == Some("/"));
    let path = if is_path { key.to_owned() } else { swap_separators(key) };
    // Doubled separators and parts that are one dot go away, as in any path.
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    swap_separators(&parts.join("/"))
}

/// The file of a key below /proc/sys.
pub fn file_of(key: &str) -> String {
    format!("/proc/sys/{}", swap_separators(key))
}

fn swap_separators(text: &str) -> String {
    let other = |sign| match sign {
        '.' => '/',
        '/' => '.',
        same => same,
    };
    text.chars().map(other).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hugewise_model::Configuration;
    use hugewise_source::map::MapSource;
    use proptest::prelude::*;

    fn winner(source: &MapSource, key: &str) -> Option<(String, String)> {
        let mut door = FactReader::new(source);
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
        assert_eq!(to_dotted_key("kernel/domainname"), "kernel.domainname");
        assert_eq!(
            to_dotted_key("net.ipv4.conf.enp3s0/200.forwarding"),
            "net.ipv4.conf.enp3s0/200.forwarding"
        );
        assert_eq!(
            to_dotted_key("net/ipv4/conf/enp3s0.200/forwarding"),
            "net.ipv4.conf.enp3s0/200.forwarding"
        );
        assert_eq!(to_dotted_key("/vm//nr_hugepages"), "vm.nr_hugepages");
        assert_eq!(to_dotted_key("vm"), "vm");
    }

    #[test]
    fn lines_that_assign_nothing_are_skipped() {
        let text = b"# vm.nr_hugepages=1\n ; x=1\n\nvm.nr_hugepages = \
             512 \n-vm.swappiness=1\nnonsense\n-vm.skip\n= \
             4\nvm/overcommit_memory=2\r\nnet.*.rp_filter=1\nkernel.x=a=b";
        let found = parse("/f", text);
        let seen: Vec<_> =
            found.iter().map(|a| (a.key.as_str(), a.value.as_str(), a.place.line)).collect();
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
            .with_file("/proc/1/comm", "systemd\n")
            .with_file("/etc/sysctl.conf", "# mine\nvm.nr_hugepages=3\n")
            .with_link("/etc/sysctl.d/99-sysctl.conf", "../sysctl.conf")
            .with_file("/etc/sysctl.d/10-db.conf", "vm.nr_hugepages=1\nvm.swappiness=1\n")
            .with_file("/usr/lib/sysctl.d/99-zz.conf", "vm.nr_hugepages=4\n")
            .with_file("/usr/lib/sysctl.d/10-db.conf", "vm.swappiness=60\nvm.max_map_count=1\n");
        assert_eq!(winner(&source, "vm.nr_hugepages"), won("4", "/usr/lib/sysctl.d/99-zz.conf:1"));
        assert_eq!(winner(&source, "vm.swappiness"), won("1", "/etc/sysctl.d/10-db.conf:2"));
        assert_eq!(winner(&source, "vm.max_map_count"), None);
        let masked = source.with_link("/usr/local/lib/sysctl.d/99-zz.conf", "/dev/null");
        assert_eq!(winner(&masked, "vm.nr_hugepages"), won("3", "/etc/sysctl.d/99-sysctl.conf:2"));
    }

    #[test]
    fn sysctl_conf_counts_through_its_link_or_without_systemd() {
        let files = MapSource::new()
            .with_file("/etc/sysctl.conf", "vm.nr_hugepages=3\n")
            .with_file("/etc/sysctl.d/99-zz.conf", "vm.nr_hugepages=4\n");
        assert_eq!(winner(&files, "vm.nr_hugepages"), won("3", "/etc/sysctl.conf:1"));
        let systemd = files.with_file("/etc/systemd/system.conf", "");
        assert_eq!(winner(&systemd, "vm.nr_hugepages"), won("4", "/etc/sysctl.d/99-zz.conf:1"));
        let nothing = MapSource::new();
        assert_eq!(read(&mut FactReader::new(&nothing)), Observed::Absent);
    }

    /// `apply_sysctl` of initscripts: sysctl.conf, then every file of /etc/sysctl.d but backups; of
    /// `sysctl -p` every line is written, and procps 3.2 knows neither `-key` nor patterns.
    #[test]
    fn rc_sysinit_reads_sysctl_conf_first_and_the_folder_where_it_does_at_all() {
        let files = MapSource::new()
            .with_file("/proc/1/comm", "init\n")
            .with_file("/etc/sysctl.conf", "vm.nr_hugepages=3\nvm.swappiness=10\n")
            .with_file("/etc/sysctl.d/oracle", "vm.nr_hugepages = 4\n-vm.nr_hugepages=5\nvm.*=6\n")
            .with_file("/etc/sysctl.d/.hidden", "vm.nr_hugepages=7\n")
            .with_file("/etc/sysctl.d/zz.rpmsave", "vm.nr_hugepages=7\n")
            .with_link("/etc/sysctl.d/zz", "/dev/null")
            .with_file("/usr/lib/sysctl.d/zz.conf", "vm.nr_hugepages=8\n");
        let by = |script: &str| files.clone().with_file("/etc/rc.d/rc.sysinit", script);
        let rhel6 = by("apply_sysctl\n");
        assert_eq!(winner(&rhel6, "vm.nr_hugepages"), won("4", "/etc/sysctl.d/oracle:1"));
        assert_eq!(winner(&rhel6, "vm.swappiness"), won("10", "/etc/sysctl.conf:2"));
        let rhel4 =
            by("action $\"Configuring kernel parameters: \" sysctl -e -p /etc/sysctl.conf\n");
        assert_eq!(winner(&rhel4, "vm.nr_hugepages"), won("3", "/etc/sysctl.conf:1"));
        let debian = by("").with_file("/etc/init.d/procps", "sysctl --system\n");
        assert_eq!(winner(&debian, "vm.nr_hugepages"), won("3", "/etc/sysctl.conf:1"));
    }

    #[test]
    fn where_it_is_not_known_that_the_folder_is_read_no_line_in_it_is_passed_over() {
        let suse = MapSource::new()
            .with_file("/etc/os-release", "PRETTY_NAME=\"SUSE Linux Enterprise Server 11 SP4\"\n")
            .with_file("/etc/sysctl.conf", "vm.nr_hugepages=3\n")
            .with_file("/etc/sysctl.d/net", "net.ipv4.ip_forward=1\n");
        assert_eq!(winner(&suse, "vm.nr_hugepages"), won("3", "/etc/sysctl.conf:1"));
        let both = suse.with_file("/etc/sysctl.d/pages", "vm.nr_hugepages=4\n");
        let why = "cannot tell whether /etc/sysctl.d/pages is read at boot".to_owned();
        assert_eq!(read(&mut FactReader::new(&both)), Observed::Malformed(why));
    }

    #[test]
    fn nothing_below_run_outlives_the_boot() {
        let source = MapSource::new()
            .with_file("/proc/1/comm", "systemd\n")
            .with_file("/run/sysctl.d/70.conf", "vm.nr_hugepages=3\n");
        assert_eq!(read(&mut FactReader::new(&source)), Observed::Absent);
        let kept = source.with_file("/etc/sysctl.d/60.conf", "vm.nr_hugepages=4\n");
        assert_eq!(winner(&kept, "vm.nr_hugepages"), won("4", "/etc/sysctl.d/60.conf:1"));
        // It hides nothing then either, and masks no service.
        let hidden = kept
            .with_link("/run/sysctl.d/60.conf", "/dev/null")
            .with_link("/run/systemd/system/systemd-sysctl.service", "/dev/null");
        assert_eq!(winner(&hidden, "vm.nr_hugepages"), won("4", "/etc/sysctl.d/60.conf:1"));
        let procps = hidden.with_file("/proc/1/comm", "init\n");
        assert_eq!(winner(&procps, "vm.nr_hugepages"), won("4", "/etc/sysctl.d/60.conf:1"));
    }

    #[test]
    fn a_denied_file_leaves_no_winner() {
        let source = MapSource::new()
            .with_file("/etc/sysctl.d/10.conf", "vm.nr_hugepages=3\n")
            .with_denied("/etc/sysctl.d/20.conf");
        let mut door = FactReader::new(&source);
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
            prop_assert_eq!(to_dotted_key(&slashes), key);
        }
    }
}
