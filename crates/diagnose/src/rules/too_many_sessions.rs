use hugewise_engines::{EngineKind, session_activity};
use hugewise_model::instance::SessionActivity;
use hugewise_model::{Instance, Lack, Level, Remedy, group_thousands};

use crate::{CaseRole, Docs, InstanceResult, Missing, Rule, RuleFacts};

/// Sessions for each processor from which on there is a warning. A host that stalled in the field
/// had 625 sessions on 4 processors, 156 for each.
pub(crate) const WARN: u64 = 100;
/// Sessions at work that a processor serves where nothing tells how long they wait.
const USUAL: u64 = 2;
/// The most that it is taken to serve, however long they wait.
const MOST: u64 = 5;

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW103"),
    name: "too-many-sessions",
    level: Level::Warn,
    role: CaseRole::Plain,
    docs: Docs {
        what: "More sessions than the processors can serve: {SESSIONS_EACH} or more per processor \
               is a note, {SESSIONS_WARN} or more a warning. Below {LEAST_SESSIONS} sessions in \
               total it says nothing. A host that stalled in the field had 625 sessions on 4 \
               processors, 156 per processor. The common sizing rule for PostgreSQL is two active \
               sessions per core. hugewise tells the clients apart by their sockets, and looks \
               twice at what the sessions do: at the start and at the end of its own reading. If a \
               thread pool serves the sessions (MariaDB: thread_handling=pool-of-threads), the \
               finding is a note at most: few of them work at a time.",
        why: "A processor runs one session at a time. The others wait, and meanwhile hold page \
              tables, private memory and locks. When they all wake up, the host does nothing but \
              switch between them.",
        cost: "time lost to waiting and switching; page tables for each session",
        fix: "Open fewer connections in the application's own pool. Or use what the server, or a \
              pooler in front of it, offers to serve many clients with few processes. `check` \
              names a target: two sessions per processor, or up to five if it saw the active \
              sessions wait for disks.",
        sources: &[
            "PostgreSQL wiki, Number Of Database Connections",
            "Field report: 625 sessions on 4 cores",
        ],
    },
    check: |facts| RULE.of_each(facts, check_too_many_sessions),
};

fn check_too_many_sessions(facts: &RuleFacts<'_>, instance: &Instance) -> InstanceResult {
    let Some(sessions) = instance.sessions.get() else {
        // The sessions of other servers cannot be counted from outside.
        return if EngineKind::for_engine(instance.engine).sessions.are_counted {
            Err(Missing::Instance(Lack::from_fact("number of its sessions", &instance.sessions)))
        } else {
            Ok(None)
        };
    };
    if sessions < session_activity::LEAST {
        return Ok(None);
    }
    let online =
        *crate::require_known(&facts.host.processors.online, "/sys/devices/system/cpu/online")?;
    let Some(each) = session_activity::of_each_processor(facts.host, instance) else {
        return Ok(None);
    };
    let kind = EngineKind::for_engine(instance.engine);
    let pool = (kind.sessions.thread_pool)(instance);
    let level = if each >= WARN && pool.is_none() { Level::Warn } else { Level::Info };
    let count = group_thousands(sessions);
    let summary = format!(
        "{} has {count} sessions on {online} processors, {each} per processor",
        instance.title()
    );
    let short = format!("it has {count} sessions on {online} processors, {each} per processor");
    let mut evidence = vec![
        format!("{count} sessions, counted from {} processes in /proc", instance.pids.len()),
        format!("/sys/devices/system/cpu/online: {online} processors"),
    ];
    let crowd = instance.session_activity.as_known();
    evidence.extend(crowd.and_then(|crowd| describe_clients(crowd, sessions)));
    evidence.extend(crowd.and_then(at_work));
    let target = group_thousands(target_active_sessions(crowd, online));
    let how = if pool.is_some() {
        "fewer connections in each client's own pool"
    } else {
        kind.sessions.fewer
    };
    evidence.extend(pool.map(|pool| format!("a thread pool serves them: {pool}")));
    let remedies = vec![Remedy::Consider(format!(
        "aim for about {target} sessions on {online} processors: {how}"
    ))];
    Ok(Some(RULE.new_finding(level, Some(instance), summary, short, evidence, remedies)))
}

fn describe_clients(crowd: &SessionActivity, sessions: u64) -> Option<String> {
    let (address, most) = crowd.clients.first()?;
    let (_, least) = crowd.clients.last()?;
    let (number, all) =
        (crowd.clients.len(), crowd.clients.iter().map(|(_, count)| count).sum::<u64>());
    let rest = match sessions.saturating_sub(all) {
        0 => String::new(),
        rest => format!("; {} serve no client over the network", group_thousands(rest)),
    };
    let all = group_thousands(all);
    Some(match () {
        () if number == 1 => format!("one client, {address}, has {all} of the sessions{rest}"),
        () if most == least => {
            format!("{number} clients have {} sessions each{rest}", group_thousands(*most))
        }
        () => format!(
            "{number} clients have {all} sessions, {address} the most with {}{rest}",
            group_thousands(*most)
        ),
    })
}

