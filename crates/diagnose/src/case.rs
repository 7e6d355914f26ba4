//! Cases: findings that have one cause, told together.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use hugewise_model::{Finding, HugePageUse, Instance, InstanceId, Level, PageSize, Remedy, RuleId};

use crate::{Assessment, CaseRole, RuleFacts, cause, docs};

/// One cause, and what follows from it.
#[derive(Clone, Debug)]
pub struct DiagnosedCase<'a> {
    /// The finding that names the cause; where several stand for themselves, the worst.
    pub cause: &'a Finding,
    /// The others, worst first.
    pub symptoms: Vec<&'a Finding>,
    /// What it costs: in numbers where they are known, else what such a cause costs.
    pub cost: String,
    forecasts: bool,
}

impl<'a> DiagnosedCase<'a> {
    /// The level of the worst of its findings.
    pub fn level(&self) -> Level {
        let worst = self.symptoms.iter().map(|finding| finding.level).max();
        worst.map_or(self.cause.level, |worst| worst.max(self.cause.level))
    }

    /// Its symptoms without the one that says what its cost has said.
    pub fn unreported_symptoms(&self) -> impl Iterator<Item = &'a Finding> {
        let forecasts = self.forecasts;
        self.symptoms
            .iter()
            .copied()
            .filter(move |symptom| !(forecasts && role_of(symptom) == CaseRole::Cost))
    }
}

/// One case for each instance, worst first. What is said of the host belongs to the one instance
/// that its remedies are about, else it is a case of its own.
pub fn group_into_cases<'a>(
    host: &hugewise_model::Host,
    instances: &[Instance],
    assessment: &'a Assessment,
) -> Vec<DiagnosedCase<'a>> {
    let facts = assessment.rule_facts(host, instances);
    let mut by_instance = BTreeMap::<&InstanceId, Vec<&Finding>>::new();
    for finding in &assessment.findings {
        if let Some(id) = &finding.instance {
            by_instance.entry(id).or_default().push(finding);
        }
    }
    let mut causes = cause::find_leading_rules(&facts);
    causes.retain(|id, code| leads_its_case(by_instance.get(id), *code));
    let by_id: BTreeMap<InstanceId, &Instance> =
        instances.iter().map(|instance| (instance.id(), instance)).collect();
    let mut cases: Vec<DiagnosedCase<'a>> = group_findings(assessment, &by_instance, &causes)
        .into_iter()
        .filter_map(|(id, findings)| {
            let instance = id.and_then(|id| by_id.get(id).copied());
            make_case(&facts, id, instance, id.and_then(|id| causes.get(id)), findings)
        })
        .collect();
    cases.sort_by_key(|case| Reverse(case.level()));
    cases
}

/// Whether the finding on an instance's cause leads: nothing that is said of it is worse.
fn leads_its_case(findings: Option<&Vec<&Finding>>, cause: RuleId) -> bool {
    let findings = || findings.into_iter().flatten();
    let worst = findings().map(|finding| finding.level).max();
    let leading = findings().find(|finding| finding.code == cause);
    leading.is_none_or(|leading| Some(leading.level) == worst)
}

type FindingGroup<'a> = (Option<&'a InstanceId>, Vec<&'a Finding>);

fn group_findings<'a>(
    assessment: &'a Assessment,
    by_instance: &BTreeMap<&'a InstanceId, Vec<&'a Finding>>,
    causes: &BTreeMap<InstanceId, RuleId>,
) -> Vec<FindingGroup<'a>> {
    let foretold = why_foretold(assessment);
    let mut groups: Vec<FindingGroup<'a>> = Vec::new();
    let mut place_of_instance = BTreeMap::<&InstanceId, usize>::new();
    for id in assessment.findings.iter().filter_map(|finding| finding.instance.as_ref()) {
        place_of_instance.entry(id).or_insert_with(|| {
            groups.push((Some(id), by_instance.get(id).cloned().unwrap_or_default()));
            groups.len() - 1
        });
    }
    // What is said of one pool of the host is one case.
    let mut place_of_pool = BTreeMap::<PageSize, usize>::new();
    for finding in assessment.findings.iter().filter(|finding| finding.instance.is_none()) {
        let about: BTreeSet<&InstanceId> =
            finding.remedies.iter().filter_map(Remedy::instance).collect();
        let sufferer = || {
            let foretold = of_pool(finding).and_then(|remedy| foretold.get(remedy).copied());
            let foretold = foretold.filter(|id| !causes.contains_key(*id));
            foretold.or_else(|| kept_off_by(finding, by_instance, causes))
        };
        let instance = if about.len() == 1 { about.first().copied() } else { sufferer() };
        let page = of_pool(finding).and_then(page_of);
        let place = instance
            .and_then(|id| place_of_instance.get(id))
            .or_else(|| place_of_pool.get(&page?))
            .and_then(|place| groups.get_mut(*place));
        match place {
            Some((_, findings)) => findings.push(finding),
            None => {
                place_of_pool.extend(page.map(|page| (page, groups.len())));
                groups.push((None, vec![finding]));
            }
        }
    }
    groups
}

