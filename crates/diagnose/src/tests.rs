use std::collections::BTreeSet;

use hugewise_model::{Level, Observed};

use super::*;
use crate::testing::{all_huge, gib, hidden, quiet};

#[test]
fn every_rule_speaks_is_silent_and_says_what_it_misses() {
    for (rule, cases) in all_rules().iter().zip(rules::CASES) {
        let code = rule.code;
        let speaks = (cases.speaks)().assess();
        let own: Vec<_> = speaks.findings.iter().filter(|finding| finding.code == code).collect();
        assert!(!own.is_empty(), "{code} speaks: {speaks:#?}");
        for finding in own {
            assert!(finding.level <= rule.level, "{code} speaks louder than it says");
            assert!(!finding.evidence.is_empty(), "{code} has no evidence");
            assert!(!finding.fix.is_empty(), "{code} has no fix");
            assert_ne!(finding.short, "", "{code} has no short form");
            // A line of 80 columns, without the label and the code before it.
            let columns = finding.short.chars().count();
            assert!(columns <= 68, "{code} takes {columns} columns: {}", finding.short);
        }
        let silent = (cases.silent)().assess();
        assert!(
            silent.findings.iter().all(|finding| finding.code != code),
            "{code} is silent: {:#?}",
            silent.findings
        );
        assert!(!misses(&silent, code), "{code} knows: {:#?}", silent.unknown);
        let missing = (cases.missing)().assess();
        assert!(
            missing.findings.iter().all(|finding| finding.code != code),
            "{code} guesses: {:#?}",
            missing.findings
        );
        assert!(misses(&missing, code), "{code} says what it misses: {:#?}", missing.unknown);
    }
}

fn misses(assessment: &Assessment, code: RuleId) -> bool {
    assessment
        .unknown
        .iter()
        .any(|verdict| verdict.code == code || verdict.missing.contains(code.as_str()))
}

#[test]
fn codes_are_sorted_names_are_kebab_case_docs_are_written() {
    assert_eq!(all_rules().len(), rules::CASES.len());
    for pair in all_rules().windows(2) {
        assert!(pair[0].code < pair[1].code, "{} before {}", pair[0].code, pair[1].code);
    }
    let names: BTreeSet<_> = all_rules().iter().map(|rule| rule.name).collect();
    assert_eq!(names.len(), all_rules().len());
    for rule in all_rules() {
        assert!(
            rule.code.as_str().len() == 5 && rule.code.as_str().starts_with("HW"),
            "{}",
            rule.code
        );
        let kebab = |character: char| {
            character.is_ascii_lowercase() || character.is_ascii_digit() || character == '-'
        };
        assert!(rule.name.chars().all(kebab) && !rule.name.starts_with('-'), "{}", rule.name);
        for text in [rule.docs.what, rule.docs.why, rule.docs.fix] {
            assert!(text.trim().len() > 20, "{} has an empty section", rule.code);
        }
        assert!(!rule.docs.sources.is_empty(), "{} names no source", rule.code);
        let columns = rule.docs.cost.chars().count();
        assert!(
            (20..=74).contains(&columns),
            "{}: {columns} columns: {}",
            rule.code,
            rule.docs.cost
        );
        assert!(docs::render_rule_page(rule).contains("## Why it hurts"));
        assert_eq!(docs::find_rule(rule.name).map(|found| found.code), Some(rule.code));
        assert!(docs::index().contains(rule.code.as_str()));
    }
}

#[test]
#[allow(clippy::disallowed_methods)]
fn every_file_of_a_rule_is_registered() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/rules");
    let files = std::fs::read_dir(folder)
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name() != "mod.rs");
    assert_eq!(files.count(), all_rules().len());
}

