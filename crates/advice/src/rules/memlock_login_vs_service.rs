use hugewise_engines::Kind;
use hugewise_model::instance::Mechanism;
use hugewise_model::{Asked, Finding, HugePageUse, Instance, Lack, Level, Limit, Observed, Reason, Remedy};

use crate::permission::{Memlock, Right};
use crate::{Docs, Facts, Missing, Rule, chain, demand, login, permission};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW302"),
    name: "memlock-login-vs-service",
    level: Level::Warn,
    docs: Docs {
        what: "A server that takes System V huge pages of 256 MiB or more and whose memlock limit depends on how it is \
               started: the limit of its owner's log-in (limits.conf, limits.d) is enough and that of its service \
               (LimitMEMLOCK, DefaultLimitMEMLOCK) is not, or the other way round. A warning where memlock decides on \
               this kernel or may; a note for Oracle elsewhere, which compares the limit and warns. Where no file sets \
               one, 8 MiB is assumed (systemd since 252, Linux since 5.16; older ones give less).",
        why: "It works when the DBA starts it from a shell and fails after the next reboot, when systemd does: \
              limits.conf does not reach services.",
        cost: "it works when a DBA starts it and fails when systemd does, or vice versa",
        fix: "Set both to the same: a drop-in for the unit, a rule for the owner. Each holds from the next start.",
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
    if matches!(instance.asked, Asked::No | Asked::Cannot) {
        return Ok(None);
    }
    if !decides && (!Kind::of(instance.engine).start.minds_memlock || instance.huge_pages == HugePageUse::All) {
        return Ok(None);
    }
    let (service, service_place) = match &unit.memlock {
        Observed::Known((soft, _, place)) => (*soft, place.to_string()),
        Observed::Absent => match &host.configuration.default_memlock {
            Observed::Known((limit, place)) => (*limit, place.to_string()),
            Observed::Absent => (Limit::At(login::DEFAULT_MEMLOCK), "systemd's default".into()),
            other => return Err(Missing::Host(Lack::of("DefaultLimitMEMLOCK", other))),
        },
        other => {
            return Err(Missing::Instance(Lack::of(format_args!("LimitMEMLOCK of {name}"), other)));
        }
    };
    if !host.configuration.limits.is_absent() {
        crate::known(&host.configuration.limits, "/etc/security/limits.conf and limits.d")?;
    }
    let Some(process) = host.process(instance.pid) else {
        let what = format_args!("/proc/{}/status", instance.pid);
        return Err(Missing::Instance(Lack::new(what, Reason::untold("not read"))));
    };
    let (log_in, log_in_place) = login::memlock(host, process.uid);
    let needs = chain::memlock_needed(host, instance);
    let (by_service, by_log_in) = (service.allows(needs), log_in.allows(needs));
    if by_service == by_log_in {
        return Ok(None);
    }
    let (works, fails) = if by_service { ("its service", "a log-in") } else { ("a log-in", "its service") };
    let summary = format!("{} has enough memlock for its {needs} from {works}, but not from {fails}", instance.title());
    let short = format!("{works} gives it enough memlock, {fails} does not");
    let evidence = vec![
        format!("service: {service} ({service_place})"),
        format!("log-in of {}: {log_in} ({log_in_place})", instance.owner_in_words()),
    ];
    let remedies = vec![Remedy::RaiseMemlock(instance.id())];
    let level = if decides { Level::Warn } else { Level::Info };
    Ok(Some(Finding { short, evidence, remedies, ..RULE.finding(level, Some(instance), summary) }))
}

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
    case.host.configuration.units = vec![Unit { name: "oracle.service".into(), memlock: service, ..Unit::default() }];
    case
}
