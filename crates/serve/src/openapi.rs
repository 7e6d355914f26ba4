//! The JSON API as OpenAPI 3.1, made from the types of the answers.

use hugewise_model::PageSize;
use hugewise_report::json::api;
use hugewise_report::openmetrics::ExpositionFormat;
use serde_json::{Value, json};

/// The description, as `/api/v1/openapi.json` gives it.
pub fn openapi_document() -> String {
    let schemas = api::build_api_schemas();
    let error = |what: &str| describe_answer("application/json", &schemas.error, what);
    let unavailable = error("The host cannot be read, or there are too many requests.");
    let document = |what: &str, schema: &Value| {
        json!({
            "200": describe_answer("application/json", schema, what), "401": error("No credential, or a wrong one."),
            "413": error("The request has a body."), "421": error("The Host header names another \
                 host."),
            "503": unavailable,
        })
    };
    let text = json!({"type": "string"});
    let mut size =
        document("How many huge pages the servers here need, and what that leaves.", &schemas.size);
    let mut events =
        document("Readings as they are made; `data` of an event `reading` is one document.", &text);
    let mut metrics = document("All metrics.", &text);
    if let Some(size) = size.as_object_mut() {
        size.insert("400".into(), error("The request is not valid."));
        size.insert("404".into(), error("Nothing here to size, or no pages of that size."));
    }
    if let Some(other_json) = events.pointer_mut("/200/content") {
        *other_json = json!({"text/event-stream": {"schema": text, "x-event-data": schemas.event}});
    }
    if let Some(other_json) = metrics.pointer_mut("/200/content") {
        *other_json = json!({
            ExpositionFormat::Prometheus.content_type(): {"schema": text}, ExpositionFormat::OpenMetrics.content_type(): {"schema": text},
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
            "/api/v1/check": {"get": describe_operation("check", "What `hugewise check` says, now.", &json!([]), &document("The host, its servers, and what is wrong.", &schemas.check))},
            "/api/v1/size": {"get": describe_operation("size", "What `hugewise size` says about \
                 the servers that run here.", &size_parameters(), &size)},
            "/api/v1/history": {"get": describe_operation("history", "The last hours.", &json!([]), &document("Points, oldest first.", &schemas.history))},
            "/api/v1/events": {"get": describe_operation("events", "Readings as they are made.", &json!([]), &events)},
            "/metrics": {"get": describe_operation("metrics", "What Prometheus scrapes.", &json!([]), &metrics)},
        },
        "components": {
            "schemas": schemas.components,
            "securitySchemes": {"basic": {"type": "http", "scheme": "basic"}},
        },
    });
    format!("{described:#}\n")
}

fn describe_answer(kind: &str, schema: &Value, what: &str) -> Value {
    json!({"description": what, "content": {kind: {"schema": schema}}})
}

fn describe_operation(id: &str, summary: &str, parameters: &Value, responses: &Value) -> Value {
    json!({"operationId": id, "summary": summary, "parameters": parameters, "responses": responses})
}

fn size_parameters() -> Value {
    let parameter = |name: &str, what: &str, schema: Value| json!({"name": name, "in": "query", "description": what, "schema": schema});
    json!([
        parameter(
            "sessions",
            "Plan for this many sessions on the host.",
            json!({"type": "integer", "minimum": 1, "maximum": 4 << 20})
        ),
        parameter(
            "page_size",
            "`2M`, `1G`, the same in bytes, or `auto`: what each server's settings ask for.",
            json!({"type": "string", "enum": page_sizes(), "default": "auto"})
        ),
        parameter(
            "headroom",
            "Spare pages, as a percentage of the demand.",
            json!({"type": "integer", "minimum": 0, "maximum": 100, "default": 0})
        ),
        parameter(
            "memory",
            "Plan for a host with this much memory: `128G`, `1.5TiB`, or bytes.",
            json!({"type": "string", "pattern": MEMORY})
        ),
    ])
}

