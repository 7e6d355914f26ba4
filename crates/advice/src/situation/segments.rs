//! Whether a server gets its System V segments at a start: kernel.shmmax for each, kernel.shmall and kernel.shmmni for all of
//! the host.

use hugewise_engines::{Kind, Stretch, Takes};
use hugewise_model::instance::{Mechanism, SegmentKind};
use hugewise_model::{Bytes, Host, Instance, NextStart, Observed, PageCount, PageSize};

use crate::boot::{self, ShmLimit};
use crate::demand;
use crate::words::apart;

/// What shmget says to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Segments {
    /// It gives them, or is not asked.
    Fit,
    /// It refuses, for this reason.
    Refused(String),
    /// It cannot be told, for want of this.
    Unknown(String),
}

/// Whether an instance's memory comes through shmget: of one that belongs to the host.
pub(crate) fn is_asked(instance: &Instance) -> bool {
    instance.mechanism == Mechanism::SysvShm && (instance.pid != 0 || instance.is_asleep())
}

/// Pages of the smallest piece that a server asks for by itself: with fewer it takes none.
pub(super) fn smallest_piece(instance: &Instance, page: PageSize) -> PageCount {
    let start = &Kind::of(instance.engine).start;
    if let Some(stretches) = (start.stretches)(instance, page) {
        let alone = stretches.into_iter().filter(|stretch| !stretch.follows).map(|stretch| stretch.most);
        return alone.min().unwrap_or(PageCount(1));
    }
    if let Takes::Pieces(size) = (start.takes)(instance) {
        return page.pages_for(size);
    }
    let pieces: Vec<PageCount> = demand::segment_sizes(instance).into_iter().map(|size| page.pages_for(size)).collect();
    let asked: PageCount = instance.demands().filter(|own| own.page_size == page).map(|own| own.pages).sum();
    // What it asks for beside them, as a Java machine does for its code, is in pieces of any size.
    let is_all = pieces.iter().copied().sum::<PageCount>() >= asked;
    pieces.into_iter().min().filter(|_| is_all).unwrap_or(PageCount(1))
}

/// Between what a server that takes a part of what it asks for takes of so many pages, which are too few for all of it.
pub(super) fn part(instance: &Instance, page: PageSize, pages: PageCount) -> (PageCount, PageCount) {
    let start = &Kind::of(instance.engine).start;
    if let Some(stretches) = (start.stretches)(instance, page) {
        // Where the larger one does not fit, what comes after it does.
        let (one, other) = (taken(&stretches, pages, |it| it.least), taken(&stretches, pages, |it| it.most));
        return (one.min(other), one.max(other));
    }
    match (start.takes)(instance) {
        // It asks on until less than a piece is left.
        Takes::Pieces(size) => (pages.saturating_sub(page.pages_for(size).saturating_sub(PageCount(1))), pages),
        Takes::All | Takes::Segments => (PageCount::ZERO, pages),
    }
}

/// What a server that asks for one stretch after the other takes of so many pages, each stretch being as large as `of` says.
fn taken(stretches: &[Stretch], pages: PageCount, of: fn(&Stretch) -> PageCount) -> PageCount {
    let mut taken = PageCount::ZERO;
    let mut last_was_taken = true;
    for stretch in stretches {
        if stretch.follows && !last_was_taken {
            continue;
        }
        let fits = taken + of(stretch) <= pages;
        if fits {
            taken = taken + of(stretch);
        }
        if !stretch.follows {
            last_was_taken = fits;
        }
    }
    taken
}

/// Base pages that a start asks shmget for: the kernel counts huge pages as so many small ones.
pub(super) fn wanted(start: &NextStart, base: PageSize) -> PageCount {
    start.demands.iter().map(|demand| base.pages_for(demand.pages.of(demand.page_size))).sum()
}

/// Base pages in segments that are there, without this server's.
pub(super) fn of_others(host: &Host, instance: &Instance, base: PageSize) -> PageCount {
    let there = host.sysv_segments.known().into_iter().flatten();
    let there: PageCount = there.map(|segment| base.pages_for(segment.size)).sum();
    let own = instance.segments.iter().filter(|segment| segment.kind == SegmentKind::SystemV);
    there.saturating_sub(own.map(|segment| base.pages_for(segment.size)).sum())
}

/// kernel.shmmax, kernel.shmall and kernel.shmmni as a start finds them; what is wrong with one that is not known.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    shmmax: Result<u64, String>,
    shmall: Result<u64, String>,
    shmmni: Result<u64, String>,
}

impl Limits {
    /// As they are now.
    pub(super) fn now(host: &Host) -> Self {
        let settings = &host.kernel_settings;
        let of = |fact: Observed<u64>, file: &str| {
            fact.get().ok_or_else(|| format!("/proc/sys/kernel/{file}: {}", fact.reason().unwrap_or_default()))
        };
        Self {
            shmmax: of(settings.shmmax.clone().map(Bytes::get), "shmmax"),
            shmall: of(settings.shmall_pages.clone(), "shmall"),
            shmmni: of(settings.shmmni.clone(), "shmmni"),
        }
    }

