//! What the keys do.

use hugewise_report::palette::Role;
use hugewise_report::screen::Spans;

use crate::watch::view::{View, ViewPage};

const KEYS: [(&str, &str); 14] = [
    ("up, down", "select an instance or a finding (also k, j)"),
    ("Tab", "switch between instances and findings"),
    ("Enter", "show details: links to huge pages, evidence, cost, fix"),
    ("Esc", "go back; on the overview, clear the filter"),
    ("/", "filter by text, such as a name or a code; Enter keeps it, Esc clears it"),
    ("s, r", "change the sort column; reverse the order"),
    ("space", "pause and resume"),
    ("left, right", "pause, and step one frame back or forward"),
    ("n, N", "jump to where the next incident or finding begins; to the previous one"),
    ("[, ]", "ten frames"),
    ("Home, End", "jump to the first frame, or the last (now, on a live host)"),
    ("+, -", "play a recording faster or slower"),
    ("?", "this page"),
    ("q", "quit (also Ctrl-C)"),
];

pub(super) fn render_help_lines() -> Vec<(usize, Spans)> {
    let line = |(keys, what): &(&str, &str)| {
        (13, Spans::new().add(Role::Strong, &format!("{keys:13}")).add(Role::Text, what))
    };
    KEYS.iter().map(line).collect()
}

/// As many keys as fit.
pub(super) fn render_key_hints(view: &View, width: usize) -> Spans {
    let keys: &[(&str, &str)] = match (&view.page, view.typing) {
        (_, true) => &[("Enter", "keep"), ("Esc", "drop")],
        (ViewPage::Overview, false) if view.timeline.is_live() => &[
            ("q", "quit"),
            ("?", "keys"),
            ("Enter", "look"),
            ("Tab", "other list"),
            ("s", "sort"),
            ("/", "find"),
            ("space", "stop, go on"),
            ("left right", "step"),
        ],
        (ViewPage::Overview, false) => &[
            ("q", "quit"),
            ("?", "keys"),
            ("space", "stop, go on"),
            ("left right", "step"),
            ("n N", "incidents"),
            ("Enter", "look"),
            ("Tab", "other list"),
            ("/", "find"),
            ("s", "sort"),
        ],
        (_, false) => {
            &[("Esc", "back"), ("q", "quit"), ("up down", "scroll"), ("left right", "step")]
        }
    };
    let mut line = Spans::new();
    for (key, what) in keys {
        let gap = if line.width() == 0 { "" } else { "   " };
        if line.width() + gap.len() + key.len() + 1 + what.len() > width {
            break;
        }
        line.push(Role::Text, gap);
        line.push(Role::Strong, key);
        line.push(Role::Quiet, &format!(" {what}"));
    }
    line
}
