//! Hosts that are made out of an image: nothing is written that would be lost, and their own way is
//! given as text.

use hugewise_diagnose::sizing::Request;

use super::made_hosts::{defaults, source};
use super::world::{World, shown};
use crate::plan::{Change, Plan};
use crate::planner::PlanOptions;

fn plan(release: &str, options: &PlanOptions) -> Plan {
    let base = source("no-pool-postgresql");
    let mut world = World::new(&*base);
    world.put_grub("quiet");
    world.put("/etc/os-release", release);
    world.plan(options, &Request::default())
}

fn writes_in_etc(plan: &Plan) -> bool {
    plan.changes()
        .any(|(_, change)| matches!(change, Change::File(file) if file.path.starts_with("/etc/")))
}

fn touches_the_boot_loader(plan: &Plan) -> bool {
    plan.changes().any(|(_, change)| match change {
        Change::Command(command) => command.command.iter().any(|word| word.contains("grub")),
        Change::File(file) => file.path.contains("grub"),
        Change::Value(_) => false,
    })
}

fn by_hand(plan: &Plan) -> String {
    plan.instructions
        .iter()
        .map(|instruction| format!("{}\n{}\n", instruction.title, instruction.text))
        .collect()
}

#[test]
fn boot_loaders_that_belong_to_an_image_are_left_alone() {
    let (options, _) = defaults();
    let early = PlanOptions { early: true, ..options.clone() };
    assert!(touches_the_boot_loader(&plan("ID=debian\n", &early)));
    for (release, way) in [
        ("ID=flatcar\n", "set linux_append="),
        ("ID=\"sle-micro\"\n", "transactional-update grub.cfg"),
        ("ID=rhcos\n", "kind: MachineConfig"),
    ] {
        let plan = plan(release, &early);
        assert!(!touches_the_boot_loader(&plan), "{release}: {}", shown(&plan));
        assert!(
            by_hand(&plan).contains(way) && by_hand(&plan).contains("hugepages="),
            "{release}: {}",
            by_hand(&plan)
        );
        // Drop-ins in /etc are this machine's own there, and bring the pool all the same.
        assert!(writes_in_etc(&plan), "{release}: {}", shown(&plan));
    }
}

#[test]
fn where_etc_is_not_kept_nothing_of_the_boot_is_promised() {
    let (options, _) = defaults();
    for (release, way) in [
        ("ID=bottlerocket\n", "[settings.kernel.sysctl]\n\"vm.nr_hugepages\" = "),
        ("ID=talos\n", "  sysctls:\n    vm.nr_hugepages: "),
        ("ID=nixos\n", "boot.kernel.sysctl.\"vm.nr_hugepages\" = "),
    ] {
        let plan = plan(release, &options);
        assert!(
            !writes_in_etc(&plan) && !touches_the_boot_loader(&plan),
            "{release}: {}",
            shown(&plan)
        );
        assert!(by_hand(&plan).contains(way), "{release}: {}", by_hand(&plan));
        assert!(
            plan.steps.iter().any(|step| step.id.starts_with("pool")),
            "the pool is there now: {}",
            shown(&plan)
        );
        // Whoever applies it is told that the next boot does not bring the pool yet.
        assert!(!plan.at_boot.is_empty());
        // No server is set to insist on pages that the next boot may not have.
        let text = plan.to_json();
        assert!(
            !text.contains("huge_pages = on") && !text.contains("huge_pages = 'on'"),
            "{release}: {}",
            shown(&plan)
        );
    }
}
