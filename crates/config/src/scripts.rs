//! Who else writes a pool or switches THP when the host boots: rc.local and init scripts, units
//! that are enabled, cron's `@reboot`, cloud-init's `bootcmd`, rules of udev, hooks of the network
//! and of libvirt, and scripts of TuneD's active profile. When such a line runs no file tells, nor
//! whether it does: it is found and named, and no more.
//!
//! Of a shell script that such a line starts the lines count too, one step deep. `runcmd` of
//! cloud-init runs at an instance's first boot alone, and is left out; so are scripts below /home
//! and /tmp. Whether rc.local may be executed is not asked.

mod old_inits;
mod order;
mod run_levels;
mod saptune;
mod sysfs_conf;
mod udev;
mod units;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use hugewise_model::Observed;
use hugewise_model::configuration::{BootOrder, FileLocation, PoolWriter, ThpWriter};

use super::files::file_location;
use super::tuned;
use hugewise_source::FactReader;

pub(crate) use run_levels::fill_earlier_scripts;
pub use words::{BootWrite, of_command, to_canonical_command};

const MOST: u64 = 256 << 10;

const MOST_WRITERS: usize = 32;

const RC_LOCAL: [&str; 4] =
    ["/etc/rc.local", "/etc/rc.d/rc.local", "/etc/init.d/boot.local", "/etc/init.d/after.local"];

const RUN_LEVELS: [&str; 10] = [
    "/etc/rcS.d",
    "/etc/rc2.d",
    "/etc/rc3.d",
    "/etc/rc5.d",
    "/etc/rc.d/rc2.d",
    "/etc/rc.d/rc3.d",
    "/etc/rc.d/rc5.d",
    "/etc/init.d/boot.d",
    "/etc/init.d/rc3.d",
    "/etc/init.d/rc5.d",
];

/// Tables of cron; the last two are root's own.
const CRON: [&str; 3] = ["/etc/crontab", "/var/spool/cron/crontabs/root", "/var/spool/cron/root"];

/// Stages that elemental and Kairos carry out at each boot (yip): a sibling of cloud-init.
const OF_STAGES: [&str; 3] = ["/system/oem", "/oem", "/usr/local/cloud-config"];

/// Scripts that cloud-init runs at each boot; the second is `#cloud-boothook` of the user data.
const EACH_BOOT: [&str; 2] =
    ["/var/lib/cloud/scripts/per-boot", "/var/lib/cloud/instance/boothooks"];

/// What brings networks up starts these: ifupdown, NetworkManager, networkd-dispatcher.
const HOOKS: [&str; 9] = [
    IF_PRE_UP,
    IF_UP,
    "/etc/NetworkManager/dispatcher.d",
    "/etc/NetworkManager/dispatcher.d/pre-up.d",
    "/etc/networkd-dispatcher/carrier.d",
    "/etc/networkd-dispatcher/configured.d",
    "/etc/networkd-dispatcher/routable.d",
    "/etc/libvirt/hooks",
    "/etc/libvirt/hooks/qemu.d",
];
const IF_PRE_UP: &str = "/etc/network/if-pre-up.d";
const IF_UP: &str = "/etc/network/if-up.d";

/// Scripts of Red Hat's, and ifupdown's file whose lines say what to start.
const OF_NETWORK: [&str; 3] =
    [INTERFACES, "/sbin/ifup-local", "/etc/sysconfig/network-scripts/ifup-local"];
const INTERFACES: &str = "/etc/network/interfaces";
const INTERFACES_D: &str = "/etc/network/interfaces.d";

/// Scripts of one guest, as the dispatcher that people put at libvirt's hook starts them:
/// `qemu.d/GUEST/prepare/begin/pages.sh`.
const OF_GUESTS: &str = "/etc/libvirt/hooks/qemu.d";
const MOST_OF_GUESTS: usize = 256;

const UDEV: &str = "/etc/udev/rules.d";

/// Whether names in a folder are looked through for such lines; others are nobody's business.
pub fn looks_through(folder: &str) -> bool {
    RUN_LEVELS.contains(&folder)
        || HOOKS.contains(&folder)
        || OF_STAGES.contains(&folder)
        || folder.starts_with(OF_GUESTS)
        || old_inits::FOLDERS.contains(&folder)
        || ["/etc/cron.d", "/etc/cloud/cloud.cfg.d", INTERFACES_D, UDEV].contains(&folder)
        || EACH_BOOT.contains(&folder)
}

