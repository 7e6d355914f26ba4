//! Which findings a plan ends, at which step and when: reckoned here alone, from the remedies that the steps carry out. A
//! rule that is new needs no word here.
//!
//! A finding ends where the last of its remedies is done. What ends at once is tried too: the rules look at the host as
//! the steps leave it, and what they still find is not promised.

use std::collections::{BTreeMap, BTreeSet};

use hugewise_model::{Finding, InstanceId, Remedy, RuleId};

use super::draft::Draft;
use super::{Ask, after};
use crate::plan::{Expected, When};

/// Where and when a finding ends.
#[derive(Clone, Copy)]
struct End {
    /// Of the step.
    at: Option<usize>,
    when: When,
    /// Whether a start of a server is among what ends it.
    by_start: bool,
}

impl End {
    fn and(self, other: Self) -> Self {
        Self { at: self.at.max(other.at), when: self.when.max(other.when), by_start: self.by_start || other.by_start }
    }
}

/// Notes at each step the findings that end there.
pub(super) fn reckon(ask: &Ask<'_>, draft: &mut Draft<'_>) {
    let findings = &ask.assessment.findings;
    let mut same = BTreeMap::<(RuleId, Option<&InstanceId>), Vec<&Finding>>::new();
    for finding in findings {
        same.entry((finding.code, finding.instance.as_ref())).or_default().push(finding);
    }
    let mut ends: Vec<(&Finding, usize, End)> = Vec::new();
    for finding in findings {
        // A rule may speak more than once of the same, of each pool for example: then all of it has to end.
        let Some(same) = same.remove(&(finding.code, finding.instance.as_ref())) else { continue };
        let all: Option<Vec<End>> = same.into_iter().map(|it| end(draft, it)).collect();
        let Some(end) = all.and_then(|all| all.into_iter().reduce(End::and)) else { continue };
        if let Some(at) = end.at {
            ends.push((finding, at, end));
        }
    }
    let tried = |end: &End| end.when == When::Now && !end.by_start;
    let left: BTreeSet<(RuleId, Option<InstanceId>)> =
        if ends.iter().any(|(_, _, end)| tried(end)) { after::findings(ask, draft) } else { BTreeSet::new() };
    for (finding, at, end) in ends {
        if tried(&end) && left.contains(&(finding.code, finding.instance.clone())) {
            continue;
        }
        if let Some(step) = draft.steps.get_mut(at) {
            step.expects.push(expected(finding, end.when));
        }
    }
}

fn expected(finding: &Finding, when: When) -> Expected {
    Expected {
        code: finding.code.as_str().into(),
        name: finding.name.into(),
        instance: finding.instance.as_ref().map(InstanceId::to_string),
        when,
    }
}

/// Whether the plan says of a finding that it ends.
pub(super) fn is_promised(draft: &Draft<'_>, finding: &Finding) -> bool {
    let mut promised = draft.steps.iter().flat_map(|step| &step.expects);
    promised.any(|it| it.is(finding.code, finding.instance.as_ref()))
}

/// Whether a step carries a remedy out, or the host has it already.
pub(super) fn is_done(draft: &Draft<'_>, remedy: &Remedy, about: Option<&InstanceId>) -> bool {
    place(draft, remedy, about).is_some()
}

/// Where the last remedy of a finding is done; none where one is left, or nothing is said to end it.
fn end(draft: &Draft<'_>, finding: &Finding) -> Option<End> {
    let remedies = || finding.remedies.iter().filter(|remedy| !matches!(remedy, Remedy::Consider(_)));
    // What one server gains others may use up: what is said of the host ends by what is done to the host.
    if finding.instance.is_none() && remedies().any(|remedy| remedy.instance().is_some()) {
        return None;
    }
    let about = finding.instance.as_ref();
    let is_start = |remedy: &&Remedy| matches!(remedy, Remedy::Restart(_));
    let others: Option<Vec<End>> =
        remedies().filter(|it| !is_start(it)).map(|remedy| place(draft, remedy, about)).collect();
    let mut end = others?.into_iter().reduce(End::and);
    for remedy in remedies().filter(is_start) {
        let start = End { by_start: true, ..place(draft, remedy, about)? };
        end = Some(end.map_or(start, |end| end.and(start)));
    }
    end
}

/// The last step that carries a remedy out, for what is said of this server or of the host.
fn place(draft: &Draft<'_>, remedy: &Remedy, about: Option<&InstanceId>) -> Option<End> {
    let carried = draft.steps.iter().enumerate().flat_map(|(at, step)| step.carries.iter().map(move |it| (at, it)));
    let carried = carried.filter(|(_, it)| it.remedy == *remedy && it.whom.has(about));
    let last = carried.map(|(at, it)| End { at: Some(at), when: it.when, by_start: false }).reduce(End::and);
    let settled = || {
        let is = draft.settled.iter().any(|(it, whom)| it == remedy && whom.has(about));
        is.then_some(End { at: None, when: When::Now, by_start: false })
    };
    last.or_else(settled)
}
