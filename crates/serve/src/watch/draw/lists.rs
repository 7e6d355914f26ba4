//! The instances and the findings.

use hugewise_model::{Bytes, Finding, HugePageUse};
use hugewise_report::palette::Role;
use hugewise_report::plain::clean;
use hugewise_report::screen::{Spans, columns};
use hugewise_report::view::chain;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Text;
use ratatui::widgets::{Cell, Paragraph, Row, Table, TableState};

use super::{cut, cut_text, line, style, title};
use crate::watch::frame::{Frame, InstanceRow};
use crate::watch::view::{Panel, View};

/// Narrower than this, what can be missed is left out.
const WIDE: u16 = 78;

/// The row that is chosen in the list that has the keys.
const CHOSEN: Style = Style::new().add_modifier(Modifier::REVERSED);

pub(super) fn instances(view: &View, frame: &Frame, screen: &mut ratatui::Frame<'_>, area: Rect) {
    let [above, below] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    let rows = view.instances();
    let all = frame.instances.as_ref().map_or(0, Vec::len);
    let turned = if view.reversed { ", reversed" } else { "" };
    let mut more = match rows.len() {
        _ if frame.instances.is_none() => String::new(),
        count if count == all => format!("  {all}, by {}{turned}", view.order.label()),
        count => format!("  {count} of {all}, by {}{turned}", view.order.label()),
    };
    if !view.filter.is_empty() || view.typing {
        let cursor = if view.typing { "_" } else { "" };
        more.push_str(&format!(", with \"{}{cursor}\"", view.filter));
    }
    let heading = title(view, Panel::Instances, "Instances", &more);
    screen.render_widget(Paragraph::new(line(view.palette, &heading)), above);
    if rows.is_empty() {
        let why = match &frame.instances {
            None => "no data about instances",
            Some(all) if all.is_empty() => "no database server runs here",
            Some(_) => "no name matches",
        };
        screen.render_widget(Paragraph::new(format!("  {why}")), below);
        return;
    }
    let wide = area.width >= WIDE;
    let names = rows.iter().map(|row| columns(&clean(&row.title))).max().unwrap_or(0);
    let name = names.clamp(8, name_room(area.width));
    let mut widths = vec![Constraint::Length(u16::try_from(name).unwrap_or(30)), Constraint::Length(8)];
    let mut heads = vec!["instance", "sessions"];
    if wide {
        widths.extend([Constraint::Length(9), Constraint::Length(10)]);
        heads.extend(["segments", "huge pages"]);
    }
    widths.push(Constraint::Length(11));
    heads.push("page tables");
    if wide {
        widths.push(Constraint::Length(9));
        heads.push("a session");
    }
    widths.push(Constraint::Min(6));
    heads.push("cause");
    // The first, and what is wrong, are read from the left; numbers end at the right.
    let right = |at: usize| at > 0 && at + 1 < heads.len() && heads.get(at) != Some(&"huge pages");
    let cell = |at: usize, text: String, role: Role| {
        let text = Text::styled(text, style(view.palette, role));
        Cell::new(if right(at) { text.right_aligned() } else { text })
    };
    let last = room(&widths, area.width);
    let row = |row: &&InstanceRow| {
        let mut cells = vec![(cut_text(&clean(&row.title), name), Role::Strong), (number(row.sessions), Role::Text)];
        if wide {
            cells.push((row.segments.to_string(), Role::Text));
            cells.push((row.huge_pages.as_str().to_owned(), Role::from(row.huge_pages)));
        }
        cells.push((amount(row.page_tables), Role::Text));
        if wide {
            cells.push((amount(row.page_tables_a_session()), Role::Text));
        }
        let (text, role) = cause(row);
        cells.push((cut_text(&text, last), role));
        Row::new(cells.into_iter().enumerate().map(|(at, (text, role))| cell(at, text, role)).collect::<Vec<_>>())
    };
    let head = heads.iter().enumerate().map(|(at, text)| cell(at, (*text).to_owned(), Role::Quiet));
    let table = Table::new(rows.iter().map(row), widths)
        .header(Row::new(head.collect::<Vec<_>>()))
        .row_highlight_style(if view.panel() == Panel::Instances { CHOSEN } else { Style::new() })
        .highlight_symbol("  ");
    let mut state = TableState::new().with_selected(view.chosen(Panel::Instances));
    screen.render_stateful_widget(table, below, &mut state);
}

