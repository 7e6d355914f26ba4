//! The one cause that keeps an instance off huge pages: one root cause gives one leading finding.

use std::collections::BTreeMap;

use hugewise_engines::EngineKind;
use hugewise_model::instance::{Mechanism, SessionModel, Trait};
use hugewise_model::{
    Bytes, Demand, Host, HugePageMode, HugePageUse, Instance, InstanceId, Lack, Level, LinkName,
    LinkState, PageCount, PageSize, Pool, Reason, Remedy, RuleId, group_thousands,
};

use crate::chain::{is_amm, other_pools};
use crate::demand::{BIG_SEGMENT, LARGE_SEGMENT, is_with_spare};
use crate::memlock_charges::MemlockCharges;
use crate::permission::{self, HugePageRight, MemlockEffect};
use crate::prediction::Obstacle;
use crate::{CaseRole, Missing, Rule, RuleFacts, all_rules, demand, forecast, ipc_privileges};

/// The leading cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    Amm,
    NotAsked,
    GibUnsupported,
    WrongSize,
    NoPool,
    Partly,
    DoesNotFit,
    Memlock,
    Group,
    Cgroup,
    OtherDefault,
    Restart,
}

impl Cause {
    /// The rule that speaks of it, and whose fix cures it.
    pub(crate) fn rule(self) -> Option<&'static Rule> {
        let names =
            |rule: &&&Rule| matches!(rule.role, CaseRole::Cause(causes) if causes.contains(&self));
        all_rules().iter().find(names).copied()
    }

    /// Whether what is said of it tells of this obstacle to the next start too.
    pub(crate) const fn explains_obstacle(self, obstacle: Obstacle) -> bool {
        match obstacle {
            Obstacle::Settings => matches!(self, Self::NotAsked | Self::Amm),
            // Whatever the cause, the right is among what ends it.
            Obstacle::Right => !matches!(self, Self::Restart | Self::OtherDefault),
            Obstacle::Cgroup => matches!(self, Self::Cgroup),
            Obstacle::DefaultSize => {
                matches!(self, Self::OtherDefault | Self::WrongSize | Self::NoPool)
            }
            Obstacle::Pages | Obstacle::Nodes => matches!(
                self,
                Self::Amm
                    | Self::GibUnsupported
                    | Self::WrongSize
                    | Self::NoPool
                    | Self::Partly
                    | Self::DoesNotFit
                    | Self::OtherDefault
            ),
            Obstacle::Segments
            | Obstacle::Strangers
            | Obstacle::Mount
            | Obstacle::MountOptions
            | Obstacle::Lock
            | Obstacle::Start => false,
        }
    }
}

/// Page tables beyond this part of memory make a base-page segment an error: HW101 warns at it.
pub(crate) const PAGE_TABLES_HURT: f64 = hugewise_model::page_tables::WARN;

/// A smaller part of an instance on base pages is no finding: servers keep small areas there.
pub(crate) const SMALL_REST: f64 = 0.05;

/// `None` where an instance is on huge pages, is too small to matter, or has no way to them.
pub(crate) fn find_cause(
    facts: &RuleFacts<'_>,
    instance: &Instance,
) -> Result<Option<Cause>, Missing> {
    let amm = is_amm(instance);
    if instance.mechanism == Mechanism::None && !amm {
        return Ok(None);
    }
    if wants_thp(instance) || is_asm_with_amm(instance) || !is_big(facts, instance)? {
        return Ok(None);
    }
    if amm || goes_under_amm(instance) {
        return Ok(Some(Cause::Amm));
    }
    match instance.asked {
        // Another kind of memory, chosen by a setting, as PostgreSQL's shared_memory_type.
        HugePageMode::Cannot if instance.mechanism == Mechanism::Mmap => {
            return Ok(Some(Cause::NotAsked));
        }
        HugePageMode::Cannot => return Ok(None),
        HugePageMode::No => return Ok(Some(Cause::NotAsked)),
        HugePageMode::Try | HugePageMode::Must | HugePageMode::Raises | HugePageMode::Unknown => {}
    }
    if let Some(why) = facts.host.pools.unknown_reason() {
        return Err(Missing::Host(Lack::new("/sys/kernel/mm/hugepages", why)));
    }
    let page = demand::page_size(facts.host, instance);
    if link_state(facts, instance, LinkName::Pool) == Some(LinkState::Broken) {
        return Ok(Some(find_pool_cause(facts.host, page)));
    }
    if instance.huge_pages == HugePageUse::Partly {
        return Ok(Some(Cause::Partly));
    }
    find_cause_beyond_pool(facts, instance, page).map(Some)
}

