//! atop's own files: a header, and for each sample a record with the host's figures and those of its processes, which are packed
//! by zlib.
//!
//! The figures are structures of C as the version that wrote them had them; their length tells which. Places are those of
//! `rawlog.h` and `photosyst.h` of atop 1.26 to 2.13 on 64-bit machines. Figures that count are those of the interval; of a
//! record behind a boot, those since the boot.

use std::io::{self, Read};

use flate2::read::ZlibDecoder;

use super::Reader;
use super::layout::Field::{
    AnonHuge, Available, Buffers, Cached, Committed, Compacted, Dirty, Free, HugeFree, HugeSize, HugeTotal, Kills,
    PagedIn, PagedOut, Scans, Shared, Slab, SlabReclaimable, Stalls, SwapFree, SwapTotal, SwappedIn, SwappedOut,
    Tables, Total,
};
use super::layout::{Field, LAYOUTS, Layout};
use crate::{Clock, Metric, Refused, Series};

/// Length of the header in all these versions.
const HEADER: usize = 480;
/// Lengths of a record's header: of 1.26, and since 2.3.
const RECORDS: [usize; 2] = [80, 96];
/// What one sample's packed figures may take: atop 2.12 has 1 MiB of them unpacked.
const LONGEST: u32 = 16 << 20;
/// A record's flag: its figures are since the boot.
const SINCE_BOOT: u16 = 1;
/// Length of a name in `utsname`.
const NAME: usize = 65;
/// Torn or senseless samples that are told one by one.
const MOST_PROBLEMS: usize = 20;

/// The head of a file.
#[derive(Debug)]
pub(super) struct Header {
    version: u16,
    record: usize,
    length: u32,
    hertz: u16,
    page: u32,
    host: Option<String>,
    kernel: Option<String>,
    machine: Option<String>,
}

impl Header {
    /// Reads it; its bytes are handed on for whoever wants them again.
    pub(super) fn read(stream: &mut dyn Read) -> Result<(Self, Vec<u8>), Refused> {
        let mut bytes = vec![0; HEADER];
        let torn = |_| Refused("ends within its header: it holds no atop sample".into());
        stream.read_exact(&mut bytes).map_err(torn)?;
        let header = Self::of(&bytes).ok_or_else(|| Refused("has an atop header that makes no sense".into()))?;
        Ok((header, bytes))
    }

