//! Fields and escapes of a line.

/// With what follows it. Quotes go away, and what a backslash stands before is taken as it is.
/// Where one of them is left open, systemd-tmpfiles refuses the line.
pub(super) fn next_field(text: &str) -> Result<Option<(String, &str)>, RefusedTmpfilesLine> {
    let text = text.trim_start_matches(BLANKS);
    if text.is_empty() {
        return Ok(None);
    }
    let (mut word, mut quote) = (String::new(), None);
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match (quote, character) {
            (_, '\\') => word.push(characters.next().ok_or(RefusedTmpfilesLine)?.1),
            (Some(open), close) if open == close => quote = None,
            (None, '"' | '\'') => quote = Some(character),
            (None, blank) if BLANKS.contains(&blank) => {
                return Ok(Some((word, text.get(at..).unwrap_or_default())));
            }
            (_, other) => word.push(other),
        }
    }
    if quote.is_some() { Err(RefusedTmpfilesLine) } else { Ok(Some((word, ""))) }
}

/// systemd-tmpfiles says an error of the line and goes on with the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RefusedTmpfilesLine;

pub(super) const BLANKS: [char; 4] = [' ', '\t', '\n', '\r'];

/// C-style escapes replaced; one that is none, or for a zero byte, is an error.
pub(super) fn unescape_text(text: &str) -> Result<String, RefusedTmpfilesLine> {
    let mut out: Vec<u8> = Vec::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character == '\\' {
            decode_escape(&mut characters, &mut out).ok_or(RefusedTmpfilesLine)?;
        } else {
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}

fn decode_escape(characters: &mut std::str::Chars<'_>, out: &mut Vec<u8>) -> Option<()> {
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
        'x' => nonzero_byte(read_digits(characters, 2, 16, 0)?)?,
        'u' => return push_character(out, read_digits(characters, 4, 16, 0)?),
        'U' => return push_character(out, read_digits(characters, 8, 16, 0)?),
        octal => nonzero_byte(read_digits(characters, 2, 8, octal.to_digit(8)?)?)?,
    };
    out.push(byte);
    Some(())
}

fn nonzero_byte(code: u32) -> Option<u8> {
    u8::try_from(code).ok().filter(|byte| *byte > 0)
}

/// `count` more digits after what was read so far.
fn read_digits(
    characters: &mut std::str::Chars<'_>,
    count: usize,
    radix: u32,
    so_far: u32,
) -> Option<u32> {
    (0..count).try_fold(so_far, |number, _| {
        number.checked_mul(radix)?.checked_add(characters.next()?.to_digit(radix)?)
    })
}

fn push_character(out: &mut Vec<u8>, code: u32) -> Option<()> {
    let character = char::from_u32(code).filter(|_| code > 0)?;
    out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    Some(())
}
