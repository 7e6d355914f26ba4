//! What a plan cannot do: settings inside a server, a container's limits, other findings.

use std::collections::BTreeSet;

use hugewise_diagnose::coverage::Coverage;
use hugewise_diagnose::prediction::{Obstacle, predict_next_start};
use hugewise_diagnose::sizing::{PageSizeChoice, Request};
use hugewise_diagnose::target;
use hugewise_diagnose::{boot, chain, remedy};
use hugewise_engines::{EngineKind, SettingsBy};
use hugewise_model::{
    Finding, HugePageMode, Instance, InstanceId, Level, PageCount, PageSize, Remedy,
};

use super::draft::Draft;
use super::request::is_broken_cgroup;
use super::settings::{may_insist, new_insist};
use super::{PlanRequest, commands, step_links, warnings};
use crate::plan::Risk;

pub(super) fn plan_manual_steps(ask: &PlanRequest<'_>, draft: &mut Draft<'_>) {
    instruct_server_settings(ask, draft);
    warn_hugetlb_limits(ask, draft);
    for unknown in &ask.assessment.unknown {
        let about = unknown.instance.as_ref();
        if about.and_then(|id| ask.instance(id)).is_some_and(|instance| !ask.is_chosen(instance)) {
            continue;
        }
        let about = about.map(|id| format!(" of {id}")).unwrap_or_default();
        draft.add_warning(format!(
            "{} {}{about} cannot be decided ({}), so this plan leaves out what depends on it",
            unknown.code, unknown.name, unknown.missing
        ));
        draft.undecided = true;
    }
    warn_left_out(ask, draft);
}

/// Where nobody is left to size, whoever is named or suffers is still told why.
fn warn_left_out(ask: &PlanRequest<'_>, draft: &mut Draft<'_>) {
    let request = Request {
        page_size: ask.options.page_size.map_or(PageSizeChoice::Auto, PageSizeChoice::Size),
        ..Request::default()
    };
    let is_meant = |instance: &&Instance| {
        ask.is_asked_for(instance) || (ask.is_chosen(instance) && ask.is_kept_off(instance))
    };
    let meant: Vec<Instance> = ask.instances.iter().filter(is_meant).cloned().collect();
    let all = || hugewise_diagnose::sizing::left_out(ask.host, &meant, &request);
    for left_out in ask.sizing.map_or_else(all, |sizing| sizing.left_out.clone()) {
        let id = &left_out.instance;
        let suffers =
            ask.assessment.findings.iter().any(|finding| finding.instance.as_ref() == Some(id));
        if suffers || ask.instance(id).is_some_and(|instance| ask.is_asked_for(instance)) {
            draft.add_warning(format!("no pages are planned for {id}: {}", left_out.why));
        }
    }
}

/// With the pages that are planned, servers that ask for more than that limit run into it.
fn warn_hugetlb_limits(ask: &PlanRequest<'_>, draft: &mut Draft<'_>) {
    let findings = ask.assessment.findings.iter();
    let told = findings.filter(|finding| {
        finding.level >= Level::Warn && hugewise_diagnose::tells_of_limit(finding)
    });
    let told: BTreeSet<&InstanceId> =
        told.filter_map(|finding| finding.instance.as_ref()).collect();
    let is_told = |instance: &Instance| ask.is_chosen(instance) && told.contains(&instance.id());
    // No pages are planned for one, and the boot brings some that it dies of.
    for instance in ask.instances.iter().filter(|instance| ask.sized(instance).is_none()) {
        let moments = ask.assessment.situation.forecasts_for(instance);
        let forecasts = moments.into_iter().flat_map(|moments| [&moments.restart, &moments.boot]);
        let mut deaths = forecasts.filter_map(|forecast| {
            let then = match forecast.coverage {
                Coverage::DoesNotStart => "would not start again",
                Coverage::All => "would be killed when it touches more",
                _ => return None,
            };
            let why = forecast.why.as_deref()?;
            (forecast.obstacle == Some(Obstacle::Cgroup)).then_some((then, why))
        });
        if let Some((then, why)) = deaths.next().filter(|_| !is_told(instance)) {
            draft.add_warning(format!("{} {then}: {why}. Raise it first", instance.title()));
        }
    }
    for (instance, _) in ask.sized_instances().filter(|(instance, _)| !is_told(instance)) {
        let id = instance.id();
        let mut limited = ask.sizing.into_iter().flat_map(|sizing| &sizing.limited);
        // Of one that does not run the assessment has no chain.
        let situation = &ask.assessment.situation;
        let build =
            || chain::build_chain(ask.host, situation.limits(), situation.locked(), instance);
        let built = if instance.is_stopped() { build() } else { None };
        let links = built.as_ref().map_or(ask.links(instance), |chain| chain.links.as_slice());
        if let Some(link) = links.iter().find(|link| is_broken_cgroup(link)) {
            draft.add_warning(format!(
                "{}: {}. Raise it before the server's next start, which will find a pool",
                instance.title(),
                link.evidence
            ));
        } else if let Some(limited) = limited.find(|server| server.instance == id) {
            draft.add_warning(format!("{}: {}", instance.title(), limited.why));
        }
    }
}

