//! Applies that build on each other, undone in any order, forced or not, whole or killed: what was there before all of
//! them comes back.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::apply::Options;
use crate::journal::{self, State};
use crate::outcome::{End, RestoreResult, Undone};
use crate::plan::{CommandChange, FileChange, PoolRef, ValueChange};
use crate::testing::{Fate, MOMENTS, Machine, Seen, assert_same};
use crate::{Error, Plan, Risk, Step, apply, prepare, recover, undo, unfinished};

use super::{GRUB, GRUB_CFG, LIMITS, POOL, SYSCTL, THP, WHOLE, any, machine, plan};

fn step(id: &str) -> Step {
    Step::new(id, id, Risk::Safe, "a test")
}

fn applied(machine: &Machine, steps: Vec<Step>) {
    let plan = prepare(Plan { steps, ..plan() }, machine).unwrap();
    let end = apply(&plan, machine, Options::default(), &mut |_| {}).unwrap().end;
    assert!(matches!(end, End::Done | End::NothingToDo), "{end:?}");
}

/// The younger changes what the older did, and each has something of its own.
fn three(machine: &Machine) {
    let update = || CommandChange::new(["/usr/sbin/update-grub"], "").undone_by_itself().rewrites(GRUB_CFG);
    let grub = |pages: u64| {
        let words = format!("GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX hugepages={pages}\"\n");
        step("boot").change(FileChange::write(GRUB, words)).change(update())
    };
    applied(
        machine,
        vec![
            step("pool")
                .change(ValueChange::pool(WHOLE, 100))
                .change(FileChange::write(SYSCTL, "vm.nr_hugepages = 100\n")),
            step("thp").change(ValueChange::new(THP, "never")),
            step("group").change(ValueChange::new("/proc/sys/vm/hugetlb_shm_group", "7")),
            grub(1),
        ],
    );
    applied(
        machine,
        vec![
            step("pool")
                .change(ValueChange::pool(WHOLE, 300))
                .change(FileChange::write(SYSCTL, "vm.nr_hugepages = 300\n")),
            // As it was before the first.
            step("thp").change(ValueChange::new(THP, "madvise")),
            grub(2),
        ],
    );
    applied(
        machine,
        vec![
            step("pool").change(ValueChange::pool(WHOLE, 200)),
            step("limits").change(FileChange::write(LIMITS, "postgres - memlock unlimited\n")),
            step("thp").change(ValueChange::new(THP, "always")),
        ],
    );
}

fn by_id(machine: &Machine, id: &str, force: bool) -> Result<Undone, Error> {
    undo(machine, Some(id), force, &mut |_| {})
}

fn states(machine: &Machine) -> BTreeMap<String, State> {
    journal::list(machine).unwrap().0.into_iter().map(|one| (one.id, one.state)).collect()
}

fn orders() -> Vec<[&'static str; 3]> {
    vec![["1", "2", "3"], ["1", "3", "2"], ["2", "1", "3"], ["2", "3", "1"], ["3", "1", "2"], ["3", "2", "1"]]
}

