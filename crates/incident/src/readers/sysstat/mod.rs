//! sysstat's binary files: `/var/log/sa/saNN`, `/var/log/sysstat/saYYYYMMDD`; and what sar and sadf print
//! ([`text`], [`sadf`]).
//!
//! A head says who wrote the file and how a record is laid out; records follow, each a header and the activities in the
//! head's order. Numbers that count up become rates by the host's own uptime; the first record, and the first after a
//! restart, have none. Bytes that make no sense, as a crash or two collectors at once leave them, are skipped up to the
//! next record, and said.

mod activity;
mod bytes;
mod clock;
mod columns;
mod cpu;
mod header;
mod plan;
mod record;
pub mod sadf;
pub mod text;
mod trust;
mod version;
mod window;

use std::io::Read;
use std::time::Duration;

use self::activity::{Activity, Content, Kind as Number};
use self::bytes::{text_at, u32_at};
use self::cpu::{Processors, Ticks};
use self::header::Header;
use self::plan::Plan;
use self::record::{Kind, LONGEST, RecordHeader};
use self::window::Window;
use crate::series::{Batch, Mark, MarkKind, Moment};
use crate::{Metric, Refused, Series};

/// Bytes of a comment.
const COMMENT: usize = 64;
/// Bytes of an activity that a restart describes anew.
const VOLATILE: usize = 20;
/// How far the next record is looked for behind bytes that make no sense.
const FARTHEST: u64 = 64 << 20;
/// Breaks that are told one by one; a file with more is in ruins.
const MOST_PROBLEMS: usize = 100;

/// Reads a file of sysstat 9.0 to 12.7 from a little-endian 64-bit host, in one pass.
///
/// # Errors
/// Another file; one of a big-endian or 32-bit host, or of RHEL 5; a head that is cut short or makes no sense.
pub fn read(stream: &mut dyn Read, source: &str) -> Result<Series, Refused> {
    read_as(stream, source, false)
}

/// The same; of a file that is only judged, what nothing is judged by is left out.
pub(super) fn read_as(stream: &mut dyn Read, source: &str, judged: bool) -> Result<Series, Refused> {
    let mut window = Window::new(stream);
    let header = match header::read(&mut window) {
        Ok(header) => header,
        Err(refused) => {
            return Err(match window.error() {
                Some(error) => Refused(format!("{refused}: {error}")),
                None => refused,
            });
        }
    };
    let mut reader = Reader::new(header, source, judged);
    reader.records(&mut window);
    if let Some(error) = window.error() {
        reader.series.problem(format!("cannot be read to its end: {error}"));
    }
    reader.series.take(&mut reader.batch);
    reader.series.clock = reader.clock.into_clock();
    Ok(reader.series.finished())
}

/// Whether bytes begin as a file of sysstat does.
pub(super) fn begins(bytes: &[u8]) -> bool {
    header::begins(bytes)
}

/// Where in a record its own content begins, and where the next record does.
#[derive(Clone, Copy, Debug)]
struct Extent {
    body: usize,
    end: usize,
}

/// The numbers of one record.
#[derive(Clone, Debug, Default)]
struct Numbers {
    uptime: u64,
    fields: Vec<Option<u64>>,
    processors: Processors,
}

/// A field of each sample.
#[derive(Clone, Copy, Debug)]
struct Known {
    metric: Metric,
    kind: Number,
    /// A 0 means that the collector did not find it.
    never_zero: bool,
    /// What it counts is false in this file.
    untrusted: bool,
}

struct Reader {
    header: Header,
    series: Series,
    /// The values of its last rows.
    batch: Batch,
    clock: clock::Offsets,
    /// What the fields of all activities are, in their order.
    fields: Vec<Known>,
    now: Numbers,
    before: Numbers,
    /// Whether `before` is of the same boot.
    compares: bool,
    /// Time of the last record.
    last: i64,
    breaks: usize,
    /// Where everything is in the record that was looked at last.
    plan: Plan,
    judged: bool,
}

