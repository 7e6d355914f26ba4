//! What a plan cannot do: settings inside a server, a container's limits, and findings that no step ends.

use std::collections::BTreeSet;

use hugewise_advice::situation::{Obstacle, starting};
use hugewise_advice::sizing::{PageSizeChoice, Request};
use hugewise_advice::standing::Standing;
use hugewise_advice::target::{self, Insist};
use hugewise_advice::{boot, chain, remedy};
use hugewise_engines::{Kind, SettingsBy};
use hugewise_model::{Asked, Finding, Instance, InstanceId, Level, LinkName, LinkState, PageCount, PageSize, Remedy};

use super::draft::Draft;
use super::settings::may_insist;
use super::{Ask, commands, ends, pools_at_boot, warnings};
use crate::plan::{Risk, UNDECIDED};

pub(super) fn plan(ask: &Ask<'_>, draft: &mut Draft<'_>) {
    servers(ask, draft);
    limited(ask, draft);
    for unknown in &ask.assessment.unknown {
        let about = unknown.instance.as_ref().and_then(|id| ask.instances.iter().find(|it| it.id() == *id));
        if about.is_some_and(|instance| !ask.is_chosen(instance)) {
            continue;
        }
        let about = unknown.instance.as_ref().map(|instance| format!(" of {instance}")).unwrap_or_default();
        draft.warn(format!(
            "{} {}{about} {UNDECIDED} ({}), so this plan leaves out what depends on it",
            unknown.code, unknown.name, unknown.missing
        ));
    }
    // Where nobody is left to size, whoever is named or suffers is still told why.
    let request = Request {
        page_size: ask.options.page_size.map_or(PageSizeChoice::Auto, PageSizeChoice::Size),
        ..Request::default()
    };
    let is_due = |it: &&Instance| ask.is_asked_for(it) || (ask.is_chosen(it) && ask.is_kept_off(it));
    let due: Vec<Instance> = ask.instances.iter().filter(is_due).cloned().collect();
    let all = || hugewise_advice::sizing::left_out(ask.host, &due, &request);
    for left_out in ask.sizing.map_or_else(all, |sizing| sizing.left_out.clone()) {
        let about = ask.instances.iter().find(|it| it.id() == left_out.instance);
        let suffers = ask.assessment.findings.iter().any(|it| it.instance.as_ref() == Some(&left_out.instance));
        if about.is_some_and(|instance| ask.is_asked_for(instance)) || suffers {
            draft.warn(format!("no pages are planned for {}: {}", left_out.instance, left_out.why));
        }
    }
}

/// Servers that ask and have a hugetlb limit below what they ask for: with the pages that are planned they run into it.
fn limited(ask: &Ask<'_>, draft: &mut Draft<'_>) {
    let findings = ask.assessment.findings.iter();
    let told = findings.filter(|it| it.level >= Level::Warn && hugewise_advice::tells_of_limit(it));
    let told: BTreeSet<&InstanceId> = told.filter_map(|it| it.instance.as_ref()).collect();
    let said = |instance: &Instance| ask.is_chosen(instance) && told.contains(&instance.id());
    // No pages are planned for one, and the boot brings some that it dies of.
    let planned: BTreeSet<InstanceId> = ask.sized().map(|(of, _)| of.id()).collect();
    for instance in ask.instances.iter().filter(|instance| !said(instance) && !planned.contains(&instance.id())) {
        let moments = ask.assessment.situation.of(instance);
        let outlooks = moments.into_iter().flat_map(|moments| [&moments.restart, &moments.boot]);
        let mut dies = outlooks
            .filter(|it| it.obstacle == Some(Obstacle::Cgroup) && it.standing == Standing::DoesNotStart)
            .filter_map(|it| it.why.as_ref());
        if let Some(why) = dies.next() {
            draft.warn(format!("{} would not start again: {why}. Raise it first", instance.title()));
        }
    }
    for (instance, _) in ask.sized().filter(|(instance, _)| !said(instance)) {
        let links =
            chain::chain(ask.host, ask.assessment.situation.limits(), ask.assessment.situation.locked(), instance)
                .map(|chain| chain.links)
                .unwrap_or_default();
        let broken = |link: &&hugewise_model::Link| link.name == LinkName::Cgroup && link.state == LinkState::Broken;
        let limited = ask.sizing.into_iter().flat_map(|sizing| &sizing.limited);
        let planned = limited.into_iter().find(|it| it.instance == instance.id()).map(|it| &it.why);
        if let Some(link) = links.iter().find(broken) {
            draft.warn(format!(
                "{}: {}. Raise it before the server's next start, which will find a pool",
                instance.title(),
                link.evidence
            ));
        } else if let Some(why) = planned {
            draft.warn(format!("{}: {why}", instance.title()));
        }
    }
}

