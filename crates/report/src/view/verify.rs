//! What `hugewise verify` says.

use hugewise_diagnose::coverage::Coverage;
use hugewise_diagnose::demand;
use hugewise_engines::logs::{LogReport, LogVerdict};
use hugewise_model::{Instance, Limit, PageSize};

use super::describe_demand_source;
use crate::palette::Role;
use crate::table::{TableCell, TableColumn};
use crate::{LogDisagreement, Verified};

pub(crate) const COLUMNS: [TableColumn; 6] = [
    TableColumn::left("instance").cut_to(12),
    TableColumn::left("on huge pages").short("huge"),
    TableColumn::right("pages mapped").short("mapped"),
    TableColumn::right("needed"),
    TableColumn::right("of"),
    TableColumn::left("found by"),
];

pub(crate) fn verified_instance_rows(verified: &Verified<'_>) -> Vec<Vec<TableCell>> {
    let rows = verified.instances.iter().zip(verified.standings);
    rows.map(|(instance, standing)| verified_instance_row(verified, instance, standing)).collect()
}

fn verified_instance_row(
    verified: &Verified<'_>,
    instance: &Instance,
    standing: &Coverage,
) -> Vec<TableCell> {
    let demand = demand::held_against(verified.host, instance)
        .filter(|_| !matches!(standing, Coverage::NotCounted(_)));
    let source = demand
        .as_ref()
        .map(|demand| describe_demand_source(demand.source, demand.error_percent(), ""));
    let shown = match standing {
        Coverage::NotCounted(_) => instance.huge_pages.as_str(),
        other => other.as_str(),
    };
    let held = demand.as_ref().filter(|_| *standing != Coverage::Unknown);
    let held = held.map(|demand| demand::pages_held(instance, demand.page_size).to_string());
    vec![
        TableCell::new(Role::Strong, instance.title()),
        TableCell::new(Role::from(standing), shown),
        TableCell::text_or(held, "-"),
        TableCell::text_or(demand.as_ref().map(|demand| demand.pages), "-"),
        TableCell::text_or(demand.as_ref().map(|demand| demand.page_size), "-"),
        TableCell::text_or(source, "-"),
    ]
}

pub(crate) const fn log_verdict_label(log: &LogReport) -> (Role, &'static str) {
    match log.verdict {
        LogVerdict::Failed => (Role::Error, "the start failed"),
        LogVerdict::Died => (Role::Error, "it died of its huge pages"),
        LogVerdict::All => (Role::Good, "all on huge pages"),
        LogVerdict::Partly => (Role::Warn, "partly on huge pages"),
        LogVerdict::None => (Role::Error, "nothing on huge pages"),
        LogVerdict::Unknown => (Role::Quiet, "nothing about huge pages"),
    }
}

pub(crate) fn log_facts(log: &LogReport) -> Vec<String> {
    let mut facts = Vec::new();
    let of_size = log.page_size.map(|page: PageSize| format!(" of {page}")).unwrap_or_default();
    match (log.allocated, log.expected) {
        (Some(allocated), Some(expected)) => {
            facts.push(format!("{allocated} of {}{of_size}", expected.in_pages()))
        }
        (None, Some(expected)) => facts.push(format!("{}{of_size} wanted", expected.in_pages())),
        (Some(allocated), None) => facts.push(format!("{}{of_size}", allocated.in_pages())),
        (None, None) => {}
    }
    let asked = log.asked_page_size.and_then(|page| Some((page, log.needed_of(page)?)));
    match (log.needed, log.needed_bytes, asked) {
        (Some(needed), _, _) => facts.push(format!("{}{of_size} would do", needed.in_pages())),
        (None, Some(bytes), None) => facts.push(format!("{bytes} of huge pages would be enough")),
        (None, Some(bytes), Some((page, needed))) => {
            facts.push(format!("{bytes}, {}, would do", needed.in_pages_of(page)))
        }
        (None, None, _) => {}
    }
    match log.memlock.get() {
        Some(Limit::At(bytes)) => facts.push(format!("memlock {bytes}")),
        Some(Limit::Unlimited) => facts.push("memlock unlimited".into()),
        None => {}
    }
    facts
}

/// A sentence without its full stop.
pub(crate) fn describe_disagreement(between: &LogDisagreement) -> String {
    format!(
        "{}: its mappings say {}, but {} says {}; the log may be about another start",
        between.instance,
        between.mapped.as_str(),
        between.log,
        between.says
    )
}