impl Reader {
    fn new(mut header: Header, source: &str, judged: bool) -> Self {
        let mut series = Series::new(source, crate::Format::Sysstat);
        series.host = header.name.clone();
        series.kernel = header.kernel.clone();
        series.architecture = header.machine.clone();
        series.version = Some(header.version.to_string());
        let kernel = header.kernel.as_ref();
        let kernel = kernel.and_then(|kernel| hugewise_host::kernel::release::parse(kernel.as_bytes()).ok());
        if let Some(kernel) = &kernel {
            series.untrusted = trust::lies(header.version, kernel);
        }
        if header.converted {
            series.problem("was converted by sadf -c: what the collector did not write is left out by its version");
        }
        let mut fields = Vec::new();
        for activity in &header.activities {
            if let Some(layout) = activity.unknown {
                let id = activity.id;
                series.problem(format!("activity {id} has an unknown layout ({layout:#x}) and is left out"));
            }
            if let Content::Fields(of) = &activity.content {
                fields.extend(of.iter().map(|field| Known {
                    metric: field.metric,
                    kind: field.kind,
                    never_zero: trust::never_zero(field.metric, kernel.as_ref()),
                    untrusted: series.untrusted.iter().any(|(untrusted, _)| *untrusted == field.metric),
                }));
            }
        }
        series.untrusted.retain(|(metric, _)| fields.iter().any(|known| known.metric == *metric));
        if judged {
            // What is used of swap is what is not free.
            let is_read = |metric: Metric| !metric.is_only_told() || metric == Metric::SwapFree;
            fields.retain(|known| is_read(known.metric));
            for activity in &mut header.activities {
                if let Content::Fields(of) = &mut activity.content {
                    of.retain(|field| is_read(field.metric));
                }
            }
        }
        let began = i64::try_from(header.began).unwrap_or(0);
        let clock = clock::Offsets::new(began, header.day);
        let numbers = Numbers { fields: vec![None; fields.len()], ..Numbers::default() };
        Self {
            header,
            series,
            batch: Batch::new(),
            clock,
            fields,
            now: numbers.clone(),
            before: numbers,
            compares: false,
            last: began,
            breaks: 0,
            plan: Plan::default(),
            judged,
        }
    }

    fn records(&mut self, window: &mut Window<'_>) {
        let layout = self.header.record;
        loop {
            if !window.reach(layout.length) {
                self.torn(window, window.bytes().len());
                return;
            }
            let Some(header) = layout.parse(window.bytes()) else {
                if self.resume(window, 0) { continue } else { return }
            };
            let Some(extent) = self.extent(window, &header) else {
                // Cut short by the file's end, or by another record, or not what it seems.
                if self.resume(window, 1) { continue } else { return }
            };
            window.reach(extent.end + layout.length);
            let next = window.bytes().get(extent.end..).unwrap_or_default();
            let follows = layout.parse(next).is_some_and(|next| next.follows(header.time));
            let overlapped = !next.is_empty() && !follows;
            let inner = if overlapped { self.search(window, 1, extent.end, header.time) } else { None };
            if let Some(inner) = inner {
                self.broken(window.offset(), format!("a record is cut short; the next begins {inner} bytes on"));
                self.compares = false;
                window.advance(inner);
                continue;
            }
            self.keep(&header, window.bytes().get(extent.body..extent.end).unwrap_or_default());
            window.advance(extent.end);
        }
    }

    /// Looks for a record that begins between two places of what was reached.
    fn search(&self, window: &Window<'_>, from: usize, to: usize, last: i64) -> Option<usize> {
        let layout = self.header.record;
        let bytes = window.bytes().get(from..).unwrap_or_default();
        let places = bytes.windows(layout.length).take(to.saturating_sub(from));
        let found = places.enumerate().find(|(_, bytes)| {
            layout.parse(bytes).is_some_and(|header| header.kind != Kind::Extra && header.follows(last))
        });
        found.map(|(place, _)| from + place)
    }

