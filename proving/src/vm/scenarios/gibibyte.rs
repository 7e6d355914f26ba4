//! Pages of 1 GiB: through GRUB's drop-in where the processor has them, refused with the reason
//! where it has not.

use super::fragmented::{falls_short, fragment};
use super::{apply, undo, verify};
use crate::vm::host::{Snapshot, postgresql};
use crate::vm::{Hardware, Image, Machine, Scenario, Stage, ensure};
use hugewise_testkit::tools::Failure;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "gibibyte",
    shows: "1 GiB pages: what the running kernel cannot give is taken back; by GRUB's drop-in and \
         a reboot PostgreSQL is on \
            them; undo, reboot: as before",
    run,
};

pub(super) const WITHOUT: Scenario = Scenario {
    name: "no-gibibyte",
    shows: "a processor without 1 GiB pages: refused, and the reason is said",
    run: without,
};

/// What an administrator writes who wants such pages, in a file that sorts after the image's own;
/// the server still starts without.
const ASKED: &str = "cat >/etc/postgresql/15/main/conf.d/w-gibibyte.conf <<'end'
huge_page_size = 1GB
shared_buffers = 800MB
end
systemctl restart postgresql@15-main";

fn run(stage: &Stage) -> Result<(), Failure> {
    let disk = stage.disk(Image::Plain)?;
    // With less there is no gibibyte free in one piece even as the kernel starts.
    let mut machine = stage.boot(&disk, Hardware { memory_mib: 4096, ..Hardware::default() })?;
    machine.must(ASKED)?;
    let before = Snapshot::record(&mut machine)?;
    // Memory would do, and has no gibibyte in one piece.
    fragment(stage, &mut machine)?;
    falls_short(stage, &mut machine)?;
    machine.must("systemctl stop fragment")?;
    apply(stage, &mut machine, "--only boot")?;
    let drop_ins = machine.must("cat /etc/default/grub.d/*")?;
    ensure(drop_ins.contains("hugepagesz=1G"), || format!("no drop-in of GRUB:\n{drop_ins}"))?;
    let mut machine = stage.reboot(machine)?;
    let line = machine.must("cat /proc/cmdline")?;
    ensure(line.contains("hugepagesz=1G"), || format!("the kernel was started with {line}"))?;
    stage.report(&format!("booted with {}", line.trim()));
    let server = postgresql(&mut machine)?;
    if server.huge < 800 {
        let why = machine.must(
            "grep -H . /sys/kernel/mm/hugepages/hugepages-1048576kB/*; dmesg | grep -i huge
runuser -u postgres -- psql -Atc 'show huge_page_size' -c 'show shared_memory_size' -c 'show \
                 shared_memory_size_in_huge_pages'",
        )?;
        return Err(format!("PostgreSQL has {} MiB on huge pages:\n{why}", server.huge).into());
    }
    let used = machine.must(
        "cd /sys/kernel/mm/hugepages/hugepages-1048576kB; echo $(($(cat nr_hugepages) - $(cat \
             free_hugepages) + $(cat resv_hugepages)))",
    )?;
    ensure(used.trim() == "1", || format!("{} pages of 1 GiB are used", used.trim()))?;
    stage.report(&format!("PostgreSQL: {} MiB on pages of 1 GiB", server.huge));
    let said = verify(&mut machine)?;
    ensure(said.code == 0, || {
        format!("verify ended with {}:\n{}{}", said.code, said.out, said.err)
    })?;
    undo(stage, &mut machine)?;
    let mut machine = stage.reboot(machine)?;
    Snapshot::record(&mut machine)?.must_be(&before)?;
    stage.report("after undo and reboot every file and value is as before");
    machine.power_off()
}

fn without(stage: &Stage) -> Result<(), Failure> {
    let disk = stage.disk(Image::Plain)?;
    let mut machine =
        stage.boot(&disk, Hardware { cpu: "max,la57=off,pdpe1gb=off", ..Hardware::default() })?;
    let before = Snapshot::record(&mut machine)?;
    refused(stage, &mut machine, "hugewise plan --page-size 1G")?;
    refused(stage, &mut machine, "hugewise apply --yes --page-size 1G")?;
    Snapshot::record(&mut machine)?.must_be(&before)?;
    machine.power_off()
}

fn refused(stage: &Stage, machine: &mut Machine, command: &str) -> Result<(), Failure> {
    let said = machine.run(command)?;
    let text = format!("{}{}", said.out, said.err);
    stage.show(command, &text);
    ensure(said.code != 0, || format!("`{command}` did not refuse:\n{text}"))?;
    let reason = text.lines().find(|line| line.contains("1 GiB") && line.contains("no"));
    let reason = reason.ok_or_else(|| format!("`{command}` does not say why:\n{text}"))?;
    stage.report(&format!("{command}: {}", reason.trim()));
    Ok(())
}
