//! One start of one server: what it asks for, and what comes of it in the pools that it finds.

use hugewise_model::instance::Mechanism;
use hugewise_model::{Asked, Engine, Host, Instance, LinkState, NextStart, PageCount, PageSize};

use super::Outlook;
use crate::standing::Standing;
use crate::{cgroup, chain, need};

/// Pages of a size that a server finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// So many.
    Pages {
        /// Pages.
        pages: PageCount,
        /// What there is to say of them, to follow their number.
        note: String,
    },
    /// There is no such pool, for this reason.
    None(String),
    /// It cannot be told, for want of this.
    Unknown(String),
}

/// What a server asks for at its next start.
pub fn starting(host: &Host, instance: &Instance) -> NextStart {
    if let Some(next) = instance.next.known() {
        return next.clone();
    }
    let mut demands: Vec<_> = need::demand(host, instance).into_iter().collect();
    demands.extend(instance.beside.iter().cloned());
    NextStart { asked: instance.asked, setting: instance.setting.clone(), demands }
}

/// Whether a server that asks takes what there is where the pool has not enough for it.
pub(super) fn takes_part(instance: &Instance, start: &NextStart) -> bool {
    instance.engine == Engine::Oracle && start.asked == Asked::Try
}

/// What comes of a start.
pub(super) fn outlook(
    host: &Host,
    instance: &Instance,
    start: &NextStart,
    rooms: &dyn Fn(PageSize) -> Room,
) -> Outlook {
    let because = |standing, why: String| Outlook { standing, why: Some(crate::words::one_line(&why)) };
    let setting = || start.setting.as_ref().map(ToString::to_string);
    match start.asked {
        Asked::No | Asked::Cannot => {
            let why = setting().unwrap_or_else(|| "its settings don't ask for huge pages".into());
            return because(Standing::None, why);
        }
        Asked::Unknown => {
            return because(Standing::Unknown, setting().unwrap_or_else(|| "its settings could not be read".into()));
        }
        Asked::Try | Asked::Must | Asked::Raises => {}
    }
    if start.demands.is_empty() {
        return because(Standing::Unknown, "its demand is not known".into());
    }
    if let Some((state, why)) = hindrance(host, instance) {
        return match state {
            LinkState::Unknown => because(Standing::Unknown, why),
            _ if start.asked == Asked::Must => because(Standing::DoesNotStart, why),
            _ => because(Standing::None, why),
        };
    }
    let mut found = PageCount::ZERO;
    let mut short = None;
    for demand in &start.demands {
        let page = demand.page_size;
        match rooms(page) {
            Room::Unknown(why) => return because(Standing::Unknown, why),
            Room::None(why) => short = short.or(Some(why)),
            Room::Pages { pages, note } if pages < demand.pages => {
                if raises(host, start, demand.pages.saturating_sub(pages), page) {
                    found = found + demand.pages;
                    continue;
                }
                let why = format!("needs {} pages of {page} and finds {pages}{note}", demand.pages);
                short = short.or(Some(why));
                if takes_part(instance, start) {
                    found = found + pages;
                }
            }
            Room::Pages { .. } => found = found + demand.pages,
        }
    }
    match short {
        None => Outlook { standing: Standing::All, why: None },
        Some(why) if start.asked == Asked::Must => because(Standing::DoesNotStart, why),
        Some(why) if found > PageCount::ZERO => because(Standing::Partly, why),
        Some(why) => because(Standing::None, why),
    }
}

/// Whether a server that raises the pool itself finds the memory for that.
fn raises(host: &Host, start: &NextStart, lacking: PageCount, page: PageSize) -> bool {
    start.asked == Asked::Raises && host.memory.available.get().is_some_and(|available| lacking.of(page) <= available)
}

/// What else than the pools keeps a server from them: permission, or the limit of its cgroup.
fn hindrance(host: &Host, instance: &Instance) -> Option<(LinkState, String)> {
    if instance.mechanism == Mechanism::SysvShm && instance.pid != 0 {
        let (state, why) = chain::sysv(host, instance);
        if state != LinkState::Ok {
            return Some((state, why));
        }
    }
    match cgroup::shortage(host, instance) {
        Ok(None) => None,
        Ok(Some(short)) => {
            let what = if short.at_fault { "max" } else { "rsvd.max" };
            Some((
                LinkState::Broken,
                format!("hugetlb {what} {} of cgroup {} is below its {}", short.limit, short.path, short.demand),
            ))
        }
        Err(missing) => Some((LinkState::Unknown, missing.to_string())),
    }
}
