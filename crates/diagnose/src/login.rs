//! The memlock limit that a login gets from pam_limits and a service from systemd, by their files.

use hugewise_host::config::limits;
use hugewise_model::configuration::{FileLocation, LimitRule, ServiceUnit};
use hugewise_model::process::SoftHard;
use hugewise_model::{Bytes, Host, Lack, Limit, Observed};

use crate::Missing;

/// A memlock limit that is given, and what says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// The soft limit.
    pub limit: Observed<Limit>,
    /// The file and line, or what stands for them.
    pub place: String,
}

impl Allowance {
    /// Whether it is known to allow so much, or known not to.
    pub fn allows(&self, amount: Bytes) -> Option<bool> {
        self.limit.get().map(|limit| limit.allows(amount))
    }

    pub(crate) fn require_allows(&self, amount: Bytes) -> Result<bool, Missing> {
        let missing = || Missing::Instance(Lack::from_fact(&self.place, &self.limit));
        self.allows(amount).ok_or_else(missing)
    }

    /// `64 KiB (systemd's default)`
    pub fn in_words(&self) -> String {
        let limit = self.limit.get().map(|limit| limit.to_string());
        let limit = limit.or_else(|| self.limit.reason_text()).unwrap_or_default();
        format!("{limit} ({})", self.place)
    }
}

/// Linux's own RLIMIT_MEMLOCK, soft and hard, which a service has where no file says anything;
/// systemd 252 raises it on kernels before 5.16 too.
pub fn default_memlock(host: &Host) -> Bytes {
    let new_kernel = host.kernel.as_known().is_some_and(|kernel| kernel.at_least(5, 16));
    let new_systemd = host.configuration.systemd.get().is_some_and(|release| release >= 252);
    if new_kernel || new_systemd { Bytes::from_mib(8) } else { Bytes::from_kib(64) }
}

/// The memlock limit of a login of that user, as pam_limits leaves it.
pub fn of_log_in(host: &Host, uid: u32) -> Allowance {
    let default = Limit::At(default_memlock(host));
    predict_session_memlock(
        host,
        uid,
        SoftHard { soft: default, hard: default },
        "no rule in limits.conf or limits.d",
    )
}

/// The memlock limit of a service by its files.
pub fn of_service(host: &Host, unit: &ServiceUnit) -> Allowance {
    let (limits, place) = of_unit(host, unit);
    Allowance { limit: limits.map(|limits| limits.soft), place }
}

/// Of a session of PAM: rules of limits.conf come after what the unit sets.
pub(crate) fn of_service_by_pam(host: &Host, unit: &ServiceUnit, uid: u32) -> Allowance {
    match of_unit(host, unit) {
        (Observed::Known(limits), place) => predict_session_memlock(host, uid, limits, &place),
        (unknown, place) => Allowance { limit: unknown.map(|limits| limits.soft), place },
    }
}

fn of_unit(host: &Host, unit: &ServiceUnit) -> (Observed<SoftHard>, String) {
    let both = |limit: Limit| SoftHard { soft: limit, hard: limit };
    let unread = |unit: &str| format!("LimitMEMLOCK of {unit}");
    match &unit.memlock {
        Observed::Known((soft, hard, place)) => {
            (Observed::Known(SoftHard { soft: *soft, hard: *hard }), place.to_string())
        }
        Observed::Absent => match &host.configuration.default_memlock {
            Observed::Known((limit, place)) => (Observed::Known(both(*limit)), place.to_string()),
            Observed::Absent => (
                Observed::Known(both(Limit::At(default_memlock(host)))),
                "systemd's default".to_owned(),
            ),
            unknown => {
                (unknown.as_ref().map(|(limit, _)| both(*limit)), "DefaultLimitMEMLOCK".to_owned())
            }
        },
        unknown => (
            unknown.as_ref().map(|(soft, hard, _)| SoftHard { soft: *soft, hard: *hard }),
            unread(&unit.name),
        ),
    }
}

/// What pam_limits makes of the limits that a session is opened with, which `otherwise` places.
fn predict_session_memlock(
    host: &Host,
    uid: u32,
    opened_with: SoftHard,
    otherwise: &str,
) -> Allowance {
    let rules = match &host.configuration.limits {
        Observed::Known(rules) => rules.as_slice(),
        Observed::Absent => &[],
        unknown => {
            let place = "/etc/security/limits.conf and limits.d".to_owned();
            return Allowance { limit: unknown.as_ref().map(|_| opened_with.soft), place };
        }
    };
    if let Some(rule) = perhaps_his(host, uid, rules) {
        let place =
            format!("{rule}, which may be about user {uid}: no account file has a name for it");
        return Allowance { limit: Observed::Absent, place };
    }
    let first = first_process(host);
    let (opened_with, otherwise) = match first {
        Some(limits) => (limits, format!("{PID_1}: no rule in limits.conf or limits.d")),
        None => (opened_with, otherwise.to_owned()),
    };
    let found =
        limits::for_user(rules, &host.accounts.user_name(uid), uid, &groups_of_user(host, uid));
    let found = found.in_force(opened_with);
    let place = match found.rule {
        Some(rule) if found.is_capped => {
            format!("{rule} asks for more, and no rule raises the hard limit")
        }
        Some(rule) => rule.to_string(),
        None => otherwise,
    };
    Allowance { limit: Observed::Known(found.soft), place }
}