/// Settings that are in no file that hugewise may write.
fn servers(ask: &Ask<'_>, draft: &mut Draft<'_>) {
    let ask = *ask;
    let insist = Insist::new(ask.target(), draft.pools.iter().map(|pool| (pool.page_size, pool.goal)));
    for (instance, sized) in ask.sized().filter(|(instance, _)| ask.is_chosen(instance) && instance.pid != 0) {
        let kind = Kind::of(instance.engine);
        let setting = Remedy::SetSetting(instance.id());
        let asked = starting(ask.host, instance).asked;
        let in_part = instance.asks_in_part() && ask.calls_for(&setting);
        let due = in_part
            || match asked {
                Asked::No => true,
                Asked::Try => kind.insist_of(instance).is_some() && ask.calls_for(&setting),
                Asked::Cannot => kind.can_by.is_some() && ask.calls_for(&setting),
                Asked::Must | Asked::Raises | Asked::Unknown => false,
            };
        if !matches!(kind.settings_by, SettingsBy::Person) || !due {
            continue;
        }
        // What is refused is nothing to rely on.
        let page = sized.page_size;
        if draft.refusal.is_some() && !pools_at_boot::may_ask(draft, instance, page) {
            draft.told.insert(setting);
            continue;
        }
        let may_insist = kind.insist_of(instance).is_some() && may_insist(&ask, draft, &insist, instance).is_ok();
        let mut lines = commands::ask(ask.host, instance, may_insist || asked == Asked::Try);
        if asked == Asked::Try && !may_insist {
            let when = target::when(ask.host, instance);
            lines.insert(0, format!("# once {when}; after that it does not start without them:"));
        }
        let what = match asked {
            _ if in_part => "have it ask for huge pages for all of its memory",
            Asked::Try => "have it refuse to start without huge pages",
            Asked::Cannot => "have it use memory that can be on huge pages",
            _ => "have it ask for huge pages",
        };
        let title = format!("{}: {what}", instance.title());
        draft.instruct_for(setting, title, &lines, Risk::Restart, Some(instance));
    }
}

/// What findings need that no step does: what is a person's to do, what a step would do that somebody has to ask for, and
/// whatever else nothing here carries out or speaks of.
pub(super) fn left_over(ask: &Ask<'_>, draft: &mut Draft<'_>) {
    let mut told = draft.told.clone();
    for finding in ask.assessment.findings.iter().filter(|finding| finding.level >= Level::Warn) {
        let about = finding.instance.as_ref().and_then(|id| ask.instances.iter().find(|it| it.id() == *id));
        let chosen = about.is_none_or(|instance| ask.is_chosen(instance));
        if ends::is_promised(draft, finding) || !chosen {
            continue;
        }
        let undone = finding.remedies.iter().filter(|remedy| !ends::is_done(draft, remedy, finding.instance.as_ref()));
        let undone = undone.filter(|remedy| !is_given_up(ask, remedy));
        let is_start = |remedy: &&Remedy| matches!(remedy, Remedy::Restart(_));
        let (starts, others): (Vec<&Remedy>, Vec<&Remedy>) =
            undone.filter(|remedy| !matches!(remedy, Remedy::Consider(_))).partition(is_start);
        let nothing_else = others.iter().all(|remedy| by_a_person(ask, draft, remedy).is_empty());
        let left: Vec<&Remedy> = others.into_iter().filter(|remedy| told.insert((*remedy).clone())).collect();
        let mut lines: Vec<String> = left.iter().flat_map(|remedy| by_a_person(ask, draft, remedy)).collect();
        // Its start comes last, and is worth a word by itself where everything else is done.
        let start = starts.first().filter(|_| about.is_some());
        let start = start.filter(|remedy| !lines.is_empty() || (nothing_else && told.insert((**remedy).clone())));
        told.extend(start.map(|remedy| (**remedy).clone()));
        if let Some(instance) = about.filter(|instance| start.is_some() && !chain::is_amm(instance)) {
            lines.extend(commands::restart(ask.host, instance));
        }
        // What is wrong with the host may end with a server's start as well.
        let before = lines.len();
        if about.is_none() && (nothing_else || !lines.is_empty()) {
            let due = starts.iter().filter(|remedy| told.insert((***remedy).clone())).filter_map(|it| it.instance());
            let whom = due.filter_map(|id| ask.instances.iter().find(|it| it.id() == *id && ask.is_chosen(it)));
            lines.extend(whom.filter(|it| !chain::is_amm(it)).flat_map(|it| commands::restart(ask.host, it)));
        }
        let has_restart = lines.len() > before;
        let off_amm = about.is_some_and(chain::is_amm);
        if lines.is_empty() && !(off_amm && start.is_some()) {
            continue;
        }
        if let Some(instance) = about.filter(|_| off_amm) {
            if starting(ask.host, instance).asked == Asked::Cannot {
                // The next plan goes by the files: its pages are there when the one restart comes.
                lines.push("# then, before restarting it, plan and apply its pages and limits:".into());
                lines.push("hugewise plan".into());
                lines.push("# and then:".into());
            } else if !others_are_done(draft, finding) {
                lines.push("# once its pages are there:".into());
            }
            lines.extend(commands::restart(ask.host, instance));
        }
        let risk = match left.iter().any(|remedy| matches!(remedy, Remedy::ByHand(it) if it.irreversible)) {
            true => Risk::Destructive,
            false if about.is_some() || has_restart => Risk::Restart,
            false => Risk::Safe,
        };
        let found = format!("{} {}: {}", finding.code, finding.name, finding.summary);
        // One thing to do is the title, in the words of `check`, and the finding is its reason. Several are listed under the finding.
        let said: Vec<&&Remedy> = left.iter().filter(|it| !by_a_person(ask, draft, it).is_empty()).collect();
        let title = match said.as_slice() {
            [one] => remedy::say(ask.host, ask.instances, ask.assessment, one).unwrap_or_else(|| found.clone()),
            _ => found.clone(),
        };
        if title != found {
            lines.retain(|line| line.strip_prefix("# ") != Some(title.as_str()));
            lines.insert(0, format!("# {found}"));
        }
        draft.instruct(title, &lines, risk, about.map(Instance::title));
    }
}

