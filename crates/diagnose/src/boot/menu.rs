//! What a boot menu made anew would bring, and what it would drop.

use std::collections::BTreeSet;

use hugewise_host::config::cmdline;
use hugewise_model::configuration::MenuWord;
use hugewise_model::{Host, PageSize};

use super::cmdline_pages::{default_size_of, parse_reserved_pages};
use super::command_line;

/// What of huge pages changes with a new menu.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewMenu {
    /// It brings this: `hugepages=600 in /etc/default/grub:6`.
    Brings(String),
    /// It has this no more: `hugepages=600`.
    Drops(String),
}

/// `hugepages=600 in /etc/default/grub:6 is not in the boot menu`
pub(crate) fn not_in_menu(host: &Host, page: PageSize) -> Option<String> {
    let made = host.configuration.menu_words.as_deref().filter(|words| !words.is_empty())?;
    find_brought_word(host, made, command_line(host).ok()?.0, page)
        .map(|text| describe_missing_word(&text))
}

/// Where the default size differs once the boot menu is made anew, with what waits for that.
pub(crate) fn default_size_not_in_menu(host: &Host) -> Option<(PageSize, String)> {
    let made = host.configuration.menu_words.as_deref()?;
    let entry = command_line(host).ok()?.0;
    let size = default_size_of(host, &words_of(made))?;
    let named = made.iter().rfind(|menu_word| menu_word.word.starts_with(DEFAULT_SIZE));
    let what = match (named, last_of(entry, DEFAULT_SIZE)) {
        (Some(word), _) => describe_missing_word(&render_word_place(&word.word, word)),
        (None, Some(word)) => {
            format!(
                "{word} is in the boot menu, but no longer in the file that the menu is made from"
            )
        }
        (None, None) => return None,
    };
    (default_size_of(host, entry) != Some(size)).then_some((size, what))
}

/// What sets THP once the boot menu is made anew, and until then does not.
pub(crate) fn thp_not_in_menu(host: &Host) -> Option<String> {
    let made = host.configuration.menu_words.as_deref()?;
    let word = made.iter().rfind(|menu_word| menu_word.word.starts_with(THP))?;
    let entry = command_line(host).ok()?.0;
    (last_of(entry, THP) != Some(word.word.as_str()))
        .then(|| describe_missing_word(&render_word_place(&word.word, word)))
}

const THP: &str = "transparent_hugepage=";
const DEFAULT_SIZE: &str = "default_hugepagesz=";

fn describe_missing_word(what: &str) -> String {
    format!("{what} is not in the boot menu")
}

/// What of huge pages differs between the next boot's entry and a menu made anew without the words
/// of `file`; `None` where nothing does, or where no menu is made.
pub fn new_menu(host: &Host, entry: &[String], file: &str) -> Option<NewMenu> {
    let made = host.configuration.menu_words.as_deref()?;
    let made: Vec<MenuWord> =
        made.iter().filter(|menu_word| menu_word.place.file != file).cloned().collect();
    let words = words_of(&made);
    let sizes: BTreeSet<PageSize> =
        [entry, &words].into_iter().flat_map(|words| sizes_of(host, words)).collect();
    if let Some(what) = sizes.iter().find_map(|page| find_brought_word(host, &made, entry, *page)) {
        return Some(NewMenu::Brings(what));
    }
    for name in [DEFAULT_SIZE, THP] {
        let (before, after) =
            (last_of(entry, name), made.iter().rfind(|menu_word| menu_word.word.starts_with(name)));
        let is_same = match name {
            DEFAULT_SIZE => default_size_of(host, entry) == default_size_of(host, &words),
            _ => before == after.map(|menu_word| menu_word.word.as_str()),
        };
        match (before, after) {
            _ if is_same => {}
            (_, Some(after)) => {
                return Some(NewMenu::Brings(render_word_place(&after.word, after)));
            }
            (Some(before), None) => return Some(NewMenu::Drops(before.to_owned())),
            (None, None) => {}
        }
    }
    let lost = |page: &PageSize| {
        parse_reserved_pages(host, entry, *page)
            .filter(|reserved| reserved.total > 0 && !reserves_pages(host, &words, *page))
            .map(|reserved| NewMenu::Drops(reserved.render_boot_words(host, *page)))
    };
    sizes.iter().find_map(lost)
}

