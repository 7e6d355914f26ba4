//! Which servers the pools are for, on which page size, and what each needs of it.

use std::collections::BTreeMap;

use hugewise_engines::Kind;
use hugewise_engines::proposal::{Change, Proposal};
use hugewise_engines::work::WorkMemory;
use hugewise_model::instance::{Mechanism, SegmentKind, SessionModel, Startup};
use hugewise_model::vouch::Voucher;
use hugewise_model::{
    Asked, Bytes, Demand, DemandSource, Host, HugePageUse, Instance, InstanceId, Observed, PageCount, PageSize, Segment,
};

use super::unplanned::{GIB_PAGES_FROM, GIB_PAGES_WASTE, LeftOut, NoGibPages, Unplanned};
use super::{PageSizeChoice, Request, Sized};
use crate::cgroup::Limits;
use crate::situation::Moment;
use crate::{cause, demand, stranger};

/// Servers to plan for, and the others.
pub(super) struct Plan<'a> {
    pub(super) wanted: Vec<Wanted<'a>>,
    pub(super) left_out: Vec<LeftOut>,
    /// Of those that are wanted the ones that a limit is in the way of.
    pub(super) limited: Vec<LeftOut>,
}

/// One server to plan for.
pub(super) struct Wanted<'a> {
    /// As it runs.
    pub(super) instance: &'a Instance,
    /// As it will be at its next start, where it is sized for that.
    pub(super) next: Option<Box<Instance>>,
    pub(super) demand: Demand,
    /// What it needs on pages of other sizes beside that.
    pub(super) beside: Vec<Demand>,
    why: String,
    asks: Option<bool>,
    change: Option<Change>,
    /// Private memory that its settings grant, told once.
    pub(super) grants: WorkMemory,
}

impl Wanted<'_> {
    /// The server at the moment that it is sized for: all that is said of its memory is said of that one.
    pub(super) fn then(&self) -> &Instance {
        self.next.as_deref().unwrap_or(self.instance)
    }

    pub(super) fn page(&self) -> PageSize {
        self.demand.page_size
    }

    /// What it needs, one demand a page size.
    pub(super) fn demands(&self) -> impl Iterator<Item = &Demand> {
        std::iter::once(&self.demand).chain(&self.beside)
    }

    /// Memory of all the pages that it needs.
    pub(super) fn planned(&self) -> Bytes {
        self.demands().map(|demand| demand.pages.of(demand.page_size)).sum()
    }

    pub(super) fn sized(&self) -> Sized {
        Sized {
            engine: self.instance.engine,
            name: self.instance.name.clone(),
            page_size: self.demand.page_size,
            why: self.why.clone(),
            demand_pages: self.demand.pages,
            source: self.demand.source,
            beside: self.beside.clone(),
            by_chance: self.by_chance(),
            moment: if self.next.is_some() { Moment::Restart } else { Moment::Now },
            asks: self.asks,
            touches_all: (Kind::of(self.instance.engine).touches_all)(self.then()).cloned(),
            change: self.change.clone(),
            asks_unread: self.asks.is_none().then(|| crate::chain::asked(self.instance).evidence),
        }
    }

    /// What the next start may take beyond the one that was measured, or beyond what is estimated of one that runs.
    pub(super) fn by_chance(&self) -> PageCount {
        let runs = self.instance.pid != 0 && self.next.is_none();
        if runs && matches!(self.demand.source, DemandSource::Estimated { .. }) {
            return self.demand.at_most().pages.saturating_sub(self.demand.pages);
        }
        if self.demand.source != DemandSource::Measured {
            return PageCount::ZERO;
        }
        (Kind::of(self.instance.engine).start.by_chance)(self.instance, self.page())
    }

    /// Its memory as it is, before rounding to pages; the demand's where no segment is known.
    pub(super) fn bytes(&self) -> Bytes {
        let then = self.then();
        let demanded: Bytes = then.demands().map(|demand| demand.pages.of(demand.page_size)).sum();
        let demanded = if demanded > Bytes::ZERO { demanded } else { self.demand.pages.of(self.demand.page_size) };
        let mapped: Bytes = demand::segment_sizes(then).into_iter().sum();
        if mapped > Bytes::ZERO { mapped.min(demanded) } else { demanded }
    }

    /// Whether its segments are System V ones: they fault in page by page, others sixteen at a time.
    pub(super) fn system_v(&self) -> bool {
        self.instance.mechanism == Mechanism::SysvShm
            || self.instance.segments.iter().any(|segment| segment.kind == SegmentKind::SystemV)
    }

    fn granted(&self, host: &Host) -> WorkMemory {
        let of = |instance| (Kind::of(self.instance.engine).work_memory)(host, instance);
        let then = of(self.then());
        // What its processes share now they do as it runs.
        if self.next.is_some() { WorkMemory { managed: of(self.instance).managed, ..then } } else { then }
    }

    pub(super) fn processes(&self) -> bool {
        self.instance.session_model == SessionModel::Processes
    }
}

