//! A start that locks its memory: the kernel holds base pages against the memlock limit, on every release, and huge pages
//! against nothing (`shmctl_do_lock()` in ipc/shm.c; `cargo xtask vm kernels` asks it).

use hugewise_engines::Kind;
use hugewise_model::Instance;
use hugewise_model::instance::Mechanism;

use super::moments::{Obstacle, Outlook};
use super::start::Ground;
use crate::locked::{self, Needed};
use crate::permission::{self, Right};
use crate::standing::Standing;
use crate::words::one_line;

/// What comes of the start of a server that locks its memory, where some of it would be on base pages and its limit is known to
/// be too small for all; none where nothing keeps it from locking it.
pub(super) fn refused(ground: &Ground<'_>, instance: &Instance, outlook: &Outlook) -> Option<Outlook> {
    let setting = (Kind::of(instance.engine).locks_all)(instance)?;
    if instance.mechanism != Mechanism::SysvShm || !matches!(outlook.standing, Standing::None | Standing::Partly) {
        return None;
    }
    // The group does not lock anything, and every user has a limit.
    if permission::capability_of(ground.host, instance, &ground.given.ipc_lock) != Right::Lacks(String::new()) {
        return None;
    }
    let (limit, enough) = ground.given.memlock_for(Needed::alone(locked::own(ground.host, instance)));
    let why = format!("{setting} has it lock its memory as it starts: {limit}");
    (enough == Some(false)).then(|| Outlook {
        standing: Standing::DoesNotStart,
        why: Some(one_line(&why)),
        obstacle: Some(Obstacle::Lock),
    })
}

#[cfg(test)]
mod tests {
    use hugewise_model::instance::Setting;
    use hugewise_model::process::SoftHard;
    use hugewise_model::{KernelRelease, Limit, Observed, Remedy};

    use super::*;
    use crate::situation::situation;
    use crate::testing::{self, Case};

    /// 8 GiB on base pages without a pool, on Linux 6.1, locked or not, with that limit from its owner's login.
    fn case(locks: &str, limit: &str) -> Case {
        let mut case = testing::quiet();
        case.host.kernel = Observed::Known(KernelRelease { text: "6.1.0".into(), major: 6, minor: 1 });
        let instance = case.oracle("PROD", testing::gib(8), 20);
        // Where it is set stands behind it.
        let setting =
            Setting { name: "lock_sga".into(), value: locks.into(), place: Some(testing::place("/dbs/init.ora")) };
        instance.settings.insert("lock_sga".into(), setting);
        for process in case.processes() {
            process.ipc_lock = Observed::Known(false);
            process.memlock = Observed::Known(SoftHard { soft: Limit::Unlimited, hard: Limit::Unlimited });
        }
        let rules = format!("oracle - memlock {limit}\n");
        let rules = hugewise_host::config::limits::parse("/etc/security/limits.conf", rules.as_bytes());
        case.host.configuration.limits = Observed::Known(rules);
        case
    }

    fn restart(case: &Case) -> Outlook {
        situation(&case.host, &case.instances).of(&case.instances[0]).unwrap().restart.clone()
    }

    /// SHM_LOCK of base pages against the limit, as Linux 5.10 to 7.2 answered it.
    #[test]
    fn base_pages_are_locked_within_the_limit_alone() {
        let kib = |kib: u64| kib.to_string();
        for (locks, limit, fails) in [
            ("TRUE", kib((8 << 20) - 4), true),
            ("TRUE", kib(8 << 20), false),
            ("true", "unlimited".into(), false),
            ("FALSE", kib(64), false),
        ] {
            let outlook = restart(&case(locks, &limit));
            let expected = if fails { Standing::DoesNotStart } else { Standing::None };
            assert_eq!(outlook.standing, expected, "{locks} {limit}: {outlook:?}");
        }
        let why = restart(&case("TRUE", "64")).why.unwrap();
        assert!(
            why.starts_with(
                "lock_sga=TRUE (/dbs/init.ora:7) has it lock its memory as it starts: memlock 64 KiB for 8.0 GiB"
            ),
            "{why}"
        );
    }

    #[test]
    fn huge_pages_need_no_limit_to_be_locked() {
        let mut case = case("TRUE", "64");
        testing::all_huge(&mut case.instances[0]);
        case.pool(4098, 2);
        case.host.kernel_settings.hugetlb_shm_group = Observed::Known(54321);
        assert_eq!(restart(&case).standing, Standing::All);
    }

    #[test]
    fn it_is_told_with_the_limit_to_raise_and_what_makes_it_needless() {
        let case = case("TRUE", "64");
        let assessment = crate::assess(&case.host, &case.instances);
        let told = assessment.findings.iter().find(|it| it.code.as_str() == "HW210").expect("HW210 speaks");
        assert!(told.summary.contains("would not start again: lock_sga=TRUE"), "{}", told.summary);
        assert!(told.remedies.contains(&Remedy::RaiseMemlock(case.instances[0].id())), "{:?}", told.remedies);
        let thinks = |it: &Remedy| matches!(it, Remedy::Consider(text) if text.contains("lock_sga=FALSE"));
        assert!(told.remedies.iter().any(thinks), "{:?}", told.remedies);
    }
}