    /// Goes to the next record behind bytes that make no sense, at least `from` bytes on; false where there is none.
    fn resume(&mut self, window: &mut Window<'_>, from: usize) -> bool {
        let start = window.offset();
        let layout = self.header.record;
        let mut from = from;
        while window.reach(from + layout.length) && window.offset() - start < FARTHEST {
            let to = window.bytes().len() - layout.length + 1;
            if let Some(place) = self.search(window, from, to.max(from + 1), self.last) {
                window.advance(place);
                let skipped = window.offset() - start;
                self.broken(start, format!("{skipped} bytes make no sense and are skipped"));
                self.compares = false;
                return true;
            }
            window.advance(to.max(from + 1));
            from = 0;
        }
        let rest = window.bytes().len();
        let skipped = usize::try_from(window.offset() - start).unwrap_or(usize::MAX).saturating_add(rest);
        self.torn(window, skipped);
        false
    }

    fn torn(&mut self, window: &Window<'_>, left: usize) {
        if left > 0 {
            let end = window.offset().saturating_add(u64::try_from(window.bytes().len()).unwrap_or(0));
            let begin = end.saturating_sub(u64::try_from(left).unwrap_or(0));
            self.broken(begin, format!("the last {left} bytes are not a whole record and are left out"));
        }
    }

    fn broken(&mut self, offset: u64, what: String) {
        self.breaks += 1;
        if self.breaks <= MOST_PROBLEMS {
            self.series.problem_at(Moment::from_seconds(self.last), format!("at byte {offset}: {what}"));
        }
    }

    /// How far the record reaches that starts where the window does, where it is whole and can be one.
    fn extent(&mut self, window: &mut Window<'_>, header: &RecordHeader) -> Option<Extent> {
        let mut end = self.header.record.length;
        match header.kind {
            Kind::Statistics => {
                if header.extra {
                    end += record::extra_length(window, end)?;
                }
                return Some(Extent { body: end, end: self.statistics(window, end)? });
            }
            Kind::Extra => {}
            // Since 11.7.1 the number of processors; from 10.3.1 on activities that may have changed; nothing before.
            Kind::Restart if self.header.record != record::RecordLayout::OLD => end += 4,
            Kind::Restart => end += VOLATILE * self.header.volatile,
            Kind::Comment => end += COMMENT,
        }
        if !window.reach(end) {
            return None;
        }
        if header.extra {
            end += record::extra_length(window, end)?;
        }
        (end <= LONGEST && window.reach(end)).then_some(Extent { body: self.header.record.length, end })
    }

    /// Where the statistics end that begin `at`; the plan is that of this record then.
    fn statistics(&mut self, window: &mut Window<'_>, at: usize) -> Option<usize> {
        // Nearly all records are laid out as the one before.
        let end = at.checked_add(self.plan.length)?;
        if self.plan.length > 0 && window.reach(end) && self.plan.fits(window.bytes().get(at..end)?) {
            return Some(end);
        }
        self.plan = Plan::of(&self.header.activities, window, at)?;
        let end = at.checked_add(self.plan.length)?;
        window.reach(end).then_some(end)
    }

    /// Reads the numbers of a record of statistics that the plan is of.
    fn decode(&mut self, uptime: u64, bytes: &[u8]) {
        self.now.uptime = uptime;
        self.now.processors.clear();
        for (place, number) in self.plan.fields.iter().zip(&mut self.now.fields) {
            *number = place.and_then(|place| place.read(bytes));
        }
        for each in &self.plan.processors {
            let all = bytes.get(each.place..each.place + each.length * each.items).unwrap_or_default();
            for item in all.chunks_exact(each.length) {
                self.now.processors.push(Ticks::read(item, each.fields, each.apart));
            }
        }
    }

