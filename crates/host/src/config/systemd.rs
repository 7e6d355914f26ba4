//! Service units as their files describe them: what the next start of a service may lock.

use std::collections::BTreeSet;

use hugewise_model::configuration::{Place, Unit};
use hugewise_model::{Bytes, Limit, Observed, Process};

use super::files::{joined, overlaid, place};
use super::unit::{self, Assignment, UnitName};
use crate::Door;

/// Where units lie, the strongest first (`systemd.unit(5)` of systemd 252). Generated and transient ones count too:
/// an init script's unit is made by a generator.
const FOLDERS: [&str; 13] = [
    "/etc/systemd/system.control",
    "/run/systemd/system.control",
    "/run/systemd/transient",
    "/run/systemd/generator.early",
    "/etc/systemd/system",
    "/etc/systemd/system.attached",
    "/run/systemd/system",
    "/run/systemd/system.attached",
    "/run/systemd/generator",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
    "/run/systemd/generator.late",
];

/// The services that processes here run in, sorted by name, as their files describe them now.
pub fn read_units(door: &mut Door<'_>, processes: &[Process]) -> Vec<Unit> {
    let names: BTreeSet<&str> = processes.iter().filter_map(service_of).collect();
    if names.is_empty() {
        return Vec::new();
    }
    let aliases = read_aliases(door);
    names.into_iter().filter_map(|name| read_unit(door, name, &aliases)).collect()
}

/// The service that systemd started the process in, by its path in systemd's own hierarchy of version 1 or in the
/// unified one: the part below the slices. Services of a user's or a container's manager lie deeper and have files
/// elsewhere; they are left out.
pub fn service_of(process: &Process) -> Option<&str> {
    let memberships = process.cgroups.known()?;
    let named = memberships.iter().filter(|m| m.controllers.iter().any(|controller| controller == "name=systemd"));
    let unified = memberships.iter().filter(|m| m.hierarchy == 0 && m.controllers.is_empty());
    named.chain(unified).find_map(|membership| service_of_path(&membership.path))
}

fn service_of_path(path: &str) -> Option<&str> {
    let mut parts = path.split('/').filter(|part| !part.is_empty()).skip_while(|part| part.ends_with(".slice"));
    let name = parts.next()?;
    let nested = parts.any(|part| [".slice", ".scope", ".service"].iter().any(|kind| part.ends_with(kind)));
    let counts = name.len() > ".service".len() && name.ends_with(".service") && !name.starts_with("user@");
    (counts && !nested).then_some(name)
}

/// Other names of units: links in unit folders to a file of another name.
fn read_aliases(door: &Door<'_>) -> Vec<(String, String)> {
    let mut aliases = Vec::new();
    for folder in FOLDERS {
        for name in door.source.list(folder).into_known().unwrap_or_default() {
            if !name.ends_with(".service") {
                continue;
            }
            if let Observed::Known(target) = door.source.link(&format!("{folder}/{name}"))
                && let Some(file) = target.rsplit('/').next()
                && file != name
                && file.ends_with(".service")
            {
                aliases.push((file.to_owned(), name));
            }
        }
    }
    aliases
}

fn read_unit(door: &mut Door<'_>, name: &str, aliases: &[(String, String)]) -> Option<Unit> {
    let parts = UnitName::parse(name)?;
    let fragment = std::iter::once(name.to_owned())
        .chain(parts.template())
        .flat_map(|file| FOLDERS.iter().map(move |folder| format!("{folder}/{file}")))
        .find(|path| !door.source.read(path).is_absent());
    let mut names = vec![parts];
    names.extend(aliases.iter().filter(|(file, _)| file == name).filter_map(|(_, alias)| UnitName::parse(alias)));
    let own = FOLDERS.iter().flat_map(|folder| {
        let names = names.iter().flat_map(UnitName::drop_in_names);
        names.map(move |name| format!("{folder}/{name}.d"))
    });
    // Those of all services come last: they are the weakest.
    let folders: Vec<String> = own.chain(FOLDERS.iter().map(|folder| format!("{folder}/service.d"))).collect();
    let drop_ins = overlaid(door, &folders, ".conf").or_else_absent(|| Observed::Known(Vec::new()));
    let mut files: Vec<String> = fragment.into_iter().collect();
    let assignments = drop_ins.and_then(|drop_ins| {
        files.extend(drop_ins);
        joined(door, &files, |file, bytes| {
            unit::parse(bytes).into_iter().map(|assignment| (file.to_owned(), assignment)).collect()
        })
    });
    let described = assignments.map(|assignments| describe(&assignments));
    let (memlock, user, ambient_ipc_lock) = match described {
        // systemd keeps what it had loaded; without files nothing is known of the next start.
        Observed::Known(_) if files.is_empty() => (Observed::Absent, Observed::Absent, false),
        Observed::Known(service) => (service.memlock, service.user.into(), service.ambient.holds("CAP_IPC_LOCK")),
        Observed::Absent => (Observed::Absent, Observed::Absent, false),
        Observed::Denied => (Observed::Denied, Observed::Denied, false),
        Observed::Malformed(why) => (Observed::Malformed(why.clone()), Observed::Malformed(why), false),
    };
    Some(Unit { name: name.to_owned(), memlock, user, ambient_ipc_lock, files })
}

