//! The settings of a MySQL or MariaDB server: option files with their includes, and its command line.

use hugewise_host::capture::shape::{NO_VALUE, Shape};
use hugewise_host::{Door, Source};
use hugewise_model::configuration::Place;
use hugewise_model::instance::Setting;
use hugewise_model::{Host, Observed, Process, Reason};

use super::cnf::{self, Content};
use super::known;
use super::values::{self, Dialect, Read};
use crate::faults::{Fault, Verdict};
use crate::options;
use crate::settings::{Settings, shown};

/// The files that Debian's and the vendors' builds read. A service has no home folder with one more.
pub(super) const FILES: [&str; 2] = ["/etc/my.cnf", "/etc/mysql/my.cnf"];
/// The server's own limit on includes in includes.
pub(super) const DEEPEST: usize = 10;
const MOST_FILES: usize = 500;

/// What decides which groups of an option file a server reads.
pub(super) struct Groups {
    /// Whether it is MariaDB, which reads groups of its own, too.
    pub(super) mariadb: bool,
    /// Its version, where that is known: `[mysqld-8.0]` is for one version.
    pub(super) version: Option<String>,
    /// `--defaults-group-suffix`: `[mysqld@suffix]` is read as well.
    pub(super) suffix: String,
}

/// Whether a group is for a server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ForServer {
    Yes,
    No,
    /// It depends on a version that is not known.
    Unknown,
}

impl Groups {
    /// What the server makes of names and values.
    fn dialect(&self) -> Dialect {
        Dialect { mariadb: self.mariadb, version: self.version.as_deref().and_then(super::numbers) }
    }

    fn has(&self, group: &str) -> ForServer {
        let group = match group.strip_suffix(self.suffix.as_str()) {
            Some(rest) if !self.suffix.is_empty() => rest,
            _ => group,
        };
        let names: &[&str] = if self.mariadb {
            &["mysqld", "server", "mariadb", "mariadbd", "client-server", "galera"]
        } else {
            &["mysqld", "server"]
        };
        if names.contains(&group) {
            return ForServer::Yes;
        }
        let versioned = group.split_once('-').filter(|(name, _)| *name != "server" && names.contains(name));
        match (versioned, &self.version) {
            (Some((_, version)), _) if !version.starts_with(|c: char| c.is_ascii_digit()) => ForServer::No,
            (Some(_), None) => ForServer::Unknown,
            (Some((_, series)), Some(version)) => {
                let rest = version.strip_prefix(series);
                if rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit())) {
                    ForServer::Yes
                } else {
                    ForServer::No
                }
            }
            (None, _) => ForServer::No,
        }
    }
}

/// Reads the settings of the server whose process is `main`: the option files that its command line
/// leaves in force, and the command line, which wins.
///
/// `shared` is where the files are read that all servers share: of a server that has the host's own it is the reader who reads
/// them, as a server does that is started by root and changes its user then.
pub(super) fn read<'d>(
    host: &Host,
    door: &mut Door<'d>,
    shared: &'d dyn Source,
    main: &Process,
    groups: &Groups,
) -> Settings {
    let mut reader = Reader { host, door, main, groups, settings: Settings::of(&super::KIND), files: 0 };
    let Some(arguments) = main.command.known() else {
        // Without it the option files are not known either.
        return Settings::unknown(&super::KIND, main.command.as_ref().map(|_| ()));
    };
    let alone = options::value(arguments, "defaults-file").filter(|path| !path.is_empty());
    let none = arguments.iter().any(|argument| argument == "--no-defaults");
    match alone {
        _ if none => {}
        Some(path) => reader.required(path),
        None => {
            let own = std::mem::replace(&mut reader.door.source, shared);
            for path in FILES {
                reader.file(path, &mut Vec::new());
            }
            reader.door.source = own;
            if let Some(path) = options::value(arguments, "defaults-extra-file") {
                reader.required(path);
            }
        }
    }
    let dialect = groups.dialect();
    let mut settings = reader.settings;
    let place = Place::command_line(main.pid);
    for (at, argument) in arguments.iter().enumerate().skip(1) {
        let Some(option) = argument.strip_prefix("--") else { continue };
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (option, spaced(option, arguments.get(at + 1), dialect)),
        };
        set(&mut settings, name, value, &place, dialect);
    }
    if let Some(port) = options::short_value(arguments, 'P') {
        settings.set("port", port, place.clone());
    }
    // Which files it reads at all: what is written to another is not read.
    let named = ["defaults-file", "defaults-extra-file", "defaults-group-suffix"]
        .map(|name| (name, options::value(arguments, name)));
    for (name, value) in named.into_iter().chain([("no-defaults", none.then_some("ON"))]) {
        let Some(value) = value.filter(|value| !value.is_empty()) else { continue };
        let shape = if name == "defaults-group-suffix" { Shape::Names } else { Shape::Path };
        let setting = Setting { name: name.into(), value: shape.shown(value).into(), place: Some(place.clone()) };
        settings.values.insert(name.into(), setting);
    }
    settings
}

