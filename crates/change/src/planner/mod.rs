//! From what is wrong to what is changed: one file a kind of step, each a pure function of the host as it was read.
//!
//! A step says what is to be there; what is there now is filled in where the plan is prepared. Whether a file of
//! ours has the last word is not reckoned but tried: the files are laid over the host ([`overlay`]) and read by what
//! reads any host.

mod after;
mod boot_loader;
mod by_hand;
mod commands;
mod draft;
mod ends;
mod image;
mod memlock;
mod options;
mod order;
pub mod ours;
mod overcommit;
pub(crate) mod overlay;
mod pools;
mod pools_at_boot;
mod pools_now;
pub mod restart;
mod settings;
mod shm;
mod sysctl;
#[cfg(test)]
mod tests;
mod thp;
mod unread;
mod warnings;

use std::collections::BTreeSet;

use hugewise_advice::situation::{Moment, Moments, Obstacle};
use hugewise_advice::sizing::{Sized, Sizing};
use hugewise_advice::target::{is_named, takes};
use hugewise_advice::{Assessment, demand, stranger, target};
use hugewise_engines::named;
use hugewise_host::Source;
use hugewise_model::vouch::Voucher;
use hugewise_model::{Asked, Host, Instance, InstanceId, LinkName, LinkState, PageSize, Remedy};

use crate::plan::{Budget, HostIdentity, Plan, Refusal, When};
use draft::Draft;
pub use options::{Options, PlanError};

/// Marks the instances that the options name, for [`hugewise_advice::assess`] and all that follows: whoever names a server
/// vouches for it. One that nothing else vouches for has to be named with its pid, as anybody may call himself anything.
///
/// # Errors
/// A name that nobody here has, that several have, or that only a stranger has.
pub fn name(instances: &mut [Instance], options: &Options) -> Result<(), PlanError> {
    let mut named = Vec::new();
    for asked in options.instances.iter().chain(&options.restart) {
        match named::one(instances, asked).map_err(PlanError::Ambiguous)? {
            None => {
                let there = instances.iter().map(Instance::title).collect();
                return Err(PlanError::NoSuchInstance { asked: asked.clone(), there });
            }
            Some(one) if one.is_vouched() || named::with_pid(asked).is_some() => named.push(one.id()),
            Some(one) => {
                let (why, handle) = (stranger::why(one), one.handle());
                return Err(PlanError::Stranger { asked: asked.clone(), why, handle });
            }
        }
    }
    for instance in instances.iter_mut().filter(|instance| named.contains(&instance.id())) {
        instance.vouchers.push(Voucher::Named);
    }
    Ok(())
}

/// Whether the options make sense on a host: what can be told before anything is sized.
///
/// # Errors
/// A name that nobody here has, a page size that the processor or a server named does not have.
pub fn check(host: &Host, instances: &[Instance], options: &Options) -> Result<(), PlanError> {
    if let (true, Some(reason)) = (instances.is_empty(), host.processes.reason()) {
        return Err(PlanError::ProcessesUnknown(reason));
    }
    name(&mut instances.to_vec(), options)?;
    for (page, pages) in &options.overcommit {
        let asked = pages.of(*page);
        if let Some(memory) = host.memory.total.get().filter(|memory| asked > *memory) {
            return Err(PlanError::Overcommit { asked, memory });
        }
    }
    let Some(asked) = options.page_size else { return Ok(()) };
    if asked == PageSize::GIB_1 && lacks_gib_pages(host) {
        return Err(PlanError::NoGibPages);
    }
    let named = |instance: &&Instance| is_named(instances, instance, &options.instances);
    match instances.iter().filter(named).find(|instance| !takes(instance, asked)) {
        Some(instance) => Err(PlanError::NotItsPageSize { instance: instance.title(), asked }),
        None => Ok(()),
    }
}

fn lacks_gib_pages(host: &Host) -> bool {
    host.processors.gib_pages.get() == Some(false)
}

