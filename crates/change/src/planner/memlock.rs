//! Memory that a server may lock: in limits.d for logins, in a drop-in for the unit starting it.

use std::collections::BTreeSet;

use hugewise_diagnose::coverage::Coverage;
use hugewise_diagnose::login::Allowance;
use hugewise_diagnose::permission::{self, MemlockEffect};
use hugewise_diagnose::prediction::predict_next_start;
use hugewise_diagnose::wording::join_names;
use hugewise_diagnose::{demand, ipc_privileges, login};
use hugewise_engines::EngineKind;
use hugewise_host::FactReader;
use hugewise_host::config::{limits, systemd};
use hugewise_host::source::OverlaySource;
use hugewise_model::{Bytes, Host, HugePageMode, Instance, Observed, PageSize, Remedy};

use super::draft::{Draft, Drafted, PlanPart, PlannedPoolGoal, Whom};
use super::shm::{has_pages, sysv_servers};
use super::{PlanRequest, owned_files};
use crate::plan::{Change, CommandChange, EffectTime, FileChange, Risk, Step};

pub(super) fn plan_memlock(ask: &PlanRequest<'_>, draft: &mut Draft<'_>) {
    if !ask.options.boot {
        return;
    }
    let mut owners = BTreeSet::new();
    let mut units = BTreeSet::new();
    let mut to_others: Vec<(Vec<String>, Vec<&Instance>)> = Vec::new();
    let situation = &ask.assessment.situation;
    let needs_more = |instance: &&Instance| {
        ask.calls_for(&memlock_remedy(instance))
            || ipc_privileges::lacks_memlock(ask.host, situation, instance)
    };
    for instance in sysv_servers(ask).filter(needs_more) {
        if !may_lock(ask, draft, instance) {
            continue;
        }
        if instance.containered {
            let line = "# the limit of its container: --ulimit memlock=-1 (Docker, Podman)";
            instruct_memlock(draft, instance, &[line.to_owned()]);
            continue;
        }
        let starter = EngineKind::for_engine(instance.engine).restart.starter.as_ref();
        let others = starter.and_then(|starter| (starter.limits)(ask.host, instance));
        let by_others = others.is_some();
        // What starts it and a login each need a large enough limit: either may start it next.
        let locked = ask.assessment.situation.locked();
        let left_to_others =
            others.filter(|_| !ipc_privileges::privileges_suffice(ask.host, instance, locked));
        let is_whole = left_to_others.is_none();
        if let Some(lines) = left_to_others {
            match to_others.iter_mut().find(|(same, _)| *same == lines) {
                Some((_, whose)) => whose.push(instance),
                None => to_others.push((lines, vec![instance])),
            }
        }
        if owners.insert(instance.owner.clone()) {
            raise_login_memlock(ask, draft, instance, is_whole);
        } else if let Some(step) = draft.step_of(PlanPart::LogIns).filter(|_| is_whole) {
            step.carry_remedy(memlock_remedy(instance), EffectTime::Now);
        }
        if !by_others {
            raise_unit_memlock(ask, draft, instance, &mut units);
        }
    }
    raise_memlock_for_rings(ask, draft, &mut owners, &mut units);
    for (lines, whose) in to_others {
        draft.explained.extend(whose.iter().map(|instance| memlock_remedy(instance)));
        let only = match whose.as_slice() {
            [one] => Some(one.title()),
            _ => None,
        };
        draft.add_instruction(memlock_step_title(&whose), &lines, Risk::Restart, only);
    }
}

/// Servers whose io_uring rings are charged to the limit.
fn raise_memlock_for_rings(
    ask: &PlanRequest<'_>,
    draft: &mut Draft<'_>,
    owners: &mut BTreeSet<String>,
    units: &mut BTreeSet<String>,
) {
    let has_rings = |instance: &&Instance| {
        instance.ring_bytes.is_some() && ask.calls_for(&memlock_remedy(instance))
    };
    for instance in ask.instances.iter().filter(has_rings) {
        let by_unit =
            instance.unit.is_some() || ipc_privileges::unit_of(ask.host, instance).is_some();
        if by_unit {
            raise_unit_memlock(ask, draft, instance, units);
        } else if owners.insert(instance.owner.clone()) {
            raise_login_memlock(ask, draft, instance, true);
        }
    }
}

/// Where the limit brings huge pages, they have to be there for it, or the limit harmless.
fn may_lock(ask: &PlanRequest<'_>, draft: &mut Draft<'_>, instance: &Instance) -> bool {
    if !matches!(permission::memlock_effect(ask.host), MemlockEffect::Buys(_)) {
        return true;
    }
    let Some(page) = ask.host.default_huge_page.get() else {
        return has_pages(ask, draft, instance);
    };
    has_pages(ask, draft, instance)
        && (is_harmless(ask, draft, instance, page) || draft.may_ask(instance, page))
}

