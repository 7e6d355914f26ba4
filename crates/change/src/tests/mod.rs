//! Whole plans on a machine that stands in a folder.

mod any;
mod at_boot;
mod behaviour;
mod chain;
mod deaths;
mod hands;
mod taken_pages;
mod wishes;

use hugewise_model::PageSize;

use crate::plan::{CommandChange, FileChange, HostIdentity, PoolRef, ValueChange};
use crate::testing::Machine;
use crate::{Plan, Risk, Step};

const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";
const SURPLUS: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/surplus_hugepages";
const THP: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const SYSCTL: &str = "/etc/sysctl.d/60-hugewise.conf";
const LIMITS: &str = "/etc/security/limits.d/60-hugewise.conf";
const UNIT: &str = "/etc/systemd/system/postgresql@.service.d/60-hugewise.conf";
const GRUB: &str = "/etc/default/grub.d/60-hugewise.cfg";
const GRUB_CFG: &str = "/boot/grub/grub.cfg";
const PROFILE: &str = "/etc/tuned/active_profile";
const TUNED: &str = "/etc/tuned/hugewise/tuned.conf";

const WHOLE: PoolRef = PoolRef { page_size: PageSize::MIB_2, node: None };

/// A host with two nodes, a few pages, a drop-in of an earlier apply, and a file that is no text.
fn machine() -> Machine {
    let machine = Machine::new(&[
        (POOL, "10\n"),
        (SURPLUS, "0\n"),
        ("/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages", "10\n"),
        (THP, "madvise\n"),
        ("/proc/sys/vm/hugetlb_shm_group", "0\n"),
        ("/proc/sys/vm/compact_memory", ""),
        ("/proc/sys/kernel/random/boot_id", "11111111-2222-3333-4444-555555555555\n"),
        ("/proc/meminfo", "MemTotal:       16000000 kB\nMemAvailable:   12000000 kB\n"),
        ("/etc/machine-id", "0123456789abcdef0123456789abcdef\n"),
        ("/etc/sysctl.d/10-other.conf", "vm.swappiness = 1\n"),
        (LIMITS, "postgres - memlock 65536\n"),
        (GRUB_CFG, "# made by update-grub\n"),
        (PROFILE, "virtual-guest\n"),
    ]);
    machine.mode(LIMITS, 0o640);
    std::fs::create_dir_all(machine.path("/etc/default/grub.d")).unwrap();
    std::fs::create_dir_all(machine.path("/etc/systemd/system")).unwrap();
    let labelled = std::fs::File::options().read(true).open(machine.path(LIMITS)).unwrap();
    let label = |name: &str, value: &[u8]| {
        rustix::fs::fsetxattr(&labelled, name, value, rustix::fs::XattrFlags::empty()).unwrap();
    };
    label("user.origin", b"\x00\xffsomewhere");
    label("security.selinux", b"system_u:object_r:etc_t:s0\0");
    rustix::fs::fchown(
        &labelled,
        Some(rustix::fs::Uid::from_raw(0)),
        Some(rustix::fs::Gid::from_raw(7)),
    )
    .unwrap();
    machine
}

/// Every kind of change.
fn plan() -> Plan {
    let host = HostIdentity {
        name: "db7".into(),
        machine_id: Some("0123456789abcdef0123456789abcdef".into()),
        boot_id: None,
        kernel: "6.1.0".into(),
    };
    let mut plan = Plan::new(host, "2026-03-01T12:00:00Z");
    let systemctl =
        CommandChange::new(["/usr/bin/systemctl", "daemon-reload"], "units are read again");
    plan.steps = vec![
        Step::new("pool-2M-now", "300 pages", Risk::Safe, "for 15/main")
            .with_change(ValueChange::for_pool(WHOLE, 300)),
        Step::new("pool-2M-boot", "after a boot", Risk::Safe, "for 15/main")
            .with_change(FileChange::write(SYSCTL, "vm.nr_hugepages = 300\n")),
        Step::new("memlock", "limits", Risk::Restart, "for 15/main")
            .with_change(FileChange::write(LIMITS, "postgres - memlock unlimited\n"))
            .with_change(FileChange::write(UNIT, "[Service]\nLimitMEMLOCK=infinity\n"))
            .with_change(systemctl.undone_by_itself()),
        Step::new("group", "group", Risk::Safe, "for oracle")
            .with_change(ValueChange::new("/proc/sys/vm/hugetlb_shm_group", "7")),
        Step::new("boot", "command line", Risk::Reboot, "for 1 GiB")
            .with_change(FileChange::write(
                GRUB,
                "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX transparent_hugepage=never\"\n",
            ))
            .with_change(
                CommandChange::new(["/usr/sbin/update-grub"], "the boot loader's file")
                    .undone_by_itself()
                    .with_rewritten_file("/boot/grub/grub.*"),
            ),
        Step::new("tuned", "profile", Risk::Safe, "THP")
            .with_change(FileChange::write(
                TUNED,
                "[main]\ninclude=virtual-guest\n[vm]\ntransparent_hugepages=never\n",
            ))
            .with_change(
                CommandChange::new(["/usr/sbin/tuned-adm", "profile", "hugewise"], "THP")
                    .undone_by(["/usr/sbin/tuned-adm", "profile", "virtual-guest"])
                    .with_rewritten_file(PROFILE)
                    .unless_file_holds(PROFILE, "hugewise"),
            )
            .with_change(ValueChange::new(THP, "never")),
        Step::new("cleanup", "the old limit again", Risk::Safe, "it is wrong")
            .with_change(FileChange::remove(LIMITS)),
    ];
    plan
}