/// The lines that write when the host boots.
#[derive(Clone, Debug, Default)]
pub struct Writers {
    /// A pool.
    pub pools: Vec<PoolWriter>,
    /// THP's switch.
    pub thp: Vec<ThpWriter>,
}

struct BootScriptWrite {
    what: BootWrite,
    place: FileLocation,
    by: Option<FileLocation>,
    order: BootOrder,
}

/// The lines that write a pool or THP's switch, as the files stand now.
pub fn read(door: &mut FactReader<'_>) -> Writers {
    let mut look = BootScriptScan {
        door,
        found: Vec::new(),
        seen: BTreeSet::new(),
        programs: BTreeMap::new(),
        order: BootOrder::Last,
    };
    look.scan_rc_local();
    look.scan_init_scripts();
    look.scan_ktune();
    look.scan_openrc();
    look.scan_upstart();
    look.scan_cron();
    look.scan_cloud_init();
    look.scan_stages();
    look.scan_units();
    look.scan_hooks();
    look.scan_udev();
    look.scan_sysfs_conf();
    look.scan_saptune();
    look.scan_tuned();
    let has_red_hat_switch = has_red_hat_switch(look.door);
    let mut writers = Writers::default();
    for BootScriptWrite { what, place, by, order } in look.found {
        match what {
            BootWrite::Pool(pool) => {
                let after_scripts = BTreeSet::new();
                writers.pools.push(PoolWriter { pool, place, by, after_scripts });
            }
            // On other kernels there is no such file.
            BootWrite::RedHatThp(_) if !has_red_hat_switch => {}
            BootWrite::Thp(word) | BootWrite::RedHatThp(word) => {
                writers.thp.push(ThpWriter { value: word.map(str::to_owned), place, by, order })
            }
        }
    }
    writers.pools.truncate(MOST_WRITERS);
    writers.thp.truncate(MOST_WRITERS);
    writers
}

/// RHEL 6 has THP's switch in a folder of its own.
fn has_red_hat_switch(door: &FactReader<'_>) -> bool {
    !door.source.read("/sys/kernel/mm/redhat_transparent_hugepage/enabled").is_absent()
}

/// What a capture keeps of a file other than a unit: the lines that write, or that start one of
/// `scripts`, in a form that [`read`] takes.
pub fn distill_script(path: &str, bytes: &[u8], scripts: &BTreeSet<String>) -> Vec<u8> {
    let lines = boot_commands(path, bytes);
    let mut written = BTreeMap::<u64, Vec<String>>::new();
    for (number, what) in words::find_writes(&lines) {
        written.entry(number).or_default().push(to_canonical_command(&what));
    }
    let mut kept: Vec<String> = bytes.split(|byte| *byte == b'\n').map(|_| String::new()).collect();
    // Whose job it is decides whether its scripts are looked into.
    let before = |line: &str| match BootFileFormat::from_path(path) {
        BootFileFormat::Script => "",
        BootFileFormat::Cron if is_roots_job(path, line) => "@reboot root ",
        BootFileFormat::Cron => "@reboot nobody ",
        BootFileFormat::CloudConfig => "bootcmd: ",
        BootFileFormat::Stages => "- ",
        BootFileFormat::Interfaces => "up ",
        BootFileFormat::Udev => "RUN+=\"",
    };
    let after = if BootFileFormat::from_path(path) == BootFileFormat::Udev { "\"" } else { "" };
    for (number, line) in &lines {
        let started = || find_started_script(line, scripts).map(str::to_owned);
        let starts = || old_inits::is_upstart_start(path, line).then(|| "start on boot".to_owned());
        let says = written.get(number).map(|all| all.join("; ")).or_else(started).or_else(starts);
        let at = usize::try_from(*number).unwrap_or_default().saturating_sub(1);
        if let (Some(says), Some(kept)) = (says, kept.get_mut(at)) {
            *kept = format!("{}{says}{after}", before(line));
        }
    }
    if let Some(first) = kept.first_mut().filter(|first| first.is_empty())
        && bytes.starts_with(b"#!")
    {
        *first = "#!/bin/sh".to_owned();
    }
    kept.join("\n").into_bytes()
}

/// The script of these that a command starts.
pub fn find_started_script<'a>(command: &'a str, scripts: &BTreeSet<String>) -> Option<&'a str> {
    scripts_in(command).find(|script| scripts.contains(*script))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BootFileFormat {
    Script,
    Cron,
    CloudConfig,
    Stages,
    Interfaces,
    Udev,
}