/// The changes that take a host to what [`hugewise_advice::assess`] and [`hugewise_advice::sizing::size`] say of it.
///
/// `sizing` is that of [`to_size`]'s instances; none where nobody needs a pool. What a step needs and is not known
/// leaves the step out, and a warning says so. A plan with a refusal has no step that takes more memory, and none that relies on
/// one: whoever overrules it ([`Options::overrule`]) gets them.
///
/// # Errors
/// Where the question makes no sense.
pub fn plan(
    host: &Host,
    instances: &[Instance],
    assessment: &Assessment,
    sizing: Option<&Sizing>,
    source: &dyn Source,
    options: &Options,
) -> Result<Plan, PlanError> {
    check(host, instances, options)?;
    let everybody = instances;
    // Nothing below does anything for a stranger.
    let instances: &[Instance] = &stranger::known(everybody);
    let (assessment, all) = (&of_known(assessment, everybody), assessment);
    let strangers: Vec<&Instance> = everybody.iter().filter(|instance| !instance.is_vouched()).collect();
    let mut ask =
        Ask { host, instances, strangers: &strangers, assessment, sizing, source, options, unmoved: &[], short: &[] };
    let gib = |target: &hugewise_advice::sizing::PoolTarget| target.page_size == PageSize::GIB_1;
    if lacks_gib_pages(host) && ask.targets().iter().any(gib) {
        return Err(PlanError::NoGibPages);
    }
    // Whether a server can be set to other pages hangs on the pools, and what its old pool may give back hangs on
    // that: each round more servers keep their pages, until nothing changes.
    // And pages that the boot is to keep may let one more server have some that others had on demand until now.
    let mut unmoved = Vec::new();
    let mut short = Vec::new();
    let draft = loop {
        let round = Ask { unmoved: &unmoved, short: &short, ..ask };
        let draft = drafted(&round);
        let all = still_unmoved(&round, &draft);
        let more: Vec<PageSize> =
            after::short_at_boot(&round, &draft).into_iter().filter(|page| !short.contains(page)).collect();
        if all.len() == unmoved.len() && more.is_empty() {
            break draft;
        }
        unmoved = all;
        short.extend(more);
    };
    (ask.unmoved, ask.short) = (&unmoved, &short);
    let mut draft = draft;
    order::reckon(&ask, &mut draft);
    ends::reckon(&ask, &mut draft);
    by_hand::left_over(&ask, &mut draft);
    warnings::plan(&ask, &mut draft);
    let mut plan = Plan::new(identity(host, source), made_at(host.read_at.get()));
    let pools = target::memory(draft.pools.iter().map(|goal| &**goal));
    plan.budget = sizing.map(|sizing| Budget::from(&sizing.budget.with_pools(pools))).unwrap_or_default();
    plan.refusal = draft.refusal;
    plan.steps = draft.steps.into_iter().map(draft::Drafted::into_step).collect();
    (plan.instructions, plan.warnings) = (draft.instructions, draft.warnings);
    plan.warnings.extend(everybody.iter().filter(|it| !it.is_vouched() && may_want(all, it)).map(left_out));
    plan.at_boot = draft.at_boot;
    image::confined(host, &mut plan);
    Ok(plan)
}

/// What is said of the host and of servers that something vouches for.
fn of_known(assessment: &Assessment, everybody: &[Instance]) -> Assessment {
    let strangers: BTreeSet<InstanceId> = everybody.iter().filter(|it| !it.is_vouched()).map(Instance::id).collect();
    let known = |id: &Option<InstanceId>| id.as_ref().is_none_or(|id| !strangers.contains(id));
    Assessment {
        situation: assessment.situation.clone(),
        target: assessment.target.clone(),
        chains: assessment.chains.iter().filter(|it| !strangers.contains(&it.instance)).cloned().collect(),
        findings: assessment.findings.iter().filter(|it| known(&it.instance)).cloned().collect(),
        unknown: assessment.unknown.iter().filter(|it| known(&it.instance)).cloned().collect(),
    }
}

/// Whether somebody may miss a stranger in the plan.
fn may_want(assessment: &Assessment, instance: &Instance) -> bool {
    let id = instance.id();
    let asks = matches!(instance.asked, Asked::Try | Asked::Must | Asked::Raises);
    asks || assessment.findings.iter().any(|finding| finding.instance.as_ref() == Some(&id))
}

fn left_out(instance: &Instance) -> String {
    let (title, why) = (instance.title(), stranger::why(instance));
    let text = format!("{title} is left out: {why}; {} includes it", stranger::plan_for(instance));
    hugewise_advice::words::one_line(&text)
}

/// All steps, in their order.
fn drafted<'a>(ask: &Ask<'a>) -> Draft<'a> {
    let mut draft = Draft::new(ask.source, ask.instances);
    for instance in ask.instances.iter().filter(|it| ask.is_chosen(it) && ask.is_kept_off(it)) {
        if let Some(page) = ask.options.page_size.filter(|page| !takes(instance, *page)) {
            draft.warn(format!(
                "{} can use only the default page size, so no {page} pages are planned for it",
                instance.title()
            ));
        }
    }
    draft.pools = pools::goals(ask, &mut draft.warnings);
    refuse(ask, &mut draft);
    pools_now::plan(ask, &mut draft);
    pools_at_boot::plan(ask, &mut draft);
    overcommit::plan(ask, &mut draft);
    // Whoever is let have pages is let have them once they are there: before, it would take others'.
    shm::plan(ask, &mut draft);
    memlock::plan(ask, &mut draft);
    thp::plan(ask, &mut draft);
    // Before a server is set to rely on what the next boot brings, and after its own files.
    image::plan(ask, &mut draft);
    settings::plan(ask, &mut draft);
    shm::after_settings(ask, &mut draft);
    image::plan(ask, &mut draft);
    restart::plan(ask, &mut draft);
    by_hand::plan(ask, &mut draft);
    draft
}