    /// Takes a whole record into the series, of which this is the content.
    fn keep(&mut self, header: &RecordHeader, content: &[u8]) {
        self.last = header.time;
        let at = Moment::from_seconds(header.time);
        match header.kind {
            Kind::Statistics => {
                self.decode(header.uptime, content);
                self.sample(header, at);
            }
            Kind::Restart => {
                self.series.marks.push(Mark { at, kind: MarkKind::Restart });
                self.compares = false;
                self.clock.note(header);
                let entries = content.get(..VOLATILE * self.header.volatile).unwrap_or_default();
                renew(&mut self.header.activities, entries);
                self.plan = Plan::default();
            }
            Kind::Comment => {
                let comment = text_at(content, 0, COMMENT);
                self.series.marks.push(Mark { at, kind: MarkKind::Comment(comment.unwrap_or_default()) });
            }
            Kind::Extra => {}
        }
    }

    fn sample(&mut self, header: &RecordHeader, at: Moment) {
        self.clock.note(header);
        let passed = self.now.uptime.checked_sub(self.before.uptime);
        if self.compares && passed.is_none() {
            // The host was started without the collector's noting it.
            self.series.marks.push(Mark { at, kind: MarkKind::Restart });
        }
        if !self.compares {
            self.resumed(header);
        }
        let passed = passed.filter(|passed| self.compares && *passed > 0);
        let interval = passed.and_then(|hundredths| hundredths.checked_mul(10)).map(Duration::from_millis);
        self.series.push_into(&mut self.batch, at, interval);
        let (mut swap_total, mut swap_free) = (None, None);
        let seconds = interval.map(|interval| interval.as_secs_f64());
        for (known, (now, before)) in self.fields.iter().zip(self.now.fields.iter().zip(&self.before.fields)) {
            let Some(now) = *now else { continue };
            let metric = known.metric;
            match known.kind {
                Number::Gauge(times) => {
                    if now == 0 && known.never_zero {
                        continue;
                    }
                    let value = float(now) * times;
                    match metric {
                        Metric::SwapTotal => swap_total = Some(value),
                        Metric::SwapFree => swap_free = Some(value),
                        _ => {}
                    }
                    if !(self.judged && metric.is_only_told()) {
                        self.batch.set(metric, value);
                    }
                }
                Number::Counter(times) => {
                    let Some((before, seconds)) = before.zip(seconds) else { continue };
                    // What falls was begun anew.
                    let Some(grown) = now.checked_sub(before) else { continue };
                    if !known.untrusted {
                        self.batch.set(metric, float(grown) * times / seconds);
                    }
                }
            }
        }
        if let Some((total, free)) = swap_total.zip(swap_free) {
            self.batch.set(Metric::SwapUsed, total - free);
        }
        let before = interval.is_some().then_some(&self.before.processors);
        let batch = &mut self.batch;
        let judged = self.judged;
        self.now.processors.since(before, |metric, value| {
            if !(judged && metric.is_only_told()) {
                batch.set(metric, value);
            }
        });
        std::mem::swap(&mut self.now, &mut self.before);
        self.compares = true;
    }
}

impl Reader {
    /// A restart of the collector alone: the host had been up since before the last sample.
    fn resumed(&mut self, header: &RecordHeader) {
        let Some(last) = self.series.samples().last().map(|last| last.at) else { return };
        let up = i64::try_from(header.uptime).unwrap_or(i64::MAX).saturating_mul(10);
        let booted = Moment::from_seconds(header.time).0.saturating_sub(up);
        let restarts = self.series.marks.iter_mut().filter(|mark| mark.kind == MarkKind::Restart && mark.at >= last);
        if booted < last.0 {
            restarts.for_each(|mark| mark.kind = MarkKind::Resumed);
        }
    }
}

/// After a restart from 10.3.1 to 11.6: the activities of which the host may have another number now. Of an entry only
/// the first and the third field are set.
fn renew(activities: &mut [Activity], entries: &[u8]) {
    for entry in entries.chunks_exact(VOLATILE) {
        let (Some(id), Some(items)) = (u32_at(entry, 0), u32_at(entry, 8)) else { continue };
        for activity in activities.iter_mut().filter(|activity| activity.id == id) {
            if items > 0 && activity.bounded(items) {
                activity.items = items;
            }
        }
    }
}

/// For rates; what counts past 2^53 loses its last digits.
#[allow(clippy::cast_precision_loss)]
const fn float(number: u64) -> f64 {
    number as f64
}
