//! The settings of a PostgreSQL server: its files with their includes, and its command line.

use std::collections::BTreeMap;

use hugewise_host::FactReader;
use hugewise_host::capture::shape::NO_VALUE;
use hugewise_model::configuration::FileLocation;
use hugewise_model::{Host, Observed, Process, Reason};

use super::conf::{self, PostgresqlConfContent};
use super::known_settings::{self, SettingVerdict};
use super::values;
use crate::shared::faults::{Fault, FaultVerdict};
use crate::shared::options;
use crate::shared::settings::{ServerSettings, new_setting, redact_value};

/// The server's own limit of nested files.
const DEEPEST: usize = 10;
/// A folder of includes may include itself many times over.
const MOST_FILES: usize = 500;

pub(super) struct PostgresqlSettings {
    pub(super) settings: ServerSettings,
    /// Files that a server would not start with, or that may not be read.
    pub(super) faults: Vec<Fault>,
    /// Whatever the files set, by name in lower case; the last of a name counts.
    raw: BTreeMap<String, (String, FileLocation)>,
    given: Vec<(String, String)>,
}

/// Reads `config_file` and what it includes, postgresql.auto.conf in `data_directory`, and the
/// command line of `main`, which wins. Settings of unknown files are unknown.
pub(super) fn read(
    host: &Host,
    facts: &mut FactReader<'_>,
    main: &Process,
    config_file: &Observed<String>,
    data_directory: &Observed<String>,
) -> PostgresqlSettings {
    let settings = ServerSettings::new(&super::KIND);
    let mut reader = PostgresqlConfReader {
        host,
        facts,
        main,
        settings,
        files: 0,
        faults: Vec::new(),
        raw: BTreeMap::new(),
    };
    match config_file {
        Observed::Known(path) if reader.read_file(path, &mut Vec::new()) => {}
        Observed::Known(path) => {
            let place = FileLocation { file: path.clone(), line: 0 };
            reader.report_missing(path, &place, "the server's configuration is not there");
        }
        unknown => reader.settings.mark_incomplete(unknown.as_ref().map(|_| ())),
    }
    match data_directory {
        Observed::Known(path) => {
            reader.read_file(&format!("{path}/postgresql.auto.conf"), &mut Vec::new());
        }
        unknown => reader.settings.mark_incomplete(unknown.as_ref().map(|_| ())),
    }
    let PostgresqlConfReader { mut settings, faults, raw, .. } = reader;
    let given = main.command.as_known().map_or_else(Vec::new, |arguments| command_line(arguments));
    let place = FileLocation::command_line(main.pid);
    for (name, value) in &given {
        settings.set(name, value, place.clone());
    }
    PostgresqlSettings { settings, faults, raw, given }
}

const MOST_BACKENDS: i128 = 262_143;

impl PostgresqlSettings {
    /// What a release makes of all that its files set. A server that is not `is_plain` is built of
    /// PostgreSQL.
    pub(super) fn judge_settings(&self, major: Option<u32>, is_plain: bool) -> Vec<Fault> {
        let mut faults = self.faults.clone();
        for (name, (value, place)) in &self.raw {
            let setting = |name: &str, value: &str| new_setting(name, value, Some(place.clone()));
            let known = || setting(name, redact_value(name, value));
            let is_read = super::KIND.capture.settings.contains(&name.as_str());
            match known_settings::judge_setting(name, value, major, is_plain) {
                SettingVerdict::Fine => {}
                SettingVerdict::NoValue => {
                    faults.push(Fault::refused_setting(&known(), place.clone()))
                }
                SettingVerdict::NoSetting => faults.push(Fault {
                    place: place.clone(),
                    what: "a setting that PostgreSQL does not know".into(),
                    verdict: FaultVerdict::Refuses,
                }),
                SettingVerdict::Unclear => {
                    // An unknown name may be anything.
                    let setting = if is_read { known() } else { setting("a setting", NO_VALUE) };
                    faults.push(Fault::unclear_setting(setting, place.clone()));
                }
            }
        }
        faults.extend(self.find_contradiction());
        faults.sort_by_key(|fault| fault.place.line);
        faults
    }

