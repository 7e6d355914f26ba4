//! Lines that fit the terminal.

use std::fmt::Display;
use std::io;

use unicode_width::UnicodeWidthChar;

use crate::TextLayout;
use crate::palette::Role;
use crate::plain::escape_line;

/// Text in pieces of different meaning, escaped as they are added.
#[derive(Clone, Debug, Default)]
pub struct Spans(Vec<(Role, String)>);

impl Spans {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds a piece, without spaces around it.
    #[must_use]
    pub fn add(mut self, role: Role, text: &str) -> Self {
        self.push(role, text);
        self
    }

    /// Adds a piece in place.
    pub fn push(&mut self, role: Role, text: &str) {
        self.0.push((role, escape_line(text).into_owned()));
    }

    /// Adds all pieces of another.
    pub fn append(&mut self, other: &Self) {
        self.0.extend(other.0.iter().cloned());
    }

    /// Columns that it takes on one line.
    pub fn width(&self) -> usize {
        self.0.iter().map(|(_, text)| text_width(text)).sum()
    }

    /// Its pieces, each with what it means.
    pub fn pieces(&self) -> impl Iterator<Item = (Role, &str)> {
        self.0.iter().map(|(role, text)| (*role, text.as_str()))
    }

    /// Lines after the first are indented by `hang`. Words longer than a line are cut.
    pub fn wrap_lines(&self, width: usize, hang: usize) -> Vec<Self> {
        let width = width.max(1);
        let mut lines =
            ParagraphLines { all: Vec::new(), line: Self::new(), at: 0, hang: hang.min(width / 2) };
        for (number, word) in self.split_words().iter().enumerate() {
            if number > 0 && lines.at + word.gap + word.width > width {
                lines.next_for(word.width, width);
            } else {
                lines.push_text(Role::Text, &" ".repeat(word.gap));
            }
            for (role, text) in &word.pieces {
                let mut rest = text.as_str();
                while !rest.is_empty() {
                    if lines.at >= width {
                        lines.begin_line(lines.hang);
                    }
                    let room = width.saturating_sub(lines.at).max(1);
                    let (now, later) = rest.split_at(fitting_bytes(rest, room));
                    lines.push_text(*role, now);
                    rest = later;
                }
            }
        }
        lines.all.push(lines.line);
        lines.all
    }

    /// Words with the number of spaces before each.
    fn split_words(&self) -> Vec<StyledWord> {
        let mut words: Vec<StyledWord> = Vec::new();
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
                    Some(word) if open => word.push_character(*role, character),
                    _ => {
                        let mut word = StyledWord { gap, pieces: Vec::new(), width: 0 };
                        word.push_character(*role, character);
                        words.push(word);
                        (gap, open) = (0, true);
                    }
                }
            }
        }
        words
    }
}

impl From<String> for Spans {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<&str> for Spans {
    fn from(text: &str) -> Self {
        Self::new().add(Role::Text, text)
    }
}

struct ParagraphLines {
    all: Vec<Spans>,
    line: Spans,
    at: usize,
    hang: usize,
}

impl ParagraphLines {
    /// Begins a line that a word fits on whole, indented less if need be: a path can be copied.
    fn next_for(&mut self, word: usize, width: usize) {
        let room = width.checked_sub(word).unwrap_or(self.hang);
        self.begin_line(self.hang.min(room));
    }

    fn begin_line(&mut self, column: usize) {
        self.all.push(std::mem::take(&mut self.line));
        self.at = 0;
        self.push_text(Role::Text, &" ".repeat(column));
    }

    fn push_text(&mut self, role: Role, text: &str) {
        if !text.is_empty() {
            self.at += text_width(text);
            self.line.0.push((role, text.to_owned()));
        }
    }
}

struct StyledWord {
    gap: usize,
    pieces: Vec<(Role, String)>,
    width: usize,
}

impl StyledWord {
    fn push_character(&mut self, role: Role, character: char) {
        self.width += character_width(character);
        match self.pieces.last_mut() {
            Some((last, text)) if *last == role => text.push(character),
            _ => self.pieces.push((role, character.into())),
        }
    }
}

/// Columns of a text: Chinese, Japanese and Korean characters take two, combining accents none
/// (Unicode Standard Annex #11).
pub fn text_width(text: &str) -> usize {
    text.chars().map(character_width).sum()
}

fn character_width(character: char) -> usize {
    character.width().unwrap_or(0)
}

/// How many bytes of a text fit into so many columns; at least those of its first character.
pub fn fitting_bytes(text: &str, room: usize) -> usize {
    let mut taken = 0;
    let over = |(at, character): &(usize, char)| {
        taken += character_width(*character);
        taken > room && *at > 0
    };
    text.char_indices().find(over).map_or(text.len(), |(at, _)| at)
}

pub(crate) struct Screen<'a> {
    out: &'a mut dyn io::Write,
    layout: TextLayout,
}

