//! The menu of GRUB 2 (grub.cfg) and its environment block (grubenv).
//!
//! grub.cfg is a script. This reads the part of it that grub-mkconfig and distributions write:
//! variables that are set, the menu, and the kernel's line of each entry. Conditions are not
//! evaluated; but for `default`, whose `next_entry` branch counts only where the environment has
//! one.

use std::collections::BTreeMap;

use super::files::{numbered_lines, split_while};

/// Menus nested deeper than any real one are cut.
const MAX_DEPTH: usize = 8;

/// Variables by name.
pub type Variables = BTreeMap<String, String>;

/// What a grub.cfg says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrubMenu {
    /// Entries and submenus at the top.
    pub entries: Vec<MenuEntry>,
    /// Whether `blscfg` puts in the entries of /boot/loader/entries.
    pub bls: bool,
    /// `set default=` where no one-time choice is made, as it is written.
    pub default: Option<String>,
    /// Other variables outside of entries, the last value of each, as written.
    pub variables: Variables,
}

/// An entry, or a submenu with entries of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MenuEntry {
    /// What people see.
    pub title: String,
    /// `--id` or `$menuentry_id_option`.
    pub id: Option<String>,
    /// Words after the kernel's file, variables as they are written, and their line; `None` where
    /// the entry boots no Linux.
    pub linux: Option<(u64, Vec<String>)>,
    /// Entries of a submenu.
    pub entries: Vec<MenuEntry>,
}

/// `name=value` lines of an environment block.
pub fn parse_environment(bytes: &[u8]) -> Variables {
    let assignment = |(_, line): (u64, std::borrow::Cow<'_, str>)| {
        if line.starts_with('#') {
            return None;
        }
        let (name, value) = line.split_once('=')?;
        let mut text = String::with_capacity(value.len());
        let mut characters = value.chars();
        while let Some(character) = characters.next() {
            text.push(if character == '\\' { characters.next()? } else { character });
        }
        Some((name.to_owned(), text))
    };
    numbered_lines(bytes).filter_map(assignment).collect()
}

/// One command a line. Braces open and close entries and submenus.
pub fn parse(bytes: &[u8]) -> GrubMenu {
    let mut menu = GrubMenu::default();
    let mut open: Vec<Option<MenuEntry>> = Vec::new();
    for (number, line) in numbered_lines(bytes) {
        let words = split_grub_words(&line);
        let Some(first) = words.first().map(String::as_str) else { continue };
        // Deeper ones hold no entry.
        let inside = open.iter().take(MAX_DEPTH).any(Option::is_some);
        match first {
            "}" => close_block(&mut open, &mut menu),
            "menuentry" | "submenu" if words.last().is_some_and(|word| word == "{") => {
                let entry = MenuEntry {
                    title: words.get(1).cloned().unwrap_or_default(),
                    id: find_id(&words),
                    ..MenuEntry::default()
                };
                open.push((open.len() < MAX_DEPTH).then_some(entry));
            }
            "linux" | "linux16" | "linuxefi" => {
                if let Some(entry) = open.last_mut().and_then(Option::as_mut)
                    && entry.linux.is_none()
                {
                    entry.linux = Some((number, words.into_iter().skip(2).collect()));
                }
            }
            "blscfg" if !inside => menu.bls = true,
            "set" if !inside => {
                if let Some((name, value)) = words.get(1).and_then(|word| word.split_once('=')) {
                    match name {
                        "default" if value.contains("next_entry") => {}
                        "default" => menu.default = Some(value.to_owned()),
                        _ => {
                            menu.variables.insert(name.to_owned(), value.to_owned());
                        }
                    }
                }
            }
            _ if words.last().is_some_and(|word| word == "{") => open.push(None),
            _ => {}
        }
    }
    // A file cut short still has the entries that it shows.
    while !open.is_empty() {
        close_block(&mut open, &mut menu);
    }
    menu
}

fn close_block(open: &mut Vec<Option<MenuEntry>>, menu: &mut GrubMenu) {
    if let Some(Some(entry)) = open.pop() {
        match open.iter_mut().rev().flatten().next() {
            Some(outer) => outer.entries.push(entry),
            None => menu.entries.push(entry),
        }
    }
}

fn find_id(words: &[String]) -> Option<String> {
    let mut words = words.iter().skip(2);
    while let Some(word) = words.next() {
        if word == "--id" || word == "$menuentry_id_option" || word == "${menuentry_id_option}" {
            return words.next().cloned();
        }
        if let Some(id) = word.strip_prefix("--id=") {
            return Some(id.to_owned());
        }
    }
    None
}

/// Words of a command without their quotes; `;`, and `#` at the start of a word, end it. In single
/// quotes nothing is special. Variables stay as they are written.
pub fn split_grub_words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (None, '#') if word.is_none() => break,
            (None, ';') => break,
            (None, blank) if blank.is_whitespace() => words.extend(word.take()),
            (None, '"' | '\'') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (Some(open), close) if open == close => quote = None,
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(characters.next()),
            (_, other) => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    words
}

/// What a kernel's line, or the text of a variable, may become: kernels take 4 KiB of it at most.
const MOST_TEXT: usize = 64 << 10;

/// With its variables replaced a text is longer than any kernel's line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("with its variables filled in, it is longer than {} KiB", MOST_TEXT >> 10)]
pub struct GrubTextTooLong;

