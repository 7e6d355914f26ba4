//! Removes what text brings along from mails, tickets, editors and terminals.

use std::collections::BTreeSet;

use super::super::proc_log;
use super::super::sysstat::text::{count_time_words, is_heading, is_number, is_word};
use super::super::vmstat;
use super::log_lines::join_broken_log;

/// Letters that Markdown has a backslash before.
const ESCAPED: &[u8] = b"*_[]#-<>|~`+.()";
const ENTITIES: [(&str, char); 7] = [
    ("&gt;", '>'),
    ("&lt;", '<'),
    ("&amp;", '&'),
    ("&quot;", '"'),
    ("&#39;", '\''),
    ("&#x27;", '\''),
    ("&nbsp;", ' '),
];
const INVISIBLE: [char; 6] = ['\u{200b}', '\u{200c}', '\u{200d}', '\u{2060}', '\u{feff}', '\u{ad}'];
/// Bytes of the longest line that is made whole: tables of sar and vmstat have less than half of
/// it. Looking at longer ones takes time that grows with the square of the length.
const LONGEST_WHOLE: usize = 512;

/// Lines of one text; a week of vmstat's seconds has more, and nobody pastes that.
pub(in crate::readers) const MOST_LINES: usize = 400_000;
/// Bytes of a line that are read.
const LONGEST_LINE: usize = 64 << 10;

/// Whether bytes have what [`clean_lines`] removes, and what readers would stumble over.
pub(in crate::readers) fn is_noisy(head: &[u8]) -> bool {
    if is_wide(head) || head.contains(&0x1b) || head.trim_ascii_start().starts_with(b">") {
        return true;
    }
    let text = String::from_utf8_lossy(head);
    let alone = head.windows(2).any(|pair| matches!(pair, [b'\r', next] if *next != b'\n'));
    let all: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let indented = all.iter().filter(|line| line.starts_with([' ', '\t'])).count();
    let escaped = all.iter().take(200).filter(|line| has_escapes(line)).count();
    alone
        || escaped * 4 > all.len().min(200)
        || text.contains(|letter: char| {
            INVISIBLE.contains(&letter) || (letter.is_whitespace() && !letter.is_ascii())
        })
        || (indented == all.len() && all.iter().any(|line| line.trim_start().starts_with("Linux ")))
        || {
            let lines: Vec<String> = text.lines().map(str::to_owned).take(200).collect();
            join_broken_lines(&lines).is_some() || join_broken_log(&lines).is_some()
        }
}

/// Whether a line has what Markdown and web pages write for letters of their own: `\*`, `&gt;`. JSON
/// has other escapes.
fn has_escapes(line: &str) -> bool {
    let in_pairs = |pair: &[u8]| matches!(pair, [b'\\', next] if ESCAPED.contains(next));
    !line.starts_with('{')
        && (line.as_bytes().windows(2).any(in_pairs)
            || ENTITIES.iter().any(|(entity, _)| line.contains(entity)))
}

fn undo_escapes(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(letter) = rest.chars().next() {
        let behind = rest.get(letter.len_utf8()..).unwrap_or_default();
        let entity = ENTITIES.iter().find(|(entity, _)| rest.starts_with(entity));
        if let Some((entity, letter)) = entity {
            plain.push(*letter);
            rest = rest.get(entity.len()..).unwrap_or_default();
            continue;
        }
        let is_escape =
            letter == '\\' && behind.bytes().next().is_some_and(|next| ESCAPED.contains(&next));
        if !is_escape {
            plain.push(letter);
        }
        rest = behind;
    }
    plain
}

/// Whether text has two bytes a letter, as Windows saves it.
fn is_wide(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff])
}

pub(super) fn decode_text(bytes: &[u8]) -> String {
    let text = if is_wide(bytes) {
        let little = bytes.first() == Some(&0xff);
        let units = bytes.get(2..).unwrap_or_default().chunks_exact(2).map(|pair| {
            let pair = pair.try_into().unwrap_or_default();
            if little { u16::from_le_bytes(pair) } else { u16::from_be_bytes(pair) }
        });
        char::decode_utf16(units)
            .map(|letter| letter.unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect()
    } else {
        String::from_utf8_lossy(bytes).into_owned()
    };
    if !text.contains('\r') {
        return text;
    }
    text.replace("\r\n", "\n").replace('\r', "\n")
}

/// Removes quotation marks, line numbers, terminal sequences, odd blanks and wraps.
pub(super) fn clean_lines(text: &str) -> Vec<String> {
    let mut lines = collect_lines(text);
    lines.iter_mut().filter(|line| has_escapes(line)).for_each(|line| *line = undo_escapes(line));
    strip_quote_marks(&mut lines);
    strip_list_bullets(&mut lines);
    strip_container_names(&mut lines);
    strip_line_numbers(&mut lines);
    if strip_file_names(&mut lines) {
        // `grep -n` writes the number behind the name.
        strip_line_numbers(&mut lines);
    }
    strip_indent(&mut lines);
    replace_column_commas(&mut lines);
    join_broken_lines(&lines).or_else(|| join_broken_log(&lines)).unwrap_or(lines)
}

/// Lines without terminal sequences, no two empty ones in a row, and no end of an endless one.
fn collect_lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let end = line.floor_char_boundary(LONGEST_LINE);
        let line = strip_escapes(line.get(..end).unwrap_or(line));
        if !line.is_empty() || lines.last().is_none_or(|last| !last.is_empty()) {
            lines.push(line);
        }
        if lines.len() >= MOST_LINES {
            break;
        }
    }
    lines
}

