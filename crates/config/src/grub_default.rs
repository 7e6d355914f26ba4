//! What grub-mkconfig makes the menu's command lines from.
//!
//! Words that somebody wrote into /etc/default/grub count only once the menu was made anew, and
//! those that stand in the menu alone are gone with it. Drop-ins are read by the grub-mkconfig of
//! Debian and Ubuntu; elsewhere the folder is not there.

use std::collections::BTreeMap;

use hugewise_model::Observed;
use hugewise_model::configuration::{BootEntry, BootLoader, FileLocation, MenuWord};

use super::files::{file_location, limit_size, numbered_lines};
use super::grub::{self, Variables};
use hugewise_source::FactReader;

const FILE: &str = "/etc/default/grub";
const DROP_INS: &str = "/etc/default/grub.d";

const MOST: usize = 1 << 20;
const MOST_FILES: usize = 1000;

/// Words of every entry, and those that entries for recovery do not have.
const ALWAYS: &str = "GRUB_CMDLINE_LINUX";
const NORMALLY: &str = "GRUB_CMDLINE_LINUX_DEFAULT";

/// As if the menu were regenerated; `None` where it is no menu of GRUB's.
pub(super) fn predict_menu_words(
    door: &mut FactReader<'_>,
    boot: &Observed<BootEntry>,
) -> Option<Vec<MenuWord>> {
    let entry = boot.as_known().filter(|entry| entry.loader == BootLoader::Grub)?;
    let mut files = vec![FILE.to_owned()];
    let mut names = door.list_folder(DROP_INS).into_known().unwrap_or_default();
    names.retain(|name| name.ends_with(".cfg"));
    names.sort_unstable();
    files.extend(names.iter().take(MOST_FILES).map(|name| format!("{DROP_INS}/{name}")));
    let mut variables = Variables::new();
    let mut words: BTreeMap<String, Vec<(String, FileLocation)>> = BTreeMap::new();
    for file in files {
        let text = door.read(&file).and_then(|bytes| limit_size(bytes, MOST));
        if matches!(text, Observed::Malformed(_)) {
            door.note_unknown(&file, &text);
        }
        for (number, line) in numbered_lines(text.as_known().map_or(&[], Vec::as_slice)) {
            let Some((name, value)) = parse_assignment(&line, &variables) else { continue };
            // A line that takes the variable over names its words once more.
            let mut before: Vec<(String, FileLocation)> =
                words.get(&name).cloned().unwrap_or_default();
            let mut placed =
                |word: String| match before.iter().position(|(other, _)| *other == word) {
                    Some(at) => before.remove(at),
                    None => (word, file_location(&file, number)),
                };
            let placed: Vec<_> = words_of(&value).map(&mut placed).collect();
            words.insert(name.clone(), placed);
            variables.insert(name, value);
        }
    }
    let is_recovery =
        entry.command_line.iter().any(|word| matches!(word.as_str(), "recovery" | "single"));
    let counted = [Some(ALWAYS), Some(NORMALLY).filter(|_| !is_recovery)].into_iter().flatten();
    let words = counted.filter_map(|name| words.get(name)).flatten();
    Some(words.map(|(word, place)| MenuWord { word: word.clone(), place: place.clone() }).collect())
}

/// `GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX quiet"` or `+=`: the variable, and what it is then.
fn parse_assignment(line: &str, variables: &Variables) -> Option<(String, String)> {
    let line = line.trim_start();
    let line = line.strip_prefix("export ").map_or(line, str::trim_start);
    let (name, _) = line.split_once('=')?;
    let bare = name.strip_suffix('+').unwrap_or(name);
    if bare != ALWAYS && bare != NORMALLY {
        return None;
    }
    let value = grub::split_grub_words(line.get(name.len().saturating_add(1)..)?)
        .into_iter()
        .next()
        .unwrap_or_default();
    let value = grub::expand_grub_variables(&value, variables).ok()?;
    let before = variables.get(bare).filter(|_| bare.len() < name.len()).map_or("", String::as_str);
    Some((bare.to_owned(), format!("{before}{value}")))
}

