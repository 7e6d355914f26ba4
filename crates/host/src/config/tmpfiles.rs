//! tmpfiles.d(5): `w` lines that write kernel settings early in the boot.

use std::collections::BTreeMap;

use hugewise_model::{Observed, configuration::TmpfilesWrite};

use super::files::{joined, lines, overlaid, place};
use crate::Door;

/// Folders, the strongest first. /lib is /usr/lib by another name or, in archives, its only copy.
const FOLDERS: [&str; 5] =
    ["/etc/tmpfiles.d", "/run/tmpfiles.d", "/usr/local/lib/tmpfiles.d", "/usr/lib/tmpfiles.d", "/lib/tmpfiles.d"];

/// A `w` line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteLine {
    /// `w+`.
    pub appends: bool,
    /// What it writes.
    pub write: TmpfilesWrite,
}

/// Writes below /sys and /proc in the order of their files.
pub fn read(door: &mut Door<'_>) -> Observed<Vec<TmpfilesWrite>> {
    overlaid(door, &FOLDERS, ".conf").and_then(|paths| joined(door, &paths, parse)).map(applied)
}

/// The lines that systemd-tmpfiles carries out. Of several about one path the **first** counts, and the others
/// are ignored as duplicates unless it and they append (seen on systemd 252).
pub fn applied(written: Vec<WriteLine>) -> Vec<TmpfilesWrite> {
    let mut first: BTreeMap<String, bool> = BTreeMap::new();
    let mut kept = Vec::new();
    for line in written {
        let counts = match first.get(&line.write.path) {
            Some(appends) => *appends && line.appends,
            None => true,
        };
        if counts {
            first.insert(line.write.path.clone(), line.appends);
            kept.push(line.write);
        }
    }
    kept
}

/// The `w` lines of one file that write below /sys or /proc. Lines that systemd-tmpfiles would refuse are skipped,
/// and so are arguments in base64 (`~`) or from credentials (`^`). Patterns in paths stay as they are.
pub fn parse(file: &str, bytes: &[u8]) -> Vec<WriteLine> {
    let write = |(line, text): (u64, std::borrow::Cow<'_, str>)| {
        let text = text.trim();
        if text.starts_with('#') {
            return None;
        }
        let (kind, rest) = field(text)?;
        let modifiers = kind.strip_prefix('w')?;
        if modifiers.contains(|modifier: char| !"+!-=$".contains(modifier)) {
            return None;
        }
        let (path, mut rest) = field(rest)?;
        let path = simplified(&path);
        if !["/sys/", "/proc/"].iter().any(|root| path.starts_with(root)) {
            return None;
        }
        // Mode, user, group and age mean nothing to a write.
        for _ in 0..4 {
            (_, rest) = field(rest)?;
        }
        let argument = rest.trim_start();
        if argument.is_empty() || argument == "-" {
            return None;
        }
        let write = TmpfilesWrite { path, value: unescaped(argument)?, place: place(file, line) };
        Some(WriteLine { appends: modifiers.contains('+'), write })
    };
    lines(bytes).filter_map(write).collect()
}

/// The next field, without quotes and escapes, and what follows it.
fn field(text: &str) -> Option<(String, &str)> {
    let text = text.trim_start();
    let mut quote = None;
    let mut raw = String::new();
    let mut characters = text.char_indices();
    let mut end = text.len();
    while let Some((at, character)) = characters.next() {
        match (quote, character) {
            (_, '\\') => {
                raw.push('\\');
                raw.extend(characters.next().map(|(_, next)| next));
            }
            (Some(open), close) if open == close => quote = None,
            (None, '"' | '\'') => quote = Some(character),
            (None, blank) if blank.is_ascii_whitespace() => {
                end = at;
                break;
            }
            (_, other) => raw.push(other),
        }
    }
    let rest = text.get(end..)?;
    (end > 0 && quote.is_none()).then(|| unescaped(&raw)).flatten().map(|field| (field, rest))
}

/// Without doubled and trailing slashes.
fn simplified(path: &str) -> String {
    path.split('/').filter(|part| !part.is_empty()).fold(String::new(), |path, part| path + "/" + part)
}

