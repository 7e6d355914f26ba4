//! Service units as their files describe them: what the next start of a service may lock.

use std::collections::{BTreeMap, BTreeSet};

use hugewise_model::configuration::{FileLocation, ServiceStart, ServiceUnit, StartCommand};
use hugewise_model::{Bytes, Limit, Observed, Process};

use super::bound_nodes;
use super::exec_start;
use super::files::{file_location, overlay_files, parse_all_files, split_while};
use super::unit::{self, UnitAssignment, UnitName};
pub use super::unit::{service_of, with_services};
use super::unit_values::{Capabilities, parse_limit};
use hugewise_source::FactReader;

/// Where units lie, the strongest first (`systemd.unit(5)` of systemd 252). Generated and transient
/// ones count too: an init script's unit is made by a generator.
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

/// Those whose files are gone at the next boot: what is set there (`systemctl edit --runtime`,
/// `set-property --runtime`) is nothing to rely on. Generators run at each boot.
const PASSING: [&str; 4] = [
    "/run/systemd/system.control",
    "/run/systemd/transient",
    "/run/systemd/system",
    "/run/systemd/system.attached",
];

/// The services that processes here run in, sorted by name, as their files describe them now.
pub fn read_units<'a>(
    door: &mut FactReader<'_>,
    processes: impl IntoIterator<Item = &'a Process>,
) -> Vec<ServiceUnit> {
    super::read_units(door, processes, None)
}

pub(super) fn service_names<'a>(
    processes: impl IntoIterator<Item = &'a Process>,
) -> BTreeSet<String> {
    let services: BTreeSet<&str> =
        with_services(processes).filter_map(|(_, service)| service).collect();
    services.into_iter().map(str::to_owned).collect()
}

/// The services of these names, whether they run or not, as far as there is anything of them.
pub fn read_named(door: &mut FactReader<'_>, names: &BTreeSet<String>) -> Vec<ServiceUnit> {
    if names.is_empty() {
        return Vec::new();
    }
    let aliases = read_aliases(door);
    let wanted = read_wanted(door);
    names.iter().filter_map(|name| read_unit(door, name, &aliases, &wanted)).collect()
}

pub(super) fn read_wanted(door: &FactReader<'_>) -> BTreeMap<String, Vec<String>> {
    let mut wanted = BTreeMap::<String, Vec<String>>::new();
    for folder in persistent_folders() {
        let names = door.source.list_folder(folder).into_known().unwrap_or_default();
        let wants = |name: &&String| name.ends_with(".wants") || name.ends_with(".requires");
        for whose in names.iter().filter(wants) {
            let folder = format!("{folder}/{whose}");
            for name in door.source.list_folder(&folder).into_known().unwrap_or_default() {
                let path = format!("{folder}/{name}");
                wanted.entry(name).or_default().push(path);
            }
        }
    }
    wanted
}

