//! `hugewise size` for a terminal.

use std::io;

use hugewise_advice::sizing::{PoolTarget, Refusal, Sizing};

use super::{apart, closing, host};
use crate::palette::Role;
use crate::screen::{Screen, Spans};
use crate::table;
use crate::view::{self, size};
use crate::{Layout, SizeReport};

pub(crate) fn write(report: &SizeReport<'_>, out: &mut dyn io::Write, layout: Layout) -> io::Result<()> {
    let screen = &mut Screen::new(out, layout);
    match report.request.memory {
        Some(memory) => {
            let text = size::planned_host(memory);
            screen.flow(2, &Spans::new().add(Role::Strong, "planned for  ").add(Role::Text, &text))?;
        }
        None => host::write(screen, report.host)?,
    }
    screen.blank()?;
    answer(screen, report)?;
    screen.blank()?;
    let read = if report.unread.is_empty() { "Everything was read." } else { "" };
    closing::end(screen, Spans::from(read), report.host, report.unread, false)
}

/// All of it but the host and the last lines.
pub(super) fn answer(screen: &mut Screen<'_>, report: &SizeReport<'_>) -> io::Result<()> {
    let sizing = report.sizing;
    instances(screen, report)?;
    apart::write(screen, report.host, report.instances)?;
    screen.blank()?;
    if let Some(refusal) = &sizing.refusal {
        refused(screen, refusal)?;
    } else {
        pools(screen, &sizing.pools)?;
        for note in size::kept_notes(report) {
            screen.flow(4, &Spans::new().add(Role::Quiet, "  ").add(Role::Text, &note))?;
        }
    }
    changes(screen, report)?;
    screen.blank()?;
    budget(screen, sizing)?;
    screen.blank()?;
    choices(screen, sizing)?;
    screen.blank()?;
    forecast(screen, sizing)?;
    screen.blank()?;
    limits(screen, sizing)
}

fn instances(screen: &mut Screen<'_>, report: &SizeReport<'_>) -> io::Result<()> {
    let sizing = report.sizing;
    table::write(screen, &size::INSTANCES, &size::instance_rows(sizing))?;
    for sized in &sizing.instances {
        if let Some(why) = &sized.asks_unread {
            let line = Spans::new().add(Role::Quiet, "not read  ").add(Role::Strong, &sized.title());
            screen.flow(10, &line.add(Role::Text, &format!(": {why}; unknown whether it asks for huge pages")))?;
        }
    }
    for (title, text) in size::next_start_notes(report) {
        let line = Spans::new().add(Role::Quiet, "next start ").add(Role::Strong, &title);
        screen.flow(10, &line.add(Role::Text, &format!(": {text}")))?;
    }
    for left in &sizing.left_out {
        let line = Spans::new().add(Role::Quiet, "left out  ").add(Role::Strong, &left.instance.to_string());
        screen.flow(10, &line.add(Role::Text, &format!(": {}", left.why)))?;
    }
    Ok(())
}

fn pools(screen: &mut Screen<'_>, pools: &[PoolTarget]) -> io::Result<()> {
    table::write(screen, &size::POOLS, &size::pool_rows(pools))
}

fn refused(screen: &mut Screen<'_>, refusal: &Refusal) -> io::Result<()> {
    let heading =
        Spans::new().add(Role::Error, "does not fit").add(Role::Text, &format!("  {}", size::shortage(refusal)));
    screen.flow(14, &heading)?;
    let lines = refusal.reasons.iter().cloned().chain(size::wanted_lines(refusal));
    lines.map(|line| format!("              {line}")).try_for_each(|line| screen.flow(14, &Spans::from(line.as_str())))
}

