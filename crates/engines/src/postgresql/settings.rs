//! The settings of a PostgreSQL server: its files with their includes, and its command line.

use std::collections::BTreeMap;

use hugewise_host::Door;
use hugewise_host::capture::shape::NO_VALUE;
use hugewise_model::configuration::Place;
use hugewise_model::instance::Setting;
use hugewise_model::{Host, Observed, Process, Reason};

use super::conf::{self, Content};
use super::known::{self, Judged};
use super::values;
use crate::faults::{Fault, Verdict};
use crate::options;
use crate::settings::{Settings, shown};

/// Files in files in files: the server's own limit.
const DEEPEST: usize = 10;
/// A folder of includes that includes itself many times over would otherwise keep us for ages.
const MOST_FILES: usize = 500;

/// What files and command line say.
pub(super) struct Said {
    /// The settings that are read here.
    pub(super) settings: Settings,
    /// Files that a server would not start with, or that may not be read.
    pub(super) faults: Vec<Fault>,
    /// Whatever the files set, by name in lower case, as it stands there: the last of a name counts.
    raw: BTreeMap<String, (String, Place)>,
    /// What the command line sets beside them.
    given: Vec<(String, String)>,
}

/// Reads the settings of the server whose main process is `main`: `config_file` and what it
/// includes, postgresql.auto.conf in `data_directory`, and the command line, which wins. Where a
/// path is not known, neither is what the file says.
pub(super) fn read(
    host: &Host,
    door: &mut Door<'_>,
    main: &Process,
    config_file: &Observed<String>,
    data_directory: &Observed<String>,
) -> Said {
    let settings = Settings::of(&super::KIND);
    let mut reader = Reader { host, door, main, settings, files: 0, faults: Vec::new(), raw: BTreeMap::new() };
    match config_file {
        Observed::Known(path) if reader.file(path, &mut Vec::new()) => {}
        Observed::Known(path) => {
            let place = Place { file: path.clone(), line: 0 };
            reader.lack(path, &place, "the server's configuration is not there");
        }
        unknown => reader.settings.miss(unknown.as_ref().map(|_| ())),
    }
    match data_directory {
        Observed::Known(path) => {
            reader.file(&format!("{path}/postgresql.auto.conf"), &mut Vec::new());
        }
        unknown => reader.settings.miss(unknown.as_ref().map(|_| ())),
    }
    let Reader { mut settings, faults, raw, .. } = reader;
    let given = main.command.known().map_or_else(Vec::new, |arguments| command_line(arguments));
    let place = Place::command_line(main.pid);
    for (name, value) in &given {
        settings.set(name, value, place.clone());
    }
    Said { settings, faults, raw, given }
}

/// Backends of all kinds that a server has room for (`MAX_BACKENDS`).
const MOST_BACKENDS: i128 = 262_143;

impl Said {
    /// What a server of a release makes of all that its files set, in the order of the files; `is_plain` tells one of
    /// PostgreSQL's own from what is built of it.
    pub(super) fn judged(&self, major: Option<u32>, is_plain: bool) -> Vec<Fault> {
        let mut faults = self.faults.clone();
        for (name, (value, place)) in &self.raw {
            let setting =
                || Setting { name: name.clone(), value: shown(name, value).to_owned(), place: Some(place.clone()) };
            match known::judge(name, value, major, is_plain) {
                Judged::Fine => {}
                Judged::NoValue => faults.push(Fault::refused(&setting(), place.clone())),
                Judged::NoSetting => faults.push(Fault {
                    place: place.clone(),
                    what: "a setting that PostgreSQL does not know".into(),
                    verdict: Verdict::Refuses,
                }),
                // The name may be anything.
                Judged::Unclear if !super::KIND.settings.contains(&name.as_str()) => {
                    let setting =
                        Setting { name: "a setting".into(), value: NO_VALUE.into(), place: Some(place.clone()) };
                    faults.push(Fault::unclear(setting, place.clone()));
                }
                Judged::Unclear => faults.push(Fault::unclear(setting(), place.clone())),
            }
        }
        faults.extend(self.contradiction());
        faults.sort_by_key(|fault| fault.place.line);
        faults
    }

