//! What captures are known by.

/// What a capture is known by: the SHA-256 of a file, or of what a folder says.
pub(crate) type Id = [u8; 32];

/// In lower-case hexadecimal digits.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
