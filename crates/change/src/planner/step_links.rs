//! What each step relies on, and which findings it ends: reckoned here alone, from the remedies that
//! the steps carry out. A new rule needs no word here.
//!
//! Pools come first: a server that asks, or has the right to pages, before its own are there takes
//! those of others at its next start. One restarted before its settings and limits stand starts in
//! vain.
//!
//! A finding ends with the last of its remedies. What ends at once is tried too: what the rules
//! still find on the host as the steps leave it is not promised.

use std::collections::BTreeMap;

use hugewise_diagnose::demand;
use hugewise_model::{Finding, InstanceId, PageSize, Remedy, RuleId};

use super::PlanRequest;
use super::draft::{Draft, Drafted, PlanPart};
use super::projected_host::ProjectedHost;
use crate::plan::{EffectTime, ExpectedResolution};

pub(super) fn assign_dependencies(ask: &PlanRequest<'_>, draft: &mut Draft<'_>) {
    // The rest is done all the same then; who insists on pages relies on them by himself.
    if ask.options.keep_partial {
        return;
    }
    let relies: Vec<Vec<String>> =
        (0..draft.steps.len()).map(|at| find_dependencies(ask, draft, at)).collect();
    for (step, relies) in draft.steps.iter_mut().zip(relies) {
        for id in relies {
            if !step.relies_on.contains(&id) {
                step.relies_on.push(id);
            }
        }
    }
}

fn find_dependencies(ask: &PlanRequest<'_>, draft: &Draft<'_>, at: usize) -> Vec<String> {
    let Some(step) = draft.steps.get(at) else { return Vec::new() };
    let servers = affected_servers(step);
    let pages: Vec<PageSize> =
        servers.iter().filter_map(|id| expected_page_size(ask, id)).collect();
    let restarts = is_restart(step);
    let earlier = draft.steps.iter().take(at).filter(|earlier| {
        let pool = pages.iter().any(|page| brings_pages(draft, earlier, *page));
        let own = || {
            affected_servers(earlier).iter().any(|id| servers.contains(id)) || sets_limits(earlier)
        };
        pool || (restarts && own())
    });
    earlier.map(|earlier| earlier.id.clone()).collect()
}

fn affected_servers(step: &Drafted) -> Vec<&InstanceId> {
    let carried = step.carries.iter().filter_map(|carried| match &carried.remedy {
        Remedy::SetGroup(id) | Remedy::RaiseMemlock(id) | Remedy::SetSetting(id) => Some(id),
        _ => None,
    });
    let mut servers: Vec<&InstanceId> = carried.chain(&step.of).collect();
    servers.sort();
    servers.dedup();
    servers
}

fn is_restart(step: &Drafted) -> bool {
    let own = |id: &InstanceId| {
        step.carries.iter().any(|carried| carried.remedy == Remedy::Restart(id.clone()))
    };
    step.part == PlanPart::Restart && step.of.as_ref().is_some_and(own)
}

fn sets_limits(step: &Drafted) -> bool {
    step.carries.iter().any(|carried| carried.remedy == Remedy::SetShmLimits)
}

fn expected_page_size(ask: &PlanRequest<'_>, id: &InstanceId) -> Option<PageSize> {
    let instance = ask.instance(id)?;
    ask.planned_page_size(instance).or_else(|| demand::page_size(ask.host, instance))
}

fn brings_pages(draft: &Draft<'_>, step: &Drafted, page: PageSize) -> bool {
    match step.part {
        PlanPart::PoolsAtBoot => true,
        PlanPart::PoolNow(size) | PlanPart::PoolKept(size) if size == page => {
            draft.pool_goal(page).is_some_and(|goal| goal.grows())
        }
        _ => false,
    }
}

#[derive(Clone, Copy)]
struct FindingEnd {
    step: Option<usize>,
    when: EffectTime,
    /// Whether a start of a server is among what ends it.
    by_start: bool,
}

