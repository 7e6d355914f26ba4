//! sysstat's binary files (`/var/log/sa/saNN`, `/var/log/sysstat/saYYYYMMDD`), and what sar and sadf
//! print ([`text`], [`sadf`]).
//!
//! A head tells who wrote the file and the layout of records; records follow, each a header and the
//! activities in the head's order. Counters become rates by the host's own uptime; the first record
//! and the first after a restart have none. Senseless bytes, left by a crash or by two collectors at
//! once, are skipped up to the next record, and reported.

mod activity;
mod clock;
mod columns;
mod cpu;
mod header;
mod known_defects;
mod plan;
mod record;
pub mod sadf;
pub mod text;
mod version;
mod window;

use std::io::Read;
use std::time::Duration;

use hugewise_model::KernelRelease;

use self::activity::{Activity, ActivityContent, ActivityFieldKind as Number};
use self::cpu::{CpuSample, CpuTicks};
use self::header::SysstatHeader;
use self::plan::RecordPlan;
use self::record::{LONGEST, RecordHeader, SysstatRecordKind};
use self::window::StreamWindow;
use super::archive_format::{ArchiveFormat, Promise};
use crate::readers::bytes::{text_at, u32_at};
use crate::series::{Mark, MarkKind, Moment, SeriesBatch};
use crate::{FileRefused, Metric, Series};

/// Bytes of a comment.
const COMMENT: usize = 64;
/// Bytes of an activity that a restart describes anew.
const VOLATILE: usize = 20;
/// Bytes in which the next record is looked for behind senseless ones.
const FARTHEST: u64 = 64 << 20;
const MOST_PROBLEMS: usize = 100;
/// Hosts in one file of text; nobody prints more into one.
const MOST_HOSTS: usize = 256;

/// sysstat's own files, also those that are refused by name.
pub static FORMAT: ArchiveFormat = ArchiveFormat {
    name: "sysstat",
    called: "a sar file",
    tools: &["sar"],
    is_text: false,
    recognize: |head| Promise::sure_if(header::is_sysstat_file(head)),
    read: |file| read_as(file.stream, file.source, file.judged).map(|series| vec![series]),
};

/// Says of the last host that others behind it are left out.
fn note_hosts_left_out(series: &mut [Series], left_out: usize) {
    if let Some(last) = series.last_mut().filter(|_| left_out > 0) {
        last.add_problem(format!("has more than {MOST_HOSTS} hosts; the rest is left out"));
    }
}

/// Reads a file of sysstat 9.0 to 12.7 from a little-endian 64-bit host, in one pass.
///
/// # Errors
/// Another file; one of a big-endian or 32-bit host, or of RHEL 5; a head that is cut short or makes
/// no sense.
pub fn read(stream: &mut dyn Read, source: &str) -> Result<Series, FileRefused> {
    read_as(stream, source, false)
}

/// The same; if `judged`, metrics that are only told are left out.
pub(super) fn read_as(
    stream: &mut dyn Read,
    source: &str,
    judged: bool,
) -> Result<Series, FileRefused> {
    let mut window = StreamWindow::new(stream);
    let header = match header::read(&mut window) {
        Ok(header) => header,
        Err(refused) => {
            return Err(match window.error() {
                Some(error) => FileRefused(format!("{refused}: {error}")),
                None => refused,
            });
        }
    };
    let mut reader = SysstatReader::new(header, source, judged);
    reader.read_records(&mut window);
    if let Some(error) = window.error() {
        reader.series.add_problem(format!("cannot be read to its end: {error}"));
    }
    reader.series.flush_batch(&mut reader.batch);
    reader.series.clock = reader.clock.into_clock();
    Ok(reader.series.finish())
}

#[derive(Clone, Copy, Debug)]
struct Extent {
    body: usize,
    end: usize,
}

#[derive(Clone, Debug, Default)]
struct Numbers {
    uptime: u64,
    fields: Vec<Option<u64>>,
    processors: CpuSample,
}

#[derive(Clone, Copy, Debug)]
struct DecodedField {
    metric: Metric,
    kind: Number,
    /// Whether 0 means that the collector did not find it.
    never_zero: bool,
    /// Whether its counter is false in this file.
    untrusted: bool,
}

struct SysstatReader {
    header: SysstatHeader,
    series: Series,
    batch: SeriesBatch,
    clock: clock::Offsets,
    fields: Vec<DecodedField>,
    now: Numbers,
    before: Numbers,
    /// Whether `before` is of the same boot.
    compares: bool,
    /// Seconds since the epoch of the last record.
    last: i64,
    breaks: usize,
    plan: RecordPlan,
    judged: bool,
}