/// A line without terminal sequences, with one kind of blanks.
fn strip_escapes(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\u{1b}' => match letters.next() {
                // ESC [ ... letter
                Some('[') => drop(letters.find(|letter| ('@'..='~').contains(letter))),
                // ESC ] ... BEL, or ESC \
                Some(']') => {
                    while let Some(letter) = letters.next() {
                        if letter == '\u{7}'
                            || (letter == '\u{1b}' && letters.next_if_eq(&'\\').is_some())
                        {
                            break;
                        }
                    }
                }
                _ => {}
            },
            letter if INVISIBLE.contains(&letter) => {}
            '\t' => plain.push('\t'),
            letter if letter.is_whitespace() => plain.push(' '),
            letter => plain.push(letter),
        }
    }
    plain.truncate(plain.trim_end().len());
    plain
}

fn filled_lines(lines: &[String]) -> impl Iterator<Item = &str> {
    lines.iter().map(String::as_str).filter(|line| !line.trim().is_empty())
}

/// Removes `>` and `|` where most lines have them: as one quotation or one table. No tool's first
/// line begins with `>`: whoever quotes several lines may mark the first alone.
fn strip_quote_marks(lines: &mut [String]) {
    let all = filled_lines(lines).count();
    let marked =
        filled_lines(lines).filter(|line| line.trim_start().starts_with(['>', '|'])).count();
    if all == 0 {
        return;
    }
    if marked * 2 <= all {
        let first = lines.iter_mut().find(|line| !line.trim().is_empty());
        if let Some(first) = first
            && let Some(rest) = first.trim_start().strip_prefix('>')
        {
            *first = rest.strip_prefix(' ').unwrap_or(rest).to_owned();
        }
        return;
    }
    for line in lines {
        let mut rest = line.trim_start();
        let mut in_table = false;
        while let Some(inner) = rest.strip_prefix(['>', '|']) {
            in_table |= rest.starts_with('|');
            rest = inner.strip_prefix(' ').unwrap_or(inner);
        }
        // A table has them between its columns too.
        let plain = if in_table { rest.replace('|', " ") } else { rest.to_owned() };
        plain.trim_end().clone_into(line);
    }
}

/// Removes the bullets of a list: all lines have one.
fn strip_list_bullets(lines: &mut [String]) {
    let split = |line: &str| {
        // An empty line of a comment has nothing behind its mark.
        let line = format!("{} ", line.trim_start());
        let rest = ["- ", "* ", "• "].iter().find_map(|bullet| line.strip_prefix(bullet));
        rest.map(|rest| rest.trim_end().to_owned())
    };
    if filled_lines(lines).count() < 2 || !filled_lines(lines).all(|line| split(line).is_some()) {
        return;
    }
    for line in lines {
        *line = split(line).unwrap_or_default();
    }
}

/// Removes the container's name that `docker compose logs` puts before each line: `db_1  | text`.
fn strip_container_names(lines: &mut [String]) {
    fn split(line: &str) -> Option<(&str, &str)> {
        let (name, rest) = line.split_once('|')?;
        let name = name.strip_suffix(' ').map(str::trim_end)?;
        let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        let is_name = !name.is_empty() && name.bytes().all(known);
        is_name.then(|| (name, rest.strip_prefix(' ').unwrap_or(rest)))
    }
    // Those of several containers are told apart by what reads servers' logs.
    let names: BTreeSet<Option<&str>> =
        filled_lines(lines).map(|line| split(line).map(|(name, _)| name)).collect();
    if names.len() != 1 || names.contains(&None) {
        return;
    }
    for line in lines {
        if let Some((_, rest)) = split(line) {
            *line = rest.to_owned();
        }
    }
}