/// Undoes all there is, until there is no more.
fn undo_all(machine: &Machine) {
    for _ in 0..10 {
        match undo(machine, None, false, &mut |_| {}) {
            Ok(undone) => assert!(undone.complete, "{undone:?}"),
            Err(Error::NothingToUndo) => return,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("it does not end: {:?}", states(machine));
}

#[test]
fn in_whatever_order_what_was_before_all_of_them_comes_back() {
    for order in orders() {
        for force in [false, true] {
            let machine = machine();
            let before = machine.seen();
            three(&machine);
            for id in order {
                let undone =
                    by_id(&machine, id, force).unwrap_or_else(|error| panic!("{order:?} {force} {id}: {error}"));
                assert!(undone.complete, "{order:?} {force} {id}: {undone:?}");
                assert_eq!(unfinished(&machine).unwrap().0, None, "{order:?} {force} {id}");
            }
            assert_same(&machine.seen(), &before, &format!("{order:?}, forced: {force}"));
            assert!(states(&machine).values().all(|state| *state == State::Undone), "{:?}", states(&machine));
        }
    }
}

#[test]
fn what_a_younger_apply_has_set_stays_until_that_one_is_undone() {
    let machine = machine();
    three(&machine);
    let undone = by_id(&machine, "1", true).unwrap();
    let waits = |path: &str| {
        undone.restored.iter().any(|one| {
            one.what == path && matches!(&one.result, RestoreResult::Waits { for_apply } if for_apply == "3")
        })
    };
    assert!(waits(POOL) && waits(THP), "{undone:?}");
    assert_eq!((machine.get(POOL).as_deref(), machine.get(THP).as_deref()), (Some("200"), Some("always")));
    assert_eq!(machine.get("/proc/sys/vm/hugetlb_shm_group").as_deref(), Some("0"), "nobody has changed that since");
    assert_eq!(states(&machine)["1"], State::Waiting);
    // An apply in between finds nothing to bring to an end, and is above all of them.
    assert_eq!(recover(&machine, &mut |_| {}), Ok(None));
    by_id(&machine, "3", false).unwrap();
    assert_eq!((machine.get(POOL).as_deref(), machine.get(THP).as_deref()), (Some("300"), Some("madvise")));
    let last = by_id(&machine, "2", false).unwrap();
    assert!(last.notes.iter().any(|note| note.contains("apply 1 waited for this")), "{last:?}");
    assert_eq!((machine.get(POOL).as_deref(), machine.get(THP).as_deref()), (Some("10"), Some("madvise")));
}

#[test]
fn whenever_a_chained_undo_dies_the_host_comes_back_whole() {
    for order in orders() {
        let mut deaths = 0;
        'calls: for call in 1.. {
            for moment in MOMENTS {
                let machine = machine();
                let before = machine.seen();
                three(&machine);
                let fate = Fate::Dies(call, moment);
                let lived =
                    machine.until(fate, |machine| order.map(|id| by_id(machine, id, true).map(|_| ()))).is_some();
                if lived {
                    assert_same(&machine.seen(), &before, &format!("{order:?}"));
                    break 'calls;
                }
                deaths += 1;
                // The rest of that order, or whatever undo finds by itself.
                if call % 2 == 0 {
                    for id in order {
                        match by_id(&machine, id, true) {
                            Ok(_) | Err(Error::AlreadyUndone(_)) => {}
                            Err(error) => panic!("{order:?} {fate:?} {id}: {error}"),
                        }
                    }
                }
                undo_all(&machine);
                assert_same(&machine.seen(), &before, &format!("{order:?} {fate:?}"));
                assert_eq!(unfinished(&machine).unwrap().0, None, "{order:?} {fate:?}");
            }
        }
        assert!(deaths > 60, "{deaths} deaths in {order:?}");
    }
}

#[test]
fn pages_of_a_node_are_a_part_of_the_hosts() {
    let node = PoolRef { node: Some(0), ..WHOLE };
    let machine = machine();
    let before = machine.seen();
    applied(&machine, vec![step("pool").change(ValueChange::pool(WHOLE, 100))]);
    applied(&machine, vec![step("pool").change(ValueChange::pool(node, 40))]);
    assert_eq!(machine.get(POOL).as_deref(), Some("100"));
    let undone = by_id(&machine, "1", true).unwrap();
    assert!(undone.restored.iter().all(|one| matches!(one.result, RestoreResult::Waits { .. })), "{undone:?}");
    by_id(&machine, "2", true).unwrap();
    assert_same(&machine.seen(), &before, "by node");
}

#[test]
fn what_came_between_two_applies_is_nobodys_to_take_silently() {
    let machine = machine();
    applied(&machine, vec![step("file").change(FileChange::write(SYSCTL, "vm.nr_hugepages = 1\n"))]);
    machine.put(SYSCTL, "vm.nr_hugepages = 77\n");
    applied(&machine, vec![step("file").change(FileChange::write(SYSCTL, "vm.nr_hugepages = 2\n"))]);
    by_id(&machine, "1", false).unwrap();
    let undone = by_id(&machine, "2", false).unwrap();
    assert_eq!(machine.get(SYSCTL).as_deref(), Some("vm.nr_hugepages = 77\n"), "{undone:?}");
    assert!(!undone.complete && undone.left()[0].contains(SYSCTL), "{undone:?}");
    assert_eq!(states(&machine)["1"], State::UndoneExcept);
    assert!(by_id(&machine, "1", true).unwrap().complete);
    assert_eq!(machine.get(SYSCTL), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    /// Any plans over the same files and values, undone in any order, some of it killed.
    #[test]
    fn any_plans_in_any_order(
        plans in prop::collection::vec(any::any_plan(), 2..4),
        order in Just(vec!["1", "2", "3"]).prop_shuffle(),
        force in any_bool(),
        fate in any::any_fate(),
    ) {
        let machine = machine();
        let before: BTreeMap<String, Seen> = machine.seen();
        for plan in plans {
            let plan = prepare(plan, &machine).unwrap();
            apply(&plan, &machine, Options::default(), &mut |_| {}).unwrap();
        }
        machine.until(fate, |machine| {
            for id in &order {
                let _ = by_id(machine, id, force);
            }
        });
        for id in &order {
            let _ = by_id(&machine, id, force);
        }
        undo_all(&machine);
        assert_same(&machine.seen(), &before, &format!("{order:?} {force} {fate:?}"));
    }
}

fn any_bool() -> impl Strategy<Value = bool> {
    prop::bool::ANY
}
