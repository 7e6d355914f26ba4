//! One instance and one finding in full. Each line comes with its hanging indent.

use hugewise_model::{Finding, HugePageUse, LinkState};
use hugewise_report::palette::Role;
use hugewise_report::screen::Spans;
use hugewise_report::view::chain;

use super::lists::with_instance;
use crate::watch::frame::{Frame, InstanceRow};
use crate::watch::view;

/// Column of the text behind labels.
const TEXT: usize = 12;

pub(super) fn render_instance_details(frame: &Frame, title: &str) -> Vec<(usize, Spans)> {
    let Some(row) = frame.instances.iter().flatten().find(|row| row.title == title) else {
        return vec![(0, Spans::from("It is not running at this moment."))];
    };
    let mut lines: Vec<(usize, Spans)> = instance_facts(row)
        .into_iter()
        .map(|(label, text)| render_labeled_line(label, &text))
        .collect();
    lines.push((0, Spans::new()));
    match &row.chain {
        None if row.huge_pages == HugePageUse::All => {
            lines.push((0, Spans::new().add(Role::Good, "All of it is on huge pages.")));
        }
        // A recording may hold figures alone.
        None => lines.push((
            0,
            Spans::from("Unknown: nothing shows which link to its huge pages is broken."),
        )),
        Some(chain) => {
            lines.push((0, Spans::new().add(Role::Strong, "What it needs to get huge pages")));
            for link in &chain.links {
                let state = chain::link_state_label(chain, link);
                let line = Spans::new()
                    .add(Role::Text, &format!("  {:12}", chain::link_title(link.name)))
                    .add(chain::link_state_role(link.state), &format!("{state:4}"))
                    .add(
                        if link.state == LinkState::Broken { Role::Text } else { Role::Quiet },
                        &link.evidence,
                    );
                lines.push((TEXT + 6, line));
            }
        }
    }
    let of_it = |finding: &&Finding| row.id.is_some() && finding.instance == row.id;
    for finding in frame.findings.iter().filter(of_it) {
        lines.push((0, Spans::new()));
        lines.extend(finding_lines(finding));
    }
    lines
}

pub(super) fn render_finding_details(frame: &Frame, key: &str) -> Vec<(usize, Spans)> {
    match view::key_findings(&frame.findings).find(|(of_it, _)| of_it == key) {
        Some((_, finding)) => finding_lines(finding),
        None => vec![(0, Spans::from("It is not running at this moment."))],
    }
}

fn instance_facts(row: &InstanceRow) -> Vec<(&'static str, String)> {
    let mut facts = row.facts.clone();
    facts.push(("segments", format!("{}, {} of it on huge pages", row.segments, row.huge)));
    let mut fact = |label, value: Option<String>| facts.extend(value.map(|value| (label, value)));
    fact("sessions", row.sessions.map(|sessions| sessions.to_string()));
    let each =
        row.page_tables_a_session().map(|each| format!(", {each} a session")).unwrap_or_default();
    fact("page tables", row.page_tables.map(|tables| format!("{tables}{each}")));
    facts
}

fn finding_lines(finding: &Finding) -> Vec<(usize, Spans)> {
    let first = Spans::new()
        .add(Role::from(finding.level), finding.level.as_str())
        .add(Role::Strong, &format!(" {} {}", finding.code, finding.name))
        .add(Role::Text, &format!("  {}", with_instance(finding)));
    let mut lines = vec![(2, first)];
    lines.extend(finding.evidence.iter().map(|fact| render_labeled_line("  seen", fact)));
    lines.extend(finding.cost.iter().map(|cost| render_labeled_line("  cost", cost)));
    lines.extend(finding.fix.iter().map(|line| render_labeled_line("  do", line)));
    lines
}

fn render_labeled_line(label: &str, text: &str) -> (usize, Spans) {
    (TEXT, Spans::new().add(Role::Quiet, &format!("{label:TEXT$}")).add(Role::Text, text))
}