/// The value of an option in the next word; a switch takes none from there.
fn spaced<'a>(option: &str, next: Option<&'a String>, dialect: Dialect) -> Option<&'a str> {
    let value = next.filter(|next| !next.is_empty() && !next.starts_with('-'))?;
    let switch = values::option(option, None, dialect).is_some_and(|known| values::is_switch(known.name));
    (!switch).then_some(value)
}

/// Takes an option in as the server does; what it would not start with is a fault, and what nobody knows is one until the
/// setting is made anew.
fn set(settings: &mut Settings, name: &str, value: Option<&str>, place: &Place, dialect: Dialect) {
    let Some(known) = values::option(name, value, dialect) else { return };
    let (name, given) = (known.name, value.unwrap_or_default());
    let shown = || Setting { name: name.into(), value: shown(name, given).into(), place: Some(place.clone()) };
    let read = match known.value {
        Read::As(Some(value)) if values::is_amount(name) => match values::amount(&value, dialect) {
            // Of a form that is not shown, the number.
            Read::As(number) if crate::settings::shown(name, &value) == NO_VALUE => Read::As(Some(number.to_string())),
            Read::As(_) => Read::As(Some(value)),
            Read::Refused => Read::Refused,
            Read::Unclear => Read::Unclear,
        },
        other => other,
    };
    match read {
        Read::As(value) => {
            settings.faults.retain(|fault| fault.is_refused() || !fault.is_of(name));
            return settings.set(name, value.as_deref().unwrap_or("ON"), place.clone());
        }
        Read::Refused => settings.fault(Fault::refused(&shown(), place.clone())),
        Read::Unclear => settings.fault(Fault::unclear(shown(), place.clone())),
    }
    // Neither what was there before it nor the default is what its next start has.
    settings.set(name, value.unwrap_or(NO_VALUE), place.clone());
}

/// An option whose name the server would not know, as it is none: behind dashes, or with its value behind a blank.
fn is_no_name(name: &str) -> bool {
    let loose =
        name.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("loose-") || start.eq_ignore_ascii_case("loose_"));
    !loose && (name.starts_with('-') || name.contains(char::is_whitespace))
}

struct Reader<'a, 'd> {
    host: &'a Host,
    door: &'a mut Door<'d>,
    main: &'a Process,
    groups: &'a Groups,
    settings: Settings,
    files: usize,
}

impl Reader<'_, '_> {
    fn required(&mut self, path: &str) {
        if !self.file(path, &mut Vec::new()) {
            self.lack(path, "the command line names it, but it does not exist");
        }
    }