/// `$name` and `${name}` replaced; a variable that is not set is nothing, as in GRUB.
pub fn expand_grub_variables(text: &str, variables: &Variables) -> Result<String, GrubTextTooLong> {
    let mut out = String::new();
    let mut add = |part: &str| {
        if out.len().saturating_add(part.len()) > MOST_TEXT {
            return Err(GrubTextTooLong);
        }
        out.push_str(part);
        Ok(())
    };
    // Where braces do not close, all that follows is looked through for each of them.
    let mut rest = if text.len() > MOST_TEXT { return Err(GrubTextTooLong) } else { text };
    while let Some((before, after)) = rest.split_once('$') {
        add(before)?;
        let (name, tail) = match after.strip_prefix('{').and_then(|braced| braced.split_once('}')) {
            Some(braced) => braced,
            None => split_while(after, |sign| sign.is_ascii_alphanumeric() || sign == '_'),
        };
        if name.is_empty() {
            add("$")?;
        }
        add(variables.get(name).map_or("", String::as_str))?;
        rest = tail;
    }
    add(rest)?;
    Ok(out)
}

pub(crate) fn expand_words(
    words: &[String],
    variables: &Variables,
) -> Result<Vec<String>, GrubTextTooLong> {
    let (mut all, mut length) = (Vec::new(), 0_usize);
    for word in words {
        let words = if word.contains('$') {
            split_grub_words(&expand_grub_variables(word, variables)?)
        } else {
            vec![word.clone()]
        };
        length =
            words.iter().fold(length.saturating_add(1), |sum, word| sum.saturating_add(word.len()));
        if length > MOST_TEXT {
            return Err(GrubTextTooLong);
        }
        all.extend(words);
    }
    Ok(all)
}

impl GrubMenu {
    /// The entry that a default means: numbers, titles or ids, `>` between the levels. An entry
    /// that is not there means the first one, as GRUB falls back.
    pub fn default_entry(&self, default: &str) -> Option<&MenuEntry> {
        // A title may hold a `>` itself.
        let whole = find_entry(&self.entries, default).filter(|entry| entry.entries.is_empty());
        let mut chosen = whole.or_else(|| {
            let mut parts = default.split('>');
            let top = find_entry(&self.entries, parts.next()?)?;
            parts.try_fold(top, |entry, part| find_entry(&entry.entries, part))
        });
        chosen = chosen.or_else(|| self.entries.first());
        while let Some(submenu) = chosen.filter(|entry| !entry.entries.is_empty()) {
            chosen = submenu.entries.first();
        }
        chosen
    }
}

fn find_entry<'a>(entries: &'a [MenuEntry], wanted: &str) -> Option<&'a MenuEntry> {
    let wanted = wanted.trim();
    if let Ok(number) = wanted.parse::<usize>() {
        return entries.get(number);
    }
    entries.iter().find(|entry| entry.title == wanted || entry.id.as_deref() == Some(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEBIAN: &str = r#"
set have_grubenv=true
if [ "${next_entry}" ] ; then
   set default="${next_entry}"
   set boot_once=true
else
   set default="0"
fi
if [ x"${feature_menuentry_id}" = xy ]; then
  menuentry_id_option="--id"
fi
function load_video {
  insmod all_video
}
menuentry 'Debian GNU/Linux' --class debian $menuentry_id_option 'gnulinux-simple-1' {
	load_video
	if [ x$grub_platform = xxen ]; then insmod xzio; fi
	linux	/boot/vmlinuz-6.1.0-56-amd64 root=UUID=1 ro  quiet hugepages=64 $vt_handoff
	initrd	/boot/initrd.img
}
submenu 'Advanced options for Debian GNU/Linux' $menuentry_id_option 'gnulinux-advanced-1' {
	menuentry 'Debian GNU/Linux, with Linux 6.1.0-56-amd64' --class debian --id 'a-56' {
		linux	/boot/vmlinuz-6.1.0-56-amd64 root=UUID=1 ro quiet
	}
	menuentry 'Debian GNU/Linux, with Linux 6.1.0-50-amd64' --id=a-50 {
		linux	/boot/vmlinuz-6.1.0-50-amd64 root=UUID=1 ro "dyndbg=file a.c +p" hugepages=8
	}
}
menuentry "Memory test" {
	linux16 /memtest
}
"#;

    #[test]
    fn the_menu_of_grub_mkconfig() {
        let menu = parse(DEBIAN.as_bytes());
        assert_eq!(menu.default.as_deref(), Some("0"));
        assert!(!menu.bls);
        assert_eq!(menu.entries.len(), 3);
        let words = |default: &str| {
            menu.default_entry(default)
                .and_then(|entry| entry.linux.clone())
                .map(|(_, words)| words.join("|"))
        };
        let first = Some("root=UUID=1|ro|quiet|hugepages=64|$vt_handoff".to_owned());
        assert_eq!(words("0"), first);
        assert_eq!(words("gnulinux-simple-1"), first);
        assert_eq!(words("1>1"), Some("root=UUID=1|ro|dyndbg=file a.c +p|hugepages=8".to_owned()));
        assert_eq!(words("gnulinux-advanced-1>a-50"), words("1>1"));
        assert_eq!(
            words(
                "Advanced options for Debian GNU/Linux>Debian GNU/Linux, with Linux 6.1.0-50-amd64"
            ),
            words("1>1")
        );
        assert_eq!(words("1"), Some("root=UUID=1|ro|quiet".to_owned()));
        assert_eq!(words("7"), first);
        assert_eq!(words("gone"), first);
    }

    #[test]
    fn variables_of_the_environment() {
        let block = b"# GRUB Environment Block\n# \
             WARNING\nsaved_entry=abc-5.14\nkernelopts=root=/dev/sda1 ro \\\\x\n##########";
        let variables = parse_environment(block);
        assert_eq!(variables.get("saved_entry").map(String::as_str), Some("abc-5.14"));
        assert_eq!(variables.len(), 2);
        let text = expand_grub_variables("$kernelopts ${none}-$saved_entry $", &variables).unwrap();
        assert_eq!(text, "root=/dev/sda1 ro \\x -abc-5.14 $");
    }
}