    fn of(bytes: &[u8]) -> Option<Self> {
        let name = |nth: usize| text(bytes.get(36 + nth * NAME..36 + (nth + 1) * NAME)?);
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

    /// `2.8`
    pub(super) fn version(&self) -> String {
        format!("{}.{}", self.version >> 8, self.version & 0xff)
    }

    /// The layout of its figures, where it is known.
    pub(super) fn layout(&self) -> Option<Layout> {
        let known = LAYOUTS.iter().find(|layout| layout.length == self.length).copied()?;
        // The header's own length tells that there is nothing between it and the first record.
        (RECORDS.contains(&self.record) && self.page.is_power_of_two()).then_some(known)
    }

    /// Reads what follows.
    pub(super) fn samples(self, layout: Layout, stream: &mut dyn Read, source: &str) -> Result<Series, Refused> {
        let mut reader = Reader {
            series: Series::new(source, crate::Format::Atop),
            reset: false,
            at: None,
            zoned: false,
            others: 0,
            torn: 0,
        };
        reader.series.clock = Clock::Utc { offsets: Vec::new() };
        reader.series.version = Some(self.version());
        reader.series.host.clone_from(&self.host);
        reader.series.kernel.clone_from(&self.kernel);
        reader.series.architecture.clone_from(&self.machine);
        let mut problems = Vec::new();
        let mut all: u64 = 0;
        loop {
            match self.sample(layout, stream, &mut reader) {
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
            reader.series.problem(problem);
        }
        if more > 0 {
            reader.series.problem(format!("and {more} more samples are incomplete"));
        }
        if reader.series.samples().is_empty() {
            let why = reader.series.problems.first().map(|problem| format!(": {}", problem.what)).unwrap_or_default();
            return Err(Refused(format!("holds no atop sample{why}")));
        }
        Ok(reader.series.finished())
    }

    /// Reads one; false at the end.
    fn sample(&self, layout: Layout, stream: &mut dyn Read, reader: &mut Reader) -> Result<bool, Torn> {
        let mut record = vec![0; self.record];
        let length = fill(stream, &mut record).map_err(|error| Torn::Rest(error.to_string()))?;
        if length == 0 {
            return Ok(false);
        }
        let cut = || Torn::Rest("the last record is cut short".into());
        if length < record.len() {
            return Err(cut());
        }
        let size = |place| u32_at(&record, place).filter(|size| *size <= LONGEST).ok_or_else(senseless);
        let time = i64_at(&record, 0).filter(|time| (0..1 << 40).contains(time)).ok_or_else(senseless)?;
        let flags = u16_at(&record, 8).ok_or_else(senseless)?;
        let seconds = u32_at(&record, 24).ok_or_else(senseless)?;
        let (figures, processes) = (size(16)?, u64::from(size(20)?));
        let cgroups = if layout.cgroups { u64::from(size(72)?) + u64::from(size(84)?) } else { 0 };
        let mut packed = vec![0; usize::try_from(figures).unwrap_or(0)];
        if fill(stream, &mut packed).map_err(|error| Torn::Rest(error.to_string()))? < packed.len() {
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
        reader.begin(time, u64::from(seconds), None);
        self.figures(layout, &plain, u64::from(seconds), reader);
        self.tasks(&record, &mut reader.series);
        if let Some(clones) = i64_at(&plain, 24).filter(|clones| *clones >= 0 && seconds > 0 && !reader.reset) {
            reader.series.set(Metric::Forks, float(clones) / f64::from(seconds));
        }
        if skipped < rest { Err(cut()) } else { Ok(true) }
    }

    /// What stands in each record's own header: `#proc` and `#trun` of atop's screen. `#tslpu` has the kernel's idle threads among
    /// tasks that wait for disks until 2.9, and is not taken.
    fn tasks(&self, record: &[u8], series: &mut Series) {
        let first = self.record == RECORDS[0];
        if let Some(running) = u32_at(record, if first { 40 } else { 44 }) {
            series.set(Metric::RunQueue, f64::from(running));
        }
        // All that there were in the interval; those that ended in it are gone at its end.
        let [all, ended] = [40, 60].map(|place| u32_at(record, place).filter(|_| !first));
        if let Some((all, ended)) = all.zip(ended) {
            series.set(Metric::Processes, f64::from(all.saturating_sub(ended)));
        }
    }

    /// Hands on what `atop -P` would print, label by label.
    fn figures(&self, layout: Layout, plain: &[u8], seconds: u64, reader: &mut Reader) {
        // Behind four figures and three loads, the sum of all processors: its number, then its times.
        let count = |place: usize| i64_at(plain, place).map(float);
        // Printed to two digits.
        let load = |place: usize| Some((f64::from(f32::from_bits(u32_at(plain, place)?)) * 100.0).round() / 100.0);
        // Of 8 bytes, of which 2.13 uses the upper half otherwise.
        let (hertz, processors) = (Some(f64::from(self.hertz)), u32_at(plain, 0).map(f64::from));
        let times = (0..9).map(|nth| count(88 + 8 * nth));
        reader.fields("CPU", [hertz, processors].into_iter().chain(times).collect(), seconds);
        reader.fields("CPL", vec![processors, load(32), load(36), load(40), count(16), count(8)], seconds);
        let field = |of: Field| {
            let (_, place) = layout.fields.iter().find(|(field, _)| *field == of)?;
            count(layout.memory + 8 * place).filter(|value| *value >= 0.0)
        };
        let page = Some(f64::from(self.page));
        let mut memory = vec![None; 26];
        let places = [
            (0, page),
            (1, field(Total)),
            (2, field(Free)),
            (3, field(Cached)),
            (4, field(Buffers)),
            (5, field(Slab)),
            (6, field(Dirty)),
            (7, field(SlabReclaimable)),
            (9, field(Shared)),
            (12, field(HugeSize)),
            (13, field(HugeTotal)),
            (14, field(HugeFree)),
            (20, field(Tables)),
            (24, field(Available)),
            (25, field(AnonHuge)),
        ];
        for (place, value) in places {
            if let Some(slot) = memory.get_mut(place) {
                *slot = value;
            }
        }
        reader.fields("MEM", memory, seconds);
        reader.fields("SWP", vec![page, field(SwapTotal), field(SwapFree), None, field(Committed)], seconds);
        let paging = [Scans, Stalls].map(field).into_iter().chain([None]);
        let paging = paging.chain([SwappedIn, SwappedOut, Kills, Compacted].map(field)).chain([None, None]);
        let paging = [page].into_iter().chain(paging).chain([PagedIn, PagedOut].map(field));
        reader.fields("PAG", paging.collect(), seconds);
        let Some(pressure) = layout.pressure.filter(|place| plain.get(*place).is_some_and(|told| *told != 0)) else {
            return;
        };
        // A letter, then for each kind three averages and the microseconds of the interval.
        let each = (0..5).flat_map(|kind| [None, None, None, count(pressure + 8 + 24 * kind + 16)]);
        reader.fields("PSI", [None].into_iter().chain(each).collect(), seconds);
    }
}

/// What is wrong.
enum Torn {
    /// With one sample: the next one follows.
    Sample(String),
    /// With all that follows.
    Rest(String),
}

fn senseless() -> Torn {
    Torn::Rest("a record makes no sense".into())
}

/// Reads as much as there is, up to a length.
fn fill(stream: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
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

fn text(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let text = String::from_utf8_lossy(bytes.get(..end)?).into_owned();
    (!text.is_empty()).then_some(text)
}

fn u16_at(bytes: &[u8], place: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(place..place.checked_add(2)?)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], place: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(place..place.checked_add(4)?)?.try_into().ok()?))
}

fn i64_at(bytes: &[u8], place: usize) -> Option<i64> {
    Some(i64::from_le_bytes(bytes.get(place..place.checked_add(8)?)?.try_into().ok()?))
}

/// For rates; what counts past 2^53 loses its last digits.
#[allow(clippy::cast_precision_loss)]
const fn float(number: i64) -> f64 {
    number as f64
}
