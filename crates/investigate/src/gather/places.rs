//! What is at the paths: files to read, captured hosts, and what is passed over.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hugewise_host::source::files::{self, OpenFolder, OpenedPath};

use super::budget::{LeftOut, MOST_FOUND};
use crate::readers::Pasted;
use crate::verdict::InvestigatedSource;

#[derive(Clone, Debug)]
pub(crate) enum Where {
    /// A path that was given.
    Given(PathBuf),
    /// A file below a folder.
    Below(Arc<OpenFolder>, PathBuf),
    /// The parts of a PCP archive, below a folder.
    Pcp(Arc<OpenFolder>, Vec<PathBuf>),
    /// A captured host, as a folder.
    Host(Arc<OpenFolder>, PathBuf),
}

#[derive(Clone, Debug)]
pub(crate) struct ReadJob {
    pub(crate) at: Where,
    pub(crate) label: String,
    /// Which of the paths it is of.
    pub(crate) given: usize,
    pub(crate) root: Option<String>,
    /// Whether it was given itself, not found in a folder.
    pub(crate) named: bool,
    /// Bytes; large files are begun first.
    pub(crate) size: u64,
    pub(crate) pasted: Pasted,
    /// Whether metrics that are only told may be left out.
    pub(crate) judged: bool,
}

impl ReadJob {
    fn new(at: Where, label: String, given: usize) -> Self {
        let (pasted, judged) = (Pasted::default(), false);
        Self { at, label, given, root: None, named: false, size: 0, pasted, judged }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Places {
    pub(crate) jobs: Vec<ReadJob>,
    pub(crate) refused: Vec<InvestigatedSource>,
    /// Links in each given folder, which are not followed.
    pub(crate) links: BTreeMap<String, usize>,
    /// Files beyond those that are read.
    pub(crate) left_out: LeftOut,
}

pub(crate) fn find_jobs(paths: &[PathBuf]) -> Places {
    let mut places = Places::default();
    let mut seen: BTreeSet<(u64, u64)> = BTreeSet::new();
    for (given, path) in paths.iter().enumerate() {
        let label = path.display().to_string();
        match files::open_path(path) {
            Err(error) => {
                places.refused.push(refused_source(label, format!("cannot be read: {error}")))
            }
            Ok(OpenedPath::File(_, entry)) => {
                if seen.insert(entry.identity) {
                    let at = Where::Given(path.clone());
                    places.jobs.push(ReadJob {
                        named: true,
                        size: entry.size,
                        ..ReadJob::new(at, label, given)
                    });
                }
            }
            Ok(OpenedPath::Folder(below)) => {
                queue_folder_jobs(Arc::new(below), path, given, &mut seen, &mut places)
            }
        }
    }
    places
}

pub(super) fn refused_source(path: String, why: String) -> InvestigatedSource {
    InvestigatedSource { path, problems: vec![why], ..InvestigatedSource::default() }
}

fn queue_folder_jobs(
    below: Arc<OpenFolder>,
    path: &Path,
    given: usize,
    seen: &mut BTreeSet<(u64, u64)>,
    places: &mut Places,
) {
    let walk = below.walk();
    let label = |inner: &Path| {
        if inner.as_os_str().is_empty() {
            path.display().to_string()
        } else {
            path.join(inner).display().to_string()
        }
    };
    for (inner, why) in walk.problems {
        places.refused.push(refused_source(label(&inner), why));
    }
    if !walk.links.is_empty() {
        *places.links.entry(label(Path::new(""))).or_default() += walk.links.len();
    }
    for host in &walk.hosts {
        let (at, label) = (Where::Host(Arc::clone(&below), host.clone()), label(host));
        places.jobs.push(ReadJob { root: Some(label.clone()), ..ReadJob::new(at, label, given) });
    }
    let hosts: BTreeSet<&Path> = walk.hosts.iter().map(PathBuf::as_path).collect();
    for entry in walk.files {
        if places.jobs.len() >= MOST_FOUND {
            places.left_out.add(label(Path::new("")), 1);
            continue;
        }
        if !seen.insert(entry.identity) {
            continue;
        }
        let root = entry.path.ancestors().find(|folder| hosts.contains(folder)).map(&label);
        let label = label(&entry.path);
        let at = Where::Below(Arc::clone(&below), entry.path);
        places.jobs.push(ReadJob { root, size: entry.size, ..ReadJob::new(at, label, given) });
    }
}
