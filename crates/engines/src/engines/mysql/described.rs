//! A MySQL or MariaDB server by its option file.

use hugewise_host::{FactReader, Source};
use hugewise_model::instance::Startup;
use hugewise_model::{Engine, Host, Observed};

use super::files::{self, OptionGroups};
use super::{build_instance, cnf, parse_version_numbers, read_data_version};
use crate::EngineContext;
use crate::shared::described;
use crate::shared::description::{DescribeError, Described, Description};

pub(super) const DATA: &str = "/var/lib/mysql";
const TO_DO: &str = "correct that file, or describe the server with another one";

const SIZES: [&str; 5] = [
    "innodb_buffer_pool_size",
    "innodb_buffer_pool_chunk_size",
    "innodb_log_buffer_size",
    "key_buffer_size",
    "aria_pagecache_buffer_size",
];

pub(crate) fn describe_mysql(
    host: &Host,
    source: &dyn Source,
    description: &Description,
    _ask: bool,
) -> Result<Described, DescribeError> {
    let Description::Config { engine: engine @ (Engine::MySql | Engine::MariaDb), path } =
        description
    else {
        return Err(DescribeError::new("no option file is given", "name it with --config my.cnf"));
    };
    let scene = EngineContext::new(host, source);
    let mut facts = FactReader::new(source);
    described::must_be_there(&facts, path, "name the option file that the server is started with")?;
    let mariadb = *engine == Engine::MariaDb;
    let program = if mariadb { "mariadbd" } else { "mysqld" };
    let mut main = described::process_from_command(vec![
        program.to_owned(),
        format!("--defaults-file={path}"),
    ]);

    // Which groups count depends on the version, and its place on a setting.
    let groups = OptionGroups { mariadb, version: None, suffix: String::new() };
    let settings = files::read(host, &mut facts, source, &main, &groups);
    described::must_make_sense(&facts, |_| true, TO_DO)?;
    let data = settings.values.get("datadir").map_or(DATA, |setting| setting.value.as_str());
    let data = data.trim_end_matches('/').to_owned();
    let found = read_data_version(&mut facts, &data).into_known();
    let ours = |version: &String| {
        version.contains("MariaDB") == mariadb || (mariadb && is_mariadb_series(version))
    };
    if found.as_ref().is_some_and(ours)
        && let Observed::Known(command) = &mut main.command
    {
        command.push(format!("--datadir={data}"));
    }

    let mut facts = FactReader::new(source);
    let mut instance =
        described::without_process(build_instance(&scene, &mut facts, source, &main));
    described::must_make_sense(&facts, |_| true, TO_DO)?;
    for setting in SIZES.iter().filter_map(|name| instance.settings.get(*name)) {
        must_be_a_size(setting)?;
    }
    if let Some(Startup::Refuses(why)) = &instance.startup {
        return Err(DescribeError::new(
            format!("the server does not start with {why}"),
            "correct that",
        ));
    }
    instance.engine = *engine;
    instance.owner = instance.setting_value("user").unwrap_or("mysql").to_owned();
    instance.data_directory = Observed::Known(data);
    Ok(Described { instance, unread: facts.unread })
}

/// Debian's flag file `10.11.19` does not say whose it is: MySQL went from 5.7 to 8.0 and 9.
fn is_mariadb_series(version: &str) -> bool {
    parse_version_numbers(version).is_some_and(|version| version.0 >= 10)
}

