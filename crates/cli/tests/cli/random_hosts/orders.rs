//! A plan's steps in every order that it allows: each after those that it relies on.

use std::collections::{BTreeMap, VecDeque};

use hugewise_change::plan::Plan;

use crate::random_hosts::world::World;

/// So many states between the steps are looked at; plans of up to six steps have no more.
const MOST: usize = 64;

/// The host as it may be while the plan is carried out, each with the steps that were done by then,
/// and the whole plan's last.
///
/// Which of two steps that may change places came first makes no difference to what is looked at
/// here; which were done does.
pub(crate) fn between(world: &World, plan: &Plan) -> Vec<(String, World)> {
    let place = |id: &String| plan.steps.iter().position(|step| step.id == *id);
    let before: Vec<Vec<usize>> =
        plan.steps.iter().map(|step| step.relies_on.iter().filter_map(place).collect()).collect();
    let mut seen: BTreeMap<u64, World> = BTreeMap::from([(0, world.clone())]);
    let mut next = VecDeque::from([0_u64]);
    let mut states = Vec::new();
    while let Some(done) = next.pop_front() {
        let there = seen[&done].clone();
        for (at, step) in plan.steps.iter().enumerate() {
            let then = done | 1 << at;
            let may = then != done && before[at].iter().all(|needed| done & (1 << needed) != 0);
            // The plan's own order is always among them.
            let is_own = done == (1 << at) - 1;
            if !may || seen.contains_key(&then) || (seen.len() >= MOST && !is_own) {
                continue;
            }
            let mut after = there.clone();
            after.carry_out(step);
            states.push((format!("after {}", names(plan, then)), after.clone()));
            seen.insert(then, after);
            next.push_back(then);
        }
    }
    states
}

fn names(plan: &Plan, done: u64) -> String {
    let steps = plan.steps.iter().enumerate().filter(|(at, _)| done & (1 << at) != 0);
    steps.map(|(_, step)| step.id.as_str()).collect::<Vec<_>>().join("+")
}
