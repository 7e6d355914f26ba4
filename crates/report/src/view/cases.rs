//! What is wrong, what it costs, what to do: the words of `check`.

use hugewise_diagnose::case::{DiagnosedCase, group_into_cases};
use hugewise_diagnose::remedy;
use hugewise_model::escape::shell;
use hugewise_model::{Finding, Level, Remedy};

use crate::CheckReport;
use crate::plain::escape_line;
use crate::screen::text_width;

pub(crate) fn cases_of_report<'a>(checked: &'a CheckReport<'_>) -> Vec<DiagnosedCase<'a>> {
    group_into_cases(checked.host, checked.instances, checked.assessment)
}

/// A note counts only if its cure is a larger pool, which a plan would set.
pub(crate) fn find_worst_case<'a, 'b>(
    cases: &'b [DiagnosedCase<'a>],
) -> Option<&'b DiagnosedCase<'a>> {
    let sets_a_pool = |case: &DiagnosedCase<'_>| {
        case.cause.remedies.iter().any(|remedy| matches!(remedy, Remedy::SetPool(_)))
    };
    cases.first().filter(|case| case.level() >= Level::Warn || sets_a_pool(case))
}

/// The whole sentence where it fits into `room` columns, else the fact that matters.
pub(crate) fn fit_headline(finding: &Finding, room: usize) -> String {
    if text_width(&escape_line(&finding.summary)) <= room {
        finding.summary.clone()
    } else {
        finding.to_brief_text()
    }
}

/// With its server where the cause names none.
pub(crate) fn describe_symptom(cause: &Finding, symptom: &Finding) -> String {
    if symptom.instance.is_some() && cause.instance != symptom.instance {
        symptom.to_brief_text()
    } else {
        symptom.short.clone()
    }
}

/// The next command of the report.
pub(crate) fn next(checked: &CheckReport<'_>, cases: &[DiagnosedCase<'_>]) -> String {
    let in_plan = |remedy: &Remedy| !matches!(remedy, Remedy::Consider(_));
    let least = least_actionable_level(checked);
    let counts = checked.assessment.findings.iter().filter(|finding| finding.level >= least);
    match cases.first() {
        Some(case) if !counts.flat_map(|finding| &finding.remedies).any(in_plan) => {
            format!("hugewise rules {}", case.cause.code)
        }
        _ => plan_command(checked),
    }
}

/// The next command of one case: its plan, or its rule where a plan does nothing.
pub(crate) fn next_of(checked: &CheckReport<'_>, case: &DiagnosedCase<'_>) -> String {
    let findings = std::iter::once(case.cause).chain(case.symptoms.iter().copied());
    let in_plan = |remedy: &Remedy| !matches!(remedy, Remedy::Consider(_));
    match findings.flat_map(|finding| &finding.remedies).any(in_plan) {
        true => plan_command(checked),
        false => format!("hugewise rules {}", case.cause.code),
    }
}

fn plan_command(checked: &CheckReport<'_>) -> String {
    match checked.root {
        Some(root) => {
            format!("hugewise plan --root {}", shell::quote_word(&root.to_string_lossy()))
        }
        None => "sudo hugewise plan".into(),
    }
}

/// What to do for warnings and worse, or for notes where nothing is worse, each thing once.
/// `everything` includes what would only help too.
pub(crate) fn to_do(checked: &CheckReport<'_>, everything: bool) -> Vec<String> {
    let all = remedy::to_do(
        checked.host,
        checked.instances,
        checked.assessment,
        least_actionable_level(checked),
    );
    let only_considered = all.iter().all(|(remedy, _)| matches!(remedy, Remedy::Consider(_)));
    let wanted =
        |remedy: &Remedy| everything || only_considered || !matches!(remedy, Remedy::Consider(_));
    all.into_iter().filter(|(remedy, _)| wanted(remedy)).map(|(_, what)| what).collect()
}

fn least_actionable_level(checked: &CheckReport<'_>) -> Level {
    let worst = checked.assessment.findings.iter().map(|finding| finding.level).max();
    worst.unwrap_or(Level::Info).min(Level::Warn)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::samples;

    #[test]
    fn the_next_command_names_the_capture_as_a_shell_takes_it() {
        let sample = samples::prod();
        let next_of = |root| {
            let checked = CheckReport { root, ..sample.checked() };
            next(&checked, &cases_of_report(&checked))
        };
        assert_eq!(next_of(None), "sudo hugewise plan");
        assert_eq!(
            next_of(Some(Path::new("fixtures/hosts/x"))),
            "hugewise plan --root fixtures/hosts/x"
        );
        assert_eq!(
            next_of(Some(Path::new("my hosts/it's"))),
            r"hugewise plan --root 'my hosts/it'\''s'"
        );
    }

    #[test]
    fn a_headline_is_the_whole_sentence_or_the_fact_that_matters() {
        let mut finding = samples::prod().assessment.findings.remove(0);
        assert_eq!(fit_headline(&finding, 100), finding.summary);
        assert_eq!(fit_headline(&finding, 60), "oracle PROD holds 34.0 GiB on 4 KiB pages");
        finding.short = "its memlock limit is 64 KiB".into();
        assert_eq!(fit_headline(&finding, 60), "oracle PROD: its memlock limit is 64 KiB");
        finding.instance = None;
        assert_eq!(fit_headline(&finding, 60), "its memlock limit is 64 KiB");
    }
}
