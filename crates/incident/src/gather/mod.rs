//! What is given or found, up to one history a host: files, folders, tars, captures and sosreports.

mod ahead;
pub(crate) mod clock;
mod folders;
pub(crate) mod hosts;
mod offset;
mod places;
mod reading;
mod scratch;
mod setup;
mod usual;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use self::hosts::{Bounds, Machine, Piece, Placed};
use self::places::Job;
use self::reading::{Found, What};
use self::scratch::Scratch;
use self::setup::Setup;
use crate::asked::{Error, Options, Progress};
use crate::readers::Pasted;
use crate::verdict::Source;
use crate::{Clock, Moment, Series};

/// Rows that are kept when files are read, in bytes; those of files beyond are read anew when they are looked at.
const MOST_KEPT: usize = 96 << 20;

/// All that was gathered.
pub(crate) struct Gathered {
    pub(crate) sources: Vec<Source>,
    /// Hosts, and what is looked at of each.
    pub(crate) hosts: Vec<(Machine, Bounds)>,
    /// Where rows come from that were not kept.
    pub(crate) files: Files,
    pub(crate) passed_over: Vec<String>,
}

/// The files that were found, for whoever needs their rows once more.
pub(crate) struct Files {
    jobs: Vec<Job>,
    scratch: Scratch,
}

/// Files in one folder or tar that are of nobody.
#[derive(Clone, Copy, Debug, Default)]
struct Passed {
    unknown: usize,
    packed: usize,
}