    /// What the server finds wrong where each setting by itself is right (10 and later).
    fn contradiction(&self) -> Option<Fault> {
        let text = |name: &str| {
            let given = self.given.iter().rev().find(|(given, _)| given == name).map(|(_, value)| value.as_str());
            given.or_else(|| self.raw.get(name).map(|(value, _)| value.as_str()))
        };
        let number = |name: &str, default: i128| text(name).map_or(Some(default), values::integer);
        let at = |name: &str| self.raw.get(name).map(|(_, place)| place.clone());
        let refused = |name: &str, what: &str| {
            let place = at(name)?;
            Some(Fault { place, what: format!("{name}: {what}"), verdict: Verdict::Refuses })
        };
        let connections = number("max_connections", 100)?;
        let all = [
            number("autovacuum_max_workers", 3)?,
            number("max_worker_processes", 8)?,
            number("max_wal_senders", 10)?,
            1,
        ];
        if connections.saturating_add(all.iter().sum()) > MOST_BACKENDS {
            return refused("max_connections", "too many backends in all");
        }
        let reserved = number("superuser_reserved_connections", 3)?.saturating_add(number("reserved_connections", 0)?);
        if reserved >= connections {
            let what = "no more than are reserved for superusers";
            return refused("max_connections", what).or_else(|| refused("superuser_reserved_connections", what));
        }
        let minimal = text("wal_level").is_some_and(|level| level.eq_ignore_ascii_case("minimal"));
        let archives = text("archive_mode").is_some_and(|mode| !["off", "false", "no", "0"].contains(&mode));
        (minimal && (archives || number("max_wal_senders", 10)? > 0))
            .then(|| refused("wal_level", "minimal, with archive_mode on or max_wal_senders above 0"))
            .flatten()
    }
}

/// Settings that a command line makes, in their order: `-c name=value`, `--name=value`, and the
/// letters that stand for one.
pub(super) fn command_line(arguments: &[String]) -> Vec<(String, String)> {
    const LETTERS: [(char, &str); 4] =
        [('B', "shared_buffers"), ('N', "max_connections"), ('p', "port"), ('k', "unix_socket_directories")];
    let assigned = |text: &str| {
        let (name, value) = text.split_once('=')?;
        Some((name.trim().to_ascii_lowercase().replace('-', "_"), value.to_owned()))
    };
    let mut settings = Vec::new();
    let mut rest = arguments.iter().skip(1);
    while let Some(argument) = rest.next() {
        if let Some(long) = argument.strip_prefix("--") {
            settings.extend(assigned(long));
            continue;
        }
        let mut letters = argument.strip_prefix('-').unwrap_or_default().chars();
        let Some(letter) = letters.next() else { continue };
        if !TAKES_VALUE.contains(&letter) {
            continue;
        }
        let value = match letters.as_str() {
            "" => rest.next().map_or("", String::as_str),
            glued => glued,
        };
        match LETTERS.iter().find(|(known, _)| *known == letter) {
            Some((_, name)) => settings.push(((*name).to_owned(), value.to_owned())),
            None if letter == 'c' => settings.extend(assigned(value)),
            None => {}
        }
    }
    settings
}

/// Letters of `postgres` that take a value (PostgreSQL 9.6 to 18).
const TAKES_VALUE: [char; 12] = ['B', 'c', 'C', 'D', 'd', 'f', 'h', 'k', 'N', 'p', 'S', 't'];

struct Reader<'a, 'd> {
    host: &'a Host,
    door: &'a mut Door<'d>,
    main: &'a Process,
    settings: Settings,
    files: usize,
    faults: Vec<Fault>,
    raw: BTreeMap<String, (String, Place)>,
}

impl Reader<'_, '_> {
    /// Reads a file, as the server names it, and what it includes; false where it is not there.
    /// `above` are the files that include it.
    fn file(&mut self, path: &str, above: &mut Vec<String>) -> bool {
        self.files += 1;
        let real = options::as_reader_opens(self.host, self.main, path);
        let mut line = 0;
        let parse = |bytes: &[u8]| conf::parse(bytes).inspect_err(|error| line = error.line);
        let lines = match self.door.parse(&real, parse) {
            Observed::Known(lines) => lines,
            Observed::Absent => return false,
            other => {
                let what = other.reason().unwrap_or_default();
                let what = what.strip_prefix("malformed: ").unwrap_or(&what);
                let what = what.strip_prefix(&format!("line {line}: ")).unwrap_or(what).to_owned();
                let verdict = if line > 0 { Verdict::Refuses } else { Verdict::Unclear(None) };
                self.fault(Place { file: path.to_owned(), line }, what, verdict);
                self.settings.miss(other.map(|_| ()));
                return true;
            }
        };
        above.push(path.to_owned());
        for line in lines {
            let place = Place { file: path.to_owned(), line: line.number };
            match line.content {
                Content::Set { name, value } => {
                    self.settings.set(&name, &value, place.clone());
                    self.raw.insert(name, (value, place));
                }
                Content::Include(file) => self.include(&beside(path, &file), &place, above, true),
                Content::IncludeIfExists(file) => self.include(&beside(path, &file), &place, above, false),
                Content::IncludeFolder(folder) => self.folder(&beside(path, &folder), &place, above),
            }
        }
        above.pop();
        true
    }