/// Columns for the longest name: the numbers beside it and the beginning of a cause stay on the screen.
fn name_room(width: u16) -> usize {
    const LONGEST: usize = 30;
    /// As `oracle PROD1`: on the narrowest screen the cause gives way.
    const SHORTEST: usize = 12;
    /// The mark, the numbers with their gaps, and the cause: on a wide terminal, and on a narrow one.
    const BESIDE: (usize, usize) = (2 + 47 + 6 + 6, 2 + 19 + 3 + 6);
    let beside = if width >= WIDE { BESIDE.0 } else { BESIDE.1 };
    usize::from(width).saturating_sub(beside).clamp(SHORTEST, LONGEST)
}

/// Columns that are left for the last cell of a row, beside the others, the gaps between them and the mark of what is chosen.
fn room(widths: &[Constraint], width: u16) -> usize {
    let taken = widths.iter().map(|width| match width {
        Constraint::Length(columns) => columns + 1,
        _ => 0,
    });
    usize::from(width.saturating_sub(2 + taken.sum::<u16>()))
}

/// What is said in a recording where nothing is found at this moment, and something is at another.
fn elsewhere(view: &View) -> Option<String> {
    let timeline = &view.timeline;
    let next = timeline.begin(true).map(|at| (at, "next", "n"));
    let (at, which, key) = next.or_else(|| timeline.begin(false).map(|at| (at, "last", "N")))?;
    let frame = timeline.at(at).filter(|_| !timeline.is_live())?;
    Some(format!("  nothing now; {which}: {} at {} ({key})", frame.findings.first()?.name, frame.at))
}

/// The link that is broken, or that all hold.
fn cause(row: &InstanceRow) -> (String, Role) {
    match (row.chain.as_deref().and_then(hugewise_model::Chain::broken), row.huge_pages) {
        (Some(link), _) => (clean(&format!("{}: {}", chain::name(link.name), link.evidence)).into_owned(), Role::Error),
        (None, HugePageUse::All) => ("none: all of it is on huge pages".into(), Role::Good),
        (None, _) => ("-".into(), Role::Quiet),
    }
}

fn number(count: Option<u64>) -> String {
    count.map_or_else(|| "-".into(), |count| count.to_string())
}

fn amount(bytes: Option<Bytes>) -> String {
    bytes.map_or_else(|| "-".into(), |bytes| bytes.to_string())
}

/// What a finding says, with the instance that it is about: most name it themselves.
pub(super) fn with_instance(finding: &Finding) -> String {
    match finding.instance.as_ref().map(ToString::to_string).filter(|title| !finding.summary.contains(title)) {
        Some(title) => format!("{title}: {}", finding.summary),
        None => finding.summary.clone(),
    }
}

pub(super) fn findings(view: &View, frame: &Frame, screen: &mut ratatui::Frame<'_>, area: Rect) {
    let [above, below] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    let rows = view.findings();
    let all = frame.findings.len();
    let more = if rows.len() == all { format!("  {all}") } else { format!("  {} of {all}", rows.len()) };
    let heading = title(view, Panel::Findings, "Findings", &more);
    screen.render_widget(Paragraph::new(line(view.palette, &heading)), above);
    if rows.is_empty() {
        let elsewhere = elsewhere(view);
        let (text, role) = match (all, frame.unknown.as_str()) {
            (0, _) if elsewhere.is_some() => (elsewhere.as_deref().unwrap_or_default(), Role::Text),
            (0, "") => ("  nothing is wrong", Role::Good),
            (0, unknown) => (&*format!("  nothing wrong found; {unknown}"), Role::Text),
            _ => ("  no finding matches", Role::Text),
        };
        let text = cut(&Spans::new().add(role, text), area.width.into());
        screen.render_widget(Paragraph::new(line(view.palette, &text)), below);
        return;
    }
    let name = |finding: &&Finding| finding.code.as_str().len() + finding.name.len() + 1;
    let name = u16::try_from(rows.iter().map(name).max().unwrap_or(0)).unwrap_or(30).min(area.width / 2);
    let widths = [Constraint::Length(5), Constraint::Length(name), Constraint::Min(10)];
    let last = room(&widths, area.width);
    let row = |finding: &&Finding| {
        let called = format!("{} {}", finding.code, finding.name);
        Row::new(vec![
            Cell::new(Text::styled(finding.level.as_str(), style(view.palette, Role::from(finding.level)))),
            Cell::new(Text::styled(cut_text(called.trim(), name.into()), style(view.palette, Role::Strong))),
            Cell::new(cut_text(&clean(&with_instance(finding)), last)),
        ])
    };
    let table = Table::new(rows.iter().map(row), widths)
        .row_highlight_style(if view.panel() == Panel::Findings { CHOSEN } else { Style::new() })
        .highlight_symbol("  ");
    let mut state = TableState::new().with_selected(view.chosen(Panel::Findings));
    screen.render_stateful_widget(table, below, &mut state);
}
