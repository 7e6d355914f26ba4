//! hsperfdata: what a HotSpot virtual machine says of itself in `/tmp/hsperfdata_USER/PID`.
//!
//! OpenJDK, `src/hotspot/share/runtime/perfMemory.hpp`: a prologue of 32 bytes (magic `0xcafec0c0`
//! in big-endian order, one byte each for byte order, major, minor and "accessible", then `used`,
//! `overflow`, `mod_time_stamp` of 8 bytes, `entry_offset` and `num_entries`), then entries:
//! length, offset of the name, length of the vector, four bytes of type, flags, unit and
//! variability, offset of the data. Strings are vectors of type `B`, numbers are of type `J`.
//! Version 2 since Java 5.

use std::collections::BTreeMap;
use std::ops::Range;

use hugewise_host::ParseError;
use hugewise_host::capture::shape::is_version;
use hugewise_model::Bytes;

use super::ergonomics::GarbageCollector;
use super::flags;

const MAGIC: [u8; 4] = [0xca, 0xfe, 0xc0, 0xc0];
const PROLOGUE: usize = 32;
const ENTRY: usize = 20;
/// The values that are kept; others may hold anything that a program was started with.
const KEPT: &[&str] = &[
    "java.property.java.version",
    "java.rt.vmArgs",
    "java.rt.vmFlags",
    POLICY,
    YOUNG_MOST,
    OLD_MOST,
];
const POLICY: &str = "sun.gc.policy.name";
const YOUNG_MOST: &str = "sun.gc.generation.0.maxCapacity";
const OLD_MOST: &str = "sun.gc.generation.1.maxCapacity";
/// Collectors by the name of their policy; others are never chosen without a flag.
const POLICIES: [(&str, GarbageCollector); 3] = [
    ("GarbageFirst", GarbageCollector::G1),
    ("Copy:MSC", GarbageCollector::Serial),
    ("ParScav:MSC", GarbageCollector::Parallel),
];

/// What a running machine has chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HeapCounters {
    pub(super) collector: Option<GarbageCollector>,
    pub(super) largest_heap: Option<Bytes>,
}

impl HeapCounters {
    /// From the kept values of a machine with these flags.
    pub(super) fn from_values(values: &BTreeMap<&'static str, String>, uses_zgc: bool) -> Self {
        let policy = values.get(POLICY).map(String::as_str);
        let named = POLICIES.into_iter().find(|(name, _)| policy == Some(*name));
        let collector = named.map(|(_, collector)| collector);
        let collector = if uses_zgc { Some(GarbageCollector::Z) } else { collector };
        let number = |name: &str| values.get(name).and_then(|value| value.parse::<u64>().ok());
        // A part of the heap each, or the whole of it in both; G1 of 17 adds a few bytes.
        let most = match collector {
            Some(GarbageCollector::Serial | GarbageCollector::Parallel) => number(YOUNG_MOST)
                .zip(number(OLD_MOST))
                .and_then(|(young, old)| young.checked_add(old)),
            Some(GarbageCollector::G1) => number(OLD_MOST).map(|most| most & !0xfff),
            _ if uses_zgc => number(OLD_MOST),
            _ => None,
        };
        Self { collector, largest_heap: most.filter(|most| *most > 0).map(Bytes) }
    }
}

/// The kept values by name.
/// # Errors
/// Another format, a file that is not yet accessible, or entries that lead outside it.
pub fn parse(bytes: &[u8]) -> Result<BTreeMap<&'static str, String>, ParseError> {
    let mut values = BTreeMap::new();
    let is_little = bytes.get(4) == Some(&1);
    each_value(bytes, |name, value| {
        let Some(name) = KEPT.iter().find(|kept| **kept == name) else { return };
        let text = match value {
            HsperfValue::Text(range) => {
                let text = bytes.get(range).unwrap_or_default();
                let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
                Some(String::from_utf8_lossy(text).into_owned())
            }
            HsperfValue::Number(range) => {
                let number = bytes.get(range).and_then(|number| number.try_into().ok());
                let number = number.map(|number| {
                    if is_little { i64::from_le_bytes(number) } else { i64::from_be_bytes(number) }
                });
                number.map(|number| number.to_string())
            }
        };
        values.extend(text.map(|text| (*name, text)));
    })?;
    Ok(values)
}