/// Harmless is a limit by which nobody loses pages: no server that does not start without them, and
/// none that would get them at the boot.
fn is_harmless(
    ask: &PlanRequest<'_>,
    draft: &Draft<'_>,
    instance: &Instance,
    page: PageSize,
) -> bool {
    let loses = |other: &Instance| {
        let has = ask.boot_forecast(other).is_some_and(|boot| boot.coverage == Coverage::All);
        let start = predict_next_start(ask.host, other);
        start.asked == HugePageMode::Must || (start.asks_for_huge_pages() && has)
    };
    let mut others = ask.instances.iter().filter(|other| {
        other.id() != instance.id() && demand::page_size(ask.host, other) == Some(page)
    });
    draft.pool_goal(page).is_none_or(PlannedPoolGoal::covers_need) && !others.any(loses)
}

fn raise_unit_memlock(
    ask: &PlanRequest<'_>,
    draft: &mut Draft<'_>,
    instance: &Instance,
    units: &mut BTreeSet<String>,
) {
    let starts_it = ipc_privileges::boot_unit_of(ask.host, instance).map(|unit| unit.name.as_str());
    if let Some(unit) = starts_it.or(instance.unit.as_deref())
        && instance.is_known_to_the_host()
        && units.insert(unit.to_owned())
    {
        raise_service_memlock(ask, draft, instance, unit);
    }
    let remedy = memlock_remedy(instance);
    if !draft.carries_remedy(&remedy) && !draft.explained.contains(&remedy) {
        // Its next start finds enough as it is.
        draft.settled.push((remedy, Whom::These(BTreeSet::from([instance.id()]))));
    }
}

fn instruct_memlock(draft: &mut Draft<'_>, instance: &Instance, lines: &[String]) {
    let title = memlock_step_title(&[instance]);
    draft.instruct_for(memlock_remedy(instance), title, lines, Risk::Restart, Some(instance));
}

fn memlock_remedy(instance: &Instance) -> Remedy {
    Remedy::RaiseMemlock(instance.id())
}

fn memlock_step_title(whose: &[&Instance]) -> String {
    let names: Vec<String> = whose.iter().map(|instance| instance.title()).collect();
    let whose = if names.len() == 1 { "its" } else { "their" };
    format!("let {} lock {whose} memory", join_names(&names))
}

/// All owners' rules are in one file, of one step. `is_whole`: the server needs nothing else.
fn raise_login_memlock(
    ask: &PlanRequest<'_>,
    draft: &mut Draft<'_>,
    instance: &Instance,
    is_whole: bool,
) {
    let owner = &instance.owner;
    let is_plain = |sign: char| sign.is_ascii_alphanumeric() || "_-.".contains(sign);
    let is_plain = owner.chars().all(is_plain) && !owner.starts_with('-');
    if instance.owner_is_number() {
        // Rules by number may be in force for an account that is none any more, or for another's.
        let lines = [
            format!(
                "# no account file or directory knows user {owner}; if that is correct, set the \
                 limit by number:"
            ),
            format!(
                "# in a file under /etc/security/limits.d: {owner}:{owner} - memlock unlimited"
            ),
        ];
        return instruct_memlock(draft, instance, &lines);
    }
    let process = permission::process_of(ask.host, instance).filter(|_| is_plain);
    let Some(uid) = process.map(|process| process.uid) else {
        let line = format!("# in a file under /etc/security/limits.d: {owner} - memlock unlimited");
        return instruct_memlock(draft, instance, &[line]);
    };
    let needs = ask.assessment.situation.locked().at_most(ask.host, instance).total();
    let text = match render_limits(ask, draft, owner, uid, needs) {
        Ok(Some(text)) => text,
        Ok(None) => return,
        Err(why) => return draft.leave_undone(memlock_remedy(instance), why),
    };
    let Some(change) = draft.write(owned_files::LIMITS, &text) else { return };
    if let Some(step) = draft.step_of(PlanPart::LogIns) {
        step.changes = vec![change.into()];
        step.title = format!("{}, {owner}", step.title);
    } else {
        let why = format!(
            "{needs} of huge pages count against the limit when the server is started from a login"
        );
        let title = format!("unlimited memlock for logins of {owner}");
        let step = Step::new("memlock-log-ins", title, Risk::Restart, why);
        draft.add_step(Drafted::for_part(PlanPart::LogIns, step).with_change(change));
    }
    if let Some(step) = draft.step_of(PlanPart::LogIns).filter(|_| is_whole) {
        step.carry_remedy(memlock_remedy(instance), EffectTime::Now);
    }
}

