//! What a rule is, what it looks at, and what it answers.

use hugewise_model::{
    Finding, Host, HugePageChain, HugePageMode, Instance, Lack, Level, Observed, Remedy, RuleId,
    UnknownVerdict,
};

use crate::cause::{Cause, find_cause};
use crate::coverage::Coverage;
use crate::demand::predict_next_start;
use crate::prediction::{HostPrediction, Obstacle};
use crate::{untrusted, wording};

/// One rule: a static in a file of its own under `rules/`.
pub struct Rule {
    /// `HW201`.
    pub code: RuleId,
    /// `no-pool`.
    pub name: &'static str,
    /// The worst level it speaks at.
    pub level: Level,
    /// What its findings are among those of one case.
    pub role: CaseRole,
    /// What its page says.
    pub docs: Docs,
    /// Looks at a host.
    pub check: fn(&RuleFacts<'_>) -> Vec<RuleVerdict>,
}

/// A rule's page, in fixed sections, Markdown.
pub struct Docs {
    /// What the rule looks for, with its thresholds and their source.
    pub what: &'static str,
    /// Why it hurts.
    pub why: &'static str,
    /// What it costs, in a line of at most 74 columns, where a finding knows no number.
    pub cost: &'static str,
    /// How to fix it, and what the fix risks.
    pub fix: &'static str,
    /// Where the facts come from: kernel document, vendor note with its version.
    pub sources: &'static [&'static str],
}

/// What a rule's findings are among those that have one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaseRole {
    /// They name one of these causes, and what they tell to do cures it.
    Cause(&'static [Cause]),
    /// They say what becomes of a server later.
    Forecast,
    /// They say what the cost of a case says already.
    Cost,
    /// They say what merely lets it happen, and lead no case.
    Bystander,
    /// They are about transparent huge pages, which cost other things than page tables.
    Thp,
    /// They are none of these.
    Plain,
}

/// What a rule looks at.
pub struct RuleFacts<'a> {
    /// The host.
    pub host: &'a Host,
    /// Its running instances that something vouches for, or in a second run all that run.
    pub instances: &'a [Instance],
    /// All that run, for rules that only say who does something.
    pub everybody: &'a [Instance],
    /// Those that belong to the host and do not run.
    pub asleep: &'a [Instance],
    /// The chain of each instance that is not wholly on huge pages, sorted by instance.
    pub chains: &'a [HugePageChain],
    /// How each instance stands now, after its next restart, and after the next boot.
    pub situation: &'a HostPrediction,
}

impl RuleFacts<'_> {
    /// The chain of an instance; none where it is wholly on huge pages or has no way to them.
    pub fn chain(&self, instance: &Instance) -> Option<&HugePageChain> {
        let key = (instance.engine, instance.name.as_str());
        let at = self.chains.binary_search_by(|chain| {
            (chain.instance.engine, chain.instance.name.as_str()).cmp(&key)
        });
        at.ok().and_then(|at| self.chains.get(at))
    }
}

/// A rule's answer; no verdict at all means that nothing is wrong.
pub enum RuleVerdict {
    /// It speaks.
    Found(Finding),
    /// It could not decide.
    Unknown(UnknownVerdict),
}

/// A fact that a rule cannot do without and does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// A fact of the host: every instance misses it alike.
    #[error("{0}")]
    Host(Lack),
    /// A fact of one instance.
    #[error("{0}")]
    Instance(Lack),
}

impl Missing {
    pub(crate) fn of_host(self) -> Self {
        let (Self::Host(what) | Self::Instance(what)) = self;
        Self::Host(what)
    }
}

/// What a rule finds about one instance.
pub(crate) type InstanceResult = Result<Option<Finding>, Missing>;

/// What a rule finds about a host.
pub(crate) type HostResult = Result<Vec<Finding>, Missing>;

/// A fact that a rule cannot do without; `what` is its file, and the field where that is not plain.
pub(crate) fn require_known<'a, T>(fact: &'a Observed<T>, what: &str) -> Result<&'a T, Missing> {
    fact.as_known().ok_or_else(|| Missing::Host(Lack::from_fact(what, fact)))
}

impl Rule {
    /// A finding of this rule; `short` is its summary where the instance's title stands above it.
    pub(crate) fn new_finding(
        &self,
        level: Level,
        instance: Option<&Instance>,
        summary: String,
        short: String,
        evidence: Vec<String>,
        remedies: Vec<Remedy>,
    ) -> Finding {
        let (code, name, instance) = (self.code, self.name, instance.map(Instance::id));
        let (cost, fix) = (None, Vec::new());
        Finding { code, name, level, instance, summary, short, evidence, cost, remedies, fix }
    }