/// A file with only what is read of this one: known flags with valid values, and versions. The
/// program's command line with its passwords is another string.
/// # Errors
/// As for [`parse`].
pub fn without_secrets(bytes: &[u8]) -> Result<Vec<u8>, ParseError> {
    let mut kept = Vec::new();
    for (name, value) in parse(bytes)? {
        match name {
            "java.rt.vmArgs" => kept.push((name, redact_arguments(value.as_bytes()))),
            "java.rt.vmFlags" => {
                let flags = value
                    .split_whitespace()
                    .filter_map(|word| super::flags::redact_flag_value(&format!("-XX:{word}")));
                let flags: Vec<_> =
                    flags.filter_map(|word| word.strip_prefix("-XX:").map(str::to_owned)).collect();
                kept.push((name, flags.join(" ").into_bytes()));
            }
            "java.property.java.version" if is_version(&value) => {
                kept.push((name, value.into_bytes()))
            }
            POLICY if POLICIES.iter().any(|(policy, _)| *policy == value) => {
                kept.push((name, value.into_bytes()));
            }
            // As text, which reads the same.
            YOUNG_MOST | OLD_MOST if value.parse::<i64>().is_ok() => {
                kept.push((name, value.into_bytes()));
            }
            _ => {}
        }
    }
    Ok(encode_strings(&kept))
}

fn encode_strings(strings: &[(&str, Vec<u8>)]) -> Vec<u8> {
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

fn redact_arguments(text: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(text);
    let words: Vec<&str> = text.trim_end_matches('\0').split_whitespace().collect();
    // A line that was cut off stays one.
    let cut = text.len() >= super::LONGEST_COUNTER;
    let kept = words.iter().filter_map(|word| flags::redact_flag_value(word));
    let mut kept = kept.collect::<Vec<_>>().join(" ");
    if cut {
        kept.push_str(&" ".repeat(super::LONGEST_COUNTER.saturating_sub(kept.len())));
        kept.push('-');
    }
    kept.into_bytes()
}

enum HsperfValue {
    Text(Range<usize>),
    Number(Range<usize>),
}

fn each_value(bytes: &[u8], mut see: impl FnMut(&str, HsperfValue)) -> Result<(), ParseError> {
    if bytes.get(..4) != Some(&MAGIC) {
        return Err(ParseError::whole_file("not hsperfdata: the magic number is missing"));
    }
    let file = HsperfFile { bytes, little: bytes.get(4) == Some(&1) };
    if bytes.get(5) != Some(&2) {
        return Err(ParseError::whole_file("hsperfdata of an unknown version"));
    }
    if bytes.get(7) != Some(&1) {
        return Err(ParseError::whole_file("hsperfdata that is not yet accessible"));
    }
    let mut at = file.read_number(24)?;
    let count = file.read_number(28)?;
    if at < PROLOGUE {
        return Err(ParseError::whole_file("hsperfdata entries inside the prologue"));
    }
    for _ in 0..count {
        let length = file.read_number(at)?;
        if length < ENTRY {
            return Err(ParseError::whole_file("an hsperfdata entry shorter than its own head"));
        }
        let entry = file.read_slice(at, length)?;
        let kind = entry.get(12).copied();
        if matches!(kind, Some(b'B' | b'J')) {
            let outside = || ParseError::whole_file("hsperfdata text outside its entry");
            let name = entry.get(file.read_number(at.saturating_add(4))?..).ok_or_else(outside)?;
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            let from = file.read_number(at.saturating_add(16))?;
            entry.get(from..).ok_or_else(outside)?;
            let start = at.saturating_add(from);
            let rest = length.saturating_sub(from);
            let name = String::from_utf8_lossy(name);
            if kind == Some(b'J') {
                see(&name, HsperfValue::Number(start..start.saturating_add(rest.min(8))));
            } else {
                let size = file.read_number(at.saturating_add(8))?.min(rest);
                see(&name, HsperfValue::Text(start..start.saturating_add(size)));
            }
        }
        at = at.saturating_add(length);
    }
    Ok(())
}

struct HsperfFile<'a> {
    bytes: &'a [u8],
    little: bool,
}