/// What the `[Service]` sections leave in the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// `LimitMEMLOCK`.
    pub memlock: Observed<(Limit, Limit, Place)>,
    /// `User`.
    pub user: Option<String>,
    /// `AmbientCapabilities`.
    pub ambient: Capabilities,
}

/// Applies assignments, each with its file, in order. A value that systemd would refuse changes nothing, and an empty
/// limit is such a one: systemd 252 does not take it for a reset.
pub fn describe(assignments: &[(String, Assignment)]) -> Service {
    let mut service = Service::default();
    for (file, assignment) in assignments.iter().filter(|(_, assignment)| assignment.section == "Service") {
        match assignment.key.as_str() {
            "LimitMEMLOCK" => {
                if let Some((soft, hard)) = parse_limit(&assignment.value) {
                    service.memlock = Observed::Known((soft, hard, place(file, assignment.line)));
                }
            }
            "User" => service.user = Some(assignment.value.clone()).filter(|user| !user.is_empty()),
            "AmbientCapabilities" => service.ambient.assign(&assignment.value),
            _ => {}
        }
    }
    service
}

/// A set of capabilities by name, or all but those named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    all_but: bool,
    names: BTreeSet<&'static str>,
}

impl Capabilities {
    /// Whether the set holds a capability, named in capitals.
    pub fn holds(&self, name: &str) -> bool {
        self.names.contains(name) != self.all_but
    }

    /// One more line: a list without a single capability replaces what is there, and so does any list where
    /// nothing is there yet; otherwise a list is added, and one after `~` taken away.
    fn assign(&mut self, value: &str) {
        let (inverted, list) = match value.strip_prefix('~') {
            Some(list) => (true, list),
            None => (false, value),
        };
        let words = list.split_whitespace().map(|name| name.trim_matches(['"', '\'']));
        let named: BTreeSet<&'static str> = words.filter_map(capability).collect();
        if named.is_empty() || *self == Self::default() {
            *self = Self { all_but: inverted, names: named };
        } else if inverted == self.all_but {
            self.names.extend(named);
        } else {
            self.names.retain(|name| !named.contains(name));
        }
    }
}

/// The capability of that name or number; systemd passes over what it does not know.
fn capability(word: &str) -> Option<&'static str> {
    match word.parse::<usize>() {
        Ok(number) => CAPABILITIES.get(number).copied(),
        Err(_) => CAPABILITIES.iter().find(|name| name.eq_ignore_ascii_case(word)).copied(),
    }
}

/// By number (linux/capability.h of Linux 6.1).
const CAPABILITIES: [&str; 41] = [
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_DAC_READ_SEARCH",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SETPCAP",
    "CAP_LINUX_IMMUTABLE",
    "CAP_NET_BIND_SERVICE",
    "CAP_NET_BROADCAST",
    "CAP_NET_ADMIN",
    "CAP_NET_RAW",
    "CAP_IPC_LOCK",
    "CAP_IPC_OWNER",
    "CAP_SYS_MODULE",
    "CAP_SYS_RAWIO",
    "CAP_SYS_CHROOT",
    "CAP_SYS_PTRACE",
    "CAP_SYS_PACCT",
    "CAP_SYS_ADMIN",
    "CAP_SYS_BOOT",
    "CAP_SYS_NICE",
    "CAP_SYS_RESOURCE",
    "CAP_SYS_TIME",
    "CAP_SYS_TTY_CONFIG",
    "CAP_MKNOD",
    "CAP_LEASE",
    "CAP_AUDIT_WRITE",
    "CAP_AUDIT_CONTROL",
    "CAP_SETFCAP",
    "CAP_MAC_OVERRIDE",
    "CAP_MAC_ADMIN",
    "CAP_SYSLOG",
    "CAP_WAKE_ALARM",
    "CAP_BLOCK_SUSPEND",
    "CAP_AUDIT_READ",
    "CAP_PERFMON",
    "CAP_BPF",
    "CAP_CHECKPOINT_RESTORE",
];

