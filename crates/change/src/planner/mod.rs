//! From what is wrong to what is changed: each kind of step is a pure function of the host.
//!
//! A step says what is to be there; preparing the plan fills in what is there now. Whether a file
//! of ours has the last word is not reckoned but tried: files are laid over the host and read like
//! any.

mod boot_files;
mod boot_loader;
mod commands;
mod draft;
mod image;
mod manual_steps;
mod memlock;
pub mod owned_files;
mod pools_at_boot;
mod pools_now;
mod projected_host;
mod request;
pub mod restart;
mod settings;
mod shm;
mod step_links;
mod sysctl;
#[cfg(test)]
mod tests;
mod thp;
mod warnings;

use std::collections::BTreeSet;

use hugewise_diagnose::sizing::{PoolSizeTarget, Sizing};
use hugewise_diagnose::target::{PoolGoalInputs, sum_goal_memory, takes_page_size};
use hugewise_diagnose::wording::one_line;
use hugewise_diagnose::{Assessment, demand, untrusted};
use hugewise_host::Source;
use hugewise_model::{Host, HugePageMode, Instance, InstanceId, PageSize};

use crate::plan::{HostIdentity, Plan, PlanBudget, PlanRefusal};
use draft::{Draft, Drafted, PlannedPoolGoal};
use projected_host::ProjectedHost;
pub use request::{PlanError, PlanOptions, check_options, mark_named_instances};
use request::{PlanIndex, PlanRequest, lacks_gib_pages};

/// The changes that take a host to what [`hugewise_diagnose::assess_host`] and
/// [`hugewise_diagnose::sizing::size_servers`] say of it.
///
/// `sizing` is that of [`hugewise_diagnose::target::to_size`]'s instances; `None` where nobody needs a pool. A step
/// for which a fact is missing is left out, with a warning. A refused plan has no step that takes
/// more memory or relies on one, unless [`PlanOptions::overrule`] is set.
pub fn build_plan(
    host: &Host,
    instances: &[Instance],
    assessment: &Assessment,
    sizing: Option<&Sizing>,
    source: &dyn Source,
    options: &PlanOptions,
) -> Result<Plan, PlanError> {
    check_options(host, instances, options)?;
    let everybody = instances;
    // Nothing below does anything for a stranger.
    let instances: &[Instance] = &untrusted::trusted_instances(everybody);
    let (assessment, all) = (&keep_trusted(assessment, everybody), assessment);
    let strangers: Vec<&Instance> =
        everybody.iter().filter(|instance| !instance.is_trusted()).collect();
    let target = PoolGoalInputs {
        host,
        instances,
        strangers: &strangers,
        assessment,
        sizing,
        wish: options.target_wish(),
        unmoved: &[],
        short: &[],
    };
    let is_gib = |target: &PoolSizeTarget| target.page_size == PageSize::GIB_1;
    if lacks_gib_pages(host) && target.targets().iter().any(is_gib) {
        return Err(PlanError::NoGibPages);
    }
    let mut ask = PlanRequest { target, index: &PlanIndex::new(&target), source, options };
    let Settled { mut draft, projected, foreseen } = settle(&ask);
    (ask.target.unmoved, ask.target.short) = (&foreseen.unmoved, &foreseen.short);
    step_links::assign_dependencies(&ask, &mut draft);
    step_links::assign_expected_findings(&ask, &mut draft, &projected);
    manual_steps::instruct_findings(&ask, &mut draft);
    warnings::plan_warnings(&ask, &mut draft);
    let left_out = strangers.iter().filter(|instance| is_missed(all, instance));
    let pools = sum_goal_memory(draft.pools.iter().map(|goal| &**goal));
    let budget = sizing.map(|sizing| PlanBudget::from(&sizing.budget.with_pools(pools)));
    let mut plan = Plan {
        budget: budget.unwrap_or_default(),
        refusal: draft.refusal,
        steps: draft.steps.into_iter().map(Drafted::into_step).collect(),
        instructions: draft.instructions,
        undecided: draft.undecided,
        warnings: draft.warnings,
        at_boot: draft.at_boot,
        ..Plan::new(read_identity(host, source), made_at(host.read_at.get()))
    };
    plan.warnings.extend(left_out.map(|instance| describe_left_out(instance)));
    image::warn_confined_host(host, &mut plan);
    Ok(plan)
}

