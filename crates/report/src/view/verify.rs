//! What `hugewise verify` says: each instance with its pages or its broken link, the servers' own words, and where the two
//! disagree.

use hugewise_advice::demand;
use hugewise_advice::standing::Standing;
use hugewise_engines::logs::{LogReport, LogVerdict};
use hugewise_model::{DemandSource, Instance, Limit, PageSize};

use super::standing::role;
use crate::palette::Role;
use crate::table::{Cell, Column};
use crate::{Disagreement, Verified};

/// The columns of the table.
pub(crate) const COLUMNS: [Column; 6] = [
    Column { heading: "instance", short: "instance", right: false, least: Some(12) },
    Column { heading: "on huge pages", short: "huge", right: false, least: None },
    Column { heading: "pages mapped", short: "mapped", right: true, least: None },
    Column { heading: "needed", short: "needed", right: true, least: None },
    Column { heading: "of", short: "of", right: true, least: None },
    Column { heading: "found by", short: "found by", right: false, least: None },
];

/// The table's rows, an instance a row.
pub(crate) fn rows(verified: &Verified<'_>) -> Vec<Vec<Cell>> {
    let rows = verified.instances.iter().zip(verified.standings);
    rows.map(|(instance, standing)| row(verified, instance, standing)).collect()
}

fn row(verified: &Verified<'_>, instance: &Instance, standing: &Standing) -> Vec<Cell> {
    let demand = demand::held_against(verified.host, instance).filter(|_| !matches!(standing, Standing::NotCounted(_)));
    let of =
        |text: Option<String>| text.map_or_else(|| Cell::new(Role::Quiet, "-"), |text| Cell::new(Role::Text, text));
    let source = demand.as_ref().map(|demand| match (demand.source, demand.error_percent()) {
        (DemandSource::Engine, _) => "the server's word".to_owned(),
        (DemandSource::Measured, _) => "its mappings".to_owned(),
        (_, None | Some(0)) => "calculated, exact".to_owned(),
        (_, Some(percent)) => format!("estimate, {percent} %"),
    });
    let shown = match standing {
        Standing::NotCounted(_) => instance.huge_pages.as_str(),
        other => other.as_str(),
    };
    let held = demand.as_ref().filter(|_| *standing != Standing::Unknown);
    let held = held.map(|demand| demand::held(instance, demand.page_size).to_string());
    vec![
        Cell::new(Role::Strong, instance.title()),
        Cell::new(role(standing), shown),
        of(held),
        of(demand.as_ref().map(|demand| demand.pages.to_string())),
        of(demand.as_ref().map(|demand| demand.page_size.to_string())),
        of(source),
    ]
}

/// What a log says of its last start.
pub(crate) const fn verdict(log: &LogReport) -> (Role, &'static str) {
    match log.verdict {
        LogVerdict::Failed => (Role::Error, "the start failed"),
        LogVerdict::All => (Role::Good, "all on huge pages"),
        LogVerdict::Partly => (Role::Warn, "partly on huge pages"),
        LogVerdict::None => (Role::Error, "nothing on huge pages"),
        LogVerdict::Unknown => (Role::Quiet, "nothing about huge pages"),
    }
}

/// What else a log says of it, in parts of a sentence.
pub(crate) fn facts(log: &LogReport) -> Vec<String> {
    let mut facts = Vec::new();
    let of = log.page_size.map(|page: PageSize| format!(" of {page}")).unwrap_or_default();
    match (log.allocated, log.expected) {
        (Some(allocated), Some(expected)) => facts.push(format!("{allocated} of {}{of}", expected.in_pages())),
        (None, Some(expected)) => facts.push(format!("{}{of} wanted", expected.in_pages())),
        (Some(allocated), None) => facts.push(format!("{}{of}", allocated.in_pages())),
        (None, None) => {}
    }
    let asked = log.asked_page_size.and_then(|page| Some((page, log.needed_of(page)?)));
    match (log.needed, log.needed_bytes, asked) {
        (Some(needed), _, _) => facts.push(format!("{}{of} would do", needed.in_pages())),
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

/// Where an instance's mappings and its log are at odds, in a sentence without its full stop.
pub(crate) fn disagreement(between: &Disagreement) -> String {
    format!(
        "{}: its mappings say {}, but {} says {}; the log may be about another start",
        between.instance,
        between.mapped.as_str(),
        between.log,
        between.says
    )
}
