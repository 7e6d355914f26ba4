//! The one cause that keeps an instance off huge pages, so that one root cause gives one leading finding.

use hugewise_model::instance::{Mechanism, SessionModel, Trait};
use hugewise_model::{
    Asked, Bytes, Host, HugePageUse, Instance, Lack, Level, LinkName, LinkState, PageCount, PageSize, Reason, Remedy,
};

use crate::chain::{is_amm, other_pools};
use crate::demand::{BIG_SEGMENT, LARGE_SEGMENT, is_with_spare};
use crate::locked::Locked;
use crate::permission::{self, Memlock, Right};
use crate::{Facts, Missing, demand, forecast, given};

/// The leading cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// AMM.
    Amm,
    /// Its settings don't ask.
    NotAsked,
    /// 1 GiB pages on a processor without them.
    GibUnsupported,
    /// Pages of another size are there.
    WrongSize,
    /// No pool at all.
    NoPool,
    /// A part is on huge pages.
    Partly,
    /// Not enough room.
    DoesNotFit,
    /// Its memlock limit is too small for a kernel that goes by it.
    Memlock,
    /// The kernel asks for a group or a capability.
    Group,
    /// The cgroup does not let it.
    Cgroup,
    /// Pages of the default size are there, and nobody says that it can use them.
    OtherDefault,
    /// Nothing is in its way now.
    Restart,
}

/// Page tables beyond this part of memory make a base-page segment an error: that is what HW101 warns at.
pub(crate) const PAGE_TABLES_HURT: f64 = hugewise_model::page_tables::WARN;

/// A rest on base pages below this part of an instance is no finding: servers keep small areas there.
const SMALL_REST: f64 = 0.05;

/// Why an instance with a big segment is not on huge pages. `Ok(None)`: it is, or it is too small to
/// matter, or it has no way to them.
pub(crate) fn cause(facts: &Facts<'_>, instance: &Instance) -> Result<Option<Cause>, Missing> {
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
        Asked::Cannot if instance.mechanism == Mechanism::Mmap => return Ok(Some(Cause::NotAsked)),
        Asked::Cannot => return Ok(None),
        Asked::No => return Ok(Some(Cause::NotAsked)),
        Asked::Try | Asked::Must | Asked::Raises | Asked::Unknown => {}
    }
    if let Some(why) = facts.host.pools.why() {
        return Err(Missing::Host(Lack::new("/sys/kernel/mm/hugepages", why)));
    }
    let page = demand::page_size(facts.host, instance);
    let state = |name: LinkName| {
        let links = facts.chain(instance).into_iter().flat_map(|chain| &chain.links);
        links.into_iter().find(|link| link.name == name).map(|link| link.state)
    };
    if state(LinkName::Pool) == Some(LinkState::Broken) {
        let unsupported = facts.host.processors.gib_pages.get() == Some(false);
        return Ok(Some(match page {
            Some(PageSize::GIB_1) if unsupported => Cause::GibUnsupported,
            Some(page) if !other_pools(facts.host, page).is_empty() => Cause::WrongSize,
            _ => Cause::NoPool,
        }));
    }
    if instance.huge_pages == HugePageUse::Partly {
        return Ok(Some(Cause::Partly));
    }
    let crowded_out = facts.situation.share(instance).is_some_and(|share| !share.fits());
    Ok(Some(if crowded_out || state(LinkName::Room) == Some(LinkState::Broken) {
        Cause::DoesNotFit
    } else if state(LinkName::Permission) == Some(LinkState::Broken) || loses_right(facts, instance) {
        match permission::memlock(facts.host) {
            Memlock::Buys(_) => Cause::Memlock,
            Memlock::Useless(_) | Memlock::Unknown(_) => Cause::Group,
        }
    } else if state(LinkName::Cgroup) == Some(LinkState::Broken) {
        Cause::Cgroup
    } else {
        there_is_enough(facts.host, page)?;
        if demand::cannot_do_with_default(facts.host, instance) { Cause::OtherDefault } else { Cause::Restart }
    }))
}

/// Whether its files put one that has nothing on huge pages under AMM: what it has now is gone with its next start.
fn goes_under_amm(instance: &Instance) -> bool {
    let next = instance.next.known().is_some_and(|next| next.asked == Asked::Cannot);
    next && instance.mechanism == Mechanism::SysvShm && instance.huge_pages == HugePageUse::None
}

/// Whether the right that it has, as it runs, is not its next start's.
fn loses_right(facts: &Facts<'_>, instance: &Instance) -> bool {
    facts.situation.of(instance).is_some_and(|moments| moments.restart.lacks_right())
}

