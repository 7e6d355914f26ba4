use std::collections::BTreeSet;

use hugewise_engines::Kind;
use hugewise_model::instance::Mechanism;
use hugewise_model::{Asked, Finding, HugePageUse, Instance, Lack, Level, Reason, Remedy};

use crate::login::Allowance;
use crate::permission::{Memlock, Right};
use crate::{Docs, Facts, Missing, Rule, demand, given, login, permission};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW302"),
    name: "memlock-login-vs-service",
    level: Level::Warn,
    docs: Docs {
        what: "A server that takes 256 MiB or more of System V huge pages and whose memlock limit depends on how it \
               is started. A login of its owner gets enough (limits.conf, limits.d) and its service doesn't \
               (LimitMEMLOCK, DefaultLimitMEMLOCK), or the other way round. A warning if memlock decides on this \
               kernel, or may. Otherwise a note, and only for Oracle, which compares the limit and warns. A login \
               gets what pam_limits makes of the rules: the soft limit never exceeds the hard one, whichever of them \
               is set. If no file sets a limit, it is 8 MiB (systemd since 252, Linux since 5.16) or 64 KiB (older \
               ones).",
        why: "It works when a DBA starts it from a shell, and fails after the next reboot, when systemd starts it: \
              limits.conf does not reach services.",
        cost: "it works when a DBA starts it and fails when systemd does, or vice versa",
        fix: "Set both to the same value: in a drop-in for the unit, and in a rule in limits.d for the owner. Each \
              takes effect at the next start.",
        sources: &["systemd.exec(5): LimitMEMLOCK", "limits.conf(5), pam_limits(8)"],
    },
    check: |facts| RULE.of_each(facts, look),
};

fn look(facts: &Facts<'_>, instance: &Instance) -> Result<Option<Finding>, Missing> {
    let host = facts.host;
    if instance.mechanism != Mechanism::SysvShm || instance.segment_bytes() < demand::BIG_SEGMENT {
        return Ok(None);
    }
    let Some(name) = instance.unit.as_deref().filter(|unit| unit.ends_with(".service")) else { return Ok(None) };
    let Some(unit) = host.configuration.units.iter().find(|unit| unit.name == name) else { return Ok(None) };
    let decides = match (permission::memlock(host), permission::without_memlock(host, instance)) {
        (Memlock::Useless(_), _) | (_, Right::Has(_)) => false,
        (Memlock::Buys(_) | Memlock::Unknown(_), _) => true,
    };
    // Its unit has no say in its limits.
    if given::is_limited_by_others(host, instance) || matches!(instance.asked, Asked::No | Asked::Cannot) {
        return Ok(None);
    }
    if !decides && (!Kind::of(instance.engine).start.minds_memlock || instance.huge_pages == HugePageUse::All) {
        return Ok(None);
    }
    let Some(process) = host.process(instance.pid) else {
        let what = format_args!("/proc/{}/status", instance.pid);
        return Err(Missing::Instance(Lack::new(what, Reason::untold("not read"))));
    };
    let needs = facts.situation.locked().at_most(host, instance).all();
    let allows =
        |found: &Allowance| found.allows(needs).ok_or_else(|| Missing::Instance(Lack::of(&found.place, &found.limit)));
    let services = given::memlocks_by_unit(host, unit, process);
    let log_in = login::of_log_in(host, process.uid);
    let Some(service) = services.first() else { return Ok(None) };
    let by_services = services.iter().map(allows).collect::<Result<BTreeSet<bool>, Missing>>()?;
    let by_log_in = allows(&log_in)?;
    // Where that hangs on what the service runs, nobody can tell.
    if by_services.len() != 1 || by_services.contains(&by_log_in) {
        return Ok(None);
    }
    let by_service = !by_log_in;
    let (works, fails) = if by_service { ("its service", "a login") } else { ("a login", "its service") };
    let summary = format!("{} has enough memlock for its {needs} from {works}, but not from {fails}", instance.title());
    let short = format!("{works} gives it enough memlock, {fails} does not");
    let evidence = vec![
        format!("service: {}", service.in_words()),
        format!("login of {}: {}", instance.owner_in_words(), log_in.in_words()),
    ];
    let remedies = vec![Remedy::RaiseMemlock(instance.id())];
    let level = if decides { Level::Warn } else { Level::Info };
    Ok(Some(Finding { short, evidence, remedies, ..RULE.finding(level, Some(instance), summary) }))
}

#[cfg(test)]
use hugewise_model::{Limit, Observed};

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || case(Limit::Unlimited, Observed::Absent),
    silent: || {
        let place = crate::testing::place("/etc/systemd/system/oracle.service");
        case(Limit::Unlimited, Observed::Known((Limit::Unlimited, Limit::Unlimited, place)))
    },
    missing: || case(Limit::Unlimited, Observed::Denied),
};

#[cfg(test)]
fn case(
    log_in: Limit,
    service: Observed<(Limit, Limit, hugewise_model::configuration::Place)>,
) -> crate::testing::Case {
    use hugewise_model::configuration::{LimitRule, Unit};
    let mut case = crate::testing::quiet();
    case.oracle("PROD", crate::testing::gib(8), 20).unit = Some("oracle.service".into());
    case.host.configuration.limits = Observed::Known(vec![LimitRule {
        domain: "oracle".into(),
        soft: true,
        hard: true,
        value: log_in,
        place: crate::testing::place("/etc/security/limits.conf"),
    }]);
    case.host.configuration.units = vec![Unit {
        name: "oracle.service".into(),
        user: Observed::Known("oracle".into()),
        memlock: service,
        ..Unit::default()
    }];
    case
}