    /// Reads a file, as the server names it, and what it includes; false where it is not there.
    fn file(&mut self, path: &str, above: &mut Vec<String>) -> bool {
        self.files += 1;
        let real = options::as_reader_opens(self.host, self.main, path);
        let mut line = 0;
        let parse = |bytes: &[u8]| cnf::parse(bytes).inspect_err(|error| line = error.line);
        let lines = match self.door.parse(&real, parse) {
            Observed::Known(lines) => lines,
            Observed::Absent => return false,
            other => {
                if line > 0 {
                    // "Fatal error in defaults handling. Program aborted!"
                    let (place, what) = (Place { file: path.to_owned(), line }, "an invalid line".to_owned());
                    self.settings.fault(Fault { place, what, verdict: Verdict::Refuses });
                }
                self.settings.miss(other.map(|_| ()));
                return true;
            }
        };
        above.push(path.to_owned());
        for line in lines {
            let place = Place { file: path.to_owned(), line: line.number };
            match line.content {
                Content::Include(file) => self.include(&file, &place, above),
                Content::IncludeFolder(folder) => self.folder(&folder, &place, above),
                Content::Option(name, value) => match self.groups.has(&line.group) {
                    ForServer::Yes if is_no_name(&name) => {
                        let what = "an option without a valid name".to_owned();
                        self.settings.fault(Fault { place, what, verdict: Verdict::Refuses });
                    }
                    ForServer::Yes if known::is_unknown(&name, self.groups.dialect()) => {
                        // What its name is of is not known either: it may bear anything.
                        let setting = Setting { name, value: NO_VALUE.into(), place: Some(place.clone()) };
                        let what = format!("{}, an option that no known server has", setting.name);
                        self.settings.fault(Fault { place, what, verdict: Verdict::Unclear(Some(setting)) });
                    }
                    ForServer::Yes => {
                        set(&mut self.settings, &name, value.as_deref(), &place, self.groups.dialect());
                    }
                    ForServer::Unknown if self.reads(&name) => {
                        let why =
                            format!("{place} is for version [{}], and the server's version is not known", line.group);
                        self.settings.miss(Observed::Malformed(why));
                    }
                    ForServer::Unknown | ForServer::No => {}
                },
            }
        }
        above.pop();
        true
    }

    fn reads(&self, name: &str) -> bool {
        values::option(name, None, self.groups.dialect()).is_some()
    }

    /// A file that is not there is left out by the server, too, with a warning.
    fn include(&mut self, path: &str, from: &Place, above: &mut Vec<String>) {
        if above.len() > DEEPEST || self.files >= MOST_FILES || above.iter().any(|file| file == path) {
            self.lack(path, &format!("{from} includes it too deep"));
        } else {
            self.file(path, above);
        }
    }

    fn folder(&mut self, folder: &str, from: &Place, above: &mut Vec<String>) {
        let real = options::as_reader_opens(self.host, self.main, folder);
        match self.door.list(&real) {
            Observed::Known(names) => {
                for name in names.iter().filter(|name| name.ends_with(".cnf")) {
                    self.include(&format!("{}/{name}", folder.trim_end_matches('/')), from, above);
                }
            }
            Observed::Absent => {}
            other => self.settings.miss(other.map(|_| ())),
        }
    }

