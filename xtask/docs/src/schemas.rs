//! What the outputs of hugewise look like, for other programs.

use std::path::Path;

use hugewise_report::json;

use crate::Files;

/// Writes the schema of one output.
type SchemaWriter = fn() -> String;

/// Files of docs/schema, and what writes them.
const SCHEMAS: [(&str, SchemaWriter); 16] = [
    ("applied.json", json::schema_of::<json::applied::AppliedDocument>),
    ("check.json", json::schema_of::<json::Check>),
    ("history.json", json::schema_of::<json::history::HistoryDocument<'static>>),
    ("investigate.json", json::schema_of::<json::investigate::Investigate>),
    ("journals.json", json::schema_of::<json::applied::Journals>),
    ("lab.json", json::schema_of::<json::lab::Lab<'static>>),
    ("openapi.json", hugewise_serve::openapi::openapi_document),
    ("plan.json", json::plan_schema),
    ("pod.json", json::schema_of::<json::pod::PodDocument>),
    ("record.json", json::schema_of::<hugewise_report::recorded::status::RecordStatusDocument>),
    ("report.json", json::schema_of::<json::host_report::HostReportDocument>),
    ("run.json", json::schema_of::<json::run::RunDocument<'static>>),
    ("size.json", json::schema_of::<json::size::SizeDocument>),
    ("tables.md", hugewise_fleet::schema::render_schema_page),
    ("undone.json", json::schema_of::<json::applied::UndoneDocument>),
    ("verify.json", json::schema_of::<json::verify::Verify>),
];

pub(crate) fn add(files: &mut Files) {
    for (name, text) in SCHEMAS {
        files.insert(Path::new("docs/schema").join(name), text().into_bytes());
    }
}
