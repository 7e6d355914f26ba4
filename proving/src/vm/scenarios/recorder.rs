//! The flight recorder under its unit, killed and with the power cut: what is lost.

use serde_json::Value;

use crate::vm::machine::Machine;
use crate::vm::{Hardware, Image, Scenario, Stage, ensure};
use hugewise_testkit::tools::Failure;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "record",
    shows: "hugewise record under its hardened unit: nothing is lacking, a kill loses nothing, a \
         power cut 5 s at most",
    run,
};

const UNIT: &str = include_str!("../../../../packaging/systemd/hugewise-record.service");

/// Seconds that a power cut may cost.
const MOST_LOST: f64 = 5.0;
/// Power cuts, at moments that have nothing to do with the recorder's.
const CUTS: u32 = 2;

fn run(stage: &Stage) -> Result<(), Failure> {
    let disk = stage.disk(Image::Plain)?;
    let mut machine = stage.boot(&disk, Hardware::default())?;
    // Rings that are read through quickly on an emulated processor.
    let unit = UNIT.replace("hugewise record\n", "hugewise record --hours 1 --days 1\n");
    machine.must(&format!(
        "set -e
cp /usr/local/bin/hugewise /usr/bin/hugewise
cat >/etc/systemd/system/hugewise-record.service <<'end of file'\n{unit}end of file
systemctl daemon-reload
systemctl enable --quiet --now hugewise-record
sleep 20
"
    ))?;
    let status = status(&mut machine)?;
    ensure(status.pointer("/recording") == Some(&Value::Bool(true)), || {
        format!("it does not record: {status:#}")
    })?;
    let lacks = status
        .pointer("/rings/0/lacks")
        .and_then(Value::as_array)
        .ok_or("no word of what it lacks")?;
    let lacks: Vec<&str> = lacks.iter().filter_map(Value::as_str).collect();
    stage.report(&format!("under its unit it does without: {lacks:?}"));
    let rights = ["locked memory", "real-time", "OOM", "messages"];
    let wrong: Vec<_> =
        lacks.iter().filter(|lack| rights.iter().any(|word| lack.contains(word))).collect();
    ensure(wrong.is_empty(), || format!("the unit does not give it: {wrong:?}"))?;
    // On an emulated processor its samples may be dear enough for it to step back, which it says.
    let policy = machine
        .must("chrt -p $(systemctl show hugewise-record --property MainPID --value) | head -n 1")?;
    let said = machine.must(
        "hugewise record export --format json --out /run/all.json && grep -c 'no longer runs \
             before all others' /run/all.json || true",
    )?;
    ensure(policy.contains("SCHED_FIFO") || said.trim() != "0", || {
        format!("it does not run before others: {policy}")
    })?;
    stage.report(policy.trim());

    let before = samples(&mut machine)?;
    machine.must("systemctl kill --signal=KILL hugewise-record; sleep 6")?;
    let after = samples(&mut machine)?;
    ensure(before.iter().all(|time| after.contains(time)) && after.len() > before.len(), || {
        format!("{} samples before it was killed, {} afterwards", before.len(), after.len())
    })?;
    stage.report(&format!(
        "killed and begun anew by systemd: {} samples before, all still there, {} now",
        before.len(),
        after.len()
    ));

    for cut in 0..CUTS {
        machine.must(&format!("sleep {}.{}", 7 + cut, cut * 3))?;
        let now: f64 = machine.must("date +%s.%N")?.trim().parse()?;
        machine = stage.power_cut(machine)?;
        let all = times(&mut machine)?;
        // Of the boot before: those that came since are later than the machine's own boot.
        let last = all.iter().copied().filter(|time| *time <= now + 1.0).fold(0.0, f64::max);
        let lost = now - last;
        stage.report(&format!("power cut {}: the last sample is of {lost:.1} s before", cut + 1));
        ensure(lost <= MOST_LOST, || format!("a power cut cost {lost:.1} s"))?;
        let torn = self::status(&mut machine)?
            .pointer("/rings/0/torn_blocks")
            .and_then(Value::as_u64)
            .unwrap_or(0);
        ensure(torn <= 1, || format!("{torn} blocks are torn"))?;
    }
    machine.power_off()
}

fn status(machine: &mut Machine) -> Result<Value, Failure> {
    let said = machine.run("hugewise record status --format json")?;
    serde_json::from_str(&said.out)
        .map_err(|error| format!("status: {error}: {}{}", said.out, said.err).into())
}

/// The times of all samples of seconds, as they are written.
fn samples(machine: &mut Machine) -> Result<Vec<String>, Failure> {
    let text = machine.must(
        "hugewise record export /var/lib/hugewise/record/seconds.ring --format csv --out \
             /run/out.csv && cut -d, -f3 /run/out.csv | tail -n +2",
    )?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// The same in seconds since 1970.
fn times(machine: &mut Machine) -> Result<Vec<f64>, Failure> {
    samples(machine)?;
    let text = machine.must("cut -d, -f3 /run/out.csv | tail -n +2 | date -f - +%s.%N")?;
    text.lines().map(|line| line.parse().map_err(Failure::from)).collect()
}
