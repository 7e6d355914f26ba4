//! What a running MySQL or MariaDB says of itself.

use hugewise_model::configuration::FileLocation;
use hugewise_model::instance::NextStart;
use hugewise_model::{Engine, Host, Instance, Observed};

use super::values::is_on;
use super::{AllocationSizes, KIND, cnf, compute_demand, parse_huge_page_request};
use crate::shared::live_query::{LiveQuery, NoAnswer, SocketPaths, parse_rows};
use crate::shared::settings::{ServerSettings, new_setting};

const QUERY: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'large_pages', \
    'innodb_buffer_pool_size', 'innodb_buffer_pool_chunk_size', 'innodb_buffer_pool_instances', \
    'innodb_log_buffer_size', 'key_buffer_size', 'aria_pagecache_buffer_size', 'max_connections', \
    'port'); SHOW GLOBAL STATUS LIKE 'Threads_connected'";

pub(crate) fn build_query(
    instance: &Instance,
    sockets: &SocketPaths<'_>,
) -> Result<LiveQuery, NoAnswer> {
    let socket = instance.endpoints.iter().find(|endpoint| endpoint.starts_with('/'));
    let socket = socket.ok_or(NoAnswer::NoSocket(": no `socket` in its option files"))?;
    let path = sockets.resolve_socket(socket)?;
    let words = [
        "--no-defaults",
        // Whoever answers may ask for any file that the client can read.
        "--local-infile=0",
        "--connect-timeout=3",
        "-NB",
        "-S",
        &path,
        "-u",
        &instance.owner,
        "-e",
        QUERY,
    ];
    let programs: &[&str] =
        if instance.engine == Engine::MariaDb { &["mariadb", "mysql"] } else { &["mysql"] };
    Ok(LiveQuery { programs, arguments: words.map(String::from).to_vec() })
}

pub(crate) fn apply_reply(_: &Host, instance: &mut Instance, text: &str) -> Result<(), NoAnswer> {
    let connected = parse_rows(text).find(|(name, ..)| *name == "Threads_connected");
    let connected = connected
        .and_then(|(_, value, _)| value.parse::<u64>().ok())
        .ok_or(NoAnswer::Senseless("no"))?;
    let by_files = ServerSettings::from_values(&KIND, std::mem::take(&mut instance.settings));
    let mut settings = by_files.clone();
    for (name, value, _) in parse_rows(text).filter(|(name, ..)| *name != "Threads_connected") {
        if name == "version" {
            instance.version = Observed::Known(value.to_owned());
        } else {
            replace_setting(&mut settings, name, value);
        }
    }
    // One of them is ours.
    instance.sessions = Observed::Known(connected.saturating_sub(1));
    instance.asked = parse_huge_page_request(&settings);
    instance.setting = settings.get("large_pages").as_known().map(|setting| (*setting).clone());
    instance.max_sessions =
        settings.value_or("max_connections", "151").parse(|value| value.parse::<u64>());
    let sizes = AllocationSizes::for_instance(instance, &settings);
    settle_next_start(instance, &by_files, &settings);
    if let Some(page) = instance.asked_page_size.get() {
        (instance.demand, instance.other_demands) =
            compute_demand(instance.huge_pages, &instance.segments, sizes.as_ref(), page);
    }
    instance.settings = settings.values;
    Ok(())
}

/// Decides whether its files come to more than it runs with, where what is mapped left that open.
fn settle_next_start(
    instance: &mut Instance,
    by_files: &ServerSettings,
    in_force: &ServerSettings,
) {
    let Some(page) =
        instance.asked_page_size.get().filter(|_| !instance.possible_demands.is_empty())
    else {
        return;
    };
    let sizes = |settings| AllocationSizes::for_instance(instance, settings);
    let (Some(then), Some(now)) = (sizes(by_files), sizes(in_force)) else { return };
    let pages = |sizes: &AllocationSizes| sizes.least_demand(page).map(|demand| demand.pages);
    if pages(&then) > pages(&now) {
        let changed = by_files.values.values().find(|setting| {
            let said = in_force.values.get(&setting.name);
            said.is_some_and(|said| {
                cnf::parse_bytes(&said.value) != cnf::parse_bytes(&setting.value)
            })
        });
        let demands = then.to_demand(page).into_iter().collect();
        let setting = changed.or_else(|| by_files.values.get("innodb_buffer_pool_size")).cloned();
        instance.next = Observed::Known(NextStart {
            asked: parse_huge_page_request(by_files),
            setting,
            demands,
        });
    }
    instance.possible_demands.clear();
}

/// Replaces a setting of the files by the server's word where they differ: otherwise file and line
/// are the better evidence.
fn replace_setting(settings: &mut ServerSettings, name: &str, value: &str) {
    let read = settings.get(name).map(|setting| setting.value.clone()).into_known();
    let same = |read: &String| match (cnf::parse_bytes(read), cnf::parse_bytes(value)) {
        (Some(read), Some(said)) => read == said,
        _ => is_on(read) == is_on(value),
    };
    if !read.as_ref().is_some_and(same) {
        let place = Some(FileLocation { file: "SHOW GLOBAL VARIABLES".into(), line: 0 });
        let setting = new_setting(name, value, place);
        settings.values.insert(name.to_owned(), setting);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{mariadb, on_base_pages};
    use super::*;
    use hugewise_model::HugePageMode;

    /// A server may answer any query with a request for a file (LOAD DATA LOCAL).
    #[test]
    fn the_client_sends_no_file_to_whoever_answers() {
        let mut instance = mariadb(on_base_pages(), "");
        instance.endpoints.push("/run/mysqld/mysqld.sock".into());
        let (host, main) = (Host::default(), hugewise_model::Process::default());
        let query = build_query(&instance, &SocketPaths::new(&host, &main)).unwrap();
        assert!(query.arguments.contains(&"--local-infile=0".to_owned()), "{:?}", query.arguments);
    }

    #[test]
    fn the_server_knows_better_than_its_files() {
        let mut instance = mariadb(on_base_pages(), "max_connections=400\n");
        let text = "innodb_buffer_pool_size\t536870912\nlarge_pages\tON\nmax_connections\t500\nversion\t10.11.19-MariaDB\n\
            Threads_connected\t8\n";
        apply_reply(&Host::default(), &mut instance, text).unwrap();
        assert_eq!((instance.sessions.get(), instance.max_sessions.get()), (Some(7), Some(500)));
        assert_eq!(instance.asked, HugePageMode::Try);
        assert_eq!(
            instance.settings["large_pages"].to_string(),
            "large_pages=ON (SHOW GLOBAL VARIABLES)"
        );
        assert_eq!(
            instance.settings["innodb_buffer_pool_size"].to_string(),
            "innodb_buffer_pool_size=512M (/etc/mysql/my.cnf:2)"
        );
        assert!(apply_reply(&Host::default(), &mut instance, "").is_err());
    }
}
