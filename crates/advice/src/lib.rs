//! Verdicts: pure functions of a host and its instances.

use hugewise_model::{Chain, Finding, Host, Instance, Level, UnknownVerdict};

/// One rule: a static in a file of its own under `rules/`.
pub struct Rule {
    /// `HW201`.
    pub code: &'static str,
    /// `no-pool`.
    pub name: &'static str,
    /// The worst level it speaks at.
    pub level: Level,
    /// What its page says.
    pub docs: Docs,
    /// Looks at a host.
    pub check: fn(&Facts<'_>) -> Vec<Verdict>,
}

/// A rule's page, in fixed sections, Markdown.
pub struct Docs {
    /// What the rule looks for, with its thresholds and their source.
    pub what: &'static str,
    /// Why it hurts.
    pub why: &'static str,
    /// How to fix it, and what the fix risks.
    pub fix: &'static str,
    /// Where the facts come from: kernel document, vendor note with its version.
    pub sources: &'static [&'static str],
}

/// What a rule looks at.
pub struct Facts<'a> {
    /// The host.
    pub host: &'a Host,
    /// Its instances.
    pub instances: &'a [Instance],
    /// The chain of each instance that is not wholly on huge pages, by instance title.
    pub chains: &'a [Chain],
}

/// A rule's answer; no verdict at all means that nothing is wrong.
pub enum Verdict {
    /// It speaks.
    Found(Finding),
    /// It could not decide.
    Unknown(UnknownVerdict),
}

/// Everything that is said of a host.
#[derive(Debug, Default)]
pub struct Assessment {
    /// Chains of instances that are not wholly on huge pages.
    pub chains: Vec<Chain>,
    /// Findings, worst first, then by code and instance.
    pub findings: Vec<Finding>,
    /// Rules that could not decide, by code and instance.
    pub unknown: Vec<UnknownVerdict>,
}
