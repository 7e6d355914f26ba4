//! Which servers the pools are for, on which page size, and what each needs of it.

use std::collections::BTreeMap;

use hugewise_engines::EngineKind;
use hugewise_engines::proposal::{Proposal, ProposedChange};
use hugewise_engines::work_memory::WorkMemory;
use hugewise_model::instance::{Mechanism, SegmentKind, SessionModel, Startup};
use hugewise_model::trusted_by::TrustReason;
use hugewise_model::{
    Bytes, Demand, DemandSource, Host, HugePageMode, HugePageUse, Instance, InstanceId, NextStart,
    Observed, PageCount, PageSize, Segment,
};

use super::unplanned::{GIB_PAGES_FROM, GIB_PAGES_WASTE, NoGibPages, Unplanned, UnplannedServer};
use super::{PageSizeChoice, Request, SizedServer};
use crate::cgroup::HugetlbLimits;
use crate::prediction::PredictionStage;
use crate::{cause, demand, untrusted};

pub(super) struct SizingPlan<'a> {
    pub(super) wanted: Vec<PlannedServer<'a>>,
    pub(super) left_out: Vec<UnplannedServer>,
    /// Of those that are wanted the ones that a limit is in the way of.
    pub(super) limited: Vec<UnplannedServer>,
}

pub(super) struct PlannedServer<'a> {
    pub(super) instance: &'a Instance,
    /// As it will be at its next start, where it is sized for that.
    pub(super) next: Option<Box<Instance>>,
    pub(super) demand: Demand,
    pub(super) beside: Vec<Demand>,
    why: String,
    asks: Option<bool>,
    change: Option<ProposedChange>,
    unplanned: Option<Unplanned>,
    pub(super) grants: WorkMemory,
}

impl PlannedServer<'_> {
    /// The server at the moment that it is sized for: all that is said of its memory is of then.
    pub(super) fn sized_instance(&self) -> &Instance {
        self.next.as_deref().unwrap_or(self.instance)
    }

    pub(super) fn page_size(&self) -> PageSize {
        self.demand.page_size
    }

    pub(super) fn demands(&self) -> impl Iterator<Item = &Demand> {
        std::iter::once(&self.demand).chain(&self.beside)
    }

    pub(super) fn planned_memory(&self) -> Bytes {
        self.demands().map(|demand| demand.pages.to_bytes(demand.page_size)).sum()
    }

    pub(super) fn to_sized_server(&self) -> SizedServer {
        let engine = self.instance.engine;
        let touches_all = EngineKind::for_engine(engine).memory.touches_all;
        let is_next = self.next.is_some();
        let unread = || crate::chain::check_request(self.instance).evidence;
        SizedServer {
            engine,
            name: self.instance.name.clone(),
            page_size: self.demand.page_size,
            why: self.why.clone(),
            demand_pages: self.demand.pages,
            source: self.demand.source,
            beside: self.beside.clone(),
            by_chance: self.by_chance(),
            moment: if is_next { PredictionStage::Restart } else { PredictionStage::Now },
            asks: self.asks,
            touches_all: touches_all(self.sized_instance()).cloned(),
            change: self.change.clone(),
            unplanned: self.unplanned.clone(),
            asks_unread: self.asks.is_none().then(unread),
        }
    }

    /// Beyond the start that was measured, or beyond what is estimated of one that runs.
    pub(super) fn by_chance(&self) -> PageCount {
        let runs = self.instance.pid != 0 && self.next.is_none();
        if runs && matches!(self.demand.source, DemandSource::Estimated { .. }) {
            return self.demand.at_most().pages.saturating_sub(self.demand.pages);
        }
        if self.demand.source != DemandSource::Measured {
            return PageCount::ZERO;
        }
        let by_chance = EngineKind::for_engine(self.instance.engine).start.by_chance;
        by_chance(self.instance, self.page_size())
    }

    /// Before rounding to pages; the demand's where no segment is known.
    pub(super) fn unrounded_bytes(&self) -> Bytes {
        let then = self.sized_instance();
        let demanded: Bytes =
            then.demands().map(|demand| demand.pages.to_bytes(demand.page_size)).sum();
        let own = || self.demand.pages.to_bytes(self.demand.page_size);
        let demanded = if demanded > Bytes::ZERO { demanded } else { own() };
        let mapped: Bytes = demand::segment_sizes(then).into_iter().sum();
        if mapped > Bytes::ZERO { mapped.min(demanded) } else { demanded }
    }

    /// System V segments fault in page by page, others sixteen at a time.
    pub(super) fn system_v(&self) -> bool {
        self.instance.mechanism == Mechanism::SysvShm
            || self.instance.segments.iter().any(|segment| segment.kind == SegmentKind::SystemV)
    }

    fn work_memory_granted(&self, host: &Host) -> WorkMemory {
        let granted = EngineKind::for_engine(self.instance.engine).memory.work_memory;
        let work_memory_of = |instance| granted(host, instance);
        let then = work_memory_of(self.sized_instance());
        // What its processes share now they do as it runs.
        if self.next.is_some() {
            WorkMemory { managed: work_memory_of(self.instance).managed, ..then }
        } else {
            then
        }
    }

    pub(super) fn has_process_sessions(&self) -> bool {
        self.instance.session_model == SessionModel::Processes
    }
}

