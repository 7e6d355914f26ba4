//! The settings of a MySQL or MariaDB server: option files with their includes, and command line.

use hugewise_host::capture::shape::{NO_VALUE, ValueShape};
use hugewise_host::{FactReader, Source};
use hugewise_model::configuration::FileLocation;
use hugewise_model::instance::ServerSetting;
use hugewise_model::{Host, Observed, Process, Reason};

use super::cnf::{self, CnfContent};
use super::known_options;
use super::values::{self, Dialect, Read};
use crate::shared::faults::{Fault, FaultVerdict};
use crate::shared::options;
use crate::shared::settings::{ServerSettings, new_setting, redact_value, redacted_setting};

/// The files that Debian's and the vendors' builds read; a service has no ~/.my.cnf.
pub(super) const FILES: [&str; 2] = ["/etc/my.cnf", "/etc/mysql/my.cnf"];
pub(super) const DEEPEST: usize = 10;
const MOST_FILES: usize = 500;

pub(super) struct OptionGroups {
    pub(super) mariadb: bool,
    /// Decides on groups for one version: `[mysqld-8.0]`.
    pub(super) version: Option<String>,
    /// `--defaults-group-suffix`: `[mysqld@suffix]` is read as well.
    pub(super) suffix: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ForServer {
    Yes,
    No,
    Unknown,
}

impl OptionGroups {
    pub(super) fn new(main: &Process, mariadb: bool, version: Option<String>) -> Self {
        let words = main.command.as_known();
        let suffix = words.and_then(|words| options::option_value(words, "defaults-group-suffix"));
        Self { mariadb, version, suffix: suffix.unwrap_or_default().to_owned() }
    }

    fn dialect(&self) -> Dialect {
        Dialect {
            mariadb: self.mariadb,
            version: self.version.as_deref().and_then(super::parse_version_numbers),
        }
    }

    fn applies_to_server(&self, group: &str) -> ForServer {
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
        let versioned =
            group.split_once('-').filter(|(name, _)| *name != "server" && names.contains(name));
        let begins_with_digit = |text: &str| text.starts_with(|first: char| first.is_ascii_digit());
        match (versioned, &self.version) {
            (Some((_, series)), _) if !begins_with_digit(series) => ForServer::No,
            (Some(_), None) => ForServer::Unknown,
            (Some((_, series)), Some(version)) => match version.strip_prefix(series) {
                Some(rest) if !begins_with_digit(rest) => ForServer::Yes,
                _ => ForServer::No,
            },
            (None, _) => ForServer::No,
        }
    }
}

/// Reads the option files that the command line of `main` leaves in force, and the command line,
/// which wins. `shared` reads the files of all servers with the reader's rights, as a server does
/// that root starts and that changes its user then.
pub(super) fn read<'d>(
    host: &Host,
    facts: &mut FactReader<'d>,
    shared: &'d dyn Source,
    main: &Process,
    groups: &OptionGroups,
) -> ServerSettings {
    let mut settings = ServerSettings::new(&super::KIND);
    let Some(arguments) = main.command.as_known() else {
        settings.mark_incomplete(main.command.as_ref().map(|_| ()));
        return settings;
    };
    let mut reader = OptionFileReader { host, facts, main, groups, settings, files: 0 };
    reader.read_files_in_force(arguments, shared);
    let mut settings = reader.settings;
    let place = FileLocation::command_line(main.pid);
    apply_command_line(&mut settings, arguments, &place, groups.dialect());
    add_file_choices(&mut settings, arguments, &place);
    settings
}

const NO_DEFAULTS: &str = "--no-defaults";

fn apply_command_line(
    settings: &mut ServerSettings,
    arguments: &[String],
    place: &FileLocation,
    dialect: Dialect,
) {
    for (at, argument) in arguments.iter().enumerate().skip(1) {
        let Some(option) = argument.strip_prefix("--") else { continue };
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (option, value_in_next_word(option, arguments.get(at + 1), dialect)),
        };
        apply_option(settings, name, value, place, dialect);
    }
    if let Some(port) = options::short_value(arguments, 'P') {
        settings.set("port", port, place.clone());
    }
}

