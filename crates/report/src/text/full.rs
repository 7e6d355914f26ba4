//! `hugewise report` for a terminal: what check, size, plan and investigate say, one below the other.

use std::io;

use super::{closing, investigate, plan, size};
use crate::full::VERSION;
use crate::palette::Role;
use crate::screen::{Screen, Spans};
use crate::table;
use crate::view::{moments, target, what_if};
use crate::{HostReport, Layout, date};

pub(crate) fn write(report: &HostReport<'_>, out: &mut dyn io::Write, layout: Layout) -> io::Result<()> {
    let checked = &report.checked;
    let made = date::rfc3339(report.made_at).unwrap_or_else(|| "?".into());
    let head = Spans::new().add(Role::Quiet, &format!("hugewise {VERSION} report, made {made}"));
    Screen::new(out, layout).flow(2, &head)?;
    Screen::new(out, layout).blank()?;
    super::write(checked, out, layout)?;
    {
        let screen = &mut Screen::new(out, layout);
        reasons(screen, report)?;
        title(screen, "Target")?;
        target(screen, report)?;
        title(screen, "Plan")?;
        match &report.planned {
            Ok(planned) => plan::plan(screen, planned)?,
            Err(why) => none(screen, "There is no plan", why)?,
        }
        title(screen, "Sizing")?;
        match &report.sized {
            Ok(sized) => size::answer(screen, sized)?,
            Err(why) => none(screen, "Nothing is sized", why)?,
        }
        what_if(screen, report)?;
        if report.investigation.is_some() {
            title(screen, "Incidents")?;
        }
    }
    if let Some(investigation) = report.investigation {
        investigate::write(investigation, out, layout)?;
    }
    // Of the plan alone: what check could not read stands behind what it says.
    let more = report.planned.as_ref().map(|planned| planned.unread).unwrap_or_default();
    let more: Vec<_> = more.iter().filter(|fact| !checked.unread.contains(fact)).cloned().collect();
    if more.is_empty() {
        return Ok(());
    }
    let screen = &mut Screen::new(out, layout);
    screen.blank()?;
    closing::end(screen, Spans::new(), checked.host, &more, false)
}

/// A heading with a line below it, so that it is seen without colour.
fn title(screen: &mut Screen<'_>, text: &str) -> io::Result<()> {
    screen.blank()?;
    screen.line(&Spans::new().add(Role::Strong, text))?;
    screen.line(&Spans::new().add(Role::Quiet, &"-".repeat(text.len())))
}

fn none(screen: &mut Screen<'_>, what: &str, why: &str) -> io::Result<()> {
    screen.flow(2, &Spans::new().add(Role::Warn, what).add(Role::Text, &format!(": {why}.")))
}

/// Why instances stand as the table of check says.
fn reasons(screen: &mut Screen<'_>, report: &HostReport<'_>) -> io::Result<()> {
    let (rows, more) = moments::rows(&report.checked);
    if rows.is_empty() {
        return Ok(());
    }
    title(screen, "Moments")?;
    for (title, all) in &rows {
        screen.flow(2, &Spans::new().add(Role::Strong, title))?;
        for (heading, at) in moments::HEADINGS.iter().zip(all) {
            let mut line = Spans::new().add(Role::Quiet, &format!("  {heading}: ")).add(at.role, at.standing);
            if !at.why.is_empty() {
                line.push(Role::Text, &format!(", {}", at.why));
            }
            screen.flow(4, &line)?;
        }
    }
    if more > 0 {
        screen.flow(2, &Spans::from(format!("{more} more: --format json has them all").as_str()))?;
    }
    Ok(())
}

fn target(screen: &mut Screen<'_>, report: &HostReport<'_>) -> io::Result<()> {
    let rows = target::rows(&report.checked);
    if rows.is_empty() {
        screen.flow(2, &Spans::from("No pool is needed, and there is none."))?;
    } else {
        table::write(screen, &target::COLUMNS, &rows)?;
    }
    target::notes(&report.checked).iter().try_for_each(|note| screen.flow(2, &Spans::from(note.as_str())))
}

fn what_if(screen: &mut Screen<'_>, report: &HostReport<'_>) -> io::Result<()> {
    let Ok(sized) = &report.sized else { return Ok(()) };
    let rows = what_if::rows(report.checked.host, report.stops, sized.sizing.budget.sessions);
    if rows.is_empty() {
        return Ok(());
    }
    title(screen, "What if")?;
    let cells: Vec<_> = rows.into_iter().map(|row| row.cells).collect();
    table::write(screen, &what_if::COLUMNS, &cells)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::screen::columns;
    use crate::{Layout, plain, samples, stories};

    fn text(sample: &samples::Sample, width: usize) -> String {
        let mut out = Vec::new();
        sample.whole(Some(&stories::hostile()), |report| report.write_text(&mut out, Layout::plain(width)).unwrap());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_part_is_there_under_its_heading() {
        let text = text(&samples::prod(), 80);
        for heading in ["Moments", "Target", "Plan", "Sizing", "What if", "Incidents"] {
            assert!(text.contains(&format!("\n{heading}\n{}\n", "-".repeat(heading.len()))), "{heading}: {text}");
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
                    prop_assert!(columns(line) <= width || is_copied, "{}: {line}", columns(line));
                    prop_assert!(plain::is_clean(line), "{line:?}");
                }
            }
        }
    }
}
