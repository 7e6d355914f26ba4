//! Every kind of hostile text as name, path, reason and line of a report, in each language that
//! reports are written in: read back by the real parser of each. Plans are in the attacks of the
//! command line's tests, which run them.

use crate::{PageReport, Report};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use hugewise_change::diff;
use hugewise_investigate::{Metric, Moment, Series};
use hugewise_model::escape::{comment, csv, diff as heading, jinja, nagios, plain, shell};
use hugewise_model::{Engine, Observed, Reason, Unread};
use hugewise_testkit::{Skip, require};
use proptest::prelude::*;

use crate::formats::testing;
use crate::openmetrics::{CollectorRun, CpuSeconds, ExpositionFormat, Metered};
use crate::samples::{self, Sample};
use crate::series::SeriesFile;
use crate::{TextLayout, openmetrics};

mod corpus;

/// Debian's own Python, for which its packages are.
const PYTHON: &str = "/usr/bin/python3";

fn require_program(path: &'static str) -> Result<&'static str, Skip> {
    if Path::new(path).exists() { Ok(path) } else { Err(Skip(format!("{path} is not installed"))) }
}

/// A host that has the text wherever a host has a text of its own.
fn tainted_sample(text: &str, other: &str) -> Sample {
    let mut sample = samples::prod();
    let known = |text: &str| Observed::Known(text.to_owned());
    (sample.host.name, sample.host.os) = (known(text), known(other));
    for (instance, name) in sample.instances.iter_mut().zip([text, other]) {
        (instance.engine, instance.name) = (Engine::PostgreSql, name.to_owned());
        (instance.owner, instance.unit) = (text.to_owned(), Some(format!("{text}.service")));
        instance.version = known(other);
        instance.endpoints = vec![format!("/run/{text}/.s.PGSQL.5432")];
    }
    for chain in &mut sample.assessment.chains {
        chain.links.iter_mut().for_each(|link| link.evidence = text.to_owned());
    }
    for finding in &mut sample.assessment.findings {
        finding.summary = format!("{text} is bad");
        (finding.evidence, finding.cost) = (vec![text.to_owned()], Some(other.to_owned()));
        // As `assess` leaves them.
        finding.fix = vec![
            format!("# of {}", plain::escape_line(text)),
            format!("systemctl restart {}", shell::quote_operand(text)),
        ];
    }
    sample.unread = vec![Unread {
        what: format!("/proc/1/root/{text}"),
        why: Reason::Malformed(other.to_string()),
    }];
    sample
}

/// Texts two by two, so that names that could be taken for each other meet.
fn text_pairs() -> Vec<(String, String)> {
    let texts = corpus::all_texts();
    texts.iter().cloned().zip(texts.iter().cycle().skip(1).cloned()).collect()
}

fn render_sample_page(sample: &Sample) -> String {
    let mut out = Vec::new();
    sample.checked().write_html(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The whole report, with the text in the plan and in its reasons too.
fn whole_page(text: &str, other: &str) -> String {
    let mut plan = testing::plan();
    plan.host.name = text.to_owned();
    plan.warnings = vec![other.to_owned()];
    for step in &mut plan.steps {
        (step.title, step.why, step.id) = (text.to_owned(), other.to_owned(), other.to_owned());
        step.expects.iter_mut().for_each(|expected| expected.instance = Some(text.to_owned()));
        step.changes.iter_mut().for_each(|change| testing::taint(change, text));
    }
    for instruction in &mut plan.instructions {
        (instruction.title, instruction.text) = (text.to_owned(), format!("{text}\n{other}"));
        instruction.instance = Some(other.to_owned());
    }
    let mut out = Vec::new();
    tainted_sample(text, other).whole_with(&plan, None, |report| {
        report.write_html(&mut out).unwrap();
    });
    String::from_utf8(out).unwrap()
}

fn render_sample_metrics(sample: &Sample) -> String {
    let collectors = [CollectorRun { name: "host", took: Duration::from_millis(12), errors: 3 }];
    let cpu = Some(CpuSeconds { kernel: 1.5, idle: 10.0, user: 2.0 });
    let metered = Metered {
        checked: sample.checked(),
        collectors: &collectors,
        readings: 7,
        cpu,
        recorder: None,
        version: "0.1.0",
    };
    openmetrics::write(&metered, ExpositionFormat::Prometheus)
}

/// Runs a program on a text; what it says.
#[track_caller]
fn pipe_through(command: &mut Command, text: &[u8]) -> String {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || input.write_all(text).unwrap());
        let output = child.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    })
}

