//! Service units as their files describe them: what the next start of a service may lock.

use std::collections::{BTreeMap, BTreeSet};

use hugewise_model::configuration::{Place, ServiceStart, StartCommand, Unit};
use hugewise_model::{Bytes, Limit, Observed, Process};

use super::bound_nodes;
use super::exec_start;
use super::files::{joined, overlaid, place};
use super::loaded;
use super::unit::{self, Assignment, UnitName};
pub use super::unit::{service_of, with_services};
use super::unit_values::{Capabilities, parse_limit};
use crate::Door;

/// Where units lie, the strongest first (`systemd.unit(5)` of systemd 252). Generated and transient ones count too:
/// an init script's unit is made by a generator.
pub(super) const FOLDERS: [&str; 13] = [
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

/// Those whose files are gone at the next boot: what is set there (`systemctl edit --runtime`, `set-property --runtime`) is
/// nothing to rely on. Generators run at each boot.
const PASSING: [&str; 4] =
    ["/run/systemd/system.control", "/run/systemd/transient", "/run/systemd/system", "/run/systemd/system.attached"];

/// The services that processes here run in, sorted by name, as their files describe them now.
pub fn read_units<'a>(door: &mut Door<'_>, processes: impl IntoIterator<Item = &'a Process>) -> Vec<Unit> {
    let processes: Vec<&Process> = processes.into_iter().collect();
    let mut units = read_named(door, &names(processes.iter().copied()));
    loaded::fill_in(door.source, &mut units, &processes);
    units
}

/// Names of the services that these processes run in.
pub(super) fn names<'a>(processes: impl IntoIterator<Item = &'a Process>) -> BTreeSet<String> {
    let services: BTreeSet<&str> = with_services(processes).filter_map(|(_, service)| service).collect();
    services.into_iter().map(str::to_owned).collect()
}

/// The services of these names, whether they run or not, as far as there is anything of them.
pub fn read_named(door: &mut Door<'_>, names: &BTreeSet<String>) -> Vec<Unit> {
    if names.is_empty() {
        return Vec::new();
    }
    let aliases = read_aliases(door);
    let wanted = read_wanted(door);
    names.iter().filter_map(|name| read_unit(door, name, &aliases, &wanted)).collect()
}

/// Units that others want or require by a link in a folder of theirs, each with its links.
pub(super) fn read_wanted(door: &Door<'_>) -> BTreeMap<String, Vec<String>> {
    let mut wanted = BTreeMap::<String, Vec<String>>::new();
    for folder in lasting() {
        let names = door.source.list(folder).into_known().unwrap_or_default();
        for whose in names.iter().filter(|name| name.ends_with(".wants") || name.ends_with(".requires")) {
            let folder = format!("{folder}/{whose}");
            for name in door.source.list(&folder).into_known().unwrap_or_default() {
                let path = format!("{folder}/{name}");
                wanted.entry(name).or_default().push(path);
            }
        }
    }
    wanted
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

fn read_unit(
    door: &mut Door<'_>,
    name: &str,
    aliases: &[(String, String)],
    wanted: &BTreeMap<String, Vec<String>>,
) -> Option<Unit> {
    let Files { files, masked, assignments, at_boot } = look_up(door, name, aliases, wanted)?;
    let described = assignments.map(|assignments| {
        // Of what is too long for any server nobody knows what it starts.
        let start = exec_start::read(door, name, &assignments).unwrap_or_else(|_| {
            let place = files.first().map(|file| place(file, 0));
            let commands = place.iter().map(|place| StartCommand { words: Vec::new(), place: place.clone() }).collect();
            ServiceStart { commands, unread: place, ..ServiceStart::default() }
        });
        (describe(&assignments), start)
    });
    let disabled = at_boot == Wanted::ByNobody;
    let slice = described.known().and_then(|(service, _)| service.slice.as_deref());
    let cgroup = UnitName::parse(name).and_then(|parts| parts.cgroup(name, slice)).unwrap_or_default();
    let unit = Unit { name: name.to_owned(), cgroup, masked, disabled, ..Unit::default() };
    Some(match described {
        // systemd keeps what it had loaded; without files nothing is known of the next start.
        Observed::Known(_) if files.is_empty() => unit,
        Observed::Known((service, start)) => Unit {
            memlock: service.memlock,
            address_space: service.address_space,
            user: service.user.into(),
            pam: service.pam,
            ambient_ipc_lock: service.ambient.holds("CAP_IPC_LOCK"),
            nodes: service.nodes,
            files,
            start,
            ..unit
        },
        Observed::Absent => Unit { files, ..unit },
        Observed::Denied => Unit { memlock: Observed::Denied, user: Observed::Denied, files, ..unit },
        Observed::Malformed(why) => {
            Unit { memlock: Observed::Malformed(why.clone()), user: Observed::Malformed(why), files, ..unit }
        }
    })
}

/// What the files of a service say together.
pub(super) struct Files {
    /// The unit file and its drop-ins, in the order in which they apply.
    pub(super) files: Vec<String>,
    /// The link to /dev/null in its place.
    pub(super) masked: Option<String>,
    /// All assignments, each with its file.
    pub(super) assignments: Observed<Vec<(String, Assignment)>>,
    /// Whether anything that the boot starts has it started.
    pub(super) at_boot: Wanted,
}

/// Who has a service started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// This link.
    By(String),
    /// Its file says who is to, and nobody does: it is disabled.
    ByNobody,
    /// It cannot be told.
    Unknown,
}

