//! From what is given or found to one history a host: files, folders, tars, captures, sosreports.

pub(crate) mod budget;
pub(crate) mod clock;
mod clock_skew;
mod default_locations;
mod folders;
mod host_offsets;
pub(crate) mod hosts;
mod places;
mod printed_copies;
mod read_ahead;
mod reading;
mod scratch;
mod setup;
mod unplaced;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use self::budget::{HOST_WORTH, LeftOut, MOST_FILES, MOST_FOUND, MOST_HOSTS, MOST_PCP};
use self::hosts::{GatheredHost, PlacedPiece, SeriesPiece, TimeBounds};
use self::places::{Places, ReadJob, Where, refused_source};
use self::read_ahead::ReadAhead;
use self::reading::{FileContents, FileOutcome, RunReading};
use self::setup::Setup;
use crate::rank::is_named;
use crate::readers::Pasted;
use crate::request::{Error, InvestigationProgress, Options};
use crate::verdict::InvestigatedSource;
use crate::{Clock, Moment, Series};

/// Bytes of rows that are kept; those of more files are read again when they are looked at.
const MOST_KEPT: usize = 64 << 20;
/// Files of a folder that somebody put there one by one.
const FEW_FILES: usize = 64;

pub(crate) struct Gathered {
    pub(crate) sources: Vec<InvestigatedSource>,
    pub(crate) hosts: Vec<(GatheredHost, TimeBounds)>,
    pub(crate) files: SourceFiles,
    pub(crate) passed_over: Vec<String>,
}

pub(crate) struct SourceFiles {
    jobs: Vec<ReadJob>,
    run: RunReading,
    ahead: ReadAhead,
}

/// Files that nothing reads.
#[derive(Debug, Default)]
struct PassedFiles {
    unknown: LeftOut,
    packed: LeftOut,
}

/// Reads everything, and sorts it by hosts; if `judged`, metrics that are only told are left out.
pub(crate) fn gather_sources(
    paths: &[PathBuf],
    options: &Options,
    judged: bool,
    progress: &(dyn Fn(InvestigationProgress) + Sync),
) -> Result<Gathered, Error> {
    let zone = options.zone.as_deref().map(clock::parse_time_zone).transpose()?;
    let given = |text: &Option<String>, end| {
        text.as_deref().map(|text| clock::RequestedTime::parse(text, end)).transpose()
    };
    let (from, to) = (given(&options.from, false)?, given(&options.to, true)?);
    let offsets = host_offsets::parse_host_offsets(&options.offsets)?;
    let found =
        if paths.is_empty() { default_locations::find_default_locations() } else { paths.to_vec() };
    if found.is_empty() {
        return Err(Error::NoArchives(default_locations::list_default_locations()));
    }
    let mut places = places::find_jobs(&found);
    let pasted = parse_pasted_options(options, from)?;
    let passed_over_places = std::mem::take(&mut places.passed_over);
    let mut run = RunReading { pasted, judged, ..RunReading::default() };
    let reading = GatherState::read_as_meant(places, &mut run, progress);
    let GatherState { jobs, mut sources, pieces, setups, passed, .. } = reading;

    let mut hosts = hosts::sort_into_hosts(pieces, setups, zone.as_ref());
    sources.extend(leave_out_hosts(&mut hosts, &options.hosts));
    host_offsets::apply_host_offsets(&mut hosts, &offsets)?;
    let bounds = resolve_time_bounds(&hosts, from, to)?;
    sources.extend(
        hosts
            .iter()
            .flat_map(|host| host.pieces.iter().map(|placed| describe_source(host, placed))),
    );
    let sources = sort_sources(sources, &found);
    if sources.iter().all(|source| source.from.is_none()) {
        let captured = hosts.iter().find_map(|host| Some(host.facts.as_ref()?.source.as_str()));
        let mut why = explain_nothing_found(&sources, &found, paths.is_empty(), captured);
        for packed in describe_packed_files(&passed.packed) {
            why.push_str(&format!("; {packed}"));
        }
        return Err(Error::Nothing(why));
    }
    check_bounds_match(&hosts, &bounds)?;
    // A collector that ran without a sample is a source, but no host's history.
    hosts.retain(|host| {
        host.facts.is_some() || host.pieces.iter().any(|placed| placed.span.is_some())
    });
    let ahead = ReadAhead::new(&hosts);
    let hosts = hosts.into_iter().zip(bounds).collect();
    let mut passed_over = describe_passed_over(&passed);
    passed_over.extend(passed_over_places);
    Ok(Gathered { sources, hosts, files: SourceFiles { jobs, run, ahead }, passed_over })
}

