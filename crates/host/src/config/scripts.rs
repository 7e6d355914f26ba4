//! Who else writes a pool or switches THP when the host boots: rc.local and init scripts, units that are enabled, cron's `@reboot`,
//! cloud-init's `bootcmd`, rules of udev, hooks of the network and of libvirt, and scripts of TuneD's active profile. When such a
//! line runs no file tells, nor whether it does: it is found and named, and no more.
//!
//! Of a shell script that such a line starts the lines count too, one step deep. `runcmd` of cloud-init runs at an instance's
//! first boot alone, and is left out; so are scripts below /home and /tmp. Whether rc.local may be executed is not asked.

mod order;
mod udev;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use hugewise_model::Observed;
use hugewise_model::configuration::{BootOrder, Place, PoolWriter, ThpWriter};

use super::files::place;
use super::unit::{self, UnitName};
use super::{systemd, tuned};
use crate::Door;

pub(crate) use words::{Written, canonical, of_command};

/// The largest file that is looked through: what people write by hand is far smaller.
const MOST: u64 = 256 << 10;

/// Places that are named; who has more lines than these has been told enough.
const MOST_WRITERS: usize = 32;

/// Scripts that run late in each boot.
const RC_LOCAL: [&str; 4] =
    ["/etc/rc.local", "/etc/rc.d/rc.local", "/etc/init.d/boot.local", "/etc/init.d/after.local"];

/// Links to the init scripts that a boot starts: of Debian and Red Hat, and of SUSE up to SLES 11.
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

/// Scripts that cloud-init starts at each boot.
const PER_BOOT: &str = "/var/lib/cloud/scripts/per-boot";

/// Folders of scripts that what brings the network up starts, one by one: ifupdown, NetworkManager and networkd-dispatcher.
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

/// Scripts of Red Hat's that start with the network, and the file of ifupdown's own whose lines say what to start.
const OF_NETWORK: [&str; 3] = [INTERFACES, "/sbin/ifup-local", "/etc/sysconfig/network-scripts/ifup-local"];
const INTERFACES: &str = "/etc/network/interfaces";
const INTERFACES_D: &str = "/etc/network/interfaces.d";

/// Where people put rules of udev's.
const UDEV: &str = "/etc/udev/rules.d";

/// Where people put units, and enable those of packages.
const UNITS: [&str; 2] = ["/etc/systemd/system", "/usr/local/lib/systemd/system"];

/// Whether names in a folder are looked through for such lines: those of files that have none are nobody's business.
pub(crate) fn looks_through(folder: &str) -> bool {
    RUN_LEVELS.contains(&folder)
        || HOOKS.contains(&folder)
        || ["/etc/cron.d", "/etc/cloud/cloud.cfg.d", PER_BOOT, INTERFACES_D, UDEV].contains(&folder)
}

/// The lines that write when the host boots.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writers {
    /// A pool.
    pub(crate) pools: Vec<PoolWriter>,
    /// THP's switch.
    pub(crate) thp: Vec<ThpWriter>,
}

/// A line that writes.
struct Writer {
    what: Written,
    place: Place,
    by: Option<Place>,
    order: BootOrder,
}

/// The lines that write a pool or THP's switch, as the files stand now.
pub(crate) fn read(door: &mut Door<'_>) -> Writers {
    let mut look = Look { door, found: Vec::new(), seen: BTreeSet::new(), order: BootOrder::Last };
    look.rc_local();
    look.init_scripts();
    look.cron();
    look.cloud_init();
    look.units();
    look.hooks();
    look.udev();
    look.tuned();
    let mut writers = Writers::default();
    for Writer { what, place, by, order } in look.found {
        match what {
            Written::Pool(pool) => writers.pools.push(PoolWriter { pool, place, by }),
            Written::Thp(word) => writers.thp.push(ThpWriter { value: word.map(str::to_owned), place, by, order }),
        }
    }
    writers.pools.truncate(MOST_WRITERS);
    writers.thp.truncate(MOST_WRITERS);
    writers
}

