//! What configuration files say: the next boot, the next login, the next start of a service.

use std::collections::BTreeMap;
use std::fmt;

use crate::{Bytes, Limit, Observed, PageSize};

/// A value in a file, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// File.
    pub file: String,
    /// Line, from 1; 0 where a file is one value.
    pub line: u64,
}

impl Place {
    /// The command line of a running process: it beats every file, and only who starts the process changes it.
    pub fn command_line(pid: u32) -> Self {
        Self { file: format!("/proc/{pid}/cmdline"), line: 0 }
    }

    /// Whether it is one: what stands there is to be changed in the unit or script that starts the process, in no file
    /// of settings.
    pub fn is_command_line(&self) -> bool {
        let pid = self.file.strip_prefix("/proc/").and_then(|rest| rest.strip_suffix("/cmdline"));
        pid.is_some_and(|pid| !pid.is_empty() && pid.bytes().all(|digit| digit.is_ascii_digit()))
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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
    /// The line that leaves it to a person (`noauto`); none of what the boot mounts.
    pub noauto: Option<Place>,
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
    /// Assignments of the sysctl files in the order in which the boot makes them: the last one of a key wins.
    pub sysctl: Observed<Vec<SysctlAssignment>>,
    /// Rules of limits.conf and limits.d, in reading order.
    pub limits: Observed<Vec<LimitRule>>,
    /// systemd service units that are on the host and that a process here belongs to.
    pub units: Vec<Unit>,
    /// `DefaultLimitMEMLOCK` of system.conf and its drop-ins.
    pub default_memlock: Observed<(Limit, Place)>,
    /// systemd's release, by the name of its own library; absent where there is none (before 231).
    pub systemd: Observed<u32>,
    /// The boot loader's next command line.
    pub boot: Observed<BootEntry>,
    /// Words about huge pages of the menu that grub-mkconfig would make now, in their order; `None` where no menu of GRUB's is here.
    pub menu_words: Option<Vec<MenuWord>>,
    /// The active tuned profile.
    pub tuned: Observed<Tuned>,
    /// `w` lines of tmpfiles.d that write below /sys or /proc, in the order in which they are applied.
    pub tmpfiles: Observed<Vec<TmpfilesWrite>>,
    /// What hugetlbfs the boot mounts: lines of /etc/fstab, those with `noauto` among them, and /dev/hugepages, which systemd
    /// mounts.
    pub hugetlbfs: Observed<Vec<BootMount>>,
    /// What else writes a pool when the host boots: scripts, services, cron, cloud-init.
    pub pool_writers: Vec<PoolWriter>,
    /// What else switches THP when the host boots: scripts, services, cron, cloud-init.
    pub thp_writers: Vec<ThpWriter>,
    /// What THP is where nothing sets it: how the kernel that runs was built.
    pub thp_of_kernel: Observed<(String, Place)>,
    /// Those of the files above that nothing carries out.
    pub unheeded: Vec<Unheeded>,
    /// Which of the sysctl files the boot carries out.
    pub sysctl_files: SysctlFiles,
    /// Oracle's Grid Infrastructure, where it is on the host.
    pub clusterware: Option<Clusterware>,
}

/// What the files of Oracle's Grid Infrastructure give its stack, and all that it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clusterware {
    /// The memlock limit, soft and hard; absent where no file sets one.
    pub memlock: Observed<(Limit, Place)>,
    /// Where a line that sets it belongs; none where neither the stack's environment nor its scripts were seen.
    pub file: Option<String>,
}

impl Configuration {
    /// The assignment of `key` that wins at the next boot; `key` with dots: `vm.nr_hugepages`.
    pub fn sysctl_winner(&self, key: &str) -> Option<&SysctlAssignment> {
        self.sysctl.known()?.iter().rev().find(|assignment| assignment.key == key)
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
    pub place: Place,
}

/// A line that writes a pool when the host boots, and is in none of the files that exist for that: when it runs, and whether
/// it does, no file tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolWriter {
    /// Which pool.
    pub pool: WrittenPool,
    /// The line: `/etc/rc.local:3`.
    pub place: Place,
    /// The line that starts the script that has it, where it is another file's.
    pub by: Option<Place>,
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
    pub fn writes(&self, page: PageSize, default: Option<PageSize>) -> bool {
        match self.pool {
            WrittenPool::Default => default.is_none_or(|default| default == page),
            WrittenPool::Of(size) => size == page,
            WrittenPool::Any => true,
        }
    }
}

