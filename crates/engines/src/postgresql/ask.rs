//! What a running PostgreSQL says of itself.

use std::collections::BTreeMap;

use hugewise_model::configuration::Place;
use hugewise_model::instance::{NextStart, Setting};
use hugewise_model::{Asked, Bytes, Host, HugePageUse, Instance, Observed, PageCount, PageSize};

use super::demand::Range;
use super::{KIND, asked, asked_page_size, conf, demand, setting};
use crate::question::{NoAnswer, Question, Sockets, rows};
use crate::settings::Settings;

/// Settings in force, and sessions but our own; `huge_pages_status` is there since 17,
/// `shared_memory_size` and `shared_memory_size_in_huge_pages` since 15, `backend_type` since 10.
const QUERY: &str = "SELECT name, setting, coalesce(unit, '') FROM pg_catalog.pg_settings WHERE name IN (\
    'server_version', 'huge_pages', 'huge_page_size', 'huge_pages_status', 'shared_memory_type', 'shared_buffers', \
    'shared_memory_size', 'shared_memory_size_in_huge_pages', 'max_connections', 'min_dynamic_shared_memory', \
    'max_worker_processes', 'max_wal_senders', 'max_prepared_transactions', 'max_locks_per_transaction', \
    'max_pred_locks_per_transaction', 'autovacuum_max_workers', 'autovacuum_worker_slots', 'wal_buffers', \
    'track_activity_query_size', 'io_max_concurrency', 'shared_preload_libraries') \
    UNION ALL SELECT 'sessions', pg_catalog.count(*)::pg_catalog.text, '' FROM pg_catalog.pg_stat_activity \
    WHERE backend_type = 'client backend' AND pid <> pg_catalog.pg_backend_pid()";

/// How many entries of its files a running server does not have in force as they stand there: those that wait for a start, or that
/// are wrong. It reads them anew for this, reloaded or not (9.5 and later). Who is no superuser is denied it, so that it is asked
/// for by itself, and first: how psql ends is how its last command ended.
const QUERY_OF_FILES: &str = "SELECT 'file_errors', pg_catalog.count(*)::pg_catalog.text, '' \
    FROM pg_catalog.pg_file_settings WHERE error IS NOT NULL";

/// How to ask an instance.
pub(crate) fn question(instance: &Instance, sockets: &Sockets<'_>) -> Result<Question, NoAnswer> {
    let socket = instance.endpoints.iter().find_map(|endpoint| endpoint.split_once("/.s.PGSQL."));
    let (folder, port) = socket.ok_or(NoAnswer::NoSocket("; run as root or as its owner"))?;
    // The client is told the folder and adds the rest.
    let path = sockets.reach(&format!("{folder}/.s.PGSQL.{port}"))?;
    let folder = path.rsplit_once('/').map_or("/", |(folder, _)| folder);
    let server = ["-XAtqw", "-F", "\t", "-h", folder, "-p", port, "-U", &instance.owner, "-d", "postgres"];
    let questions = ["-c", QUERY_OF_FILES, "-c", QUERY];
    Ok(Question { programs: &["psql"], arguments: server.into_iter().chain(questions).map(String::from).collect() })
}

/// Takes its answer in.
pub(crate) fn answer(host: &Host, instance: &mut Instance, text: &str) -> Result<(), NoAnswer> {
    if !rows(text).any(|(name, ..)| name == "sessions") {
        return Err(NoAnswer::Senseless("psql gave no"));
    }
    let mut settings = Settings::of(&KIND);
    settings.values.append(&mut instance.settings);
    let by_files = settings.values.clone();
    let (mut size, mut pages) = (None, None);
    let mut unapplied = None;
    let mut changed = Vec::new();
    for (name, value, unit) in rows(text) {
        match name {
            "server_version" => {
                instance.version = value.split_whitespace().next().map(str::to_owned).into();
            }
            "sessions" => instance.sessions = value.parse().ok().into(),
            "file_errors" => unapplied = value.parse::<u64>().ok(),
            "shared_memory_size" => size = conf::memory(value, 1 << 20).map(Bytes),
            "shared_memory_size_in_huge_pages" => pages = value.parse::<u64>().ok().map(PageCount),
            "huge_pages_status" if instance.huge_pages == HugePageUse::Unknown => {
                instance.huge_pages = match value {
                    "on" => HugePageUse::All,
                    "off" => HugePageUse::None,
                    _ => HugePageUse::Unknown,
                };
            }
            _ => {}
        }
        if !["sessions", "server_version", "file_errors"].contains(&name) && replace(&mut settings, name, value, unit) {
            changed.extend(by_files.get(name).filter(|setting| decides(setting)).cloned());
        }
    }
    if unapplied == Some(0) {
        // Whatever the reckoning of its files comes to: they are what it runs with.
        instance.next = Observed::Absent;
        instance.perhaps.clear();
    } else if let Some(setting) = changed.into_iter().next() {
        let libraries = |values: &BTreeMap<String, Setting>| {
            values.get("shared_preload_libraries").map(|setting| setting.value.clone()).unwrap_or_default()
        };
        let same_libraries = libraries(&by_files) == libraries(&settings.values);
        let now = now(instance, size);
        instance.next = Observed::Known(next(host, instance, by_files, &settings, now, setting));
        if same_libraries {
            instance.perhaps.clear();
        }
    }
    instance.asked = asked(&settings);
    instance.setting = setting(&settings, instance.asked);
    instance.asked_page_size = asked_page_size(host, &settings);
    instance.max_sessions = settings.value_or("max_connections", "100").parse(|value| super::whole(&value));
    let said = instance.asked_page_size.get().and_then(|page| demand::said(size, pages, page));
    instance.demand = said.or(instance.demand.take());
    instance.settings = settings.values;
    Ok(())
}

