//! Lines of logs that a terminal cut at its width, or a mail program wrapped between words. Each line
//! of a log begins with a time: what has none goes on from the line before.

use super::super::server_log::detect_line_engine;
use super::super::system_log::is_log_line;

/// Lines that tell whether a log is broken.
const LOOKED_AT: usize = 400;
/// Characters of the widest terminal whose cuts are mended; an unbroken log has longer lines.
const WIDEST: usize = 240;
/// Characters of the narrowest.
const NARROWEST: usize = 50;
/// The widest mail.
const WIDEST_MAIL: usize = 100;
/// Characters of a line that a mail program may have wrapped, though a name in it is shorter now.
const LONG: usize = 40;
/// Bytes of a line that is made whole.
const LONGEST_WHOLE: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineBreaks {
    /// Behind so many characters, wherever that is.
    AtWidth(usize),
    /// Between words, before the line gets longer.
    AtWords(usize),
}

/// The whole lines of a log that is broken; `None` of any other text.
pub(super) fn join_broken_log(lines: &[String]) -> Option<Vec<String>> {
    let breaks = find_breaks(lines)?;
    let mut whole: Vec<String> = Vec::with_capacity(lines.len());
    let mut before = "";
    for line in lines {
        let goes_on = breaks.goes_on(before, line);
        match whole.last_mut().filter(|last| goes_on && last.len() < LONGEST_WHOLE) {
            Some(last) => {
                let lost = match breaks {
                    // Blanks at the end of a line are not copied.
                    LineBreaks::AtWidth(width) => width.saturating_sub(before.chars().count()),
                    LineBreaks::AtWords(_) => 1,
                };
                last.push_str(&" ".repeat(lost));
                last.push_str(match breaks {
                    LineBreaks::AtWidth(_) => line,
                    LineBreaks::AtWords(_) => line.trim_start(),
                });
            }
            None => whole.push(line.clone()),
        }
        before = line;
    }
    Some(whole)
}

fn find_breaks(lines: &[String]) -> Option<LineBreaks> {
    let lines = lines.get(..LOOKED_AT).unwrap_or(lines);
    let width = lines.iter().map(|line| line.chars().count()).max()?;
    if !(NARROWEST..=WIDEST).contains(&width) || !lines.iter().any(|line| begins_line(line)) {
        return None;
    }
    let pairs = || {
        let next = lines.iter().zip(lines.iter().skip(1));
        next.filter(|(line, next)| !line.is_empty() && is_rest(next))
    };
    let cut = pairs().filter(|(line, _)| line.chars().count() == width).count();
    let full = lines.iter().filter(|line| line.chars().count() == width).count();
    if cut >= 2 && cut * 4 >= full * 3 {
        return Some(LineBreaks::AtWidth(width));
    }
    // Words longer than a mail's line stand alone.
    let of_words = |line: &&String| line.trim().contains(' ');
    let width = lines.iter().filter(of_words).map(|line| line.chars().count()).max()?;
    let breaks = LineBreaks::AtWords(width);
    let wrapped = pairs().filter(|(line, next)| breaks.is_full(line, next)).count();
    let logged = lines.iter().filter(|line| is_log_line(line)).count();
    (wrapped > 0 && logged > 0 && width <= WIDEST_MAIL).then_some(breaks)
}

impl LineBreaks {
    /// Whether the next line's first word had no place behind a line.
    fn is_full(self, line: &str, next: &str) -> bool {
        let length = line.chars().count();
        match self {
            Self::AtWidth(width) => length == width,
            Self::AtWords(width) => {
                let word = next.split_whitespace().next().map_or(0, |word| word.chars().count());
                length + 1 + word > width
            }
        }
    }

    fn goes_on(self, before: &str, line: &str) -> bool {
        if before.is_empty() || !is_rest(line) {
            return false;
        }
        match self {
            // A blank at the width is not copied.
            Self::AtWidth(width) => before.chars().count() + 1 >= width,
            Self::AtWords(_) => before.chars().count() >= LONG || self.is_full(before, line),
        }
    }
}

fn begins_line(line: &str) -> bool {
    is_log_line(line) || detect_line_engine(line).is_some()
}

/// Whether a line may be the rest of another: servers begin lines of their own with a tab.
fn is_rest(line: &str) -> bool {
    let is_fence = || line.starts_with("```") || line.starts_with("</") || line.starts_with('{');
    !line.trim().is_empty() && !line.starts_with('\t') && !is_fence() && !begins_line(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join(text: &str) -> Option<Vec<String>> {
        join_broken_log(&text.lines().map(str::to_owned).collect::<Vec<_>>())
    }

    const WHOLE: [&str; 2] = [
        "May 09 15:18:40 db1 kernel: INFO: task dockerd:14148 blocked for more than 120 seconds.",
        "May 09 15:18:40 db1 kernel: \"echo 0 > /proc/sys/kernel/hung_task_timeout_secs\" disables \
         this message.",
    ];

    #[test]
    fn what_a_terminal_cut_is_whole_again() {
        let cut = |line: &str| format!("{}\n{}\n", &line[..80], &line[80..]);
        let text = WHOLE.map(cut).concat();
        assert_eq!(join(&text).unwrap(), WHOLE);
        let fenced = join(&format!("{text}```\n")).unwrap();
        assert_eq!((&fenced[..2], fenced[2].as_str()), (&WHOLE.map(str::to_owned)[..], "```"));
    }

    #[test]
    fn what_a_mail_wrapped_is_whole_again() {
        let text = WHOLE.map(|line| {
            let at = line[..70].rfind(' ').unwrap();
            format!("{}\n{}\n", &line[..at], &line[at + 1..])
        });
        assert_eq!(join(&text.concat()).unwrap(), WHOLE);
    }

    #[test]
    fn other_text_is_left_alone() {
        let prose = "This host hung at night, twice, and nobody could log in to it any more.\n\
                     We saw that it swapped.\n";
        let log = "May 09 15:18:40 db1 kernel: a\nMay 09 15:18:41 db1 kernel: b\nRegards\n";
        for text in [prose, log, &WHOLE.join("\n")] {
            assert_eq!(join(text), None, "{text}");
        }
    }
}
