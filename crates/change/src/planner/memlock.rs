//! Memory that a server may lock: in limits.d for log-ins, and in a drop-in for the unit that starts it.

use std::collections::BTreeSet;

use hugewise_advice::{chain, login};
use hugewise_host::Door;
use hugewise_host::config::{limits, systemd};
use hugewise_model::{Engine, Host, Instance, Limit, Observed};

use super::overlay::Overlay;
use super::shm::takes_sysv;
use super::{Ask, Draft, expected, ours};
use crate::plan::{Change, CommandChange, Risk, Step, When};

pub(super) fn plan(ask: &Ask<'_>, draft: &mut Draft<'_>) {
    if !ask.options.boot {
        return;
    }
    let mut owners = BTreeSet::new();
    let mut units = BTreeSet::new();
    for instance in takes_sysv(ask) {
        let wanted = ["HW301", "HW302"].iter().any(|code| ask.found(code, instance).is_some());
        if !wanted && !lacks(ask, instance) {
            continue;
        }
        if instance.containered {
            let lines = ["# the limit of its container: --ulimit memlock=-1 (Docker, Podman)".to_owned()];
            draft.instruct(title(instance), &lines, Risk::Restart, Some(instance.title()));
            continue;
        }
        if instance.engine == Engine::Oracle && is_clustered(ask.host, instance) {
            clustered(draft, instance);
            continue;
        }
        if owners.insert(instance.owner.clone()) {
            log_in(ask, draft, instance);
        }
        if let Some(unit) = instance.unit.as_deref().filter(|_| instance.is_known_to_the_host())
            && units.insert(unit.to_owned())
        {
            service(ask, draft, instance, unit);
        }
    }
}

/// How the titles of what is to be done by hand end.
pub(super) const LOCK: &str = "lock its memory";

fn title(instance: &Instance) -> String {
    format!("let {} {LOCK}", instance.title())
}

/// Whether its next start may come with too small a limit, on a kernel or for a server that looks at it.
fn lacks(ask: &Ask<'_>, instance: &Instance) -> bool {
    let looks = instance.engine == Engine::Oracle
        || !matches!(hugewise_advice::permission::memlock(ask.host), hugewise_advice::permission::Memlock::Useless(_));
    let off = instance.huge_pages != hugewise_model::HugePageUse::All || super::shm::loses_right(ask, instance);
    looks && off && super::shm::is_big(instance) && chain::memlock_of(ask.host, instance).1 == Some(false)
}

/// Oracle Clusterware starts its databases itself, with limits of its own.
fn is_clustered(host: &Host, instance: &Instance) -> bool {
    let of_the_cluster = ["ohasd.bin", "crsd.bin"];
    let its_unit = instance.unit.as_deref().is_some_and(|unit| unit.contains("ohasd"));
    its_unit || host.processes.known().into_iter().flatten().any(|it| of_the_cluster.contains(&it.name.as_str()))
}

fn clustered(draft: &mut Draft<'_>, instance: &Instance) {
    let lines = [
        "# Oracle Clusterware starts this database, with the limits that Clusterware has itself: a rule in limits.d or a",
        "# drop-in for its unit may not reach it. Raise memlock to unlimited as the documentation of this Grid",
        "# Infrastructure says, and start it anew on this node, as root:",
        "crsctl stop crs",
        "crsctl start crs",
    ];
    let lines: Vec<String> = lines.map(str::to_owned).to_vec();
    draft.instruct(title(instance), &lines, Risk::Restart, Some(instance.title()));
}

