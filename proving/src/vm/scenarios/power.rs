//! The power goes while apply works: after the next boot undo gives the host as before.

use super::main::on_huge_pages;
use super::{apply, undo};
use crate::vm::host::Snapshot;
use crate::vm::{Hardware, Image, Machine, Scenario, Stage, ensure};
use hugewise_testkit::tools::Failure;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "power",
    shows: "the power is cut in the middle of apply, and right after it: files and journal hold, \
         undo gives the old host",
    run,
};

fn run(stage: &Stage) -> Result<(), Failure> {
    let disk = stage.disk(Image::Plain)?;
    let mut machine = stage.boot(&disk, Hardware::default())?;
    let before = Snapshot::record(&mut machine)?;

    let begun = "[ -n \"$(ls /var/lib/hugewise/journal 2>/dev/null)\" ]";
    let mut machine = cut(stage, machine, "as the journal begins", begun)?;
    // With the power gone before the journal was on the disk, nothing was changed and nothing is to
    // be undone.
    let said = machine.run("hugewise undo")?;
    let text = format!("{}{}", said.out, said.err);
    stage.show("undo", &text);
    ensure(said.code == 0 || text.contains("nothing"), || {
        format!("undo ended with {}:\n{text}", said.code)
    })?;
    as_before(stage, &mut machine, &before)?;

    let mut machine = cut(
        stage,
        machine,
        "while GRUB's configuration is written",
        "pgrep -f grub-mkconfig >/dev/null",
    )?;
    apply(stage, &mut machine, "--early")?;
    stage.report("a second apply brought it to its end");
    undo(stage, &mut machine)?;
    as_before(stage, &mut machine, &before)?;

    let mut machine = cut(stage, machine, "as apply ends", "! systemctl is-active --quiet change")?;
    on_huge_pages(stage, &mut machine)?;
    undo(stage, &mut machine)?;
    // The kernel frees the server's pages when it ends.
    machine.must("systemctl restart postgresql@15-main")?;
    as_before(stage, &mut machine, &before)?;
    machine.power_off()
}

/// As the host was, but for what only a boot brings back.
fn as_before(stage: &Stage, machine: &mut Machine, before: &Snapshot) -> Result<(), Failure> {
    let line = "value /proc/cmdline";
    Snapshot::record(machine)?.without(line).must_be(&before.without(line))?;
    stage.report("every file and value is as before");
    Ok(())
}

fn cut(
    stage: &Stage,
    mut machine: Machine,
    when: &str,
    condition: &str,
) -> Result<Machine, Failure> {
    machine.must(
        "systemctl reset-failed change 2>/dev/null; systemd-run --quiet --unit=change hugewise \
             apply --yes --early",
    )?;
    let waited = machine.run(&format!(
        "for tick in $(seq 3000); do if {condition}; then exit 0; fi; sleep 0.02; done; \
             journalctl -u change --no-pager; exit 1"
    ))?;
    ensure(waited.code == 0, || {
        format!("{when}: it never came to that:\n{}{}", waited.out, waited.err)
    })?;
    stage.report(&format!("the power is cut {when}"));
    stage.power_cut(machine)
}