/// What an instance needs with all of its memory on pages of `page`: what the engine says of that
/// size, or what follows from it, or its segments each rounded up. A demand moved from small pages
/// to large ones is exact for one segment; of several each is rounded for itself.
pub(super) fn demand_on(instance: &Instance, page: PageSize) -> Option<Demand> {
    let stated = instance.demand.as_ref().filter(|_| demand::only_touched(instance).is_none());
    let one_size = instance.other_demands.is_empty();
    if let Some(stated) = stated.filter(|demand| one_size && demand.page_size == page) {
        return Some(stated.clone());
    }
    let sizes = demand::touched_stretches(instance);
    let mapped: PageCount = sizes.iter().map(|size| page.pages_for(*size)).sum();
    let Some(stated) = stated else {
        let source = measured_on(instance, page, mapped);
        return (mapped > PageCount::ZERO).then_some(Demand {
            page_size: page,
            pages: mapped,
            source,
        });
    };
    let moved = stated.with_page_size(page);
    if mapped == PageCount::ZERO || (page > stated.page_size && sizes.len() <= 1) {
        return Some(moved);
    }
    if instance.pid == 0 {
        return Some(Demand { page_size: page, pages: mapped, source: moved.source });
    }
    let measured =
        Demand { page_size: page, pages: mapped, source: measured_on(instance, page, moved.pages) };
    // What was rounded up its files tell more exactly, where they agree with what is mapped.
    let within = |reckoned: &&Demand| {
        let (least, most) = (measured.at_least().pages, measured.at_most().pages);
        reckoned.page_size == page
            && reckoned.at_least().pages >= least
            && reckoned.at_most().pages <= most
    };
    let is_rounded = measured.source != DemandSource::Measured;
    let reckoned = instance.on_smaller.iter().find(within).filter(|_| is_rounded).cloned();
    Some(reckoned.unwrap_or(measured))
}

/// Mappings on larger pages were rounded up to them, and have a byte at least on the last.
fn measured_on(instance: &Instance, page: PageSize, pages: PageCount) -> DemandSource {
    let sizes = instance.segments.iter().filter_map(|segment| segment.page_size.get());
    let larger = sizes.filter(|size| *size > page);
    let beyond: PageCount =
        larger.map(|size| page.pages_for(size.bytes()).saturating_sub(PageCount(1))).sum();
    if beyond == PageCount::ZERO {
        return DemandSource::Measured;
    }
    DemandSource::Enough { least: pages.saturating_sub(beyond) }
}