fn decode_fields(
    header: &SysstatHeader,
    series: &mut Series,
    kernel: Option<&KernelRelease>,
) -> Vec<DecodedField> {
    let mut fields = Vec::new();
    for activity in &header.activities {
        if let Some(layout) = activity.unknown {
            let id = activity.id;
            series.add_problem(format!(
                "activity {id} has an unknown layout ({layout:#x}) and is left out"
            ));
        }
        if let ActivityContent::Fields(activity_fields) = &activity.content {
            fields.extend(activity_fields.iter().map(|field| DecodedField {
                metric: field.metric,
                kind: field.kind,
                never_zero: known_defects::never_zero(field.metric, kernel),
                untrusted: series.untrusted.iter().any(|(metric, _)| *metric == field.metric),
            }));
        }
    }
    series.untrusted.retain(|(metric, _)| fields.iter().any(|known| known.metric == *metric));
    fields
}

impl SysstatReader {
    fn new(mut header: SysstatHeader, source: &str, judged: bool) -> Self {
        let mut series = Series::new(source, crate::SourceFormat::SYSSTAT);
        series.host = header.name.clone();
        series.kernel = header.kernel.clone();
        series.architecture = header.machine.clone();
        series.version = Some(header.version.to_string());
        let kernel = header.kernel.as_ref();
        let kernel =
            kernel.and_then(|kernel| hugewise_host::kernel::release::parse(kernel.as_bytes()).ok());
        if let Some(kernel) = &kernel {
            series.untrusted = known_defects::untrusted_metrics(header.version, kernel);
        }
        if header.converted {
            series.add_problem(
                "was converted by sadf -c: what the collector did not write is \
                 left out by its version",
            );
        }
        let mut fields = decode_fields(&header, &mut series, kernel.as_ref());
        if judged {
            // Used swap is computed from free swap.
            let is_read = |metric: Metric| !metric.is_only_told() || metric == Metric::SwapFree;
            fields.retain(|known| is_read(known.metric));
            for activity in &mut header.activities {
                if let ActivityContent::Fields(activity_fields) = &mut activity.content {
                    activity_fields.retain(|field| is_read(field.metric));
                }
            }
        }
        let began = i64::try_from(header.began).unwrap_or(0);
        let clock = clock::Offsets::new(began, header.day);
        let numbers = Numbers { fields: vec![None; fields.len()], ..Numbers::default() };
        Self {
            header,
            series,
            batch: SeriesBatch::new(),
            clock,
            fields,
            now: numbers.clone(),
            before: numbers,
            compares: false,
            last: began,
            breaks: 0,
            plan: RecordPlan::default(),
            judged,
        }
    }

    fn read_records(&mut self, window: &mut StreamWindow<'_>) {
        let layout = self.header.record;
        loop {
            if !window.fill_to(layout.length) {
                self.note_truncation(window, window.bytes().len());
                return;
            }
            let Some(header) = layout.parse(window.bytes()) else {
                if self.skip_to_record(window, 0) { continue } else { return }
            };
            let Some(extent) = self.measure_record(window, &header) else {
                // Cut short by the file's end or by another record, or no record.
                if self.skip_to_record(window, 1) { continue } else { return }
            };
            window.fill_to(extent.end + layout.length);
            let next = window.bytes().get(extent.end..).unwrap_or_default();
            let follows = layout.parse(next).is_some_and(|next| next.may_follow(header.time));
            let overlapped = !next.is_empty() && !follows;
            let inner = if overlapped {
                self.find_record(window, 1, extent.end, header.time)
            } else {
                None
            };
            if let Some(inner) = inner {
                self.note_damage(
                    window.offset(),
                    format!("a record is cut short; the next begins {inner} bytes on"),
                );
                self.compares = false;
                window.advance(inner);
                continue;
            }
            self.store_record(
                &header,
                window.bytes().get(extent.body..extent.end).unwrap_or_default(),
            );
            window.advance(extent.end);
        }
    }