/// Settings that decide on the main memory and its pages, and that only a start takes from the files.
const DECIDE: [&str; 17] = [
    "huge_pages",
    "huge_page_size",
    "shared_memory_type",
    "shared_buffers",
    "max_connections",
    "min_dynamic_shared_memory",
    "max_worker_processes",
    "max_wal_senders",
    "max_prepared_transactions",
    "max_locks_per_transaction",
    "max_pred_locks_per_transaction",
    "autovacuum_max_workers",
    "autovacuum_worker_slots",
    "wal_buffers",
    "track_activity_query_size",
    "io_max_concurrency",
    "shared_preload_libraries",
];

/// Whether a setting of a file is one of them; where the server works it out itself, what it has is another number.
fn decides(setting: &Setting) -> bool {
    DECIDE.contains(&setting.name.as_str()) && setting.value.trim() != "-1"
}

/// Between what its memory lies: a server says it in whole mebibytes, and a mapping is rounded up to the pages that it is on.
pub(super) fn now(instance: &Instance, said: Option<Bytes>) -> Option<Range> {
    let rounded_to = |up: Bytes| up.saturating_sub(Bytes(1));
    if let Some(most) = said {
        return Some(Range { least: most.saturating_sub(rounded_to(Bytes::from_mib(1))), most });
    }
    let most = instance.segment_bytes();
    let pages = instance.segments.iter().filter_map(|segment| segment.page_size.get());
    let page = pages.map(PageSize::bytes).max().unwrap_or(Bytes::from_kib(64));
    (most > Bytes::ZERO).then(|| Range { least: most.saturating_sub(rounded_to(page)), most })
}

/// What the files say of the next start, one setting of which is not what the server runs with; `now` is what it has.
fn next(
    host: &Host,
    instance: &Instance,
    values: BTreeMap<String, Setting>,
    in_force: &Settings,
    now: Option<Range>,
    changed: Setting,
) -> NextStart {
    let mut settings = Settings::of(&KIND);
    settings.values = values;
    let asked = asked(&settings);
    let version = instance.version.known().map(String::as_str);
    let page = asked_page_size(host, &settings).get().filter(|_| !matches!(asked, Asked::No | Asked::Cannot));
    let demand = page.and_then(|page| {
        let then = demand::size(&settings, version)?;
        let size = match now.zip(demand::size(in_force, version)) {
            Some((now, before)) => then.grown(now, before),
            None => then,
        };
        Some(size.in_pages(page))
    });
    NextStart { asked, setting: Some(changed), demands: demand.into_iter().collect() }
}

/// Puts what the server says in the place of what the files say, unless it is the same: then the
/// file and line are the better evidence. Whether it was another.
fn replace(settings: &mut Settings, name: &str, value: &str, unit: &str) -> bool {
    let blocks = |unit: &str| match unit {
        "8kB" => 8 << 10,
        "kB" => 1 << 10,
        "MB" => 1 << 20,
        _ => 1,
    };
    let said = conf::memory(value, blocks(unit));
    let read = settings.get(name).map(|setting| setting.value.clone());
    let same = match read {
        Observed::Known(text) if unit.is_empty() => text.eq_ignore_ascii_case(value),
        Observed::Known(text) => conf::memory(&text, blocks(unit)) == said,
        _ => false,
    };
    if !same {
        let value = match said {
            Some(bytes) if !unit.is_empty() => format!("{}kB", bytes / 1024),
            _ => value.to_owned(),
        };
        let place = Some(Place { file: "pg_settings".into(), line: 0 });
        settings.values.insert(name.to_owned(), Setting { name: name.to_owned(), value, place });
    }
    !same
}

#[cfg(test)]
mod tests {
    use super::super::tests::{DATA, files, host, only};
    use super::*;
    use hugewise_model::instance::{Demand, DemandSource};

