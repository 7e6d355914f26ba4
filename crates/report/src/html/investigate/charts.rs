//! The charts of a host, each drawn from the sources that know most of it.

use hugewise_investigate::{Clock, IncidentHistory, MarkKind, Metric, Moment, Series};
use maud::{Markup, html};

use super::prose::day_and_time;
use crate::chart::downsample::Columns;
use crate::chart::timeline::{Band, Layer, TimeAxis, TimelineChart};
use crate::chart::{Caption, ChartUnit, dash_pattern, series_class};

struct ChartSpec {
    title: &'static str,
    /// One sentence for those who do not know the numbers.
    about: &'static str,
    stacked: bool,
    top: Option<f64>,
    unit: ChartUnit,
    lines: &'static [ChartLine],
}

/// Metrics that are added up to one line, its name and its look.
type ChartLine = (&'static [Metric], &'static str, usize);

const fn unstacked_spec(
    title: &'static str,
    about: &'static str,
    unit: ChartUnit,
    lines: &'static [ChartLine],
) -> ChartSpec {
    ChartSpec { title, about, stacked: false, top: None, unit, lines }
}

const CHARTS: &[ChartSpec] = &[
    ChartSpec {
        title: "Processor time",
        about: "The kernel's share is at the bottom.",
        stacked: true,
        top: Some(100.0),
        unit: ChartUnit::Percent,
        lines: &[
            (&[Metric::CpuSystem], "kernel", 0),
            (&[Metric::CpuUser, Metric::CpuNice], "user", 2),
            (&[Metric::CpuIowait], "waiting for disks", 4),
            (&[Metric::CpuSteal], "taken by the hypervisor", 5),
        ],
    },
    unstacked_spec(
        "Free memory",
        "A low that suddenly leaps is what reclaim looks like.",
        ChartUnit::Bytes,
        &[(&[Metric::MemFree], "free", 2), (&[Metric::MemAvailable], "available", 3)],
    ),
    unstacked_spec(
        "Page tables",
        "What the kernel spends to map memory.",
        ChartUnit::Bytes,
        &[(&[Metric::PageTables], "page tables", 0)],
    ),
    unstacked_spec(
        "Huge page pool",
        "Of the default size.",
        ChartUnit::Bytes,
        &[
            (&[Metric::HugeTotal], "total", 3),
            (&[Metric::HugeFree], "free", 2),
            (&[Metric::HugeReserved], "reserved", 4),
        ],
    ),
    unstacked_spec(
        "Reclaim",
        "Pages scanned to free some.",
        ChartUnit::PerSecond,
        &[
            (&[Metric::ScanDirect], "by processes themselves", 0),
            (&[Metric::ScanKswapd], "by kswapd", 2),
            (&[Metric::Scan], "by either, not distinguished", 3),
            (&[Metric::AllocStall], "allocations that waited", 4),
        ],
    ),
    unstacked_spec(
        "Swapping",
        "Pages in and out.",
        ChartUnit::PerSecond,
        &[(&[Metric::SwapOut], "out", 0), (&[Metric::SwapIn], "in", 2)],
    ),
    unstacked_spec("Swap used", "", ChartUnit::Bytes, &[(&[Metric::SwapUsed], "used", 0)]),
    unstacked_spec(
        "Sessions and processes",
        "",
        ChartUnit::Count,
        &[
            (&[Metric::Sessions], "sessions", 0),
            (&[Metric::Processes], "processes", 2),
            (&[Metric::Tasks], "tasks", 4),
        ],
    ),
    unstacked_spec(
        "Logins and forks",
        "",
        ChartUnit::PerSecond,
        &[
            (&[Metric::Forks], "processes begun", 0),
            (&[Metric::TcpPassive], "connections accepted", 2),
        ],
    ),
    unstacked_spec(
        "Run queue",
        "Tasks that want a processor, or wait for a disk.",
        ChartUnit::Count,
        &[
            (&[Metric::RunQueue], "run queue", 0),
            (&[Metric::Load1], "load of 1 minute", 2),
            (&[Metric::Blocked], "blocked", 4),
        ],
    ),
    unstacked_spec(
        "Compaction",
        "Moving pages to make huge ones.",
        ChartUnit::PerSecond,
        &[
            (&[Metric::CompactStall], "stalls", 0),
            (&[Metric::CompactFail], "failures", 5),
            (&[Metric::ThpFaultFallback], "huge pages not found", 2),
        ],
    ),
    ChartSpec {
        title: "Pressure",
        about: "Share of the time that tasks waited (PSI).",
        stacked: false,
        top: Some(100.0),
        unit: ChartUnit::Percent,
        lines: &[
            (&[Metric::PressureMemoryFull], "all for memory", 0),
            (&[Metric::PressureMemorySome], "some for memory", 5),
            (&[Metric::PressureCpuSome], "some for a processor", 2),
            (&[Metric::PressureIoSome], "some for a disk", 4),
        ],
    },
];

