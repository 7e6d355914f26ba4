//! What a Grafana dashboard asks: the queries of its panels, with its variables filled in.

use serde_json::Value;

/// One query of a panel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Query {
    /// The panel's title, and the query's letter where the panel has several.
    pub(crate) title: String,
    /// PromQL.
    pub(crate) expression: String,
    /// Asked for one moment, not for a range of time.
    pub(crate) instant: bool,
}

/// All queries of a dashboard, for all clusters and all hosts.
///
/// # Errors
/// It is not JSON, or a panel has no query.
pub(crate) fn queries(dashboard: &str) -> Result<Vec<Query>, String> {
    let dashboard: Value = serde_json::from_str(dashboard).map_err(|error| error.to_string())?;
    let list = |value: &Value, name: &str| {
        value.get(name).and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let text = |value: &Value, name: &str| {
        value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let mut queries = Vec::new();
    for panel in list(&dashboard, "panels") {
        let (title, targets) = (text(&panel, "title"), list(&panel, "targets"));
        if targets.is_empty() {
            return Err(format!("panel {title:?} asks nothing"));
        }
        for target in &targets {
            let letter = if targets.len() > 1 {
                format!(" {}", text(target, "refId"))
            } else {
                String::new()
            };
            let expression =
                text(target, "expr").replace("$cluster", ".*").replace("$instance", ".*");
            let instant = target.get("instant").and_then(Value::as_bool).unwrap_or_default();
            queries.push(Query { title: format!("{title}{letter}"), expression, instant });
        }
    }
    Ok(queries)
}