    pub(crate) fn unknown_verdict(
        &self,
        instance: Option<&Instance>,
        missing: Missing,
    ) -> RuleVerdict {
        let (instance, lack) = match missing {
            Missing::Host(lack) => (None, lack),
            Missing::Instance(lack) => (instance.map(Instance::id), lack),
        };
        let (code, name, missing, why) = (self.code, self.name, lack.text, lack.why);
        RuleVerdict::Unknown(UnknownVerdict { code, name, instance, missing, why })
    }

    /// No command is given on the word of a server that nothing vouches for.
    fn finished(&self, facts: &RuleFacts<'_>, mut finding: Finding) -> RuleVerdict {
        let is_stranger = |instance: &&Instance| {
            let id = finding.instance.as_ref().filter(|_| !instance.is_trusted());
            id.is_some_and(|id| instance.has_id(id))
        };
        let stranger = facts.instances.iter().find(is_stranger);
        if let Some(instance) = stranger {
            finding = untrusted::until_named(finding, instance);
        }
        finding.remedies.dedup();
        RuleVerdict::Found(strip_control_characters(finding))
    }

    /// A server that insists and would not start again is an error, unless a forecast says so.
    fn level_of_failing_start(
        &self,
        facts: &RuleFacts<'_>,
        instance: &Instance,
        level: Level,
    ) -> Level {
        let CaseRole::Cause(causes) = self.role else { return level };
        if level != Level::Warn || self.level != Level::Error {
            return level;
        }
        let fails = facts.situation.forecasts_for(instance).is_some_and(|forecasts| {
            forecasts.restart.coverage == Coverage::DoesNotStart
                && !forecasts.restart.obstacle.is_some_and(|obstacle| {
                    matches!(
                        obstacle,
                        Obstacle::Start
                            | Obstacle::Lock
                            | Obstacle::Nodes
                            | Obstacle::Mount
                            | Obstacle::MountOptions
                            | Obstacle::Settings
                    )
                })
        });
        let insists = || predict_next_start(facts.host, instance).asked == HugePageMode::Must;
        let names_cause = || {
            let cause = find_cause(facts, instance).ok().flatten();
            cause.is_some_and(|cause| cause != Cause::Amm && causes.contains(&cause))
        };
        if fails && insists() && names_cause() { Level::Error } else { level }
    }

    pub(crate) fn of_host(
        &self,
        facts: &RuleFacts<'_>,
        check: impl Fn(&RuleFacts<'_>) -> HostResult,
    ) -> Vec<RuleVerdict> {
        match check(facts) {
            Ok(findings) => {
                findings.into_iter().map(|finding| self.finished(facts, finding)).collect()
            }
            Err(missing) => vec![self.unknown_verdict(None, missing)],
        }
    }

    /// Where no process could be seen, nobody knows which instances there are.
    pub(crate) fn of_each(
        &self,
        facts: &RuleFacts<'_>,
        check: impl Fn(&RuleFacts<'_>, &Instance) -> InstanceResult,
    ) -> Vec<RuleVerdict> {
        if let (true, Some(why)) =
            (facts.instances.is_empty(), facts.host.processes.unknown_reason())
        {
            return vec![self.unknown_verdict(None, Missing::Host(Lack::new("processes", why)))];
        }
        let answer = |instance| match check(facts, instance) {
            Ok(finding) => finding.map(|finding| {
                let level = self.level_of_failing_start(facts, instance, finding.level);
                self.finished(facts, Finding { level, ..finding })
            }),
            Err(missing) => Some(self.unknown_verdict(Some(instance), missing)),
        };
        facts.instances.iter().filter_map(answer).collect()
    }
}

/// Off the host may come line breaks: a finding's lines stay lines, and its comments comments.
fn strip_control_characters(mut finding: Finding) -> Finding {
    finding.summary = wording::one_line(&finding.summary);
    finding.short = wording::one_line(&finding.short);
    for line in finding.evidence.iter_mut().chain(finding.cost.as_mut()) {
        *line = wording::one_line(line);
    }
    for remedy in &mut finding.remedies {
        match remedy {
            Remedy::ByHand(by_hand) => {
                by_hand.what = wording::one_line(&by_hand.what);
                by_hand.how.iter_mut().for_each(|line| *line = wording::one_line(line));
            }
            Remedy::Consider(what) => *what = wording::one_line(what),
            _ => {}
        }
    }
    finding
}
