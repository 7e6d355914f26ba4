//! Looks through a host's history, whole if it fits in memory, otherwise window by window.
//!
//! A window reaches into its neighbours, so that what lies on its ends is seen whole; what two
//! neighbours see there is merged.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use self::merge::{join_collectors, merge_signatures, merge_windows, rename_after_files};
use self::window_split::{HostWindow, overlaps_window, split_into_windows};
use crate::gather::clock;
use crate::gather::hosts::{GatheredHost, PlacedPiece, TimeBounds};
use crate::{IncidentHistory, MOST_STORIES, Moment, Series, Signature, signatures};

mod merge;
mod window_split;

/// Takes the rows of a host as they are looked at: its name, and its series of a window.
pub type RowsSink<'a> = dyn FnMut(Option<&str>, &[Series]) + Send + 'a;
/// Bytes of a window's rows.
const WINDOW: usize = 40 << 20;
const AT_ONCE: usize = 8;
/// Rows of a thinned series where there are few hosts; many hosts share them.
const THINNED: usize = 8192;
const FEW: usize = 8;
/// Milliseconds of a signature that is too long to keep all its rows when its series is thinned.
const LONGEST_KEPT: i64 = 6 * 3_600_000;
pub(crate) type SeriesLoader<'a> = &'a (dyn Fn(&[&PlacedPiece]) -> Vec<(usize, Series)> + Sync);

/// Makes the history of each host, with its signatures, and hands it on with its place as soon as it
/// is whole, so that memory holds no more than is looked at. Histories are thinned where not all
/// rows could be kept.
pub(crate) fn build_histories(
    hosts: Vec<(GatheredHost, TimeBounds)>,
    load: SeriesLoader<'_>,
    rows: Option<&Mutex<RowsSink<'_>>>,
    whole: &(dyn Fn(usize, IncidentHistory) + Sync),
) {
    build_in_windows(hosts, WINDOW, load, rows, whole);
}

/// Rows of a piece that were kept, and how many windows still have to look at them.
type RetainedPiece = Mutex<(usize, Option<Box<Series>>)>;

struct Looked {
    left: usize,
    found: Vec<(usize, WindowFindings)>,
}

#[derive(Default)]
struct WindowQueue {
    tasks: Vec<(usize, HostWindow)>,
    kept: Vec<Vec<RetainedPiece>>,
    looked: Vec<Mutex<Looked>>,
    /// Whether all rows of all hosts were kept, each host in one window.
    is_whole: bool,
}

impl WindowQueue {
    /// A host that does not fit is read window by window, again unless all of it was kept.
    fn new(hosts: &mut [(GatheredHost, TimeBounds)], most: usize) -> Self {
        let mut queue = Self { is_whole: true, ..Self::default() };
        for (at, (host, bounds)) in hosts.iter_mut().enumerate() {
            let windows = split_into_windows(host, *bounds, most);
            let is_kept = |placed: &PlacedPiece| {
                placed.piece.kept.is_some() || !overlaps_window(placed, bounds.from, bounds.to)
            };
            if windows.len() > 1 && !host.pieces.iter().all(is_kept) {
                host.pieces.iter_mut().for_each(|placed| placed.piece.kept = None);
            }
            queue.is_whole &=
                windows.len() <= 1 && host.pieces.iter().all(|placed| placed.piece.kept.is_some());
            let retain = |placed: &mut PlacedPiece| {
                let left = windows
                    .iter()
                    .filter(|window| overlaps_window(placed, window.seen.0, window.seen.1))
                    .count();
                Mutex::new((left, placed.piece.kept.take()))
            };
            queue.kept.push(host.pieces.iter_mut().map(retain).collect());
            queue.looked.push(Mutex::new(Looked { left: windows.len(), found: Vec::new() }));
            queue.tasks.extend(windows.into_iter().map(|window| (at, window)));
        }
        queue
    }
}

fn build_in_windows(
    mut hosts: Vec<(GatheredHost, TimeBounds)>,
    most: usize,
    load: SeriesLoader<'_>,
    rows: Option<&Mutex<RowsSink<'_>>>,
    whole: &(dyn Fn(usize, IncidentHistory) + Sync),
) {
    let queue = WindowQueue::new(&mut hosts, most);
    let thinned = (!queue.is_whole).then(|| THINNED * FEW / hosts.len().clamp(FEW, MOST_STORIES));
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some((index, window)) = queue.tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (Some((host, _)), Some(kept), Some(looked)) =
                (hosts.get(*index), queue.kept.get(*index), queue.looked.get(*index))
            else {
                return;
            };
            let mut all = load_window_series(host, kept, window, load);
            if !window.is_all() {
                // Evidence of all windows names the same source.
                rename_after_files(host, &mut all);
            }
            let found = inspect_window(host, all, window, thinned, rows);
            let mut looked = looked.lock().unwrap_or_else(PoisonError::into_inner);
            looked.found.push((window.number, found));
            looked.left = looked.left.saturating_sub(1);
            if looked.left == 0 {
                let parts = std::mem::take(&mut looked.found);
                drop(looked);
                whole(*index, assemble_history(host, parts));
            }
        }
    };
    // Rows are handed on in the order of time.
    let at_once = if rows.is_some() { 1 } else { AT_ONCE };
    let threads = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(queue.tasks.len())
        .min(at_once);
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
}

