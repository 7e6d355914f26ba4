//! Memory that a server may lock: in limits.d for logins, and in a drop-in for the unit that starts it.

use std::collections::BTreeSet;

use hugewise_advice::login::Allowance;
use hugewise_advice::permission::{self, Memlock};
use hugewise_advice::situation::starting;
use hugewise_advice::standing::Standing;
use hugewise_advice::words::list;
use hugewise_advice::{demand, given, login};
use hugewise_engines::Kind;
use hugewise_host::Door;
use hugewise_host::config::{limits, systemd};
use hugewise_model::{Asked, Host, Instance, Remedy};

use super::draft::{Draft, Drafted, Whom};
use super::overlay::Overlay;
use super::shm::{has_pages, takes_sysv};
use super::{Ask, ours, pools_at_boot};
use crate::plan::{Change, CommandChange, Risk, Step, When};

pub(super) fn plan(ask: &Ask<'_>, draft: &mut Draft<'_>) {
    if !ask.options.boot {
        return;
    }
    let mut owners = BTreeSet::new();
    let mut units = BTreeSet::new();
    let mut to_others: Vec<(Vec<String>, Vec<&Instance>)> = Vec::new();
    for instance in takes_sysv(ask) {
        let wanted = ask.calls_for(&remedy(instance));
        if !wanted && !lacks(ask, instance) {
            continue;
        }
        let buys = matches!(permission::memlock(ask.host), Memlock::Buys(_));
        let page = ask.host.default_huge_page.get().filter(|_| buys);
        if buys && !has_pages(ask, draft, instance) {
            continue;
        }
        // A limit costs nothing: where the boot is to bring the pages and another line is in the way, that is to be taken out, and
        // meanwhile there has to be nobody whose pages this one would take: one that does not start without them, or one that
        // would get them at the boot.
        let is_harmless = |draft: &Draft<'_>, page| {
            let loses = |other: &Instance| {
                let moments = ask.assessment.situation.of(other);
                let has = moments.is_some_and(|moments| moments.boot.standing == Standing::All);
                let start = starting(ask.host, other);
                start.asked == Asked::Must || (start.asks() && has)
            };
            let mut others = ask.instances.iter().filter(|other| other.id() != instance.id());
            let takes_theirs = others.any(|other| demand::page_size(ask.host, other) == Some(page) && loses(other));
            draft.pool(page).is_none_or(|goal| goal.goal >= goal.needed) && !takes_theirs
        };
        if page.is_some_and(|page| !is_harmless(draft, page) && !pools_at_boot::may_ask(draft, instance, page)) {
            continue;
        }
        if instance.containered {
            let lines = ["# the limit of its container: --ulimit memlock=-1 (Docker, Podman)".to_owned()];
            draft.instruct_for(remedy(instance), title(&[instance]), &lines, Risk::Restart, Some(instance));
            continue;
        }
        let starter = Kind::of(instance.engine).starter.as_ref();
        let others = starter.and_then(|starter| (starter.limits)(ask.host, instance));
        let by_others = others.is_some();
        // What starts it and a login each need a limit that is large enough: either may be the next to start it.
        let left_to_others = others.filter(|_| !given::suffices(ask.host, instance, ask.assessment.situation.locked()));
        let is_whole = left_to_others.is_none();
        if let Some(lines) = left_to_others {
            match to_others.iter_mut().find(|(same, _)| *same == lines) {
                Some((_, whose)) => whose.push(instance),
                None => to_others.push((lines, vec![instance])),
            }
        }
        if owners.insert(instance.owner.clone()) {
            log_in(ask, draft, instance, is_whole);
        } else if let Some(step) = draft.steps.iter_mut().find(|step| step.id == LOG_INS)
            && is_whole
        {
            step.carry(remedy(instance), When::Now);
        }
        if by_others {
            continue;
        }
        let unit = instance.unit.as_deref();
        let unit = unit.or_else(|| given::unit_of(ask.host, instance).map(|unit| unit.name.as_str()));
        if let Some(unit) = unit.filter(|_| instance.is_known_to_the_host())
            && units.insert(unit.to_owned())
        {
            service(ask, draft, instance, unit);
        }
        if !draft.carries(&remedy(instance)) && !draft.told.contains(&remedy(instance)) {
            // Its next start finds enough as it is.
            draft.settled.push((remedy(instance), Whom::These(vec![instance.id()])));
        }
    }
    for (lines, whose) in to_others {
        draft.told.extend(whose.iter().map(|instance| remedy(instance)));
        draft.instruct(title(&whose), &lines, Risk::Restart, alone(&whose).map(Instance::title));
    }
}

