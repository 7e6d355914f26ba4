//! What collectors left of many hosts: incidents as `hugewise investigate` tells them, and their
//! series by the hour.
//!
//! A host's day is what gets into the tables once: an archive that has grown since makes the rows
//! of its last day anew, under another capture, and adds none to days that have passed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Mutex;

use hugewise_investigate::investigate::with_rows;
use hugewise_investigate::{
    Clock, Incident, IncidentHistory, Metric, Moment, Options, Series, SourceFormat,
};
use hugewise_report::parquet::ParquetCell;
use hugewise_report::plain;
use sha2::{Digest, Sha256};

use crate::capture_id::{Id, to_hex};
use crate::capture_reader::CollectedCapture;
use crate::clusters::Clusters;
use crate::rows::{self, LakeRow, Whose, lines_cell, text_cell};
use crate::schema::LakeTableId;

const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;

/// Hosts and what they did not tell.
pub(crate) struct ArchiveReadResult {
    /// Paths of files, or what the paths of an archive's files begin with, that were read.
    pub(crate) read: BTreeSet<String>,
    /// Why nothing could be read.
    pub(crate) wrong: Option<String>,
}

impl ArchiveReadResult {
    /// Whether a file was read, or something in it.
    pub(crate) fn has_read(&self, path: &str) -> bool {
        let within = format!("{path}:");
        let is_tar =
            self.read.range(within.clone()..).next().is_some_and(|read| read.starts_with(&within));
        // An archive of PCP is called by what the names of its files have in common.
        let mut bases = path.match_indices('.').filter_map(|(dot, _)| path.get(..dot));
        is_tar || self.read.contains(path) || bases.any(|base| self.read.contains(base))
    }
}

/// Looks through the archives at the paths. `take` gets the rows of one host and one day after
/// another.
pub(crate) fn read(
    paths: &[PathBuf],
    clusters: &Clusters,
    take: &mut (dyn FnMut(CollectedCapture) + Send),
) -> ArchiveReadResult {
    let hours = Mutex::new(HourlyAggregator { clusters, host: None, days: BTreeMap::new(), take });
    let investigation = {
        let rows = Mutex::new(|host: Option<&str>, all: &[Series]| {
            if let Ok(mut hours) = hours.lock() {
                hours.add(host, all);
            }
        });
        with_rows(paths, &Options::default(), &|_| (), &rows)
    };
    let Ok(mut hours) = hours.into_inner() else {
        return ArchiveReadResult {
            read: BTreeSet::new(),
            wrong: Some("a defect of hugewise ended its reading".to_owned()),
        };
    };
    hours.flush_days();
    let investigation = match investigation {
        Ok(investigation) => investigation,
        Err(error) => {
            return ArchiveReadResult { read: BTreeSet::new(), wrong: Some(error.to_string()) };
        }
    };
    for host in &investigation.hosts {
        let of_host = investigation.sources.iter().filter(|source| source.host == host.host);
        collect_incidents(host, of_host.filter_map(|source| source.to).max(), clusters, take);
    }
    let read = investigation
        .sources
        .into_iter()
        .filter(|source| source.format.is_some())
        .map(|source| source.path);
    ArchiveReadResult { read: read.collect(), wrong: None }
}

/// The rows of a host's day; they are known by what they say.
fn build_collected(
    table: &str,
    host: Option<&str>,
    clusters: &Clusters,
    last: i64,
    rows: &[(LakeTableId, Vec<ParquetCell>)],
) -> CollectedCapture {
    let mut hash = Sha256::new();
    hash.update(format!("{table}\0{}\0{}\0", host.unwrap_or_default(), last.div_euclid(DAY)));
    for (_, cells) in rows {
        cells.iter().for_each(|cell| hash.update(format!("{cell:?}\0")));
    }
    let id: Id = hash.finalize().into();
    let whose = Whose {
        capture: to_hex(&id),
        host: host.map(|name| plain::escape_line(name).into_owned()),
        cluster: clusters.find_cluster(host).map(str::to_owned),
        captured_at: Some(last.div_euclid(1000)),
    };
    let rows: Vec<LakeRow> =
        rows.iter().map(|(place, cells)| whose.build_row(*place, cells.iter().cloned())).collect();
    CollectedCapture { id, whose, rows, torn: None, archives: false }
}

/// What each hour of a host was, while its samples pass.
struct HourlyAggregator<'a> {
    clusters: &'a Clusters,
    host: Option<String>,
    /// By the day since 1970.
    days: BTreeMap<i64, BTreeMap<(SourceFormat, usize, i64), Hour>>,
    take: &'a mut (dyn FnMut(CollectedCapture) + Send),
}

#[derive(Clone, Copy)]
struct Hour {
    metric: Metric,
    wall: bool,
    samples: i64,
    least: f64,
    most: f64,
    sum: f64,
    last: i64,
}