/// Whether a remedy would have a server ask for pages that are given back: whoever gives them back leaves it as it is.
fn is_given_up(ask: &Ask<'_>, remedy: &Remedy) -> bool {
    let whose = || ask.instances.iter().find(|it| remedy.instance() == Some(&it.id()));
    ask.options.shrink && whose().is_some_and(|it| warnings::is_left_alone(ask, it))
}

/// Whether steps of this plan do everything that ends a finding, but for a start and what a person may think of.
fn others_are_done(draft: &Draft<'_>, finding: &Finding) -> bool {
    let due = |remedy: &&Remedy| !matches!(remedy, Remedy::Restart(_) | Remedy::Consider(_));
    finding.remedies.iter().filter(due).all(|remedy| ends::is_done(draft, remedy, finding.instance.as_ref()))
}

/// The lines of a remedy that no step of this plan carries out; none where it is somebody else's affair.
fn by_a_person(ask: &Ask<'_>, draft: &Draft<'_>, remedy: &Remedy) -> Vec<String> {
    match remedy {
        Remedy::ByHand(by_hand) if by_hand.how.is_empty() => vec![format!("# {}", by_hand.what)],
        Remedy::ByHand(by_hand) => by_hand.how.clone(),
        // Servers to come will take them.
        Remedy::GiveBack(page)
            if draft.pool(*page).is_some_and(|goal| goal.needed.get().saturating_mul(2) > goal.goal.get()) =>
        {
            Vec::new()
        }
        Remedy::GiveBack(page) if remedy::uncounted(ask.assessment, *page).is_some() => said(ask, remedy),
        Remedy::GiveBack(_) => vec![
            "# release them, unless a server that uses them is down right now:".into(),
            "hugewise plan --shrink".into(),
        ],
        // More than the host can carry, and nobody needs it.
        Remedy::KeepAtBoot(page) if crowds(ask, *page) => said(ask, remedy),
        // Nobody here needs it: whether it is kept is said where it is given back.
        Remedy::KeepAtBoot(page) if draft.pool(*page).is_none_or(|goal| goal.needed == PageCount::ZERO) => Vec::new(),
        // Nobody asked for the next boot.
        Remedy::KeepAtBoot(_) | Remedy::KeepThpAtBoot if !ask.options.boot => Vec::new(),
        Remedy::SetSetting(id) => match ask.instances.iter().find(|it| it.id() == *id) {
            // What it is to be in each of its files is its engine's to say.
            Some(instance)
                if starting(ask.host, instance).asked == Asked::Cannot
                    && matches!(Kind::of(instance.engine).settings_by, SettingsBy::Person) =>
            {
                commands::ask(ask.host, instance, false)
            }
            _ => said(ask, remedy),
        },
        other => said(ask, other),
    }
}

fn said(ask: &Ask<'_>, remedy: &Remedy) -> Vec<String> {
    let said = remedy::say(ask.host, ask.instances, ask.assessment, remedy);
    said.map(|said| format!("# {said}")).into_iter().collect()
}

/// Whether the pool of that size is among those that take too much at the next boot.
fn crowds(ask: &Ask<'_>, page: PageSize) -> bool {
    let crowding = boot::crowding(ask.host).ok().flatten();
    crowding.is_some_and(|crowding| crowding.parts.iter().any(|part| part.page_size == page))
}