/// What a draft has to allow for that only its steps show.
#[derive(Clone, Default, PartialEq)]
struct Foreseen {
    /// Servers that no step sets to their planned pages.
    unmoved: Vec<InstanceId>,
    /// Page sizes of which the next boot would have too few if the pool stayed.
    short: Vec<PageSize>,
}

struct Settled<'a> {
    draft: Draft<'a>,
    projected: ProjectedHost,
    foreseen: Foreseen,
}

/// A draft that allows for what it shows itself. Whether a server can be set to other pages hangs
/// on the pools, what its old pool may give back hangs on that, and pages that the boot keeps may
/// go to one more server. Mostly the first draft shows nothing of the kind. Where even the second
/// shows more, the last one relies on no server's move, and on no pool that stays.
fn settle<'a>(ask: &PlanRequest<'a>) -> Settled<'a> {
    let first = draft_allowing_for(ask, Foreseen::default());
    let shown = first.find_unforeseen(ask);
    if shown == first.foreseen {
        return first;
    }
    let second = draft_allowing_for(ask, shown);
    let shown = second.find_unforeseen(ask);
    if shown == second.foreseen {
        return second;
    }
    let unmoved = find_moving(ask).collect();
    let short = second.draft.pools.iter().map(|pool| pool.page_size).collect();
    draft_allowing_for(ask, Foreseen { unmoved, short })
}

fn draft_allowing_for<'a>(ask: &PlanRequest<'a>, foreseen: Foreseen) -> Settled<'a> {
    let (unmoved, short) = (&foreseen.unmoved[..], &foreseen.short[..]);
    let target = PoolGoalInputs { unmoved, short, ..ask.target };
    let round = PlanRequest { target, ..*ask };
    let draft = draft_steps(&round, ask.source);
    let projected = ProjectedHost::new(&round, &draft);
    Settled { draft, projected, foreseen }
}

impl Settled<'_> {
    /// With what was foreseen.
    fn find_unforeseen(&self, ask: &PlanRequest<'_>) -> Foreseen {
        let mut shown = self.foreseen.clone();
        let is_new = |id: &InstanceId| {
            !self.draft.resized.contains(id) && !self.foreseen.unmoved.contains(id)
        };
        shown.unmoved.extend(find_moving(ask).filter(is_new));
        let short = self.projected.short_at_boot(ask).into_iter();
        shown.short.extend(short.filter(|page| !self.foreseen.short.contains(page)));
        shown
    }
}

fn keep_trusted(assessment: &Assessment, everybody: &[Instance]) -> Assessment {
    let strangers: BTreeSet<InstanceId> =
        everybody.iter().filter(|instance| !instance.is_trusted()).map(Instance::id).collect();
    let is_known = |id: Option<&InstanceId>| id.is_none_or(|id| !strangers.contains(id));
    let mut known = assessment.clone();
    known.chains.retain(|chain| is_known(Some(&chain.instance)));
    known.findings.retain(|finding| is_known(finding.instance.as_ref()));
    known.unknown.retain(|verdict| is_known(verdict.instance.as_ref()));
    known
}

fn is_missed(assessment: &Assessment, instance: &Instance) -> bool {
    let id = instance.id();
    let asks =
        matches!(instance.asked, HugePageMode::Try | HugePageMode::Must | HugePageMode::Raises);
    asks || assessment.findings.iter().any(|finding| finding.instance.as_ref() == Some(&id))
}