    fn include(&mut self, path: &str, from: &Place, above: &mut Vec<String>, required: bool) {
        if above.iter().any(|file| file == path) {
            self.lack(path, from, "in a circle");
        } else if above.len() > DEEPEST || self.files >= MOST_FILES {
            self.lack(path, from, "too deep");
        } else if !self.file(path, above) && required {
            self.lack(path, from, "and it is not there");
        }
    }

    fn folder(&mut self, folder: &str, from: &Place, above: &mut Vec<String>) {
        let real = options::as_reader_opens(self.host, self.main, folder);
        match self.door.list(&real) {
            Observed::Known(names) => {
                for name in names.iter().filter(|name| name.ends_with(".conf") && !name.starts_with('.')) {
                    self.include(&format!("{}/{name}", folder.trim_end_matches('/')), from, above, false);
                }
            }
            Observed::Absent => self.lack(folder, from, "and it is not there"),
            other => {
                let what = format!("it includes {folder}: {}", other.reason().unwrap_or_default());
                self.fault(from.clone(), what, Verdict::Unclear(None));
                self.settings.miss(other.map(|_| ()));
            }
        }
    }

    /// The first ones do: a file can be made to have any number.
    fn fault(&mut self, place: Place, what: String, verdict: Verdict) {
        if self.faults.len() < MOST_FILES {
            self.faults.push(Fault { place, what, verdict });
        }
    }

    /// Settings are missing that the server has read; `from` is what names their file.
    fn lack(&mut self, path: &str, from: &Place, why: &str) {
        let (what, why) = match from.line {
            0 => (why.to_owned(), why.to_owned()),
            _ => (format!("includes {path} {why}"), format!("{from} includes it {why}")),
        };
        // A captured host may lack what its server has.
        let there = self.host.live && from.line > 0 && self.files < MOST_FILES;
        let verdict = if there { Verdict::Refuses } else { Verdict::Unclear(None) };
        self.fault(from.clone(), what, verdict);
        let what = options::as_reader_opens(self.host, self.main, path);
        self.door.tell(what, Reason::untold(why.clone()));
        self.settings.miss(Observed::Malformed(why));
    }
}