pub(super) fn plan_servers<'a>(
    host: &Host,
    instances: &'a [Instance],
    request: &Request,
    offered: &[PageSize],
) -> SizingPlan<'a> {
    let mut plan = SizingPlan { wanted: Vec::new(), left_out: Vec::new(), limited: Vec::new() };
    let mut all = Vec::new();
    for instance in instances {
        let named = require_named(instance);
        let planned = match &named {
            Err(why) if !request.unplanned => Err(why.clone()),
            Ok(()) | Err(_) => plan_server(host, instance, request, offered),
        };
        match planned {
            Ok(wanted) => all.push(PlannedServer { unplanned: named.err(), ..wanted }),
            Err(why) => plan.left_out.push(UnplannedServer { instance: instance.id(), why }),
        }
    }
    let demands: BTreeMap<InstanceId, Vec<Demand>> = all
        .iter()
        .map(|wanted| (wanted.instance.id(), wanted.demands().cloned().collect()))
        .collect();
    let limits = HugetlbLimits::with_demands(host, instances, &|instance| {
        demands.get(&instance.id()).cloned().unwrap_or_default()
    });
    let mut limited = Vec::new();
    for mut wanted in all {
        wanted.grants = wanted.work_memory_granted(host);
        match limit_below(&limits, &wanted) {
            None => plan.wanted.push(wanted),
            Some(why) => limited.push((wanted, why)),
        }
    }
    // One that asks takes from the pages that there are for it or for others in any case.
    let there = host.pools.as_known().into_iter().flatten();
    let there = there.filter(|pool| pool.total.get().is_none_or(|total| total > PageCount::ZERO));
    let others = plan.wanted.iter().map(PlannedServer::page_size);
    let with_others: Vec<PageSize> = there.map(|pool| pool.page_size).chain(others).collect();
    for (wanted, why) in limited {
        if wanted.asks != Some(false) && with_others.contains(&wanted.page_size()) {
            plan.limited.push(UnplannedServer { instance: wanted.instance.id(), why });
            plan.wanted.push(wanted);
        } else {
            plan.left_out.push(UnplannedServer { instance: wanted.instance.id(), why });
        }
    }
    plan
}

fn plan_server<'a>(
    host: &Host,
    instance: &'a Instance,
    request: &Request,
    offered: &[PageSize],
) -> Result<PlannedServer<'a>, Unplanned> {
    let next = demand::counted_next_start(instance);
    let is_amm = crate::chain::is_amm(instance);
    if next.is_some_and(|next| next.asked == HugePageMode::Cannot) && !is_amm {
        return Err(Unplanned::Cannot(next.and_then(|next| next.setting.clone())));
    }
    // Its files take it off.
    let is_left = next.is_some_and(NextStart::asks_for_huge_pages);
    if is_amm && !is_left {
        return plan_amm_server(host, instance, request, offered);
    }
    require_way_to_pages(instance, is_left)?;
    let (page, why) =
        choose_page_size(host, instance, request, offered).ok_or(Unplanned::PageSizeUnknown)?;
    if !offered.contains(&page) {
        return Err(Unplanned::NotOffered(page));
    }
    let (demand, of_next) = choose_demand(instance, page, request);
    let demand = demand.ok_or_else(|| match &instance.startup {
        Some(Startup::Refuses(what)) => Unplanned::Refuses(what.clone()),
        _ => Unplanned::DemandUnknown,
    })?;
    // Whoever is said not to ask is not left out for what it will be.
    let small = demand.pages.to_bytes(page).max(instance.segment_bytes()) < demand::BIG_SEGMENT;
    let off = matches!(instance.asked, HugePageMode::No | HugePageMode::Cannot) && !is_left;
    if instance.pid != 0 && off && small && instance.huge_pages != HugePageUse::All {
        return Err(Unplanned::Little(demand.pages.to_bytes(page)));
    }
    let beside = match request.page_size {
        PageSizeChoice::Auto => demands_beside(instance, page),
        PageSizeChoice::Size(_) => Vec::new(),
    };
    if let Some(other) = beside.iter().find(|demand| !offered.contains(&demand.page_size)) {
        return Err(Unplanned::NotOffered(other.page_size));
    }
    let why = match demand::only_touched(instance) {
        Some(touched) => {
            format!("{why}; of {} mapped, {touched} touched", instance.segment_bytes())
        }
        None => why,
    };
    Ok(PlannedServer {
        instance,
        next: of_next.then(|| Box::new(at_next_start(instance, &demand, &beside))),
        demand,
        beside,
        why,
        asks: asks_for_page_size(instance, page),
        change: None,
        unplanned: None,
        grants: WorkMemory::default(),
    })
}