/// Removes line numbers of editors and `grep -n`: all lines have one, in rising order.
fn strip_line_numbers(lines: &mut [String]) {
    let mut last = None;
    let mut count = 0_usize;
    for line in filled_lines(lines) {
        let Some((number, _)) = split_line_number(line) else { return };
        if last.is_some_and(|last| number <= last) {
            return;
        }
        last = Some(number);
        count += 1;
    }
    if count < 4 {
        return;
    }
    for line in lines {
        if let Some((_, rest)) = split_line_number(line) {
            *line = rest.to_owned();
        }
    }
}

/// The number that a line begins with, and the rest; not of a time of day.
fn split_line_number(line: &str) -> Option<(u64, &str)> {
    let line = line.trim_start();
    let end = line.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(line.len());
    let (digits, rest) = line.split_at_checked(end)?;
    let number = digits.parse().ok().filter(|_| digits.len() <= 7)?;
    if count_time_words(line).is_some() {
        return None;
    }
    let rest = match rest.bytes().next() {
        None => rest,
        Some(b':' | b'|' | b'.' | b')' | b'\t' | b' ') => rest.get(1..)?,
        Some(_) => return None,
    };
    Some((number, rest))
}

/// Removes the file name that grep put before each line, or before a field of the kernel's; returns
/// whether each had one.
fn strip_file_names(lines: &mut [String]) -> bool {
    let name = |line: &str| {
        let (name, _) = line.split_once(':')?;
        let begins = name
            .starts_with(|first: char| first.is_ascii_alphabetic() || matches!(first, '/' | '.'));
        let sound =
            begins && !name.contains(char::is_whitespace) && name.contains(['.', '/', '_', '-']);
        sound.then(|| name.to_owned())
    };
    let names: Vec<Option<String>> = filled_lines(lines).map(name).collect();
    let first = names.first().cloned().flatten();
    let all = names.len() >= 4 && first.is_some() && names.iter().all(|name| *name == first);
    for line in lines {
        if let Some((_, rest)) = line.split_once(':')
            && name(line).is_some()
            && (all || proc_log::is_field(rest))
        {
            *line = rest.to_owned();
        }
    }
    all
}

fn strip_indent(lines: &mut [String]) {
    let blanks = |line: &str| line.bytes().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let least = filled_lines(lines).map(blanks).min().unwrap_or(0);
    let first = lines.iter().position(|line| line.trim_start().starts_with("Linux "));
    for (at, line) in lines.iter_mut().enumerate() {
        let off = if first == Some(at) { blanks(line) } else { least };
        if let Some(rest) = line.get(off..) {
            *line = rest.to_owned();
        }
    }
}

/// vmstat's columns separated by commas or semicolons, as in a spreadsheet.
fn replace_column_commas(lines: &mut [String]) {
    let parted = |line: &str| line.replace([',', ';', '"'], " ");
    if lines.iter().any(|line| line.contains([',', ';']) && vmstat::is_heading(&parted(line))) {
        lines.iter_mut().for_each(|line| *line = parted(line));
    }
}