/// The text with C-style escapes replaced; `None` where one is none, as systemd refuses the line.
fn unescaped(text: &str) -> Option<String> {
    let mut out: Vec<u8> = Vec::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        match characters.next()? {
            'a' => out.push(7),
            'b' => out.push(8),
            'f' => out.push(12),
            'n' => out.push(b'\n'),
            'r' => out.push(b'\r'),
            't' => out.push(b'\t'),
            'v' => out.push(11),
            's' => out.push(b' '),
            same @ ('\\' | '"' | '\'') => out.push(u8::try_from(same).ok()?),
            'x' => out.push(u8::try_from(number(&mut characters, 2, 16, 0)?).ok()?),
            'u' => push_character(&mut out, number(&mut characters, 4, 16, 0)?)?,
            'U' => push_character(&mut out, number(&mut characters, 8, 16, 0)?)?,
            octal => out.push(u8::try_from(number(&mut characters, 2, 8, octal.to_digit(8)?)?).ok()?),
        }
    }
    Some(String::from_utf8_lossy(&out).into_owned())
}

/// `count` more digits after what was read so far.
fn number(characters: &mut std::str::Chars<'_>, count: usize, radix: u32, so_far: u32) -> Option<u32> {
    (0..count).try_fold(so_far, |number, _| number.checked_mul(radix)?.checked_add(characters.next()?.to_digit(radix)?))
}

fn push_character(out: &mut Vec<u8>, code: u32) -> Option<()> {
    out.extend_from_slice(char::from_u32(code)?.encode_utf8(&mut [0; 4]).as_bytes());
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::map::MapSource;
    use proptest::prelude::*;

    const ENABLED: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

    fn writes(text: &str) -> Vec<(String, String)> {
        let parsed = applied(parse("/f", text.as_bytes()));
        parsed.into_iter().map(|write| (write.path, write.value)).collect()
    }

    fn one(path: &str, value: &str) -> Vec<(String, String)> {
        vec![(path.to_owned(), value.to_owned())]
    }

    #[test]
    fn writes_below_sys_and_proc() {
        assert_eq!(writes(&format!("w {ENABLED} - - - - madvise\n")), one(ENABLED, "madvise"));
        assert_eq!(writes(&format!("w!- {ENABLED} - - - - never\n")), one(ENABLED, "never"));
        assert_eq!(writes("w \"/proc//sys/vm/x\" 0644 root 'ro ot' - a  b \n"), one("/proc/sys/vm/x", "a  b"));
        assert_eq!(writes("w /sys/a\\x20b - - - - \"q\" \\x41\\101b\n"), one("/sys/a b", "\"q\" AAb"));
        for skipped in [
            "# w /sys/x - - - - 1",
            "f /sys/x - - - - 1",
            "w /etc/x - - - - 1",
            "w /sys/../etc - - -",
            "w /sys/x",
            "w /sys/x - - - - -",
            "w~ /sys/x - - - - MQo=",
            "w \"/sys/x - - - - 1",
            "w /sys/x - - - - \\q",
        ] {
            assert!(writes(skipped).is_empty(), "{skipped}");
        }
    }

    #[test]
    fn the_first_line_of_a_path_counts() {
        let source = MapSource::new()
            .file("/etc/tmpfiles.d/b.conf", "w /sys/x - - - - second\n")
            .file("/usr/lib/tmpfiles.d/a.conf", "w /sys/x - - - - first\n")
            .file("/usr/lib/tmpfiles.d/b.conf", "w /sys/y - - - - hidden\n");
        let writes = read(&mut Door::new(&source)).into_known().unwrap();
        let seen: Vec<_> = writes.iter().map(|write| (write.value.as_str(), write.place.to_string())).collect();
        assert_eq!(seen, [("first", "/usr/lib/tmpfiles.d/a.conf:1".to_owned())]);
    }

    /// The outcome of `systemd-tmpfiles --create --root=DIR` of systemd 252 on the same lines: `w` then `w+` leaves the
    /// first alone, `w+` three times leaves all of them.
    #[test]
    fn lines_that_append_all_count() {
        let both = "w /sys/y - - - - 1\nw+ /sys/y - - - - more\nw+ /sys/z - - - - a\nw+ /sys/z - - - - b\n";
        let values: Vec<_> = writes(both).into_iter().map(|(_, value)| value).collect();
        assert_eq!(values, ["1", "a", "b"]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            parse("/f", &bytes);
        }

        #[test]
        fn any_fields_are_survived(text in "w[+!~-]? ([/sysproc\"'\\\\ x0-9-]{0,40})") {
            parse("/f", text.as_bytes());
        }
    }
}
