//! What sadf prints as XML and JSON, against what the file itself says.

use std::process::Command;

use hugewise_investigate::series::MarkKind;
use hugewise_investigate::{Clock, FileRefused, Metric, Series, readers};
use hugewise_testkit::require;

use super::text::same;
use super::{fixture, oracle, read};

fn sadf(text: &str) -> Result<Vec<Series>, FileRefused> {
    readers::sysstat::sadf::read(&mut text.as_bytes(), "sa01.xml")
}

fn one(text: &str) -> Series {
    let mut series = sadf(text).unwrap();
    assert_eq!(series.len(), 1);
    series.pop().unwrap()
}

fn heads(series: &Series) -> (Option<&str>, Option<&str>, Option<&str>, Vec<MarkKind>) {
    let kinds = super::printed_marks(series);
    (series.host.as_deref(), series.kernel.as_deref(), series.architecture.as_deref(), kinds)
}

#[test]
fn xml_and_json_of_this_machine_say_what_the_file_says() {
    require!(oracle::sadf());
    let folder = tempfile::tempdir().unwrap();
    let bytes = fixture("12.6.1.xz");
    let path = oracle::written(folder.path(), "sa01", &bytes);
    let file = read(&bytes).unwrap();
    for format in ["-x", "-j"] {
        let output =
            Command::new("sadf").arg(format).arg(&path).args(["--", "-A", "-C"]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let series = one(&text);
        same(format, &series, &file, false);
        assert_eq!(series.clock, Clock::Utc { offsets: Vec::new() });
        let (mut own, mut expected) = (heads(&series), heads(&file));
        // Of one moment, restarts stand before comments.
        own.3.sort_by_key(|kind| *kind == MarkKind::Restart);
        expected.3.sort_by_key(|kind| *kind == MarkKind::Restart);
        assert_eq!(own, expected, "{format}");
        for cut in (0..text.len()).step_by(331).filter(|cut| text.is_char_boundary(*cut)) {
            let Ok(mut torn) = sadf(&text[..cut]) else { continue };
            let torn = torn.pop().unwrap();
            assert!(series.samples().starts_with(torn.samples()));
            assert!(
                torn.problems.iter().any(|problem| problem.what.contains("end")),
                "{format} {cut}"
            );
        }
        // Without ALL there are sums of parts.
        let output =
            Command::new("sadf").arg(format).arg(&path).args(["--", "-u"]).output().unwrap();
        let sums = one(&String::from_utf8(output.stdout).unwrap());
        for metric in [Metric::CpuUser, Metric::CpuSystem, Metric::CpuIdle] {
            let (printed, stored) =
                (sums.value(metric, 0).unwrap(), file.value(metric, 1).unwrap());
            assert!((printed - stored).abs() < 0.006, "{format} {metric:?} {printed} {stored}");
        }
    }
}

#[test]
fn xml_of_9_1_5_says_what_the_file_says() {
    let series = one(&String::from_utf8(fixture("9.1.5.xml.xz")).unwrap());
    let file = read(&fixture("9.1.5.xz")).unwrap();
    let mut told = series.clone();
    assert!(told.problems.remove(0).what.contains("assumed to be UTC"));
    same("9.1.5", &told, &file, true);
    let processors = (0..5).map(|row| series.value(Metric::Processors, row).unwrap());
    assert!(processors.eq([2.0; 5]));
}

#[test]
fn a_converted_file_has_no_page_tables_of_zero() {
    let text = r#"{"sysstat": {"hosts": [{"nodename": "db1", "release": "3.10.0-957.el7.x86_64", "statistics": [
        {"timestamp": {"date": "2026-11-21", "time": "22:47:35", "utc": 1, "interval": 600},
         "memory": {"memfree": 1024, "pgtbl": 0, "kstack": 0, "slab": 0, "anonpg": 0, "dirty": 0}}]}]}}"#;
    let series = one(text);
    assert_eq!(series.value(Metric::MemFree, 0), Some(1024.0 * 1024.0));
    assert_eq!(series.value(Metric::Dirty, 0), Some(0.0));
    assert_eq!(series.value(Metric::PageTables, 0), None);
    // `date -u -d '2026-11-21 22:47:35' +%s`
    assert_eq!(series.samples()[0].at.0, 1_795_301_255_000);
}

