//! Two NUMA nodes: each has its part of the pool, before the reboot and after it.

use std::collections::BTreeMap;

use super::main::on_huge_pages;
use super::{apply, check, must_find};
use crate::vm::{Hardware, Image, Machine, Scenario, Stage, ensure};
use hugewise_testkit::tools::Failure;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "nodes",
    shows: "two NUMA nodes: the pool of each node is kept over a reboot",
    run,
};

fn run(stage: &Stage) -> Result<(), Failure> {
    let disk = stage.disk(Image::Plain)?;
    let hardware = Hardware { memory_mib: 1024, nodes: 2, ..Hardware::default() };
    let mut machine = stage.boot(&disk, hardware)?;
    must_find(stage, &check(&mut machine)?, "HW201")?;
    apply(stage, &mut machine, "")?;
    let now = pools(&mut machine)?;
    stage.report(&format!("pages by node after apply: {now:?}"));
    let (least, most) = (now.values().min().copied(), now.values().max().copied());
    ensure(now.len() == 2 && least.is_some_and(|pages| pages > 0), || {
        format!("no pool on each node: {now:?}")
    })?;
    ensure(most.zip(least).is_some_and(|(most, least)| most - least <= 1), || {
        format!("uneven: {now:?}")
    })?;
    let mut machine = stage.reboot(machine)?;
    let then = pools(&mut machine)?;
    stage.report(&format!("pages by node after the reboot: {then:?}"));
    ensure(now == then, || format!("before the reboot {now:?}, after it {then:?}"))?;
    on_huge_pages(stage, &mut machine)?;
    machine.power_off()
}

/// Pages of 2 MiB by node.
fn pools(machine: &mut Machine) -> Result<BTreeMap<u32, u64>, Failure> {
    let text = machine.must(
        "cd /sys/devices/system/node
for node in node*; do echo ${node#node} $(cat $node/hugepages/hugepages-2048kB/nr_hugepages); done",
    )?;
    let line = |line: &str| {
        let (node, pages) = line.split_once(' ')?;
        Some((node.parse().ok()?, pages.parse().ok()?))
    };
    text.lines()
        .map(|other_text| line(other_text).ok_or_else(|| format!("no pool: {other_text}").into()))
        .collect()
}
