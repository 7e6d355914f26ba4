//! Lines that fit the terminal.

use std::io;

use unicode_width::UnicodeWidthChar;

use crate::Layout;
use crate::palette::Role;
use crate::plain::clean;

/// Text in pieces of different meaning. Whatever goes in comes out harmless.
#[derive(Clone, Debug, Default)]
pub struct Spans(Vec<(Role, String)>);

impl Spans {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds a piece; no space comes before or after it of itself.
    #[must_use]
    pub fn add(mut self, role: Role, text: &str) -> Self {
        self.push(role, text);
        self
    }

    /// Adds a piece in place.
    pub fn push(&mut self, role: Role, text: &str) {
        self.0.push((role, clean(text).into_owned()));
    }

    /// Adds all pieces of another.
    pub fn append(&mut self, other: &Self) {
        self.0.extend(other.0.iter().cloned());
    }

    /// Columns that it takes on one line.
    pub fn width(&self) -> usize {
        self.0.iter().map(|(_, text)| columns(text)).sum()
    }

    /// Its pieces, each with what it means.
    pub fn pieces(&self) -> impl Iterator<Item = (Role, &str)> {
        self.0.iter().map(|(role, text)| (*role, text.as_str()))
    }

    /// As lines of so many columns, those after the first from column `hang` on. Words longer than a line are cut.
    pub fn wrapped(&self, width: usize, hang: usize) -> Vec<Self> {
        let width = width.max(1);
        let mut lines = Lines { all: Vec::new(), line: Self::new(), at: 0, hang: hang.min(width / 2) };
        for (number, word) in self.words().iter().enumerate() {
            if number > 0 && lines.at + word.gap + word.width > width {
                lines.next_for(word.width, width);
            } else {
                lines.put(Role::Text, &" ".repeat(word.gap));
            }
            for (role, text) in &word.pieces {
                let mut rest = text.as_str();
                while !rest.is_empty() {
                    if lines.at >= width {
                        lines.next();
                    }
                    let room = width.saturating_sub(lines.at).max(1);
                    let (now, later) = rest.split_at(fitting(rest, room));
                    lines.put(*role, now);
                    rest = later;
                }
            }
        }
        lines.all.push(lines.line);
        lines.all
    }

    /// Words with the number of spaces before each.
    fn words(&self) -> Vec<Word> {
        let mut words: Vec<Word> = Vec::new();
        let mut gap = 0;
        let mut open = false;
        for (role, text) in &self.0 {
            for character in text.chars() {
                if character == ' ' {
                    gap += 1;
                    open = false;
                    continue;
                }
                match words.last_mut() {
                    Some(word) if open => word.put(*role, character),
                    _ => {
                        let mut word = Word { gap, pieces: Vec::new(), width: 0 };
                        word.put(*role, character);
                        words.push(word);
                        (gap, open) = (0, true);
                    }
                }
            }
        }
        words
    }
}

impl From<&str> for Spans {
    fn from(text: &str) -> Self {
        Self::new().add(Role::Text, text)
    }
}

/// A paragraph on its way into lines.
struct Lines {
    all: Vec<Spans>,
    line: Spans,
    at: usize,
    hang: usize,
}

impl Lines {
    fn next(&mut self) {
        self.begin(self.hang);
    }

    /// The next line, from so far to the left that a word stays whole that is no longer than a line: a path can be copied.
    fn next_for(&mut self, word: usize, width: usize) {
        let room = width.checked_sub(word).unwrap_or(self.hang);
        self.begin(self.hang.min(room));
    }

    fn begin(&mut self, column: usize) {
        self.all.push(std::mem::take(&mut self.line));
        self.at = 0;
        self.put(Role::Text, &" ".repeat(column));
    }

    fn put(&mut self, role: Role, text: &str) {
        if !text.is_empty() {
            self.at += columns(text);
            self.line.0.push((role, text.to_owned()));
        }
    }
}

struct Word {
    gap: usize,
    pieces: Vec<(Role, String)>,
    width: usize,
}

impl Word {
    fn put(&mut self, role: Role, character: char) {
        self.width += width(character);
        match self.pieces.last_mut() {
            Some((last, text)) if *last == role => text.push(character),
            _ => self.pieces.push((role, character.into())),
        }
    }
}

