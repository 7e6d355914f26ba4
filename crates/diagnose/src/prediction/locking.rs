//! A start that locks its memory: the kernel holds base pages against the memlock limit, on every
//! release, and huge pages against nothing (`shmctl_do_lock()` in ipc/shm.c; `cargo xtask vm
//! kernels` asks it).

use hugewise_engines::EngineKind;
use hugewise_model::instance::Mechanism;
use hugewise_model::{Host, Instance};

use super::stages::{Obstacle, StageForecast};
use crate::coverage::Coverage;
use crate::ipc_privileges::IpcPrivileges;
use crate::memlock_charges::{self, MemlockNeeded};
use crate::permission::{self, HugePageRight};

/// What keeps a server from starting that locks memory as it does, whatever pages it gets.
pub(super) fn predict_lock_refusal(
    host: &Host,
    instance: &Instance,
    privileges: &IpcPrivileges,
    forecast: &StageForecast,
) -> Option<StageForecast> {
    predict_ring_refusal(host, instance, privileges)
        .or_else(|| predict_segment_refusal(host, instance, privileges, forecast))
}

/// Rings of io_uring are charged to their user before Linux 5.12 ("io_uring: place ring SQ/CQ
/// arrays under memcg memory limits") and again since 6.14, whose `io_create_region()` charges
/// them, unless he has CAP_IPC_LOCK.
fn predict_ring_refusal(
    host: &Host,
    instance: &Instance,
    privileges: &IpcPrivileges,
) -> Option<StageForecast> {
    let kernel = host.kernel.as_known()?;
    let is_charged = kernel.at_least(6, 14) || !kernel.at_least(5, 12);
    let rings = instance.ring_bytes.filter(|_| is_charged)?;
    let capability = permission::capability_of(host, instance, &privileges.ipc_lock);
    if !matches!(capability, HugePageRight::Lacks(_)) {
        return None;
    }
    let (limit, enough) = privileges.memlock_for(MemlockNeeded::without_others(rings));
    let why = format!("io_method=io_uring has it lock its rings as it starts: {limit}");
    (enough == Some(false))
        .then(|| StageForecast::blocked(Coverage::DoesNotStart, Obstacle::Lock, why))
}

/// Where some memory would be on base pages, and the limit is known to be too small for all.
fn predict_segment_refusal(
    host: &Host,
    instance: &Instance,
    privileges: &IpcPrivileges,
    forecast: &StageForecast,
) -> Option<StageForecast> {
    let setting = (EngineKind::for_engine(instance.engine).memory.locks_all)(instance)?;
    // The group does not lock anything, and every user has a limit.
    let capability = permission::capability_of(host, instance, &privileges.ipc_lock);
    let is_limited = matches!(capability, HugePageRight::Lacks(_));
    let has_base_pages = matches!(forecast.coverage, Coverage::None | Coverage::Partly);
    if instance.mechanism != Mechanism::SysvShm || !has_base_pages || !is_limited {
        return None;
    }
    let needs = MemlockNeeded::without_others(memlock_charges::own_segment_bytes(host, instance));
    let (limit, enough) = privileges.memlock_for(needs);
    let why = format!("{setting} has it lock its memory as it starts: {limit}");
    (enough == Some(false))
        .then(|| StageForecast::blocked(Coverage::DoesNotStart, Obstacle::Lock, why))
}

#[cfg(test)]
mod tests {
    use hugewise_model::instance::ServerSetting;
    use hugewise_model::process::SoftHard;
    use hugewise_model::{Bytes, KernelRelease, Limit, Observed, Remedy};

    use super::*;
    use crate::prediction::predict_host;
    use crate::testing::{self, Case};