fn describe_left_out(instance: &Instance) -> String {
    let (title, why) = (instance.title(), untrusted::untrusted_reason(instance));
    let text = format!("{title} is left out: {why}; {} includes it", untrusted::plan_for(instance));
    one_line(&text)
}

fn draft_steps<'a>(ask: &PlanRequest<'_>, source: &'a dyn Source) -> Draft<'a> {
    let mut draft = Draft::new(source, ask.instances);
    if let Some(page) = ask.options.page_size {
        let is_concerned = |instance: &&Instance| {
            !takes_page_size(instance, page) && ask.is_chosen(instance) && ask.is_kept_off(instance)
        };
        for instance in ask.instances.iter().filter(is_concerned) {
            draft.add_warning(explain_default_size_only(instance, page));
        }
    }
    let (goals, mut unknown) = ask.plan_goals();
    draft.warnings.append(&mut unknown);
    draft.pools = goals.into_iter().map(PlannedPoolGoal::from).collect();
    refuse_starving_pools(ask, &mut draft);
    pools_now::plan_current_pools(ask, &mut draft);
    pools_at_boot::plan_boot_pools(ask, &mut draft);
    sysctl::plan_overcommit(ask, &mut draft);
    // A server gets its right to pages once they are there: before, it would take others'.
    shm::plan_shm(ask, &mut draft);
    memlock::plan_memlock(ask, &mut draft);
    thp::plan_thp(ask, &mut draft);
    // Before a server is set to rely on what the next boot brings, and after its own files.
    image::plan_image_changes(ask, &mut draft);
    settings::plan_server_settings(ask, &mut draft);
    shm::plan_group_of_moved_servers(ask, &mut draft);
    image::plan_image_changes(ask, &mut draft);
    restart::plan_restarts(ask, &mut draft);
    manual_steps::plan_manual_steps(ask, &mut draft);
    draft
}

fn explain_default_size_only(instance: &Instance, page: PageSize) -> String {
    format!(
        "{} can use only the default page size, so no {page} pages are planned for it",
        instance.title()
    )
}

/// Servers whose planned pages are of another size than those that their next start asks for.
fn find_moving(ask: &PlanRequest<'_>) -> impl Iterator<Item = InstanceId> {
    let moving = ask.sized_instances().filter(|(instance, sized)| {
        demand::page_size(ask.host, instance).is_some_and(|page| page != sized.page_size)
    });
    moving.map(|(instance, _)| instance.id())
}

fn read_identity(host: &Host, source: &dyn Source) -> HostIdentity {
    let machine_id = source.read("/etc/machine-id").into_known();
    let machine_id =
        machine_id.and_then(|bytes| Some(String::from_utf8(bytes).ok()?.trim().into()));
    HostIdentity {
        machine_id: machine_id.filter(|id: &String| !id.is_empty()),
        name: host.name.as_known().cloned().unwrap_or_default(),
        kernel: host.kernel.as_known().map(|kernel| kernel.text.clone()).unwrap_or_default(),
        ..HostIdentity::default()
    }
}

/// What a plan says of when it was made, from seconds since 1970.
pub fn made_at(seconds: Option<i64>) -> String {
    let read_at = seconds.and_then(hugewise_model::calendar::format_rfc3339);
    read_at.unwrap_or_else(|| "1970-01-01T00:00:00Z".into())
}

/// Pools that would starve the host stay as they are, unless somebody overrules that.
fn refuse_starving_pools(ask: &PlanRequest<'_>, draft: &mut Draft<'_>) {
    let Some(refusal) = ask.sizing.and_then(|sizing| sizing.refusal.as_ref()) else { return };
    if !draft.pools.iter().any(|goal| goal.grows()) {
        return;
    }
    draft.refusal = Some(PlanRefusal::from(refusal));
    if !ask.options.overrule {
        let growing = draft.pools.iter_mut().filter(|goal| goal.grows());
        growing.for_each(PlannedPoolGoal::keep_current);
    }
}