/// Looks for the files of a service.
pub(super) fn look_up(
    door: &mut Door<'_>,
    name: &str,
    aliases: &[(String, String)],
    wanted: &BTreeMap<String, Vec<String>>,
) -> Option<Files> {
    let parts = UnitName::parse(name)?;
    let lasting: Vec<&str> = lasting().collect();
    let file_in = |folders: &[&str]| {
        let files = std::iter::once(name.to_owned()).chain(parts.template());
        let mut paths = files.flat_map(|file| folders.iter().map(move |folder| format!("{folder}/{file}")));
        paths.find(|path| is_null(door, path) || !door.source.read(path).is_absent())
    };
    // A service that is in passing folders alone is gone at the next boot with all its settings.
    let (fragment, folders) = match file_in(&lasting) {
        Some(file) => (Some(file), lasting),
        None => match file_in(&PASSING) {
            Some(file) => (Some(file), FOLDERS.to_vec()),
            None => (None, lasting),
        },
    };
    let masked = fragment.clone().filter(|path| is_null(door, path));
    let mut names = vec![parts];
    names.extend(aliases.iter().filter(|(file, _)| file == name).filter_map(|(_, alias)| UnitName::parse(alias)));
    let own = folders.iter().flat_map(|folder| {
        let names = names.iter().flat_map(UnitName::drop_in_names);
        names.map(move |name| format!("{folder}/{name}.d"))
    });
    // Those of all services come last: they are the weakest.
    let drop_in_folders: Vec<String> = own.chain(folders.iter().map(|folder| format!("{folder}/service.d"))).collect();
    let drop_ins = overlaid(door, &drop_in_folders, ".conf").or_else_absent(|| Observed::Known(Vec::new()));
    let mut files: Vec<String> = fragment.filter(|_| masked.is_none()).into_iter().collect();
    let assignments = drop_ins.and_then(|drop_ins| {
        files.extend(drop_ins);
        joined(door, &files, |file, bytes| {
            unit::parse(bytes).into_iter().map(|assignment| (file.to_owned(), assignment)).collect()
        })
    });
    // What is there to be started by others, and is not: a link tells, by any of its names.
    let called = aliases.iter().filter(|(file, _)| file == name).map(|(_, alias)| alias.as_str()).chain([name]);
    let links = called.filter_map(|name| wanted.get(name)).flatten();
    let links: Vec<&String> = links.filter(|path| door.source.link(path).is_known()).collect();
    // What generators want is in no capture that lacks their folder.
    let generators = door.source.list("/run/systemd/generator").is_known();
    let has_install = assignments.known().is_some_and(|all| all.iter().any(|(_, one)| is_install(one)));
    let at_boot = match links.first() {
        Some(link) => Wanted::By((*link).clone()),
        None if generators && has_install => Wanted::ByNobody,
        None => Wanted::Unknown,
    };
    Some(Files { files, masked, assignments, at_boot })
}

/// The folders of [`FOLDERS`] that a boot does not empty, or fills again.
pub(super) fn lasting() -> impl Iterator<Item = &'static str> {
    FOLDERS.into_iter().filter(|folder| !PASSING.contains(folder))
}

/// What masks a unit for the next boot: a link to /dev/null, or an empty file, in the strongest of the folders that outlast
/// one and have it (`systemd.unit(5)`).
pub(super) fn mask(door: &Door<'_>, unit: &str) -> Option<String> {
    const OF_PEOPLE: [&str; 2] = ["/etc/systemd/system.control", "/etc/systemd/system"];
    for path in OF_PEOPLE.map(|folder| format!("{folder}/{unit}")) {
        match door.source.link(&path) {
            Observed::Known(target) if target == "/dev/null" || target.ends_with("../dev/null") => return Some(path),
            Observed::Known(_) => return None,
            _ => {}
        }
        match door.source.read(&path) {
            Observed::Known(bytes) => return bytes.is_empty().then_some(path),
            Observed::Absent => {}
            Observed::Denied | Observed::Malformed(_) => return None,
        }
    }
    None
}

