//! /proc/stat, /proc/meminfo, /proc/vmstat, /proc/loadavg, PSI and /proc/net/snmp.

use super::{parse_number, split_words};
use crate::field::{Field, FieldSource};
use crate::sample::HostSample;

/// No kernel has as many in either file.
const MOST_LINES: usize = 1024;

/// Counters that kernels split by zone or kind, which are added: the names, and their suffixes.
const IN_PARTS: [&[u8]; 6] = [
    b"pgscan_kswapd",
    b"pgscan_direct",
    b"pgsteal_kswapd",
    b"pgsteal_direct",
    b"allocstall",
    b"workingset_refault",
];
const PARTS: [&[u8]; 8] =
    [b"_dma", b"_dma32", b"_normal", b"_high", b"_movable", b"_device", b"_anon", b"_file"];

/// Which line of a file is which field. The order is the same each time: only a line whose name
/// has changed is looked up again.
#[derive(Debug)]
pub(crate) struct FieldLines {
    file: FieldSource,
    known: Vec<(u32, Option<Field>)>,
}

impl FieldLines {
    pub(crate) fn for_meminfo() -> Self {
        Self { file: FieldSource::Meminfo, known: Vec::with_capacity(MOST_LINES) }
    }

    pub(crate) fn for_vmstat() -> Self {
        Self { file: FieldSource::Vmstat, known: Vec::with_capacity(MOST_LINES) }
    }

    /// Reads `name value` or `name: value kB`, a line each.
    pub(crate) fn read(&mut self, text: &[u8], sample: &mut HostSample) {
        for (place, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let mut words = split_words(line);
            let Some(name) = words.next() else { continue };
            let name = name.strip_suffix(b":").unwrap_or(name);
            let Some(field) = self.field_at_line(place, name) else { continue };
            let Some(value) = words.next().and_then(parse_number) else { continue };
            sample.add(field, value);
        }
    }

    fn field_at_line(&mut self, place: usize, name: &[u8]) -> Option<Field> {
        let hash = hash(name);
        if let Some((known, field)) = self.known.get(place)
            && *known == hash
        {
            return *field;
        }
        let field = find_field(self.file, name);
        if let Some(known) = self.known.get_mut(place) {
            *known = (hash, field);
        } else if place == self.known.len() && place < MOST_LINES {
            self.known.push((hash, field));
        }
        field
    }
}

