//! A view on a screen of any size.

mod detail;
mod head;
mod help;
mod lists;
mod pools;

use hugewise_report::Palette;
use hugewise_report::palette::Role;
use hugewise_report::screen::{Spans, fitting_bytes, text_width};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph};

use super::frame::Frame;
use super::view::{Panel, View, ViewPage};

/// Nothing can be read on less.
const LEAST: (u16, u16) = (40, 10);
/// From this width on, details are shown beside the overview, which has `OVERVIEW` columns then.
const WITH_DETAIL: u16 = 150;
const OVERVIEW: u16 = 100;

pub(super) fn draw_view(view: &mut View, screen: &mut ratatui::Frame<'_>) {
    let area = screen.area();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        let text = format!("Terminal too small: needs {} x {}", LEAST.0, LEAST.1);
        screen.render_widget(Paragraph::new(text), area);
        return;
    }
    let [body, foot] = Layout::vertical([Constraint::Min(1), Constraint::Length(1)]).areas(area);
    match (view.page.clone(), view.timeline.current_frame().cloned()) {
        (ViewPage::Help, _) => draw_page(view, "Keys", &help::render_help_lines(), screen, body),
        (_, None) => screen.render_widget(
            Paragraph::new(to_styled_line(view.palette, &head::render_waiting_line(view))),
            body,
        ),
        (ViewPage::Overview, Some(frame)) => {
            let beside = body.width >= WITH_DETAIL;
            let left = if beside { OVERVIEW } else { body.width };
            let [left, gap, right] = Layout::horizontal([
                Constraint::Length(left),
                Constraint::Length(3 * u16::from(beside)),
                Constraint::Min(0),
            ])
            .areas(body);
            draw_overview(view, &frame, screen, left);
            if beside {
                let rule = vec![
                    Line::from(Span::styled(
                        " \u{2502} ",
                        role_style(view.palette, Role::Quiet)
                    ));
                    body.height.into()
                ];
                screen.render_widget(Paragraph::new(rule), gap);
                draw_chosen_details(view, &frame, screen, right);
            }
        }
        (ViewPage::Instance(title), Some(frame)) => {
            draw_page(view, &title, &detail::render_instance_details(&frame, &title), screen, body);
        }
        (ViewPage::Finding(key), Some(frame)) => {
            draw_page(view, "Finding", &detail::render_finding_details(&frame, &key), screen, body);
        }
    }
    screen.render_widget(
        Paragraph::new(to_styled_line(
            view.palette,
            &help::render_key_hints(view, foot.width.into()),
        )),
        foot,
    );
}

fn draw_chosen_details(view: &View, frame: &Frame, screen: &mut ratatui::Frame<'_>, area: Rect) {
    let text = match view.chosen_key() {
        Some(key) if view.active_panel() == Panel::Instances => {
            let mut lines = vec![(0, Spans::new().add(Role::Strong, &key)), (0, Spans::new())];
            lines.extend(detail::render_instance_details(frame, &key));
            lines
        }
        Some(key) => detail::render_finding_details(frame, &key),
        None => vec![(0, Spans::new().add(Role::Quiet, "Nothing is selected."))],
    };
    let lines: Vec<Spans> =
        text.iter().flat_map(|(hang, spans)| spans.wrap_lines(area.width.into(), *hang)).collect();
    let room = usize::from(area.height);
    let mut shown: Vec<Spans> = lines.iter().take(room).cloned().collect();
    if let Some(last) = shown.last_mut().filter(|_| lines.len() > room) {
        *last = Spans::new().add(Role::Quiet, "\u{2026} Enter shows all of it");
    }
    screen.render_widget(to_paragraph(view.palette, &shown), area);
}

fn draw_overview(view: &View, frame: &Frame, screen: &mut ratatui::Frame<'_>, body: Rect) {
    let heads = head::render_head_lines(view, frame, body.width.into());
    let pools = pools::render_pool_lines(frame, body.width.into());
    let lists = body.height.saturating_sub(line_height(&heads) + line_height(&pools));
    // On a low screen the lists go first, as they say what is wrong.
    let (heads, pools) = match lists {
        0..8 => (heads.into_iter().take(3).collect(), Vec::new()),
        _ => (heads, pools),
    };
    let lists = body.height.saturating_sub(line_height(&heads) + line_height(&pools));
    let (instances, findings) =
        split_list_lines(lists, view.listed_instances().len(), view.listed_findings().len());
    let [head_area, pool_area, instance_area, finding_area, _] = Layout::vertical([
        Constraint::Length(line_height(&heads)),
        Constraint::Length(line_height(&pools)),
        Constraint::Length(instances),
        Constraint::Length(findings),
        Constraint::Min(0),
    ])
    .areas(body);
    let fit = |lines: Vec<Spans>| {
        lines.iter().map(|line| cut_spans(line, body.width.into())).collect::<Vec<_>>()
    };
    screen.render_widget(to_paragraph(view.palette, &fit(heads)), head_area);
    screen.render_widget(to_paragraph(view.palette, &fit(pools)), pool_area);
    lists::draw_instances(view, frame, screen, instance_area);
    lists::draw_findings(view, frame, screen, finding_area);
}