#[test]
fn samples_say_which_clock_they_are_of() {
    let clock_of = |attributes: &str| {
        let sample = format!(
            "<timestamp date=\"2024-01-20\" time=\"16:00:22\" {attributes} \
                 interval=\"1\"></timestamp>"
        );
        let series = one(&format!("<sysstat><host nodename=\"db1\">{sample}</host></sysstat>"));
        assert_eq!(series.problems.is_empty(), !attributes.is_empty());
        series.clock
    };
    let utc = Clock::Utc { offsets: Vec::new() };
    assert_eq!(
        [clock_of(""), clock_of("utc=\"1\""), clock_of("tz=\"UTC\"")],
        [utc.clone(), utc.clone(), utc]
    );
    assert_eq!(clock_of("utc=\"0\""), Clock::Wall { zone: None });
    assert_eq!(clock_of("tz=\"CST\""), Clock::Wall { zone: Some("CST".into()) });
}

#[test]
fn what_sadf_did_not_print_is_refused() {
    for text in ["", "hello", "<html></html>", "{}", "[1, 2]", "{\"hosts\": 3", "<sysstat>"] {
        assert!(sadf(text).is_err(), "{text}");
    }
}

/// What XML may hold and sadf does not print: the file was edited, or is none of sadf's.
#[test]
fn xml_is_read_as_xml_and_within_bounds() {
    let sample = "<timestamp date='2024-01-20' time=\"16:00:22\" utc=\"1\" interval=\"1\"><x \
         a=\"1\" /></timestamp>";
    let series_of = |head: &str| {
        one(&format!("<?xml version=\"1.0\"?>\n<sysstat>{head}{sample}</host></sysstat>"))
    };
    let series = series_of(
        "<!-- of > <db1> --><host nodename=\"db1 &amp; &#100;b2\"><release>6.1.0 \
             &lt;x&gt;</release>",
    );
    assert_eq!(
        (series.host.as_deref(), series.kernel.as_deref()),
        (Some("db1 & db2"), Some("6.1.0 <x>"))
    );
    assert_eq!(series.samples().len(), 1);
    // A comment by sadc -C in Latin-1.
    let latin = b"<sysstat><host nodename=\"db\xe9\"><comment com=\"a\" date=\"2024-01-20\" \
         time=\"16:00:22\"/></host></sysstat>";
    let series = readers::sysstat::sadf::read(&mut &latin[..], "sa01.xml").unwrap();
    assert_eq!(series[0].host.as_deref(), Some("db\u{fffd}"));
    // Nothing of a stream without an end to a tag, or to nesting, is kept in memory for long.
    let endless = |unit: &'static [u8]| {
        let head: &[u8] = b"<host nodename=\"db1\">";
        let mut stream = std::io::Read::chain(head, Endless { unit, at: 0, left: 64 << 20 });
        let series = readers::sysstat::sadf::read(&mut stream, "sa01.xml").unwrap();
        (stream.get_ref().1.left, series[0].problems[0].what.clone())
    };
    for unit in [&b"x"[..], b"<a>", b"<a b='", b"<!-- x"] {
        let (left, problem) = endless(unit);
        assert!(left > 60 << 20, "{unit:?}: {left}");
        assert!(problem.contains("to its end"), "{problem}");
    }
}

/// The same bytes over and over.
struct Endless {
    unit: &'static [u8],
    at: usize,
    left: usize,
}

impl std::io::Read for Endless {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let count = into.len().min(self.left);
        for byte in &mut into[..count] {
            *byte = self.unit[self.at % self.unit.len()];
            self.at += 1;
        }
        self.left -= count;
        Ok(count)
    }
}

proptest::proptest! {
    /// By the rules of XML 1.0 and of RFC 8259, whatever a host is called.
    #[test]
    fn a_name_is_read_back_as_it_was_written(name in "[^\\x00-\\x1f\\x7f-\\x9f\\\\\"]{1,40}") {
        let in_xml = name.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('\'', "&apos;");
        let xml = one(&format!("<sysstat><host nodename=\"{in_xml}\"/></sysstat>"));
        let json = one(&format!("{{\"sysstat\": {{\"hosts\": [{{\"nodename\": \"{name}\"}}]}}}}"));
        proptest::prop_assert_eq!(xml.host.as_deref(), Some(&*name));
        proptest::prop_assert_eq!(json.host.as_deref(), Some(&*name));
    }
}
