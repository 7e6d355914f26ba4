//! What `hugewise serve` says of its API, beside the documents that it shares with the commands.

use std::io;

use hugewise_model::escape;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Map, Value};

use super::history::{History, Point};
use super::{Check, size::Size};
use crate::Checked;
use crate::full::VERSION;

/// Name and version of the format.
pub(crate) const ERROR_SCHEMA: &str = "hugewise.error/1";
/// Name and version of the format.
pub(crate) const EVENT_SCHEMA: &str = "hugewise.event/1";

/// Why there is no answer.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "hugewise.error/1")]
pub struct Failed<'a> {
    /// Name and version of this format.
    #[schemars(extend("const" = ERROR_SCHEMA))]
    pub schema: &'static str,
    /// What is wrong, for people.
    pub error: &'a str,
}

/// A reading, as it is sent to listeners.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "hugewise.event/1")]
pub struct Event<'a> {
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
    pub point: Option<&'a Point>,
}

/// Writes why there is no answer.
///
/// # Errors
/// Where `out` cannot be written.
pub fn write_error(error: &str, out: &mut dyn io::Write) -> io::Result<()> {
    super::line(&Failed { schema: ERROR_SCHEMA, error }, out)
}

/// Writes a reading as one line.
///
/// # Errors
/// Where `out` cannot be written.
pub fn write_event(
    checked: &Checked<'_>,
    reading: u64,
    point: Option<&Point>,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let event = Event { schema: EVENT_SCHEMA, hugewise: VERSION, reading, check: Check::from(checked), point };
    Ok(serde_json::to_writer(escape::json::Writer::new(out), &event)?)
}

/// The API's documents as an OpenAPI 3.1 description names them.
pub struct Schemas {
    /// Reference to what `/api/v1/check` answers.
    pub check: Value,
    /// Reference to what `/api/v1/size` answers.
    pub size: Value,
    /// Reference to what `/api/v1/history` answers.
    pub history: Value,
    /// Reference to what an event carries.
    pub event: Value,
    /// Reference to what is answered in place of all of them.
    pub error: Value,
    /// `components.schemas`, which they refer to.
    pub components: Map<String, Value>,
}

/// All of them; their JSON Schema is that of the 2020-12 draft, as OpenAPI 3.1 has it.
pub fn schemas() -> Schemas {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut generator = SchemaGenerator::new(settings);
    let check = generator.subschema_for::<Check>().to_value();
    let size = generator.subschema_for::<Size>().to_value();
    let history = generator.subschema_for::<History<'static>>().to_value();
    let event = generator.subschema_for::<Event<'static>>().to_value();
    let error = generator.subschema_for::<Failed<'static>>().to_value();
    Schemas { check, size, history, event, error, components: generator.take_definitions(false) }
}
