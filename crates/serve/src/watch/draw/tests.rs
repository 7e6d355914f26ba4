//! What stands on a screen, as a terminal of that size shows it.

use std::sync::Arc;

use hugewise_model::{
    Bytes, HugePageChain, HugePageUse, Link, LinkName, LinkState, PageCount, PageSize,
};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::KeyCode;

use super::super::frame::{Gauges, InstanceRow, PoolRow};
use super::super::testing::{finding, instance};
use super::super::timeline::FrameTimeline;
use super::*;

const GIB: f64 = 1_073_741_824.0;

fn frame(number: u8) -> Frame {
    let step = f64::from(number);
    let link = |name, state, evidence: &str| Link { name, state, evidence: evidence.into() };
    let chain = HugePageChain {
        instance: crate::watch::testing::id("oracle PROD").unwrap(),
        links: vec![
            link(LinkName::Asked, LinkState::Ok, "use_large_pages=TRUE (default)"),
            link(
                LinkName::Pool,
                LinkState::Broken,
                "no pool of 2 MiB pages (/proc/meminfo HugePages_Total)",
            ),
            link(LinkName::Mapped, LinkState::Broken, "0 bytes of 34 GiB"),
        ],
    };
    let prod = InstanceRow {
        facts: vec![
            ("process", "4711 of oracle, 140 in all".into()),
            ("needs", "17410 pages of 2 MiB".into()),
        ],
        sessions: Some(120),
        segments: Bytes::from_gib(34),
        huge_pages: HugePageUse::None,
        page_tables: Some(Bytes::from_gib(4)),
        chain: Some(Arc::new(chain)),
        ..instance("oracle PROD")
    };
    let main = InstanceRow {
        sessions: Some(40),
        segments: Bytes::from_gib(6),
        huge: Bytes::from_gib(6),
        huge_pages: HugePageUse::All,
        page_tables: Some(Bytes(40 << 20)),
        ..instance("postgresql 15/main")
    };
    Frame {
        host: "db7".into(),
        about: "Linux 5.14.0 x86_64".into(),
        at: format!("2026-11-21T08:30:{number:02}Z"),
        gauges: Gauges {
            kernel_cpu: (number > 0).then_some(step / 20.0),
            page_tables: Some(step * GIB / 4.0),
            available: Some((20.0 - step) * GIB),
            sessions: Some(160.0),
            memory: Some(64.0 * GIB),
            ..Gauges::default()
        },
        pools: Some(vec![
            PoolRow {
                page: PageSize::MIB_2,
                total: Some(PageCount(3100)),
                committed: Some(PageCount(3072)),
                available: Some(PageCount(28)),
            },
            PoolRow {
                page: PageSize::GIB_1,
                total: Some(PageCount(0)),
                committed: None,
                available: None,
            },
        ]),
        instances: Some(vec![main, prod]),
        findings: vec![finding("HW201", Some("oracle PROD")), finding("HW402", None)],
        unknown: String::new(),
    }
}

fn view() -> View {
    let mut timeline = FrameTimeline::for_live_host();
    (0..12).for_each(|number| timeline.push(frame(number)));
    View::new(timeline, Palette::Plain)
}

fn shown(view: &mut View, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|screen| draw_view(view, screen)).unwrap();
    terminal.backend().to_string()
}

fn pressed(view: &mut View, keys: &[KeyCode]) {
    for key in keys {
        view.press_key((*key).into());
    }
}

#[test]
fn all_of_a_host_at_a_glance() {
    insta::assert_snapshot!(shown(&mut view(), 100, 24));
}

#[test]
fn a_narrow_terminal_shows_what_matters() {
    insta::assert_snapshot!(shown(&mut view(), 60, 16));
}

#[test]
fn an_instance_with_its_chain() {
    let mut view = view();
    pressed(&mut view, &[KeyCode::Enter]);
    insta::assert_snapshot!(shown(&mut view, 80, 24));
}

#[test]
fn an_instance_without_a_chain_is_not_called_well_unless_it_is() {
    let text_of = |huge_pages| {
        let row = InstanceRow { huge_pages, ..instance("oracle OLD") };
        let frame = Frame { instances: Some(vec![row]), ..frame(1) };
        let mut view = View::new(FrameTimeline::from_recording(vec![frame]), Palette::Plain);
        pressed(&mut view, &[KeyCode::Enter]);
        shown(&mut view, 80, 24)
    };
    assert!(text_of(HugePageUse::All).contains("All of it is on huge pages."));
    for unknown in [HugePageUse::None, HugePageUse::Partly, HugePageUse::Unknown] {
        let screen = text_of(unknown);
        assert!(
            screen.contains("nothing shows which link") && !screen.contains("All of it"),
            "{screen}"
        );
    }
}