fn reserves_pages(host: &Host, words: &[String], page: PageSize) -> bool {
    parse_reserved_pages(host, words, page).is_some_and(|reserved_pages| reserved_pages.total > 0)
}

/// The word, with the size named before it, that changes a menu's pages of a size, and its place.
fn find_brought_word(
    host: &Host,
    made: &[MenuWord],
    entry: &[String],
    page: PageSize,
) -> Option<String> {
    let words = words_of(made);
    let pages = parse_reserved_pages(host, &words, page)
        .filter(|reserved_pages| reserved_pages.total > 0)?;
    let of_entry = parse_reserved_pages(host, entry, page);
    let is_left = of_entry.as_ref().is_some_and(|reserved| reserved.left_to.is_some());
    if is_left || of_entry.as_ref() == Some(&pages) {
        return None;
    }
    let is_reached = |count: &usize| {
        words.get(..*count).and_then(|words| parse_reserved_pages(host, words, page)).as_ref()
            == Some(&pages)
    };
    let end = (1..=words.len()).find(is_reached)?;
    let (last, before) = made.get(..end)?.split_last()?;
    let mut before = before.iter().rev().map(|made| made.word.as_str());
    let size = before.find(|word| word.contains("hugepagesz="));
    let text = match size
        .filter(|size| size.starts_with("hugepagesz=") && last.word.starts_with("hugepages="))
    {
        Some(size) => format!("{size} {}", last.word),
        None => last.word.clone(),
    };
    Some(render_word_place(&text, last))
}

fn render_word_place(text: &str, word: &MenuWord) -> String {
    format!("{text} in {}", word.place)
}

fn words_of(made: &[MenuWord]) -> Vec<String> {
    made.iter().map(|menu_word| menu_word.word.clone()).collect()
}

fn last_of<'a>(words: &'a [String], name: &str) -> Option<&'a str> {
    words.iter().map(String::as_str).rfind(|word| word.starts_with(name))
}

fn sizes_of(host: &Host, words: &[String]) -> Vec<PageSize> {
    let default = default_size_of(host, words);
    let pools = cmdline::huge_page_words(words).pools;
    pools.iter().filter_map(|pool| pool.page_size.or(default)).collect()
}

#[cfg(test)]
mod tests {
    use hugewise_model::Observed::Known;
    use hugewise_model::configuration::{BootEntry, BootLoader, FileLocation};

    use super::*;

    /// A host with these words in its menu, and these in /etc/default/grub, a word a line.
    fn host(menu: &str, file: &str) -> Host {
        let mut host = crate::testing::quiet().host;
        let words =
            |text: &str| text.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let place = |file: &str, line| FileLocation { file: file.into(), line };
        let place_of_entry = place("/boot/grub/grub.cfg", 4);
        let entry = BootEntry {
            loader: BootLoader::Grub,
            command_line: words(menu),
            place: place_of_entry,
        };
        host.configuration.boot = Known(entry);
        let made = words(file).into_iter().zip(1..);
        host.configuration.menu_words =
            Some(made.map(|(word, line)| MenuWord { word, place: place("grub", line) }).collect());
        host
    }

    fn waiting(menu: &str, file: &str) -> Vec<String> {
        let host = host(menu, file);
        [PageSize::MIB_2, PageSize::GIB_1]
            .into_iter()
            .filter_map(|page| not_in_menu(&host, page))
            .collect()
    }

