use std::collections::BTreeSet;

use hugewise_engines::EngineKind;
use hugewise_model::configuration::ServiceUnit;
use hugewise_model::instance::Mechanism;
use hugewise_model::{Host, HugePageMode, HugePageUse, Instance, Lack, Level, Reason, Remedy};

use crate::{
    CaseRole, Docs, InstanceResult, Missing, Rule, RuleFacts, demand, ipc_privileges, login,
    permission,
};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW302"),
    name: "memlock-login-vs-service",
    level: Level::Warn,
    role: CaseRole::Plain,
    docs: Docs {
        what: "A server that takes {BIG_SEGMENT} or more of System V huge pages and whose memlock \
               limit depends on how it is started. A login of its owner gets enough (limits.conf, \
               limits.d) and its service doesn't (LimitMEMLOCK, DefaultLimitMEMLOCK), or the other \
               way round. A warning if memlock decides on this kernel, or may. Otherwise a note, \
               and only for Oracle, which compares the limit and warns. A login gets what \
               pam_limits makes of the rules: the soft limit never exceeds the hard one, whichever \
               of them is set. If no file sets a limit, it is 8 MiB (systemd since 252, Linux \
               since 5.16) or 64 KiB (older ones).",
        why: "It works when a DBA starts it from a shell, and fails after the next reboot, when \
              systemd starts it: limits.conf does not reach services.",
        cost: "it works when a DBA starts it and fails when systemd does, or vice versa",
        fix: "Set both to the same value: in a drop-in for the unit, and in a rule in limits.d for \
              the owner. Each takes effect at the next start.",
        sources: &["systemd.exec(5): LimitMEMLOCK", "limits.conf(5), pam_limits(8)"],
    },
    check: |facts| RULE.of_each(facts, check_memlock_login_service),
};

fn check_memlock_login_service(facts: &RuleFacts<'_>, instance: &Instance) -> InstanceResult {
    let host = facts.host;
    let Some(unit) = find_service_unit(host, instance) else { return Ok(None) };
    let decides = permission::memlock_decides(host, instance);
    if !decides
        && (!EngineKind::for_engine(instance.engine).start.minds_memlock
            || instance.huge_pages == HugePageUse::All)
    {
        return Ok(None);
    }
    let Some(process) = host.find_process(instance.pid) else {
        let what = format_args!("/proc/{}/status", instance.pid);
        return Err(Missing::Instance(Lack::new(what, Reason::from_text("not read"))));
    };
    let needs = facts.situation.locked().at_most(host, instance).total();
    let services = ipc_privileges::memlocks_by_unit(host, unit, process);
    let log_in = login::of_log_in(host, process.uid);
    let Some(service) = services.first() else { return Ok(None) };
    let by_services: BTreeSet<bool> =
        services.iter().map(|service| service.require_allows(needs)).collect::<Result<_, _>>()?;
    let by_log_in = log_in.require_allows(needs)?;
    // Where that hangs on what the service runs, nobody can tell.
    if by_services.len() != 1 || by_services.contains(&by_log_in) {
        return Ok(None);
    }
    let by_service = !by_log_in;
    let (works, fails) =
        if by_service { ("its service", "a login") } else { ("a login", "its service") };
    let summary = format!(
        "{} has enough memlock for its {needs} from {works}, but not from {fails}",
        instance.title()
    );
    let short = format!("{works} gives it enough memlock, {fails} does not");
    let evidence = vec![
        format!("service: {}", service.in_words()),
        format!("login of {}: {}", instance.owner_in_words(), log_in.in_words()),
    ];
    let remedies = vec![Remedy::RaiseMemlock(instance.id())];
    let level = if decides { Level::Warn } else { Level::Info };
    Ok(Some(RULE.new_finding(level, Some(instance), summary, short, evidence, remedies)))
}

fn find_service_unit<'a>(host: &'a Host, instance: &'a Instance) -> Option<&'a ServiceUnit> {
    if instance.mechanism != Mechanism::SysvShm
        || instance.segment_bytes() < demand::BIG_SEGMENT
        || matches!(instance.asked, HugePageMode::No | HugePageMode::Cannot)
        || ipc_privileges::is_limited_by_others(host, instance)
    {
        return None;
    }
    ipc_privileges::boot_unit_of(host, instance)
}

#[cfg(test)]
use hugewise_model::{Limit, Observed};

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || make_memlock_case(Limit::Unlimited, Observed::Absent),
    silent: || {
        let place = crate::testing::place("/etc/systemd/system/oracle.service");
        make_memlock_case(
            Limit::Unlimited,
            Observed::Known((Limit::Unlimited, Limit::Unlimited, place)),
        )
    },
    missing: || make_memlock_case(Limit::Unlimited, Observed::Denied),
};

#[cfg(test)]
fn make_memlock_case(
    log_in: Limit,
    service: Observed<(Limit, Limit, hugewise_model::configuration::FileLocation)>,
) -> crate::testing::Case {
    use hugewise_model::configuration::{LimitRule, ServiceUnit};
    let mut case = crate::testing::quiet();
    case.oracle("PROD", crate::testing::gib(8), 20).unit = Some("oracle.service".into());
    case.host.configuration.limits = Observed::Known(vec![LimitRule {
        domain: "oracle".into(),
        soft: true,
        hard: true,
        value: log_in,
        place: crate::testing::place("/etc/security/limits.conf"),
    }]);
    case.host.configuration.units = vec![ServiceUnit {
        name: "oracle.service".into(),
        user: Observed::Known("oracle".into()),
        memlock: service,
        ..ServiceUnit::default()
    }];
    case
}
