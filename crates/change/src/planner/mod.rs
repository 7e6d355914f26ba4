//! From what is wrong to what is changed: one file a kind of step, each a pure function of the host as it was read.
//!
//! A step says what is to be there; what is there now is filled in where the plan is prepared. Whether a file of
//! ours has the last word is not reckoned but tried: the files are laid over the host ([`overlay`]) and read by what
//! reads any host.

mod boot_loader;
mod by_hand;
mod commands;
mod image;
mod memlock;
mod mysql;
mod options;
pub mod ours;
mod overcommit;
pub(crate) mod overlay;
mod pools;
mod pools_at_boot;
mod pools_now;
mod postgresql;
pub mod restart;
mod shm;
mod sysctl;
#[cfg(test)]
mod tests;
mod thp;
mod warnings;

use hugewise_advice::sizing::{Sized, Sizing};
use hugewise_advice::target::{is_named, takes};
use hugewise_advice::{Assessment, need, stranger, target};
use hugewise_engines::named;
use hugewise_host::Source;
use hugewise_model::vouch::Voucher;
use hugewise_model::{Asked, Finding, Host, Instance, PageSize};

use crate::plan::{
    Budget, Expected, FileChange, HostIdentity, Instruction, Plan, PoolAtBoot, Refusal, Risk, Step, When,
};
pub use options::{Options, PlanError};
use overlay::Overlay;

/// Marks the instances that the options name, for [`hugewise_advice::assess`] and all that follows: whoever names a server
/// vouches for it. One that nothing else vouches for has to be named with its pid, as anybody may call himself anything.
///
/// # Errors
/// A name that nobody here has, that several have, or that only a stranger has.
pub fn name(instances: &mut [Instance], options: &Options) -> Result<(), PlanError> {
    let mut titles = Vec::new();
    for asked in options.instances.iter().chain(&options.restart) {
        let meant = named::meant(instances, asked);
        match meant.as_slice() {
            [] => {
                let there = instances.iter().map(Instance::title).collect();
                return Err(PlanError::NoSuchInstance { asked: asked.clone(), there });
            }
            [one] if one.is_vouched() || named::with_pid(asked).is_some() => titles.push(one.title()),
            [one] => {
                let (why, handle) = (stranger::why(one), one.handle());
                return Err(PlanError::Stranger { asked: asked.clone(), why, handle });
            }
            several => {
                let handles = several.iter().map(|instance| instance.handle()).collect();
                return Err(PlanError::Ambiguous { asked: asked.clone(), handles });
            }
        }
    }
    for instance in instances.iter_mut().filter(|instance| titles.contains(&instance.title())) {
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
/// leaves the step out, and a warning says so. A plan with a refusal has all its steps: whoever overrules it gets them.
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
    let mut ask = Ask { host, instances, strangers: &strangers, assessment, sizing, source, options, unmoved: &[] };
    let gib = |target: &hugewise_advice::sizing::PoolTarget| target.page_size == PageSize::GIB_1;
    if lacks_gib_pages(host) && ask.targets().iter().any(gib) {
        return Err(PlanError::NoGibPages);
    }
    // Whether a server can be set to other pages hangs on the pools, and what its old pool may give back hangs on
    // that: each round more servers keep their pages, until nothing changes.
    let mut unmoved = Vec::new();
    let draft = loop {
        let round = Ask { unmoved: &unmoved, ..ask };
        let draft = drafted(&round);
        let all = still_unmoved(&round, &draft);
        if all.len() == unmoved.len() {
            break draft;
        }
        unmoved = all;
    };
    ask.unmoved = &unmoved;
    let mut plan = Plan::new(identity(host, source), made_at(host.read_at.get()));
    plan.budget = sizing.map(|sizing| Budget::from(&sizing.budget)).unwrap_or_default();
    plan.refusal = refusal(&ask, &draft);
    (plan.steps, plan.instructions, plan.warnings) = (draft.steps, draft.instructions, draft.warnings);
    plan.warnings.extend(everybody.iter().filter(|it| !it.is_vouched() && may_want(all, it)).map(left_out));
    plan.at_boot = draft.at_boot;
    image::confined(host, &mut plan);
    Ok(plan)
}

/// What is said of the host and of servers that something vouches for.
fn of_known(assessment: &Assessment, everybody: &[Instance]) -> Assessment {
    let strangers: Vec<String> = everybody.iter().filter(|it| !it.is_vouched()).map(Instance::title).collect();
    let known = |title: &Option<String>| title.as_ref().is_none_or(|title| !strangers.contains(title));
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
    let title = instance.title();
    let asks = matches!(instance.asked, Asked::Try | Asked::Must | Asked::Raises);
    asks || assessment.findings.iter().any(|finding| finding.instance.as_ref() == Some(&title))
}

fn left_out(instance: &Instance) -> String {
    let (title, why) = (instance.title(), stranger::why(instance));
    let text = format!("{title} is left out: {why}; {} plans for it", stranger::plan_for(instance));
    hugewise_advice::words::one_line(&text)
}

/// All steps, in their order.
fn drafted<'a>(ask: &Ask<'a>) -> Draft<'a> {
    let mut draft = Draft::new(ask.source);
    for instance in ask.instances.iter().filter(|it| ask.is_chosen(it) && ask.is_kept_off(it)) {
        if let Some(page) = ask.options.page_size.filter(|page| !takes(instance, *page)) {
            draft.warn(format!(
                "{} takes pages of the default size alone: no pages of {page} are planned for it",
                instance.title()
            ));
        }
    }
    draft.pools = pools::goals(ask, &mut draft.warnings);
    pools_now::plan(ask, &mut draft);
    pools_at_boot::plan(ask, &mut draft);
    overcommit::plan(ask, &mut draft);
    // Whoever is let have pages is let have them once they are there: before, it would take others'.
    shm::plan(ask, &mut draft);
    memlock::plan(ask, &mut draft);
    thp::plan(ask, &mut draft);
    // Before a server is set to rely on what the next boot brings, and after its own files.
    image::plan(ask, &mut draft);
    postgresql::plan(ask, &mut draft);
    mysql::plan(ask, &mut draft);
    image::plan(ask, &mut draft);
    restart::plan(ask, &mut draft);
    by_hand::plan(ask, &mut draft);
    warnings::plan(ask, &mut draft);
    draft
}

