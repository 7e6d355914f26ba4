//! `hugewise verify --format json`: `hugewise.verify/1`.

use hugewise_engines::logs::LogReport;
use hugewise_model::{Bytes, Limit, Observed, PageCount};
use schemars::JsonSchema;
use serde::Serialize;

use super::json_view::json_view;
use super::{InstanceJson, UnreadFact};
use crate::{CheckReport, LogDisagreement, Verified, log_timestamp};

pub(crate) const VERIFY_SCHEMA: &str = "hugewise.verify/1";

json_view! {
    /// What `hugewise verify --format json` prints.
    #[schemars(title = "hugewise.verify/1")]
    pub struct Verify from(verified: &Verified<'_>) {
        let Verified { host, instances, assessment, unread, .. } = *verified;
        let checked = CheckReport { host, instances, assessment, unread, root: None };
        let not_counted = verified
            .left_out()
            .map(|(instance, why)| NotCounted { instance: instance.title(), why });
    } => {
        /// Name and version of this format.
        #[schemars(extend("const" = VERIFY_SCHEMA))]
        schema: &'static str = VERIFY_SCHEMA,
        /// The overall verdict: `all` means exit code 0.
        #[schemars(extend("enum" = ["all", "partly", "none", "unknown"]))]
        verdict: &'static str = verified.verdict.as_str(),
        /// The instances that were examined, as in `hugewise check`.
        instances: Vec<InstanceJson> = instances
            .iter()
            .map(|instance| InstanceJson::new(instance, &checked))
            .collect(),
        /// Of these, the ones that need no pool, and why.
        not_counted: Vec<NotCounted> = not_counted.collect(),
        /// What the servers' own logs say.
        logs: Vec<ServerLogJson> = verified.logs.iter().map(ServerLogJson::from).collect(),
        /// Where a log and the mappings disagree.
        disagreements: Vec<LogDisagreementJson> =
            verified.disagreements.iter().map(LogDisagreementJson::from).collect(),
        /// Everything that exists but could not be read.
        unread: Vec<UnreadFact> = unread.iter().map(UnreadFact::from).collect(),
    }
}

/// An instance that needs no pool.
#[derive(Serialize, JsonSchema)]
pub struct NotCounted {
    /// `redis 6379`.
    pub instance: String,
    /// Why.
    pub why: &'static str,
}

json_view! {
    /// What a log says about the last start in it.
    pub struct ServerLogJson from(log: &LogReport), reasons {
        const SILENT: &str = "the log does not tell";
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
        let page = log.page_size.or(log.asked_page_size);
        let needed = log.needed.or_else(|| page.and_then(|page| log.needed_of(page)));
    } => {
        /// The log.
        path: String = log.path.clone(),
        /// Whose log it is.
        engine: &'static str = log.engine.as_str(),
        /// The format that was recognised.
        format: &'static str = log.format,
        /// When that start was: RFC 3339 in the offset that the log gives; null if its time zone is
        /// not known.
        started_at: Option<String> = started_at,
        /// The same as the log writes it.
        started_at_text: Option<String> =
            reasons.derived_or_reason("started_at_text", log.started_at.clone(), SILENT),
        /// The huge page size that the log names.
        page_bytes: Option<u64> =
            reasons.derived_or_reason("page_bytes", log.page_size.map(u64::from), SILENT),
        /// Huge pages that the server wanted.
        expected_pages: Option<u64> =
            reasons.derived_or_reason("expected_pages", log.expected.map(PageCount::get), SILENT),
        /// Huge pages that it got.
        allocated_pages: Option<u64> =
            reasons.derived_or_reason("allocated_pages", log.allocated.map(PageCount::get), SILENT),
        /// How the start went.
        #[schemars(extend("enum" = ["all", "partly", "none", "failed", "died", "unknown"]))]
        verdict: &'static str = log.verdict.as_str(),
        /// What the verdict alone does not show; may be empty.
        why: String = log.reason.clone(),
        /// How many huge pages the start needed to be wholly on them.
        needed_pages: Option<u64> =
            reasons.derived_or_reason("needed_pages", needed.map(PageCount::get), SILENT),
        /// The size of these pages: the one that the log names, otherwise the one that the server
        /// asks for, otherwise the default of the host.
        needed_page_bytes: Option<u64> =
            reasons.derived_or_reason("needed_page_bytes", needed.and(page).map(u64::from), SILENT),
        /// The same in bytes.
        needed_bytes: Option<u64> =
            reasons.derived_or_reason("needed_bytes", log.needed_bytes.map(Bytes::get), SILENT),
        /// The soft memlock limit that the server saw; null if it is unlimited or not known:
        /// `reasons` says which.
        memlock_bytes: Option<u64> = memlock_bytes,
        /// Errors and warnings, as written.
        errors: Vec<String> = log.errors.clone(),
        /// The log lines that this is based on.
        lines: Vec<String> = log.lines.clone(),
    }
}

json_view! {
    /// A log and the mappings disagree.
    pub struct LogDisagreementJson from(disagreement: &LogDisagreement) => {
        /// `oracle PROD`.
        instance: String = disagreement.instance.clone(),
        /// The log.
        log: String = disagreement.log.clone(),
        /// What it says.
        #[schemars(extend("enum" = ["all", "partly", "none", "failed", "died"]))]
        log_says: &'static str = disagreement.says.as_str(),
        /// What the mappings say.
        #[schemars(extend("enum" = ["all", "partly", "none"]))]
        mapped: &'static str = disagreement.mapped.as_str(),
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