/// The one of them, where it is one.
fn alone<'a>(whose: &[&'a Instance]) -> Option<&'a Instance> {
    match whose {
        [one] => Some(one),
        _ => None,
    }
}

fn remedy(instance: &Instance) -> Remedy {
    Remedy::RaiseMemlock(instance.id())
}

fn title(whose: &[&Instance]) -> String {
    let names: Vec<String> = whose.iter().map(|instance| instance.title()).collect();
    format!("let {} lock {} memory", list(&names), if names.len() == 1 { "its" } else { "their" })
}

/// Whether its next start may come with too small a limit, on a kernel or for a server that looks at it.
fn lacks(ask: &Ask<'_>, instance: &Instance) -> bool {
    let looks =
        Kind::of(instance.engine).start.minds_memlock || !matches!(permission::memlock(ask.host), Memlock::Useless(_));
    let off = instance.huge_pages != hugewise_model::HugePageUse::All || super::shm::loses_right(ask, instance);
    let locked = ask.assessment.situation.locked();
    let (at_restart, at_boot) = (locked.at_restart(ask.host, instance), locked.at_boot(ask.host, instance));
    let (restart, boot) = (given::at_restart(ask.host, instance), given::at_boot(ask.host, instance));
    let short = || {
        [(&restart, at_restart), (&boot, at_boot)].iter().any(|(ways, needs)| ways.memlock_for(*needs).1 == Some(false))
    };
    looks && off && super::shm::is_big(instance) && short()
}

/// The limit of logins. All owners' rules are in one file, and one step makes it.
/// `is_whole`: whether it is all that the server needs.
fn log_in(ask: &Ask<'_>, draft: &mut Draft<'_>, instance: &Instance, is_whole: bool) {
    let owner = &instance.owner;
    let plain = owner.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c)) && !owner.starts_with('-');
    if instance.owner_is_number() {
        // Rules by number may be in force for an account that is none any more, or for another's.
        let lines = [
            format!("# no account file or directory knows user {owner}; if that is correct, set the limit by number:"),
            format!("# in a file under /etc/security/limits.d: {owner}:{owner} - memlock unlimited"),
        ];
        draft.instruct_for(remedy(instance), title(&[instance]), &lines, Risk::Restart, Some(instance));
        return;
    }
    let Some(uid) = permission::process_of(ask.host, instance).map(|process| process.uid).filter(|_| plain) else {
        let lines = [format!("# in a file under /etc/security/limits.d: {owner} - memlock unlimited")];
        draft.instruct_for(remedy(instance), title(&[instance]), &lines, Risk::Restart, Some(instance));
        return;
    };
    let needs = ask.assessment.situation.locked().at_most(ask.host, instance).all();
    let suffices = |files: &Overlay<'_>| of_log_in(ask, files, uid).allows(needs) == Some(true);
    if suffices(&draft.after) {
        return;
    }
    let text = match limits_with(&draft.after, owner) {
        Ok(text) => text,
        Err(why) => {
            let what = format!("the memlock limit for logins of {owner} stays as it is: {why}");
            return draft.leave(remedy(instance), what);
        }
    };
    let trial = draft.after.with(ours::LIMITS, &text);
    if !suffices(&trial) {
        let place = of_log_in(ask, &trial, uid).place;
        let what = format!("{place} has the last word on the memlock limit for logins of {owner}: correct it there");
        return draft.leave(remedy(instance), what);
    }
    let Some(change) = draft.write(ours::LIMITS, &text) else { return };
    let at = draft.steps.iter().position(|step| step.id == LOG_INS);
    if let Some(step) = at.and_then(|at| draft.steps.get_mut(at)) {
        step.changes = vec![change.into()];
        step.title = format!("{}, {owner}", step.title);
        if is_whole {
            step.carry(remedy(instance), When::Now);
        }
        return;
    }
    let why = format!("{needs} of huge pages count against the limit when the server is started from a login");
    let title = format!("unlimited memlock for logins of {owner}");
    let mut step = Drafted::from(Step::new(LOG_INS, title, Risk::Restart, why)).change(change);
    if is_whole {
        step.carry(remedy(instance), When::Now);
    }
    draft.step(step);
}

