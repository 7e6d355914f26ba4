//! How a plan changes the settings of PostgreSQL: a drop-in in the folder that Debian's packages
//! make for a cluster, and `ALTER SYSTEM` elsewhere.

use hugewise_host::{ParseError, Source};
use hugewise_model::{Host, Instance, PageSize, Process};

use super::conf::{self, PostgresqlConfContent};
use super::socket_of;
use crate::shared::options;
use crate::shared::settable::{
    ByItself, Included, Reach, Settable, SettingAssignment, SizeSetting, Statement, Statements,
    Unsettable, is_plain,
};
use crate::shared::start::Restarter;

pub(super) static SETTABLE: Settable = Settable {
    asks: ("huge_pages", "try"),
    insists: Some(("huge_pages", "on")),
    can: Some(("shared_memory_type", "mmap")),
    page_size: Some(SizeSetting { name: "huge_page_size", value: format_page_size }),
    why_ask: "its settings don't ask for huge pages",
    why_insist: "with try it silently starts without huge pages if the pool is too small, and logs \
                 that at DEBUG1 only",
    ending: "conf",
    section: None,
    allows: is_allowed_line,
    is_packaged,
    included: find_included_folder,
    by_itself: Some(ByItself {
        program: "psql",
        folders: &["/usr/lib/postgresql/", "/usr/pgsql-"],
        file: "postgresql.auto.conf",
        reach: find_reach,
        statements: build_statements,
        allows: allows_client,
    }),
    by_hand,
};

/// Debian's tool knows a cluster by the folder of its configuration.
pub(super) const RESTARTER: Restarter = Restarter {
    program: "pg_ctlcluster",
    arguments: |instance| {
        let (version, cluster) = instance.name.split_once('/')?;
        let own = config_file(instance)?
            == format!("/etc/postgresql/{version}/{cluster}/postgresql.conf");
        own.then(|| vec![version.to_owned(), cluster.to_owned(), "restart".to_owned()])
    },
    allows: |arguments| match arguments {
        [version, cluster, "restart"] => {
            [version, cluster].iter().all(|name| is_plain(name) && !name.starts_with('-'))
        }
        _ => false,
    },
};

const SETTINGS: [&str; 3] = ["huge_pages", "huge_page_size", "shared_memory_type"];

fn format_page_size(page: PageSize) -> String {
    let bytes = page.bytes().get();
    match bytes {
        _ if bytes >= 1 << 30 => format!("{}GB", bytes >> 30),
        _ if bytes >= 1 << 20 => format!("{}MB", bytes >> 20),
        _ => format!("{}kB", bytes >> 10),
    }
}

fn is_allowed_line(line: &str) -> bool {
    line.split_once('=').is_some_and(|(name, value)| {
        let value = value.trim();
        let bare =
            value.strip_prefix('\'').and_then(|value| value.strip_suffix('\'')).unwrap_or(value);
        SETTINGS.contains(&name.trim()) && is_plain(bare)
    })
}

/// A cluster's folder: `/etc/postgresql/15/main/conf.d`.
fn is_packaged(folder: &str) -> bool {
    let version = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    };
    match folder.split('/').collect::<Vec<_>>().as_slice() {
        ["", "etc", "postgresql", number, cluster, "conf.d"] => {
            version(number)
                && *number != "."
                && *number != ".."
                && is_plain(cluster)
                && !cluster.starts_with(['.', '-'])
        }
        _ => false,
    }
}

fn config_file(instance: &Instance) -> Option<String> {
    let named = instance
        .setting_value("config_file")
        .filter(|path| path.starts_with('/'))
        .map(str::to_owned);
    let places = instance.settings.values().filter_map(|setting| setting.place.as_ref());
    let mut of_settings =
        places.map(|place| place.file.clone()).filter(|file| file.ends_with("/postgresql.conf"));
    let in_data =
        || instance.data_directory.as_known().map(|data| format!("{data}/postgresql.conf"));
    named.or_else(|| of_settings.next()).or_else(in_data)
}