fn budget(screen: &mut Screen<'_>, sizing: &Sizing) -> io::Result<()> {
    table::write(screen, view::budget::columns(sizing), &view::budget::rows(sizing))?;
    for (name, drawn) in view::budget::pictures(sizing, screen.width()) {
        screen.line(&Spans::new().add(Role::Quiet, name).add(Role::Text, &drawn))?;
    }
    for (title, text) in view::budget::work_notes(sizing) {
        let line = Spans::new().add(Role::Strong, &title).add(Role::Text, &format!(": {text}"));
        screen.flow(4, &line)?;
    }
    if let Some(note) = view::budget::most_note(sizing) {
        screen.flow(4, &Spans::new().add(Role::Warn, &note))?;
    }
    if sizing.budget.unknown.is_empty() {
        return Ok(());
    }
    let unknown = Spans::new().add(Role::Quiet, "not counted: ").add(Role::Text, &sizing.budget.unknown.join(", "));
    screen.flow(4, &unknown)
}

/// What is changed before a server can have its pages, in its order.
fn changes(screen: &mut Screen<'_>, report: &SizeReport<'_>) -> io::Result<()> {
    for change in size::changes(report) {
        screen.blank()?;
        let head = Spans::new().add(Role::Strong, &change.title).add(Role::Text, &change.what);
        screen.flow(4, &head)?;
        for (number, lines) in (1_u32..).zip(&change.steps) {
            for (at, line) in lines.iter().enumerate() {
                let number = if at == 0 { format!("{number:>2}  ") } else { "    ".to_owned() };
                screen.flow(6, &Spans::new().add(Role::Quiet, &number).add(Role::Text, line))?;
            }
        }
        for (setting, because) in &change.because {
            let line = Spans::new().add(Role::Quiet, &format!("    {setting}: ")).add(Role::Text, because);
            screen.flow(6, &line)?;
        }
    }
    Ok(())
}

fn choices(screen: &mut Screen<'_>, sizing: &Sizing) -> io::Result<()> {
    if sizing.choices.is_empty() {
        return Ok(());
    }
    let sessions = sizing.choices.iter().map(|row| row.sessions).max().unwrap_or_default();
    table::write(screen, &size::CHOICES, &size::choice_rows(sizing))?;
    let most = format!("  at most means {}", size::sessions_of(sessions));
    screen.flow(2, &Spans::new().add(Role::Quiet, &most))?;
    for row in sizing.choices.iter().filter(|row| !row.note.is_empty()) {
        let note = Spans::new().add(Role::Quiet, &format!("  {}: ", row.page_size)).add(Role::Text, &row.note);
        screen.flow(4, &note)?;
    }
    Ok(())
}

fn forecast(screen: &mut Screen<'_>, sizing: &Sizing) -> io::Result<()> {
    table::write(screen, &size::forecast_columns(sizing), &size::forecast_rows(sizing))?;
    let notes = [size::touching_note(sizing), size::few_note(sizing), size::forecast_note(sizing)];
    notes.iter().flatten().try_for_each(|note| screen.flow(4, &Spans::new().add(Role::Quiet, note)))
}

fn limits(screen: &mut Screen<'_>, sizing: &Sizing) -> io::Result<()> {
    size::limit_lines(sizing).iter().try_for_each(|line| screen.flow(4, line))
}

#[cfg(test)]
mod tests {
    use hugewise_model::Bytes;

    use crate::samples;
    use crate::screen::columns;

    #[test]
    fn two_servers_that_fit() {
        insta::assert_snapshot!(samples::prod().sized_text(None, 80));
    }

    #[test]
    fn a_host_that_is_too_small() {
        insta::assert_snapshot!(samples::prod().sized_text(Some(Bytes::from_gib(24)), 80));
    }

    #[test]
    fn hostile_names_reach_no_terminal_and_no_line_is_too_wide() {
        let text = samples::hostile().sized_text(None, 80);
        assert!(!text.chars().any(|c| c != '\n' && c.is_control()), "{text:?}");
        assert!(!text.contains('\u{202e}'));
        for line in samples::prod().sized_text(None, 80).lines() {
            assert!(columns(line) <= 80, "{line}");
        }
    }
}
