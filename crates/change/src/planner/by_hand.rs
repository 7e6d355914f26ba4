//! What a plan cannot do: settings inside a server, a container's limits, and findings that no step ends.

use std::collections::BTreeSet;

use hugewise_advice::chain;
use hugewise_advice::words::shell_word;
use hugewise_model::{Asked, Engine, Level, LinkName, LinkState, Remedy};

use super::{Ask, Draft, commands};
use crate::plan::Risk;

/// Rules whose missing facts leave steps out.
const STEPS_NEED: [&str; 16] = [
    "HW201", "HW203", "HW204", "HW209", "HW301", "HW302", "HW303", "HW304", "HW401", "HW403", "HW405", "HW501",
    "HW601", "HW602", "HW206", "HW207",
];

pub(super) fn plan(ask: &Ask<'_>, draft: &mut Draft<'_>) {
    servers(ask, draft);
    limited(ask, draft);
    left_over(ask, draft);
    for unknown in ask.assessment.unknown.iter().filter(|unknown| STEPS_NEED.contains(&unknown.code)) {
        let about = unknown.instance.as_ref().map(|instance| format!(" of {instance}")).unwrap_or_default();
        draft.warn(format!(
            "{} {}{about} cannot be decided ({}): what hangs on it is left out",
            unknown.code, unknown.name, unknown.missing
        ));
    }
    let left_out = ask.sizing.map(|sizing| sizing.left_out.as_slice()).unwrap_or_default();
    for left_out in left_out {
        let named = ask.options.instances.iter().any(|name| left_out.instance.ends_with(name.as_str()));
        let suffers = ask.assessment.findings.iter().any(|it| it.instance.as_ref() == Some(&left_out.instance));
        if named || suffers {
            draft.warn(format!("no pages are planned for {}: {}", left_out.instance, left_out.why));
        }
    }
}

/// Servers that ask and have a hugetlb limit below what they ask for: with the pages that are planned they run into it.
fn limited(ask: &Ask<'_>, draft: &mut Draft<'_>) {
    for (instance, _) in ask.sized().filter(|(instance, _)| ask.found("HW702", instance).is_none()) {
        let links = chain::chain(ask.host, instance).map(|chain| chain.links).unwrap_or_default();
        let broken = |link: &&hugewise_model::Link| link.name == LinkName::Cgroup && link.state == LinkState::Broken;
        if let Some(link) = links.iter().find(broken) {
            draft.warn(format!(
                "{}: {}: raise that before its next start, which finds a pool then",
                instance.title(),
                link.evidence
            ));
        }
    }
}

/// Settings that are in no file that hugewise may write.
fn servers(ask: &Ask<'_>, draft: &mut Draft<'_>) {
    let ask = *ask;
    for (instance, _) in ask.sized().filter(|(instance, _)| ask.is_chosen(instance) && instance.pid != 0) {
        let elsewhere = matches!(
            instance.engine,
            Engine::PostgreSql | Engine::MySql | Engine::MariaDb | Engine::Redis | Engine::Valkey | Engine::MongoDb
        );
        let off = instance.asked == Asked::No;
        let falls_back = instance.engine == Engine::Oracle && ask.found("HW401", instance).is_some();
        if elsewhere || !(off || falls_back) {
            continue;
        }
        let mut lines = commands::ask(instance, falls_back || instance.engine == Engine::Oracle);
        if falls_back {
            lines.insert(0, "# once its pages are there, as it does not start without them then:".into());
        }
        let what = if off { "have it ask for huge pages" } else { "have it refuse a start without huge pages" };
        let title = instance.title();
        draft.instruct(format!("{title}: {what}"), &lines, Risk::Restart, Some(title));
    }
}

/// What findings need that no step does: what is a person's to do, and what a step would do that somebody has to ask for.
fn left_over(ask: &Ask<'_>, draft: &mut Draft<'_>) {
    let mut told = BTreeSet::new();
    for finding in ask.assessment.findings.iter().filter(|finding| finding.level >= Level::Warn) {
        let ended = draft.steps.iter().flat_map(|step| &step.expects);
        let mut ended = ended.filter(|it| it.code == finding.code && it.instance == finding.instance);
        let about = finding.instance.as_ref().and_then(|title| ask.instances.iter().find(|it| it.title() == *title));
        let chosen = about.is_none_or(|instance| ask.is_chosen(instance));
        if ended.next().is_some() || !chosen {
            continue;
        }
        let left: Vec<&Remedy> = finding.remedies.iter().filter(|remedy| told.insert((*remedy).clone())).collect();
        let mut lines: Vec<String> = left.iter().flat_map(|remedy| by_a_person(draft, remedy)).collect();
        if lines.is_empty() {
            continue;
        }
        let restarts = finding.remedies.iter().any(|remedy| matches!(remedy, Remedy::Restart(_)));
        if let Some(instance) = about.filter(|instance| restarts && !chain::is_amm(instance)) {
            lines.extend(commands::restart(instance));
        }
        if about.is_some_and(chain::is_amm) {
            let name = about.map(|instance| shell_word(&instance.name)).unwrap_or_default();
            lines.push("# restart it, then plan its pages:".into());
            lines.push(format!("hugewise plan --instance {name}"));
        }
        let risk = if about.is_some() { Risk::Restart } else { Risk::Safe };
        let title = format!("{} {}: {}", finding.code, finding.name, finding.summary);
        draft.instruct(title, &lines, risk, finding.instance.clone());
    }
}

/// The lines of a remedy that no step of this plan carries out; none where it is somebody else's affair.
fn by_a_person(draft: &Draft<'_>, remedy: &Remedy) -> Vec<String> {
    match remedy {
        Remedy::ByHand(by_hand) if by_hand.how.is_empty() => vec![format!("# {}", by_hand.what)],
        Remedy::ByHand(by_hand) => by_hand.how.clone(),
        // Servers to come will take them.
        Remedy::GiveBack(page)
            if draft.pool(*page).is_some_and(|goal| goal.needed.get().saturating_mul(2) > goal.goal.get()) =>
        {
            Vec::new()
        }
        Remedy::GiveBack(_) => vec![
            "# give them back, if no server that uses them is down just now:".into(),
            "hugewise plan --shrink".into(),
        ],
        _ => Vec::new(),
    }
}
