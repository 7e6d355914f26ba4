//! What the keys do.

use hugewise_report::palette::Role;
use hugewise_report::screen::Spans;

use crate::watch::view::{Page, View};

const KEYS: [(&str, &str); 13] = [
    ("up, down", "choose an instance or a finding; k and j do the same"),
    ("Tab", "go from the instances to the findings, and back"),
    ("Enter", "look at the chosen one: its links to huge pages, evidence, cost, fix"),
    ("Esc", "back; on the overview, show all again"),
    ("/", "show only what has a text in it: a name, a code; Enter keeps it, Esc drops it"),
    ("s, r", "sort instances by something else; the other way round"),
    ("space", "stop and go on"),
    ("left, right", "stop, and go a frame back or forth"),
    ("[, ]", "ten frames"),
    ("Home, End", "the first frame; the last one, which for a live host is now"),
    ("+, -", "play a recording faster, slower"),
    ("?", "this page"),
    ("q", "quit; Ctrl-C does the same"),
];

pub(super) fn lines() -> Vec<(usize, Spans)> {
    let line =
        |(keys, what): &(&str, &str)| (13, Spans::new().add(Role::Strong, &format!("{keys:13}")).add(Role::Text, what));
    KEYS.iter().map(line).collect()
}

/// The last line: the keys that do something here, as many as fit.
pub(super) fn foot(view: &View, width: usize) -> Spans {
    let keys: &[(&str, &str)] = match (&view.page, view.typing) {
        (_, true) => &[("Enter", "keep"), ("Esc", "drop")],
        (Page::Overview, false) => &[
            ("q", "quit"),
            ("?", "keys"),
            ("Enter", "look"),
            ("Tab", "other list"),
            ("s", "sort"),
            ("/", "find"),
            ("space", "stop, go on"),
            ("left right", "step"),
        ],
        (_, false) => &[("Esc", "back"), ("q", "quit"), ("up down", "scroll"), ("left right", "step")],
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
