//! What `hugewise serve` says of its API, besides the documents of the commands.

use std::io;

use hugewise_model::escape;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Map, Value};

use super::history::{HistoryDocument, HistoryPoint};
use super::{Check, size::SizeDocument};
use crate::CheckReport;
use crate::host_report::VERSION;

pub(crate) const ERROR_SCHEMA: &str = "hugewise.error/1";
pub(crate) const EVENT_SCHEMA: &str = "hugewise.event/1";

/// Why there is no answer.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "hugewise.error/1")]
pub struct ErrorDocument<'a> {
    /// Name and version of this format.
    #[schemars(extend("const" = ERROR_SCHEMA))]
    pub schema: &'static str,
    /// What is wrong, for people.
    pub error: &'a str,
}

/// A reading, as it is sent to listeners.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "hugewise.event/1")]
pub struct ReadingEventDocument<'a> {
    /// Name and version of this format.
    #[schemars(extend("const" = EVENT_SCHEMA))]
    pub schema: &'static str,
    /// Version of hugewise that serves it.
    pub hugewise: &'static str,
    /// Number of the reading since the server's start.
    pub reading: u64,
    /// What `/api/v1/check` answers.
    pub check: Check,
    /// The point that it added to the history; null if the last one is too recent.
    pub point: Option<&'a HistoryPoint>,
}

/// Writes an error document.
pub fn write_error(error: &str, out: &mut dyn io::Write) -> io::Result<()> {
    super::write_json_line(&ErrorDocument { schema: ERROR_SCHEMA, error }, out)
}

/// Writes a reading as one line.
pub fn write_event(
    checked: &CheckReport<'_>,
    reading: u64,
    point: Option<&HistoryPoint>,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let event = ReadingEventDocument {
        schema: EVENT_SCHEMA,
        hugewise: VERSION,
        reading,
        check: Check::from(checked),
        point,
    };
    Ok(serde_json::to_writer(escape::json::EscapingJsonWriter::new(out), &event)?)
}

/// The API's documents: references for an OpenAPI 3.1 description.
pub struct Schemas {
    /// Of `/api/v1/check`.
    pub check: Value,
    /// Of `/api/v1/size`.
    pub size: Value,
    /// Of `/api/v1/history`.
    pub history: Value,
    /// Of an event.
    pub event: Value,
    /// Of an error.
    pub error: Value,
    /// `components.schemas`, which they refer to.
    pub components: Map<String, Value>,
}

/// Schemas of the 2020-12 draft, as OpenAPI 3.1 requires.
pub fn build_api_schemas() -> Schemas {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut generator = SchemaGenerator::new(settings);
    let check = generator.subschema_for::<Check>().to_value();
    let size = generator.subschema_for::<SizeDocument>().to_value();
    let history = generator.subschema_for::<HistoryDocument<'static>>().to_value();
    let event = generator.subschema_for::<ReadingEventDocument<'static>>().to_value();
    let error = generator.subschema_for::<ErrorDocument<'static>>().to_value();
    Schemas { check, size, history, event, error, components: generator.take_definitions(false) }
}
