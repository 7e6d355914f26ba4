//! `hugewise verify` for a terminal.

use std::io;

use hugewise_advice::standing::Standing;
use hugewise_engines::logs::LogReport;

use super::labels::{TEXT, labelled};
use super::{apart, chain, closing};
use crate::palette::Role;
use crate::screen::{Screen, Spans};
use crate::table;
use crate::view::standing::role;
use crate::view::verify as view;
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
        let text = format!("  {}", view::disagreement(disagreement));
        screen.flow(10, &Spans::new().add(Role::Warn, "disagree").add(Role::Text, &text))?;
    }
    if !verified.logs.is_empty() {
        screen.blank()?;
    }
    let mut last = Spans::new().add(role(verified.verdict), &verified.sentence());
    last.push(Role::Text, if is_complete(verified) { ". Everything was read." } else { "." });
    closing::end(screen, last, verified.host, verified.unread, false)
}

/// Whether nothing was there that could not be read, and what runs here was there to be read.
fn is_complete(verified: &Verified<'_>) -> bool {
    verified.unread.is_empty() && verified.host.processes.is_known()
}

fn instances(screen: &mut Screen<'_>, verified: &Verified<'_>) -> io::Result<()> {
    table::write(screen, &view::COLUMNS, &view::rows(verified))?;
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

fn report(screen: &mut Screen<'_>, log: &LogReport) -> io::Result<()> {
    let started = log.started_at.as_deref().map(|time| format!(", started {time}")).unwrap_or_default();
    let about = format!("  {} ({}{started})", log.path, log.format);
    screen.flow(6, &Spans::new().add(Role::Quiet, "log").add(Role::Text, &about))?;
    let (role, verdict) = view::verdict(log);
    let mut says = labelled("says").add(role, verdict);
    for part in view::facts(log) {
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

/// Errors of a log that text shows.
const MOST_ERRORS: usize = 5;

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
