//! sadf's JSON, with never more than one object in memory.

use std::io::{BufRead, ErrorKind, Read, Result};

use super::{DEEPEST, Element, LONGEST};

/// Members that are kept of an object: interrupts have one a processor.
const MOST_MEMBERS: usize = 1000;

enum JsonState {
    Between,
    /// A string, and whether the byte before was a backslash.
    String(Vec<u8>, bool),
    /// A number or a name such as `true`.
    Word(Vec<u8>),
}

/// Calls back for every object with its plain members, in parts around nested ones.
pub(super) fn read(stream: &mut dyn BufRead, found: &mut dyn FnMut(&Element)) -> Result<()> {
    let mut objects = OpenObjects::default();
    let mut at = JsonState::Between;
    for byte in stream.bytes() {
        let byte = byte?;
        at = match at {
            JsonState::String(bytes, false) if byte == b'"' => {
                finish_value(&mut objects.open, &mut objects.key, &bytes);
                JsonState::Between
            }
            JsonState::String(bytes, false) if byte == b'\\' => JsonState::String(bytes, true),
            JsonState::String(mut bytes, _) => {
                push(&mut bytes, byte);
                JsonState::String(bytes, false)
            }
            JsonState::Word(mut bytes)
                if !matches!(byte, b',' | b'}' | b']') && !byte.is_ascii_whitespace() =>
            {
                push(&mut bytes, byte);
                JsonState::Word(bytes)
            }
            other => {
                if let JsonState::Word(bytes) = other {
                    finish_value(&mut objects.open, &mut objects.key, &bytes);
                }
                match objects.push_sign(byte, found)? {
                    Some(next) => next,
                    None => return Ok(()),
                }
            }
        };
    }
    Err(ErrorKind::UnexpectedEof.into())
}

#[derive(Default)]
struct OpenObjects {
    open: Vec<Element>,
    key: Option<String>,
}

impl OpenObjects {
    /// A byte between values; `None` after the outermost object.
    fn push_sign(
        &mut self,
        byte: u8,
        found: &mut dyn FnMut(&Element),
    ) -> Result<Option<JsonState>> {
        match byte {
            b'"' => return Ok(Some(JsonState::String(Vec::new(), false))),
            b'{' | b'[' => {
                if let Some(around) = self.open.last_mut() {
                    emit_element(around, found);
                }
                if self.open.len() >= DEEPEST {
                    return Err(std::io::Error::other("objects nested too deeply"));
                }
                // An object in a list has the list's name.
                let around = || self.open.last().map(|around| around.name.clone());
                let name = self.key.take().or_else(around).unwrap_or_default();
                self.open.push(Element { name, attributes: Vec::new() });
            }
            b'}' | b']' => {
                self.key = None;
                if let Some(mut done) = self.open.pop() {
                    emit_element(&mut done, found);
                }
                if self.open.is_empty() {
                    return Ok(None);
                }
            }
            b',' => self.key = None,
            b':' => {}
            byte if byte.is_ascii_whitespace() => {}
            byte => return Ok(Some(JsonState::Word(vec![byte]))),
        }
        Ok(Some(JsonState::Between))
    }
}

fn push(bytes: &mut Vec<u8>, byte: u8) {
    if bytes.len() < LONGEST {
        bytes.push(byte);
    }
}

fn emit_element(element: &mut Element, found: &mut dyn FnMut(&Element)) {
    if !element.attributes.is_empty() {
        found(element);
        element.attributes.clear();
    }
}

/// A plain value: a member's name if there is none yet, otherwise its value.
fn finish_value(open: &mut [Element], key: &mut Option<String>, bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes).into_owned();
    match key.take() {
        None => *key = Some(text),
        Some(name) => {
            if let Some(element) =
                open.last_mut().filter(|element| element.attributes.len() < MOST_MEMBERS)
            {
                element.attributes.push((name, text));
            }
        }
    }
}