fn assemble_history(
    host: &GatheredHost,
    mut parts: Vec<(usize, WindowFindings)>,
) -> IncidentHistory {
    parts.sort_by_key(|(number, _)| *number);
    let mut history = empty_history(host);
    let several = parts.len() > 1;
    let mut all = Vec::new();
    for (_, part) in parts {
        all.extend(part.series);
        history.signatures =
            merge_signatures(std::mem::take(&mut history.signatures), part.signatures);
    }
    history.series = if several { merge_windows(host, all) } else { all };
    history
}

fn empty_history(host: &GatheredHost) -> IncidentHistory {
    IncidentHistory {
        host: host.name.clone(),
        clock: host.clock.clone(),
        ahead: host.ahead.clone(),
        facts: host.facts.clone(),
        unknown: host.notes.clone(),
        ..IncidentHistory::default()
    }
}

fn load_window_series(
    host: &GatheredHost,
    kept: &[RetainedPiece],
    window: &HostWindow,
    load: SeriesLoader<'_>,
) -> Vec<Series> {
    let (from, to) = window.seen;
    let mut parts = Vec::new();
    let mut absent = Vec::new();
    for (at, placed) in host.pieces.iter().enumerate() {
        if !overlaps_window(placed, from, to) {
            continue;
        }
        let whole = kept.get(at).and_then(|kept| {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            let (left, series) = &mut *kept;
            *left = left.saturating_sub(1);
            if *left == 0 { series.take() } else { series.clone() }
        });
        match whole {
            Some(series) => parts.push((placed, series)),
            None => absent.push(placed),
        }
    }
    if !absent.is_empty() {
        let loaded = load(&absent).into_iter();
        parts.extend(loaded.filter_map(|(at, series)| Some((*absent.get(at)?, Box::new(series)))));
    }
    let on_clock = |(placed, mut series): (&PlacedPiece, Box<Series>)| {
        if let Some(year) = placed.piece.year {
            series.shift_moments(|at, _| clock::in_year(at, year));
        }
        if let Some(offsets) = &placed.shift {
            series.shift_moments(|at, after| clock::wall_to_utc(offsets, at, after));
        }
        series.clock = host.clock.clone();
        series.host = host.name.clone();
        series.clip_to_window(from, to);
        series
    };
    join_collectors(parts.into_iter().map(on_clock))
}

#[derive(Debug)]
struct WindowFindings {
    series: Vec<Series>,
    signatures: Vec<Signature>,
}