fn words_of(text: &str) -> impl Iterator<Item = String> {
    const NAMES: [&str; 4] =
        ["hugepages", "hugepagesz", "default_hugepagesz", "transparent_hugepage"];
    let is_ours = |word: &&str| word.split_once('=').is_some_and(|(name, _)| NAMES.contains(&name));
    text.split_ascii_whitespace().filter(is_ours).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hugewise_source::MapSource;

    fn said(menu: &str, files: &[(&str, &str)]) -> Vec<String> {
        let command_line = menu.split_whitespace().map(str::to_owned).collect();
        let at = FileLocation { file: "/boot/grub/grub.cfg".into(), line: 4 };
        let entry = BootEntry { loader: BootLoader::Grub, command_line, place: at };
        let source = files
            .iter()
            .fold(MapSource::new(), |source, (path, text)| source.with_file(path, *text));
        let found =
            predict_menu_words(&mut FactReader::new(&source), &Observed::Known(entry)).unwrap();
        found
            .into_iter()
            .map(|menu_word| format!("{} {}", menu_word.place, menu_word.word))
            .collect()
    }

    /// grub-mkconfig's 10_linux: "${GRUB_CMDLINE_LINUX} ${GRUB_CMDLINE_LINUX_DEFAULT}", and for
    /// recovery the first alone.
    #[test]
    fn words_are_told_with_their_line_in_the_order_of_the_menu() {
        let file = "GRUB_TIMEOUT=5\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet \
             transparent_hugepage=never\"\n\
                    GRUB_CMDLINE_LINUX='default_hugepagesz=1G hugepagesz=1G \
             hugepages=4'\n#GRUB_CMDLINE_LINUX=hugepages=9\n";
        let files = [("/etc/default/grub", file)];
        let always = [
            "/etc/default/grub:3 default_hugepagesz=1G",
            "/etc/default/grub:3 hugepagesz=1G",
            "/etc/default/grub:3 hugepages=4",
        ];
        assert_eq!(said("ro recovery", &files), always);
        let normally =
            [always.as_slice(), &["/etc/default/grub:2 transparent_hugepage=never"]].concat();
        assert_eq!(said("ro quiet", &files), normally);
        assert_eq!(said("ro quiet", &[]), [""; 0]);
    }

    /// As the shell takes them: the last assignment counts, a drop-in adds to what the file says,
    /// and one may take it away.
    #[test]
    fn drop_ins_come_after_the_file() {
        let file = (
            "/etc/default/grub",
            "GRUB_CMDLINE_LINUX=\"hugepages=1\"\nGRUB_CMDLINE_LINUX=\"hugepages=2\"\n",
        );
        let adds = (
            "/etc/default/grub.d/a.cfg",
            "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX hugepagesz=2M\"\n",
        );
        let also = ("/etc/default/grub.d/b.cfg", "export GRUB_CMDLINE_LINUX+=\" hugepages=3\"\n");
        let none = ("/etc/default/grub.d/c.cfg", "GRUB_CMDLINE_LINUX=\"\"\n");
        let no_drop_in = ("/etc/default/grub.d/c.cfg.old", "GRUB_CMDLINE_LINUX=\"hugepages=7\"\n");
        assert_eq!(
            said("ro", &[file, adds, also, no_drop_in]),
            [
                "/etc/default/grub:2 hugepages=2",
                "/etc/default/grub.d/a.cfg:1 hugepagesz=2M",
                "/etc/default/grub.d/b.cfg:1 hugepages=3"
            ]
        );
        assert_eq!(said("ro", &[file, adds, none]), [""; 0]);
    }

    #[test]
    fn other_loaders_make_their_entries_otherwise() {
        let source =
            MapSource::new().with_file("/etc/default/grub", "GRUB_CMDLINE_LINUX=hugepages=2\n");
        for loader in [BootLoader::Bls, BootLoader::SystemdBoot, BootLoader::GrubLegacy] {
            let at = FileLocation { file: "/boot/loader/entries/a.conf".into(), line: 4 };
            let entry = BootEntry { loader, command_line: Vec::new(), place: at };
            assert_eq!(
                predict_menu_words(&mut FactReader::new(&source), &Observed::Known(entry)),
                None
            );
        }
        assert_eq!(predict_menu_words(&mut FactReader::new(&source), &Observed::Absent), None);
    }
}