/// The folder beside its main file, where that includes it.
fn find_included_folder(
    host: &Host,
    source: &dyn Source,
    process: &Process,
    instance: &Instance,
) -> Result<Included, Unsettable> {
    let config = config_file(instance).ok_or(Unsettable::Unknown("configuration file"))?;
    let beside = config.rsplit_once('/').map_or("", |(folder, _)| folder);
    let folder = |line: conf::PostgresqlConfLine| match line.content {
        PostgresqlConfContent::IncludeFolder(path) if path.starts_with('/') => {
            Some(path.trim_end_matches('/').to_owned())
        }
        PostgresqlConfContent::IncludeFolder(path) => {
            Some(format!("{beside}/{}", path.trim_start_matches("./").trim_end_matches('/')))
        }
        _ => None,
    };
    let bytes = source
        .read(&options::as_reader_opens(host, process, &config))
        .into_known()
        .unwrap_or_default();
    let all = conf::parse(&bytes).unwrap_or_default().into_iter().filter_map(folder);
    let own = config.strip_suffix("/postgresql.conf").map(|folder| format!("{folder}/conf.d"));
    let folders = all.filter(|folder| Some(folder) == own.as_ref()).collect();
    Ok(Included { from: vec![config], folders })
}

/// Through its own socket: postgresql.auto.conf is the server's file.
fn find_reach(instance: &Instance) -> Result<Reach, Unsettable> {
    let (folder, port) = socket_of(instance).ok_or(Unsettable::Unknown("socket"))?;
    let data = instance.data_directory.as_known().ok_or(Unsettable::Unknown("data directory"))?;
    let arguments =
        ["-X", "-h", folder, "-p", port, "-d", "postgres", "-c"].map(str::to_owned).to_vec();
    Ok(Reach { arguments, file: format!("{data}/postgresql.auto.conf") })
}

fn build_statements(there: &[u8], wanted: &[SettingAssignment]) -> Result<Statements, ParseError> {
    let before = conf::parse(there)?;
    let set_before = |name: &str| {
        before.iter().rev().find_map(|line| match &line.content {
            PostgresqlConfContent::Set { name: set, value } if set == name => Some(value),
            _ => None,
        })
    };
    let statement = |(name, value): &SettingAssignment| Statement {
        set: format!("ALTER SYSTEM SET {name} = '{value}'"),
        undo: match set_before(name) {
            Some(old) => format!("ALTER SYSTEM SET {name} = '{}'", old.replace('\'', "''")),
            None => format!("ALTER SYSTEM RESET {name}"),
        },
        line: format!("{name} = '{value}'"),
    };
    let all: Vec<Statement> = wanted.iter().map(statement).collect();
    let mut after = String::from_utf8_lossy(there).into_owned();
    all.iter().for_each(|statement| after.push_str(&format!("{}\n", statement.line)));
    Ok(Statements { after, all })
}

fn allows_client(arguments: &[&str]) -> bool {
    match arguments {
        ["-X", "-h", socket, "-p", port, "-d", "postgres", "-c", sql] => {
            socket.starts_with('/')
                && port.bytes().all(|byte| byte.is_ascii_digit())
                && is_alter_system(sql)
        }
        _ => false,
    }
}

/// `ALTER SYSTEM SET huge_pages = 'on'`, with a plain value, or `ALTER SYSTEM RESET huge_pages`.
fn is_alter_system(sql: &str) -> bool {
    let Some(rest) = sql.strip_prefix("ALTER SYSTEM ") else { return false };
    if let Some(name) = rest.strip_prefix("RESET ") {
        return SETTINGS.contains(&name);
    }
    let set = rest.strip_prefix("SET ").and_then(|rest| rest.split_once(" = "));
    set.is_some_and(|(name, value)| {
        let bare = value.strip_prefix('\'').and_then(|value| value.strip_suffix('\''));
        SETTINGS.contains(&name) && bare.is_some_and(is_plain)
    })
}

fn by_hand(_: &Instance, wanted: &[SettingAssignment], why: &str) -> Vec<String> {
    let lines = wanted.iter().map(|(name, value)| format!("# {name} = {value}"));
    std::iter::once(format!("# {why}")).chain(lines).collect()
}
