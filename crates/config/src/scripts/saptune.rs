//! saptune: its service applies SAP's notes at each boot, in the order of `NOTE_APPLY_ORDER`
//! (saptune(8), saptune-note(5)). A note's `[vm]` section says `THP=madvise`, and its `[sysctl]`
//! section `vm.nr_hugepages=512`; of several the last one counts, and a file of that name below
//! `override` replaces the note's value.

use hugewise_model::configuration::BootOrder;

use super::{BootScriptScan, BootScriptWrite, BootWrite, MOST, words};
use crate::files::{file_location, numbered_lines};
use crate::systemd;

const CONFIGURATION: &str = "/etc/sysconfig/saptune";
const UNIT: &str = "saptune.service";
const MOST_NOTES: usize = 64;

/// The first that has a note says what is in it; an override comes after it.
const NOTES: [&str; 3] =
    ["/var/lib/saptune/working/notes", "/usr/share/saptune/notes", "/etc/saptune/extra"];
const OVERRIDES: &str = "/etc/saptune/override";

impl BootScriptScan<'_, '_> {
    pub(super) fn scan_saptune(&mut self) {
        let read = |door: &hugewise_source::FactReader<'_>| {
            door.source.read_limited(CONFIGURATION, MOST).into_known()
        };
        let Some(configuration) = read(self.door) else { return };
        if systemd::find_mask(self.door, UNIT).is_some() {
            return;
        }
        let wanted = systemd::read_wanted(self.door);
        let Some(link) = wanted.get(UNIT).and_then(|links| links.first()) else { return };
        drop(self.door.source.read_link(link));
        self.record_file(CONFIGURATION);
        for note in parse_order(&configuration).into_iter().take(MOST_NOTES) {
            let files = NOTES.iter().map(|folder| format!("{folder}/{note}"));
            let own = files.into_iter().find(|file| !self.door.source.read(file).is_absent());
            for file in own.into_iter().chain([format!("{OVERRIDES}/{note}")]) {
                self.scan_note(&file);
            }
        }
    }

    fn scan_note(&mut self, file: &str) {
        let Some(bytes) = self.read_once(file, false) else { return };
        let mut section = String::new();
        let (mut thp, mut pool) = (None, None);
        for (line, text) in numbered_lines(&bytes) {
            let text = text.trim();
            if text.starts_with('[') {
                section = text.to_owned();
            }
            let Some((key, value)) = text.split_once('=') else { continue };
            let value = value.trim();
            match (section.as_str(), key.trim()) {
                ("[vm]", "THP") => {
                    let file = "/sys/kernel/mm/transparent_hugepage/enabled";
                    thp = Some((line, format!("echo {value} > {file}")));
                }
                ("[sysctl]", "vm.nr_hugepages") => {
                    pool = Some((line, format!("sysctl -w vm.nr_hugepages={value}")));
                }
                _ => {}
            }
        }
        for (line, command) in thp.into_iter().chain(pool) {
            self.record_file(file);
            for what in words::of_command(&command) {
                let is_pool = |what: &BootWrite| matches!(what, BootWrite::Pool(_));
                // Its notes are one mechanism, of which the last word counts.
                self.found.retain(|write| {
                    is_pool(&write.what) != is_pool(&what) || !is_of_notes(&write.place.file)
                });
                let (place, order) = (file_location(file, line), BootOrder::Last);
                self.found.push(BootScriptWrite { what, place, by: None, order });
            }
        }
    }
}

fn is_of_notes(file: &str) -> bool {
    NOTES.iter().chain([&OVERRIDES]).any(|folder| file.starts_with(folder))
}

/// `NOTE_APPLY_ORDER="941735 1771258"`: names of files, and nothing else.
fn parse_order(configuration: &[u8]) -> Vec<String> {
    let lines = numbered_lines(configuration);
    let order = lines.filter_map(|(_, line)| {
        let value = line.trim().strip_prefix("NOTE_APPLY_ORDER=")?;
        Some(value.trim_matches(['"', '\'']).to_owned())
    });
    let is_name = |name: &&str| {
        name.len() < 64 && !name.starts_with('.') && !name.contains(['/', '\\', '\0'])
    };
    let last = order.last().unwrap_or_default();
    last.split_ascii_whitespace().filter(is_name).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use hugewise_source::FactReader;
    use hugewise_source::map::MapSource;

    use crate::scripts;

    #[test]
    fn the_last_note_of_saptune_has_the_last_word_on_thp() {
        let thp = |source: &MapSource| {
            let writers = scripts::read(&mut FactReader::new(source)).thp;
            let told = writers.iter().map(|writer| (writer.value.clone(), writer.to_string()));
            told.collect::<Vec<_>>()
        };
        let note = |word: &str| format!("[version]\nVERSION=1\n[vm]\nTHP={word}\nKSM=0\n");
        let idle = MapSource::new()
            .with_file("/etc/sysconfig/saptune", "NOTE_APPLY_ORDER=\"2382421 2684254\"\n")
            .with_file("/usr/share/saptune/notes/2382421", note("never"))
            .with_file("/var/lib/saptune/working/notes/2684254", note("madvise"))
            .with_file("/usr/share/saptune/notes/2684254", note("always"));
        assert_eq!(thp(&idle), [], "its service is not enabled");
        let link = "/etc/systemd/system/multi-user.target.wants/saptune.service";
        let on = idle.with_link(link, "/usr/lib/systemd/system/saptune.service");
        let place = "/var/lib/saptune/working/notes/2684254:4".to_owned();
        assert_eq!(thp(&on), [(Some("madvise".to_owned()), place)]);
        let pool = on.clone().with_file(
            "/var/lib/saptune/working/notes/2684254",
            "[sysctl]\nvm.nr_hugepages = 512\nvm.swappiness = 10\n",
        );
        let pools = scripts::read(&mut FactReader::new(&pool)).pools;
        let places: Vec<u64> = pools.iter().map(|writer| writer.place.line).collect();
        assert_eq!((places, thp(&pool).len()), (vec![2], 1), "THP is the note's before it");
        let overridden = on.with_file("/etc/saptune/override/2684254", "[vm]\nTHP=never\n");
        let place = "/etc/saptune/override/2684254:2".to_owned();
        assert_eq!(thp(&overridden), [(Some("never".to_owned()), place)]);
    }
}