/// Whether a path is a link to where nothing is.
pub(super) fn is_null(door: &Door<'_>, path: &str) -> bool {
    matches!(door.source.link(path), Observed::Known(target) if target == "/dev/null")
}

/// Whether a line names who is to start the unit once it is enabled.
fn is_install(one: &Assignment) -> bool {
    one.section == "Install" && ["WantedBy", "RequiredBy"].contains(&one.key.as_str()) && !one.value.is_empty()
}

/// What the `[Service]` sections leave in the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// `LimitMEMLOCK`.
    pub memlock: Observed<(Limit, Limit, Place)>,
    /// The soft limit of `LimitAS`.
    pub address_space: Option<(Bytes, Place)>,
    /// `User`.
    pub user: Option<String>,
    /// Whether `PAMName` names anything.
    pub pam: bool,
    /// `Slice`, with specifiers as they are written.
    pub slice: Option<String>,
    /// `AmbientCapabilities`.
    pub ambient: Capabilities,
    /// The nodes that its memory is kept to.
    pub nodes: Option<(Vec<u32>, Place)>,
}

/// Applies assignments, each with its file, in order. A value that systemd would refuse changes nothing, and an empty
/// limit is such a one: systemd 252 does not take it for a reset.
pub fn describe(assignments: &[(String, Assignment)]) -> Service {
    let mut service = Service { nodes: bound_nodes::of(assignments), ..Service::default() };
    for (file, assignment) in assignments.iter().filter(|(_, assignment)| assignment.section == "Service") {
        match assignment.key.as_str() {
            "LimitMEMLOCK" => {
                if let Some((soft, hard)) = parse_limit(&assignment.value) {
                    service.memlock = Observed::Known((soft, hard, place(file, assignment.line)));
                }
            }
            "LimitAS" => match parse_limit(&assignment.value) {
                Some((Limit::At(soft), _)) => service.address_space = Some((soft, place(file, assignment.line))),
                Some((Limit::Unlimited, _)) => service.address_space = None,
                None => {}
            },
            "User" => service.user = Some(assignment.value.clone()).filter(|user| !user.is_empty()),
            "Slice" => service.slice = Some(assignment.value.clone()).filter(|slice| !slice.is_empty()),
            "PAMName" => service.pam = !assignment.value.is_empty(),
            "AmbientCapabilities" => service.ambient.assign(&assignment.value),
            _ => {}
        }
    }
    service
}

