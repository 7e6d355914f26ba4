//! A death and a failure at every call, and every sequence of two.

use std::collections::BTreeMap;

use crate::apply::ApplyOptions;
use crate::outcome::{ApplyEnd, ApplyResult};
use crate::testing::{Fate, MOMENTS, Machine, Seen, assert_same};
use crate::{Error, Plan, apply_plan, find_unfinished_apply, prepare_plan, undo_apply};

use super::{machine, plan};

fn applied(machine: &Machine, plan: &Plan) -> Result<ApplyResult, Error> {
    apply_plan(plan, machine, ApplyOptions::default(), &mut |_| {})
}

fn undone(machine: &Machine) {
    match undo_apply(machine, None, false, &mut |_| {}) {
        Ok(undone) => assert!(undone.complete, "{undone:?}"),
        Err(Error::NothingToUndo) => {}
        Err(error) => panic!("{error}"),
    }
}

fn states() -> (Plan, BTreeMap<String, Seen>, BTreeMap<String, Seen>) {
    let machine = machine();
    let plan = prepare_plan(plan(), &machine).unwrap();
    let before = machine.seen();
    assert_eq!(applied(&machine, &plan).unwrap().end, ApplyEnd::Done);
    let after = machine.seen();
    assert_ne!(before, after);
    (plan, before, after)
}

/// Every moment of every call, one after the other, until a run survives; how many died.
fn each_death(mut survives: impl FnMut(Fate) -> bool) -> usize {
    let fates = (1..).flat_map(|call| MOMENTS.map(|moment| Fate::Dies(call, moment)));
    fates.take_while(|fate| !survives(*fate)).count()
}

#[test]
fn whenever_it_dies_undo_brings_everything_back_and_a_second_apply_everything_forward() {
    let (plan, before, after) = states();
    let points = each_death(|fate| {
        let back = machine();
        if back.until(fate, |machine| applied(machine, &plan)).is_some() {
            return true;
        }
        // Whoever only looks is told of it.
        let told = find_unfinished_apply(&back).unwrap().0;
        let whole = [&before, &after].contains(&&back.seen());
        assert!(told.is_some() || whole, "half changed after {fate:?}, and nobody says so");
        undone(&back);
        assert_eq!(find_unfinished_apply(&back).unwrap().0, None);
        assert_same(&back.seen(), &before, &format!("undo after {fate:?}"));
        let forth = machine();
        assert!(forth.until(fate, |machine| applied(machine, &plan)).is_none());
        let second = applied(&forth, &plan).unwrap();
        assert!(
            matches!(second.end, ApplyEnd::Done | ApplyEnd::NothingToDo),
            "{second:?} after {fate:?}"
        );
        assert_eq!(find_unfinished_apply(&forth).unwrap().0, None);
        assert_same(&forth.seen(), &after, &format!("second apply after {fate:?}"));
        undone(&forth);
        assert_same(&forth.seen(), &before, &format!("undo of the second apply after {fate:?}"));
        false
    });
    println!("{points} deaths of apply");
    assert!(points > 100);
}

#[test]
fn whenever_undo_dies_the_next_one_ends_it() {
    let (plan, before, after) = states();
    let points = each_death(|fate| {
        let machine = machine();
        applied(&machine, &plan).unwrap();
        if machine.until(fate, undone).is_some() {
            return true;
        }
        undone(&machine);
        assert_same(&machine.seen(), &before, &format!("{fate:?}"));
        let machine = super::machine();
        applied(&machine, &plan).unwrap();
        machine.until(fate, undone);
        applied(&machine, &plan).unwrap();
        assert_same(&machine.seen(), &after, &format!("apply after an undo with {fate:?}"));
        false
    });
    println!("{points} deaths of undo");
    assert!(points > 50);
}

#[test]
fn an_undo_that_dies_after_an_apply_that_died() {
    let (plan, before, _) = states();
    let (mut pairs, mut first) = (0, 1);
    loop {
        // Strides, so that over the run every kind of call meets every other one.
        let moment = MOMENTS[first % 3];
        let probe = machine();
        if probe.until(Fate::Dies(first, moment), |machine| applied(machine, &plan)).is_some() {
            break;
        }
        let mut second = 1 + first % 3;
        loop {
            let machine = machine();
            machine.until(Fate::Dies(first, moment), |machine| applied(machine, &plan));
            if machine.until(Fate::Dies(second, MOMENTS[second % 3]), undone).is_some() {
                break;
            }
            undone(&machine);
            assert_same(
                &machine.seen(),
                &before,
                &format!("apply died at {first}, undo at {second}"),
            );
            pairs += 1;
            second += 3;
        }
        first += 3;
    }
    println!("{pairs} pairs of deaths");
    assert!(pairs > 50);
}

#[test]
fn whatever_fails_the_host_is_as_before() {
    let (plan, before, after) = states();
    for call in 1.. {
        let machine = machine();
        let fate = Fate::Fails(call);
        let result = machine.until(fate, |machine| applied(machine, &plan)).unwrap();
        if machine.calls() < call {
            break;
        }
        match result {
            // Compaction may fail; the pages obtained tell.
            Ok(ApplyResult { end: ApplyEnd::Done, .. }) => {
                assert_same(&machine.seen(), &after, &format!("{fate:?}"))
            }
            Ok(ApplyResult { end: ApplyEnd::TakenBack, .. }) | Err(_) => {
                assert_same(&machine.seen(), &before, &format!("{fate:?}"))
            }
            Ok(other) => panic!("{other:?} with {fate:?}"),
        }
        // And it is nothing that a second try could not do.
        assert_eq!(applied(&machine, &plan).unwrap().end, ApplyEnd::Done, "{fate:?}");
        assert_same(&machine.seen(), &after, &format!("{fate:?}"));
    }
}
