//! atop's own files: a header, and for each sample a record with the figures of the host and of its
//! processes, compressed by zlib.
//!
//! The figures are C structures of the version that wrote them, told by their length. Places are
//! those of `rawlog.h` and `photosyst.h` of atop 1.26 to 2.13 on 64-bit machines. Counters are of
//! the interval; in a record behind a boot, since the boot.

use std::io::{self, Read};

use flate2::read::ZlibDecoder;

use super::AtopReader;
use super::layout::AtopMemoryField::{
    AnonHuge, Available, Buffers, Cached, Committed, Compacted, Dirty, Free, HugeFree, HugeSize,
    HugeTotal, Kills, PagedIn, PagedOut, Scans, Shared, Slab, SlabReclaimable, Stalls, SwapFree,
    SwapTotal, SwappedIn, SwappedOut, Tables, Total,
};
use super::layout::{AtopLayout, AtopMemoryField, LAYOUTS};
use crate::readers::bytes::{u16_at, u32_at, u64_at};
use crate::{FileRefused, Metric, Series};

/// Bytes of the header in all these versions.
const HEADER: usize = 480;
/// Bytes of a record's header: in 1.26, and since 2.3.
const RECORDS: [usize; 2] = [80, 96];
/// Bytes of one sample's compressed figures: atop 2.12 has 1 MiB of them uncompressed.
const LONGEST: u32 = 16 << 20;
/// A record's flag: its figures are since the boot.
const SINCE_BOOT: u16 = 1;
/// Bytes of a name in `utsname`.
const NAME: usize = 65;
const MOST_PROBLEMS: usize = 20;

#[derive(Debug)]
pub(super) struct AtopHeader {
    version: u16,
    record: usize,
    length: u32,
    hertz: u16,
    page: u32,
    host: Option<String>,
    kernel: Option<String>,
    machine: Option<String>,
}

impl AtopHeader {
    pub(super) fn read(stream: &mut dyn Read) -> Result<(Self, Vec<u8>), FileRefused> {
        let mut bytes = vec![0; HEADER];
        let torn = |_| FileRefused("ends within its header: it holds no atop sample".into());
        stream.read_exact(&mut bytes).map_err(torn)?;
        let header = Self::from_bytes(&bytes)
            .ok_or_else(|| FileRefused("has an atop header that makes no sense".into()))?;
        Ok((header, bytes))
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let name = |nth: usize| text_until_nul(bytes.get(36 + nth * NAME..36 + (nth + 1) * NAME)?);
        Some(Self {
            version: u16_at(bytes, 4)? & 0x7fff,
            record: usize::from(u16_at(bytes, 12)?),
            length: u32_at(bytes, 28)?,
            hertz: u16_at(bytes, 14)?,
            page: u32_at(bytes, 436)?,
            host: name(1),
            kernel: name(2),
            machine: name(4),
        })
    }

    pub(super) fn version(&self) -> String {
        format!("{}.{}", self.version >> 8, self.version & 0xff)
    }

    pub(super) fn known_layout(&self) -> Option<AtopLayout> {
        let known = LAYOUTS.iter().find(|layout| layout.length == self.length).copied()?;
        // With the header's own length, nothing is between it and the first record.
        (RECORDS.contains(&self.record) && self.page.is_power_of_two()).then_some(known)
    }

