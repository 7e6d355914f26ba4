//! `hugewise investigate --format json`: `hugewise.investigate/1`.

use hugewise_investigate as incident;
use hugewise_investigate::{
    Clock, IncidentHistory, IncidentVerdict, Moment, SignatureStrength, SourceFormat,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::Reasons;

pub(crate) const INVESTIGATE_SCHEMA: &str = "hugewise.investigate/1";

/// What `hugewise investigate --format json` prints.
///
/// Times are RFC 3339 in the host's own offset where that is known. The field `clock` beside them
/// says which they are: `host`, in the host's own offset; `utc`, where only that is known; `wall`,
/// what the host's wall clock showed, which has no offset and cannot be compared with times of
/// other hosts.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "hugewise.investigate/1")]
pub struct Investigate {
    /// Name and version of this format.
    #[schemars(extend("const" = INVESTIGATE_SCHEMA))]
    pub schema: &'static str,
    /// What was read, in the order given or found.
    pub sources: Vec<ArchiveSourceJson>,
    /// What happened, by host, in order of time; what a trouble ended in comes before it. Empty if
    /// nothing was found: `looked` says what was examined.
    pub incidents: Vec<IncidentJson>,
    /// What was seen but is not part of an incident.
    pub signatures: Vec<HostSignature>,
    /// What could not be determined, and why.
    pub unknown: Vec<InvestigationRemarkJson>,
    /// What was examined.
    pub looked: Vec<InvestigationRemarkJson>,
    /// How many files in folders and tars are in no known format.
    pub passed_over: Vec<String>,
}

/// A file or folder that was given or found.
#[derive(Serialize, JsonSchema)]
pub struct ArchiveSourceJson {
    /// Its path; inside a tar, after the tar's own path.
    pub path: String,
    /// Its format; null where it could not be read: `problems` says why.
    pub format: Option<&'static str>,
    /// Version of the tool that wrote it.
    pub version: Option<String>,
    /// The host that it is from.
    pub host: Option<String>,
    /// Its first sample.
    pub from: Option<String>,
    /// Its last sample.
    pub to: Option<String>,
    /// Which clock `from` and `to` are from.
    #[schemars(extend("enum" = ["host", "utc", "wall"]))]
    pub clock: &'static str,
    /// How many samples it has.
    pub samples: usize,
    /// What is wrong with it, or why it was refused.
    pub problems: Vec<String>,
    /// Why fields are null.
    #[serde(skip_serializing_if = "Reasons::is_empty")]
    #[schemars(default)]
    pub reasons: Reasons,
}

/// A window of time, what happened in it, and why.
#[derive(Serialize, JsonSchema)]
pub struct IncidentJson {
    /// The host; null where no source names it.
    pub host: Option<String>,
    /// When it began.
    pub from: Option<String>,
    /// When it ended.
    pub to: Option<String>,
    /// Which clock all times of this incident are from.
    #[schemars(extend("enum" = ["host", "utc", "wall"]))]
    pub clock: &'static str,
    /// The verdict, such as `reclaim-by-page-tables`. docs/verdicts.md says what each one means.
    #[schemars(extend("enum" = IncidentVerdict::ALL.iter().map(|verdict| verdict.name()).collect::<Vec<_>>()))]
    pub verdict: &'static str,
    /// The same in a sentence with its figures.
    pub summary: String,
    /// How certain: `low` fits it, but also other causes; `high` means that the mechanism itself
    /// was counted.
    #[schemars(extend("enum" = ["low", "medium", "high"]))]
    pub confidence: String,
    /// What would make it more certain.
    pub raised_by: Vec<String>,
    /// What speaks against it.
    pub against: Vec<String>,
    /// What to do next, including commands.
    pub next: Vec<String>,
    /// Programs that grew or were stuck during it, if a source lists processes.
    pub who: Vec<String>,
    /// The same on other hosts at the same time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub elsewhere: Vec<String>,
    /// The same hours of other days: whether it was there too, and what is usual then.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub other_days: Vec<String>,
    /// The signatures that coincide in it.
    pub signatures: Vec<SignatureJson>,
}

/// One kind of trouble over a window of time.
#[derive(Serialize, JsonSchema)]
pub struct SignatureJson {
    /// Which kind: `kernel-cpu`, `page-tables`.
    pub name: &'static str,
    /// When it began: the start of the first interval that shows it.
    pub from: Option<String>,
    /// When it ended.
    pub to: Option<String>,
    /// How far it stands out on its own.
    #[schemars(extend("enum" = ["weak", "clear", "strong"]))]
    pub strength: &'static str,
    /// The rows that show it.
    pub evidence: Vec<EvidenceJson>,
    /// What it does not prove, and what its source hides.
    pub caveats: Vec<String>,
}

/// A row or event.
#[derive(Serialize, JsonSchema)]
pub struct EvidenceJson {
    /// The file or folder that it is from.
    pub source: String,
    /// When.
    pub at: Option<String>,
    /// What it shows, in words with its numbers.
    pub what: String,
}

/// A signature that is not part of an incident, with its host.
#[derive(Serialize, JsonSchema)]
pub struct HostSignature {
    /// The host; null where no source names it.
    pub host: Option<String>,
    /// Which clock its times are from.
    #[schemars(extend("enum" = ["host", "utc", "wall"]))]
    pub clock: &'static str,
    /// The signature.
    #[serde(flatten)]
    pub signature: SignatureJson,
}

/// A remark on one host, or on all.
#[derive(Serialize, JsonSchema)]
pub struct InvestigationRemarkJson {
    /// The host; null if it concerns none or all.
    pub host: Option<String>,
    /// What.
    pub what: String,
}

fn clock_name(clock: &Clock) -> &'static str {
    match clock {
        Clock::Wall { .. } => "wall",
        Clock::Utc { offsets } if offsets.is_empty() => "utc",
        Clock::Utc { .. } => "host",
    }
}