fn must_be_a_size(setting: &hugewise_model::instance::ServerSetting) -> Result<(), DescribeError> {
    if cnf::parse_bytes(&setting.value).is_some_and(|bytes| bytes < 1 << 63) {
        return Ok(());
    }
    Err(described::invalid_size_error(setting))
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::MapSource;
    use hugewise_model::instance::DemandSource;
    use hugewise_model::{HugePageMode, PageCount, PageSize};

    use super::*;

    fn describe_with(source: &MapSource, engine: Engine) -> Result<Described, DescribeError> {
        let host = Host { default_huge_page: Observed::Known(PageSize::MIB_2), ..Host::default() };
        describe_mysql(
            &host,
            source,
            &Description::Config { engine, path: "/etc/my.cnf".into() },
            false,
        )
    }

    fn on_10_11_19(text: &str) -> MapSource {
        MapSource::new()
            .with_file("/etc/my.cnf", format!("[mariadbd]\ndatadir=/data/\nlarge_pages=1\n{text}"))
            .with_file("/data/mysql_upgrade_info", "10.11.19-MariaDB\n")
    }

    fn pages(text: &str) -> (u64, DemandSource) {
        let demand =
            describe_with(&on_10_11_19(text), Engine::MariaDb).unwrap().instance.demand.unwrap();
        (demand.pages.get(), demand.source)
    }

    #[test]
    fn a_described_mariadb_is_like_a_running_one() {
        let described =
            describe_with(&on_10_11_19("max_connections=500\nuser=db\n"), Engine::MariaDb).unwrap();
        let instance = described.instance;
        assert_eq!(
            (instance.engine, instance.asked, instance.pid),
            (Engine::MariaDb, HugePageMode::Try, 0)
        );
        assert_eq!((instance.owner.as_str(), instance.max_sessions.get()), ("db", Some(500)));
        assert_eq!(instance.version, Observed::Known("10.11.19-MariaDB".into()));
        assert_eq!(
            (instance.pids.len(), instance.segments.len(), described.unread.len()),
            (0, 0, 0)
        );
    }

    #[test]
    fn without_its_version_the_pages_are_an_estimate() {
        let source =
            MapSource::new().with_file("/etc/my.cnf", "[mysqld]\ninnodb_buffer_pool_size=1G\n");
        let demand = describe_with(&source, Engine::MySql).unwrap().instance.demand.unwrap();
        assert_eq!(
            (demand.pages, demand.source),
            (PageCount(532), DemandSource::Estimated { error_percent: 5 })
        );
        // MariaDB's data says nothing of a MySQL.
        let source = source.with_file("/var/lib/mysql/mysql_upgrade_info", "10.11.19-MariaDB\n");
        let instance = describe_with(&source, Engine::MySql).unwrap().instance;
        assert_eq!((instance.engine, instance.version), (Engine::MySql, Observed::Absent));
        assert_eq!(
            describe_with(&source, Engine::MariaDb).unwrap().instance.demand.unwrap().pages,
            PageCount(648)
        );
    }

    #[test]
    fn what_makes_no_sense_is_named_with_its_line() {
        let said =
            |source: MapSource| describe_with(&source, Engine::MariaDb).unwrap_err().to_string();
        assert!(said(MapSource::new()).starts_with("/etc/my.cnf: no such file; "));
        assert!(
            said(on_10_11_19("key_buffer_size=64X\n"))
                .starts_with("/etc/my.cnf:4: key_buffer_size is not a size: \"64X\"")
        );
        assert!(said(on_10_11_19("innodb_buffer_pool_size=-1\n")).starts_with("/etc/my.cnf:4: "));
        assert!(
            said(on_10_11_19("innodb_buffer_pool_size=8388608T\n")).starts_with("/etc/my.cnf:4: ")
        );
        assert!(
            said(MapSource::new().with_file("/etc/my.cnf", "\nport=1\n"))
                .starts_with("/etc/my.cnf:2: ")
        );
        let circle = said(
            on_10_11_19("!include /etc/b.cnf\n")
                .with_file("/etc/b.cnf", "[mysqld]\n!include /etc/my.cnf\n"),
        );
        assert!(circle.contains("/etc/b.cnf:2 includes it too deep"), "{circle}");
    }

    /// The fewest huge pages that the kernel says are committed once MariaDB 10.11.19 of Debian 12
    /// serves, over many starts; by where the kernel puts its buffer pool it may ask for five more.
    #[test]
    fn mariadb_10_11_19_always_starts_on_these() {
        for (settings, fewest) in [
            ("", 195),
            ("innodb_buffer_pool_size=512M\n", 387),
            ("innodb_buffer_pool_size=1G\n", 643),
        ] {
            let least = PageCount(fewest);
            assert_eq!(pages(settings), (fewest + 5, DemandSource::Enough { least }), "{settings}");
        }
    }
}