    /// Settings are missing that the server has read.
    fn lack(&mut self, path: &str, why: &str) {
        let what = options::as_reader_opens(self.host, self.main, path);
        self.door.tell(what, Reason::untold(why.to_owned()));
        self.settings.miss(Observed::Malformed(why.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hugewise_host::source::MapSource;
    use hugewise_model::Unread;

    fn read_from(source: &MapSource, command: &str, mariadb: bool, version: Option<&str>) -> (Settings, Vec<Unread>) {
        let command = command.split(' ').map(str::to_owned).collect();
        let main = Process { pid: 7, command: Observed::Known(command), ..Process::default() };
        let mut door = Door::new(source);
        let groups = Groups { mariadb, version: version.map(String::from), suffix: String::new() };
        let settings = read(&Host::default(), &mut door, source, &main, &groups);
        (settings, door.unread)
    }

    fn files() -> MapSource {
        MapSource::new()
            .file(
                "/etc/mysql/my.cnf",
                "[client-server]\nport=3310\n!includedir /etc/mysql/conf.d/\n[mysqld_safe]\nlarge-pages=off\n",
            )
            .file(
                "/etc/mysql/conf.d/a.cnf",
                "[mysqld]\nlarge_pages\ninnodb-buffer-pool-size = 8G\n[client]\nport=1\npassword=x\n",
            )
            .file(
                "/etc/mysql/conf.d/b.cnf",
                "[mariadb]\nmax_connections=500\n[mariadb-10.11]\nkey_buffer_size=64M\n[mysqld-5.5]\nport=1\n",
            )
            .file("/etc/mysql/conf.d/c.txt", "[mysqld]\nport=2\n")
    }

    #[test]
    fn a_server_reads_its_groups_and_no_others() {
        let (settings, unread) = read_from(&files(), "mariadbd", true, Some("10.11.6-MariaDB"));
        let value = |name: &str| settings.get(name).known().map(|setting| setting.value.clone());
        assert_eq!(value("port").as_deref(), Some("3310"));
        assert_eq!(value("large_pages").as_deref(), Some("ON"));
        assert_eq!(value("max_connections").as_deref(), Some("500"));
        assert_eq!(value("key_buffer_size").as_deref(), Some("64M"));
        assert_eq!(value("password"), None);
        assert_eq!(
            settings.get("innodb_buffer_pool_size").known().map(ToString::to_string).as_deref(),
            Some("innodb_buffer_pool_size=8G (/etc/mysql/conf.d/a.cnf:3)")
        );
        assert_eq!(unread, []);

        let (settings, _) = read_from(&files(), "mysqld", false, Some("8.0.36"));
        assert_eq!(settings.value_or("max_connections", "151"), Observed::Known("151".into()));
        assert_eq!(settings.value_or("port", "3306"), Observed::Known("3306".into()));
        // 5.5 is not 5.50.
        let (settings, _) = read_from(&files(), "mysqld", false, Some("5.50.1"));
        assert_eq!(settings.value_or("port", "3306"), Observed::Known("3306".into()));
    }

    #[test]
    fn a_group_for_one_version_leaves_settings_unknown_where_the_version_is() {
        let (settings, _) = read_from(&files(), "mysqld --port=7", false, None);
        assert!(settings.value_or("large_pages", "OFF").reason().is_some());
        assert_eq!(settings.value_or("port", "3306"), Observed::Known("7".into()));
    }

    #[test]
    fn the_command_line_wins_and_chooses_the_files() {
        let (settings, _) = read_from(&files(), "mariadbd --skip-large-pages --port 3311", true, Some("10.11"));
        assert_eq!(settings.value_or("large_pages", "ON"), Observed::Known("OFF".into()));
        assert_eq!(settings.value_or("port", ""), Observed::Known("3311".into()));

        let (settings, _) = read_from(&files(), "mariadbd --no-defaults --large-pages", true, None);
        assert_eq!(settings.value_or("large_pages", "OFF"), Observed::Known("ON".into()));
        assert_eq!(settings.value_or("port", "3306"), Observed::Known("3306".into()));

        let source = files().file("/srv/my.cnf", "[server]\nport=3312\n");
        let (settings, _) = read_from(&source, "mariadbd --defaults-file=/srv/my.cnf", true, None);
        assert_eq!(settings.value_or("port", "3306"), Observed::Known("3312".into()));
        assert_eq!(settings.value_or("large_pages", "OFF"), Observed::Known("OFF".into()));

        let (settings, unread) = read_from(&files(), "mariadbd --defaults-file=/none", true, None);
        assert!(settings.value_or("port", "3306").reason().is_some());
        assert_eq!(unread[0].what, "/none");
    }

    /// "unknown variable 'nosuchoption=1'", "Aborting"; what is for another group or version is not its business.
    #[test]
    fn a_name_that_no_server_knows_is_a_fault_of_its_next_start() {
        let faults = |text: &str| {
            let (settings, _) =
                read_from(&MapSource::new().file("/etc/my.cnf", text), "mariadbd", true, Some("10.11.19"));
            settings.faults.iter().map(|fault| (fault.place.to_string(), fault.is_refused())).collect::<Vec<_>>()
        };
        assert_eq!(faults("[mariadbd]\nport=1\nnosuchoption=1\n"), [("/etc/my.cnf:3".to_owned(), false)]);
        assert_eq!(faults("[mysqld]\nset-variable=max_connections=500\n").len(), 1);
        for text in ["[mysqld]\nloose-nosuchoption=1\n", "[client]\nnosuchoption=1\n", "[mysqld-5.5]\nnosuchoption=1\n"]
        {
            assert_eq!(faults(text), [], "{text}");
        }
    }

    #[test]
    fn what_may_not_be_read_is_unknown_and_circles_end() {
        let (settings, unread) = read_from(&files().denied("/etc/mysql/conf.d"), "mariadbd", true, Some("10.11"));
        assert_eq!(settings.value_or("large_pages", "OFF"), Observed::Denied);
        assert_eq!(unread.len(), 1);
        let circle = MapSource::new().file("/etc/my.cnf", "[mysqld]\nport=1\n!include /etc/my.cnf\n");
        let (settings, unread) = read_from(&circle, "mysqld", false, None);
        assert!(settings.value_or("port", "3306").reason().is_some());
        assert_eq!(unread.len(), 1);
    }
}