fn link_state(facts: &RuleFacts<'_>, instance: &Instance, name: LinkName) -> Option<LinkState> {
    let links = &facts.chain(instance)?.links;
    links.iter().find(|link| link.name == name).map(|link| link.state)
}

fn find_pool_cause(host: &Host, page: Option<PageSize>) -> Cause {
    let unsupported = host.processors.gib_pages.get() == Some(false);
    match page {
        Some(PageSize::GIB_1) if unsupported => Cause::GibUnsupported,
        Some(page) if !other_pools(host, page).is_empty() => Cause::WrongSize,
        _ => Cause::NoPool,
    }
}

fn find_cause_beyond_pool(
    facts: &RuleFacts<'_>,
    instance: &Instance,
    page: Option<PageSize>,
) -> Result<Cause, Missing> {
    let is_broken = |name| link_state(facts, instance, name) == Some(LinkState::Broken);
    let crowded_out = facts.situation.share(instance).is_some_and(|share| !share.fits());
    if crowded_out || is_broken(LinkName::Room) {
        return Ok(Cause::DoesNotFit);
    }
    let restart = facts.situation.forecasts_for(instance).map(|forecasts| &forecasts.restart);
    let loses_right = restart.is_some_and(|restart| restart.obstacle == Some(Obstacle::Right));
    if is_broken(LinkName::Permission) || loses_right {
        return Ok(match permission::memlock_effect(facts.host) {
            MemlockEffect::Buys(_) => Cause::Memlock,
            MemlockEffect::Useless(_) | MemlockEffect::Unknown(_) => Cause::Group,
        });
    }
    if is_broken(LinkName::Cgroup) {
        return Ok(Cause::Cgroup);
    }
    there_is_enough(facts.host, page)?;
    if demand::cannot_do_with_default(facts.host, instance) {
        return Ok(Cause::OtherDefault);
    }
    Ok(Cause::Restart)
}

pub(crate) fn find_leading_rules(facts: &RuleFacts<'_>) -> BTreeMap<InstanceId, RuleId> {
    let leading = |instance: &Instance| {
        let cause = find_cause(facts, instance).ok().flatten()?;
        Some((instance.id(), cause.rule()?.code))
    };
    facts.instances.iter().filter_map(leading).collect()
}

fn goes_under_amm(instance: &Instance) -> bool {
    let next = instance.next.as_known().is_some_and(|next| next.asked == HugePageMode::Cannot);
    next && instance.mechanism == Mechanism::SysvShm && instance.huge_pages == HugePageUse::None
}

fn there_is_enough(host: &Host, page: Option<PageSize>) -> Result<(), Missing> {
    let lack = |what: String, why: Option<Reason>| {
        Lack::new(what, why.unwrap_or(Reason::from_text("not told")))
    };
    let Some(page) = page else {
        return Err(Missing::Host(lack(
            "the page size that it asks for".into(),
            host.default_huge_page.unknown_reason(),
        )));
    };
    let Some(pool) = host.find_pool(page).filter(|pool| pool.available_pages().is_none()) else {
        return Ok(());
    };
    let counts = [(&pool.free, "free_hugepages"), (&pool.reserved, "resv_hugepages")];
    let unknown = counts.into_iter().find(|(count, _)| !count.is_known());
    let (file, why) =
        unknown.map_or(("free_hugepages", None), |(count, file)| (file, count.unknown_reason()));
    Err(Missing::Host(lack(crate::wording::pool_file(page, file), why)))
}

