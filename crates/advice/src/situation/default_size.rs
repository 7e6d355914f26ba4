//! A boot with another default size of huge pages: what it makes of servers whose settings name no size.

use hugewise_engines::Kind;
use hugewise_model::{Asked, Bytes, Host, Instance, NextStart, PageCount, PageSize};

use super::Fit;
use super::moments::{Obstacle, Outlook};
use crate::boot;
use crate::standing::Standing;
use crate::words::one_line;

/// The default size of the next boot, where that is another one than now and decides what a server takes of the pools.
pub fn other_default(host: &Host, instance: &Instance) -> Option<PageSize> {
    let (now, then) = (host.default_huge_page.get()?, boot::default_size(host)?);
    let by_default =
        instance.asked_page_size.get() == Some(now) && !(Kind::of(instance.engine).names_page_size)(instance);
    (now != then && by_default).then_some(then)
}

/// What a server asks for where the boot's default is not the one that it starts with now.
pub(super) fn at_boot(booted: &Host, instance: &Instance, start: &NextStart) -> Fit {
    let (Some(now), Some(then)) = (booted.default_huge_page.get(), boot::default_size(booted)) else {
        return Fit::Fits;
    };
    let kind = Kind::of(instance.engine);
    let of_default = start.demands.iter().any(|demand| demand.page_size == now);
    if now == then || !start.asks() || !of_default || (kind.names_page_size)(instance) {
        return Fit::Fits;
    }
    let change = one_line(&format!("the boot's default is pages of {then}, and its settings name no size"));
    if kind.start.not_with_default == Some(then) {
        return ends(refused(start.asked), format!("{change}: it does not use such as a default"));
    }
    if !kind.start.any_page_size {
        return ends(Standing::Unknown, format!("{change}: what it takes of such is not known"));
    }
    let mut moved = start.clone();
    for demand in moved.demands.iter_mut().filter(|demand| demand.page_size == now) {
        demand.pages = pages(instance, demand.pages.of(now), then);
        demand.page_size = then;
    }
    Fit::Moves(moved, change, Obstacle::DefaultSize)
}

const fn refused(asked: Asked) -> Standing {
    if matches!(asked, Asked::Must) { Standing::DoesNotStart } else { Standing::None }
}

fn ends(standing: Standing, why: String) -> Fit {
    let obstacle = (standing != Standing::Unknown).then_some(Obstacle::DefaultSize);
    Fit::Ends(Outlook { standing, why: Some(why), obstacle })
}

/// What its memory comes to on pages of another size: by what is mapped, where that is what it asks for again.
fn pages(instance: &Instance, asked: Bytes, page: PageSize) -> PageCount {
    let mapped = instance.segment_bytes();
    let same = instance.next.known().is_none_or(|next| next.demands.is_empty()) && mapped > Bytes::ZERO;
    page.pages_for(if same { mapped.min(asked) } else { asked })
}
