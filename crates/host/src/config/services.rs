//! Services that files of the host describe, whether they run or not: what each would start, and whether the boot does.

use std::collections::{BTreeMap, BTreeSet};

use hugewise_model::{AtBoot, Observed, Reason};

use super::filling::{Room, Text, TooLong, bounded};
use super::systemd::{Files, Wanted, is_null, lasting, look_up, read_wanted};
use super::unit::{self, Assignment, UnitName};
use crate::Door;

/// A service as its files describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// `mariadb.service`.
    pub name: String,
    /// Its own file.
    pub file: String,
    /// The first program that it starts, with its arguments; what its own `Environment=` does not tell of variables is empty,
    /// as for systemd; files of variables are not read. None where its files start none, or could not be read.
    pub command: Vec<String>,
    /// `Environment`, by name.
    pub environment: BTreeMap<String, String>,
    /// `WorkingDirectory`.
    pub directory: Option<String>,
    /// `User`.
    pub user: Option<String>,
    /// The link to /dev/null in its place: nothing starts it.
    pub masked: Option<String>,
    /// Whether the boot starts it.
    pub at_boot: AtBoot,
}

/// Where the people of a host put their own units: all of them are looked at.
const THEIRS: [&str; 3] = ["/etc/systemd/system", "/etc/systemd/system.attached", "/usr/local/lib/systemd/system"];

/// Of all the services that packages bring, those that the boot starts and those with a likely name are looked at, and kept where
/// the command is of `ours`, or the name is likely. What runs is of no interest by its name alone.
pub fn read_services(
    door: &mut Door<'_>,
    is_likely: &dyn Fn(&str) -> bool,
    is_ours: &dyn Fn(&[String]) -> bool,
    runs: &dyn Fn(&str) -> bool,
) -> Vec<Service> {
    let listed: Vec<(&str, BTreeSet<String>)> = lasting()
        .map(|folder| (folder, door.source.list(folder).into_known().unwrap_or_default().into_iter().collect()))
        .collect();
    let wanted = read_wanted(door);
    let mut names: BTreeSet<String> = wanted.keys().filter(|name| is_whole(name)).cloned().collect();
    for (folder, there) in &listed {
        names.extend(
            there.iter().filter(|name| is_whole(name) && (THEIRS.contains(folder) || is_likely(name))).cloned(),
        );
    }
    names.retain(|name| is_likely(name) || !runs(name));
    let (names, aliases) = without_aliases(door, &listed, names);
    let looked = names.iter().filter_map(|name| {
        let (path, is_masked) = fragment(door, &listed, name)?;
        if is_masked {
            let at_boot = AtBoot::No(format!("{name} is masked ({path})"));
            return is_likely(name).then(|| Service { masked: Some(path.clone()), ..bare(name, path, at_boot) });
        }
        let changed = || listed.iter().any(|(_, there)| drop_ins(name).any(|folder| there.contains(&folder)));
        let first = || {
            let assignments = door.source.read(&path).into_known().map(|bytes| unit::parse(&bytes)).unwrap_or_default();
            command(name, assignments.iter())
        };
        // What is too long to be filled in is looked at as a whole, which says so.
        (is_likely(name) || changed() || first().map_or(true, |command| is_ours(&command.words)))
            .then(|| bare(name, path, AtBoot::Unknown(String::new())))
    });
    let looked: Vec<Service> = looked.collect();
    let mut services = Vec::new();
    for service in looked {
        let service = if service.masked.is_some() { service } else { whole(door, service, &aliases, &wanted) };
        if is_likely(&service.name) || is_ours(&service.command) {
            services.push(service);
        }
    }
    services
}

/// A service, and no template of services.
fn is_whole(name: &str) -> bool {
    name.ends_with(".service")
        && UnitName::parse(name)
            .is_some_and(|name| name.instance.as_deref().is_none_or(|instance| !instance.is_empty()))
}

fn bare(name: &str, file: String, at_boot: AtBoot) -> Service {
    Service {
        name: name.to_owned(),
        file,
        command: Vec::new(),
        environment: BTreeMap::new(),
        directory: None,
        user: None,
        masked: None,
        at_boot,
    }
}