/// Debian's pam_limits, and its derivatives', begins each session from these limits.
const PID_1: &str = "/proc/1/limits";

fn first_process(host: &Host) -> Option<SoftHard> {
    let os = host.os.as_known()?;
    let is_debians = ["Debian", "Ubuntu", "Mint", "Raspbian"].iter().any(|name| os.contains(name));
    host.find_process(1).filter(|_| is_debians)?.memlock.get()
}

/// A rule about a name that no account here has: a directory may keep the user's own.
fn perhaps_his<'a>(host: &Host, uid: u32, rules: &'a [LimitRule]) -> Option<&'a FileLocation> {
    if host.accounts.users.contains_key(&uid) {
        return None;
    }
    let is_name = |domain: &str| !domain.starts_with(['@', '%', '*']) && !domain.contains(':');
    let is_known = |domain: &str| host.accounts.users.values().any(|user| user.name == domain);
    rules
        .iter()
        .find(|rule| is_name(&rule.domain) && !is_known(&rule.domain))
        .map(|rule| &rule.place)
}

/// A user's groups by all of their names, the primary one first; else those of a process of his.
fn groups_of_user(host: &Host, uid: u32) -> Vec<(u32, String)> {
    let mut groups = host.accounts.groups_of(uid);
    if groups.is_empty() {
        let process =
            host.processes.as_known().into_iter().flatten().find(|process| process.uid == uid);
        groups = process
            .map(|process| {
                [process.gid].into_iter().chain(process.groups.iter().copied()).collect()
            })
            .unwrap_or_default();
    }
    let names = |gid: u32| match host.accounts.groups.get(&gid) {
        Some(group) => group.all_names().map(|name| (gid, name.clone())).collect(),
        None => vec![(gid, String::new())],
    };
    groups.into_iter().flat_map(names).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use hugewise_model::{KernelRelease, Process};

    /// RHEL 7: Linux 3.10, systemd 219.
    fn old() -> testing::Case {
        let mut case = testing::quiet();
        case.user(54321, "oracle", 54321, "oinstall");
        case.host.kernel =
            Observed::Known(KernelRelease { text: "3.10.0".into(), major: 3, minor: 10 });
        case
    }

    fn find_limit(rules: &str) -> (Limit, String) {
        let mut case = old();
        case.host.configuration.limits =
            Observed::Known(limits::parse("/etc/security/limits.conf", rules.as_bytes()));
        let found = of_log_in(&case.host, 54321);
        (found.limit.get().expect("the limit is known"), found.place)
    }

    /// As pam_limits has it, opened with 64 KiB; a test of the command line asks su itself.
    #[test]
    fn a_log_in_gets_what_pam_limits_gives() {
        let kib = |kib| Limit::At(Bytes::from_kib(kib));
        let first = "/etc/security/limits.conf:1";
        let default = "no rule in limits.conf or limits.d";
        for (rules, limit, place) in [
            ("oracle hard memlock 64\noracle soft memlock unlimited\n", kib(64), first),
            ("* hard memlock 64\noracle soft memlock unlimited\n", kib(64), first),
            (
                "oracle soft memlock unlimited\n",
                kib(64),
                "asks for more, and no rule raises the hard limit",
            ),
            ("oracle - memlock unlimited\n", Limit::Unlimited, first),
            // A range of one uid is exact, and one of gids goes by the primary group.
            (":54400 - memlock unlimited\n", kib(64), default),
            (":54321 - memlock unlimited\n", Limit::Unlimited, first),
            ("@54000:55000 - memlock unlimited\n", Limit::Unlimited, first),
            ("@:54321 - memlock unlimited\n", Limit::Unlimited, first),
            ("@:54322 - memlock unlimited\n", kib(64), default),
            ("postgres - memlock unlimited\n", kib(64), default),
        ] {
            let (found, at) = find_limit(rules);
            assert_eq!(found, limit, "{rules}");
            assert!(at.ends_with(place), "{rules}: {at}");
        }
    }

    /// Held against `su` of Debian 12 with another first process: Red Hat's has no such patch.
    #[test]
    fn debian_begins_each_session_with_the_limits_of_the_first_process() {
        let mib = |mib| Limit::At(Bytes::from_mib(mib));
        let first = Process {
            pid: 1,
            memlock: Observed::Known(SoftHard { soft: mib(64), hard: mib(2048) }),
            ..Process::default()
        };
        let mut case = old();
        case.host.processes = Observed::Known(vec![std::sync::Arc::new(first)]);
        let limit_of = |os: &str, rules: &str, case: &mut testing::Case| {
            case.host.os = Observed::Known(os.into());
            case.host.configuration.limits = Observed::Known(limits::parse("/f", rules.as_bytes()));
            of_log_in(&case.host, 54321).limit
        };
        let soft = "oracle soft memlock unlimited\n";
        for (os, none, capped) in [
            ("Debian GNU/Linux 12 (bookworm)", mib(64), mib(2048)),
            ("Ubuntu 22.04.4 LTS", mib(64), mib(2048)),
            (
                "Red Hat Enterprise Linux 9.4 (Plow)",
                Limit::At(Bytes::from_kib(64)),
                Limit::At(Bytes::from_kib(64)),
            ),
        ] {
            assert_eq!(limit_of(os, "", &mut case), Observed::Known(none), "{os}");
            assert_eq!(limit_of(os, soft, &mut case), Observed::Known(capped), "{os}");
        }
    }

    #[test]
    fn rules_that_cannot_be_read_are_not_taken_for_none() {
        let mut case = old();
        case.host.configuration.limits = Observed::Denied;
        assert_eq!(of_log_in(&case.host, 54321).limit, Observed::Denied);
        case.host.configuration.limits = Observed::Absent;
        assert_eq!(
            of_log_in(&case.host, 54321).limit,
            Observed::Known(Limit::At(Bytes::from_kib(64)))
        );
    }

    /// What `su` of Debian 12 gave a user whose own group has two names, and who is a member of
    /// another by one of its two names.
    #[test]
    fn a_group_is_meant_by_each_of_its_names() {
        let mut case = old();
        let groups = "oinstall:x:54321:\norab:x:54321:\norac:x:54997:oracle\norad:x:54997:\nother:x:54996:\n";
        case.oracle("PROD", testing::gib(1), 0);
        case.host.accounts.groups =
            hugewise_host::config::accounts::parse_groups(groups.as_bytes());
        for (group, given) in
            [("oinstall", true), ("orab", true), ("orac", true), ("orad", true), ("other", false)]
        {
            let rules = format!("@{group} - memlock 33\n");
            case.host.configuration.limits = Observed::Known(limits::parse("/f", rules.as_bytes()));
            let limit = of_log_in(&case.host, 54321).limit;
            assert_eq!(
                limit == Observed::Known(Limit::At(Bytes::from_kib(33))),
                given,
                "{group}: {limit:?}"
            );
        }
    }

    /// A server whose account a directory keeps: its process tells the groups.
    #[test]
    fn an_account_in_no_file_has_the_groups_of_its_process() {
        let mut case = old();
        case.oracle("PROD", testing::gib(1), 0);
        case.host.accounts.users.clear();
        let limit = |rules: &str, case: &mut testing::Case| {
            case.host.configuration.limits = Observed::Known(limits::parse("/f", rules.as_bytes()));
            of_log_in(&case.host, 54321).limit
        };
        assert_eq!(
            limit("@oinstall - memlock unlimited\n", &mut case),
            Observed::Known(Limit::Unlimited)
        );
        assert_eq!(
            limit("@54321:54321 - memlock unlimited\n", &mut case),
            Observed::Known(Limit::Unlimited)
        );
        // Whose name that is, only the directory knows.
        assert_eq!(limit("oracle - memlock unlimited\n", &mut case), Observed::Absent);
    }

    /// RHEL 7 and 8, RHEL 9 (5.14, systemd 252), SLES 15 SP5 (5.14, 249), Debian 12: `systemctl
    /// show -p LimitMEMLOCK`.
    #[test]
    fn what_no_file_sets_is_as_old_as_kernel_and_systemd() {
        for (major, minor, systemd, kib) in [
            (3, 10, None, 64),
            (4, 18, Some(239), 64),
            (5, 14, Some(252), 8192),
            (5, 14, Some(249), 64),
            (5, 16, None, 8192),
            (6, 1, Some(252), 8192),
        ] {
            let mut case = testing::quiet();
            case.host.kernel =
                Observed::Known(KernelRelease { text: format!("{major}.{minor}"), major, minor });
            case.host.configuration.systemd = systemd.into();
            let unit = ServiceUnit { name: "x.service".into(), ..ServiceUnit::default() };
            let expected = Observed::Known(Limit::At(Bytes::from_kib(kib)));
            assert_eq!(
                of_service(&case.host, &unit).limit,
                expected,
                "{major}.{minor} {systemd:?}"
            );
            assert_eq!(of_log_in(&case.host, 0).limit, expected, "{major}.{minor} {systemd:?}");
        }
    }

    #[test]
    fn a_session_of_pam_gets_what_the_rules_say_beyond_its_unit() {
        let mut case = old();
        let unit = ServiceUnit { name: "x.service".into(), pam: true, ..ServiceUnit::default() };
        case.host.configuration.limits =
            Observed::Known(limits::parse("/f", b"oracle - memlock unlimited\n"));
        assert_eq!(
            of_service_by_pam(&case.host, &unit, 54321).limit,
            Observed::Known(Limit::Unlimited)
        );
        assert_eq!(of_service_by_pam(&case.host, &unit, 1).place, "systemd's default");
    }
}