impl HsperfFile<'_> {
    fn read_slice(&self, at: usize, length: usize) -> Result<&[u8], ParseError> {
        let end = at
            .checked_add(length)
            .ok_or_else(|| ParseError::whole_file("an hsperfdata offset beyond all memory"))?;
        self.bytes.get(at..end).ok_or(ParseError::whole_file("hsperfdata is cut off"))
    }

    fn read_number(&self, at: usize) -> Result<usize, ParseError> {
        let bytes: [u8; 4] = self.read_slice(at, 4)?.try_into().unwrap_or_default();
        let number =
            if self.little { i32::from_le_bytes(bytes) } else { i32::from_be_bytes(bytes) };
        usize::try_from(number).map_err(|_| ParseError::whole_file("a negative hsperfdata offset"))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn build_hsperf_file(strings: &[(&str, &str)], little: bool) -> Vec<u8> {
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
            let read = parse(&build_hsperf_file(
                &[
                    ("sun.rt.javaCommand", "app --password=hunter2"),
                    ("java.rt.vmArgs", "-Xmx1g -XX:+UseLargePages"),
                    ("java.property.java.version", "17.0.15"),
                ],
                little,
            ))
            .unwrap();
            assert_eq!(
                read.get("java.rt.vmArgs").map(String::as_str),
                Some("-Xmx1g -XX:+UseLargePages")
            );
            assert_eq!(read.get("java.property.java.version").map(String::as_str), Some("17.0.15"));
            assert_eq!(read.len(), 2);
        }
    }

    /// The entry of a number as OpenJDK 17 writes it, after one text.
    fn with_number(name: &str, number: i64) -> Vec<u8> {
        let mut bytes = build_hsperf_file(&[(POLICY, "GarbageFirst")], true);
        bytes.truncate(bytes.len() - 64);
        bytes[28..32].copy_from_slice(&2_i32.to_le_bytes());
        let data = (ENTRY + name.len() + 1).next_multiple_of(8);
        let fields = [data + 8, ENTRY, 0].map(|field| i32::try_from(field).unwrap().to_le_bytes());
        let mut entry = fields.concat();
        entry.extend([b'J', 0, 2, 1]);
        entry.extend(i32::try_from(data).unwrap().to_le_bytes());
        entry.extend(name.as_bytes());
        entry.resize(data, 0);
        entry.extend(number.to_le_bytes());
        bytes.extend(entry);
        bytes
    }

    /// As OpenJDK 17.0.15 with a largest heap of 1206 MiB writes it.
    #[test]
    fn the_largest_heap_and_the_collector_are_told() {
        let whole = with_number("sun.gc.generation.1.maxCapacity", 1_264_582_664);
        for bytes in [without_secrets(&whole).unwrap(), whole] {
            let told = HeapCounters::from_values(&parse(&bytes).unwrap(), false);
            let heap = Some(Bytes::from_mib(1206));
            let right = HeapCounters { collector: Some(GarbageCollector::G1), largest_heap: heap };
            assert_eq!(told, right);
        }
        let texts = |policy, young: &str, old: &str| {
            let values = BTreeMap::from([
                (POLICY, String::from(policy)),
                (YOUNG_MOST, young.to_owned()),
                (OLD_MOST, old.to_owned()),
            ]);
            HeapCounters::from_values(&values, false)
        };
        let serial = texts("Copy:MSC", "421527552", "843055104");
        assert_eq!(
            (serial.collector, serial.largest_heap),
            (Some(GarbageCollector::Serial), Some(Bytes::from_mib(1206)))
        );
        assert_eq!(texts("ParScav:MSC", "1", "x").largest_heap, None);
        assert_eq!(texts("ParScav:MSC", "-1", "-1").largest_heap, None);
    }

    #[test]
    fn a_capture_holds_no_secret() {
        let whole = build_hsperf_file(
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
        let mut early = build_hsperf_file(&[], true);
        early[7] = 0;
        assert!(parse(&early).unwrap_err().what.contains("not yet accessible"));
        let mut endless = build_hsperf_file(&[("java.rt.vmArgs", "-Xmx1g")], true);
        endless[28..32].copy_from_slice(&i32::MAX.to_le_bytes());
        assert!(parse(&endless).is_err());
        let mut backwards = build_hsperf_file(&[("java.rt.vmArgs", "-Xmx1g")], true);
        backwards[32..36].copy_from_slice(&(-8_i32).to_le_bytes());
        assert!(parse(&backwards).is_err());
    }

    proptest! {
        #[test]
        fn what_is_read_of_a_cut_file_is_what_the_whole_says(at in 0..200_usize) {
            let bytes = build_hsperf_file(&[("java.rt.vmArgs", "-Xmx1g"), ("java.rt.vmFlags", "x")], true);
            let whole = parse(&bytes).unwrap();
            prop_assert_eq!(whole.get("java.rt.vmArgs").map(String::as_str), Some("-Xmx1g"));
            if let Ok(cut) = parse(&bytes[..at.min(bytes.len())]) {
                prop_assert!(cut.iter().all(|(name, value)| whole.get(name) == Some(value)), "{cut:?}");
            }
        }
    }
}
