//! What configuration files say: the next boot, the next login, the next start of a service.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::{Bytes, Limit, Observed, PageSize};

/// A value in a file, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileLocation {
    /// File.
    pub file: String,
    /// Line, from 1; 0 where a file is one value.
    pub line: u64,
}

impl FileLocation {
    /// The command line of a running process, which beats every file.
    pub fn command_line(pid: u32) -> Self {
        Self { file: format!("/proc/{pid}/cmdline"), line: 0 }
    }

    /// Whether the unit or script that starts the process has to be changed, not a file.
    pub fn is_command_line(&self) -> bool {
        let pid = self.file.strip_prefix("/proc/").and_then(|rest| rest.strip_suffix("/cmdline"));
        pid.is_some_and(|pid| !pid.is_empty() && pid.bytes().all(|digit| digit.is_ascii_digit()))
    }
}

impl fmt::Display for FileLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.file),
            line => write!(f, "{}:{line}", self.file),
        }
    }
}

/// A hugetlbfs that the boot mounts, or that its files leave to a person.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BootMount {
    /// Where, without a slash at the end.
    pub path: String,
    /// Its options, as fstab(5) has them.
    pub options: String,
    /// The line with `noauto`; `None` where the boot mounts it.
    pub noauto: Option<FileLocation>,
}

impl BootMount {
    /// Whether the boot makes it.
    pub const fn is_made(&self) -> bool {
        self.noauto.is_none()
    }
}

/// Everything that files decide.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    /// Assignments of the sysctl files in the boot's order: the last one of a key wins.
    pub sysctl: Observed<Vec<SysctlAssignment>>,
    /// Rules of limits.conf and limits.d, in reading order.
    pub limits: Observed<Vec<LimitRule>>,
    /// systemd service units of the host that its processes belong to.
    pub units: Vec<ServiceUnit>,
    /// `DefaultLimitMEMLOCK` of system.conf and its drop-ins.
    pub default_memlock: Observed<(Limit, FileLocation)>,
    /// systemd's release, from its library's name; absent before 231.
    pub systemd: Observed<u32>,
    /// The boot loader's next command line.
    pub boot: Observed<BootEntry>,
    /// Words about huge pages in the menu that grub-mkconfig would make now; `None` without GRUB.
    pub menu_words: Option<Vec<MenuWord>>,
    /// The active tuned profile.
    pub tuned: Observed<Tuned>,
    /// `w` lines of tmpfiles.d for /sys and /proc, in the order in which they apply.
    pub tmpfiles: Observed<Vec<TmpfilesWrite>>,
    /// hugetlbfs in /etc/fstab, those with `noauto` too, and systemd's /dev/hugepages.
    pub hugetlbfs: Observed<Vec<BootMount>>,
    /// Scripts, services, cron jobs and cloud-init that write a pool at boot.
    pub pool_writers: Vec<PoolWriter>,
    /// Scripts, services, cron jobs and cloud-init that switch THP at boot.
    pub thp_writers: Vec<ThpWriter>,
    /// The running kernel's built-in THP mode.
    pub thp_of_kernel: Observed<(String, FileLocation)>,
    /// Those of the files above that nothing applies.
    pub unheeded: Vec<IgnoredFile>,
    /// Which of the sysctl files the boot applies.
    pub sysctl_files: SysctlFiles,
    /// Oracle's Grid Infrastructure, where it is on the host.
    pub clusterware: Option<Clusterware>,
}

/// The limit that the files of Oracle's Grid Infrastructure set for all that it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clusterware {
    /// The memlock limit, soft and hard; absent where no file sets one.
    pub memlock: Observed<(Limit, FileLocation)>,
    /// Where a line that sets it belongs; `None` where no file of the stack was seen.
    pub file: Option<String>,
}

impl Configuration {
    /// The assignment of `key` that wins at the next boot; `key` with dots: `vm.nr_hugepages`.
    pub fn sysctl_winner(&self, key: &str) -> Option<&SysctlAssignment> {
        self.sysctl.as_known()?.iter().rev().find(|assignment| assignment.key == key)
    }
}

/// `key = value` in a sysctl.d file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SysctlAssignment {
    /// With dots.
    pub key: String,
    /// Trimmed.
    pub value: String,
    /// Where it stands.
    pub place: FileLocation,
}

/// A line outside the usual files that writes a pool at boot. When it runs is told by the order of
/// init scripts alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolWriter {
    /// Which pool.
    pub pool: WrittenPool,
    /// The line: `/etc/rc.local:3`.
    pub place: FileLocation,
    /// The line that starts the script, where that is in another file.
    pub by: Option<FileLocation>,
    /// Init scripts that have surely run by then, by name; none where systemd starts the host.
    pub after_scripts: BTreeSet<String>,
}