const MOST: usize = 4;

#[derive(Clone, Copy, Debug)]
struct ChartSample {
    at: i64,
    values: [f64; MOST],
}

pub(super) struct Charts {
    pub(super) drawn: Vec<Markup>,
    pub(super) zero: Vec<&'static str>,
    pub(super) absent: Vec<&'static str>,
}

pub(super) fn history_span(history: &IncidentHistory) -> Option<(Moment, Moment)> {
    let moments =
        || history.series.iter().flat_map(|series| series.samples()).map(|sample| sample.at);
    let (from, to) = (moments().min()?, moments().max()?);
    Some((from, if from < to { to } else { Moment(to.0.saturating_add(1000)) }))
}

pub(super) fn build_time_axis(history: &IncidentHistory, span: (Moment, Moment)) -> TimeAxis {
    let bands = history.incidents.iter().zip(1..);
    let restarts = |series: &Series| {
        let restart = |mark: &&hugewise_investigate::Mark| {
            matches!(mark.kind, MarkKind::Restart | MarkKind::Resumed)
        };
        series.marks.iter().filter(restart).map(|mark| mark.at).collect::<Vec<_>>()
    };
    let mut marks: Vec<Moment> = history.series.iter().flat_map(restarts).collect();
    marks.sort_unstable();
    marks.dedup();
    marks.truncate(200);
    let offset = history.clock.offset_at(span.0).unwrap_or(0);
    let bands =
        bands.map(|(incident, number)| Band { window: (incident.from, incident.to), number });
    // A band from end to end would highlight nothing.
    let length = |(from, to): (Moment, Moment)| i128::from(to.0) - i128::from(from.0);
    let bands = bands.filter(|band| length(band.window) * 20 < length(span) * 19);
    TimeAxis { span, offset, bands: bands.collect(), marks }
}

pub(super) fn draw_charts(history: &IncidentHistory, axis: &TimeAxis, columns: u32) -> Charts {
    let windows: Vec<(i64, i64)> =
        history.incidents.iter().map(|incident| (incident.from.0, incident.to.0)).collect();
    let columns = Columns::new((axis.span.0.0, axis.span.1.0), columns, &windows);
    let mut charts = Charts { drawn: Vec::new(), zero: Vec::new(), absent: Vec::new() };
    for spec in CHARTS {
        let (mut layers, mut told) = (Vec::new(), Vec::new());
        let groups: Vec<&[ChartLine]> =
            if spec.stacked { vec![spec.lines] } else { spec.lines.chunks(1).collect() };
        let mut most = 0.0_f64;
        for group in groups {
            let stretches = gather_stretches(history, group);
            if stretches.is_empty() {
                continue;
            }
            for (place, (_, name, look)) in group.iter().enumerate() {
                let peak = measure_peak(&stretches, place, &history.clock);
                most = most.max(peak.most);
                // A layer of nothing would only lengthen the legend.
                if spec.stacked && place > 1 && peak.most == 0.0 {
                    continue;
                }
                told.push(LegendEntry { name, look: *look, words: peak.describe_peak(spec.unit) });
                layers.push(Layer {
                    look: *look,
                    stretches: downsample_line(&stretches, place, spec.stacked, &columns),
                });
            }
        }
        if layers.is_empty() {
            charts.absent.push(spec.title);
        } else if most == 0.0 {
            charts.zero.push(spec.title);
        } else {
            charts.drawn.push(render_figure(spec, layers, &told, axis));
        }
    }
    charts
}