/// Narrower than this no table can be read; lines run over instead.
const NARROWEST: usize = 40;
/// Columns between fields.
const FIELD_GAP: usize = 2;

impl<'a> Screen<'a> {
    pub(crate) fn new(out: &'a mut dyn io::Write, layout: TextLayout) -> Self {
        Self { out, layout: TextLayout { width: layout.width.max(NARROWEST), ..layout } }
    }

    pub(crate) const fn width(&self) -> usize {
        self.layout.width
    }

    pub(crate) const fn is_verbose(&self) -> bool {
        self.layout.verbose
    }

    pub(crate) fn write_blank(&mut self) -> io::Result<()> {
        writeln!(self.out)
    }

    /// Writes a line as it stands, however long.
    pub(crate) fn write_line(&mut self, spans: &Spans) -> io::Result<()> {
        for (role, text) in &spans.0 {
            self.write_styled(*role, text)?;
        }
        writeln!(self.out)
    }

    /// Writes text as it is, which whoever calls has found harmless.
    pub(crate) fn write_verbatim(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())
    }

    /// Writes a paragraph: lines after the first start at column `hang`.
    pub(crate) fn write_paragraph(&mut self, hang: usize, spans: &Spans) -> io::Result<()> {
        spans.wrap_lines(self.layout.width, hang).iter().try_for_each(|line| self.write_line(line))
    }

    /// Fields are two spaces apart; one that does not fit starts the next line, at column `hang`.
    pub(crate) fn write_fields(&mut self, hang: usize, fields: &[Spans]) -> io::Result<()> {
        let indent = Spans::new().add(Role::Text, &" ".repeat(hang));
        let mut line = Spans::new();
        for field in fields {
            if line.0.is_empty() {
                line = field.clone();
            } else if line.width() + FIELD_GAP + field.width() <= self.layout.width {
                line.push(Role::Text, &" ".repeat(FIELD_GAP));
                line.0.extend(field.0.iter().cloned());
            } else {
                self.write_paragraph(hang, &line)?;
                line = indent.clone();
                line.0.extend(field.0.iter().cloned());
            }
        }
        self.write_paragraph(hang, &line)
    }

    /// A paragraph that begins with words of another role.
    pub(crate) fn write_labeled(
        &mut self,
        hang: usize,
        role: Role,
        label: &str,
        text: &str,
    ) -> io::Result<()> {
        self.write_paragraph(hang, &Spans::new().add(role, label).add(Role::Text, text))
    }

    /// A paragraph for each title and text.
    pub(crate) fn write_notes<T: Display>(
        &mut self,
        hang: usize,
        notes: impl IntoIterator<Item = (String, T)>,
    ) -> io::Result<()> {
        notes.into_iter().try_for_each(|(title, text)| {
            self.write_labeled(hang, Role::Strong, &title, &format!(": {text}"))
        })
    }

    /// `left out  oracle PROD: why`.
    pub(crate) fn write_note(
        &mut self,
        hang: usize,
        label: &str,
        title: &str,
        text: impl Display,
    ) -> io::Result<()> {
        let start = Spans::new().add(Role::Quiet, label).add(Role::Strong, title);
        self.write_paragraph(hang, &start.add(Role::Text, &format!(": {text}")))
    }

    pub(crate) fn write_field_lines(&mut self, lines: &[Vec<Spans>]) -> io::Result<()> {
        lines.iter().try_for_each(|fields| self.write_fields(2, fields))
    }

    fn write_styled(&mut self, role: Role, text: &str) -> io::Result<()> {
        let style = self.layout.palette.role_style(role);
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
        Screen::new(&mut out, TextLayout::plain_text(width)).write_paragraph(hang, spans).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn paragraphs_hang() {
        let spans = Spans::from("warn  one two three four five six seven eight nine ten");
        assert_eq!(
            flow(40, 6, &spans),
            "warn  one two three four five six seven\n      eight nine ten\n"
        );
    }

    #[test]
    fn colour_never_moves_a_line_break() {
        let spans = Spans::new()
            .add(Role::Error, "error")
            .add(Role::Text, " no-pool, ")
            .add(Role::Strong, "PROD");
        let mut out = Vec::new();
        let layout = TextLayout { palette: Palette::Colour, ..TextLayout::plain_text(80) };
        Screen::new(&mut out, layout).write_paragraph(0, &spans).unwrap();
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
                prop_assert!(text_width(line) <= width, "{line:?}");
            }
            // Nothing but spaces and line ends is added or lost.
            let squeeze = |text: &str| text.chars().filter(|character| !matches!(character, ' ' | '\n')).collect::<String>();
            prop_assert_eq!(squeeze(&shown), squeeze(&escape_line(&text)));
        }
    }
}