#[test]
fn every_rule_is_silent_on_the_quiet_host_and_knows_what_it_asks_for() {
    let assessment = quiet().assess();
    let speaks = assessment
        .findings
        .iter()
        .map(|finding| format!("{} speaks: {}", finding.code, finding.summary));
    let asks = assessment.unknown.iter().map(|verdict| {
        let hugewise_model::UnknownVerdict { code, missing, .. } = verdict;
        format!(
            "{code} asks for what testing::quiet() does not say: put it there, as it is where \
             nothing is wrong ({missing})"
        )
    });
    let wrong: Vec<String> = speaks.chain(asks).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_server_wholly_on_huge_pages_gives_nothing_above_a_note() {
    let mut case = quiet();
    all_huge(case.postgresql("15/main", gib(6)));
    case.pool(3200, 128);
    let assessment = case.assess();
    assert!(
        assessment.findings.iter().all(|finding| finding.level == Level::Info),
        "{:#?}",
        assessment.findings
    );
    assert!(assessment.chains.is_empty());
}

#[test]
fn one_root_cause_gives_one_leading_finding() {
    let mut case = quiet();
    case.postgresql("15/main", gib(6));
    assert_eq!(case.codes(), ["HW201", "HW401"]);
}

/// 2.2 GiB of which 1.7 GiB are on transparent huge pages leave 0.5 GiB (512 MiB) on base pages.
#[test]
fn memory_on_transparent_huge_pages_is_not_said_to_be_on_base_pages() {
    let mut case = quiet();
    let instance = case.postgresql("15/main", hugewise_model::Bytes::from_mib(2252));
    instance.transparent = Observed::Known(hugewise_model::Bytes::from_mib(1740));
    let assessment = case.assess();
    let told = assessment.findings.iter().flat_map(|finding| {
        let texts =
            [&finding.summary, &finding.short].into_iter().chain(&finding.evidence).cloned();
        texts.filter(|text| text.contains("on 4 KiB pages")).collect::<Vec<_>>()
    });
    let told: Vec<String> = told.collect();
    assert!(!told.is_empty());
    for text in told {
        assert!(
            text.contains("512.0 MiB on 4 KiB pages and 1.7 GiB on transparent huge pages"),
            "{text}"
        );
    }
    case.instances[0].transparent = Observed::Known(hugewise_model::Bytes::from_mib(2252));
    let summary = case.assess().findings[0].summary.clone();
    assert_eq!(
        summary,
        "postgresql 15/main holds 2.2 GiB on transparent huge pages; no pool of huge pages is \
         configured"
    );
}

/// What a case costs is said once: in the words of its cause, or in what its instance pays, and its
/// symptoms don't repeat it.
#[test]
fn a_cost_is_said_once_and_is_that_of_the_instance() {
    let mut case = quiet();
    let instance = case.oracle("PROD", gib(30), 60);
    instance.page_tables = Observed::Known(gib(2));
    let assessment = case.assess();
    let cases = case::group_into_cases(&case.host, &case.instances, &assessment);
    let [case] = cases.as_slice() else { panic!("{cases:#?}") };
    assert!(case.symptoms.iter().any(|symptom| symptom.code.as_str() == "HW102"), "{cases:#?}");
    assert!(case.unreported_symptoms().all(|symptom| symptom.code.as_str() != "HW102"));
    assert!(
        case.cost.starts_with("2.0 GiB of page tables now, ")
            && case.cost.contains("at 1,000 sessions")
    );
}

#[test]
fn a_hidden_server_gives_one_verdict_for_each_fact_that_is_missing() {
    let mut case = quiet();
    case.postgresql("15/main", gib(6));
    hidden(&mut case);
    let unknown = case.assess().unknown;
    assert_eq!(unknown.len(), 1, "{unknown:#?}");
    assert!(unknown[0].missing.starts_with("/proc/1000/maps: denied; also "), "{unknown:#?}");
}

#[test]
fn a_host_without_processes_is_not_a_host_without_servers() {
    let mut case = quiet();
    assert_eq!(case.assess().unknown, []);
    case.host.processes = hugewise_model::Observed::Absent;
    let unknown = case.assess().unknown;
    assert!(
        unknown.iter().any(|verdict| verdict.missing.starts_with("processes: absent")),
        "{unknown:#?}"
    );
}

#[test]
fn what_comes_off_the_host_stays_on_its_line() {
    let mut case = quiet();
    let instance = case.postgresql("15/main", gib(6));
    instance.name = "x\nreboot\n".into();
    instance.owner = "a; reboot".into();
    instance.unit = Some("x; reboot.service".into());
    instance.unit_is_its_own = true;
    let assessment = case.assess();
    assert!(!assessment.findings.is_empty());
    for line in assessment.findings.iter().flat_map(|finding| &finding.fix) {
        assert!(!line.contains('\n'));
        assert!(!line.contains("restart x;"), "{line}");
    }
}

#[test]
fn a_name_is_no_option_and_no_line_of_another_kind() {
    let mut case = quiet();
    let instance = case.postgresql("15/main", gib(6));
    (instance.name, instance.unit) =
        ("x\u{2028}reboot\u{202e}".into(), Some("--host=elsewhere.service".into()));
    let assessment = case.assess();
    let lines: Vec<&String> = assessment.findings.iter().flat_map(|finding| &finding.fix).collect();
    assert!(!lines.is_empty());
    assert!(lines.iter().all(|line| hugewise_model::escape::plain::is_clean(line)), "{lines:?}");
}

pub(crate) mod any_host;
mod links;
mod one_answer;
