//! Applies that build on each other, undone in any order, forced or not, whole or killed: what was
//! there before all of them comes back.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::apply::ApplyOptions;
use crate::journal::{self, JournalState};
use crate::outcome::{ApplyEnd, RestoreResult, Undone};
use crate::plan::{CommandChange, FileChange, PoolRef, ValueChange};
use crate::testing::{Fate, MOMENTS, Machine, Seen, assert_same};
use crate::{
    Error, Plan, Risk, Step, apply_plan, find_unfinished_apply, prepare_plan, recover_interrupted,
    undo_apply,
};

use super::{GRUB, GRUB_CFG, LIMITS, POOL, SYSCTL, THP, WHOLE, any, machine, plan};

fn step(id: &str) -> Step {
    Step::new(id, id, Risk::Safe, "a test")
}

fn applied(machine: &Machine, steps: Vec<Step>) {
    let plan = prepare_plan(Plan { steps, ..plan() }, machine).unwrap();
    let end = apply_plan(&plan, machine, ApplyOptions::default(), &mut |_| {}).unwrap().end;
    assert!(matches!(end, ApplyEnd::Done | ApplyEnd::NothingToDo), "{end:?}");
}

/// The younger changes what the older did, and each has something of its own.
fn three(machine: &Machine) {
    let boot = |pages: u64| step("boot").with_change(grub(pages)).with_change(update());
    applied(
        machine,
        vec![
            step("pool")
                .with_change(ValueChange::for_pool(WHOLE, 100))
                .with_change(FileChange::write(SYSCTL, "vm.nr_hugepages = 100\n")),
            step("thp").with_change(ValueChange::new(THP, "never")),
            step("group").with_change(ValueChange::new("/proc/sys/vm/hugetlb_shm_group", "7")),
            boot(1),
        ],
    );
    applied(
        machine,
        vec![
            step("pool")
                .with_change(ValueChange::for_pool(WHOLE, 300))
                .with_change(FileChange::write(SYSCTL, "vm.nr_hugepages = 300\n")),
            // As it was before the first.
            step("thp").with_change(ValueChange::new(THP, "madvise")),
            boot(2),
        ],
    );
    applied(
        machine,
        vec![
            step("pool").with_change(ValueChange::for_pool(WHOLE, 200)),
            step("limits").with_change(FileChange::write(LIMITS, "postgres - memlock unlimited\n")),
            step("thp").with_change(ValueChange::new(THP, "always")),
        ],
    );
}

fn by_id(machine: &Machine, id: &str, force: bool) -> Result<Undone, Error> {
    undo_apply(machine, Some(id), force, &mut |_| {})
}

fn states(machine: &Machine) -> BTreeMap<String, JournalState> {
    journal::list_journals(machine).unwrap().0.into_iter().map(|one| (one.id, one.state)).collect()
}

fn orders() -> Vec<[&'static str; 3]> {
    vec![
        ["1", "2", "3"],
        ["1", "3", "2"],
        ["2", "1", "3"],
        ["2", "3", "1"],
        ["3", "1", "2"],
        ["3", "2", "1"],
    ]
}

/// Undoes all there is, until there is no more.
fn undo_all(machine: &Machine) {
    for _ in 0..10 {
        match undo_apply(machine, None, false, &mut |_| {}) {
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
                let undone = by_id(&machine, id, force)
                    .unwrap_or_else(|error| panic!("{order:?} {force} {id}: {error}"));
                assert!(undone.complete, "{order:?} {force} {id}: {undone:?}");
                assert_eq!(
                    find_unfinished_apply(&machine).unwrap().0,
                    None,
                    "{order:?} {force} {id}"
                );
            }
            assert_same(&machine.seen(), &before, &format!("{order:?}, forced: {force}"));
            assert!(
                states(&machine).values().all(|state| *state == JournalState::Undone),
                "{:?}",
                states(&machine)
            );
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
            one.what == path
                && matches!(&one.result, RestoreResult::Waits { for_apply } if for_apply == "3")
        })
    };
    assert!(waits(POOL) && waits(THP), "{undone:?}");
    assert_eq!(
        (machine.get(POOL).as_deref(), machine.get(THP).as_deref()),
        (Some("200"), Some("always"))
    );
    assert_eq!(
        machine.get("/proc/sys/vm/hugetlb_shm_group").as_deref(),
        Some("0"),
        "nobody has changed that since"
    );
    assert_eq!(states(&machine)["1"], JournalState::Waiting);
    // An apply in between finds nothing to bring to an end, and is above all of them.
    assert_eq!(recover_interrupted(&machine, &mut |_| {}), Ok(None));
    by_id(&machine, "3", false).unwrap();
    assert_eq!(
        (machine.get(POOL).as_deref(), machine.get(THP).as_deref()),
        (Some("300"), Some("madvise"))
    );
    let last = by_id(&machine, "2", false).unwrap();
    assert!(
        last.notes.iter().any(|note| note.contains("apply 1 was waiting for this")),
        "{last:?}"
    );
    assert_eq!(
        (machine.get(POOL).as_deref(), machine.get(THP).as_deref()),
        (Some("10"), Some("madvise"))
    );
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
                let lived = machine
                    .until(fate, |machine| order.map(|id| by_id(machine, id, true).map(|_| ())))
                    .is_some();
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
                assert_eq!(find_unfinished_apply(&machine).unwrap().0, None, "{order:?} {fate:?}");
            }
        }
        assert!(deaths > 60, "{deaths} deaths in {order:?}");
    }
}