/// What puts an instance on huge pages, in the order in which it is done.
pub(crate) fn find_remedies(facts: &RuleFacts<'_>, instance: &Instance) -> Vec<Remedy> {
    let host = facts.host;
    if let Some(why) = explain_limit_to_asking(facts, instance) {
        return vec![Remedy::Consider(why)];
    }
    let mut remedies: Vec<Remedy> = remedy_named_size(facts, instance).into_iter().collect();
    let other_memory =
        instance.asked == HugePageMode::Cannot && instance.mechanism == Mechanism::Mmap;
    // What starts it anew may have been told already.
    let asks_then = instance.asked == HugePageMode::No
        && demand::predict_next_start(host, instance).asks_for_huge_pages();
    if (instance.asked == HugePageMode::No && !asks_then) || other_memory || instance.asks_in_part()
    {
        remedies.push(Remedy::SetSetting(instance.id()));
    }
    if let Some(page) = demand::page_size(host, instance)
        .filter(|page| facts.situation.is_short_of(host, *page, instance))
    {
        remedies.push(facts.set_pool(page, Some(instance)));
    }
    remedies.extend(right_to_pages(host, facts.situation.locked(), instance));
    // Another default is the boot's to bring, and that starts it anew.
    if instance.huge_pages != HugePageUse::All && !demand::cannot_do_with_default(host, instance) {
        remedies.extend(facts.restart(instance));
    }
    remedies
}

/// Why a server that does not ask must not be told to: its cgroup gives it none, or kills it when
/// it touches what it mapped.
pub(crate) fn explain_limit_to_asking(
    facts: &RuleFacts<'_>,
    instance: &Instance,
) -> Option<String> {
    let asks = demand::asks_now(instance)
        || demand::predict_next_start(facts.host, instance).asks_for_huge_pages();
    let demand = demand::find_demand(facts.host, instance).filter(|_| !asks)?;
    let limits = facts.situation.limits();
    let short = limits.shortage_of(instance, &demand).ok()??;
    // Pages of another size that its cgroup allows it may be asked for all the same.
    let is_named = (EngineKind::for_engine(instance.engine).page_size.can_be_named)(instance);
    let is_allowed = |page: PageSize| {
        let other = limits.shortage_of(instance, &demand.with_page_size(page));
        page != demand.page_size && other.is_ok_and(|short| short.is_none())
    };
    let mut pools = facts.host.pools.as_known().into_iter().flatten();
    if is_named && pools.any(|pool| is_allowed(pool.page_size)) {
        return None;
    }
    let then = if short.at_fault { "SIGBUS would kill it" } else { "it would get none" };
    Some(format!(
        "leave {} as it is, or first raise the hugetlb limit of {} from {} to {}: below that {then}",
        instance.title(),
        short.path,
        short.limit,
        short.enough
    ))
}

/// What a server needs of a pool of another size that has enough for it, where the one that it asks
/// for is empty and its settings can name the other: that one setting is all that it lacks.
pub(crate) fn find_named_size(facts: &RuleFacts<'_>, instance: &Instance) -> Option<Demand> {
    let host = facts.host;
    let kind = EngineKind::for_engine(instance.engine);
    let asked = demand::page_size(host, instance)?;
    let is_empty = |pool: &Pool| pool.total.get() == Some(PageCount::ZERO);
    let can_move = (kind.page_size.can_be_named)(instance)
        && (kind.page_size.assignment)(asked).is_some()
        && instance.huge_pages == HugePageUse::None
        && host.find_pool(asked).is_none_or(is_empty);
    let own = demand::find_demand(host, instance).filter(|_| can_move)?;
    let fits = |pool: &&Pool| {
        let needed = own.with_page_size(pool.page_size).at_most();
        let claimed = facts.situation.claim(pool.page_size).map(|claim| claim.pages);
        let spoken_for = claimed.unwrap_or_default().max(pool.committed_pages()?);
        let is_there = spoken_for + needed.pages <= pool.total.get()?;
        let limits = facts.situation.limits();
        Some(is_there && limits.shortage_of(instance, &needed).ok()?.is_none())
    };
    let others = other_pools(host, asked);
    let pool = others.into_iter().find(|pool| fits(pool) == Some(true))?;
    Some(own.with_page_size(pool.page_size))
}

fn remedy_named_size(facts: &RuleFacts<'_>, instance: &Instance) -> Option<Remedy> {
    let demand = find_named_size(facts, instance)?;
    let kind = EngineKind::for_engine(instance.engine);
    let assignment = (kind.page_size.assignment)(demand.page_size)?;
    let needed = demand.pages.in_pages_of(demand.page_size);
    Some(Remedy::Consider(format!(
        "better have {} ask for the pages that are there: {assignment}; it needs {needed}, and no \
         other pool or limit then",
        instance.title()
    )))
}