fn add_file_choices(settings: &mut ServerSettings, arguments: &[String], place: &FileLocation) {
    let named = ["defaults-file", "defaults-extra-file", "defaults-group-suffix"]
        .map(|name| (name, options::option_value(arguments, name)));
    let none = arguments.iter().any(|argument| argument == NO_DEFAULTS);
    for (name, value) in named.into_iter().chain([("no-defaults", none.then_some("ON"))]) {
        let Some(value) = value.filter(|value| !value.is_empty()) else { continue };
        let shape =
            if name == "defaults-group-suffix" { ValueShape::Names } else { ValueShape::Path };
        let setting = new_setting(name, shape.redact_value(value), Some(place.clone()));
        settings.values.insert(name.into(), setting);
    }
}

/// The value of an option in the next word; a switch takes none from there.
fn value_in_next_word<'a>(
    option: &str,
    next: Option<&'a String>,
    dialect: Dialect,
) -> Option<&'a str> {
    let value = next.filter(|next| !next.is_empty() && !next.starts_with('-'))?;
    let switch = values::recognize_option(option, None, dialect)
        .is_some_and(|known| values::SWITCHES.contains(&known.name));
    (!switch).then_some(value)
}

/// Applies an option as the server does. What it would not start with is a fault; what is unclear
/// is one until the setting is made anew.
fn apply_option(
    settings: &mut ServerSettings,
    name: &str,
    value: Option<&str>,
    place: &FileLocation,
    dialect: Dialect,
) {
    let Some(known) = values::recognize_option(name, value, dialect) else { return };
    let (name, given) = (known.name, value.unwrap_or_default());
    let shown = || redacted_setting(name, given, Some(place.clone()));
    let read = match known.value {
        Read::As(Some(value)) if values::is_amount(name) => values::parse_amount(&value, dialect)
            .and_then(|number| {
                let is_shown = redact_value(name, &value) != NO_VALUE;
                Read::As(Some(if is_shown { value.clone() } else { number.to_string() }))
            }),
        other => other,
    };
    match read {
        Read::As(value) => {
            settings.faults.retain(|fault| fault.is_refused() || !fault.is_of(name));
            return settings.set(name, value.as_deref().unwrap_or("ON"), place.clone());
        }
        Read::Refused => settings.add_fault(Fault::refused_setting(&shown(), place.clone())),
        Read::Unclear => settings.add_fault(Fault::unclear_setting(shown(), place.clone())),
    }
    // Neither the value before it nor the default is that of the next start.
    settings.set(name, value.unwrap_or(NO_VALUE), place.clone());
}

/// No option: a name behind dashes, or with its value behind a blank.
fn is_no_name(name: &str) -> bool {
    let loose = name.get(..6).is_some_and(|start| {
        start.eq_ignore_ascii_case("loose-") || start.eq_ignore_ascii_case("loose_")
    });
    !loose && (name.starts_with('-') || name.contains(char::is_whitespace))
}

struct OptionFileReader<'a, 'd> {
    host: &'a Host,
    facts: &'a mut FactReader<'d>,
    main: &'a Process,
    groups: &'a OptionGroups,
    settings: ServerSettings,
    files: usize,
}

