//! One number for each pool, whoever prints it: the remedies of check, size, the plan and the
//! metrics, parsed out of what they write.

use std::collections::BTreeMap;

use hugewise_change::plan::{Change, Plan};
use hugewise_diagnose::remedy::to_do;
use hugewise_diagnose::sizing::{self, Request};
use hugewise_diagnose::target::{TargetRequest, goals_for_sizing, to_size};
use hugewise_model::{Level, Remedy};
use hugewise_report::Report;
use hugewise_report::openmetrics::{ExpositionFormat, Metered};
use hugewise_report::{CheckReport, SizeReport};
use serde_json::Value;

use crate::random_hosts::judge::Seen;

/// Where two of them differ.
pub(crate) fn differing(seen: &Seen, plan: &Plan) -> Vec<String> {
    let checked = || CheckReport {
        host: &seen.host,
        instances: &seen.instances,
        assessment: &seen.assessment,
        unread: &[],
        root: None,
    };
    let metered = Metered {
        checked: checked(),
        collectors: &[],
        readings: 1,
        cpu: None,
        recorder: None,
        version: "1",
    };
    let metrics = hugewise_report::openmetrics::write(&metered, ExpositionFormat::Prometheus);
    let sized = sized(seen);
    let refused = plan.refusal.is_some();
    let remedies = to_do(&seen.host, &seen.instances, &seen.assessment, Level::Info);
    let mut wrong = Vec::new();
    for now in seen.host.pools.as_known().into_iter().flatten() {
        let (page, pool) = (now.page_size.bytes().get(), now.page_size.to_string());
        let name = format!("hugewise_pool_target_pages{{page_bytes=\"{page}\"}} ");
        let Some(target) =
            metrics.lines().find_map(|line| line.strip_prefix(&name)?.parse::<u64>().ok())
        else {
            wrong.push(format!("no target of {pool} pages among the metrics"));
            continue;
        };
        for (remedy, text) in &remedies {
            let of_pool = matches!(remedy, Remedy::SetPool(page_size) if page_size.bytes().get() == page)
                && !refused;
            // What other pages have to be given back for first is not set now.
            let of_pool = of_pool
                && !text.starts_with("give back the huge pages that nobody uses, before others");
            if of_pool && !numbers(text).contains(&target) {
                wrong.push(format!("check says {text:?}, the metrics {target}"));
            }
        }
        let own = now
            .total
            .get()
            .unwrap_or_default()
            .saturating_sub(now.surplus.get().unwrap_or_default())
            .get();
        let wanted = sized.get(&page).copied().unwrap_or_default();
        // Where no server needs any, size has no number, and a pool may be filled up to its file
        // all the same.
        let is_sized = !sized.is_empty();
        if is_sized && target > own && wanted != target {
            wrong.push(format!("size says {wanted} pages of {pool}, the metrics {target}"));
        }
        if let Some(planned) = planned(
            plan,
            page,
            now.nodes.iter().map(|node| node.total.get().unwrap_or_default().get()),
        ) && planned != target
        {
            wrong
                .push(format!("the plan sets {planned} pages of {pool}, the metrics say {target}"));
        }
        let total = now.total.get().unwrap_or_default().get();
        if let Some(pages) = kept(plan, page)
            && (pages != total || total == own)
        {
            wrong.push(format!(
                "the plan keeps {pages} pages of {pool} where there are {total}, {own} of them \
                     the pool's"
            ));
        }
        let at_boot = plan
            .at_boot
            .iter()
            .find(|planned_boot_pool| planned_boot_pool.page_size.bytes().get() == page)
            .map(|other_planned_boot_pool| other_planned_boot_pool.pages);
        // A plan that is refused leaves the boot as it is.
        let name = format!("hugewise_pool_boot_target_pages{{page_bytes=\"{page}\"}} ");
        let kept = metrics.lines().find_map(|line| line.strip_prefix(&name)?.parse::<u64>().ok());
        if at_boot.is_some_and(|pages| kept.is_none_or(|kept| pages < kept) && !refused) {
            wrong.push(format!(
                "the plan has the boot bring {at_boot:?} pages of {pool}, the metrics say {kept:?}"
            ));
        }
    }
    wrong
}

/// Pages by page size as `size --format json` has them.
fn sized(seen: &Seen) -> BTreeMap<u64, u64> {
    let instances =
        to_size(&seen.host, &seen.instances, &seen.assessment, TargetRequest::default());
    let request = Request::default();
    let Ok(sizing) = sizing::size_servers(&seen.host, &instances, &request) else {
        return BTreeMap::new();
    };
    let planned = goals_for_sizing(&seen.host, &seen.instances, &seen.assessment, &sizing);
    let mut text = Vec::new();
    let report = SizeReport {
        host: &seen.host,
        instances: &seen.instances,
        request: &request,
        sizing: &sizing,
        planned: &planned,
        shrunk: &[],
        unread: &[],
    };
    report.write_json(&mut text).unwrap();
    let json: Value = serde_json::from_slice(&text).unwrap();
    let pools = json["pools"]
        .as_array()
        .filter(|pools| !pools.is_empty())
        .or_else(|| json["refusal"]["wanted"].as_array());
    let mut pages = BTreeMap::<u64, u64>::new();
    for pool in pools.iter().copied().flatten() {
        *pages.entry(pool["page_bytes"].as_u64().unwrap()).or_default() +=
            pool["pages"].as_u64().unwrap();
    }
    // What a plan makes of all pools of a size: more, where its files ask for some beyond what is
    // needed.
    for pool in pools.iter().copied().flatten() {
        let sum = pages.get_mut(&pool["page_bytes"].as_u64().unwrap()).unwrap();
        *sum = pool["planned_pages"].as_u64().unwrap_or_default().max(*sum);
    }
    pages
}

/// Pages that the steps for now leave a pool with; none where they don't touch it, or keep what
/// servers hold beyond it until somebody makes room for the rest.
fn planned(plan: &Plan, page: u64, nodes: impl Iterator<Item = u64>) -> Option<u64> {
    let mut nodes: Vec<u64> = nodes.collect();
    let mut whole = None;
    let mut any = false;
    for (step, change) in plan.changes() {
        let Change::Value(value) = change else { continue };
        if step.id.ends_with("-kept") {
            continue;
        }
        let Some(pool) = value.pool.filter(|pool| pool.page_size.bytes().get() == page) else {
            continue;
        };
        let pages = value.after.parse().unwrap();
        any = true;
        match pool.node {
            Some(node) => nodes[usize::try_from(node).unwrap()] = pages,
            None => whole = Some(pages),
        }
    }
    any.then(|| whole.unwrap_or_else(|| nodes.iter().sum()))
}

/// Pages that a pool has once what servers hold beyond it is its own; none where no step does that.
fn kept(plan: &Plan, page: u64) -> Option<u64> {
    plan.changes().filter(|(step, _)| step.id.ends_with("-kept")).find_map(|(_, change)| {
        match change {
            Change::Value(value) if value.pool?.page_size.bytes().get() == page => {
                value.after.parse().ok()
            }
            _ => None,
        }
    })
}

/// Whole numbers of a text, with commas in them.
fn numbers(text: &str) -> Vec<u64> {
    text.split(' ').filter_map(|word| word.replace(',', "").parse().ok()).collect()
}