const fn strength_name(strength: SignatureStrength) -> &'static str {
    match strength {
        SignatureStrength::Weak => "weak",
        SignatureStrength::Clear => "clear",
        SignatureStrength::Strong => "strong",
    }
}

impl ArchiveSourceJson {
    fn new(source: &incident::InvestigatedSource) -> Self {
        let mut reasons = Reasons::default();
        let when = |at: Option<Moment>| at.and_then(|at| source.clock.format_known(at));
        let none = if source.samples == 0 { "no samples" } else { "not known" };
        Self {
            path: source.path.clone(),
            format: reasons.derived_or_reason(
                "format",
                source.format.map(SourceFormat::as_str),
                "not read",
            ),
            version: reasons.derived_or_reason(
                "version",
                source.version.clone(),
                "the source does not tell",
            ),
            host: reasons.derived_or_reason(
                "host",
                source.host.clone(),
                "the source does not tell",
            ),
            from: reasons.derived_or_reason("from", when(source.from), none),
            to: reasons.derived_or_reason("to", when(source.to), none),
            clock: clock_name(&source.clock),
            samples: source.samples,
            problems: source.problems.clone(),
            reasons,
        }
    }
}

impl SignatureJson {
    fn new(signature: &incident::Signature, clock: &Clock) -> Self {
        let evidence = |evidence: &incident::SignatureEvidence| EvidenceJson {
            source: evidence.source.clone(),
            at: clock.format_known(evidence.at),
            what: evidence.what.clone(),
        };
        Self {
            name: signature.kind.name(),
            from: clock.format_known(signature.from),
            to: clock.format_known(signature.to),
            strength: strength_name(signature.strength),
            evidence: signature.evidence.iter().map(evidence).collect(),
            caveats: signature.caveats.clone(),
        }
    }
}

