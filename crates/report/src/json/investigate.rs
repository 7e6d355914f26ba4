//! `hugewise investigate --format json`: `hugewise.investigate/1`.

use hugewise_investigate as incident;
use hugewise_investigate::{
    Clock, IncidentHistory, IncidentVerdict, Moment, SignatureStrength, SourceFormat,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::json_view::json_view;

pub(crate) const INVESTIGATE_SCHEMA: &str = "hugewise.investigate/1";

json_view! {
    /// What `hugewise investigate --format json` prints.
    ///
    /// Times are RFC 3339 in the host's own offset where that is known. The field `clock` beside
    /// them says which they are: `host`, in the host's own offset; `utc`, where only that is known;
    /// `wall`, what the host's wall clock showed, which has no offset and cannot be compared with
    /// times of other hosts.
    #[schemars(title = "hugewise.investigate/1")]
    pub struct Investigate from(investigation: &incident::Investigation) {
        let remarks = |host: &Option<String>, remarks: &[String]| {
            let remark =
                |what: &String| InvestigationRemarkJson { host: host.clone(), what: what.clone() };
            remarks.iter().map(remark).collect::<Vec<_>>()
        };
        let (mut incidents, mut signatures) = (Vec::new(), Vec::new());
        let (mut unknown, mut looked) = (remarks(&None, &investigation.unknown), Vec::new());
        for history in &investigation.hosts {
            incidents.extend(
                history.incidents.iter().map(|incident| IncidentJson::new(incident, history)),
            );
            signatures.extend(
                history.signatures.iter().map(|signature| HostSignature::new(signature, history)),
            );
            unknown.extend(remarks(&history.host, &history.unknown));
            looked.extend(remarks(&history.host, &history.looked));
        }
    } => {
        /// Name and version of this format.
        #[schemars(extend("const" = INVESTIGATE_SCHEMA))]
        schema: &'static str = INVESTIGATE_SCHEMA,
        /// What was read, in the order given or found.
        sources: Vec<ArchiveSourceJson> =
            investigation.sources.iter().map(ArchiveSourceJson::new).collect(),
        /// What happened, by host, in order of time; what a trouble ended in comes before it. Empty
        /// if nothing was found: `looked` says what was examined.
        incidents: Vec<IncidentJson> = incidents,
        /// What was seen but is not part of an incident.
        signatures: Vec<HostSignature> = signatures,
        /// What could not be determined, and why.
        unknown: Vec<InvestigationRemarkJson> = unknown,
        /// What was examined.
        looked: Vec<InvestigationRemarkJson> = looked,
        /// How many files in folders and tars are in no known format.
        passed_over: Vec<String> = investigation.passed_over.clone(),
    }
}

json_view! {
    /// A file or folder that was given or found.
    pub struct ArchiveSourceJson new(source: &incident::InvestigatedSource), reasons {
        let when = |at: Option<Moment>| at.and_then(|at| source.clock.format_known(at));
        let none = if source.samples == 0 { "no samples" } else { "not known" };
    } => {
        /// Its path; inside a tar, after the tar's own path.
        path: String = source.path.clone(),
        /// Its format; null where it could not be read: `problems` says why.
        format: Option<&'static str> = reasons.derived_or_reason(
            "format",
            source.format.map(SourceFormat::as_str),
            "not read",
        ),
        /// Version of the tool that wrote it.
        version: Option<String> = reasons.derived_or_reason(
            "version",
            source.version.clone(),
            "the source does not tell",
        ),
        /// The host that it is from.
        host: Option<String> = reasons.derived_or_reason(
            "host",
            source.host.clone(),
            "the source does not tell",
        ),
        /// Its first sample.
        from: Option<String> = reasons.derived_or_reason("from", when(source.from), none),
        /// Its last sample.
        to: Option<String> = reasons.derived_or_reason("to", when(source.to), none),
        /// Which clock `from` and `to` are from.
        #[schemars(extend("enum" = ["host", "utc", "wall"]))]
        clock: &'static str = clock_name(&source.clock),
        /// How many samples it has.
        samples: usize = source.samples,
        /// What is wrong with it, or why it was refused.
        problems: Vec<String> = source.problems.clone(),
    }
}