    /// 8 GiB on base pages without a pool, on Linux 6.1, locked or not, with that limit from its
    /// owner's login.
    fn case(locks: &str, limit: &str) -> Case {
        let mut case = testing::quiet();
        case.host.kernel =
            Observed::Known(KernelRelease { text: "6.1.0".into(), major: 6, minor: 1 });
        let instance = case.oracle("PROD", testing::gib(8), 20);
        // Where it is set stands behind it.
        let setting = ServerSetting {
            name: "lock_sga".into(),
            value: locks.into(),
            place: Some(testing::place("/dbs/init.ora")),
        };
        instance.settings.insert("lock_sga".into(), setting);
        for process in case.processes() {
            process.ipc_lock = Observed::Known(false);
            process.memlock =
                Observed::Known(SoftHard { soft: Limit::Unlimited, hard: Limit::Unlimited });
        }
        let rules = format!("oracle - memlock {limit}\n");
        let rules =
            hugewise_host::config::limits::parse("/etc/security/limits.conf", rules.as_bytes());
        case.host.configuration.limits = Observed::Known(rules);
        case
    }

    /// PostgreSQL with 1,042 rings of 8 KiB: systemd's default of 8 MiB has room for 1,024 (Linux
    /// 6.18 said ENOMEM to the next one).
    #[test]
    fn rings_of_io_uring_are_held_against_the_limit_by_kernels_that_charge_them() {
        let restart_on = |(major, minor), rings: u64| {
            let mut case = testing::quiet();
            testing::all_huge(case.postgresql("18/main", testing::gib(1))).ring_bytes =
                Some(Bytes(rings * 8192));
            case.pool(512, 0);
            let text = format!("{major}.{minor}.0");
            case.host.kernel = Observed::Known(KernelRelease { text, major, minor });
            let limit = Limit::At(Bytes::from_mib(8));
            for process in case.processes() {
                process.ipc_lock = Observed::Known(false);
                process.memlock = Observed::Known(SoftHard { soft: limit, hard: limit });
            }
            let restart = restart(&case);
            (restart.coverage, restart.obstacle)
        };
        let fails = (Coverage::DoesNotStart, Some(Obstacle::Lock));
        for kernel in [(6, 18), (6, 14), (5, 11), (5, 4)] {
            assert_eq!(restart_on(kernel, 1042), fails, "{kernel:?}");
            assert_eq!(restart_on(kernel, 1024), (Coverage::All, None), "{kernel:?}");
        }
        for kernel in [(5, 12), (5, 14), (6, 1), (6, 12)] {
            assert_eq!(restart_on(kernel, 1042), (Coverage::All, None), "{kernel:?}");
        }
    }

    fn restart(case: &Case) -> StageForecast {
        predict_host(&case.host, &case.instances)
            .forecasts_for(&case.instances[0])
            .unwrap()
            .restart
            .clone()
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
            let expected = if fails { Coverage::DoesNotStart } else { Coverage::None };
            assert_eq!(outlook.coverage, expected, "{locks} {limit}: {outlook:?}");
        }
        let why = restart(&case("TRUE", "64")).why.unwrap();
        assert!(
            why.starts_with(
                "lock_sga=TRUE (/dbs/init.ora:7) has it lock its memory as it starts: memlock 64 \
                     KiB for 8.0 GiB"
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
        assert_eq!(restart(&case).coverage, Coverage::All);
    }

    #[test]
    fn it_is_told_with_the_limit_to_raise_and_what_makes_it_needless() {
        let case = case("TRUE", "64");
        let assessment = crate::assess_host(&case.host, &case.instances);
        let told = assessment
            .findings
            .iter()
            .find(|finding| finding.code.as_str() == "HW210")
            .expect("HW210 speaks");
        assert!(told.summary.contains("would not start again: lock_sga=TRUE"), "{}", told.summary);
        assert!(
            told.remedies.contains(&Remedy::RaiseMemlock(case.instances[0].id())),
            "{:?}",
            told.remedies
        );
        let thinks = |remedy: &Remedy| matches!(remedy, Remedy::Consider(text) if text.contains("lock_sga=FALSE"));
        assert!(told.remedies.iter().any(thinks), "{:?}", told.remedies);
    }
}
