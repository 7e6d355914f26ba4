//! Whether a server gets its System V segments at a start, under kernel.shmmax, shmall and shmmni.

use hugewise_engines::{EngineKind, MemoryStretch, Takes};
use hugewise_model::instance::{Mechanism, Segment, SegmentKind};
use hugewise_model::{Bytes, Demand, Host, Instance, NextStart, Observed, PageCount, PageSize};

use super::supply::{NoSupply, Supplies};
use crate::boot::{self, ShmLimit};
use crate::demand;
use crate::wording::distinguish_sizes;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Segments {
    /// It gives them, or is not asked.
    Fit,
    Refused(String),
    Unknown(String),
}

/// Whether an instance that belongs to the host has its memory through shmget, under limits that it
/// does not raise itself.
pub(crate) fn is_asked(instance: &Instance) -> bool {
    let raises = EngineKind::for_engine(instance.engine).start.raises_shm_limits;
    let is_here = instance.pid != 0 || instance.is_stopped();
    instance.mechanism == Mechanism::SysvShm && is_here && !raises
}

/// Pages of the smallest piece that a server asks for by itself: with fewer it takes none.
pub(super) fn smallest_piece(instance: &Instance, page: PageSize) -> PageCount {
    let start = &EngineKind::for_engine(instance.engine).start;
    if let Some(stretches) = (start.stretches)(instance, page) {
        let alone =
            stretches.into_iter().filter(|stretch| !stretch.follows).map(|stretch| stretch.most);
        return alone.min().unwrap_or(PageCount(1));
    }
    if let Takes::Pieces(size) = (start.takes)(instance) {
        return page.pages_for(size);
    }
    let pieces: Vec<PageCount> =
        demand::segment_sizes(instance).into_iter().map(|size| page.pages_for(size)).collect();
    let asked: PageCount =
        instance.demands().filter(|own| own.page_size == page).map(|own| own.pages).sum();
    // What it asks for beside them, as a Java machine does for its code, is in pieces of any size.
    let is_all = pieces.iter().copied().sum::<PageCount>() >= asked;
    pieces.into_iter().min().filter(|_| is_all).unwrap_or(PageCount(1))
}

/// Bounds of what a server that takes a part takes of so many pages, which are too few for all.
pub(super) fn pages_partly_taken(
    instance: &Instance,
    page: PageSize,
    pages: PageCount,
) -> (PageCount, PageCount) {
    let start = &EngineKind::for_engine(instance.engine).start;
    if let Some(stretches) = (start.stretches)(instance, page) {
        // Where the larger one does not fit, what comes after it does.
        let least = pages_taken(&stretches, pages, |stretch| stretch.least);
        let most = pages_taken(&stretches, pages, |stretch| stretch.most);
        return (least.min(most), least.max(most));
    }
    match (start.takes)(instance) {
        // It asks on until less than a piece is left.
        Takes::Pieces(size) => {
            (pages.saturating_sub(page.pages_for(size).saturating_sub(PageCount(1))), pages)
        }
        Takes::All | Takes::Segments => (PageCount::ZERO, pages),
    }
}

/// Whether so many pages have those among them without which a server does not start, where it
/// starts without the others.
pub(super) fn finds_essential_pages(instance: &Instance, page: PageSize, pages: PageCount) -> bool {
    let start = &EngineKind::for_engine(instance.engine).start;
    let Some(stretches) = (start.stretches)(instance, page) else { return false };
    let mut taken = PageCount::ZERO;
    let mut has_essential = false;
    for stretch in stretches {
        let fits = taken + stretch.most <= pages;
        if stretch.is_essential && !fits {
            return false;
        }
        has_essential |= stretch.is_essential;
        if fits {
            taken = taken + stretch.most;
        }
    }
    has_essential
}

/// The demands as they are once what is refused on one size of pages is asked for on a smaller one.
pub(super) fn ask_again(
    instance: &Instance,
    demands: &[Demand],
    supplies: &Supplies,
) -> Vec<Demand> {
    let asks_again = EngineKind::for_engine(instance.engine).start.asks_again;
    let mut asked: Vec<Demand> = demands.to_vec();
    for demand in demands {
        let page = demand.page_size;
        let Some(smaller) = asks_again(instance, page) else { continue };
        let found = match supplies.get(&page) {
            Some(Ok(found)) => found.pages,
            Some(Err(NoSupply::NoPool(_))) => PageCount::ZERO,
            Some(Err(NoSupply::Unknown(_))) | None => continue,
        };
        if found >= demand.pages {
            continue;
        }
        let (_, taken) = pages_partly_taken(instance, page, found);
        let refused = demand.pages.saturating_sub(taken.min(demand.pages));
        let pages = smaller.pages_for(refused.to_bytes(page));
        asked.iter_mut().filter(|own| own.page_size == page).for_each(|own| own.pages = taken);
        match asked.iter_mut().find(|own| own.page_size == smaller) {
            Some(own) => own.pages = own.pages + pages,
            None => asked.push(Demand { page_size: smaller, pages, source: demand.source }),
        }
    }
    asked.retain(|demand| demand.pages > PageCount::ZERO);
    asked
}

