//! THP where tuned runs: through a profile of ours, over a reboot, and the old profile back.

use super::{apply, check, must_find, undo};
use crate::vm::host::Snapshot;
use crate::vm::{Hardware, Image, Machine, Scenario, Stage, ensure};
use hugewise_testkit::tools::Failure;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "tuned",
    shows: "tuned runs: THP through a profile of ours, kept over a reboot; undo, reboot: the old \
         profile, all as before",
    run,
};

fn run(stage: &Stage) -> Result<(), Failure> {
    let disk = stage.disk(Image::Tuned)?;
    let mut machine = stage.boot(&disk, Hardware::default())?;
    let before = Snapshot::record(&mut machine)?;
    let old = profile(&mut machine)?;
    must_find(stage, &check(&mut machine)?, "HW501")?;
    stage.report(&format!("before: {old}, THP {}", thp(&mut machine)?));
    apply(stage, &mut machine, "")?;
    let ours = profile(&mut machine)?;
    ensure(ours != old, || format!("{old} is still the active profile"))?;
    // What the old profile set must still hold.
    let includes = machine.must("grep -h include /etc/tuned/*/tuned.conf")?;
    ensure(includes.contains(&old), || format!("our profile does not include {old}: {includes}"))?;
    stage.report(&format!("after apply: {ours}, THP {}", thp(&mut machine)?));
    let mut machine = stage.reboot(machine)?;
    let (now, switch) = (profile(&mut machine)?, thp(&mut machine)?);
    stage.report(&format!("after the reboot: {now}, THP {switch}"));
    ensure(now == ours && switch == "madvise", || format!("{now}, THP {switch}"))?;
    undo(stage, &mut machine)?;
    ensure(profile(&mut machine)? == old, || format!("the active profile is not {old}"))?;
    let mut machine = stage.reboot(machine)?;
    Snapshot::record(&mut machine)?.must_be(&before)?;
    stage.report(&format!(
        "after undo and reboot: {}, every file and value as before",
        profile(&mut machine)?
    ));
    machine.power_off()
}

fn profile(machine: &mut Machine) -> Result<String, Failure> {
    let said = machine.must("tuned-adm active")?;
    let name = said.trim().strip_prefix("Current active profile: ").map(str::to_owned);
    name.ok_or_else(|| format!("tuned-adm says: {said}").into())
}

/// The switch that the kernel shows in brackets.
fn thp(machine: &mut Machine) -> Result<String, Failure> {
    let text = machine.must("cat /sys/kernel/mm/transparent_hugepage/enabled")?;
    let chosen = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map(|(chosen, _)| chosen.to_owned());
    chosen.ok_or_else(|| format!("no switch: {text}").into())
}
