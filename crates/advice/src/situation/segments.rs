//! Whether a server gets its System V segments at a start: kernel.shmmax for each, kernel.shmall for all of the host.

use hugewise_engines::{Kind, Takes};
use hugewise_model::instance::{Mechanism, SegmentKind};
use hugewise_model::{Bytes, Host, Instance, NextStart, Observed, PageCount, PageSize};

use crate::demand;

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

/// Whether an instance's memory comes through shmget, as far as something of it is to be known.
pub(super) fn is_asked(instance: &Instance) -> bool {
    instance.mechanism == Mechanism::SysvShm && instance.pid != 0
}

/// Pages of the smallest piece that a server asks for by itself: with fewer it takes none.
pub(super) fn smallest_piece(instance: &Instance, page: PageSize) -> PageCount {
    if let Takes::Pieces(size) = Kind::of(instance.engine).start.takes {
        return page.pages_for(size);
    }
    let pieces = demand::segment_sizes(instance).into_iter().map(|size| page.pages_for(size));
    pieces.min().unwrap_or(PageCount(1))
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

/// What shmget says to a start on this host, where others have so many base pages in segments by then.
pub(super) fn at_start(host: &Host, instance: &Instance, start: &NextStart, others: PageCount) -> Segments {
    if !is_asked(instance) || start.demands.is_empty() {
        return Segments::Fit;
    }
    let unknown = |key: &str, why: Option<String>| Segments::Unknown(format!("{key}: {}", why.unwrap_or_default()));
    let settings = &host.kernel_settings;
    let (Some(shmmax), Some(base)) = (settings.shmmax.get(), host.base_page.get()) else {
        return unknown("kernel.shmmax", settings.shmmax.reason().or_else(|| host.base_page.reason()));
    };
    // One that cuts its memory into pieces does with fewer bytes each.
    let pieces = start.demands.iter().map(|it| smallest_piece(instance, it.page_size).min(it.pages).of(it.page_size));
    let piece = pieces.max().unwrap_or_default();
    if piece > shmmax {
        return Segments::Refused(format!("kernel.shmmax {shmmax} is below a segment of {piece}"));
    }
    let Observed::Known(shmall) = settings.shmall_pages else {
        return unknown("kernel.shmall", settings.shmall_pages.reason());
    };
    let own = wanted(start, base);
    if own + others > PageCount(shmall) {
        let allowed: Bytes = base.bytes().times(shmall);
        let beside = match others {
            PageCount::ZERO => String::new(),
            others => format!(" beside {} of others", others.of(base)),
        };
        return Segments::Refused(format!(
            "kernel.shmall allows {allowed} of segments: it needs {}{beside}",
            own.of(base)
        ));
    }
    Segments::Fit
}
