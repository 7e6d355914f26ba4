use crate::palette::Role;
use crate::screen::Spans;

/// Column of the labels under a finding; the width of those at the edge.
pub(super) const LABELS: usize = 6;
/// Column of the text beside the labels under a finding.
pub(super) const TEXT: usize = 13;

/// `      cost   `.
pub(super) fn indented_label(label: &str) -> Spans {
    let (before, width) = (" ".repeat(LABELS), TEXT - LABELS);
    Spans::new().add(Role::Text, &before).add(Role::Quiet, &format!("{label:width$}"))
}

/// `cost  `.
pub(super) fn at_the_edge(label: &str) -> Spans {
    Spans::new().add(Role::Quiet, &format!("{label:LABELS$}"))
}
