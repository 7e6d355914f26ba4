//! Page tables large against memory, or growing with sessions.

use hugewise_model::page_tables;

use super::later;
use super::observations::Observations;
use super::rows::Rows;
use crate::baseline::{MOST_POINTS, Slope, median, slope};
use crate::page::bytes;
use crate::series::Column;
use crate::{Evidence, History, Kind, Metric, Signature, Strength};

/// Parts of memory from which page tables are worth a word, clear and strong.
pub(crate) const NOTICE: f64 = page_tables::NOTE;
/// See [`NOTICE`].
pub(crate) const CLEAR: f64 = page_tables::WARN;
const STRONG: f64 = page_tables::ERROR;
/// Amounts that are worth a word whatever the memory, and that are clear from [`NOTICE`] on: 5 % of an 80 GiB host.
const NOTICE_BYTES: f64 = page_tables::NOTE_BYTES.as_f64();
const CLEAR_BYTES: f64 = 4.0 * NOTICE_BYTES;
/// A slope is told where the count explains this part of the growth, and a session costs at least this much: an empty
/// process has some 100 KiB of page tables.
const EXPLAINS: f64 = 0.8;
const LEAST_SLOPE: f64 = 512.0 * 1024.0;
const ONE_READING: &str = "one reading: it does not show whether this is permanent";

pub(super) fn find(observations: &Observations<'_>) -> Vec<Signature> {
    let told = observations.rows.iter().filter_map(|rows| of(observations, rows));
    told.chain(captured(observations.history, observations.memory)).collect()
}

/// What was read when the host was captured, where no collector has it.
fn captured(history: &History, total: Option<f64>) -> Option<Signature> {
    let facts = history.facts.as_ref()?;
    if history.series.iter().any(|series| series.column(Metric::PageTables).is_some()) {
        return None;
    }
    let (at, tables) = (facts.at?, facts.page_tables?.as_f64());
    Some(Signature {
        kind: Kind::PageTables,
        from: at,
        to: at,
        strength: strength(tables, total)?,
        evidence: vec![Evidence { source: facts.source.clone(), at, what: words(tables, total) }],
        caveats: vec![ONE_READING.to_owned()],
    })
}

/// How far page tables of a size stand out; `None` where they don't.
fn strength(tables: f64, total: Option<f64>) -> Option<Strength> {
    let part = total.map_or(0.0, |total| tables / total);
    if part >= STRONG {
        Some(Strength::Strong)
    } else if part >= CLEAR || (tables >= CLEAR_BYTES && (part >= NOTICE || total.is_none())) {
        Some(Strength::Clear)
    } else if part >= NOTICE || tables >= NOTICE_BYTES {
        Some(Strength::Weak)
    } else {
        None
    }
}

fn words(tables: f64, total: Option<f64>) -> String {
    match total {
        Some(total) => {
            format!("page tables {}, {:.1} % of {}", bytes(tables), tables / total * 100.0, bytes(total))
        }
        None => format!("page tables {}", bytes(tables)),
    }
}

fn of(observations: &Observations<'_>, rows: &Rows<'_>) -> Option<Signature> {
    let total = observations.memory;
    let tables = rows.column(Metric::PageTables)?;
    let (mut first, mut last, mut largest, mut many) = (None, (0, 0.0), (0, 0.0), 0usize);
    for (row, value) in tables.iter().filter(|(_, value)| strength(*value, total).is_some()) {
        first = first.or(Some((row, value)));
        last = (row, value);
        many += 1;
        if value > largest.1 {
            largest = (row, value);
        }
    }
    let first = first?;
    let readings = tables.iter().count();
    let mut evidence: Vec<Evidence> =
        [first, largest, last].into_iter().map(|(row, value)| rows.evidence(row, words(value, total))).collect();
    let mut caveats = Vec::new();
    if readings == 1 {
        caveats.push(ONE_READING.to_owned());
    } else if many < readings {
        caveats.push(format!("{many} of {readings} readings are as large as that"));
    }
    if let Some((by, slope)) = growth(rows, tables) {
        evidence.push(rows.evidence(last.0, slope_words(observations, by, slope)));
    }
    Some(Signature {
        kind: Kind::PageTables,
        from: rows.at(first.0),
        to: later(rows.at(last.0), rows.at(first.0)),
        strength: strength(largest.1, total)?,
        evidence,
        caveats,
    })
}

/// How page tables grow with sessions, or with what counts them nearest.
pub(crate) fn growth(rows: &Rows<'_>, tables: &Column) -> Option<(Metric, Slope)> {
    [Metric::Sessions, Metric::Processes, Metric::Tasks].into_iter().find_map(|metric| {
        let count = rows.column(metric)?;
        let stride = rows.samples().len().div_ceil(MOST_POINTS).max(1);
        let points: Vec<(f64, f64)> =
            tables.iter().step_by(stride).filter_map(|(row, bytes)| Some((count.get(row)?, bytes))).collect();
        let slope = slope(&points)?;
        (slope.explains >= EXPLAINS && slope.each >= LEAST_SLOPE).then_some((metric, slope))
    })
}

/// What a slope means: the segment that each session would have touched, and the one there is.
pub(crate) fn slope_words(observations: &Observations<'_>, by: Metric, slope: Slope) -> String {
    let each = match by {
        Metric::Sessions => "a session",
        Metric::Processes => "a process",
        _ => "a task",
    };
    let mut words = format!("page tables grow by {} {each}", bytes(slope.each));
    let (page, touched) = observations.page.mapped_by(slope.each);
    words += &format!(", what {} of memory on {page} pages take", bytes(touched));
    if !observations.page.known() {
        words += ", if those are its pages: the archive does not say";
    }
    if let Some((name, segment)) = segment(observations.history) {
        let part = touched / segment * 100.0;
        words += &format!("; {name} {}, of which each touched about {part:.0} %", bytes(segment));
    }
    words
}

/// What sessions map on base pages: segments of the servers that were captured, or shared memory altogether.
fn segment(history: &History) -> Option<(&'static str, f64)> {
    let servers = history.facts.as_ref().and_then(|facts| facts.instances.as_ref()).into_iter().flatten();
    let segments = servers.filter(|server| server.processes);
    let segments = segments.map(|server| server.segments.saturating_sub(server.huge).as_f64()).sum::<f64>();
    if segments > 0.0 {
        return Some(("servers' segments on base pages are", segments));
    }
    let shared = |column: &Column| median(&mut column.iter().map(|(_, value)| value).collect::<Vec<_>>());
    let shared = history.series.iter().find_map(|series| shared(series.column(Metric::Shmem)?));
    shared.filter(|shared| *shared > 0.0).map(|shared| ("shared memory is", shared))
}
