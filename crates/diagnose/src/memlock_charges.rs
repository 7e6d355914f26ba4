//! What a memlock limit has to allow where the kernel holds System V huge pages against it: up to
//! Linux 5.15 it charges a segment to the user who made it, and at the next one compares the sum of
//! all that he has with the limit of whoever asks (`user_shm_lock()` in mm/mlock.c). Nothing is
//! charged that the group or CAP_IPC_LOCK gives.

use std::collections::BTreeMap;
use std::fmt;

use hugewise_model::instance::{Mechanism, SegmentKind, Startup};
use hugewise_model::{Bytes, Host, Instance, InstanceId, Observed};

use crate::demand::{self, starting_at_boot};
use crate::permission::{self, HugePageRight, MemlockEffect};

/// What a memlock limit has to allow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemlockNeeded {
    /// For the server's own segments, each in whole huge pages.
    pub own: Bytes,
    /// For those of its user's other servers.
    pub others: Bytes,
}

impl MemlockNeeded {
    /// For one that has its user for itself.
    pub(crate) const fn without_others(own: Bytes) -> Self {
        Self { own, others: Bytes::ZERO }
    }

    /// All of it.
    pub fn total(self) -> Bytes {
        self.own + self.others
    }

    /// The sum as it is written, and how much of it is others'.
    pub(crate) fn append_others(self, all: String) -> String {
        match self.others {
            Bytes::ZERO => all,
            others => format!("{all} ({others} of it for its user's other servers)"),
        }
    }
}

impl fmt::Display for MemlockNeeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.append_others(self.total().to_string()))
    }
}

/// What the servers of each user have charged to him, and may come to.
#[derive(Clone, Debug, Default)]
pub struct MemlockCharges {
    /// Users by server: only of servers that are charged.
    users: BTreeMap<InstanceId, u32>,
    charges: BTreeMap<InstanceId, Charge>,
    sums: BTreeMap<u32, Charge>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Charge {
    now: Bytes,
    started: Bytes,
}

impl MemlockCharges {
    /// Works it out for all servers; linear in their number.
    pub fn new(host: &Host, instances: &[Instance]) -> Self {
        let mut locked = Self::default();
        if matches!(permission::memlock_effect(host), MemlockEffect::Useless(_)) {
            return locked;
        }
        for instance in instances.iter().filter(|instance| is_charged(host, instance)) {
            let Some(process) = permission::process_of(host, instance) else { continue };
            let now = huge_sysv_bytes(instance);
            let sleeps_on = instance.waits_for_hands()
                || matches!(instance.startup, Some(Startup::Never(_) | Startup::Refuses(_)));
            let start = starting_at_boot(host, instance);
            let is_asking = start.asks_for_huge_pages() && !sleeps_on && instance.is_trusted();
            let asked: Bytes =
                start.demands.iter().map(|demand| demand.pages.to_bytes(demand.page_size)).sum();
            let charge = Charge { now, started: if is_asking { asked } else { Bytes::ZERO } };
            let sum = locked.sums.entry(process.uid).or_default();
            (sum.now, sum.started) = (sum.now + charge.now, sum.started + charge.started);
            locked.users.insert(instance.id(), process.uid);
            locked.charges.insert(instance.id(), charge);
        }
        locked
    }

    /// What its next start needs while the others go on holding what they hold.
    pub fn at_restart(&self, host: &Host, instance: &Instance) -> MemlockNeeded {
        MemlockNeeded {
            own: own_segment_bytes(host, instance),
            others: self.charged_to_others(instance, |charge| charge.now),
        }
    }

    /// What it needs where it is the last of all to start.
    pub fn at_boot(&self, host: &Host, instance: &Instance) -> MemlockNeeded {
        MemlockNeeded {
            own: own_segment_bytes(host, instance),
            others: self.charged_to_others(instance, |charge| charge.started),
        }
    }

    /// What it needs whenever it is started.
    pub fn at_most(&self, host: &Host, instance: &Instance) -> MemlockNeeded {
        let (restart, boot) = (self.at_restart(host, instance), self.at_boot(host, instance));
        MemlockNeeded { others: restart.others.max(boot.others), ..boot }
    }

    fn charged_to_others(&self, instance: &Instance, bytes_of: impl Fn(&Charge) -> Bytes) -> Bytes {
        let id = instance.id();
        let Some(sum) = self.users.get(&id).and_then(|uid| self.sums.get(uid)) else {
            return Bytes::ZERO;
        };
        bytes_of(sum).saturating_sub(self.charges.get(&id).map(bytes_of).unwrap_or_default())
    }
}

/// System V huge pages, without the group or the capability.
pub(crate) fn is_charged(host: &Host, instance: &Instance) -> bool {
    let is_there = instance.pid != 0 || instance.is_stopped();
    instance.mechanism == Mechanism::SysvShm
        && is_there
        && !matches!(permission::without_memlock(host, instance), HugePageRight::Has(_))
}

fn huge_sysv_bytes(instance: &Instance) -> Bytes {
    let own = instance.segments.iter().filter(|segment| segment.kind == SegmentKind::SystemV);
    own.filter(|segment| segment.huge == Observed::Known(true)).map(|segment| segment.size).sum()
}

/// All of a server's own segments, each rounded up to whole huge pages.
pub(crate) fn own_segment_bytes(host: &Host, instance: &Instance) -> Bytes {
    let demand = demand::find_demand(host, instance);
    demand
        .map_or_else(|| instance.segment_bytes(), |demand| demand.pages.to_bytes(demand.page_size))
}

#[cfg(test)]
mod tests {
    use hugewise_model::process::SoftHard;
    use hugewise_model::{KernelRelease, Limit, Remedy};

