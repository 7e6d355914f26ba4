//! What an experiment will do and need, stated before it begins.

use std::time::Duration;

use hugewise_model::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Experiment, ExperimentFailure, Needs, Options};
use crate::budget::{AvailableResources, ResourceGauge};
use crate::guard::PoolGuard;
use crate::thp_switches;
use crate::variant::Variant;

/// One variant in a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedVariant {
    /// The pages.
    pub pages: Variant,
    /// Memory outside the pool.
    pub memory_bytes: u64,
    /// Memory on pages of the pool.
    pub pool_bytes: u64,
    /// Processes at once.
    pub processes: u32,
    /// Why this variant is left out.
    pub left_out: Option<String>,
}

/// What an experiment will do and need, stated before it begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outline {
    /// The experiment.
    pub experiment: String,
    /// What runs it.
    pub engine: String,
    /// Its variants; the others are compared with the first.
    pub variants: Vec<PlannedVariant>,
    /// Rounds that count.
    pub rounds: u32,
    /// Warm-up rounds, which do not count.
    pub warm_ups: u32,
    /// The order of the variants follows from it.
    pub seed: u64,
    /// Estimated time in seconds.
    pub seconds: f64,
    /// The most memory that any variant takes, pool included.
    pub peak_bytes: u64,
    /// Memory that was available when the plan was made.
    pub available_bytes: u64,
    /// Memory that stays free.
    pub floor_bytes: u64,
    /// What it changes on the host while it runs, and then restores.
    pub changes: Vec<String>,
    /// Why it will not run.
    pub refusal: Option<String>,
}

/// States what `experiment` will do, and refuses where the host has no room for it.
/// Errors: the kernel does not say how much room there is.
pub fn plan_experiment(
    experiment: &dyn Experiment,
    options: &Options,
    gauge: &ResourceGauge,
) -> Result<Outline, ExperimentFailure> {
    let room = gauge.read()?;
    let floor = room.memory_floor().max(options.floor);
    let may_change = PoolGuard::may_change();
    let mut variants = Vec::new();
    let (mut peak, mut time, mut refusal) =
        (Bytes::ZERO, Duration::ZERO, experiment.refusal_reason());
    let mut changes = experiment.host_changes();
    for pages in experiment.variants() {
        let needs = experiment.resource_needs(pages);
        let left_out = unavailable_reason(pages, &needs, may_change);
        if left_out.is_none() {
            let (growth, switches) =
                (pool_growth(pages, &needs), switches_needed(pages, needs.obeys));
            let takes = needs.memory + growth;
            peak = peak.max(takes);
            time += needs.time;
            refusal = refusal.or_else(|| too_large(pages, takes, needs.processes, &room, floor));
            if growth > Bytes::ZERO {
                changes.push(format!("{pages}: grows the pool by {growth}"));
            }
            changes.extend(
                switches.into_iter().map(|(path, value)| format!("{pages}: {path} = {value}")),
            );
        }
        variants.push(PlannedVariant {
            pages,
            memory_bytes: needs.memory.get(),
            pool_bytes: needs.huge.get(),
            processes: needs.processes,
            left_out,
        });
    }
    let free = gauge.read_free_memory().unwrap_or_default().saturating_sub(floor);
    if peak > free {
        changes.insert(0, format!("drops up to {} of page cache", peak.saturating_sub(free)));
    }
    if refusal.is_none() && variants.iter().all(|variant| variant.left_out.is_some()) {
        refusal = Some("this host can provide none of these page sizes".to_owned());
    }
    Ok(Outline {
        experiment: experiment.name().to_owned(),
        engine: experiment.engine().to_owned(),
        variants,
        rounds: options.rounds,
        warm_ups: options.warm_ups,
        seed: options.seed,
        seconds: time.as_secs_f64() * f64::from(options.rounds.saturating_add(options.warm_ups)),
        peak_bytes: peak.get(),
        available_bytes: room.available.get(),
        floor_bytes: floor.get(),
        changes,
        refusal,
    })
}

fn unavailable_reason(pages: Variant, needs: &Needs, may_change: bool) -> Option<String> {
    if let Some(page) = pages.pool_page_size() {
        let Some(available) = crate::kernel_values::available_pages(page) else {
            return Some(format!("this kernel has no {page} pages"));
        };
        let wanted = page.pages_for(needs.huge);
        if available < wanted && !may_change {
            let there = match available.get() {
                0 => "none is available".to_owned(),
                1 => "only 1 is available".to_owned(),
                _ => format!("only {available} are available"),
            };
            return Some(format!(
                "it needs {}, but {there}: run as root",
                wanted.in_pages_of(page)
            ));
        }
        return None;
    }
    if !pages.is_transparent() {
        return None;
    }
    match switches_needed(pages, needs.obeys) {
        changes if changes.is_empty() => None,
        _ if !thp_switches::can_offer_pages(pages, needs.obeys) => {
            Some("this kernel does not offer these transparent huge pages".to_owned())
        }
        _ if !may_change => Some("this host's THP settings forbid it: run as root".to_owned()),
        _ => None,
    }
}

pub(super) fn pool_growth(pages: Variant, needs: &Needs) -> Bytes {
    pages.pool_page_size().map_or(Bytes::ZERO, |page| {
        let wanted = page.pages_for(needs.huge);
        wanted
            .saturating_sub(crate::kernel_values::available_pages(page).unwrap_or_default())
            .to_bytes(page)
    })
}

pub(super) fn switches_needed(
    pages: Variant,
    obeys: thp_switches::ThpMemoryKind,
) -> Vec<(String, &'static str)> {
    if pages.is_transparent() { thp_switches::switches_to_turn(pages, obeys) } else { Vec::new() }
}

fn too_large(
    pages: Variant,
    takes: Bytes,
    processes: u32,
    room: &AvailableResources,
    floor: Bytes,
) -> Option<String> {
    if takes > room.available.saturating_sub(floor) {
        let available = room.available;
        return Some(format!(
            "{pages} needs {takes}, but only {available} are available, and {floor} of that must \
             stay free"
        ));
    }
    let allowed = room.processes?;
    let processes = u64::from(processes);
    (processes > allowed).then(|| {
        format!("{pages} needs {processes} processes, but this cgroup allows only {allowed} more")
    })
}
