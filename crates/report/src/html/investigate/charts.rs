//! The charts of a host: each from the sources that know most of it.

use hugewise_incident::{Clock, History, MarkKind, Metric, Moment, Series};
use maud::{Markup, html};

use super::prose::day_and_time;
use crate::chart::thin::Columns;
use crate::chart::timeline::{Axis, Band, Layer, Timeline};
use crate::chart::{Caption, Unit, class, dashes};

/// What a chart shows.
struct Spec {
    title: &'static str,
    /// One sentence for those who do not know the numbers.
    about: &'static str,
    stacked: bool,
    top: Option<f64>,
    unit: Unit,
    lines: &'static [Line],
}

/// The metrics that are added up to one line, its name and its look.
type Line = (&'static [Metric], &'static str, usize);

const fn lines(title: &'static str, about: &'static str, unit: Unit, lines: &'static [Line]) -> Spec {
    Spec { title, about, stacked: false, top: None, unit, lines }
}

const CHARTS: &[Spec] = &[
    Spec {
        title: "Processor time",
        about: "The kernel's share is at the bottom.",
        stacked: true,
        top: Some(100.0),
        unit: Unit::Percent,
        lines: &[
            (&[Metric::CpuSystem], "kernel", 0),
            (&[Metric::CpuUser, Metric::CpuNice], "user", 2),
            (&[Metric::CpuIowait], "waiting for disks", 4),
            (&[Metric::CpuSteal], "taken by the hypervisor", 5),
        ],
    },
    lines(
        "Free memory",
        "A low that suddenly leaps is what reclaim looks like.",
        Unit::Bytes,
        &[(&[Metric::MemFree], "free", 2), (&[Metric::MemAvailable], "available", 3)],
    ),
    lines(
        "Page tables",
        "What the kernel spends to map memory.",
        Unit::Bytes,
        &[(&[Metric::PageTables], "page tables", 0)],
    ),
    lines(
        "Huge page pool",
        "Of the default size.",
        Unit::Bytes,
        &[
            (&[Metric::HugeTotal], "total", 3),
            (&[Metric::HugeFree], "free", 2),
            (&[Metric::HugeReserved], "reserved", 4),
        ],
    ),
    lines(
        "Reclaim",
        "Pages scanned to free some.",
        Unit::PerSecond,
        &[
            (&[Metric::ScanDirect], "by processes themselves", 0),
            (&[Metric::ScanKswapd], "by kswapd", 2),
            (&[Metric::Scan], "by either, not distinguished", 3),
            (&[Metric::AllocStall], "allocations that waited", 4),
        ],
    ),
    lines(
        "Swapping",
        "Pages in and out.",
        Unit::PerSecond,
        &[(&[Metric::SwapOut], "out", 0), (&[Metric::SwapIn], "in", 2)],
    ),
    lines("Swap used", "", Unit::Bytes, &[(&[Metric::SwapUsed], "used", 0)]),
    lines(
        "Sessions and processes",
        "",
        Unit::Count,
        &[(&[Metric::Sessions], "sessions", 0), (&[Metric::Processes], "processes", 2), (&[Metric::Tasks], "tasks", 4)],
    ),
    lines(
        "Logins and forks",
        "",
        Unit::PerSecond,
        &[(&[Metric::Forks], "processes begun", 0), (&[Metric::TcpPassive], "connections accepted", 2)],
    ),
    lines(
        "Run queue",
        "Tasks that want a processor, or wait for a disk.",
        Unit::Count,
        &[
            (&[Metric::RunQueue], "run queue", 0),
            (&[Metric::Load1], "load of 1 minute", 2),
            (&[Metric::Blocked], "blocked", 4),
        ],
    ),
    lines(
        "Compaction",
        "Moving pages to make huge ones.",
        Unit::PerSecond,
        &[
            (&[Metric::CompactStall], "stalls", 0),
            (&[Metric::CompactFail], "failures", 5),
            (&[Metric::ThpFaultFallback], "huge pages not found", 2),
        ],
    ),
    Spec {
        title: "Pressure",
        about: "Share of the time that tasks waited (PSI).",
        stacked: false,
        top: Some(100.0),
        unit: Unit::Percent,
        lines: &[
            (&[Metric::PressureMemoryFull], "all for memory", 0),
            (&[Metric::PressureMemorySome], "some for memory", 5),
            (&[Metric::PressureCpuSome], "some for a processor", 2),
            (&[Metric::PressureIoSome], "some for a disk", 4),
        ],
    },
];

