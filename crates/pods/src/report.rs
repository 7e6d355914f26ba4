//! What is said of a manifest.

use hugewise_model::{Level, PageSize};

use crate::node::NodeFacts;

/// What becomes of a manifest's pods.
#[derive(Debug, Default)]
pub struct PodReport {
    /// The manifest, as it was named.
    pub file: String,
    /// The node that it was judged for; none where any node is meant.
    pub node: Option<NodeFacts>,
    /// Everything in it that makes pods, in its order.
    pub workloads: Vec<WorkloadReport>,
    /// What the manifest as a whole leaves open, by line.
    pub questions: Vec<(u64, String)>,
    /// The corrected manifest, as a unified diff.
    pub diff: Option<String>,
    /// What nodes need, where a platform was named.
    pub node_pool: Option<String>,
}

/// What becomes of the pods of one object.
#[derive(Debug)]
pub struct WorkloadReport {
    /// `StatefulSet`, `Pod`, `Cluster`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Where it begins.
    pub line: u64,
    /// Pods of it that may run on one node at once.
    pub pods_per_node: u64,
    /// Bytes of huge pages that one pod asks the scheduler for.
    pub requested: Vec<(PageSize, u64)>,
    /// Bytes of huge pages that one pod should have.
    pub needed: Vec<(PageSize, u64)>,
    /// What is wrong with the pod as a whole.
    pub findings: Vec<PodFinding>,
    /// Its containers.
    pub containers: Vec<ContainerReport>,
}

/// What becomes of one container.
#[derive(Debug)]
pub struct ContainerReport {
    /// Its name.
    pub name: String,
    /// Where it begins.
    pub line: u64,
    /// Whether it runs before the others.
    pub is_init: bool,
    /// Its limits on huge pages, in bytes.
    pub limits: Vec<(PageSize, u64)>,
    /// The server in it.
    pub server: Option<PodServer>,
    /// What happens to the server's memory.
    pub fate: Fate,
    /// What happens where reservations have no limit (kubelets before 1.29, runc before 1.1.10), if
    /// that is something else.
    pub fate_without_reservations: Option<Fate>,
    /// Why.
    pub why: Vec<String>,
    /// What is wrong.
    pub findings: Vec<PodFinding>,
    /// What was taken for granted, and advice.
    pub notes: Vec<String>,
    /// What has to be known, and only others can tell.
    pub questions: Vec<String>,
}

/// A server in a container.
#[derive(Debug)]
pub struct PodServer {
    /// What people call it.
    pub engine: &'static str,
    /// Its version, where the image tells.
    pub version: Option<String>,
    /// The setting that decides on huge pages, and where it is.
    pub setting: Option<String>,
    /// The pages that it asks for.
    pub demands: Vec<PodDemand>,
}

/// Pages of one size that a server asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodDemand {
    /// Their size.
    pub page_size: PageSize,
    /// With fewer it surely goes without.
    pub least: u64,
    /// These always suffice.
    pub most: u64,
}

hugewise_model::named_enum! {
    /// What happens to a server's memory.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Fate as_str {
        /// No server that hugewise knows runs there.
        NoServer = "no_server",
        /// Its settings ask for no huge pages.
        AsksForNone = "asks_for_none",
        /// It cannot use pages of a pool.
        CannotUse = "cannot_use",
        /// All of it is on huge pages.
        Maps = "maps",
        /// It silently runs on small pages, or partly so.
        FallsBack = "falls_back",
        /// It refuses to start.
        RefusesStart = "refuses_start",
        /// It is killed when it touches its memory.
        Dies = "dies",
        /// The pod is not admitted, or no node takes it.
        NotStarted = "not_started",
        /// It cannot be told.
        Unknown = "unknown",
    }
}

/// What is wrong with a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFinding {
    /// How bad that is.
    pub level: Level,
    /// Where in the manifest.
    pub line: u64,
    /// What is wrong, and what to do.
    pub what: String,
}

impl PodReport {
    /// Whether anything will not be as wished.
    pub fn has_findings(&self) -> bool {
        self.all_findings().any(|finding| finding.level >= Level::Warn)
    }

    /// Whether something that matters could not be judged.
    pub fn has_questions(&self) -> bool {
        let containers = self.workloads.iter().flat_map(|workload| &workload.containers);
        !self.questions.is_empty()
            || containers.into_iter().any(|container| !container.questions.is_empty())
    }

    /// Everything that is wrong.
    pub fn all_findings(&self) -> impl Iterator<Item = &PodFinding> {
        self.workloads.iter().flat_map(|workload| {
            let of_containers = workload.containers.iter().flat_map(|one| &one.findings);
            workload.findings.iter().chain(of_containers)
        })
    }
}
