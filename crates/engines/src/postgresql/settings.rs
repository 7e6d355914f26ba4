//! The settings of a PostgreSQL server: its files with their includes, and its command line.

use hugewise_host::Door;
use hugewise_model::configuration::Place;
use hugewise_model::{Host, Observed, Process, Reason};

use super::conf::{self, Content};
use crate::options;
use crate::settings::Settings;

/// Files in files in files: the server's own limit.
const DEEPEST: usize = 10;
/// A folder of includes that includes itself many times over would otherwise keep us for ages.
const MOST_FILES: usize = 500;

/// A file that a server would not start with, or that may not be read.
#[derive(Debug)]
pub(super) struct Fault {
    /// Where; the line is 0 where the file as a whole is meant.
    pub(super) place: Place,
    /// What is wrong there.
    pub(super) what: String,
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
) -> (Settings, Vec<Fault>) {
    let mut reader = Reader { host, door, main, settings: Settings::of(&super::KIND), files: 0, faults: Vec::new() };
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
    let Reader { mut settings, faults, .. } = reader;
    if let Some(arguments) = main.command.known() {
        let place = Place::command_line(main.pid);
        for (name, value) in command_line(arguments) {
            settings.set(&name, &value, place.clone());
        }
    }
    (settings, faults)
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
                self.fault(Place { file: path.to_owned(), line }, what);
                self.settings.miss(other.map(|_| ()));
                return true;
            }
        };
        above.push(path.to_owned());
        for line in lines {
            let place = Place { file: path.to_owned(), line: line.number };
            match line.content {
                Content::Set { name, value } => self.settings.set(&name, &value, place),
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
                self.fault(from.clone(), what);
                self.settings.miss(other.map(|_| ()));
            }
        }
    }

    /// The first ones do: a file can be made to have any number.
    fn fault(&mut self, place: Place, what: String) {
        if self.faults.len() < MOST_FILES {
            self.faults.push(Fault { place, what });
        }
    }

    /// Settings are missing that the server has read; `from` is what names their file.
    fn lack(&mut self, path: &str, from: &Place, why: &str) {
        let (what, why) = match from.line {
            0 => (why.to_owned(), why.to_owned()),
            _ => (format!("includes {path} {why}"), format!("{from} includes it {why}")),
        };
        self.fault(from.clone(), what);
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
        let (settings, _) = read(&host, &mut door, &main, &known("/etc/pg/postgresql.conf"), &known("/data"));
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