fn make_case<'a>(
    facts: &RuleFacts<'_>,
    id: Option<&InstanceId>,
    instance: Option<&Instance>,
    leading_rule: Option<&RuleId>,
    mut findings: Vec<&'a Finding>,
) -> Option<DiagnosedCase<'a>> {
    let worst = |finding: &Finding| (Reverse(finding.level), finding.code);
    let leading = findings
        .iter()
        .position(|finding| Some(&finding.code) == leading_rule && finding.instance.as_ref() == id);
    let first = || {
        let all = findings.iter().enumerate();
        let first = match id {
            Some(_) => all.min_by_key(|(_, finding)| rank_lead_finding(finding)),
            None => all.min_by_key(|(_, finding)| worst(finding)),
        };
        first.map(|(place, _)| place)
    };
    let place = leading.or_else(first)?;
    let cause = findings.remove(place);
    findings.sort_by_key(|finding| worst(finding));
    // The state of a pool costs its server what is foretold of it.
    let foretold = findings.iter().find(|finding| cause.instance.is_none() && is_foretold(finding));
    let (cost, forecasts) = match foretold {
        Some(foretold) => (foretold.to_brief_text(), false),
        None => describe_cause_cost(facts, cause, instance),
    };
    Some(DiagnosedCase { cause, symptoms: findings, cost, forecasts })
}

fn role_of(finding: &Finding) -> CaseRole {
    docs::find_rule(finding.code.as_str()).map_or(CaseRole::Plain, |rule| rule.role)
}

fn is_foretold(finding: &Finding) -> bool {
    role_of(finding) == CaseRole::Forecast
}

/// Worst level first; of one level a pool's state, a server's fate, the rest, bystanders.
fn rank_lead_finding(finding: &Finding) -> (Reverse<Level>, u8, RuleId) {
    let is_thp = |remedy: &Remedy| matches!(remedy, Remedy::SetThp | Remedy::KeepThpAtBoot);
    let of_thp = !finding.remedies.is_empty() && finding.remedies.iter().all(is_thp);
    let place = match finding {
        _ if finding.instance.is_none() && of_pool(finding).is_some() => 0,
        _ if is_foretold(finding) => 1,
        _ if role_of(finding) == CaseRole::Bystander => 3,
        _ if of_thp => 4,
        _ => 2,
    };
    let level = if place == 0 { Level::Error } else { finding.level };
    (Reverse(level), place, finding.code)
}

fn of_pool(finding: &Finding) -> Option<&Remedy> {
    finding.remedies.iter().find(|remedy| page_of(remedy).is_some())
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
    let remedy = of_pool(finding).filter(|remedy| matches!(remedy, Remedy::SetPool(_)))?;
    let lacks = |id: &InstanceId, said: &Vec<&Finding>| {
        said.iter().any(|finding| {
            causes.get(id) == Some(&finding.code) && finding.remedies.contains(remedy)
        })
    };
    let mut lacking = told.iter().filter(|(id, said)| lacks(id, said)).map(|(id, _)| *id);
    lacking.next().filter(|_| lacking.next().is_none())
}

/// What is to be done to a pool because one server, and no other, is foretold to lose its pages.
fn why_foretold(assessment: &Assessment) -> BTreeMap<&Remedy, &InstanceId> {
    let mut why = BTreeMap::new();
    let foretold: Vec<&Finding> =
        assessment.findings.iter().filter(|finding| is_foretold(finding)).collect();
    for finding in assessment.findings.iter().filter(|finding| finding.instance.is_none()) {
        let Some(remedy) = of_pool(finding) else { continue };
        let mut suffer: Vec<&InstanceId> = foretold
            .iter()
            .filter(|finding| of_pool(finding) == Some(remedy))
            .filter_map(|finding| finding.instance.as_ref())
            .collect();
        suffer.dedup();
        if let [one] = suffer.as_slice() {
            why.insert(remedy, *one);
        }
    }
    why
}

/// With whether that names the page tables at the most sessions.
fn describe_cause_cost(
    facts: &RuleFacts<'_>,
    cause: &Finding,
    instance: Option<&Instance>,
) -> (String, bool) {
    let on_base = instance.filter(|instance| instance.huge_pages != HugePageUse::All);
    let forecasts = on_base.is_some_and(|instance| cause::at_max(facts, instance).is_some());
    // What THP costs is another thing than page tables.
    let of_thp = role_of(cause) == CaseRole::Thp;
    let measured = || {
        on_base
            .filter(|instance| !of_thp && cause::is_big(facts, instance).unwrap_or(false))
            .and_then(|instance| cause::describe_base_cost(facts, instance))
    };
    let usual = || docs::find_rule(cause.code.as_str()).map(|rule| rule.docs.cost);
    match cause.cost.clone().or_else(measured) {
        Some(cost) => (cost, forecasts),
        None => (usual().unwrap_or_default().to_owned(), false),
    }
}

