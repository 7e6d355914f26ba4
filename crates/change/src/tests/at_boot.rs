//! What a plan that was made elsewhere would bring at the next boot.

use crate::apply::ApplyOptions;
use crate::plan::{CommandChange, FileChange, ValueChange};
use crate::testing::{Machine, assert_same};
use crate::{Change, Error, Plan, Risk, Step, apply_plan, prepare_plan};

use super::{machine, plan};

/// 16,000,000 kB of memory and pages of 2 MiB, as [`machine`] has it, with a pool of 1 GiB pages.
fn host() -> Machine {
    let machine = machine();
    machine.put(
        "/proc/meminfo",
        "MemTotal:       16000000 kB\nMemAvailable:   12000000 kB\nHugepagesize:       2048 kB\n",
    );
    machine.put("/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "0\n");
    machine.put("/proc/sys/vm/nr_hugepages", "10\n");
    machine.put("/proc/sys/kernel/shmmax", "68719476736\n");
    machine.put("/proc/sys/kernel/shmall", "16777216\n");
    machine.put("/proc/sys/kernel/shmmni", "4096\n");
    machine
}

fn of(machine: &Machine, changes: Vec<Change>) -> Plan {
    let step = changes
        .into_iter()
        .fold(Step::new("any", "any", Risk::Reboot, "a test"), Step::with_change);
    let mut plan = Plan { steps: vec![step], ..plan() };
    plan.seal();
    prepare_plan(plan, machine).unwrap()
}

fn applied(machine: &Machine, plan: &Plan, force: bool) -> Result<(), Error> {
    apply_plan(plan, machine, ApplyOptions { force, ..ApplyOptions::default() }, &mut |_| {})
        .map(drop)
}

fn file(path: &str, text: &str) -> Change {
    FileChange::write(path, text).into()
}

fn grub(words: &str) -> Change {
    file(
        "/etc/default/grub.d/zz-hugewise.cfg",
        &format!("GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX {words}\"\n"),
    )
}

fn sysctl(line: &str) -> Change {
    file("/etc/sysctl.d/zz-hugewise-a.conf", &format!("{line}\n"))
}

fn tmpfiles(path: &str, pages: &str) -> String {
    format!("w {path} - - - - {pages}\n")
}

/// Of 16,000,000 kB 5 % have to stay: 15,200,000 kB hold 7421 pages of 2 MiB, and 14 of 1 GiB.
#[test]
fn pools_of_the_next_boot_leave_what_has_to_stay() {
    let node = |node: u32| {
        format!("/sys/devices/system/node/node{node}/hugepages/hugepages-2048kB/nr_hugepages")
    };
    let whole = "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages";
    let of_nodes = |pages: &str| tmpfiles(&node(0), pages) + &tmpfiles(&node(1), pages);
    let grubby = |words: &str| {
        let command = ["/usr/sbin/grubby", "--update-kernel=ALL", &format!("--args={words}")];
        Change::from(
            CommandChange::new(command, "words").with_rewritten_file("/boot/grub2/grubenv"),
        )
    };
    let tuned = |pages: u64| {
        file("/etc/tuned/hugewise/tuned.conf", &format!("[sysctl]\nvm.nr_hugepages={pages}\n"))
    };
    let too_many = [
        vec![sysctl("vm.nr_hugepages = 18446744073709551615")],
        vec![sysctl("vm.nr_hugepages = 7422")],
        vec![tuned(7422)],
        vec![file("/etc/tmpfiles.d/zz-hugewise.conf", &tmpfiles(whole, "15"))],
        vec![file("/etc/tmpfiles.d/zz-hugewise.conf", &of_nodes("3711"))],
        vec![file(
            "/etc/tmpfiles.d/zz-hugewise.conf",
            &tmpfiles("/proc/sys/vm/nr_hugepages", "7422"),
        )],
        vec![grub("hugepagesz=1G hugepages=15")],
        vec![grub("hugepagesz=2M hugepages=0:3711,1:3711")],
        vec![grub("hugepagesz=1G hugepages=99999999999999999999999")],
        // The size may stand before it already.
        vec![grub("hugepages=15")],
        // The kernel takes the first, or the one of another file.
        vec![grub("hugepagesz=2M hugepages=1 hugepagesz=2M hugepages=7422")],
        vec![grubby("hugepagesz=1G hugepages=15")],
        // Each fits alone.
        vec![sysctl("vm.nr_hugepages = 4000"), grub("hugepagesz=1G hugepages=8")],
        // What is asked for stays, of pages five hundred times as large.
        vec![grub("default_hugepagesz=1G"), sysctl("vm.nr_hugepages = 15")],
    ];
    for changes in too_many {
        let machine = host();
        let plan = of(&machine, changes);
        let before = machine.seen();
        let error = applied(&machine, &plan, false).unwrap_err();
        assert!(
            matches!(error, Error::Refused { .. }) && error.to_string().contains("the next boot"),
            "{plan:?}: {error}"
        );
        assert_same(&machine.seen(), &before, "a refusal");
        applied(&machine, &plan, true).unwrap();
    }
    for changes in [
        vec![sysctl("vm.nr_hugepages = 7421")],
        vec![grub("hugepagesz=1G hugepages=14")],
        vec![sysctl("vm.nr_hugepages = 3000"), grub("hugepagesz=1G hugepages=8")],
        // One pool, said twice.
        vec![sysctl("vm.nr_hugepages = 7000"), grub("hugepagesz=2M hugepages=7000")],
        vec![file("/etc/tmpfiles.d/zz-hugewise.conf", &of_nodes("3710"))],
    ] {
        let machine = host();
        applied(&machine, &of(&machine, changes), false).unwrap();
    }
    // Ten pages of 2 MiB are asked for now, by whatever file: ten of 1 GiB fit, and of fifteen
    // nothing is left.
    let machine = host();
    applied(&machine, &of(&machine, vec![grub("default_hugepagesz=1G")]), false).unwrap();
    let machine = host();
    machine.put("/proc/sys/vm/nr_hugepages", "15\n");
    applied(&machine, &of(&machine, vec![grub("default_hugepagesz=1G")]), false).unwrap_err();
}

#[test]
fn no_plan_lowers_what_system_v_memory_may_have() {
    let tuned = file("/etc/tuned/hugewise/tuned.conf", "[sysctl]\nkernel.shmall = 16777215\n");
    for change in [
        sysctl("kernel.shmmni = 0"),
        sysctl("kernel.shmmax=0"),
        sysctl("kernel.shmmax = 68719476736\nkernel.shmall = 1"),
        tuned,
        file("/etc/tmpfiles.d/zz-hugewise.conf", &tmpfiles("/proc/sys/kernel/shmmni", "4095")),
        ValueChange::new("/proc/sys/kernel/shmmax", "4096").into(),
    ] {
        let machine = host();
        let plan = of(&machine, vec![change]);
        let before = machine.seen();
        for force in [false, true] {
            let error = applied(&machine, &plan, force).unwrap_err();
            assert!(
                matches!(error, Error::NotAllowed { .. })
                    && error.to_string().contains("no plan lowers it"),
                "{error}"
            );
        }
        assert_same(&machine.seen(), &before, "a refusal");
    }
    let machine = host();
    let raised =
        sysctl("kernel.shmmax = 68719476736\nkernel.shmall = 33554432\nkernel.shmmni = 8192");
    applied(
        &machine,
        &of(&machine, vec![raised, ValueChange::new("/proc/sys/kernel/shmmni", "8192").into()]),
        false,
    )
    .unwrap();
}
