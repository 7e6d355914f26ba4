//! What is asked of a plan, of which host, and which questions have no answer.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use hugewise_diagnose::prediction::{Obstacle, PredictionStage, StageForecast, StageForecasts};
use hugewise_diagnose::sizing::SizedServer;
use hugewise_diagnose::target::{self, PoolGoalInputs, TargetRequest, is_named, takes_page_size};
use hugewise_diagnose::untrusted;
use hugewise_engines::instance_names::{self, Ambiguous};
use hugewise_host::Source;
use hugewise_model::trusted_by::TrustReason;
use hugewise_model::{
    Bytes, Engine, Host, HugePageChain, Instance, InstanceId, Link, LinkName, LinkState, PageCount,
    PageSize, Remedy,
};

use crate::plan::EffectTime;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanOptions {
    /// Titles or names of the instances that it is about; empty for all.
    pub instances: Vec<String>,
    /// Titles or names of the instances that may be restarted.
    pub restart: Vec<String>,
    /// Page size of the pools, where servers leave a choice; as in the sizing's request.
    pub page_size: Option<PageSize>,
    /// Changes that work at once.
    pub now: bool,
    /// Changes that the next boot finds.
    pub boot: bool,
    /// A pool that gets fewer pages stops no other step; then no server is set to insist on pages.
    pub keep_partial: bool,
    /// Pools that the host's memory has no room for are planned all the same.
    pub overrule: bool,
    /// Pages that nobody uses or asks for are given back, not only where pools starve the host.
    pub shrink: bool,
    /// Pools of every size are reserved on the kernel's command line, in unfragmented memory.
    pub early: bool,
    /// Pages that pools may grow by on demand.
    pub overcommit: Vec<(PageSize, PageCount)>,
}

impl PlanOptions {
    /// What they ask of the target.
    pub fn target_wish(&self) -> TargetRequest<'_> {
        TargetRequest {
            names: &self.instances,
            page_size: self.page_size,
            now: self.now,
            boot: self.boot,
            shrink: self.shrink,
        }
    }
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self {
            instances: Vec::new(),
            restart: Vec::new(),
            page_size: None,
            now: true,
            boot: true,
            keep_partial: false,
            overrule: false,
            shrink: false,
            early: false,
            overcommit: Vec::new(),
        }
    }
}

/// A question that has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// No instance here has that name.
    #[error("no instance is called {asked}; {}", describe_instances(.there))]
    NoSuchInstance {
        /// What was asked for.
        asked: String,
        /// What there is.
        there: Vec<String>,
    },
    /// A name that several instances have.
    #[error("{0}")]
    Ambiguous(Ambiguous),
    /// An instance that nothing vouches for, named by a name that anybody can take.
    #[error("{asked}: {why}; if you trust it, name it with its pid: \"{handle}\"")]
    Stranger {
        /// What was asked for.
        asked: String,
        /// Why nothing vouches for it.
        why: String,
        /// The name that means it and no other.
        handle: String,
    },
    /// A server that was named cannot have pages of the size that was asked for.
    #[error("{instance} can use only the default page size, not {asked}")]
    NotItsPageSize {
        /// Its title.
        instance: String,
        /// What was asked for.
        asked: PageSize,
    },
    /// Pages on demand that are more than the host's memory.
    #[error("{asked} of pages on demand are more than the host's memory of {memory}")]
    Overcommit {
        /// What was asked for.
        asked: Bytes,
        /// What there is.
        memory: Bytes,
    },
    /// The processor has no 1 GiB pages.
    #[error(
        "this processor has no 1 GiB pages (no pdpe1gb in /proc/cpuinfo): the kernel would ignore \
         hugepagesz=1G and boot without the pool. Plan with 2 MiB pages, or have the hypervisor \
         pass the flag on"
    )]
    NoGibPages,
    /// Nothing is known of the processes: nobody knows what runs here.
    #[error("hugewise cannot tell what runs here (processes: {0})")]
    ProcessesUnknown(String),
}

fn describe_instances(there: &[String]) -> String {
    match there {
        [] => "no database server runs on this host".to_owned(),
        there => format!("this host has {}", there.join(", ")),
    }
}