/// `infinity`, `64M`, or `soft:hard`.
pub fn parse_limit(value: &str) -> Option<(Limit, Limit)> {
    let (soft, hard) = match value.split_once(':') {
        Some((soft, hard)) => (parse_bytes(soft)?, parse_bytes(hard)?),
        None => (parse_bytes(value)?, parse_bytes(value)?),
    };
    (soft <= hard).then_some((soft, hard))
}

/// Bytes with a suffix to the base 1024: `64M`, `1.5G`, `1G 512M`.
fn parse_bytes(text: &str) -> Option<Limit> {
    if text == "infinity" {
        return Some(Limit::Unlimited);
    }
    let mut rest = text;
    let mut sum = 0_u64;
    let mut last = u64::MAX;
    loop {
        rest = rest.trim_start();
        let end = rest.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at_checked(end)?;
        let suffixed = after.trim_start();
        let (unit, after) = match suffixed.chars().next() {
            Some(suffix) if suffix.is_ascii_alphabetic() => (1 << suffix_shift(suffix)?, suffixed.get(1..)?),
            _ => (1_u64, after),
        };
        // Each part is of a smaller unit than the one before it.
        if unit >= last {
            return None;
        }
        last = unit;
        sum = sum.checked_add(scaled(number, unit)?)?;
        if after.is_empty() {
            return Some(Limit::At(Bytes(sum)));
        }
        rest = after;
    }
}

fn suffix_shift(suffix: char) -> Option<u32> {
    "BKMGTPE".find(suffix).and_then(|at| u32::try_from(at).ok()).map(|power| power * 10)
}

/// A decimal number times a unit, rounded down.
fn scaled(number: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let mut bytes = u128::from(whole.parse::<u64>().ok()?).checked_mul(u128::from(unit))?;
    if !fraction.is_empty() {
        let digits = fraction.get(..fraction.len().min(15))?;
        let scale = 10_u128.checked_pow(u32::try_from(digits.len()).ok()?)?;
        bytes += u128::from(digits.parse::<u64>().ok()?) * u128::from(unit) / scale;
    }
    u64::try_from(bytes).ok()
}

/// `DefaultLimitMEMLOCK` of system.conf and its drop-ins: its soft limit.
pub fn read_default_memlock(door: &mut Door<'_>) -> Observed<(Limit, Place)> {
    let main = ["/etc/systemd/system.conf", "/run/systemd/system.conf", "/usr/lib/systemd/system.conf"]
        .iter()
        .find(|path| !door.source.read(path).is_absent());
    let folders = [
        "/etc/systemd/system.conf.d",
        "/run/systemd/system.conf.d",
        "/usr/local/lib/systemd/system.conf.d",
        "/usr/lib/systemd/system.conf.d",
        "/lib/systemd/system.conf.d",
    ];
    let drop_ins = overlaid(door, &folders, ".conf").or_else_absent(|| Observed::Known(Vec::new()));
    let found = drop_ins.and_then(|drop_ins| {
        let paths: Vec<String> = main.map(|path| (*path).to_owned()).into_iter().chain(drop_ins).collect();
        joined(door, &paths, default_memlocks)
    });
    found.and_then(|found| Observed::from(found.into_iter().next_back()))
}