/// The same names without those that are links to another service, and these links: file and alias.
fn without_aliases(
    door: &Door<'_>,
    listed: &[(&str, BTreeSet<String>)],
    names: BTreeSet<String>,
) -> (BTreeSet<String>, Vec<(String, String)>) {
    let (mut whole, mut aliases) = (BTreeSet::new(), Vec::new());
    for name in names {
        let at = listed.iter().find(|(_, there)| there.contains(&name));
        let link = at.and_then(|(folder, _)| door.source.link(&format!("{folder}/{name}")).into_known());
        let target =
            link.as_deref().and_then(|link| link.rsplit('/').next()).filter(|file| is_whole(file) && *file != name);
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

/// The file of a service, and whether it is masked.
fn fragment(door: &Door<'_>, listed: &[(&str, BTreeSet<String>)], name: &str) -> Option<(String, bool)> {
    let template = UnitName::parse(name)?.template();
    let files = std::iter::once(name.to_owned()).chain(template);
    let mut paths = files.flat_map(|file| {
        let folders = listed.iter().filter(|(_, there)| there.contains(&file)).map(|(folder, _)| *folder);
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

/// A service with all that its files say.
fn whole(
    door: &mut Door<'_>,
    service: Service,
    aliases: &[(String, String)],
    wanted: &BTreeMap<String, Vec<String>>,
) -> Service {
    let name = service.name.clone();
    let Some(Files { assignments, at_boot, .. }) = look_up(door, &name, aliases, wanted) else { return service };
    let at_boot = match at_boot {
        Wanted::By(link) => AtBoot::Yes(format!("{name} is enabled ({link})")),
        Wanted::ByNobody => AtBoot::No(format!("{name} is disabled")),
        Wanted::Unknown => AtBoot::Unknown(format!("nothing tells whether the boot starts {name}")),
    };
    let Observed::Known(assignments) = assignments else { return Service { at_boot, ..service } };
    let of_service = || assignments.iter().map(|(_, one)| one).filter(|one| one.section == "Service");
    let last = |key: &str| {
        let value = of_service().rfind(|one| one.key == key).and_then(|one| filled(&name, &one.value).ok());
        value.filter(|value| !value.is_empty())
    };
    let Command { words, environment } =
        command(&name, assignments.iter().map(|(_, one)| one)).unwrap_or_else(|too_long| {
            door.tell(format!("what {name} starts ({})", service.file), Reason::Malformed(too_long.to_string()));
            Command::default()
        });
    let directory = last("WorkingDirectory").map(|path| path.trim_start_matches('-').to_owned());
    Service { command: words, environment, directory, user: last("User"), at_boot, ..service }
}

/// What a service starts.
#[derive(Default)]
struct Command {
    words: Vec<String>,
    environment: BTreeMap<String, String>,
}

/// The first `ExecStart=` of these assignments, its variables filled in (systemd.service(5), "Command lines").
fn command<'a>(name: &str, assignments: impl Iterator<Item = &'a Assignment>) -> Result<Command, TooLong> {
    let (mut lines, mut environment) = (Vec::new(), BTreeMap::<String, String>::new());
    let mut room = Room::default();
    for one in assignments.filter(|one| one.section == "Service") {
        match one.key.as_str() {
            "ExecStart" if one.value.is_empty() => lines.clear(),
            "ExecStart" => lines.push(one.value.as_str()),
            "Environment" if one.value.is_empty() => environment.clear(),
            "Environment" => {
                for word in words(bounded(&one.value)?) {
                    let Some((key, value)) = word.split_once('=') else { continue };
                    let value = filled(name, value)?;
                    room.take(word.len().max(value.len()))?;
                    environment.insert(key.to_owned(), value);
                }
            }
            _ => {}
        }
    }
    let mut all = Vec::new();
    let mut room = Room::default();
    let first = lines.first().map_or(Ok(""), |line| bounded(line))?;
    for word in words(first) {
        match word.strip_prefix('$').filter(|rest| is_variable(rest)) {
            Some(variable) => {
                let values = environment.get(variable).map(|value| words(value)).unwrap_or_default();
                room.take_all(&values)?;
                all.extend(values);
            }
            None => {
                let text = with_variables(&filled(name, &word)?, &environment)?;
                room.take(text.len())?;
                all.push(text);
            }
        }
    }
    if let Some(first) = all.first_mut() {
        let renamed = first.starts_with(['@', '-', '+', '!', ':', '|'])
            && first.chars().take_while(|sign| "@-+!:|".contains(*sign)).any(|sign| sign == '@');
        *first = first.trim_start_matches(['@', '-', '+', '!', ':', '|']).to_owned();
        // The word behind it is what the program is told to be called.
        if renamed && all.len() > 1 {
            all.remove(1);
        }
    }
    Ok(Command { words: unwrapped(all), environment })
}

/// A word with `${NAME}` filled in. What a value holds is not looked at again.
fn with_variables(word: &str, environment: &BTreeMap<String, String>) -> Result<String, TooLong> {
    let (mut text, mut rest) = (Text::default(), word);
    while let Some((before, inside)) = rest.split_once("${") {
        let Some((variable, after)) = inside.split_once('}') else { break };
        text.push_str(before)?;
        text.push_str(environment.get(variable).map_or("", String::as_str))?;
        rest = after;
    }
    text.push_str(rest)?;
    Ok(text.into_text())
}

/// Programs that become the one that their arguments name.
pub(crate) const WRAPPERS: [&str; 8] = ["env", "numactl", "taskset", "nice", "ionice", "chrt", "prlimit", "setarch"];

/// The command line behind wrappers: the first word that is a whole path, or that stands behind their own options.
fn unwrapped(mut words: Vec<String>) -> Vec<String> {
    let file_name = |word: &String| word.rsplit('/').next().unwrap_or_default().to_owned();
    while words.first().is_some_and(|first| WRAPPERS.contains(&file_name(first).as_str())) {
        match words.iter().skip(1).position(|word| word.starts_with('/')) {
            Some(at) => words.drain(..=at),
            None => return words,
        };
    }
    words
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|sign| sign.is_ascii_alphanumeric() || sign == b'_')
}

/// Words with their quotes taken off (systemd.syntax(7), "Quoting").
fn words(line: &str) -> Vec<String> {
    let (mut all, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut signs = line.chars();
    while let Some(sign) = signs.next() {
        match (sign, quote) {
            ('\\', _) => word.get_or_insert_default().extend(signs.next()),
            (_, Some(open)) if sign == open => quote = None,
            (_, Some(_)) => word.get_or_insert_default().push(sign),
            ('"' | '\'', None) => {
                quote = Some(sign);
                word.get_or_insert_default();
            }
            (_, None) if sign.is_ascii_whitespace() => all.extend(word.take()),
            (_, None) => word.get_or_insert_default().push(sign),
        }
    }
    all.extend(word);
    all
}

/// A value with what stands for the service's own name filled in (systemd.unit(5), "Specifiers").
fn filled(name: &str, value: &str) -> Result<String, TooLong> {
    let stem = name.strip_suffix(".service").unwrap_or(name);
    let (prefix, instance) = stem.split_once('@').unwrap_or((stem, ""));
    let (mut text, mut signs) = (Text::default(), value.chars().peekable());
    while let Some(sign) = signs.next() {
        let meant = match (sign, signs.peek()) {
            ('%', Some('i' | 'I')) => instance,
            ('%', Some('p' | 'P')) => prefix,
            ('%', Some('n')) => name,
            ('%', Some('N')) => stem,
            ('%', Some('%')) => "%",
            _ => {
                text.push(sign)?;
                continue;
            }
        };
        text.push_str(meant)?;
        signs.next();
    }
    Ok(text.into_text())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::map::MapSource;

    fn read(source: &MapSource) -> Vec<Service> {
        let ours = |words: &[String]| words.first().is_some_and(|first| first.ends_with("/postgres"));
        read_services(&mut Door::new(source), &|name| name.starts_with("postgresql"), &ours, &|name| {
            name == "busy.service"
        })
    }

    /// As `systemctl show -p ExecStart` of systemd 252 lists the words of the same lines.
    #[test]
    fn a_command_is_what_systemd_would_start() {
        let words = |text: &str| {
            let assignments = unit::parse(text.as_bytes());
            command("pg@16.service", assignments.iter()).unwrap().words.join("|")
        };
        for (text, said) in [
            ("ExecStart=/bin/postgres -D /d", "/bin/postgres|-D|/d"),
            ("ExecStart=-!/bin/postgres \"-c a b\" 'x'", "/bin/postgres|-c a b|x"),
            ("ExecStart=@/bin/postgres pg -D /d", "/bin/postgres|-D|/d"),
            ("ExecStart=/bin/a\nExecStart=\nExecStart=/bin/postgres %i %p", "/bin/postgres|16|pg"),
            ("ExecStart=/bin/postgres %%i %n", "/bin/postgres|%i|pg@16.service"),
            (
                "Environment=PGDATA=/d/%i \"O=-c x=1 -B 2\"\nExecStart=/bin/postgres -D ${PGDATA} $O $N",
                "/bin/postgres|-D|/d/16|-c|x=1|-B|2",
            ),
            ("ExecStart=/usr/bin/numactl --interleave=all /usr/bin/env A=b /bin/postgres -D /d", "/bin/postgres|-D|/d"),
        ] {
            assert_eq!(words(&format!("[Service]\n{text}\n")), said, "{text}");
        }
    }

    #[test]
    fn those_of_the_hosts_people_and_those_that_the_boot_starts_are_looked_at() {
        let file =
            |program: &str| format!("[Service]\nUser=db\nExecStart={program} -D /d\n[Install]\nWantedBy=a.target\n");
        let source = MapSource::new()
            .folder("/run/systemd/generator")
            .file("/etc/systemd/system/own.service", file("/opt/bin/postgres"))
            .file("/etc/systemd/system/other.service", file("/opt/bin/other"))
            .file("/etc/systemd/system/busy.service", file("/opt/bin/postgres"))
            .file("/usr/lib/systemd/system/packed.service", file("/usr/bin/postgres"))
            .file("/usr/lib/systemd/system/silent.service", file("/usr/bin/postgres"))
            .file("/usr/lib/systemd/system/postgresql.service", file("/bin/true"))
            .file("/usr/lib/systemd/system/postgresql@.service", file("/bin/ctl"))
            .link("/etc/systemd/system/a.target.wants/packed.service", "/usr/lib/systemd/system/packed.service")
            .link("/etc/systemd/system/alias.service", "/usr/lib/systemd/system/packed.service")
            .link("/etc/systemd/system/postgresql@15-b.service", "/dev/null");
        let all = read(&source);
        let names: Vec<&str> = all.iter().map(|service| service.name.as_str()).collect();
        assert_eq!(names, ["own.service", "packed.service", "postgresql.service", "postgresql@15-b.service"]);
        let told: Vec<&str> = all.iter().map(|service| service.at_boot.as_str()).collect();
        assert_eq!(told, ["no", "yes", "no", "no"]);
        assert_eq!(all[3].masked.as_deref(), Some("/etc/systemd/system/postgresql@15-b.service"));
        assert_eq!((all[0].user.as_deref(), all[0].command.len()), (Some("db"), 3));
    }

    #[test]
    fn a_drop_in_gives_another_command() {
        let source = MapSource::new()
            .file("/etc/systemd/system/x.service", "[Service]\nExecStart=/opt/start\n")
            .file("/etc/systemd/system/x.service.d/a.conf", "[Service]\nExecStart=\nExecStart=/opt/postgres $A\n");
        let all = read(&source);
        assert_eq!(all[0].command, ["/opt/postgres"]);
        assert_eq!(all[0].at_boot.as_str(), "unknown");
    }

    /// A file of some KB that stands for 100 MB of words, for 50 GB of text, and for 1.4 GB by its own name.
    #[test]
    fn what_a_few_words_stand_for_is_bounded_and_said() {
        let large = format!("Environment=A='{}'\n", "x ".repeat(10_000));
        let long = "a".repeat(200);
        for (name, text) in [
            ("postgresql.service", format!("{large}ExecStart=/bin/postgres {}\n", "$A ".repeat(5000))),
            ("postgresql.service", format!("{large}ExecStart=/bin/postgres {}\n", "${A}".repeat(50_000))),
            (&format!("postgresql@{long}.service"), format!("ExecStart=/bin/postgres {}\n", "%i".repeat(100_000))),
            (&format!("postgresql@{long}.service"), format!("Environment=A={}\n", "%i".repeat(100_000))),
            ("postgresql.service", format!("Environment={}\nExecStart=/bin/postgres\n", "A=b ".repeat(20_000))),
            ("own.service", format!("ExecStart=/bin/postgres {}\n", "x ".repeat(20_000))),
        ] {
            let source = MapSource::new().file(&format!("/etc/systemd/system/{name}"), format!("[Service]\n{text}"));
            let mut door = Door::new(&source);
            let all = read_services(&mut door, &|name| name.starts_with("postgresql"), &|_| false, &|_| false);
            assert!(all.iter().all(|service| service.command.is_empty() && service.environment.is_empty()), "{name}");
            let said: Vec<String> = door.unread.iter().map(ToString::to_string).collect();
            assert_eq!(said.len(), 1, "{said:?}");
            assert!(said[0].contains(&format!("what {name} starts")) && said[0].contains("16384 words"), "{said:?}");
        }
        // What a server has at most: a class path that fills an argument.
        let path = "/usr/share/java/x.jar:".repeat(5900);
        let text = format!("[Service]\nEnvironment=CP={path}\nExecStart=/bin/postgres -cp ${{CP}} $CP\n");
        let words = command("own.service", unit::parse(text.as_bytes()).iter()).unwrap().words;
        assert_eq!(words, ["/bin/postgres", "-cp", &path, &path]);
    }
}