/// Marks the instances that the options name, before [`hugewise_diagnose::assess_host`]: whoever
/// names a server vouches for it. One that nothing else vouches for has to be named with its pid,
/// as anybody may call himself anything.
///
/// # Errors
/// A name that nobody here has, that several have, or that only a stranger has.
pub fn mark_named_instances(
    instances: &mut [Instance],
    options: &PlanOptions,
) -> Result<(), PlanError> {
    let mut named = Vec::new();
    for asked in options.instances.iter().chain(&options.restart) {
        match instance_names::find_unique_instance(instances, asked)
            .map_err(PlanError::Ambiguous)?
        {
            None => {
                let there = instances.iter().map(Instance::title).collect();
                return Err(PlanError::NoSuchInstance { asked: asked.clone(), there });
            }
            Some(one) if one.is_trusted() || instance_names::with_pid(asked).is_some() => {
                named.push(one.id())
            }
            Some(one) => {
                let (why, handle) = (untrusted::untrusted_reason(one), one.unique_title());
                return Err(PlanError::Stranger { asked: asked.clone(), why, handle });
            }
        }
    }
    for instance in instances.iter_mut().filter(|instance| named.contains(&instance.id())) {
        instance.trusted_by.push(TrustReason::Named);
    }
    Ok(())
}

/// Whether the options make sense on a host: what can be told before anything is sized.
///
/// # Errors
/// A name that nobody here has, a page size that the processor or a server named does not have.
pub fn check_options(
    host: &Host,
    instances: &[Instance],
    options: &PlanOptions,
) -> Result<(), PlanError> {
    if let (true, Some(reason)) = (instances.is_empty(), host.processes.reason_text()) {
        return Err(PlanError::ProcessesUnknown(reason));
    }
    mark_named_instances(&mut instances.to_vec(), options)?;
    for (page, pages) in &options.overcommit {
        let asked = pages.to_bytes(*page);
        if let Some(memory) = host.memory.total.get().filter(|memory| asked > *memory) {
            return Err(PlanError::Overcommit { asked, memory });
        }
    }
    let Some(asked) = options.page_size else { return Ok(()) };
    if asked == PageSize::GIB_1 && lacks_gib_pages(host) {
        return Err(PlanError::NoGibPages);
    }
    let named = |instance: &&Instance| is_named(instances, instance, &options.instances);
    match instances.iter().filter(named).find(|instance| !takes_page_size(instance, asked)) {
        Some(instance) => Err(PlanError::NotItsPageSize { instance: instance.title(), asked }),
        None => Ok(()),
    }
}

pub(super) fn lacks_gib_pages(host: &Host) -> bool {
    host.processors.gib_pages.get() == Some(false)
}

#[derive(Clone, Copy)]
pub(super) struct PlanRequest<'a> {
    pub(super) target: PoolGoalInputs<'a>,
    pub(super) index: &'a PlanIndex<'a>,
    pub(super) source: &'a dyn Source,
    pub(super) options: &'a PlanOptions,
}

impl<'a> Deref for PlanRequest<'a> {
    type Target = PoolGoalInputs<'a>;

    fn deref(&self) -> &PoolGoalInputs<'a> {
        &self.target
    }
}

impl<'a> PlanRequest<'a> {
    pub(super) fn is_chosen(&self, instance: &Instance) -> bool {
        self.options.instances.is_empty() || self.is_asked_for(instance)
    }

    pub(super) fn is_kept_off(&self, instance: &Instance) -> bool {
        target::is_kept_off(&self.assessment.rule_facts(self.host, self.instances), instance)
    }

    pub(super) fn is_asked_for(&self, instance: &Instance) -> bool {
        is_named(self.instances, instance, &self.options.instances)
    }

    /// When the effect of a kernel setting shows.
    pub(super) fn setting_effect_time(&self) -> EffectTime {
        if self.options.now { EffectTime::Now } else { EffectTime::Reboot }
    }

    pub(super) fn calls_for(&self, remedy: &Remedy) -> bool {
        self.index.remedies.contains(remedy)
    }