/// The assignments of one file, without those that systemd refuses.
pub fn default_memlocks(file: &str, bytes: &[u8]) -> Vec<(Limit, Place)> {
    let assignments = unit::parse(bytes).into_iter();
    let ours = assignments.filter(|found| found.section == "Manager" && found.key == "DefaultLimitMEMLOCK");
    ours.filter_map(|found| parse_limit(&found.value).map(|(soft, _)| (soft, place(file, found.line)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::map::MapSource;
    use hugewise_model::process::CgroupMembership;
    use proptest::prelude::*;

    const AT: fn(u64) -> Limit = |bytes| Limit::At(Bytes(bytes));

    fn process(memberships: &[(u32, &str, &str)]) -> Process {
        let membership = |&(hierarchy, controller, path): &(u32, &str, &str)| CgroupMembership {
            hierarchy,
            controllers: Some(controller).filter(|name| !name.is_empty()).map(str::to_owned).into_iter().collect(),
            path: path.to_owned(),
        };
        Process { cgroups: Observed::Known(memberships.iter().map(membership).collect()), ..Process::default() }
    }

    fn unit(source: &MapSource, name: &str) -> Unit {
        let path = format!("/system.slice/{name}");
        let units = read_units(&mut Door::new(source), &[process(&[(0, "", &path)])]);
        assert_eq!(units.len(), 1);
        units.into_iter().next().unwrap()
    }

    #[test]
    fn services_come_from_cgroups() {
        let name = |memberships: &[(u32, &str, &str)]| service_of(&process(memberships)).map(str::to_owned);
        let pg = "postgresql@15-main.service";
        let sliced = format!("/system.slice/system-postgresql.slice/{pg}");
        assert_eq!(name(&[(0, "", &sliced)]).as_deref(), Some(pg));
        assert_eq!(name(&[(5, "memory", "/x"), (1, "name=systemd", &sliced), (0, "", "/")]).as_deref(), Some(pg));
        assert_eq!(name(&[(0, "", "/system.slice/x.service/payload")]).as_deref(), Some("x.service"));
        for none in [
            "/",
            "/user.slice/user-1000.slice/session-2.scope",
            "/user.slice/user-1000.slice/user@1000.service/app.slice/x.service",
            "/system.slice/docker-1.scope/system.slice/x.service",
            "/docker/1/system.slice/x.service",
            "/system.slice/.service",
        ] {
            assert_eq!(name(&[(0, "", none)]), None, "{none}");
        }
    }

    #[test]
    fn limits_as_systemd_writes_them() {
        // What `systemd --test` of systemd 252 makes of each.
        for (text, expected) in [
            ("infinity", Some((Limit::Unlimited, Limit::Unlimited))),
            ("524288", Some((AT(524_288), AT(524_288)))),
            ("64M", Some((AT(64 << 20), AT(64 << 20)))),
            ("1.5G", Some((AT(3 << 29), AT(3 << 29)))),
            ("1G 512M", Some((AT(3 << 29), AT(3 << 29)))),
            ("8M:infinity", Some((AT(8 << 20), Limit::Unlimited))),
            ("16E", None),
            ("infinity:8M", None),
            ("512M 1G", None),
            ("64MB", None),
            ("64 M", Some((AT(64 << 20), AT(64 << 20)))),
            ("1K 1", Some((AT(1025), AT(1025)))),
            ("1.5", Some((AT(1), AT(1)))),
            ("1 1", None),
            ("64k", None),
            ("B", None),
            ("5%", None),
            ("0x10", None),
            ("8M : 9M", None),
            ("-1", None),
            ("", None),
            (":", None),
        ] {
            assert_eq!(parse_limit(text), expected, "{text}");
        }
    }

    #[test]
    fn drop_ins_override_the_template() {
        let source = MapSource::new()
            .file("/usr/lib/systemd/system/postgresql@.service", "[Service]\nUser=postgres\nLimitMEMLOCK=8M\n")
            .file("/usr/lib/systemd/system/postgresql@.service.d/20-b.conf", "[Service]\nLimitMEMLOCK=32M\n")
            .file("/etc/systemd/system/postgresql@.service.d/20-b.conf", "# hides the other\n")
            .file("/etc/systemd/system/postgresql@15-main.service.d/10-a.conf", "[Service]\n\nLimitMEMLOCK=16M:64M\n")
            .file("/etc/systemd/system/service.d/05-all.conf", "[Service]\nLimitMEMLOCK=infinity\n");
        let found = unit(&source, "postgresql@15-main.service");
        let at = "/etc/systemd/system/postgresql@15-main.service.d/10-a.conf";
        assert_eq!(found.memlock, Observed::Known((AT(16 << 20), AT(64 << 20), place(at, 3))));
        assert_eq!(found.user, Observed::Known("postgres".into()));
        assert_eq!(
            found.files,
            [
                "/usr/lib/systemd/system/postgresql@.service",
                "/etc/systemd/system/service.d/05-all.conf",
                at,
                "/etc/systemd/system/postgresql@.service.d/20-b.conf",
            ]
        );
    }

    #[test]
    fn an_alias_brings_its_drop_ins() {
        let source = MapSource::new()
            .file(
                "/usr/lib/systemd/system/mariadb.service",
                "[Service]\nLimitMEMLOCK=524288\nAmbientCapabilities=CAP_IPC_LOCK\n",
            )
            .link("/etc/systemd/system/mysql.service", "/usr/lib/systemd/system/mariadb.service")
            .file("/etc/systemd/system/mysql.service.d/override.conf", "[Service]\nLimitMEMLOCK=infinity\n");
        let found = unit(&source, "mariadb.service");
        assert_eq!(found.memlock.known().map(|(soft, ..)| *soft), Some(Limit::Unlimited));
        assert!(found.ambient_ipc_lock);
    }

    /// `systemd --test` of 252 says of the empty limit: failed to parse resource value, ignoring.
    #[test]
    fn an_empty_user_resets_and_an_empty_limit_does_not() {
        let text = "[Service]\nLimitMEMLOCK=1\nLimitMEMLOCK=\nUser=a\nUser=\nLimitNOFILE=1\n";
        let source = MapSource::new().file("/etc/systemd/system/x.service", text);
        let found = unit(&source, "x.service");
        assert_eq!(found.memlock, Observed::Known((AT(1), AT(1), place("/etc/systemd/system/x.service", 2))));
        assert_eq!(found.user, Observed::Absent);
    }

    #[test]
    fn what_is_denied_is_not_absent() {
        let source = MapSource::new()
            .file("/etc/systemd/system/x.service", "[Service]\nLimitMEMLOCK=1\n")
            .denied("/etc/systemd/system/x.service.d/secret.conf");
        assert_eq!(unit(&source, "x.service").memlock, Observed::Denied);
        let nothing = MapSource::new();
        let gone = unit(&nothing, "x.service");
        assert!(gone.files.is_empty() && gone.memlock.is_absent());
    }

    #[test]
    fn ambient_capabilities_add_up() {
        // What `systemd --test` of systemd 252 makes of each.
        for (lines, held) in [
            (vec!["CAP_IPC_LOCK"], true),
            (vec!["CAP_NET_ADMIN cap_ipc_lock"], true),
            (vec!["CAP_IPC_LOCK", "CAP_NET_ADMIN"], true),
            (vec!["CAP_IPC_LOCK", ""], false),
            (vec!["CAP_IPC_LOCK CAP_CHOWN", "~CAP_IPC_LOCK"], false),
            (vec!["CAP_CHOWN"], false),
            (vec!["~CAP_CHOWN"], true),
            (vec!["~CAP_IPC_LOCK"], false),
            (vec!["~"], true),
            (vec!["CAP_IPC_LOCK", "BOGUS"], false),
            (vec!["CAP_CHOWN,CAP_IPC_LOCK"], false),
            (vec!["ipc_lock"], false),
            (vec!["\"CAP_IPC_LOCK\""], true),
            (vec!["14"], true),
        ] {
            let mut set = Capabilities::default();
            lines.iter().for_each(|line| set.assign(line));
            assert_eq!(set.holds("CAP_IPC_LOCK"), held, "{lines:?}");
        }
    }

    #[test]
    fn the_default_comes_from_the_last_file() {
        let source = MapSource::new()
            .file("/etc/systemd/system.conf", "[Manager]\n#DefaultLimitMEMLOCK=8M\nDefaultLimitMEMLOCK=16M\n")
            .file("/etc/systemd/system.conf.d/hp.conf", "[Manager]\nDefaultLimitMEMLOCK=32M:64M\n");
        let known = (AT(32 << 20), place("/etc/systemd/system.conf.d/hp.conf", 2));
        assert_eq!(read_default_memlock(&mut Door::new(&source)), Observed::Known(known));
        assert_eq!(read_default_memlock(&mut Door::new(&MapSource::new())), Observed::Absent);
    }

    proptest! {
        #[test]
        fn any_limit_is_survived(text in "[0-9.:KMGTPE infity]{0,24}") {
            if let Some((soft, hard)) = parse_limit(&text) {
                prop_assert!(soft <= hard);
            }
        }

        #[test]
        fn whole_numbers_read_back(number in 0_u64..1 << 40, power in 0_u32..3) {
            let suffix = ["", "K", "M"][power as usize];
            let expected = AT(number << (10 * power));
            prop_assert_eq!(parse_limit(&format!("{number}{suffix}")), Some((expected, expected)));
        }

        #[test]
        fn any_path_is_survived(path in "(/|\\.slice|\\.service|[a-z@.]){0,20}") {
            service_of_path(&path);
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            default_memlocks("/f", &bytes);
        }
    }
}