/// Of a file other than a unit the lines that write a pool or THP's switch, or start a script that does, in a form that [`read`] takes and that
/// holds nothing else. `scripts` are the files with such lines.
pub(crate) fn distilled(path: &str, bytes: &[u8], scripts: &BTreeSet<String>) -> Vec<u8> {
    let lines = commands(path, bytes);
    let mut written = BTreeMap::<u64, Vec<String>>::new();
    for (number, what) in words::written(&lines) {
        written.entry(number).or_default().push(canonical(&what));
    }
    let mut kept: Vec<String> = bytes.split(|byte| *byte == b'\n').map(|_| String::new()).collect();
    // Whose job it is decides whether its scripts are looked into.
    let is_roots = |line: &str| !has_users(path) || user_of_job(line) == Some("root");
    let before = |line: &str| match Form::of(path) {
        Form::Script => "",
        Form::Cron if is_roots(line) => "@reboot root ",
        Form::Cron => "@reboot nobody ",
        Form::CloudConfig => "bootcmd: ",
        Form::Interfaces => "up ",
        Form::Udev => "RUN+=\"",
    };
    let after = if Form::of(path) == Form::Udev { "\"" } else { "" };
    for (number, line) in &lines {
        let started = || scripts_in(line).find(|script| scripts.contains(*script)).map(str::to_owned);
        let says = written.get(number).map(|all| all.join("; ")).or_else(started);
        let at = usize::try_from(*number).unwrap_or_default().saturating_sub(1);
        if let (Some(says), Some(kept)) = (says, kept.get_mut(at)) {
            *kept = format!("{}{says}{after}", before(line));
        }
    }
    if let Some(first) = kept.first_mut().filter(|first| first.is_empty() && bytes.starts_with(b"#!")) {
        *first = "#!/bin/sh".to_owned();
    }
    kept.join("\n").into_bytes()
}

/// The script of these that a command starts.
pub(crate) fn started<'a>(command: &'a str, scripts: &BTreeSet<String>) -> Option<&'a str> {
    scripts_in(command).find(|script| scripts.contains(*script))
}

/// How a file is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Script,
    Cron,
    CloudConfig,
    Interfaces,
    Udev,
}

impl Form {
    fn of(path: &str) -> Self {
        match path {
            _ if path.starts_with("/etc/cron") || path.starts_with("/var/spool/cron/") => Self::Cron,
            _ if path.starts_with("/etc/cloud/") || path.ends_with("/cloud-config.txt") => Self::CloudConfig,
            _ if path.starts_with(INTERFACES) => Self::Interfaces,
            _ if path.starts_with("/etc/udev/") => Self::Udev,
            _ => Self::Script,
        }
    }
}

/// The lines of a file that a boot carries out.
fn commands(path: &str, bytes: &[u8]) -> Vec<(u64, String)> {
    let all = words::logical(bytes).into_iter();
    match Form::of(path) {
        Form::Script => all.collect(),
        Form::Cron => all.filter(|(_, line)| line.trim_start().starts_with("@reboot")).collect(),
        Form::Udev => all.map(|(number, line)| (number, udev::commands(&line))).collect(),
        Form::Interfaces => {
            let is_up = |line: &str| {
                let first = line.split_ascii_whitespace().next().unwrap_or_default();
                ["up", "pre-up", "post-up"].contains(&first)
            };
            all.filter(|(_, line)| is_up(line)).collect()
        }
        Form::CloudConfig => {
            let mut inside = false;
            let mut is_command = |line: &str| {
                let key = line.starts_with(|sign: char| sign.is_ascii_alphanumeric() || sign == '_');
                if key {
                    inside = line.starts_with("bootcmd:");
                }
                inside
            };
            all.filter(|(_, line)| is_command(line)).collect()
        }
    }
}

/// Whether each line of a table of cron names the user whose job it is.
fn has_users(path: &str) -> bool {
    Form::of(path) == Form::Cron && !path.starts_with("/var/spool/")
}

/// The user in `@reboot root /opt/x.sh`.
fn user_of_job(line: &str) -> Option<&str> {
    line.split_ascii_whitespace().nth(1)
}