/// What a server takes of so many pages that asks for one stretch after the other.
fn pages_taken(
    stretches: &[MemoryStretch],
    pages: PageCount,
    pages_of: fn(&MemoryStretch) -> PageCount,
) -> PageCount {
    let mut taken = PageCount::ZERO;
    let mut last_was_taken = true;
    for stretch in stretches {
        if stretch.follows && !last_was_taken {
            continue;
        }
        let fits = taken + pages_of(stretch) <= pages;
        if fits {
            taken = taken + pages_of(stretch);
        }
        if !stretch.follows {
            last_was_taken = fits;
        }
    }
    taken
}

/// Base pages that a start asks shmget for: the kernel counts huge pages as so many small ones.
pub(super) fn base_pages_wanted(start: &NextStart, base: PageSize) -> PageCount {
    start.demands.iter().map(|demand| base.pages_for(demand.pages.to_bytes(demand.page_size))).sum()
}

fn system_v(instance: &Instance) -> impl Iterator<Item = &Segment> {
    instance.segments.iter().filter(|segment| segment.kind == SegmentKind::SystemV)
}

#[derive(Clone, Copy, Default)]
pub(super) struct SegmentTotals {
    pub(super) pages: PageCount,
    pub(super) count: u64,
}

impl SegmentTotals {
    pub(super) fn present(host: &Host) -> Self {
        let segments = host.sysv_segments.as_known().into_iter().flatten();
        Self::sum(host, segments.map(|segment| segment.size))
    }

    pub(super) fn without(self, host: &Host, instance: &Instance) -> Self {
        let own = Self::sum(host, system_v(instance).map(|segment| segment.size));
        Self {
            pages: self.pages.saturating_sub(own.pages),
            count: self.count.saturating_sub(own.count),
        }
    }

    fn sum(host: &Host, sizes: impl Iterator<Item = Bytes>) -> Self {
        sizes.fold(Self::default(), |sum, size| Self {
            pages: sum.pages
                + host.base_page.get().map(|base| base.pages_for(size)).unwrap_or_default(),
            count: sum.count.saturating_add(1),
        })
    }
}

pub(super) fn fewest_segments(host: &Host, instance: &Instance) -> u64 {
    let own = system_v(instance).count();
    // Where kernel.shmmax had it cut its memory into pieces, it may come with one.
    let all: Bytes = system_v(instance).map(|segment| segment.size).sum();
    let is_cut = host.kernel_settings.shmmax.get().is_none_or(|shmmax| shmmax < all);
    let fewest = if is_cut { own.min(1) } else { own };
    u64::try_from(fewest.max(usize::from(instance.is_stopped()))).unwrap_or(u64::MAX)
}

#[derive(Clone, Debug)]
pub(super) struct ShmSegmentLimits {
    shmmax: Result<u64, String>,
    shmall: Result<u64, String>,
    shmmni: Result<u64, String>,
}

impl ShmSegmentLimits {
    pub(super) fn read_current(host: &Host) -> Self {
        let settings = &host.kernel_settings;
        let known = |fact: Observed<u64>, file: &str| {
            fact.get().ok_or_else(|| {
                format!("/proc/sys/kernel/{file}: {}", fact.reason_text().unwrap_or_default())
            })
        };
        Self {
            shmmax: known(settings.shmmax.clone().map(Bytes::get), "shmmax"),
            shmall: known(settings.shmall_pages.clone(), "shmall"),
            shmmni: known(settings.shmmni.clone(), "shmmni"),
        }
    }

    pub(super) fn at_boot(host: &Host) -> Self {
        let known = |limit| boot::shm_limit(host, limit).map_err(|missing| missing.to_string());
        Self {
            shmmax: known(ShmLimit::Largest),
            shmall: known(ShmLimit::All),
            shmmni: known(ShmLimit::Number),
        }
    }