/// Servers that pages of another size are planned for than those that they will ask for at their next start.
fn still_unmoved(ask: &Ask<'_>, draft: &Draft<'_>) -> Vec<String> {
    let moves = |instance: &Instance, to: PageSize| need::page_size(ask.host, instance).is_some_and(|page| page != to);
    let titles = ask.sized().filter(|(of, sized)| moves(of, sized.page_size)).map(|(of, _)| of.title());
    titles.filter(|title| ask.unmoved.contains(title) || !draft.resized.contains(title)).collect()
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

/// Pools that would starve the host are refused; a plan that makes no pool larger starves nobody.
fn refusal(ask: &Ask<'_>, draft: &Draft<'_>) -> Option<Refusal> {
    let refusal = ask.sizing?.refusal.as_ref()?;
    draft.pools.iter().any(|goal| goal.grows()).then(|| Refusal::from(refusal))
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
    /// Titles of servers that no step sets to the pages that are planned for them.
    unmoved: &'a [String],
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

    /// A finding about an instance.
    fn found(&self, code: &str, instance: &Instance) -> Option<&'a Finding> {
        let title = instance.title();
        self.findings(code).find(|finding| finding.instance.as_ref() == Some(&title))
    }

    /// All findings of a rule.
    fn findings(&self, code: &str) -> impl Iterator<Item = &'a Finding> {
        self.assessment.findings.iter().filter(move |finding| finding.code == code)
    }

    /// Pools as they should be, by page size and node.
    fn targets(&self) -> &'a [hugewise_advice::sizing::PoolTarget] {
        let Some(sizing) = self.sizing else { return &[] };
        sizing.refusal.as_ref().map_or(&sizing.pools, |refusal| &refusal.wanted)
    }

    /// Instances that pages are planned for, with what they need.
    fn sized(&self) -> impl Iterator<Item = (&'a Instance, &'a Sized)> {
        let instances = self.instances;
        let sized = self.sizing.map(|sizing| sizing.instances.as_slice()).unwrap_or_default();
        sized.iter().filter_map(move |sized| {
            let is = |instance: &&Instance| instance.engine == sized.engine && instance.name == sized.name;
            Some((instances.iter().find(is)?, sized))
        })
    }
}

/// A plan in the making.
struct Draft<'a> {
    steps: Vec<Step>,
    instructions: Vec<Instruction>,
    warnings: Vec<String>,
    /// Pools that the next boot is to bring.
    at_boot: Vec<PoolAtBoot>,
    /// The host's files as the steps so far leave them.
    after: Overlay<'a>,
    pools: Vec<pools::Goal>,
    /// Titles of servers that a step sets to pages of another size.
    resized: Vec<String>,
}

impl<'a> Draft<'a> {
    fn new(source: &'a dyn Source) -> Self {
        Self {
            steps: Vec::new(),
            instructions: Vec::new(),
            warnings: Vec::new(),
            at_boot: Vec::new(),
            after: Overlay::new(source),
            pools: Vec::new(),
            resized: Vec::new(),
        }
    }

    /// The goal for pools of a size.
    fn pool(&self, page: PageSize) -> Option<&pools::Goal> {
        self.pools.iter().find(|pool| pool.page_size == page)
    }

    fn warn(&mut self, text: impl Into<String>) {
        let text = hugewise_advice::words::one_line(&text.into());
        if !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }

    /// Lays a file that a step writes over the host, and gives the change; none where it is so already.
    fn write(&mut self, path: &str, text: &str) -> Option<FileChange> {
        if self.after.read(path).known().is_some_and(|there| ours::is_same(there, text)) {
            return None;
        }
        self.after.set(path, Some(text.as_bytes().to_vec()));
        Some(FileChange::write(path, text))
    }

    /// Takes a step in, unless there is nothing to change.
    fn step(&mut self, step: Step) {
        if !step.changes.is_empty() {
            self.steps.push(step);
        }
    }

    /// What somebody has to do by hand.
    fn instruct(&mut self, title: impl Into<String>, lines: &[String], risk: Risk, instance: Option<String>) {
        let title = hugewise_advice::words::one_line(&title.into());
        let lines: Vec<String> = lines.iter().map(|line| hugewise_advice::words::one_line(line)).collect();
        let text = lines.join("\n");
        self.instructions.push(Instruction { title, text, risk, instance });
    }
}

/// A finding that a step is to end.
fn expected(finding: &Finding, when: When) -> Expected {
    Expected { code: finding.code.into(), name: finding.name.into(), instance: finding.instance.clone(), when }
}