/// What an instance needs with all of its memory on pages of `page`: what the engine says where it speaks of that size, or
/// what follows from it, or its segments each rounded up.
///
/// A demand rounded to small pages and then to large ones is exact for one segment, as the large page
/// is a multiple of the small one; of several segments each is rounded for itself.
pub(super) fn demand_on(instance: &Instance, page: PageSize) -> Option<Demand> {
    let stated = instance.demand.as_ref().filter(|_| demand::only_touched(instance).is_none());
    let one_size = instance.beside.is_empty();
    if let Some(stated) = stated.filter(|demand| one_size && demand.page_size == page) {
        return Some(stated.clone());
    }
    let sizes = demand::stretches(instance);
    let mapped: PageCount = sizes.iter().map(|size| page.pages_for(*size)).sum();
    let Some(stated) = stated else {
        let source = measured_on(instance, page, mapped);
        return (mapped > PageCount::ZERO).then_some(Demand { page_size: page, pages: mapped, source });
    };
    let moved = stated.on(page);
    if mapped == PageCount::ZERO || (page > stated.page_size && sizes.len() <= 1) {
        return Some(moved);
    }
    if instance.pid == 0 {
        return Some(Demand { page_size: page, pages: mapped, source: moved.source });
    }
    let measured = Demand { page_size: page, pages: mapped, source: measured_on(instance, page, moved.pages) };
    // What was rounded up its files tell more exactly, where they tell nothing else than what is mapped.
    let within = |reckoned: &&Demand| {
        let (least, most) = (measured.at_least().pages, measured.at_most().pages);
        reckoned.page_size == page && reckoned.at_least().pages >= least && reckoned.at_most().pages <= most
    };
    let is_rounded = measured.source != DemandSource::Measured;
    let reckoned = instance.on_smaller.iter().find(within).filter(|_| is_rounded).cloned();
    Some(reckoned.unwrap_or(measured))
}

/// What mappings tell of so many pages: one on larger pages was rounded up to them, and has a byte at least on its last.
fn measured_on(instance: &Instance, page: PageSize, pages: PageCount) -> DemandSource {
    let larger = instance.segments.iter().filter_map(|segment| segment.page_size.get()).filter(|size| *size > page);
    let beyond: PageCount = larger.map(|size| page.pages_for(size.bytes()).saturating_sub(PageCount(1))).sum();
    if beyond == PageCount::ZERO {
        return DemandSource::Measured;
    }
    DemandSource::Enough { least: pages.saturating_sub(beyond) }
}

