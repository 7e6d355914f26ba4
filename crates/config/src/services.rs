//! Services that files of the host describe, whether they run or not: what each would start, and
//! whether the boot does.

use std::collections::{BTreeMap, BTreeSet};

use hugewise_model::configuration::ServiceStart;
use hugewise_model::{AtBoot, Observed, Reason, Unread};

use super::exec_start::{self, expand_specifiers};
use super::systemd::{
    UnitFiles, UnitWantedBy, is_null, persistent_folders, read_unit_files, read_wanted,
};
use super::unit::{self, UnitName};
use hugewise_source::FactReader;

/// A service as its files describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceDefinition {
    /// `mariadb.service`.
    pub name: String,
    /// Its own file.
    pub file: String,
    /// The first program that it starts, with its arguments; what its settings do not tell of
    /// variables is empty, as for systemd. None where its files start none, or could not be read.
    pub command: Vec<String>,
    /// Those of its variables that are read, by name.
    pub environment: BTreeMap<String, String>,
    /// `WorkingDirectory`.
    pub directory: Option<String>,
    /// `User`.
    pub user: Option<String>,
    /// The link to /dev/null in its place: nothing starts it.
    pub masked: Option<String>,
    /// Whether the boot starts it.
    pub at_boot: AtBoot,
    /// Why what it starts is not known beyond its program, where that is so.
    pub untold: Option<Unread>,
}

/// Where the people of a host put their own units: all of them are looked at.
const THEIRS: [&str; 3] =
    ["/etc/systemd/system", "/etc/systemd/system.attached", "/usr/local/lib/systemd/system"];

/// Of all the services that packages bring, those that the boot starts and those with a likely name
/// are looked at, and kept where the command is of `ours`, or the name is likely. What runs is of
/// no interest by its name alone.
pub fn read_services(
    door: &mut FactReader<'_>,
    is_likely: &dyn Fn(&str) -> bool,
    is_ours: &dyn Fn(&[String]) -> bool,
    runs: &dyn Fn(&str) -> bool,
) -> Vec<ServiceDefinition> {
    let listed = list_unit_folders(door);
    let wanted = read_wanted(door);
    let mut names = find_service_candidates(&listed, &wanted, is_likely);
    names.retain(|name| is_likely(name) || !runs(name));
    let (names, aliases) = without_aliases(door, &listed, names);
    let found: Vec<ServiceDefinition> = names
        .iter()
        .filter_map(|name| find_service_definition(door, &listed, name, is_likely, is_ours))
        .collect();
    let completed = found.into_iter().map(|service| match service.masked {
        Some(_) => service,
        None => complete_service(door, service, &aliases, &wanted),
    });
    completed.filter(|service| is_likely(&service.name) || is_ours(&service.command)).collect()
}

fn list_unit_folders(door: &FactReader<'_>) -> Vec<(&'static str, BTreeSet<String>)> {
    let list = |folder| door.source.list_folder(folder).into_known().unwrap_or_default();
    persistent_folders().map(|folder| (folder, list(folder).into_iter().collect())).collect()
}

fn find_service_candidates(
    listed: &[(&str, BTreeSet<String>)],
    wanted: &BTreeMap<String, Vec<String>>,
    is_likely: &dyn Fn(&str) -> bool,
) -> BTreeSet<String> {
    let named = listed.iter().flat_map(|(folder, there)| {
        there.iter().filter(move |name| THEIRS.contains(folder) || is_likely(name))
    });
    wanted.keys().chain(named).filter(|name| is_whole(name)).cloned().collect()
}

