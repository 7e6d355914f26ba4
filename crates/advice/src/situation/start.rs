//! One start of one server: what it asks for, and what comes of it in the pools that it finds.

use hugewise_engines::{Kind, Start, Takes};
use hugewise_model::instance::Mechanism;
use hugewise_model::{Asked, Bytes, Demand, Host, HugePageUse, Instance, LinkState, NextStart, PageCount, PageSize};

use super::moments::{Obstacle, Outlook};
use super::segments::{Segments, part, smallest_piece};
use super::supply::Supply;
use crate::cgroup::Shortage;
use crate::given::{Given, Ways};
use crate::locked::{self, Needed};
use crate::standing::Standing;
use crate::{Missing, chain, demand};

/// Whether a server that asks takes what there is where the pool has not enough for it.
pub(super) fn takes_part(instance: &Instance, start: &NextStart) -> bool {
    let only = start.setting.as_ref().is_some_and(kind(instance).raises_or_fails);
    (start.asked == Asked::Try || (start.asked == Asked::Raises && !only))
        && (kind(instance).takes)(instance) != Takes::All
}

fn kind(instance: &Instance) -> &'static Start {
    &Kind::of(instance.engine).start
}

/// Pages without which a server does not begin on huge pages; one that grows, as a Java machine's heap does, takes the others
/// later.
fn to_begin_with(instance: &Instance, page: PageSize, demand: PageCount) -> PageCount {
    if let Some(first) = (kind(instance).begins_with)(instance, page, demand) {
        return first;
    }
    let held = demand::held(instance, page);
    let own: PageCount = instance.demands().filter(|own| own.page_size == page).map(|own| own.pages).sum();
    // One that has all that its settings come to took it at once, and takes what they come to now at once.
    let grows = kind(instance).grows && (held < own || demand <= own);
    if grows && instance.huge_pages == HugePageUse::All && held > PageCount::ZERO { held.min(demand) } else { demand }
}

/// What a start stands on, whatever the pools have.
#[derive(Clone, Copy)]
pub(super) struct Ground<'a> {
    pub(super) host: &'a Host,
    pub(super) given: &'a Given,
    /// What its memlock limit has to allow.
    pub(super) needs: Needed,
    /// What there is of memory for one that raises the pool itself; none where that is not known.
    pub(super) memory: Option<Bytes>,
}

/// What comes of a start. Where what it asks for, or what others leave it, is an estimate, it is told as far as the errors of
/// these make no difference.
pub(super) fn outlook(
    ground: Ground<'_>,
    instance: &Instance,
    start: &NextStart,
    supplies: &dyn Fn(PageSize) -> Supply,
    limits: Limited<'_>,
    segments: &Segments,
) -> Outlook {
    let told = exactly(ground, instance, start, supplies, limits, segments);
    if told.rank().is_none() || !start.asks() {
        return told;
    }
    let straddles = start.demands.iter().find_map(|demand| {
        let supply = supplies(demand.page_size);
        straddles(instance, demand, &supply)
    });
    let is_exact = |demand: &Demand| demand.at_least().pages == demand.at_most().pages;
    if straddles.is_none() && start.demands.iter().all(is_exact) {
        return told;
    }
    let with = |demands: fn(&Demand) -> Demand, supplies: &dyn Fn(PageSize) -> Supply| {
        let start = NextStart { demands: start.demands.iter().map(demands).collect(), ..start.clone() };
        exactly(ground, instance, &start, supplies, limits, segments)
    };
    let most = |page| supplies(page).at_most();
    let any = [
        with(Demand::at_most, supplies),
        with(Demand::at_least, supplies),
        with(Demand::at_most, &most),
        with(Demand::at_least, &most),
    ];
    let Some(other) = any.into_iter().find(|other| other.standing != told.standing) else { return told };
    let obstacle = if straddles.is_some() { Some(Obstacle::Pages) } else { told.obstacle.or(other.obstacle) };
    let estimate = || format!("its demand is an estimate: {}", told.why.or(other.why).unwrap_or_default());
    let why = straddles.unwrap_or_else(estimate);
    Outlook { standing: Standing::Unknown, why: Some(crate::words::one_line(&why)), obstacle }
}

/// Between what a demand, and what there is for it, lie: in words, where one may be enough for the other or not.
fn straddles(instance: &Instance, demand: &Demand, supply: &Supply) -> Option<String> {
    let Supply::Pages { pages, up_to, note, .. } = supply else { return None };
    let (least, most) = (demand.at_least().pages, demand.at_most().pages);
    let between = |least: PageCount, most: PageCount| match least == most {
        true => least.to_string(),
        false => format!("{least} to {most}"),
    };
    let needs = || match least == most {
        true => most.in_pages_of(demand.page_size),
        false => format!("{least} to {}", most.in_pages_of(demand.page_size)),
    };
    // What others leave it hangs on estimates of theirs.
    let tells = if least == most { "" } else { Kind::of(instance.engine).tells_demand };
    let tells = if tells.is_empty() { String::new() } else { format!(": {tells}") };
    let open = (least < most || pages < up_to) && *pages < most;
    open.then(|| format!("may need {} and finds {}{note}{tells}", needs(), between(*pages, *up_to)))
}

