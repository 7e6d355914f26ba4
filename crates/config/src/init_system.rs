//! What starts the host, and which files of kernel settings it carries out.
//!
//! systemd reads the folders of sysctl.d and of tmpfiles.d. Where something else starts the host
//! nothing reads tmpfiles.d, and a script reads the sysctl files: what stands in it decides, as one
//! release of a distribution after the other changed it.
//!
//! - rc.sysinit of Red Hat's initscripts: /etc/sysctl.conf alone, and from 9.03.24 (RHEL 6.2) and
//!   8.45.37 (RHEL 5.7) on the files of /etc/sysctl.d after it
//!   (<https://github.com/fedora-sysv/initscripts/commit/13c5a4efdd53445e0d92d71d630402a2a20d689e>,
//!   <https://github.com/fedora-sysv/initscripts/commit/be72270ea508ce6180416562e65001983ba3e76f>).
//!   RHEL 4 never did
//!   (<https://github.com/fedora-sysv/initscripts/blob/rhel4-branch/rc.d/rc.sysinit>).
//! - boot.sysctl of SUSE: `sysctl --system` in its last form
//!   (<https://github.com/anthon-os/anthonos_SuSE_historical/blob/master/etc/init.d/boot.sysctl>),
//!   /etc/sysctl.conf before.
//! - /etc/init.d/procps of Debian, /etc/init/procps.conf of Ubuntu's upstart: the folders, then
//!   /etc/sysctl.conf.

use hugewise_model::configuration::{IgnoredFile, SysctlFiles, Unheeding};

use super::files::numbered_lines;
use super::{identity, systemd};
use hugewise_procfs::kernel::release;
use hugewise_source::FactReader;

pub(super) const SYSCTL_SERVICE: &str = "systemd-sysctl.service";

pub(super) const TMPFILES_SERVICE: &str = "systemd-tmpfiles-setup.service";