/// The limit of log-ins. All owners' rules are in one file, and one step makes it.
fn log_in(ask: &Ask<'_>, draft: &mut Draft<'_>, instance: &Instance) {
    let owner = &instance.owner;
    let plain = owner.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c)) && !owner.starts_with('-');
    if instance.owner_is_number() {
        // Rules by number may be in force for an account that is none any more, or for another's.
        let lines = [
            format!("# user {owner} is in no account file, and no directory knows it; where that is right, by number:"),
            format!("# in a file under /etc/security/limits.d: {owner}:{owner} - memlock unlimited"),
        ];
        draft.instruct(title(instance), &lines, Risk::Restart, Some(instance.title()));
        return;
    }
    let Some(uid) = ask.host.process(instance.pid).map(|process| process.uid).filter(|_| plain) else {
        let lines = [format!("# in a file under /etc/security/limits.d: {owner} - memlock unlimited")];
        draft.instruct(title(instance), &lines, Risk::Restart, Some(instance.title()));
        return;
    };
    let needs = chain::memlock_needed(ask.host, instance);
    let suffices = |files: &Overlay<'_>| of_log_in(ask, files, uid).is_some_and(|(limit, _)| limit.allows(needs));
    if suffices(&draft.after) {
        return;
    }
    let text = match limits_with(&draft.after, owner) {
        Ok(text) => text,
        Err(why) => return draft.warn(format!("the memlock limit of log-ins of {owner} is left as it is: {why}")),
    };
    let trial = draft.after.with(ours::LIMITS, &text);
    if !suffices(&trial) {
        let place = of_log_in(ask, &trial, uid).map_or_else(|| "an unreadable file".into(), |(_, place)| place);
        let what = format!("{place} has the last word on the memlock limit of log-ins of {owner}; correct it there");
        return draft.warn(what);
    }
    let Some(change) = draft.write(ours::LIMITS, &text) else { return };
    let findings = ["HW302"].iter().filter_map(|code| ask.found(code, instance));
    let expects: Vec<_> = findings.map(|finding| expected(finding, When::Now)).collect();
    match draft.steps.iter_mut().find(|step| step.id == "memlock-log-ins") {
        Some(step) => {
            step.changes = vec![change.into()];
            step.title = format!("{}, {owner}", step.title);
            step.expects.extend(expects);
        }
        None => {
            let why =
                format!("{needs} of huge pages count against the limit where the server is started from a log-in");
            let title = format!("no memlock limit for log-ins of {owner}");
            let mut step = Step::new("memlock-log-ins", title, Risk::Restart, why).change(change);
            step.expects = expects;
            draft.step(step);
        }
    }
}

fn limits_with(files: &Overlay<'_>, owner: &str) -> Result<String, String> {
    let there = ours::present(files, ours::LIMITS)?;
    let of_owner = |line: &str| line.split_whitespace().next() == Some(owner);
    let mut lines = ours::kept_lines(there.as_deref(), of_owner);
    lines.push(format!("{owner} - memlock unlimited"));
    Ok(ours::file(&lines))
}

fn of_log_in(ask: &Ask<'_>, files: &Overlay<'_>, uid: u32) -> Option<(Limit, String)> {
    let limits = limits::read(&mut Door::new(files));
    if !limits.is_known() && !limits.is_absent() {
        return None;
    }
    let mut host = Host { accounts: ask.host.accounts.clone(), ..Host::default() };
    host.configuration.limits = limits;
    Some(login::memlock(&host, uid))
}

fn service(ask: &Ask<'_>, draft: &mut Draft<'_>, instance: &Instance, unit: &str) {
    let needs = chain::memlock_needed(ask.host, instance);
    let process = ask.host.process(instance.pid);
    let memlock = |files: &Overlay<'_>| -> Option<(Limit, String)> {
        let units = systemd::read_units(&mut Door::new(files), process);
        match units.into_iter().find(|known| known.name == unit)?.memlock {
            Observed::Known((soft, _, place)) => Some((soft, place.to_string())),
            Observed::Absent => match &ask.host.configuration.default_memlock {
                Observed::Known((limit, place)) => Some((*limit, place.to_string())),
                _ => Some((Limit::At(login::DEFAULT_MEMLOCK), "systemd's default".into())),
            },
            _ => None,
        }
    };
    if memlock(&draft.after).is_some_and(|(limit, _)| limit.allows(needs)) {
        return;
    }
    let path = ours::unit_drop_in(unit);
    let text = ours::file(&["[Service]".into(), "LimitMEMLOCK=infinity".into()]);
    if let Err(why) = ours::present(&draft.after, &path) {
        return draft.warn(format!("the memlock limit of {unit} is left as it is: {why}"));
    }
    let trial = draft.after.with(&path, &text);
    match memlock(&trial) {
        Some((limit, _)) if limit.allows(needs) => {}
        Some((limit, place)) => {
            return draft
                .warn(format!("{place} sets LimitMEMLOCK of {unit} to {limit} after our drop-in; correct it there"));
        }
        None => return draft.warn(format!("the memlock limit of {unit} is left as it is: its files cannot be read")),
    }
    let why = "limits.conf does not reach services: systemd sets their limits".to_owned();
    let mut step = Step::new(format!("memlock-{unit}"), format!("no memlock limit for {unit}"), Risk::Restart, why)
        .of(instance.title());
    step.expects = ask.found("HW302", instance).map(|finding| expected(finding, When::Now)).into_iter().collect();
    let Some(change) = draft.write(&path, &text) else { return };
    let reload = CommandChange::new(["/usr/bin/systemctl", "daemon-reload"], "systemd reads its units anew");
    step.changes.extend([Change::from(change), Change::from(reload.undone_by_itself())]);
    draft.step(step);
}