pub(super) fn plan<'a>(host: &Host, instances: &'a [Instance], request: &Request, offered: &[PageSize]) -> Plan<'a> {
    let mut plan = Plan { wanted: Vec::new(), left_out: Vec::new(), limited: Vec::new() };
    let mut all = Vec::new();
    for instance in instances {
        match want(host, instance, request, offered) {
            Ok(wanted) => all.push(wanted),
            Err(why) => plan.left_out.push(LeftOut { instance: instance.id(), why }),
        }
    }
    let demands: BTreeMap<InstanceId, Vec<Demand>> =
        all.iter().map(|wanted| (wanted.instance.id(), wanted.demands().cloned().collect())).collect();
    let limits = Limits::with(host, instances, &|it| demands.get(&it.id()).cloned().unwrap_or_default());
    let mut limited = Vec::new();
    for mut wanted in all {
        wanted.grants = wanted.granted(host);
        match limit_below(&limits, &wanted) {
            None => plan.wanted.push(wanted),
            Some(why) => limited.push((wanted, why)),
        }
    }
    // One that asks takes from the pages that there are for it or for others, whatever becomes of it then.
    let there = host.pools.known().into_iter().flatten();
    let there = there.filter(|pool| pool.total.get().is_none_or(|total| total > PageCount::ZERO));
    let others = plan.wanted.iter().map(Wanted::page);
    let with_others: Vec<PageSize> = there.map(|pool| pool.page_size).chain(others).collect();
    for (wanted, why) in limited {
        if wanted.asks != Some(false) && with_others.contains(&wanted.page()) {
            plan.limited.push(LeftOut { instance: wanted.instance.id(), why });
            plan.wanted.push(wanted);
        } else {
            plan.left_out.push(LeftOut { instance: wanted.instance.id(), why });
        }
    }
    plan
}

fn want<'a>(
    host: &Host,
    instance: &'a Instance,
    request: &Request,
    offered: &[PageSize],
) -> Result<Wanted<'a>, Unplanned> {
    if !instance.is_vouched() {
        return Err(Unplanned::Stranger { why: stranger::why(instance), handle: instance.handle() });
    }
    if instance.waits_for_hands() && !instance.vouchers.contains(&Voucher::Named) {
        let why = instance.asleep.as_ref().map(|asleep| asleep.at_boot.why()).unwrap_or_default();
        return Err(Unplanned::Waits { why: why.to_owned(), handle: instance.handle() });
    }
    let next = instance.coming();
    if next.is_some_and(|next| next.asked == Asked::Cannot) && !crate::chain::is_amm(instance) {
        return Err(Unplanned::Cannot(next.and_then(|next| next.setting.clone())));
    }
    // Its files take it off.
    let is_left = next.is_some_and(hugewise_model::NextStart::asks);
    if crate::chain::is_amm(instance) && !is_left {
        return match (Kind::of(instance.engine).proposal)(host, instance) {
            Some(proposal) if request.proposed => as_proposed(instance, proposal, request, offered),
            Some(proposal) => Err(Unplanned::Amm(Some(proposal.demand))),
            // Nobody takes an ASM instance off it.
            None => Err(Unplanned::Amm(demand::of(host, instance).filter(|_| !cause::is_asm_with_amm(instance)))),
        };
    }
    // Another kind of memory, chosen by a setting, can be chosen anew.
    let by_setting = instance.asked == Asked::Cannot && instance.mechanism == Mechanism::Mmap;
    if instance.mechanism == Mechanism::None || (instance.asked == Asked::Cannot && !by_setting && !is_left) {
        return Err(Unplanned::NoWay);
    }
    if cause::wants_thp(instance) {
        return Err(Unplanned::TransparentPages);
    }
    let (page, why) = choose(host, instance, request, offered).ok_or(Unplanned::PageSizeUnknown)?;
    if !offered.contains(&page) {
        return Err(Unplanned::NotOffered(page));
    }
    // On pages of several sizes of its own choice, each size has its own.
    let several = request.page_size == PageSizeChoice::Auto && !instance.beside.is_empty();
    let own = instance.demands().find(|demand| several && demand.page_size == page).cloned();
    let demand = own.or_else(|| demand_on(instance, page)).filter(|demand| demand.pages > PageCount::ZERO);
    // What it will ask for at its next start, where its settings were changed since; until then it holds what it has.
    let then = next_on(instance, page, request.page_size != PageSizeChoice::Auto);
    let (demand, of_next) = match (demand, then) {
        (Some(demand), Some(next)) if next.pages >= demand.pages => (Some(next.at_most()), true),
        (None, Some(next)) => (Some(next.at_most()), true),
        // What it holds of a pool it holds until its restart; of base pages it takes none from anybody.
        (Some(_), Some(next)) if demand::held(instance, page) == PageCount::ZERO => (Some(next.at_most()), true),
        // What of it is on base pages takes none before the restart, and no more than that then; unless it asks for a part alone,
        // and is to be made to ask for all.
        (Some(demand), Some(next)) if instance.huge_pages == HugePageUse::Partly && !instance.asks_in_part() => {
            let held = demand::held(instance, page).min(demand.pages);
            let of_next = next.at_most().pages >= held;
            let now = || Demand { pages: held, source: DemandSource::Measured, ..demand };
            (Some(if of_next { next.at_most() } else { now() }), of_next)
        }
        (demand, _) => (demand, false),
    };
    let refuses = || match &instance.startup {
        Some(Startup::Refuses(what)) => Unplanned::Refuses(what.clone()),
        _ => Unplanned::DemandUnknown,
    };
    let demand = demand.ok_or_else(refuses)?;
    // Whoever is said not to ask is not left out for what it will be.
    let small = demand.pages.of(page).max(instance.segment_bytes()) < demand::BIG_SEGMENT;
    let off = matches!(instance.asked, Asked::No | Asked::Cannot) && !is_left;
    if instance.pid != 0 && off && small && instance.huge_pages != HugePageUse::All {
        return Err(Unplanned::Little(demand.pages.of(page)));
    }
    let same = instance.asked_page_size.get().is_none_or(|asked| asked == page);
    let asks = match next.map_or(instance.asked, |next| next.asked) {
        Asked::Try | Asked::Must | Asked::Raises => Some(same),
        Asked::Unknown => None,
        Asked::No | Asked::Cannot => Some(false),
    };
    let beside = if request.page_size == PageSizeChoice::Auto { beside(instance, page) } else { Vec::new() };
    if let Some(other) = beside.iter().find(|demand| !offered.contains(&demand.page_size)) {
        return Err(Unplanned::NotOffered(other.page_size));
    }
    let why = match demand::only_touched(instance) {
        Some(touched) => format!("{why}; of {} mapped, {touched} touched", instance.segment_bytes()),
        None => why,
    };
    let next = of_next.then(|| Box::new(at_next_start(instance, &demand, &beside)));
    Ok(Wanted { instance, next, demand, beside, why, asks, change: None, grants: WorkMemory::default() })
}