/// A path in a file, relative to the file's folder.
fn beside(file: &str, path: &str) -> String {
    if path.starts_with('/') {
        return path.to_owned();
    }
    let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
    format!("{folder}/{}", path.trim_start_matches("./"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hugewise_host::source::MapSource;
    use hugewise_model::Unread;
    use proptest::prelude::*;

    fn read_from(source: &MapSource, command: &str) -> (Settings, Vec<Unread>) {
        let host = Host::default();
        let command = command.split(' ').map(str::to_owned).collect();
        let main = Process { pid: 7, command: Observed::Known(command), ..Process::default() };
        let mut door = Door::new(source);
        let known = |path: &str| Observed::Known(path.to_owned());
        let settings = read(&host, &mut door, &main, &known("/etc/pg/postgresql.conf"), &known("/data")).settings;
        (settings, door.unread)
    }

    fn shown(settings: &Settings, name: &str) -> String {
        settings.get(name).known().map(ToString::to_string).unwrap_or_default()
    }

    #[test]
    fn the_last_one_wins_and_the_command_line_over_all() {
        let source = MapSource::new()
            .file(
                "/etc/pg/postgresql.conf",
                "huge_pages = off\ninclude_dir 'conf.d'\nport = 5432\nprimary_conninfo = 'x'\n",
            )
            .file("/etc/pg/conf.d/20-b.conf", "Huge_Pages = on\n")
            .file("/etc/pg/conf.d/10-a.conf", "huge_pages = try\ninclude_if_exists 'none.conf'\n")
            .file("/etc/pg/conf.d/notes.txt", "huge_pages = nonsense\n")
            .file("/etc/pg/conf.d/.hidden.conf", "huge_pages = nonsense\n")
            .file("/data/postgresql.auto.conf", "\nmax_connections = '300'\n");
        let (settings, unread) = read_from(&source, "postgres -D /data");
        assert_eq!(shown(&settings, "huge_pages"), "huge_pages=on (/etc/pg/conf.d/20-b.conf:1)");
        assert_eq!(shown(&settings, "max_connections"), "max_connections=300 (/data/postgresql.auto.conf:2)");
        assert_eq!(settings.get("primary_conninfo"), Observed::Absent);
        assert_eq!(unread, []);

        let (settings, _) = read_from(&source, "postgres -N 7 -p5433 -chuge-pages=try --shared-buffers=6GB -k /run/pg");
        assert_eq!(shown(&settings, "huge_pages"), "huge_pages=try (/proc/7/cmdline)");
        assert_eq!(shown(&settings, "max_connections"), "max_connections=7 (/proc/7/cmdline)");
        assert_eq!(settings.value_or("port", "5432"), Observed::Known("5433".into()));
        assert_eq!(settings.value_or("shared_buffers", "128MB"), Observed::Known("6GB".into()));
        assert_eq!(settings.value_or("unix_socket_directories", "/tmp"), Observed::Known("/run/pg".into()));
    }

    #[test]
    fn a_circle_is_named_and_leaves_the_settings_unknown() {
        let source = MapSource::new()
            .file("/etc/pg/postgresql.conf", "huge_pages = on\ninclude 'a.conf'\n")
            .file("/etc/pg/a.conf", "\ninclude 'postgresql.conf'\n");
        let (settings, unread) = read_from(&source, "postgres");
        assert!(settings.get("huge_pages").reason().is_some());
        assert_eq!(
            settings.get("port").reason().as_deref(),
            Some("malformed: /etc/pg/a.conf:2 includes it in a circle")
        );
        assert_eq!(unread[0].what, "/etc/pg/postgresql.conf");
        let (settings, _) = read_from(&source, "postgres -c huge_pages=off");
        assert_eq!(shown(&settings, "huge_pages"), "huge_pages=off (/proc/7/cmdline)");
    }

    #[test]
    fn a_folder_that_includes_itself_ends() {
        let source = MapSource::new()
            .file("/etc/pg/postgresql.conf", "include_dir '.'\n")
            .file("/etc/pg/a.conf", "include_dir './././'\n")
            .file("/etc/pg/b.conf", "include_dir '../pg'\n");
        let (_, unread) = read_from(&source, "postgres");
        assert!(!unread.is_empty());
    }

    #[test]
    fn what_may_not_be_read_is_unknown_and_not_the_default() {
        let source = MapSource::new().denied("/etc/pg/postgresql.conf");
        let (settings, unread) = read_from(&source, "postgres -N 20");
        assert_eq!(settings.value_or("huge_pages", "try"), Observed::Denied);
        assert_eq!(settings.value_or("max_connections", "100"), Observed::Known("20".into()));
        assert_eq!(unread.len(), 1);
        let (settings, unread) = read_from(&MapSource::new(), "postgres");
        assert!(settings.value_or("huge_pages", "try").reason().is_some());
        assert_eq!(unread.len(), 1);
        let (settings, _) = read_from(&MapSource::new().file("/etc/pg/postgresql.conf", ""), "postgres");
        assert_eq!(settings.value_or("huge_pages", "try"), Observed::Known("try".into()));
    }

    proptest! {
        #[test]
        fn what_follows_c_and_two_dashes_is_set(names in proptest::collection::vec("[a-z]{1,8}_[a-z]{1,8}", 1..6), value in "[a-z0-9]{1,9}") {
            let words = std::iter::once(vec!["postgres".to_owned()]).chain(names.iter().enumerate().map(|(at, name)| match at % 3 {
                0 => vec!["-c".to_owned(), format!("{name}={value}")],
                1 => vec![format!("-c{name}={value}")],
                _ => vec![format!("--{}={value}", name.replace('_', "-"))],
            }));
            let read = command_line(&words.flatten().collect::<Vec<_>>());
            let expected: Vec<_> = names.into_iter().map(|name| (name, value.clone())).collect();
            prop_assert_eq!(read, expected);
        }
    }
}