/// Whether that the pool has enough rests on what was seen of it.
fn there_is_enough(host: &Host, page: Option<PageSize>) -> Result<(), Missing> {
    let lack = |what: String, why: Option<Reason>| Lack::new(what, why.unwrap_or(Reason::untold("not told")));
    let Some(page) = page else {
        return Err(Missing::Host(lack("the page size that it asks for".into(), host.default_huge_page.why())));
    };
    let Some(pool) = host.pool(page).filter(|pool| pool.available().is_none()) else { return Ok(()) };
    let counts = [(&pool.free, "free_hugepages"), (&pool.reserved, "resv_hugepages")];
    let unknown = counts.into_iter().find(|(count, _)| !count.is_known());
    let (file, why) = unknown.map_or(("free_hugepages", None), |(count, file)| (file, count.why()));
    Err(Missing::Host(lack(crate::words::pool_file(page, file), why)))
}

/// What puts an instance on huge pages, in the order in which it is done.
pub(crate) fn cure(facts: &Facts<'_>, instance: &Instance) -> Vec<Remedy> {
    let host = facts.host;
    let mut remedies = Vec::new();
    let other_memory = instance.asked == Asked::Cannot && instance.mechanism == Mechanism::Mmap;
    // What starts it anew may have been told already.
    let asks_then = instance.asked == Asked::No && demand::starting(host, instance).asks();
    if (instance.asked == Asked::No && !asks_then) || other_memory || instance.asks_in_part() {
        remedies.push(Remedy::SetSetting(instance.id()));
    }
    if let Some(page) =
        demand::page_size(host, instance).filter(|page| facts.situation.is_short_of(host, *page, instance))
    {
        remedies.push(Remedy::SetPool(page));
    }
    remedies.extend(right_to_pages(host, facts.situation.locked(), instance));
    // Another default is the boot's to bring, and that starts it anew.
    if instance.huge_pages != HugePageUse::All && !demand::cannot_do_with_default(host, instance) {
        remedies.push(Remedy::Restart(instance.id()));
    }
    remedies
}

/// A pool alone does not help a server that may not use it.
fn right_to_pages(host: &Host, locked: &Locked, instance: &Instance) -> Vec<Remedy> {
    if instance.mechanism != Mechanism::SysvShm
        || !matches!(permission::without_memlock(host, instance), Right::Lacks(_))
    {
        return Vec::new();
    }
    let needs = locked.at_restart(host, instance);
    let enough = given::at_restart(host, instance).memlock_for(needs).1 == Some(true);
    let (limit, group) = (Remedy::RaiseMemlock(instance.id()), Remedy::SetGroup(instance.id()));
    match permission::memlock(host) {
        Memlock::Buys(_) if enough => Vec::new(),
        Memlock::Buys(_) => vec![limit],
        Memlock::Unknown(_) if !enough => vec![group, limit],
        Memlock::Unknown(_) | Memlock::Useless(_) => vec![group],
    }
}

/// An ASM instance with MEMORY_TARGET: Oracle itself turns large pages off there, and it is small.
pub(crate) fn is_asm_with_amm(instance: &Instance) -> bool {
    let target = instance.setting_value("memory_target").is_some_and(|value| value.trim() != "0");
    instance.traits.contains(&Trait::Asm) && (is_amm(instance) || target)
}

/// A JVM that takes transparent huge pages for its heap by choice: hugetlb pages are none of its business.
pub(crate) fn wants_thp(instance: &Instance) -> bool {
    instance.traits.contains(&Trait::TransparentPages)
}

/// Whether so much of an instance is on base pages that it is worth a finding.
pub(crate) fn is_big(facts: &Facts<'_>, instance: &Instance) -> Result<bool, Missing> {
    if instance.huge_pages == HugePageUse::Unknown && instance.segment_bytes() < BIG_SEGMENT {
        let demanded = instance.demand.as_ref().map(|demand| demand.pages.of(demand.page_size));
        if !instance.segments.is_empty() && demanded.is_none_or(|demanded| demanded < BIG_SEGMENT) {
            return Ok(false);
        }
    }
    let base = demand::on_base_pages(instance).ok_or_else(|| demand::why_unknown(facts.host, instance))?;
    if instance.huge_pages == HugePageUse::Partly {
        return Ok(base.part_of(instance.segment_bytes()).is_some_and(|part| part >= SMALL_REST));
    }
    // One that was small when it started may ask for more at its next start.
    Ok(base >= BIG_SEGMENT || (instance.huge_pages == HugePageUse::None && demand::asks_for_more(instance)))
}

