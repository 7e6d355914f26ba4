//! What `hugewise verify` says: each instance with its pages or its broken link, the servers' own
//! words, and where the two disagree.

use std::io;

use hugewise_advice::demand;
use hugewise_advice::standing::Standing;
use hugewise_engines::logs::{LogReport, LogVerdict};
use hugewise_model::{DemandSource, Instance, Limit, PageSize};

use super::labels::{TEXT, labelled};
use super::{apart, chain, closing};
use crate::palette::Role;
use crate::screen::{Screen, Spans};
use crate::table::{self, Cell, Column};
use crate::view::standing::role;
use crate::{Layout, Verified};

pub(crate) fn write(verified: &Verified<'_>, out: &mut dyn io::Write, layout: Layout) -> io::Result<()> {
    let screen = &mut Screen::new(out, layout);
    if !verified.instances.is_empty() {
        instances(screen, verified)?;
        screen.blank()?;
    }
    for log in verified.logs {
        report(screen, log)?;
    }
    for disagreement in verified.disagreements {
        let text = format!(
            "  {}: its mappings say {}, {} says {}; the log may tell of another start",
            disagreement.instance,
            disagreement.mapped.as_str(),
            disagreement.log,
            disagreement.says
        );
        screen.flow(10, &Spans::new().add(Role::Warn, "disagree").add(Role::Text, &text))?;
    }
    if !verified.logs.is_empty() {
        screen.blank()?;
    }
    let mut last = Spans::new().add(role(verified.verdict), &verified.summary());
    last.push(Role::Text, if is_complete(verified) { ". Everything was read." } else { "." });
    closing::end(screen, last, verified.host, verified.unread, false)
}

/// Whether nothing was there that could not be read, and what runs here was there to be read.
fn is_complete(verified: &Verified<'_>) -> bool {
    verified.unread.is_empty() && verified.host.processes.is_known()
}

pub(crate) const COLUMNS: [Column; 6] = [
    Column { heading: "instance", short: "instance", right: false, least: Some(12) },
    Column { heading: "on huge pages", short: "huge", right: false, least: None },
    Column { heading: "pages mapped", short: "mapped", right: true, least: None },
    Column { heading: "needed", short: "needed", right: true, least: None },
    Column { heading: "of", short: "of", right: true, least: None },
    Column { heading: "found by", short: "found by", right: false, least: None },
];

fn instances(screen: &mut Screen<'_>, verified: &Verified<'_>) -> io::Result<()> {
    table::write(screen, &COLUMNS, &rows(verified))?;
    apart::write(screen, verified.host, verified.instances)?;
    for (instance, standing) in verified.instances.iter().zip(verified.standings) {
        let title = instance.title();
        if let Standing::NotCounted(why) = standing {
            let line = Spans::new().add(Role::Quiet, "not counted  ").add(Role::Strong, &title);
            screen.flow(13, &line.add(Role::Text, &format!(": {why}")))?;
            continue;
        }
        let chain = verified.assessment.chains.iter().find(|chain| chain.instance == instance.id());
        if let Some(chain) = chain.filter(|_| *standing != Standing::All) {
            screen.blank()?;
            screen.flow(2, &Spans::new().add(Role::Strong, &title))?;
            chain::write(screen, chain)?;
        }
    }
    Ok(())
}

pub(crate) fn rows(verified: &Verified<'_>) -> Vec<Vec<Cell>> {
    let rows = verified.instances.iter().zip(verified.standings);
    rows.map(|(instance, standing)| row(verified, instance, standing)).collect()
}