#[test]
fn a_finding_with_its_fix() {
    let mut view = view();
    pressed(&mut view, &[KeyCode::Tab, KeyCode::Enter]);
    insta::assert_snapshot!(shown(&mut view, 80, 12));
}

#[test]
fn a_recording_that_is_searched() {
    let mut view =
        View::new(FrameTimeline::from_recording((0..12).map(frame).collect()), Palette::Plain);
    pressed(
        &mut view,
        &[KeyCode::Right, KeyCode::Char('/'), KeyCode::Char('p'), KeyCode::Char('o')],
    );
    insta::assert_snapshot!(shown(&mut view, 100, 20));
}

#[test]
fn the_keys_are_told() {
    let mut view = view();
    pressed(&mut view, &[KeyCode::Char('?')]);
    insta::assert_snapshot!(shown(&mut view, 80, 24));
}

#[test]
fn a_page_that_is_longer_than_the_screen_is_scrolled_to_its_end_and_no_farther() {
    let mut view = view();
    pressed(&mut view, &[KeyCode::Char('?')]);
    assert!(shown(&mut view, 60, 12).contains("more below"));
    pressed(&mut view, &[KeyCode::PageDown; 9]);
    let end = shown(&mut view, 60, 12);
    assert!(end.contains("quit (also Ctrl-C)") && !end.contains("more below"), "{end}");
    pressed(&mut view, &[KeyCode::Up]);
    assert!(shown(&mut view, 60, 12).contains("1 more below"));
}

#[test]
fn a_host_of_which_little_is_told() {
    let mut view = View::new(FrameTimeline::for_live_host(), Palette::Plain);
    assert!(shown(&mut view, 80, 24).contains("reading the host ..."));
    view.timeline.push(Frame { host: "db7".into(), ..Frame::default() });
    let screen = shown(&mut view, 80, 24);
    for text in ["no data about pools", "no data about instances", "nothing is wrong"] {
        assert!(screen.contains(text), "{text} is missing:\n{screen}");
    }
}

#[test]
fn no_size_is_too_small_for_a_word() {
    for width in 1..120 {
        for height in [1, 2, 5, 9, 10, 11, 13, 17, 24, 60] {
            let mut view = view();
            shown(&mut view, width, height);
            pressed(&mut view, &[KeyCode::Enter]);
            shown(&mut view, width, height);
        }
    }
    assert!(shown(&mut view(), 39, 30).contains("too small"));
}

#[test]
fn what_a_host_names_moves_no_cursor() {
    let mut frame = frame(1);
    let hostile = "\u{1b}[2J\u{202e}PROD\r\n";
    frame.host = hostile.into();
    frame.findings[0].summary = hostile.into();
    for row in frame.instances.iter_mut().flatten() {
        row.title = format!("{} {hostile}", row.title);
    }
    let mut view = View::new(FrameTimeline::from_recording(vec![frame]), Palette::Plain);
    for keys in [&[][..], &[KeyCode::Enter]] {
        pressed(&mut view, keys);
        let screen = shown(&mut view, 100, 24);
        assert!(!screen.contains(['\u{1b}', '\u{202e}', '\r']), "{screen:?}");
        assert!(screen.contains("\\x1b[2J"), "{screen}");
    }
}

#[test]
fn a_hundred_instances_are_scrolled_through() {
    let many = (0..100).map(|number| instance(&format!("oracle DB{number:03}"))).collect();
    let frame = Frame { instances: Some(many), ..frame(1) };
    let mut view = View::new(FrameTimeline::from_recording(vec![frame]), Palette::Plain);
    pressed(&mut view, &[KeyCode::PageDown; 20]);
    assert!(shown(&mut view, 80, 24).contains("oracle DB099"));
    assert!(shown(&mut view, 80, 24).contains("HW201"), "findings keep their room");
}

/// An archive of a day with two incidents, looked at before the first of them.
fn archive() -> View {
    let found = |number: u8| matches!(number, 4..=6 | 10);
    let frames = (0..16).map(|number| Frame {
        findings: if found(number) {
            vec![hugewise_model::Finding { name: "reclaim-storm", ..finding("", None) }]
        } else {
            Vec::new()
        },
        instances: None,
        pools: None,
        ..frame(number)
    });
    View::new(FrameTimeline::from_recording(frames.collect()), Palette::Plain)
}