fn inspect_window(
    host: &GatheredHost,
    series: Vec<Series>,
    window: &HostWindow,
    thinned: Option<usize>,
    rows: Option<&Mutex<RowsSink<'_>>>,
) -> WindowFindings {
    let mut history = empty_history(host);
    history.series = series;
    let mut signatures = signatures::find_signatures(&history);
    let mut series = history.series;
    let (from, to) = window.own;
    signatures.retain(|found| {
        from.is_none_or(|from| found.to >= from) && to.is_none_or(|to| found.from < to)
    });
    if !window.is_all() {
        // What begins at the end belongs to the next window.
        let last =
            to.filter(|to| Some(*to) != window.seen.1).map(|to| Moment(to.0.saturating_sub(1)));
        series.iter_mut().for_each(|series| series.clip_to_window(from, last.or(to)));
    }
    if let Some(rows) = rows {
        (rows.lock().unwrap_or_else(PoisonError::into_inner))(host.name.as_deref(), &series);
    }
    if let Some(most) = thinned {
        let spans: Vec<(Moment, Moment)> = signatures
            .iter()
            .filter(|found| found.to.0.saturating_sub(found.from.0) <= LONGEST_KEPT)
            .map(|found| (found.from, found.to))
            .collect();
        series.iter_mut().for_each(|series| series.thin_rows(most, &spans));
    }
    WindowFindings { series, signatures }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::gather::hosts::{SeriesPiece, sort_into_hosts};
    use crate::series::Offset;
    use crate::{Clock, Metric, join};

    const DAY: i64 = 86_400_000;
    /// 2026-11-01T00:00:00Z.
    const BEGIN: i64 = 1_793_491_200_000;

    /// A day of minutes; on the day `storm` the kernel is busy, and scans, from 23:50 on, and the
    /// day after until 00:10.
    fn series_of_day(number: i64, storm: i64) -> Series {
        let mut series = Series::new(format!("sa{number:02}"), crate::SourceFormat::SYSSTAT);
        series.host = Some("db1".into());
        series.clock = Clock::Utc { offsets: vec![Offset { from: Moment(BEGIN), seconds: 0 }] };
        for minute in 0..1440 {
            let at = BEGIN + number * DAY + minute * 60_000;
            let storms = (at - (BEGIN + (storm + 1) * DAY)).abs() <= 600_000;
            series.push(Moment(at), Some(Duration::from_secs(60)));
            let noise = f64::from(u8::try_from(minute % 7).unwrap()) / 10.0;
            series.set_value(Metric::CpuSystem, if storms { 80.0 } else { 2.0 + noise });
            series.set_value(Metric::CpuUser, 20.0);
            series.set_value(Metric::ScanDirect, if storms { 90_000.0 } else { 0.0 });
            series.set_value(Metric::MemTotal, 16e9);
            series.set_value(Metric::MemFree, if storms { 1e8 } else { 4e9 });
        }
        series
    }

    fn host_of_days(days: i64, keep: bool) -> GatheredHost {
        let pieces = (0..days).map(|number| {
            let series = series_of_day(number, days / 2);
            SeriesPiece {
                key: (usize::try_from(number).unwrap(), String::new(), 0),
                folders: Vec::new(),
                group: None,
                root: None,
                hull: Box::new(series.clone_metadata()),
                span: series.span(),
                samples: series.total_rows(),
                weight: series.estimate_bytes(),
                kept: keep.then_some(series).map(Box::new),
                year: None,
            }
        });
        sort_into_hosts(pieces.collect(), Vec::new(), None).remove(0)
    }

    fn history_of_days(
        days: i64,
        most: usize,
        keep: bool,
        rows: Option<&Mutex<RowsSink<'_>>>,
    ) -> IncidentHistory {
        let load = |wanted: &[&PlacedPiece]| {
            let number = |placed: &PlacedPiece| i64::try_from(placed.piece.key.0).unwrap();
            wanted
                .iter()
                .enumerate()
                .map(|(at, placed)| (at, series_of_day(number(placed), days / 2)))
                .collect()
        };
        let bounds = TimeBounds::default();
        let whole = Mutex::new(None);
        build_in_windows(
            vec![(host_of_days(days, keep), bounds)],
            most,
            &load,
            rows,
            &|_, history| {
                *whole.lock().unwrap() = Some(history);
            },
        );
        let mut history = whole.into_inner().unwrap().unwrap();
        join::join_incidents(&mut history);
        history
    }

    #[test]
    fn windows_tell_the_same_as_the_whole() {
        let whole = history_of_days(8, usize::MAX, true, None);
        assert_eq!(whole.incidents.len(), 1, "{:?}", whole.signatures);
        assert_eq!(whole.series[0].samples().len(), 8 * 1440);
        let one = series_of_day(0, 9).estimate_bytes();
        for (most, keep) in
            [(1, false), (one, false), (3 * one, false), (1, true), (one, true), (3 * one, true)]
        {
            let parts = history_of_days(8, most, keep, None);
            let span = |history: &IncidentHistory| {
                history
                    .incidents
                    .iter()
                    .map(|one| (one.from, one.to, one.verdict, one.confidence))
                    .collect::<Vec<_>>()
            };
            assert_eq!(span(&parts), span(&whole), "{most}");
            assert_eq!(parts.series.len(), 1);
            assert_eq!(
                (parts.series[0].source.as_str(), parts.series[0].total_rows()),
                ("sa00 to sa07", 8 * 1440)
            );
            let figures = |history: &IncidentHistory| {
                history.incidents.iter().map(|one| one.summary.clone()).collect::<Vec<_>>()
            };
            assert_eq!(figures(&parts), figures(&whole), "{most}");
        }
    }

    #[test]
    fn rows_are_handed_on_once_each_and_in_order() {
        let mut seen: Vec<Moment> = Vec::new();
        {
            let rows = Mutex::new(|host: Option<&str>, all: &[Series]| {
                assert_eq!(host, Some("db1"));
                seen.extend(
                    all.iter().flat_map(|series| series.samples().iter().map(|sample| sample.at)),
                );
            });
            history_of_days(5, series_of_day(0, 9).estimate_bytes(), false, Some(&rows));
        }
        assert_eq!(seen.len(), 5 * 1440);
        assert!(seen.is_sorted());
    }
}
