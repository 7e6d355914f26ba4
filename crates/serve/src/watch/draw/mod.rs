//! A view on a screen of any size.

mod detail;
mod head;
mod help;
mod lists;
mod pools;

use hugewise_report::Palette;
use hugewise_report::palette::Role;
use hugewise_report::screen::Spans;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph};

use super::frame::Frame;
use super::view::{Page, Panel, View};

/// Nothing can be read on less.
const LEAST: (u16, u16) = (40, 10);

/// Draws a view.
pub(super) fn draw(view: &mut View, screen: &mut ratatui::Frame<'_>) {
    let area = screen.area();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        let text = format!("Terminal too small: needs {} x {}", LEAST.0, LEAST.1);
        screen.render_widget(Paragraph::new(text), area);
        return;
    }
    let [body, foot] = Layout::vertical([Constraint::Min(1), Constraint::Length(1)]).areas(area);
    match (view.page.clone(), view.timeline.frame().cloned()) {
        (Page::Help, _) => page(view, "Keys", &help::lines(), screen, body),
        (_, None) => screen.render_widget(Paragraph::new(line(view.palette, &head::waiting(view))), body),
        (Page::Overview, Some(frame)) => overview(view, &frame, screen, body),
        (Page::Instance(title), Some(frame)) => {
            page(view, &title, &detail::instance(&frame, &title), screen, body);
        }
        (Page::Finding(key), Some(frame)) => {
            page(view, "Finding", &detail::finding(&frame, &key), screen, body);
        }
    }
    screen.render_widget(Paragraph::new(line(view.palette, &help::foot(view, foot.width.into()))), foot);
}

fn overview(view: &View, frame: &Frame, screen: &mut ratatui::Frame<'_>, body: Rect) {
    let heads = head::lines(view, frame, body.width.into());
    let pools = pools::lines(frame, body.width.into());
    let lists = body.height.saturating_sub(height(&heads) + height(&pools));
    // On a low screen the lists, which say what is wrong, go before what they are about.
    let (heads, pools) = match lists {
        0..8 => (heads.into_iter().take(3).collect(), Vec::new()),
        _ => (heads, pools),
    };
    let lists = body.height.saturating_sub(height(&heads) + height(&pools));
    let (instances, findings) = shares(lists, view.instances().len(), view.findings().len());
    let [head_area, pool_area, instance_area, finding_area, _] = Layout::vertical([
        Constraint::Length(height(&heads)),
        Constraint::Length(height(&pools)),
        Constraint::Length(instances),
        Constraint::Length(findings),
        Constraint::Min(0),
    ])
    .areas(body);
    screen.render_widget(paragraph(view.palette, &heads), head_area);
    screen.render_widget(paragraph(view.palette, &pools), pool_area);
    lists::instances(view, frame, screen, instance_area);
    lists::findings(view, frame, screen, finding_area);
}

fn height<T>(lines: &[T]) -> u16 {
    u16::try_from(lines.len()).unwrap_or(u16::MAX)
}

/// How many lines instances and findings get, each with a title above it: what each wants where both fit, and what the
/// other leaves where that is more than half.
fn shares(lines: u16, instances: usize, findings: usize) -> (u16, u16) {
    let want = |rows: usize, above: usize| u16::try_from(rows.max(1) + above).unwrap_or(u16::MAX);
    // Findings take two lines each where there is room.
    let (instances, findings) = (want(instances, 3), want(findings, 1));
    let half = lines / 2;
    let instances = instances.min(lines.saturating_sub(findings).max(half));
    (instances, lines.saturating_sub(instances))
}

/// A text that fills the screen under a title.
fn page(view: &mut View, title: &str, text: &[(usize, Spans)], screen: &mut ratatui::Frame<'_>, area: Rect) {
    let width = usize::from(area.width);
    let lines: Vec<Spans> = text.iter().flat_map(|(hang, spans)| spans.wrapped(width, *hang)).collect();
    let room = usize::from(area.height.saturating_sub(2));
    view.scroll = view.scroll.min(lines.len().saturating_sub(room));
    let more = lines.len().saturating_sub(view.scroll + room);
    let below = if more > 0 { format!("  {more} more below") } else { String::new() };
    let head = Spans::new().add(Role::Strong, title).add(Role::Quiet, &below);
    let mut shown = vec![head, Spans::new()];
    shown.extend(lines.into_iter().skip(view.scroll).take(room));
    screen.render_widget(Clear, area);
    screen.render_widget(paragraph(view.palette, &shown), area);
}

fn paragraph(palette: Palette, lines: &[Spans]) -> Paragraph<'static> {
    Paragraph::new(lines.iter().map(|spans| line(palette, spans)).collect::<Vec<_>>())
}

fn line(palette: Palette, spans: &Spans) -> Line<'static> {
    spans.pieces().map(|(role, text)| Span::styled(text.to_owned(), style(palette, role))).collect::<Vec<_>>().into()
}

/// The same colours as text has on a terminal.
fn style(palette: Palette, role: Role) -> Style {
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

/// The title of a list; the one that has the keys stands out.
fn title(view: &View, panel: Panel, text: &str, more: &str) -> Spans {
    let role = if view.panel == panel { Role::Strong } else { Role::Quiet };
    let mark = if view.panel == panel { "> " } else { "  " };
    Spans::new().add(role, &format!("{mark}{text}")).add(Role::Quiet, more)
}

#[cfg(test)]
mod tests;
