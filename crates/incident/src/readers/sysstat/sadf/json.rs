//! JSON as far as sadf writes it, an object at a time and never more than one in memory.

use std::io::{BufRead, ErrorKind, Read, Result};

use super::{DEEPEST, Element, LONGEST};

/// Members that are kept of an object: that of interrupts has one a processor.
const MOST_MEMBERS: usize = 1000;

/// What the bytes at hand are part of.
enum At {
    /// Between values.
    Between,
    /// Within a string; whether the byte before was a backslash.
    String(Vec<u8>, bool),
    /// Within a number or a name such as `true`.
    Word(Vec<u8>),
}

/// Calls back for every object with its plain members: when it ends, and when one begins that is not plain.
///
/// # Errors
/// The stream's, or its end within an object.
pub(super) fn read(stream: &mut dyn BufRead, found: &mut dyn FnMut(&Element)) -> Result<()> {
    let mut open: Vec<Element> = Vec::new();
    let mut key = None;
    let mut at = At::Between;
    for byte in stream.bytes() {
        let byte = byte?;
        at = match at {
            At::String(mut bytes, false) if byte == b'"' => {
                finish(&mut open, &mut key, &std::mem::take(&mut bytes));
                At::Between
            }
            At::String(bytes, false) if byte == b'\\' => At::String(bytes, true),
            At::String(mut bytes, _) => {
                push(&mut bytes, byte);
                At::String(bytes, false)
            }
            At::Word(mut bytes) if !matches!(byte, b',' | b'}' | b']') && !byte.is_ascii_whitespace() => {
                push(&mut bytes, byte);
                At::Word(bytes)
            }
            other => {
                if let At::Word(bytes) = other {
                    finish(&mut open, &mut key, &bytes);
                }
                match byte {
                    b'"' => At::String(Vec::new(), false),
                    b'{' | b'[' => {
                        if let Some(around) = open.last_mut() {
                            emit(around, found);
                        }
                        if open.len() >= DEEPEST {
                            return Err(std::io::Error::other("objects nested too deeply"));
                        }
                        // An object in a list has the list's name.
                        let around = || open.last().map(|around| around.name.clone());
                        let name = key.take().or_else(around).unwrap_or_default();
                        open.push(Element { name, attributes: Vec::new() });
                        At::Between
                    }
                    b'}' | b']' => {
                        key = None;
                        if let Some(mut done) = open.pop() {
                            emit(&mut done, found);
                        }
                        if open.is_empty() {
                            return Ok(());
                        }
                        At::Between
                    }
                    b',' => {
                        key = None;
                        At::Between
                    }
                    b':' => At::Between,
                    byte if byte.is_ascii_whitespace() => At::Between,
                    byte => At::Word(vec![byte]),
                }
            }
        };
    }
    Err(ErrorKind::UnexpectedEof.into())
}

fn push(bytes: &mut Vec<u8>, byte: u8) {
    if bytes.len() < LONGEST {
        bytes.push(byte);
    }
}

fn emit(element: &mut Element, found: &mut dyn FnMut(&Element)) {
    if !element.attributes.is_empty() {
        found(element);
        element.attributes.clear();
    }
}

/// A plain value: a member's name where none is at hand, otherwise its value.
fn finish(open: &mut [Element], key: &mut Option<String>, bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes).into_owned();
    match key.take() {
        None => *key = Some(text),
        Some(name) => {
            if let Some(element) = open.last_mut().filter(|element| element.attributes.len() < MOST_MEMBERS) {
                element.attributes.push((name, text));
            }
        }
    }
}