impl std::fmt::Display for PoolWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.by {
            None => self.place.fmt(f),
            Some(by) => write!(f, "{} (started by {by})", self.place),
        }
    }
}

/// Files of kernel settings that nothing carries out when the host boots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unheeded {
    /// Which: `sysctl.d`, `tmpfiles.d`.
    pub files: &'static str,
    /// Why.
    pub why: Unheeding,
}

/// Why files of kernel settings count for nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unheeding {
    /// The service of systemd that carries them out is masked.
    Masked {
        /// `systemd-sysctl.service`.
        service: &'static str,
        /// What masks it.
        by: String,
    },
    /// What starts this host does not read them, or it is not known that it does: `/etc/rc.d/rc.sysinit does not read it`.
    NotRead(String),
}

impl std::fmt::Display for Unheeded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let files = self.files;
        match &self.why {
            Unheeding::Masked { service, by } => {
                write!(f, "{service} is masked ({by}): nothing in {files} counts at boot")
            }
            Unheeding::NotRead(why) => write!(f, "nothing in {files} counts at boot: {why}"),
        }
    }
}

/// Which files of kernel settings a boot carries out, and in which order: of one setting the last line counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SysctlFiles {
    /// systemd-sysctl: the folders of sysctl.d by file name.
    Folders,
    /// `sysctl --system` of procps: the folders of sysctl.d by file name, then /etc/sysctl.conf.
    #[default]
    FoldersThenConf,
    /// /etc/sysctl.conf, then the files of /etc/sysctl.d: initscripts of RHEL 5.7 and 6.2 and later.
    ConfThenFolder {
        /// Whether every name counts but those of backups, as against those that end in `.conf`.
        any_name: bool,
    },
    /// /etc/sysctl.conf alone.
    Conf,
    /// /etc/sysctl.conf, and whether sysctl.d too is not known.
    ConfAtLeast,
}

/// What a line that switches transparent huge pages when the host boots writes, beside the files that exist for that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThpWriter {
    /// `always`, `madvise`, `never`; `None` where the line does not say it in a word.
    pub value: Option<String>,
    /// The line: `/etc/rc.d/rc.local:7`.
    pub place: Place,
    /// The line that starts the script that has it, where it is another file's.
    pub by: Option<Place>,
    /// When it runs, beside what carries out tmpfiles.d.
    pub order: BootOrder,
}

/// When a command of the boot runs, beside what carries out tmpfiles.d.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BootOrder {
    /// Before it, which has the last word then.
    First,
    /// After it.
    #[default]
    Last,
    /// No file tells.
    Untold,
}

impl std::fmt::Display for ThpWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.by {
            Some(by) => write!(f, "{} (started by {by})", self.place),
            None => write!(f, "{}", self.place),
        }
    }
}

/// A line of limits.conf about memlock, or one about no limit that exempts whom it names from all of them (`oracle -`): it sets
/// neither.
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
    pub place: Place,
}

impl LimitRule {
    /// Whether it has pam_limits leave alone whom it names (limits.conf(5): a type of `-` without item and value).
    pub const fn is_exemption(&self) -> bool {
        !self.soft && !self.hard
    }
}

/// What a service's next start goes by, where systemd is not asked: it holds the files of a unit as they were when it last loaded
/// its units (at the boot, and at a daemon-reload), whatever has become of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loaded {
    /// As its files are, and as it was when the service began.
    Unchanged,
    /// Files were changed since the service began, and systemd has loaded them since.
    Anew,
    /// systemd has loaded its units since the service began; the files are older, and what it began with may have been others.
    Since,
    /// This one was after systemd last loaded its units, which was before the service began: it runs with what is loaded.
    NotYet(String),
    /// This one was after systemd last loaded its units, and that was after the service began: what is loaded is in no file.
    Between(String),
}

impl Loaded {
    /// The file that systemd has yet to load.
    pub fn waiting(&self) -> Option<&str> {
        match self {
            Self::NotYet(path) | Self::Between(path) => Some(path),
            Self::Unchanged | Self::Anew | Self::Since => None,
        }
    }
}

