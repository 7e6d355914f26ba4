//! `hugewise verify --format json`: `hugewise.verify/1`.

use hugewise_engines::logs::LogReport;
use hugewise_model::{Bytes, Limit, Observed, PageCount};
use schemars::JsonSchema;
use serde::Serialize;

use super::{InstanceJson, Reasons, UnreadFact};
use crate::{CheckReport, Verified, log_timestamp};

pub(crate) const VERIFY_SCHEMA: &str = "hugewise.verify/1";

/// What `hugewise verify --format json` prints.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "hugewise.verify/1")]
pub struct Verify {
    /// Name and version of this format.
    #[schemars(extend("const" = VERIFY_SCHEMA))]
    pub schema: &'static str,
    /// The overall verdict: `all` means exit code 0.
    #[schemars(extend("enum" = ["all", "partly", "none", "unknown"]))]
    pub verdict: &'static str,
    /// The instances that were examined, as in `hugewise check`.
    pub instances: Vec<InstanceJson>,
    /// Of these, the ones that need no pool, and why.
    pub not_counted: Vec<NotCounted>,
    /// What the servers' own logs say.
    pub logs: Vec<ServerLogJson>,
    /// Where a log and the mappings disagree.
    pub disagreements: Vec<LogDisagreementJson>,
    /// Everything that exists but could not be read.
    pub unread: Vec<UnreadFact>,
}

/// An instance that needs no pool.
#[derive(Serialize, JsonSchema)]
pub struct NotCounted {
    /// `redis 6379`.
    pub instance: String,
    /// Why.
    pub why: &'static str,
}

/// What a log says about the last start in it.
#[derive(Serialize, JsonSchema)]
pub struct ServerLogJson {
    /// The log.
    pub path: String,
    /// Whose log it is.
    pub engine: &'static str,
    /// The format that was recognised.
    pub format: &'static str,
    /// When that start was: RFC 3339 in the offset that the log gives; null if its time zone is not
    /// known.
    pub started_at: Option<String>,
    /// The same as the log writes it.
    pub started_at_text: Option<String>,
    /// The huge page size that the log names.
    pub page_bytes: Option<u64>,
    /// Huge pages that the server wanted.
    pub expected_pages: Option<u64>,
    /// Huge pages that it got.
    pub allocated_pages: Option<u64>,
    /// How the start went.
    #[schemars(extend("enum" = ["all", "partly", "none", "failed", "died", "unknown"]))]
    pub verdict: &'static str,
    /// What the verdict alone does not show; may be empty.
    pub why: String,
    /// How many huge pages the start needed to be wholly on them.
    pub needed_pages: Option<u64>,
    /// The size of these pages: the one that the log names, otherwise the one that the server asks
    /// for, otherwise the default of the host.
    pub needed_page_bytes: Option<u64>,
    /// The same in bytes.
    pub needed_bytes: Option<u64>,
    /// The soft memlock limit that the server saw; null if it is unlimited or not known: `reasons`
    /// says which.
    pub memlock_bytes: Option<u64>,
    /// Errors and warnings, as written.
    pub errors: Vec<String>,
    /// The log lines that this is based on.
    pub lines: Vec<String>,
    /// Why fields are null.
    #[serde(skip_serializing_if = "Reasons::is_empty")]
    #[schemars(default)]
    pub reasons: Reasons,
}

/// A log and the mappings disagree.
#[derive(Serialize, JsonSchema)]
pub struct LogDisagreementJson {
    /// `oracle PROD`.
    pub instance: String,
    /// The log.
    pub log: String,
    /// What it says.
    #[schemars(extend("enum" = ["all", "partly", "none", "failed", "died"]))]
    pub log_says: &'static str,
    /// What the mappings say.
    #[schemars(extend("enum" = ["all", "partly", "none"]))]
    pub mapped: &'static str,
}

impl From<&LogReport> for ServerLogJson {
    fn from(log: &LogReport) -> Self {
        const SILENT: &str = "the log does not tell";
        let mut reasons = Reasons::default();
        let memlock_bytes = match &log.memlock {
            Observed::Known(Limit::At(bytes)) => Some(bytes.get()),
            Observed::Known(Limit::Unlimited) => {
                reasons.derived_or_reason("memlock_bytes", None, "unlimited")
            }
            Observed::Absent => reasons.derived_or_reason("memlock_bytes", None, SILENT),
            other => reasons.value_or_reason("memlock_bytes", &other.clone().map(|_| 0)),
        };
        let started = log.started_at.as_deref().map(log_timestamp::parse_log_timestamp);
        let started_at = match started {
            None => reasons.derived_or_reason("started_at", None, SILENT),
            Some(Err(why)) => reasons.derived_or_reason("started_at", None, &why.to_string()),
            Some(Ok(time)) => Some(time),
        };
        let started_at_text =
            reasons.derived_or_reason("started_at_text", log.started_at.clone(), SILENT);
        let page = log.page_size.or(log.asked_page_size);
        let needed = log.needed.or_else(|| page.and_then(|page| log.needed_of(page)));
        let mut told = |field, value: Option<u64>| reasons.derived_or_reason(field, value, SILENT);
        Self {
            path: log.path.clone(),
            engine: log.engine.as_str(),
            format: log.format,
            started_at,
            started_at_text,
            page_bytes: told("page_bytes", log.page_size.map(u64::from)),
            expected_pages: told("expected_pages", log.expected.map(PageCount::get)),
            allocated_pages: told("allocated_pages", log.allocated.map(PageCount::get)),
            verdict: log.verdict.as_str(),
            why: log.reason.clone(),
            needed_pages: told("needed_pages", needed.map(PageCount::get)),
            needed_page_bytes: told("needed_page_bytes", needed.and(page).map(u64::from)),
            needed_bytes: told("needed_bytes", log.needed_bytes.map(Bytes::get)),
            memlock_bytes,
            errors: log.errors.clone(),
            lines: log.lines.clone(),
            reasons,
        }
    }
}