fn read_aliases(door: &FactReader<'_>) -> Vec<(String, String)> {
    let mut aliases = Vec::new();
    for folder in FOLDERS {
        for name in door.source.list_folder(folder).into_known().unwrap_or_default() {
            if !name.ends_with(".service") {
                continue;
            }
            if let Observed::Known(target) = door.source.read_link(&format!("{folder}/{name}"))
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
    door: &mut FactReader<'_>,
    name: &str,
    aliases: &[(String, String)],
    wanted: &BTreeMap<String, Vec<String>>,
) -> Option<ServiceUnit> {
    let UnitFiles { files, masked, assignments, at_boot } =
        read_unit_files(door, name, aliases, wanted)?;
    let described = assignments.map(|assignments| {
        // Of what is too long for any server nobody knows what it starts.
        let start = exec_start::read(door, name, &assignments).unwrap_or_else(|_| {
            let place = files.first().map(|file| file_location(file, 0));
            let command = place.clone().map(|place| StartCommand {
                words: Vec::new(),
                bare_words: Vec::new(),
                place,
            });
            let commands = command.into_iter().collect();
            ServiceStart { commands, unread: place, ..ServiceStart::default() }
        });
        (describe_service(&assignments), start)
    });
    let disabled = at_boot == UnitWantedBy::ByNobody;
    let slice = described.as_known().and_then(|(service, _)| service.slice.as_deref());
    let cgroup =
        UnitName::parse(name).and_then(|parts| parts.cgroup_path(name, slice)).unwrap_or_default();
    let unit =
        ServiceUnit { name: name.to_owned(), cgroup, masked, disabled, ..ServiceUnit::default() };
    Some(match described {
        // systemd keeps what it had loaded; without files nothing is known of the next start.
        Observed::Known(_) if files.is_empty() => unit,
        Observed::Known((service, start)) => ServiceUnit {
            memlock: service.memlock,
            address_space: service.address_space,
            user: service.user.into(),
            pam: service.pam,
            ambient_ipc_lock: service.ambient.has_capability("CAP_IPC_LOCK"),
            nodes: service.nodes,
            files,
            start,
            ..unit
        },
        Observed::Absent => ServiceUnit { files, ..unit },
        Observed::Denied => {
            ServiceUnit { memlock: Observed::Denied, user: Observed::Denied, files, ..unit }
        }
        Observed::Malformed(why) => ServiceUnit {
            memlock: Observed::Malformed(why.clone()),
            user: Observed::Malformed(why),
            files,
            ..unit
        },
    })
}

pub(super) struct UnitFiles {
    pub(super) files: Vec<String>,
    pub(super) masked: Option<String>,
    pub(super) assignments: Observed<Vec<(String, UnitAssignment)>>,
    pub(super) at_boot: UnitWantedBy,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum UnitWantedBy {
    By(String),
    /// Its file says who is to, and nobody does: it is disabled.
    ByNobody,
    Unknown,
}

pub(super) fn read_unit_files(
    door: &mut FactReader<'_>,
    name: &str,
    aliases: &[(String, String)],
    wanted: &BTreeMap<String, Vec<String>>,
) -> Option<UnitFiles> {
    let parts = UnitName::parse(name)?;
    let (fragment, folders) = find_unit_fragment(door, name, &parts);
    let masked = fragment.clone().filter(|path| is_null(door, path));
    let aliases: Vec<&str> =
        aliases.iter().filter(|(file, _)| file == name).map(|(_, alias)| alias.as_str()).collect();
    let mut names = vec![parts];
    names.extend(aliases.iter().filter_map(|alias| UnitName::parse(alias)));
    let drop_ins = overlay_files(door, &list_drop_in_folders(&folders, &names), ".conf")
        .or_else_absent(|| Observed::Known(Vec::new()));
    let mut files: Vec<String> = fragment.filter(|_| masked.is_none()).into_iter().collect();
    let assignments = drop_ins.and_then(|drop_ins| {
        files.extend(drop_ins);
        parse_all_files(door, &files, |file, bytes| {
            unit::parse(bytes).into_iter().map(|assignment| (file.to_owned(), assignment)).collect()
        })
    });
    // A link tells, by any of its names.
    let links = aliases.into_iter().chain([name]).filter_map(|name| wanted.get(name)).flatten();
    let links: Vec<&String> = links.filter(|path| door.source.read_link(path).is_known()).collect();
    // What generators want is in no capture that lacks their folder.
    let generators = door.source.list_folder("/run/systemd/generator").is_known();
    // What is there to be started by others, and is not.
    let has_install =
        assignments.as_known().is_some_and(|all| all.iter().any(|(_, one)| is_install(one)));
    let at_boot = match links.first() {
        Some(link) => UnitWantedBy::By((*link).clone()),
        None if generators && has_install => UnitWantedBy::ByNobody,
        None => UnitWantedBy::Unknown,
    };
    Some(UnitFiles { files, masked, assignments, at_boot })
}

fn find_unit_fragment(
    door: &FactReader<'_>,
    name: &str,
    parts: &UnitName,
) -> (Option<String>, Vec<&'static str>) {
    let lasting: Vec<&str> = persistent_folders().collect();
    let file_in = |folders: &[&str]| {
        let files = std::iter::once(name.to_owned()).chain(parts.template_name());
        let mut paths =
            files.flat_map(|file| folders.iter().map(move |folder| format!("{folder}/{file}")));
        paths.find(|path| is_null(door, path) || !door.source.read(path).is_absent())
    };
    if let Some(file) = file_in(&lasting) {
        return (Some(file), lasting);
    }
    // A service that is in passing folders alone is gone at the next boot with all its settings.
    match file_in(&PASSING) {
        Some(file) => (Some(file), FOLDERS.to_vec()),
        None => (None, lasting),
    }
}

/// Folders of drop-ins, the strongest first: those of all services are the weakest.
fn list_drop_in_folders(folders: &[&str], names: &[UnitName]) -> Vec<String> {
    let names: Vec<String> = names.iter().flat_map(UnitName::drop_in_names).collect();
    let own = folders
        .iter()
        .flat_map(|folder| names.iter().map(move |name| format!("{folder}/{name}.d")));
    own.chain(folders.iter().map(|folder| format!("{folder}/service.d"))).collect()
}

/// The folders of [`FOLDERS`] that a boot does not empty, or fills again.
pub(super) fn persistent_folders() -> impl Iterator<Item = &'static str> {
    FOLDERS.into_iter().filter(|folder| !PASSING.contains(folder))
}

/// What masks a unit for the next boot: a link to /dev/null, or an empty file, in the strongest of
/// the folders that outlast one and have it (`systemd.unit(5)`).
pub(super) fn find_mask(door: &FactReader<'_>, unit: &str) -> Option<String> {
    const OF_PEOPLE: [&str; 2] = ["/etc/systemd/system.control", "/etc/systemd/system"];
    for path in OF_PEOPLE.map(|folder| format!("{folder}/{unit}")) {
        match door.source.read_link(&path) {
            Observed::Known(target) if target == "/dev/null" || target.ends_with("../dev/null") => {
                return Some(path);
            }
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

pub(super) fn is_null(door: &FactReader<'_>, path: &str) -> bool {
    matches!(door.source.read_link(path), Observed::Known(target) if target == "/dev/null")
}

fn is_install(one: &UnitAssignment) -> bool {
    one.section == "Install"
        && ["WantedBy", "RequiredBy"].contains(&one.key.as_str())
        && !one.value.is_empty()
}

/// What the `[Service]` sections leave in the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceSection {
    /// `LimitMEMLOCK`.
    pub memlock: Observed<(Limit, Limit, FileLocation)>,
    /// The soft limit of `LimitAS`.
    pub address_space: Option<(Bytes, FileLocation)>,
    /// `User`.
    pub user: Option<String>,
    /// Whether `PAMName` names anything.
    pub pam: bool,
    /// `Slice`, with specifiers as they are written.
    pub slice: Option<String>,
    /// `AmbientCapabilities`.
    pub ambient: Capabilities,
    /// The nodes that its memory is kept to.
    pub nodes: Option<(Vec<u32>, FileLocation)>,
}

/// Applies assignments, each with its file, in order. A value that systemd would refuse changes
/// nothing, and an empty limit is such a one: systemd 252 does not take it for a reset.
pub fn describe_service(assignments: &[(String, UnitAssignment)]) -> ServiceSection {
    let mut service = ServiceSection {
        nodes: bound_nodes::find_bound_nodes(assignments),
        ..ServiceSection::default()
    };
    for (file, one) in assignments.iter().filter(|(_, one)| one.section == "Service") {
        let place = || file_location(file, one.line);
        let text = || Some(one.value.clone()).filter(|text| !text.is_empty());
        match one.key.as_str() {
            "LimitMEMLOCK" => {
                if let Some((soft, hard)) = parse_limit(&one.value) {
                    service.memlock = Observed::Known((soft, hard, place()));
                }
            }
            "LimitAS" => match parse_limit(&one.value) {
                Some((Limit::At(soft), _)) => service.address_space = Some((soft, place())),
                Some((Limit::Unlimited, _)) => service.address_space = None,
                None => {}
            },
            "User" => service.user = text(),
            "Slice" => service.slice = text(),
            "PAMName" => service.pam = text().is_some(),
            "AmbientCapabilities" => service.ambient.apply_line(&one.value),
            _ => {}
        }
    }
    service
}

/// The soft limit, as the next boot finds it.
pub(crate) fn read_default_memlock(door: &mut FactReader<'_>) -> Observed<(Limit, FileLocation)> {
    let main = ["/etc/systemd/system.conf", "/usr/lib/systemd/system.conf"]
        .iter()
        .find(|path| !door.source.read(path).is_absent());
    let folders = [
        "/etc/systemd/system.conf.d",
        "/usr/local/lib/systemd/system.conf.d",
        "/usr/lib/systemd/system.conf.d",
        "/lib/systemd/system.conf.d",
    ];
    let drop_ins =
        overlay_files(door, &folders, ".conf").or_else_absent(|| Observed::Known(Vec::new()));
    let found = drop_ins.and_then(|drop_ins| {
        let paths: Vec<String> =
            main.map(|path| (*path).to_owned()).into_iter().chain(drop_ins).collect();
        parse_all_files(door, &paths, default_memlocks)
    });
    found.and_then(|found| Observed::from(found.into_iter().next_back()))
}

/// systemd's release: its programs share a library that bears it in its name.
pub(crate) fn read_release(door: &FactReader<'_>) -> Observed<u32> {
    door.source
        .list_folder("/usr/lib/systemd")
        .and_then(|names| names.iter().find_map(|name| parse_release(name)).into())
}

/// `libsystemd-shared-252.so`, `libsystemd-shared-252-18.el9.so`.
fn parse_release(library: &str) -> Option<u32> {
    let rest = library.strip_prefix("libsystemd-shared-")?;
    let (digits, behind) = split_while(rest, |sign| sign.is_ascii_digit());
    digits.parse().ok().filter(|_| !behind.is_empty())
}

/// The assignments of one file, without those that systemd refuses.
pub fn default_memlocks(file: &str, bytes: &[u8]) -> Vec<(Limit, FileLocation)> {
    let ours = |one: &UnitAssignment| one.section == "Manager" && one.key == "DefaultLimitMEMLOCK";
    let limit = |one: UnitAssignment| {
        parse_limit(&one.value).map(|(soft, _)| (soft, file_location(file, one.line)))
    };
    unit::parse(bytes).into_iter().filter(ours).filter_map(limit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hugewise_model::{Bytes, process::CgroupMembership};
    use hugewise_source::map::MapSource;
    use proptest::prelude::*;

    const AT: fn(u64) -> Limit = |bytes| Limit::At(Bytes(bytes));

    fn process(memberships: &[(u32, &str, &str)]) -> Process {
        let membership = |&(hierarchy, controller, path): &(u32, &str, &str)| CgroupMembership {
            hierarchy,
            controllers: Some(controller)
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .into_iter()
                .collect(),
            path: path.to_owned(),
        };
        Process {
            cgroups: Observed::Known(memberships.iter().map(membership).collect()),
            ..Process::default()
        }
    }

    fn unit(source: &MapSource, name: &str) -> ServiceUnit {
        let path = format!("/system.slice/{name}");
        let units = read_units(&mut FactReader::new(source), &[process(&[(0, "", &path)])]);
        assert_eq!(units.len(), 1);
        units.into_iter().next().unwrap()
    }

    #[test]
    fn services_come_from_cgroups() {
        let name = |memberships: &[(u32, &str, &str)]| {
            service_of(&process(memberships)).map(str::to_owned)
        };
        let pg = "postgresql@15-main.service";
        let sliced = format!("/system.slice/system-postgresql.slice/{pg}");
        assert_eq!(name(&[(0, "", &sliced)]).as_deref(), Some(pg));
        assert_eq!(
            name(&[(5, "memory", "/x"), (1, "name=systemd", &sliced), (0, "", "/")]).as_deref(),
            Some(pg)
        );
        assert_eq!(
            name(&[(0, "", "/system.slice/x.service/payload")]).as_deref(),
            Some("x.service")
        );
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
            let source = names.iter().fold(MapSource::new(), |source, name| {
                source.with_file(&format!("/usr/lib/systemd/{name}"), "")
            });
            read_release(&FactReader::new(&source))
        };
        assert_eq!(
            release(&["systemd", "libsystemd-core-252.so", "libsystemd-shared-252.so"]),
            Observed::Known(252)
        );
        assert_eq!(release(&["libsystemd-shared-239.so"]), Observed::Known(239));
        assert_eq!(release(&["libsystemd-shared-252-32.el9.so"]), Observed::Known(252));
        for none in [
            &["systemd", "systemd-logind"][..],
            &["libsystemd-shared-.so"],
            &["libsystemd-shared-252"],
            &[],
        ] {
            assert_eq!(release(none), Observed::Absent, "{none:?}");
        }
    }

    #[test]
    fn a_session_of_pam_is_seen() {
        let with = |lines: &str| {
            unit(
                &MapSource::new()
                    .with_file("/etc/systemd/system/x.service", format!("[Service]\n{lines}")),
                "x.service",
            )
            .pam
        };
        assert!(with("PAMName=login\n"));
        assert!(!with("User=oracle\n"));
        assert!(!with("PAMName=login\nPAMName=\n"));
    }

    #[test]
    fn drop_ins_override_the_template() {
        let source = MapSource::new()
            .with_file(
                "/usr/lib/systemd/system/postgresql@.service",
                "[Service]\nUser=postgres\nLimitMEMLOCK=8M\n",
            )
            .with_file(
                "/usr/lib/systemd/system/postgresql@.service.d/20-b.conf",
                "[Service]\nLimitMEMLOCK=32M\n",
            )
            .with_file("/etc/systemd/system/postgresql@.service.d/20-b.conf", "# hides the other\n")
            .with_file(
                "/etc/systemd/system/postgresql@15-main.service.d/10-a.conf",
                "[Service]\n\nLimitMEMLOCK=16M:64M\n",
            )
            .with_file(
                "/etc/systemd/system/service.d/05-all.conf",
                "[Service]\nLimitMEMLOCK=infinity\n",
            );
        let found = unit(&source, "postgresql@15-main.service");
        let at = "/etc/systemd/system/postgresql@15-main.service.d/10-a.conf";
        assert_eq!(
            found.memlock,
            Observed::Known((AT(16 << 20), AT(64 << 20), file_location(at, 3)))
        );
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
            .with_file(
                "/usr/lib/systemd/system/mariadb.service",
                "[Service]\nLimitMEMLOCK=524288\nAmbientCapabilities=CAP_IPC_LOCK\n",
            )
            .with_link(
                "/etc/systemd/system/mysql.service",
                "/usr/lib/systemd/system/mariadb.service",
            )
            .with_file(
                "/etc/systemd/system/mysql.service.d/override.conf",
                "[Service]\nLimitMEMLOCK=infinity\n",
            );
        let found = unit(&source, "mariadb.service");
        assert_eq!(found.memlock.as_known().map(|(soft, ..)| *soft), Some(Limit::Unlimited));
        assert!(found.ambient_ipc_lock);
    }

    #[test]
    fn a_unit_is_masked_by_the_strongest_folder_and_disabled_where_nobody_wants_it() {
        let file = "[Service]\nUser=a\n[Install]\nWantedBy=multi-user.target\n";
        let bare = || MapSource::new().with_file("/usr/lib/systemd/system/x.service", file);
        let plain = || bare().with_folder("/run/systemd/generator");
        let told = |source: &MapSource| {
            let unit = unit(source, "x.service");
            (unit.masked, unit.disabled)
        };
        assert_eq!(told(&plain()), (None, true));
        for whose in [
            "/etc/systemd/system/multi-user.target.wants",
            "/run/systemd/generator/db.service.requires",
        ] {
            let wanted = plain()
                .with_link(&format!("{whose}/x.service"), "/usr/lib/systemd/system/x.service");
            assert_eq!(told(&wanted), (None, false), "{whose}");
        }
        let other_name = plain()
            .with_link("/etc/systemd/system/y.service", "/usr/lib/systemd/system/x.service")
            .with_link(
                "/etc/systemd/system/a.target.wants/y.service",
                "/usr/lib/systemd/system/x.service",
            );
        assert_eq!(told(&other_name), (None, false));
        let masked = plain().with_link("/etc/systemd/system/x.service", "/dev/null");
        assert_eq!(told(&masked), (Some("/etc/systemd/system/x.service".into()), false));
        assert_eq!(told(&bare()), (None, false), "what generators want is not known");
        // Without [Install] it is for others to name it in their own files: static.
        let fixed =
            MapSource::new().with_file("/usr/lib/systemd/system/x.service", "[Service]\nUser=a\n");
        assert_eq!(told(&fixed), (None, false));
    }

    /// `systemctl edit --runtime` and `set-property --runtime` last until the boot.
    #[test]
    fn what_is_set_below_run_is_nothing_to_rely_on() {
        let source = MapSource::new()
            .with_file("/etc/systemd/system/dbora.service", "[Service]\nUser=oracle\n")
            .with_file(
                "/run/systemd/system/dbora.service.d/x.conf",
                "[Service]\nLimitMEMLOCK=infinity\n",
            )
            .with_file(
                "/run/systemd/system.control/dbora.service.d/y.conf",
                "[Service]\nLimitMEMLOCK=infinity\n",
            )
            .with_file("/run/systemd/system/service.d/z.conf", "[Service]\nLimitMEMLOCK=infinity\n")
            .with_file(
                "/run/systemd/system.conf.d/z.conf",
                "[Manager]\nDefaultLimitMEMLOCK=infinity\n",
            );
        let found = unit(&source, "dbora.service");
        assert_eq!(
            (found.memlock, found.files),
            (Observed::Absent, vec!["/etc/systemd/system/dbora.service".to_owned()])
        );
        assert_eq!(read_default_memlock(&mut FactReader::new(&source)), Observed::Absent);
        // A generator makes its units anew at each boot.
        let made = MapSource::new()
            .with_file("/run/systemd/generator.late/ora.service", "[Service]\nLimitMEMLOCK=1M\n");
        assert_eq!(
            unit(&made, "ora.service").memlock.as_known().map(|(soft, ..)| *soft),
            Some(AT(1 << 20))
        );
        // A transient one has no settings but these.
        let transient = MapSource::new()
            .with_file("/run/systemd/transient/run-1.service", "[Service]\nLimitMEMLOCK=2M\n");
        assert_eq!(
            unit(&transient, "run-1.service").memlock.as_known().map(|(soft, ..)| *soft),
            Some(AT(2 << 20))
        );
    }

    /// `systemd --test` of 252 says of the empty limit: failed to parse resource value, ignoring.
    #[test]
    fn an_empty_user_resets_and_an_empty_limit_does_not() {
        let text = "[Service]\nLimitMEMLOCK=1\nLimitMEMLOCK=\nUser=a\nUser=\nLimitNOFILE=1\n";
        let source = MapSource::new().with_file("/etc/systemd/system/x.service", text);
        let found = unit(&source, "x.service");
        assert_eq!(
            found.memlock,
            Observed::Known((AT(1), AT(1), file_location("/etc/systemd/system/x.service", 2)))
        );
        assert_eq!(found.user, Observed::Absent);
    }

    #[test]
    fn what_is_denied_is_not_absent() {
        let source = MapSource::new()
            .with_file("/etc/systemd/system/x.service", "[Service]\nLimitMEMLOCK=1\n")
            .with_denied("/etc/systemd/system/x.service.d/secret.conf");
        assert_eq!(unit(&source, "x.service").memlock, Observed::Denied);
        let nothing = MapSource::new();
        let gone = unit(&nothing, "x.service");
        assert!(gone.files.is_empty() && gone.memlock.is_absent());
    }

    #[test]
    fn the_default_comes_from_the_last_file() {
        let source = MapSource::new()
            .with_file(
                "/etc/systemd/system.conf",
                "[Manager]\n#DefaultLimitMEMLOCK=8M\nDefaultLimitMEMLOCK=16M\n",
            )
            .with_file(
                "/etc/systemd/system.conf.d/hp.conf",
                "[Manager]\nDefaultLimitMEMLOCK=32M:64M\n",
            );
        let known = (AT(32 << 20), file_location("/etc/systemd/system.conf.d/hp.conf", 2));
        assert_eq!(read_default_memlock(&mut FactReader::new(&source)), Observed::Known(known));
        assert_eq!(read_default_memlock(&mut FactReader::new(&MapSource::new())), Observed::Absent);
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
