//! Verdicts: pure functions of a host and its instances.
//!
//! A rule is one file under `rules/`; [`assess`] runs them all. The [`chain`](mod@chain) of an
//! instance says which link between it and its huge pages is broken; rules about one instance
//! share one reading of that cause, so that one root cause gives one leading finding.

pub mod boot;
pub mod case;
mod cause;
pub mod cgroup;
pub mod chain;
pub mod demand;
pub mod docs;
pub mod forecast;
pub mod given;
mod idle;
pub mod locked;
pub mod login;
mod mounts;
pub mod permission;
pub mod remedy;
mod rules;
pub mod situation;
pub mod sizing;
pub mod standing;
mod starving;
pub mod stranger;
pub mod target;
#[cfg(test)]
mod testing;
pub mod thp;
pub mod touching;
pub mod words;

use situation::Situation;
use sizing::Request;
use target::{Target, Wish};

use hugewise_engines::Kind;
use hugewise_model::instance::Startup;
use hugewise_model::{
    Chain, Finding, Host, Instance, InstanceId, Lack, Level, Observed, Remedy, RuleId, UnknownVerdict,
};

/// One rule: a static in a file of its own under `rules/`.
pub struct Rule {
    /// `HW201`.
    pub code: RuleId,
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
    /// What it costs, in a line of at most 74 columns, where a finding knows no number.
    pub cost: &'static str,
    /// How to fix it, and what the fix risks.
    pub fix: &'static str,
    /// Where the facts come from: kernel document, vendor note with its version.
    pub sources: &'static [&'static str],
}

/// Whether a finding names the hugetlb limit of a server's cgroup as too small.
pub fn tells_of_limit(finding: &Finding) -> bool {
    finding.code == rules::cgroup_limit::RULE.code
}

/// What a rule looks at.
pub struct Facts<'a> {
    /// The host.
    pub host: &'a Host,
    /// Its instances, as far as something vouches for them: what is advised for the host goes by these alone.
    pub instances: &'a [Instance],
    /// All of them, for rules that only say who does something.
    pub everybody: &'a [Instance],
    /// Those that belong to the host and do not run: for rules about what they will find once they are started.
    pub asleep: &'a [Instance],
    /// The chain of each instance that is not wholly on huge pages, by instance.
    pub chains: &'a [Chain],
    /// How each instance stands now, after its next restart, and after the next boot.
    pub situation: &'a Situation,
}

impl Facts<'_> {
    /// The chain of an instance; none where it is wholly on huge pages or has no way to them.
    pub fn chain(&self, instance: &Instance) -> Option<&Chain> {
        let id = instance.id();
        self.chains.iter().find(|chain| chain.instance == id)
    }
}

/// A rule's answer; no verdict at all means that nothing is wrong.
pub enum Verdict {
    /// It speaks.
    Found(Finding),
    /// It could not decide.
    Unknown(UnknownVerdict),
}

/// Everything that is said of a host.
#[derive(Clone, Debug, Default)]
pub struct Assessment {
    /// How each instance stands now, after its next restart, and after the next boot.
    pub situation: Situation,
    /// What the host is to be: the pools that its servers need, now and at each boot.
    pub target: Target,
    /// Chains of instances that are not wholly on huge pages.
    pub chains: Vec<Chain>,
    /// Findings, worst first; among those of a level the causes, then by code and instance.
    pub findings: Vec<Finding>,
    /// Rules that could not decide, by code and instance. Where several rules miss the same fact of
    /// the same instance, the first of them stands here and its `missing` names the others.
    pub unknown: Vec<UnknownVerdict>,
}

impl Assessment {
    /// What rules look at, of these instances.
    pub fn facts<'a>(&'a self, host: &'a Host, instances: &'a [Instance]) -> Facts<'a> {
        Facts { host, instances, everybody: instances, asleep: &[], chains: &self.chains, situation: &self.situation }
    }
}

/// Every rule, by code.
pub fn rules() -> &'static [&'static Rule] {
    rules::RULES
}