impl From<&Verified<'_>> for Verify {
    fn from(verified: &Verified<'_>) -> Self {
        let Verified { host, instances, assessment, unread, .. } = *verified;
        let checked = CheckReport { host, instances, assessment, unread, root: None };
        let not_counted = verified
            .left_out()
            .map(|(instance, why)| NotCounted { instance: instance.title(), why });
        let disagreements =
            verified.disagreements.iter().map(|log_disagreement| LogDisagreementJson {
                instance: log_disagreement.instance.clone(),
                log: log_disagreement.log.clone(),
                log_says: log_disagreement.says.as_str(),
                mapped: log_disagreement.mapped.as_str(),
            });
        Self {
            schema: VERIFY_SCHEMA,
            verdict: verified.verdict.as_str(),
            instances: instances
                .iter()
                .map(|instance| InstanceJson::new(instance, &checked))
                .collect(),
            not_counted: not_counted.collect(),
            logs: verified.logs.iter().map(ServerLogJson::from).collect(),
            disagreements: disagreements.collect(),
            unread: unread.iter().map(UnreadFact::from).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use hugewise_engines::log_files::read_log;
    use hugewise_engines::logs::LogText;
    use hugewise_model::PageSize;
    use serde_json::{Value, json};

    use super::*;
    use crate::Report;
    use crate::samples;

    #[test]
    fn every_report_obeys_the_schema() {
        let schema: Value = serde_json::from_str(&crate::json::schema_of::<Verify>()).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        for sample in
            [samples::prod(), samples::empty(), samples::unprivileged(), samples::hostile()]
        {
            let report = sample.verified(|verified| {
                let mut out = Vec::new();
                verified.write_json(&mut out).unwrap();
                serde_json::from_slice::<Value>(&out).unwrap()
            });
            let errors: Vec<String> =
                validator.iter_errors(&report).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{errors:?}");
        }
        assert!(!validator.is_valid(&json!({"schema": "hugewise.verify/2"})));
    }

    #[test]
    fn what_the_log_says_stands_beside_what_is_mapped() {
        let report = samples::prod()
            .verified(|verified| serde_json::to_value(Verify::from(verified)).unwrap());
        assert_eq!(report["verdict"], "none");
        assert_eq!(report["instances"][0]["demand"]["needed_pages"], 17_411);
        assert_eq!(report["logs"][0]["needed_pages"], 17_411);
        assert_eq!(report["logs"][0]["memlock_bytes"], 65_536);
        assert_eq!(report["disagreements"][0]["log_says"], "failed");
    }

    fn log_of(text: &str, change: impl FnOnce(&mut LogReport)) -> Value {
        let mut log = read_log(&LogText { path: "/log", bytes: text.as_bytes() }, None).unwrap();
        change(&mut log);
        serde_json::to_value(ServerLogJson::from(&log)).unwrap()
    }

    #[test]
    fn bytes_that_a_log_asks_for_are_pages_of_the_size_that_the_server_asks_for() {
        let text = "2026-11-21 20:32:29.713 IST [7] FATAL:  could not map anonymous shared \
             memory: Cannot allocate memory\n\
                    2026-11-21 20:32:29.713 IST [7] HINT:  To reduce the request size (currently \
             150994944 bytes), reduce \
                    \"shared_buffers\" or \"max_connections\".\n";
        let log = log_of(text, |_| {});
        assert_eq!(
            (&log["needed_bytes"], &log["needed_pages"]),
            (&json!(150_994_944), &Value::Null)
        );
        assert_eq!(
            (&log["started_at"], &log["started_at_text"]),
            (&Value::Null, &json!("2026-11-21 20:32:29.713 IST"))
        );
        assert!(
            log["reasons"]["started_at"].as_str().unwrap().contains("no single meaning: IST"),
            "{log:#}"
        );

        let log =
            log_of(&text.replace("IST", "CET"), |log| log.asked_page_size = Some(PageSize::MIB_2));
        assert_eq!(
            (&log["needed_pages"], &log["needed_page_bytes"]),
            (&json!(72), &json!(2 << 20))
        );
        assert_eq!(
            (&log["started_at"], &log["page_bytes"]),
            (&json!("2026-11-21T20:32:29.713+01:00"), &Value::Null)
        );
        let log = log_of(text, |log| log.asked_page_size = Some(PageSize::GIB_1));
        assert_eq!((&log["needed_pages"], &log["needed_page_bytes"]), (&json!(1), &json!(1 << 30)));
    }

    #[test]
    fn the_committed_schema_is_up_to_date() {
        let committed = include_str!("../../../../docs/schema/verify.json");
        assert_eq!(
            committed,
            crate::json::schema_of::<Verify>(),
            "docs/schema/verify.json is stale: run `cargo xtask docs`"
        );
    }
}
