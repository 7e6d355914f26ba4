//! tmpfiles.d(5): lines that write kernel settings early in the boot.
//!
//! systemd-tmpfiles-setup.service carries the files out after systemd-sysctl: first the lines about
//! files (`f+`, `F`), then those about patterns (`w`), each kind in the order in which its paths
//! were first named. Of several lines about one path, spelt alike, the first counts alone, unless
//! all of them append or say the same.

mod attributes;
mod fields;
mod order;
mod specifiers;

use base64::Engine as _;
use hugewise_model::{Observed, configuration::FileLocation, configuration::TmpfilesWrite};

use self::attributes::{TmpfilesAttributes, parse_attributes};
use self::fields::{BLANKS, RefusedTmpfilesLine, next_field, unescape_text};
use self::specifiers::SpecifierHost;
use super::files::{OverlayNameRules, file_location, overlay_files_with, parse_all_files};
use super::pattern::{covers_path, expand_braces};
use super::read_line::read_lines;
use super::{init_system, systemd};
use hugewise_source::FactReader;

/// Folders, the strongest first. /lib is /usr/lib by another name or, in archives, its only copy.
/// /run is empty when a host boots.
const FOLDERS: [&str; 4] =
    ["/etc/tmpfiles.d", "/usr/local/lib/tmpfiles.d", "/usr/lib/tmpfiles.d", "/lib/tmpfiles.d"];

/// Types of lines about one path, and about patterns of paths (systemd 252).
const OF_PATHS: &str = "fFdDvqQpLcbC";
const OF_PATTERNS: &str = "wetTaAhHxXrRzZm";

#[derive(Clone, Debug, PartialEq, Eq)]
struct TmpfilesItem {
    kind: char,
    plus: bool,
    /// Without doubled slashes; may be a pattern.
    path: String,
    argument: Option<String>,
    attributes: TmpfilesAttributes,
    place: FileLocation,
}

/// Writes below /sys and /proc in their order; none where systemd does not start the host. Paths
/// may be patterns without braces.
pub fn read(door: &mut FactReader<'_>) -> Observed<Vec<TmpfilesWrite>> {
    if !init_system::read(door).tmpfiles
        || systemd::find_mask(door, init_system::TMPFILES_SERVICE).is_some()
    {
        return Observed::Known(Vec::new());
    }
    let here = SpecifierHost::new(Some(door.source));
    let paths = overlay_files_with(
        door,
        &FOLDERS,
        ".conf",
        OverlayNameRules { any_hides: true, dotted: false },
    );
    let items = paths.and_then(|paths| {
        parse_all_files(door, &paths, |file, bytes| parse_items(file, bytes, &here))
    });
    items.map(order::resolve_writes)
}

/// The writes of one file, as if it were alone and nothing were known of the host.
pub fn parse(file: &str, bytes: &[u8]) -> Vec<TmpfilesWrite> {
    order::resolve_writes(parse_items(file, bytes, &SpecifierHost::new(None)))
}

/// Without those that systemd-tmpfiles refuses.
fn parse_items(file: &str, bytes: &[u8], here: &SpecifierHost<'_>) -> Vec<TmpfilesItem> {
    let taken = |(line, text): (u64, std::borrow::Cow<'_, str>)| {
        if text.is_empty() || text.starts_with('#') {
            return None;
        }
        parse_item(&text, file_location(file, line), here).ok()?
    };
    read_lines(bytes).filter_map(taken).collect()
}

/// `None` where it is about something else, or left out without a word.
fn parse_item(
    text: &str,
    place: FileLocation,
    here: &SpecifierHost<'_>,
) -> Result<Option<TmpfilesItem>, RefusedTmpfilesLine> {
    let mut rest = text;
    let mut next = || -> Result<Option<String>, RefusedTmpfilesLine> {
        let Some((word, behind)) = next_field(rest)? else { return Ok(None) };
        rest = behind;
        Ok(Some(word))
    };
    let (Some(action), Some(path)) = (next()?, next()?) else { return Err(RefusedTmpfilesLine) };
    let fields = [next()?, next()?, next()?, next()?];
    let argument = rest.trim_matches(BLANKS);
    let argument = (!matches!(argument, "" | "-")).then_some(argument);
    let mut letters = action.chars();
    let kind = letters.next().ok_or(RefusedTmpfilesLine)?;
    let modifiers = letters.as_str();
    let twice = |modifier: char| modifiers.matches(modifier).count() > 1;
    if modifiers.contains(|modifier: char| !"!+-=~^".contains(modifier) || twice(modifier)) {
        return Err(RefusedTmpfilesLine);
    }
    let path = simplify_path(&here.expand_specifiers(&path)?).ok_or(RefusedTmpfilesLine)?;
    if !(OF_PATHS.contains(kind) || OF_PATTERNS.contains(kind))
        || (kind == 'w' && argument.is_none())
    {
        return Err(RefusedTmpfilesLine);
    }
    // Credentials are the service's own, and nobody passes any about the kernel's files.
    if !leads_to_the_kernel(&path) || modifiers.contains('^') {
        return Ok(None);
    }
    let argument = match argument {
        Some(argument) if modifiers.contains('~') => Some(from_base64(argument)?),
        Some(argument) if "CLfFw".contains(kind) => {
            Some(here.expand_specifiers(&unescape_text(argument)?)?)
        }
        other => other.map(str::to_owned),
    };
    let attributes = parse_attributes(&fields, here)?;
    Ok(Some(TmpfilesItem {
        kind,
        plus: modifiers.contains('+'),
        path,
        argument,
        attributes,
        place,
    }))
}

