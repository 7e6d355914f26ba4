//! Judges a manifest: every pod that it makes, on a node or on any.

use std::collections::BTreeMap;
use std::rc::Rc;

use hugewise_model::{Level, PageSize, group_thousands};

use crate::config_maps::ConfigMaps;
use crate::judge_container::{JudgedContainer, judge_container};
use crate::node::NodeFacts;
use crate::operators::read_operated;
use crate::quantity::format_bytes;
use crate::report::{Fate, PodFinding, PodReport, WorkloadReport};
use crate::resources::resource_name;
use crate::template::TemplateMask;
use crate::wanted_resources::WantedResources;
use crate::workload::{Workload, list_objects, read_workload};
use crate::yaml::{self, LARGEST_MANIFEST, ManifestError, YamlNode};

/// Containers and servers of one manifest: more make it no manifest of people.
const MOST_CONTAINERS: usize = 20_000;
const MOST_SERVERS: usize = 400;

/// A report and what would make it better.
pub(crate) struct JudgedManifest {
    pub(crate) report: PodReport,
    pub(crate) corrections: Vec<Correction>,
}

/// A change to the manifest.
pub(crate) enum Correction {
    /// The resources of a container, below this mapping.
    Resources { parent: Rc<YamlNode>, wanted: WantedResources },
    /// A scalar's text.
    Scalar { node: Rc<YamlNode>, text: String },
}

pub(crate) fn judge_text(
    text: &str,
    node: Option<&NodeFacts>,
) -> Result<JudgedManifest, ManifestError> {
    if text.len() > LARGEST_MANIFEST {
        let what = format!("larger than {} MiB", LARGEST_MANIFEST >> 20);
        return Err(ManifestError::at_line(1, what));
    }
    let mask = TemplateMask::new(text);
    let objects = list_objects(&yaml::read_documents(&mask)?);
    let maps = ConfigMaps::read(&objects);
    let mut judged = JudgedManifest { report: PodReport::default(), corrections: Vec::new() };
    let (mut containers, mut servers) = (0, 0);
    for object in &objects {
        let workloads = read_workload(object, &maps).into_iter();
        for workload in workloads.chain(read_operated(object, &maps)) {
            containers += workload.containers.len();
            servers += judged.add_workload(&workload, node, MOST_SERVERS - servers);
            if containers > MOST_CONTAINERS || servers >= MOST_SERVERS {
                let what =
                    format!("more than {MOST_SERVERS} servers or {MOST_CONTAINERS} containers");
                return Err(ManifestError::at_line(object.line, what));
            }
        }
    }
    let lines = mask.whole_lines().take(MOST_QUESTIONS);
    let lines = lines.map(|(line, template)| (line, format!("what {template} writes")));
    judged.report.questions.extend(lines);
    Ok(judged)
}

/// A chart has hundreds of templates; the first show that it is one.
const MOST_QUESTIONS: usize = 10;

impl JudgedManifest {
    /// Judges the servers of a workload, up to `most` of them, and counts them.
    fn add_workload(
        &mut self,
        workload: &Workload,
        node: Option<&NodeFacts>,
        most: usize,
    ) -> usize {
        let mut servers = 0;
        let count = workload.open_count.clone();
        self.report
            .questions
            .extend(count.filter(|_| self.report.questions.len() < MOST_QUESTIONS));
        let mut findings = Vec::new();
        let mut reports = Vec::new();
        let mut pod = PodPages::default();
        for container in &workload.containers {
            if servers >= most {
                break;
            }
            let JudgedContainer { report, wanted, needed } =
                judge_container(workload, container, node);
            let made_by = container.made_by.as_ref();
            let is_elsewhere = made_by.is_some_and(|made| made.is_elsewhere);
            if !is_elsewhere && !wanted.is_empty() {
                let parent = Rc::clone(&container.resources.parent);
                self.corrections.push(Correction::Resources { parent, wanted });
            }
            servers += usize::from(report.server.is_some());
            pod.add_container(container.is_init, &report.limits, &needed);
            reports.push(report);
        }
        let (requested, needed) = (pod.requested.sum(), pod.needed.sum());
        self.judge_volumes(workload, &requested, &needed, &mut findings);
        if let Some(node) = node {
            find_lack_of_room(workload, node, &requested, &mut findings);
        }
        let is_refused = reports.iter().any(|report| report.fate == Fate::NotStarted);
        if is_refused || findings.iter().any(|finding| finding.level == Level::Error) {
            for report in reports.iter_mut().filter(|report| report.server.is_some()) {
                report.fate = Fate::NotStarted;
                report.fate_without_reservations = None;
            }
        }
        self.report.workloads.push(WorkloadReport {
            kind: workload.kind.clone(),
            name: workload.name.clone(),
            namespace: workload.namespace.clone(),
            line: workload.line,
            pods_per_node: workload.pods_per_node,
            requested: requested.into_iter().collect(),
            needed: needed.into_iter().collect(),
            findings,
            containers: reports,
        });
        servers
    }

