//! Findings, chains, and what could not be decided.

use schemars::JsonSchema;
use serde::Serialize;

/// One rule's verdict.
#[derive(Serialize, JsonSchema)]
pub struct Finding {
    /// `HW201`.
    #[schemars(extend("pattern" = "^HW[0-9]{3}$"))]
    pub code: &'static str,
    /// `no-pool`.
    pub name: &'static str,
    /// How bad.
    #[schemars(extend("enum" = ["error", "warn", "info"]))]
    pub level: &'static str,
    /// `oracle PROD`; null for the host as a whole.
    pub instance: Option<String>,
    /// One sentence.
    pub summary: String,
    /// Facts that it rests on.
    pub evidence: Vec<String>,
    /// What it costs; null where no number is known.
    pub cost: Option<String>,
    /// Commands, and `#` lines between them.
    pub fix: Vec<String>,
}

/// A rule that could not decide.
#[derive(Serialize, JsonSchema)]
pub struct UnknownVerdict {
    /// `HW201`.
    #[schemars(extend("pattern" = "^HW[0-9]{3}$"))]
    pub code: &'static str,
    /// `no-pool`.
    pub name: &'static str,
    /// `oracle PROD`; null for the host as a whole.
    pub instance: Option<String>,
    /// The fact, and why it is missing.
    pub missing: String,
}

/// One link between an instance and its huge pages.
#[derive(Serialize, JsonSchema)]
pub struct ChainLink {
    /// Which one, in the order in which they can break.
    #[schemars(extend("enum" = ["asked", "pool", "room", "permission", "cgroup", "mapped"]))]
    pub link: &'static str,
    /// Whether it holds.
    #[schemars(extend("enum" = ["ok", "broken", "unknown"]))]
    pub state: &'static str,
    /// What that rests on.
    pub evidence: String,
}

impl From<&hugewise_model::Finding> for Finding {
    fn from(finding: &hugewise_model::Finding) -> Self {
        Self {
            code: finding.code,
            name: finding.name,
            level: finding.level.as_str(),
            instance: finding.instance.clone(),
            summary: finding.summary.clone(),
            evidence: finding.evidence.clone(),
            cost: finding.cost.clone(),
            fix: finding.fix.clone(),
        }
    }
}

impl From<&hugewise_model::UnknownVerdict> for UnknownVerdict {
    fn from(verdict: &hugewise_model::UnknownVerdict) -> Self {
        Self {
            code: verdict.code,
            name: verdict.name,
            instance: verdict.instance.clone(),
            missing: verdict.missing.clone(),
        }
    }
}

impl From<&hugewise_model::Link> for ChainLink {
    fn from(link: &hugewise_model::Link) -> Self {
        Self { link: link.name.as_str(), state: link.state.as_str(), evidence: link.evidence.clone() }
    }
}