    fn find_record(
        &self,
        window: &StreamWindow<'_>,
        from: usize,
        to: usize,
        last: i64,
    ) -> Option<usize> {
        let layout = self.header.record;
        let bytes = window.bytes().get(from..).unwrap_or_default();
        let places = bytes.windows(layout.length).take(to.saturating_sub(from));
        let found = places.enumerate().find(|(_, bytes)| {
            layout.parse(bytes).is_some_and(|header| {
                header.kind != SysstatRecordKind::Extra && header.may_follow(last)
            })
        });
        found.map(|(place, _)| from + place)
    }

    /// Skips senseless bytes, at least `from` of them, to the next record; false if there is none.
    fn skip_to_record(&mut self, window: &mut StreamWindow<'_>, from: usize) -> bool {
        let start = window.offset();
        let layout = self.header.record;
        let mut from = from;
        while window.fill_to(from + layout.length) && window.offset() - start < FARTHEST {
            let to = window.bytes().len() - layout.length + 1;
            if let Some(place) = self.find_record(window, from, to.max(from + 1), self.last) {
                window.advance(place);
                let skipped = window.offset() - start;
                self.note_damage(start, format!("{skipped} bytes make no sense and are skipped"));
                self.compares = false;
                return true;
            }
            window.advance(to.max(from + 1));
            from = 0;
        }
        let rest = window.bytes().len();
        let skipped =
            usize::try_from(window.offset() - start).unwrap_or(usize::MAX).saturating_add(rest);
        self.note_truncation(window, skipped);
        false
    }

    fn note_truncation(&mut self, window: &StreamWindow<'_>, left: usize) {
        if left > 0 {
            let end =
                window.offset().saturating_add(u64::try_from(window.bytes().len()).unwrap_or(0));
            let begin = end.saturating_sub(u64::try_from(left).unwrap_or(0));
            self.note_damage(
                begin,
                format!("the last {left} bytes are not a whole record and are left out"),
            );
        }
    }

    fn note_damage(&mut self, offset: u64, what: String) {
        self.breaks += 1;
        if self.breaks <= MOST_PROBLEMS {
            self.series
                .problem_at(Moment::from_seconds(self.last), format!("at byte {offset}: {what}"));
        }
    }

    /// The extent of the record at the window's start, if it is whole and plausible.
    fn measure_record(
        &mut self,
        window: &mut StreamWindow<'_>,
        header: &RecordHeader,
    ) -> Option<Extent> {
        let mut end = self.header.record.length;
        match header.kind {
            SysstatRecordKind::Statistics => {
                if header.extra {
                    end += record::extra_length(window, end)?;
                }
                return Some(Extent { body: end, end: self.measure_statistics(window, end)? });
            }
            SysstatRecordKind::Extra => {}
            // Since 11.7.1 the number of processors; since 10.3.1 activities that may have changed.
            SysstatRecordKind::Restart if self.header.record != record::RecordLayout::OLD => {
                end += 4
            }
            SysstatRecordKind::Restart => end += VOLATILE * self.header.volatile,
            SysstatRecordKind::Comment => end += COMMENT,
        }
        if !window.fill_to(end) {
            return None;
        }
        if header.extra {
            end += record::extra_length(window, end)?;
        }
        (end <= LONGEST && window.fill_to(end))
            .then_some(Extent { body: self.header.record.length, end })
    }

    fn measure_statistics(&mut self, window: &mut StreamWindow<'_>, at: usize) -> Option<usize> {
        // Nearly all records have the layout of the one before.
        let end = at.checked_add(self.plan.length)?;
        if self.plan.length > 0
            && window.fill_to(end)
            && self.plan.matches_layout(window.bytes().get(at..end)?)
        {
            return Some(end);
        }
        self.plan = RecordPlan::from_activities(&self.header.activities, window, at)?;
        let end = at.checked_add(self.plan.length)?;
        window.fill_to(end).then_some(end)
    }

    fn decode_numbers(&mut self, uptime: u64, bytes: &[u8]) {
        self.now.uptime = uptime;
        self.now.processors.clear();
        for (place, number) in self.plan.fields.iter().zip(&mut self.now.fields) {
            *number = place.and_then(|place| place.read(bytes));
        }
        for each in &self.plan.processors {
            let all =
                bytes.get(each.place..each.place + each.length * each.items).unwrap_or_default();
            for item in all.chunks_exact(each.length) {
                self.now.processors.push(CpuTicks::read(item, each.fields, each.apart));
            }
        }
    }