/// Lines of a chart at most.
const MOST: usize = 4;

/// A moment and what each line has then.
#[derive(Clone, Copy, Debug)]
struct Row {
    at: i64,
    values: [f64; MOST],
}

/// The charts of a host, and the titles of those that there is nothing to draw of.
pub(super) struct Charts {
    pub(super) drawn: Vec<Markup>,
    /// Zero in every sample.
    pub(super) zero: Vec<&'static str>,
    /// In no source.
    pub(super) absent: Vec<&'static str>,
}

/// From the first sample of a host to the last.
pub(super) fn span(history: &History) -> Option<(Moment, Moment)> {
    let moments = || history.series.iter().flat_map(|series| series.samples()).map(|sample| sample.at);
    let (from, to) = (moments().min()?, moments().max()?);
    Some((from, if from < to { to } else { Moment(to.0.saturating_add(1000)) }))
}

/// The axis of time that a host's charts share.
pub(super) fn axis(history: &History, span: (Moment, Moment)) -> Axis {
    let bands = history.incidents.iter().zip(1..);
    let restarts = |series: &Series| {
        let restart = |mark: &&hugewise_incident::Mark| matches!(mark.kind, MarkKind::Restart | MarkKind::Resumed);
        series.marks.iter().filter(restart).map(|mark| mark.at).collect::<Vec<_>>()
    };
    let mut marks: Vec<Moment> = history.series.iter().flat_map(restarts).collect();
    marks.sort_unstable();
    marks.dedup();
    marks.truncate(200);
    let offset = history.clock.offset_at(span.0).unwrap_or(0);
    let bands = bands.map(|(incident, number)| Band { window: (incident.from, incident.to), number });
    // What lasts from end to end stands out from nothing.
    let length = |(from, to): (Moment, Moment)| i128::from(to.0) - i128::from(from.0);
    let bands = bands.filter(|band| length(band.window) * 20 < length(span) * 19);
    Axis { span, offset, bands: bands.collect(), marks }
}

/// Draws what a host has, in so many columns.
pub(super) fn charts(history: &History, axis: &Axis, columns: u32) -> Charts {
    let windows: Vec<(i64, i64)> = history.incidents.iter().map(|incident| (incident.from.0, incident.to.0)).collect();
    let columns = Columns::new((axis.span.0.0, axis.span.1.0), columns, &windows);
    let mut charts = Charts { drawn: Vec::new(), zero: Vec::new(), absent: Vec::new() };
    for spec in CHARTS {
        let (mut layers, mut told) = (Vec::new(), Vec::new());
        let groups: Vec<&[Line]> = if spec.stacked { vec![spec.lines] } else { spec.lines.chunks(1).collect() };
        let mut most = 0.0_f64;
        for group in groups {
            let stretches = gather(history, group);
            if stretches.is_empty() {
                continue;
            }
            for (place, (_, name, look)) in group.iter().enumerate() {
                let peak = peak(&stretches, place, &history.clock);
                most = most.max(peak.most);
                // A layer of nothing would only lengthen the legend.
                if spec.stacked && place > 1 && peak.most == 0.0 {
                    continue;
                }
                told.push(Told { name, look: *look, words: peak.words(spec.unit) });
                layers.push(Layer {
                    name: (*name).to_owned(),
                    look: *look,
                    stretches: thinned(&stretches, place, spec.stacked, &columns),
                });
            }
        }
        if layers.is_empty() {
            charts.absent.push(spec.title);
        } else if most == 0.0 {
            charts.zero.push(spec.title);
        } else {
            charts.drawn.push(figure(spec, layers, &told, axis));
        }
    }
    charts
}

/// What the legend says of a line.
struct Told {
    name: &'static str,
    look: usize,
    words: String,
}