/// A server whose memory cannot be on huge pages, as the settings make it that are proposed for it.
fn as_proposed<'a>(
    instance: &'a Instance,
    proposal: Proposal,
    request: &Request,
    offered: &[PageSize],
) -> Result<Wanted<'a>, Unplanned> {
    let Proposal { change, then, demand } = proposal;
    let (demand, why) = match request.page_size {
        PageSizeChoice::Size(page) => (demand.on(page), "as requested".to_owned()),
        PageSizeChoice::Auto => (demand, "the host's default".to_owned()),
    };
    if !offered.contains(&demand.page_size) {
        return Err(Unplanned::NotOffered(demand.page_size));
    }
    let next = Some(Box::new(at_next_start(&then, &demand, &[])));
    Ok(Wanted {
        instance,
        next,
        demand,
        beside: Vec::new(),
        why,
        asks: Some(false),
        change: Some(change),
        grants: WorkMemory::default(),
    })
}

/// What its next start asks for on pages of a size, where its settings were changed since: its own number, or where it is moved
/// to `any` size that somebody named, what that comes to there.
fn next_on(instance: &Instance, page: PageSize, any: bool) -> Option<Demand> {
    let demands = &instance.coming()?.demands;
    if let Some(own) = demands.iter().find(|demand| demand.page_size == page) {
        return Some(own.clone());
    }
    let [demand] = demands.as_slice() else { return several_on(demands, page).filter(|_| any) };
    any.then(|| demand.on(page))
}

/// What demands on pages of several sizes come to together, on pages of one.
fn several_on(demands: &[Demand], page: PageSize) -> Option<Demand> {
    let moved: Vec<Demand> = demands.iter().map(|demand| demand.on(page)).collect();
    let pages: PageCount = moved.iter().map(|demand| demand.pages).sum();
    let estimated = moved.iter().map(|demand| demand.source).find(|it| matches!(it, DemandSource::Estimated { .. }));
    let least = moved.iter().map(|demand| demand.at_least().pages).sum();
    let source = estimated.unwrap_or(DemandSource::Enough { least });
    (pages > PageCount::ZERO).then_some(Demand { page_size: page, pages, source })
}

