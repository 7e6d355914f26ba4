//! Plans that tests make by hand, for the machine that they run on.

use std::fs;

use hugewise_change::plan::{CommandChange, HostIdentity};
use hugewise_change::{LiveSystem, Plan, Step, prepare_plan};

pub(crate) const THP: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
pub(crate) const GRUB: &str = "/etc/default/grub.d/zz-hugewise.cfg";
pub(crate) const GRUB_CFG: &str = "/boot/grub/grub.cfg";
pub(crate) const UPDATE_GRUB: &str = "/usr/sbin/update-grub";

/// A file's only line.
pub(crate) fn line(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// These steps as a plan for this machine, sealed.
pub(crate) fn plan(steps: Vec<Step>) -> Plan {
    let host = HostIdentity {
        name: line("/proc/sys/kernel/hostname").unwrap(),
        machine_id: line("/etc/machine-id"),
        boot_id: line("/proc/sys/kernel/random/boot_id"),
        kernel: line("/proc/sys/kernel/osrelease").unwrap(),
    };
    let mut plan = Plan::new(host, "2026-03-01T12:00:00Z");
    plan.steps = steps;
    prepare_plan(plan, &LiveSystem::new().unwrap()).unwrap()
}

/// The same, as the program under test carries it out although this machine's own plan has no such
/// steps.
pub(crate) fn plan_as_it_is(steps: Vec<Step>) -> Plan {
    let mut plan = plan(steps);
    plan.options = vec!["as-it-is".into()];
    plan.seal();
    plan
}

/// The boot loader's configuration is made anew.
pub(crate) fn update_grub() -> CommandChange {
    CommandChange::new([UPDATE_GRUB], "made anew").with_rewritten_file(GRUB_CFG).undone_by_itself()
}
