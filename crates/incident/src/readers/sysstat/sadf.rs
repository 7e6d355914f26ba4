//! What `sadf -x` and `sadf -j` print: `sos_commands/sar/saNN.xml` of a sosreport, and what people keep for their tools.
//!
//! Both are read as they come, an element at a time: a day of samples of every second is hundreds of megabytes.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::time::Duration;

use hugewise_model::KernelRelease;

use super::super::calendar;
use super::columns::{self, Said};
use crate::series::{Mark, MarkKind, Moment};
use crate::{Clock, Metric, Refused, Series};

mod json;
mod xml;

/// No tag, text or string of sadf is longer.
const LONGEST: usize = 1 << 20;
/// Elements in elements: sadf's are at most eight.
const DEEPEST: usize = 64;

/// Whether a text may be sadf's: other programs write XML and JSON too, and quotations and notes begin with the same letters.
pub(in crate::readers) fn begins(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    text.starts_with("<?xml") || text.contains("sysstat") || text.contains("nodename")
}

/// Reads what sadf printed as XML or JSON; a series for each host in it.
///
/// # Errors
/// It is neither, has no host, or cannot be read.
pub fn read(stream: &mut dyn Read, source: &str) -> Result<Vec<Series>, Refused> {
    let mut stream = BufReader::with_capacity(64 << 10, stream);
    let mut hosts = Hosts { source: source.to_owned(), hosts: Vec::new() };
    let first = stream.fill_buf().map_err(|error| Refused(error.to_string()))?;
    let first = first.iter().find(|byte| !byte.is_ascii_whitespace() && **byte < 0x80);
    let ended = match first {
        Some(b'<') => xml::read(&mut stream, &mut |element| hosts.element(element)),
        Some(b'{') => json::read(&mut stream, &mut |element| hosts.element(element)),
        _ => return Err(Refused("is neither XML nor JSON".into())),
    };
    if hosts.hosts.is_empty() {
        return Err(Refused("is not what sadf prints: no host is named in it".into()));
    }
    let mut series: Vec<Series> = hosts.hosts.into_iter().map(Host::finished).collect();
    if let Err(error) = ended
        && let Some(last) = series.last_mut()
    {
        last.problem(format!("cannot be read to its end: {error}"));
    }
    Ok(series)
}

/// An element with its attributes, or an object with its plain members up to the first that is not plain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Element {
    /// `paging`; of an object in a list, the list's name.
    name: String,
    attributes: Vec<(String, String)>,
}

impl Element {
    fn get(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(of, _)| of == name).map(|(_, value)| value.as_str())
    }

    fn number(&self, name: &str) -> Option<f64> {
        self.get(name)?.parse().ok()
    }

    /// The moment that its attributes name.
    fn moment(&self) -> Option<Moment> {
        let midnight = calendar::iso_date(self.get("date")?)?;
        Some(Moment::from_seconds(midnight + calendar::time_of_day(self.get("time")?)?))
    }
}

struct Hosts {
    source: String,
    hosts: Vec<Host>,
}

impl Hosts {
    fn element(&mut self, element: &Element) {
        if let Some(name) = element.get("nodename") {
            let mut series = Series::new(&self.source, crate::Format::Sadf);
            series.host = Some(name.to_owned());
            series.clock = Clock::Utc { offsets: Vec::new() };
            let host = Host { series, kernel: None, processors: None, sample: None, said: Said::new(), told: false };
            if let Some(before) = self.hosts.last_mut() {
                before.flush();
            }
            self.hosts.push(host);
        }
        if let Some(host) = self.hosts.last_mut() {
            host.element(element);
        }
    }
}

/// One host's series as it grows.
struct Host {
    series: Series,
    kernel: Option<KernelRelease>,
    processors: Option<f64>,
    /// The sample at hand, and what is said of it.
    sample: Option<(Moment, Option<Duration>)>,
    said: Said,
    /// Whether samples say which clock they are of.
    told: bool,
}

impl Host {
    fn element(&mut self, element: &Element) {
        if let Some(release) = element.get("release") {
            self.series.kernel = Some(release.to_owned());
            self.kernel = hugewise_host::kernel::release::parse(release.as_bytes()).ok();
        }
        if let Some(machine) = element.get("machine") {
            self.series.architecture = Some(machine.to_owned());
        }
        if let Some(processors) = element.number("number-of-cpus") {
            self.processors = Some(processors);
        }
        match element.name.as_str() {
            "timestamp" => self.timestamp(element),
            "boot" => self.mark(element, MarkKind::Restart),
            "comment" => {
                let comment = element.get("com").unwrap_or_default().to_owned();
                self.mark(element, MarkKind::Comment(comment));
            }
            // XML has an element a processor, JSON an object in the list; `-u ALL` had a name of its own.
            "cpu" | "cpu-load" | "cpu-load-all" => {
                if element.get("number").or_else(|| element.get("cpu")) == Some("all") && element.get("idle").is_some()
                {
                    self.say("cpu-load", element);
                }
            }
            "irq" | "interrupts" => {
                let all = element.get("cpu").is_none_or(|cpu| cpu == "all");
                let value = element.number("value").or_else(|| element.number("all"));
                if let Some(value) = value.filter(|_| all && element.get("intr") == Some("sum")) {
                    self.said.extend(columns::key("interrupts", "sum").map(|word| (word, value)));
                }
            }
            name => self.say(name, element),
        }
    }

    fn say(&mut self, group: &str, element: &Element) {
        let mut seen = BTreeSet::new();
        for (name, _) in &element.attributes {
            // The first of a name counts, and a tag may have tens of thousands.
            let Some(word) = columns::key(group, name).filter(|_| seen.insert(name)) else { continue };
            self.said.extend(element.number(name).map(|value| (word, value)));
        }
    }

    fn mark(&mut self, element: &Element, kind: MarkKind) {
        if let Some(at) = element.moment() {
            self.series.marks.push(Mark { at, kind });
        }
    }

    fn timestamp(&mut self, element: &Element) {
        self.flush();
        let Some(at) = element.moment() else { return };
        // Since 12.7 samples name their zone; before, they said only whether it was UTC, and before 10.0 not even that.
        let (utc, zone) = (element.get("utc"), element.get("tz"));
        self.told |= utc.is_some() || zone.is_some();
        if utc == Some("0") || zone.is_some_and(|zone| zone != "UTC") {
            self.series.clock = Clock::Wall { zone: zone.map(str::to_owned) };
        }
        let interval = element.number("interval").and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        self.sample = Some((at, interval.filter(|interval| !interval.is_zero())));
    }

    fn flush(&mut self) {
        let said = std::mem::take(&mut self.said);
        let Some((at, interval)) = self.sample.take() else { return };
        self.series.push(at, interval);
        let row = self.series.samples().len() - 1;
        columns::set(&mut self.series, row, &said, self.kernel.as_ref());
        if let Some(processors) = self.processors {
            self.series.set_at(row, Metric::Processors, processors);
        }
    }

    fn finished(mut self) -> Series {
        self.flush();
        columns::distrust(&mut self.series, self.kernel.as_ref());
        if !self.told && !self.series.samples().is_empty() {
            self.series.problem("does not say which clock its times are from: assumed to be UTC, sadf's default");
        }
        // They stand at the end, each kind for itself.
        self.series.marks.sort_by_key(|mark| mark.at);
        self.series.finished()
    }
}