/// A server whose files keep it from starting is not to be restarted before they are put right.
fn no_restart_of_refused(instances: &[Instance], finding: &mut Finding) {
    let refused = |instance: &Instance| matches!(instance.startup, Some(Startup::Refuses(_)));
    let is_refused = |id: &InstanceId| instances.iter().any(|it| refused(it) && it.id() == *id);
    finding.remedies.retain(|remedy| !matches!(remedy, Remedy::Restart(id) if is_refused(id)));
    // One whose files have come to say what nobody can tell may stay down.
    for remedy in &mut finding.remedies {
        let Remedy::Restart(id) = remedy else { continue };
        let unclear = |it: &&Instance| it.id() == *id && it.asked != hugewise_model::Asked::Unknown;
        let next = instances.iter().find(unclear).and_then(|it| it.next.known());
        if let Some(setting) =
            next.filter(|next| next.asked == hugewise_model::Asked::Unknown).and_then(|next| next.setting.as_ref())
        {
            *remedy =
                Remedy::by_hand(format!("see what {setting} comes to before {id} is restarted: it may stay down"));
        }
    }
}

/// Runs every rule on a host. Servers that nothing vouches for have their findings, but no command is given on their
/// word, and no number for the host counts them.
pub fn assess(host: &Host, instances: &[Instance]) -> Assessment {
    let (awake, asleep) = stranger::by_sleep(instances);
    let known = stranger::known(&awake);
    let situation = situation::situation(host, instances);
    let chain = |instance| chain::chain(host, situation.limits(), situation.locked(), instance);
    let chains: Vec<Chain> = awake.iter().filter_map(chain).collect();
    let of = |instances| Facts {
        host,
        instances,
        everybody: instances,
        asleep: &[],
        chains: &chains,
        situation: &situation,
    };
    let sleepers = stranger::known(&asleep);
    let (mut findings, mut unknown) = run(&Facts { everybody: &awake, asleep: &sleepers, ..of(&known) });
    if known.len() < awake.len() {
        let stranger = |id: Option<&InstanceId>| {
            awake.iter().find(|instance| !instance.is_vouched() && Some(&instance.id()) == id)
        };
        let (about, missing) = run(&of(&awake));
        findings.extend(about.into_iter().filter_map(|finding| {
            let instance = stranger(finding.instance.as_ref())?;
            Some(stranger::until_named(finding, instance))
        }));
        unknown.extend(missing.into_iter().filter(|verdict| stranger(verdict.instance.as_ref()).is_some()));
    }
    if let Some(why) = host.unseen() {
        findings.iter_mut().for_each(|finding| keep_pages(finding, &why));
    }
    findings.iter_mut().for_each(|finding| no_such_pool(host, instances, finding));
    findings.iter_mut().for_each(|finding| no_restart_of_refused(instances, finding));
    for instance in awake.iter() {
        raise_where_down(host, &situation, instance, &mut findings);
    }
    let facts = of(instances);
    // Among equals the cause comes before what follows from it.
    let follows = |finding: &Finding| {
        let instance = instances.iter().find(|instance| finding.instance == Some(instance.id()));
        let cause = instance.and_then(|instance| cause::cause(&facts, instance).ok().flatten());
        cause.is_none_or(|cause| rules::of_cause(cause).code != finding.code)
    };
    findings.sort_by_cached_key(|finding| {
        (std::cmp::Reverse(finding.level), follows(finding), finding.code, title(&finding.instance))
    });
    let mut assessment =
        Assessment { findings, unknown: together(unknown), chains, situation, target: Target::default() };
    let target = target::target(host, instances, &assessment, Wish::default(), &Request::default());
    // A request of nothing makes sense on every host.
    assessment.target = target.unwrap_or_default();
    let said = |remedy| remedy::say(host, instances, &assessment, remedy);
    let fixes = assessment.findings.iter().map(|it| it.remedies.iter().filter_map(said).collect());
    let fixes: Vec<Vec<String>> = fixes.collect();
    for (finding, fix) in assessment.findings.iter_mut().zip(fixes) {
        finding.fix = fix;
        if finding.fix.is_empty() {
            // What would end it is there already, or is nothing that is planned for unasked.
            finding.fix.push(format!(
                "see hugewise rules {}; to plan for one server, name it: hugewise plan --instance NAME",
                finding.code
            ));
        }
    }
    assessment
}