impl<'d> OptionFileReader<'_, 'd> {
    fn read_files_in_force(&mut self, arguments: &[String], shared: &'d dyn Source) {
        if arguments.iter().any(|argument| argument == NO_DEFAULTS) {
            return;
        }
        let alone = options::option_value(arguments, "defaults-file");
        if let Some(path) = alone.filter(|path| !path.is_empty()) {
            return self.read_required(path);
        }
        let own = std::mem::replace(&mut self.facts.source, shared);
        for path in FILES {
            self.read_file(path, &mut Vec::new());
        }
        self.facts.source = own;
        if let Some(path) = options::option_value(arguments, "defaults-extra-file") {
            self.read_required(path);
        }
    }

    fn read_required(&mut self, path: &str) {
        if !self.read_file(path, &mut Vec::new()) {
            self.report_missing(path, "the command line names it, but it does not exist");
        }
    }

    /// Reads a file, as the server names it, and what it includes; false where it does not exist.
    fn read_file(&mut self, path: &str, above: &mut Vec<String>) -> bool {
        self.files += 1;
        let real = options::as_reader_opens(self.host, self.main, path);
        let mut line = 0;
        let parse = |bytes: &[u8]| cnf::parse(bytes).inspect_err(|error| line = error.line);
        let lines = match self.facts.parse(&real, parse) {
            Observed::Known(lines) => lines,
            Observed::Absent => return false,
            other => {
                if line > 0 {
                    // "Fatal error in defaults handling. Program aborted!"
                    let place = FileLocation { file: path.to_owned(), line };
                    let what = "an invalid line".to_owned();
                    self.settings.add_fault(Fault { place, what, verdict: FaultVerdict::Refuses });
                }
                self.settings.mark_incomplete(other.map(|_| ()));
                return true;
            }
        };
        above.push(path.to_owned());
        for line in lines {
            let place = FileLocation { file: path.to_owned(), line: line.number };
            match line.content {
                CnfContent::Include(file) => self.read_include(&file, &place, above),
                CnfContent::IncludeFolder(folder) => self.read_folder(&folder, &place, above),
                CnfContent::Option(name, value) => {
                    self.read_option(&line.group, name, value.as_deref(), place);
                }
            }
        }
        above.pop();
        true
    }

    fn read_option(&mut self, group: &str, name: String, value: Option<&str>, place: FileLocation) {
        match self.groups.applies_to_server(group) {
            ForServer::Yes if is_no_name(&name) => {
                let what = "an option without a valid name".to_owned();
                self.settings.add_fault(Fault { place, what, verdict: FaultVerdict::Refuses });
            }
            ForServer::Yes if known_options::is_unknown(&name, self.groups.dialect()) => {
                let what = format!("{name}, an option that no known server has");
                let place_of_setting = Some(place.clone());
                let setting =
                    ServerSetting { name, value: NO_VALUE.into(), place: place_of_setting };
                let verdict = FaultVerdict::Unclear(Some(setting));
                self.settings.add_fault(Fault { place, what, verdict });
            }
            ForServer::Yes => {
                apply_option(&mut self.settings, &name, value, &place, self.groups.dialect());
            }
            ForServer::Unknown
                if values::recognize_option(&name, None, self.groups.dialect()).is_some() =>
            {
                let why = format!(
                    "{place} is for version [{group}], and the server's version is not known"
                );
                self.settings.mark_incomplete(Observed::Malformed(why));
            }
            ForServer::Unknown | ForServer::No => {}
        }
    }

    /// The server, too, skips a missing file, with a warning.
    fn read_include(&mut self, path: &str, from: &FileLocation, above: &mut Vec<String>) {
        if above.len() > DEEPEST
            || self.files >= MOST_FILES
            || above.iter().any(|file| file == path)
        {
            self.report_missing(path, &format!("{from} includes it too deep"));
        } else {
            self.read_file(path, above);
        }
    }

    fn read_folder(&mut self, folder: &str, from: &FileLocation, above: &mut Vec<String>) {
        let real = options::as_reader_opens(self.host, self.main, folder);
        match self.facts.list_folder(&real) {
            Observed::Known(names) => {
                for name in names.iter().filter(|name| name.ends_with(".cnf")) {
                    self.read_include(
                        &format!("{}/{name}", folder.trim_end_matches('/')),
                        from,
                        above,
                    );
                }
            }
            Observed::Absent => {}
            other => self.settings.mark_incomplete(other.map(|_| ())),
        }
    }

    fn report_missing(&mut self, path: &str, why: &str) {
        let what = options::as_reader_opens(self.host, self.main, path);
        self.facts.report_unread(what, Reason::from_text(why.to_owned()));
        self.settings.mark_incomplete(Observed::Malformed(why.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hugewise_host::source::MapSource;
    use hugewise_model::Unread;

    fn read_from(
        source: &MapSource,
        command: &str,
        mariadb: bool,
        version: Option<&str>,
    ) -> (ServerSettings, Vec<Unread>) {
        let command = command.split(' ').map(str::to_owned).collect();
        let main = Process { pid: 7, command: Observed::Known(command), ..Process::default() };
        let mut facts = FactReader::new(source);
        let groups =
            OptionGroups { mariadb, version: version.map(String::from), suffix: String::new() };
        let settings = read(&Host::default(), &mut facts, source, &main, &groups);
        (settings, facts.unread)
    }

    fn files() -> MapSource {
        MapSource::new()
            .with_file(
                "/etc/mysql/my.cnf",
                "[client-server]\nport=3310\n!includedir \
                     /etc/mysql/conf.d/\n[mysqld_safe]\nlarge-pages=off\n",
            )
            .with_file(
                "/etc/mysql/conf.d/a.cnf",
                "[mysqld]\nlarge_pages\ninnodb-buffer-pool-size = \
                     8G\n[client]\nport=1\npassword=x\n",
            )
            .with_file(
                "/etc/mysql/conf.d/b.cnf",
                "[mariadb]\nmax_connections=500\n[mariadb-10.11]\nkey_buffer_size=64M\n[mysqld-5.5]\nport=1\n",
            )
            .with_file("/etc/mysql/conf.d/c.txt", "[mysqld]\nport=2\n")
    }

    #[test]
    fn a_server_reads_its_groups_and_no_others() {
        let (settings, unread) = read_from(&files(), "mariadbd", true, Some("10.11.6-MariaDB"));
        let value = |name: &str| settings.get(name).as_known().map(|setting| setting.value.clone());
        assert_eq!(value("port").as_deref(), Some("3310"));
        assert_eq!(value("large_pages").as_deref(), Some("ON"));
        assert_eq!(value("max_connections").as_deref(), Some("500"));
        assert_eq!(value("key_buffer_size").as_deref(), Some("64M"));
        assert_eq!(value("password"), None);
        assert_eq!(
            settings.get("innodb_buffer_pool_size").as_known().map(ToString::to_string).as_deref(),
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
        assert!(settings.value_or("large_pages", "OFF").reason_text().is_some());
        assert_eq!(settings.value_or("port", "3306"), Observed::Known("7".into()));
    }

    #[test]
    fn the_command_line_wins_and_chooses_the_files() {
        let (settings, _) =
            read_from(&files(), "mariadbd --skip-large-pages --port 3311", true, Some("10.11"));
        assert_eq!(settings.value_or("large_pages", "ON"), Observed::Known("OFF".into()));
        assert_eq!(settings.value_or("port", ""), Observed::Known("3311".into()));

        let (settings, _) = read_from(&files(), "mariadbd --no-defaults --large-pages", true, None);
        assert_eq!(settings.value_or("large_pages", "OFF"), Observed::Known("ON".into()));
        assert_eq!(settings.value_or("port", "3306"), Observed::Known("3306".into()));

        let source = files().with_file("/srv/my.cnf", "[server]\nport=3312\n");
        let (settings, _) = read_from(&source, "mariadbd --defaults-file=/srv/my.cnf", true, None);
        assert_eq!(settings.value_or("port", "3306"), Observed::Known("3312".into()));
        assert_eq!(settings.value_or("large_pages", "OFF"), Observed::Known("OFF".into()));

        let (settings, unread) = read_from(&files(), "mariadbd --defaults-file=/none", true, None);
        assert!(settings.value_or("port", "3306").reason_text().is_some());
        assert_eq!(unread[0].what, "/none");
    }

    /// "unknown variable 'nosuchoption=1'", "Aborting"; what is for another group or version is not
    /// its business.
    #[test]
    fn a_name_that_no_server_knows_is_a_fault_of_its_next_start() {
        let faults = |text: &str| {
            let (settings, _) = read_from(
                &MapSource::new().with_file("/etc/my.cnf", text),
                "mariadbd",
                true,
                Some("10.11.19"),
            );
            settings
                .faults
                .iter()
                .map(|fault| (fault.place.to_string(), fault.is_refused()))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            faults("[mariadbd]\nport=1\nnosuchoption=1\n"),
            [("/etc/my.cnf:3".to_owned(), false)]
        );
        assert_eq!(faults("[mysqld]\nset-variable=max_connections=500\n").len(), 1);
        for text in [
            "[mysqld]\nloose-nosuchoption=1\n",
            "[client]\nnosuchoption=1\n",
            "[mysqld-5.5]\nnosuchoption=1\n",
        ] {
            assert_eq!(faults(text), [], "{text}");
        }
    }

    #[test]
    fn what_may_not_be_read_is_unknown_and_circles_end() {
        let (settings, unread) =
            read_from(&files().with_denied("/etc/mysql/conf.d"), "mariadbd", true, Some("10.11"));
        assert_eq!(settings.value_or("large_pages", "OFF"), Observed::Denied);
        assert_eq!(unread.len(), 1);
        let circle =
            MapSource::new().with_file("/etc/my.cnf", "[mysqld]\nport=1\n!include /etc/my.cnf\n");
        let (settings, unread) = read_from(&circle, "mysqld", false, None);
        assert!(settings.value_or("port", "3306").reason_text().is_some());
        assert_eq!(unread.len(), 1);
    }
}