impl FindingEnd {
    fn combine_with(self, other: Self) -> Self {
        Self {
            step: self.step.max(other.step),
            when: self.when.max(other.when),
            by_start: self.by_start || other.by_start,
        }
    }
}

pub(super) fn assign_expected_findings(
    ask: &PlanRequest<'_>,
    draft: &mut Draft<'_>,
    projected: &ProjectedHost,
) {
    let mut same = BTreeMap::<(RuleId, Option<&InstanceId>), Vec<&Finding>>::new();
    for finding in &ask.assessment.findings {
        same.entry((finding.code, finding.instance.as_ref())).or_default().push(finding);
    }
    let left = projected.findings();
    for finding in &ask.assessment.findings {
        let about = (finding.code, finding.instance.as_ref());
        // A rule may speak several times of the same, of each pool say: all of it has to end.
        let Some(same) = same.remove(&about) else { continue };
        let all: Option<Vec<FindingEnd>> =
            same.into_iter().map(|finding| find_finding_end(draft, finding)).collect();
        let Some(end) = all.and_then(|all| all.into_iter().reduce(FindingEnd::combine_with)) else {
            continue;
        };
        let ends_at_once = end.when == EffectTime::Now && !end.by_start;
        if ends_at_once && left.contains(&about) {
            continue;
        }
        if let Some(step) = end.step.and_then(|at| draft.steps.get_mut(at)) {
            step.expects.push(ExpectedResolution {
                code: finding.code.as_str().into(),
                name: finding.name.into(),
                instance: finding.instance.as_ref().map(InstanceId::to_string),
                when: end.when,
            });
            draft.promised.insert((finding.code, finding.instance.clone()));
        }
    }
}

pub(super) fn is_promised(draft: &Draft<'_>, finding: &Finding) -> bool {
    draft.promised.contains(&(finding.code, finding.instance.clone()))
}

/// Whether a step carries a remedy out, or the host has it already.
pub(super) fn is_done(draft: &Draft<'_>, remedy: &Remedy, about: Option<&InstanceId>) -> bool {
    find_remedy_end(draft, remedy, about).is_some()
}

/// `None` where one of its remedies is left, or nothing is said to end it.
fn find_finding_end(draft: &Draft<'_>, finding: &Finding) -> Option<FindingEnd> {
    let remedies =
        || finding.remedies.iter().filter(|remedy| !matches!(remedy, Remedy::Consider(_)));
    // What one server gains others may use up: the host's findings end by what is done to the host.
    if finding.instance.is_none() && remedies().any(|remedy| remedy.instance().is_some()) {
        return None;
    }
    let about = finding.instance.as_ref();
    let is_start = |remedy: &&Remedy| matches!(remedy, Remedy::Restart(_));
    let others: Option<Vec<FindingEnd>> = remedies()
        .filter(|remedy| !is_start(remedy))
        .map(|remedy| find_remedy_end(draft, remedy, about))
        .collect();
    let mut end = others?.into_iter().reduce(FindingEnd::combine_with);
    for remedy in remedies().filter(is_start) {
        let start = FindingEnd { by_start: true, ..find_remedy_end(draft, remedy, about)? };
        end = Some(end.map_or(start, |end| end.combine_with(start)));
    }
    end
}

fn find_remedy_end(
    draft: &Draft<'_>,
    remedy: &Remedy,
    about: Option<&InstanceId>,
) -> Option<FindingEnd> {
    let ends = draft.steps.iter().enumerate().flat_map(|(at, step)| {
        let carried = step
            .carries
            .iter()
            .filter(|carried| carried.remedy == *remedy && carried.whom.includes_instance(about));
        carried.map(move |carried| FindingEnd {
            step: Some(at),
            when: carried.when,
            by_start: false,
        })
    });
    let mut settled = draft.settled.iter();
    ends.reduce(FindingEnd::combine_with).or_else(|| {
        let is_settled =
            settled.any(|(done, whom)| done == remedy && whom.includes_instance(about));
        is_settled.then_some(FindingEnd { step: None, when: EffectTime::Now, by_start: false })
    })
}