struct LegendEntry {
    name: &'static str,
    look: usize,
    words: String,
}

fn render_figure(
    spec: &ChartSpec,
    layers: Vec<Layer>,
    told: &[LegendEntry],
    axis: &TimeAxis,
) -> Markup {
    let lines: Vec<String> =
        told.iter().map(|told| format!("{}: {}", told.name, told.words)).collect();
    let caption =
        Caption { title: spec.title.into(), description: format!("{}.", lines.join("; ")) };
    let unit = match spec.unit {
        ChartUnit::Bytes => "bytes",
        ChartUnit::Percent => "percent",
        ChartUnit::PerSecond => "per-second",
        _ => "count",
    };
    let chart = TimelineChart {
        caption,
        unit: spec.unit,
        top: spec.top,
        stacked: spec.stacked,
        layers,
        axis,
    };
    html! {
        figure data-unit=(unit) data-stacked[spec.stacked] {
            figcaption {
                h4 { (spec.title) }
                @if !spec.about.is_empty() { span.faint { (spec.about) } }
                ul.legend {
                    @for line in told {
                        li {
                            svg.chart.key width="18" height="10" aria-hidden="true" {
                                @if spec.stacked {
                                    rect class={ "area " (series_class(line.look)) } width="18" height="10" {}
                                } @else {
                                    path class={ "line " (series_class(line.look)) } d="M1,5H17"
                                        stroke-dasharray=(dash_pattern(line.look, false)) {}
                                }
                            }
                            (line.name) " " span.value { (line.words) }
                        }
                    }
                }
            }
            (chart.draw())
        }
    }
}

/// Rows in stretches without a gap. Sources with fewer rows fill in only what the others leave
/// open.
fn gather_stretches(history: &IncidentHistory, group: &[ChartLine]) -> Vec<Vec<ChartSample>> {
    let has = |series: &&Series| {
        group
            .first()
            .is_some_and(|line| line.0.iter().any(|metric| series.column(*metric).is_some()))
    };
    let count = |series: &Series| {
        let column =
            group.first().and_then(|line| line.0.iter().find_map(|metric| series.column(*metric)));
        column.map_or(0, |column| column.iter().count())
    };
    let mut sources: Vec<(usize, &Series)> =
        history.series.iter().filter(has).map(|series| (count(series), series)).collect();
    sources.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let mut covered: Vec<(i64, i64)> = Vec::new();
    let mut stretches = Vec::new();
    for (_, series) in sources {
        let open = |at: i64| !covered.iter().any(|(from, to)| (*from..=*to).contains(&at));
        let mut rows: Vec<ChartSample> =
            sample_lines(series, group).filter(|row| open(row.at)).collect();
        rows.sort_by_key(|row| row.at);
        if let (Some(first), Some(last)) = (rows.first(), rows.last()) {
            covered.push((first.at, last.at));
            stretches.extend(split_at_gaps(rows));
        }
    }
    stretches.sort_by_key(|stretch| stretch.first().map(|row| row.at));
    stretches
}

/// Rows that have the first of the lines.
fn sample_lines<'a>(
    series: &'a Series,
    group: &'a [ChartLine],
) -> impl Iterator<Item = ChartSample> + 'a {
    series.samples().iter().enumerate().filter_map(move |(at, sample)| {
        let sum = |line: &ChartLine| {
            let values = line.0.iter().filter_map(|metric| series.value(*metric, at));
            values.fold(None, |sum: Option<f64>, value| Some(sum.unwrap_or(0.0) + value))
        };
        let mut values = [0.0; MOST];
        for (place, line) in values.iter_mut().zip(group) {
            *place = sum(line).unwrap_or(0.0);
        }
        group.first().and_then(sum).map(|_| ChartSample { at: sample.at.0, values })
    })
}