impl BootFileFormat {
    fn from_path(path: &str) -> Self {
        match path {
            _ if path.starts_with("/etc/cron") || path.starts_with("/var/spool/cron/") => {
                Self::Cron
            }
            _ if OF_STAGES.iter().any(|folder| path.starts_with(folder)) => Self::Stages,
            _ if path.starts_with("/etc/cloud/") || path.ends_with("/cloud-config.txt") => {
                Self::CloudConfig
            }
            _ if path.starts_with(INTERFACES) => Self::Interfaces,
            _ if path.starts_with("/etc/udev/") => Self::Udev,
            _ => Self::Script,
        }
    }
}

fn boot_commands(path: &str, bytes: &[u8]) -> Vec<(u64, String)> {
    let all = words::join_continued_lines(bytes).into_iter();
    match BootFileFormat::from_path(path) {
        BootFileFormat::Script => all.collect(),
        BootFileFormat::Cron => {
            all.filter(|(_, line)| line.trim_start().starts_with("@reboot")).collect()
        }
        BootFileFormat::Udev => {
            all.map(|(number, line)| (number, udev::rule_commands(&line))).collect()
        }
        BootFileFormat::Interfaces => {
            let is_up = |line: &str| {
                let first = line.split_ascii_whitespace().next().unwrap_or_default();
                ["up", "pre-up", "post-up"].contains(&first)
            };
            all.filter(|(_, line)| is_up(line)).collect()
        }
        BootFileFormat::Stages => all.map(|(number, line)| (number, of_stage(&line))).collect(),
        BootFileFormat::CloudConfig => {
            let mut inside = false;
            let mut is_command = |line: &str| {
                let key =
                    line.starts_with(|sign: char| sign.is_ascii_alphanumeric() || sign == '_');
                if key {
                    inside = line.starts_with("bootcmd:");
                }
                inside
            };
            all.filter(|(_, line)| is_command(line)).collect()
        }
    }
}

/// A setting below `sysctl:` as the command that sets it: `vm.nr_hugepages: "1024"`.
fn of_stage(line: &str) -> String {
    let plain = line.trim().trim_start_matches("- ").trim_start_matches(['"', '\'']);
    match plain.split_once(':') {
        Some((key, value)) if key.trim_end_matches(['"', '\'']) == "vm.nr_hugepages" => {
            format!("sysctl -w vm.nr_hugepages={}", value.trim().trim_matches(['"', '\'']))
        }
        _ => line.to_owned(),
    }
}

/// Tables of cron but root's own name the user of each job: `@reboot root /opt/x.sh`.
fn is_roots_job(path: &str, line: &str) -> bool {
    let names_users =
        BootFileFormat::from_path(path) == BootFileFormat::Cron && !path.starts_with("/var/spool/");
    !names_users || line.split_ascii_whitespace().nth(1) == Some("root")
}

/// Whether systemd starts a command with root's rights whatever its unit's `User=`
/// (systemd.service(5), `+`).
pub fn has_all_rights(command: &str) -> bool {
    command.chars().take_while(|sign| "@-+!:|".contains(*sign)).any(|sign| sign == '+')
}

fn scripts_in(line: &str) -> impl Iterator<Item = &str> {
    let words =
        line.split([' ', '\t', '\'', '"', ';', '|', '&', '(', ')', '<', '>', ',', '[', ']', '=']);
    let words = words.map(|word| word.trim_start_matches(['-', '@', '+', '!', ':']));
    words.filter(|word| is_script(word))
}

fn is_script(path: &str) -> bool {
    // The kernel's files, what is empty at a boot, and what belongs to people who are not root.
    const NOT_READ: [&str; 7] =
        ["/proc/", "/sys/", "/dev/", "/run/", "/tmp/", "/var/tmp/", "/home/"];
    const PROGRAMS: [&str; 9] = [
        "/bin/",
        "/sbin/",
        "/lib",
        "/usr/bin/",
        "/usr/sbin/",
        "/usr/lib",
        "/usr/libexec/",
        "/usr/share/",
        "/etc/init.d/",
    ];
    let within = |folders: &[&str]| folders.iter().any(|folder| path.starts_with(folder));
    let plain = path.starts_with('/')
        && !path.contains(['$', '*', '%', '?', '\\'])
        && !path.contains("/../");
    plain && !within(&NOT_READ) && (path.ends_with(".sh") || !within(&PROGRAMS))
}