/// Sizes that are always understood; a few more are.
const MEMORY: &str =
    "^([1-9][0-9]{0,17}[Bb]?|[1-9][0-9]{0,3}(\\.[0-9]{1,9})? ?[KMGTkmgt](i?[Bb])?)$";

/// Every possible page size, from the smallest base page to POWER's 16 GiB, in words and in bytes.
fn page_sizes() -> Vec<String> {
    let sizes = || (12..=34).map(|power| 1_u64 << power);
    let names = sizes().filter_map(PageSize::new).map(PageSize::boot_name);
    let bytes = sizes().map(|bytes| bytes.to_string());
    std::iter::once("auto".to_owned()).chain(names).chain(bytes).collect()
}

#[cfg(test)]
mod tests {
    use hugewise_model::Bytes;
    use proptest::prelude::*;

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
        let described: Value = serde_json::from_str(&openapi_document()).unwrap();
        let mut found = Vec::new();
        references(&described, &mut found);
        assert!(found.len() > 20, "{}", found.len());
        for reference in found {
            let at = reference.strip_prefix('#').unwrap();
            assert!(described.pointer(at).is_some(), "{reference}");
        }
    }

    fn parameter(name: &str) -> Value {
        let described: Value = serde_json::from_str(&openapi_document()).unwrap();
        let all =
            described.pointer("/paths/~1api~1v1~1size/get/parameters").unwrap().as_array().unwrap();
        all.iter().find(|parameter| parameter["name"] == name).unwrap()["schema"].clone()
    }

    #[test]
    fn a_page_size_is_described_as_it_is_understood() {
        let schema = parameter("page_size");
        let described: Vec<&str> =
            schema["enum"].as_array().unwrap().iter().map(|json| json.as_str().unwrap()).collect();
        // As people write them, and as reports have them.
        for size in ["auto", "4K", "64K", "1M", "2M", "512M", "1G", "16G", "2097152", "1073741824"]
        {
            assert!(described.contains(&size), "{size}");
        }
        for size in described.iter().filter(|size| **size != "auto") {
            let bytes = Bytes::parse(size).unwrap();
            assert!(PageSize::new(bytes.get()).is_some(), "{size}");
        }
    }

    proptest! {
        #[test]
        fn every_memory_that_is_described_is_understood(memory in MEMORY.trim_matches(['^', '$'])) {
            prop_assert!(Bytes::parse(&memory).is_ok(), "{memory}");
        }
    }

    #[test]
    fn memory_is_described_as_people_write_it_and_no_nonsense() {
        let validator = jsonschema::validator_for(&parameter("memory")).unwrap();
        for memory in ["8192", "128G", "34GiB", "34GB", "512m", "1.5 TiB", "9999T", "137438953472"]
        {
            assert!(validator.is_valid(&json!(memory)), "{memory}");
        }
        for memory in [
            "",
            "0",
            "0G",
            "-1G",
            "much",
            "9999P",
            "1.G",
            "G",
            "1e9",
            "1iB",
            "1Gi",
            "99999999999999999999",
        ] {
            assert!(!validator.is_valid(&json!(memory)), "{memory}");
        }
    }

    #[test]
    fn the_document_of_a_question_is_the_commands() {
        let described: Value = serde_json::from_str(&openapi_document()).unwrap();
        let schema = |path: &str| {
            let at = format!(
                "/paths/{}/get/responses/200/content/application~1json/schema/$ref",
                path.replace('/', "~1")
            );
            let reference = described.pointer(&at).and_then(Value::as_str).unwrap();
            described.pointer(&reference[1..]).unwrap()["title"].clone()
        };
        assert_eq!(schema("/api/v1/check"), "hugewise.check/1");
        assert_eq!(schema("/api/v1/size"), "hugewise.size/1");
        assert_eq!(schema("/api/v1/history"), "hugewise.history/1");
    }
}