    #[test]
    fn the_server_knows_better_than_its_files() {
        let host = host(PageSize::KIB_4);
        let mut instance = only(&host, &files());
        let text = "huge_pages\ton\t\nhuge_page_size\t0\tkB\nmax_connections\t300\t\nserver_version\t15.20 (Debian 15.20-0)\t\n\
            shared_buffers\t786432\t8kB\nshared_memory_size_in_huge_pages\t3156\t\nshared_memory_type\tmmap\t\nsessions\t41\t\n";
        answer(&host, &mut instance, text).unwrap();
        assert_eq!(instance.version, Observed::Known("15.20".into()));
        assert_eq!((instance.sessions.get(), instance.max_sessions.get()), (Some(41), Some(300)));
        assert_eq!(instance.asked, Asked::Must);
        assert_eq!(instance.setting.as_ref().unwrap().to_string(), "huge_pages=on (pg_settings)");
        let pages = PageCount(3156);
        assert_eq!(instance.demand, Some(Demand { page_size: PageSize::MIB_2, pages, source: DemandSource::Engine }));
        // What has not changed keeps its file and line.
        let place = instance.settings["shared_buffers"].place.as_ref().unwrap().to_string();
        assert_eq!(place, "/etc/postgresql/15/main/postgresql.conf:2");
        assert!(answer(&host, &mut instance, "nonsense").is_err());
    }

    #[test]
    fn pages_are_of_the_size_that_the_server_asks_for_and_none_too_many() {
        let host = host(PageSize::KIB_4);
        let mut instance = only(&host, &files());
        // PostgreSQL 15 at max_connections=86: the memory fills its 71 pages to the last byte.
        let text = "huge_page_size\t0\tkB\nshared_memory_size\t142\tMB\nshared_memory_size_in_huge_pages\t72\t\nsessions\t1\t\n";
        answer(&host, &mut instance, text).unwrap();
        assert_eq!(instance.demand.as_ref().unwrap().pages, PageCount(71));
        let text = "huge_page_size\t1048576\tkB\nshared_memory_size\t6311\tMB\nshared_memory_size_in_huge_pages\t7\t\nsessions\t1\t\n";
        answer(&host, &mut instance, text).unwrap();
        let demand = Demand { page_size: PageSize::GIB_1, pages: PageCount(7), source: DemandSource::Engine };
        assert_eq!(instance.demand, Some(demand));
    }

    /// As 15.20 says it of itself.
    const NOW: &str = "huge_pages\ttry\t\nhuge_page_size\t0\tkB\nmax_connections\t300\t\nshared_buffers\t786432\t8kB\n\
        shared_memory_type\tmmap\t\nwal_buffers\t2048\t8kB\nshared_memory_size\t6312\tMB\nsessions\t1\t\n";

    /// A server of 6 GiB and 300 connections wholly on huge pages, whose file says something else.
    fn changed(setting: &str) -> (Host, Instance) {
        let host = host(PageSize::MIB_2);
        let files = files().file(&format!("{DATA}/postgresql.auto.conf"), format!("wal_buffers = -1\n{setting}\n"));
        let instance = only(&host, &files);
        (host, instance)
    }

    /// One connection more is less than the reckoning's error.
    fn within_the_error() -> (Host, Instance) {
        let (host, instance) = changed("max_connections = 301");
        assert!(instance.next.is_absent() && !instance.perhaps.is_empty(), "{:?}", instance.perhaps);
        (host, instance)
    }

    #[test]
    fn a_server_that_has_all_of_its_files_in_force_settles_what_they_left_open() {
        let (host, mut instance) = within_the_error();
        answer(&host, &mut instance, &format!("file_errors\t0\t\n{NOW}")).unwrap();
        assert!(instance.next.is_absent() && instance.perhaps.is_empty(), "{:?}", instance.next);
        // One that may not be asked for its files leaves it open: a library's settings are in none of these.
        let (host, mut instance) = within_the_error();
        answer(&host, &mut instance, &NOW.replace("300", "301")).unwrap();
        assert!(instance.next.is_absent() && !instance.perhaps.is_empty(), "{:?}", instance.next);
    }

    /// PostgreSQL 15.20 says 3156 pages of itself with 300 connections and with 301, 3168 with 800.
    #[test]
    fn what_waits_for_a_start_is_reckoned_from_what_the_server_has() {
        for (connections, truth) in [("301", 3156), ("800", 3168)] {
            let (host, mut instance) = changed(&format!("max_connections = {connections}"));
            answer(&host, &mut instance, &format!("file_errors\t1\t\n{NOW}")).unwrap();
            let next = instance.next.known().expect("another start");
            assert_eq!(next.setting.as_ref().map(|setting| setting.value.as_str()), Some(connections));
            let [demand] = next.demands.as_slice() else { panic!("{next:?}") };
            let (least, most) = (demand.at_least().pages.get(), demand.at_most().pages.get());
            assert!(least <= truth && truth <= most && most <= least + 1, "{demand:?} and in truth {truth}");
            assert!(instance.perhaps.is_empty());
        }
    }
}
