//! The two text formats: families, labels, values.

use std::fmt::{self, Write};

use hugewise_model::escape::openmetrics;

use super::Format;

/// What a family holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Goes up and down.
    Gauge,
    /// Goes up; its name ends in `_total`.
    Counter,
    /// Always 1, and says something in its labels; its name ends in `_info`.
    Info,
}

/// A sample's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    Whole(u64),
    Part(f64),
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Whole(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Part(value)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Whole(u64::from(value))
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(value) => write!(f, "{value}"),
            Self::Part(value) if *value == f64::INFINITY => f.write_str("+Inf"),
            Self::Part(value) => write!(f, "{value}"),
        }
    }
}

/// Labels as they stand between the braces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Labels(String);

impl Labels {
    pub(super) fn none() -> Self {
        Self::default()
    }

    pub(super) fn of<'a>(labels: impl IntoIterator<Item = (&'static str, &'a str)>) -> Self {
        labels.into_iter().fold(Self::none(), |labels, (name, value)| labels.and(name, value))
    }

    /// These, and one more.
    pub(super) fn and(&self, name: &str, value: &str) -> Self {
        let mut text = self.0.clone();
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(name);
        text.push_str("=\"");
        text.push_str(&openmetrics::label(value));
        text.push('"');
        Self(text)
    }
}

/// The text as it grows: one family after the other. A family without a sample leaves no trace.
pub(super) struct Families {
    text: String,
    format: Format,
    name: &'static str,
    head: String,
}

impl Families {
    pub(super) fn new(format: Format) -> Self {
        Self { text: String::with_capacity(16 << 10), format, name: "", head: String::new() }
    }

    /// Begins a family; `name` is that of its samples.
    pub(super) fn family(&mut self, name: &'static str, kind: Kind, help: &str) {
        let (family, kind) = match (self.format, kind) {
            (Format::OpenMetrics, Kind::Counter) => (name.trim_end_matches("_total"), "counter"),
            (Format::OpenMetrics, Kind::Info) => (name.trim_end_matches("_info"), "info"),
            (_, Kind::Counter) => (name, "counter"),
            (_, Kind::Gauge | Kind::Info) => (name, "gauge"),
        };
        let unit = ["bytes", "pages", "seconds"].into_iter().find(|unit| {
            family.strip_suffix(unit).is_some_and(|rest| rest.ends_with('_')) && self.format == Format::OpenMetrics
        });
        self.name = name;
        self.head = format!("# HELP {family} {}\n# TYPE {family} {kind}\n", openmetrics::help(help));
        if let Some(unit) = unit {
            self.head.push_str(&format!("# UNIT {family} {unit}\n"));
        }
    }

    /// A sample of the family that was begun last.
    pub(super) fn sample(&mut self, labels: &Labels, value: impl Into<Value>) {
        self.text.push_str(&std::mem::take(&mut self.head));
        let value = value.into();
        // Writing to a string cannot fail.
        let _ = match labels.0.as_str() {
            "" => writeln!(self.text, "{} {value}", self.name),
            labels => writeln!(self.text, "{}{{{labels}}} {value}", self.name),
        };
    }

    /// A sample where the value is known.
    pub(super) fn known(&mut self, labels: &Labels, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.sample(labels, value);
        }
    }

    /// The whole text.
    pub(super) fn end(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
}