    /// What the server refuses although each setting by itself is right (10 and later).
    fn find_contradiction(&self) -> Option<Fault> {
        let text = |name: &str| {
            let given = self.given.iter().rev().find(|(given, _)| given == name);
            let value = given.map(|(_, value)| value).or_else(|| Some(&self.raw.get(name)?.0));
            value.map(String::as_str)
        };
        let number =
            |name: &str, default: i128| text(name).map_or(Some(default), values::parse_integer);
        let at = |name: &str| self.raw.get(name).map(|(_, place)| place.clone());
        let refused = |name: &str, what: &str| {
            let place = at(name)?;
            Some(Fault { place, what: format!("{name}: {what}"), verdict: FaultVerdict::Refuses })
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
        let reserved = number("superuser_reserved_connections", 3)?
            .saturating_add(number("reserved_connections", 0)?);
        if reserved >= connections {
            let what = "no more than are reserved for superusers";
            return refused("max_connections", what)
                .or_else(|| refused("superuser_reserved_connections", what));
        }
        let minimal = text("wal_level").is_some_and(|level| level.eq_ignore_ascii_case("minimal"));
        let archives =
            text("archive_mode").is_some_and(|mode| !["off", "false", "no", "0"].contains(&mode));
        (minimal && (archives || number("max_wal_senders", 10)? > 0))
            .then(|| {
                refused("wal_level", "minimal, with archive_mode on or max_wal_senders above 0")
            })
            .flatten()
    }
}

/// Settings of a command line in order: `-c name=value`, `--name=value`, one-letter options.
pub(super) fn command_line(arguments: &[String]) -> Vec<(String, String)> {
    const LETTERS: [(char, &str); 4] = [
        ('B', "shared_buffers"),
        ('N', "max_connections"),
        ('p', "port"),
        ('k', "unix_socket_directories"),
    ];
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

struct PostgresqlConfReader<'a, 'd> {
    host: &'a Host,
    facts: &'a mut FactReader<'d>,
    main: &'a Process,
    settings: ServerSettings,
    files: usize,
    faults: Vec<Fault>,
    raw: BTreeMap<String, (String, FileLocation)>,
}

impl PostgresqlConfReader<'_, '_> {
    /// Reads a file, as the server names it, and what it includes; false where it does not exist.
    /// `above` are the files that include it.
    fn read_file(&mut self, path: &str, above: &mut Vec<String>) -> bool {
        self.files += 1;
        let real = options::as_reader_opens(self.host, self.main, path);
        let mut error = None;
        let parse = |bytes: &[u8]| conf::parse(bytes).inspect_err(|why| error = Some(*why));
        let lines = match self.facts.parse(&real, parse) {
            Observed::Known(lines) => lines,
            Observed::Absent => return false,
            other => {
                let line = error.map_or(0, |error| error.line);
                let what = match (&other, error) {
                    (_, Some(error)) => error.message(),
                    (Observed::Malformed(why), None) => why.clone(),
                    _ => other.reason_text().unwrap_or_default(),
                };
                let verdict =
                    if line > 0 { FaultVerdict::Refuses } else { FaultVerdict::Unclear(None) };
                self.add_fault(FileLocation { file: path.to_owned(), line }, what, verdict);
                self.settings.mark_incomplete(other.map(|_| ()));
                return true;
            }
        };
        above.push(path.to_owned());
        for line in lines {
            let place = FileLocation { file: path.to_owned(), line: line.number };
            match line.content {
                PostgresqlConfContent::Set { name, value } => {
                    self.settings.set(&name, &value, place.clone());
                    self.raw.insert(name, (value, place));
                }
                PostgresqlConfContent::Include(file) => {
                    self.read_include(&resolve_relative_path(path, &file), &place, above, true)
                }
                PostgresqlConfContent::IncludeIfExists(file) => {
                    self.read_include(&resolve_relative_path(path, &file), &place, above, false)
                }
                PostgresqlConfContent::IncludeFolder(folder) => {
                    self.read_folder(&resolve_relative_path(path, &folder), &place, above)
                }
            }
        }
        above.pop();
        true
    }

    fn read_include(
        &mut self,
        path: &str,
        from: &FileLocation,
        above: &mut Vec<String>,
        required: bool,
    ) {
        if above.iter().any(|file| file == path) {
            self.report_missing(path, from, "in a circle");
        } else if above.len() > DEEPEST || self.files >= MOST_FILES {
            self.report_missing(path, from, "too deep");
        } else if !self.read_file(path, above) && required {
            self.report_missing(path, from, "and it is not there");
        }
    }

    fn read_folder(&mut self, folder: &str, from: &FileLocation, above: &mut Vec<String>) {
        let real = options::as_reader_opens(self.host, self.main, folder);
        match self.facts.list_folder(&real) {
            Observed::Known(names) => {
                let is_conf = |name: &&String| name.ends_with(".conf") && !name.starts_with('.');
                for name in names.iter().filter(is_conf) {
                    let path = format!("{}/{name}", folder.trim_end_matches('/'));
                    self.read_include(&path, from, above, false);
                }
            }
            Observed::Absent => self.report_missing(folder, from, "and it is not there"),
            other => {
                let what =
                    format!("it includes {folder}: {}", other.reason_text().unwrap_or_default());
                self.add_fault(from.clone(), what, FaultVerdict::Unclear(None));
                self.settings.mark_incomplete(other.map(|_| ()));
            }
        }
    }

    /// Keeps the first faults: a file can be made to have any number.
    fn add_fault(&mut self, place: FileLocation, what: String, verdict: FaultVerdict) {
        if self.faults.len() < MOST_FILES {
            self.faults.push(Fault { place, what, verdict });
        }
    }

    /// Notes settings that the server has and we have not; `from` names their file.
    fn report_missing(&mut self, path: &str, from: &FileLocation, why: &str) {
        let (what, why) = match from.line {
            0 => (why.to_owned(), why.to_owned()),
            _ => (format!("includes {path} {why}"), format!("{from} includes it {why}")),
        };
        // A captured host may lack what its server has.
        let there = self.host.live && from.line > 0 && self.files < MOST_FILES;
        let verdict = if there { FaultVerdict::Refuses } else { FaultVerdict::Unclear(None) };
        self.add_fault(from.clone(), what, verdict);
        let what = options::as_reader_opens(self.host, self.main, path);
        self.facts.report_unread(what, Reason::from_text(why.clone()));
        self.settings.mark_incomplete(Observed::Malformed(why));
    }
}

fn resolve_relative_path(file: &str, path: &str) -> String {
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

    fn read_from(source: &MapSource, command: &str) -> (ServerSettings, Vec<Unread>) {
        let host = Host::default();
        let command = command.split(' ').map(str::to_owned).collect();
        let main = Process { pid: 7, command: Observed::Known(command), ..Process::default() };
        let mut facts = FactReader::new(source);
        let known = |path: &str| Observed::Known(path.to_owned());
        let settings =
            read(&host, &mut facts, &main, &known("/etc/pg/postgresql.conf"), &known("/data"))
                .settings;
        (settings, facts.unread)
    }

    fn shown(settings: &ServerSettings, name: &str) -> String {
        settings.get(name).as_known().map(ToString::to_string).unwrap_or_default()
    }

    #[test]
    fn the_last_one_wins_and_the_command_line_over_all() {
        let source = MapSource::new()
            .with_file(
                "/etc/pg/postgresql.conf",
                "huge_pages = off\ninclude_dir 'conf.d'\nport = 5432\nprimary_conninfo = 'x'\n",
            )
            .with_file("/etc/pg/conf.d/20-b.conf", "Huge_Pages = on\n")
            .with_file(
                "/etc/pg/conf.d/10-a.conf",
                "huge_pages = try\ninclude_if_exists 'none.conf'\n",
            )
            .with_file("/etc/pg/conf.d/notes.txt", "huge_pages = nonsense\n")
            .with_file("/etc/pg/conf.d/.hidden.conf", "huge_pages = nonsense\n")
            .with_file("/data/postgresql.auto.conf", "\nmax_connections = '300'\n");
        let (settings, unread) = read_from(&source, "postgres -D /data");
        assert_eq!(shown(&settings, "huge_pages"), "huge_pages=on (/etc/pg/conf.d/20-b.conf:1)");
        assert_eq!(
            shown(&settings, "max_connections"),
            "max_connections=300 (/data/postgresql.auto.conf:2)"
        );
        assert_eq!(settings.get("primary_conninfo"), Observed::Absent);
        assert_eq!(unread, []);

        let (settings, _) = read_from(
            &source,
            "postgres -N 7 -p5433 -chuge-pages=try --shared-buffers=6GB -k /run/pg",
        );
        assert_eq!(shown(&settings, "huge_pages"), "huge_pages=try (/proc/7/cmdline)");
        assert_eq!(shown(&settings, "max_connections"), "max_connections=7 (/proc/7/cmdline)");
        assert_eq!(settings.value_or("port", "5432"), Observed::Known("5433".into()));
        assert_eq!(settings.value_or("shared_buffers", "128MB"), Observed::Known("6GB".into()));
        assert_eq!(
            settings.value_or("unix_socket_directories", "/tmp"),
            Observed::Known("/run/pg".into())
        );
    }

    #[test]
    fn a_circle_is_named_and_leaves_the_settings_unknown() {
        let source = MapSource::new()
            .with_file("/etc/pg/postgresql.conf", "huge_pages = on\ninclude 'a.conf'\n")
            .with_file("/etc/pg/a.conf", "\ninclude 'postgresql.conf'\n");
        let (settings, unread) = read_from(&source, "postgres");
        assert!(settings.get("huge_pages").reason_text().is_some());
        assert_eq!(
            settings.get("port").reason_text().as_deref(),
            Some("malformed: /etc/pg/a.conf:2 includes it in a circle")
        );
        assert_eq!(unread[0].what, "/etc/pg/postgresql.conf");
        let (settings, _) = read_from(&source, "postgres -c huge_pages=off");
        assert_eq!(shown(&settings, "huge_pages"), "huge_pages=off (/proc/7/cmdline)");
    }

    #[test]
    fn a_folder_that_includes_itself_ends() {
        let source = MapSource::new()
            .with_file("/etc/pg/postgresql.conf", "include_dir '.'\n")
            .with_file("/etc/pg/a.conf", "include_dir './././'\n")
            .with_file("/etc/pg/b.conf", "include_dir '../pg'\n");
        let (_, unread) = read_from(&source, "postgres");
        assert!(!unread.is_empty());
    }

    #[test]
    fn what_may_not_be_read_is_unknown_and_not_the_default() {
        let source = MapSource::new().with_denied("/etc/pg/postgresql.conf");
        let (settings, unread) = read_from(&source, "postgres -N 20");
        assert_eq!(settings.value_or("huge_pages", "try"), Observed::Denied);
        assert_eq!(settings.value_or("max_connections", "100"), Observed::Known("20".into()));
        assert_eq!(unread.len(), 1);
        let (settings, unread) = read_from(&MapSource::new(), "postgres");
        assert!(settings.value_or("huge_pages", "try").reason_text().is_some());
        assert_eq!(unread.len(), 1);
        let (settings, _) =
            read_from(&MapSource::new().with_file("/etc/pg/postgresql.conf", ""), "postgres");
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
