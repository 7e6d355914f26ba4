//! What `sadf -x` and `sadf -j` print, such as `sos_commands/sar/saNN.xml` of a sosreport, and
//! `sadf -d` and `sadf -p` ([`rows`]). XML and JSON are read element by element: a day of samples of every
//! second is hundreds of megabytes.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::time::Duration;

use hugewise_model::KernelRelease;

use super::columns::{self, SarReadings};
use super::{MOST_HOSTS, note_hosts_left_out};
use crate::readers::archive_format::{ArchiveFormat, Promise};
use crate::series::{Mark, MarkKind, Moment};
use crate::{Clock, FileRefused, Metric, Series};
use hugewise_model::calendar;

mod json;
mod rows;
mod xml;

/// Bytes of the longest tag, text or string of sadf.
const LONGEST: usize = 1 << 20;
/// Nested elements: sadf has eight at most.
const DEEPEST: usize = 64;
/// Values of one sample, one for each device: the first of a name counts.
const MOST_READINGS: usize = 4096;

/// What sadf prints as XML or JSON, and in rows.
pub static FORMAT: ArchiveFormat = ArchiveFormat {
    name: "sadf",
    called: "sadf's output",
    tools: &[],
    is_text: true,
    recognize: recognize_sadf,
    read: |file| {
        let is_rows = rows::is_rows(file.head.trim_ascii_start());
        if is_rows { rows::read(file.stream, file.source) } else { read(file.stream, file.source) }
    },
};

/// Other programs write XML and JSON too, and quotations and notes begin with the same letters.
fn recognize_sadf(text: &[u8]) -> Promise {
    let is_element = text.starts_with(b"<") || text.starts_with(b"{");
    if !is_element {
        return Promise::likely_if(rows::is_rows(text));
    }
    let text = String::from_utf8_lossy(text);
    if text.contains("sysstat") {
        Promise::Likely
    } else if text.starts_with("<?xml") || text.contains("nodename") {
        Promise::Faint
    } else {
        Promise::None
    }
}

/// Reads what sadf printed as XML or JSON; one series for each host in it.
///
/// # Errors
/// It is neither, has no host, or cannot be read.
pub fn read(stream: &mut dyn Read, source: &str) -> Result<Vec<Series>, FileRefused> {
    let mut stream = BufReader::with_capacity(64 << 10, stream);
    let mut hosts = Hosts { source: source.to_owned(), hosts: Vec::new(), left_out: 0 };
    let first = stream.fill_buf().map_err(|error| FileRefused(error.to_string()))?;
    let first = first.iter().find(|byte| !byte.is_ascii_whitespace() && **byte < 0x80);
    let ended = match first {
        Some(b'<') => xml::read(&mut stream, &mut |element| hosts.push_element(element)),
        Some(b'{') => json::read(&mut stream, &mut |element| hosts.push_element(element)),
        _ => return Err(FileRefused("is neither XML nor JSON".into())),
    };
    if hosts.hosts.is_empty() {
        return Err(FileRefused(
            "names no host: of what sysstat's tools print as a document, sadf's -x, -j, -d and -p \
             are read"
                .into(),
        ));
    }
    let left_out = hosts.left_out;
    let mut series: Vec<Series> = hosts.hosts.into_iter().map(SadfHost::into_series).collect();
    note_hosts_left_out(&mut series, left_out);
    if let Err(error) = ended
        && let Some(last) = series.last_mut()
    {
        last.add_problem(format!("cannot be read to its end: {error}"));
    }
    Ok(series)
}

/// An element with its attributes, or an object with plain members up to the first other one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Element {
    /// `paging`; of an object in a list, the list's name.
    name: String,
    attributes: Vec<(String, String)>,
}

impl Element {
    fn get(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(text, _)| text == name).map(|(_, value)| value.as_str())
    }

    fn number_attribute(&self, name: &str) -> Option<f64> {
        self.get(name)?.parse().ok()
    }

    fn parse_moment(&self) -> Option<Moment> {
        let midnight = calendar::iso_date(self.get("date")?)?;
        Some(Moment::from_seconds(midnight + calendar::time_of_day(self.get("time")?)?))
    }
}

struct Hosts {
    source: String,
    hosts: Vec<SadfHost>,
    /// Hosts behind the last one that is read.
    left_out: usize,
}

