//! Compares what a server's files make of its next start with what runs.
//!
//! No server is asked: a setting that was changed since its start shows in what is mapped. Where
//! the two agree within the error of the estimate, nothing was changed.

use crate::shared::segments;
use hugewise_host::Source;
use hugewise_host::source::Owner;
use hugewise_model::instance::{Demand, DemandSource, NextStart, Segment, ServerSetting};
use hugewise_model::{
    Bytes, HugePageMode, HugePageUse, Instance, Observed, PageCount, PageSize, Process,
};

pub(crate) struct NextStartFiles {
    pub(crate) asked: HugePageMode,
    pub(crate) setting: Option<ServerSetting>,
    pub(crate) page: Option<(PageSize, Option<ServerSetting>)>,
    pub(crate) size: Option<NextStartSize>,
}

pub(crate) struct NextStartSize {
    pub(crate) least: Bytes,
    pub(crate) most: Bytes,
    pub(crate) demands: Vec<Demand>,
    pub(crate) setting: Option<ServerSetting>,
    /// Whether settings were changed for certain, however little the size differs.
    pub(crate) is_other: bool,
}

impl NextStartSize {
    pub(crate) fn with_error_percent(
        size: Bytes,
        error_percent: u8,
        demands: Vec<Demand>,
        setting: Option<ServerSetting>,
    ) -> Self {
        let error = u64::from(error_percent);
        let least = size.get() / (100 + error) * 100;
        let most = size.get().saturating_add(size.get() / 100 * error);
        Self { least: Bytes(least), most: Bytes(most), demands, setting, is_other: false }
    }
}

/// What the next start asks for, where that differs from what runs and something is mapped.
pub(crate) fn predict_from_files(
    instance: &Instance,
    files: NextStartFiles,
) -> Observed<NextStart> {
    if instance.segments.is_empty() || instance.huge_pages == HugePageUse::Unknown {
        return Observed::Absent;
    }
    let on_huge_pages = instance.huge_pages != HugePageUse::None;
    let other_answer = match files.asked {
        HugePageMode::No | HugePageMode::Cannot => on_huge_pages,
        // It would not have started.
        HugePageMode::Must => !on_huge_pages,
        HugePageMode::Try | HugePageMode::Raises | HugePageMode::Unknown => false,
    };
    let held_sizes = || instance.segments.iter().filter_map(|segment| segment.page_size.get());
    let other_page = files
        .page
        .as_ref()
        .filter(|(page, _)| on_huge_pages && held_sizes().all(|held| held != *page));
    let other_size = files
        .size
        .as_ref()
        .filter(|size| size.is_other || differs_from_mapped(&instance.segments, size));
    if !other_answer && other_page.is_none() && other_size.is_none() {
        return Observed::Absent;
    }
    let by_page = other_page.and_then(|(_, setting)| setting.clone());
    let changed = by_page.or_else(|| other_size.and_then(|size| size.setting.clone()));
    let demands = match (files.asked, other_size, &files.page) {
        // One that is to be made to ask will ask for what its files come to.
        (_, Some(size), _) => size.demands.clone(),
        (HugePageMode::No | HugePageMode::Cannot, ..) => Vec::new(),
        (_, None, Some((page, _))) => {
            // What is mapped may have been rounded up to larger pages.
            let larger = held_sizes().any(|held| held > *page);
            let by_files = files.size.as_ref().map(|size| &size.demands).filter(|_| larger);
            match by_files.filter(|demands| !demands.is_empty()) {
                Some(demands) => demands.clone(),
                None => rounded_demand(&instance.segments, *page).into_iter().collect(),
            }
        }
        (_, None, None) => {
            let page = instance.asked_page_size.get();
            let (first, beside) = page
                .map(|page| segments::segment_demands(&instance.segments, page))
                .unwrap_or_default();
            first.into_iter().chain(beside).collect()
        }
    };
    Observed::Known(NextStart {
        asked: files.asked,
        setting: changed.filter(|_| !other_answer).or(files.setting),
        demands,
    })
}

/// Demands above what is mapped, where the error of the estimate hides whether settings changed.
/// `unchanged`: the files are known to be as they were at the start.
pub(crate) fn possible_demands(
    instance: &Instance,
    demands: Vec<Demand>,
    unchanged: bool,
) -> Vec<Demand> {
    let asks =
        matches!(instance.asked, HugePageMode::Try | HugePageMode::Must | HugePageMode::Raises);
    if unchanged || !asks || !instance.next.is_absent() || instance.segments.is_empty() {
        return Vec::new();
    }
    let mapped = |page: PageSize| -> PageCount {
        instance.segments.iter().map(|segment| page.pages_for(segment.size)).sum()
    };
    demands.into_iter().filter(|demand| demand.pages > mapped(demand.page_size)).collect()
}

/// Whether all files are known to be unchanged since a process began.
pub(crate) fn are_unchanged(source: &dyn Source, main: &Process, paths: &[String]) -> bool {
    let owner = Owner::from_process(main);
    let unchanged = |path: &String| {
        source.changed_since_start(&owner, path, main.pid) == Observed::Known(false)
    };
    paths.iter().all(unchanged)
}

/// Whether one of these files is known to be changed since a process began.
pub(crate) fn are_changed(source: &dyn Source, main: &Process, paths: &[String]) -> bool {
    let owner = Owner::from_process(main);
    paths
        .iter()
        .any(|path| source.changed_since_start(&owner, path, main.pid) == Observed::Known(true))
}

/// Whether the files come to more or less than is mapped, which huge pages round up.
fn differs_from_mapped(segments: &[Segment], size: &NextStartSize) -> bool {
    let held: Bytes = segments.iter().map(|segment| segment.size).sum();
    let rounding = |segment: &Segment| match segment.huge.get() {
        Some(true) => segment.page_size.get().map_or(Bytes::ZERO, PageSize::bytes),
        _ => Bytes::ZERO,
    };
    let rounded_by: Bytes = segments.iter().map(rounding).sum();
    held < size.least || held.saturating_sub(rounded_by) > size.most
}

fn rounded_demand(segments: &[Segment], page: PageSize) -> Option<Demand> {
    let pages: PageCount = segments.iter().map(|segment| page.pages_for(segment.size)).sum();
    (pages > PageCount::ZERO).then_some(Demand {
        page_size: page,
        pages,
        source: DemandSource::Measured,
    })
}
