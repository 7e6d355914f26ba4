//! Fields and escapes of a line.

/// The next field, and what follows it where anything does. Quotes and backslashes go away; what a backslash stands
/// before is taken as it is.
///
/// # Errors
/// A quote that does not close, a backslash at the end: systemd-tmpfiles refuses the line.
pub(super) fn field(text: &str) -> Result<Option<(String, &str)>, Refused> {
    let text = text.trim_start_matches(BLANKS);
    if text.is_empty() {
        return Ok(None);
    }
    let (mut word, mut quote) = (String::new(), None);
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match (quote, character) {
            (_, '\\') => word.push(characters.next().ok_or(Refused)?.1),
            (Some(open), close) if open == close => quote = None,
            (None, '"' | '\'') => quote = Some(character),
            (None, blank) if BLANKS.contains(&blank) => {
                return Ok(Some((word, text.get(at..).unwrap_or_default())));
            }
            (_, other) => word.push(other),
        }
    }
    if quote.is_some() { Err(Refused) } else { Ok(Some((word, ""))) }
}

/// systemd-tmpfiles says an error of the line and goes on with the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refused;

/// What separates fields.
pub(super) const BLANKS: [char; 4] = [' ', '\t', '\n', '\r'];

/// The text with C-style escapes replaced.
///
/// # Errors
/// An escape that is none, or one for a zero byte.
pub(super) fn unescaped(text: &str) -> Result<String, Refused> {
    let mut out: Vec<u8> = Vec::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character == '\\' {
            escape(&mut characters, &mut out).ok_or(Refused)?;
        } else {
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// What stands behind a backslash.
fn escape(characters: &mut std::str::Chars<'_>, out: &mut Vec<u8>) -> Option<()> {
    let byte = match characters.next()? {
        'a' => 7,
        'b' => 8,
        'f' => 12,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 11,
        's' => b' ',
        same @ ('\\' | '"' | '\'') => u8::try_from(same).ok()?,
        'x' => nonzero(number(characters, 2, 16, 0)?)?,
        'u' => return push_character(out, number(characters, 4, 16, 0)?),
        'U' => return push_character(out, number(characters, 8, 16, 0)?),
        octal => nonzero(number(characters, 2, 8, octal.to_digit(8)?)?)?,
    };
    out.push(byte);
    Some(())
}

fn nonzero(code: u32) -> Option<u8> {
    u8::try_from(code).ok().filter(|byte| *byte > 0)
}

/// `count` more digits after what was read so far.
fn number(characters: &mut std::str::Chars<'_>, count: usize, radix: u32, so_far: u32) -> Option<u32> {
    (0..count).try_fold(so_far, |number, _| number.checked_mul(radix)?.checked_add(characters.next()?.to_digit(radix)?))
}

fn push_character(out: &mut Vec<u8>, code: u32) -> Option<()> {
    let character = char::from_u32(code).filter(|_| code > 0)?;
    out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    Some(())
}