impl Hosts {
    fn push_element(&mut self, element: &Element) {
        if let Some(name) = element.get("nodename") {
            if self.hosts.len() >= MOST_HOSTS {
                self.left_out += 1;
                return;
            }
            let mut series = Series::new(&self.source, crate::SourceFormat::SADF);
            series.host = Some(name.to_owned());
            series.clock = Clock::Utc { offsets: Vec::new() };
            if let Some(before) = self.hosts.last_mut() {
                before.flush_sample();
            }
            self.hosts.push(SadfHost { series, ..SadfHost::default() });
        }
        if let Some(host) = self.hosts.last_mut().filter(|_| self.left_out == 0) {
            host.push_element(element);
        }
    }
}

#[derive(Default)]
struct SadfHost {
    series: Series,
    kernel: Option<KernelRelease>,
    processors: Option<f64>,
    sample: Option<(Moment, Option<Duration>)>,
    said: SarReadings,
    /// Whether samples name their clock.
    told: bool,
}

impl SadfHost {
    fn push_element(&mut self, element: &Element) {
        if let Some(release) = element.get("release") {
            self.series.kernel = Some(release.to_owned());
            self.kernel = hugewise_host::kernel::release::parse(release.as_bytes()).ok();
        }
        if let Some(machine) = element.get("machine") {
            self.series.architecture = Some(machine.to_owned());
        }
        if let Some(processors) = element.number_attribute("number-of-cpus") {
            self.processors = Some(processors);
        }
        match element.name.as_str() {
            "timestamp" => self.begin_sample(element),
            "boot" => self.add_mark(element, MarkKind::Restart),
            "comment" => {
                let comment = element.get("com").unwrap_or_default().to_owned();
                self.add_mark(element, MarkKind::Comment(comment));
            }
            // XML has an element a processor, JSON an object in the list; `-u ALL` had its own name.
            "cpu" | "cpu-load" | "cpu-load-all" => {
                if element.get("number").or_else(|| element.get("cpu")) == Some("all")
                    && element.get("idle").is_some()
                {
                    self.collect_readings("cpu-load", element);
                }
            }
            "irq" | "interrupts" => {
                let all = element.get("cpu").is_none_or(|cpu| cpu == "all");
                let value =
                    element.number_attribute("value").or_else(|| element.number_attribute("all"));
                let is_sum = all && element.get("intr") == Some("sum");
                if let Some(value) = value.filter(|_| is_sum && self.said.len() < MOST_READINGS) {
                    self.said.extend(
                        columns::find_heading_for_key("interrupts", "sum")
                            .map(|word| (word, value)),
                    );
                }
            }
            name => self.collect_readings(name, element),
        }
    }

    fn collect_readings(&mut self, group: &str, element: &Element) {
        if self.said.len() >= MOST_READINGS {
            return;
        }
        let mut seen = BTreeSet::new();
        for (name, _) in &element.attributes {
            // The first of a name counts; a tag may have tens of thousands.
            let Some(word) =
                columns::find_heading_for_key(group, name).filter(|_| seen.insert(name))
            else {
                continue;
            };
            self.said.extend(element.number_attribute(name).map(|value| (word, value)));
        }
    }

    fn add_mark(&mut self, element: &Element, kind: MarkKind) {
        if let Some(at) = element.parse_moment() {
            self.series.marks.push(Mark { at, kind });
        }
    }

    fn begin_sample(&mut self, element: &Element) {
        self.flush_sample();
        let Some(at) = element.parse_moment() else { return };
        // Since 12.7 samples name their zone; before, whether it was UTC; before 10.0, nothing.
        let (utc, zone) = (element.get("utc"), element.get("tz"));
        self.told |= utc.is_some() || zone.is_some();
        if utc == Some("0") || zone.is_some_and(|zone| zone != "UTC") {
            self.series.clock = Clock::Wall { zone: zone.map(str::to_owned) };
        }
        let interval = element
            .number_attribute("interval")
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        self.sample = Some((at, interval.filter(|interval| !interval.is_zero())));
    }

    fn flush_sample(&mut self) {
        let said = std::mem::take(&mut self.said);
        let Some((at, interval)) = self.sample.take() else { return };
        self.series.push(at, interval);
        let row = self.series.samples().len() - 1;
        columns::set_sample_values(&mut self.series, row, &said, self.kernel.as_ref());
        if let Some(processors) = self.processors {
            self.series.set_at(row, Metric::Processors, processors);
        }
    }

    fn into_series(mut self) -> Series {
        self.flush_sample();
        columns::distrust_metrics(&mut self.series, self.kernel.as_ref());
        if !self.told && !self.series.samples().is_empty() {
            self.series.add_problem(
                "does not say which clock its times are from: assumed to be UTC, sadf's default",
            );
        }
        // Marks come at the end, kind by kind.
        self.series.marks.sort_by_key(|mark| mark.at);
        self.series.finish()
    }
}