#[cfg(test)]
mod tests {
    use hugewise_model::Observed;

    use super::*;
    use crate::testing::{all_huge, gib, quiet, sysctl};

    fn describe_cases(case: &crate::testing::Case) -> Vec<(String, Vec<String>, String)> {
        let assessment = case.assess();
        let cases = group_into_cases(&case.host, &case.instances, &assessment);
        let codes = |case: &DiagnosedCase<'_>| {
            case.symptoms.iter().map(|finding| finding.code.to_string()).collect()
        };
        cases
            .iter()
            .map(|case| (case.cause.code.to_string(), codes(case), case.cost.clone()))
            .collect()
    }

    #[test]
    fn a_pool_that_the_boot_makes_smaller_comes_before_what_becomes_of_its_server() {
        let mut case = quiet();
        all_huge(case.postgresql("15/main", gib(2)));
        case.pool(1024, 0);
        case.host.configuration.sysctl = Observed::Known(vec![sysctl("vm.nr_hugepages", "300")]);
        let cases = describe_cases(&case);
        let (cause, symptoms, cost) = &cases[0];
        assert_eq!((cause.as_str(), cases.len()), ("HW601", 1), "{cases:?}");
        assert!(
            symptoms.iter().any(|text| text == "HW603")
                && symptoms.iter().any(|other_text| other_text == "HW401"),
            "{cases:?}"
        );
        assert_eq!(cost, "postgresql 15/main may get no huge pages at the next boot");
    }

    /// A number that was meant for pages of 2 MiB, where 1 GiB is the default size: one line too
    /// many, and one case.
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
        *case.pools() = vec![
            crate::testing::pool(page, 8, 0),
            crate::testing::pool(hugewise_model::PageSize::MIB_2, 0, 0),
        ];
        case.host.default_huge_page = Observed::Known(page);
        let line =
            ["default_hugepagesz=1G", "hugepagesz=1G", "hugepages=8"].map(str::to_owned).to_vec();
        case.host.command_line = Observed::Known(line.clone());
        if let Observed::Known(entry) = &mut case.host.configuration.boot {
            entry.command_line = line;
        }
        case.host.configuration.sysctl = Observed::Known(vec![sysctl("vm.nr_hugepages", "4210")]);
        let cases = describe_cases(&case);
        let of_pool = cases.iter().find(|(cause, ..)| cause == "HW604").unwrap();
        assert!(
            of_pool.1.contains(&"HW207".to_owned()) && of_pool.1.contains(&"HW605".to_owned()),
            "{cases:?}"
        );
        assert!(cases.iter().all(|(cause, ..)| cause != "HW207" && cause != "HW605"), "{cases:?}");
    }

    /// The file asks for the pages that the server lacks: it is the same lack.
    #[test]
    fn a_pool_that_is_short_of_its_file_belongs_to_the_server_that_lacks_it() {
        let mut case = quiet();
        case.postgresql("15/main", gib(2));
        case.host.configuration.sysctl = Observed::Known(vec![sysctl("vm.nr_hugepages", "1024")]);
        let cases = describe_cases(&case);
        assert_eq!((cases[0].0.as_str(), cases.len()), ("HW201", 1), "{cases:?}");
        assert!(cases[0].1.contains(&"HW207".to_owned()), "{cases:?}");
        let summary = case
            .assess()
            .findings
            .iter()
            .find(|finding| finding.code.as_str() == "HW201")
            .map(|finding| finding.summary.clone());
        let expected = "postgresql 15/main holds 2.0 GiB on 4 KiB pages; 1,024 pages of 2 MiB are \
                        configured, and none are there";
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
        let cases = describe_cases(&case);
        let of_prod =
            cases.iter().find(|(_, symptoms, _)| symptoms.iter().any(|text| text == "HW501"));
        assert_eq!(of_prod.map(|(cause, ..)| cause.as_str()), Some("HW603"), "{cases:?}");
    }

    /// An error is not told under the words of a warning: what makes the level comes first, or the
    /// pool that brings it about.
    #[test]
    fn what_makes_the_level_leads() {
        let mut case = quiet();
        case.postgresql("15/main", gib(2)).asked = hugewise_model::HugePageMode::Must;
        case.pool(1024, 1024);
        case.host.configuration.sysctl = Observed::Known(vec![sysctl("vm.nr_hugepages", "1024")]);
        assert_eq!(describe_cases(&case)[0].0, "HW209");
        case.host.configuration.sysctl = Observed::Known(vec![sysctl("vm.nr_hugepages", "300")]);
        let cases = describe_cases(&case);
        assert_eq!(cases[0].0, "HW601", "{cases:?}");
        assert_eq!(cases[0].2, "postgresql 15/main may not start at the next boot");
        assert!(
            cases[0].1.iter().any(|text| text == "HW603")
                && cases[0].1.iter().any(|other_text| other_text == "HW209"),
            "{cases:?}"
        );
    }
}