/// `DefaultLimitMEMLOCK` of system.conf and its drop-ins: its soft limit, as the next boot finds it.
pub(crate) fn read_default_memlock(door: &mut Door<'_>) -> Observed<(Limit, Place)> {
    let main = ["/etc/systemd/system.conf", "/usr/lib/systemd/system.conf"]
        .iter()
        .find(|path| !door.source.read(path).is_absent());
    let folders = [
        "/etc/systemd/system.conf.d",
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

/// systemd's release: its programs share a library that bears it in its name.
pub(crate) fn read_release(door: &Door<'_>) -> Observed<u32> {
    door.source.list("/usr/lib/systemd").and_then(|names| names.iter().find_map(|name| release_of(name)).into())
}

/// `libsystemd-shared-252.so`, `libsystemd-shared-252-18.el9.so`.
fn release_of(library: &str) -> Option<u32> {
    let rest = library.strip_prefix("libsystemd-shared-")?;
    let end = rest.find(|character: char| !character.is_ascii_digit())?;
    rest.get(..end)?.parse().ok()
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
    use hugewise_model::{Bytes, process::CgroupMembership};
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

    /// Names as Debian 12, RHEL 8 and RHEL 9 have them; RHEL 7 (219) has no such library.
    #[test]
    fn the_release_is_in_the_name_of_the_library() {
        let release = |names: &[&str]| {
            let source = names
                .iter()
                .fold(MapSource::new(), |source, name| source.file(&format!("/usr/lib/systemd/{name}"), ""));
            read_release(&Door::new(&source))
        };
        assert_eq!(release(&["systemd", "libsystemd-core-252.so", "libsystemd-shared-252.so"]), Observed::Known(252));
        assert_eq!(release(&["libsystemd-shared-239.so"]), Observed::Known(239));
        assert_eq!(release(&["libsystemd-shared-252-32.el9.so"]), Observed::Known(252));
        for none in [&["systemd", "systemd-logind"][..], &["libsystemd-shared-.so"], &["libsystemd-shared-252"], &[]] {
            assert_eq!(release(none), Observed::Absent, "{none:?}");
        }
    }

    #[test]
    fn a_session_of_pam_is_seen() {
        let with = |lines: &str| {
            unit(&MapSource::new().file("/etc/systemd/system/x.service", format!("[Service]\n{lines}")), "x.service")
                .pam
        };
        assert!(with("PAMName=login\n"));
        assert!(!with("User=oracle\n"));
        assert!(!with("PAMName=login\nPAMName=\n"));
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

    #[test]
    fn a_unit_is_masked_by_the_strongest_folder_and_disabled_where_nobody_wants_it() {
        let file = "[Service]\nUser=a\n[Install]\nWantedBy=multi-user.target\n";
        let bare = || MapSource::new().file("/usr/lib/systemd/system/x.service", file);
        let plain = || bare().folder("/run/systemd/generator");
        let told = |source: &MapSource| {
            let unit = unit(source, "x.service");
            (unit.masked, unit.disabled)
        };
        assert_eq!(told(&plain()), (None, true));
        for whose in ["/etc/systemd/system/multi-user.target.wants", "/run/systemd/generator/db.service.requires"] {
            let wanted = plain().link(&format!("{whose}/x.service"), "/usr/lib/systemd/system/x.service");
            assert_eq!(told(&wanted), (None, false), "{whose}");
        }
        let other_name = plain()
            .link("/etc/systemd/system/y.service", "/usr/lib/systemd/system/x.service")
            .link("/etc/systemd/system/a.target.wants/y.service", "/usr/lib/systemd/system/x.service");
        assert_eq!(told(&other_name), (None, false));
        let masked = plain().link("/etc/systemd/system/x.service", "/dev/null");
        assert_eq!(told(&masked), (Some("/etc/systemd/system/x.service".into()), false));
        assert_eq!(told(&bare()), (None, false), "what generators want is not known");
        // Without [Install] it is for others to name it in their own files: static.
        let fixed = MapSource::new().file("/usr/lib/systemd/system/x.service", "[Service]\nUser=a\n");
        assert_eq!(told(&fixed), (None, false));
    }

    /// `systemctl edit --runtime` and `set-property --runtime` last until the boot.
    #[test]
    fn what_is_set_below_run_is_nothing_to_rely_on() {
        let source = MapSource::new()
            .file("/etc/systemd/system/dbora.service", "[Service]\nUser=oracle\n")
            .file("/run/systemd/system/dbora.service.d/x.conf", "[Service]\nLimitMEMLOCK=infinity\n")
            .file("/run/systemd/system.control/dbora.service.d/y.conf", "[Service]\nLimitMEMLOCK=infinity\n")
            .file("/run/systemd/system/service.d/z.conf", "[Service]\nLimitMEMLOCK=infinity\n")
            .file("/run/systemd/system.conf.d/z.conf", "[Manager]\nDefaultLimitMEMLOCK=infinity\n");
        let found = unit(&source, "dbora.service");
        assert_eq!(
            (found.memlock, found.files),
            (Observed::Absent, vec!["/etc/systemd/system/dbora.service".to_owned()])
        );
        assert_eq!(read_default_memlock(&mut Door::new(&source)), Observed::Absent);
        // A generator makes its units anew at each boot.
        let made = MapSource::new().file("/run/systemd/generator.late/ora.service", "[Service]\nLimitMEMLOCK=1M\n");
        assert_eq!(unit(&made, "ora.service").memlock.known().map(|(soft, ..)| *soft), Some(AT(1 << 20)));
        // A transient one has no settings but these.
        let transient = MapSource::new().file("/run/systemd/transient/run-1.service", "[Service]\nLimitMEMLOCK=2M\n");
        assert_eq!(unit(&transient, "run-1.service").memlock.known().map(|(soft, ..)| *soft), Some(AT(2 << 20)));
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
        fn a_service_is_found_wherever_it_stands(slices in "(/[a-z]{1,5}\\.slice){0,3}", name in "[a-z]{1,6}(@[a-z0-9]{1,3})?", below in "(/[a-z]{1,5}){0,2}") {
            let (service, path) = (format!("{name}.service"), format!("{slices}/{name}.service{below}"));
            prop_assert_eq!(unit::service_of_path(&path), Some(service.as_str()));
            prop_assert_eq!(unit::service_of_path(&slices), None);
        }
    }
}
