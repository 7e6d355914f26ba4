//! What is at the paths: files to be read, hosts that were captured, and what is passed over.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hugewise_host::source::files::{self, Below, Given};

use crate::readers::Pasted;
use crate::verdict::Source;

/// Where a file is.
#[derive(Clone, Debug)]
pub(crate) enum Where {
    /// At a path that was given.
    Given(PathBuf),
    /// Below a folder that was given.
    Below(Arc<Below>, PathBuf),
    /// An archive of PCP: its parts, below a folder.
    Pcp(Arc<Below>, Vec<PathBuf>),
    /// A host that was captured, as a folder.
    Host(Arc<Below>, PathBuf),
}

/// One thing to read.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) at: Where,
    /// As it is called in reports.
    pub(crate) label: String,
    /// Which of the paths it is of; those that were found count as one each.
    pub(crate) given: usize,
    /// The captured host that it lies in: the label of its root.
    pub(crate) root: Option<String>,
    /// Whether it was given itself, and not found in a folder.
    pub(crate) named: bool,
    /// Bytes: large ones are begun first.
    pub(crate) size: u64,
    /// What is said of text that says no time itself.
    pub(crate) pasted: Pasted,
    /// Whether what nothing is judged by may be left out.
    pub(crate) judged: bool,
}

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Places {
    pub(crate) jobs: Vec<Job>,
    /// Paths that could not be opened.
    pub(crate) refused: Vec<Source>,
    /// Links in each given folder, which are not followed.
    pub(crate) links: BTreeMap<String, usize>,
}

/// Looks at the paths, in their order.
pub(crate) fn find(paths: &[PathBuf]) -> Places {
    let mut places = Places::default();
    let mut seen: BTreeSet<(u64, u64)> = BTreeSet::new();
    for (given, path) in paths.iter().enumerate() {
        let label = path.display().to_string();
        match files::open(path) {
            Err(error) => places.refused.push(refused(label, format!("cannot be read: {error}"))),
            Ok(Given::File(_, entry)) => {
                if seen.insert(entry.identity) {
                    let at = Where::Given(path.clone());
                    places.jobs.push(Job {
                        at,
                        label,
                        given,
                        root: None,
                        named: true,
                        size: entry.size,
                        pasted: Pasted::default(),
                        judged: false,
                    });
                }
            }
            Ok(Given::Folder(below)) => folder(Arc::new(below), path, given, &mut seen, &mut places),
        }
    }
    places
}

fn refused(path: String, why: String) -> Source {
    Source { path, problems: vec![why], ..Source::default() }
}

fn folder(below: Arc<Below>, path: &Path, given: usize, seen: &mut BTreeSet<(u64, u64)>, places: &mut Places) {
    let walk = below.walk();
    let label = |inner: &Path| {
        if inner.as_os_str().is_empty() { path.display().to_string() } else { path.join(inner).display().to_string() }
    };
    for (inner, why) in walk.problems {
        places.refused.push(refused(label(&inner), why));
    }
    if !walk.links.is_empty() {
        *places.links.entry(label(Path::new(""))).or_default() += walk.links.len();
    }
    for host in &walk.hosts {
        let (at, label) = (Where::Host(Arc::clone(&below), host.clone()), label(host));
        places.jobs.push(Job {
            at,
            root: Some(label.clone()),
            label,
            given,
            named: false,
            size: 0,
            pasted: Pasted::default(),
            judged: false,
        });
    }
    for entry in walk.files {
        if !seen.insert(entry.identity) {
            continue;
        }
        let root =
            walk.hosts.iter().filter(|host| entry.path.starts_with(host)).max_by_key(|host| host.as_os_str().len());
        let (root, label) = (root.map(|root| label(root)), label(&entry.path));
        let at = Where::Below(Arc::clone(&below), entry.path);
        places.jobs.push(Job {
            at,
            label,
            given,
            root,
            named: false,
            size: entry.size,
            pasted: Pasted::default(),
            judged: false,
        });
    }
}