    pub(super) fn total_pages(&self) -> PageCount {
        PageCount(self.shmall.clone().unwrap_or_default())
    }

    /// What is sure to be refused is refused, whatever else is not known.
    pub(super) fn ask_for_segments(
        &self,
        host: &Host,
        instance: &Instance,
        start: &NextStart,
        others: SegmentTotals,
    ) -> Segments {
        if !is_asked(instance) || start.demands.is_empty() {
            return Segments::Fit;
        }
        let refusal = self
            .refuse_size(instance, start)
            .or_else(|| self.refuse_sum(host.base_page.get()?, start, others.pages))
            .or_else(|| self.refuse_number(fewest_segments(host, instance), others.count));
        if let Some(why) = refusal {
            return Segments::Refused(why);
        }
        let base = host.base_page.reason_text().map(|why| format!("base page size: {why}"));
        let unknown = [self.shmmax.as_ref().err(), self.shmall.as_ref().err(), base.as_ref()];
        let unknown = unknown.into_iter().flatten().next();
        unknown.map_or(Segments::Fit, |why| Segments::Unknown(why.clone()))
    }

    /// One that cuts its memory into pieces does with fewer bytes each.
    fn refuse_size(&self, instance: &Instance, start: &NextStart) -> Option<String> {
        let shmmax = Bytes(*self.shmmax.as_ref().ok()?);
        let pieces = start.demands.iter().map(|demand| {
            smallest_piece(instance, demand.page_size).min(demand.pages).to_bytes(demand.page_size)
        });
        let piece = pieces.max().filter(|piece| *piece > shmmax)?;
        Some(format!("kernel.shmmax {shmmax} is below a segment of {piece}"))
    }

    fn refuse_sum(&self, base: PageSize, start: &NextStart, others: PageCount) -> Option<String> {
        let (shmall, wanted) = (*self.shmall.as_ref().ok()?, base_pages_wanted(start, base));
        if wanted + others <= PageCount(shmall) {
            return None;
        }
        let (allowed, own) =
            distinguish_sizes(base.bytes().saturating_mul(shmall), wanted.to_bytes(base));
        let beside = match others {
            PageCount::ZERO => String::new(),
            others => format!(" on top of {} of others", others.to_bytes(base)),
        };
        Some(format!("kernel.shmall allows {allowed} of segments: it needs {own}{beside}"))
    }

    fn refuse_number(&self, own: u64, others: u64) -> Option<String> {
        let shmmni =
            self.shmmni.as_ref().ok().filter(|most| others.saturating_add(own) > **most)?;
        let beside = match others {
            0 => String::new(),
            others => format!(" on top of {others} of others"),
        };
        Some(format!("kernel.shmmni is {shmmni}, and it comes with {own} segments{beside}"))
    }
}

#[cfg(test)]
mod tests {
    use hugewise_model::instance::ServerSetting;

    use super::*;
    use crate::testing::{gib, quiet};

    /// What the kernel said MariaDB 10.11.19 had taken of pools that were too small. Its key cache
    /// comes to 53 pages, Aria's to 62, and each of its two log buffers to 8; the kernel may place
    /// the buffer pool so that it takes up to five more.
    #[test]
    fn a_mariadb_without_pages_for_its_buffer_pool_takes_none_for_its_log_buffers() {
        let mut case = quiet();
        let instance = case.mariadb("3306", gib(1));
        instance.version = Observed::Known("10.11.19-MariaDB".into());
        for (buffer_pool, pool, taken) in [
            // The key cache; neither Aria's cache nor the buffer pool has room, and the log
            // buffers, which would, follow the pool.
            ("128M", 100, 53..=53),
            // The buffer pool and one log buffer, without the caches.
            ("32M", 30, 24..=29),
            // All but Aria's cache.
            ("32M", 95, 85..=90),
        ] {
            let setting = |name: &str, value: &str| {
                (
                    name.to_owned(),
                    ServerSetting { name: name.into(), value: value.into(), place: None },
                )
            };
            instance.settings = [setting("innodb_buffer_pool_size", buffer_pool)].into();
            let (least, most) = pages_partly_taken(instance, PageSize::MIB_2, PageCount(pool));
            assert!(
                taken.contains(&least.get()) && taken.contains(&most.get()),
                "{buffer_pool} of {pool}: {least} {most}"
            );
            assert_eq!(
                smallest_piece(instance, PageSize::MIB_2),
                PageCount(if buffer_pool == "32M" { 21 } else { 53 })
            );
        }
    }
}
