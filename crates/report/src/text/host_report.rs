//! `hugewise report` for a terminal: what check, size, plan and investigate say.

use std::io;

use super::{closing, investigate, plan, size};
use crate::host_report::VERSION;
use crate::palette::Role;
use crate::screen::{Screen, Spans};
use crate::table;
use crate::view::{stages, target, what_if};
use crate::{HostReport, date};

pub(crate) fn write(screen: &mut Screen<'_>, report: &HostReport<'_>) -> io::Result<()> {
    let checked = &report.checked;
    let made = date::format_rfc3339(report.made_at).unwrap_or_else(|| "?".into());
    let head = Spans::new().add(Role::Quiet, &format!("hugewise {VERSION} report, made {made}"));
    screen.write_paragraph(2, &head)?;
    screen.write_blank()?;
    super::write(screen, checked)?;
    write_stage_reasons(screen, report)?;
    write_title(screen, "Target")?;
    write_target(screen, report)?;
    write_title(screen, "Plan")?;
    match &report.planned {
        Ok(planned) => plan::write_plan_body(screen, planned)?,
        Err(why) => write_missing_part(screen, "There is no plan", why)?,
    }
    write_title(screen, "Sizing")?;
    match &report.sized {
        Ok(sized) => size::write_sizing(screen, sized)?,
        Err(why) => write_missing_part(screen, "Nothing is sized", why)?,
    }
    what_if(screen, report)?;
    if let Some(investigation) = report.investigation {
        write_title(screen, "Incidents")?;
        investigate::write(screen, investigation)?;
    }
    // Only what the plan adds: what check could not read was said there.
    let more = report.planned.as_ref().map(|planned| planned.unread).unwrap_or_default();
    let more: Vec<_> = more.iter().filter(|fact| !checked.unread.contains(fact)).cloned().collect();
    if more.is_empty() {
        return Ok(());
    }
    screen.write_blank()?;
    closing::write_closing(screen, Spans::new(), checked.host, &more, false)
}

/// With a line below it, so that it is seen without colour.
fn write_title(screen: &mut Screen<'_>, text: &str) -> io::Result<()> {
    screen.write_blank()?;
    screen.write_line(&Spans::new().add(Role::Strong, text))?;
    screen.write_line(&Spans::new().add(Role::Quiet, &"-".repeat(text.len())))
}

fn write_missing_part(screen: &mut Screen<'_>, what: &str, why: &str) -> io::Result<()> {
    screen.write_labeled(2, Role::Warn, what, &format!(": {why}."))
}

fn write_stage_reasons(screen: &mut Screen<'_>, report: &HostReport<'_>) -> io::Result<()> {
    let (rows, more) = stages::stage_rows(&report.checked);
    if rows.is_empty() {
        return Ok(());
    }
    write_title(screen, "Moments")?;
    for (title, all) in &rows {
        screen.write_paragraph(2, &Spans::new().add(Role::Strong, title))?;
        for (heading, at) in stages::HEADINGS.iter().zip(all) {
            let mut line =
                Spans::new().add(Role::Quiet, &format!("  {heading}: ")).add(at.role, at.standing);
            if !at.why.is_empty() {
                line.push(Role::Text, &format!(", {}", at.why));
            }
            screen.write_paragraph(4, &line)?;
        }
    }
    if more > 0 {
        screen
            .write_paragraph(2, &Spans::from(format!("{more} more: --format json has them all")))?;
    }
    Ok(())
}

fn write_target(screen: &mut Screen<'_>, report: &HostReport<'_>) -> io::Result<()> {
    let rows = target::target_rows(&report.checked);
    if rows.is_empty() {
        screen.write_paragraph(2, &Spans::from("No pool is needed, and there is none."))?;
    } else {
        table::write(screen, &target::COLUMNS, &rows)?;
    }
    target::target_notes(&report.checked)
        .iter()
        .try_for_each(|note| screen.write_paragraph(2, &Spans::from(note.as_str())))
}

fn what_if(screen: &mut Screen<'_>, report: &HostReport<'_>) -> io::Result<()> {
    let Ok(sized) = &report.sized else { return Ok(()) };
    let rows =
        what_if::what_if_rows(report.checked.host, report.stops, sized.sizing.budget.sessions);
    if rows.is_empty() {
        return Ok(());
    }
    write_title(screen, "What if")?;
    let cells: Vec<_> = rows.into_iter().map(|row| row.cells).collect();
    table::write(screen, &what_if::COLUMNS, &cells)
}

#[cfg(test)]
mod tests {
    use crate::Report;
    use proptest::prelude::*;

    use crate::screen::text_width;
    use crate::testing::sample_investigations;
    use crate::{TextLayout, plain, samples};

    fn text(sample: &samples::Sample, width: usize) -> String {
        let mut out = Vec::new();
        sample.with_whole_report(Some(&sample_investigations::hostile_investigation()), |report| {
            report.write_text(&mut out, TextLayout::plain_text(width)).unwrap()
        });
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_part_is_there_under_its_heading() {
        let text = text(&samples::prod(), 80);
        for heading in ["Moments", "Target", "Plan", "Sizing", "What if", "Incidents"] {
            assert!(
                text.contains(&format!("\n{heading}\n{}\n", "-".repeat(heading.len()))),
                "{heading}: {text}"
            );
        }
        assert!(text.contains("report, made 2023-11-14T22:13:20Z"), "{text}");
    }

    proptest! {
        #[test]
        fn no_report_is_wider_than_the_terminal_or_acts_on_it(width in 40_usize..160) {
            for sample in [samples::prod(), samples::empty(), samples::unprivileged(), samples::hostile()] {
                for line in text(&sample, width).lines() {
                    // A diff is to be copied.
                    let is_copied = line.starts_with(['+', '-', '$', '/']) || line.starts_with("      ");
                    prop_assert!(text_width(line) <= width || is_copied, "{}: {line}", text_width(line));
                    prop_assert!(plain::is_clean(line), "{line:?}");
                }
            }
        }
    }
}
