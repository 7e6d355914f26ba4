//! PostgreSQL servers that a Patroni on this host would start, and that do not run: its file names
//! the data directory (`postgresql: data_dir`), the programs and the folder of postgresql.conf.

use std::collections::BTreeMap;

use hugewise_host::{FactReader, Source};
use hugewise_model::trusted_by::TrustReason;
use hugewise_model::{AtBoot, Observed, Process, StoppedInstance};

use super::{build_instance, stopped};
use crate::each_known;
use crate::shared::discovery::{Discovery, StoppedServer};
use crate::shared::options;

const MOST_OF_FILE: u64 = 1 << 20;

pub(super) fn find_servers(discovery: &mut Discovery<'_>) {
    let daemons: Vec<(Process, String)> = each_known(&discovery.scene.host.processes)
        .filter_map(|process| Some((process.as_ref().clone(), find_config_file(process)?)))
        .collect();
    for (daemon, file) in daemons {
        if let Some(server) = build_server(discovery, &daemon, &file) {
            discovery.add(server);
        }
    }
}

/// `/usr/bin/python3 /usr/bin/patroni /etc/patroni/patroni.yml`
fn find_config_file(process: &Process) -> Option<String> {
    let words = process.command.as_known()?;
    let at = words.iter().take(3).position(|word| options::file_name(word) == "patroni")?;
    let mut rest = words.get(at + 1..)?.iter();
    rest.find(|word| word.starts_with('/')).cloned()
}

fn build_server(discovery: &Discovery<'_>, daemon: &Process, file: &str) -> Option<StoppedServer> {
    let scene = discovery.scene;
    let files = scene.files_of(daemon);
    let bytes = files.read_limited(file, MOST_OF_FILE).into_known()?;
    let section = parse_section(&String::from_utf8_lossy(&bytes));
    let path = |key: &str| section.get(key).filter(|path| path.starts_with('/'));
    let data = path("data_dir")?.trim_end_matches('/').to_owned();
    let mut facts = FactReader::new(&files);
    if stopped::is_running_on(discovery, &mut facts, &data)
        || discovery.is_listed(&data)
        || files.read(&format!("{data}/PG_VERSION")).is_absent()
    {
        return None;
    }
    let program = path("bin_dir")
        .map_or_else(|| "postgres".to_owned(), |folder| format!("{folder}/postgres"));
    let folder = path("config_dir").unwrap_or(&data).trim_end_matches('/');
    let config = format!("config_file={folder}/postgresql.conf");
    let command = [program.as_str(), "-D", &data, "-c", &config].map(str::to_owned);
    let main = Process {
        directory: Observed::Known(data),
        ..discovery.new_process(daemon.uid, command.to_vec())
    };
    let mut instance = build_instance(scene, &mut facts, &main, &[]);
    instance.owner = discovery.owner_in_words(daemon.uid, "postgres");
    let runs = format!("Patroni runs (pid {}) and starts it ({file})", daemon.pid);
    Some(StoppedServer {
        process: main,
        instance,
        asleep: StoppedInstance::new(file.to_owned(), AtBoot::Yes(runs)),
        voucher: TrustReason::Listed,
        starter: None,
        unread: facts.unread,
    })
}

/// The plain values below `postgresql:`, one level deep.
fn parse_section(text: &str) -> BTreeMap<String, String> {
    let mut values = BTreeMap::new();
    let mut is_inside = false;
    let mut depth = None;
    for line in text.lines() {
        let plain = line.trim_start();
        if plain.is_empty() || plain.starts_with('#') {
            continue;
        }
        let indent = line.len() - plain.len();
        if indent == 0 {
            is_inside = plain.trim_end() == "postgresql:";
            depth = None;
            continue;
        }
        if !is_inside || indent != *depth.get_or_insert(indent) {
            continue;
        }
        if let Some((key, value)) = plain.split_once(':') {
            let value = value.split(" #").next().unwrap_or_default().trim();
            values.insert(key.trim().to_owned(), value.trim_matches(['"', '\'']).to_owned());
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::parse_section;

    #[test]
    fn the_servers_own_section_is_read_one_level_deep() {
        let text = "scope: main\nbootstrap:\n  postgresql:\n    data_dir: /no\npostgresql:\n  \
                    # comment\n  listen: 192.0.2.1:5432\n  data_dir: \"/srv/pg/b\" # here\n  \
                    parameters:\n    data_dir: /no\n  bin_dir: /opt/bin\ntags:\n  bin_dir: /no\n";
        let found = parse_section(text);
        assert_eq!(found["data_dir"], "/srv/pg/b");
        assert_eq!(found["bin_dir"], "/opt/bin");
        assert_eq!(found["listen"], "192.0.2.1:5432");
    }
}