fn run(facts: &Facts<'_>) -> (Vec<Finding>, Vec<UnknownVerdict>) {
    let (mut findings, mut unknown) = (Vec::new(), Vec::new());
    for verdict in rules().iter().flat_map(|rule| (rule.check)(facts)) {
        match verdict {
            Verdict::Found(finding) => findings.push(tidy(finding)),
            Verdict::Unknown(verdict) => unknown.push(verdict),
        }
    }
    (findings, unknown)
}

/// Takes control characters out of what came off the host: a finding's lines stay lines, and a
/// comment among its commands stays a comment.
fn tidy(mut finding: Finding) -> Finding {
    finding.summary = words::one_line(&finding.summary);
    finding.short = words::one_line(&finding.short);
    for line in finding.evidence.iter_mut().chain(finding.cost.as_mut()) {
        *line = words::one_line(line);
    }
    for remedy in &mut finding.remedies {
        match remedy {
            Remedy::ByHand(by_hand) => {
                by_hand.what = words::one_line(&by_hand.what);
                by_hand.how.iter_mut().for_each(|line| *line = words::one_line(line));
            }
            Remedy::Consider(what) => *what = words::one_line(what),
            _ => {}
        }
    }
    finding
}

/// Asks for no pages of a size that the kernel does not have: whoever asks for them is to ask for others.
fn no_such_pool(host: &Host, instances: &[Instance], finding: &mut Finding) {
    let Some(pools) = host.pools.known().filter(|pools| !pools.is_empty()) else { return };
    let lacking = |remedy: &Remedy| match remedy {
        Remedy::SetPool(page) | Remedy::KeepAtBoot(page) => {
            Some(*page).filter(|page| pools.iter().all(|pool| pool.page_size != *page))
        }
        _ => None,
    };
    let there: Vec<String> = pools.iter().map(|pool| pool.page_size.to_string()).collect();
    for remedy in &mut finding.remedies {
        if let Some(page) = lacking(remedy) {
            let asks = |it: &&Instance| it.is_vouched() && demand::page_size(host, it) == Some(page);
            let asking: Vec<InstanceId> = instances.iter().filter(asks).map(Instance::id).collect();
            // The same words wherever it is said, so that it is told once.
            let (who, how) = match (&finding.instance, asking.as_slice()) {
                (Some(id), _) | (None, [id]) => (id.to_string(), Kind::of(id.engine).page_size_by),
                (None, []) => ("its server".into(), None),
                (None, several) => (words::list(&several.iter().map(ToString::to_string).collect::<Vec<_>>()), None),
            };
            let how = how.map(|name| format!(" ({name})")).unwrap_or_default();
            let has = words::list(&there);
            *remedy = Remedy::by_hand(format!(
                "have {who} ask for pages of a size that this kernel has{how}: {has}, and not {page}"
            ));
        }
    }
    finding.remedies.dedup();
}

/// A server that insists and would not start again is no mere warning, whichever rule says what keeps its pages from it.
fn raise_where_down(host: &Host, situation: &Situation, instance: &Instance, findings: &mut [Finding]) {
    let fails = situation.of(instance).is_some_and(|it| it.restart.standing == standing::Standing::DoesNotStart);
    if !fails || demand::starting(host, instance).asked != hugewise_model::Asked::Must {
        return;
    }
    let id = instance.id();
    let mut about: Vec<&mut Finding> = findings.iter_mut().filter(|it| it.instance.as_ref() == Some(&id)).collect();
    if about.iter().any(|it| it.level == Level::Error) {
        return;
    }
    // What never is an error merely lets things happen, or is something else.
    let may_be = |it: &Finding| docs::find(it.code.as_str()).is_some_and(|rule| rule.level == Level::Error);
    let is_cause = |it: &Finding| it.level == Level::Warn && may_be(it);
    if let Some(first) = about.iter_mut().find(|it| is_cause(it)) {
        first.level = Level::Error;
    }
}

