//! Rows of a tar that are read again: those of the hosts and windows that come next are read with
//! them, so that a tar of many hosts is not unpacked once for each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::hosts::GatheredHost;
use super::lock_ignoring_poison;
use crate::Series;

/// Bytes of rows that are read ahead, of all tars.
const MOST_AHEAD: usize = 48 << 20;

/// An entry of a tar, and a place among the series in it.
pub(super) type EntryKey = (String, usize);

#[derive(Default)]
pub(super) struct ReadAhead {
    tars: BTreeMap<usize, Mutex<TarRows>>,
    held: AtomicUsize,
}

/// What of a tar was not kept, in the order in which it is looked at.
#[derive(Default)]
struct TarRows {
    order: Vec<(EntryKey, usize)>,
    places: BTreeMap<EntryKey, usize>,
    /// With their bytes.
    rows: BTreeMap<EntryKey, (usize, Series)>,
}

/// Reads the rows of these entries.
type ReadRows<'a> = dyn Fn(&BTreeSet<String>) -> Vec<(EntryKey, Series)> + 'a;

impl ReadAhead {
    pub(super) fn new(hosts: &[GatheredHost]) -> Self {
        let mut tars: BTreeMap<usize, TarRows> = BTreeMap::new();
        for host in hosts {
            let mut pieces: Vec<_> = host.pieces.iter().collect();
            pieces.sort_by_key(|placed| placed.span);
            for placed in pieces {
                let (job, entry, nth) = &placed.piece.key;
                let is_read = placed.piece.kept.is_none() && placed.copy_of.is_none();
                if entry.is_empty() || !is_read || placed.span.is_none() {
                    continue;
                }
                let tar = tars.entry(*job).or_default();
                let key = (entry.clone(), *nth);
                tar.places.insert(key.clone(), tar.order.len());
                tar.order.push((key, placed.piece.weight));
            }
        }
        let tars = tars.into_iter().map(|(job, tar)| (job, Mutex::new(tar))).collect();
        Self { tars, held: AtomicUsize::new(0) }
    }

    /// Adds the wanted rows of a job to `found`, each with the number that it is wanted by; what is
    /// not there yet is read.
    pub(super) fn take_rows(
        &self,
        job: usize,
        wanted: &BTreeMap<EntryKey, usize>,
        found: &mut Vec<(usize, Series)>,
        read: &ReadRows<'_>,
    ) {
        let Some(tar) = self.tars.get(&job) else {
            let entries = wanted.keys().map(|(entry, _)| entry.clone()).collect();
            let rows = read(&entries).into_iter();
            found.extend(rows.filter_map(|(key, series)| Some((*wanted.get(&key)?, series))));
            return;
        };
        // Who wants rows of the same tar waits for those that are read now.
        let mut tar = lock_ignoring_poison(tar);
        let mut absent: BTreeSet<String> = BTreeSet::new();
        let mut last = 0;
        for (key, number) in wanted {
            if let Some((bytes, series)) = tar.rows.remove(key) {
                self.held.fetch_sub(bytes, Ordering::Relaxed);
                found.push((*number, series));
            } else {
                absent.insert(key.0.clone());
                last = last.max(tar.places.get(key).map_or(0, |place| place + 1));
            }
        }
        if absent.is_empty() {
            return;
        }
        let dropped: usize = std::mem::take(&mut tar.rows).values().map(|(bytes, _)| bytes).sum();
        self.held.fetch_sub(dropped, Ordering::Relaxed);
        let mut room = MOST_AHEAD.saturating_sub(self.held.load(Ordering::Relaxed));
        for ((entry, _), weight) in tar.order.iter().skip(last) {
            let Some(left) = room.checked_sub(weight + size_of::<Series>()) else { break };
            room = left;
            absent.insert(entry.clone());
        }
        for (key, series) in read(&absent) {
            if let Some(number) = wanted.get(&key) {
                found.push((*number, series));
            } else if tar.places.get(&key).is_some_and(|place| *place >= last) {
                let bytes = series.estimate_bytes().saturating_add(series.estimate_overhead());
                self.held.fetch_add(bytes, Ordering::Relaxed);
                tar.rows.insert(key, (bytes, series));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::gather::hosts::{SeriesPiece, sort_into_hosts};
    use crate::{Metric, Moment, SourceFormat};

    fn series_of(entry: usize) -> Series {
        let mut series = Series::new(format!("sar{entry}"), SourceFormat::SAR);
        series.host = Some(format!("db{entry:05}"));
        series.push(Moment(1), None);
        series.set_value(Metric::CpuUser, f64::from(u32::try_from(entry).unwrap()));
        series
    }

    fn host_of(entry: usize) -> GatheredHost {
        let series = series_of(entry);
        let piece = SeriesPiece {
            key: (0, format!("{entry}"), 0),
            folders: Vec::new(),
            group: None,
            root: None,
            hull: Box::new(series.clone_metadata()),
            span: series.span(),
            samples: 1,
            weight: 1 << 20,
            kept: None,
            year: None,
        };
        sort_into_hosts(vec![piece], Vec::new(), None).remove(0)
    }

    /// A mebibyte a host: a tar of four hundred is read nine times, not four hundred.
    #[test]
    fn a_tar_of_many_hosts_is_not_read_once_for_each() {
        let hosts: Vec<GatheredHost> = (0..400).map(host_of).collect();
        let ahead = ReadAhead::new(&hosts);
        let passes = Cell::new(0);
        for host in 0..400 {
            let wanted = BTreeMap::from([((format!("{host}"), 0), 7)]);
            let mut found = Vec::new();
            ahead.take_rows(0, &wanted, &mut found, &|entries| {
                passes.set(passes.get() + 1);
                let rows = entries
                    .iter()
                    .map(|entry| ((entry.clone(), 0), series_of(entry.parse().unwrap())));
                rows.collect()
            });
            assert_eq!(found.len(), 1);
            let (number, series) = &found[0];
            let value = series.value(Metric::CpuUser, 0).unwrap();
            assert_eq!((*number, value), (7, f64::from(host)));
        }
        assert!(passes.get() <= 400 / 40, "{}", passes.get());
        assert_eq!(ahead.held.load(Ordering::Relaxed), 0);
    }
}