/// Joins lines of sar's and vmstat's tables that were wrapped at a window's width; `None` where none
/// were. The rest of a line of sar has no time, and only headings or numbers; a row of vmstat has as
/// many numbers as there are headings.
fn join_broken_lines(lines: &[String]) -> Option<Vec<String>> {
    let mut whole: Vec<String> = Vec::with_capacity(lines.len());
    let mut joined = false;
    let mut columns = 0;
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        let headings = !words.is_empty() && words.iter().all(|word| is_word(word));
        let numbers = !words.is_empty() && words.iter().all(|word| is_number(word));
        let goes_on = whole
            .last()
            .filter(|last| last.len() + line.len() < LONGEST_WHOLE)
            .is_some_and(|last| {
                let before: Vec<&str> = last.split_whitespace().collect();
                if let Some(time) = count_time_words(last) {
                    let behind = before.get(time..).unwrap_or_default();
                    let of_numbers = behind.iter().any(|word| is_number(word));
                    return (headings && is_heading(last)) || (numbers && of_numbers);
                }
                let of_vmstat = |word: &&str| vmstat::is_column(word);
                (vmstat::is_heading(last) && !words.is_empty() && words.iter().all(of_vmstat))
                    || (numbers
                        && before.len() < columns
                        && before.len() + words.len() <= columns
                        && before.iter().all(|word| is_number(word)))
            });
        if goes_on && let Some(last) = whole.last_mut() {
            joined = true;
            last.push(' ');
            last.push_str(line.trim_start());
        } else {
            whole.push(line.clone());
        }
        if let Some(last) = whole.last().filter(|last| vmstat::is_heading(last)) {
            columns = last.split_whitespace().filter(|word| vmstat::is_column(word)).count();
        }
    }
    joined.then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clean_text(text: &str) -> String {
        clean_lines(&decode_text(text.as_bytes())).join("\n")
    }

    const SAR: &str = "08:00:00     CPU     %user   %system     %idle\n08:01:00     all      1.00      2.00     97.00\n\
                       08:02:00     all      1.00      2.00     97.00\n08:03:00     all      1.00      2.00     97.00";

    #[test]
    fn empty_and_endless_lines_are_not_collected() {
        assert_eq!(clean_lines(&"\n".repeat(1 << 20)).len(), 1);
        assert_eq!(clean_lines(&"  \t\n".repeat(1 << 20)).len(), 1);
        assert_eq!(clean_lines(&"a\n\n".repeat(1 << 19)).len(), MOST_LINES);
        let long = clean_lines(&"ab ".repeat(1 << 20));
        assert_eq!((long.len(), long[0].len() <= LONGEST_LINE), (1, true));
    }

    #[test]
    fn what_came_along_is_taken_off() {
        let each = |by: &dyn Fn(usize, &str) -> String| {
            SAR.lines()
                .enumerate()
                .map(|(at, line)| by(at + 1, line))
                .collect::<Vec<_>>()
                .join("\n")
        };
        for (what, text) in [
            ("a quotation", each(&|_, line| format!("> {line}"))),
            ("a quotation of a quotation", each(&|_, line| format!(">> > {line}"))),
            (
                "numbers of lines",
                each(&|at, line| format!("{at:4}  {line}").replacen("  ", " ", 0)),
            ),
            ("grep's numbers", each(&|at, line| format!("{at}:{line}"))),
            ("grep's names", each(&|_, line| format!("sar20.txt:{line}"))),
            (
                "colours",
                each(&|_, line| format!("\u{1b}[32m{line}\u{1b}[K\u{1b}]0;x\u{7}\u{1b}[m")),
            ),
            ("blanks of one width", SAR.replace(' ', "\u{a0}")),
            ("letters without width", SAR.replace('\n', "\u{200b}\n")),
            ("ends of lines of Windows", SAR.replace('\n', "\r\n")),
            ("ends of lines of old Macs", SAR.replace('\n', "\r")),
            (
                "a mark at the first line alone",
                each(&|at, line| format!("{}{line}", if at == 1 { "> " } else { "" })),
            ),
            ("an indent", each(&|_, line| format!("    {line}"))),
            (
                "a broken line",
                SAR.replace("     %idle", "\n%idle").replace("     97.00", "\n  97.00"),
            ),
        ] {
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            let cleaned: Vec<Vec<String>> = clean_text(&text).lines().map(words).collect();
            assert_eq!(cleaned, SAR.lines().map(words).collect::<Vec<_>>(), "{what}");
        }
        assert_eq!(clean_text(SAR), SAR);
        let wide: Vec<u8> =
            [0xff, 0xfe].into_iter().chain(SAR.encode_utf16().flat_map(u16::to_le_bytes)).collect();
        assert_eq!(clean_lines(&decode_text(&wide)).join("\n"), SAR);
    }

    #[test]
    fn what_only_looks_like_it_is_kept() {
        for text in [
            // Hours that count up are no numbers of lines.
            "00:00:00 CPU %user %idle\n01:00:00 all 1.00 99.00\n02:00:00 all 1.00 99.00\n03:00:00 \
                 all 1.00 99.00",
            "PageTables:  1 kB\nPageTables:  2 kB\nPageTables:  3 kB\nPageTables:  4 kB",
            " r  b   swpd   free\n 1  0      0    100\n 2  0      0    100\n 3  0      0    100\n \
                 4  0      0    100",
        ] {
            let trimmed =
                |text: &str| text.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>();
            assert_eq!(trimmed(&clean_text(text)), trimmed(text));
        }
    }

    #[test]
    fn loose_words_without_end_make_no_line_without_end() {
        for (line, piece) in [("08:01:00     all      1.00", "97.00"), ("r b swpd free", "in")] {
            let cleaned = clean_text(&format!("{line}\n{}", format!("{piece}\n").repeat(1000)));
            let longest = cleaned.lines().map(str::len).max().unwrap();
            assert!(longest > line.len() + 100 && longest <= LONGEST_WHOLE, "{line}: {longest}");
        }
    }

    #[test]
    fn broken_lines_of_vmstat_are_whole_again() {
        let text = "r b swpd free buff cache si so bi bo\nin cs us sy id wa st\n1 0 0 100 2 3 0 0 \
             4 5\n6 7 8 9 83 0 0\n\
                    2 0 0 100 2 3 0 0 4 5\n6 7 8 9 83 0 0";
        assert_eq!(
            clean_text(text),
            "r b swpd free buff cache si so bi bo in cs us sy id wa st\n1 0 0 100 2 3 0 0 4 5 6 7 \
                 8 9 83 0 0\n\
             2 0 0 100 2 3 0 0 4 5 6 7 8 9 83 0 0"
        );
    }
}
