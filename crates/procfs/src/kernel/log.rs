//! Lines of the kernel's log that bear on huge pages, from the files that hold it.

use std::borrow::Cow;

use hugewise_model::{Observed, Reason, Unread};

use hugewise_source::{FactReader, ParseError};

/// Files with the kernel's log: a sosreport's, the boot's, the running one.
pub(super) const PATHS: [&str; 3] =
    ["/sos_commands/kernel/dmesg", "/var/log/dmesg", "/var/log/kern.log"];

/// The latest ones are kept.
pub(super) const MAX_LINES: usize = 200;
const MAX_CHARS: usize = 500;

const SIGNS: [&str; 4] = [
    "Using mlock ulimits for SHM_HUGETLB",
    "HugeTLB: ",
    "page allocation failure",
    "Out of memory",
];

/// The lines of interest, oldest first, without control characters. Never fails.
pub fn parse(bytes: &[u8]) -> Result<Vec<String>, ParseError> {
    // Line by line: one odd byte would copy the whole of a long log.
    let lines = bytes.rsplit(|byte| *byte == b'\n').map(String::from_utf8_lossy);
    let telling = lines.filter(|line| SIGNS.iter().any(|sign| line.contains(sign)));
    let clean = |line: Cow<'_, str>| line.chars().map(without_control).take(MAX_CHARS).collect();
    let mut lines: Vec<String> = telling.take(MAX_LINES).map(clean).collect();
    lines.reverse();
    Ok(lines)
}

fn without_control(character: char) -> char {
    if character.is_control() { ' ' } else { character }
}

/// Reads whichever of the files exist; the kernel's own buffer is a device and is not read.
pub fn read(door: &mut FactReader<'_>) -> Observed<Vec<String>> {
    let mut log: Observed<Vec<String>> = Observed::Absent;
    for path in PATHS {
        let found = match door.source.read(path) {
            // A long log is no fault of the host: it is skipped, with a note.
            Observed::Malformed(why) => {
                door.unread.push(Unread::new(path, Reason::Skipped(why)));
                continue;
            }
            bytes => bytes.parse(|bytes| parse(&bytes)),
        };
        door.note_unknown(path, &found);
        log = match (log, found) {
            (Observed::Known(mut lines), Observed::Known(more)) => {
                lines.extend(more);
                let surplus = lines.len().saturating_sub(MAX_LINES);
                lines.drain(..surplus);
                Observed::Known(lines)
            }
            (Observed::Known(lines), _) | (_, Observed::Known(lines)) => Observed::Known(lines),
            (before, found) => before.or_else_absent(|| found),
        };
    }
    log
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_telling_lines_are_kept() {
        let lines = parse(
            b"[    0.3] HugeTLB: registered 2.00 MiB page size, pre-allocated 0 pages\n[    1.0] \
                 eth0: up\n\
              [   77.1] hugetlbfs: oracle (4592): Using mlock ulimits for SHM_HUGETLB is \
                 obsolete\x1b[0m\n",
        )
        .unwrap();
        assert_eq!(lines.len(), 2);
        assert_eq!(
            lines[1],
            "[   77.1] hugetlbfs: oracle (4592): Using mlock ulimits for SHM_HUGETLB is obsolete \
                 [0m"
        );
        assert_eq!(parse(b""), Ok(vec![]));
    }

    #[test]
    fn the_latest_lines_win() {
        let text: String =
            (0..1000).map(|n| format!("Out of memory: Killed process {n}\n")).collect();
        let lines = parse(text.as_bytes()).unwrap();
        assert_eq!(lines.len(), MAX_LINES);
        assert_eq!(lines.last().map(String::as_str), Some("Out of memory: Killed process 999"));
    }

    proptest! {
        #[test]
        fn kept_lines_are_short_and_clean(noise in "\\PC{0,600}") {
            for line in parse(format!("{noise}HugeTLB: \u{7}{noise}").as_bytes()).unwrap() {
                prop_assert!(line.chars().count() <= MAX_CHARS && !line.chars().any(char::is_control));
            }
        }
    }
}
