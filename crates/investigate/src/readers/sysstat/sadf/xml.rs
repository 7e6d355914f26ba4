//! sadf's XML, with never more than one tag in memory.

use std::io::{self, BufRead, ErrorKind, Read};

use quick_xml::escape::unescape;
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Error, Reader};

use super::{DEEPEST, Element, LONGEST};

/// Calls back for every tag; an element of text alone is an attribute of the one around it.
pub(super) fn read(stream: &mut dyn BufRead, found: &mut dyn FnMut(&Element)) -> io::Result<()> {
    let mut reader = Reader::from_reader(BoundedXmlStream { stream, left: 0 });
    let config = reader.config_mut();
    // A file that was cut or edited is read as far as possible.
    (config.check_end_names, config.allow_unmatched_ends, config.allow_dangling_amp) =
        (false, true, true);
    let mut open: Vec<String> = Vec::new();
    let mut text = String::new();
    let mut buffer = Vec::new();
    loop {
        buffer.clear();
        reader.get_mut().left = LONGEST;
        match reader.read_event_into(&mut buffer).map_err(to_io_error)? {
            Event::Start(tag) => {
                text.clear();
                let element = parse_element(&tag);
                found(&element);
                if open.len() >= DEEPEST {
                    return Err(io::Error::other("elements nested too deeply"));
                }
                open.push(element.name);
            }
            Event::Empty(tag) => {
                text.clear();
                found(&parse_element(&tag));
            }
            Event::End(tag) => {
                let name = lossy_string(tag.name().as_ref());
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
            Event::Text(piece) => add(&mut text, &lossy_string(&piece)),
            Event::CData(piece) => add(&mut text, &lossy_string(&piece)),
            Event::GeneralRef(name) => {
                add(&mut text, &unescape_text(&format!("&{};", lossy_string(&name))))
            }
            Event::Eof if open.is_empty() => return Ok(()),
            Event::Eof => return Err(ErrorKind::UnexpectedEof.into()),
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
        }
    }
}

fn parse_element(tag: &BytesStart<'_>) -> Element {
    let mut attributes = tag.attributes();
    let attributes = attributes.with_checks(false).map_while(Result::ok);
    let attributes = attributes
        .map(|one| (lossy_string(one.key.as_ref()), unescape_text(&lossy_string(&one.value))))
        .collect();
    Element { name: lossy_string(tag.name().as_ref()), attributes }
}

fn unescape_text(text: &str) -> String {
    unescape(text).map_or_else(|_| text.to_owned(), |plain| plain.into_owned())
}

fn lossy_string(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn add(text: &mut String, piece: &str) {
    if text.len() < LONGEST {
        text.push_str(piece);
    }
}

fn to_io_error(error: Error) -> io::Error {
    match error {
        Error::Io(error) => io::Error::new(error.kind(), error),
        // An unclosed tag or comment.
        Error::Syntax(_) => ErrorKind::UnexpectedEof.into(),
        other => io::Error::new(ErrorKind::InvalidData, other),
    }
}

/// A stream that bounds each tag and text, which readers keep in memory.
struct BoundedXmlStream<'a> {
    stream: &'a mut dyn BufRead,
    left: usize,
}

impl Read for BoundedXmlStream<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let taken = self.fill_buf()?.read(into)?;
        self.consume(taken);
        Ok(taken)
    }
}

impl BufRead for BoundedXmlStream<'_> {
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