fn parse_pasted_options(
    options: &Options,
    from: Option<clock::RequestedTime>,
) -> Result<Pasted, Error> {
    let interval = options.interval.as_deref().map(|text| {
        let seconds = text.strip_suffix('s').unwrap_or(text).trim().parse::<f64>().ok();
        let sound = seconds.filter(|seconds| (0.01..=86_400.0).contains(seconds));
        sound
            .map(std::time::Duration::from_secs_f64)
            .ok_or_else(|| Error::Interval(text.to_owned()))
    });
    // A time of day alone says no day.
    let began = from.filter(|from| !matches!(from, clock::RequestedTime::OfLastDay(_)));
    Ok(Pasted {
        interval: interval.transpose()?,
        began: began.and_then(|from| from.to_moment(None, Moment(0))),
    })
}

/// Leaves out hosts beyond those that are told of, first those that nobody asked for.
fn leave_out_hosts(hosts: &mut Vec<GatheredHost>, asked: &[String]) -> Option<InvestigatedSource> {
    let more = hosts.len().checked_sub(MOST_HOSTS).filter(|more| *more > 0)?;
    let is_asked = |host: &GatheredHost| {
        let name = host.name.as_deref().unwrap_or_default();
        asked.iter().any(|asked| is_named(name, asked))
    };
    if !asked.is_empty() {
        hosts.sort_by_key(|host| !is_asked(host));
    }
    let left_out = hosts.split_off(MOST_HOSTS);
    let first = left_out.iter().find_map(|host| host.pieces.first());
    let path = first.map_or_else(String::new, |placed| placed.piece.hull.source.clone());
    let hosts = if more == 1 { "1 host is" } else { "hosts are" };
    let count = if more == 1 { String::new() } else { format!("{more} ") };
    Some(refused_source(
        path,
        format!(
            "{count}{hosts} left out, this one first: more than {MOST_HOSTS} in one run; give \
             fewer files at a time, or --host NAME"
        ),
    ))
}

#[derive(Default)]
struct GatherState {
    jobs: Vec<ReadJob>,
    sources: Vec<InvestigatedSource>,
    pieces: Vec<SeriesPiece>,
    setups: Vec<(String, Setup)>,
    passed: PassedFiles,
    /// Jobs that found parts of PCP's archives.
    parts: Vec<usize>,
    /// Files with samples or problems so far.
    files: usize,
    /// Files beyond those of a run, and entries beyond those of a tar.
    too_many: LeftOut,
    too_small: LeftOut,
    pcp_left_out: LeftOut,
    /// Bytes of the rows that are kept.
    kept: usize,
}

impl GatherState {
    /// Whoever puts a few files into a folder means them as if they named each.
    fn read_as_meant(
        places: Places,
        run: &mut RunReading,
        progress: &(dyn Fn(InvestigationProgress) + Sync),
    ) -> Self {
        let few = (places.jobs.len() <= FEW_FILES).then(|| places.clone());
        let reading = Self::read_places(places, run, progress);
        let Some(places) = few.filter(|_| reading.pieces.is_empty() && reading.setups.is_empty())
        else {
            return reading;
        };
        run.as_named = true;
        let again = Self::read_places(places, run, progress);
        if again.pieces.is_empty() { reading } else { again }
    }

    fn read_places(
        places: Places,
        run: &RunReading,
        progress: &(dyn Fn(InvestigationProgress) + Sync),
    ) -> Self {
        let Places { jobs, refused: sources, left_out, .. } = places;
        let mut reading = Self { jobs, sources, ..Self::default() };
        reading.read(0, run, progress);
        let first = reading.jobs.len();
        reading.queue_pcp_archives();
        reading.read(first, run, progress);
        reading.describe_left_out(&left_out);
        reading
    }

