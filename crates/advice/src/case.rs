//! Cases: findings that have one cause, told together.

use std::collections::BTreeMap;

use hugewise_model::{Finding, HugePageUse, Instance, InstanceId, Level, PageSize, Remedy, RuleId};

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
    // What is said of one pool of the host is one case.
    let mut of_pools = BTreeMap::<PageSize, usize>::new();
    for finding in assessment.findings.iter().filter(|finding| finding.instance.is_none()) {
        let mut about: Vec<&InstanceId> = finding.remedies.iter().filter_map(Remedy::instance).collect();
        about.sort();
        about.dedup();
        let one = match about.as_slice() {
            [id] => place.get(*id).copied(),
            _ => {
                let sufferer = of_pool(finding).and_then(|remedy| foretold.get(remedy).copied());
                let sufferer = sufferer.filter(|id| !causes.contains_key(*id));
                sufferer.or_else(|| kept_off_by(finding, &told, &causes)).and_then(|id| place.get(id).copied())
            }
        };
        let page = of_pool(finding).and_then(page_of);
        let one = one.or_else(|| page.and_then(|page| of_pools.get(&page).copied()));
        match one.and_then(|at| cases.get_mut(at)) {
            Some((_, of)) => of.push(finding),
            None => {
                of_pools.extend(page.map(|page| (page, cases.len())));
                cases.push((None, vec![finding]));
            }
        }
    }
    let by_id: BTreeMap<InstanceId, &Instance> = instances.iter().map(|instance| (instance.id(), instance)).collect();
    let made = cases.into_iter().filter_map(|(id, mut of)| {
        let code = id.and_then(|id| causes.get(id));
        let at = of.iter().position(|finding| Some(&finding.code) == code && finding.instance.as_ref() == id);
        let worst = |finding: &Finding| (std::cmp::Reverse(finding.level), finding.code);
        let first = || {
            let all = of.iter().enumerate();
            match id {
                Some(_) => all.min_by_key(|(_, finding)| precedence(finding)).map(|(at, _)| at),
                None => all.min_by_key(|(_, finding)| worst(finding)).map(|(at, _)| at),
            }
        };
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

const fn page_of(remedy: &Remedy) -> Option<PageSize> {
    match remedy {
        Remedy::SetPool(page) | Remedy::KeepAtBoot(page) => Some(*page),
        _ => None,
    }
}

/// The one server whose cause is the same pool that is to be set.
fn kept_off_by<'a>(
    finding: &Finding,
    told: &BTreeMap<&'a InstanceId, Vec<&'a Finding>>,
    causes: &BTreeMap<InstanceId, RuleId>,
) -> Option<&'a InstanceId> {
    let remedy = of_pool(finding).filter(|it| matches!(it, Remedy::SetPool(_)))?;
    let lacks = |id: &InstanceId, said: &Vec<&Finding>| {
        said.iter().any(|it| causes.get(id) == Some(&it.code) && it.remedies.contains(remedy))
    };
    let mut lacking = told.iter().filter(|(id, said)| lacks(id, said)).map(|(id, _)| *id);
    lacking.next().filter(|_| lacking.next().is_none())
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

    /// A number that was meant for pages of 2 MiB, where 1 GiB is the default size: one line too many, and one case.
    #[test]
    fn what_one_pool_is_asked_for_too_much_is_one_case() {
        let mut case = quiet();
        let page = hugewise_model::PageSize::GIB_1;
        let instance = all_huge(case.postgresql("15/main", gib(8)));
        instance.asked_page_size = Observed::Known(page);
        instance.segments.iter_mut().for_each(|segment| segment.page_size = Observed::Known(page));
        let demand = hugewise_model::Demand {
            page_size: page,
            pages: hugewise_model::PageCount(8),
            source: hugewise_model::DemandSource::Measured,
        };
        instance.demand = Some(demand);
        case.pool(0, 0);
        *case.pools() =
            vec![crate::testing::pool(page, 8, 0), crate::testing::pool(hugewise_model::PageSize::MIB_2, 0, 0)];
        case.host.default_huge_page = Observed::Known(page);
        let line = ["default_hugepagesz=1G", "hugepagesz=1G", "hugepages=8"].map(str::to_owned).to_vec();
        case.host.command_line = Observed::Known(line.clone());
        if let Observed::Known(entry) = &mut case.host.configuration.boot {
            entry.command_line = line;
        }
        case.host.configuration.sysctl = Observed::Known(vec![sysctl("vm.nr_hugepages", "4210")]);
        let told = told(&case);
        let of_pool = told.iter().find(|(cause, ..)| cause == "HW604").unwrap();
        assert!(of_pool.1.contains(&"HW207".to_owned()) && of_pool.1.contains(&"HW605".to_owned()), "{told:?}");
        assert!(told.iter().all(|(cause, ..)| cause != "HW207" && cause != "HW605"), "{told:?}");
    }

    /// The file asks for the pages that the server lacks: it is the same lack.
    #[test]
    fn a_pool_that_is_short_of_its_file_belongs_to_the_server_that_lacks_it() {
        let mut case = quiet();
        case.postgresql("15/main", gib(2));
        case.host.configuration.sysctl = Observed::Known(vec![sysctl("vm.nr_hugepages", "1024")]);
        let told = told(&case);
        assert_eq!((told[0].0.as_str(), told.len()), ("HW201", 1), "{told:?}");
        assert!(told[0].1.contains(&"HW207".to_owned()), "{told:?}");
        let summary = case.assess().findings.iter().find(|it| it.code.as_str() == "HW201").map(|it| it.summary.clone());
        let expected =
            "postgresql 15/main holds 2.0 GiB on 4 KiB pages; 1,024 pages of 2 MiB are configured, and none are there";
        assert_eq!(summary.as_deref(), Some(expected));
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
