//! What a running PostgreSQL says of itself.

use std::collections::BTreeMap;

use hugewise_model::configuration::FileLocation;
use hugewise_model::instance::{NextStart, ServerSetting};
use hugewise_model::{
    Bytes, Host, HugePageMode, HugePageUse, Instance, Observed, PageCount, PageSize,
};

use super::demand::Range;
use super::{
    KIND, asked_page_size, conf, demand, described, fill_in_requests, parse_huge_page_request,
    socket_of,
};
use crate::shared::live_query::{LiveQuery, NoAnswer, SocketPaths, parse_rows};
use crate::shared::settings::{ServerSettings, new_setting};

/// Settings in force, and sessions but our own. `huge_pages_status` exists since 17,
/// `shared_memory_size` and `shared_memory_size_in_huge_pages` since 15, `backend_type` since 10.
const QUERY: &str = "SELECT name, setting, coalesce(unit, '') FROM pg_catalog.pg_settings WHERE \
    name IN ('server_version', 'huge_pages', 'huge_page_size', 'huge_pages_status', \
    'shared_memory_type', 'shared_buffers', 'shared_memory_size', \
    'shared_memory_size_in_huge_pages', 'max_connections', 'min_dynamic_shared_memory', \
    'max_worker_processes', 'max_wal_senders', 'max_prepared_transactions', \
    'max_locks_per_transaction', 'max_pred_locks_per_transaction', 'autovacuum_max_workers', \
    'autovacuum_worker_slots', 'wal_buffers', 'track_activity_query_size', 'io_max_concurrency', \
    'shared_preload_libraries') UNION ALL SELECT 'sessions', pg_catalog.count(*)::pg_catalog.text, \
    '' FROM pg_catalog.pg_stat_activity WHERE backend_type = 'client backend' AND pid <> \
    pg_catalog.pg_backend_pid()";

/// How many entries of its files a running server does not have in force, as they wait for a start
/// or are wrong; it reads its files anew for this (9.5 and later). Only superusers may ask, so it
/// is asked separately, and first: psql ends as its last command did.
const QUERY_OF_FILES: &str = "SELECT 'file_errors', pg_catalog.count(*)::pg_catalog.text, '' FROM \
    pg_catalog.pg_file_settings WHERE error IS NOT NULL";

pub(crate) fn build_query(
    instance: &Instance,
    sockets: &SocketPaths<'_>,
) -> Result<LiveQuery, NoAnswer> {
    let (folder, port) =
        socket_of(instance).ok_or(NoAnswer::NoSocket("; run as root or as its owner"))?;
    let path = sockets.resolve_socket(&format!("{folder}/.s.PGSQL.{port}"))?;
    let folder = path.rsplit_once('/').map_or("/", |(folder, _)| folder);
    let server =
        ["-XAtqw", "-F", "\t", "-h", folder, "-p", port, "-U", &instance.owner, "-d", "postgres"];
    let questions = ["-c", QUERY_OF_FILES, "-c", QUERY];
    Ok(LiveQuery {
        programs: &["psql"],
        arguments: server.into_iter().chain(questions).map(String::from).collect(),
    })
}

pub(crate) fn apply_reply(
    host: &Host,
    instance: &mut Instance,
    text: &str,
) -> Result<(), NoAnswer> {
    if !parse_rows(text).any(|(name, ..)| name == "sessions") {
        return Err(NoAnswer::Senseless("psql gave no"));
    }
    let mut settings = ServerSettings::from_values(&KIND, std::mem::take(&mut instance.settings));
    let by_files = settings.values.clone();
    let mut sizes = ReportedSizes::default();
    let mut changed = None;
    for (name, value, unit) in parse_rows(text) {
        sizes.apply_row(instance, name, value);
        if !["sessions", "server_version", "file_errors"].contains(&name)
            && replace_setting(&mut settings, name, value, unit)
        {
            let decisive = by_files.get(name).filter(|setting| decides_memory(setting));
            changed = changed.or_else(|| decisive.cloned());
        }
    }
    if sizes.unapplied == Some(0) {
        // Whatever the formula says: the files are what it runs with.
        instance.next = Observed::Absent;
        instance.possible_demands.clear();
    } else if let Some(setting) = changed {
        let same_libraries = preload_libraries(&by_files) == preload_libraries(&settings.values);
        let now = current_memory_range(instance, sizes.memory);
        instance.next =
            Observed::Known(predict_next_start(host, instance, by_files, &settings, now, setting));
        if same_libraries {
            instance.possible_demands.clear();
        }
    }
    fill_in_requests(host, instance, &settings);
    let reported = instance
        .asked_page_size
        .get()
        .and_then(|page| demand::reported_demand(sizes.memory, sizes.pages, page));
    instance.demand = reported.or(instance.demand.take());
    instance.settings = settings.values;
    Ok(())
}

