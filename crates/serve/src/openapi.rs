//! What the JSON API is, as OpenAPI 3.1: made from the types that the answers are written from.

use hugewise_report::json::api;
use hugewise_report::openmetrics::Format;
use serde_json::{Value, json};

/// The description, as `/api/v1/openapi.json` gives it.
pub fn openapi() -> String {
    let schemas = api::schemas();
    let error = |what: &str| answer("application/json", &schemas.error, what);
    let unavailable = error("The host cannot be read, or too many ask.");
    let document = |what: &str, schema: &Value| {
        json!({
            "200": answer("application/json", schema, what), "401": error("No credential, or a wrong one."),
            "413": error("The request has a body."), "421": error("The Host header names another host."),
            "503": unavailable,
        })
    };
    let text = json!({"type": "string"});
    let mut size = document("How many huge pages the servers here need, and what that leaves.", &schemas.size);
    let mut events = document("Readings as they are made; `data` of an event `reading` is one document.", &text);
    let mut metrics = document("All metrics.", &text);
    if let Some(size) = size.as_object_mut() {
        size.insert("400".into(), error("The question makes no sense."));
        size.insert("404".into(), error("Nothing here to size, or no pages of that size."));
    }
    if let Some(of) = events.pointer_mut("/200/content") {
        *of = json!({"text/event-stream": {"schema": text, "x-event-data": schemas.event}});
    }
    if let Some(of) = metrics.pointer_mut("/200/content") {
        *of = json!({
            Format::Prometheus.content_type(): {"schema": text}, Format::OpenMetrics.content_type(): {"schema": text},
        });
    }
    let described = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "hugewise serve",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Whether the databases of a host use huge pages. Reads only.",
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{}, {"basic": []}],
        "paths": {
            "/api/v1/check": {"get": operation("check", "What `hugewise check` says, now.", &json!([]), &document("The host, its servers, and what is wrong.", &schemas.check))},
            "/api/v1/size": {"get": operation("size", "What `hugewise size` says, for what runs here.", &size_parameters(), &size)},
            "/api/v1/history": {"get": operation("history", "The last hours.", &json!([]), &document("Points, oldest first.", &schemas.history))},
            "/api/v1/events": {"get": operation("events", "Readings as they are made.", &json!([]), &events)},
            "/metrics": {"get": operation("metrics", "What Prometheus scrapes.", &json!([]), &metrics)},
        },
        "components": {
            "schemas": schemas.components,
            "securitySchemes": {"basic": {"type": "http", "scheme": "basic"}},
        },
    });
    format!("{described:#}\n")
}

fn answer(kind: &str, schema: &Value, what: &str) -> Value {
    json!({"description": what, "content": {kind: {"schema": schema}}})
}

fn operation(id: &str, summary: &str, parameters: &Value, responses: &Value) -> Value {
    json!({"operationId": id, "summary": summary, "parameters": parameters, "responses": responses})
}

fn size_parameters() -> Value {
    let parameter = |name: &str, what: &str, schema: Value| json!({"name": name, "in": "query", "description": what, "schema": schema});
    json!([
        parameter(
            "sessions",
            "Sessions on the host that the plan has to carry.",
            json!({"type": "integer", "minimum": 1, "maximum": 4 << 20})
        ),
        parameter(
            "page_size",
            "`2M`, `1G`, or `auto`: what each server's settings ask for.",
            json!({"type": "string", "default": "auto"})
        ),
        parameter(
            "headroom",
            "Pages beyond the demand, in percent of it.",
            json!({"type": "integer", "minimum": 0, "maximum": 100, "default": 0})
        ),
        parameter("memory", "Plan for a host with so much memory: `128G`.", json!({"type": "string"})),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every `$ref` of a document.
    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
                fields.values().for_each(|value| references(value, found));
            }
            Value::Array(values) => values.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let described: Value = serde_json::from_str(&openapi()).unwrap();
        let mut found = Vec::new();
        references(&described, &mut found);
        assert!(found.len() > 20, "{}", found.len());
        for reference in found {
            let at = reference.strip_prefix('#').unwrap();
            assert!(described.pointer(at).is_some(), "{reference}");
        }
    }

    #[test]
    fn the_document_of_a_question_is_the_commands() {
        let described: Value = serde_json::from_str(&openapi()).unwrap();
        let schema = |path: &str| {
            let at =
                format!("/paths/{}/get/responses/200/content/application~1json/schema/$ref", path.replace('/', "~1"));
            let reference = described.pointer(&at).and_then(Value::as_str).unwrap();
            described.pointer(&reference[1..]).unwrap()["title"].clone()
        };
        assert_eq!(schema("/api/v1/check"), "hugewise.check/1");
        assert_eq!(schema("/api/v1/size"), "hugewise.size/1");
        assert_eq!(schema("/api/v1/history"), "hugewise.history/1");
    }
}