/// Applies and undoes with one call after the other failing, and tries again.
fn comes_back_whatever_fails(plans: &[Vec<Step>], order: &[&str]) {
    for call in 1.. {
        let machine = machine();
        let before = machine.seen();
        for steps in plans {
            applied(&machine, steps.clone());
        }
        machine.until(Fate::Fails(call), |machine| {
            for id in order {
                let _ = by_id(machine, id, true);
            }
        });
        let met = machine.calls() >= call;
        for id in order {
            match by_id(&machine, id, true) {
                Ok(_) | Err(Error::AlreadyUndone(_)) => {}
                Err(error) => panic!("call {call}, {id}: {error}"),
            }
        }
        undo_all(&machine);
        assert_same(&machine.seen(), &before, &format!("call {call} failed"));
        if !met {
            assert!(call > 10, "{call} calls");
            return;
        }
    }
}

fn update() -> CommandChange {
    CommandChange::new(["/usr/sbin/update-grub"], "")
        .undone_by_itself()
        .with_rewritten_file(GRUB_CFG)
}

fn grub(pages: u64) -> FileChange {
    FileChange::write(
        GRUB,
        format!("GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX hugepages={pages}\"\n"),
    )
}

/// What a boot loader's command reads may be another step's, and that one may wait for a younger
/// apply.
#[test]
fn a_command_that_failed_runs_again_when_what_it_reads_is_back() {
    let pool = step("pool")
        .with_change(FileChange::write(SYSCTL, "vm.nr_hugepages = 0\n"))
        .with_change(update());
    let plans =
        [vec![pool, step("boot").with_change(grub(1))], vec![step("boot").with_change(grub(0))]];
    comes_back_whatever_fails(&plans, &["1", "2"]);
    comes_back_whatever_fails(&plans, &["2", "1"]);
}

#[test]
fn one_of_two_commands_that_failed_knows_what_was_there_before_the_other() {
    let limits = |size: u64| FileChange::write(LIMITS, format!("postgres - memlock {size}\n"));
    let plans = [
        vec![step("boot").with_change(limits(1)).with_change(grub(2))],
        vec![
            step("boot").with_change(update()).with_change(update()),
            step("limits").with_change(limits(2)),
        ],
    ];
    comes_back_whatever_fails(&plans, &["2", "1"]);
    comes_back_whatever_fails(&plans, &["1", "2"]);
}

/// An undo ends although something of it can never be put back, and although the rest waits.
#[test]
fn what_can_never_be_put_back_is_not_tried_for_ever() {
    let machine = machine();
    three(&machine);
    machine.fails.set("update-grub");
    let undone = by_id(&machine, "1", true).unwrap();
    assert!(
        undone.restored.iter().any(|one| matches!(one.result, RestoreResult::Waits { .. })),
        "{undone:?}"
    );
    by_id(&machine, "3", true).unwrap();
    let undone = by_id(&machine, "2", true).unwrap();
    assert!(
        !undone.complete
            && undone.describe_leftovers().iter().any(|left| left.contains("update-grub")),
        "{undone:?}"
    );
    assert_eq!(recover_interrupted(&machine, &mut |_| {}), Ok(None));
}

