//! Verdicts: pure functions of a host and its instances.
//!
//! A rule is one file under `rules/`; [`assess_host`] runs them all. The [`chain`](mod@chain) of an
//! instance says which link between it and its huge pages is broken; rules about one instance
//! share one reading of that cause, so that one root cause gives one leading finding.

mod amounts;
pub mod boot;
pub mod case;
mod cause;
mod cgroup;
pub mod chain;
mod commit_limit;
pub mod coverage;
pub mod demand;
pub mod diagnosis;
pub mod docs;
pub mod fault_cost;
pub mod forecast;
pub mod growth;
mod idle;
pub mod ipc_privileges;
mod later_users;
mod left_out_accounts;
pub mod login;
pub mod memlock_charges;
mod memlock_witness;
mod mounts;
pub mod permission;
pub mod prediction;
pub mod remedy;
mod rule;
mod rule_remedies;
mod rules;
pub mod sizing;
mod starting_order;
mod starvation;
pub mod target;
#[cfg(test)]
mod testing;
pub mod thp;
pub mod untrusted;
pub mod wording;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

pub use diagnosis::{Diagnosis, DiagnosisOptions};
pub use rule::{CaseRole, Docs, Missing, Rule, RuleFacts, RuleVerdict};
pub(crate) use rule::{HostResult, InstanceResult, require_known};
pub use rules::boot_values_ignored::remedies_for_ignored_words;
pub use rules::cgroup_limit::tells_of_limit;

use prediction::HostPrediction;
use sizing::Request;
use target::{HostTarget, TargetRequest};

use hugewise_model::{
    Finding, Host, HugePageChain, Instance, InstanceId, Level, Remedy, RuleId, UnknownVerdict,
};

/// Everything that is said of a host.
#[derive(Clone, Debug, Default)]
pub struct Assessment {
    /// How each instance stands now, after its next restart, and after the next boot.
    pub situation: HostPrediction,
    /// What the host is to be: the pools that its servers need, now and at each boot.
    pub target: HostTarget,
    /// Chains of instances that are not wholly on huge pages, sorted by instance.
    pub chains: Vec<HugePageChain>,
    /// Findings, worst first; among those of a level the causes, then by code and instance.
    pub findings: Vec<Finding>,
    /// Rules that could not decide; where several miss one fact, the first names the others.
    pub unknown: Vec<UnknownVerdict>,
}

impl Assessment {
    /// Whether a finding on an instance names what keeps it from its pages at a start.
    pub fn tells_obstacle(&self, instance: &Instance, obstacle: prediction::Obstacle) -> bool {
        let id = instance.id();
        let of_instance =
            self.findings.iter().filter(|finding| finding.instance.as_ref() == Some(&id));
        let mut causes = of_instance.filter_map(|finding| {
            let rule = all_rules().iter().find(|rule| rule.code == finding.code)?;
            if let CaseRole::Cause(causes) = rule.role { Some(causes) } else { None }
        });
        causes.any(|causes| causes.iter().any(|cause| cause.explains_obstacle(obstacle)))
    }

    /// What rules look at, of these instances.
    pub fn rule_facts<'a>(&'a self, host: &'a Host, instances: &'a [Instance]) -> RuleFacts<'a> {
        RuleFacts {
            host,
            instances,
            everybody: instances,
            asleep: &[],
            chains: &self.chains,
            situation: &self.situation,
        }
    }
}

/// Every rule, by code.
pub fn all_rules() -> &'static [&'static Rule] {
    rules::RULES
}

/// Runs every rule on a host. Servers that nothing vouches for have findings, but no command is
/// given on their word, and no number for the host counts them.
pub fn assess_host(host: &Host, instances: &[Instance]) -> Assessment {
    let (awake, asleep) = untrusted::split_by_running(instances);
    let situation = prediction::predict_host(host, instances);
    let chain =
        |instance| chain::build_chain(host, situation.limits(), situation.locked(), instance);
    let mut chains: Vec<HugePageChain> = awake.iter().filter_map(chain).collect();
    chains.sort_by(|a, b| a.instance.cmp(&b.instance));
    let mut assessment = Assessment { situation, chains, ..Assessment::default() };
    let (mut findings, unknown) = run_rules(&assessment.rule_facts(host, &awake), &asleep);
    sort_findings(&assessment.rule_facts(host, instances), &mut findings);
    (assessment.findings, assessment.unknown) = (findings, merge_unknown_verdicts(unknown));
    let wish = TargetRequest::default();
    let target = target::find_target(host, instances, &assessment, wish, &Request::default());
    // A request of nothing makes sense on every host.
    assessment.target = target.unwrap_or_default();
    let mut findings = std::mem::take(&mut assessment.findings);
    findings.iter_mut().for_each(|finding| lower_where_pool_stays(finding, &assessment.target));
    sort_findings(&assessment.rule_facts(host, instances), &mut findings);
    assessment.findings = findings;
    describe_fixes(host, instances, &mut assessment);
    assessment
}