#[derive(Default)]
struct ReportedSizes {
    memory: Option<Bytes>,
    pages: Option<PageCount>,
    unapplied: Option<u64>,
}

impl ReportedSizes {
    fn apply_row(&mut self, instance: &mut Instance, name: &str, value: &str) {
        match name {
            "server_version" => {
                instance.version = value.split_whitespace().next().map(str::to_owned).into();
            }
            "sessions" => instance.sessions = value.parse().ok().into(),
            "file_errors" => self.unapplied = value.parse::<u64>().ok(),
            "shared_memory_size" => self.memory = conf::parse_memory(value, 1 << 20).map(Bytes),
            "shared_memory_size_in_huge_pages" => {
                self.pages = value.parse::<u64>().ok().map(PageCount);
            }
            "huge_pages_status" if instance.huge_pages == HugePageUse::Unknown => {
                instance.huge_pages = match value {
                    "on" => HugePageUse::All,
                    "off" => HugePageUse::None,
                    _ => HugePageUse::Unknown,
                };
            }
            _ => {}
        }
    }
}

fn preload_libraries(settings: &BTreeMap<String, ServerSetting>) -> &str {
    settings.get("shared_preload_libraries").map_or("", |setting| setting.value.as_str())
}

/// Whether a setting decides on the main memory and its pages, and changes only at a start; -1 stands
/// for the server's own number.
fn decides_memory(setting: &ServerSetting) -> bool {
    const OTHERS: [&str; 3] = ["huge_pages", "shared_memory_type", "shared_preload_libraries"];
    let name = setting.name.as_str();
    let is_size = described::SIZES.iter().any(|(size, _)| *size == name);
    (is_size || described::COUNTS.contains(&name) || OTHERS.contains(&name))
        && setting.value.trim() != "-1"
}

/// Bounds of its memory now: a server says it in mebibytes, and a mapping is rounded up to pages.
pub(super) fn current_memory_range(instance: &Instance, said: Option<Bytes>) -> Option<Range> {
    let rounded_to = |up: Bytes| up.saturating_sub(Bytes(1));
    if let Some(most) = said {
        return Some(Range { least: most.saturating_sub(rounded_to(Bytes::from_mib(1))), most });
    }
    let most = instance.segment_bytes();
    let pages = instance.segments.iter().filter_map(|segment| segment.page_size.get());
    let page = pages.map(PageSize::bytes).max().unwrap_or(Bytes::from_kib(64));
    (most > Bytes::ZERO).then(|| Range { least: most.saturating_sub(rounded_to(page)), most })
}

/// What the files say of the next start after a setting was changed; `now` is what is mapped.
fn predict_next_start(
    host: &Host,
    instance: &Instance,
    values: BTreeMap<String, ServerSetting>,
    in_force: &ServerSettings,
    now: Option<Range>,
    changed: ServerSetting,
) -> NextStart {
    let settings = ServerSettings::from_values(&KIND, values);
    let asked = parse_huge_page_request(&settings);
    let version = instance.version.as_known().map(String::as_str);
    let page = asked_page_size(host, &settings)
        .get()
        .filter(|_| !matches!(asked, HugePageMode::No | HugePageMode::Cannot));
    let demand = page.and_then(|page| {
        let then = demand::estimate_size(&settings, version)?;
        let size = match now.zip(demand::estimate_size(in_force, version)) {
            Some((now, before)) => then.grown_from(now, before),
            None => then,
        };
        Some(size.in_pages(page))
    });
    NextStart { asked, setting: Some(changed), demands: demand.into_iter().collect() }
}

