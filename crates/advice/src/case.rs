//! Cases: findings that have one cause, told together.

use std::collections::BTreeMap;

use hugewise_model::{Finding, HugePageUse, Instance, InstanceId, Level, Remedy, RuleId};

use crate::rules::{boot_loses_pages, page_tables_at_max, restart_loses_pages, silent_fallback};
use crate::{Assessment, Facts, cause, docs, rules};

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
    let mut told = BTreeMap::<&InstanceId, Vec<&Finding>>::new();
    for finding in assessment.findings.iter() {
        if let Some(id) = &finding.instance {
            told.entry(id).or_default().push(finding);
        }
    }
    let causes: BTreeMap<InstanceId, RuleId> = instances
        .iter()
        .filter_map(|instance| {
            let (id, code) = (instance.id(), cause::cause(&facts, instance).ok().flatten().map(rules::of_cause)?.code);
            let said = || told.get(&id).into_iter().flatten();
            let worst = said().map(|it| it.level).max();
            // What is worse than it is what there is to tell first.
            let leads = said().find(|it| it.code == code).is_none_or(|it| Some(it.level) == worst);
            leads.then_some((id.clone(), code))
        })
        .collect();
    let foretold = why_foretold(assessment);
    let mut cases: Vec<(Option<&InstanceId>, Vec<&'a Finding>)> = Vec::new();
    let mut place = BTreeMap::<&InstanceId, usize>::new();
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
            _ => {
                let sufferer = of_pool(finding).and_then(|remedy| foretold.get(remedy).copied());
                sufferer.filter(|id| !causes.contains_key(*id)).and_then(|id| place.get(id).copied())
            }
        };
        match one.and_then(|at| cases.get_mut(at)) {
            Some((_, of)) => of.push(finding),
            None => cases.push((None, vec![finding])),
        }
    }
    let by_id: BTreeMap<InstanceId, &Instance> = instances.iter().map(|instance| (instance.id(), instance)).collect();
    let made = cases.into_iter().filter_map(|(id, mut of)| {
        let code = id.and_then(|id| causes.get(id));
        let at = of.iter().position(|finding| Some(&finding.code) == code && finding.instance.as_ref() == id);
        let first = || of.iter().enumerate().min_by_key(|(_, finding)| precedence(finding)).map(|(at, _)| at);
        let cause = if of.is_empty() { return None } else { of.remove(at.or_else(first).unwrap_or(0)) };
        of.sort_by_key(|finding| (std::cmp::Reverse(finding.level), finding.code));
        let instance = id.and_then(|id| by_id.get(id).copied());
        let (cost, forecasts) = match of.iter().find(|it| cause.instance.is_none() && is_foretold(it)) {
            // The state of a pool costs its server what is foretold of it.
            Some(foretold) => (foretold.briefly(), false),
            None => cost(&facts, cause, instance),
        };
        Some(Case { cause, symptoms: of, cost, forecasts })
    });
    let mut made: Vec<Case<'a>> = made.collect();
    made.sort_by_key(|case| std::cmp::Reverse(case.level()));
    made
}

/// Whether a finding says what becomes of a server later.
fn is_foretold(finding: &Finding) -> bool {
    [restart_loses_pages::RULE.code, boot_loses_pages::RULE.code].contains(&finding.code)
}

/// Which of the findings of a case that no cause leads stands for it: of the worst the state of a pool, then what becomes of
/// the server by that, then the rest, and what merely lets it happen or has nothing to do with it last.
fn precedence(finding: &Finding) -> (std::cmp::Reverse<Level>, u8, RuleId) {
    let of_thp = !finding.remedies.is_empty()
        && finding.remedies.iter().all(|it| matches!(it, Remedy::SetThp | Remedy::KeepThpAtBoot));
    let place = match finding {
        _ if finding.instance.is_none() && of_pool(finding).is_some() => 0,
        _ if is_foretold(finding) => 1,
        _ if finding.code == silent_fallback::RULE.code => 3,
        _ if of_thp => 4,
        _ => 2,
    };
    let level = if place == 0 { Level::Error } else { finding.level };
    (std::cmp::Reverse(level), place, finding.code)
}

/// The remedy of a pool that a finding has: what the same state of that pool asks for.
fn of_pool(finding: &Finding) -> Option<&Remedy> {
    finding.remedies.iter().find(|it| matches!(it, Remedy::SetPool(_) | Remedy::KeepAtBoot(_)))
}

