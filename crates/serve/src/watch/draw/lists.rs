//! The instances and the findings.

use hugewise_model::{Finding, HugePageUse};
use hugewise_report::palette::Role;
use hugewise_report::plain::escape_line;
use hugewise_report::screen::{Spans, text_width};
use hugewise_report::view::chain;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Text;
use ratatui::widgets::{Cell, Paragraph, Row, Table, TableState};

use super::{cut_spans, cut_text, render_list_title, role_style, to_styled_line};
use crate::watch::frame::{Frame, InstanceRow};
use crate::watch::view::{Panel, View};

/// Narrower lists have fewer columns.
const WIDE: u16 = 78;
/// The selected row of the active list.
const CHOSEN: Style = Style::new().add_modifier(Modifier::REVERSED);

pub(super) fn draw_instances(
    view: &View,
    frame: &Frame,
    screen: &mut ratatui::Frame<'_>,
    area: Rect,
) {
    let [above, below] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    let rows = view.listed_instances();
    let heading = render_list_title(
        view,
        Panel::Instances,
        "Instances",
        &describe_listing(view, frame, rows.len()),
    );
    screen.render_widget(Paragraph::new(to_styled_line(view.palette, &heading)), above);
    if rows.is_empty() {
        let why = match &frame.instances {
            None => "no data about instances",
            Some(all) if all.is_empty() => "no database server runs here",
            Some(_) => "no name matches",
        };
        screen.render_widget(Paragraph::new(format!("  {why}")), below);
        return;
    }
    let names = rows.iter().map(|row| text_width(&escape_line(&row.title))).max().unwrap_or(0);
    let name = names.clamp(8, name_room(area.width));
    let columns = instance_columns(area.width >= WIDE, name);
    let widths: Vec<Constraint> = columns.iter().map(|column| column.width).collect();
    let last = last_column_width(&widths, area.width);
    let cell = |column: &InstanceColumn, (text, role): (String, Role)| {
        let text = Text::styled(text, role_style(view.palette, role));
        Cell::new(if column.right { text.right_aligned() } else { text })
    };
    let row = |row: &&InstanceRow| {
        let cells = columns.iter().map(|column| {
            let (text, role) = (column.cell)(row);
            let text = match column.heading {
                "instance" => cut_text(&text, name),
                "cause" => cut_text(&text, last),
                _ => text,
            };
            cell(column, (text, role))
        });
        Row::new(cells.collect::<Vec<_>>())
    };
    let head = columns.iter().map(|column| cell(column, (column.heading.to_owned(), Role::Quiet)));
    let table = Table::new(rows.iter().map(row), widths).header(Row::new(head.collect::<Vec<_>>()));
    draw_table(view, Panel::Instances, table, screen, below);
}

fn draw_table(
    view: &View,
    panel: Panel,
    table: Table<'_>,
    screen: &mut ratatui::Frame<'_>,
    area: Rect,
) {
    let chosen = if view.active_panel() == panel { CHOSEN } else { Style::new() };
    let table = table.row_highlight_style(chosen).highlight_symbol("  ");
    let mut state = TableState::new().with_selected(view.chosen_row(panel));
    screen.render_stateful_widget(table, area, &mut state);
}

fn describe_listing(view: &View, frame: &Frame, count: usize) -> String {
    let turned = if view.reversed { ", reversed" } else { "" };
    let order = view.order.label();
    let mut text = match frame.instances.as_ref().map(Vec::len) {
        None => String::new(),
        Some(all) if count == all => format!("  {all}, by {order}{turned}"),
        Some(all) => format!("  {count} of {all}, by {order}{turned}"),
    };
    if !view.filter.is_empty() || view.typing {
        let cursor = if view.typing { "_" } else { "" };
        text.push_str(&format!(", with \"{}{cursor}\"", view.filter));
    }
    text
}

struct InstanceColumn {
    heading: &'static str,
    width: Constraint,
    /// Numbers, not words.
    right: bool,
    cell: fn(&InstanceRow) -> (String, Role),
}

/// The columns for which there is room.
fn instance_columns(wide: bool, name: usize) -> Vec<InstanceColumn> {
    let column = |heading, columns, right, cell| InstanceColumn {
        heading,
        width: Constraint::Length(columns),
        right,
        cell,
    };
    let name = u16::try_from(name).unwrap_or(30);
    let mut columns = vec![
        column("instance", name, false, |row| (escape_line(&row.title).into_owned(), Role::Strong)),
        column("sessions", 8, true, |row| (value_or_dash(row.sessions), Role::Text)),
    ];
    if wide {
        columns.push(column("segments", 9, true, |row| (row.segments.to_string(), Role::Text)));
        columns.push(column("huge pages", 10, false, |row| {
            (row.huge_pages.as_str().to_owned(), Role::from(row.huge_pages))
        }));
    }
    columns
        .push(column("page tables", 11, true, |row| (value_or_dash(row.page_tables), Role::Text)));
    if wide {
        columns.push(column("a session", 9, true, |row| {
            (value_or_dash(row.page_tables_a_session()), Role::Text)
        }));
    }
    columns.push(InstanceColumn {
        heading: "cause",
        width: Constraint::Min(6),
        right: false,
        cell: describe_cause,
    });
    columns
}