/// Gives no pages back while servers may be there that nobody has seen.
fn keep_pages(finding: &mut Finding, why: &str) {
    let all = finding.remedies.len();
    finding.remedies.retain(|remedy| !matches!(remedy, Remedy::GiveBack(_)));
    if finding.remedies.len() < all {
        finding.remedies.push(Remedy::Consider(words::one_line(&format!(
            "look where every server is seen before pages are given back: {why}"
        ))));
    }
}

/// One verdict for each fact that is missing, however many rules wanted it.
fn together(verdicts: Vec<UnknownVerdict>) -> Vec<UnknownVerdict> {
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
            verdict.missing = words::one_line(&verdict.missing);
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
    kept.sort_by_cached_key(|verdict| (verdict.code, title(&verdict.instance)));
    kept
}

/// What an instance is called, for an order that a reader finds his way in.
fn title(instance: &Option<InstanceId>) -> Option<String> {
    instance.as_ref().map(InstanceId::to_string)
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
    /// The same fact, asked for a verdict on the whole host.
    pub(crate) fn of_host(self) -> Self {
        let (Self::Host(what) | Self::Instance(what)) = self;
        Self::Host(what)
    }
}

/// A fact that a rule cannot do without; `what` is its file, and the field where that is not plain.
pub(crate) fn known<'a, T>(fact: &'a Observed<T>, what: &str) -> Result<&'a T, Missing> {
    fact.known().ok_or_else(|| Missing::Host(Lack::of(what, fact)))
}

impl Rule {
    /// A finding of this rule, its evidence, cost and fix still empty.
    pub(crate) fn finding(&self, level: Level, instance: Option<&Instance>, summary: String) -> Finding {
        Finding {
            code: self.code,
            name: self.name,
            level,
            instance: instance.map(Instance::id),
            short: summary.clone(),
            summary,
            evidence: Vec::new(),
            cost: None,
            remedies: Vec::new(),
            fix: Vec::new(),
        }
    }

    fn unknown(&self, instance: Option<&Instance>, missing: Missing) -> Verdict {
        let (instance, lack) = match missing {
            Missing::Host(lack) => (None, lack),
            Missing::Instance(lack) => (instance.map(Instance::id), lack),
        };
        let (missing, why) = (lack.text, lack.why);
        Verdict::Unknown(UnknownVerdict { code: self.code, name: self.name, instance, missing, why })
    }

    /// Asks a question of the host as a whole.
    pub(crate) fn of_host(
        &self,
        facts: &Facts<'_>,
        look: impl Fn(&Facts<'_>) -> Result<Vec<Finding>, Missing>,
    ) -> Vec<Verdict> {
        match look(facts) {
            Ok(findings) => findings.into_iter().map(Verdict::Found).collect(),
            Err(missing) => vec![self.unknown(None, missing)],
        }
    }

    /// Asks a question of each instance. Where no process could be seen, nobody knows which instances there are.
    pub(crate) fn of_each(
        &self,
        facts: &Facts<'_>,
        look: impl Fn(&Facts<'_>, &Instance) -> Result<Option<Finding>, Missing>,
    ) -> Vec<Verdict> {
        if let (true, Some(why)) = (facts.instances.is_empty(), facts.host.processes.why()) {
            return vec![self.unknown(None, Missing::Host(Lack::new("processes", why)))];
        }
        let answer = |instance| match look(facts, instance) {
            Ok(finding) => finding.map(Verdict::Found),
            Err(missing) => Some(self.unknown(Some(instance), missing)),
        };
        facts.instances.iter().filter_map(answer).collect()
    }
}

#[cfg(test)]
mod tests;