fn row(verified: &Verified<'_>, instance: &Instance, standing: &Standing) -> Vec<Cell> {
    let demand = demand::of(verified.host, instance).filter(|_| !matches!(standing, Standing::NotCounted(_)));
    let of =
        |text: Option<String>| text.map_or_else(|| Cell::new(Role::Quiet, "-"), |text| Cell::new(Role::Text, text));
    let source = demand.as_ref().map(|demand| match demand.source {
        DemandSource::Engine => "the server's word".to_owned(),
        DemandSource::Measured => "its mappings".to_owned(),
        DemandSource::Estimated { error_percent: 0 } => "reckoned, exact".to_owned(),
        DemandSource::Estimated { error_percent } => format!("estimate, {error_percent} %"),
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

fn report(screen: &mut Screen<'_>, log: &LogReport) -> io::Result<()> {
    let started = log.started_at.as_deref().map(|time| format!(", started {time}")).unwrap_or_default();
    let about = format!("  {} ({}{started})", log.path, log.format);
    screen.flow(6, &Spans::new().add(Role::Quiet, "log").add(Role::Text, &about))?;
    let (role, verdict) = verdict(log);
    let mut says = labelled("says").add(role, verdict);
    for part in facts(log) {
        says.push(Role::Text, &format!("; {part}"));
    }
    screen.flow(TEXT, &says)?;
    if !log.reason.is_empty() {
        screen.flow(TEXT, &labelled("why").add(Role::Text, &log.reason))?;
    }
    for (at, error) in log.errors.iter().take(MOST_ERRORS).enumerate() {
        let label = labelled(if at == 0 { "errors" } else { "" });
        screen.flow(TEXT, &label.add(Role::Text, error))?;
    }
    Ok(())
}

/// What a log says of its last start.
pub(crate) const fn verdict(log: &LogReport) -> (Role, &'static str) {
    match log.verdict {
        LogVerdict::Failed => (Role::Error, "the start failed"),
        LogVerdict::All => (Role::Good, "all on huge pages"),
        LogVerdict::Partly => (Role::Warn, "partly on huge pages"),
        LogVerdict::None => (Role::Error, "nothing on huge pages"),
        LogVerdict::Unknown => (Role::Quiet, "it does not tell"),
    }
}

/// Errors of a log that text shows.
const MOST_ERRORS: usize = 5;

pub(crate) fn facts(log: &LogReport) -> Vec<String> {
    let mut facts = Vec::new();
    let of = log.page_size.map(|page: PageSize| format!(" of {page}")).unwrap_or_default();
    match (log.allocated, log.expected) {
        (Some(allocated), Some(expected)) => facts.push(format!("{allocated} of {expected} pages{of}")),
        (None, Some(expected)) => facts.push(format!("{expected} pages{of} wanted")),
        (Some(allocated), None) => facts.push(format!("{allocated} pages{of}")),
        (None, None) => {}
    }
    let asked = log.asked_page_size.and_then(|page| Some((page, log.needed_of(page)?)));
    match (log.needed, log.needed_bytes, asked) {
        (Some(needed), _, _) => facts.push(format!("{needed} pages{of} would do")),
        (None, Some(bytes), None) => facts.push(format!("{bytes} of huge pages would do")),
        (None, Some(bytes), Some((page, needed))) => facts.push(format!("{bytes}, {needed} pages of {page}, would do")),
        (None, None, _) => {}
    }
    match log.memlock.get() {
        Some(Limit::At(bytes)) => facts.push(format!("memlock {bytes}")),
        Some(Limit::Unlimited) => facts.push("memlock unlimited".into()),
        None => {}
    }
    facts
}

#[cfg(test)]
mod tests {
    use crate::{Layout, samples};

    fn text(sample: &samples::Sample) -> String {
        sample.verified(|verified| {
            let mut out = Vec::new();
            verified.write_text(&mut out, Layout::plain(80)).unwrap();
            String::from_utf8(out).unwrap()
        })
    }

    #[test]
    fn a_server_on_base_pages_and_what_its_log_says() {
        insta::assert_snapshot!(text(&samples::prod()));
    }

    #[test]
    fn a_host_without_a_database() {
        insta::assert_snapshot!(text(&samples::empty()));
    }

    #[test]
    fn hostile_names_reach_no_terminal() {
        let text = text(&samples::hostile());
        assert!(!text.chars().any(|c| c != '\n' && c.is_control()), "{text:?}");
        assert!(!text.contains('\u{202e}'));
    }
}