/// `None` where logins have enough as it is. An error says why such a rule does not help.
fn render_limits(
    ask: &PlanRequest<'_>,
    draft: &Draft<'_>,
    owner: &str,
    uid: u32,
    needs: Bytes,
) -> Result<Option<String>, String> {
    let allowance = |files: &OverlaySource<'_>| login::of_log_in(&with_limits(ask, files), uid);
    if allowance(&draft.after).allows(needs) == Some(true) {
        return Ok(None);
    }
    let there = owned_files::read_owned_file(&draft.after, owned_files::LIMITS)
        .map_err(|why| format!("the memlock limit for logins of {owner} stays as it is: {why}"))?;
    let is_owners = |line: &str| line.split_whitespace().next() == Some(owner);
    let mut lines = owned_files::kept_lines(there.as_deref(), is_owners);
    lines.push(format!("{owner} - memlock unlimited"));
    let text = owned_files::render_owned_file(&lines);
    let found = allowance(&draft.after.with_file(owned_files::LIMITS, &text));
    if found.allows(needs) == Some(true) {
        return Ok(Some(text));
    }
    Err(format!(
        "{} has the last word on the memlock limit for logins of {owner}: correct it there",
        found.place
    ))
}

fn with_limits(ask: &PlanRequest<'_>, files: &OverlaySource<'_>) -> Host {
    let mut host = ask.host.clone();
    host.configuration.limits = limits::read(&mut FactReader::new(files));
    host
}

fn raise_service_memlock(
    ask: &PlanRequest<'_>,
    draft: &mut Draft<'_>,
    instance: &Instance,
    unit: &str,
) {
    let needs = ask.assessment.situation.locked().at_most(ask.host, instance).total();
    let Some(process) = permission::process_of(ask.host, instance) else { return };
    // The smallest that the unit's files may give it.
    let memlock = |files: &OverlaySource<'_>| -> Option<Allowance> {
        let units = BTreeSet::from([unit.to_owned()]);
        let unit = systemd::read_named(&mut FactReader::new(files), &units).pop()?;
        let found = ipc_privileges::memlocks_by_unit(&with_limits(ask, files), &unit, process);
        found.into_iter().min_by_key(|found| found.limit.get())
    };
    if memlock(&draft.after).is_some_and(|found| found.allows(needs) == Some(true)) {
        return plan_unit_reload(ask, draft, instance, unit);
    }
    let path = owned_files::unit_drop_in(unit);
    let text =
        owned_files::render_owned_file(&["[Service]".into(), "LimitMEMLOCK=infinity".into()]);
    let stays = match owned_files::read_owned_file(&draft.after, &path) {
        Err(why) => Some(format!("the memlock limit of {unit} stays as it is: {why}")),
        Ok(_) => match memlock(&draft.after.with_file(&path, &text)) {
            Some(Allowance { limit: Observed::Known(limit), .. }) if limit.allows(needs) => None,
            Some(Allowance { limit: Observed::Known(limit), place, .. }) => Some(format!(
                "{place} sets LimitMEMLOCK of {unit} to {limit} after hugewise's drop-in: correct \
                 it there"
            )),
            _ => Some(format!(
                "the memlock limit of {unit} stays as it is: its files cannot be read"
            )),
        },
    };
    if let Some(why) = stays {
        return draft.leave_undone(memlock_remedy(instance), why);
    }
    let Some(change) = draft.write(&path, &text) else { return };
    let title = format!("unlimited memlock for {unit}");
    let why = "limits.conf does not apply to services; systemd sets their limits";
    add_unit_step(draft, instance, unit, (title, why.to_owned()), Some(change));
}

fn add_unit_step(
    draft: &mut Draft<'_>,
    instance: &Instance,
    unit: &str,
    (title, why): (String, String),
    change: Option<FileChange>,
) {
    let step = Step::new(format!("memlock-{unit}"), title, Risk::Restart, why);
    let mut step = Drafted::from(step).for_instance(instance);
    step.carry_remedy(memlock_remedy(instance), EffectTime::Now);
    step.changes.extend(change.map(Change::from));
    let reload = ["/usr/bin/systemctl", "daemon-reload"];
    let reload = CommandChange::new(reload, "makes systemd reload its units").undone_by_itself();
    draft.add_step(step.with_change(reload));
}

/// Where the unit's files allow enough, systemd may have yet to load them.
fn plan_unit_reload(ask: &PlanRequest<'_>, draft: &mut Draft<'_>, instance: &Instance, unit: &str) {
    let known = ask.host.configuration.units.iter().find(|known| known.name == unit);
    if let Some(waiting) = known.and_then(|known| known.loaded.as_known()?.pending_file()) {
        let title = format!("make systemd reload {unit}");
        let why = format!(
            "{waiting} was changed after systemd last read its units, so a restart would still \
             use the old settings"
        );
        add_unit_step(draft, instance, unit, (title, why), None);
    }
}
