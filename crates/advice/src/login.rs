//! The memlock limit that a log-in gets through pam_limits.

use hugewise_model::configuration::LimitRule;
use hugewise_model::{Bytes, Host, Limit, Observed};

/// What a log-in gets where no rule speaks: RLIMIT_MEMLOCK of Linux since 5.16, and systemd's since 252.
/// Older ones give less (64 KiB), which no segment fits under either.
pub const DEFAULT_MEMLOCK: Bytes = Bytes::from_mib(8);

/// The soft memlock limit of a log-in of that user, and where it stands. A rule for the user beats one
/// for a group, and that one beats `*`; among equals the last wins. Root is only matched by name.
pub fn memlock(host: &Host, uid: u32) -> (Limit, String) {
    let rules = host.configuration.limits.known().map(Vec::as_slice).unwrap_or_default();
    let best = rules
        .iter()
        .filter(|rule| rule.soft)
        .filter_map(|rule| Some((rank(host, uid, rule)?, rule)))
        .max_by_key(|(rank, _)| *rank);
    match best {
        Some((_, rule)) => (rule.value, rule.place.to_string()),
        None => (Limit::At(DEFAULT_MEMLOCK), "no rule in limits.conf or limits.d".into()),
    }
}

/// The soft memlock limit of a service by its files, and where it stands; none where they could not be read.
pub fn memlock_of_service(host: &Host, unit: &str) -> Option<(Limit, String)> {
    match &host.configuration.units.iter().find(|known| known.name == unit)?.memlock {
        Observed::Known((soft, _, place)) => Some((*soft, place.to_string())),
        Observed::Absent => match &host.configuration.default_memlock {
            Observed::Known((limit, place)) => Some((*limit, place.to_string())),
            Observed::Absent => Some((Limit::At(DEFAULT_MEMLOCK), "systemd's default".into())),
            _ => None,
        },
        _ => None,
    }
}

fn rank(host: &Host, uid: u32, rule: &LimitRule) -> Option<u8> {
    let domain = rule.domain.as_str();
    if domain == host.accounts.user_name(uid) || in_range(domain, uid) {
        return Some(2);
    }
    if uid == 0 {
        return None;
    }
    if domain == "*" {
        return Some(0);
    }
    let group = domain.strip_prefix('@')?;
    let named = |gid: &u32| host.accounts.groups.get(gid).is_some_and(|known| known.name == group);
    host.accounts.groups_of(uid).iter().any(named).then_some(1)
}

fn in_range(domain: &str, uid: u32) -> bool {
    let Some((low, high)) = domain.split_once(':') else { return false };
    let bound = |text: &str, open: u32| if text.is_empty() { Some(open) } else { text.parse().ok() };
    match (bound(low, uid), bound(high, uid)) {
        _ if low.is_empty() && high.is_empty() => false,
        (Some(low), Some(high)) => (low..=high).contains(&uid),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use hugewise_model::configuration::Place;

    fn rule(domain: &str, mib: u64, line: u64) -> LimitRule {
        LimitRule {
            domain: domain.into(),
            soft: true,
            hard: true,
            value: Limit::At(Bytes::from_mib(mib)),
            place: Place { file: "/etc/security/limits.conf".into(), line },
        }
    }

    #[test]
    fn a_user_beats_a_group_beats_everyone_and_the_last_wins() {
        let mut case = testing::quiet();
        case.user(1001, "oracle", 2001, "oinstall");
        let mut memlock = |rules: Vec<LimitRule>| {
            case.host.configuration.limits = Observed::Known(rules);
            super::memlock(&case.host, 1001).0
        };
        assert_eq!(memlock(vec![rule("oracle", 3, 1), rule("@oinstall", 2, 2), rule("*", 1, 3)]), limit(3));
        assert_eq!(memlock(vec![rule("@oinstall", 2, 2), rule("*", 1, 3)]), limit(2));
        assert_eq!(memlock(vec![rule("oracle", 3, 1), rule("oracle", 4, 2)]), limit(4));
        assert_eq!(memlock(vec![rule("1000:1002", 5, 1), rule("@oinstall", 2, 2)]), limit(5));
        assert_eq!(memlock(vec![rule("postgres", 5, 1)]), Limit::At(DEFAULT_MEMLOCK));
    }

    fn limit(mib: u64) -> Limit {
        Limit::At(Bytes::from_mib(mib))
    }

    #[test]
    fn root_is_matched_by_name_alone() {
        let mut case = testing::quiet();
        case.user(0, "root", 0, "root");
        case.host.configuration.limits = Observed::Known(vec![rule("*", 1, 1), rule("@root", 2, 2)]);
        assert_eq!(super::memlock(&case.host, 0).0, Limit::At(DEFAULT_MEMLOCK));
    }
}