fn instruct_server_settings(ask: &PlanRequest<'_>, draft: &mut Draft<'_>) {
    let insist = new_insist(ask, draft);
    for (instance, sized) in
        ask.sized_instances().filter(|(instance, _)| ask.is_chosen(instance) && instance.pid != 0)
    {
        let kind = EngineKind::for_engine(instance.engine);
        let setting = Remedy::SetSetting(instance.id());
        let asked = predict_next_start(ask.host, instance).asked;
        let in_part = instance.asks_in_part() && ask.calls_for(&setting);
        let can_insist = kind.settings.insisting_setting(instance).is_some();
        let is_due = match asked {
            _ if in_part => true,
            HugePageMode::No => true,
            HugePageMode::Try => can_insist && ask.calls_for(&setting),
            HugePageMode::Cannot => kind.settings.can_by.is_some() && ask.calls_for(&setting),
            HugePageMode::Must | HugePageMode::Raises | HugePageMode::Unknown => false,
        };
        if !matches!(kind.settings.changed_by, SettingsBy::Person) || !is_due {
            continue;
        }
        // What is refused is nothing to rely on.
        let page = sized.page_size;
        if draft.refusal.is_some() && !draft.may_ask(instance, page) {
            draft.explained.insert(setting);
            continue;
        }
        let may_insist = can_insist && may_insist(ask, draft, &insist, instance).is_ok();
        let must = may_insist || asked == HugePageMode::Try;
        let mut lines = commands::huge_page_commands(ask.host, instance, must);
        if asked == HugePageMode::Try && !may_insist {
            let when = target::describe_insist_condition(ask.host, instance);
            lines.insert(0, format!("# once {when}; after that it does not start without them:"));
        }
        let what = match asked {
            _ if in_part => "have it ask for huge pages for all of its memory",
            HugePageMode::Try => "have it refuse to start without huge pages",
            HugePageMode::Cannot => "have it use memory that can be on huge pages",
            _ => "have it ask for huge pages",
        };
        let title = format!("{}: {what}", instance.title());
        draft.instruct_for(setting, title, &lines, Risk::Restart, Some(instance));
    }
}

/// What no step does: what is a person's to do, what has to be asked for, and what remains.
pub(super) fn instruct_findings(ask: &PlanRequest<'_>, draft: &mut Draft<'_>) {
    let mut told = draft.explained.clone();
    for finding in ask.assessment.findings.iter().filter(|finding| finding.level >= Level::Warn) {
        let about = finding.instance.as_ref().and_then(|id| ask.instance(id));
        let chosen = about.is_none_or(|instance| ask.is_chosen(instance));
        if chosen && !step_links::is_promised(draft, finding) {
            instruct_finding(ask, draft, finding, about, &mut told);
        }
    }
}

