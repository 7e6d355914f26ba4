//! `hugewise pod --format json`: `hugewise.pod/1`.

use hugewise_model::{Bytes, PageSize};
use hugewise_pods::{ContainerReport, PodDemand, PodFinding, PodReport, PodServer, WorkloadReport};

use super::json_view::json_view;

const POD_SCHEMA: &str = "hugewise.pod/1";

json_view! {
    /// What `hugewise pod --format json` prints.
    #[schemars(title = "hugewise.pod/1")]
    pub struct PodDocument from(report: &PodReport) => {
        /// Name and version of this format.
        #[schemars(extend("const" = POD_SCHEMA))]
        schema: &'static str = POD_SCHEMA,
        /// The manifest, as it was named.
        file: String = report.file.clone(),
        /// The node that it was judged for; null where any node is meant, or it has no name.
        node: Option<String> = report.node.as_ref().and_then(|node| node.name.clone()),
        /// Whether anything will not be as wished.
        wrong: bool = report.has_findings(),
        /// Everything that makes pods, in the manifest's order.
        workloads: Vec<WorkloadJson> = report.workloads.iter().map(WorkloadJson::from).collect(),
        /// What the manifest as a whole leaves open.
        questions: Vec<QuestionJson> = report.questions.iter().map(QuestionJson::from).collect(),
        /// The corrected manifest as a unified diff; null where there is nothing to correct.
        diff: Option<String> = report.diff.clone(),
        /// What nodes need, as the platform of --for takes it; null without it.
        node_pool: Option<String> = report.node_pool.clone(),
    }
}

json_view! {
    /// What makes pods.
    pub struct WorkloadJson from(workload: &WorkloadReport) => {
        /// `StatefulSet`, `Pod`, `Cluster`.
        kind: String = workload.kind.clone(),
        /// Its name.
        name: String = workload.name.clone(),
        /// Its namespace.
        namespace: String = workload.namespace.clone(),
        /// Where it begins.
        line: u64 = workload.line,
        /// Pods of it that may run on one node at once.
        pods_per_node: u64 = workload.pods_per_node,
        /// Huge pages that one pod asks the scheduler for.
        requested: Vec<PodPagesJson> = list_pages(&workload.requested),
        /// Huge pages that one pod should have.
        needed: Vec<PodPagesJson> = list_pages(&workload.needed),
        /// What is wrong with the pod as a whole.
        findings: Vec<PodFindingJson> = list_findings(&workload.findings),
        /// Its containers.
        containers: Vec<ContainerJson> =
            workload.containers.iter().map(ContainerJson::from).collect(),
    }
}

json_view! {
    /// A container.
    pub struct ContainerJson from(container: &ContainerReport) => {
        /// Its name.
        name: String = container.name.clone(),
        /// Where it begins.
        line: u64 = container.line,
        /// Whether it runs before the others.
        init: bool = container.is_init,
        /// Its limits on huge pages.
        limits: Vec<PodPagesJson> = list_pages(&container.limits),
        /// The server in it; null where hugewise knows none.
        server: Option<PodServerJson> = container.server.as_ref().map(PodServerJson::from),
        /// `maps`, `falls_back`, `refuses_start`, `dies`, `not_started`, `asks_for_none`,
        /// `cannot_use`, `no_server` or `unknown`.
        fate: &'static str = container.fate.as_str(),
        /// The same where reservations have no limit (kubelets before 1.29); null where it is the
        /// same.
        fate_without_reservations: Option<&'static str> =
            container.fate_without_reservations.map(|fate| fate.as_str()),
        /// Why.
        why: Vec<String> = container.why.clone(),
        /// What is wrong.
        findings: Vec<PodFindingJson> = list_findings(&container.findings),
        /// What was taken for granted, and advice.
        notes: Vec<String> = container.notes.clone(),
        /// What has to be known, and only others can tell.
        questions: Vec<String> = container.questions.clone(),
    }
}

json_view! {
    /// A server in a container.
    pub struct PodServerJson from(server: &PodServer) => {
        /// What people call it.
        engine: &'static str = server.engine,
        /// Its version; null where the image does not tell.
        version: Option<String> = server.version.clone(),
        /// The setting that decides on huge pages, and where it is.
        setting: Option<String> = server.setting.clone(),
        /// The pages that it asks for.
        demands: Vec<PodDemandJson> = server.demands.iter().map(PodDemandJson::from).collect(),
    }
}

json_view! {
    /// Pages of one size that a server asks for.
    pub struct PodDemandJson from(demand: &PodDemand) => {
        /// Their size.
        page_size_bytes: u64 = demand.page_size.bytes().get(),
        /// With fewer it surely goes without.
        least_pages: u64 = demand.least,
        /// These always suffice.
        most_pages: u64 = demand.most,
    }
}

json_view! {
    /// Memory on pages of one size.
    pub struct PodPagesJson from(pages: &(PageSize, u64)) => {
        /// Their size.
        page_size_bytes: u64 = pages.0.bytes().get(),
        /// The number of whole pages.
        pages: u64 = pages.1 / pages.0.bytes().get(),
        /// The same in bytes.
        bytes: u64 = Bytes(pages.1).get(),
    }
}

json_view! {
    /// What is wrong with a pod.
    pub struct PodFindingJson from(finding: &PodFinding) => {
        /// `info`, `warn` or `error`.
        level: &'static str = finding.level.as_str(),
        /// Where in the manifest.
        line: u64 = finding.line,
        /// What is wrong, and what to do.
        what: String = finding.what.clone(),
    }
}

json_view! {
    /// What a manifest leaves open.
    pub struct QuestionJson from(question: &(u64, String)) => {
        /// Where.
        line: u64 = question.0,
        /// What has to be known.
        what: String = question.1.clone(),
    }
}

fn list_pages(pages: &[(PageSize, u64)]) -> Vec<PodPagesJson> {
    pages.iter().map(PodPagesJson::from).collect()
}

fn list_findings(findings: &[PodFinding]) -> Vec<PodFindingJson> {
    findings.iter().map(PodFindingJson::from).collect()
}