/// The step that makes the limits of logins.
const LOG_INS: &str = "memlock-log-ins";

fn limits_with(files: &Overlay<'_>, owner: &str) -> Result<String, ours::Taken> {
    let there = ours::present(files, ours::LIMITS)?;
    let of_owner = |line: &str| line.split_whitespace().next() == Some(owner);
    let mut lines = ours::kept_lines(there.as_deref(), of_owner);
    lines.push(format!("{owner} - memlock unlimited"));
    Ok(ours::file(&lines))
}

fn of_log_in(ask: &Ask<'_>, files: &Overlay<'_>, uid: u32) -> Allowance {
    login::of_log_in(&with_limits(ask, files), uid)
}

/// The host with the rules of these files.
fn with_limits(ask: &Ask<'_>, files: &Overlay<'_>) -> Host {
    let mut host = ask.host.clone();
    host.configuration.limits = limits::read(&mut Door::new(files));
    host
}

fn service(ask: &Ask<'_>, draft: &mut Draft<'_>, instance: &Instance, unit: &str) {
    let needs = ask.assessment.situation.locked().at_most(ask.host, instance).all();
    let Some(process) = permission::process_of(ask.host, instance) else { return };
    // The smallest that the unit's files may give it.
    let memlock = |files: &Overlay<'_>| -> Option<Allowance> {
        let unit = systemd::read_named(&mut Door::new(files), &BTreeSet::from([unit.to_owned()])).pop()?;
        let found = given::memlocks_by_unit(&with_limits(ask, files), &unit, process);
        found.into_iter().min_by_key(|found| found.limit.get())
    };
    if memlock(&draft.after).is_some_and(|found| found.allows(needs) == Some(true)) {
        return reload(ask, draft, instance, unit);
    }
    let path = ours::unit_drop_in(unit);
    let text = ours::file(&["[Service]".into(), "LimitMEMLOCK=infinity".into()]);
    if let Err(why) = ours::present(&draft.after, &path) {
        let what = format!("the memlock limit of {unit} stays as it is: {why}");
        return draft.leave(remedy(instance), what);
    }
    let trial = draft.after.with(&path, &text);
    match memlock(&trial).map(|found| (found.limit.get(), found.place)) {
        Some((Some(limit), _)) if limit.allows(needs) => {}
        Some((Some(limit), place)) => {
            let what =
                format!("{place} sets LimitMEMLOCK of {unit} to {limit} after hugewise's drop-in: correct it there");
            return draft.leave(remedy(instance), what);
        }
        _ => {
            let what = format!("the memlock limit of {unit} stays as it is: its files cannot be read");
            return draft.leave(remedy(instance), what);
        }
    }
    let why = "limits.conf does not apply to services; systemd sets their limits".to_owned();
    let step = Step::new(format!("memlock-{unit}"), format!("unlimited memlock for {unit}"), Risk::Restart, why);
    let mut step = Drafted::from(step).of(instance);
    step.carry(remedy(instance), When::Now);
    let Some(change) = draft.write(&path, &text) else { return };
    step.changes.extend([Change::from(change), Change::from(daemon_reload())]);
    draft.step(step);
}

fn daemon_reload() -> CommandChange {
    let reload = CommandChange::new(["/usr/bin/systemctl", "daemon-reload"], "makes systemd reload its units");
    reload.undone_by_itself()
}

/// Where the unit's files allow enough, systemd may have yet to load them.
fn reload(ask: &Ask<'_>, draft: &mut Draft<'_>, instance: &Instance, unit: &str) {
    let known = ask.host.configuration.units.iter().find(|known| known.name == unit);
    let Some(waiting) = known.and_then(|known| known.loaded.known()?.waiting()) else { return };
    let why = format!(
        "{waiting} was changed after systemd last read its units, so a restart would still use the old settings"
    );
    let title = format!("make systemd reload {unit}");
    let mut step = Drafted::from(Step::new(format!("memlock-{unit}"), title, Risk::Restart, why)).of(instance);
    step.carry(remedy(instance), When::Now);
    step.changes.push(Change::from(daemon_reload()));
    draft.step(step);
}