struct BootScriptScan<'a, 'b> {
    door: &'a mut FactReader<'b>,
    found: Vec<BootScriptWrite>,
    seen: BTreeSet<String>,
    /// Names in folders of programs.
    programs: BTreeMap<&'static str, Vec<String>>,
    order: BootOrder,
}

impl BootScriptScan<'_, '_> {
    /// Once. What is there and cannot be read is noted where `notes`.
    fn read_once(&mut self, path: &str, notes: bool) -> Option<Vec<u8>> {
        if !self.seen.insert(path.to_owned()) {
            return None;
        }
        let answer = self.door.source.read_limited(path, MOST);
        if notes && matches!(answer, Observed::Denied) {
            self.door.note_unknown(path, &answer);
        }
        answer.into_known()
    }

    fn list_names(&self, folder: &str) -> Vec<String> {
        self.door.source.list_folder(folder).into_known().unwrap_or_default()
    }

    /// Has a capture keep what was found: it keeps what is read.
    fn record_file(&self, path: &str) {
        drop(self.door.source.read(path));
    }

    /// Whether they write anything, or the scripts that they start `as_root`: of others the files
    /// are whoever's they run as, and he cannot write a pool.
    fn scan_commands(
        &mut self,
        file: &str,
        lines: &[(u64, String)],
        as_root: &dyn Fn(&str) -> bool,
    ) -> bool {
        let before = self.found.len();
        for (line, what) in words::find_writes(lines) {
            let place = file_location(file, line);
            self.found.push(BootScriptWrite { what, place, by: None, order: self.order });
        }
        let starts =
            |text: &str| text.contains('/') && !text.trim_start().starts_with('#') && as_root(text);
        for (line, text) in lines.iter().filter(|(_, text)| starts(text)) {
            for script in scripts_in(text) {
                self.scan_script(script, &file_location(file, *line));
            }
        }
        self.found.len() > before
    }

    fn scan_script(&mut self, path: &str, by: &FileLocation) {
        let Some(bytes) = self.read_once(path, false) else { return };
        if !bytes.starts_with(b"#!") || !words::may_write(&bytes) {
            return;
        }
        let written = words::find_writes(&words::join_continued_lines(&bytes));
        if !written.is_empty() {
            self.record_file(path);
        }
        let order = self.order;
        let writer = |(line, what): (u64, BootWrite)| {
            let (place, by) = (file_location(path, line), Some(by.clone()));
            BootScriptWrite { what, place, by, order }
        };
        self.found.extend(written.into_iter().map(writer));
    }

    fn scan_file(&mut self, path: &str, starts_scripts: bool, notes: bool) {
        let Some(bytes) = self.read_once(path, notes) else { return };
        if !starts_scripts && !words::may_write(&bytes) {
            return;
        }
        let as_root = |line: &str| starts_scripts && is_roots_job(path, line);
        if self.scan_commands(path, &boot_commands(path, &bytes), &as_root) {
            self.record_file(path);
        }
    }

    fn scan_rc_local(&mut self) {
        for path in RC_LOCAL {
            // One is often a link to another.
            if let Observed::Known(target) = self.door.source.read_link(path)
                && RC_LOCAL.iter().any(|other| {
                    *other != path && other.ends_with(target.trim_start_matches("../"))
                })
            {
                continue;
            }
            self.scan_file(path, true, true);
        }
    }

    fn scan_init_scripts(&mut self) {
        for folder in RUN_LEVELS {
            for name in self.list_names(folder) {
                let base = name.strip_prefix('S');
                let base =
                    base.map(|rest| rest.trim_start_matches(|sign: char| sign.is_ascii_digit()));
                let Some(base) = base.filter(|base| !base.is_empty()) else { continue };
                let script = format!("/etc/init.d/{base}");
                let before = self.found.len();
                self.scan_file(&script, false, true);
                if self.found.len() > before {
                    drop(self.door.source.read_link(&format!("{folder}/{name}")));
                }
            }
        }
    }

    fn scan_cron(&mut self) {
        let of_packages = self.list_names("/etc/cron.d").into_iter();
        let of_packages = of_packages.filter(|name| !name.starts_with('.') && !name.ends_with('~'));
        let tables: Vec<String> = of_packages.map(|name| format!("/etc/cron.d/{name}")).collect();
        for path in CRON.map(str::to_owned).into_iter().chain(tables) {
            self.scan_file(&path, true, path.starts_with("/etc/"));
        }
    }

