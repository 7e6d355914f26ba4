//! What is to be done on a host: which remedies, each once, and in which order.

use std::collections::BTreeSet;

use hugewise_model::instance::Mechanism;
use hugewise_model::{
    Finding, Host, HugePageMode, HugePageUse, Instance, Level, PageCount, Remedy,
};

use super::{RemedyWriter, describe_remedy, is_crowded};
use crate::permission::{self, HugePageRight, MemlockEffect};
use crate::prediction::Obstacle;
use crate::sizing::SizedServer;
use crate::target::PoolGoal;
use crate::{Assessment, boot, ipc_privileges, thp, untrusted};
/// What is to be done on a host, each thing once, in the order in which it is done: what ends its
/// findings of a level or worse, and what a plan does all the same. This is the one list: a plan
/// carries it out in this order, or leaves parts of it to people.
pub fn to_do(
    host: &Host,
    instances: &[Instance],
    assessment: &Assessment,
    least: Level,
) -> Vec<(Remedy, String)> {
    let writer = RemedyWriter { host, instances, assessment };
    let counts =
        |finding: &Finding, remedy: &Remedy| finding.level >= least || writer.is_planned(remedy);
    let named = assessment.findings.iter().flat_map(|finding| {
        finding.remedies.iter().filter(move |remedy| counts(finding, remedy)).cloned()
    });
    // Nothing is to be done where nothing was found.
    let is_well = assessment.findings.is_empty();
    let of_target = if is_well { Vec::new() } else { writer.list_target_remedies() };
    let all: BTreeSet<Remedy> = named.chain(of_target).collect();
    let mut left: Vec<&Remedy> =
        all.iter().filter(|remedy| !writer.is_done_by_another(remedy, &all)).collect();
    left.sort_by_key(|remedy| writer.turn(remedy));
    let in_words = |remedy: &Remedy| -> Vec<(Remedy, String)> {
        let lines = match remedy {
            Remedy::SetShmLimits => writer.set_shm_limits(),
            other => describe_remedy(host, instances, assessment, other).into_iter().collect(),
        };
        lines.into_iter().map(|line| (remedy.clone(), line)).collect()
    };
    let mut told = BTreeSet::new();
    let mut lines: Vec<(Remedy, String)> = left.into_iter().flat_map(in_words).collect();
    lines.retain(|(_, line)| told.insert(line.clone()));
    lines
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RemedyTurn {
    /// Pages that are given back make room for others.
    GivenBack,
    First,
    /// What a reboot is to find has to be there before it.
    Reboot,
    /// To insist before the pages are there is to stay down: that comes when the server has them.
    Insist,
    Thought,
}

impl<'a> RemedyWriter<'a> {
    pub(super) fn calls_for(self, remedy: &Remedy) -> bool {
        self.assessment.findings.iter().any(|finding| finding.remedies.contains(remedy))
    }

    /// Whether a plan has it, however little the finding weighs.
    fn is_planned(self, remedy: &Remedy) -> bool {
        match remedy {
            Remedy::ByHand(_) | Remedy::Consider(_) | Remedy::GiveBack(_) => false,
            // What nobody here minds stays as it is.
            Remedy::KeepThpAtBoot => {
                let trusted = untrusted::trusted_instances(self.instances);
                let steps = boot::predict_thp(self.host).unwrap_or_default();
                let policy = thp::find_thp_policy(self.host, &trusted);
                let is_set = self.calls_for(&Remedy::SetThp);
                is_set || steps.last().is_some_and(|step| policy.rejects(&step.value))
            }
            _ => true,
        }
    }

    /// What a plan does because the target calls for it, whether or not a finding says so.
    fn list_target_remedies(self) -> Vec<Remedy> {
        let target = &self.assessment.target;
        let mut remedies = Vec::new();
        for goal in &target.pools {
            let page = goal.page_size;
            remedies.extend(goal.grows().then_some(Remedy::SetPool(page)));
            remedies.extend((goal.goal < goal.now).then_some(Remedy::GiveBack(page)));
            let change = self.find_boot_change(goal);
            remedies.extend(change.map(|_| Remedy::KeepAtBoot(page)));
        }
        let is_short = target.sizing.as_ref().is_some_and(|sizing| {
            let limits = &sizing.limits;
            limits.shmmax.enough == Some(false) || limits.shmall_pages.enough == Some(false)
        });
        remedies.extend(is_short.then_some(Remedy::SetShmLimits));
        remedies
            .extend(self.planned_sysv_servers().flat_map(|instance| self.target_rights(instance)));
        remedies
    }

    /// Servers of System V memory that pages are planned for, or whose right a finding is about.
    pub(super) fn planned_sysv_servers(self) -> impl Iterator<Item = &'a Instance> {
        let sizing = self.assessment.target.sizing.as_ref();
        let sized = sizing.map(|sizing| sizing.instances.as_slice()).unwrap_or_default();
        self.instances.iter().filter(move |instance| {
            let is_it =
                |one: &SizedServer| one.engine == instance.engine && one.name == instance.name;
            // One that its files put under AMM has no use for it from its next start on.
            let cannot =
                instance.next.as_known().is_some_and(|next| next.asked == HugePageMode::Cannot);
            instance.mechanism == Mechanism::SysvShm
                && instance.is_trusted()
                && (sized.iter().any(is_it) || (self.tells_of_right(instance) && !cannot))
        })
    }

    fn tells_of_right(self, instance: &Instance) -> bool {
        let id = instance.id();
        let about = self.assessment.findings.iter();
        let about = about.filter(|finding| finding.instance.as_ref() == Some(&id));
        about.flat_map(|finding| &finding.remedies).any(|remedy| {
            matches!(remedy, Remedy::RaiseMemlock(_) | Remedy::SetGroup(_) | Remedy::SetShmLimits)
        })
    }

    /// What gives such a server the right to its pages.
    pub(super) fn target_rights(self, instance: &Instance) -> Vec<Remedy> {
        let (host, situation) = (self.host, &self.assessment.situation);
        let id = instance.id();
        let mut rights = Vec::new();
        let has_all = instance.huge_pages == HugePageUse::All
            && !ipc_privileges::loses_shm_right(situation, instance);
        let is_bought = matches!(permission::memlock_effect(host), MemlockEffect::Buys(_));
        let lacks =
            || matches!(permission::without_memlock(host, instance), HugePageRight::Lacks(_));
        // The group that it has its right by, and that the next boot would take back.
        let group = host.kernel_settings.hugetlb_shm_group.get().filter(|group| *group != 0);
        let is_member = |group| permission::owner_groups(host, instance).contains(&group);
        let boot = situation.forecasts_for(instance).map(|forecasts| forecasts.boot.obstacle);
        let loses = boot == Some(Some(Obstacle::Right)) && group.is_some_and(is_member);
        if loses || (!has_all && !is_bought && lacks()) {
            rights.push(Remedy::SetGroup(id.clone()));
        }
        if ipc_privileges::lacks_memlock(host, situation, instance) {
            rights.push(Remedy::RaiseMemlock(id));
        }
        rights
    }

    fn is_done_by_another(self, remedy: &Remedy, all: &BTreeSet<Remedy>) -> bool {
        match remedy {
            // A pool that is set is kept as well, and what is given back is not kept.
            Remedy::KeepAtBoot(page) => {
                let is_set =
                    all.contains(&Remedy::SetPool(*page)) && self.set_pool(*page).is_some();
                let is_needed = self.goal(*page).is_some_and(|goal| goal.needed > PageCount::ZERO);
                let is_lowered =
                    self.goal(*page).is_some_and(|goal| self.lowered_by_files(goal).is_some())
                        || boot::find_crowding_of(self.host, *page).is_some();
                // What other pages make room for first is said without the boot.
                let crowds = self.goal(*page).is_some_and(|goal| goal.crowds);
                let is_told = (is_set && !crowds && !is_crowded(self.host))
                    || (all.contains(&Remedy::GiveBack(*page)) && !is_needed);
                is_told && !is_lowered && !(is_needed && boot::is_written(self.host, *page))
            }
            // Those that nobody uses are for whoever the pool is set for.
            Remedy::GiveBack(page) => {
                all.contains(&Remedy::SetPool(*page))
                    && self.goal(*page).is_some_and(PoolGoal::grows)
            }
            // Nothing waits for pages that are never there; and the reboot starts it again.
            Remedy::Restart(id) => {
                self.goal_of(id).filter(|goal| !goal.is_there()).is_some_and(|goal| {
                    let waits = self.is_left_to_a_reboot(goal)
                        && all.contains(&Remedy::SetPool(goal.page_size));
                    self.is_refused() || waits
                })
            }
            Remedy::SetSetting(id) => {
                self.is_refused()
                    && self.goal_of(id).is_some_and(|goal| !goal.is_there())
                    && self.tries_next(id)
            }
            _ => false,
        }
    }

    fn turn(self, remedy: &Remedy) -> RemedyTurn {
        match remedy {
            Remedy::Consider(_) => RemedyTurn::Thought,
            Remedy::GiveBack(page) if self.goal(*page).is_some_and(|goal| goal.goal < goal.now) => {
                RemedyTurn::GivenBack
            }
            Remedy::SetSetting(id)
                if !self.assessment.target.insisting.contains(id) && self.tries_next(id) =>
            {
                RemedyTurn::Insist
            }
            Remedy::SetPool(page)
                if self.goal(*page).is_some_and(|goal| self.is_left_to_a_reboot(goal)) =>
            {
                RemedyTurn::Reboot
            }
            _ => RemedyTurn::First,
        }
    }
}