    fn store_record(&mut self, header: &RecordHeader, content: &[u8]) {
        self.last = header.time;
        let at = Moment::from_seconds(header.time);
        match header.kind {
            SysstatRecordKind::Statistics => {
                self.decode_numbers(header.uptime, content);
                self.push_sample(header, at);
            }
            SysstatRecordKind::Restart => {
                self.series.marks.push(Mark { at, kind: MarkKind::Restart });
                self.compares = false;
                self.clock.note_offset(header);
                let entries = content.get(..VOLATILE * self.header.volatile).unwrap_or_default();
                renew_activities(&mut self.header.activities, entries);
                self.plan = RecordPlan::default();
            }
            SysstatRecordKind::Comment => {
                let comment = text_at(content, 0, COMMENT);
                self.series
                    .marks
                    .push(Mark { at, kind: MarkKind::Comment(comment.unwrap_or_default()) });
            }
            SysstatRecordKind::Extra => {}
        }
    }

    fn push_sample(&mut self, header: &RecordHeader, at: Moment) {
        self.clock.note_offset(header);
        let passed = self.now.uptime.checked_sub(self.before.uptime);
        if self.compares && passed.is_none() {
            // The host was started without a note of the collector.
            self.series.marks.push(Mark { at, kind: MarkKind::Restart });
        }
        if !self.compares {
            self.note_resumption(header);
        }
        let passed = passed.filter(|passed| self.compares && *passed > 0);
        let interval =
            passed.and_then(|hundredths| hundredths.checked_mul(10)).map(Duration::from_millis);
        self.series.push_into(&mut self.batch, at, interval);
        let (mut swap_total, mut swap_free) = (None, None);
        let seconds = interval.map(|interval| interval.as_secs_f64());
        for (known, (now, before)) in
            self.fields.iter().zip(self.now.fields.iter().zip(&self.before.fields))
        {
            let Some(now) = *now else { continue };
            let metric = known.metric;
            match known.kind {
                Number::Gauge(times) => {
                    if now == 0 && known.never_zero {
                        continue;
                    }
                    let value = f64_from_u64(now) * times;
                    match metric {
                        Metric::SwapTotal => swap_total = Some(value),
                        Metric::SwapFree => swap_free = Some(value),
                        _ => {}
                    }
                    if !(self.judged && metric.is_only_told()) {
                        self.batch.set_value(metric, value);
                    }
                }
                Number::Counter(times) => {
                    let Some((before, seconds)) = before.zip(seconds) else { continue };
                    // A counter that falls began anew.
                    let Some(grown) = now.checked_sub(before) else { continue };
                    if !known.untrusted {
                        self.batch.set_value(metric, f64_from_u64(grown) * times / seconds);
                    }
                }
            }
        }
        if let Some((total, free)) = swap_total.zip(swap_free) {
            self.batch.set_value(Metric::SwapUsed, total - free);
        }
        let before = interval.is_some().then_some(&self.before.processors);
        let batch = &mut self.batch;
        let judged = self.judged;
        self.now.processors.report_usage_since(before, |metric, value| {
            if !(judged && metric.is_only_told()) {
                batch.set_value(metric, value);
            }
        });
        std::mem::swap(&mut self.now, &mut self.before);
        self.compares = true;
    }

    /// Corrects restarts of the collector alone: the host had been up since the last sample.
    fn note_resumption(&mut self, header: &RecordHeader) {
        let Some(last) = self.series.samples().last().map(|last| last.at) else { return };
        let up = i64::try_from(header.uptime).unwrap_or(i64::MAX).saturating_mul(10);
        let booted = Moment::from_seconds(header.time).0.saturating_sub(up);
        let restarts = self
            .series
            .marks
            .iter_mut()
            .filter(|mark| mark.kind == MarkKind::Restart && mark.at >= last);
        if booted < last.0 {
            restarts.for_each(|mark| mark.kind = MarkKind::Resumed);
        }
    }
}

/// After a restart from 10.3.1 to 11.6: activities whose number of items may have changed. Only the
/// first and the third field of an entry are set.
fn renew_activities(activities: &mut [Activity], entries: &[u8]) {
    for entry in entries.chunks_exact(VOLATILE) {
        let (Some(id), Some(items)) = (u32_at(entry, 0), u32_at(entry, 8)) else { continue };
        for activity in activities.iter_mut().filter(|activity| activity.id == id) {
            if items > 0 && activity.allows_items(items) {
                activity.items = items;
            }
        }
    }
}

/// Counters past 2^53 lose their last digits.
#[allow(clippy::cast_precision_loss)]
const fn f64_from_u64(number: u64) -> f64 {
    number as f64
}