fn from_base64(text: &str) -> Result<String, RefusedTmpfilesLine> {
    let text: String = text.chars().filter(|character| !BLANKS.contains(character)).collect();
    let bytes =
        base64::engine::general_purpose::STANDARD.decode(text).map_err(|_| RefusedTmpfilesLine)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Without doubled and trailing slashes and single dots; `None` where it is not absolute.
fn simplify_path(path: &str) -> Option<String> {
    let rest = path.strip_prefix('/')?;
    let parts = rest.split('/').filter(|part| !matches!(*part, "" | "."));
    Some(parts.fold(String::new(), |path, part| path + "/" + part))
}

fn leads_to_the_kernel(path: &str) -> bool {
    let is = |path: &str| {
        let first = path.split('/').nth(1).unwrap_or_default();
        ["sys", "proc"].iter().any(|root| covers_path(first, root))
    };
    if path.contains('{') { expand_braces(path).iter().any(|path| is(path)) } else { is(path) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hugewise_source::map::MapSource;

    const ENABLED: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

    fn writes(text: &str) -> Vec<(String, String)> {
        let parsed = parse("/f", text.as_bytes());
        parsed.into_iter().map(|write| (write.path, write.value)).collect()
    }

    fn one(path: &str, value: &str) -> Vec<(String, String)> {
        vec![(path.to_owned(), value.to_owned())]
    }

    #[test]
    fn writes_below_sys_and_proc() {
        assert_eq!(writes(&format!("w {ENABLED} - - - - madvise\n")), one(ENABLED, "madvise"));
        assert_eq!(writes(&format!("w!- {ENABLED} - - - - never\n")), one(ENABLED, "never"));
        assert_eq!(
            writes("w \"/proc//sys/vm/x\" 0644 root 'roo't - a  b \n"),
            one("/proc/sys/vm/x", "a  b")
        );
        // Escapes are the argument's alone; in a path a backslash goes away (systemd 252).
        assert_eq!(
            writes("w /sys/a\\x20b - - - - \"q\" \\x41\\101b\n"),
            one("/sys/ax20b", "\"q\" AAb")
        );
        assert_eq!(writes("w~ /sys/x - - - - MQo=\n"), one("/sys/x", "1\n"));
        assert_eq!(writes("f+ /sys/x - - - - 1\nF /sys/y - - - - %%%U\n").len(), 2);
        for skipped in [
            "# w /sys/x - - - - 1",
            "f /sys/x - - - - 1",
            "w /etc/x - - - - 1",
            "w /sys/../etc - - -",
            "w /sys/x",
            "w /sys/x - - - - -",
            "w^ /sys/x - - - - name",
            "w~ /sys/x - - - - ?",
            "w /sys/../sys/x - - - - 1",
            "w$ /sys/x - - - - 1",
            "ww /sys/x - - - - 1",
            "w /sys/x - - - - %q",
            "w /sys/x abc - - - 1",
            "w /sys/x - stranger - - 1",
            "w /sys/x - - - soon 1",
            "w \"/sys/x - - - - 1",
            "w /sys/x - - - - \\q",
        ] {
            assert!(writes(skipped).is_empty(), "{skipped}");
        }
    }

    #[test]
    fn the_first_line_of_a_path_counts() {
        let source = MapSource::new()
            .with_file("/etc/tmpfiles.d/b.conf", "w /sys/x - - - - second\n")
            .with_file("/usr/lib/tmpfiles.d/a.conf", "w /sys/x - - - - first\n")
            .with_file("/usr/lib/tmpfiles.d/b.conf", "w /sys/y - - - - hidden\n");
        let writes = read(&mut FactReader::new(&source)).into_known().unwrap();
        let seen: Vec<_> =
            writes.iter().map(|write| (write.value.as_str(), write.place.to_string())).collect();
        assert_eq!(seen, [("first", "/usr/lib/tmpfiles.d/a.conf:1".to_owned())]);
    }

    /// The outcome of `systemd-tmpfiles --create --root=DIR` of systemd 252 on the same lines: `w`
    /// then `w+` leaves the first alone, `w+` three times leaves all of them.
    #[test]
    fn lines_that_append_all_count() {
        let both = "w /sys/y - - - - 1\nw+ /sys/y - - - - more\nw+ /sys/z - - - - a\nw+ /sys/z - \
             - - - b\n";
        let values: Vec<_> = writes(both).into_iter().map(|(_, value)| value).collect();
        assert_eq!(values, ["1", "a", "b"]);
    }
}