/// Columns of a text: a terminal gives two to a character of Chinese, Japanese or Korean, and none to an accent that combines
/// (Unicode Standard Annex #11).
pub fn columns(text: &str) -> usize {
    text.chars().map(width).sum()
}

fn width(character: char) -> usize {
    character.width().unwrap_or(0)
}

/// How many bytes of a text fit into so many columns; those of its first character if nothing does.
pub fn fitting(text: &str, room: usize) -> usize {
    let mut taken = 0;
    let over = |(at, character): &(usize, char)| {
        taken += width(*character);
        taken > room && *at > 0
    };
    text.char_indices().find(over).map_or(text.len(), |(at, _)| at)
}

/// Where lines are written.
pub struct Screen<'a> {
    out: &'a mut dyn io::Write,
    layout: Layout,
}

/// Narrower than this no table can be read; lines run over instead.
const NARROWEST: usize = 40;

/// Columns between fields.
const FIELD_GAP: usize = 2;

impl<'a> Screen<'a> {
    /// A screen on `out`.
    pub fn new(out: &'a mut dyn io::Write, layout: Layout) -> Self {
        Self { out, layout: Layout { width: layout.width.max(NARROWEST), ..layout } }
    }

    /// Columns.
    pub const fn width(&self) -> usize {
        self.layout.width
    }

    /// Whether everything is to be shown.
    pub const fn verbose(&self) -> bool {
        self.layout.verbose
    }

    /// An empty line.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn blank(&mut self) -> io::Result<()> {
        writeln!(self.out)
    }

    /// One line as it stands, however long.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn line(&mut self, spans: &Spans) -> io::Result<()> {
        for (role, text) in &spans.0 {
            self.paint(*role, text)?;
        }
        writeln!(self.out)
    }

    /// A paragraph: lines after the first start at column `hang`. Words longer than a line are cut.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn flow(&mut self, hang: usize, spans: &Spans) -> io::Result<()> {
        spans.wrapped(self.layout.width, hang).iter().try_for_each(|line| self.line(line))
    }

    /// Fields two spaces apart; one that does not fit whole starts the next line, at column `hang`.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn fields(&mut self, hang: usize, fields: &[Spans]) -> io::Result<()> {
        let indent = Spans::new().add(Role::Text, &" ".repeat(hang));
        let mut line = Spans::new();
        for field in fields {
            if line.0.is_empty() {
                line = field.clone();
            } else if line.width() + FIELD_GAP + field.width() <= self.layout.width {
                line.push(Role::Text, &" ".repeat(FIELD_GAP));
                line.0.extend(field.0.iter().cloned());
            } else {
                self.flow(hang, &line)?;
                line = indent.clone();
                line.0.extend(field.0.iter().cloned());
            }
        }
        self.flow(hang, &line)
    }

    fn paint(&mut self, role: Role, text: &str) -> io::Result<()> {
        let style = self.layout.palette.style(role);
        write!(self.out, "{style}{text}{style:#}")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Palette;

    fn flow(width: usize, hang: usize, spans: &Spans) -> String {
        let mut out = Vec::new();
        Screen::new(&mut out, Layout::plain(width)).flow(hang, spans).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn paragraphs_hang() {
        let spans = Spans::from("warn  one two three four five six seven eight nine ten");
        assert_eq!(flow(40, 6, &spans), "warn  one two three four five six seven\n      eight nine ten\n");
    }

    #[test]
    fn colour_never_moves_a_line_break() {
        let spans = Spans::new().add(Role::Error, "error").add(Role::Text, " no-pool, ").add(Role::Strong, "PROD");
        let mut out = Vec::new();
        let layout = Layout { palette: Palette::Colour, ..Layout::plain(80) };
        Screen::new(&mut out, layout).flow(0, &spans).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "\u{1b}[1m\u{1b}[31merror\u{1b}[0m no-pool, \u{1b}[1mPROD\u{1b}[0m\n"
        );
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_the_screen(text in any::<String>(), width in 40_usize..120, hang in 0_usize..30) {
            let shown = flow(width, hang, &Spans::from(text.as_str()));
            for line in shown.lines() {
                prop_assert!(columns(line) <= width, "{line:?}");
            }
            // Nothing but spaces and line ends is added or lost.
            let squeeze = |text: &str| text.chars().filter(|c| !matches!(c, ' ' | '\n')).collect::<String>();
            prop_assert_eq!(squeeze(&shown), squeeze(&clean(&text)));
        }
    }
}
