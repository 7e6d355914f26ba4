//! The machine itself: a host that nobody changes is the same after a reboot, and a change is seen.

use crate::vm::host::Snapshot;
use crate::vm::{Hardware, Image, Scenario, Stage, ensure};
use hugewise_testkit::tools::Failure;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "machine",
    shows: "without any change a reboot gives the host as before; a changed file and a changed \
         value are seen; \
            what runs out of memory ends alone",
    run,
};

fn run(stage: &Stage) -> Result<(), Failure> {
    let disk = stage.disk(Image::Plain)?;
    let mut machine = stage.boot(&disk, Hardware::default())?;
    let before = Snapshot::record(&mut machine)?;
    let failed = machine.must("systemctl --failed --plain --no-legend")?;
    ensure(failed.trim().is_empty(), || format!("units failed: {failed}"))?;
    let mut machine = stage.reboot(machine)?;
    Snapshot::record(&mut machine)?.must_be(&before)?;
    for (change, back) in [
        ("touch /etc/new", "rm /etc/new"),
        ("chmod 600 /etc/fstab", "chmod 644 /etc/fstab"),
        ("echo '#' >>/boot/grub/grub.cfg", "sed -i '$d' /boot/grub/grub.cfg"),
        ("sysctl -q vm.nr_hugepages=3", "sysctl -q vm.nr_hugepages=0"),
    ] {
        machine.must(change)?;
        let seen = Snapshot::record(&mut machine)?.must_be(&before).is_err();
        ensure(seen, || format!("`{change}` is not seen"))?;
        machine.must(back)?;
    }
    let said = machine.run("choom -n 1000 -- perl -e 'push @all, \"x\" x (1 << 20) while 1'")?;
    ensure(said.code == 137, || {
        format!("what takes all memory ended with {}: {}", said.code, said.err)
    })?;
    machine.must("dmesg | grep -q 'Out of memory: Killed process'")?;
    Snapshot::record(&mut machine)?.must_be(&before)?;
    machine.power_off()
}
