//! What a plan cannot do: settings inside a server, a container's limits, and findings that no step ends.

use hugewise_advice::fix;
use hugewise_advice::words::shell_word;
use hugewise_model::{Asked, Engine, Finding, Level, PageCount};

use super::memlock::LOCK;
use super::{Ask, Draft};
use crate::plan::Risk;

/// Rules about how a host is set up: where no step ends such a finding, its own fix is handed on.
const SET_UP: [&str; 13] = [
    "HW202", "HW205", "HW206", "HW207", "HW208", "HW302", "HW402", "HW404", "HW405", "HW601", "HW602", "HW701", "HW702",
];

/// Rules whose missing facts leave steps out.
const STEPS_NEED: [&str; 16] = [
    "HW201", "HW203", "HW204", "HW209", "HW301", "HW302", "HW303", "HW304", "HW401", "HW403", "HW405", "HW501",
    "HW601", "HW602", "HW206", "HW207",
];

pub(super) fn plan(ask: &Ask<'_>, draft: &mut Draft<'_>) {
    servers(ask, draft);
    left_over(ask, draft);
    for unknown in ask.assessment.unknown.iter().filter(|unknown| STEPS_NEED.contains(&unknown.code)) {
        let about = unknown.instance.as_ref().map(|instance| format!(" of {instance}")).unwrap_or_default();
        draft.warn(format!(
            "{} {}{about} cannot be decided ({}): what hangs on it is left out",
            unknown.code, unknown.name, unknown.missing
        ));
    }
    let left_out = ask.sizing.map(|sizing| sizing.left_out.as_slice()).unwrap_or_default();
    for left_out in left_out {
        let named = ask.options.instances.iter().any(|name| left_out.instance.ends_with(name.as_str()));
        let suffers = ask.assessment.findings.iter().any(|it| it.instance.as_ref() == Some(&left_out.instance));
        if named || suffers {
            draft.warn(format!("no pages are planned for {}: {}", left_out.instance, left_out.why));
        }
    }
}

/// Settings that are in no file that hugewise may write.
fn servers(ask: &Ask<'_>, draft: &mut Draft<'_>) {
    let ask = *ask;
    for (instance, _) in ask.sized().filter(|(instance, _)| ask.is_chosen(instance) && instance.pid != 0) {
        let elsewhere = matches!(
            instance.engine,
            Engine::PostgreSql | Engine::MySql | Engine::MariaDb | Engine::Redis | Engine::Valkey | Engine::MongoDb
        );
        let off = instance.asked == Asked::No;
        let falls_back = instance.engine == Engine::Oracle && ask.found("HW401", instance).is_some();
        if elsewhere || !(off || falls_back) {
            continue;
        }
        let mut lines = fix::ask(instance, falls_back || instance.engine == Engine::Oracle);
        if falls_back {
            lines.insert(0, "# once its pages are there, as it does not start without them then:".into());
        }
        let what = if off { "have it ask for huge pages" } else { "have it refuse a start without huge pages" };
        let title = instance.title();
        draft.instruct(format!("{title}: {what}"), &lines, Risk::Restart, Some(title));
    }
}

fn left_over(ask: &Ask<'_>, draft: &mut Draft<'_>) {
    for finding in ask.assessment.findings.iter().filter(|finding| SET_UP.contains(&finding.code)) {
        let ended = draft.steps.iter().flat_map(|step| &step.expects);
        let mut ended = ended.filter(|it| it.code == finding.code && it.instance == finding.instance);
        let about = finding.instance.as_ref().and_then(|title| ask.instances.iter().find(|it| it.title() == *title));
        let chosen = about.is_none_or(|instance| ask.is_chosen(instance));
        if ended.next().is_some() || finding.level < Level::Warn || finding.fix.is_empty() || !chosen {
            continue;
        }
        let risk = if about.is_some() { Risk::Restart } else { Risk::Safe };
        let title = format!("{} {}: {}", finding.code, finding.name, finding.summary);
        if let Some(lines) = fix_beside_a_plan(ask, draft, finding) {
            draft.instruct(title, &lines, risk, finding.instance.clone());
        }
    }
}

/// A finding's own fix, where it does not work against the plan.
fn fix_beside_a_plan(ask: &Ask<'_>, draft: &Draft<'_>, finding: &Finding) -> Option<Vec<String>> {
    // A pool's findings name its page size in their first sentence and nowhere else.
    let mut pools = draft.pools.iter().filter(|goal| finding.summary.contains(&format!("pages of {}", goal.page_size)));
    let of_pool = pools.next();
    match finding.code {
        // Servers to come will take it, or one's own cause comes first.
        "HW202" | "HW205" if of_pool.is_some_and(|goal| goal.needed.get().saturating_mul(2) > goal.goal.get()) => None,
        _ if finding.fix.iter().all(|line| line.starts_with('#') && line.contains("the fix of its")) => None,
        "HW302" if draft.instructions.iter().any(|it| it.instance == finding.instance && it.title.ends_with(LOCK)) => {
            None
        }
        "HW202" | "HW205" => Some(vec![
            "# give them back, if no server that uses them is down just now:".into(),
            "hugewise plan --shrink".into(),
        ]),
        "HW601" if of_pool.is_some_and(|goal| goal.needed == PageCount::ZERO) => None,
        "HW402" => {
            let title = finding.instance.as_deref()?;
            let instance = ask.instances.iter().find(|instance| instance.title() == title)?;
            let sql = finding.fix.iter().filter(|line| line.contains("sqlplus") || line.contains("ALTER SYSTEM"));
            let mut lines: Vec<String> = sql.filter(|line| !line.contains("shutdown")).cloned().collect();
            lines.push("# restart it, then plan its pages:".into());
            lines.push(format!("hugewise plan --instance {}", shell_word(&instance.name)));
            Some(lines)
        }
        _ => Some(finding.fix.clone()),
    }
}
