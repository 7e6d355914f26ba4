//! hsperfdata: what a HotSpot virtual machine says of itself in `/tmp/hsperfdata_USER/PID`.
//!
//! OpenJDK, `src/hotspot/share/runtime/perfMemory.hpp`: a prologue of 32 bytes (magic `0xcafec0c0` in big-endian order,
//! one byte each for byte order, major, minor and "accessible", then `used`, `overflow`, `mod_time_stamp` of 8 bytes,
//! `entry_offset` and `num_entries`), then entries: length, offset of the name, length of the vector, four bytes of type,
//! flags, unit and variability, offset of the data. Strings are vectors of type `B`. Version 2 since Java 5.

use std::collections::BTreeMap;
use std::ops::Range;

use hugewise_host::ParseError;
use hugewise_host::capture::shape::is_version;

use super::flags;

const MAGIC: [u8; 4] = [0xca, 0xfe, 0xc0, 0xc0];
const PROLOGUE: usize = 32;
const ENTRY: usize = 20;

/// The names whose values are taken along: others can hold anything that a program was started with.
const KEPT: &[&str] = &["java.property.java.version", "java.rt.vmArgs", "java.rt.vmFlags"];

/// Its strings by name.
///
/// # Errors
/// A file of another format, one that the virtual machine has not yet released, or one whose entries lead outside it.
pub fn parse(bytes: &[u8]) -> Result<BTreeMap<&'static str, String>, ParseError> {
    let mut strings = BTreeMap::new();
    each_string(bytes, |name, value| {
        if let Some(name) = KEPT.iter().find(|kept| **kept == name) {
            let text = bytes.get(value).unwrap_or_default().split(|byte| *byte == 0).next().unwrap_or_default();
            strings.insert(*name, String::from_utf8_lossy(text).into_owned());
        }
    })?;
    Ok(strings)
}

/// A file that says of itself what is read of this one, and nothing else: of the arguments the flags that are read with
/// their sizes, of versions what is one. The program's own command line, its passwords among it, is a string of the other.
///
/// # Errors
/// As for [`parse`].
pub fn without_secrets(bytes: &[u8]) -> Result<Vec<u8>, ParseError> {
    let mut kept = Vec::new();
    for (name, value) in parse(bytes)? {
        match name {
            "java.rt.vmArgs" => kept.push((name, arguments(value.as_bytes()))),
            "java.rt.vmFlags" => {
                let flags = value.split_whitespace().filter_map(|word| super::flags::harmless(&format!("-XX:{word}")));
                let flags: Vec<_> = flags.filter_map(|word| word.strip_prefix("-XX:").map(str::to_owned)).collect();
                kept.push((name, flags.join(" ").into_bytes()));
            }
            "java.property.java.version" if is_version(&value) => kept.push((name, value.into_bytes())),
            _ => {}
        }
    }
    Ok(made(&kept))
}

/// A file of these strings.
fn made(strings: &[(&str, Vec<u8>)]) -> Vec<u8> {
    // Whatever is too large to be numbered was too large to be read.
    let number = |value: usize| i32::try_from(value).unwrap_or(i32::MAX).to_le_bytes();
    let mut bytes = MAGIC.to_vec();
    bytes.extend([1, 2, 0, 1]);
    bytes.extend([0; 16]);
    bytes.extend(number(PROLOGUE));
    bytes.extend(number(strings.len()));
    for (name, value) in strings {
        let data = (ENTRY + name.len() + 1).next_multiple_of(8);
        let length = (data + value.len() + 1).next_multiple_of(8);
        let mut entry = [number(length), number(ENTRY), number(value.len() + 1)].concat();
        entry.extend([b'B', 0, 5, 1]);
        entry.extend(number(data));
        entry.extend(name.as_bytes());
        entry.resize(data, 0);
        entry.extend(value);
        entry.resize(length, 0);
        bytes.extend(entry);
    }
    bytes
}

fn arguments(text: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(text);
    let words: Vec<&str> = text.trim_end_matches('\0').split_whitespace().collect();
    // A line that was cut off stays one.
    let cut = text.len() >= super::LONGEST_TOLD;
    let mut kept = words.iter().filter_map(|word| flags::harmless(word)).collect::<Vec<_>>().join(" ");
    if cut {
        kept.push_str(&" ".repeat(super::LONGEST_TOLD.saturating_sub(kept.len())));
        kept.push('-');
    }
    kept.into_bytes()
}

/// Calls `see` with the name and the place of each string.
fn each_string(bytes: &[u8], mut see: impl FnMut(&str, Range<usize>)) -> Result<(), ParseError> {
    if bytes.get(..4) != Some(&MAGIC) {
        return Err(ParseError::whole("not hsperfdata: the magic number is missing"));
    }
    let file = File { bytes, little: bytes.get(4) == Some(&1) };
    if bytes.get(5) != Some(&2) {
        return Err(ParseError::whole("hsperfdata of an unknown version"));
    }
    if bytes.get(7) != Some(&1) {
        return Err(ParseError::whole("hsperfdata that is not yet accessible"));
    }
    let mut at = file.number(24)?;
    let count = file.number(28)?;
    if at < PROLOGUE {
        return Err(ParseError::whole("hsperfdata entries inside the prologue"));
    }
    for _ in 0..count {
        let length = file.number(at)?;
        if length < ENTRY {
            return Err(ParseError::whole("an hsperfdata entry shorter than its own head"));
        }
        let entry = file.slice(at, length)?;
        if entry.get(12) == Some(&b'B') {
            let outside = || ParseError::whole("hsperfdata text outside its entry");
            let name = entry.get(file.number(at.saturating_add(4))?..).ok_or_else(outside)?;
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            let from = file.number(at.saturating_add(16))?;
            let size = file.number(at.saturating_add(8))?.min(length.saturating_sub(from));
            entry.get(from..).ok_or_else(outside)?;
            let start = at.saturating_add(from);
            see(&String::from_utf8_lossy(name), start..start.saturating_add(size));
        }
        at = at.saturating_add(length);
    }
    Ok(())
}