/// A pool alone does not help a server that may not use it.
pub(crate) fn right_to_pages(
    host: &Host,
    locked: &MemlockCharges,
    instance: &Instance,
) -> Vec<Remedy> {
    if instance.mechanism != Mechanism::SysvShm
        || !matches!(permission::without_memlock(host, instance), HugePageRight::Lacks(_))
    {
        return Vec::new();
    }
    let needs = locked.at_restart(host, instance);
    let enough = ipc_privileges::at_restart(host, instance).memlock_for(needs).1 == Some(true);
    let (limit, group) = (Remedy::RaiseMemlock(instance.id()), Remedy::SetGroup(instance.id()));
    match permission::memlock_effect(host) {
        MemlockEffect::Buys(_) if enough => Vec::new(),
        MemlockEffect::Buys(_) => vec![limit],
        MemlockEffect::Unknown(_) if !enough => vec![group, limit],
        MemlockEffect::Unknown(_) | MemlockEffect::Useless(_) => vec![group],
    }
}

/// An ASM instance with MEMORY_TARGET: Oracle itself turns large pages off there, and it is small.
pub(crate) fn is_asm_with_amm(instance: &Instance) -> bool {
    let target = instance.setting_value("memory_target").is_some_and(|value| value.trim() != "0");
    instance.traits.contains(&Trait::Asm) && (is_amm(instance) || target)
}

/// A JVM that takes transparent huge pages for its heap by choice.
pub(crate) fn wants_thp(instance: &Instance) -> bool {
    instance.traits.contains(&Trait::TransparentPages)
}

pub(crate) fn is_big(facts: &RuleFacts<'_>, instance: &Instance) -> Result<bool, Missing> {
    if instance.huge_pages == HugePageUse::Unknown && instance.segment_bytes() < BIG_SEGMENT {
        let demanded =
            instance.demand.as_ref().map(|demand| demand.pages.to_bytes(demand.page_size));
        if !instance.segments.is_empty() && demanded.is_none_or(|demanded| demanded < BIG_SEGMENT) {
            return Ok(false);
        }
    }
    let base =
        demand::on_base_pages(instance).ok_or_else(|| demand::why_unknown(facts.host, instance))?;
    if instance.huge_pages == HugePageUse::Partly {
        return Ok(base.part_of(instance.segment_bytes()).is_some_and(|part| part >= SMALL_REST));
    }
    // One that was small when it started may ask for more at its next start.
    Ok(base >= BIG_SEGMENT
        || (instance.huge_pages == HugePageUse::None && demand::asks_for_more(instance)))
}

/// An error where page tables hurt, a note where the instance is small or its sessions share them.
pub(crate) fn rate_base_pages(facts: &RuleFacts<'_>, instance: &Instance) -> Level {
    let base = demand::on_base_pages(instance).unwrap_or_default();
    let hurts = |tables: Bytes| {
        let part = facts.host.memory.total.get().and_then(|total| tables.part_of(total));
        part.is_some_and(|part| part >= PAGE_TABLES_HURT)
    };
    let asks = matches!(instance.asked, HugePageMode::Try | HugePageMode::Must);
    match instance.session_model {
        SessionModel::Threads if asks && base >= BIG_SEGMENT => Level::Warn,
        SessionModel::Threads => Level::Info,
        SessionModel::Processes => {
            let now = instance.page_tables.get().is_some_and(hurts);
            if now || at_max(facts, instance).is_some_and(|forecast| hurts(forecast.total)) {
                Level::Error
            } else if base >= LARGE_SEGMENT || (asks && base >= BIG_SEGMENT) {
                // Whoever asks for huge pages and has none is told, as a server of threads is.
                Level::Warn
            } else {
                Level::Info
            }
        }
    }
}

/// A server that does not ask is worse where pages lie idle for it.
pub(crate) fn not_asked(facts: &RuleFacts<'_>, instance: &Instance) -> Level {
    let level = rate_base_pages(facts, instance);
    if idle_pages_for(facts, instance).is_some() { level.max(Level::Warn) } else { level }
}