/// How bad it is that an instance is on base pages: an error where its page tables hurt now or at its
/// largest number of sessions, a note where it is small or where all its sessions share one set.
pub(crate) fn pain(facts: &Facts<'_>, instance: &Instance) -> Level {
    let base = demand::on_base_pages(instance).unwrap_or_default();
    let hurts = |tables: Bytes| {
        let part = facts.host.memory.total.get().and_then(|total| tables.part_of(total));
        part.is_some_and(|part| part >= PAGE_TABLES_HURT)
    };
    let asks = matches!(instance.asked, Asked::Try | Asked::Must);
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

/// How bad it is that a server does not ask: worse where the pages for it lie there, and no other server waits for them.
pub(crate) fn not_asked(facts: &Facts<'_>, instance: &Instance) -> Level {
    let level = pain(facts, instance);
    if idle_pages_for(facts, instance).is_some() { level.max(Level::Warn) } else { level }
}

fn lead_is_not_asked(facts: &Facts<'_>, instance: &Instance) -> bool {
    matches!(cause(facts, instance), Ok(Some(Cause::NotAsked)))
}

/// The pool that has pages to spare for a server that does not ask, and how many it has available.
pub(crate) fn idle_pages_for(facts: &Facts<'_>, instance: &Instance) -> Option<(PageSize, PageCount)> {
    let more = demand::more(facts.host, instance)?;
    let pool = facts.host.pool(more.page_size)?;
    let (available, committed) = (pool.available()?, pool.committed()?);
    if more.pages == PageCount::ZERO {
        return None;
    }
    // What others will ask for at their next start, whatever they do now, is spoken for.
    let claim = facts.situation.claim(more.page_size)?.pages;
    let claimed = claim.saturating_sub(committed);
    // A few to spare are no idle pool.
    if is_with_spare(pool.total.get()?, claim) {
        return None;
    }
    // Pages that lie there for others that are to be made to ask are not idle.
    let waits = |other: &&Instance| {
        other.asked == Asked::No
            && other.is_vouched()
            && other.id() != instance.id()
            && demand::page_size(facts.host, other) == Some(more.page_size)
            && lead_is_not_asked(facts, other)
            && pain(facts, other) >= Level::Warn
    };
    let waiting = facts.instances.iter().filter(waits).filter_map(|other| demand::more(facts.host, other));
    let waiting: PageCount = waiting.map(|more| more.pages).sum();
    let others = facts.instances.iter().filter(|other| other.is_vouched() && other.id() != instance.id());
    let waiting = waiting + others.map(|other| asked_no_more(other, more.page_size)).sum();
    (claimed + more.pages + waiting <= available).then_some((more.page_size, available))
}

/// Pages of a size that a server would ask for beyond those that it holds, had its files not been changed to ask for none since it
/// got its huge pages: it is to be made to ask again.
fn asked_no_more(instance: &Instance, page: PageSize) -> PageCount {
    let stops = |next: &&hugewise_model::NextStart| next.asked == Asked::No && instance.huge_pages == HugePageUse::All;
    let demands = instance.next.known().filter(stops).into_iter().flat_map(|next| &next.demands);
    let pages: PageCount = demands.filter(|it| it.page_size == page).map(|it| it.at_most().pages).sum();
    pages.saturating_sub(demand::held(instance, page))
}

/// What is to come of an instance whose settings insist on huge pages that it cannot have: it does not start
/// again. With the level of that.
pub(crate) fn next_start(instance: &Instance, level: Level) -> (Level, &'static str) {
    if instance.asked == Asked::Must && instance.huge_pages != HugePageUse::All {
        (Level::Error, "; its next start fails")
    } else {
        (level, "")
    }
}

/// Page tables at the largest number of sessions that the settings allow, on base pages.
pub(crate) fn at_max(facts: &Facts<'_>, instance: &Instance) -> Option<forecast::Forecast> {
    forecast::page_tables_at(facts.host, instance, instance.max_sessions.get()?, facts.host.base_page.get()?)
}

/// What base pages cost an instance: `11.2 GiB of page tables now, 27.9 GiB at 1,000 sessions`.
pub(crate) fn cost(facts: &Facts<'_>, instance: &Instance) -> Option<String> {
    let now = instance.page_tables.get()?;
    let mut cost = format!("{now} of page tables now");
    if instance.session_model == SessionModel::Threads {
        cost.push_str("; its sessions are threads and share them");
        return Some(cost);
    }
    if let Some(forecast) = at_max(facts, instance) {
        cost.push_str(&format!(", {} at {} sessions", forecast.in_words(), PageCount(forecast.sessions)));
    }
    Some(cost)
}
