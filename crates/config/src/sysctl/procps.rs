//! Lines as `sysctl --system` of procps 4 takes them.

use super::{SysctlLine, to_dotted_key};
use crate::files::file_location;
use crate::pattern::is_pattern;

/// Lines of one file. A line ends with a line feed alone, and a zero byte cuts it short.
pub(super) fn parse_lines(file: &str, bytes: &[u8]) -> Vec<SysctlLine> {
    let parsed = |(number, line): (u64, &[u8])| {
        let text = line.split(|byte| *byte == 0).next()?;
        let text = String::from_utf8_lossy(text);
        let text = strip_blanks(&text);
        if text.is_empty() || text.starts_with(['#', ';']) {
            return None;
        }
        let (key, value) = match text.split_once('=') {
            Some((key, value)) => (strip_blanks(key), Some(strip_blanks(value).to_owned())),
            None => (text, None),
        };
        let plain = key.trim_start_matches('-');
        // A blank behind the sign, or a separator at the end, is part of a name that no setting
        // has.
        let names_nothing =
            plain.is_empty() || plain.starts_with(BLANKS) || plain.ends_with(['.', '/']);
        let excludes = value.is_some() || plain.len() < key.len();
        (excludes && !names_nothing).then(|| SysctlLine {
            key: to_dotted_key(plain),
            value,
            place: file_location(file, number),
        })
    };
    (1..).zip(bytes.split(|byte| *byte == b'\n')).filter_map(parsed).collect()
}

/// The same as `sysctl -p` of procps 3.2 takes them (RHEL 4 to 6): `-key` and patterns are names
/// that no setting has (<https://gitlab.com/procps-ng/procps/-/blob/v3.2.8/sysctl.c>).
pub(super) fn parse_old_lines(file: &str, bytes: &[u8]) -> Vec<SysctlLine> {
    let is_a_setting = |line: &SysctlLine| {
        let number = usize::try_from(line.place.line).unwrap_or_default();
        let text =
            bytes.split(|byte| *byte == b'\n').nth(number.saturating_sub(1)).unwrap_or_default();
        text.trim_ascii_start().first() != Some(&b'-')
    };
    let lines = parse_lines(file, bytes).into_iter();
    lines
        .filter(|line| line.value.is_some() && !is_pattern(&line.key) && is_a_setting(line))
        .collect()
}

/// `isspace()` of the C library.
const BLANKS: [char; 6] = [' ', '\t', '\n', '\r', '\x0b', '\x0c'];

fn strip_blanks(text: &str) -> &str {
    text.trim_matches(BLANKS)
}
