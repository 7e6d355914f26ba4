//! Looks through the history of a host, whole where it fits in memory, and otherwise window of time by window of time.
//!
//! A window reaches over its ends into its neighbours, so that what lies on an end is seen with what is before and behind
//! it; what both of two neighbours see there is one.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use self::cut::{Window, overlaps, windows};
use self::merge::{join, joined, sources, whole};
use crate::gather::clock;
use crate::gather::hosts::{Bounds, Machine, Placed};
use crate::{History, MOST_STORIES, Moment, Series, Signature, signatures};

mod cut;
mod merge;

/// Takes the rows of a host as they are looked at: its name, and its series of a stretch of time.
pub type Rows<'a> = dyn FnMut(Option<&str>, &[Series]) + Send + 'a;

/// Rows of a window, in bytes.
const WINDOW: usize = 40 << 20;
/// Windows at once: each is held in memory.
const AT_ONCE: usize = 8;
/// Rows of a series that was thinned where there are few hosts; of more hosts each has its share.
const THINNED: usize = 8192;
const FEW: usize = 8;
/// A signature longer than this keeps no rows of its own when its series is thinned.
const LONGEST_KEPT: i64 = 6 * 3_600_000;

/// Where rows come from that were not kept.
pub(crate) type Load<'a> = &'a (dyn Fn(&[&Placed]) -> Vec<(usize, Series)> + Sync);

/// Makes the history of each host, with the signatures that are found in it, and hands it on with its place as soon as it is
/// whole: no more hosts are in memory than are looked at. Histories are thinned where not all rows could be kept.
pub(crate) fn histories(
    hosts: Vec<(Machine, Bounds)>,
    load: Load<'_>,
    rows: Option<&Mutex<Rows<'_>>>,
    whole: &(dyn Fn(usize, History) + Sync),
) {
    of_windows(hosts, WINDOW, load, rows, whole);
}

/// Rows that were kept of a piece, and how many windows have still to look at them.
type Kept = Mutex<(usize, Option<Series>)>;

/// A host on its way: the windows that are still to be looked at, and what was found in the others.
struct Looked {
    left: usize,
    found: Vec<(usize, Found)>,
}

fn of_windows(
    mut hosts: Vec<(Machine, Bounds)>,
    most: usize,
    load: Load<'_>,
    rows: Option<&Mutex<Rows<'_>>>,
    whole: &(dyn Fn(usize, History) + Sync),
) {
    // A host that does not fit is looked at window by window. Where not all of it was kept it is read anew, and what was kept
    // would only be in the way.
    let mut tasks: Vec<(usize, Window)> = Vec::new();
    let mut kept: Vec<Vec<Kept>> = Vec::new();
    let mut looked: Vec<Mutex<Looked>> = Vec::new();
    let (mut cut_up, mut kept_not) = (false, false);
    for (at, (host, bounds)) in hosts.iter_mut().enumerate() {
        let windows = windows(host, *bounds, most);
        let is_kept = |placed: &Placed| placed.piece.kept.is_some() || !overlaps(placed, bounds.from, bounds.to);
        if windows.len() > 1 && !host.pieces.iter().all(is_kept) {
            host.pieces.iter_mut().for_each(|placed| placed.piece.kept = None);
        }
        cut_up |= windows.len() > 1;
        kept_not |= host.pieces.iter().any(|placed| placed.piece.kept.is_none());
        let of = |placed: &mut Placed| {
            let left = windows.iter().filter(|window| overlaps(placed, window.seen.0, window.seen.1)).count();
            Mutex::new((left, placed.piece.kept.take()))
        };
        kept.push(host.pieces.iter_mut().map(of).collect());
        looked.push(Mutex::new(Looked { left: windows.len(), found: Vec::new() }));
        tasks.extend(windows.into_iter().map(|window| (at, window)));
    }
    let thinned = (cut_up || kept_not).then(|| THINNED * FEW / hosts.len().clamp(FEW, MOST_STORIES));
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some((of, window)) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (Some((host, _)), Some(kept), Some(looked)) = (hosts.get(*of), kept.get(*of), looked.get(*of)) else {
                return;
            };
            let mut all = series(host, kept, window, load);
            if !window.is_all() {
                // Evidence of all windows is of one series.
                all.iter_mut().for_each(|series| series.source = sources(host, series));
            }
            let found = seen(host, all, window, thinned, rows);
            let mut looked = looked.lock().unwrap_or_else(PoisonError::into_inner);
            looked.found.push((window.number, found));
            looked.left = looked.left.saturating_sub(1);
            if looked.left == 0 {
                let parts = std::mem::take(&mut looked.found);
                drop(looked);
                whole(*of, history(host, parts));
            }
        }
    };
    // Rows are handed on in the order of time.
    let at_once = if rows.is_some() { 1 } else { AT_ONCE };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(tasks.len()).min(at_once);
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
}