#[test]
fn pages_of_a_node_are_a_part_of_the_hosts() {
    let node = PoolRef { node: Some(0), ..WHOLE };
    let machine = machine();
    let before = machine.seen();
    applied(&machine, vec![step("pool").with_change(ValueChange::for_pool(WHOLE, 100))]);
    applied(&machine, vec![step("pool").with_change(ValueChange::for_pool(node, 40))]);
    assert_eq!(machine.get(POOL).as_deref(), Some("100"));
    let undone = by_id(&machine, "1", true).unwrap();
    assert!(
        undone.restored.iter().all(|one| matches!(one.result, RestoreResult::Waits { .. })),
        "{undone:?}"
    );
    by_id(&machine, "2", true).unwrap();
    assert_same(&machine.seen(), &before, "by node");
}

#[test]
fn what_came_between_two_applies_is_nobodys_to_take_silently() {
    let machine = machine();
    applied(
        &machine,
        vec![step("file").with_change(FileChange::write(SYSCTL, "vm.nr_hugepages = 1\n"))],
    );
    machine.put(SYSCTL, "vm.nr_hugepages = 77\n");
    applied(
        &machine,
        vec![step("file").with_change(FileChange::write(SYSCTL, "vm.nr_hugepages = 2\n"))],
    );
    by_id(&machine, "1", false).unwrap();
    let undone = by_id(&machine, "2", false).unwrap();
    assert_eq!(machine.get(SYSCTL).as_deref(), Some("vm.nr_hugepages = 77\n"), "{undone:?}");
    assert!(!undone.complete && undone.describe_leftovers()[0].contains(SYSCTL), "{undone:?}");
    assert_eq!(states(&machine)["1"], JournalState::UndoneExcept);
    assert!(by_id(&machine, "1", true).unwrap().complete);
    assert_eq!(machine.get(SYSCTL), None);
}

/// A command of an undo has made its file anew out of what a younger apply has configured, and the
/// old bytes could not be put back: the next try knows that the file is its own doing.
#[test]
fn a_file_that_an_undo_has_made_and_not_put_back_is_not_taken_for_anybody_elses() {
    let pool = |pages: u64| step("pool").with_change(ValueChange::for_pool(WHOLE, pages));
    let plans = [
        vec![step("boot").with_change(grub(3))],
        vec![pool(100), step("menu").with_change(update()).with_change(update())],
        vec![pool(0), step("boot").with_change(grub(0))],
    ];
    for order in orders() {
        comes_back_whatever_fails(&plans, &order);
    }
}

/// An older apply has configured what the command of a younger one reads, and has none of its own.
#[test]
fn a_file_that_a_younger_apply_has_made_comes_back_with_what_it_was_made_of() {
    let plans = [
        vec![
            step("boot").with_change(grub(1)),
            step("limits").with_change(FileChange::write(LIMITS, "postgres - memlock 0\n")),
        ],
        vec![step("menu").with_change(update())],
        vec![step("boot").with_change(grub(0)), step("menu").with_change(update())],
    ];
    for order in orders() {
        comes_back_whatever_fails(&plans, &order);
    }
}

proptest! {
    #![proptest_config(any::reproducible(120))]

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
            let plan = prepare_plan(plan, &machine).unwrap();
            apply_plan(&plan, &machine, ApplyOptions::default(), &mut |_| {}).unwrap();
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

/// Somebody applies a plan, restarts the server by a second one, and wants the host back.
#[test]
fn an_apply_that_only_restarted_servers_is_not_what_is_undone() {
    let machine = machine();
    let before = machine.seen();
    applied(&machine, vec![step("thp").with_change(ValueChange::new(THP, "never"))]);
    applied(&machine, vec![step("thp").with_change(ValueChange::new(THP, "always"))]);
    let restart = CommandChange::new(
        ["/usr/bin/systemctl", "restart", "postgresql@15-main.service"],
        "a test",
    );
    applied(&machine, vec![step("restart").with_change(restart)]);

    let undone = undo_apply(&machine, None, false, &mut |_| {}).unwrap();
    assert_eq!(undone.journal, "2");
    assert_eq!(undone.notes, ["apply 1 is still in place: hugewise undo 1 reverses it"]);
    let undone = undo_apply(&machine, None, false, &mut |_| {}).unwrap();
    assert_eq!((undone.journal.as_str(), undone.notes.len()), ("1", 0));
    assert_same(&machine.seen(), &before, "both are undone");
    assert_eq!(undo_apply(&machine, None, false, &mut |_| {}), Err(Error::NothingToUndo));
}
