//! The table of instances.

use std::io;

use hugewise_advice::forecast::per_process;
use hugewise_advice::situation::Moment;
use hugewise_advice::standing::Standing;
use hugewise_advice::stranger;
use hugewise_model::instance::SessionModel;
use hugewise_model::{Bytes, HugePageUse, Instance, InstanceId, Observed};

use super::{chain, shown};
use crate::Checked;
use crate::palette::Role;
use crate::screen::{Screen, Spans};
use crate::table::{self, Cell, Column};

pub(crate) const COLUMNS: [Column; 8] = [
    Column { heading: "instance", short: "instance", right: false, least: Some(12) },
    Column { heading: "sessions", short: "sess.", right: true, least: None },
    Column { heading: "segments", short: "segments", right: true, least: None },
    Column { heading: "now", short: "now", right: false, least: None },
    Column { heading: "restart", short: "restart", right: false, least: None },
    Column { heading: "reboot", short: "reboot", right: false, least: None },
    Column { heading: "page tables", short: "tables", right: true, least: None },
    Column { heading: "a session", short: "session", right: true, least: None },
];

pub(super) fn write(screen: &mut Screen<'_>, checked: &Checked<'_>) -> io::Result<()> {
    table::write(screen, &COLUMNS, &rows(checked))?;
    strangers(screen, checked.instances)?;
    let assessment = checked.assessment;
    let mentioned = |id: &InstanceId| assessment.findings.iter().any(|finding| finding.instance.as_ref() == Some(id));
    for chain in assessment.chains.iter().filter(|chain| !mentioned(&chain.instance)) {
        screen.blank()?;
        screen.flow(2, &Spans::new().add(Role::Strong, &chain.instance.to_string()))?;
        chain::write(screen, chain)?;
    }
    Ok(())
}

/// How many strangers are told of one by one: anybody can start as many as he likes.
const MOST_STRANGERS: usize = 3;

/// Who is shown and not planned for, and why.
fn strangers(screen: &mut Screen<'_>, instances: &[Instance]) -> io::Result<()> {
    let strangers: Vec<&Instance> = instances.iter().filter(|instance| !instance.is_vouched()).collect();
    for instance in strangers.iter().take(MOST_STRANGERS) {
        let text =
            format!("{}; it is planned for only by name: {}", stranger::why(instance), stranger::plan_for(instance));
        screen.flow(2, &Spans::new().add(Role::Strong, &instance.title()).add(Role::Text, &format!(": {text}")))?;
    }
    if let Some(more) = strangers.len().checked_sub(MOST_STRANGERS).filter(|more| *more > 0) {
        screen.flow(2, &Spans::new().add(Role::Text, &format!("and nothing vouches for {more} more")))?;
    }
    Ok(())
}

pub(crate) fn rows(checked: &Checked<'_>) -> Vec<Vec<Cell>> {
    checked.instances.iter().map(|instance| row(checked, instance)).collect()
}

fn row(checked: &Checked<'_>, instance: &Instance) -> Vec<Cell> {
    let title = match &instance.version {
        Observed::Known(version) if !instance.name.starts_with(version.as_str()) => {
            format!("{} {version}", instance.title())
        }
        _ => instance.title(),
    };
    let moments = checked.assessment.situation.of(instance);
    let at = |moment: Moment| match moments {
        Some(moments) => outlook(&moments.at(moment).standing),
        None => Cell::new(Role::Quiet, "?"),
    };
    vec![
        Cell::new(Role::Strong, title),
        Cell::new(Role::Text, shown(&instance.sessions)),
        Cell::new(Role::Text, segments(instance)),
        at(Moment::Now),
        at(Moment::Restart),
        at(Moment::Boot),
        Cell::new(Role::Text, shown(&instance.page_tables)),
        Cell::new(Role::Text, shown(&a_session(instance))),
    ]
}

/// A moment in one word.
fn outlook(standing: &Standing) -> Cell {
    let word = match standing {
        Standing::DoesNotStart => "fails",
        Standing::Unknown => "?",
        Standing::NotCounted(_) => "-",
        Standing::All | Standing::Partly | Standing::None => standing.as_str(),
    };
    Cell::new(super::verify::role(standing), word)
}

fn segments(instance: &Instance) -> String {
    match (instance.segments.is_empty(), instance.huge_pages) {
        (true, HugePageUse::Unknown) => "?".into(),
        (true, _) => "-".into(),
        (false, _) => instance.segment_bytes().to_string(),
    }
}

/// Page tables of one more session, as the forecast reckons them. Sessions that are threads
/// share the one set of page tables and cost none of their own.
fn a_session(instance: &Instance) -> Observed<Bytes> {
    match instance.session_model {
        SessionModel::Threads => Observed::Absent,
        SessionModel::Processes => instance.page_tables.clone().and_then(|_| Observed::from(per_process(instance))),
    }
}