fn find_service_definition(
    door: &FactReader<'_>,
    listed: &[(&str, BTreeSet<String>)],
    name: &str,
    is_likely: &dyn Fn(&str) -> bool,
    is_ours: &dyn Fn(&[String]) -> bool,
) -> Option<ServiceDefinition> {
    let (path, is_masked) = find_unit_file(door, listed, name)?;
    if is_masked {
        let at_boot = AtBoot::No(format!("{name} is masked ({path})"));
        return is_likely(name).then(|| ServiceDefinition {
            masked: Some(path.clone()),
            ..bare_service(name, path, at_boot)
        });
    }
    let changed =
        || listed.iter().any(|(_, there)| drop_ins(name).any(|folder| there.contains(&folder)));
    let first = || {
        let file = door.source.read(&path).into_known();
        let assignments = file.map(|bytes| unit::parse(&bytes)).unwrap_or_default();
        exec_start::first_program(name, &assignments)
    };
    // What is too long to be filled in is looked at as a whole, which says so.
    (is_likely(name) || changed() || first().map_or(true, |words| is_ours(&words)))
        .then(|| bare_service(name, path, AtBoot::Unknown(String::new())))
}

/// A service, and no template of services.
fn is_whole(name: &str) -> bool {
    name.ends_with(".service")
        && UnitName::parse(name).is_some_and(|name| {
            name.instance.as_deref().is_none_or(|instance| !instance.is_empty())
        })
}

fn bare_service(name: &str, file: String, at_boot: AtBoot) -> ServiceDefinition {
    ServiceDefinition {
        name: name.to_owned(),
        file,
        command: Vec::new(),
        environment: BTreeMap::new(),
        directory: None,
        user: None,
        masked: None,
        at_boot,
        untold: None,
    }
}

fn without_aliases(
    door: &FactReader<'_>,
    listed: &[(&str, BTreeSet<String>)],
    names: BTreeSet<String>,
) -> (BTreeSet<String>, Vec<(String, String)>) {
    let (mut whole, mut aliases) = (BTreeSet::new(), Vec::new());
    for name in names {
        let at = listed.iter().find(|(_, there)| there.contains(&name));
        let link = at.and_then(|(folder, _)| {
            door.source.read_link(&format!("{folder}/{name}")).into_known()
        });
        let target = link.as_deref().and_then(|link| link.rsplit('/').next());
        let target = target.filter(|file| is_whole(file) && *file != name);
        match target {
            Some(file) => {
                whole.insert(file.to_owned());
                aliases.push((file.to_owned(), name));
            }
            None => {
                whole.insert(name);
            }
        }
    }
    (whole, aliases)
}

fn find_unit_file(
    door: &FactReader<'_>,
    listed: &[(&str, BTreeSet<String>)],
    name: &str,
) -> Option<(String, bool)> {
    let template = UnitName::parse(name)?.template_name();
    let files = std::iter::once(name.to_owned()).chain(template);
    let mut paths = files.flat_map(|file| {
        let folders =
            listed.iter().filter(|(_, there)| there.contains(&file)).map(|(folder, _)| *folder);
        folders.map(|folder| format!("{folder}/{file}")).collect::<Vec<_>>()
    });
    let path = paths.next()?;
    let is_masked = is_null(door, &path);
    Some((path, is_masked))
}

fn drop_ins(name: &str) -> impl Iterator<Item = String> {
    let names = UnitName::parse(name).map(|name| name.drop_in_names()).unwrap_or_default();
    names.into_iter().map(|name| format!("{name}.d"))
}

fn describe_boot_start(name: &str, at_boot: UnitWantedBy) -> AtBoot {
    match at_boot {
        UnitWantedBy::By(link) => AtBoot::Yes(format!("{name} is enabled ({link})")),
        UnitWantedBy::ByNobody => AtBoot::No(format!("{name} is disabled")),
        UnitWantedBy::Unknown => {
            AtBoot::Unknown(format!("nothing says whether the boot starts {name}"))
        }
    }
}