fn line_height<T>(lines: &[T]) -> u16 {
    u16::try_from(lines.len()).unwrap_or(u16::MAX)
}

/// Lines for instances and for findings: what each wants, and more than half only if it is left.
fn split_list_lines(lines: u16, instances: usize, findings: usize) -> (u16, u16) {
    let want = |rows: usize, above: usize| u16::try_from(rows.max(1) + above).unwrap_or(u16::MAX);
    // Findings take two lines each where there is room.
    let (instances, findings) = (want(instances, 3), want(findings, 1));
    let half = lines / 2;
    let instances = instances.min(lines.saturating_sub(findings).max(half));
    (instances, lines.saturating_sub(instances))
}

fn draw_page(
    view: &mut View,
    title: &str,
    text: &[(usize, Spans)],
    screen: &mut ratatui::Frame<'_>,
    area: Rect,
) {
    let width = usize::from(area.width);
    let lines: Vec<Spans> =
        text.iter().flat_map(|(hang, spans)| spans.wrap_lines(width, *hang)).collect();
    let room = usize::from(area.height.saturating_sub(2));
    view.scroll = view.scroll.min(lines.len().saturating_sub(room));
    let more = lines.len().saturating_sub(view.scroll + room);
    let below = if more > 0 { format!("  {more} more below") } else { String::new() };
    let head = Spans::new().add(Role::Strong, title).add(Role::Quiet, &below);
    let mut shown = vec![head, Spans::new()];
    shown.extend(lines.into_iter().skip(view.scroll).take(room));
    screen.render_widget(Clear, area);
    screen.render_widget(to_paragraph(view.palette, &shown), area);
}

fn to_paragraph(palette: Palette, lines: &[Spans]) -> Paragraph<'static> {
    Paragraph::new(lines.iter().map(|spans| to_styled_line(palette, spans)).collect::<Vec<_>>())
}

fn to_styled_line(palette: Palette, spans: &Spans) -> Line<'static> {
    spans
        .pieces()
        .map(|(role, text)| Span::styled(text.to_owned(), role_style(palette, role)))
        .collect::<Vec<_>>()
        .into()
}

fn cut_spans(spans: &Spans, room: usize) -> Spans {
    if spans.width() <= room {
        return spans.clone();
    }
    let mut left = room.saturating_sub(1);
    let mut line = Spans::new();
    for (role, text) in spans.pieces() {
        let kept = text.get(..fitting_bytes(text, left)).unwrap_or_default();
        line.push(role, kept);
        left -= text_width(kept).min(left);
        if kept.len() < text.len() {
            line.push(role, "\u{2026}");
            break;
        }
    }
    line
}

fn cut_text(text: &str, room: usize) -> String {
    if text_width(text) <= room {
        return text.to_owned();
    }
    format!(
        "{}\u{2026}",
        text.get(..fitting_bytes(text, room.saturating_sub(1))).unwrap_or_default()
    )
}

fn role_style(palette: Palette, role: Role) -> Style {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    match (palette, role) {
        (_, Role::Text) => Style::new(),
        (_, Role::Strong) => bold,
        (Palette::Plain, Role::Error) => bold,
        (Palette::Plain, _) => Style::new(),
        (Palette::Colour, Role::Quiet) => Style::new().add_modifier(Modifier::DIM),
        (Palette::Colour, Role::Good) => Style::new().fg(Color::Green),
        (Palette::Colour, Role::Info) => Style::new().fg(Color::Cyan),
        (Palette::Colour, Role::Warn) => bold.fg(Color::Yellow),
        (Palette::Colour, Role::Error) => bold.fg(Color::Red),
    }
}

/// The active list stands out.
fn render_list_title(view: &View, panel: Panel, text: &str, more: &str) -> Spans {
    let role = if view.active_panel() == panel { Role::Strong } else { Role::Quiet };
    let mark = if view.active_panel() == panel { "> " } else { "  " };
    Spans::new().add(role, &format!("{mark}{text}")).add(Role::Quiet, more)
}

#[cfg(test)]
mod tests;
