//! JSON on a terminal: RFC 8259 and serde_json leave control characters in strings.

use std::fmt::Write as _;
use std::io;

use super::plain::is_active;

/// Passes JSON on, with what terminals act on spelled `\u009b`; it parses to the same.
pub struct EscapingJsonWriter<W>(W);

impl<W: io::Write> EscapingJsonWriter<W> {
    /// A writer to `out`; it has to be given whole characters.
    pub const fn new(out: W) -> Self {
        Self(out)
    }
}

impl<W: io::Write> io::Write for EscapingJsonWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = std::str::from_utf8(bytes)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        self.0.write_all(escape_json(text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// JSON as [`EscapingJsonWriter`] passes it on.
pub fn escape_json(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for character in json.chars() {
        if character < '\u{7f}' || !is_active(character) {
            safe.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            // Writing to a String cannot fail.
            let _ = write!(safe, "\\u{unit:04x}");
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::escape::plain;

    #[test]
    fn what_a_terminal_acts_on_is_spelled() {
        // CSI in one character, DEL, an override of direction, a blank of no width, a tag beyond
        // the first plane.
        assert_eq!(escape_json("{\"a\": \"\u{9b}2J\"}\n"), "{\"a\": \"\\u009b2J\"}\n");
        assert_eq!(
            escape_json("\u{7f}\u{202e}\u{200b}\u{e0041}"),
            "\\u007f\\u202e\\u200b\\udb40\\udc41"
        );
        assert_eq!(escape_json("Übung 数据 {}\n\t"), "Übung 数据 {}\n\t");
    }

    #[test]
    fn no_character_is_left_that_acts() {
        let all: String = ('\u{7f}'..=char::MAX).collect();
        let mut out = Vec::new();
        EscapingJsonWriter::new(&mut out).write_all(all.as_bytes()).unwrap();
        assert!(plain::is_clean(std::str::from_utf8(&out).unwrap()));
    }
}
