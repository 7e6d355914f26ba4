//! Any plan, and deaths at any two calls.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::apply::ApplyOptions;
use crate::outcome::ApplyEnd;
use crate::plan::{Change, CommandChange, FileChange, ValueChange};
use crate::testing::{Fate, MOMENTS, Machine, assert_same};
use crate::{Error, Plan, Risk, Step, apply_plan, prepare_plan, undo_apply};

use super::{GRUB, GRUB_CFG, LIMITS, PROFILE, SYSCTL, THP, UNIT, WHOLE, machine, plan};

/// Paths that are there and that are not, changed again and again.
fn any_change() -> impl Strategy<Value = Change> {
    let number = 0..4_u64;
    let setting = |pages: u64| format!("vm.nr_hugepages = {pages}\n");
    let update = || {
        CommandChange::new(["/usr/sbin/update-grub"], "")
            .undone_by_itself()
            .with_rewritten_file(GRUB_CFG)
    };
    let tuned = || {
        CommandChange::new(["/usr/sbin/tuned-adm", "profile", "hugewise"], "")
            .undone_by(["/usr/sbin/tuned-adm", "profile", "virtual-guest"])
            .with_rewritten_file(PROFILE)
            .unless_file_holds(PROFILE, "hugewise")
    };
    prop_oneof![
        number.clone().prop_map(|pages| ValueChange::for_pool(WHOLE, pages * 100).into()),
        prop::sample::select(vec!["always", "madvise", "never"])
            .prop_map(|word| ValueChange::new(THP, word).into()),
        number.clone().prop_map(move |pages| FileChange::write(SYSCTL, setting(pages)).into()),
        number.clone().prop_map(|size| FileChange::write(
            LIMITS,
            format!("postgres - memlock {size}\n")
        )
        .into()),
        number.clone().prop_map(|size| FileChange::write(
            UNIT,
            format!("[Service]\nLimitMEMLOCK={size}M\n")
        )
        .into()),
        number.prop_map(|pages| {
            let words = format!("GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX hugepages={pages}\"\n");
            FileChange::write(GRUB, words).into()
        }),
        prop::sample::select(vec![SYSCTL, LIMITS, UNIT, GRUB])
            .prop_map(|path| FileChange::remove(path).into()),
        Just(()).prop_map(move |()| update().into()),
        Just(()).prop_map(move |()| tuned().into()),
    ]
}

pub(super) fn any_plan() -> impl Strategy<Value = Plan> {
    let step = prop::collection::vec(any_change(), 1..4);
    prop::collection::vec(step, 1..5).prop_map(|steps| {
        let step = |(place, changes)| {
            let id = format!("step-{place}");
            Step { changes, ..Step::new(id, "any", Risk::Safe, "any") }
        };
        Plan { steps: steps.into_iter().enumerate().map(step).collect(), ..plan() }
    })
}

pub(super) fn any_fate() -> impl Strategy<Value = Fate> {
    let dies = (1..60_usize, prop::sample::select(MOMENTS.to_vec()))
        .prop_map(|(call, moment)| Fate::Dies(call, moment));
    prop_oneof![8 => dies, 2 => (1..60_usize).prop_map(Fate::Fails), 1 => Just(Fate::Lives)]
}

fn undone(machine: &Machine) {
    match undo_apply(machine, None, false, &mut |_| {}) {
        Ok(undone) => assert!(undone.complete, "{undone:?}"),
        Err(Error::NothingToUndo) => {}
        Err(error) => panic!("{error}"),
    }
}

/// The same cases at each run, so that a gate fails for what was changed and for nothing else;
/// `PROPTEST_RNG_SEED` asks for others, and `PROPTEST_CASES` for more.
pub(super) fn reproducible(cases: u32) -> ProptestConfig {
    let config = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { config.cases } else { cases };
    match config.rng_seed {
        RngSeed::Random => ProptestConfig { cases, rng_seed: RngSeed::Fixed(20_260_301), ..config },
        RngSeed::Fixed(_) => ProptestConfig { cases, ..config },
    }
}

proptest! {
    #![proptest_config(reproducible(150))]

    #[test]
    fn any_plan_is_taken_back_whenever_apply_and_undo_die(
        plan in any_plan(),
        first in any_fate(),
        second in any_fate(),
        again: bool,
    ) {
        let machine = machine();
        let plan = prepare_plan(plan, &machine).unwrap();
        let before = machine.seen();
        let applied = |machine: &Machine| apply_plan(&plan, machine, ApplyOptions::default(), &mut |_| {});
        machine.until(first, |machine| applied(machine).is_ok());
        machine.until(second, |machine| undo_apply(machine, None, false, &mut |_| {}).is_ok());
        if again {
            let end = applied(&machine).unwrap().end;
            prop_assert!(matches!(end, ApplyEnd::Done | ApplyEnd::NothingToDo), "{end:?}");
        }
        undone(&machine);
        // After a whole undo that was not the last thing begun, an older apply may be left.
        undone(&machine);
        assert_same(&machine.seen(), &before, &format!("{first:?}, then {second:?}"));
    }
}