impl HourlyAggregator<'_> {
    fn add(&mut self, host: Option<&str>, all: &[Series]) {
        // Of two hosts without a name nobody knows that they are one.
        if host.is_none() || self.host.as_deref() != host {
            self.flush_days();
            self.host = host.map(str::to_owned);
        }
        let mut first = i64::MAX;
        for series in all {
            let wall = matches!(series.clock, Clock::Wall { .. });
            for (index, metric) in
                Metric::ALL.iter().enumerate().filter(|(_, metric)| !metric.is_only_told())
            {
                let Some(column) = series.column(*metric) else { continue };
                for (row, value) in column.iter() {
                    let Some(Moment(at)) = series.samples().get(row).map(|sample| sample.at) else {
                        continue;
                    };
                    first = first.min(at);
                    let hours = self.days.entry(at.div_euclid(DAY)).or_default();
                    let fresh = Hour {
                        metric: *metric,
                        wall,
                        samples: 0,
                        least: value,
                        most: value,
                        sum: 0.0,
                        last: at,
                    };
                    let hour =
                        hours.entry((series.format, index, at.div_euclid(HOUR))).or_insert(fresh);
                    hour.samples += 1;
                    hour.least = hour.least.min(value);
                    hour.most = hour.most.max(value);
                    hour.sum += value;
                    hour.last = hour.last.max(at);
                }
            }
        }
        // What comes next is of this time or later.
        let before = first.div_euclid(DAY);
        while self.days.first_key_value().is_some_and(|(day, _)| *day < before) {
            self.flush_first_day();
        }
    }

    fn flush_days(&mut self) {
        while !self.days.is_empty() {
            self.flush_first_day();
        }
    }

    fn flush_first_day(&mut self) {
        let Some((_, hours)) = self.days.pop_first() else { return };
        let last = hours.values().map(|hour| hour.last).max().unwrap_or_default();
        if rows::valid_moment(last.div_euclid(1000)).is_none() {
            return;
        }
        let row = |((format, _, at), hour): (&(SourceFormat, usize, i64), &Hour)| {
            let mean = hour.sum / hour.samples as f64;
            let cells = vec![
                ParquetCell::Time(at.saturating_mul(HOUR)),
                text_cell(clock_name(hour.wall)),
                text_cell(format.as_str()),
                text_cell(hour.metric.name()),
                ParquetCell::Integer(hour.samples),
                ParquetCell::Number(hour.least),
                ParquetCell::Number(mean),
                ParquetCell::Number(hour.most),
            ];
            (LakeTableId::Series, cells)
        };
        let rows: Vec<LakeRow> = hours.iter().map(row).collect();
        (self.take)(build_collected("series", self.host.as_deref(), self.clusters, last, &rows));
    }
}

const fn clock_name(wall: bool) -> &'static str {
    if wall { "wall" } else { "utc" }
}

/// The incidents of a host, by the day on which they began. How far its archives reached tells
/// which of two readings of a day is the later one.
fn collect_incidents(
    host: &IncidentHistory,
    reached: Option<Moment>,
    clusters: &Clusters,
    take: &mut (dyn FnMut(CollectedCapture) + Send),
) {
    let wall = matches!(host.clock, Clock::Wall { .. });
    let mut days: BTreeMap<i64, Vec<&Incident>> = BTreeMap::new();
    for incident in &host.incidents {
        days.entry(incident.from.0.div_euclid(DAY)).or_default().push(incident);
    }
    for (day, incidents) in days {
        let last = incidents.iter().map(|incident| incident.to.max(incident.from)).max();
        let end = day.saturating_add(1).saturating_mul(DAY).saturating_sub(1);
        let last = last.max(reached).map_or(end, |Moment(at)| at.min(end));
        if rows::valid_moment(last.div_euclid(1000)).is_none() {
            continue;
        }
        let rows: Vec<LakeRow> =
            incidents.into_iter().map(|incident| incident_row(incident, wall)).collect();
        take(build_collected("incidents", host.host.as_deref(), clusters, last, &rows));
    }
}

fn incident_row(incident: &Incident, wall: bool) -> LakeRow {
    let maybe = |all: &[String]| if all.is_empty() { ParquetCell::Absent } else { lines_cell(all) };
    let formats: BTreeSet<&str> =
        incident.signatures.iter().map(|signature| signature.kind.name()).collect();
    let signatures: Vec<String> = formats.into_iter().map(str::to_owned).collect();
    let cells = vec![
        ParquetCell::Time(incident.from.0),
        ParquetCell::Time(incident.to.0),
        text_cell(clock_name(wall)),
        text_cell(incident.verdict.name()),
        text_cell(&incident.confidence.to_string()),
        text_cell(&incident.summary),
        lines_cell(&signatures),
        maybe(&incident.who),
        maybe(&incident.elsewhere),
        maybe(&incident.other_days),
        maybe(&incident.next),
    ];
    (LakeTableId::Incidents, cells)
}