fn figure(spec: &Spec, layers: Vec<Layer>, told: &[Told], axis: &Axis) -> Markup {
    let lines: Vec<String> = told.iter().map(|told| format!("{}: {}", told.name, told.words)).collect();
    let caption = Caption { title: spec.title.into(), description: format!("{}.", lines.join("; ")) };
    let unit = match spec.unit {
        Unit::Bytes => "bytes",
        Unit::Percent => "percent",
        Unit::PerSecond => "per-second",
        _ => "count",
    };
    let chart = Timeline { caption, unit: spec.unit, top: spec.top, stacked: spec.stacked, layers, axis };
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
                                    rect class={ "area " (class(line.look)) } width="18" height="10" {}
                                } @else {
                                    path class={ "line " (class(line.look)) } d="M1,5H17"
                                        stroke-dasharray=(dashes(line.look, false)) {}
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

/// The rows of the lines together, in stretches without a hole, from the sources that have most of them: another's are
/// taken only for the times that those before it leave open.
fn gather(history: &History, group: &[Line]) -> Vec<Vec<Row>> {
    let has = |series: &&Series| group.first().is_some_and(|line| line.0.iter().any(|of| series.column(*of).is_some()));
    let count = |series: &Series| {
        let column = group.first().and_then(|line| line.0.iter().find_map(|of| series.column(*of)));
        column.map_or(0, |column| column.iter().count())
    };
    let mut sources: Vec<(usize, &Series)> =
        history.series.iter().filter(has).map(|series| (count(series), series)).collect();
    sources.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let mut covered: Vec<(i64, i64)> = Vec::new();
    let mut stretches = Vec::new();
    for (_, series) in sources {
        let open = |at: i64| !covered.iter().any(|(from, to)| (*from..=*to).contains(&at));
        let mut rows: Vec<Row> = rows(series, group).filter(|row| open(row.at)).collect();
        rows.sort_by_key(|row| row.at);
        if let (Some(first), Some(last)) = (rows.first(), rows.last()) {
            covered.push((first.at, last.at));
            stretches.extend(whole(rows));
        }
    }
    stretches.sort_by_key(|stretch| stretch.first().map(|row| row.at));
    stretches
}

/// Rows that have the first of the lines.
fn rows<'a>(series: &'a Series, group: &'a [Line]) -> impl Iterator<Item = Row> + 'a {
    series.samples().iter().enumerate().filter_map(move |(at, sample)| {
        let sum = |line: &Line| {
            let values = line.0.iter().filter_map(|of| series.value(*of, at));
            values.fold(None, |sum: Option<f64>, value| Some(sum.unwrap_or(0.0) + value))
        };
        let mut values = [0.0; MOST];
        for (place, line) in values.iter_mut().zip(group) {
            *place = sum(line).unwrap_or(0.0);
        }
        group.first().and_then(sum).map(|_| Row { at: sample.at.0, values })
    })
}

/// Cuts rows where more than three of the usual intervals passed without one.
fn whole(rows: Vec<Row>) -> Vec<Vec<Row>> {
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
    let mut stretches: Vec<Vec<Row>> = Vec::new();
    for row in rows {
        match stretches.last_mut() {
            Some(stretch) if stretch.last().is_some_and(|last| row.at.saturating_sub(last.at) <= hole) => {
                stretch.push(row);
            }
            _ => stretches.push(vec![row]),
        }
    }
    stretches
}

/// Moments and values of one line; of a stack, with those below it added.
fn thinned(stretches: &[Vec<Row>], place: usize, stacked: bool, columns: &Columns) -> Vec<Vec<(i64, f64)>> {
    let value = |row: &Row| {
        let first = if stacked { 0 } else { place };
        row.values.get(first..=place).unwrap_or_default().iter().sum::<f64>()
    };
    let kernel = |row: &Row| row.values.first().copied().unwrap_or(0.0);
    let all = |row: &Row| row.values.iter().sum::<f64>();
    // All layers of a stack keep the same rows.
    let weights: &[&dyn Fn(&Row) -> f64] = if stacked { &[&kernel, &all] } else { &[&value] };
    let thin = |stretch: &Vec<Row>| {
        let kept = columns.keep(stretch, |row| row.at, weights);
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

fn peak(stretches: &[Vec<Row>], place: usize, clock: &Clock) -> Peak {
    let values = || stretches.iter().flatten().filter_map(|row| Some((row.at, *row.values.get(place)?)));
    let (at, most) = values().fold((0, f64::NEG_INFINITY), |most, one| if one.1 > most.1 { one } else { most });
    let least = values().fold(f64::INFINITY, |least, one| least.min(one.1));
    let mut all: Vec<f64> = values().map(|(_, value)| value).collect();
    let middle = all.len() / 2;
    let median = if all.is_empty() { 0.0 } else { *all.select_nth_unstable_by(middle, f64::total_cmp).1 };
    Peak { least, median, most, at: day_and_time(Moment(at), clock) }
}

impl Peak {
    fn words(&self, unit: Unit) -> String {
        let [least, median, most] = [self.least, self.median, self.most].map(|value| unit.show(value));
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