json_view! {
    /// A window of time, what happened in it, and why.
    pub struct IncidentJson new(incident: &incident::Incident, history: &IncidentHistory) {
        let clock = &history.clock;
    } => {
        /// The host; null where no source names it.
        host: Option<String> = history.host.clone(),
        /// When it began.
        from: Option<String> = clock.format_known(incident.from),
        /// When it ended.
        to: Option<String> = clock.format_known(incident.to),
        /// Which clock all times of this incident are from.
        #[schemars(extend("enum" = ["host", "utc", "wall"]))]
        clock: &'static str = clock_name(clock),
        /// The verdict, such as `reclaim-by-page-tables`. docs/verdicts.md says what each one
        /// means.
        #[schemars(extend("enum" = IncidentVerdict::ALL.iter().map(|verdict| verdict.name()).collect::<Vec<_>>()))]
        verdict: &'static str = incident.verdict.name(),
        /// The same in a sentence with its figures.
        summary: String = incident.summary.clone(),
        /// How certain: `low` fits it, but also other causes; `high` means that the mechanism
        /// itself was counted.
        #[schemars(extend("enum" = ["low", "medium", "high"]))]
        confidence: String = incident.confidence.to_string(),
        /// What would make it more certain.
        raised_by: Vec<String> = incident.raised_by.clone(),
        /// What speaks against it.
        against: Vec<String> = incident.against.clone(),
        /// What to do next, including commands.
        next: Vec<String> = incident.next.clone(),
        /// Programs that grew or were stuck during it, if a source lists processes.
        who: Vec<String> = incident.who.clone(),
        /// The same on other hosts at the same time.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        #[schemars(default)]
        elsewhere: Vec<String> = incident.elsewhere.clone(),
        /// The same hours of other days: whether it was there too, and what is usual then.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        #[schemars(default)]
        other_days: Vec<String> = incident.other_days.clone(),
        /// The signatures that coincide in it.
        signatures: Vec<SignatureJson> = incident
            .signatures
            .iter()
            .map(|signature| SignatureJson::new(signature, clock))
            .collect(),
    }
}

json_view! {
    /// One kind of trouble over a window of time.
    pub struct SignatureJson new(signature: &incident::Signature, clock: &Clock) => {
        /// Which kind: `kernel-cpu`, `page-tables`.
        name: &'static str = signature.kind.name(),
        /// When it began: the start of the first interval that shows it.
        from: Option<String> = clock.format_known(signature.from),
        /// When it ended.
        to: Option<String> = clock.format_known(signature.to),
        /// How far it stands out on its own.
        #[schemars(extend("enum" = ["weak", "clear", "strong"]))]
        strength: &'static str = strength_name(signature.strength),
        /// The rows that show it.
        evidence: Vec<EvidenceJson> =
            signature.evidence.iter().map(|evidence| EvidenceJson::new(evidence, clock)).collect(),
        /// What it does not prove, and what its source hides.
        caveats: Vec<String> = signature.caveats.clone(),
    }
}

json_view! {
    /// A row or event.
    pub struct EvidenceJson new(evidence: &incident::SignatureEvidence, clock: &Clock) => {
        /// The file or folder that it is from.
        source: String = evidence.source.clone(),
        /// When.
        at: Option<String> = clock.format_known(evidence.at),
        /// What it shows, in words with its numbers.
        what: String = evidence.what.clone(),
    }
}

json_view! {
    /// A signature that is not part of an incident, with its host.
    pub struct HostSignature new(signature: &incident::Signature, history: &IncidentHistory) => {
        /// The host; null where no source names it.
        host: Option<String> = history.host.clone(),
        /// Which clock its times are from.
        #[schemars(extend("enum" = ["host", "utc", "wall"]))]
        clock: &'static str = clock_name(&history.clock),
        /// The signature.
        #[serde(flatten)]
        signature: SignatureJson = SignatureJson::new(signature, &history.clock),
    }
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::Report;
    use crate::testing::sample_investigations;

    fn render_investigation(investigation: &incident::Investigation) -> Value {
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
            let report = render_investigation(&investigation);
            let errors: Vec<String> =
                validator.iter_errors(&report).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{errors:?}");
        }
        assert!(!validator.is_valid(&json!({"schema": "hugewise.investigate/2"})));
    }

    #[test]
    fn times_are_in_the_hosts_own_offset_and_a_wall_clock_has_none() {
        let report = render_investigation(&sample_investigations::storm_investigation());
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

        let wall = render_investigation(&sample_investigations::quiet_investigation());
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
