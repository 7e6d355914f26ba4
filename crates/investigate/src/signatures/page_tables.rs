//! Page tables large against memory, or growing with sessions.

use hugewise_model::page_tables;

use super::observations::Observations;
use super::rows::SeriesRows;
use crate::baseline::{MOST_POINTS, Slope, median_of, theil_sen_slope};
use crate::page::bytes_from_f64;
use crate::series::MetricColumn;
use crate::{
    EvidenceBasis, IncidentHistory, Metric, Signature, SignatureEvidence, SignatureKind,
    SignatureStrength,
};

/// Parts of memory from which page tables are worth a word, clear and strong.
pub(crate) const NOTICE: f64 = page_tables::NOTE;
pub(crate) const CLEAR: f64 = page_tables::WARN;
const STRONG: f64 = page_tables::ERROR;
/// Bytes worth a word whatever the memory, and clear from [`NOTICE`] on: 5 % of an 80 GiB host.
const NOTICE_BYTES: f64 = page_tables::NOTE_BYTES.as_f64();
const CLEAR_BYTES: f64 = 4.0 * NOTICE_BYTES;
/// The least part of the growth that a count has to explain, and the least growth for each session:
/// an empty process has some 100 KiB of page tables.
const EXPLAINS: f64 = 0.8;
const LEAST_SLOPE: f64 = 512.0 * 1024.0;
const ONE_READING: &str = "one reading: it does not show whether this is permanent";

pub(super) fn find_large_page_tables(observations: &Observations<'_>) -> Vec<Signature> {
    let told =
        observations.rows.iter().filter_map(|rows| detect_large_page_tables(observations, rows));
    told.chain(captured_signature(observations.history, observations.memory)).collect()
}

fn captured_signature(history: &IncidentHistory, total: Option<f64>) -> Option<Signature> {
    let facts = history.facts.as_ref()?;
    if history.series.iter().any(|series| series.column(Metric::PageTables).is_some()) {
        return None;
    }
    let (at, tables) = (facts.at?, facts.page_tables?.as_f64());
    Some(Signature {
        kind: SignatureKind::PageTables,
        from: at,
        to: at,
        strength: strength_of_size(tables, total)?,
        evidence: vec![SignatureEvidence {
            source: facts.source.clone(),
            at,
            what: describe_page_tables(tables, total),
            basis: EvidenceBasis::Figures,
        }],
        caveats: vec![ONE_READING.to_owned()],
    })
}

fn strength_of_size(tables: f64, total: Option<f64>) -> Option<SignatureStrength> {
    // No host has more of them than memory: one of the two numbers is another machine's.
    if total.is_some_and(|total| tables > total) {
        return None;
    }
    let part = total.map_or(0.0, |total| tables / total);
    if part >= STRONG {
        Some(SignatureStrength::Strong)
    } else if part >= CLEAR || (tables >= CLEAR_BYTES && (part >= NOTICE || total.is_none())) {
        Some(SignatureStrength::Clear)
    } else if part >= NOTICE || tables >= NOTICE_BYTES {
        Some(SignatureStrength::Weak)
    } else {
        None
    }
}

fn describe_page_tables(tables: f64, total: Option<f64>) -> String {
    match total {
        Some(total) => {
            format!(
                "page tables {}, {:.1} % of {}",
                bytes_from_f64(tables),
                tables / total * 100.0,
                bytes_from_f64(total)
            )
        }
        None => format!("page tables {}", bytes_from_f64(tables)),
    }
}

fn detect_large_page_tables(
    observations: &Observations<'_>,
    rows: &SeriesRows<'_>,
) -> Option<Signature> {
    let total = observations.memory;
    let tables = rows.column(Metric::PageTables)?;
    let (mut first, mut last, mut largest, mut many) = (None, (0, 0.0), (0, 0.0), 0usize);
    for (row, value) in tables.iter().filter(|(_, value)| strength_of_size(*value, total).is_some())
    {
        first = first.or(Some((row, value)));
        last = (row, value);
        many += 1;
        if value > largest.1 {
            largest = (row, value);
        }
    }
    let first = first?;
    let readings = tables.iter().count();
    let mut evidence: Vec<SignatureEvidence> = [first, largest, last]
        .into_iter()
        .map(|(row, value)| rows.evidence_at(row, describe_page_tables(value, total)))
        .collect();
    let mut caveats = Vec::new();
    if readings == 1 {
        caveats.push(ONE_READING.to_owned());
    } else if many < readings {
        caveats.push(format!("{many} of {readings} readings are as large as that"));
    }
    if let Some((by, slope)) = growth_slope(rows, tables) {
        evidence.push(rows.evidence_at(last.0, describe_slope(observations, by, slope)));
    }
    Some(Signature {
        kind: SignatureKind::PageTables,
        from: rows.moment_at(first.0),
        to: rows.moment_at(last.0).max(rows.moment_at(first.0)),
        strength: strength_of_size(largest.1, total)?,
        evidence,
        caveats,
    })
}

pub(crate) fn growth_slope(
    rows: &SeriesRows<'_>,
    tables: &MetricColumn,
) -> Option<(Metric, Slope)> {
    [Metric::Sessions, Metric::Processes, Metric::Tasks].into_iter().find_map(|metric| {
        let count = rows.column(metric)?;
        let stride = rows.samples().len().div_ceil(MOST_POINTS).max(1);
        let points: Vec<(f64, f64)> = tables
            .iter()
            .step_by(stride)
            .filter_map(|(row, bytes)| Some((count.get(row)?, bytes)))
            .collect();
        let slope = theil_sen_slope(&points)?;
        (slope.explains >= EXPLAINS && slope.each >= LEAST_SLOPE).then_some((metric, slope))
    })
}

/// A slope in words: the memory that each session touched, and the segment there is.
pub(crate) fn describe_slope(observations: &Observations<'_>, by: Metric, slope: Slope) -> String {
    let each = match by {
        Metric::Sessions => "a session",
        Metric::Processes => "a process",
        _ => "a task",
    };
    let mut words = format!("page tables grow by {} {each}", bytes_from_f64(slope.each));
    let (page, touched) = observations.page.mapped_by(slope.each);
    words += &format!(", what {} of memory on {page} pages take", bytes_from_f64(touched));
    if !observations.page.is_known() {
        words += ", if those are its pages: the archive does not say";
    }
    if let Some((name, segment)) = mapped_segment(observations.history) {
        let part = touched / segment * 100.0;
        words += &format!(
            "; {name} {}, of which each touched about {part:.0} %",
            bytes_from_f64(segment)
        );
    }
    words
}

/// What sessions map on base pages: segments of captured servers, or all shared memory.
fn mapped_segment(history: &IncidentHistory) -> Option<(&'static str, f64)> {
    let servers =
        history.facts.as_ref().and_then(|facts| facts.instances.as_ref()).into_iter().flatten();
    let segments = servers.filter(|server| server.processes);
    let segments =
        segments.map(|server| server.segments.saturating_sub(server.huge).as_f64()).sum::<f64>();
    if segments > 0.0 {
        return Some(("servers' segments on base pages are", segments));
    }
    let shared = |column: &MetricColumn| {
        median_of(&mut column.iter().map(|(_, value)| value).collect::<Vec<_>>())
    };
    let shared = history.series.iter().find_map(|series| shared(series.column(Metric::Shmem)?));
    shared.filter(|shared| *shared > 0.0).map(|shared| ("shared memory is", shared))
}
