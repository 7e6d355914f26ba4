//! Page tables large against memory, or growing with sessions.

use super::later;
use super::rows::{Rows, bytes};
use crate::baseline::{Slope, median, slope};
use crate::series::Column;
use crate::{Evidence, History, Kind, Metric, Signature, Strength};

/// Parts of memory from which page tables are worth a word, clear and strong. Some twelve hosts without the trouble had
/// 0.03 to 0.76 %; hosts that were in it 9 to 24 %.
pub(crate) const NOTICE: f64 = 0.02;
/// See [`NOTICE`].
pub(crate) const CLEAR: f64 = 0.05;
const STRONG: f64 = 0.10;
/// Amounts that are worth a word whatever the memory, and that are clear from [`NOTICE`] on: 5 % of an 80 GiB host.
const NOTICE_BYTES: f64 = 1_073_741_824.0;
const CLEAR_BYTES: f64 = 4.0 * NOTICE_BYTES;
/// A slope is told where the count explains this part of the growth, and a session costs at least this much: an empty
/// process has some 100 KiB of page tables.
const EXPLAINS: f64 = 0.8;
const LEAST_SLOPE: f64 = 512.0 * 1024.0;
/// A table of 4 KiB maps 2 MiB with base pages of 4 KiB.
const MAPPED: f64 = 512.0;

pub(super) fn find(history: &History) -> Vec<Signature> {
    let total = memory(history);
    history.series.iter().filter_map(|series| of(history, &Rows::of(series), total)).collect()
}

/// MemTotal, from whichever source has it.
pub(crate) fn memory(history: &History) -> Option<f64> {
    let of = |column: &Column| column.iter().last().map(|(_, total)| total);
    history.series.iter().filter_map(|series| of(series.column(Metric::MemTotal)?)).find(|total| *total > 0.0)
}

fn of(history: &History, rows: &Rows<'_>, total: Option<f64>) -> Option<Signature> {
    let tables = rows.column(Metric::PageTables)?;
    let of_memory = |value: f64| total.map(|total| value / total);
    let strength = |value: f64| {
        let part = of_memory(value).unwrap_or(0.0);
        if part >= STRONG {
            Some(Strength::Strong)
        } else if part >= CLEAR || (value >= CLEAR_BYTES && (part >= NOTICE || total.is_none())) {
            Some(Strength::Clear)
        } else if part >= NOTICE || value >= NOTICE_BYTES {
            Some(Strength::Weak)
        } else {
            None
        }
    };
    let (mut first, mut last, mut largest, mut many) = (None, (0, 0.0), (0, 0.0), 0usize);
    for (row, value) in tables.iter().filter(|(_, value)| strength(*value).is_some()) {
        first = first.or(Some((row, value)));
        last = (row, value);
        many += 1;
        if value > largest.1 {
            largest = (row, value);
        }
    }
    let first = first?;
    let readings = tables.iter().count();
    let what = |value: f64| match of_memory(value).zip(total) {
        Some((part, total)) => format!("page tables {}, {:.1} % of {}", bytes(value), part * 100.0, bytes(total)),
        None => format!("page tables {}", bytes(value)),
    };
    let mut evidence: Vec<Evidence> =
        [first, largest, last].into_iter().map(|(row, value)| rows.evidence(row, what(value))).collect();
    let mut caveats = Vec::new();
    if readings == 1 {
        caveats.push("one reading: whether it is so always is not told".to_owned());
    } else if many < readings {
        caveats.push(format!("{many} of {readings} readings are as large as that"));
    }
    if let Some((by, slope)) = growth(rows, tables) {
        evidence.push(rows.evidence(last.0, slope_words(history, by, slope)));
    }
    Some(Signature {
        kind: Kind::PageTables,
        from: rows.at(first.0),
        to: later(rows.at(last.0), rows.at(first.0)),
        strength: strength(largest.1)?,
        evidence,
        caveats,
    })
}

/// How page tables grow with sessions, or with what counts them nearest.
pub(crate) fn growth(rows: &Rows<'_>, tables: &Column) -> Option<(Metric, Slope)> {
    [Metric::Sessions, Metric::Processes, Metric::Tasks].into_iter().find_map(|metric| {
        let count = rows.column(metric)?;
        let points: Vec<(f64, f64)> = tables.iter().filter_map(|(row, bytes)| Some((count.get(row)?, bytes))).collect();
        let slope = slope(&points)?;
        (slope.explains >= EXPLAINS && slope.each >= LEAST_SLOPE).then_some((metric, slope))
    })
}

/// What a slope means: the segment that each session would have touched, and the one there is.
pub(crate) fn slope_words(history: &History, by: Metric, slope: Slope) -> String {
    let each = match by {
        Metric::Sessions => "a session",
        Metric::Processes => "a process",
        _ => "a task",
    };
    let touched = slope.each * MAPPED;
    let mut words = format!(
        "page tables grow by {} {each}, what {} of memory on 4 KiB pages take",
        bytes(slope.each),
        bytes(touched)
    );
    let shared = |column: &Column| median(&mut column.iter().map(|(_, value)| value).collect::<Vec<_>>());
    let shared = history.series.iter().find_map(|series| shared(series.column(Metric::Shmem)?));
    if let Some(shared) = shared.filter(|shared| *shared > 0.0) {
        let part = touched / shared * 100.0;
        words += &format!("; shared memory is {}, of which each touched about {part:.0} %", bytes(shared));
    }
    words
}