/// The same, of a demand and a supply as they are told.
fn exactly(
    Ground { host, given, needs, memory }: Ground<'_>,
    instance: &Instance,
    start: &NextStart,
    supplies: &dyn Fn(PageSize) -> Supply,
    limits: Limited<'_>,
    segments: &Segments,
) -> Outlook {
    let because = |standing, obstacle, why: String| Outlook {
        standing,
        why: Some(crate::words::one_line(&why)),
        obstacle: Some(obstacle),
    };
    let unknown =
        |why: String| Outlook { standing: Standing::Unknown, why: Some(crate::words::one_line(&why)), obstacle: None };
    let setting = || start.setting.as_ref().map(ToString::to_string);
    match start.asked {
        Asked::No | Asked::Cannot => {
            let why = setting().unwrap_or_else(|| "its settings don't ask for huge pages".into());
            let refuses = (kind(instance).refuses)(instance, start.asked);
            let standing = if refuses { Standing::DoesNotStart } else { Standing::None };
            return because(standing, Obstacle::Settings, why);
        }
        Asked::Unknown => return unknown(setting().unwrap_or_else(|| "its settings could not be read".into())),
        Asked::Try | Asked::Must | Asked::Raises => {}
    }
    if start.demands.is_empty() {
        return unknown("its demand is not known".into());
    }
    let refused = |obstacle, why| {
        let standing = if start.asked == Asked::Must { Standing::DoesNotStart } else { Standing::None };
        because(standing, obstacle, why)
    };
    // Without its segments it is down, whatever its right to huge pages.
    if let (Segments::Refused(why), true) = (segments, kind(instance).only_shm) {
        return because(Standing::DoesNotStart, Obstacle::Segments, why.clone());
    }
    match right(host, instance, given, needs) {
        (LinkState::Ok, _) => {}
        (LinkState::Unknown, why) => return unknown(why),
        (LinkState::Broken, why) => return refused(Obstacle::Right, why),
    }
    match segments {
        Segments::Fit => {}
        Segments::Unknown(why) => return unknown(why.clone()),
        Segments::Refused(why) => return refused(Obstacle::Segments, why.clone()),
    }
    let (mut found, mut there) = (PageCount::ZERO, PageCount::ZERO);
    let mut short = None;
    for demand in &start.demands {
        let page = demand.page_size;
        // What it surely gets, and what it may get.
        let (least, gets) = match supplies(page) {
            Supply::Unknown(why) => return unknown(why),
            Supply::None(why) => {
                short = short.or(Some(why));
                continue;
            }
            Supply::Pages { pages, note, .. } if pages < demand.pages => {
                there = there + pages;
                if raises(memory, start, demand.pages.saturating_sub(pages), page)
                    || begins(instance, page, pages, demand.pages)
                {
                    (demand.pages, demand.pages)
                } else {
                    let why = format!("needs {} and finds {pages}{note}", demand::in_words(demand));
                    short = short.or(Some(why));
                    let takes = takes_part(instance, start) && pages >= smallest_piece(instance, page);
                    if takes { part(instance, page, pages) } else { (PageCount::ZERO, PageCount::ZERO) }
                }
            }
            Supply::Pages { perhaps: Some((pages, why)), .. } if pages < demand.pages => {
                return unknown(format!(
                    "{why}: that may leave {pages} of the {} needed",
                    demand.pages.in_pages_of(page)
                ));
            }
            Supply::Pages { sure, note, .. } if sure < demand.pages => {
                let late = demand.pages.saturating_sub(sure);
                return unknown(format!(
                    "{late} of its {} {} asked for late in the boot{note}",
                    demand.pages.in_pages_of(page),
                    late.are()
                ));
            }
            Supply::Pages { .. } => (demand.pages, demand.pages),
        };
        // The limit of its cgroup counts for pages that are there to be had.
        let held = |pages| limited(instance, start, &Demand { pages, ..demand.clone() }, limits);
        match (held(gets), held(least)) {
            (Ok(None), _) => found = found + gets,
            (Err(missing), _) | (_, Err(missing)) => return unknown(missing.to_string()),
            (Ok(Some((standing, why))), Ok(least)) if least.as_ref().is_some_and(|(least, _)| *least == standing) => {
                return because(standing, Obstacle::Cgroup, why);
            }
            // Which of its stretches find room decides.
            (Ok(Some((Standing::DoesNotStart, why))), Ok(_)) => {
                let why = format!("{why}, and how much of what is there it takes is not known");
                return Outlook { obstacle: Some(Obstacle::Cgroup), ..unknown(why) };
            }
            (Ok(Some((standing, why))), Ok(_)) => return because(standing, Obstacle::Cgroup, why),
        }
    }
    match short {
        None if instance.asks_in_part() => {
            because(Standing::Partly, Obstacle::Settings, "it asks for huge pages for a part of its memory".into())
        }
        None => match perhaps_short(instance, start, supplies) {
            Some(why) => unknown(why),
            None => Outlook { standing: Standing::All, why: None, obstacle: None },
        },
        // A Java machine switches large pages off where there is not one.
        Some(why) if kind(instance).goes_without_any && found + there == PageCount::ZERO => {
            because(Standing::None, Obstacle::Pages, why)
        }
        Some(why) if start.asked == Asked::Must => because(Standing::DoesNotStart, Obstacle::Pages, why),
        Some(why) if found > PageCount::ZERO => because(Standing::Partly, Obstacle::Pages, why),
        Some(why) => because(Standing::None, Obstacle::Pages, why),
    }
}