    /// By mm/hugetlb.c: a number belongs to the size before it, and to the default size where none
    /// was named.
    #[test]
    fn a_number_waits_with_its_size_once_for_each_size() {
        let (small, large) = (
            "hugepagesz=2M hugepages=8 in grub:2 is not in the boot menu",
            "hugepagesz=1G hugepages=8 in grub:4 is not in the boot menu",
        );
        let both = "hugepagesz=2M hugepages=8 hugepagesz=1G hugepages=8";
        assert_eq!(waiting("ro", both), [small, large]);
        assert_eq!(
            waiting("ro hugepagesz=1G hugepages=4 hugepagesz=2M hugepages=8", both),
            [large]
        );
        assert_eq!(waiting("ro hugepagesz=1G hugepages=8", both), [small]);
        assert_eq!(waiting(both, both), [""; 0]);
        // The default size needs no name.
        assert_eq!(waiting("ro hugepages=8", both), [large]);
        // A number of a size that was named already counts for nothing.
        assert_eq!(waiting("ro", "hugepagesz=2M hugepages=8 hugepagesz=2M hugepages=9"), [small]);
        assert_eq!(waiting("ro", "hugepagesz=1G hugepages=0"), [""; 0]);
        assert_eq!(
            waiting("ro hugepages=8", "default_hugepagesz=1G hugepages=8"),
            ["hugepages=8 in grub:2 is not in the boot menu"]
        );
    }

    #[test]
    fn another_default_size_waits_too() {
        let page_size_of = |menu: &str, file: &str| default_size_not_in_menu(&host(menu, file));
        let waits = "default_hugepagesz=1G in grub:2 is not in the boot menu";
        assert_eq!(
            page_size_of("ro", "quiet default_hugepagesz=1G"),
            Some((PageSize::GIB_1, waits.into()))
        );
        assert_eq!(page_size_of("default_hugepagesz=1G", "quiet default_hugepagesz=1G"), None);
        assert_eq!(page_size_of("ro", "default_hugepagesz=2M"), None);
        assert_eq!(page_size_of("ro", "quiet"), None);
        assert_eq!(
            page_size_of("default_hugepagesz=1G", "quiet").map(|pair| pair.0),
            Some(PageSize::MIB_2)
        );
    }

    #[test]
    fn what_a_new_menu_brings_and_drops_is_told() {
        let new_menu_of = |menu: &str, file: &str| {
            new_menu(
                &host(menu, file),
                &host(menu, file).configuration.boot.as_known().unwrap().command_line,
                "none",
            )
        };
        let brings = |text: &str| Some(NewMenu::Brings(text.into()));
        let drops = |text: &str| Some(NewMenu::Drops(text.into()));
        assert_eq!(
            new_menu_of("ro", "hugepagesz=1G hugepages=64"),
            brings("hugepagesz=1G hugepages=64 in grub:2")
        );
        assert_eq!(
            new_menu_of("ro", "default_hugepagesz=1G"),
            brings("default_hugepagesz=1G in grub:1")
        );
        assert_eq!(
            new_menu_of("ro", "transparent_hugepage=always"),
            brings("transparent_hugepage=always in grub:1")
        );
        assert_eq!(new_menu_of("ro hugepages=600", ""), drops("hugepages=600"));
        assert_eq!(
            new_menu_of("ro hugepagesz=1G hugepages=2", "hugepagesz=1G hugepages=0"),
            drops("hugepagesz=1G hugepages=2")
        );
        assert_eq!(new_menu_of("ro default_hugepagesz=1G", ""), drops("default_hugepagesz=1G"));
        assert_eq!(
            new_menu_of("ro transparent_hugepage=never", ""),
            drops("transparent_hugepage=never")
        );
        assert_eq!(
            new_menu_of("ro hugepages=600", "default_hugepagesz=2M hugepagesz=2M hugepages=600"),
            None
        );
        assert_eq!(new_menu_of("ro", ""), None);
        // Of one file's words somebody else speaks.
        let other = host("ro", "hugepages=8");
        assert_eq!(new_menu(&other, &[], "grub"), None);
    }
}