    pub(super) fn read_samples(
        self,
        layout: AtopLayout,
        stream: &mut dyn Read,
        source: &str,
    ) -> Result<Series, FileRefused> {
        let mut reader = AtopReader::new(source, false);
        reader.series.version = Some(self.version());
        reader.series.host.clone_from(&self.host);
        reader.series.kernel.clone_from(&self.kernel);
        reader.series.architecture.clone_from(&self.machine);
        let mut problems = Vec::new();
        let mut all: u64 = 0;
        loop {
            match self.read_sample(layout, stream, &mut reader) {
                Ok(true) => all += 1,
                Ok(false) => break,
                Err(Torn::Sample(why)) => {
                    all += 1;
                    problems.push(format!("sample {all}: {why}"));
                }
                Err(Torn::Rest(why)) => {
                    problems.push(format!("behind sample {all}: {why}"));
                    break;
                }
            }
        }
        let more = problems.len().saturating_sub(MOST_PROBLEMS);
        for problem in problems.into_iter().take(MOST_PROBLEMS) {
            reader.series.add_problem(problem);
        }
        if more > 0 {
            reader.series.add_problem(format!("and {more} more samples are incomplete"));
        }
        if reader.series.samples().is_empty() {
            let why = reader
                .series
                .problems
                .first()
                .map(|problem| format!(": {}", problem.what))
                .unwrap_or_default();
            return Err(FileRefused(format!("holds no atop sample{why}")));
        }
        Ok(reader.series.finish())
    }

    /// Returns whether there was another sample.
    fn read_sample(
        &self,
        layout: AtopLayout,
        stream: &mut dyn Read,
        reader: &mut AtopReader,
    ) -> Result<bool, Torn> {
        let mut record = vec![0; self.record];
        let length =
            fill_buffer(stream, &mut record).map_err(|error| Torn::Rest(error.to_string()))?;
        if length == 0 {
            return Ok(false);
        }
        let cut = || Torn::Rest("the last record is cut short".into());
        if length < record.len() {
            return Err(cut());
        }
        let size = |place| {
            u32_at(&record, place).filter(|size| *size <= LONGEST).ok_or_else(senseless_record)
        };
        let time = i64_at(&record, 0)
            .filter(|time| (0..1 << 40).contains(time))
            .ok_or_else(senseless_record)?;
        let flags = u16_at(&record, 8).ok_or_else(senseless_record)?;
        let seconds = u32_at(&record, 24).ok_or_else(senseless_record)?;
        let (figures, processes) = (size(16)?, u64::from(size(20)?));
        let cgroups = if layout.cgroups { u64::from(size(72)?) + u64::from(size(84)?) } else { 0 };
        let mut packed = vec![0; usize::try_from(figures).unwrap_or(0)];
        if fill_buffer(stream, &mut packed).map_err(|error| Torn::Rest(error.to_string()))?
            < packed.len()
        {
            return Err(cut());
        }
        let rest = processes + cgroups;
        let skipped = io::copy(&mut (&mut *stream).take(rest), &mut io::sink());
        let skipped = skipped.map_err(|error| Torn::Rest(error.to_string()))?;
        let mut plain = Vec::new();
        let most = u64::from(layout.length);
        let unpacked = ZlibDecoder::new(packed.as_slice()).take(most).read_to_end(&mut plain);
        if unpacked.is_err() || plain.len() < usize::try_from(most).unwrap_or(usize::MAX) {
            return Err(Torn::Sample("its figures cannot be unpacked".into()));
        }
        reader.reset = flags & SINCE_BOOT != 0;
        reader.begin_sample(time, u64::from(seconds), None);
        self.emit_figures(layout, &plain, u64::from(seconds), reader);
        self.set_tasks(&record, &mut reader.series);
        if let Some(clones) =
            i64_at(&plain, 24).filter(|clones| *clones >= 0 && seconds > 0 && !reader.reset)
        {
            reader.series.set_value(Metric::Forks, f64_from_i64(clones) / f64::from(seconds));
        }
        if skipped < rest { Err(cut()) } else { Ok(true) }
    }

    /// `#proc` and `#trun` of atop's screen, in each record's header. `#tslpu` counts the kernel's
    /// idle threads as waiting for disks until 2.9, and is not taken.
    fn set_tasks(&self, record: &[u8], series: &mut Series) {
        let first = self.record == RECORDS[0];
        if let Some(running) = u32_at(record, if first { 40 } else { 44 }) {
            series.set_value(Metric::RunQueue, f64::from(running));
        }
        // All processes of the interval, less those that ended in it.
        let [all, ended] = [40, 60].map(|place| u32_at(record, place).filter(|_| !first));
        if let Some((all, ended)) = all.zip(ended) {
            series.set_value(Metric::Processes, f64::from(all.saturating_sub(ended)));
        }
    }