/// What is to be done to a pool of the host because one server, and no other, is foretold to lose its pages.
fn why_foretold(assessment: &Assessment) -> std::collections::BTreeMap<&Remedy, &InstanceId> {
    let mut why = std::collections::BTreeMap::new();
    let foretold: Vec<&Finding> = assessment.findings.iter().filter(|it| is_foretold(it)).collect();
    for finding in assessment.findings.iter().filter(|it| it.instance.is_none()) {
        let Some(remedy) = of_pool(finding) else { continue };
        let mut suffer: Vec<&InstanceId> =
            foretold.iter().filter(|it| of_pool(it) == Some(remedy)).filter_map(|it| it.instance.as_ref()).collect();
        suffer.dedup();
        if let [one] = suffer.as_slice() {
            why.insert(remedy, *one);
        }
    }
    why
}

/// What a cause costs, and whether that names the page tables at the largest number of sessions: its own word, what base
/// pages cost its instance, or what its rule knows of all such causes.
fn cost(facts: &Facts<'_>, cause: &Finding, instance: Option<&Instance>) -> (String, bool) {
    let on_base = instance.filter(|instance| instance.huge_pages != HugePageUse::All);
    let forecasts = on_base.is_some_and(|instance| cause::at_max(facts, instance).is_some());
    // What THP costs is another thing than page tables.
    let of_thp = [rules::thp_policy::RULE.code, rules::thp_differs_at_boot::RULE.code].contains(&cause.code);
    let measured = || {
        on_base.filter(|it| !of_thp && cause::is_big(facts, it).unwrap_or(false)).and_then(|it| cause::cost(facts, it))
    };
    let usual = || docs::find(cause.code.as_str()).map(|rule| rule.docs.cost).unwrap_or_default().to_owned();
    match cause.cost.clone().or_else(measured) {
        Some(cost) => (cost, forecasts),
        None => (usual(), false),
    }
}

#[cfg(test)]
mod tests {
    use hugewise_model::Observed;

    use super::*;
    use crate::testing::{all_huge, gib, quiet, sysctl};

    fn told(case: &crate::testing::Case) -> Vec<(String, Vec<String>, String)> {
        let assessment = case.assess();
        let cases = cases(&case.host, &case.instances, &assessment);
        let codes = |case: &Case<'_>| case.symptoms.iter().map(|it| it.code.to_string()).collect();
        cases.iter().map(|case| (case.cause.code.to_string(), codes(case), case.cost.clone())).collect()
    }

    #[test]
    fn a_pool_that_the_boot_makes_smaller_comes_before_what_becomes_of_its_server() {
        let mut case = quiet();
        all_huge(case.postgresql("15/main", gib(2)));
        case.pool(1024, 0);
        case.host.configuration.sysctl = Observed::Known(vec![sysctl("vm.nr_hugepages", "300")]);
        let told = told(&case);
        let (cause, symptoms, cost) = &told[0];
        assert_eq!((cause.as_str(), told.len()), ("HW601", 1), "{told:?}");
        assert!(symptoms.iter().any(|it| it == "HW603") && symptoms.iter().any(|it| it == "HW401"), "{told:?}");
        assert_eq!(cost, "postgresql 15/main may get no huge pages at the next boot");
    }

    #[test]
    fn what_becomes_of_a_server_comes_before_what_has_nothing_to_do_with_it() {
        let mut case = quiet();
        all_huge(case.oracle("PROD", gib(4), 10));
        case.pool(2048, 0);
        case.host.thp.enabled = Observed::Known("always".into());
        // Its right is the running kernel's alone.
        case.host.kernel_settings.hugetlb_shm_group = Observed::Known(54321);
        case.host.kernel_log = Observed::Known(Vec::new());
        let told = told(&case);
        let of_prod = told.iter().find(|(_, symptoms, _)| symptoms.iter().any(|it| it == "HW501"));
        assert_eq!(of_prod.map(|(cause, ..)| cause.as_str()), Some("HW603"), "{told:?}");
    }

    /// An error is not told under the words of a warning: what makes the level comes first, or the pool that brings it about.
    #[test]
    fn what_makes_the_level_leads() {
        let mut case = quiet();
        case.postgresql("15/main", gib(2)).asked = hugewise_model::Asked::Must;
        case.pool(1024, 1024);
        case.host.configuration.sysctl = Observed::Known(vec![sysctl("vm.nr_hugepages", "1024")]);
        assert_eq!(told(&case)[0].0, "HW209");
        case.host.configuration.sysctl = Observed::Known(vec![sysctl("vm.nr_hugepages", "300")]);
        let told = told(&case);
        assert_eq!(told[0].0, "HW601", "{told:?}");
        assert_eq!(told[0].2, "postgresql 15/main may not start at the next boot");
        assert!(told[0].1.iter().any(|it| it == "HW603") && told[0].1.iter().any(|it| it == "HW209"), "{told:?}");
    }
}
