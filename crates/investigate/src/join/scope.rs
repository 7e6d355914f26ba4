//! What was looked at, and what the sources of a host cannot tell.

use super::window::COARSE;
use crate::baseline::FEWEST;
use crate::signatures::observations::Observations;
use crate::signatures::rows::SeriesRows;
use crate::{IncidentHistory, MemoryReport, Metric, Series, SourceFormat};

/// Logs without an event that get a line each.
const FEW_LOGS: usize = 2;
const RECLAIM: &[Metric] = &[
    Metric::ScanDirect,
    Metric::ScanKswapd,
    Metric::Scan,
    Metric::AllocStall,
    Metric::PressureMemoryFull,
    Metric::KswapdCpu,
];
const COMPACTION: &[Metric] =
    &[Metric::CompactStall, Metric::ThpFaultFallback, Metric::KcompactdCpu, Metric::KhugepagedCpu];
/// What is looked for, and the metrics one of which it needs.
const LOOKED: &[(&str, &[Metric])] = &[
    ("time in the kernel", &[Metric::CpuSystem]),
    ("free memory", &[Metric::MemFree]),
    ("reclaim", RECLAIM),
    ("page tables", &[Metric::PageTables]),
    ("the pool", &[Metric::HugeTotal]),
    (
        "logins",
        &[Metric::Sessions, Metric::Processes, Metric::Tasks, Metric::Forks, Metric::TcpPassive],
    ),
    ("swap", &[Metric::SwapOut, Metric::SwapUsed]),
    ("compaction", COMPACTION),
];

pub(super) fn describe_coverage(observations: &Observations<'_>) -> Vec<String> {
    let is_silent =
        |rows: &&SeriesRows<'_>| rows.series.format.is_log() && rows.series.events().count() == 0;
    let told = observations.rows.iter().filter(|rows| {
        let log = rows.series.format.is_log();
        (!rows.samples().is_empty() || log) && !is_silent(rows)
    });
    let silent: Vec<&SeriesRows<'_>> = observations.rows.iter().filter(is_silent).collect();
    told.map(describe_series).chain(describe_silent_logs(&silent)).collect()
}

pub(super) fn describe_gaps(observations: &Observations<'_>) -> Vec<String> {
    let history = observations.history;
    let mut unknown = Vec::new();
    let has = |metrics: &[Metric]| {
        history
            .series
            .iter()
            .any(|series| metrics.iter().any(|metric| series.column(*metric).is_some()))
    };
    for series in &history.series {
        let lies = series
            .untrusted
            .iter()
            .filter(|(metric, _)| matches!(metric, Metric::ScanDirect | Metric::ScanKswapd));
        for (metric, why) in lies {
            unknown.push(format!("{}: {} cannot be trusted: {why}", series.source, metric.name()));
        }
        for (metric, name) in [(Metric::PageTables, "page tables"), (Metric::HugeTotal, "pools")] {
            if let Some((_, why)) = series.untrusted.iter().find(|(lie, _)| *lie == metric) {
                unknown.push(format!("{}: {name}: {why}", series.source));
            }
        }
    }
    let untrusted = |metric| {
        history.series.iter().flat_map(|one| &one.untrusted).any(|(lie, _)| *lie == metric)
    };
    let reported = |what: fn(&MemoryReport) -> bool| {
        let mut events = history.series.iter().flat_map(Series::events);
        events.any(|(_, event)| event.memory.as_ref().is_some_and(what))
    };
    if !has(&[Metric::PageTables]) && !untrusted(Metric::PageTables) {
        unknown.push(if reported(|report| report.page_tables.is_some()) {
            "page tables over time: the kernel's own reports have them, of their moments".to_owned()
        } else {
            explain_missing_page_tables(history)
        });
    }
    if !has(RECLAIM) {
        unknown.push("reclaim: no source counts the pages that the kernel scanned".to_owned());
    }
    if history.facts.as_ref().is_some_and(|facts| facts.pools.is_some()) {
        // Pools of all sizes are known, though of one moment only.
    } else if untrusted(Metric::HugeTotal) {
        // Told above.
    } else if !has(&[Metric::HugeTotal]) && reported(|report| report.pools.is_some()) {
        // The same of the kernel's report.
    } else if !has(&[Metric::HugeTotal]) {
        unknown.push("the pool: no source has HugePages_Total".to_owned());
    } else if !has(&[Metric::HugetlbAll]) {
        unknown.push(
            "pools of other page sizes, such as 1 GiB beside 2 MiB: no source has them".to_owned(),
        );
    }
    if !has(COMPACTION) {
        unknown.push(
            "transparent huge pages and compaction: no source has them; atop, PCP and logs of \
                 /proc/vmstat do, sar never does"
                .to_owned(),
        );
    }
    for (series, pace) in history.series.iter().zip(observations.rows.iter().map(|rows| rows.usual))
    {
        let rows = series.total_rows();
        if rows > 0 && rows < FEWEST {
            let few =
                if rows == 1 { "1 sample is".to_owned() } else { format!("{rows} samples are") };
            unknown.push(format!("{}: {few} too few to tell what is usual there", series.source));
        } else if pace >= COARSE {
            unknown.push(format!(
                "{}: samples are {} s apart: anything shorter than {} s may not show",
                series.source,
                pace / 1000,
                pace / 10_000
            ));
        }
    }
    unknown.dedup();
    unknown
}