/// What leaves it open whether a start finds all its pages: its files may have been changed since it started, by less than can
/// be told from what is mapped.
fn perhaps_short(instance: &Instance, start: &NextStart, supplies: &dyn Fn(PageSize) -> Supply) -> Option<String> {
    instance.perhaps.iter().find_map(|demand| {
        let (page, most) = perhaps_on(start, demand);
        let Supply::Pages { pages, note, .. } = supplies(page) else { return None };
        let tells = Kind::of(instance.engine).tells_demand;
        let (needs, finds) = (most.in_pages_of(page), format!("finds {pages}{note}: {tells}"));
        (pages < most).then(|| match instance.is_asleep() {
            true => format!("going by its files it may need up to {needs}, and {finds}"),
            false => format!(
                "its files may ask for {needs}, if they were changed since it started; it {finds}"
            ),
        })
    })
}

/// What a server may need beyond what it is thought to, on pages of the size that it takes at this start.
fn perhaps_on(start: &NextStart, perhaps: &Demand) -> (PageSize, PageCount) {
    let takes = |page: PageSize| start.demands.iter().any(|demand| demand.page_size == page);
    match start.demands.first().map(|demand| demand.page_size).filter(|_| !takes(perhaps.page_size)) {
        Some(other) => (other, other.pages_for(perhaps.pages.of(perhaps.page_size))),
        None => (perhaps.page_size, perhaps.pages),
    }
}

/// The worst limit of a cgroup that a demand meets at a start.
pub(super) type Limited<'a> = &'a dyn Fn(&Demand) -> Result<Option<Shortage>, Missing>;

/// What the hugetlb limit of its cgroup makes of a start, where that is below what it asks for.
fn limited(
    instance: &Instance,
    start: &NextStart,
    demand: &Demand,
    limits: Limited<'_>,
) -> Result<Option<(Standing, String)>, Missing> {
    let short = if demand.pages > PageCount::ZERO { limits(demand)? } else { None };
    let Some(short) = short else { return Ok(None) };
    let piece = smallest_piece(instance, demand.page_size).of(demand.page_size);
    let standing = match start.asked {
        // It is killed when it touches more.
        _ if short.at_fault => Standing::DoesNotStart,
        _ if takes_part(instance, start) && piece <= short.room => Standing::Partly,
        Asked::Must => Standing::DoesNotStart,
        _ => Standing::None,
    };
    Ok(Some((standing, short.in_words())))
}

/// Whether the kernel is known to refuse a server all huge pages, however it is started, and were it the first of its user's.
pub(super) fn is_refused(host: &Host, instance: &Instance, ways: &Ways) -> bool {
    let needs = Needed::alone(locked::own(host, instance));
    ways.all().all(|given| right(host, instance, given, needs).0 == LinkState::Broken)
}

/// Whether a server that grows later finds the pages that it begins with.
pub(super) fn begins(instance: &Instance, page: PageSize, pages: PageCount, demand: PageCount) -> bool {
    pages > PageCount::ZERO && pages >= to_begin_with(instance, page, demand) && pages < demand && kind(instance).grows
}

/// Whether a server that raises the pool itself finds the memory for that.
pub(super) fn raises(memory: Option<Bytes>, start: &NextStart, lacking: PageCount, page: PageSize) -> bool {
    start.asked == Asked::Raises && memory.is_some_and(|memory| lacking.of(page) <= memory)
}

/// Whether a server may have the pages, as this kernel checks it.
pub(super) fn right(host: &Host, instance: &Instance, given: &Given, needs: Needed) -> (LinkState, String) {
    // One that is only described is nobody's yet.
    let is_described = instance.pid == 0 && !instance.is_asleep();
    if instance.mechanism == Mechanism::SysvShm && !is_described {
        chain::sysv(host, instance, given, needs)
    } else {
        (LinkState::Ok, String::new())
    }
}
