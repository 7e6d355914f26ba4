//! What `/api/v1/history` of `hugewise serve` answers: `hugewise.history/1`.

use std::io;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::date::format_rfc3339;

pub(crate) const HISTORY_SCHEMA: &str = "hugewise.history/1";

/// A host's memory over the last hours, oldest point first.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "hugewise.history/1")]
pub struct HistoryDocument<'a> {
    /// Name and version of this format.
    #[schemars(extend("const" = HISTORY_SCHEMA))]
    pub schema: &'static str,
    /// The shortest time between two points.
    pub gap_seconds: u64,
    /// The largest number of points kept; the oldest go first.
    pub most_points: usize,
    /// Oldest first.
    pub points: Vec<&'a HistoryPoint>,
}

/// A host at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct HistoryPoint {
    /// When it was read, RFC 3339; null if the host's clock does not say.
    #[serde(serialize_with = "serialize_moment")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub at: Option<i64>,
    /// Page tables of all processes.
    pub page_tables_bytes: Option<u64>,
    /// `MemAvailable`.
    pub memory_available_bytes: Option<u64>,
    /// Share of all processors' time spent in the kernel since the previous point, from 0 to 1.
    pub kernel_cpu: Option<f64>,
    /// Client sessions of all instances that report them; null if none does.
    pub sessions: Option<u64>,
    /// The host's pools, by page size.
    pub pools: Vec<PoolPoint>,
    /// Its instances, by engine and name; only the first of them if there are very many.
    pub instances: Vec<InstancePoint>,
}

/// A pool at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PoolPoint {
    /// Page size.
    pub page_bytes: u64,
    /// Pages in the pool.
    pub total_pages: Option<u64>,
    /// total - free + reserved.
    pub committed_pages: Option<u64>,
    /// free - reserved.
    pub available_pages: Option<u64>,
}

/// An instance at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct InstancePoint {
    /// `oracle PROD`.
    #[serde(serialize_with = "serialize_title")]
    #[schemars(with = "String")]
    pub instance: std::sync::Arc<str>,
    /// Client sessions.
    pub sessions: Option<u64>,
    /// Page tables of all its processes.
    pub page_tables_bytes: Option<u64>,
}

fn serialize_moment<S: Serializer>(seconds: &Option<i64>, to: S) -> Result<S::Ok, S::Error> {
    seconds.and_then(format_rfc3339).serialize(to)
}

fn serialize_title<S: Serializer>(title: &std::sync::Arc<str>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(title)
}

impl<'a> HistoryDocument<'a> {
    /// These points, oldest first.
    pub fn new(gap_seconds: u64, most_points: usize, points: Vec<&'a HistoryPoint>) -> Self {
        Self { schema: HISTORY_SCHEMA, gap_seconds, most_points, points }
    }

    /// Writes it as one line.
    pub fn write_json(&self, out: &mut dyn io::Write) -> io::Result<()> {
        super::write_json_line(self, out)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_history_obeys_its_schema() {
        let point = HistoryPoint {
            at: Some(1_700_000_000),
            page_tables_bytes: Some(4096),
            kernel_cpu: Some(0.25),
            pools: vec![PoolPoint {
                page_bytes: 2 << 20,
                total_pages: Some(7),
                ..PoolPoint::default()
            }],
            instances: vec![InstancePoint {
                instance: "oracle PROD".into(),
                ..InstancePoint::default()
            }],
            ..HistoryPoint::default()
        };
        let unknown = HistoryPoint::default();
        let mut out = Vec::new();
        HistoryDocument::new(15, 1440, vec![&unknown, &point]).write_json(&mut out).unwrap();
        let value: Value = serde_json::from_slice(&out).unwrap();
        let schema: Value =
            serde_json::from_str(&crate::json::schema_of::<HistoryDocument<'_>>()).unwrap();
        let errors: Vec<String> = jsonschema::validator_for(&schema)
            .unwrap()
            .iter_errors(&value)
            .map(|error| error.to_string())
            .collect();
        assert!(errors.is_empty(), "{errors:?}");
        assert_eq!(value["points"][0]["at"], Value::Null);
        assert_eq!(value["points"][1]["at"], "2023-11-14T22:13:20Z");
        assert_eq!(value["points"][1]["pools"][0]["available_pages"], json!(null));
    }
}
