//! From paths to what happened: gathered, looked through for signatures, joined into incidents.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use crate::gather::hosts::{GatheredHost, TimeBounds};
use crate::gather::{self, Gathered};
use crate::rank::{Stories, is_named};
pub use crate::request::{Error, InvestigationProgress, Options};
use crate::rotation::MOST_RUNS;
use crate::windows::{self, RowsSink};
use crate::{
    IncidentHistory, InvestigatedSource, Investigation, Moment, Series, SourceFormat,
    cluster_correlation, join,
};

/// Known hosts that the error for an unknown one names.
const NAMED: usize = 8;

/// Reads what is at the paths (files, folders, tars, sosreports; without any, where collectors of
/// this host usually write), and says what happened.
///
/// # Errors
/// A time or zone that makes no sense; nothing that could be read.
pub fn investigate(
    paths: &[PathBuf],
    options: &Options,
    progress: &(dyn Fn(InvestigationProgress) + Sync),
) -> Result<Investigation, Error> {
    build_investigation(
        gather::gather_sources(paths, options, true, progress)?,
        &options.hosts,
        None,
    )
}

/// The same as [`investigate`], and hands on each host's rows in the order of time: the
/// investigation keeps only some of them where they do not fit in memory.
///
/// # Errors
/// As [`investigate`].
pub fn with_rows(
    paths: &[PathBuf],
    options: &Options,
    progress: &(dyn Fn(InvestigationProgress) + Sync),
    rows: &Mutex<RowsSink<'_>>,
) -> Result<Investigation, Error> {
    build_investigation(
        gather::gather_sources(paths, options, false, progress)?,
        &options.hosts,
        Some(rows),
    )
}

/// Files by host, each host's by format and beginning, so that a moment's file is soon found.
struct FilesByHost<'a> {
    spans: BTreeMap<Option<&'a str>, BTreeMap<SourceFormat, Vec<SourceSpan<'a>>>>,
    paths: BTreeSet<&'a str>,
}

struct SourceSpan<'a> {
    source: &'a InvestigatedSource,
    /// Its place in the order in which sources are told.
    place: usize,
    from: Moment,
    to: Moment,
    /// The latest end of this and all that begin earlier.
    reach: Moment,
}

/// Files of one time that are looked through for a row's.
const MOST_OVERLAPPING: usize = 256;

impl<'a> FilesByHost<'a> {
    fn new(sources: &'a [InvestigatedSource]) -> Self {
        let mut hosts: BTreeMap<_, BTreeMap<SourceFormat, Vec<SourceSpan<'a>>>> = BTreeMap::new();
        for (place, source) in sources.iter().enumerate() {
            if let (Some(format), Some((from, to))) = (source.format, source.from.zip(source.to)) {
                let formats = hosts.entry(source.host.as_deref()).or_default();
                let span = SourceSpan { source, place, from, to, reach: to };
                formats.entry(format).or_default().push(span);
            }
        }
        for files in hosts.values_mut().flat_map(BTreeMap::values_mut) {
            files.sort_by_key(|file| file.from);
            let mut reach = None;
            for file in files {
                file.reach = reach.max(Some(file.to)).unwrap_or(file.to);
                reach = Some(file.reach);
            }
        }
        Self { spans: hosts, paths: sources.iter().map(|source| source.path.as_str()).collect() }
    }

    fn find_file(
        &self,
        host: &IncidentHistory,
        format: SourceFormat,
        at: Moment,
    ) -> Option<&'a str> {
        let files = self.spans.get(&host.host.as_deref())?.get(&format)?;
        let begun = files.get(..files.partition_point(|file| file.from <= at))?;
        let near = begun.iter().rev().take_while(|file| file.reach >= at).take(MOST_OVERLAPPING);
        let holding = near.filter(|file| file.to >= at && file.source.clock == host.clock);
        holding.min_by_key(|file| file.place).map(|file| file.source.path.as_str())
    }
}

