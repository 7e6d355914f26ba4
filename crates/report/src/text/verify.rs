use std::io;

use hugewise_diagnose::coverage::Coverage;
use hugewise_engines::logs::LogReport;

use super::labels::{TEXT, indented_label};
use super::{chain, closing};
use crate::Verified;
use crate::palette::Role;
use crate::screen::{Screen, Spans};
use crate::table;
use crate::view::namesakes::namesake_notes;
use crate::view::verify as view;

pub(crate) fn write(screen: &mut Screen<'_>, verified: &Verified<'_>) -> io::Result<()> {
    if !verified.instances.is_empty() {
        write_instances(screen, verified)?;
        screen.write_blank()?;
    }
    for log in verified.logs {
        write_log_report(screen, log)?;
    }
    for disagreement in verified.disagreements {
        let text = format!("  {}", view::describe_disagreement(disagreement));
        screen.write_labeled(10, Role::Warn, "disagree", &text)?;
    }
    if !verified.logs.is_empty() {
        screen.write_blank()?;
    }
    let mut last = Spans::new().add(verified.verdict.into(), &verified.summary_sentence());
    last.push(Role::Text, if is_complete(verified) { ". Everything was read." } else { "." });
    closing::write_closing(screen, last, verified.host, verified.unread, false)
}

/// Whether everything could be read, the processes too.
fn is_complete(verified: &Verified<'_>) -> bool {
    verified.unread.is_empty() && verified.host.processes.is_known()
}

fn write_instances(screen: &mut Screen<'_>, verified: &Verified<'_>) -> io::Result<()> {
    table::write(screen, &view::COLUMNS, &view::verified_instance_rows(verified))?;
    screen.write_notes(2, namesake_notes(verified.host, verified.instances))?;
    for (instance, standing) in verified.instances.iter().zip(verified.standings) {
        let title = instance.title();
        if let Coverage::NotCounted(why) = standing {
            screen.write_note(13, "not counted  ", &title, why)?;
            continue;
        }
        let chain = verified.assessment.chains.iter().find(|chain| chain.instance == instance.id());
        if let Some(chain) = chain.filter(|_| *standing != Coverage::All) {
            screen.write_blank()?;
            screen.write_paragraph(2, &Spans::new().add(Role::Strong, &title))?;
            chain::write(screen, chain)?;
        }
    }
    Ok(())
}

fn write_log_report(screen: &mut Screen<'_>, log: &LogReport) -> io::Result<()> {
    let started =
        log.started_at.as_deref().map(|time| format!(", started {time}")).unwrap_or_default();
    let about = format!("  {} ({}{started})", log.path, log.format);
    screen.write_labeled(6, Role::Quiet, "log", &about)?;
    let (role, verdict) = view::log_verdict_label(log);
    let mut says = indented_label("says").add(role, verdict);
    for part in view::log_facts(log) {
        says.push(Role::Text, &format!("; {part}"));
    }
    screen.write_paragraph(TEXT, &says)?;
    if !log.reason.is_empty() {
        screen.write_paragraph(TEXT, &indented_label("why").add(Role::Text, &log.reason))?;
    }
    for (at, error) in log.errors.iter().take(MOST_ERRORS).enumerate() {
        let label = indented_label(if at == 0 { "errors" } else { "" });
        screen.write_paragraph(TEXT, &label.add(Role::Text, error))?;
    }
    Ok(())
}

const MOST_ERRORS: usize = 5;

#[cfg(test)]
mod tests {
    use crate::Report;
    use crate::{TextLayout, samples};

    fn text(sample: &samples::Sample) -> String {
        sample.verified(|verified| {
            let mut out = Vec::new();
            verified.write_text(&mut out, TextLayout::plain_text(80)).unwrap();
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
        assert!(
            !text.chars().any(|character| character != '\n' && character.is_control()),
            "{text:?}"
        );
        assert!(!text.contains('\u{202e}'));
    }
}
