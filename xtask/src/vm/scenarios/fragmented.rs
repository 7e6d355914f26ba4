//! Memory in pieces: the running kernel cannot give the pool, so the next boot does.

use super::main::on_huge_pages;
use super::{check, must_find};
use crate::Failure;
use crate::vm::host::Snapshot;
use crate::vm::{Hardware, Image, Machine, Scenario, Stage, ensure};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "fragmented",
    shows: "fragmented memory: the shortfall is said and taken back; a reservation at boot works after a reboot",
    run,
};

/// Takes nearly all free memory in base pages and gives back all but four pages of each 2 MiB. These are held by pipes,
/// and such pages the kernel cannot move.
const FRAGMENT: &str = r#"cat >/run/fragment <<'end'
use strict;
my ($mmap, $munmap, $madvise, $vmsplice) = (9, 11, 28, 278);
my ($available) = `cat /proc/meminfo` =~ /MemAvailable:\s+(\d+)/;
my $size = ($available - 120_000) * 1024 & ~0x1fffff;
my $start = syscall($mmap, 0, $size, 3, 0x22, -1, 0);
die "mmap: $!" if $start == -1;
my $aligned = ($start + 0x1fffff) & ~0x1fffff;
# No THP; then every page is touched (MADV_POPULATE_WRITE).
syscall($madvise, $start, $size, 15) == 0 or die "madvise: $!";
syscall($madvise, $start, $size, 23) == 0 or die "populate: $!";
my @pipes;
my $room = 0;
for (my $at = $aligned; $at < $start + $size; $at += 0x80000) {
    if (!$room) { pipe(my $out, my $in) or die "pipe: $!"; push @pipes, [$out, $in]; $room = 16; }
    my $piece = pack('QQ', $at, 4096);
    syscall($vmsplice, fileno($pipes[-1][1]), $piece, 1, 0) == 4096 or die "vmsplice: $!";
    $room--;
}
syscall($munmap, $start, $size) == 0 or die "munmap: $!";
open(my $ready, '>', '/run/fragmented');
close $ready;
sleep;
end
systemd-run --quiet --unit=fragment --property=OOMScoreAdjust=-1000 --property=LimitNOFILE=65536 perl /run/fragment
for second in $(seq 300); do [ -e /run/fragmented ] && exit; systemctl is-active --quiet fragment || break; sleep 1; done
journalctl -u fragment --no-pager >&2
exit 1
"#;

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
    machine.must("systemctl restart postgresql@15-main && systemctl is-active postgresql@15-main")?;
    stage.say("PostgreSQL restarts without huge pages meanwhile");
    let mut machine = stage.reboot(machine)?;
    on_huge_pages(stage, &mut machine)?;
    machine.power_off()
}

/// Leaves the machine's memory in pieces, until the unit `fragment` is stopped.
pub(super) fn fragment(stage: &Stage, machine: &mut Machine) -> Result<(), Failure> {
    machine.must(FRAGMENT)?;
    let free = machine.must("awk '/^MemAvailable/ { print int($2 / 1024) }' /proc/meminfo; cat /proc/buddyinfo")?;
    stage.show("memory in pieces", &free);
    Ok(())
}

/// The kernel does not give the pool: apply says so, says what to do instead, and takes everything back.
pub(super) fn falls_short(stage: &Stage, machine: &mut Machine) -> Result<(), Failure> {
    let before = Snapshot::of(machine)?;
    let said = machine.run("hugewise apply --yes")?;
    let text = format!("{}{}", said.out, said.err);
    stage.show("apply", &text);
    ensure(said.code == 2, || format!("apply ended with {}:\n{text}", said.code))?;
    let short = said.err.lines().find(|line| line.contains("and the kernel gave"));
    let short = short.ok_or_else(|| format!("apply does not name the shortfall:\n{text}"))?;
    stage.say(short.trim());
    ensure(short.contains("reserve them at boot"), || format!("apply does not say what to do instead:\n{text}"))?;
    Snapshot::of(machine)?.must_be(&before)?;
    stage.say("all of it was taken back");
    Ok(())
}