fn plan_amm_server<'a>(
    host: &Host,
    instance: &'a Instance,
    request: &Request,
    offered: &[PageSize],
) -> Result<PlannedServer<'a>, Unplanned> {
    match (EngineKind::for_engine(instance.engine).settings.proposal)(host, instance) {
        Some(proposal) if request.proposed => as_proposed(instance, proposal, request, offered),
        Some(proposal) => Err(Unplanned::Amm(Some(proposal.demand))),
        // Nobody takes an ASM instance off it.
        None => Err(Unplanned::Amm(
            demand::find_demand(host, instance).filter(|_| !cause::is_asm_with_amm(instance)),
        )),
    }
}

fn require_way_to_pages(instance: &Instance, leaves_amm: bool) -> Result<(), Unplanned> {
    let cannot = instance.asked == HugePageMode::Cannot && !leaves_amm;
    // Another kind of memory, chosen by a setting, can be chosen anew.
    if instance.mechanism == Mechanism::None || (cannot && instance.mechanism != Mechanism::Mmap) {
        return Err(Unplanned::NoWay);
    }
    if cause::wants_thp(instance) { Err(Unplanned::TransparentPages) } else { Ok(()) }
}

fn asks_for_page_size(instance: &Instance, page: PageSize) -> Option<bool> {
    match demand::counted_next_start(instance).map_or(instance.asked, |next| next.asked) {
        HugePageMode::Try | HugePageMode::Must | HugePageMode::Raises => {
            Some(instance.asked_page_size.get().is_none_or(|asked| asked == page))
        }
        HugePageMode::Unknown => None,
        HugePageMode::No | HugePageMode::Cannot => Some(false),
    }
}

/// One that nothing vouches for, or that waits for a person, is planned for once it is named.
fn require_named(instance: &Instance) -> Result<(), Unplanned> {
    if !instance.is_trusted() {
        return Err(Unplanned::Stranger {
            why: untrusted::untrusted_reason(instance),
            handle: instance.unique_title(),
        });
    }
    if instance.waits_for_hands() && !instance.trusted_by.contains(&TrustReason::Named) {
        let asleep = instance.stopped.as_ref();
        let why = asleep.map(|asleep| asleep.at_boot.boot_evidence()).unwrap_or_default();
        return Err(Unplanned::Waits { why: why.to_owned(), handle: instance.unique_title() });
    }
    Ok(())
}

/// What a server needs on pages of a size, and whether that is what its next start asks for.
fn choose_demand(instance: &Instance, page: PageSize, request: &Request) -> (Option<Demand>, bool) {
    // On pages of several sizes of its own choice, each size has its own.
    let several = request.page_size == PageSizeChoice::Auto && !instance.other_demands.is_empty();
    let own = instance.demands().find(|demand| several && demand.page_size == page).cloned();
    let demand =
        own.or_else(|| demand_on(instance, page)).filter(|demand| demand.pages > PageCount::ZERO);
    // Where its settings were changed since; until its next start it holds what it has.
    let then = next_on(instance, page, request.page_size != PageSizeChoice::Auto);
    match (demand, then) {
        (Some(demand), Some(next)) if next.pages >= demand.pages => (Some(next.at_most()), true),
        (None, Some(next)) => (Some(next.at_most()), true),
        // What it holds of a pool it holds until its restart; base pages are nobody else's.
        (Some(_), Some(next)) if demand::pages_held(instance, page) == PageCount::ZERO => {
            (Some(next.at_most()), true)
        }
        // What of it is on base pages takes none before the restart, and no more than that then,
        // unless it is to be made to ask for all.
        (Some(demand), Some(next))
            if instance.huge_pages == HugePageUse::Partly && !instance.asks_in_part() =>
        {
            let held = demand::pages_held(instance, page).min(demand.pages);
            let of_next = next.at_most().pages >= held;
            let now = || Demand { pages: held, source: DemandSource::Measured, ..demand };
            (Some(if of_next { next.at_most() } else { now() }), of_next)
        }
        (demand, _) => (demand, false),
    }
}