const SCRIPTS: [&str; 4] = [
    "/etc/rc.d/rc.sysinit",
    "/etc/init.d/boot.sysctl",
    "/etc/init.d/procps",
    "/etc/init/procps.conf",
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InitSystem {
    pub(crate) sysctl: SysctlFiles,
    /// Whether tmpfiles.d counts: where nothing tells what starts the host, it is taken to.
    pub(crate) tmpfiles: bool,
    /// What tells it, where it is not systemd: a script, or the release.
    told_by: String,
}

impl InitSystem {
    pub(crate) fn is_systemd(&self) -> bool {
        self.sysctl == SysctlFiles::Folders
    }

    pub(crate) fn ignored_files(&self, door: &FactReader<'_>) -> Vec<IgnoredFile> {
        let masked = |service, files| {
            let by = systemd::find_mask(door, service)?;
            Some(IgnoredFile { files, why: Unheeding::Masked { service, by } })
        };
        let not_read = |files, why| IgnoredFile { files, why: Unheeding::NotRead(why) };
        let by = &self.told_by;
        let of_sysctl = match self.sysctl {
            SysctlFiles::Folders => masked(SYSCTL_SERVICE, "sysctl.d"),
            SysctlFiles::Conf => {
                Some(not_read("sysctl.d", format!("/etc/sysctl.conf alone is read ({by})")))
            }
            SysctlFiles::ConfAtLeast => Some(not_read(
                "sysctl.d",
                format!("hugewise cannot tell whether it is read there ({by})"),
            )),
            SysctlFiles::Nothing { .. } => Some(not_read(
                "sysctl.d",
                format!("{by} applies it and /etc/sysctl.conf, and no run level starts that"),
            )),
            SysctlFiles::FoldersThenConf | SysctlFiles::ConfThenFolder { .. } => None,
        };
        let of_tmpfiles = if self.tmpfiles {
            masked(TMPFILES_SERVICE, "tmpfiles.d")
        } else {
            Some(not_read("tmpfiles.d", format!("this host boots without systemd ({by})")))
        };
        of_sysctl.into_iter().chain(of_tmpfiles).collect()
    }
}

pub(crate) fn read(door: &FactReader<'_>) -> InitSystem {
    let source = door.source;
    let first = source.read("/proc/1/comm").into_known();
    let is_systemd = first.as_deref().map(|comm| comm.trim_ascii() == b"systemd");
    let is_installed = || {
        let files = ["/etc/systemd/system.conf", "/usr/lib/systemd/system.conf"];
        files.iter().any(|path| !source.read(path).is_absent())
    };
    // Without a first process: units that somebody enabled, and no script that starts the host.
    let has_units = || {
        let enabled = |name: &String| name.ends_with(".wants") || name.ends_with(".service");
        let units = || source.list_folder("/etc/systemd/system").into_known().unwrap_or_default();
        SCRIPTS.iter().all(|path| source.read(path).is_absent()) && units().iter().any(enabled)
    };
    if is_systemd.unwrap_or_else(|| is_installed() || has_units()) {
        return InitSystem {
            sysctl: SysctlFiles::Folders,
            tmpfiles: true,
            told_by: "systemd".to_owned(),
        };
    }
    // The first process of a container is no init, and tells nothing of how its host is started.
    let tmpfiles = is_installed();
    for path in SCRIPTS {
        if let Some(sysctl) =
            source.read(path).into_known().and_then(|script| parse_sysctl_calls(&script))
        {
            let off = find_what_switches_on(door, path);
            let off = off.map(|switched_on_by| SysctlFiles::Nothing { switched_on_by });
            let sysctl = off.unwrap_or(sysctl);
            return InitSystem { sysctl, tmpfiles, told_by: path.to_owned() };
        }
    }
    match of_release(door) {
        Some((sysctl, told_by)) => InitSystem { sysctl, tmpfiles, told_by },
        None => InitSystem {
            sysctl: SysctlFiles::FoldersThenConf,
            tmpfiles: true,
            told_by: String::new(),
        },
    }
}

/// The command that switches such a script on, where the links of its run level are there and none
/// is to it (`chkconfig boot.sysctl off`). What is looked at is read, so that a capture has it.
fn find_what_switches_on(door: &FactReader<'_>, script: &str) -> Option<&'static str> {
    let (folder, name, command) = match script {
        "/etc/init.d/boot.sysctl" => {
            ("/etc/init.d/boot.d", "boot.sysctl", "chkconfig boot.sysctl on")
        }
        "/etc/init.d/procps" => ("/etc/rcS.d", "procps", "update-rc.d procps defaults"),
        _ => return None,
    };
    let links = door.source.list_folder(folder).into_known().unwrap_or_default();
    let starts_it = |link: &&String| {
        let behind = link.strip_prefix('S').unwrap_or_default();
        behind.trim_start_matches(|sign: char| sign.is_ascii_digit()) == name
    };
    let link = links.iter().find(starts_it);
    let read = link.or(links.first())?;
    drop(door.source.read_link(&format!("{folder}/{read}")));
    link.is_none().then_some(command)
}

fn parse_sysctl_calls(script: &[u8]) -> Option<SysctlFiles> {
    let mut files = None;
    for (_, line) in numbered_lines(script) {
        let line = line.trim();
        // What is printed is not done.
        if line.starts_with('#') || line.starts_with("echo ") {
            continue;
        }
        if line.contains("--system") {
            return Some(SysctlFiles::FoldersThenConf);
        }
        if line.contains("apply_sysctl") {
            return Some(SysctlFiles::ConfThenFolder { any_name: true });
        }
        let (conf, folder) = (line.find("/etc/sysctl.conf"), line.find("/etc/sysctl.d/"));
        let any_name = !line.contains("/etc/sysctl.d/*.conf");
        files = match (files, conf, folder) {
            (None, Some(conf), Some(folder)) if folder < conf => Some(SysctlFiles::FoldersThenConf),
            (None, Some(_), Some(_)) | (Some(SysctlFiles::Conf), _, Some(_)) => {
                Some(SysctlFiles::ConfThenFolder { any_name })
            }
            (None, Some(_), None) => Some(SysctlFiles::Conf),
            (None, None, Some(_)) => Some(SysctlFiles::FoldersThenConf),
            (before, ..) => before,
        };
    }
    files
}

/// What a capture keeps of such a script: nothing but what is told of it.
pub fn distill_init_script(path: &str, script: &[u8]) -> Option<Vec<u8>> {
    if !SCRIPTS.contains(&path) {
        return None;
    }
    let text = match parse_sysctl_calls(script) {
        Some(SysctlFiles::FoldersThenConf) => "sysctl --system\n",
        Some(SysctlFiles::ConfThenFolder { any_name: true }) => "apply_sysctl\n",
        Some(SysctlFiles::ConfThenFolder { any_name: false }) => {
            "for file in /etc/sysctl.conf /etc/sysctl.d/*.conf; do sysctl -p $file; done\n"
        }
        Some(SysctlFiles::Conf | SysctlFiles::ConfAtLeast) => "sysctl -p /etc/sysctl.conf\n",
        Some(SysctlFiles::Folders | SysctlFiles::Nothing { .. }) | None => "",
    };
    Some(text.as_bytes().to_vec())
}

/// For releases without systemd, where a capture did not keep the script.
fn of_release(door: &FactReader<'_>) -> Option<(SysctlFiles, String)> {
    // What is wrong with these files is said where they are read for themselves.
    let mut quiet = FactReader::new(door.source);
    let system = identity::read_os(&mut quiet).into_known().unwrap_or_default();
    let red_hat = ["Red Hat", "CentOS", "Oracle", "Enterprise Linux", "Scientific Linux"];
    let version = parse_os_version(&system);
    let is_red_hat = red_hat.iter().any(|name| system.contains(name));
    let of_red_hat = |major: u32, minor: Option<u32>| match (major, minor) {
        (..=4, _) => Some(SysctlFiles::Conf),
        (5, Some(minor)) => Some(sysctl_files_since(minor >= 7)),
        (6, Some(minor)) => Some(sysctl_files_since(minor >= 2)),
        (5 | 6, None) => Some(SysctlFiles::ConfAtLeast),
        _ => None,
    };
    let is_suse =
        system.contains("SUSE") && version.is_some_and(|(major, _)| (9..=11).contains(&major));
    let known = match version {
        Some((major, minor)) if is_red_hat => of_red_hat(major, minor),
        _ if is_suse => Some(SysctlFiles::ConfAtLeast),
        _ => None,
    };
    if let Some(known) = known {
        return Some((known, format!("going by the release: {system}")));
    }
    // systemd asks for a later one (<https://github.com/systemd/systemd/blob/v183/README>: 2.6.39).
    let osrelease = quiet.parse(release::PATH, release::parse);
    let kernel =
        osrelease.or_else_absent(|| quiet.parse(release::VERSION, release::parse)).into_known()?;
    let is_old = version.is_none_or(|_| !is_red_hat) && kernel.is_before_2_6(33);
    is_old.then(|| (SysctlFiles::ConfAtLeast, format!("going by the kernel: {}", kernel.text)))
}

const fn sysctl_files_since(is_later: bool) -> SysctlFiles {
    if is_later { SysctlFiles::ConfThenFolder { any_name: true } } else { SysctlFiles::Conf }
}

/// `6.5` of `Red Hat Enterprise Linux Server release 6.5 (Santiago)`; old ones have their minor
/// number as an update: `release 4 (Nahant Update 6)`.
fn parse_os_version(system: &str) -> Option<(u32, Option<u32>)> {
    let word = system
        .split([' ', '(', ')'])
        .find(|word| word.starts_with(|sign: char| sign.is_ascii_digit()))?;
    let mut parts = word.split('.');
    let major = parts.next()?.parse().ok()?;
    Some((major, parts.next().and_then(|minor| minor.parse().ok())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hugewise_model::Observed;
    use hugewise_source::map::MapSource;

    fn found(source: &MapSource) -> SysctlFiles {
        read(&FactReader::new(source)).sysctl
    }

    const ANY: SysctlFiles = SysctlFiles::ConfThenFolder { any_name: true };

    /// Lines of the scripts as they were shipped, see the module's documentation.
    #[test]
    fn the_script_tells_what_it_reads() {
        let rhel4 = "       sysctl -w kernel.modprobe=\"/sbin/modprobe\" >/dev/null 2>&1\n\
                     action $\"Configuring kernel parameters: \" sysctl -e -p /etc/sysctl.conf\n";
        let rhel6 =
            "# Configure kernel parameters\nupdate_boot_stage RCkernelparam\napply_sysctl\n";
        let between = "sysctl -e -p /etc/sysctl.conf >/dev/null 2>&1\nfor file in /etc/sysctl.d/* \
             ; do\n\
                       \tis_ignored_file \"$file\" && continue\n";
        let suse = "case \"$1\" in\n  start)\n\techo -n \"Applying sysctl \
             settings\"\n\t/sbin/sysctl -e -q --system\n";
        let suse_before = "echo -n \"Setting current sysctl status from /etc/sysctl.conf\"\n\
                           sysctl -e -q -p /etc/sysctl.conf 2>/dev/null\n";
        let ubuntu =
            "script\n    cat /etc/sysctl.d/*.conf /etc/sysctl.conf | sysctl -e -p -\nend script\n";
        let conf_first =
            "for file in /etc/sysctl.conf /etc/sysctl.d/*.conf ; do sysctl -p $file ; done\n";
        for (path, text, files) in [
            ("/etc/rc.d/rc.sysinit", rhel4, Some(SysctlFiles::Conf)),
            ("/etc/rc.d/rc.sysinit", rhel6, Some(ANY)),
            ("/etc/rc.d/rc.sysinit", between, Some(ANY)),
            ("/etc/init.d/boot.sysctl", suse, Some(SysctlFiles::FoldersThenConf)),
            ("/etc/init.d/boot.sysctl", suse_before, Some(SysctlFiles::Conf)),
            ("/etc/init/procps.conf", ubuntu, Some(SysctlFiles::FoldersThenConf)),
            (
                "/etc/init.d/procps",
                conf_first,
                Some(SysctlFiles::ConfThenFolder { any_name: false }),
            ),
            ("/etc/init.d/procps", "# sysctl -p /etc/sysctl.conf\necho /etc/sysctl.conf\n", None),
        ] {
            assert_eq!(parse_sysctl_calls(text.as_bytes()), files, "{text}");
            let kept = distill_init_script(path, text.as_bytes()).unwrap();
            assert_eq!(parse_sysctl_calls(&kept), files, "{text} as a capture keeps it");
            if let Some(files) = files {
                let host =
                    MapSource::new().with_file(path, text).with_file("/proc/1/comm", "init\n");
                assert_eq!(found(&host), files, "{text}");
            }
        }
        assert_eq!(distill_init_script("/etc/sysctl.conf", b"x"), None);
    }

    #[test]
    fn systemd_is_systemd_whatever_scripts_lie_about() {
        let host = MapSource::new().with_file("/etc/rc.d/rc.sysinit", "apply_sysctl\n");
        assert_eq!(found(&host), ANY);
        assert_eq!(
            found(&host.clone().with_file("/proc/1/comm", "systemd\n")),
            SysctlFiles::Folders
        );
        assert_eq!(
            found(&host.clone().with_file("/etc/systemd/system.conf", "")),
            SysctlFiles::Folders
        );
        // A container of a host with systemd in it.
        let container =
            host.with_file("/etc/systemd/system.conf", "").with_file("/proc/1/comm", "bash\n");
        assert!(read(&FactReader::new(&container)).tmpfiles);
    }

    /// A captured host with units and neither the first process nor system.conf in it.
    #[test]
    fn units_that_are_enabled_tell_of_systemd_where_nothing_else_tells() {
        let unit = "/etc/systemd/system/dbora.service";
        let host = MapSource::new().with_file(unit, "[Service]\nExecStart=/x\n");
        assert_eq!(found(&host), SysctlFiles::Folders);
        let upstart = host.clone().with_file(
            "/etc/init/procps.conf",
            "cat /etc/sysctl.d/*.conf /etc/sysctl.conf | sysctl -p -",
        );
        assert_eq!(found(&upstart), SysctlFiles::FoldersThenConf);
        assert_eq!(found(&host.with_file("/proc/1/comm", "init\n")), SysctlFiles::FoldersThenConf);
    }

    /// RHEL 5.7 came in July 2011 with initscripts 8.45.38, RHEL 6.2 in December 2011 with 9.03.27.
    #[test]
    fn without_the_script_the_release_tells() {
        for (system, files) in [
            ("Red Hat Enterprise Linux AS release 4 (Nahant Update 6)", SysctlFiles::Conf),
            ("Red Hat Enterprise Linux Server release 5.4 (Tikanga)", SysctlFiles::Conf),
            ("Enterprise Linux Enterprise Linux Server release 5.8 (Carthage)", ANY),
            ("CentOS Linux release 6.0 (Final)", SysctlFiles::Conf),
            ("CentOS release 6.5 (Final)", ANY),
            ("Oracle Linux Server 6.5", ANY),
            ("CentOS release 6 (Final)", SysctlFiles::ConfAtLeast),
            ("SUSE Linux Enterprise Server 11 SP4", SysctlFiles::ConfAtLeast),
            ("SUSE Linux Enterprise Server 12 SP5", SysctlFiles::FoldersThenConf),
            ("Oracle Linux Server 7.9", SysctlFiles::FoldersThenConf),
            ("Debian GNU/Linux 12 (bookworm)", SysctlFiles::FoldersThenConf),
        ] {
            let host = MapSource::new().with_file("/etc/redhat-release", format!("{system}\n"));
            assert_eq!(found(&host), files, "{system}");
        }
        let kernel =
            |text: &str| found(&MapSource::new().with_file("/proc/sys/kernel/osrelease", text));
        assert_eq!(kernel("2.6.18-164.el5\n"), SysctlFiles::ConfAtLeast);
        assert_eq!(kernel("2.6.39-400.el5uek\n"), SysctlFiles::FoldersThenConf);
        assert_eq!(kernel("6.1.0\n"), SysctlFiles::FoldersThenConf);
    }

    /// SLES 11: `chkconfig boot.sysctl off`, as Oracle's installation guide warns of.
    #[test]
    fn a_script_that_no_run_level_starts_applies_nothing() {
        let script = "/etc/init.d/boot.sysctl";
        let idle = MapSource::new()
            .with_file("/proc/1/comm", "init\n")
            .with_file(script, "sysctl -e -q -p /etc/sysctl.conf\n")
            .with_file("/etc/sysctl.conf", "vm.nr_hugepages = 4200\n");
        assert_eq!(found(&idle), SysctlFiles::Conf, "nothing is known of its run levels");
        let off = idle.with_link("/etc/init.d/boot.d/S07boot.localfs", "../boot.localfs");
        assert_eq!(
            found(&off),
            SysctlFiles::Nothing { switched_on_by: "chkconfig boot.sysctl on" }
        );
        let read = crate::sysctl::read(&mut FactReader::new(&off));
        assert_eq!(read, Observed::Known(Vec::new()));
        let on = off.with_link("/etc/init.d/boot.d/S11boot.sysctl", "../boot.sysctl");
        assert_eq!(found(&on), SysctlFiles::Conf);
    }

    #[test]
    fn what_nothing_reads_is_said_with_who_tells() {
        let said = |source: &MapSource| {
            let door = FactReader::new(source);
            read(&door).ignored_files(&door).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let rhel4 =
            MapSource::new().with_file("/etc/rc.d/rc.sysinit", "sysctl -e -p /etc/sysctl.conf\n");
        assert_eq!(
            said(&rhel4),
            [
                "nothing in sysctl.d counts at boot: /etc/sysctl.conf alone is read \
                     (/etc/rc.d/rc.sysinit)",
                "nothing in tmpfiles.d counts at boot: this host boots without systemd \
                     (/etc/rc.d/rc.sysinit)"
            ]
        );
        let rhel6 = MapSource::new().with_file("/etc/rc.d/rc.sysinit", "apply_sysctl\n");
        assert_eq!(said(&rhel6).len(), 1);
        assert!(said(&MapSource::new()).is_empty(), "nothing is known of such a host");
        let link = "/etc/systemd/system/systemd-sysctl.service";
        let masked =
            MapSource::new().with_file("/proc/1/comm", "systemd\n").with_link(link, "/dev/null");
        let why = format!(
            "systemd-sysctl.service is masked ({link}): nothing in sysctl.d counts at boot"
        );
        assert_eq!(said(&masked), [why]);
    }
}
