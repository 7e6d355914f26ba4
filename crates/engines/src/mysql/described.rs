//! A MySQL or MariaDB server by its option file.

use hugewise_host::{Door, Source};
use hugewise_model::instance::Startup;
use hugewise_model::{Engine, Host, Observed};

use super::files::{self, Groups};
use super::{cnf, instance, numbers, version};
use crate::description::{DescribeError, Described, Description};
use crate::settings::shown;
use crate::{Scene, described};

/// Where the vendors' builds keep their data when no option file says.
pub(super) const DATA: &str = "/var/lib/mysql";

const SIZES: [&str; 5] = [
    "innodb_buffer_pool_size",
    "innodb_buffer_pool_chunk_size",
    "innodb_log_buffer_size",
    "key_buffer_size",
    "aria_pagecache_buffer_size",
];

/// What the server would ask for that is started with `--defaults-file`. The version, which the formula depends on, is that of
/// the data that the file names.
///
/// # Errors
/// A file that is not there, makes no sense, or includes itself; a size that is none.
pub(crate) fn describe(
    host: &Host,
    source: &dyn Source,
    description: &Description,
    _ask: bool,
) -> Result<Described, DescribeError> {
    let Description::Config { engine: engine @ (Engine::MySql | Engine::MariaDb), path } = description else {
        return Err(DescribeError::new("no option file is given", "name it with --config my.cnf"));
    };
    let scene = Scene::new(host, source);
    let mut door = Door::new(source);
    described::must_be_there(&door, path, "name the option file that the server is started with")?;
    let mariadb = *engine == Engine::MariaDb;
    let program = if mariadb { "mariadbd" } else { "mysqld" };
    let mut main = described::process(vec![program.to_owned(), format!("--defaults-file={path}")]);

    // Which groups count depends on the version, and where that is told on a setting.
    let groups = Groups { mariadb, version: None, suffix: String::new() };
    let settings = files::read(host, &mut door, source, &main, &groups);
    described::must_make_sense(&door.unread, "correct that file, or describe the server with another one")?;
    let data = settings.values.get("datadir").map_or(DATA, |setting| setting.value.as_str());
    let data = data.trim_end_matches('/').to_owned();
    let found = version(&mut door, &data).into_known();
    let ours = |version: &String| version.contains("MariaDB") == mariadb || (mariadb && is_mariadb_series(version));
    if found.as_ref().is_some_and(ours)
        && let Observed::Known(command) = &mut main.command
    {
        command.push(format!("--datadir={data}"));
    }

    door.unread.clear();
    let mut instance = described::without_process(instance(&scene, &mut door, source, &main));
    described::must_make_sense(&door.unread, "correct that file, or describe the server with another one")?;
    for setting in SIZES.iter().filter_map(|name| instance.settings.get(*name)) {
        must_be_a_size(setting)?;
    }
    if let Some(Startup::Refuses(why)) = &instance.startup {
        return Err(DescribeError::new(format!("the server does not start with {why}"), "correct that"));
    }
    instance.engine = *engine;
    instance.owner = instance.setting_value("user").unwrap_or("mysql").to_owned();
    instance.data_directory = Observed::Known(data);
    Ok(Described { instance, unread: door.unread })
}

/// `10.11.19` of a flag file of Debian's, which does not say whose it is: MySQL went from 5.7 to 8.0 and then 9.
fn is_mariadb_series(version: &str) -> bool {
    numbers(version).is_some_and(|version| version.0 >= 10)
}

