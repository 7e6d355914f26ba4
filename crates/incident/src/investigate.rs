//! From paths to what happened: gathered, looked through for signatures, joined into incidents.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

pub use crate::asked::{Error, Options, Progress};
use crate::gather::hosts::{Bounds, Machine};
use crate::gather::{self, Gathered};
use crate::rank::{Stories, is_named};
use crate::windows::{self, Rows};
use crate::{Format, History, Investigation, Source, elsewhere, join};

/// Hosts that are named where one is asked for that is not there.
const NAMED: usize = 8;

/// Reads what is at the paths (files, folders, tars, sosreports; where collectors of this host usually write, without
/// any), and tells what happened.
///
/// # Errors
/// A time or zone that makes no sense; nothing that could be read.
pub fn investigate(
    paths: &[PathBuf],
    options: &Options,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Investigation, Error> {
    investigated(gather::gather(paths, options, true, progress)?, &options.hosts, None)
}

/// The same, and hands on all rows on the way, a host's in the order of time: the investigation keeps a part of them where
/// they do not fit in memory.
///
/// # Errors
/// As [`investigate`].
pub fn with_rows(
    paths: &[PathBuf],
    options: &Options,
    progress: &(dyn Fn(Progress) + Sync),
    rows: &Mutex<Rows<'_>>,
) -> Result<Investigation, Error> {
    investigated(gather::gather(paths, options, false, progress)?, &options.hosts, Some(rows))
}

/// Names in each row of evidence the file that it is in, where its series is of several.
fn files(host: &mut History, sources: &[Source]) {
    let formats: BTreeMap<String, Format> =
        host.series.iter().map(|series| (series.source.clone(), series.format)).collect();
    let of_host = sources.iter().filter(|source| source.host == host.host && source.clock == host.clock);
    let of_host: Vec<&Source> = of_host.collect();
    let incidents = host.incidents.iter_mut().flat_map(|incident| &mut incident.signatures);
    for row in incidents.chain(&mut host.signatures).flat_map(|signature| &mut signature.evidence) {
        let Some(format) = formats.get(&row.source) else { continue };
        let holds = |source: &&&Source| {
            let within = source.from.zip(source.to).is_some_and(|(from, to)| (from..=to).contains(&row.at));
            source.format == Some(*format) && within
        };
        if let Some(file) = of_host.iter().find(holds) {
            row.source.clone_from(&file.path);
        }
    }
}

fn investigated(gathered: Gathered, asked: &[String], rows: Option<&Mutex<Rows<'_>>>) -> Result<Investigation, Error> {
    let Gathered { sources, hosts, files: read, passed_over } = gathered;
    there(&hosts, asked)?;
    let stories = Mutex::new(Stories::of(hosts.len(), asked));
    let whole = |at: usize, mut host: History| {
        if !host.series.is_empty() {
            // What was said of how the sources were put together stays before what they cannot tell.
            let notes = std::mem::take(&mut host.unknown);
            join::incidents(&mut host);
            host.unknown.splice(0..0, notes);
            files(&mut host, &sources);
        }
        stories.lock().unwrap_or_else(PoisonError::into_inner).take(at, host);
    };
    windows::histories(hosts, &|wanted| read.again(wanted), rows, &whole);
    let mut hosts = stories.into_inner().unwrap_or_else(PoisonError::into_inner).done();
    elsewhere::told(&mut hosts);
    Ok(Investigation { sources, hosts, passed_over, unknown: Vec::new() })
}

/// That the hosts which are asked for are there.
fn there(hosts: &[(Machine, Bounds)], asked: &[String]) -> Result<(), Error> {
    let known: Vec<&str> = hosts.iter().filter_map(|(host, _)| host.name.as_deref()).collect();
    let Some(name) = asked.iter().find(|name| !known.iter().any(|host| is_named(host, name))) else { return Ok(()) };
    let mut some: Vec<String> = known.iter().take(NAMED).map(|host| (*host).to_owned()).collect();
    if known.len() > NAMED {
        some.push(format!("and {} more", known.len() - NAMED));
    }
    let found = if some.is_empty() { "none with a name".to_owned() } else { some.join(", ") };
    Err(Error::NotFound(name.clone(), found))
}