/// Whether systemd starts a command with root's rights whatever its unit's `User=` (systemd.service(5), `+`).
pub(crate) fn has_all_rights(command: &str) -> bool {
    command.chars().take_while(|sign| "@-+!:|".contains(*sign)).any(|sign| sign == '+')
}

/// The words of a command that may be scripts which somebody wrote for this host.
fn scripts_in(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split([' ', '\t', '\'', '"', ';', '|', '&', '(', ')', '<', '>', ',', '[', ']', '=']);
    let words = words.map(|word| word.trim_start_matches(['-', '@', '+', '!', ':']));
    words.filter(|word| is_script(word))
}

fn is_script(path: &str) -> bool {
    // The kernel's files, what is empty at a boot, and what belongs to people who are not root.
    const NOT_READ: [&str; 7] = ["/proc/", "/sys/", "/dev/", "/run/", "/tmp/", "/var/tmp/", "/home/"];
    // Programs of packages.
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
    let plain = path.starts_with('/') && !path.contains(['$', '*', '%', '?', '\\']) && !path.contains("/../");
    plain && !within(&NOT_READ) && (path.ends_with(".sh") || !within(&PROGRAMS))
}

/// A look through a host's files.
struct Look<'a, 'b> {
    door: &'a mut Door<'b>,
    found: Vec<Writer>,
    /// Files that were looked through.
    seen: BTreeSet<String>,
    /// When what is looked at now runs, beside systemd-tmpfiles.
    order: BootOrder,
}

impl Look<'_, '_> {
    /// A file's bytes, once; what is there and cannot be read is noted where `notes`.
    fn glance(&mut self, path: &str, notes: bool) -> Option<Vec<u8>> {
        if !self.seen.insert(path.to_owned()) {
            return None;
        }
        let answer = self.door.source.glance(path, MOST);
        if notes && matches!(answer, Observed::Denied) {
            self.door.note(path, &answer);
        }
        answer.into_known()
    }

    fn names(&self, folder: &str) -> Vec<String> {
        self.door.source.list(folder).into_known().unwrap_or_default()
    }

    /// Has a capture keep what was found: it keeps what is read.
    fn keep(&self, path: &str) {
        drop(self.door.source.read(path));
    }

    /// Takes up what commands of a file write, and what the scripts do that they start `as_root`: of others the files are
    /// whoever's they run as, and he cannot write a pool. Whether that is anything.
    fn take(&mut self, file: &str, lines: &[(u64, String)], as_root: &dyn Fn(&str) -> bool) -> bool {
        let before = self.found.len();
        for (line, what) in words::written(lines) {
            self.found.push(Writer { what, place: place(file, line), by: None, order: self.order });
        }
        let starts = |text: &str| text.contains('/') && !text.trim_start().starts_with('#') && as_root(text);
        for (line, text) in lines.iter().filter(|(_, text)| starts(text)) {
            for script in scripts_in(text) {
                self.script(script, &place(file, *line));
            }
        }
        self.found.len() > before
    }

    /// What a script writes that a line starts.
    fn script(&mut self, path: &str, by: &Place) {
        let Some(bytes) = self.glance(path, false) else { return };
        if !bytes.starts_with(b"#!") || !words::may_write(&bytes) {
            return;
        }
        let written = words::written(&words::logical(&bytes));
        if !written.is_empty() {
            self.keep(path);
        }
        let order = self.order;
        let writer =
            |(line, what): (u64, Written)| Writer { what, place: place(path, line), by: Some(by.clone()), order };
        self.found.extend(written.into_iter().map(writer));
    }

    fn file(&mut self, path: &str, starts_scripts: bool, notes: bool) {
        let Some(bytes) = self.glance(path, notes) else { return };
        if !starts_scripts && !words::may_write(&bytes) {
            return;
        }
        let as_root = |line: &str| starts_scripts && (!has_users(path) || user_of_job(line) == Some("root"));
        if self.take(path, &commands(path, &bytes), &as_root) {
            self.keep(path);
        }
    }