    /// Volumes of huge pages: the kubelet mounts them only where the pod names their size.
    fn judge_volumes(
        &mut self,
        workload: &Workload,
        requested: &BTreeMap<PageSize, u64>,
        needed: &BTreeMap<PageSize, u64>,
        findings: &mut Vec<PodFinding>,
    ) {
        for volume in &workload.volumes {
            let medium = volume.medium.text().unwrap_or_default();
            let named = medium.strip_prefix("HugePages-");
            let size =
                named.and_then(|size| crate::resources::page_size_of(&format!("hugepages-{size}")));
            let what = match (named, size) {
                (None, _) if requested.is_empty() => {
                    format!("volume {} is of huge pages, and the pod asks for none", volume.name)
                }
                (None, _) if requested.len().max(needed.len()) > 1 => {
                    let first = needed.keys().next().copied().unwrap_or(PageSize::MIB_2);
                    let size = resource_name(first).replace("hugepages-", "");
                    let text = format!("HugePages-{size}");
                    let what = format!(
                        "volume {}: the pod has pages of two sizes, so its medium must name one: \
                         {text}",
                        volume.name
                    );
                    let node = Rc::clone(&volume.medium);
                    self.corrections.push(Correction::Scalar { node, text });
                    what
                }
                (Some(_), Some(size)) if !requested.contains_key(&size) => format!(
                    "volume {} is of pages that the pod does not ask for: {}",
                    volume.name,
                    resource_name(size)
                ),
                (Some(_), None) => format!("volume {}: no medium {medium}", volume.name),
                _ => continue,
            };
            let what = format!("the kubelet does not start the pod: {what}");
            findings.push(PodFinding { level: Level::Error, line: volume.medium.line, what });
        }
    }
}

/// Bytes by page size: what a pod's containers come to.
#[derive(Default)]
struct PodPages {
    requested: PodSum,
    needed: PodSum,
}

/// Containers run together, init containers one after the other before them.
#[derive(Default)]
struct PodSum {
    together: BTreeMap<PageSize, u64>,
    largest_init: BTreeMap<PageSize, u64>,
}

impl PodPages {
    fn add_container(
        &mut self,
        is_init: bool,
        limits: &[(PageSize, u64)],
        needed: &BTreeMap<PageSize, u64>,
    ) {
        limits.iter().for_each(|(page, bytes)| self.requested.add(is_init, *page, *bytes));
        needed.iter().for_each(|(page, bytes)| self.needed.add(is_init, *page, *bytes));
    }
}

impl PodSum {
    fn add(&mut self, is_init: bool, page: PageSize, bytes: u64) {
        if is_init {
            let largest = self.largest_init.entry(page).or_default();
            *largest = (*largest).max(bytes);
        } else {
            let sum = self.together.entry(page).or_default();
            *sum = sum.saturating_add(bytes);
        }
    }

    fn sum(self) -> BTreeMap<PageSize, u64> {
        let Self { mut together, largest_init } = self;
        for (page, bytes) in largest_init {
            let sum = together.entry(page).or_default();
            *sum = (*sum).max(bytes);
        }
        together.retain(|_, bytes| *bytes > 0);
        together
    }
}

/// Whether the scheduler finds the pages on the node, as its kubelet reports them.
fn find_lack_of_room(
    workload: &Workload,
    node: &NodeFacts,
    requested: &BTreeMap<PageSize, u64>,
    findings: &mut Vec<PodFinding>,
) {
    for (page, bytes) in requested {
        let pool = node.pools.get(page).copied().unwrap_or_default();
        let in_pool = pool.total.saturating_mul(page.bytes().get());
        let offered = pool.offered.unwrap_or(in_pool);
        let left = offered.saturating_sub(pool.claimed);
        let name = resource_name(*page);
        if left < *bytes {
            let what = format!(
                "the node has no room for the pod: it asks for {name}: {}, and of {} that the \
                 kubelet offers, running pods have {}",
                format_bytes(*bytes),
                format_bytes(offered),
                format_bytes(pool.claimed)
            );
            findings.push(PodFinding { level: Level::Error, line: workload.line, what });
        }
        if pool.offered.is_some_and(|offered| offered != in_pool) {
            let what = format!(
                "the kubelet offers {} of {name} and the pool has {} pages: it reads the pool only \
                 when it starts, so restart it",
                format_bytes(offered),
                group_thousands(pool.total)
            );
            findings.push(PodFinding { level: Level::Warn, line: workload.line, what });
        }
    }
}