#[test]
fn incidents_of_a_recording_are_marked_and_gone_to() {
    let mut view = archive();
    let before = shown(&mut view, 80, 24);
    assert!(before.contains("next: reclaim-storm at 2026-11-21T08:30:04Z (n)"), "{before}");
    assert!(before.contains("\u{25b2}\u{2501}\u{2501}   \u{25b2}"), "{before}");
    assert!(before.contains("08:30:00 to 08:30:15"), "{before}");
    pressed(&mut view, &[KeyCode::Char('n')]);
    insta::assert_snapshot!(shown(&mut view, 80, 24));
    pressed(&mut view, &[KeyCode::Char('n'), KeyCode::Right]);
    let after = shown(&mut view, 80, 24);
    assert!(after.contains("last: reclaim-storm at 2026-11-21T08:30:10Z (N)"), "{after}");
}

/// Once "at 2026-11-21T08:30:04Z (n" stood at the right edge of 80 columns, and less on fewer.
#[test]
fn where_the_next_incident_is_cut_is_seen() {
    for width in [40, 50, 60] {
        let screen = shown(&mut archive(), width, 24);
        let line = screen.lines().find(|line| line.contains("nothing now")).unwrap();
        assert!(line.contains("(n)") || line.contains('\u{2026}'), "{width}: {line}");
    }
}

/// Two names that are long once pushed the headings together: "age tables", and no sign that the
/// names went on.
#[test]
fn long_names_leave_room_for_the_numbers() {
    let rows = ["cassandra.service.CassandraDaemon", "elasticsearch.bootstrap.Elasticsearch"];
    let rows = rows.map(|name| instance(&format!("oracle org.apache.{name}"))).to_vec();
    let frame = Frame { instances: Some(rows), ..frame(1) };
    let mut view = View::new(FrameTimeline::from_recording(vec![frame]), Palette::Plain);
    for width in [45, 60, 77, 78, 80, 100] {
        let screen = shown(&mut view, width, 24);
        assert!(screen.contains(" page tables "), "{width}:\n{screen}");
        let names: Vec<&str> = screen.lines().filter(|line| line.contains("oracle org")).collect();
        assert!(
            names.len() == 2 && names.iter().all(|line| line.contains('\u{2026}')),
            "{width}:\n{screen}"
        );
    }
}

/// sar tells of no servers: what was found has the keys, and stands beside the overview.
#[test]
fn an_incident_of_an_archive_without_servers_is_what_is_chosen() {
    let mut view = archive();
    assert!(shown(&mut view, 170, 24).contains("Nothing is selected."));
    pressed(&mut view, &[KeyCode::Char('n')]);
    let screen = shown(&mut view, 170, 24);
    assert!(!screen.contains("Nothing is selected.") && screen.contains("> Findings"), "{screen}");
    pressed(&mut view, &[KeyCode::Enter]);
    assert!(shown(&mut view, 80, 24).contains("reclaim-storm"), "{screen}");
}

#[test]
fn a_wide_terminal_shows_what_is_chosen_beside_the_overview() {
    insta::assert_snapshot!(shown(&mut view(), 170, 24));
}

#[test]
fn what_does_not_fit_is_seen_to_be_cut() {
    let mut view = view();
    for width in [40, 60, 80, 100, 150] {
        let screen = shown(&mut view, width, 24);
        // Of the two chains one is broken, and no column is wide enough for why.
        let line = screen.lines().find(|line| line.contains("  oracle PROD   ")).unwrap();
        assert!(
            line.contains("(/proc/meminfo HugePages_Total)") || line.contains('\u{2026}'),
            "{width}: {screen}"
        );
    }
}

#[test]
fn the_time_says_days_where_there_are_several() {
    let at = |day: u8| Frame { at: format!("2026-11-{day}T09:00:00+01:00"), ..frame(day) };
    let mut view =
        View::new(FrameTimeline::from_recording((10..90).map(at).collect()), Palette::Plain);
    pressed(&mut view, &[KeyCode::End]);
    let screen = shown(&mut view, 120, 24);
    let line = screen.lines().find(|line| line.contains("time ")).unwrap();
    assert!(
        line.contains("11-10 09:00\u{2500}") && line.contains("\u{2500}11-89 09:0\u{2503}"),
        "{line}"
    );
}