/// The pool that has pages to spare for a server that does not ask, and how many are available.
pub(crate) fn idle_pages_for(
    facts: &RuleFacts<'_>,
    instance: &Instance,
) -> Option<(PageSize, PageCount)> {
    let more = demand::find_missing_demand(facts.host, instance)?;
    // What its cgroup denies it does not lie there for it.
    let is_denied = facts.situation.limits().shortage_of(instance, &more);
    let is_denied = is_denied.is_ok_and(|short| short.is_some());
    let pool = facts.host.find_pool(more.page_size).filter(|_| !is_denied)?;
    let (available, committed) = (pool.available_pages()?, pool.committed_pages()?);
    if more.pages == PageCount::ZERO {
        return None;
    }
    // What others will ask for at their next start, whatever they do now, is spoken for.
    let claim = facts.situation.claim(more.page_size)?.pages;
    let claimed = claim.saturating_sub(committed);
    if is_with_spare(pool.total.get()?, claim) {
        return None;
    }
    let others = || {
        let all = facts.instances.iter();
        all.filter(|other| other.is_trusted() && other.id() != instance.id())
    };
    // Pages that lie there for others that are to be made to ask are not idle.
    let waits = |other: &&Instance| {
        other.asked == HugePageMode::No
            && demand::page_size(facts.host, other) == Some(more.page_size)
            && matches!(find_cause(facts, other), Ok(Some(Cause::NotAsked)))
            && rate_base_pages(facts, other) >= Level::Warn
    };
    let waiting = others().filter(waits);
    let waiting = waiting.filter_map(|other| demand::find_missing_demand(facts.host, other));
    let waiting: PageCount = waiting.map(|more| more.pages).sum();
    let stopped_asking: PageCount =
        others().map(|other| asked_no_more(other, more.page_size)).sum();
    (claimed + more.pages + waiting + stopped_asking <= available)
        .then_some((more.page_size, available))
}

/// Pages that a server would ask for beyond those it holds, had its files not been changed since.
fn asked_no_more(instance: &Instance, page: PageSize) -> PageCount {
    let stops = |next: &&hugewise_model::NextStart| {
        next.asked == HugePageMode::No && instance.huge_pages == HugePageUse::All
    };
    let demands = instance.next.as_known().filter(stops).into_iter().flat_map(|next| &next.demands);
    let pages: PageCount = demands
        .filter(|demand| demand.page_size == page)
        .map(|other_demand| other_demand.at_most().pages)
        .sum();
    pages.saturating_sub(demand::pages_held(instance, page))
}

/// One whose settings insist on huge pages that it cannot have does not start again.
pub(crate) fn next_start(
    facts: &RuleFacts<'_>,
    instance: &Instance,
    level: Level,
) -> (Level, &'static str) {
    let restart = facts.situation.forecasts_for(instance).map(|forecasts| &forecasts.restart);
    // Some start without the pages that they insist on, as where there is none at all.
    let starts = restart.is_some_and(|restart| restart.rank().is_some_and(|rank| rank > 0));
    let insists = instance.asked == HugePageMode::Must && !starts;
    if insists && instance.huge_pages != HugePageUse::All {
        (Level::Error, "; its next start fails")
    } else {
        (level, "")
    }
}

/// Page tables at the largest number of sessions that the settings allow, on base pages.
pub(crate) fn at_max(
    facts: &RuleFacts<'_>,
    instance: &Instance,
) -> Option<forecast::PageTableForecast> {
    forecast::page_tables_at(
        facts.host,
        instance,
        instance.max_sessions.get()?,
        facts.host.base_page.get()?,
    )
}

/// What base pages cost an instance: `11.2 GiB of page tables now, 27.9 GiB at 1,000 sessions`.
pub(crate) fn describe_base_cost(facts: &RuleFacts<'_>, instance: &Instance) -> Option<String> {
    let now = instance.page_tables.get()?;
    let mut cost = format!("{now} of page tables now");
    if instance.session_model == SessionModel::Threads {
        cost.push_str("; its sessions are threads and share them");
        return Some(cost);
    }
    if let Some(forecast) = at_max(facts, instance) {
        cost.push_str(&format!(
            ", {} at {} sessions",
            forecast.in_words(),
            group_thousands(forecast.sessions)
        ));
    }
    Some(cost)
}
