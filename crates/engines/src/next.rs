//! What a server's files make of its next start, held against what runs.
//!
//! A server is asked nothing: that a setting was changed since its start shows in what it has mapped. Where the two agree
//! within the error of what the files come to, nothing was changed, for all that can be told.

use crate::segments;
use hugewise_host::Source;
use hugewise_host::source::Owner;
use hugewise_model::instance::{Demand, DemandSource, NextStart, Segment, Setting};
use hugewise_model::{Asked, Bytes, HugePageUse, Instance, Observed, PageCount, PageSize, Process};

/// What the files, and the command line that the next start takes, say.
pub(crate) struct Files {
    /// Whether they ask.
    pub(crate) asked: Asked,
    /// The setting that decides that.
    pub(crate) setting: Option<Setting>,
    /// The page size that they ask for, and the setting behind it; none where it cannot be told.
    pub(crate) page: Option<(PageSize, Option<Setting>)>,
    /// What its memory will come to; none where they don't tell.
    pub(crate) size: Option<Size>,
}

/// Memory by the files.
pub(crate) struct Size {
    /// It will have at least so much.
    pub(crate) least: Bytes,
    /// It will have at most so much.
    pub(crate) most: Bytes,
    /// The same as pages.
    pub(crate) demands: Vec<Demand>,
    /// The setting that decides most of it.
    pub(crate) setting: Option<Setting>,
    /// Whether it is known to be made by other settings than what is mapped, however little they differ.
    pub(crate) is_other: bool,
}

impl Size {
    /// An amount that may be off by so many percent either way.
    pub(crate) fn about(size: Bytes, error_percent: u8, demands: Vec<Demand>, setting: Option<Setting>) -> Self {
        let error = u64::from(error_percent);
        let least = size.get() / (100 + error) * 100;
        let most = size.get().saturating_add(size.get() / 100 * error);
        Self { least: Bytes(least), most: Bytes(most), demands, setting, is_other: false }
    }
}

/// What the next start asks for, where that is not what runs now. Absent where nothing is mapped that could tell.
pub(crate) fn start(instance: &Instance, files: Files) -> Observed<NextStart> {
    if instance.segments.is_empty() || instance.huge_pages == HugePageUse::Unknown {
        return Observed::Absent;
    }
    let on_huge_pages = instance.huge_pages != HugePageUse::None;
    let other_answer = match files.asked {
        Asked::No | Asked::Cannot => on_huge_pages,
        // It would not have started.
        Asked::Must => !on_huge_pages,
        Asked::Try | Asked::Raises | Asked::Unknown => false,
    };
    let held = |page: PageSize| instance.segments.iter().any(|segment| segment.page_size.get() == Some(page));
    let other_page = files.page.as_ref().filter(|(page, _)| on_huge_pages && !held(*page));
    let other_size = files.size.as_ref().filter(|size| size.is_other || differs(&instance.segments, size));
    if !other_answer && other_page.is_none() && other_size.is_none() {
        return Observed::Absent;
    }
    let changed = if other_answer {
        None
    } else {
        let by_page = other_page.and_then(|(_, setting)| setting.clone());
        by_page.or_else(|| other_size.and_then(|size| size.setting.clone()))
    };
    let demands = match (files.asked, other_size, &files.page) {
        // One that is to be made to ask will ask for what its files come to.
        (_, Some(size), _) => size.demands.clone(),
        (Asked::No | Asked::Cannot, ..) => Vec::new(),
        // What it has mapped was rounded up to larger pages.
        (_, None, Some((page, _))) if is_on_larger(&instance.segments, *page) => match &files.size {
            Some(size) if !size.demands.is_empty() => size.demands.clone(),
            _ => rounded(&instance.segments, *page).into_iter().collect(),
        },
        (_, None, Some((page, _))) => rounded(&instance.segments, *page).into_iter().collect(),
        (_, None, None) => {
            let page = instance.asked_page_size.get();
            let (first, beside) = page.map(|page| segments::demands(&instance.segments, page)).unwrap_or_default();
            first.into_iter().chain(beside).collect()
        }
    };
    Observed::Known(NextStart { asked: files.asked, setting: changed.or(files.setting), demands })
}

/// What the files come to, where that is more than is mapped and the error of what they come to hides whether it was changed.
/// `unchanged` says whether they are known to be as they were at the start.
pub(crate) fn perhaps(instance: &Instance, demands: Vec<Demand>, unchanged: bool) -> Vec<Demand> {
    let asks = matches!(instance.asked, Asked::Try | Asked::Must | Asked::Raises);
    if unchanged || !asks || !instance.next.is_absent() || instance.segments.is_empty() {
        return Vec::new();
    }
    let mapped =
        |page: PageSize| -> PageCount { instance.segments.iter().map(|segment| page.pages_for(segment.size)).sum() };
    demands.into_iter().filter(|demand| demand.pages > mapped(demand.page_size)).collect()
}

/// Whether none of these files was changed, or put in its place, since a process began; not where that cannot be told.
pub(crate) fn are_unchanged(source: &dyn Source, main: &Process, paths: &[String]) -> bool {
    let owner = Owner::of(main);
    let unchanged = |path: &String| source.changed_since_start(&owner, path, main.pid) == Observed::Known(false);
    paths.iter().all(unchanged)
}

/// Whether one of these files was changed, or put in its place, since a process began; not where that cannot be told.
pub(crate) fn are_changed(source: &dyn Source, main: &Process, paths: &[String]) -> bool {
    let owner = Owner::of(main);
    paths.iter().any(|path| source.changed_since_start(&owner, path, main.pid) == Observed::Known(true))
}

/// Whether what is mapped is less or more than the files come to. Memory on huge pages was rounded up to whole ones.
fn differs(segments: &[Segment], size: &Size) -> bool {
    let held: Bytes = segments.iter().map(|segment| segment.size).sum();
    let rounding = |segment: &Segment| match segment.huge.get() {
        Some(true) => segment.page_size.get().map_or(Bytes::ZERO, PageSize::bytes),
        _ => Bytes::ZERO,
    };
    let rounded_by: Bytes = segments.iter().map(rounding).sum();
    held < size.least || held.saturating_sub(rounded_by) > size.most
}

fn is_on_larger(segments: &[Segment], page: PageSize) -> bool {
    segments.iter().any(|segment| segment.page_size.get().is_some_and(|held| held > page))
}

fn rounded(segments: &[Segment], page: PageSize) -> Option<Demand> {
    let pages: PageCount = segments.iter().map(|segment| page.pages_for(segment.size)).sum();
    (pages > PageCount::ZERO).then_some(Demand { page_size: page, pages, source: DemandSource::Measured })
}