/// A server as its next start will have it: one stretch as large as it will ask for, of which nobody has seen yet what
/// sessions touch.
fn at_next_start(instance: &Instance, demand: &Demand, beside: &[Demand]) -> Instance {
    let size = std::iter::once(demand).chain(beside).map(|demand| demand.pages.of(demand.page_size)).sum();
    let kind = instance.segments.first().map_or(SegmentKind::AnonymousShared, |segment| segment.kind);
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
    Instance { segments: vec![segment], demand, beside, touched: Observed::Absent, ..instance.clone() }
}

/// What an instance needs on pages of other sizes beside `page`, now or at its next start, whichever is more.
fn beside(instance: &Instance, page: PageSize) -> Vec<Demand> {
    let mut beside: Vec<Demand> = match instance.coming() {
        Some(next) => next.demands.iter().map(Demand::at_most).collect(),
        None => Vec::new(),
    };
    let moves = instance.coming().is_some_and(|next| !next.demands.is_empty());
    for demand in instance.demands().filter(|_| !instance.beside.is_empty()) {
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

/// The hugetlb limit of its cgroup that a server is to be freed of before a pool has pages for it: with them it would be killed
/// where it touches more, or be refused them.
fn limit_below(limits: &Limits, wanted: &Wanted<'_>) -> Option<Unplanned> {
    // What it holds no limit has kept from it; of pages of another size it has met none, nor with more than it holds.
    let on_these = demand::held(wanted.instance, wanted.page()) > PageCount::ZERO;
    if wanted.instance.huge_pages == HugePageUse::All && on_these && wanted.next.is_none() {
        return None;
    }
    let short = wanted.demands().find_map(|demand| limits.shortage_of(wanted.instance, demand).ok()?)?;
    let needed = if short.servers == 1 { short.demand } else { short.enough };
    Some(Unplanned::Cgroup { file: short.file(), limit: short.limit, servers: short.servers, needed, path: short.path })
}

fn choose(host: &Host, instance: &Instance, request: &Request, offered: &[PageSize]) -> Option<(PageSize, String)> {
    if let PageSizeChoice::Size(page) = request.page_size {
        return Some((page, "as requested".into()));
    }
    if let Some(next) = instance.coming().and_then(|next| next.demands.first()) {
        return Some((next.page_size, "what its settings ask for".into()));
    }
    let asked = instance.asked_page_size.get();
    // On pages of several sizes: one of those.
    let several = instance.demand.as_ref().filter(|_| !instance.beside.is_empty());
    if let Some(first) = several.filter(|_| !instance.demands().any(|demand| Some(demand.page_size) == asked)) {
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
        None => demanded
            .map(|page| (page, "the size of its demand".into()))
            .or_else(|| offered.first().map(|page| (*page, "the smallest that the host offers".into()))),
    }
}

/// Whether 1 GiB pages are worth it for an instance: the part lost to rounding, or what speaks against them.
pub(super) fn gib_pages(host: &Host, instance: &Instance, offered: &[PageSize]) -> Result<f64, NoGibPages> {
    if !offered.contains(&PageSize::GIB_1) {
        return Err(NoGibPages::NotOffered);
    }
    if host.processors.gib_pages.get() == Some(false) {
        return Err(NoGibPages::Processor);
    }
    if let Some(why) = Kind::of(instance.engine).against_gib_pages {
        return Err(NoGibPages::Engine(why));
    }
    let largest = demand::segment_sizes(instance).into_iter().max();
    let largest = largest.or_else(|| instance.demand.as_ref().map(|demand| demand.pages.of(demand.page_size)));
    let Some(largest) = largest.filter(|largest| *largest >= GIB_PAGES_FROM) else {
        return Err(NoGibPages::Small);
    };
    let rounded = PageSize::GIB_1.pages_for(largest).of(PageSize::GIB_1);
    let waste = rounded.saturating_sub(largest).part_of(largest).unwrap_or_default();
    if waste > GIB_PAGES_WASTE {
        return Err(NoGibPages::Waste(waste));
    }
    Ok(waste)
}