    fn read(
        &mut self,
        first: usize,
        run: &RunReading,
        progress: &(dyn Fn(InvestigationProgress) + Sync),
    ) {
        let jobs = std::mem::take(&mut self.jobs);
        let state = Mutex::new((&mut *self, Vec::new()));
        reading::read_jobs(&jobs, first, run, progress, &|mut found| {
            let mut pieces = take_pieces(&mut found, &jobs);
            let mut state = lock_ignoring_poison(&state);
            let (state, all) = &mut *state;
            if let Some(found) = state.count_file(found, pieces.len(), &jobs) {
                pieces.iter_mut().for_each(|piece| state.keep_rows(piece));
                all.push((found, pieces));
            }
        });
        let (_, mut all) = state.into_inner().unwrap_or_else(PoisonError::into_inner);
        all.sort_by(|(one, _), (other, _)| (one.job, &one.entry).cmp(&(other.job, &other.entry)));
        self.jobs = jobs;
        for (found, pieces) in all {
            self.pieces.extend(pieces);
            self.add_file_outcome(found);
        }
    }

    /// Counts a file; gives it back if more is to be told of it, and there is room.
    fn count_file(
        &mut self,
        found: FileOutcome,
        pieces: usize,
        jobs: &[ReadJob],
    ) -> Option<FileOutcome> {
        let worth = match found.what {
            FileContents::Series(_) => pieces,
            FileContents::Refused(_) => 1,
            FileContents::Host(_) => HOST_WORTH,
            FileContents::Pcp if found.entry.is_empty() => return Some(found),
            FileContents::Packed => {
                self.passed.packed.add(enclosing_place(&found, jobs), 1);
                return None;
            }
            FileContents::Pcp | FileContents::Unknown => {
                self.passed.unknown.add(enclosing_place(&found, jobs), 1);
                return None;
            }
            FileContents::LeftOut(count) => {
                self.too_small.add(found.label, count);
                return None;
            }
        };
        let files = self.files.saturating_add(budget::worth_of_file(&found.label, worth));
        if files > MOST_FILES {
            self.too_many.add(enclosing_place(&found, jobs), 1);
            return None;
        }
        self.files = files;
        Some(found)
    }

    /// Rows of a file too many are dropped as soon as they come.
    fn keep_rows(&mut self, piece: &mut SeriesPiece) {
        let Some(series) = &piece.kept else { return };
        let kept =
            self.kept.saturating_add(piece.weight).saturating_add(series.estimate_overhead());
        if kept > MOST_KEPT {
            piece.kept = None;
        } else {
            self.kept = kept;
        }
    }

    fn describe_left_out(&mut self, found: &LeftOut) {
        let told = [
            found.describe_files(&format!("more than {MOST_FOUND} files")),
            self.too_many.describe_files(&format!(
                "more than {MOST_FILES} files with samples in one run, long names counting more"
            )),
            self.too_small.describe_files("it holds far more files than one of its size can"),
            self.pcp_left_out.describe_files(&format!("more than {MOST_PCP} PCP archives")),
        ];
        self.sources
            .extend(told.into_iter().flatten().map(|(path, why)| refused_source(path, why)));
    }

    fn add_file_outcome(&mut self, found: FileOutcome) {
        match found.what {
            FileContents::Refused(why) => self.sources.push(refused_source(found.label, why)),
            FileContents::Host(setup) => {
                self.setups.push((found.root.unwrap_or(found.label), *setup))
            }
            FileContents::Pcp => self.parts.push(found.job),
            FileContents::Series(_)
            | FileContents::Packed
            | FileContents::Unknown
            | FileContents::LeftOut(_) => {}
        }
    }

    fn queue_pcp_archives(&mut self) {
        let mut seen: BTreeSet<PathBuf> = BTreeSet::new();
        let parts = std::mem::take(&mut self.parts);
        let files = reading::PcpFiles::new(&self.jobs, &parts);
        for part in parts {
            let Some(job) = self.jobs.get(part).cloned() else { continue };
            match files.find_archive(&job) {
                Ok((archive, base)) if seen.len() >= MOST_PCP && !seen.contains(&base) => {
                    self.pcp_left_out.add(archive.label, 1);
                }
                Ok((archive, base)) => {
                    if seen.insert(base) {
                        let at = Where::Pcp(Box::new(archive));
                        self.jobs.push(ReadJob { at, named: true, ..job });
                    }
                }
                Err(why) => self.sources.push(refused_source(job.label(), why.to_string())),
            }
        }
    }
}