/// Reads everything, and sorts it by hosts; what nothing is `judged` by may be left out.
pub(crate) fn gather(
    paths: &[PathBuf],
    options: &Options,
    judged: bool,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Gathered, Error> {
    let zone = options.zone.as_deref().map(clock::zone).transpose()?;
    let given = |text: &Option<String>, end| text.as_deref().map(|text| clock::Given::parse(text, end)).transpose();
    let (from, to) = (given(&options.from, false)?, given(&options.to, true)?);
    let offsets = offset::given(&options.offsets)?;
    let found = if paths.is_empty() { usual::found() } else { paths.to_vec() };
    if found.is_empty() {
        return Err(Error::NoArchives(usual::places()));
    }
    let mut places = places::find(&found);
    let mut pasted = pasted(options, from)?;
    pasted.alone = places.jobs.len() == 1;
    places.jobs.iter_mut().for_each(|job| (job.pasted, job.judged) = (pasted, judged));
    let scratch = Scratch::default();
    let mut reading = Reading { jobs: places.jobs, sources: places.refused, ..Reading::default() };
    reading.read(0, &scratch, progress);
    let first = reading.jobs.len();
    reading.pcp(&mut Vec::new());
    reading.read(first, &scratch, progress);
    let Reading { jobs, mut sources, pieces, setups, passed, .. } = reading;

    let mut hosts = hosts::sort(pieces, setups, zone.as_ref());
    offset::set(&mut hosts, &offsets)?;
    let bounds = bounds(&hosts, from, to)?;
    sources.extend(hosts.iter().flat_map(|host| host.pieces.iter().map(|placed| source(host, placed))));
    let sources = in_order(sources, &jobs, &found);
    if sources.iter().all(|source| source.from.is_none()) {
        let captured = hosts.iter().find_map(|host| Some(host.facts.as_ref()?.source.as_str()));
        let mut why = nothing(&sources, &found, paths.is_empty(), captured);
        for packed in packed(&passed) {
            why.push_str(&format!("; {packed}"));
        }
        return Err(Error::Nothing(why));
    }
    within(&hosts, &bounds)?;
    // A collector that ran without a sample is a source, and no host's history.
    hosts.retain(|host| host.facts.is_some() || host.pieces.iter().any(|placed| placed.span.is_some()));
    let hosts = hosts.into_iter().zip(bounds).collect();
    let passed_over = passed_over(&passed, &places.links);
    Ok(Gathered { sources, hosts, files: Files { jobs, scratch }, passed_over })
}

/// What is said of text that says no time itself.
fn pasted(options: &Options, from: Option<clock::Given>) -> Result<Pasted, Error> {
    let interval = options.interval.as_deref().map(|text| {
        let seconds = text.strip_suffix('s').unwrap_or(text).trim().parse::<f64>().ok();
        let sound = seconds.filter(|seconds| (0.01..=86_400.0).contains(seconds));
        sound.map(std::time::Duration::from_secs_f64).ok_or_else(|| Error::Interval(text.to_owned()))
    });
    // A time of day alone says no day.
    let began = from.filter(|from| !matches!(from, clock::Given::OfLastDay(_)));
    Ok(Pasted {
        interval: interval.transpose()?,
        began: began.and_then(|from| from.moment(None, Moment(0))),
        alone: false,
    })
}

/// What came of the files.
#[derive(Default)]
struct Reading {
    jobs: Vec<Job>,
    sources: Vec<Source>,
    pieces: Vec<Piece>,
    setups: Vec<(String, Setup)>,
    passed: BTreeMap<String, Passed>,
    /// Parts of PCP's archives, by the job that found them.
    parts: Vec<usize>,
}

impl Reading {
    /// Reads the jobs from one on.
    fn read(&mut self, first: usize, scratch: &Scratch, progress: &(dyn Fn(Progress) + Sync)) {
        let jobs: Vec<(usize, &Job, Option<BTreeSet<String>>)> =
            self.jobs.iter().enumerate().skip(first).map(|(at, job)| (at, job, None)).collect();
        // Rows of one file too many are dropped as soon as they come.
        let kept = Mutex::new((0_usize, Vec::new()));
        reading::all(&jobs, scratch, progress, &|found: Found| {
            let pieces = match &found.what {
                What::Series(_) => Vec::new(),
                _ => return lock(&kept).1.push((found, Vec::new())),
            };
            let (found, pieces) = cut_up(found, pieces, &self.jobs);
            let mut kept = lock(&kept);
            let pieces = pieces.into_iter().map(|mut piece| {
                if kept.0.saturating_add(piece.weight) > MOST_KEPT {
                    piece.kept = None;
                } else {
                    kept.0 += piece.weight;
                }
                piece
            });
            let pieces: Vec<Piece> = pieces.collect();
            kept.1.push((found, pieces));
        });
        let (_, mut all) = kept.into_inner().unwrap_or_else(PoisonError::into_inner);
        all.sort_by(|(one, _), (other, _)| (one.job, &one.entry).cmp(&(other.job, &other.entry)));
        for (found, pieces) in all {
            self.pieces.extend(pieces);
            self.take(found);
        }
    }

    fn take(&mut self, found: Found) {
        let Some(job) = self.jobs.get(found.job) else { return };
        // Files are counted by what they were found in.
        let within = if found.entry.is_empty() {
            let folder = job.label.rsplit_once('/').map_or("", |(folder, _)| folder);
            if folder.is_empty() { ".".to_owned() } else { folder.to_owned() }
        } else {
            job.label.clone()
        };
        let refused =
            |why: String| Source { path: found.label.clone(), problems: vec![why.to_string()], ..Source::default() };
        match found.what {
            What::Series(_) => {}
            What::Refused(why) => self.sources.push(refused(why)),
            What::Host(setup) => self.setups.push((found.root.unwrap_or(found.label), *setup)),
            What::Pcp if found.entry.is_empty() => self.parts.push(found.job),
            What::Packed => self.passed.entry(within).or_default().packed += 1,
            What::Pcp | What::Unknown => self.passed.entry(within).or_default().unknown += 1,
        }
    }

    /// Jobs for the archives of PCP whose parts were found.
    fn pcp(&mut self, seen: &mut Vec<PathBuf>) {
        for part in std::mem::take(&mut self.parts) {
            let Some(job) = self.jobs.get(part).cloned() else { continue };
            match reading::pcp_base(&job, &self.jobs) {
                Ok((at, base, label)) if !seen.contains(&base) => {
                    seen.push(base);
                    self.jobs.push(Job { at, label, named: true, ..job });
                }
                Ok(_) => {}
                Err(why) => {
                    let refused = Source { path: job.label, problems: vec![why.to_string()], ..Source::default() };
                    self.sources.push(refused);
                }
            }
        }
    }
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file's series as pieces.
fn cut_up(mut found: Found, mut pieces: Vec<Piece>, jobs: &[Job]) -> (Found, Vec<Piece>) {
    let What::Series(all) = std::mem::replace(&mut found.what, What::Series(Vec::new())) else {
        return (found, pieces);
    };
    let job = jobs.get(found.job);
    for (nth, series) in all.into_iter().enumerate() {
        pieces.push(Piece {
            key: (found.job, found.entry.clone(), nth),
            folders: job.map_or_else(Vec::new, |job| folders::of(job, &found.entry)),
            // Those given themselves stand beside one another.
            group: job.filter(|job| !job.named || !found.entry.is_empty()).map(|job| job.given),
            root: found.root.clone(),
            span: series.span(),
            samples: if series.format.is_log() { series.events().count() } else { series.samples().len() },
            weight: series.weight(),
            hull: series.hull(),
            year: None,
            kept: Some(series),
        });
    }
    (found, pieces)
}

impl Files {
    /// Reads the rows of pieces again, each with its place in the list.
    pub(crate) fn again(&self, wanted: &[&Placed]) -> Vec<(usize, Series)> {
        let Self { jobs, scratch } = self;
        let mut entries: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
        for placed in wanted {
            let (job, entry, _) = &placed.piece.key;
            entries.entry(*job).or_default().insert(entry.clone());
        }
        let mut read = Vec::new();
        for (at, entries) in entries {
            let Some(job) = jobs.get(at) else { continue };
            let only = Some(entries);
            let found = Mutex::new(Vec::new());
            reading::one(at, job, only.as_ref(), scratch, &|one| lock(&found).push(one));
            for one in found.into_inner().unwrap_or_else(PoisonError::into_inner) {
                let What::Series(all) = one.what else { continue };
                for (nth, series) in all.into_iter().enumerate() {
                    let key = (at, one.entry.clone(), nth);
                    if let Some(place) = wanted.iter().position(|placed| placed.piece.key == key) {
                        read.push((place, series));
                    }
                }
            }
        }
        // One that has gone or changed meanwhile is not there; the others are in the order asked for.
        read.sort_by_key(|(place, _)| *place);
        read
    }
}

/// What is looked at of each host.
fn bounds(hosts: &[Machine], from: Option<clock::Given>, to: Option<clock::Given>) -> Result<Vec<Bounds>, Error> {
    fn offsets(host: &Machine) -> Option<&[crate::series::Offset]> {
        match &host.clock {
            Clock::Utc { offsets } => Some(offsets),
            Clock::Wall { .. } => None,
        }
    }
    let last = |host: &Machine| {
        let last = host.pieces.iter().filter_map(|placed| Some(placed.span?.1)).max()?;
        Some(offsets(host).map_or(last, |offsets| clock::wall(offsets, last)))
    };
    let last = hosts.iter().filter_map(last).max().unwrap_or_default();
    let of = |host: &Machine, given: Option<clock::Given>| {
        let Some(given) = given else { return Ok(None) };
        given.moment(offsets(host), last).map(Some).ok_or(Error::NoClock)
    };
    let all = hosts.iter().map(|host| {
        let bounds = Bounds { from: of(host, from)?, to: of(host, to)? };
        if bounds.from.zip(bounds.to).is_some_and(|(from, to)| from >= to) {
            return Err(Error::Backwards);
        }
        Ok(bounds)
    });
    all.collect()
}

/// That anything is left within the bounds.
fn within(hosts: &[Machine], bounds: &[Bounds]) -> Result<(), Error> {
    let left = |(host, bounds): (&Machine, &Bounds)| {
        host.pieces
            .iter()
            .filter_map(|placed| placed.span)
            .any(|(first, last)| bounds.from.is_none_or(|from| last >= from) && bounds.to.is_none_or(|to| first <= to))
    };
    let any = bounds.iter().any(|bounds| bounds.from.is_some() || bounds.to.is_some());
    if !any || hosts.iter().zip(bounds).any(left) {
        return Ok(());
    }
    let spans =
        || hosts.iter().flat_map(|host| host.pieces.iter().filter_map(move |placed| Some((host, placed.span?))));
    let first = spans().min_by_key(|(_, span)| span.0).map(|(host, span)| clock::shown(span.0, &host.clock));
    let last = spans().max_by_key(|(_, span)| span.1).map(|(host, span)| clock::shown(span.1, &host.clock));
    Err(match first.zip(last) {
        Some((first, last)) => Error::Outside(first, last),
        None => Error::NoSample,
    })
}

/// One source as it is told.
fn source(host: &Machine, placed: &Placed) -> Source {
    let hull = &placed.piece.hull;
    let mut problems: Vec<String> = hull.problems.iter().map(ToString::to_string).collect();
    if let Some(original) = &placed.copy_of {
        problems.push(format!("is a printout of {original}, which is read instead"));
    }
    if placed.span.is_none() {
        problems.push("holds no sample".into());
    }
    Source {
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

/// Sources in the order given or found.
fn in_order(mut sources: Vec<Source>, jobs: &[Job], paths: &[PathBuf]) -> Vec<Source> {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for job in jobs {
        places.entry(job.label.as_str()).or_insert(job.given);
    }
    let given: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let place = |path: &str| {
        let of_job = places.get(path).copied();
        let starts = || given.iter().position(|given| path.starts_with(given.as_str()));
        of_job.or_else(starts).unwrap_or(usize::MAX)
    };
    sources.sort_by_cached_key(|source| (place(&source.path), source.path.clone(), source.from));
    sources
}

/// Why nothing came of it.
fn nothing(sources: &[Source], paths: &[PathBuf], usual: bool, captured: Option<&str>) -> String {
    if let Some(captured) = captured {
        return format!(
            "{captured} is a captured host without a collector's archive; run hugewise check --root {captured}"
        );
    }
    if let [only] = sources {
        return format!("{}: {}", only.path, only.problems.join("; "));
    }
    if let Some(first) = sources.first() {
        let more = sources.len() - 1;
        return format!("nothing could be read: {}: {}; and {more} more", first.path, first.problems.join("; "));
    }
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let where_else = if usual { ". Name a file, a folder, a tar or a sosreport" } else { "" };
    format!("there is no collector's archive in {}{where_else}", paths.join(", "))
}

/// Files that are packed in ways that are not unpacked here.
fn packed(passed: &BTreeMap<String, Passed>) -> impl Iterator<Item = String> {
    let packed = passed.iter().map(|(folder, passed)| (folder, passed.packed)).filter(|(_, packed)| *packed > 0);
    packed.map(|(folder, packed)| {
        let files = if packed == 1 { "1 file".to_owned() } else { format!("{packed} files") };
        let be = if packed == 1 { "is" } else { "are each" };
        format!(
            "{files} in {folder} {be} a zip with several files, a password or an unsupported method: unpack it first"
        )
    })
}

fn passed_over(passed: &BTreeMap<String, Passed>, links: &BTreeMap<String, usize>) -> Vec<String> {
    let mut lines = Vec::new();
    let files = |count: usize| format!("{count} {}", if count == 1 { "file" } else { "files" });
    let be = |count: usize| if count == 1 { "is" } else { "are" };
    let unknown: usize = passed.values().map(|passed| passed.unknown).sum();
    if unknown > 0 {
        let most = passed.iter().max_by_key(|(_, passed)| passed.unknown).map(|(folder, _)| folder.as_str());
        let others = passed.values().filter(|passed| passed.unknown > 0).count() - 1;
        let and = match others {
            0 => String::new(),
            1 => " and another place".into(),
            _ => format!(" and {others} other places"),
        };
        lines.push(format!(
            "{} in {}{and} {} in no known format",
            files(unknown),
            most.unwrap_or_default(),
            be(unknown)
        ));
    }
    lines.extend(packed(passed));
    for (folder, count) in links {
        let links = if *count == 1 { "link" } else { "links" };
        lines.push(format!("{count} {links} in {folder} {} not followed", be(*count)));
    }
    lines
}