fn must_be_a_size(setting: &hugewise_model::instance::Setting) -> Result<(), DescribeError> {
    if cnf::bytes(&setting.value).is_some_and(|bytes| bytes < 1 << 63) {
        return Ok(());
    }
    let what = format!("{} is not a size: {:?}", setting.name, shown(&setting.name, &setting.value));
    let todo = "write a whole number of bytes, or one followed by K, M, G or T";
    Err(match &setting.place {
        Some(place) => DescribeError::of(&place.file, what, todo).at(place.line),
        None => DescribeError::new(what, todo),
    })
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::MapSource;
    use hugewise_model::instance::DemandSource;
    use hugewise_model::{Asked, PageCount, PageSize};

    use super::*;

    fn describe_with(source: &MapSource, engine: Engine) -> Result<Described, DescribeError> {
        let host = Host { default_huge_page: Observed::Known(PageSize::MIB_2), ..Host::default() };
        describe(&host, source, &Description::Config { engine, path: "/etc/my.cnf".into() }, false)
    }

    fn on_10_11_19(text: &str) -> MapSource {
        MapSource::new()
            .file("/etc/my.cnf", format!("[mariadbd]\ndatadir=/data/\nlarge_pages=1\n{text}"))
            .file("/data/mysql_upgrade_info", "10.11.19-MariaDB\n")
    }

    fn pages(text: &str) -> (u64, DemandSource) {
        let demand = describe_with(&on_10_11_19(text), Engine::MariaDb).unwrap().instance.demand.unwrap();
        (demand.pages.get(), demand.source)
    }

    #[test]
    fn a_described_mariadb_is_like_a_running_one() {
        let described = describe_with(&on_10_11_19("max_connections=500\nuser=db\n"), Engine::MariaDb).unwrap();
        let instance = described.instance;
        assert_eq!((instance.engine, instance.asked, instance.pid), (Engine::MariaDb, Asked::Try, 0));
        assert_eq!((instance.owner.as_str(), instance.max_sessions.get()), ("db", Some(500)));
        assert_eq!(instance.version, Observed::Known("10.11.19-MariaDB".into()));
        assert_eq!((instance.pids.len(), instance.segments.len(), described.unread.len()), (0, 0, 0));
    }

    #[test]
    fn without_its_version_the_pages_are_an_estimate() {
        let source = MapSource::new().file("/etc/my.cnf", "[mysqld]\ninnodb_buffer_pool_size=1G\n");
        let demand = describe_with(&source, Engine::MySql).unwrap().instance.demand.unwrap();
        assert_eq!((demand.pages, demand.source), (PageCount(532), DemandSource::Estimated { error_percent: 5 }));
        // MariaDB's data says nothing of a MySQL.
        let source = source.file("/var/lib/mysql/mysql_upgrade_info", "10.11.19-MariaDB\n");
        let instance = describe_with(&source, Engine::MySql).unwrap().instance;
        assert_eq!((instance.engine, instance.version), (Engine::MySql, Observed::Absent));
        assert_eq!(describe_with(&source, Engine::MariaDb).unwrap().instance.demand.unwrap().pages, PageCount(648));
    }

    #[test]
    fn what_makes_no_sense_is_named_with_its_line() {
        let said = |source: MapSource| describe_with(&source, Engine::MariaDb).unwrap_err().to_string();
        assert!(said(MapSource::new()).starts_with("/etc/my.cnf: no such file; "));
        assert!(
            said(on_10_11_19("key_buffer_size=64X\n"))
                .starts_with("/etc/my.cnf:4: key_buffer_size is not a size: \"64X\"")
        );
        assert!(said(on_10_11_19("innodb_buffer_pool_size=-1\n")).starts_with("/etc/my.cnf:4: "));
        assert!(said(on_10_11_19("innodb_buffer_pool_size=8388608T\n")).starts_with("/etc/my.cnf:4: "));
        assert!(said(MapSource::new().file("/etc/my.cnf", "\nport=1\n")).starts_with("/etc/my.cnf:2: "));
        let circle = said(on_10_11_19("!include /etc/b.cnf\n").file("/etc/b.cnf", "[mysqld]\n!include /etc/my.cnf\n"));
        assert!(circle.contains("/etc/b.cnf:2 includes it too deep"), "{circle}");
    }

    /// The fewest huge pages that the kernel says are committed once MariaDB 10.11.19 of Debian 12 serves, over many starts; by
    /// where the kernel puts its buffer pool it may ask for five more.
    #[test]
    fn mariadb_10_11_19_always_starts_on_these() {
        for (settings, fewest) in
            [("", 195), ("innodb_buffer_pool_size=512M\n", 387), ("innodb_buffer_pool_size=1G\n", 643)]
        {
            let least = PageCount(fewest);
            assert_eq!(pages(settings), (fewest + 5, DemandSource::Enough { least }), "{settings}");
        }
    }
}