/// A systemd service as its files describe it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unit {
    /// `postgresql@15-main.service`.
    pub name: String,
    /// `LimitMEMLOCK` as the last drop-in leaves it, soft and hard; absent where none sets it.
    pub memlock: Observed<(Limit, Limit, Place)>,
    /// The soft limit of `LimitAS` (RLIMIT_AS), where it sets one.
    pub address_space: Option<(Bytes, Place)>,
    /// `User`.
    pub user: Observed<String>,
    /// Whether `PAMName` is set: what it starts is a session of PAM, and limits.conf counts after `LimitMEMLOCK`.
    pub pam: bool,
    /// Whether `CAP_IPC_LOCK` is among `AmbientCapabilities`.
    pub ambient_ipc_lock: bool,
    /// The cgroup of the unified hierarchy that systemd starts it in: `/system.slice/db.service`; empty where its name tells none.
    pub cgroup: String,
    /// The NUMA nodes that its memory is kept to, and what says so; none where nothing keeps it to some.
    pub nodes: Option<(Vec<u32>, Place)>,
    /// The unit file and its drop-ins, in the order in which they apply.
    pub files: Vec<String>,
    /// The link to /dev/null in its place: systemd starts no such unit. One below /run is gone at the next boot.
    pub masked: Option<String>,
    /// Its file says who is to start it, and nobody has it among his own: it is disabled.
    pub disabled: bool,
    /// Whether systemd holds it as its files are; absent where no file tells.
    pub loaded: Observed<Loaded>,
    /// What its next start runs, by its files.
    pub start: ServiceStart,
}

/// What a service starts, as its files have it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceStart {
    /// The programs of `ExecStart=`, in order.
    pub commands: Vec<StartCommand>,
    /// Those of its variables that servers are known to read; of all others nothing is kept.
    pub environment: BTreeMap<String, String>,
    /// The files of variables that are read at each start, where they are there.
    pub variable_files: Vec<String>,
    /// A file of variables that is there and could not be read.
    pub unread: Option<Place>,
    /// A file of variables that is not there and without which systemd does not start it, and what names that.
    pub lacks: Option<(String, Place)>,
    /// Whether systemd holds what its files are now; absent where no file tells, or where it runs just that.
    pub loaded: Observed<Loaded>,
}

/// One program that a service starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartCommand {
    /// The program and its arguments, variables filled in, without what only wraps it.
    pub words: Vec<String>,
    /// The line that names it.
    pub place: Place,
}

/// What reads the command line of the next boot, and from where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loader {
    /// GRUB, from its generated menu.
    Grub,
    /// GRUB before version 2, from a menu that people and grubby edit (RHEL 4 to 6, SLES 10 and 11).
    GrubLegacy,
    /// GRUB or another, from entries of the Boot Loader Specification that grubby keeps.
    Bls,
    /// systemd-boot, from its entries or a unified kernel image.
    SystemdBoot,
}

impl Loader {
    /// Name in text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Grub => "grub",
            Self::GrubLegacy => "grub-legacy",
            Self::Bls => "bls",
            Self::SystemdBoot => "systemd-boot",
        }
    }
}

impl fmt::Display for Loader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What the boot loader will pass at the next boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootEntry {
    /// Who passes it.
    pub loader: Loader,
    /// Words of the default entry's command line.
    pub command_line: Vec<String>,
    /// Where it stands.
    pub place: Place,
}

/// A word of the kernel's command line, where the boot loader's menu is made from: no boot has it before the menu is made anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MenuWord {
    /// `hugepages=600`.
    pub word: String,
    /// Where it stands.
    pub place: Place,
}

/// The active tuned profile, its includes merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tuned {
    /// `throughput-performance`.
    pub profile: String,
    /// `[vm] transparent_hugepages` after all includes.
    pub transparent_hugepages: Observed<(String, Place)>,
    /// `[sysctl]` after all includes.
    pub sysctl: Vec<SysctlAssignment>,
    /// What TuneD writes after its own `[sysctl]`: the files of /run/sysctl.d and /etc/sysctl.d and /etc/sysctl.conf once
    /// more, line by line. Absent where the profile has no `[sysctl]`, or `reapply_sysctl` is off.
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
    pub place: Place,
}
