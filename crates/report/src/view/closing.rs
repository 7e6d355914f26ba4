//! How much was found, what could not be told, and as whom to run.

use std::collections::BTreeMap;

use hugewise_diagnose::coverage::Coverage;
use hugewise_diagnose::prediction::PredictionStage;
use hugewise_model::{Host, Instance, Level, Observed, Reason, Unread};

use super::{cases, counted_noun};
use crate::CheckReport;

/// Whether everything was read and every rule could decide.
pub(crate) fn is_complete(checked: &CheckReport<'_>) -> bool {
    checked.unread.is_empty() && list_undecided(checked).is_empty()
}

/// How much was found, and the rule that explains the worst of it.
pub(crate) fn summarize_findings(checked: &CheckReport<'_>) -> String {
    let findings = &checked.assessment.findings;
    let count_of = |level: Level| findings.iter().filter(|finding| finding.level == level).count();
    let (errors, warnings, infos) =
        (count_of(Level::Error), count_of(Level::Warn), count_of(Level::Info));
    let Some(worst) = cases::cases_of_report(checked).first().map(|case| case.cause) else {
        let read = if is_complete(checked) { "" } else { " in what could be read" };
        // Started by hand, they are no fault of the host, but whoever starts one should know.
        return match count_unstartable(checked) {
            0 => format!("Nothing wrong was found{read}."),
            1 => format!(
                "Nothing wrong was found{read}, but one server that is down would not start."
            ),
            several => format!(
                "Nothing wrong was found{read}, but {several} servers that are down would not \
                     start."
            ),
        };
    };
    let mut parts = Vec::new();
    if errors > 0 {
        parts.push(counted_noun(errors, "error", "errors"));
    }
    if warnings > 0 {
        parts.push(counted_noun(warnings, "warning", "warnings"));
    }
    if infos > 0 {
        parts.push(counted_noun(infos, "note", "notes"));
    }
    format!("{} (hugewise rules {}).", parts.join(", "), worst.code)
}

fn count_unstartable(checked: &CheckReport<'_>) -> usize {
    let fails = |instance: &&Instance| {
        let moments = checked.assessment.situation.forecasts_for(instance);
        instance.is_stopped()
            && moments.is_some_and(|stage_forecasts| {
                stage_forecasts.restart.coverage == Coverage::DoesNotStart
            })
    };
    checked.instances.iter().filter(fails).count()
}

/// Verdicts of rules, and moments that no rule explains.
pub(crate) fn list_undecided(checked: &CheckReport<'_>) -> Vec<String> {
    let assessment = checked.assessment;
    let verdicts = assessment.unknown.iter().map(|verdict| match &verdict.instance {
        Some(instance) => {
            format!("{} {} of {instance} ({})", verdict.code, verdict.name, verdict.missing)
        }
        None => format!("{} {} ({})", verdict.code, verdict.name, verdict.missing),
    });
    verdicts.chain(open_moments(checked)).collect()
}

/// Moments of instances that cannot be told, and that no rule explains.
pub(crate) fn open_moments(checked: &CheckReport<'_>) -> Vec<String> {
    checked.instances.iter().filter_map(|instance| find_open_moment(checked, instance)).collect()
}

pub(crate) fn find_open_moment(checked: &CheckReport<'_>, instance: &Instance) -> Option<String> {
    let assessment = checked.assessment;
    let is_explained = assessment
        .unknown
        .iter()
        .any(|verdict| verdict.instance.as_ref().is_some_and(|id| instance.has_id(id)));
    let moments = assessment.situation.forecasts_for(instance).filter(|_| !is_explained)?;
    // Of a stopped server, only the boot counts.
    let asked =
        |moment: &&PredictionStage| !instance.is_stopped() || **moment == PredictionStage::Boot;
    let open = |moment: &&PredictionStage| {
        asked(moment) && moments.at_stage(**moment).coverage == Coverage::Unknown
    };
    let moment = PredictionStage::ALL.iter().find(open)?;
    let why = moments.at_stage(*moment).why.as_deref().unwrap_or("not told");
    Some(format!("{} of {} ({why})", moment.as_str(), instance.title()))
}

/// The same file of many processes is one entry.
pub(crate) fn group_unread(unread: &[Unread]) -> Vec<String> {
    let mut groups: BTreeMap<(String, &Reason), Vec<&str>> = BTreeMap::new();
    for fact in unread {
        let kind = if matches!(fact.why, Reason::Malformed(_)) {
            fact.what.clone()
        } else {
            generalize_pid(&fact.what)
        };
        groups.entry((kind, &fact.why)).or_default().push(&fact.what);
    }
    // What root would see comes last.
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|((_, why), _)| why.is_denied());
    groups
        .into_iter()
        .map(|((pattern, why), members)| match members.as_slice() {
            [one] => format!("{one} ({why})"),
            many => format!("{pattern} of {} processes ({why})", many.len()),
        })
        .collect()
}

/// `/proc/4711/maps` as `/proc/PID/maps`.
fn generalize_pid(what: &str) -> String {
    let Some(below) = what.strip_prefix("/proc/") else { return what.to_owned() };
    let (first, rest) = below.split_once('/').unwrap_or((below, ""));
    if !first.is_empty() && first.bytes().all(|byte| byte.is_ascii_digit()) {
        format!("/proc/PID/{rest}")
    } else {
        what.to_owned()
    }
}

pub(crate) fn as_whom(host: &Host, denied: bool) -> &'static str {
    match (denied, &host.read_as, host.live) {
        (true, Observed::Known(0), _) => {
            " Even root may not read these: a container or a security policy blocks it."
        }
        (true, _, true) => " Run as root to see the rest.",
        (true, _, false) => " Capture as root to see the rest.",
        (false, ..) => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_root_would_see_stands_behind_what_is_told() {
        let fact = |what: &str, why: Reason| Unread { what: what.into(), why };
        let unread = [
            fact("/proc/7/maps", Reason::Denied),
            fact("/proc/8/maps", Reason::Denied),
            fact("/etc/a", Reason::Denied),
            fact("/var/lib/hugewise/journal", Reason::from_text("only root may read it")),
        ];
        let told = group_unread(&unread);
        assert!(told[0].starts_with("/var/lib/hugewise/journal (only root"), "{told:?}");
        assert!(
            told.iter().any(|line| line.starts_with("/proc/PID/maps of 2 processes (denied")),
            "{told:?}"
        );
    }
}