/// Columns for the longest name, beside the numbers and the beginning of a cause.
fn name_room(width: u16) -> usize {
    const LONGEST: usize = 30;
    /// As `oracle PROD1`: on the narrowest screen the cause gives way.
    const SHORTEST: usize = 12;
    /// The mark, the numbers with their gaps, and the cause, on a wide and on a narrow terminal.
    const BESIDE: (usize, usize) = (2 + 47 + 6 + 6, 2 + 19 + 3 + 6);
    let beside = if width >= WIDE { BESIDE.0 } else { BESIDE.1 };
    usize::from(width).saturating_sub(beside).clamp(SHORTEST, LONGEST)
}

/// What the other columns, the gaps between them and the mark leave.
fn last_column_width(widths: &[Constraint], width: u16) -> usize {
    let taken = widths.iter().map(|width| match width {
        Constraint::Length(columns) => columns + 1,
        _ => 0,
    });
    usize::from(width.saturating_sub(2 + taken.sum::<u16>()))
}

/// Where a recording has the next finding, if there is none at this moment.
fn describe_other_findings(view: &View) -> Option<String> {
    let timeline = &view.timeline;
    let next = timeline.find_new_finding(true).map(|at| (at, "next", "n"));
    let (at, which, key) =
        next.or_else(|| timeline.find_new_finding(false).map(|at| (at, "last", "N")))?;
    let frame = timeline.frame_at(at).filter(|_| !timeline.is_live())?;
    Some(format!(
        "  nothing now; {which}: {} at {} ({key})",
        frame.findings.first()?.name,
        frame.at
    ))
}

fn describe_cause(row: &InstanceRow) -> (String, Role) {
    match (
        row.chain.as_deref().and_then(hugewise_model::HugePageChain::first_broken_link),
        row.huge_pages,
    ) {
        (Some(link), _) => (
            escape_line(&format!("{}: {}", chain::link_title(link.name), link.evidence))
                .into_owned(),
            Role::Error,
        ),
        (None, HugePageUse::All) => ("none: all of it is on huge pages".into(), Role::Good),
        (None, _) => ("-".into(), Role::Quiet),
    }
}

fn value_or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".into(), |value| value.to_string())
}

/// With its instance, unless the summary names it.
pub(super) fn with_instance(finding: &Finding) -> String {
    match finding
        .instance
        .as_ref()
        .map(ToString::to_string)
        .filter(|title| !finding.summary.contains(title))
    {
        Some(title) => format!("{title}: {}", finding.summary),
        None => finding.summary.clone(),
    }
}

pub(super) fn draw_findings(
    view: &View,
    frame: &Frame,
    screen: &mut ratatui::Frame<'_>,
    area: Rect,
) {
    let [above, below] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    let rows = view.listed_findings();
    let all = frame.findings.len();
    let more =
        if rows.len() == all { format!("  {all}") } else { format!("  {} of {all}", rows.len()) };
    let heading = render_list_title(view, Panel::Findings, "Findings", &more);
    screen.render_widget(Paragraph::new(to_styled_line(view.palette, &heading)), above);
    if rows.is_empty() {
        let elsewhere = describe_other_findings(view);
        let (text, role) = match (all, frame.unknown.as_str()) {
            (0, _) if elsewhere.is_some() => (elsewhere.as_deref().unwrap_or_default(), Role::Text),
            (0, "") => ("  nothing is wrong", Role::Good),
            (0, unknown) => (&*format!("  nothing wrong found; {unknown}"), Role::Text),
            _ => ("  no finding matches", Role::Text),
        };
        let text = cut_spans(&Spans::new().add(role, text), area.width.into());
        screen.render_widget(Paragraph::new(to_styled_line(view.palette, &text)), below);
        return;
    }
    let name = |finding: &&Finding| finding.code.as_str().len() + finding.name.len() + 1;
    let name =
        u16::try_from(rows.iter().map(name).max().unwrap_or(0)).unwrap_or(30).min(area.width / 2);
    let widths = [Constraint::Length(5), Constraint::Length(name), Constraint::Min(10)];
    let last = last_column_width(&widths, area.width);
    let row = |finding: &&Finding| {
        let called = format!("{} {}", finding.code, finding.name);
        Row::new(vec![
            Cell::new(Text::styled(
                finding.level.as_str(),
                role_style(view.palette, Role::from(finding.level)),
            )),
            Cell::new(Text::styled(
                cut_text(called.trim(), name.into()),
                role_style(view.palette, Role::Strong),
            )),
            Cell::new(cut_text(&escape_line(&with_instance(finding)), last)),
        ])
    };
    draw_table(view, Panel::Findings, Table::new(rows.iter().map(row), widths), screen, below);
}
