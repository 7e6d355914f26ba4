//! What a running MySQL or MariaDB says of itself.

use hugewise_model::configuration::Place;
use hugewise_model::instance::{NextStart, Setting};
use hugewise_model::{Engine, Host, Instance, Observed};

use super::values::is_on;
use super::{KIND, Sizes, asked, cnf, demand};
use crate::question::{NoAnswer, Question, Sockets, rows};
use crate::settings::Settings;

const QUERY: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'large_pages', 'innodb_buffer_pool_size', \
    'innodb_buffer_pool_chunk_size', 'innodb_buffer_pool_instances', 'innodb_log_buffer_size', 'key_buffer_size', \
    'aria_pagecache_buffer_size', 'max_connections', 'port'); SHOW GLOBAL STATUS LIKE 'Threads_connected'";

/// How to ask an instance.
pub(crate) fn question(instance: &Instance, sockets: &Sockets<'_>) -> Result<Question, NoAnswer> {
    let socket = instance.endpoints.iter().find(|endpoint| endpoint.starts_with('/'));
    let socket = socket.ok_or(NoAnswer::NoSocket(": no `socket` in its option files"))?;
    let path = sockets.reach(socket)?;
    let words = ["--no-defaults", "--connect-timeout=3", "-NB", "-S", &path, "-u", &instance.owner, "-e", QUERY];
    let programs: &[&str] = if instance.engine == Engine::MariaDb { &["mariadb", "mysql"] } else { &["mysql"] };
    Ok(Question { programs, arguments: words.map(String::from).to_vec() })
}

/// Takes its answer in.
pub(crate) fn answer(_: &Host, instance: &mut Instance, text: &str) -> Result<(), NoAnswer> {
    let connected = rows(text).find(|(name, ..)| *name == "Threads_connected");
    let connected = connected.and_then(|(_, value, _)| value.parse::<u64>().ok()).ok_or(NoAnswer::Senseless("no"))?;
    let mut settings = Settings::of(&KIND);
    settings.values.append(&mut instance.settings);
    let mut by_files = Settings::of(&KIND);
    by_files.values.clone_from(&settings.values);
    for (name, value, _) in rows(text).filter(|(name, ..)| *name != "Threads_connected") {
        if name == "version" {
            instance.version = Observed::Known(value.to_owned());
        } else {
            replace(&mut settings, name, value);
        }
    }
    // One of them is ours.
    instance.sessions = Observed::Known(connected.saturating_sub(1));
    instance.asked = asked(&settings);
    instance.setting = settings.get("large_pages").known().map(|setting| (*setting).clone());
    instance.max_sessions = settings.value_or("max_connections", "151").parse(|value| value.parse::<u64>());
    let version = instance.version.known().and_then(|version| super::numbers(version));
    let sizes = Sizes::of(&settings, instance.engine == Engine::MariaDb, version);
    settle(instance, &by_files, &settings);
    if let Some(page) = instance.asked_page_size.get() {
        (instance.demand, instance.beside) = demand(instance.huge_pages, &instance.segments, sizes.as_ref(), page);
    }
    instance.settings = settings.values;
    Ok(())
}

/// Says whether its files come to more than it runs with, where what it has mapped left that open.
fn settle(instance: &mut Instance, by_files: &Settings, in_force: &Settings) {
    let Some(page) = instance.asked_page_size.get().filter(|_| !instance.perhaps.is_empty()) else { return };
    let version = instance.version.known().and_then(|version| super::numbers(version));
    let sizes = |settings| Sizes::of(settings, instance.engine == Engine::MariaDb, version);
    let (Some(then), Some(now)) = (sizes(by_files), sizes(in_force)) else { return };
    let pages = |sizes: &Sizes| sizes.least_demand(page).map(|demand| demand.pages);
    if pages(&then) > pages(&now) {
        let changed = by_files.values.values().find(|setting| {
            let said = in_force.values.get(&setting.name);
            said.is_some_and(|said| cnf::bytes(&said.value) != cnf::bytes(&setting.value))
        });
        let demands = then.demand(page).into_iter().collect();
        let setting = changed.or_else(|| by_files.values.get("innodb_buffer_pool_size")).cloned();
        instance.next = Observed::Known(NextStart { asked: asked(by_files), setting, demands });
    }
    instance.perhaps.clear();
}

/// Puts what the server says in the place of what the files say, unless it is the same: then the
/// file and line are the better evidence.
fn replace(settings: &mut Settings, name: &str, value: &str) {
    let read = settings.get(name).map(|setting| setting.value.clone()).into_known();
    let same = |read: &String| match (cnf::bytes(read), cnf::bytes(value)) {
        (Some(read), Some(said)) => read == said,
        _ => is_on(read) == is_on(value),
    };
    if !read.as_ref().is_some_and(same) {
        let place = Some(Place { file: "SHOW GLOBAL VARIABLES".into(), line: 0 });
        settings.values.insert(name.to_owned(), Setting { name: name.to_owned(), value: value.to_owned(), place });
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{mariadb, on_base_pages};
    use super::*;
    use hugewise_model::Asked;

    #[test]
    fn the_server_knows_better_than_its_files() {
        let mut instance = mariadb(on_base_pages(), "max_connections=400\n");
        let text = "innodb_buffer_pool_size\t536870912\nlarge_pages\tON\nmax_connections\t500\nversion\t10.11.19-MariaDB\n\
            Threads_connected\t8\n";
        answer(&Host::default(), &mut instance, text).unwrap();
        assert_eq!((instance.sessions.get(), instance.max_sessions.get()), (Some(7), Some(500)));
        assert_eq!(instance.asked, Asked::Try);
        assert_eq!(instance.settings["large_pages"].to_string(), "large_pages=ON (SHOW GLOBAL VARIABLES)");
        assert_eq!(
            instance.settings["innodb_buffer_pool_size"].to_string(),
            "innodb_buffer_pool_size=512M (/etc/mysql/my.cnf:2)"
        );
        assert!(answer(&Host::default(), &mut instance, "").is_err());
    }
}
