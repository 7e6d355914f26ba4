//! What becomes of a Kubernetes manifest's huge pages: whether each pod is admitted and placed,
//! what its server does with the limit that it has, and what the manifest should say instead.
//!
//! What a server needs is the engines' answer alone: they read a container as they read a host.

mod config_maps;
mod container_view;
mod correct;
mod images;
mod judge;
mod judge_container;
mod node;
mod node_pool;
mod operators;
mod quantity;
mod report;
mod resources;
mod shell_words;
mod start;
mod template;
mod wanted_resources;
mod workload;
mod yaml;

#[cfg(test)]
mod tests;

pub use node::{NodeFacts, NodePoolFacts};
pub use node_pool::{NodePlatform, render_node_pool};
pub use report::{
    ContainerReport, Fate, PodDemand, PodFinding, PodReport, PodServer, WorkloadReport,
};
pub use yaml::{LARGEST_MANIFEST, MOST_DOCUMENTS, ManifestError};

/// Judges a manifest for a node, or for any; `file` names it in the corrections' diff.
/// # Errors
/// It is no YAML, or exceeds a limit.
pub fn judge_manifest(
    file: &str,
    text: &str,
    node: Option<&NodeFacts>,
) -> Result<PodReport, ManifestError> {
    let mut judged = judge::judge_text(text, node)?;
    let mut report = std::mem::take(&mut judged.report);
    report.file = file.to_owned();
    report.node = node.cloned();
    report.diff = correct::correct_manifest(text, judged, node)
        .map(|corrected| correct::unified_diff(file, text, &corrected));
    Ok(report)
}