fn instruct_finding(
    ask: &PlanRequest<'_>,
    draft: &mut Draft<'_>,
    finding: &Finding,
    about: Option<&Instance>,
    told: &mut BTreeSet<Remedy>,
) {
    let (starts, others): (Vec<&Remedy>, Vec<&Remedy>) = find_undone_remedies(ask, draft, finding)
        .into_iter()
        .partition(|remedy| matches!(remedy, Remedy::Restart(_)));
    let nothing_else = others.iter().all(|remedy| manual_lines(ask, draft, remedy).is_empty());
    let left: Vec<&Remedy> =
        others.into_iter().filter(|remedy| told.insert((*remedy).clone())).collect();
    let said = left.iter().map(|remedy| (*remedy, manual_lines(ask, draft, remedy)));
    let said: Vec<_> = said.filter(|(_, lines)| !lines.is_empty()).collect();
    let mut lines: Vec<String> = said.iter().flat_map(|(_, lines)| lines.clone()).collect();
    let mut has_restart = false;
    match about {
        Some(instance) => {
            // Its start comes last, and is worth a word by itself where everything else is done.
            let start = starts.first().filter(|remedy| {
                !lines.is_empty() || (nothing_else && told.insert((**remedy).clone()))
            });
            told.extend(start.map(|remedy| (**remedy).clone()));
            if chain::is_amm(instance) && (start.is_some() || !lines.is_empty()) {
                lines.extend(leave_amm_lines(ask, draft, finding, instance));
            } else if start.is_some() {
                lines.extend(commands::restart_commands(ask.host, instance));
            }
        }
        // What is wrong with the host may end with a server's start as well.
        None if nothing_else || !lines.is_empty() => {
            let restarts = chosen_restart_lines(ask, &starts, told);
            has_restart = !restarts.is_empty();
            lines.extend(restarts);
        }
        None => {}
    }
    if lines.is_empty() {
        return;
    }
    let risk = assess_risk(&left, about.is_some() || has_restart);
    let found = format!("{} {}: {}", finding.code, finding.name, finding.summary);
    // One thing to do is the title, in the words of `check`, and the finding is its reason. Several
    // are listed under the finding.
    let title = match said.as_slice() {
        [(one, _)] => remedy::describe_remedy(ask.host, ask.instances, ask.assessment, one),
        _ => None,
    };
    if let Some(title) = title.as_ref().filter(|title| **title != found) {
        lines.retain(|line| line.strip_prefix("# ") != Some(title.as_str()));
        lines.insert(0, format!("# {found}"));
    }
    draft.add_instruction(title.unwrap_or(found), &lines, risk, about.map(Instance::title));
}

fn find_undone_remedies<'a>(
    ask: &PlanRequest<'_>,
    draft: &Draft<'_>,
    finding: &'a Finding,
) -> Vec<&'a Remedy> {
    let is_undone = |remedy: &&Remedy| {
        !step_links::is_done(draft, remedy, finding.instance.as_ref())
            && !is_given_up(ask, remedy)
            && !matches!(remedy, Remedy::Consider(_))
    };
    finding.remedies.iter().filter(is_undone).collect()
}

fn chosen_restart_lines(
    ask: &PlanRequest<'_>,
    starts: &[&Remedy],
    told: &mut BTreeSet<Remedy>,
) -> Vec<String> {
    let untold = starts.iter().filter(|remedy| told.insert((**remedy).clone()));
    untold
        .filter_map(|remedy| ask.instance(remedy.instance()?))
        .filter(|instance| ask.is_chosen(instance) && !chain::is_amm(instance))
        .flat_map(|instance| commands::restart_commands(ask.host, instance))
        .collect()
}

fn assess_risk(remedies: &[&Remedy], restarts: bool) -> Risk {
    let destroys =
        |remedy: &&Remedy| matches!(remedy, Remedy::ByHand(by_hand) if by_hand.irreversible);
    match remedies.iter().any(destroys) {
        true => Risk::Destructive,
        false if restarts => Risk::Restart,
        false => Risk::Safe,
    }
}

