//! What was looked at, and what the sources of a host cannot tell.

use crate::baseline::FEWEST;
use crate::signatures::observations::Observations;
use crate::signatures::rows::Rows;
use crate::{Format, History, Metric};

/// Samples farther apart than this hide much, in milliseconds.
const COARSE: i64 = 120_000;

/// What is looked for, and the metrics one of which it needs.
const LOOKED: &[(&str, &[Metric])] = &[
    ("time in the kernel", &[Metric::CpuSystem]),
    ("free memory", &[Metric::MemFree]),
    (
        "reclaim",
        &[
            Metric::ScanDirect,
            Metric::ScanKswapd,
            Metric::Scan,
            Metric::AllocStall,
            Metric::PressureMemoryFull,
            Metric::KswapdCpu,
        ],
    ),
    ("page tables", &[Metric::PageTables]),
    ("the pool", &[Metric::HugeTotal]),
    ("log-ins", &[Metric::Sessions, Metric::Processes, Metric::Tasks, Metric::Forks, Metric::TcpPassive]),
    ("swap", &[Metric::SwapOut, Metric::SwapUsed]),
    ("compaction", &[Metric::CompactStall, Metric::ThpFaultFallback, Metric::KcompactdCpu, Metric::KhugepagedCpu]),
];

/// What was looked at: for a quiet archive that is the whole answer.
pub(super) fn looked(observations: &Observations<'_>) -> Vec<String> {
    let told = observations.rows.iter().filter(|rows| !rows.samples().is_empty() || rows.series.format.is_log());
    told.map(of_series).collect()
}

/// What the sources cannot tell.
pub(super) fn unknown(observations: &Observations<'_>) -> Vec<String> {
    let history = observations.history;
    let mut unknown = Vec::new();
    let has = |metrics: &[Metric]| {
        history.series.iter().any(|series| metrics.iter().any(|metric| series.column(*metric).is_some()))
    };
    for series in &history.series {
        let lies =
            series.untrusted.iter().filter(|(metric, _)| matches!(metric, Metric::ScanDirect | Metric::ScanKswapd));
        for (metric, why) in lies {
            unknown.push(format!("{}: {} cannot be trusted: {why}", series.source, metric.name()));
        }
    }
    if !has(&[Metric::PageTables]) {
        unknown.push(page_tables(history));
    }
    if !has(LOOKED.get(2).map_or(&[], |(_, metrics)| metrics)) {
        unknown.push("reclaim: no source counts the pages that the kernel scanned".to_owned());
    }
    if history.facts.as_ref().is_some_and(|facts| facts.pools.is_some()) {
        // Pools of all sizes are known, if of one moment.
    } else if !has(&[Metric::HugeTotal]) {
        unknown.push("the pool: no source has HugePages_Total".to_owned());
    } else if !has(&[Metric::HugetlbAll]) {
        unknown.push(
            "pools of other page sizes, such as 1 GiB beside 2 MiB: no source has them".to_owned(),
        );
    }
    if !has(LOOKED.last().map_or(&[], |(_, metrics)| metrics)) {
        unknown.push(
            "transparent huge pages and compaction: no source has them; atop, PCP and logs of /proc/vmstat do, sar never does"
                .to_owned(),
        );
    }
    for (series, pace) in history.series.iter().zip(observations.rows.iter().map(|rows| rows.usual)) {
        let rows = series.rows();
        if rows > 0 && rows < FEWEST {
            unknown.push(format!("{}: {rows} samples are too few to tell what is usual there", series.source));
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

fn of_series(rows: &Rows<'_>) -> String {
    let series = rows.series;
    if series.format.is_log() {
        let count = match series.events().count() {
            0 => "nothing of it".to_owned(),
            1 => "1 event".to_owned(),
            many => format!("{many} events"),
        };
        let subjects = match series.format {
            Format::SystemLog => "kills for memory, hung tasks, lockups, failed allocations, boots",
            _ => "starts, stops, and what the server lacked",
        };
        return format!("{} ({}): {subjects}: {count}", series.source, series.format);
    }
    let has = |metrics: &[Metric]| metrics.iter().any(|metric| series.column(*metric).is_some());
    let mut subjects: Vec<&str> = LOOKED.iter().filter(|(_, metrics)| has(metrics)).map(|(name, _)| *name).collect();
    subjects.push("the collector's own pace");
    let pace = rows.usual as f64 / 1000.0;
    let count = series.rows();
    format!(
        "{} ({}): {count} samples, usually {pace:.0} s apart: {}",
        series.source,
        series.format,
        subjects.join(", ")
    )
}

fn page_tables(history: &History) -> String {
    let collector = history.series.iter().find(|series| series.format == Format::Sysstat);
    let once = history.facts.as_ref().is_some_and(|facts| facts.page_tables.is_some());
    match collector.and_then(|series| series.version.as_deref()) {
        _ if once => "page tables over time: they were read once, when the host was captured".to_owned(),
        Some(version) => format!(
            "page tables: sysstat {version} has none of them here, 11.1.3 and later store them; a log of /proc/meminfo has them"
        ),
        None if history.series.iter().any(|series| series.format == Format::Sar) => {
            "page tables: sar prints them with -r ALL, of what sysstat 11.1.3 and later stored".to_owned()
        }
        None => "page tables: no source has them; a log of /proc/meminfo does".to_owned(),
    }
}
