//! `hugewise pod`.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use hugewise_host::Source;
use hugewise_host::source::LiveSource;
use hugewise_pods::{LARGEST_MANIFEST, NodeFacts, NodePlatform, PodReport};

use crate::format::OutputFormat;
use crate::outcome::{self, CommandFailure, CommandOutcome};
use crate::terminal::ColorChoice;

pub(crate) const AFTER_HELP: &str = "  hugewise pod postgres.yaml
  helm template CHART | hugewise pod -
  hugewise pod postgres.yaml --node node.tar.gz
  hugewise pod postgres.yaml | patch -p0
  hugewise pod postgres.yaml --for gke

Exit codes: 0 as wished; 1 a pod's huge pages will not be as wished; 2 no manifest, or it cannot \
     be read; 3 something has to be known that is not in the manifest.";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Kubernetes YAML or JSON: what makes pods, and its ConfigMaps. - reads standard input.
    manifest: PathBuf,
    /// Judge for this node: a capture of it, or a folder like its root.
    #[arg(long, value_name = "PATH")]
    node: Option<PathBuf>,
    /// Print what a node needs for these pods, to copy: for OpenShift, GKE, AKS, EKS, Bottlerocket,
    /// Talos or Kubespray.
    #[arg(long = "for", value_name = "PLATFORM", value_parser = platform_parser())]
    platform: Option<NodePlatform>,
    /// Text for people with the correction as a diff, or JSON for programs.
    #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
    format: OutputFormat,
    /// When to colour text.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    color: ColorChoice,
}

fn platform_parser() -> impl TypedValueParser<Value = NodePlatform> {
    PossibleValuesParser::new(NodePlatform::ALL.map(NodePlatform::as_str)).try_map(|name| {
        let mut all = NodePlatform::ALL.into_iter();
        all.find(|platform| platform.as_str() == name).ok_or("not a platform")
    })
}

pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutcome, CommandFailure> {
    let (name, text) = read_manifest(&arguments.manifest)?;
    let node = match &arguments.node {
        Some(path) => Some(NodeFacts::read(outcome::open_source(Some(path))?.as_ref())),
        None => None,
    };
    let mut report = hugewise_pods::judge_manifest(&name, &text, node.as_ref())
        .map_err(|error| CommandFailure::new(format!("{name}: {error}")))?;
    if let Some(platform) = arguments.platform {
        let text = hugewise_pods::render_node_pool(&report, platform);
        report.node_pool = Some(text.ok_or_else(|| {
            CommandFailure::new(format!("{name}: no pod in it is known to need huge pages"))
        })?);
    }
    outcome::print_output(&arguments.format.render(&report, arguments.color)?)?;
    Ok(pod_outcome(&report))
}

fn pod_outcome(report: &PodReport) -> CommandOutcome {
    if report.has_findings() {
        CommandOutcome::Found
    } else if report.has_questions() || report.workloads.is_empty() {
        CommandOutcome::Incomplete
    } else {
        CommandOutcome::Fine
    }
}

/// The manifest's name in the diff, and its text.
fn read_manifest(path: &Path) -> Result<(String, String), CommandFailure> {
    let most = u64::try_from(LARGEST_MANIFEST).unwrap_or(u64::MAX);
    let (name, bytes) = if path.as_os_str() == "-" {
        let mut bytes = Vec::new();
        let read = std::io::stdin().lock().take(most + 1).read_to_end(&mut bytes);
        read.map_err(|error| CommandFailure::new(format!("standard input: {error}")))?;
        ("manifest.yaml".to_owned(), bytes)
    } else {
        let read = LiveSource::new().read_limited(&outcome::absolute_path(path)?, most);
        let why = read.reason_text();
        let bytes = read.into_known().ok_or_else(|| {
            CommandFailure::for_path(path, why.unwrap_or_else(|| "it cannot be read".to_owned()))
        })?;
        (path.display().to_string(), bytes)
    };
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        CommandFailure::new(format!("{name}: not UTF-8 from byte {at} on"))
    })?;
    Ok((name, text))
}