/// A server whose memory cannot be on huge pages, with the settings that are proposed for it.
fn as_proposed<'a>(
    instance: &'a Instance,
    proposal: Proposal,
    request: &Request,
    offered: &[PageSize],
) -> Result<PlannedServer<'a>, Unplanned> {
    let Proposal { change, then, demand } = proposal;
    let (demand, why) = match request.page_size {
        PageSizeChoice::Size(page) => (demand.with_page_size(page), "as requested".to_owned()),
        PageSizeChoice::Auto => (demand, "the host's default".to_owned()),
    };
    if !offered.contains(&demand.page_size) {
        return Err(Unplanned::NotOffered(demand.page_size));
    }
    let next = Some(Box::new(at_next_start(&then, &demand, &[])));
    Ok(PlannedServer {
        instance,
        next,
        demand,
        beside: Vec::new(),
        why,
        asks: Some(false),
        change: Some(change),
        unplanned: None,
        grants: WorkMemory::default(),
    })
}

/// Its own number there, or where it is moved to `any` size, what that comes to.
fn next_on(instance: &Instance, page: PageSize, any: bool) -> Option<Demand> {
    let demands = &demand::counted_next_start(instance)?.demands;
    if let Some(own) = demands.iter().find(|demand| demand.page_size == page) {
        return Some(own.clone());
    }
    let [demand] = demands.as_slice() else { return several_on(demands, page).filter(|_| any) };
    any.then(|| demand.with_page_size(page))
}

fn several_on(demands: &[Demand], page: PageSize) -> Option<Demand> {
    let moved: Vec<Demand> = demands.iter().map(|demand| demand.with_page_size(page)).collect();
    let pages: PageCount = moved.iter().map(|demand| demand.pages).sum();
    let estimated = moved
        .iter()
        .map(|demand| demand.source)
        .find(|demand_source| matches!(demand_source, DemandSource::Estimated { .. }));
    let least = moved.iter().map(|demand| demand.at_least().pages).sum();
    let source = estimated.unwrap_or(DemandSource::Enough { least });
    (pages > PageCount::ZERO).then_some(Demand { page_size: page, pages, source })
}

/// One stretch as large as its next start asks for: nobody has seen what sessions touch of it.
fn at_next_start(instance: &Instance, demand: &Demand, beside: &[Demand]) -> Instance {
    let size = std::iter::once(demand)
        .chain(beside)
        .map(|demand| demand.pages.to_bytes(demand.page_size))
        .sum();
    let kind =
        instance.segments.first().map_or(SegmentKind::AnonymousShared, |segment| segment.kind);
    let segment = Segment {
        kind,
        name: "memory of its next start".into(),
        size,
        page_size: Observed::Absent,
        huge: Observed::Absent,
        mappers: 0,
        identity: (0, 0),
    };
    let (demand, beside) = (Some(demand.clone()), beside.to_vec());
    Instance {
        segments: vec![segment],
        demand,
        other_demands: beside,
        touched_bytes: Observed::Absent,
        ..instance.clone()
    }
}

/// Demands on pages of other sizes than `page`, now or at the next start, whichever is more.
fn demands_beside(instance: &Instance, page: PageSize) -> Vec<Demand> {
    let next = demand::counted_next_start(instance).into_iter();
    let mut beside: Vec<Demand> =
        next.flat_map(|next| &next.demands).map(Demand::at_most).collect();
    let moves = !beside.is_empty();
    for demand in instance.demands().filter(|_| !instance.other_demands.is_empty()) {
        match beside.iter_mut().find(|other| other.page_size == demand.page_size) {
            Some(next) if next.pages < demand.pages => *next = demand.clone(),
            Some(_) => {}
            None if moves => {}
            None => beside.push(demand.clone()),
        }
    }
    beside.retain(|demand| demand.page_size != page && demand.pages > PageCount::ZERO);
    beside.sort_by_key(|demand| demand.page_size);
    beside
}

