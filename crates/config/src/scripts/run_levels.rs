//! Which init scripts run before others, where no systemd starts the host: one after the other, by
//! the names of the links in the folder of the run level (`S64mysqld`, `S99local`).
//!
//! `rc` of Red Hat, SUSE and Debian starts what begins with `S` in the order of the names. Where
//! `startpar` starts several at once the numbers are insserv's: a script has a higher one than all
//! that it waits for, and rc.local waits for all (`Required-Start: $all`).

use std::collections::BTreeSet;

use hugewise_model::configuration::PoolWriter;
use hugewise_source::FactReader;

use super::{RC_LOCAL, RUN_LEVELS};

/// Names under which links start rc.local; boot.local has run before any run level.
const STARTS_RC_LOCAL: [&str; 3] = ["local", "rc.local", "after.local"];

/// Fills in what has run before each of these, in every run level that starts it.
pub(crate) fn fill_earlier_scripts(door: &FactReader<'_>, writers: &mut [PoolWriter]) {
    if writers.is_empty() {
        return;
    }
    let levels: Vec<Vec<(String, String)>> =
        RUN_LEVELS.iter().map(|folder| list_start_links(door, folder)).collect();
    for writer in writers {
        let started = writer.by.as_ref().unwrap_or(&writer.place).file.as_str();
        let names = names_of_links(started);
        let earlier = levels.iter().zip(RUN_LEVELS).filter_map(|(links, folder)| {
            let own = links.iter().position(|(_, name)| names.contains(&name.as_str()))?;
            // Has a capture keep the links: it keeps what is read.
            for (link, _) in links.iter().take(own + 1) {
                drop(door.source.read_link(&format!("{folder}/{link}")));
            }
            let before = links.iter().take(own).map(|(_, name)| name.clone());
            Some(before.collect::<BTreeSet<_>>())
        });
        let in_all = earlier.reduce(|one, other| one.intersection(&other).cloned().collect());
        writer.after_scripts = in_all.unwrap_or_default();
    }
}

/// The links that start something, in their order, each with the script's name.
fn list_start_links(door: &FactReader<'_>, folder: &str) -> Vec<(String, String)> {
    let mut links: Vec<(String, String)> = door
        .source
        .list_folder(folder)
        .into_known()
        .unwrap_or_default()
        .into_iter()
        .filter_map(|link| {
            let rest = link.strip_prefix('S')?;
            let name = rest.trim_start_matches(|sign: char| sign.is_ascii_digit());
            let is_start = name.len() < rest.len() && !name.is_empty();
            let name = name.to_owned();
            is_start.then_some((link, name))
        })
        .collect();
    links.sort();
    links
}

fn names_of_links(file: &str) -> Vec<&str> {
    let name = file.rsplit('/').next().unwrap_or_default();
    match name {
        "boot.local" => Vec::new(),
        _ if RC_LOCAL.contains(&file) => STARTS_RC_LOCAL.to_vec(),
        _ if file.contains("/init.d/") => vec![name],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use hugewise_source::map::MapSource;

    use super::*;
    use crate::scripts;

    fn earlier(source: &MapSource) -> Vec<String> {
        let mut pools = scripts::read(&mut FactReader::new(source)).pools;
        fill_earlier_scripts(&FactReader::new(source), &mut pools);
        pools.into_iter().flat_map(|writer| writer.after_scripts).collect()
    }

    /// chkconfig's numbers of CentOS 6: mysqld 64 36, and rc.local as S99local.
    #[test]
    fn what_a_lower_number_starts_has_run_before() {
        let writes = "#!/bin/sh\necho 2200 > /proc/sys/vm/nr_hugepages\n";
        let red_hat = MapSource::new()
            .with_file("/etc/rc.d/rc.local", writes)
            .with_link("/etc/rc.d/rc3.d/S64mysqld", "../init.d/mysqld")
            .with_link("/etc/rc.d/rc3.d/K36postgresql", "../init.d/postgresql")
            .with_link("/etc/rc.d/rc3.d/S99local", "../rc.local")
            .with_link("/etc/rc.d/rc3.d/S99zabbix", "../init.d/zabbix");
        assert_eq!(earlier(&red_hat), ["mysqld"]);
        // What one run level starts later is not sure to have run.
        let other_level = red_hat
            .clone()
            .with_link("/etc/rc.d/rc5.d/S99mysqld", "../init.d/mysqld")
            .with_link("/etc/rc.d/rc5.d/S99local", "../rc.local");
        assert_eq!(earlier(&other_level), Vec::<String>::new());
        let script = MapSource::new()
            .with_file("/etc/init.d/hugepages", writes)
            .with_link("/etc/rc2.d/S02hugepages", "../init.d/hugepages")
            .with_link("/etc/rc2.d/S03postgresql", "../init.d/postgresql");
        assert_eq!(earlier(&script), Vec::<String>::new(), "the server comes later");
        let suse = MapSource::new()
            .with_file("/etc/init.d/boot.local", writes)
            .with_link("/etc/init.d/rc3.d/S01mysql", "../mysql");
        assert_eq!(earlier(&suse), Vec::<String>::new(), "boot.local comes before run levels");
    }
}
