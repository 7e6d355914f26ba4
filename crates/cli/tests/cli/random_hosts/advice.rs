//! The one list: what `check` tells to do is what the plan does, in its order, and every start that
//! is foretold to go wrong has its finding and its remedy.

use std::collections::BTreeMap;

use hugewise_change::plan::Plan;
use hugewise_diagnose::coverage::Coverage;
use hugewise_diagnose::prediction::{Obstacle, PredictionStage, StageForecast};
use hugewise_diagnose::remedy::to_do;
use hugewise_diagnose::{Assessment, demand};
use hugewise_model::{Host, HugePageUse, Instance, InstanceId, Level, Remedy};

/// Where the list and the plan differ, or a start goes wrong without a word.
pub(crate) fn differing(
    host: &Host,
    instances: &[Instance],
    assessment: &Assessment,
    plan: &Plan,
) -> Vec<String> {
    let lines = to_do(host, instances, assessment, Level::Warn);
    let mut wrong = unlisted_steps(plan, &lines);
    wrong.extend(unordered_steps(plan, &lines));
    wrong.extend(silent_forecasts(instances, assessment));
    wrong
}

/// Whether a step of this ID carries the remedy out, as a line tells it.
fn carries(id: &str, (remedy, text): &(Remedy, String)) -> bool {
    let of = |instance: &InstanceId| format!("{}-{}", instance.engine, instance.name);
    match remedy {
        Remedy::SetPool(page) | Remedy::GiveBack(page) => {
            let name = page.to_string().replace(' ', "").replace("iB", "");
            let at_boot = id.starts_with("pools-") && text.contains("boot");
            at_boot || id.starts_with(&format!("pool-{name}"))
        }
        Remedy::KeepAtBoot(_) => id.starts_with("pools-"),
        Remedy::SetGroup(_) => id == "shm-group",
        Remedy::SetShmLimits => id == "shm-limits",
        Remedy::RaiseMemlock(_) => id.starts_with("memlock-"),
        Remedy::SetThp | Remedy::KeepThpAtBoot => id.starts_with("thp"),
        Remedy::SetSetting(instance) => id == of(instance),
        Remedy::Restart(instance) => id == format!("restart-{}", of(instance)),
        Remedy::ByHand(_) | Remedy::Consider(_) => false,
    }
}

fn unlisted_steps(plan: &Plan, lines: &[(Remedy, String)]) -> Vec<String> {
    let is_listed = |id: &str| lines.iter().any(|line| carries(id, line));
    let unlisted = plan.steps.iter().filter(|step| !is_listed(&step.id));
    unlisted
        .map(|step| format!("the plan has a step that check does not tell: {}", step.id))
        .collect()
}

/// The last line of each step comes no earlier than that of the step before it: a line may tell of
/// a pool now and at each boot, which is two steps.
fn unordered_steps(plan: &Plan, lines: &[(Remedy, String)]) -> Vec<String> {
    // That a reboot brings what the files say by then is a line of its own, and no step.
    let is_step = |text: &str| !text.starts_with("reboot: ");
    let place = |id: &str| lines.iter().rposition(|line| carries(id, line) && is_step(&line.1));
    let places: Vec<(&str, usize)> =
        plan.steps.iter().filter_map(|step| Some((step.id.as_str(), place(&step.id)?))).collect();
    let turned = places.windows(2).filter(|pair| pair[0].1 > pair[1].1);
    turned.map(|pair| format!("check tells {} before {}", pair[1].0, pair[0].0)).collect()
}

fn silent_forecasts(instances: &[Instance], assessment: &Assessment) -> Vec<String> {
    let mut findings: BTreeMap<&InstanceId, Vec<&Remedy>> = BTreeMap::new();
    for finding in &assessment.findings {
        if let Some(id) = &finding.instance {
            findings.entry(id).or_default().extend(&finding.remedies);
        }
    }
    let all = || assessment.findings.iter().flat_map(|finding| &finding.remedies);
    let mut silent = Vec::new();
    for instance in instances.iter().filter(|instance| instance.is_trusted()) {
        let Some(moments) = assessment.situation.forecasts_for(instance) else { continue };
        for stage in [PredictionStage::Restart, PredictionStage::Boot] {
            let forecast = moments.at_stage(stage);
            if !is_bad(forecast) || !(is_big(instance) || is_down(forecast)) {
                continue;
            }
            let (id, what) = (instance.id(), forecast.coverage.as_str());
            let about = format!("{} is {what} at {}", instance.engine, stage.as_str());
            if forecast.why.is_none() {
                silent.push(format!("{about}, without a reason"));
            }
            // Limits of all segments are the host's.
            let is_of_host = forecast.obstacle == Some(Obstacle::Segments)
                && all().any(|remedy| *remedy == Remedy::SetShmLimits);
            if findings.get(&id).is_none_or(Vec::is_empty) && !is_of_host {
                let obstacle = forecast.obstacle;
                silent.push(format!("{about}, and no finding tells what to do: {obstacle:?}"));
            }
        }
    }
    silent
}

fn is_bad(forecast: &StageForecast) -> bool {
    forecast.rank().is_some_and(|rank| rank < 3)
}

fn is_down(forecast: &StageForecast) -> bool {
    forecast.coverage == Coverage::DoesNotStart
}

/// Of a container's server on base pages counts what it has touched.
fn is_big(instance: &Instance) -> bool {
    let on_base = || demand::on_base_pages(instance);
    let counted = if instance.huge_pages == HugePageUse::None { on_base() } else { None };
    counted.unwrap_or_else(|| instance.segment_bytes()) >= demand::BIG_SEGMENT
}