    use super::*;
    use crate::coverage::Coverage::{self, All, None as NoPages};
    use crate::prediction::{Obstacle, StageForecasts, predict_host};
    use crate::testing::{self, Case};

    /// Two instances of 16 GiB, started by their owner's own login, of which so many are on huge
    /// pages; pages for both.
    fn two(minor: u32, limit: Limit, huge: usize) -> Case {
        let mut case = testing::quiet();
        case.host.kernel =
            Observed::Known(KernelRelease { text: format!("5.{minor}.0"), major: 5, minor });
        for name in ["A", "B"] {
            case.oracle(name, testing::gib(16), 10);
        }
        for instance in case.instances.iter_mut().take(huge) {
            testing::all_huge(instance);
        }
        let pages = 8192 * 2 + 100;
        case.pool(pages, pages - 8192 * u64::try_from(huge).unwrap());
        for process in case.processes() {
            process.memlock = Observed::Known(SoftHard { soft: limit, hard: limit });
            process.ipc_lock = Observed::Known(false);
        }
        let lines = match limit {
            Limit::Unlimited => "oracle - memlock unlimited\n".to_owned(),
            Limit::At(bytes) => format!("oracle - memlock {}\n", bytes.get() >> 10),
        };
        let rules =
            hugewise_host::config::limits::parse("/etc/security/limits.conf", lines.as_bytes());
        case.host.configuration.limits = Observed::Known(rules);
        case
    }

    fn moments(case: &Case) -> Vec<StageForecasts> {
        let situation = predict_host(&case.host, &case.instances);
        case.instances
            .iter()
            .map(|instance| situation.forecasts_for(instance).unwrap().clone())
            .collect()
    }

    fn standings(case: &Case) -> Vec<[Coverage; 2]> {
        moments(case)
            .into_iter()
            .map(|stage_forecasts| {
                [stage_forecasts.restart.coverage, stage_forecasts.boot.coverage]
            })
            .collect()
    }

    const GIB_20: Limit = Limit::At(Bytes::from_mib(20 * 1024));

    #[test]
    fn all_that_a_user_has_counts_against_the_limit_of_the_next() {
        // The first has its pages: the second, of a limit that would be enough for it alone, gets
        // none.
        assert_eq!(standings(&two(4, GIB_20, 1)), [[All, NoPages], [NoPages, NoPages]]);
        // None has any: whichever is restarted first gets them, and after a boot one of them.
        assert_eq!(standings(&two(4, GIB_20, 0)), [[All, NoPages], [All, NoPages]]);
        let both = Limit::At(Bytes::from_mib(32 * 1024));
        assert_eq!(standings(&two(4, both, 1)), [[All, All], [All, All]]);
        assert_eq!(standings(&two(4, Limit::Unlimited, 0)), [[All, All], [All, All]]);
    }

    #[test]
    fn another_users_servers_do_not_count() {
        let mut case = two(4, GIB_20, 1);
        let pid = case.instances[1].pid;
        for process in case.processes().into_iter().filter(|process| process.pid == pid) {
            process.uid += 1;
        }
        assert_eq!(
            MemlockCharges::new(&case.host, &case.instances)
                .at_most(&case.host, &case.instances[0])
                .others,
            Bytes::ZERO
        );
    }

    #[test]
    fn kernels_that_ask_for_the_group_sum_nothing_up() {
        let case = two(16, GIB_20, 1);
        let locked = MemlockCharges::new(&case.host, &case.instances);
        assert_eq!(
            locked.at_most(&case.host, &case.instances[0]),
            MemlockNeeded::without_others(testing::gib(16))
        );
    }

    #[test]
    fn it_is_said_with_both_numbers_and_ends_with_the_limit_raised() {
        let case = two(4, GIB_20, 1);
        let at = &moments(&case)[1].restart;
        assert_eq!(at.obstacle, Some(Obstacle::Right));
        let why = at.why.as_deref().unwrap();
        assert!(
            why.contains(
                "memlock 20.0 GiB for 32.0 GiB (16.0 GiB of it for its user's other servers)"
            ),
            "{why}"
        );
        let assessment = crate::assess_host(&case.host, &case.instances);
        let wanted = Remedy::RaiseMemlock(case.instances[1].id());
        let told: Vec<_> = assessment
            .findings
            .iter()
            .filter(|finding| finding.remedies.contains(&wanted))
            .collect();
        assert!(!told.is_empty(), "{:?}", assessment.findings);
        let said =
            crate::remedy::describe_remedy(&case.host, &case.instances, &assessment, &wanted);
        assert_eq!(said.as_deref(), Some("raise the memlock limit of oracle B, for logins"));
    }
}