/// Which pool a line writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrittenPool {
    /// That of the default size: vm.nr_hugepages.
    Default,
    /// That of one size.
    Of(PageSize),
    /// The line does not tell which.
    Any,
}

impl PoolWriter {
    /// Whether it may write the pool of a size, on a host where that one is the default.
    pub fn may_write_pool(&self, page: PageSize, default: Option<PageSize>) -> bool {
        match self.pool {
            WrittenPool::Default => default.is_none_or(|default| default == page),
            WrittenPool::Of(size) => size == page,
            WrittenPool::Any => true,
        }
    }
}

impl fmt::Display for PoolWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        format_writer(f, &self.place, self.by.as_ref())
    }
}

fn format_writer(
    f: &mut fmt::Formatter<'_>,
    place: &FileLocation,
    by: Option<&FileLocation>,
) -> fmt::Result {
    match by {
        None => write!(f, "{place}"),
        Some(by) => write!(f, "{place} (started by {by})"),
    }
}

/// Files of kernel settings that nothing applies at boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IgnoredFile {
    /// Which: `sysctl.d`, `tmpfiles.d`.
    pub files: &'static str,
    /// Why.
    pub why: Unheeding,
}

/// Why files of kernel settings are not applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unheeding {
    /// The service of systemd that applies them is masked.
    Masked {
        /// `systemd-sysctl.service`.
        service: &'static str,
        /// What masks it.
        by: String,
    },
    /// The boot does not read them for certain: `/etc/rc.d/rc.sysinit does not read it`.
    NotRead(String),
}

impl fmt::Display for IgnoredFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = self.files;
        match &self.why {
            Unheeding::Masked { service, by } => {
                write!(f, "{service} is masked ({by}): nothing in {files} counts at boot")
            }
            Unheeding::NotRead(why) => write!(f, "nothing in {files} counts at boot: {why}"),
        }
    }
}

/// Which sysctl files a boot applies, in order: of one setting the last line counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SysctlFiles {
    /// systemd-sysctl: the folders of sysctl.d by file name.
    Folders,
    /// `sysctl --system` of procps: the folders of sysctl.d by file name, then /etc/sysctl.conf.
    #[default]
    FoldersThenConf,
    /// /etc/sysctl.conf, then the files of /etc/sysctl.d: initscripts of RHEL 5.7 and 6.2 on.
    ConfThenFolder {
        /// Whether all names count but backups, not only those that end in `.conf`.
        any_name: bool,
    },
    /// /etc/sysctl.conf alone.
    Conf,
    /// /etc/sysctl.conf, and perhaps sysctl.d.
    ConfAtLeast,
    /// None: the script that would apply them is switched off.
    Nothing {
        /// The command that switches it on.
        switched_on_by: &'static str,
    },
}

/// A line outside the usual files that switches transparent huge pages at boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThpWriter {
    /// `always`, `madvise`, `never`; `None` where the line does not say it in a word.
    pub value: Option<String>,
    /// The line: `/etc/rc.d/rc.local:7`.
    pub place: FileLocation,
    /// The line that starts the script, where that is in another file.
    pub by: Option<FileLocation>,
    /// Whether it runs before or after tmpfiles.d is applied.
    pub order: BootOrder,
}

/// When a command of the boot runs, compared with tmpfiles.d.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BootOrder {
    /// Before it: tmpfiles.d has the last word.
    First,
    /// After it.
    #[default]
    Last,
    /// Before or after it: no file tells which.
    Beside,
    /// No file tells, nor whether it runs.
    Untold,
}

impl fmt::Display for ThpWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        format_writer(f, &self.place, self.by.as_ref())
    }
}

/// A line of limits.conf about memlock, or one that exempts its domain from all limits (`oracle
/// -`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitRule {
    /// `oracle`, `@dba`, `*`, `%group`, `uid:uid`.
    pub domain: String,
    /// Sets the soft limit.
    pub soft: bool,
    /// Sets the hard limit.
    pub hard: bool,
    /// In bytes (the file says KiB).
    pub value: Limit,
    /// Where it stands.
    pub place: FileLocation,
}

impl LimitRule {
    /// Whether pam_limits skips the domain (limits.conf(5): type `-` without item and value).
    pub const fn is_exemption(&self) -> bool {
        !self.soft && !self.hard
    }
}

/// Which state of a unit's files systemd has loaded: it reads them at the boot and at a
/// daemon-reload, not when they change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loaded {
    /// The files are loaded, and the service began with them.
    Unchanged,
    /// The files changed after the service began and are loaded since.
    Anew,
    /// systemd loaded its units after the service began, which may have begun with other files.
    Since,
    /// This file changed after the last load; the service runs with what is loaded.
    NotYet(String),
    /// This file changed after the last load, and the service began before it: no file has what is
    /// loaded.
    Between(String),
}