/// Replaces a setting of the files by the server's word where they differ, and says whether they
/// do: otherwise file and line are the better evidence.
fn replace_setting(settings: &mut ServerSettings, name: &str, value: &str, unit: &str) -> bool {
    let blocks = |unit: &str| match unit {
        "8kB" => 8 << 10,
        "kB" => 1 << 10,
        "MB" => 1 << 20,
        _ => 1,
    };
    let said = conf::parse_memory(value, blocks(unit));
    let read = settings.get(name).map(|setting| setting.value.clone());
    let same = match read {
        Observed::Known(text) if unit.is_empty() => text.eq_ignore_ascii_case(value),
        Observed::Known(text) => conf::parse_memory(&text, blocks(unit)) == said,
        _ => false,
    };
    if !same {
        let value = match said {
            Some(bytes) if !unit.is_empty() => format!("{}kB", bytes / 1024),
            _ => value.to_owned(),
        };
        let place = Some(FileLocation { file: "pg_settings".into(), line: 0 });
        let setting = new_setting(name, value, place);
        settings.values.insert(name.to_owned(), setting);
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
        apply_reply(&host, &mut instance, text).unwrap();
        assert_eq!(instance.version, Observed::Known("15.20".into()));
        assert_eq!((instance.sessions.get(), instance.max_sessions.get()), (Some(41), Some(300)));
        assert_eq!(instance.asked, HugePageMode::Must);
        assert_eq!(instance.setting.as_ref().unwrap().to_string(), "huge_pages=on (pg_settings)");
        let pages = PageCount(3156);
        assert_eq!(
            instance.demand,
            Some(Demand { page_size: PageSize::MIB_2, pages, source: DemandSource::Engine })
        );
        // What has not changed keeps its file and line.
        let place = instance.settings["shared_buffers"].place.as_ref().unwrap().to_string();
        assert_eq!(place, "/etc/postgresql/15/main/postgresql.conf:2");
        assert!(apply_reply(&host, &mut instance, "nonsense").is_err());
    }

    #[test]
    fn pages_are_of_the_size_that_the_server_asks_for_and_none_too_many() {
        let host = host(PageSize::KIB_4);
        let mut instance = only(&host, &files());
        // PostgreSQL 15 at max_connections=86: the memory fills its 71 pages to the last byte.
        let text = "huge_page_size\t0\tkB\nshared_memory_size\t142\tMB\nshared_memory_size_in_huge_pages\t72\t\nsessions\t1\t\n";
        apply_reply(&host, &mut instance, text).unwrap();
        assert_eq!(instance.demand.as_ref().unwrap().pages, PageCount(71));
        let text = "huge_page_size\t1048576\tkB\nshared_memory_size\t6311\tMB\nshared_memory_size_in_huge_pages\t7\t\nsessions\t1\t\n";
        apply_reply(&host, &mut instance, text).unwrap();
        let demand = Demand {
            page_size: PageSize::GIB_1,
            pages: PageCount(7),
            source: DemandSource::Engine,
        };
        assert_eq!(instance.demand, Some(demand));
    }

    /// As 15.20 says it of itself.
    const NOW: &str = "huge_pages\ttry\t\nhuge_page_size\t0\tkB\nmax_connections\t300\t\nshared_buffers\t786432\t8kB\n\
        shared_memory_type\tmmap\t\nwal_buffers\t2048\t8kB\nshared_memory_size\t6312\tMB\nsessions\t1\t\n";

    /// A server of 6 GiB and 300 connections wholly on huge pages, whose file says something else.
    fn changed(setting: &str) -> (Host, Instance) {
        let host = host(PageSize::MIB_2);
        let files = files().with_file(
            &format!("{DATA}/postgresql.auto.conf"),
            format!("wal_buffers = -1\n{setting}\n"),
        );
        let instance = only(&host, &files);
        (host, instance)
    }

    /// One connection more is less than the reckoning's error.
    fn within_the_error() -> (Host, Instance) {
        let (host, instance) = changed("max_connections = 301");
        assert!(
            instance.next.is_absent() && !instance.possible_demands.is_empty(),
            "{:?}",
            instance.possible_demands
        );
        (host, instance)
    }

    #[test]
    fn a_server_that_has_all_of_its_files_in_force_settles_what_they_left_open() {
        let (host, mut instance) = within_the_error();
        apply_reply(&host, &mut instance, &format!("file_errors\t0\t\n{NOW}")).unwrap();
        assert!(
            instance.next.is_absent() && instance.possible_demands.is_empty(),
            "{:?}",
            instance.next
        );
        // One that may not be asked for its files leaves it open: a library's settings are in none
        // of these.
        let (host, mut instance) = within_the_error();
        apply_reply(&host, &mut instance, &NOW.replace("300", "301")).unwrap();
        assert!(
            instance.next.is_absent() && !instance.possible_demands.is_empty(),
            "{:?}",
            instance.next
        );
    }

    /// PostgreSQL 15.20 says 3156 pages of itself with 300 connections and with 301, 3168 with 800.
    #[test]
    fn what_waits_for_a_start_is_reckoned_from_what_the_server_has() {
        for (connections, truth) in [("301", 3156), ("800", 3168)] {
            let (host, mut instance) = changed(&format!("max_connections = {connections}"));
            apply_reply(&host, &mut instance, &format!("file_errors\t1\t\n{NOW}")).unwrap();
            let next = instance.next.as_known().expect("another start");
            assert_eq!(
                next.setting.as_ref().map(|setting| setting.value.as_str()),
                Some(connections)
            );
            let [demand] = next.demands.as_slice() else { panic!("{next:?}") };
            let (least, most) = (demand.at_least().pages.get(), demand.at_most().pages.get());
            assert!(
                least <= truth && truth <= most && most <= least + 1,
                "{demand:?} and in truth {truth}"
            );
            assert!(instance.possible_demands.is_empty());
        }
    }
}
