//! From trouble to huge pages over a reboot, and back over another.

use super::{apply, check, must_find, undo, verify};
use crate::vm::host::{Snapshot, postgresql};
use crate::vm::{Hardware, Image, Scenario, Stage, ensure};
use hugewise_testkit::tools::Failure;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "main",
    shows: "check finds the trouble; apply, reboot: PostgreSQL on huge pages; undo, reboot: the \
         host as before",
    run,
};

fn run(stage: &Stage) -> Result<(), Failure> {
    let disk = stage.disk(Image::Plain)?;
    let mut machine = stage.boot(&disk, Hardware::default())?;
    let before = Snapshot::record(&mut machine)?;
    stage.report(&format!(
        "a snapshot of {} files and {} values of the kernel",
        before.files(),
        before.values()
    ));
    must_find(stage, &check(&mut machine)?, "HW201")?;
    let server = postgresql(&mut machine)?;
    ensure(server.huge == 0 && server.base >= 256, || {
        format!("{} MiB on huge pages before", server.huge)
    })?;
    ensure(verify(&mut machine)?.code == 1, || "verify saw nothing before".into())?;

    apply(stage, &mut machine, "")?;
    let again = apply(stage, &mut machine, "")?;
    ensure(again.contains("Nothing to do"), || {
        format!("the second apply changed something:\n{again}")
    })?;

    let mut machine = stage.reboot(machine)?;
    on_huge_pages(stage, &mut machine)?;

    undo(stage, &mut machine)?;
    let mut machine = stage.reboot(machine)?;
    Snapshot::record(&mut machine)?.must_be(&before)?;
    stage.report("after undo and reboot every file and value is as before");
    let server = postgresql(&mut machine)?;
    ensure(server.huge == 0, || format!("PostgreSQL still has {} MiB on huge pages", server.huge))?;
    machine.power_off()
}

/// The kernel says so, and verify says so.
pub(super) fn on_huge_pages(
    stage: &Stage,
    machine: &mut crate::vm::Machine,
) -> Result<(), Failure> {
    let server = postgresql(machine)?;
    ensure(server.huge >= 256 && server.base < 16, || {
        format!(
            "PostgreSQL has {} MiB on huge pages, {} MiB of shared memory on others",
            server.huge, server.base
        )
    })?;
    stage.report(&format!("PostgreSQL, started by systemd: {} MiB on huge pages", server.huge));
    let said = verify(machine)?;
    ensure(said.code == 0, || {
        format!("verify ended with {}:\n{}{}", said.code, said.out, said.err)
    })?;
    stage.report("verify: 0");
    Ok(())
}