/// Cuts where more than three of the usual intervals passed without a row.
fn split_at_gaps(rows: Vec<ChartSample>) -> Vec<Vec<ChartSample>> {
    let mut steps: Vec<i64> = rows
        .windows(2)
        .filter_map(|pair| match pair {
            [one, next] => next.at.checked_sub(one.at),
            _ => None,
        })
        .collect();
    let middle = steps.len() / 2;
    let usual = if steps.is_empty() { 0 } else { *steps.select_nth_unstable(middle).1 };
    let hole = usual.saturating_mul(3).max(3000);
    let mut stretches: Vec<Vec<ChartSample>> = Vec::new();
    for row in rows {
        match stretches.last_mut() {
            Some(stretch)
                if stretch.last().is_some_and(|last| row.at.saturating_sub(last.at) <= hole) =>
            {
                stretch.push(row);
            }
            _ => stretches.push(vec![row]),
        }
    }
    stretches
}

/// Moments and values of one line; in a stack, with those below it added.
fn downsample_line(
    stretches: &[Vec<ChartSample>],
    place: usize,
    stacked: bool,
    columns: &Columns,
) -> Vec<Vec<(i64, f64)>> {
    let value = |row: &ChartSample| {
        let first = if stacked { 0 } else { place };
        row.values.get(first..=place).unwrap_or_default().iter().sum::<f64>()
    };
    let kernel = |row: &ChartSample| row.values.first().copied().unwrap_or(0.0);
    let all = |row: &ChartSample| row.values.iter().sum::<f64>();
    // All layers of a stack keep the same rows.
    let weights: &[&dyn Fn(&ChartSample) -> f64] =
        if stacked { &[&kernel, &all] } else { &[&value] };
    let thin = |stretch: &Vec<ChartSample>| {
        let kept = columns.select_extreme_rows(stretch, |row| row.at, weights);
        kept.into_iter().filter_map(|at| stretch.get(at)).map(|row| (row.at, value(row))).collect()
    };
    stretches.iter().map(thin).collect()
}

struct Peak {
    least: f64,
    median: f64,
    most: f64,
    at: String,
}

fn measure_peak(stretches: &[Vec<ChartSample>], place: usize, clock: &Clock) -> Peak {
    let values =
        || stretches.iter().flatten().filter_map(|row| Some((row.at, *row.values.get(place)?)));
    let (at, most) =
        values().fold((0, f64::NEG_INFINITY), |most, one| if one.1 > most.1 { one } else { most });
    let least = values().fold(f64::INFINITY, |least, one| least.min(one.1));
    let mut all: Vec<f64> = values().map(|(_, value)| value).collect();
    let middle = all.len() / 2;
    let median =
        if all.is_empty() { 0.0 } else { *all.select_nth_unstable_by(middle, f64::total_cmp).1 };
    Peak { least, median, most, at: day_and_time(Moment(at), clock) }
}

impl Peak {
    fn describe_peak(&self, unit: ChartUnit) -> String {
        let [least, median, most] =
            [self.least, self.median, self.most].map(|value| unit.format_value(value));
        match (least == most, median == most) {
            (true, _) => format!("always {most}"),
            (false, true) => format!("{least} to {most}"),
            (false, false) => format!("median {median}, most {most} ({})", self.at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::CHARTS;

    #[test]
    fn no_chart_shows_what_an_investigation_leaves_out() {
        let shown = CHARTS.iter().flat_map(|chart| chart.lines).flat_map(|(metrics, ..)| *metrics);
        assert!(shown.clone().count() > 20);
        let left_out: Vec<_> = shown.filter(|metric| metric.is_only_told()).collect();
        assert!(left_out.is_empty(), "{left_out:?}");
    }
}