    pub(super) fn instance(&self, id: &InstanceId) -> Option<&'a Instance> {
        self.index.instances.get(&(id.engine, id.name.as_str())).copied()
    }

    pub(super) fn links(&self, instance: &Instance) -> &'a [Link] {
        let chain = self.index.chains.get(&instance_key(instance));
        chain.map(|chain| chain.links.as_slice()).unwrap_or_default()
    }

    pub(super) fn restart_forecast(&self, instance: &Instance) -> Option<&'a StageForecast> {
        self.target.assessment.situation.forecasts_for(instance).map(|moments| &moments.restart)
    }

    pub(super) fn boot_forecast(&self, instance: &Instance) -> Option<&'a StageForecast> {
        self.target.assessment.situation.forecasts_for(instance).map(|moments| &moments.boot)
    }

    pub(super) fn is_held_by_its_cgroup(&self, instance: &Instance) -> bool {
        let is_held = |moments: &StageForecasts| {
            let mut stages = PredictionStage::ALL.iter();
            stages.any(|stage| moments.at_stage(*stage).obstacle == Some(Obstacle::Cgroup))
        };
        let mut limited = self.sizing.into_iter().flat_map(|sizing| &sizing.limited);
        self.links(instance).iter().any(is_broken_cgroup)
            || limited.any(|server| server.instance == instance.id())
            || self.assessment.situation.forecasts_for(instance).is_some_and(is_held)
    }

    pub(super) fn sized(&self, instance: &Instance) -> Option<&'a SizedServer> {
        self.index.sized.get(&instance_key(instance)).copied()
    }

    pub(super) fn planned_page_size(&self, instance: &Instance) -> Option<PageSize> {
        self.sized(instance).map(|sized| sized.page_size)
    }

    /// Where a program of one of these names lies on the host.
    pub(super) fn find_program(&self, names: &[&str]) -> Option<String> {
        let there = |folder: &str, name: &str| {
            let names = self.source.list_folder(folder);
            names.as_known().is_some_and(|all| all.iter().any(|text| text == name))
        };
        let folders = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
        let mut paths = names.iter().flat_map(|name| folders.map(|folder| (folder, *name)));
        let (folder, name) = paths.find(|(folder, name)| there(folder, name))?;
        Some(format!("{folder}/{name}"))
    }

    pub(super) fn servers_on(&self, page: PageSize) -> impl Iterator<Item = &'a Instance> {
        let sized = self.sized_instances().filter(move |(_, sized)| sized.page_size == page);
        sized.map(|(instance, _)| instance)
    }

    pub(super) fn ids_on(&self, page: PageSize) -> BTreeSet<InstanceId> {
        self.servers_on(page).map(Instance::id).collect()
    }
}

type InstanceKey<'a> = (Engine, &'a str);

fn instance_key(instance: &Instance) -> InstanceKey<'_> {
    (instance.engine, &instance.name)
}

/// Looked up by key, so that many servers do not take the square of their time.
pub(super) struct PlanIndex<'a> {
    instances: BTreeMap<InstanceKey<'a>, &'a Instance>,
    sized: BTreeMap<InstanceKey<'a>, &'a SizedServer>,
    chains: BTreeMap<InstanceKey<'a>, &'a HugePageChain>,
    remedies: BTreeSet<&'a Remedy>,
}

impl<'a> PlanIndex<'a> {
    pub(super) fn new(inputs: &PoolGoalInputs<'a>) -> Self {
        let chain = |chain: &'a HugePageChain| {
            ((chain.instance.engine, chain.instance.name.as_str()), chain)
        };
        let sized =
            inputs.sized_instances().map(|(instance, sized)| (instance_key(instance), sized));
        let findings = inputs.assessment.findings.iter();
        Self {
            instances: inputs.instances.iter().map(|one| (instance_key(one), one)).collect(),
            sized: sized.collect(),
            chains: inputs.assessment.chains.iter().map(chain).collect(),
            remedies: findings.flat_map(|finding| &finding.remedies).collect(),
        }
    }
}

pub(super) fn is_broken_cgroup(link: &Link) -> bool {
    link.name == LinkName::Cgroup && link.state == LinkState::Broken
}
