//! Little-endian numbers at an offset of bytes that may be short.

pub(super) fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(offset..)?.first_chunk()?))
}

pub(super) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(offset..)?.first_chunk()?))
}

pub(super) fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(offset..)?.first_chunk()?))
}

pub(super) fn u8_at(bytes: &[u8], offset: usize) -> Option<u8> {
    bytes.get(offset).copied()
}

/// Text of a fixed field, which ends at its first zero byte; `None` where that leaves nothing.
pub(super) fn text_at(bytes: &[u8], offset: usize, length: usize) -> Option<String> {
    let field = bytes.get(offset..)?;
    let field = field.get(..length).unwrap_or(field);
    let text = String::from_utf8_lossy(field.split(|byte| *byte == 0).next()?);
    let text: String =
        text.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect();
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}