    fn rc_local(&mut self) {
        for path in RC_LOCAL {
            // One is often a link to another.
            if let Observed::Known(target) = self.door.source.link(path)
                && RC_LOCAL.iter().any(|other| *other != path && other.ends_with(target.trim_start_matches("../")))
            {
                continue;
            }
            self.file(path, true, true);
        }
    }

    fn init_scripts(&mut self) {
        for folder in RUN_LEVELS {
            for name in self.names(folder) {
                let base =
                    name.strip_prefix('S').map(|rest| rest.trim_start_matches(|sign: char| sign.is_ascii_digit()));
                let Some(base) = base.filter(|base| !base.is_empty()) else { continue };
                let script = format!("/etc/init.d/{base}");
                let before = self.found.len();
                self.file(&script, false, true);
                if self.found.len() > before {
                    drop(self.door.source.link(&format!("{folder}/{name}")));
                }
            }
        }
    }

    fn cron(&mut self) {
        let of_packages = self.names("/etc/cron.d").into_iter();
        let of_packages = of_packages.filter(|name| !name.starts_with('.') && !name.ends_with('~'));
        let tables: Vec<String> = of_packages.map(|name| format!("/etc/cron.d/{name}")).collect();
        for path in CRON.map(str::to_owned).into_iter().chain(tables) {
            self.file(&path, true, path.starts_with("/etc/"));
        }
    }

    fn cloud_init(&mut self) {
        if !self.door.source.glance("/etc/cloud/cloud-init.disabled", MOST).is_absent() {
            self.keep("/etc/cloud/cloud-init.disabled");
            return;
        }
        let folder = "/etc/cloud/cloud.cfg.d";
        let parts = self.names(folder).into_iter().filter(|name| name.ends_with(".cfg"));
        let parts: Vec<String> = parts.map(|name| format!("{folder}/{name}")).collect();
        let whole = ["/etc/cloud/cloud.cfg", "/var/lib/cloud/instance/cloud-config.txt"].map(str::to_owned);
        // `bootcmd` runs in cloud-init.service, which is as early as systemd-tmpfiles-setup.service.
        self.order = BootOrder::Untold;
        for path in whole.into_iter().chain(parts) {
            self.file(&path, true, false);
        }
        self.order = BootOrder::Last;
        for name in self.names(PER_BOOT) {
            self.file(&format!("{PER_BOOT}/{name}"), true, false);
        }
    }

    /// What starts when a network or a guest does: some networks are up before systemd-tmpfiles has run.
    fn hooks(&mut self) {
        let of_interfaces: Vec<String> =
            self.names(INTERFACES_D).into_iter().map(|name| format!("{INTERFACES_D}/{name}")).collect();
        self.order = BootOrder::Untold;
        for path in OF_NETWORK.map(str::to_owned).into_iter().chain(of_interfaces) {
            self.file(&path, true, false);
        }
        for folder in HOOKS {
            // run-parts(8) passes over names with a dot in them.
            let by_run_parts = [IF_PRE_UP, IF_UP].contains(&folder);
            let counts = |name: &str| match by_run_parts {
                true => name.bytes().all(|sign| sign.is_ascii_alphanumeric() || b"_-".contains(&sign)),
                false => !name.starts_with('.') && !name.ends_with('~'),
            };
            self.order = if by_run_parts { BootOrder::Untold } else { BootOrder::Last };
            for name in self.names(folder).into_iter().filter(|name| counts(name)) {
                self.file(&format!("{folder}/{name}"), true, false);
            }
        }
        self.order = BootOrder::Last;
    }

    fn udev(&mut self) {
        self.order = BootOrder::Untold;
        for name in self.names(UDEV).into_iter().filter(|name| name.ends_with(".rules")) {
            self.file(&format!("{UDEV}/{name}"), true, false);
        }
        self.order = BootOrder::Last;
    }

    fn tuned(&mut self) {
        let started = tuned::started(self.door);
        for (by, script) in &started.scripts {
            self.script(script, by);
        }
        for (place, command) in &started.writes {
            self.take(&place.file, &[(place.line, command.clone())], &|_| false);
        }
    }

