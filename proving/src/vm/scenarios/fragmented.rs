//! Memory in pieces: the running kernel cannot give the pool, so the next boot does.

use super::main::on_huge_pages;
use super::{check, must_find};
use crate::vm::host::Snapshot;
use crate::vm::{Hardware, Image, Machine, Scenario, Stage, ensure};
use hugewise_testkit::tools::Failure;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "fragmented",
    shows: "fragmented memory: the shortfall is said and taken back; a reservation at boot works \
         after a reboot",
    run,
};

/// Memory in pieces, by a service that stays.
const FRAGMENT: &str = concat!(
    "cat >/run/fragment <<'end'\n",
    include_str!("../fragment.pl"),
    r#"end
systemd-run --quiet --unit=fragment --property=OOMScoreAdjust=-1000 --property=LimitNOFILE=65536 perl /run/fragment
for second in $(seq 300); do [ -e /run/fragmented ] && exit; systemctl is-active --quiet fragment || break; sleep 1; done
journalctl -u fragment --no-pager >&2
exit 1
"#
);

fn run(stage: &Stage) -> Result<(), Failure> {
    let disk = stage.disk(Image::Plain)?;
    let mut machine = stage.boot(&disk, Hardware::default())?;
    must_find(stage, &check(&mut machine)?, "HW201")?;
    fragment(stage, &mut machine)?;
    falls_short(stage, &mut machine)?;

    let said = machine.run("hugewise apply --yes --keep-going")?;
    let text = format!("{}{}", said.out, said.err);
    stage.show("apply --keep-going", &text);
    ensure(said.code == 1, || format!("apply --keep-going ended with {}:\n{text}", said.code))?;
    let pool = machine.must("sysctl -n vm.nr_hugepages")?;
    ensure(pool.trim() == "0", || format!("the step that fell short left {pool} pages"))?;
    // Until the reboot the server has to come back without huge pages.
    machine
        .must("systemctl restart postgresql@15-main && systemctl is-active postgresql@15-main")?;
    stage.report("PostgreSQL restarts without huge pages meanwhile");
    let mut machine = stage.reboot(machine)?;
    on_huge_pages(stage, &mut machine)?;
    machine.power_off()
}

/// Leaves the machine's memory in pieces, until the unit `fragment` is stopped.
pub(super) fn fragment(stage: &Stage, machine: &mut Machine) -> Result<(), Failure> {
    machine.must(FRAGMENT)?;
    let free = machine.must(
        "awk '/^MemAvailable/ { print int($2 / 1024) }' /proc/meminfo; cat /proc/buddyinfo",
    )?;
    stage.show("memory in pieces", &free);
    Ok(())
}

/// The kernel does not give the pool: apply says so, says what to do instead, and takes everything
/// back.
pub(super) fn falls_short(stage: &Stage, machine: &mut Machine) -> Result<(), Failure> {
    let before = Snapshot::record(machine)?;
    let said = machine.run("hugewise apply --yes")?;
    let text = format!("{}{}", said.out, said.err);
    stage.show("apply", &text);
    ensure(said.code == 2, || format!("apply ended with {}:\n{text}", said.code))?;
    let short = said.err.lines().find(|line| line.contains("and the kernel gave"));
    let short = short.ok_or_else(|| format!("apply does not name the shortfall:\n{text}"))?;
    stage.report(short.trim());
    ensure(short.contains("reserve them at boot"), || {
        format!("apply does not say what to do instead:\n{text}")
    })?;
    Snapshot::record(machine)?.must_be(&before)?;
    stage.report("all of it was taken back");
    Ok(())
}