struct File<'a> {
    bytes: &'a [u8],
    little: bool,
}

impl File<'_> {
    fn slice(&self, at: usize, length: usize) -> Result<&[u8], ParseError> {
        let end = at.checked_add(length).ok_or_else(|| ParseError::whole("an hsperfdata offset beyond all memory"))?;
        self.bytes.get(at..end).ok_or(ParseError::whole("hsperfdata is cut off"))
    }

    fn number(&self, at: usize) -> Result<usize, ParseError> {
        let bytes: [u8; 4] = self.slice(at, 4)?.try_into().unwrap_or_default();
        let number = if self.little { i32::from_le_bytes(bytes) } else { i32::from_be_bytes(bytes) };
        usize::try_from(number).map_err(|_| ParseError::whole("a negative hsperfdata offset"))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn file(strings: &[(&str, &str)], little: bool) -> Vec<u8> {
        let number = |value: usize| {
            let value = i32::try_from(value).unwrap();
            if little { value.to_le_bytes() } else { value.to_be_bytes() }
        };
        let mut bytes = MAGIC.to_vec();
        bytes.extend([u8::from(little), 2, 0, 1]);
        bytes.extend([0; 16]);
        bytes.extend(number(PROLOGUE));
        bytes.extend(number(strings.len()));
        for (name, value) in strings {
            let data = (ENTRY + name.len() + 1).next_multiple_of(8);
            let length = (data + value.len() + 1).next_multiple_of(8);
            let mut entry = [number(length), number(ENTRY), number(value.len() + 1)].concat();
            entry.extend([b'B', 0, 5, 1]);
            entry.extend(number(data));
            entry.extend(name.as_bytes());
            entry.resize(data, 0);
            entry.extend(value.as_bytes());
            entry.resize(length, 0);
            bytes.extend(entry);
        }
        bytes.resize(bytes.len() + 64, 0);
        bytes
    }

    #[test]
    fn only_the_names_that_are_needed_are_taken() {
        for little in [true, false] {
            let read = parse(&file(
                &[
                    ("sun.rt.javaCommand", "app --password=hunter2"),
                    ("java.rt.vmArgs", "-Xmx1g -XX:+UseLargePages"),
                    ("java.property.java.version", "17.0.15"),
                ],
                little,
            ))
            .unwrap();
            assert_eq!(read.get("java.rt.vmArgs").map(String::as_str), Some("-Xmx1g -XX:+UseLargePages"));
            assert_eq!(read.get("java.property.java.version").map(String::as_str), Some("17.0.15"));
            assert_eq!(read.len(), 2);
        }
    }

    #[test]
    fn a_capture_holds_no_secret() {
        let whole = file(
            &[
                ("sun.rt.javaCommand", "app --password=hunter2"),
                ("java.rt.vmArgs", "-Dkey=hunter2 -Xmx1g -XX:OnError=hunter2 -XX:+UseLargePages"),
                ("java.rt.vmFlags", "hunter2 +UseLargePages OnError=hunter2 MaxRAM=4g"),
                ("java.property.java.class.path", "/hunter2"),
                ("java.property.java.version", "17.0.15"),
            ],
            true,
        );
        let redacted = without_secrets(&whole).unwrap();
        assert!(!String::from_utf8_lossy(&redacted).contains("hunter2"));
        let read = parse(&redacted).unwrap();
        assert_eq!(read["java.rt.vmArgs"], "-XX:MaxHeapSize=1g -XX:+UseLargePages");
        assert_eq!(read["java.rt.vmFlags"], "+UseLargePages MaxRAM=4g");
        assert_eq!(read["java.property.java.version"], "17.0.15");
        assert!(redacted.len() < whole.len());
    }

    #[test]
    fn what_it_cannot_be_is_malformed() {
        assert!(parse(b"").is_err());
        assert!(parse(b"\xca\xfe\xba\xbe").is_err());
        let mut early = file(&[], true);
        early[7] = 0;
        assert!(parse(&early).unwrap_err().what.contains("not yet accessible"));
        let mut endless = file(&[("java.rt.vmArgs", "-Xmx1g")], true);
        endless[28..32].copy_from_slice(&i32::MAX.to_le_bytes());
        assert!(parse(&endless).is_err());
        let mut backwards = file(&[("java.rt.vmArgs", "-Xmx1g")], true);
        backwards[32..36].copy_from_slice(&(-8_i32).to_le_bytes());
        assert!(parse(&backwards).is_err());
    }

    proptest! {
        #[test]
        fn what_is_read_of_a_cut_file_is_what_the_whole_says(at in 0..200_usize) {
            let bytes = file(&[("java.rt.vmArgs", "-Xmx1g"), ("java.rt.vmFlags", "x")], true);
            let whole = parse(&bytes).unwrap();
            prop_assert_eq!(whole.get("java.rt.vmArgs").map(String::as_str), Some("-Xmx1g"));
            if let Ok(cut) = parse(&bytes[..at.min(bytes.len())]) {
                prop_assert!(cut.iter().all(|(name, value)| whole.get(name) == Some(value)), "{cut:?}");
            }
        }
    }
}