/// FNV-1a; no two names that are read have the same.
fn hash(name: &[u8]) -> u32 {
    name.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

fn find_field(file: FieldSource, name: &[u8]) -> Option<Field> {
    let called = |name: &[u8]| {
        let mut all = Field::ALL.iter();
        all.find(|field| field.file() == file && field.name().as_bytes() == name).copied()
    };
    if name == b"thp_split" {
        // Before Linux 4.5.
        return called(b"thp_split_page");
    }
    called(name).or_else(|| {
        let whole = IN_PARTS
            .iter()
            .find(|whole| name.strip_prefix(**whole).is_some_and(|part| PARTS.contains(&part)))?;
        called(whole)
    })
}

pub(crate) fn parse_stat(text: &[u8], sample: &mut HostSample) {
    let mut processors = 0;
    for line in text.split(|byte| *byte == b'\n') {
        let mut words = split_words(line);
        let Some(name) = words.next() else { continue };
        if name == b"cpu" {
            for (column, word) in words.enumerate() {
                let field =
                    Field::ALL.iter().find(|field| field.file() == FieldSource::Cpu(column));
                if let Some((field, ticks)) = field.zip(parse_number(word)) {
                    sample.set(*field, ticks);
                }
            }
        } else if name.starts_with(b"cpu") {
            processors += 1;
        } else if let Some((field, value)) =
            find_field(FieldSource::Stat, name).zip(words.next().and_then(parse_number))
        {
            sample.set(field, value);
        }
    }
    if processors > 0 {
        sample.set(Field::Processors, processors);
    }
}

/// `0.20 0.18 0.12 1/80 11206`.
pub(crate) fn parse_loadavg(text: &[u8], sample: &mut HostSample) {
    for (place, field) in [Field::Load1, Field::Load5, Field::Load15].into_iter().enumerate() {
        let parts = split_words(text).nth(place).map(|load| {
            let at = load.iter().position(|byte| *byte == b'.').unwrap_or(load.len());
            (load.get(..at).and_then(parse_number), load.get(at + 1..).and_then(parse_number))
        });
        if let Some((Some(whole), Some(hundredths))) = parts {
            sample.set(field, whole.saturating_mul(100).saturating_add(hundredths));
        }
    }
    let tasks = split_words(text)
        .nth(3)
        .and_then(|tasks| tasks.splitn(2, |byte| *byte == b'/').nth(1))
        .and_then(parse_number);
    if let Some(tasks) = tasks {
        sample.set(Field::Tasks, tasks);
    }
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=0`, and the same for `full`.
pub(crate) fn parse_pressure(
    text: &[u8],
    some: Option<Field>,
    full: Option<Field>,
    sample: &mut HostSample,
) {
    for line in text.split(|byte| *byte == b'\n') {
        let mut words = split_words(line);
        let field = match words.next() {
            Some(b"some") => some,
            Some(b"full") => full,
            _ => None,
        };
        let total = words.find_map(|word| word.strip_prefix(b"total=")).and_then(parse_number);
        if let Some((field, total)) = field.zip(total) {
            sample.set(field, total);
        }
    }
}

/// Two lines that begin with `Tcp:`: names, and their numbers.
pub(crate) fn parse_tcp(text: &[u8], sample: &mut HostSample) {
    let mut lines = text.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"Tcp:"));
    let (Some(names), Some(numbers)) = (lines.next(), lines.next()) else { return };
    for (name, value) in split_words(names).zip(split_words(numbers)) {
        let field = match name {
            b"PassiveOpens" => Field::TcpPassiveOpens,
            b"CurrEstab" => Field::TcpEstablished,
            _ => continue,
        };
        if let Some(value) = parse_number(value) {
            sample.set(field, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(lines: &mut FieldLines, text: &str) -> HostSample {
        let mut sample = HostSample::default();
        lines.read(text.as_bytes(), &mut sample);
        sample
    }

    #[test]
    fn zones_are_added_and_a_line_that_moves_is_found_again() {
        let mut lines = FieldLines::for_vmstat();
        let text = "pgfault 7\nallocstall_dma 1\nallocstall_normal 20\nallocstall_x \
             9\npgscan_direct_throttle 4\npgscan_direct 3\nthp_split 2\n";
        let moved =
            "nr_new 5\npgfault 8\nallocstall_dma 1\nallocstall_normal 20\npgscan_direct 3\n";
        for (text, faults) in [(text, 7), (text, 7), (moved, 8), (text, 7)] {
            let sample = read(&mut lines, text);
            assert_eq!(sample.get(Field::Faults), Some(faults));
            assert_eq!(sample.get(Field::AllocStall), Some(21));
            assert_eq!(sample.get(Field::ScanDirect), Some(3));
        }
        let sample = read(&mut lines, text);
        assert_eq!(
            (sample.get(Field::DirectThrottle), sample.get(Field::ThpSplitPage)),
            (Some(4), Some(2))
        );
        assert_eq!(sample.get(Field::OomKill), None);
        let sample = read(
            &mut FieldLines::for_meminfo(),
            "MemTotal:  16 kB\nActive(anon):  3 kB\nHugePages_Free: 0\nMemFree: x kB\n",
        );
        assert_eq!(sample.known_fields().count(), 3);
        assert_eq!(
            (sample.get(Field::ActiveAnon), sample.get(Field::HugeFree)),
            (Some(3), Some(0))
        );
    }

    #[test]
    fn processors_load_and_pressure() {
        let mut sample = HostSample::default();
        parse_stat(
            b"cpu  1 2 3 4\ncpu0 1 2 3 4\ncpu1 0 0 0 0\nintr 99 1 2 3\nctxt 5\nprocs_running 2\n",
            &mut sample,
        );
        use Field::{
            Blocked, ContextSwitches, CpuIdle, CpuIowait, Interrupts, Processors, Running,
        };
        let count_of = |field| sample.get(field);
        assert_eq!(
            [CpuIdle, CpuIowait, Processors, Interrupts, ContextSwitches, Running, Blocked]
                .map(count_of),
            [Some(4), None, Some(2), Some(99), Some(5), Some(2), None]
        );
        parse_loadavg(b"0.20 12.05 0.12 1/80 11206\n", &mut sample);
        assert_eq!((sample.get(Field::Load1), sample.get(Field::Load5)), (Some(20), Some(1205)));
        assert_eq!(sample.get(Field::Tasks), Some(80));
        let text = b"some avg10=0.00 avg60=0.00 avg300=0.00 total=11\nfull avg10=0.00 avg60=0.00 \
             avg300=0.00 total=7\n";
        parse_pressure(text, Some(Field::PressureIoSome), Some(Field::PressureIoFull), &mut sample);
        parse_pressure(text, Some(Field::PressureCpuSome), None, &mut sample);
        assert_eq!(
            (sample.get(Field::PressureIoSome), sample.get(Field::PressureIoFull)),
            (Some(11), Some(7))
        );
        parse_tcp(b"Ip: a\nTcp: ActiveOpens PassiveOpens CurrEstab\nTcp: 1 2 3\n", &mut sample);
        assert_eq!(
            (sample.get(Field::TcpPassiveOpens), sample.get(Field::TcpEstablished)),
            (Some(2), Some(3))
        );
    }

    proptest! {
        #[test]
        fn any_bytes_do_no_harm(bytes: Vec<u8>) {
            let mut sample = HostSample::default();
            FieldLines::for_vmstat().read(&bytes, &mut sample);
            parse_stat(&bytes, &mut sample);
            parse_loadavg(&bytes, &mut sample);
            parse_pressure(&bytes, Some(Field::PressureCpuSome), None, &mut sample);
            parse_tcp(&bytes, &mut sample);
        }
    }
}