impl IncidentJson {
    fn new(incident: &incident::Incident, history: &IncidentHistory) -> Self {
        let clock = &history.clock;
        Self {
            host: history.host.clone(),
            from: clock.format_known(incident.from),
            to: clock.format_known(incident.to),
            clock: clock_name(clock),
            verdict: incident.verdict.name(),
            summary: incident.summary.clone(),
            confidence: incident.confidence.to_string(),
            raised_by: incident.raised_by.clone(),
            against: incident.against.clone(),
            next: incident.next.clone(),
            who: incident.who.clone(),
            elsewhere: incident.elsewhere.clone(),
            other_days: incident.other_days.clone(),
            signatures: incident
                .signatures
                .iter()
                .map(|signature| SignatureJson::new(signature, clock))
                .collect(),
        }
    }
}

impl From<&incident::Investigation> for Investigate {
    fn from(investigation: &incident::Investigation) -> Self {
        let remarks = |host: &Option<String>, remarks: &[String]| {
            let remark =
                |what: &String| InvestigationRemarkJson { host: host.clone(), what: what.clone() };
            remarks.iter().map(remark).collect::<Vec<_>>()
        };
        let (mut incidents, mut signatures) = (Vec::new(), Vec::new());
        let (mut unknown, mut looked) = (remarks(&None, &investigation.unknown), Vec::new());
        for history in &investigation.hosts {
            let clock = &history.clock;
            incidents.extend(
                history.incidents.iter().map(|incident| IncidentJson::new(incident, history)),
            );
            signatures.extend(history.signatures.iter().map(|signature| HostSignature {
                host: history.host.clone(),
                clock: clock_name(clock),
                signature: SignatureJson::new(signature, clock),
            }));
            unknown.extend(remarks(&history.host, &history.unknown));
            looked.extend(remarks(&history.host, &history.looked));
        }
        Self {
            schema: INVESTIGATE_SCHEMA,
            sources: investigation.sources.iter().map(ArchiveSourceJson::new).collect(),
            incidents,
            signatures,
            unknown,
            looked,
            passed_over: investigation.passed_over.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::Report;
    use crate::testing::sample_investigations;

    fn told(investigation: &incident::Investigation) -> Value {
        let mut out = Vec::new();
        investigation.write_json(&mut out).unwrap();
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn every_report_obeys_the_schema() {
        let schema: Value = serde_json::from_str(&crate::json::schema_of::<Investigate>()).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        for investigation in [
            sample_investigations::storm_investigation(),
            sample_investigations::quiet_investigation(),
            sample_investigations::hostile_investigation(),
            incident::Investigation::default(),
        ] {
            let report = told(&investigation);
            let errors: Vec<String> =
                validator.iter_errors(&report).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{errors:?}");
        }
        assert!(!validator.is_valid(&json!({"schema": "hugewise.investigate/2"})));
    }

    #[test]
    fn times_are_in_the_hosts_own_offset_and_a_wall_clock_has_none() {
        let report = told(&sample_investigations::storm_investigation());
        let incident = &report["incidents"][0];
        assert_eq!(
            [&incident["host"], &incident["clock"], &incident["from"], &incident["to"]],
            ["db7", "host", "2026-03-02T08:20:00-05:00", "2026-03-02T08:32:50-05:00"]
        );
        assert_eq!(incident["signatures"][0]["evidence"][0]["at"], "2026-03-02T08:32:50-05:00");
        assert_eq!(report["sources"][0]["from"], "2026-03-02T00:10:00-05:00");
        let refused = &report["sources"][1];
        assert_eq!(
            [&refused["format"], &refused["reasons"]["format"]],
            [&Value::Null, &json!("not read")]
        );

        let wall = told(&sample_investigations::quiet_investigation());
        assert_eq!(
            (&wall["incidents"], &wall["sources"][0]["clock"]),
            (&json!([]), &json!("wall"))
        );
        assert_eq!(wall["sources"][0]["from"], "2026-03-02T00:10:00");
        assert_eq!(wall["looked"][0]["host"], "web3");
    }

    #[test]
    fn the_committed_schema_is_up_to_date() {
        let committed = include_str!("../../../../docs/schema/investigate.json");
        assert_eq!(
            committed,
            crate::json::schema_of::<Investigate>(),
            "docs/schema/investigate.json is stale: run `cargo xtask docs`"
        );
    }
}