/// What was found in the windows of a host, put together.
fn history(host: &Machine, mut parts: Vec<(usize, Found)>) -> History {
    parts.sort_by_key(|(number, _)| *number);
    let mut history = empty(host);
    let several = parts.len() > 1;
    let mut all = Vec::new();
    for (_, part) in parts {
        all.extend(part.series);
        history.signatures = joined(std::mem::take(&mut history.signatures), part.signatures);
    }
    history.series = if several { whole(host, all) } else { all };
    history
}

fn empty(host: &Machine) -> History {
    History {
        host: host.name.clone(),
        clock: host.clock.clone(),
        ahead: host.ahead.clone(),
        facts: host.facts.clone(),
        unknown: host.notes.clone(),
        ..History::default()
    }
}

/// The series of a host within a window, on its clock.
fn series(host: &Machine, kept: &[Kept], window: &Window, load: Load<'_>) -> Vec<Series> {
    let (from, to) = window.seen;
    let mut parts = Vec::new();
    let mut absent = Vec::new();
    for (at, placed) in host.pieces.iter().enumerate() {
        if !overlaps(placed, from, to) {
            continue;
        }
        let whole = kept.get(at).and_then(|kept| {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            let (left, series) = &mut *kept;
            *left = left.saturating_sub(1);
            // The last window that has it takes it.
            if *left == 0 { series.take() } else { series.clone() }
        });
        match whole {
            Some(series) => parts.push((placed, series)),
            None => absent.push(placed),
        }
    }
    if !absent.is_empty() {
        parts.extend(load(&absent).into_iter().filter_map(|(at, series)| Some((*absent.get(at)?, series))));
    }
    let on_clock = |(placed, mut series): (&Placed, Series)| {
        if let Some(year) = placed.piece.year {
            series.moved(|at, _| clock::in_year(at, year));
        }
        if let Some(offsets) = &placed.shift {
            series.moved(|at, after| clock::utc(offsets, at, after));
        }
        series.clock = host.clock.clone();
        series.host = host.name.clone();
        series.cut(from, to);
        series
    };
    join(parts.into_iter().map(on_clock).collect())
}

#[derive(Debug)]
struct Found {
    series: Vec<Series>,
    signatures: Vec<Signature>,
}

