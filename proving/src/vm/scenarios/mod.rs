//! The scenarios, one file each.

mod arm64;
mod fragmented;
mod gibibyte;
mod itself;
mod kernels;
mod main;
mod memlock;
mod moments;
mod nodes;
mod power;
mod recorder;
mod rollout;
mod sent;
mod served;
mod stories;
mod tuned;

use serde_json::Value;

use super::{Scenario, Stage, ensure};
use crate::vm::machine::{CommandOutput, Machine};
use hugewise_testkit::tools::Failure;

/// In the order in which they run.
pub(super) static ALL: &[Scenario] = &[
    itself::SCENARIO,
    main::SCENARIO,
    nodes::SCENARIO,
    gibibyte::SCENARIO,
    gibibyte::WITHOUT,
    tuned::SCENARIO,
    fragmented::SCENARIO,
    memlock::SCENARIO,
    kernels::SCENARIO,
    moments::SCENARIO,
    power::SCENARIO,
    recorder::SCENARIO,
    rollout::BEFORE,
    rollout::SCENARIO,
    sent::SCENARIO,
    served::SCENARIO,
    stories::SCENARIO,
    arm64::SCENARIO,
];

/// What check says, as JSON.
fn check(machine: &mut Machine) -> Result<Value, Failure> {
    let said = machine.run("hugewise check --format json")?;
    ensure(said.code <= 1, || format!("check ended with {}: {}{}", said.code, said.out, said.err))?;
    Ok(serde_json::from_str(&said.out)?)
}

/// That finding of check's.
fn finding<'a>(check: &'a Value, code: &str) -> Option<&'a Value> {
    check["findings"].as_array()?.iter().find(|finding| finding["code"] == code)
}

/// Says what check found.
fn must_find(stage: &Stage, check: &Value, code: &str) -> Result<(), Failure> {
    let found = finding(check, code)
        .ok_or_else(|| format!("check has no {code}: {:#}", check["findings"]))?;
    stage.report(&format!("check: {code} {}", found["summary"].as_str().unwrap_or_default()));
    Ok(())
}

/// Applies what `plan` with the same arguments shows; its output.
fn apply(stage: &Stage, machine: &mut Machine, arguments: &str) -> Result<String, Failure> {
    let said = machine.run(&format!("hugewise apply --yes {arguments}"))?;
    let text = format!("{}{}", said.out, said.err);
    ensure(said.code == 0, || format!("apply ended with {}:\n{text}", said.code))?;
    stage.show(format!("apply {arguments}").trim(), &text);
    Ok(text)
}

fn undo(stage: &Stage, machine: &mut Machine) -> Result<String, Failure> {
    let said = machine.run("hugewise undo")?;
    let text = format!("{}{}", said.out, said.err);
    ensure(said.code == 0, || format!("undo ended with {}:\n{text}", said.code))?;
    stage.show("undo", &text);
    Ok(text)
}

fn verify(machine: &mut Machine) -> Result<CommandOutput, Failure> {
    machine.run("hugewise verify")
}
