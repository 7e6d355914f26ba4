//! /etc/sysfs.conf and the files of /etc/sysfs.d, which the service of Debian's sysfsutils writes to
//! /sys at each boot: `kernel/mm/transparent_hugepage/enabled = never`.
//!
//! Its unit comes before sysinit.target, as systemd-tmpfiles-setup.service does; without systemd its
//! init script does the same.

use hugewise_model::configuration::BootOrder;

use super::{BootScriptScan, BootScriptWrite, MOST, words};
use crate::files::{file_location, numbered_lines};
use crate::systemd;

const CONF: &str = "/etc/sysfs.conf";
const FOLDER: &str = "/etc/sysfs.d";
const UNIT: &str = "sysfsutils.service";

impl BootScriptScan<'_, '_> {
    pub(super) fn scan_sysfs_conf(&mut self) {
        let names = self.list_names(FOLDER).into_iter().filter(|name| name.ends_with(".conf"));
        let files: Vec<String> = std::iter::once(CONF.to_owned())
            .chain(names.map(|name| format!("{FOLDER}/{name}")))
            .filter(|file| !self.door.source.read_limited(file, MOST).is_absent())
            .collect();
        if files.is_empty() || !self.is_sysfs_conf_applied() {
            return;
        }
        for file in files {
            let Some(bytes) = self.read_once(&file, true) else { continue };
            let written = numbered_lines(&bytes)
                .filter_map(|(line, text)| Some((line, to_command(&text)?)))
                .flat_map(|(line, command)| {
                    words::of_command(&command).into_iter().map(move |what| (line, what))
                });
            let order = BootOrder::Beside;
            let writes: Vec<BootScriptWrite> = written
                .map(|(line, what)| {
                    let place = file_location(&file, line);
                    BootScriptWrite { what, place, by: None, order }
                })
                .collect();
            if !writes.is_empty() {
                self.record_file(&file);
            }
            self.found.extend(writes);
        }
    }

    fn is_sysfs_conf_applied(&self) -> bool {
        let wanted = systemd::read_wanted(self.door);
        let by_unit = wanted.get(UNIT).and_then(|links| links.first());
        if let Some(link) = by_unit {
            drop(self.door.source.read_link(link));
            return systemd::find_mask(self.door, UNIT).is_none();
        }
        self.find_start_link("sysfsutils").is_some_and(|link| {
            drop(self.door.source.read_link(&link));
            true
        })
    }
}

/// `kernel/mm/.../enabled = never` as the command that does the same.
fn to_command(line: &str) -> Option<String> {
    let line = line.trim();
    let (path, value) = line.split_once('=').filter(|_| !line.starts_with('#'))?;
    let path = path.trim().trim_start_matches('/');
    // `mode` and `owner` of a file stand before its path.
    let is_plain = !path.is_empty() && !path.contains(char::is_whitespace);
    is_plain.then(|| format!("echo {} > /sys/{path}", value.trim()))
}

#[cfg(test)]
mod tests {
    use hugewise_source::FactReader;
    use hugewise_source::map::MapSource;

    use crate::scripts;

    #[test]
    fn what_sysfs_conf_says_counts_where_its_service_runs() {
        let text = "# comment\nkernel/mm/transparent_hugepage/enabled = never\n\
                    mode kernel/mm/transparent_hugepage/enabled = 0644\n\
                    kernel/mm/hugepages/hugepages-2048kB/nr_hugepages = 64\n";
        let found = |source: &MapSource| {
            let writers = scripts::read(&mut FactReader::new(source));
            let thp = writers.thp.iter().map(|writer| (writer.value.clone(), writer.to_string()));
            (thp.collect::<Vec<_>>(), writers.pools.iter().map(ToString::to_string).collect())
        };
        let idle = MapSource::new().with_file("/etc/sysfs.conf", text);
        assert_eq!(found(&idle), (Vec::new(), Vec::<String>::new()));
        let both = (
            vec![(Some("never".to_owned()), "/etc/sysfs.conf:2".to_owned())],
            vec!["/etc/sysfs.conf:4".to_owned()],
        );
        let unit = "/lib/systemd/system/sysfsutils.service";
        let wanted = "/etc/systemd/system/sysinit.target.wants/sysfsutils.service";
        assert_eq!(found(&idle.clone().with_link(wanted, unit)), both);
        assert_eq!(found(&idle.with_link("/etc/rc2.d/S02sysfsutils", "../init.d/x")), both);
    }
}
