use std::time::Duration;

use base64::Engine;
use hugewise_investigate::{IncidentHistory, Investigation, Metric, Moment, Series};
use sha2::Digest;

use super::charts::{build_time_axis, draw_charts, history_span};
use super::render_investigation_page;
use crate::testing::sample_investigations::{self, MIDNIGHT};

#[test]
fn hostile_words_stay_words() {
    let page = render_investigation_page(&sample_investigations::hostile_investigation());
    assert_eq!(page.matches("<script").count(), 1);
    assert_eq!((page.matches("</script").count(), page.matches("</style").count()), (1, 1));
    assert!(!page.contains("<img") && !page.contains('\u{1b}') && !page.contains('\u{202e}'));
    assert!(page.contains(
        "&lt;script&gt;alert(1)&lt;/script&gt;&quot;'&gt;&lt;img src=x onerror=alert(1)&gt;&amp;"
    ));
    // In a heading, the legend's neighbourhood, an attribute, evidence, a source, a comment of the
    // archive.
    assert!(page.matches("&lt;img").count() > 15, "{}", page.matches("&lt;img").count());
}

#[test]
fn the_page_allows_itself_its_own_script_and_needs_nothing_else() {
    let page = render_investigation_page(&sample_investigations::storm_investigation());
    let script = page.split_once("<script>").unwrap().1.split_once("</script>").unwrap().0;
    let hash = base64::engine::general_purpose::STANDARD.encode(sha2::Sha256::digest(script));
    assert!(page.contains(&format!("script-src 'sha256-{hash}'\"")), "{hash}");
    for outside in ["http:", "https:", "src=", "@import", "url(", "onclick", "innerHTML", "eval("] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.split("href=\"").skip(1).all(|link| link.starts_with('#')));
}

#[test]
fn an_incident_is_told_in_words_and_shaded_in_every_chart() {
    let page = render_investigation_page(&sample_investigations::storm_investigation());
    for words in [
        "1 incident on db7",
        "2 Mar 2026, 08:20 to 08:32:50",
        "Reclaim storm driven by page tables",
        "medium confidence",
        "datetime=\"2026-03-02T08:32:50-05:00\">08:32:50<",
        "%system 69.2; median of the file 2.1",
        "What would make it more certain",
        "<code class=\"command\">hugewise size --engine oracle --memory 8000M --sessions \
             500</code>",
        "compaction: sysstat does not record compact_stall",
        "UTC\u{2212}05:00",
        "written by a big-endian host: not read",
        "Zero in every sample: huge page pool.",
        "In no source: compaction, pressure.",
    ] {
        assert!(page.contains(words), "{words}");
    }
    let drawn = page.matches("<svg class=\"chart time\"").count();
    assert_eq!((drawn, page.matches("<rect class=\"shade\"").count()), (9, 9));
    // An incident that lasts from end to end would shade all and set apart nothing.
    let mut standing = sample_investigations::storm_investigation();
    let history = &mut standing.hosts[0];
    let (from, to) = history_span(history).unwrap();
    (history.incidents[0].from, history.incidents[0].to) = (from, to);
    history.incidents[0].summary.clear();
    let all = super::render_investigation_page(&standing);
    assert!(!all.contains("class=\"shade\"") && all.contains("<h3>Reclaim by page tables</h3>"));
    // Without the script there is nothing to press.
    assert!(page.matches("<button").count() == page.matches("hidden data-from").count() + 5);
    assert!(page.contains("<div class=\"tools\" hidden>"));
}

#[test]
fn a_quiet_archive_says_so_and_what_was_looked_at() {
    let page = render_investigation_page(&sample_investigations::quiet_investigation());
    for words in [
        "Nothing found on web3",
        "kernel time, free memory, reclaim",
        "times of the host&#39;s wall clock",
        "sessions: no source counts them",
        "Passed over: 3 files in no known format",
    ] {
        assert!(page.contains(words) || page.contains(&words.replace("&#39;", "'")), "{words}");
    }
    assert!(!page.contains("class=\"incident\"") && !page.contains("class=\"shade\""));
}

#[test]
fn nothing_is_a_page_too() {
    let nothing = render_investigation_page(&Investigation::default());
    assert!(nothing.contains("Nothing could be read") && nothing.ends_with("</html>\n"));
    let history = IncidentHistory {
        series: vec![Series::new(
            "/empty",
            hugewise_investigate::SourceFormat::Loop(hugewise_investigate::CollectedTool::Vmstat),
        )],
        ..IncidentHistory::default()
    };
    let empty = render_investigation_page(&Investigation {
        hosts: vec![history],
        ..Investigation::default()
    });
    assert!(empty.contains("a host without a name") && !empty.contains("NaN"));
}

#[test]
fn a_month_of_minutes_is_less_than_a_megabyte_and_keeps_its_spike() {
    let storm = 12 * 86_400 + 30_000;
    let mut found = sample_investigations::storm_investigation();
    let history = &mut found.hosts[0];
    history.series =
        vec![sample_investigations::storm_series(MIDNIGHT, (30 * 1440, 60), storm, 60)];
    history.incidents = vec![sample_investigations::storm_incident(MIDNIGHT + 12 * 86_400)];
    let page = render_investigation_page(&found);
    assert!(page.len() < 600_000, "{}", page.len());
    let legend = page.split("by processes themselves <").nth(1).unwrap();
    assert!(legend.split_once("</li>").unwrap().0.contains("k/s (14 Mar 03:2"), "{legend:.200}");
}

fn sparse(source: &str, from: i64, step: i64, rows: i64, value: f64) -> Series {
    let mut series = Series::new(
        source,
        hugewise_investigate::SourceFormat::Loop(hugewise_investigate::CollectedTool::Vmstat),
    );
    for row in 0..rows {
        series.push(Moment::from_seconds(from + row * step), Some(Duration::from_secs(1)));
        series.set_value(Metric::RunQueue, value);
    }
    series
}

#[test]
fn sources_of_the_same_thing_are_not_drawn_over_each_other_and_holes_stay_holes() {
    let mut history = IncidentHistory {
        series: vec![sparse("coarse", 0, 600, 100, 7.0), sparse("fine", 6000, 1, 3000, 3.0)],
        ..IncidentHistory::default()
    };
    let drawn = |history: &IncidentHistory| {
        let axis = build_time_axis(history, history_span(history).unwrap());
        let drawn = draw_charts(history, &axis, 1500).drawn;
        assert_eq!(drawn.len(), 1);
        let page = drawn[0].clone().into_string();
        let path = page.split("class=\"line s0\" stroke-dasharray=\"none\" d=\"").nth(1).unwrap();
        path.split_once('"').unwrap().0.to_owned()
    };
    // Before and after the fine source the coarse one is drawn; they meet nowhere.
    let both = drawn(&history);
    assert_eq!(both.matches('M').count(), 3, "{both}");
    history.series = vec![sparse("fine", 0, 1, 3000, 3.0)];
    assert_eq!(drawn(&history).matches('M').count(), 1);
    assert_eq!(history.series[0].append(sparse("fine", 5000, 1, 100, 3.0)), 0);
    assert_eq!(drawn(&history).matches('M').count(), 2);
}