    /// Units that something wants in a folder of people's own, and what people add to any unit that something wants.
    fn units(&mut self) {
        let mut own = BTreeMap::<String, String>::new();
        let mut enabled = BTreeMap::<String, Option<String>>::new();
        let mut drop_ins = Vec::new();
        for folder in UNITS {
            for name in self.names(folder) {
                let path = format!("{folder}/{name}");
                if name.ends_with(".service") {
                    own.entry(name).or_insert(path);
                } else if name.ends_with(".wants") || name.ends_with(".requires") {
                    for wanted in self.names(&path) {
                        let link = format!("{path}/{wanted}");
                        match wanted.strip_suffix(".timer") {
                            Some(stem) => enabled.entry(format!("{stem}.service")).or_insert(None),
                            None => enabled.entry(wanted).or_insert(Some(link)),
                        };
                    }
                } else if let Some(unit) = name.strip_suffix(".d").filter(|unit| unit.ends_with(".service")) {
                    drop_ins.push((unit.to_owned(), path));
                }
            }
        }
        for (name, link) in enabled.iter().filter(|(name, _)| name.ends_with(".service")) {
            let template = UnitName::parse(name).and_then(|name| name.template());
            let file = own.get(name).or_else(|| own.get(&template?)).or(link.as_ref());
            let file = file.cloned().unwrap_or_else(|| format!("/usr/lib/systemd/system/{name}"));
            if self.unit(&file)
                && let Some(link) = link
            {
                drop(self.door.source.link(link));
            }
        }
        let mut wanted = None;
        for (unit, folder) in drop_ins {
            let before = self.found.len();
            for name in self.names(&folder).into_iter().filter(|name| name.ends_with(".conf")) {
                self.unit(&format!("{folder}/{name}"));
            }
            if self.found.len() == before {
                continue;
            }
            let wanted = wanted.get_or_insert_with(|| systemd::read_wanted(self.door));
            let stem = unit.strip_suffix("@.service").map(|stem| format!("{stem}@"));
            let is_it =
                |name: &String| *name == unit || stem.as_ref().is_some_and(|stem| name.starts_with(stem.as_str()));
            let mut links = wanted.iter().filter(|(name, _)| is_it(name)).flat_map(|(_, links)| links);
            match links.next() {
                Some(link) => drop(self.door.source.link(link)),
                None if enabled.keys().any(is_it) => {}
                None => self.found.truncate(before),
            }
        }
    }

    /// Takes up what a unit's file starts; whether that writes a pool. A link in a folder of wants is followed to the file.
    fn unit(&mut self, path: &str) -> bool {
        let Some(bytes) = self.glance(path, false) else { return false };
        let of_start = |one: &unit::Assignment| {
            one.section == "Service"
                && ["ExecStart", "ExecStartPre", "ExecStartPost", "ExecCondition"].contains(&one.key.as_str())
        };
        let assignments = unit::parse(&bytes);
        let user = assignments.iter().rfind(|one| one.section == "Service" && one.key == "User");
        let is_roots = user.is_none_or(|one| matches!(one.value.as_str(), "" | "root" | "0"));
        let lines: Vec<(u64, String)> =
            assignments.into_iter().filter(of_start).map(|one| (one.line, one.value)).collect();
        if !words::may_write(&bytes) && !lines.iter().any(|(_, line)| scripts_in(line).next().is_some()) {
            return false;
        }
        self.order = order::of_unit(&bytes);
        let target = || match self.door.source.link(path) {
            Observed::Known(target) if target.starts_with('/') => Some(target),
            _ => None,
        };
        let file = if path.contains(".wants/") || path.contains(".requires/") { target() } else { None };
        let file = file.unwrap_or_else(|| path.to_owned());
        let any = self.take(&file, &lines, &|line| is_roots || has_all_rights(line));
        self.order = BootOrder::Last;
        if any {
            self.keep(&file);
        }
        any
    }
}

#[cfg(test)]
mod tests;
