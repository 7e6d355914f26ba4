//! What somebody looks at, and what their keys do to it, whatever draws it.

use std::collections::BTreeMap;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use hugewise_model::Finding;
use hugewise_report::Palette;

use super::frame::InstanceRow;
use super::instance_order::InstanceOrder;
use super::timeline::FrameTimeline;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Panel {
    #[default]
    Instances,
    Findings,
}

impl Panel {
    const fn other_panel(self) -> Self {
        match self {
            Self::Instances => Self::Findings,
            Self::Findings => Self::Instances,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum ViewPage {
    #[default]
    Overview,
    Instance(String),
    Finding(String),
    Help,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    GoOn,
    Quit,
}

/// Frames a second of a recording.
const SLOWEST: u32 = 1;
const FASTEST: u32 = 64;
/// Frames, rows or lines of a page.
const PAGE: usize = 10;
/// Characters of a filter.
const LONGEST_FILTER: usize = 60;

/// What somebody looks at.
#[derive(Clone, Debug)]
pub struct View {
    pub(super) timeline: FrameTimeline,
    pub(super) palette: Palette,
    panel: Panel,
    pub(super) page: ViewPage,
    pub(super) order: InstanceOrder,
    pub(super) reversed: bool,
    pub(super) filter: String,
    /// Whether keys go into the filter.
    pub(super) typing: bool,
    /// Lines of a page above the screen.
    pub(super) scroll: usize,
    /// Frames a second of a recording.
    pub(super) speed: u32,
    instance: Option<String>,
    finding: Option<String>,
}

fn finding_name(finding: &Finding) -> String {
    format!(
        "{} {} {}",
        finding.code,
        finding.name,
        finding.instance.as_ref().map(ToString::to_string).unwrap_or_default()
    )
}

/// Findings with keys that last from frame to frame: figures change, and a rule may speak more than
/// once, of each pool for example.
pub(super) fn key_findings(findings: &[Finding]) -> impl Iterator<Item = (String, &Finding)> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    findings.iter().map(move |finding| {
        let name = finding_name(finding);
        let count = seen.entry(name.clone()).or_default();
        *count += 1;
        (format!("{name} {count}"), finding)
    })
}

impl View {
    /// The first look at a timeline.
    pub fn new(timeline: FrameTimeline, palette: Palette) -> Self {
        Self {
            timeline,
            palette,
            panel: Panel::default(),
            page: ViewPage::default(),
            order: InstanceOrder::default(),
            reversed: false,
            filter: String::new(),
            typing: false,
            scroll: 0,
            speed: 4,
            instance: None,
            finding: None,
        }
    }

    /// Shows only what contains this text.
    #[must_use]
    pub fn with_filter(mut self, filter: &str) -> Self {
        self.filter = filter
            .chars()
            .filter(|character| !character.is_control())
            .take(LONGEST_FILTER)
            .collect();
        self
    }

    /// Plays a recording with so many frames a second.
    #[must_use]
    pub fn at_speed(mut self, frames_a_second: u32) -> Self {
        self.speed = frames_a_second.clamp(SLOWEST, FASTEST);
        self
    }

    pub(super) fn listed_instances(&self) -> Vec<&InstanceRow> {
        let Some(frame) = self.timeline.current_frame() else { return Vec::new() };
        let about = |row: &InstanceRow| {
            let of_it = |finding: &&Finding| row.id.is_some() && finding.instance == row.id;
            self.passes_filter(&row.title)
                || frame
                    .findings
                    .iter()
                    .filter(of_it)
                    .any(|finding| self.passes_filter(&finding_name(finding)))
        };
        let mut rows: Vec<_> = frame.instances.iter().flatten().filter(|row| about(row)).collect();
        self.order.sort_rows(&mut rows, self.reversed);
        rows
    }

    pub(super) fn listed_findings(&self) -> Vec<&Finding> {
        self.keyed_findings().map(|(_, finding)| finding).collect()
    }

    fn keyed_findings(&self) -> impl Iterator<Item = (String, &Finding)> {
        let frame = self.timeline.current_frame();
        let passes = |finding: &Finding| {
            self.passes_filter(&finding_name(finding)) || self.passes_filter(&finding.summary)
        };
        key_findings(frame.map_or(&[], |frame| &frame.findings))
            .filter(move |(_, finding)| passes(finding))
    }

    fn passes_filter(&self, text: &str) -> bool {
        text.to_lowercase().contains(&self.filter.to_lowercase())
    }

    /// The first row if the selected one has gone.
    pub(super) fn chosen_row(&self, panel: Panel) -> Option<usize> {
        let (keys, chosen) = self.row_keys(panel);
        let at = chosen.and_then(|chosen| keys.iter().position(|key| key == chosen));
        at.or(if keys.is_empty() { None } else { Some(0) })
    }

    /// An empty list leaves the keys to the other: an archive has incidents, and often no servers.
    pub(super) fn active_panel(&self) -> Panel {
        let other = self.panel.other_panel();
        if self.chosen_row(self.panel).is_none() && self.chosen_row(other).is_some() {
            other
        } else {
            self.panel
        }
    }

    pub(super) fn chosen_key(&self) -> Option<String> {
        let at = self.chosen_row(self.active_panel())?;
        self.row_keys(self.active_panel()).0.into_iter().nth(at)
    }

    fn row_keys(&self, panel: Panel) -> (Vec<String>, Option<&String>) {
        match panel {
            Panel::Instances => (
                self.listed_instances().iter().map(|row| row.title.clone()).collect(),
                self.instance.as_ref(),
            ),
            Panel::Findings => {
                (self.keyed_findings().map(|(key, _)| key).collect(), self.finding.as_ref())
            }
        }
    }

    pub(super) fn press_key(&mut self, key: KeyEvent) -> Then {
        if key.kind == KeyEventKind::Release {
            return Then::GoOn;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return if matches!(key.code, KeyCode::Char('c' | 'd')) {
                Then::Quit
            } else {
                Then::GoOn
            };
        }
        if self.typing {
            self.type_in(key.code);
            return Then::GoOn;
        }
        match key.code {
            KeyCode::Char('q') => return Then::Quit,
            KeyCode::Esc if self.page != ViewPage::Overview => self.open_page(ViewPage::Overview),
            KeyCode::Esc if !self.filter.is_empty() => self.filter.clear(),
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => {
                self.open_page(if self.page == ViewPage::Help {
                    ViewPage::Overview
                } else {
                    ViewPage::Help
                });
            }
            KeyCode::Char(' ') => self.timeline.pause_or_play(),
            KeyCode::Left => self.timeline.go_by_frames(-1),
            KeyCode::Right => self.timeline.go_by_frames(1),
            KeyCode::Char('n') => self.timeline.go_to_begin(true),
            KeyCode::Char('N' | 'p') => self.timeline.go_to_begin(false),
            KeyCode::Char('[') => self.timeline.go_by_frames(-(PAGE as isize)),
            KeyCode::Char(']') => self.timeline.go_by_frames(PAGE as isize),
            KeyCode::Home | KeyCode::Char('g') => self.timeline.first_frame(),
            KeyCode::End | KeyCode::Char('G') => self.timeline.last_frame(),
            KeyCode::Char('+') => self.speed = (self.speed * 2).min(FASTEST),
            KeyCode::Char('-') => self.speed = (self.speed / 2).max(SLOWEST),
            code if self.page == ViewPage::Overview => self.press_on_overview(code),
            code => self.press_on_page(code),
        }
        Then::GoOn
    }

    fn press_on_overview(&mut self, code: KeyCode) {
        match code {
            KeyCode::Up | KeyCode::Char('k') => self.choose_row(|at, _| at.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.choose_row(|at, last| (at + 1).min(last)),
            KeyCode::PageUp => self.choose_row(|at, _| at.saturating_sub(PAGE)),
            KeyCode::PageDown => self.choose_row(|at, last| (at + PAGE).min(last)),
            KeyCode::Tab | KeyCode::BackTab => self.panel = self.active_panel().other_panel(),
            KeyCode::Enter => self.open_chosen(),
            KeyCode::Char('s') => self.order = self.order.next(),
            KeyCode::Char('r') => self.reversed = !self.reversed,
            KeyCode::Char('/') => self.typing = true,
            _ => {}
        }
    }

    fn press_on_page(&mut self, code: KeyCode) {
        match code {
            KeyCode::Up | KeyCode::Char('k') => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.scroll = self.scroll.saturating_add(1),
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(PAGE),
            KeyCode::PageDown => self.scroll = self.scroll.saturating_add(PAGE),
            KeyCode::Enter | KeyCode::Backspace => self.open_page(ViewPage::Overview),
            _ => {}
        }
    }

    fn type_in(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(character) if self.filter.chars().count() < LONGEST_FILTER => {
                self.filter.push(character)
            }
            _ => {}
        }
    }

    fn choose_row(&mut self, to: impl Fn(usize, usize) -> usize) {
        let Some(at) = self.chosen_row(self.active_panel()) else { return };
        let (keys, _) = self.row_keys(self.active_panel());
        let chosen = keys.get(to(at, keys.len().saturating_sub(1))).cloned();
        match self.active_panel() {
            Panel::Instances => self.instance = chosen,
            Panel::Findings => self.finding = chosen,
        }
    }

    fn open_chosen(&mut self) {
        if let Some(key) = self.chosen_key() {
            self.open_page(match self.active_panel() {
                Panel::Instances => ViewPage::Instance(key),
                Panel::Findings => ViewPage::Finding(key),
            });
        }
    }

    fn open_page(&mut self, page: ViewPage) {
        self.page = page;
        self.scroll = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::Frame;
    use super::super::testing::{finding, instance};
    use super::*;

    fn view() -> View {
        let frame = Frame {
            instances: Some(vec![
                instance("oracle PROD"),
                instance("oracle TEST"),
                instance("postgresql 15/main"),
            ]),
            findings: vec![finding("HW201", Some("oracle PROD")), finding("HW402", None)],
            ..Frame::default()
        };
        View::new(FrameTimeline::from_recording(vec![frame.clone(), frame]), Palette::Plain)
    }

    fn press(view: &mut View, keys: &str) -> Then {
        let mut then = Then::GoOn;
        for key in keys.chars() {
            let code = match key {
                '\n' => KeyCode::Enter,
                '\t' => KeyCode::Tab,
                '\u{1b}' => KeyCode::Esc,
                '\u{8}' => KeyCode::Backspace,
                '>' => KeyCode::Right,
                '<' => KeyCode::Left,
                other => KeyCode::Char(other),
            };
            then = view.press_key(code.into());
        }
        then
    }

    fn titles(view: &View) -> Vec<&str> {
        view.listed_instances().iter().map(|row| row.title.as_str()).collect()
    }

    #[test]
    fn a_filter_finds_instances_by_name_and_by_what_is_wrong_with_them() {
        let mut view = view();
        press(&mut view, "/post");
        assert_eq!(titles(&view), ["postgresql 15/main"]);
        assert!(view.listed_findings().is_empty());
        press(&mut view, "\u{8}\u{8}\u{8}\u{8}hw2");
        assert_eq!(titles(&view), ["oracle PROD"]);
        assert_eq!(view.listed_findings().len(), 1);
        press(&mut view, "q\n");
        assert_eq!((view.filter.as_str(), view.typing), ("hw2q", false));
        assert!(view.listed_instances().is_empty() && view.chosen_row(Panel::Instances).is_none());
        // Nothing is chosen: there is nothing to open.
        press(&mut view, "j\n");
        assert_eq!(view.page, ViewPage::Overview);
        press(&mut view, "\u{1b}");
        assert_eq!((view.filter.as_str(), view.listed_instances().len()), ("", 3));
    }

    #[test]
    fn what_is_chosen_stays_chosen_whatever_the_order() {
        let mut view = view();
        press(&mut view, "j");
        let chosen =
            |view: &View| titles(view)[view.chosen_row(Panel::Instances).unwrap()].to_owned();
        let first = chosen(&view);
        for _ in 0..6 {
            press(&mut view, "sr");
            assert_eq!(chosen(&view), first);
        }
        press(&mut view, "\n");
        assert_eq!(view.page, ViewPage::Instance(first));
        press(&mut view, "jjk");
        assert_eq!(view.scroll, 1);
        press(&mut view, "\u{1b}");
        assert_eq!((&view.page, view.scroll), (&ViewPage::Overview, 0));
    }

    #[test]
    fn findings_are_chosen_by_themselves() {
        let mut view = view();
        press(&mut view, "\tjjjk\n");
        assert_eq!(view.page, ViewPage::Finding("HW201 no-pool oracle PROD 1".into()));
        assert_eq!(view.chosen_row(Panel::Instances), Some(0));
    }

    #[test]
    fn findings_of_one_rule_are_chosen_one_by_one() {
        let frame = Frame { findings: vec![finding("HW601", None); 3], ..Frame::default() };
        let mut view = View::new(FrameTimeline::from_recording(vec![frame]), Palette::Plain);
        let chosen = |view: &View| view.chosen_row(Panel::Findings);
        press(&mut view, "\tj");
        assert_eq!(chosen(&view), Some(1));
        press(&mut view, "jj");
        assert_eq!(chosen(&view), Some(2));
        press(&mut view, "\n");
        assert_eq!(view.page, ViewPage::Finding("HW601 no-pool  3".into()));
    }

    #[test]
    fn only_what_is_meant_to_end_it_ends_it() {
        let mut view = view();
        assert_eq!(press(&mut view, "?q"), Then::Quit);
        assert_eq!(press(&mut view, "\u{1b}/q"), Then::GoOn);
        let with = |code, modifiers| KeyEvent::new(code, modifiers);
        assert_eq!(view.press_key(with(KeyCode::Char('c'), KeyModifiers::CONTROL)), Then::Quit);
        assert_eq!(view.press_key(with(KeyCode::Char('x'), KeyModifiers::CONTROL)), Then::GoOn);
        assert_eq!(view.filter, "q", "a key with control is no letter");
        let released =
            KeyEvent::new_with_kind(KeyCode::Char('q'), KeyModifiers::NONE, KeyEventKind::Release);
        view.typing = false;
        assert_eq!(view.press_key(released), Then::GoOn);
    }

    #[test]
    fn a_recording_is_walked_through() {
        let mut view = view();
        press(&mut view, ">");
        assert_eq!(view.timeline.frame_position(), (2, 2));
        press(&mut view, ">>g");
        assert_eq!((view.timeline.frame_position(), view.timeline.is_playing()), ((1, 2), false));
        press(&mut view, "+++++++++");
        assert_eq!(view.speed, FASTEST);
        press(&mut view, "---------");
        assert_eq!(view.speed, SLOWEST);
        assert_eq!(view.clone().at_speed(0).speed, SLOWEST);
    }

    #[test]
    fn a_filter_has_an_end() {
        let mut view = view();
        press(&mut view, &format!("/{}", "x".repeat(1000)));
        assert_eq!(view.filter.len(), LONGEST_FILTER);
        assert_eq!(view.with_filter(&"a\u{1b}b".repeat(100)).filter, "ab".repeat(30));
    }
}