/// Replaces each row's source by the one file that it is in, where its series is of several files.
fn name_evidence_files(host: &mut IncidentHistory, files: &FilesByHost<'_>) {
    let formats: BTreeMap<String, SourceFormat> =
        host.series.iter().map(|series| (series.source.clone(), series.format)).collect();
    let mut signatures = std::mem::take(&mut host.signatures);
    let mut incidents = std::mem::take(&mut host.incidents);
    let of_incidents = incidents.iter_mut().flat_map(|incident| &mut incident.signatures);
    for row in of_incidents.chain(&mut signatures).flat_map(|signature| &mut signature.evidence) {
        let is_joined = !files.paths.contains(row.source.as_str());
        let Some(format) = formats.get(&row.source).filter(|_| is_joined) else { continue };
        if let Some(file) = files.find_file(host, *format, row.at) {
            file.clone_into(&mut row.source);
        }
    }
    (host.signatures, host.incidents) = (signatures, incidents);
}

/// What is said of files of one host that tell of the same time as very many others.
fn describe_files_left_out(history: &IncidentHistory) -> Vec<InvestigatedSource> {
    let left_out = history.series.iter().filter(|series| series.files_left_out() > 0);
    let source = |series: &Series| InvestigatedSource {
        path: series.source.clone(),
        host: history.host.clone(),
        problems: vec![format!(
            "{} files are left out: they tell of the same time as {MOST_RUNS} others of {}",
            series.files_left_out(),
            series.format,
        )],
        ..InvestigatedSource::default()
    };
    left_out.map(source).collect()
}

fn build_investigation(
    gathered: Gathered,
    asked: &[String],
    rows: Option<&Mutex<RowsSink<'_>>>,
) -> Result<Investigation, Error> {
    let Gathered { sources, hosts, files: reader, passed_over } = gathered;
    check_hosts_exist(&hosts, asked)?;
    let files = FilesByHost::new(&sources);
    let left_out = Mutex::new(Vec::new());
    let stories = Mutex::new(Stories::new(hosts.len(), asked));
    let whole = |at: usize, mut host: IncidentHistory| {
        if !host.series.is_empty() {
            // Notes on how the sources were put together come before what they cannot tell.
            let notes = std::mem::take(&mut host.unknown);
            join::join_incidents(&mut host);
            host.unknown.splice(0..0, notes);
            name_evidence_files(&mut host, &files);
        }
        let more = describe_files_left_out(&host);
        left_out.lock().unwrap_or_else(PoisonError::into_inner).extend(more);
        stories.lock().unwrap_or_else(PoisonError::into_inner).add_history(at, host);
    };
    windows::build_histories(hosts, &|wanted| reader.reread_rows(wanted), rows, &whole);
    let mut hosts = stories.into_inner().unwrap_or_else(PoisonError::into_inner).into_histories();
    cluster_correlation::correlate_hosts(&mut hosts);
    let mut sources = sources;
    sources.extend(left_out.into_inner().unwrap_or_else(PoisonError::into_inner));
    Ok(Investigation { sources, hosts, passed_over, unknown: Vec::new() })
}

fn check_hosts_exist(hosts: &[(GatheredHost, TimeBounds)], asked: &[String]) -> Result<(), Error> {
    let known: Vec<&str> = hosts.iter().filter_map(|(host, _)| host.name.as_deref()).collect();
    let Some(name) = asked.iter().find(|name| !known.iter().any(|host| is_named(host, name)))
    else {
        return Ok(());
    };
    let mut some: Vec<String> = known.iter().take(NAMED).map(|host| (*host).to_owned()).collect();
    if known.len() > NAMED {
        some.push(format!("and {} more", known.len() - NAMED));
    }
    let found = if some.is_empty() { "none with a name".to_owned() } else { some.join(", ") };
    Err(Error::NotFound(name.clone(), found))
}