/// Servers that pages of another size are planned for than those that they will ask for at their next start.
fn still_unmoved(ask: &Ask<'_>, draft: &Draft<'_>) -> Vec<InstanceId> {
    let moves =
        |instance: &Instance, to: PageSize| demand::page_size(ask.host, instance).is_some_and(|page| page != to);
    let moving = ask.sized().filter(|(of, sized)| moves(of, sized.page_size)).map(|(of, _)| of.id());
    moving.filter(|id| ask.unmoved.contains(id) || !draft.resized.contains(id)).collect()
}

fn identity(host: &Host, source: &dyn Source) -> HostIdentity {
    let machine_id = source.read("/etc/machine-id").into_known();
    let machine_id = machine_id.and_then(|bytes| String::from_utf8(bytes).ok()).map(|id| id.trim().to_owned());
    HostIdentity {
        machine_id: machine_id.filter(|id| !id.is_empty()),
        name: host.name.known().cloned().unwrap_or_default(),
        kernel: host.kernel.known().map(|kernel| kernel.text.clone()).unwrap_or_default(),
        ..HostIdentity::default()
    }
}

/// What a plan says of when it was made, from seconds since 1970.
pub fn made_at(seconds: Option<i64>) -> String {
    let read_at = seconds.and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    read_at.unwrap_or(jiff::Timestamp::UNIX_EPOCH).to_string()
}

/// Pools that would starve the host are refused and stay as they are, unless somebody overrules that; a plan that makes no pool
/// larger starves nobody.
fn refuse(ask: &Ask<'_>, draft: &mut Draft<'_>) {
    let Some(refusal) = ask.sizing.and_then(|sizing| sizing.refusal.as_ref()) else { return };
    if !draft.pools.iter().any(|goal| goal.grows()) {
        return;
    }
    draft.refusal = Some(Refusal::from(refusal));
    if !ask.options.overrule {
        draft.pools.iter_mut().filter(|goal| goal.grows()).for_each(pools::Goal::stays);
    }
}

/// What is looked at.
#[derive(Clone, Copy)]
struct Ask<'a> {
    host: &'a Host,
    instances: &'a [Instance],
    /// Those that nothing vouches for: nothing is done for them, and no pages are taken from under them.
    strangers: &'a [&'a Instance],
    assessment: &'a Assessment,
    sizing: Option<&'a Sizing>,
    source: &'a dyn Source,
    options: &'a Options,
    /// Servers that no step sets to the pages that are planned for them.
    unmoved: &'a [InstanceId],
    /// Page sizes of which a server would have fewer at the next boot than without the plan.
    short: &'a [PageSize],
}

impl<'a> Ask<'a> {
    /// Whether the plan is about an instance.
    fn is_chosen(&self, instance: &Instance) -> bool {
        self.options.instances.is_empty() || self.is_asked_for(instance)
    }

    /// Whether a server is off huge pages and should not be.
    fn is_kept_off(&self, instance: &Instance) -> bool {
        target::is_kept_off(&self.assessment.facts(self.host, self.instances), instance)
    }

    /// Whether somebody named it.
    fn is_asked_for(&self, instance: &Instance) -> bool {
        is_named(self.instances, instance, &self.options.instances)
    }

    /// When the effect of a kernel setting shows.
    fn at_once(&self) -> When {
        if self.options.now { When::Now } else { When::Reboot }
    }

    /// Whether something found calls for this.
    fn calls_for(&self, remedy: &Remedy) -> bool {
        self.assessment.findings.iter().any(|finding| finding.remedies.contains(remedy))
    }

    /// The same question as the target is asked.
    fn target(&self) -> target::Ask<'a> {
        target::Ask {
            host: self.host,
            instances: self.instances,
            strangers: self.strangers,
            assessment: self.assessment,
            sizing: self.sizing,
            wish: self.options.wish(),
            unmoved: self.unmoved,
            short: self.short,
        }
    }

    /// Whether the limit of its cgroup is below what it asks for.
    fn is_held_by_its_cgroup(&self, instance: &Instance) -> bool {
        let facts = self.assessment.facts(self.host, self.instances);
        let links = facts.chain(instance).map(|chain| chain.links.as_slice()).unwrap_or_default();
        let broken = links.iter().any(|link| link.name == LinkName::Cgroup && link.state == LinkState::Broken);
        let held =
            |moments: &Moments| Moment::ALL.iter().any(|moment| moments.at(*moment).obstacle == Some(Obstacle::Cgroup));
        let limited = self.sizing.is_some_and(|it| it.limited.iter().any(|of| of.instance == instance.id()));
        broken || limited || self.assessment.situation.of(instance).is_some_and(held)
    }

    /// Pools as they should be, by page size and node.
    fn targets(&self) -> &'a [hugewise_advice::sizing::PoolTarget] {
        self.target().targets()
    }

    /// Instances that pages are planned for, with what they need.
    fn sized(&self) -> impl Iterator<Item = (&'a Instance, &'a Sized)> + use<'a> {
        self.target().sized()
    }

    /// Those that pages of a size are planned for.
    fn sized_on(&self, page: PageSize) -> Vec<InstanceId> {
        self.sized().filter(|(_, sized)| sized.page_size == page).map(|(instance, _)| instance.id()).collect()
    }
}