fn at_work(crowd: &SessionActivity) -> Option<String> {
    let mean = |sum: u64| {
        Some(group_thousands(sum.checked_add(crowd.looks / 2)?.checked_div(crowd.looks)?))
    };
    let (running, waiting) = (mean(crowd.running)?, mean(crowd.waiting)?);
    Some(format!(
        "{running} of its processes at a time ran or waited for a processor, {waiting} waited for \
         a disk ({} looks at /proc/PID/stat)",
        crowd.looks
    ))
}

/// Sessions at work that so many processors serve: more, the longer they wait for disks.
fn target_active_sessions(crowd: Option<&SessionActivity>, online: u64) -> u64 {
    let each = match crowd {
        Some(crowd) if crowd.running > 0 => (crowd.running + crowd.waiting).div_ceil(crowd.running),
        _ => USUAL,
    };
    online.saturating_mul(each.clamp(USUAL, MOST))
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || {
        let mut case = crate::testing::quiet();
        case.host.processors.online = hugewise_model::Observed::Known(4);
        case.oracle("PROD", crate::testing::gib(1), 625);
        case
    },
    silent: || {
        let mut case = crate::testing::quiet();
        case.oracle("PROD", crate::testing::gib(1), 625);
        case
    },
    missing: || {
        let mut case = crate::testing::quiet();
        case.host.processors.online = hugewise_model::Observed::Absent;
        case.oracle("PROD", crate::testing::gib(1), 625);
        case
    },
};

#[cfg(test)]
mod tests {
    use super::*;

    fn crowd(
        clients: &[([u8; 4], u64)],
        looks: u64,
        running: u64,
        waiting: u64,
    ) -> SessionActivity {
        let clients = clients.iter().map(|(address, count)| ((*address).into(), *count)).collect();
        SessionActivity { clients, looks, running, waiting }
    }

    /// A web farm of the field: 25 servers with 25 connections each.
    #[test]
    fn whose_the_sessions_are() {
        let farm: Vec<([u8; 4], u64)> = (1..=25).map(|host| ([10, 0, 0, host], 25)).collect();
        assert_eq!(
            describe_clients(&crowd(&farm, 0, 0, 0), 625).unwrap(),
            "25 clients have 25 sessions each"
        );
        let told =
            describe_clients(&crowd(&[([10, 0, 0, 7], 400), ([10, 0, 0, 8], 100)], 0, 0, 0), 512)
                .unwrap();
        assert_eq!(
            told,
            "2 clients have 500 sessions, 10.0.0.7 the most with 400; 12 serve no client over the \
             network"
        );
        assert_eq!(describe_clients(&SessionActivity::default(), 625), None);
    }

    /// MariaDB's own pool, by its settings alone: a note, and no advice to have what it has.
    #[test]
    fn a_pool_of_threads_is_known_by_its_settings() {
        let found = |handling: Option<&str>| {
            let mut case = crate::testing::quiet();
            case.host.processors.online = hugewise_model::Observed::Known(4);
            case.oracle("main", crate::testing::gib(1), 625);
            let instance = &mut case.instances[0];
            instance.engine = hugewise_model::Engine::MariaDb;
            let setting = |name: &str, value: &str| {
                let setting = hugewise_model::instance::ServerSetting {
                    name: name.into(),
                    value: value.into(),
                    place: None,
                };
                (name.to_owned(), setting)
            };
            instance.settings.extend(handling.map(|value| setting("thread_handling", value)));
            instance.settings.extend([setting("thread_pool_size", "4")]);
            let found = check_too_many_sessions(
                &case.assess().rule_facts(&case.host, &case.instances),
                &case.instances[0],
            )
            .unwrap()
            .unwrap();
            (found.level, format!("{:?} {:?}", found.evidence, found.remedies))
        };
        let (level, words) = found(Some("pool-of-threads"));
        assert_eq!(level, Level::Info);
        assert!(
            words.contains("thread_handling=pool-of-threads")
                && words.contains("thread_pool_size=4"),
            "{words}"
        );
        assert!(!words.contains("or a thread pool"), "{words}");
        for other in [None, Some("one-thread-per-connection")] {
            let (level, words) = found(other);
            assert!(level == Level::Warn && words.contains("or a thread pool"), "{words}");
        }
    }

    #[test]
    fn a_target_by_what_they_wait_for() {
        // On processors alone: one runs, one waits. Three of four wait for disks: four for each.
        // Never more than five.
        assert_eq!(target_active_sessions(None, 4), 8);
        assert_eq!(target_active_sessions(Some(&crowd(&[], 10, 40, 0)), 4), 8);
        assert_eq!(target_active_sessions(Some(&crowd(&[], 10, 10, 30)), 4), 16);
        assert_eq!(target_active_sessions(Some(&crowd(&[], 10, 1, 300)), 4), 20);
        assert_eq!(
            at_work(&crowd(&[], 10, 38, 4)).unwrap(),
            "4 of its processes at a time ran or waited for a processor, 0 waited for a disk (10 \
             looks at /proc/PID/stat)"
        );
        assert_eq!(at_work(&SessionActivity::default()), None);
    }
}
