//! XML as far as sadf writes it, a tag at a time and never more than one in memory.

use std::io::{self, BufRead, ErrorKind, Read};

use quick_xml::escape::unescape;
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Error, Reader};

use super::{DEEPEST, Element, LONGEST};

/// Calls back for every tag with its attributes, and for every element that holds but text as an attribute of the one
/// around it.
///
/// # Errors
/// The stream's, its end within an element, and what no XML has.
pub(super) fn read(stream: &mut dyn BufRead, found: &mut dyn FnMut(&Element)) -> io::Result<()> {
    let mut reader = Reader::from_reader(Bounded { stream, left: 0 });
    let config = reader.config_mut();
    // A file that was cut or edited is read as far as it makes sense.
    (config.check_end_names, config.allow_unmatched_ends, config.allow_dangling_amp) = (false, true, true);
    let mut open: Vec<String> = Vec::new();
    let mut text = String::new();
    let mut buffer = Vec::new();
    loop {
        buffer.clear();
        reader.get_mut().left = LONGEST;
        match reader.read_event_into(&mut buffer).map_err(refused)? {
            Event::Start(tag) => {
                text.clear();
                let element = element(&tag);
                found(&element);
                if open.len() >= DEEPEST {
                    return Err(io::Error::other("elements nested too deeply"));
                }
                open.push(element.name);
            }
            Event::Empty(tag) => {
                text.clear();
                found(&element(&tag));
            }
            Event::End(tag) => {
                let name = lossy(tag.name().as_ref());
                if open.last().is_some_and(|last| *last == name) {
                    open.pop();
                }
                let said = std::mem::take(&mut text);
                let said = said.trim();
                if !said.is_empty() {
                    let around = open.last().cloned().unwrap_or_default();
                    found(&Element { name: around, attributes: vec![(name, said.to_owned())] });
                }
            }
            Event::Text(piece) => add(&mut text, &lossy(&piece)),
            Event::CData(piece) => add(&mut text, &lossy(&piece)),
            Event::GeneralRef(name) => add(&mut text, &plain(&format!("&{};", lossy(&name)))),
            Event::Eof if open.is_empty() => return Ok(()),
            Event::Eof => return Err(ErrorKind::UnexpectedEof.into()),
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
        }
    }
}

fn element(tag: &BytesStart<'_>) -> Element {
    let mut attributes = tag.attributes();
    let attributes = attributes.with_checks(false).map_while(Result::ok);
    let attributes = attributes.map(|one| (lossy(one.key.as_ref()), plain(&lossy(&one.value)))).collect();
    Element { name: lossy(tag.name().as_ref()), attributes }
}

/// Text with the characters that XML has names and numbers for.
fn plain(text: &str) -> String {
    unescape(text).map_or_else(|_| text.to_owned(), |plain| plain.into_owned())
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Takes a piece of text to the others of its element, within bounds.
fn add(text: &mut String, piece: &str) {
    if text.len() < LONGEST {
        text.push_str(piece);
    }
}

fn refused(error: Error) -> io::Error {
    match error {
        Error::Io(error) => io::Error::new(error.kind(), error),
        // A tag or a comment that is not closed.
        Error::Syntax(_) => ErrorKind::UnexpectedEof.into(),
        other => io::Error::new(ErrorKind::InvalidData, other),
    }
}

/// A stream of which no tag and no text may be longer than is sensible: whoever reads keeps it in memory.
struct Bounded<'a> {
    stream: &'a mut dyn BufRead,
    left: usize,
}

impl Read for Bounded<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let taken = self.fill_buf()?.read(into)?;
        self.consume(taken);
        Ok(taken)
    }
}

impl BufRead for Bounded<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let bytes = self.stream.fill_buf()?;
        if self.left == 0 && !bytes.is_empty() {
            return Err(io::Error::other("a tag or a text is longer than sadf writes them"));
        }
        Ok(bytes.get(..self.left).unwrap_or(bytes))
    }

    fn consume(&mut self, taken: usize) {
        self.left = self.left.saturating_sub(taken);
        self.stream.consume(taken);
    }
}