/// `600 s`, `0.5 s`.
fn format_pace(milliseconds: i64) -> String {
    let decimals = usize::from(milliseconds < 1000);
    format!("{:.decimals$} s", milliseconds as f64 / 1000.0)
}

/// A line for each log that says nothing, or one for all of them where they are many.
fn describe_silent_logs(silent: &[&SeriesRows<'_>]) -> Vec<String> {
    if silent.len() <= FEW_LOGS {
        return silent.iter().map(|rows| describe_series(rows)).collect();
    }
    let mut kinds: Vec<String> = Vec::new();
    for rows in silent {
        let kind = rows.series.format.to_string();
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    vec![format!(
        "{} logs ({}): nothing in them of memory, hung tasks, or servers that start and stop",
        silent.len(),
        kinds.join(", ")
    )]
}

fn describe_series(rows: &SeriesRows<'_>) -> String {
    let series = rows.series;
    if series.format.is_log() {
        let count = match series.events().count() {
            0 => "nothing of it".to_owned(),
            1 => "1 event".to_owned(),
            many => format!("{many} events"),
        };
        let subjects = match series.format {
            SourceFormat::SystemLog => {
                "kills for memory, panics, hung tasks, lockups, failed allocations, boots"
            }
            _ => "starts, stops, and what the server lacked",
        };
        return format!("{} ({}): {subjects}: {count}", series.source, series.format);
    }
    let has = |metrics: &[Metric]| metrics.iter().any(|metric| series.column(*metric).is_some());
    let mut subjects: Vec<&str> =
        LOOKED.iter().filter(|(_, metrics)| has(metrics)).map(|(name, _)| *name).collect();
    subjects.push("the collector's own pace");
    let count = match series.total_rows() {
        1 => "1 sample".to_owned(),
        many if rows.usual <= 0 => format!("{many} samples"),
        many => format!("{many} samples, usually {} apart", format_pace(rows.usual)),
    };
    format!("{} ({}): {count}: {}", series.source, series.format, subjects.join(", "))
}

fn explain_missing_page_tables(history: &IncidentHistory) -> String {
    let collector = history.series.iter().find(|series| series.format == SourceFormat::SYSSTAT);
    let once = history.facts.as_ref().is_some_and(|facts| facts.page_tables.is_some());
    match collector.and_then(|series| series.version.as_deref()) {
        _ if once => {
            "page tables over time: they were read once, when the host was captured".to_owned()
        }
        Some(version) => format!(
            "page tables: sysstat {version} has none of them here, 11.1.3 and later store them; a \
                 log of /proc/meminfo has them"
        ),
        None if history.series.iter().any(|series| series.format == SourceFormat::SAR) => {
            "page tables: sar prints them with -r ALL, of what sysstat 11.1.3 and later stored"
                .to_owned()
        }
        None => "page tables: no source has them; a log of /proc/meminfo does".to_owned(),
    }
}