fn leave_amm_lines(
    ask: &PlanRequest<'_>,
    draft: &Draft<'_>,
    finding: &Finding,
    instance: &Instance,
) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    if predict_next_start(ask.host, instance).asked == HugePageMode::Cannot {
        // The next plan goes by the files: its pages are there when the one restart comes.
        lines.push("# then, before restarting it, plan and apply its pages and limits:".into());
        lines.push("hugewise plan".into());
        lines.push("# and then:".into());
    } else if !is_all_else_done(draft, finding) {
        lines.push("# once its pages are there:".into());
    }
    lines.extend(commands::restart_commands(ask.host, instance));
    lines
}

/// Whoever gives pages back leaves alone a server that would have to be set to ask for them.
fn is_given_up(ask: &PlanRequest<'_>, remedy: &Remedy) -> bool {
    let whose = || remedy.instance().and_then(|id| ask.instance(id));
    ask.options.shrink && whose().is_some_and(|instance| warnings::is_left_alone(ask, instance))
}

/// Whether steps do all that ends it, but for a start and what a person may think of.
fn is_all_else_done(draft: &Draft<'_>, finding: &Finding) -> bool {
    finding.remedies.iter().all(|remedy| {
        matches!(remedy, Remedy::Restart(_) | Remedy::Consider(_))
            || step_links::is_done(draft, remedy, finding.instance.as_ref())
    })
}

/// None where it is somebody else's affair.
fn manual_lines(ask: &PlanRequest<'_>, draft: &Draft<'_>, remedy: &Remedy) -> Vec<String> {
    match remedy {
        Remedy::ByHand(by_hand) if by_hand.how.is_empty() => vec![format!("# {}", by_hand.what)],
        Remedy::ByHand(by_hand) => by_hand.how.clone(),
        // Servers to come will take them.
        Remedy::GiveBack(page) if is_mostly_needed(draft, *page) => Vec::new(),
        Remedy::GiveBack(page)
            if remedy::find_uncounted_server(ask.assessment, *page).is_some() =>
        {
            describe_remedy(ask, remedy)
        }
        Remedy::GiveBack(_) => vec![
            "# release them, unless a server that uses them is down right now:".into(),
            "hugewise plan --shrink".into(),
        ],
        // More than the host can carry, and nobody needs it.
        Remedy::KeepAtBoot(page) if is_crowding_pool(ask, *page) => describe_remedy(ask, remedy),
        // Nobody here needs it: whether it is kept is said where it is given back.
        Remedy::KeepAtBoot(page)
            if (ask.options.shrink || ask.calls_for(&Remedy::GiveBack(*page)))
                && draft.pool_goal(*page).is_none_or(|goal| goal.needed == PageCount::ZERO) =>
        {
            Vec::new()
        }
        // Nobody asked for the next boot.
        Remedy::KeepAtBoot(_) | Remedy::KeepThpAtBoot if !ask.options.boot => Vec::new(),
        // What it is to be in each of its files is its engine's to say.
        Remedy::SetSetting(id) => match ask.instance(id) {
            Some(instance) if is_enabled_by_hand(ask, instance) => {
                commands::huge_page_commands(ask.host, instance, false)
            }
            _ => describe_remedy(ask, remedy),
        },
        other => describe_remedy(ask, other),
    }
}

fn is_mostly_needed(draft: &Draft<'_>, page: PageSize) -> bool {
    let goal = draft.pool_goal(page);
    goal.is_some_and(|goal| goal.needed.get().saturating_mul(2) > goal.goal.get())
}

fn is_enabled_by_hand(ask: &PlanRequest<'_>, instance: &Instance) -> bool {
    let changed_by = &EngineKind::for_engine(instance.engine).settings.changed_by;
    predict_next_start(ask.host, instance).asked == HugePageMode::Cannot
        && matches!(changed_by, SettingsBy::Person)
}

fn describe_remedy(ask: &PlanRequest<'_>, remedy: &Remedy) -> Vec<String> {
    let said = remedy::describe_remedy(ask.host, ask.instances, ask.assessment, remedy);
    said.map(|said| format!("# {said}")).into_iter().collect()
}

fn is_crowding_pool(ask: &PlanRequest<'_>, page: PageSize) -> bool {
    let crowding = boot::predict_crowding(ask.host).ok().flatten();
    crowding.is_some_and(|crowding| crowding.parts.iter().any(|part| part.page_size == page))
}
