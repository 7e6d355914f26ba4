//! What is wrong, what it costs, what to do: the words of `check`.

use hugewise_advice::case::{Case, cases};
use hugewise_advice::remedy;
use hugewise_model::escape::shell;
use hugewise_model::{Finding, Level, Remedy};

use crate::Checked;
use crate::plain::clean;
use crate::screen::columns;

/// The cases of a report, worst first.
pub(crate) fn of<'a>(checked: &'a Checked<'_>) -> Vec<Case<'a>> {
    cases(checked.host, checked.instances, checked.assessment)
}

/// The case that stands above everything else; none where all is well. A note does where its cure is a larger pool: a plan would
/// set it.
pub(crate) fn worst<'a, 'b>(cases: &'b [Case<'a>]) -> Option<&'b Case<'a>> {
    let sets_a_pool = |case: &Case<'_>| case.cause.remedies.iter().any(|it| matches!(it, Remedy::SetPool(_)));
    cases.first().filter(|case| case.level() >= Level::Warn || sets_a_pool(case))
}

/// What is wrong, in so many columns: the whole sentence where it fits, else the fact that matters.
pub(crate) fn headline(finding: &Finding, room: usize) -> String {
    if columns(&clean(&finding.summary)) <= room { finding.summary.clone() } else { finding.briefly() }
}

/// A symptom in a line below its cause: with its server where the cause names none.
pub(crate) fn symptom(cause: &Finding, symptom: &Finding) -> String {
    if symptom.instance.is_some() && cause.instance != symptom.instance {
        symptom.briefly()
    } else {
        symptom.short.clone()
    }
}

/// The command that goes on from here, as it can be pasted.
pub(crate) fn next(checked: &Checked<'_>, cases: &[Case<'_>]) -> String {
    let in_plan = |remedy: &Remedy| !matches!(remedy, Remedy::Consider(_));
    let least = least(checked);
    let counts = checked.assessment.findings.iter().filter(|finding| finding.level >= least);
    match cases.first() {
        Some(case) if !counts.flat_map(|finding| &finding.remedies).any(in_plan) => {
            format!("hugewise rules {}", case.cause.code)
        }
        _ => plan(checked),
    }
}

/// The command that goes on from one case: its plan, or its rule where there is nothing that a plan does.
pub(crate) fn next_of(checked: &Checked<'_>, case: &Case<'_>) -> String {
    let findings = std::iter::once(case.cause).chain(case.symptoms.iter().copied());
    let in_plan = |remedy: &Remedy| !matches!(remedy, Remedy::Consider(_));
    match findings.flat_map(|finding| &finding.remedies).any(in_plan) {
        true => plan(checked),
        false => format!("hugewise rules {}", case.cause.code),
    }
}

fn plan(checked: &Checked<'_>) -> String {
    match checked.root {
        Some(root) => format!("hugewise plan --root {}", shell::word(&root.to_string_lossy())),
        None => "sudo hugewise plan".into(),
    }
}

/// What is to be done, each thing once, in its order: for what warns and what a plan does beside, or where nothing warns
/// for what is worth a note. With everything that would help too, or without it where there is something better.
pub(crate) fn to_do(checked: &Checked<'_>, everything: bool) -> Vec<String> {
    let all = remedy::to_do(checked.host, checked.instances, checked.assessment, least(checked));
    let only_considered = all.iter().all(|(remedy, _)| matches!(remedy, Remedy::Consider(_)));
    let wanted = |remedy: &Remedy| everything || only_considered || !matches!(remedy, Remedy::Consider(_));
    all.into_iter().filter(|(remedy, _)| wanted(remedy)).map(|(_, what)| what).collect()
}

/// The least level that something is to be done about: warnings, or notes where nothing warns.
fn least(checked: &Checked<'_>) -> Level {
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
            let checked = Checked { root, ..sample.checked() };
            next(&checked, &of(&checked))
        };
        assert_eq!(next_of(None), "sudo hugewise plan");
        assert_eq!(next_of(Some(Path::new("fixtures/hosts/x"))), "hugewise plan --root fixtures/hosts/x");
        assert_eq!(next_of(Some(Path::new("my hosts/it's"))), r"hugewise plan --root 'my hosts/it'\''s'");
    }

    #[test]
    fn a_headline_is_the_whole_sentence_or_the_fact_that_matters() {
        let mut finding = samples::prod().assessment.findings.remove(0);
        assert_eq!(headline(&finding, 100), finding.summary);
        assert_eq!(headline(&finding, 60), "oracle PROD holds 34.0 GiB on 4 KiB pages");
        finding.short = "its memlock limit is 64 KiB".into();
        assert_eq!(headline(&finding, 60), "oracle PROD: its memlock limit is 64 KiB");
        finding.instance = None;
        assert_eq!(headline(&finding, 60), "its memlock limit is 64 KiB");
    }
}