/// The hugetlb limit of its cgroup that a server is to be freed of before a pool has pages for it.
fn limit_below(limits: &HugetlbLimits, wanted: &PlannedServer<'_>) -> Option<Unplanned> {
    // What it holds, no limit has kept from it; pages of another size, or more of them, may be.
    let on_these = demand::pages_held(wanted.instance, wanted.page_size()) > PageCount::ZERO;
    if wanted.instance.huge_pages == HugePageUse::All && on_these && wanted.next.is_none() {
        return None;
    }
    let short =
        wanted.demands().find_map(|demand| limits.shortage_of(wanted.instance, demand).ok()?)?;
    let needed = if short.servers == 1 { short.demand } else { short.enough };
    Some(Unplanned::Cgroup {
        file: short.limit_file(),
        limit: short.limit,
        servers: short.servers,
        needed,
        path: short.path,
    })
}

fn choose_page_size(
    host: &Host,
    instance: &Instance,
    request: &Request,
    offered: &[PageSize],
) -> Option<(PageSize, String)> {
    if let PageSizeChoice::Size(page) = request.page_size {
        return Some((page, "as requested".into()));
    }
    if let Some(next) = demand::counted_next_start(instance).and_then(|next| next.demands.first()) {
        return Some((next.page_size, "what its settings ask for".into()));
    }
    let asked = instance.asked_page_size.get();
    // On pages of several sizes: one of those.
    let several = instance.demand.as_ref().filter(|_| !instance.other_demands.is_empty());
    if let Some(first) =
        several.filter(|_| !instance.demands().any(|demand| Some(demand.page_size) == asked))
    {
        return Some((first.page_size, "what its memory is on".into()));
    }
    if let Some(page) = asked {
        return Some((page, "what its settings ask for".into()));
    }
    if let Ok(waste) = gib_pages(host, instance, offered) {
        let why = format!(
            "{} or more, {:.1} % lost to rounding, and no page tables to speak of",
            GIB_PAGES_FROM,
            waste * 100.0
        );
        return Some((PageSize::GIB_1, why));
    }
    let demanded = instance.demand.as_ref().map(|demand| demand.page_size);
    match host.default_huge_page.get() {
        Some(page) => Some((page, "the host's default".into())),
        None => demanded.map(|page| (page, "the size of its demand".into())).or_else(|| {
            offered.first().map(|page| (*page, "the smallest that the host offers".into()))
        }),
    }
}

pub(super) fn gib_pages(
    host: &Host,
    instance: &Instance,
    offered: &[PageSize],
) -> Result<f64, NoGibPages> {
    if !offered.contains(&PageSize::GIB_1) {
        return Err(NoGibPages::NotOffered);
    }
    if host.processors.gib_pages.get() == Some(false) {
        return Err(NoGibPages::Processor);
    }
    if let Some(why) = EngineKind::for_engine(instance.engine).page_size.against_gib_pages {
        return Err(NoGibPages::Engine(why));
    }
    let largest = demand::segment_sizes(instance).into_iter().max();
    let largest = largest
        .or_else(|| instance.demand.as_ref().map(|demand| demand.pages.to_bytes(demand.page_size)));
    let Some(largest) = largest.filter(|largest| *largest >= GIB_PAGES_FROM) else {
        return Err(NoGibPages::Small);
    };
    let rounded = PageSize::GIB_1.pages_for(largest).to_bytes(PageSize::GIB_1);
    let waste = rounded.saturating_sub(largest).part_of(largest).unwrap_or_default();
    if waste > GIB_PAGES_WASTE {
        return Err(NoGibPages::Waste(waste));
    }
    Ok(waste)
}