/// Tags, attributes and text of each page, by Python's own parser: an array of pages in, an array
/// of those out.
const HTML: &str = "
import sys, json
from html.parser import HTMLParser
class Page(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.tags, self.said = [], []
    def handle_starttag(self, tag, attributes):
        self.tags.append([tag] + sorted(name for name, value in attributes))
    def handle_data(self, data):
        self.said.append(data)
def read(text):
    page = Page()
    page.feed(text)
    page.close()
    return {'tags': sorted(set(map(tuple, page.tags))), 'said': ''.join(page.said)}
json.dump([read(page) for page in json.load(sys.stdin)], sys.stdout)
";

#[test]
fn a_page_has_no_tags_but_its_own_and_says_every_text() {
    require!(require_program(PYTHON));
    let pairs = text_pairs();
    only_its_own_tags(&pairs, |text, other| render_sample_page(&tainted_sample(text, other)));
    only_its_own_tags(&pairs, whole_page);
}

fn only_its_own_tags(pairs: &[(String, String)], page: impl Fn(&str, &str) -> String) {
    let mut pages = vec![page("usual", "other")];
    pages.extend(pairs.iter().map(|(text, other)| page(text, other)));
    let input = serde_json::to_vec(&pages).unwrap();
    let read: serde_json::Value =
        serde_json::from_str(&pipe_through(Command::new(PYTHON).args(["-c", HTML]), &input))
            .unwrap();
    for (at, (text, _)) in pairs.iter().enumerate() {
        assert_eq!(read[at + 1]["tags"], read[0]["tags"], "{text:?}");
        let said = read[at + 1]["said"].as_str().unwrap();
        assert!(said.contains(plain::escape_line(text).as_ref()), "{text:?}");
        assert!(said.split('\n').all(plain::is_clean), "{text:?}");
    }
}

#[test]
fn json_has_every_text_as_it_is() {
    require!(require_program(PYTHON));
    let pairs = text_pairs();
    let mut lines = Vec::new();
    for (text, other) in &pairs {
        lines.push(tainted_sample(text, other).json().to_string());
    }
    let checked = |sample: &Sample| {
        let mut out = Vec::new();
        sample.checked().write_json(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    for (text, other) in &pairs {
        assert!(checked(&tainted_sample(text, other)).lines().all(plain::is_clean), "{text:?}");
    }
    let names = "
import sys, json
json.dump([json.loads(line)['instances'][0]['name'] for line in \
         sys.stdin.buffer.read().split(b'\\n')], sys.stdout)
";
    let read = pipe_through(Command::new(PYTHON).args(["-c", names]), lines.join("\n").as_bytes());
    let read: Vec<String> = serde_json::from_str(&read).unwrap();
    assert_eq!(read, pairs.into_iter().map(|(text, _)| text).collect::<Vec<_>>());
}

/// Everything in one exposition would be one host; each host is one, and all of them are looked at
/// in one process.
#[test]
fn promtool_has_nothing_to_say_against_any_name() {
    let promtool = require!(require_program("/usr/bin/promtool"));
    let texts = corpus::all_texts();
    let mut sample = samples::prod();
    let one = sample.instances[0].clone();
    sample.instances = texts
        .iter()
        .take(190)
        .map(|text| {
            let mut instance = one.clone();
            (instance.engine, instance.name) = (Engine::PostgreSql, text.clone());
            instance.version = Observed::Known(text.clone());
            instance
        })
        .collect();
    sample.host.name = Observed::Known(texts.concat());
    let text = render_sample_metrics(&sample);
    pipe_through(Command::new(promtool).args(["check", "metrics"]), text.as_bytes());
    let series: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.rsplit_once(' ').unwrap().0)
        .collect();
    assert_eq!(series.iter().collect::<BTreeSet<_>>().len(), series.len());
}

#[test]
fn a_spreadsheet_gets_texts_and_numbers_and_no_formula() {
    require!(require_program(PYTHON));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.csv");
    let texts = corpus::all_texts();
    let mut file = SeriesFile::create(&path).unwrap();
    for text in &texts {
        let mut series = Series::new(
            text.as_str(),
            hugewise_investigate::SourceFormat::Loop(hugewise_investigate::CollectedTool::Vmstat),
        );
        series.push(Moment(1_500), Some(Duration::from_millis(500)));
        series.set_value(Metric::RunQueue, 1.5);
        file.add(Some(text), &series).unwrap();
    }
    file.finish().unwrap();
    let rows = "
import sys, csv, json
with open(sys.argv[1], newline='', encoding='utf-8') as file:
    json.dump(list(csv.reader(file)), sys.stdout)
";
    let read = pipe_through(Command::new(PYTHON).args(["-c", rows]).arg(&path), b"");
    let rows: Vec<Vec<String>> = serde_json::from_str(&read).unwrap();
    assert_eq!(rows.len(), texts.len() + 1);
    for (row, text) in rows[1..].iter().zip(&texts) {
        assert_eq!(row.len(), rows[0].len(), "{text:?}");
        for cell in &row[..2] {
            let meant = text.starts_with('\'') == cell.starts_with('\'');
            assert_eq!(cell.strip_prefix('\'').filter(|_| !meant).unwrap_or(cell), text);
            let first = cell.trim_start().chars().next();
            assert!(!first.is_some_and(|first| "=+-@|%".contains(first)), "{cell:?}");
        }
        // Numbers stay numbers.
        assert!(row.contains(&"1.5".to_owned()), "{row:?}");
    }
}

#[test]
fn what_is_shown_has_its_own_lines_alone() {
    let shown = |sample: &Sample| {
        [sample.text(100_000), sample.verified(crate::nagios::render_status_line)]
    };
    let usual = shown(&tainted_sample("usual", "other")).map(|text| text.lines().count());
    for (text, other) in text_pairs() {
        let shown = shown(&tainted_sample(&text, &other));
        assert!(shown.iter().flat_map(|text| text.split('\n')).all(plain::is_clean), "{shown:?}");
        assert_eq!(shown.each_ref().map(|text| text.lines().count()), usual, "{text:?} {other:?}");
        assert_eq!(
            (shown[1].matches('|').count(), shown[1].matches('\n').count()),
            (1, 1),
            "{shown:?}"
        );
    }
}

/// Pieces of all languages in any order.
fn hostile_text() -> impl Strategy<Value = String> {
    let texts = corpus::all_texts();
    prop::collection::vec(
        prop_oneof![prop::sample::select(texts), any::<String>(), "[{}%#'\"$`|=\\\\ -]{1,6}"],
        0..4,
    )
    .prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn one_line_stays_one_line_in_every_language(text in hostile_text()) {
        let lines = [
            plain::escape_line(&text).into_owned(),
            plain::escape_name(&text).into_owned(),
            heading::escape_diff_path(&text).into_owned(),
            heading::escape_diff_line('-', &text).into_owned(),
            shell::quote_word(&text),
            shell::quote_argument(&text),
            shell::quote_operand(&text),
            jinja::escape_jinja(&text),
            jinja::unsafe_value(&text),
            nagios::escape_nagios_text(&text),
            comment::comment_line("", &text).trim_end_matches('\n').to_owned(),
        ];
        for line in lines {
            prop_assert!(plain::is_clean(&line), "{line:?}");
        }
        let braces = jinja::escape_jinja(&text).contains(['{', '}']);
        prop_assert!(!braces);
        prop_assert!(!nagios::escape_nagios_text(&text).contains('|'));
        prop_assert!(comment::comment_line("", &text).starts_with('#'));
        prop_assert_eq!(shell::quote_exact(&text).is_some(), plain::is_clean(&text));
        let cell = csv::escape_csv_cell(&text);
        let inner = cell.strip_prefix('"').unwrap_or(&cell).trim_start();
        prop_assert!(!inner.starts_with(['=', '+', '-', '@', '\t', '\r']), "{cell:?}");
        let shown = diff::unified_diff(&text, Some(&text), Some("x"));
        prop_assert!(shown.split('\n').all(plain::is_clean));
        prop_assert!(shown.matches("\n+++ ").count() <= 1 && shown.matches("\n--- ").count() == 0, "{shown}");
    }

    #[test]
    fn a_report_of_any_names_has_the_lines_of_any_other(text in hostile_text(), other in hostile_text(), width in 40_usize..120) {
        let sample = tainted_sample(&text, &other);
        let mut out = Vec::new();
        sample.checked().write_text(&mut out, TextLayout::plain_text(width)).unwrap();
        let shown = String::from_utf8(out).unwrap();
        prop_assert!(shown.split('\n').all(plain::is_clean), "{shown:?}");
        let metrics = render_sample_metrics(&sample);
        prop_assert!(metrics.split('\n').all(plain::is_clean), "{metrics:?}");
    }
}
