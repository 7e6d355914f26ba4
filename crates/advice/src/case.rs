//! Cases: findings that have one cause, told together.

use hugewise_model::{Finding, HugePageUse, Instance, InstanceId, Level, Remedy, RuleId};

use crate::rules::page_tables_at_max;
use crate::{Assessment, Facts, cause, docs};

/// One cause, and what follows from it.
#[derive(Clone, Debug)]
pub struct Case<'a> {
    /// The finding that names the cause; where several stand for themselves, the worst.
    pub cause: &'a Finding,
    /// The others, worst first.
    pub symptoms: Vec<&'a Finding>,
    /// What it costs: in numbers where they are known, else what such a cause costs.
    pub cost: String,
    /// Whether the cost names the page tables at the largest number of sessions.
    forecasts: bool,
}

impl<'a> Case<'a> {
    /// The level of the worst of its findings.
    pub fn level(&self) -> Level {
        let worst = self.symptoms.iter().map(|finding| finding.level).max();
        worst.map_or(self.cause.level, |worst| worst.max(self.cause.level))
    }

    /// Its symptoms without the one that says what its cost has said.
    pub fn unsaid(&self) -> impl Iterator<Item = &'a Finding> {
        let forecasts = self.forecasts;
        self.symptoms
            .iter()
            .copied()
            .filter(move |symptom| !(forecasts && symptom.code == page_tables_at_max::RULE.code))
    }
}

/// The findings of an assessment as cases, worst first. What is said of an instance is one case; what is said of the host
/// belongs to the case of the one instance that its remedies are about, and is a case of its own where they are about
/// none or several.
pub fn cases<'a>(host: &hugewise_model::Host, instances: &[Instance], assessment: &'a Assessment) -> Vec<Case<'a>> {
    let facts = assessment.facts(host, instances);
    let causes: std::collections::BTreeMap<InstanceId, RuleId> = instances
        .iter()
        .filter_map(|instance| Some((instance.id(), cause::cause(&facts, instance).ok().flatten()?.rule().code)))
        .collect();
    let mut cases: Vec<(Option<&InstanceId>, Vec<&'a Finding>)> = Vec::new();
    let mut place = std::collections::BTreeMap::<&InstanceId, usize>::new();
    for finding in assessment.findings.iter() {
        if let Some(id) = &finding.instance {
            let at = *place.entry(id).or_insert_with(|| {
                cases.push((Some(id), Vec::new()));
                cases.len() - 1
            });
            if let Some((_, of)) = cases.get_mut(at) {
                of.push(finding);
            }
        }
    }
    for finding in assessment.findings.iter().filter(|finding| finding.instance.is_none()) {
        let mut about: Vec<&InstanceId> = finding.remedies.iter().filter_map(Remedy::instance).collect();
        about.sort();
        about.dedup();
        let one = match about.as_slice() {
            [id] => place.get(*id).copied(),
            _ => None,
        };
        match one.and_then(|at| cases.get_mut(at)) {
            Some((_, of)) => of.push(finding),
            None => cases.push((None, vec![finding])),
        }
    }
    let made = cases.into_iter().filter_map(|(id, mut of)| {
        let code = id.and_then(|id| causes.get(id));
        let at = of.iter().position(|finding| Some(&finding.code) == code && finding.instance.as_ref() == id);
        let cause = if of.is_empty() { return None } else { of.remove(at.unwrap_or(0)) };
        of.sort_by_key(|finding| (std::cmp::Reverse(finding.level), finding.code));
        let instance = id.and_then(|id| instances.iter().find(|instance| instance.id() == *id));
        let (cost, forecasts) = cost(&facts, cause, instance);
        Some(Case { cause, symptoms: of, cost, forecasts })
    });
    let mut made: Vec<Case<'a>> = made.collect();
    made.sort_by_key(|case| std::cmp::Reverse(case.level()));
    made
}

/// What a cause costs, and whether that names the page tables at the largest number of sessions: its own word, what base
/// pages cost its instance, or what its rule knows of all such causes.
fn cost(facts: &Facts<'_>, cause: &Finding, instance: Option<&Instance>) -> (String, bool) {
    let on_base = instance.filter(|instance| instance.huge_pages != HugePageUse::All);
    let forecasts = on_base.is_some_and(|instance| cause::at_max(facts, instance).is_some());
    let measured =
        || on_base.filter(|it| cause::is_big(facts, it).unwrap_or(false)).and_then(|it| cause::cost(facts, it));
    let usual = || docs::find(cause.code.as_str()).map(|rule| rule.docs.cost).unwrap_or_default().to_owned();
    match cause.cost.clone().or_else(measured) {
        Some(cost) => (cost, forecasts),
        None => (usual(), false),
    }
}