/// Of a pool that has what its servers need, and that the target leaves as it is, there is nothing
/// to warn.
fn lower_where_pool_stays(finding: &mut Finding, target: &HostTarget) {
    let [Remedy::SetPool(page)] = finding.remedies.as_slice() else { return };
    let stays = target.pool(*page).is_some_and(|goal| goal.is_there() && !goal.grows());
    if stays && finding.instance.is_none() {
        finding.level = finding.level.min(Level::Info);
    }
}

fn run_rules(facts: &RuleFacts<'_>, asleep: &[Instance]) -> (Vec<Finding>, Vec<UnknownVerdict>) {
    let trusted = untrusted::trusted_instances(facts.instances);
    let asleep = untrusted::trusted_instances(asleep);
    let (mut findings, mut unknown) =
        run_all_rules(&RuleFacts { instances: &trusted, asleep: &asleep, ..*facts });
    if trusted.len() < facts.instances.len() {
        let is_stranger = |id: &Option<InstanceId>| {
            let mut strangers = facts.instances.iter().filter(|instance| !instance.is_trusted());
            id.as_ref().is_some_and(|id| strangers.any(|stranger| stranger.has_id(id)))
        };
        let (about, missing) = run_all_rules(facts);
        findings.extend(about.into_iter().filter(|finding| is_stranger(&finding.instance)));
        // A fact that the host lacks stays the host's.
        let known: BTreeSet<String> =
            unknown.iter().map(|verdict| verdict.missing.clone()).collect();
        let missing = missing.into_iter().filter(|verdict| is_stranger(&verdict.instance));
        unknown.extend(missing.filter(|verdict| !known.contains(&verdict.missing)));
    }
    (findings, unknown)
}

fn run_all_rules(facts: &RuleFacts<'_>) -> (Vec<Finding>, Vec<UnknownVerdict>) {
    let (mut findings, mut unknown) = (Vec::new(), Vec::new());
    for verdict in all_rules().iter().flat_map(|rule| (rule.check)(facts)) {
        match verdict {
            RuleVerdict::Found(finding) => findings.push(finding),
            RuleVerdict::Unknown(verdict) => unknown.push(verdict),
        }
    }
    (findings, unknown)
}

/// The worst first; among equals the cause comes before what follows from it.
fn sort_findings(facts: &RuleFacts<'_>, findings: &mut [Finding]) {
    let leading = cause::find_leading_rules(facts);
    findings.sort_by_cached_key(|finding| {
        let id = finding.instance.as_ref();
        let follows = id.and_then(|id| leading.get(id)) != Some(&finding.code);
        (Reverse(finding.level), follows, finding.code, id.map(InstanceId::to_string))
    });
}

/// Puts each remedy into words once, however many findings have it.
fn describe_fixes(host: &Host, instances: &[Instance], assessment: &mut Assessment) {
    let all: BTreeSet<&Remedy> =
        assessment.findings.iter().flat_map(|finding| &finding.remedies).collect();
    let in_words = |remedy: &Remedy| {
        let words = remedy::describe_remedy(host, instances, assessment, remedy)?;
        Some((remedy.clone(), words))
    };
    let words: BTreeMap<Remedy, String> = all.into_iter().filter_map(in_words).collect();
    for finding in &mut assessment.findings {
        finding.fix =
            finding.remedies.iter().filter_map(|remedy| words.get(remedy)).cloned().collect();
        if finding.fix.is_empty() {
            // What would end it is there already, or is nothing that is planned for unasked.
            finding.fix.push(format!(
                "see hugewise rules {}; to plan for one server, name it: hugewise plan --instance \
                 NAME",
                finding.code
            ));
        }
    }
}

fn merge_unknown_verdicts(verdicts: Vec<UnknownVerdict>) -> Vec<UnknownVerdict> {
    let mut kept: Vec<(UnknownVerdict, Vec<RuleId>)> = Vec::new();
    for verdict in verdicts {
        match kept.iter_mut().find(|(first, _)| first.missing == verdict.missing) {
            Some((first, others)) => {
                if first.code != verdict.code {
                    others.push(verdict.code);
                }
                first.instance = first.instance.take().or(verdict.instance);
            }
            None => kept.push((verdict, Vec::new())),
        }
    }
    let mut kept: Vec<UnknownVerdict> = kept
        .into_iter()
        .map(|(mut verdict, mut others)| {
            others.dedup();
            verdict.missing = wording::one_line(&verdict.missing);
            if !others.is_empty() {
                verdict.missing = format!(
                    "{}; also {}",
                    verdict.missing,
                    others.iter().map(|code| code.as_str()).collect::<Vec<_>>().join(", ")
                );
            }
            verdict
        })
        .collect();
    kept.sort_by_cached_key(|verdict| {
        (verdict.code, verdict.instance.as_ref().map(InstanceId::to_string))
    });
    kept
}

#[cfg(test)]
mod tests;