    fn scan_cloud_init(&mut self) {
        if !self.door.source.read_limited("/etc/cloud/cloud-init.disabled", MOST).is_absent() {
            self.record_file("/etc/cloud/cloud-init.disabled");
            return;
        }
        let folder = "/etc/cloud/cloud.cfg.d";
        let parts = self.list_names(folder).into_iter().filter(|name| name.ends_with(".cfg"));
        let parts: Vec<String> = parts.map(|name| format!("{folder}/{name}")).collect();
        let whole =
            ["/etc/cloud/cloud.cfg", "/var/lib/cloud/instance/cloud-config.txt"].map(str::to_owned);
        // `bootcmd` runs in cloud-init.service, as early as systemd-tmpfiles-setup.service.
        self.order = BootOrder::Untold;
        for path in whole.into_iter().chain(parts) {
            self.scan_file(&path, true, false);
        }
        self.order = BootOrder::Last;
        for folder in EACH_BOOT {
            for name in self.list_names(folder) {
                self.scan_file(&format!("{folder}/{name}"), true, false);
            }
        }
    }

    fn scan_stages(&mut self) {
        self.order = BootOrder::Untold;
        for folder in OF_STAGES {
            for name in self.list_names(folder) {
                if name.ends_with(".yaml") || name.ends_with(".yml") {
                    self.scan_file(&format!("{folder}/{name}"), true, false);
                }
            }
        }
        self.order = BootOrder::Last;
    }

    /// Some networks are up before systemd-tmpfiles has run.
    fn scan_hooks(&mut self) {
        let of_interfaces = self.list_names(INTERFACES_D).into_iter();
        let of_interfaces = of_interfaces.map(|name| format!("{INTERFACES_D}/{name}"));
        self.order = BootOrder::Untold;
        for path in OF_NETWORK.map(str::to_owned).into_iter().chain(of_interfaces) {
            self.scan_file(&path, true, false);
        }
        for folder in HOOKS {
            // run-parts(8) passes over names with a dot in them.
            let by_run_parts = [IF_PRE_UP, IF_UP].contains(&folder);
            let is_plain = |sign: u8| sign.is_ascii_alphanumeric() || b"_-".contains(&sign);
            let counts = |name: &str| match by_run_parts {
                true => name.bytes().all(is_plain),
                false => !name.starts_with('.') && !name.ends_with('~'),
            };
            self.order = if by_run_parts { BootOrder::Untold } else { BootOrder::Last };
            for name in self.list_names(folder).into_iter().filter(|name| counts(name)) {
                self.scan_file(&format!("{folder}/{name}"), true, false);
            }
        }
        self.order = BootOrder::Last;
        for path in self.list_guest_hooks() {
            self.scan_file(&path, true, false);
        }
    }

    /// Files below the folders of guests: of a hook, and of its states.
    fn list_guest_hooks(&self) -> Vec<String> {
        let mut folders = vec![OF_GUESTS.to_owned()];
        for _ in ["guest", "hook", "state"] {
            let inside = folders.iter().flat_map(|folder| {
                let names = self.list_names(folder).into_iter();
                names.take(MOST_OF_GUESTS).map(move |name| format!("{folder}/{name}"))
            });
            folders = inside.take(MOST_OF_GUESTS).collect();
        }
        let files = folders.iter().flat_map(|folder| {
            let names = self.list_names(folder).into_iter();
            names.filter(|name| !name.starts_with('.')).map(move |name| format!("{folder}/{name}"))
        });
        files.take(MOST_OF_GUESTS).collect()
    }

    fn scan_udev(&mut self) {
        self.order = BootOrder::Untold;
        for name in self.list_names(UDEV).into_iter().filter(|name| name.ends_with(".rules")) {
            self.scan_file(&format!("{UDEV}/{name}"), true, false);
        }
        self.order = BootOrder::Last;
    }

    fn scan_tuned(&mut self) {
        let started = tuned::read_profile_actions(self.door);
        for (by, script) in &started.scripts {
            self.scan_script(script, by);
        }
        for (place, command) in &started.writes {
            self.scan_commands(&place.file, &[(place.line, command.clone())], &|_| false);
        }
    }
}

#[cfg(test)]
mod tests;