/// The folder or tar that a file is in.
fn enclosing_place(found: &FileOutcome, jobs: &[ReadJob]) -> String {
    let label = jobs.get(found.job).map_or_else(String::new, ReadJob::label);
    if !found.entry.is_empty() {
        return label;
    }
    match label.rsplit_once('/') {
        Some((folder, _)) if !folder.is_empty() => folder.to_owned(),
        _ => ".".to_owned(),
    }
}

fn lock_ignoring_poison<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn take_pieces(found: &mut FileOutcome, jobs: &[ReadJob]) -> Vec<SeriesPiece> {
    let FileContents::Series(all) = &mut found.what else { return Vec::new() };
    let all = std::mem::take(all);
    let job = jobs.get(found.job);
    let piece = |(nth, series): (usize, Series)| SeriesPiece {
        key: (found.job, found.entry.clone(), nth),
        folders: job.map_or_else(Vec::new, |job| folders::enclosing_folders(job, &found.entry)),
        // Files given by name stand side by side.
        group: job.filter(|job| !job.named || !found.entry.is_empty()).map(|job| job.given),
        root: found.root.clone(),
        span: series.span(),
        samples: if series.format.is_log() {
            series.events().count()
        } else {
            series.samples().len()
        },
        weight: series.estimate_bytes(),
        hull: Box::new(series.clone_metadata()),
        year: None,
        kept: Some(Box::new(series)),
    };
    all.into_iter().enumerate().map(piece).collect()
}

impl SourceFiles {
    pub(crate) fn reread_rows(&self, wanted: &[&PlacedPiece]) -> Vec<(usize, Series)> {
        // By the job, and by its entry and place there.
        let mut jobs: BTreeMap<usize, BTreeMap<(String, usize), usize>> = BTreeMap::new();
        for (place, placed) in wanted.iter().enumerate() {
            let (job, entry, nth) = &placed.piece.key;
            jobs.entry(*job).or_default().insert((entry.clone(), *nth), place);
        }
        let mut read = Vec::new();
        for (at, wanted) in jobs {
            self.ahead.take_rows(at, &wanted, &mut read, &|entries| self.read_entries(at, entries));
        }
        // What has gone or changed meanwhile is missing.
        read.sort_by_key(|(place, _)| *place);
        read
    }

