use std::io;

use hugewise_diagnose::sizing::{Sizing, SizingRefusal};

use super::closing;
use crate::SizeReport;
use crate::palette::Role;
use crate::screen::{Screen, Spans};
use crate::table;
use crate::view::host::host_lines;
use crate::view::namesakes::namesake_notes;
use crate::view::{budget, size};

pub(crate) fn write(screen: &mut Screen<'_>, report: &SizeReport<'_>) -> io::Result<()> {
    match report.request.memory {
        Some(memory) => {
            let text = size::planned_host(memory);
            screen.write_labeled(2, Role::Strong, "planned for  ", &text)?;
        }
        None => screen.write_field_lines(&host_lines(report.host))?,
    }
    screen.write_blank()?;
    write_sizing(screen, report)?;
    screen.write_blank()?;
    let read = if report.unread.is_empty() { "Everything was read." } else { "" };
    closing::write_closing(screen, Spans::from(read), report.host, report.unread, false)
}

pub(super) fn write_sizing(screen: &mut Screen<'_>, report: &SizeReport<'_>) -> io::Result<()> {
    let sizing = report.sizing;
    write_instances(screen, report)?;
    screen.write_notes(2, namesake_notes(report.host, report.instances))?;
    screen.write_blank()?;
    if let Some(refusal) = &sizing.refusal {
        write_refusal(screen, refusal)?;
    } else {
        table::write(screen, &size::POOLS, &size::pool_rows(&sizing.pools))?;
        for note in size::kept_notes(report) {
            screen.write_labeled(4, Role::Quiet, "  ", &note)?;
        }
    }
    write_setting_changes(screen, report)?;
    screen.write_blank()?;
    write_budget(screen, sizing)?;
    screen.write_blank()?;
    write_page_size_choices(screen, sizing)?;
    screen.write_blank()?;
    write_forecast(screen, sizing)?;
    screen.write_blank()?;
    size::limit_lines(sizing).iter().try_for_each(|line| screen.write_paragraph(4, line))
}

fn write_instances(screen: &mut Screen<'_>, report: &SizeReport<'_>) -> io::Result<()> {
    let sizing = report.sizing;
    table::write(screen, &size::INSTANCES, &size::instance_rows(sizing))?;
    for sized in &sizing.instances {
        if let Some(why) = &sized.asks_unread {
            let why = format!("{why}; unknown whether it asks for huge pages");
            screen.write_note(10, "not read  ", &sized.title(), why)?;
        }
    }
    for (title, why) in size::unplanned_notes(sizing) {
        screen.write_note(10, "no plan   ", &title, why)?;
    }
    for (title, text) in size::next_start_notes(report) {
        screen.write_note(10, "next start ", &title, text)?;
    }
    for left in &sizing.left_out {
        screen.write_note(10, "left out  ", &left.instance.to_string(), &left.why)?;
    }
    Ok(())
}

fn write_refusal(screen: &mut Screen<'_>, refusal: &SizingRefusal) -> io::Result<()> {
    let heading = Spans::new()
        .add(Role::Error, "does not fit")
        .add(Role::Text, &format!("  {}", size::describe_shortage(refusal)));
    screen.write_paragraph(14, &heading)?;
    let lines = refusal.reasons.iter().cloned().chain(size::wanted_lines(refusal));
    lines
        .map(|line| format!("              {line}"))
        .try_for_each(|line| screen.write_paragraph(14, &Spans::from(line.as_str())))
}

fn write_budget(screen: &mut Screen<'_>, sizing: &Sizing) -> io::Result<()> {
    table::write(screen, budget::budget_columns(sizing), &budget::budget_rows(sizing))?;
    for (name, drawn) in budget::draw_budget_bars(sizing, screen.width()) {
        screen.write_line(&Spans::new().add(Role::Quiet, name).add(Role::Text, &drawn))?;
    }
    screen.write_notes(4, budget::work_notes(sizing))?;
    if let Some(note) = budget::most_note(sizing) {
        screen.write_paragraph(4, &Spans::new().add(Role::Warn, &note))?;
    }
    if sizing.budget.unknown.is_empty() {
        return Ok(());
    }
    let unknown = Spans::new()
        .add(Role::Quiet, "not counted: ")
        .add(Role::Text, &sizing.budget.unknown.join(", "));
    screen.write_paragraph(4, &unknown)
}

fn write_setting_changes(screen: &mut Screen<'_>, report: &SizeReport<'_>) -> io::Result<()> {
    for change in size::setting_changes(report) {
        screen.write_blank()?;
        let head = Spans::new().add(Role::Strong, &change.title).add(Role::Text, &change.what);
        screen.write_paragraph(4, &head)?;
        for (number, lines) in (1_u32..).zip(&change.steps) {
            for (at, line) in lines.iter().enumerate() {
                let number = if at == 0 { format!("{number:>2}  ") } else { "    ".to_owned() };
                screen.write_labeled(6, Role::Quiet, &number, line)?;
            }
        }
        for (setting, because) in &change.because {
            let line =
                Spans::new().add(Role::Quiet, &format!("    {setting}: ")).add(Role::Text, because);
            screen.write_paragraph(6, &line)?;
        }
    }
    Ok(())
}

fn write_page_size_choices(screen: &mut Screen<'_>, sizing: &Sizing) -> io::Result<()> {
    if sizing.choices.is_empty() {
        return Ok(());
    }
    let sessions = sizing.choices.iter().map(|row| row.sessions).max().unwrap_or_default();
    table::write(screen, &size::CHOICES, &size::choice_rows(sizing))?;
    let most = format!("  at most means {}", size::sessions_of(sessions));
    screen.write_paragraph(2, &Spans::new().add(Role::Quiet, &most))?;
    for row in sizing.choices.iter().filter(|row| !row.note.is_empty()) {
        let note = Spans::new()
            .add(Role::Quiet, &format!("  {}: ", row.page_size))
            .add(Role::Text, &row.note);
        screen.write_paragraph(4, &note)?;
    }
    Ok(())
}

fn write_forecast(screen: &mut Screen<'_>, sizing: &Sizing) -> io::Result<()> {
    table::write(screen, &size::forecast_columns(sizing), &size::forecast_rows(sizing))?;
    let notes = [size::touching_note(sizing), size::few_note(sizing), size::forecast_note(sizing)];
    notes
        .iter()
        .flatten()
        .try_for_each(|note| screen.write_paragraph(4, &Spans::new().add(Role::Quiet, note)))
}

#[cfg(test)]
mod tests {
    use hugewise_model::Bytes;

    use crate::samples;
    use crate::screen::text_width;

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
        assert!(
            !text.chars().any(|character| character != '\n' && character.is_control()),
            "{text:?}"
        );
        assert!(!text.contains('\u{202e}'));
        for line in samples::prod().sized_text(None, 80).lines() {
            assert!(text_width(line) <= 80, "{line}");
        }
    }
}