fn complete_service(
    door: &mut FactReader<'_>,
    service: ServiceDefinition,
    aliases: &[(String, String)],
    wanted: &BTreeMap<String, Vec<String>>,
) -> ServiceDefinition {
    let name = service.name.clone();
    let files = read_unit_files(door, &name, aliases, wanted);
    let Some(UnitFiles { assignments, at_boot, .. }) = files else { return service };
    let at_boot = describe_boot_start(&name, at_boot);
    let Observed::Known(assignments) = assignments else {
        return ServiceDefinition { at_boot, ..service };
    };
    let of_service =
        || assignments.iter().map(|(_, one)| one).filter(|one| one.section == "Service");
    let last = |key: &str| {
        let value = of_service()
            .rfind(|one| one.key == key)
            .and_then(|one| expand_specifiers(&name, &one.value).ok());
        value.filter(|value| !value.is_empty())
    };
    let (start, untold) = match exec_start::read(door, &name, &assignments) {
        Ok(start) => (start, None),
        Err(too_long) => {
            let what = format!("what {name} starts ({})", service.file);
            let why = Reason::Malformed(too_long.to_string());
            door.report_unread(what.clone(), why.clone());
            (ServiceStart::default(), Some(Unread { what, why }))
        }
    };
    // Its program is told by the first word of what is too long.
    let program = || {
        let line = of_service().find(|one| one.key == "ExecStart" && untold.is_some())?;
        let first = line.value.split_ascii_whitespace().next()?;
        Some(first.trim_start_matches(['@', '-', ':', '+', '!']).to_owned())
    };
    let words = start.commands.into_iter().next().map(|command| command.words);
    let words = words.unwrap_or_else(|| program().into_iter().collect());
    let environment = start.environment;
    let directory = last("WorkingDirectory").map(|path| path.trim_start_matches('-').to_owned());
    ServiceDefinition {
        command: words,
        environment,
        directory,
        user: last("User"),
        at_boot,
        untold,
        ..service
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hugewise_source::map::MapSource;

    fn read(source: &MapSource) -> Vec<ServiceDefinition> {
        let ours =
            |words: &[String]| words.first().is_some_and(|first| first.ends_with("/postgres"));
        read_services(
            &mut FactReader::new(source),
            &|name| name.starts_with("postgresql"),
            &ours,
            &|name| name == "busy.service",
        )
    }

    /// As `systemctl show -p ExecStart` of systemd 252 lists the words of the same lines.
    #[test]
    fn a_command_is_what_systemd_would_start() {
        let words = |text: &str| {
            exec_start::first_program("pg@16.service", &unit::parse(text.as_bytes()))
                .unwrap()
                .join("|")
        };
        for (text, said) in [
            ("ExecStart=/bin/postgres -D /d", "/bin/postgres|-D|/d"),
            ("ExecStart=-!/bin/postgres \"-c a b\" 'x'", "/bin/postgres|-c a b|x"),
            ("ExecStart=@/bin/postgres pg -D /d", "/bin/postgres|-D|/d"),
            ("ExecStart=/bin/a\nExecStart=\nExecStart=/bin/postgres %i %p", "/bin/postgres|16|pg"),
            ("ExecStart=/bin/postgres %%i %n", "/bin/postgres|%i|pg@16.service"),
            (
                "Environment=PGDATA=/d/%i \"O=-c x=1 -B 2\"\nExecStart=/bin/postgres -D ${PGDATA} \
                     $O $N",
                "/bin/postgres|-D|/d/16|-c|x=1|-B|2",
            ),
            (
                "ExecStart=/usr/bin/numactl --interleave=all /usr/bin/env A=b /bin/postgres -D /d",
                "/bin/postgres|-D|/d",
            ),
        ] {
            assert_eq!(words(&format!("[Service]\n{text}\n")), said, "{text}");
        }
    }

    #[test]
    fn those_of_the_hosts_people_and_those_that_the_boot_starts_are_looked_at() {
        let file = |program: &str| {
            format!("[Service]\nUser=db\nExecStart={program} -D /d\n[Install]\nWantedBy=a.target\n")
        };
        let source = MapSource::new()
            .with_folder("/run/systemd/generator")
            .with_file("/etc/systemd/system/own.service", file("/opt/bin/postgres"))
            .with_file("/etc/systemd/system/other.service", file("/opt/bin/other"))
            .with_file("/etc/systemd/system/busy.service", file("/opt/bin/postgres"))
            .with_file("/usr/lib/systemd/system/packed.service", file("/usr/bin/postgres"))
            .with_file("/usr/lib/systemd/system/silent.service", file("/usr/bin/postgres"))
            .with_file("/usr/lib/systemd/system/postgresql.service", file("/bin/true"))
            .with_file("/usr/lib/systemd/system/postgresql@.service", file("/bin/ctl"))
            .with_link(
                "/etc/systemd/system/a.target.wants/packed.service",
                "/usr/lib/systemd/system/packed.service",
            )
            .with_link(
                "/etc/systemd/system/alias.service",
                "/usr/lib/systemd/system/packed.service",
            )
            .with_link("/etc/systemd/system/postgresql@15-b.service", "/dev/null");
        let all = read(&source);
        let names: Vec<&str> = all.iter().map(|service| service.name.as_str()).collect();
        assert_eq!(
            names,
            ["own.service", "packed.service", "postgresql.service", "postgresql@15-b.service"]
        );
        let told: Vec<&str> = all.iter().map(|service| service.at_boot.as_str()).collect();
        assert_eq!(told, ["no", "yes", "no", "no"]);
        assert_eq!(all[3].masked.as_deref(), Some("/etc/systemd/system/postgresql@15-b.service"));
        assert_eq!((all[0].user.as_deref(), all[0].command.len()), (Some("db"), 3));
    }

    #[test]
    fn a_drop_in_gives_another_command() {
        let source = MapSource::new()
            .with_file("/etc/systemd/system/x.service", "[Service]\nExecStart=/opt/start\n")
            .with_file(
                "/etc/systemd/system/x.service.d/a.conf",
                "[Service]\nExecStart=\nExecStart=/opt/postgres $A\n",
            );
        let all = read(&source);
        assert_eq!(all[0].command, ["/opt/postgres"]);
        assert_eq!(all[0].at_boot.as_str(), "unknown");
    }

    /// A file of some KB that stands for 100 MB of words, for 50 GB of text, and for 1.4 GB by its
    /// own name.
    #[test]
    fn what_a_few_words_stand_for_is_bounded_and_said() {
        let large = format!("Environment=A='{}'\n", "x ".repeat(10_000));
        let long = "a".repeat(200);
        for (name, text) in [
            (
                "postgresql.service",
                format!("{large}ExecStart=/bin/postgres {}\n", "$A ".repeat(5000)),
            ),
            (
                "postgresql.service",
                format!("{large}ExecStart=/bin/postgres {}\n", "${A}".repeat(50_000)),
            ),
            (
                &format!("postgresql@{long}.service"),
                format!("ExecStart=/bin/postgres {}\n", "%i".repeat(100_000)),
            ),
            (
                &format!("postgresql@{long}.service"),
                format!("Environment=A={}\n", "%i".repeat(100_000)),
            ),
            (
                "postgresql.service",
                format!("Environment={}\nExecStart=/bin/postgres\n", "A=b ".repeat(20_000)),
            ),
            ("own.service", format!("ExecStart=/bin/postgres {}\n", "x ".repeat(20_000))),
        ] {
            let source = MapSource::new()
                .with_file(&format!("/etc/systemd/system/{name}"), format!("[Service]\n{text}"));
            let mut door = FactReader::new(&source);
            let all = read_services(
                &mut door,
                &|name| name.starts_with("postgresql"),
                &|_| false,
                &|_| false,
            );
            // The program alone is told.
            let is_short = |service: &ServiceDefinition| {
                service.command.len() <= 1 && service.environment.is_empty()
            };
            assert!(
                all.iter().all(|service| is_short(service) && service.untold.is_some()),
                "{name}"
            );
            let said: Vec<String> = door.unread.iter().map(ToString::to_string).collect();
            assert_eq!(said.len(), 1, "{said:?}");
            assert!(
                said[0].contains(&format!("what {name} starts")) && said[0].contains("16384 words"),
                "{said:?}"
            );
        }
        // What a server has at most: a class path that fills an argument.
        let path = "/usr/share/java/x.jar:".repeat(5900);
        let text =
            format!("[Service]\nEnvironment=CP={path}\nExecStart=/bin/postgres -cp ${{CP}} $CP\n");
        let words =
            exec_start::first_program("own.service", &unit::parse(text.as_bytes())).unwrap();
        assert_eq!(words, ["/bin/postgres", "-cp", &path, &path]);
    }
}
