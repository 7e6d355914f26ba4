//! What is at the paths: files to read, captured hosts, and what is passed over.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hugewise_host::source::files::{self, OpenFolder, OpenedPath};

use super::budget::{LeftOut, MOST_FOUND};
use crate::verdict::InvestigatedSource;

/// A folder that was given, opened once.
#[derive(Debug)]
pub(crate) struct GivenFolder {
    pub(crate) opened: Arc<OpenFolder>,
    path: PathBuf,
}

impl GivenFolder {
    /// What a path below it is called.
    pub(crate) fn describe_path(&self, inner: &Path) -> String {
        let is_itself = inner.as_os_str().is_empty();
        let whole = if is_itself { self.path.clone() } else { self.path.join(inner) };
        whole.display().to_string()
    }
}

/// The parts of a PCP archive, below a folder.
#[derive(Clone, Debug)]
pub(crate) struct PcpLocation {
    pub(crate) folder: Arc<OpenFolder>,
    pub(crate) parts: Vec<PathBuf>,
    pub(crate) label: String,
}

#[derive(Clone, Debug)]
pub(crate) enum Where {
    /// A path that was given.
    Given(PathBuf),
    /// A file below a folder.
    Below(Arc<GivenFolder>, PathBuf),
    Pcp(Box<PcpLocation>),
    /// A captured host, as a folder.
    Host(Arc<GivenFolder>, PathBuf),
}

/// Something to read. There may be hundreds of thousands: what can be had otherwise is not in it.
#[derive(Clone, Debug)]
pub(crate) struct ReadJob {
    pub(crate) at: Where,
    /// Which of the paths it is of.
    pub(crate) given: usize,
    pub(crate) root: Option<Arc<str>>,
    /// Whether it was given itself, not found in a folder.
    pub(crate) named: bool,
    /// Bytes; large files are begun first.
    pub(crate) size: u64,
}

impl ReadJob {
    const fn new(at: Where, given: usize) -> Self {
        Self { at, given, root: None, named: false, size: 0 }
    }

    pub(crate) fn label(&self) -> String {
        match &self.at {
            Where::Given(path) => path.display().to_string(),
            Where::Below(folder, inner) | Where::Host(folder, inner) => folder.describe_path(inner),
            Where::Pcp(archive) => archive.label.clone(),
        }
    }

    pub(crate) fn root_name(&self) -> Option<String> {
        self.root.as_ref().map(ToString::to_string)
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    pub(crate) jobs: Vec<ReadJob>,
    pub(crate) refused: Vec<InvestigatedSource>,
    /// What in each given folder is not followed and not opened.
    pub(crate) passed_over: Vec<String>,
    /// Files beyond those that are read.
    pub(crate) left_out: LeftOut,
}

pub(crate) fn find_jobs(paths: &[PathBuf]) -> Places {
    let mut places = Places::default();
    let mut seen: BTreeSet<(u64, u64)> = BTreeSet::new();
    for (given, path) in paths.iter().enumerate() {
        match files::open_path(path) {
            Err(error) => {
                let label = path.display().to_string();
                places.refused.push(refused_source(label, format!("cannot be read: {error}")))
            }
            Ok(OpenedPath::File(_, entry)) => {
                if seen.insert(entry.identity) {
                    let at = Where::Given(path.clone());
                    places.jobs.push(ReadJob {
                        named: true,
                        size: entry.size,
                        ..ReadJob::new(at, given)
                    });
                }
            }
            Ok(OpenedPath::Folder(opened)) => {
                let folder = GivenFolder { opened: Arc::new(opened), path: path.clone() };
                queue_folder_jobs(&Arc::new(folder), given, &mut seen, &mut places)
            }
        }
    }
    places.jobs.shrink_to_fit();
    places
}

pub(super) fn refused_source(path: String, why: String) -> InvestigatedSource {
    InvestigatedSource { path, problems: vec![why], ..InvestigatedSource::default() }
}

fn queue_folder_jobs(
    folder: &Arc<GivenFolder>,
    given: usize,
    seen: &mut BTreeSet<(u64, u64)>,
    places: &mut Places,
) {
    // As many as are read in all, so that what is left out is counted and not kept.
    let walk = folder.opened.walk_up_to(MOST_FOUND);
    let label = |inner: &Path| folder.describe_path(inner);
    for (inner, why) in walk.problems {
        places.refused.push(refused_source(label(&inner), why));
    }
    if walk.links > 0 {
        let links = if walk.links == 1 { "link" } else { "links" };
        let be = if walk.links == 1 { "is" } else { "are" };
        let whole = label(Path::new(""));
        places.passed_over.push(format!("{} {links} in {whole} {be} not followed", walk.links));
    }
    let special = [&walk.special, &walk.special_in_hosts];
    places.passed_over.extend(special.into_iter().filter_map(|special| special.describe(label)));
    let mut roots: BTreeMap<&Path, Arc<str>> = BTreeMap::new();
    for host in &walk.hosts {
        let at = Where::Host(Arc::clone(folder), host.clone());
        let root: Arc<str> = label(host).into();
        roots.insert(host, Arc::clone(&root));
        places.jobs.push(ReadJob { root: Some(root), ..ReadJob::new(at, given) });
    }
    for entry in walk.files {
        if places.jobs.len() >= MOST_FOUND {
            places.left_out.add(label(Path::new("")), 1);
            continue;
        }
        if !seen.insert(entry.identity) {
            continue;
        }
        let root = entry.path.ancestors().find_map(|within| roots.get(within)).cloned();
        let mut path = entry.path;
        path.shrink_to_fit();
        let at = Where::Below(Arc::clone(folder), path);
        places.jobs.push(ReadJob { root, size: entry.size, ..ReadJob::new(at, given) });
    }
}
