//! The two text formats: families, labels, values.

use std::fmt::{self, Write};

use hugewise_model::escape::openmetrics;

use super::ExpositionFormat;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MetricKind {
    Gauge,
    /// Its name ends in `_total`.
    Counter,
    /// Always 1: its labels tell something. Its name ends in `_info`.
    Info,
}

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

/// As they stand between the braces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Labels(String);

impl Labels {
    pub(super) fn none() -> Self {
        Self::default()
    }

    pub(super) fn from_pairs<'a>(
        labels: impl IntoIterator<Item = (&'static str, &'a str)>,
    ) -> Self {
        labels
            .into_iter()
            .fold(Self::none(), |labels, (name, value)| labels.with_label(name, value))
    }

    pub(super) fn with_label(&self, name: &str, value: &str) -> Self {
        let mut text = self.0.clone();
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(name);
        text.push_str("=\"");
        text.push_str(&openmetrics::escape_label_value(value));
        text.push('"');
        Self(text)
    }
}

/// The growing text. A family without a sample is left out.
pub(super) struct Families {
    text: String,
    format: ExpositionFormat,
    name: &'static str,
    head: String,
}

impl Families {
    pub(super) fn new(format: ExpositionFormat) -> Self {
        Self { text: String::with_capacity(16 << 10), format, name: "", head: String::new() }
    }

    pub(super) fn begin_family(&mut self, name: &'static str, kind: MetricKind, help: &str) {
        let (family, kind) = match (self.format, kind) {
            (ExpositionFormat::OpenMetrics, MetricKind::Counter) => {
                (name.trim_end_matches("_total"), "counter")
            }
            (ExpositionFormat::OpenMetrics, MetricKind::Info) => {
                (name.trim_end_matches("_info"), "info")
            }
            (_, MetricKind::Counter) => (name, "counter"),
            (_, MetricKind::Gauge | MetricKind::Info) => (name, "gauge"),
        };
        let unit = ["bytes", "pages", "seconds"].into_iter().find(|unit| {
            family.strip_suffix(unit).is_some_and(|rest| rest.ends_with('_'))
                && self.format == ExpositionFormat::OpenMetrics
        });
        self.name = name;
        self.head = format!(
            "# HELP {family} {}\n# TYPE {family} {kind}\n",
            openmetrics::escape_help_text(help)
        );
        if let Some(unit) = unit {
            self.head.push_str(&format!("# UNIT {family} {unit}\n"));
        }
    }

    pub(super) fn add_sample(&mut self, labels: &Labels, value: impl Into<Value>) {
        self.text.push_str(&std::mem::take(&mut self.head));
        let value = value.into();
        // Writing to a string cannot fail.
        let _ = match labels.0.as_str() {
            "" => writeln!(self.text, "{} {value}", self.name),
            labels => writeln!(self.text, "{}{{{labels}}} {value}", self.name),
        };
    }

    pub(super) fn add_known_sample(&mut self, labels: &Labels, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.add_sample(labels, value);
        }
    }

    pub(super) fn add_gauge(
        &mut self,
        name: &'static str,
        help: &str,
        value: Option<impl Into<Value>>,
    ) {
        self.begin_family(name, MetricKind::Gauge, help);
        self.add_known_sample(&Labels::none(), value);
    }

    pub(super) fn finish(mut self) -> String {
        if self.format == ExpositionFormat::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
}