fn seen(
    host: &Machine,
    series: Vec<Series>,
    window: &Window,
    thinned: Option<usize>,
    rows: Option<&Mutex<Rows<'_>>>,
) -> Found {
    let mut history = empty(host);
    history.series = series;
    let mut signatures = signatures::find(&history);
    let mut series = history.series;
    let (from, to) = window.own;
    signatures.retain(|found| from.is_none_or(|from| found.to >= from) && to.is_none_or(|to| found.from < to));
    if !window.is_all() {
        // The next window has what begins at its start.
        let last = to.filter(|to| Some(*to) != window.seen.1).map(|to| Moment(to.0.saturating_sub(1)));
        series.iter_mut().for_each(|series| series.cut(from, last.or(to)));
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
        series.iter_mut().for_each(|series| series.thin(most, &spans));
    }
    Found { series, signatures }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::gather::hosts::{Piece, sort};
    use crate::series::Offset;
    use crate::{Clock, Metric, join};

    const DAY: i64 = 86_400_000;
    /// 2026-11-01T00:00:00Z.
    const BEGIN: i64 = 1_793_491_200_000;

    /// A day of minutes; on the day `storm` the kernel is busy, and scans, from 23:50 on, and the day after until 00:10.
    fn day(number: i64, storm: i64) -> Series {
        let mut series = Series::new(format!("sa{number:02}"), crate::Format::Sysstat);
        series.host = Some("db1".into());
        series.clock = Clock::Utc { offsets: vec![Offset { from: Moment(BEGIN), seconds: 0 }] };
        for minute in 0..1440 {
            let at = BEGIN + number * DAY + minute * 60_000;
            let storms = (at - (BEGIN + (storm + 1) * DAY)).abs() <= 600_000;
            series.push(Moment(at), Some(Duration::from_secs(60)));
            let noise = f64::from(u8::try_from(minute % 7).unwrap()) / 10.0;
            series.set(Metric::CpuSystem, if storms { 80.0 } else { 2.0 + noise });
            series.set(Metric::CpuUser, 20.0);
            series.set(Metric::ScanDirect, if storms { 90_000.0 } else { 0.0 });
            series.set(Metric::MemTotal, 16e9);
            series.set(Metric::MemFree, if storms { 1e8 } else { 4e9 });
        }
        series
    }

    fn host(days: i64, keep: bool) -> Machine {
        let pieces = (0..days).map(|number| {
            let series = day(number, days / 2);
            Piece {
                key: (usize::try_from(number).unwrap(), String::new(), 0),
                folders: Vec::new(),
                group: None,
                root: None,
                hull: series.hull(),
                span: series.span(),
                samples: series.rows(),
                weight: series.weight(),
                kept: keep.then_some(series),
                year: None,
            }
        });
        sort(pieces.collect(), Vec::new(), None).remove(0)
    }

    fn history(days: i64, most: usize, keep: bool, rows: Option<&Mutex<Rows<'_>>>) -> History {
        let load = |wanted: &[&Placed]| {
            let number = |placed: &Placed| i64::try_from(placed.piece.key.0).unwrap();
            wanted.iter().enumerate().map(|(at, placed)| (at, day(number(placed), days / 2))).collect()
        };
        let bounds = Bounds::default();
        let whole = Mutex::new(None);
        of_windows(vec![(host(days, keep), bounds)], most, &load, rows, &|_, history| {
            *whole.lock().unwrap() = Some(history);
        });
        let mut history = whole.into_inner().unwrap().unwrap();
        join::incidents(&mut history);
        history
    }

    #[test]
    fn windows_tell_the_same_as_the_whole() {
        let whole = history(8, usize::MAX, true, None);
        assert_eq!(whole.incidents.len(), 1, "{:?}", whole.signatures);
        assert_eq!(whole.series[0].samples().len(), 8 * 1440);
        let one = day(0, 9).weight();
        for (most, keep) in [(1, false), (one, false), (3 * one, false), (1, true), (one, true), (3 * one, true)] {
            let parts = history(8, most, keep, None);
            let span = |history: &History| {
                history.incidents.iter().map(|one| (one.from, one.to, one.verdict, one.confidence)).collect::<Vec<_>>()
            };
            assert_eq!(span(&parts), span(&whole), "{most}");
            assert_eq!(parts.series.len(), 1);
            assert_eq!((parts.series[0].source.as_str(), parts.series[0].rows()), ("sa00 to sa07", 8 * 1440));
            let figures =
                |history: &History| history.incidents.iter().map(|one| one.summary.clone()).collect::<Vec<_>>();
            assert_eq!(figures(&parts), figures(&whole), "{most}");
        }
    }

    #[test]
    fn rows_are_handed_on_once_each_and_in_order() {
        let mut seen: Vec<Moment> = Vec::new();
        {
            let rows = Mutex::new(|host: Option<&str>, all: &[Series]| {
                assert_eq!(host, Some("db1"));
                seen.extend(all.iter().flat_map(|series| series.samples().iter().map(|sample| sample.at)));
            });
            history(5, day(0, 9).weight(), false, Some(&rows));
        }
        assert_eq!(seen.len(), 5 * 1440);
        assert!(seen.is_sorted());
    }
}
