//! What a plan says: how many steps, what each is for and ends, what it changes.

use hugewise_change::diff;
use hugewise_change::plan::{
    Change, CommandChange, EffectTime, ExpectedResolution, FileChange, Plan, Risk, Step,
};
use hugewise_diagnose::wording::one_line;
use hugewise_model::escape::diff as escape;
use hugewise_model::{Bytes, Host};

use super::counted_noun;
use crate::PlanReport;
use crate::palette::Role;

/// Why a plan cannot be applied where it was made: in a container.
pub(crate) fn not_here(host: &Host) -> Option<String> {
    let why = host.confined.as_deref().map(one_line)?;
    let who = if host.live {
        "hugewise runs in a container or chroot"
    } else {
        "captured in a container or chroot"
    };
    Some(format!(
        "{who}: {why}. hugewise apply refuses to run here; apply this plan on the host itself \
             (--format shell, ansible or \
         cloud-init writes it)"
    ))
}

/// The plan's warnings, but for what [`not_here`] has said.
pub(crate) fn plan_warnings<'a>(
    planned: &PlanReport<'a>,
) -> impl Iterator<Item = &'a str> + use<'a> {
    let said = planned.host.confined.as_deref().map(one_line);
    let all = planned.plan.warnings.iter().map(String::as_str);
    all.filter(move |warning| said.as_deref().is_none_or(|said| !warning.starts_with(said)))
}

/// `3 steps: 2 safe, 1 restart; 1 manual step`.
pub(crate) fn describe_extent(plan: &Plan) -> String {
    let mut text = match (plan.steps.is_empty(), &plan.refusal) {
        (true, Some(_)) => "nothing to change, because the pools are refused".to_owned(),
        (true, None) if plan.is_undecided() => {
            "nothing to change, as far as hugewise could read".to_owned()
        }
        (true, None) => "nothing to change".to_owned(),
        (false, _) => steps_of(&plan.steps),
    };
    if !plan.instructions.is_empty() {
        text +=
            &format!("; {}", counted_noun(plan.instructions.len(), "manual step", "manual steps"));
    }
    text
}

fn steps_of(steps: &[Step]) -> String {
    let count_of = |risk: Risk| steps.iter().filter(|step| step.risk == risk).count();
    let risks = [Risk::Safe, Risk::Restart, Risk::Reboot, Risk::Destructive]
        .map(|risk| (count_of(risk), risk.as_str()));
    let risks =
        risks.iter().filter(|(count, _)| *count > 0).map(|(count, name)| format!("{count} {name}"));
    format!(
        "{}: {}",
        counted_noun(steps.len(), "step", "steps"),
        risks.collect::<Vec<_>>().join(", ")
    )
}

pub(crate) const fn risk_role(risk: Risk) -> Role {
    match risk {
        Risk::Safe => Role::Good,
        Risk::Restart => Role::Warn,
        Risk::Reboot | Risk::Destructive => Role::Error,
    }
}

/// `HW201 no-pool of oracle PROD`.
pub(crate) fn describe_expected_finding(expected: &ExpectedResolution) -> String {
    let text =
        expected.instance.as_deref().map(|instance| format!(" of {instance}")).unwrap_or_default();
    format!("{} {}{text}", expected.code, expected.name)
}

/// `HW201 no-pool of oracle PROD when it is restarted`.
pub(crate) fn describe_expected_end(expected: &ExpectedResolution) -> String {
    let when = match (expected.when, expected.instance.is_some()) {
        (EffectTime::Now, _) => "at once",
        (EffectTime::Restart, true) => "when it is restarted",
        (EffectTime::Restart, false) => "when the servers are restarted",
        (EffectTime::Reboot, _) => "when the host is rebooted",
    };
    format!("{} {when}", describe_expected_finding(expected))
}

/// A unified diff; `None` for a command.
pub(crate) fn render_change_diff(change: &Change) -> Option<String> {
    match change {
        Change::Value(change) => {
            Some(diff::of_values(&change.path, change.before.as_deref(), Some(&change.after)))
        }
        Change::File(change) => {
            let (before, after) =
                (change.before.as_ref().map(Into::into), change.after.as_ref().map(Into::into));
            Some(diff::of_files(&change.path, before, after))
        }
        Change::Command(_) => None,
    }
}

/// Mode and owner of a new file, if they are unusual.
pub(crate) fn describe_file_rights(change: &FileChange) -> Option<String> {
    let after = change.after.as_ref().filter(|_| change.before.is_none())?;
    let is_usual = (after.mode.0, after.uid, after.gid) == (0o644, 0, 0);
    let path = escape::escape_diff_path(&change.path);
    (!is_usual).then(|| format!("{path}: mode {} owner {}:{}", after.mode, after.uid, after.gid))
}

pub(crate) fn role_of_line(line: &str) -> Role {
    match line.as_bytes() {
        [b'-', b'-', b'-', ..] | [b'+', b'+', b'+', ..] => Role::Strong,
        [b'+', ..] => Role::Good,
        [b'-', ..] => Role::Error,
        [b'@' | b'\\', ..] => Role::Quiet,
        _ => Role::Text,
    }
}

/// Why a command is run, and what it rewrites.
pub(crate) fn describe_command_reason(change: &CommandChange) -> String {
    let mut why = change.why.clone();
    if !change.files.is_empty() {
        why += &format!("; it rewrites {}", change.files.join(", "));
    }
    if let Some(holds) = &change.unless {
        why += &format!("; not needed where {} has {}", holds.path, holds.line);
    }
    why
}

/// The host's memory with the planned pools.
pub(crate) fn describe_plan_memory(plan: &Plan) -> Option<String> {
    let budget = &plan.budget;
    let total = budget.total_bytes.filter(|_| budget.pools_bytes > 0)?;
    let left = match (budget.left_bytes, budget.short_bytes) {
        (Some(left), 0) => {
            format!(
                "leaves {} beyond the {} that must stay free",
                Bytes(left),
                Bytes(budget.floor_bytes)
            )
        }
        (_, short) => {
            format!(
                "{} too little, counting the {} that must stay free",
                Bytes(short),
                Bytes(budget.floor_bytes)
            )
        }
    };
    let mut text = format!(
        "of {}: pools {}, measured needs {}; {left}",
        Bytes(total),
        Bytes(budget.pools_bytes),
        Bytes(budget.needs_bytes)
    );
    if !budget.unknown.is_empty() {
        text += &format!("; not known and not counted: {}", budget.unknown.join(", "));
    }
    Some(text)
}

/// Only lines that go or come: the rest of the file is not for readers of the report.
pub(crate) fn changed_lines(change: &Change) -> String {
    let diff = render_change_diff(change).unwrap_or_default();
    let is_shown = |line: &&str| !line.starts_with([' ', '@', '\\']);
    let mut text: String = diff.lines().filter(is_shown).map(|line| format!("{line}\n")).collect();
    if let Change::File(change) = change
        && let Some(rights) = describe_file_rights(change)
    {
        text += &format!("{rights}\n");
    }
    text
}
