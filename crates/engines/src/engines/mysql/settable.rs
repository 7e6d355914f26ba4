//! How a plan changes the settings of MySQL and MariaDB: by a drop-in in an included folder.

use hugewise_host::Source;
use hugewise_model::{Host, Instance, Process};

use super::cnf::{self, CnfContent};
use super::files::{DEEPEST, FILES};
use crate::shared::options;
use crate::shared::settable::{Included, Settable, SettingAssignment, Unsettable, is_plain};

pub(super) static SETTABLE: Settable = Settable {
    asks: ("large_pages", "ON"),
    insists: None,
    can: None,
    page_size: None,
    why_ask: "its settings don't ask for huge pages; once they do, it falls back if the pool is \
              too small",
    why_insist: "",
    ending: "cnf",
    section: Some("[mysqld]"),
    allows: is_allowed_line,
    is_packaged,
    included: find_included_folder,
    by_itself: None,
    by_hand,
};

fn is_allowed_line(line: &str) -> bool {
    const GROUPS: [&str; 4] = ["[mysqld]", "[mariadb]", "[mariadbd]", "[server]"];
    let (name, value) =
        line.split_once('=').map_or((line, "ON"), |(name, value)| (name.trim(), value.trim()));
    GROUPS.contains(&line) || (matches!(name, "large_pages" | "large-pages") && is_plain(value))
}

fn is_packaged(folder: &str) -> bool {
    const FOLDERS: [&str; 6] = [
        // RHEL, Oracle Linux, SLES.
        "/etc/my.cnf.d",
        "/etc/mysql/my.cnf.d",
        // Debian and Ubuntu.
        "/etc/mysql/conf.d",
        "/etc/mysql/mariadb.conf.d",
        "/etc/mysql/mysql.conf.d",
        // Percona.
        "/etc/percona-server.conf.d",
    ];
    FOLDERS.contains(&folder)
}

fn find_included_folder(
    host: &Host,
    source: &dyn Source,
    process: &Process,
    _: &Instance,
) -> Result<Included, Unsettable> {
    let arguments = process.command.as_known().ok_or(Unsettable::CommandLineUnknown)?;
    if arguments.iter().any(|argument| argument == "--no-defaults") {
        return Err(Unsettable::NoFiles { option: "--no-defaults", instead: "--large-pages" });
    }
    let from =
        match options::option_value(arguments, "defaults-file").filter(|path| !path.is_empty()) {
            Some(path) => vec![path.to_owned()],
            None => FILES.iter().map(|path| (*path).to_owned()).collect(),
        };
    let mut folders = Vec::new();
    let read =
        |file: &str| source.read(&options::as_reader_opens(host, process, file)).into_known();
    for file in &from {
        folders_of(&read, file, 0, &mut folders);
    }
    Ok(Included { from, folders })
}

fn folders_of(
    read: &dyn Fn(&str) -> Option<Vec<u8>>,
    file: &str,
    depth: usize,
    folders: &mut Vec<String>,
) {
    let Some(bytes) = read(file).filter(|_| depth <= DEEPEST) else { return };
    for line in cnf::parse(&bytes).unwrap_or_default() {
        match line.content {
            CnfContent::Include(path) => folders_of(read, &path, depth + 1, folders),
            CnfContent::IncludeFolder(folder) => {
                let folder = folder.trim_end_matches('/').to_owned();
                if folder.starts_with('/') && !folders.contains(&folder) {
                    folders.push(folder);
                }
            }
            CnfContent::Option(..) => {}
        }
    }
}

fn by_hand(instance: &Instance, _: &[SettingAssignment], why: &str) -> Vec<String> {
    // The commands themselves say that the command line beats all files.
    let why = (!by_command_line(instance)).then(|| format!("# {why}"));
    why.into_iter().chain(huge_page_commands(instance)).collect()
}

pub(super) fn huge_page_commands(instance: &Instance) -> Vec<String> {
    let place = instance.settings.get("large_pages").and_then(|setting| setting.place.as_ref());
    vec![match place
        .filter(|place| place.line > 0 || options::file_name(&place.file) == "mysqld-auto.cnf")
    {
        _ if by_command_line(instance) => {
            "# its command line sets large-pages, which beats every file: set it to ON in the unit \
             or script that starts it"
                .into()
        }
        // What SET PERSIST wrote beats every option file.
        Some(place) if options::file_name(&place.file) == "mysqld-auto.cnf" => {
            format!("# SET PERSIST_ONLY large_pages = ON; as {} has the last word", place.file)
        }
        Some(place) => {
            format!("# {place} has the last word on large-pages: write large-pages = ON there")
        }
        None => "# in the [mysqld] section of its option file: large-pages = ON".into(),
    }]
}

fn by_command_line(instance: &Instance) -> bool {
    let setting = instance.settings.get("large_pages");
    setting.is_some_and(|setting| setting.is_on_command_line())
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::MapSource;
    use hugewise_model::Engine;
    use hugewise_model::configuration::FileLocation;
    use hugewise_model::instance::ServerSetting;

    use super::*;
    use crate::EngineContext;

    /// Of an option that is given more than once the last one counts (MariaDB, "Configuring MariaDB
    /// with Option Files").
    #[test]
    fn the_line_that_decides_is_the_one_to_change() {
        let (host, source) = (Host::default(), MapSource::new());
        let scene = EngineContext::new(&host, &source);
        let mut instance =
            scene.new_instance(Engine::MariaDb, "3306".into(), &Process::default(), Vec::new());
        let told = |instance: &Instance| huge_page_commands(instance).join("\n");
        assert_eq!(
            told(&instance),
            "# in the [mysqld] section of its option file: large-pages = ON"
        );
        let mut decides = |file: &str, line: u64| {
            let place = Some(FileLocation { file: file.into(), line });
            let setting = ServerSetting { name: "large_pages".into(), value: "OFF".into(), place };
            instance.settings.insert("large_pages".into(), setting);
            told(&instance)
        };
        let line = decides("/srv/my/my.cnf", 8);
        assert_eq!(
            line,
            "# /srv/my/my.cnf:8 has the last word on large-pages: write large-pages = ON there"
        );
        assert!(
            decides("/srv/my/data/mysqld-auto.cnf", 0)
                .starts_with("# SET PERSIST_ONLY large_pages = ON;")
        );
        assert!(decides("/proc/7/cmdline", 0).contains("its command line sets large-pages"));
    }
}