impl Loaded {
    /// The file that systemd has yet to load.
    pub fn pending_file(&self) -> Option<&str> {
        match self {
            Self::NotYet(path) | Self::Between(path) => Some(path),
            Self::Unchanged | Self::Anew | Self::Since => None,
        }
    }
}

/// A systemd service as its files describe it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceUnit {
    /// `postgresql@15-main.service`.
    pub name: String,
    /// `LimitMEMLOCK` as the last drop-in leaves it, soft and hard; absent where none sets it.
    pub memlock: Observed<(Limit, Limit, FileLocation)>,
    /// The soft limit of `LimitAS` (RLIMIT_AS), where it sets one.
    pub address_space: Option<(Bytes, FileLocation)>,
    /// `User`.
    pub user: Observed<String>,
    /// Whether `PAMName` is set: limits.conf then applies after `LimitMEMLOCK`.
    pub pam: bool,
    /// Whether `CAP_IPC_LOCK` is among `AmbientCapabilities`.
    pub ambient_ipc_lock: bool,
    /// Its cgroup in the unified hierarchy, `/system.slice/db.service`; empty where unknown.
    pub cgroup: String,
    /// The NUMA nodes that its memory is restricted to, and the line that says so.
    pub nodes: Option<(Vec<u32>, FileLocation)>,
    /// The unit file and its drop-ins, in the order in which they apply.
    pub files: Vec<String>,
    /// The link to /dev/null in its place; one below /run is gone at the next boot.
    pub masked: Option<String>,
    /// No target wants it, though its file has an `[Install]` section.
    pub disabled: bool,
    /// Which state of its files systemd holds; absent where no file tells.
    pub loaded: Observed<Loaded>,
    /// What its next start runs, by its files.
    pub start: ServiceStart,
}

/// What a service starts, as its files have it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceStart {
    /// The programs of `ExecStart=`, in order.
    pub commands: Vec<StartCommand>,
    /// Those of its variables that servers are known to read.
    pub environment: BTreeMap<String, String>,
    /// The files of variables that exist and are read at each start.
    pub variable_files: Vec<String>,
    /// Where its files of variables are named to be, there or not: files, and folders of patterns.
    pub variable_places: Vec<String>,
    /// `WorkingDirectory`, where it is a path; the root folder without it.
    pub directory: Option<String>,
    /// A file of variables that could not be read.
    pub unread: Option<FileLocation>,
    /// A required file of variables that is missing, and the line that names it.
    pub lacks: Option<(String, FileLocation)>,
    /// Which state of its files systemd holds; absent where no file tells, or where it runs just
    /// that.
    pub loaded: Observed<Loaded>,
}

/// One program that a service starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartCommand {
    /// The program and its arguments, variables filled in, without wrappers.
    pub words: Vec<String>,
    /// The same as the unit's files alone have it: with no variable of any file or line.
    pub bare_words: Vec<String>,
    /// The line that names it.
    pub place: FileLocation,
}

crate::named_enum! {
    /// What reads the command line of the next boot, and from where.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum BootLoader as_str {
        /// GRUB, from its generated menu.
        Grub = "grub",
        /// GRUB before version 2: people and grubby edit its menu (RHEL 4 to 6, SLES 10 and 11).
        GrubLegacy = "grub-legacy",
        /// GRUB or another, from entries of the Boot Loader Specification that grubby keeps.
        Bls = "bls",
        /// systemd-boot, from its entries or a unified kernel image.
        SystemdBoot = "systemd-boot",
    }
}

impl fmt::Display for BootLoader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What the boot loader will pass at the next boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootEntry {
    /// Who passes it.
    pub loader: BootLoader,
    /// Words of the default entry's command line.
    pub command_line: Vec<String>,
    /// Where it stands.
    pub place: FileLocation,
}

/// A kernel parameter in the menu's source, which no boot has before the menu is made anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MenuWord {
    /// `hugepages=600`.
    pub word: String,
    /// Where it stands.
    pub place: FileLocation,
}

/// The active tuned profile, its includes merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tuned {
    /// `throughput-performance`.
    pub profile: String,
    /// `[vm] transparent_hugepages` after all includes.
    pub transparent_hugepages: Observed<(String, FileLocation)>,
    /// `[sysctl]` after all includes.
    pub sysctl: Vec<SysctlAssignment>,
    /// The sysctl files of /run and /etc, which TuneD applies again after its own `[sysctl]`;
    /// absent without `[sysctl]` or with `reapply_sysctl` off.
    pub reapplied: Observed<Vec<SysctlAssignment>>,
    /// `[bootloader] cmdline*` words.
    pub command_line: Vec<String>,
}

/// A `w` line of tmpfiles.d.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TmpfilesWrite {
    /// Target.
    pub path: String,
    /// What is written.
    pub value: String,
    /// Where it stands.
    pub place: FileLocation,
}
