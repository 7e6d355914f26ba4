//! The power goes while apply works: after the next boot undo gives the host as before.

use super::{apply, undo};
use crate::Failure;
use crate::vm::host::Snapshot;
use crate::vm::{Hardware, Image, Machine, Scenario, Stage, ensure};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "power",
    shows: "the power is cut in the middle of apply, and right after it: files and journal hold, undo gives the old host",
    run,
};

/// Where the power is cut: a condition in the machine.
const CUTS: [(&str, &str); 3] = [
    ("as the journal begins", "[ -n \"$(ls /var/lib/hugewise/journal 2>/dev/null)\" ]"),
    ("while GRUB's configuration is written", "pgrep -f grub-mkconfig >/dev/null"),
    ("as apply ends", "! systemctl is-active --quiet change"),
];

fn run(stage: &Stage) -> Result<(), Failure> {
    let disk = stage.disk(Image::Plain)?;
    let mut machine = stage.boot(&disk, Hardware::default())?;
    let before = Snapshot::of(&mut machine)?;
    for (when, condition) in CUTS {
        machine = cut(stage, machine, when, condition)?;
        let said = machine.run("hugewise undo")?;
        let text = format!("{}{}", said.out, said.err);
        stage.show("undo", &text);
        // With the power gone before the journal was on the disk, nothing was changed and nothing is to be undone.
        let nothing = text.contains("nothing");
        ensure(said.code == 0 || nothing, || format!("undo ended with {}:\n{text}", said.code))?;
        stage.say(if nothing { "nothing was there to undo" } else { "undone" });
        now_as_before(&mut machine, &before)?;
    }
    // A second apply, too, brings a cut one to a defined state.
    let (when, condition) = CUTS[1];
    machine = cut(stage, machine, when, condition)?;
    apply(stage, &mut machine, "--early")?;
    undo(stage, &mut machine)?;
    now_as_before(&mut machine, &before)?;
    stage.say("a second apply after the cut, and its undo: every file and value as before");
    let mut machine = stage.reboot(machine)?;
    Snapshot::of(&mut machine)?.must_be(&before)?;
    machine.power_off()
}

/// As the host was, but for what only a boot brings back.
fn now_as_before(machine: &mut Machine, before: &Snapshot) -> Result<(), Failure> {
    Snapshot::of(machine)?.without("value /proc/cmdline").must_be(&before.without("value /proc/cmdline"))
}

fn cut(stage: &Stage, mut machine: Machine, when: &str, condition: &str) -> Result<Machine, Failure> {
    machine.must(
        "systemctl reset-failed change 2>/dev/null; systemd-run --quiet --unit=change hugewise apply --yes --early",
    )?;
    let waited = machine.run(&format!(
        "for tick in $(seq 3000); do if {condition}; then exit 0; fi; sleep 0.02; done; journalctl -u change --no-pager; exit 1"
    ))?;
    ensure(waited.code == 0, || format!("{when}: it never came to that:\n{}{}", waited.out, waited.err))?;
    stage.say(&format!("the power is cut {when}"));
    stage.power_cut(machine)
}