    fn read_entries(
        &self,
        at: usize,
        entries: &BTreeSet<String>,
    ) -> Vec<((String, usize), Series)> {
        let Some(job) = self.jobs.get(at) else { return Vec::new() };
        let found = Mutex::new(Vec::new());
        reading::read_job(at, job, Some(entries), &self.run, &|one| {
            let FileContents::Series(all) = one.what else { return };
            let rows = all.into_iter().enumerate();
            lock_ignoring_poison(&found)
                .extend(rows.map(|(nth, series)| ((one.entry.clone(), nth), series)));
        });
        found.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

fn resolve_time_bounds(
    hosts: &[GatheredHost],
    from: Option<clock::RequestedTime>,
    to: Option<clock::RequestedTime>,
) -> Result<Vec<TimeBounds>, Error> {
    fn utc_offsets(host: &GatheredHost) -> Option<&[crate::series::Offset]> {
        match &host.clock {
            Clock::Utc { offsets } => Some(offsets),
            Clock::Wall { .. } => None,
        }
    }
    let last = |host: &GatheredHost| {
        let last = host.pieces.iter().filter_map(|placed| Some(placed.span?.1)).max()?;
        Some(utc_offsets(host).map_or(last, |offsets| clock::utc_to_wall(offsets, last)))
    };
    let last = hosts.iter().filter_map(last).max().unwrap_or_default();
    let moment_of = |host: &GatheredHost, given: Option<clock::RequestedTime>| {
        let Some(given) = given else { return Ok(None) };
        given.to_moment(utc_offsets(host), last).map(Some).ok_or(Error::NoClock)
    };
    let all = hosts.iter().map(|host| {
        // When a log without a date was written nobody knows: it is told of as a whole.
        if host.pieces.iter().all(|placed| placed.piece.hull.unplaced.is_some()) {
            return Ok(TimeBounds::default());
        }
        let bounds = TimeBounds { from: moment_of(host, from)?, to: moment_of(host, to)? };
        if bounds.from.zip(bounds.to).is_some_and(|(from, to)| from >= to) {
            return Err(Error::Backwards);
        }
        Ok(bounds)
    });
    all.collect()
}

fn check_bounds_match(hosts: &[GatheredHost], bounds: &[TimeBounds]) -> Result<(), Error> {
    let left = |(host, bounds): (&GatheredHost, &TimeBounds)| {
        host.pieces.iter().filter_map(|placed| placed.span).any(|(first, last)| {
            bounds.from.is_none_or(|from| last >= from) && bounds.to.is_none_or(|to| first <= to)
        })
    };
    let any = bounds.iter().any(|bounds| bounds.from.is_some() || bounds.to.is_some());
    if !any || hosts.iter().zip(bounds).any(left) {
        return Ok(());
    }
    let spans = || {
        hosts.iter().flat_map(|host| {
            host.pieces.iter().filter_map(move |placed| Some((host, placed.span?)))
        })
    };
    let first =
        spans().min_by_key(|(_, span)| span.0).map(|(host, span)| host.clock.format(span.0));
    let last = spans().max_by_key(|(_, span)| span.1).map(|(host, span)| host.clock.format(span.1));
    Err(match first.zip(last) {
        Some((first, last)) => Error::Outside(first, last),
        None => Error::NoSample,
    })
}

fn describe_source(host: &GatheredHost, placed: &PlacedPiece) -> InvestigatedSource {
    let hull = &placed.piece.hull;
    let mut problems: Vec<String> = hull.problems.iter().map(ToString::to_string).collect();
    if let Some(original) = &placed.copy_of {
        problems.push(format!("is a printout of {original}, which is read instead"));
    }
    if placed.span.is_none() {
        problems.push("holds no sample".into());
    }
    InvestigatedSource {
        path: hull.source.clone(),
        format: Some(hull.format),
        version: hull.version.clone(),
        host: host.name.clone(),
        clock: host.clock.clone(),
        from: placed.span.map(|span| span.0),
        to: placed.span.map(|span| span.1),
        samples: placed.piece.samples,
        problems,
    }
}

fn sort_sources(
    mut sources: Vec<InvestigatedSource>,
    paths: &[PathBuf],
) -> Vec<InvestigatedSource> {
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for (place, path) in paths.iter().enumerate() {
        let path = path.display().to_string();
        places.entry(path.trim_end_matches('/').to_owned()).or_insert(place);
    }
    // The first given path that it is, or lies in; behind a colon comes what is in a tar.
    let place = |path: &str| {
        let ends = path.match_indices(['/', ':']).map(|(at, _)| at).chain([path.len()]);
        let within = ends.filter_map(|end| places.get(path.get(..end)?)).min();
        within.copied().unwrap_or(usize::MAX)
    };
    sources.sort_by_cached_key(|source| (place(&source.path), source.path.clone(), source.from));
    sources
}

fn explain_nothing_found(
    sources: &[InvestigatedSource],
    paths: &[PathBuf],
    usual: bool,
    captured: Option<&str>,
) -> String {
    if let Some(captured) = captured {
        return format!(
            "{captured} is a captured host without a collector's archive; run hugewise check \
                 --root {captured}"
        );
    }
    if let [only] = sources {
        return format!("{}: {}", only.path, only.problems.join("; "));
    }
    if let Some(first) = sources.first() {
        let more = sources.len() - 1;
        return format!(
            "nothing could be read: {}: {}; and {more} more",
            first.path,
            first.problems.join("; ")
        );
    }
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let where_else = if usual { ". Name a file, a folder, a tar or a sosreport" } else { "" };
    format!("there is no collector's archive in {}{where_else}", paths.join(", "))
}

fn describe_packed_files(packed: &LeftOut) -> impl Iterator<Item = String> {
    let elsewhere = packed.count_elsewhere();
    let elsewhere = (elsewhere > 0).then_some(("further folders", elsewhere));
    packed.places().chain(elsewhere).map(|(folder, packed)| {
        let files = if packed == 1 { "1 file".to_owned() } else { format!("{packed} files") };
        let be = if packed == 1 { "is" } else { "are each" };
        format!(
            "{files} in {folder} {be} a zip with several files, a password or an unsupported \
                 method: unpack it first"
        )
    })
}

fn describe_passed_over(passed: &PassedFiles) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some((place, others)) = passed.unknown.find_fullest_place() {
        let all = passed.unknown.count_files();
        let (files, be) = if all == 1 { ("file", "is") } else { ("files", "are") };
        lines.push(format!("{all} {files} in {place}{others} {be} in no known format"));
    }
    lines.extend(describe_packed_files(&passed.packed));
    lines
}