    /// As the next boot leaves them.
    pub(super) fn at_boot(host: &Host) -> Self {
        let of = |limit| boot::shm_limit(host, limit).map_err(|missing| missing.to_string());
        Self { shmmax: of(ShmLimit::Largest), shmall: of(ShmLimit::All), shmmni: of(ShmLimit::Number) }
    }

    /// Base pages that all segments may have together, as far as that is known.
    pub(super) fn all(&self) -> PageCount {
        PageCount(self.shmall.clone().unwrap_or_default())
    }
}

/// Segments that are there without this server's, and how many it comes with at least.
pub(super) fn counted(host: &Host, instance: &Instance) -> (u64, u64) {
    let own: Vec<_> = instance.segments.iter().filter(|segment| segment.kind == SegmentKind::SystemV).collect();
    let there = host.sysv_segments.known().map_or(own.len(), Vec::len);
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    // Where kernel.shmmax had it cut its memory into pieces, it may come with one.
    let all: Bytes = own.iter().map(|segment| segment.size).sum();
    let is_cut = host.kernel_settings.shmmax.get().is_none_or(|shmmax| shmmax < all);
    let least = if is_cut { own.len().min(1) } else { own.len() }.max(usize::from(instance.is_asleep()));
    (count(there.saturating_sub(own.len())), count(least))
}

/// What shmget says to a start that finds these limits, where others have so many base pages in so many segments by then. What
/// is sure to be refused is refused, whatever else is not known.
pub(super) fn at_start(
    host: &Host,
    limits: &Limits,
    instance: &Instance,
    start: &NextStart,
    (others, segments_of_others): (PageCount, u64),
) -> Segments {
    if !is_asked(instance) || start.demands.is_empty() {
        return Segments::Fit;
    }
    // One that cuts its memory into pieces does with fewer bytes each.
    let pieces = start.demands.iter().map(|it| smallest_piece(instance, it.page_size).min(it.pages).of(it.page_size));
    let piece = pieces.max().unwrap_or_default();
    if let Some(shmmax) = limits.shmmax.as_ref().ok().map(|most| Bytes(*most)).filter(|most| piece > *most) {
        return Segments::Refused(format!("kernel.shmmax {shmmax} is below a segment of {piece}"));
    }
    if let (Ok(shmall), Some(base)) = (&limits.shmall, host.base_page.get())
        && wanted(start, base) + others > PageCount(*shmall)
    {
        let (allowed, own) = apart(base.bytes().times(*shmall), wanted(start, base).of(base));
        let beside = match others {
            PageCount::ZERO => String::new(),
            others => format!(" on top of {} of others", others.of(base)),
        };
        return Segments::Refused(format!("kernel.shmall allows {allowed} of segments: it needs {own}{beside}"));
    }
    let own = counted(host, instance).1;
    if let Some(shmmni) = limits.shmmni.as_ref().ok().filter(|most| segments_of_others.saturating_add(own) > **most) {
        let beside = match segments_of_others {
            0 => String::new(),
            others => format!(" on top of {others} of others"),
        };
        return Segments::Refused(format!("kernel.shmmni is {shmmni}, and it comes with {own} segments{beside}"));
    }
    let base = host.base_page.reason().map(|why| format!("base page size: {why}"));
    let unknown = [limits.shmmax.as_ref().err(), limits.shmall.as_ref().err(), base.as_ref()];
    unknown.into_iter().flatten().next().map_or(Segments::Fit, |why| Segments::Unknown(why.clone()))
}

#[cfg(test)]
mod tests {
    use hugewise_model::instance::Setting;

    use super::*;
    use crate::testing::{gib, quiet};

    /// What the kernel said MariaDB 10.11.19 had taken of pools that were too small. Its key cache comes to 53 pages, Aria's to 62,
    /// and each of its two log buffers to 8; the kernel may place the buffer pool so that it takes up to five more.
    #[test]
    fn a_mariadb_without_pages_for_its_buffer_pool_takes_none_for_its_log_buffers() {
        let mut case = quiet();
        let instance = case.mariadb("3306", gib(1));
        instance.version = Observed::Known("10.11.19-MariaDB".into());
        for (buffer_pool, pool, taken) in [
            // The key cache; neither Aria's cache nor the buffer pool has room, and the log buffers, which would, follow the pool.
            ("128M", 100, 53..=53),
            // The buffer pool and one log buffer, without the caches.
            ("32M", 30, 24..=29),
            // All but Aria's cache.
            ("32M", 95, 85..=90),
        ] {
            let setting = |name: &str, value: &str| {
                (name.to_owned(), Setting { name: name.into(), value: value.into(), place: None })
            };
            instance.settings = [setting("innodb_buffer_pool_size", buffer_pool)].into();
            let (least, most) = part(instance, PageSize::MIB_2, PageCount(pool));
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