    /// Hands on what `atop -P` would print, label by label.
    fn emit_figures(
        &self,
        layout: AtopLayout,
        plain: &[u8],
        seconds: u64,
        reader: &mut AtopReader,
    ) {
        // Behind four figures and three loads, all processors' number and times.
        let count = |place: usize| i64_at(plain, place).map(f64_from_i64);
        // Printed to two digits.
        let load = |place: usize| {
            Some((f64::from(f32::from_bits(u32_at(plain, place)?)) * 100.0).round() / 100.0)
        };
        // Of 8 bytes, whose upper half 2.13 uses otherwise.
        let (hertz, processors) = (Some(f64::from(self.hertz)), u32_at(plain, 0).map(f64::from));
        let times = (0..9).map(|nth| count(88 + 8 * nth));
        reader.record_fields(
            "CPU",
            [hertz, processors].into_iter().chain(times).collect(),
            seconds,
        );
        reader.record_fields(
            "CPL",
            vec![processors, load(32), load(36), load(40), count(16), count(8)],
            seconds,
        );
        let field = |field: AtopMemoryField| {
            let place = layout.memory_place(field)?;
            count(layout.memory + 8 * place).filter(|value| *value >= 0.0)
        };
        let page = Some(f64::from(self.page));
        reader.record_fields("MEM", memory_fields(page, &field), seconds);
        reader.record_fields(
            "SWP",
            vec![page, field(SwapTotal), field(SwapFree), None, field(Committed)],
            seconds,
        );
        let paging = [Scans, Stalls].map(field).into_iter().chain([None]);
        let paging =
            paging.chain([SwappedIn, SwappedOut, Kills, Compacted].map(field)).chain([None, None]);
        let paging = [page].into_iter().chain(paging).chain([PagedIn, PagedOut].map(field));
        reader.record_fields("PAG", paging.collect(), seconds);
        let Some(pressure) =
            layout.pressure.filter(|place| plain.get(*place).is_some_and(|told| *told != 0))
        else {
            return;
        };
        // A letter, then for each kind three averages and the microseconds of the interval.
        let each = (0..5).flat_map(|kind| [None, None, None, count(pressure + 8 + 24 * kind + 16)]);
        reader.record_fields("PSI", [None].into_iter().chain(each).collect(), seconds);
    }
}

fn memory_fields(
    page: Option<f64>,
    field: &dyn Fn(AtopMemoryField) -> Option<f64>,
) -> Vec<Option<f64>> {
    const PLACES: [(usize, AtopMemoryField); 14] = [
        (1, Total),
        (2, Free),
        (3, Cached),
        (4, Buffers),
        (5, Slab),
        (6, Dirty),
        (7, SlabReclaimable),
        (9, Shared),
        (12, HugeSize),
        (13, HugeTotal),
        (14, HugeFree),
        (20, Tables),
        (24, Available),
        (25, AnonHuge),
    ];
    (0..26)
        .map(|place| match PLACES.iter().find(|(of_field, _)| *of_field == place) {
            Some((_, name)) => field(*name),
            None => page.filter(|_| place == 0),
        })
        .collect()
}

enum Torn {
    /// One sample: the next one follows.
    Sample(String),
    /// All that follows.
    Rest(String),
}

fn senseless_record() -> Torn {
    Torn::Rest("a record makes no sense".into())
}

fn fill_buffer(stream: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match stream.read(rest) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn text_until_nul(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let text = String::from_utf8_lossy(bytes.get(..end)?).into_owned();
    (!text.is_empty()).then_some(text)
}

fn i64_at(bytes: &[u8], place: usize) -> Option<i64> {
    u64_at(bytes, place).map(u64::cast_signed)
}

/// Counters past 2^53 lose their last digits.
#[allow(clippy::cast_precision_loss)]
const fn f64_from_i64(number: i64) -> f64 {
    number as f64
}
