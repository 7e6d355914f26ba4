//! Plans out of files, held against the host's own.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::allowed::check_plan_allowed;
use crate::apply::ApplyOptions;
use crate::plan::{CommandChange, FileChange, ValueChange};
use crate::testing::{Machine, Seen};
use crate::{Change, Error, Plan, Risk, Step, apply_plan, confirm_wish, prepare_plan};

use super::{GRUB, POOL, SYSCTL, machine, plan};

/// The host's own plan: each file and value is changed once.
fn own(machine: &Machine) -> Plan {
    let mut plan = plan();
    plan.steps.retain(|step| step.id != "cleanup");
    prepare_plan(plan, machine).unwrap()
}

/// The plan file that somebody has made out of the host's own plan.
fn wish(machine: &Machine, forge: impl FnOnce(&mut Plan)) -> Result<Plan, Error> {
    let own = own(machine);
    let mut wish = own.clone();
    forge(&mut wish);
    wish.seal();
    confirm_wish(&wish, &own, machine)
}

fn set_pool(plan: &mut Plan, pages: &str) {
    for change in plan.steps.iter_mut().flat_map(|step| &mut step.changes) {
        if let Change::Value(value) = change
            && value.pool.is_some()
        {
            value.after = pages.to_owned();
        }
    }
}

#[track_caller]
fn assert_refused(confirmed: Result<Plan, Error>, words: &[&str]) {
    let refused = confirmed.unwrap_err().to_string();
    assert!(words.iter().all(|word| refused.contains(word)), "{words:?}: {refused}");
}

#[test]
fn what_the_host_plans_itself_is_carried_out_in_its_own_words() {
    let machine = machine();
    let own = own(&machine);
    let confirmed = wish(&machine, |plan| {
        plan.warnings.push("nothing to see here".into());
        plan.steps.reverse();
        for step in &mut plan.steps {
            step.title = "609 pages of 2 MiB at each boot".into();
            (step.why, step.risk, step.relies_on) = ("because".into(), Risk::Safe, Vec::new());
        }
    });
    assert_eq!(confirmed.unwrap().steps, own.steps);
    let confirmed = wish(&machine, |plan| {
        plan.steps.iter_mut().for_each(|step| step.title = "609 pages".into());
    });
    assert_eq!(confirmed.unwrap().steps, own.steps);
    let confirmed = wish(&machine, |plan| plan.steps.retain(|step| step.id == "group")).unwrap();
    assert_eq!(confirmed.steps.len(), 1);
}

#[test]
fn a_pool_may_have_a_few_pages_less_than_it_would_get_today() {
    let machine = machine();
    for (pages, is_taken) in
        [("300", true), ("299", true), ("270", true), ("269", false), ("301", false), ("1", false)]
    {
        let confirmed = wish(&machine, |plan| set_pool(plan, pages));
        assert_eq!(confirmed.is_ok(), is_taken, "{pages}");
        let confirmed = wish(&machine, |plan| {
            let sysctl = FileChange::write(SYSCTL, format!("vm.nr_hugepages = {pages}\n"));
            plan.steps[1].changes = vec![sysctl.into()];
        });
        assert_eq!(confirmed.is_ok(), is_taken, "{pages}");
    }
}

/// sysctl(8) hands the text on, and the kernel reads a number that begins with 0 as an octal one.
#[test]
fn a_wished_number_is_written_as_the_number_that_was_compared() {
    let machine = machine();
    for spelled in ["0300", "00299"] {
        let pages = spelled.trim_start_matches('0');
        let text = format!("vm.nr_hugepages = {spelled}\n");
        let confirmed = wish(&machine, |plan| {
            set_pool(plan, spelled);
            plan.steps[1].changes = vec![FileChange::write(SYSCTL, text.as_str()).into()];
        });
        let changes: Vec<Change> =
            confirmed.unwrap().steps.into_iter().flat_map(|step| step.changes).collect();
        assert!(matches!(&changes[0], Change::Value(value) if value.after == pages), "{spelled}");
        let Change::File(file) = &changes[1] else { panic!("{spelled}: no file") };
        let content = &file.after.as_ref().unwrap().content;
        assert_eq!(content.bytes(), format!("vm.nr_hugepages = {pages}\n").as_bytes());
        let plan = Plan {
            steps: vec![
                Step::new("pool", "pool", Risk::Safe, "why")
                    .with_change(FileChange::write(SYSCTL, text)),
            ],
            ..plan()
        };
        assert!(check_plan_allowed(&plan).is_err(), "{spelled}");
    }
}

/// The file had the last step 300 times, and a server's client ran 300 times.
#[test]
fn a_step_is_carried_out_once_however_often_a_file_has_it() {
    let machine = machine();
    let confirmed = wish(&machine, |plan| {
        let last = plan.steps.last().unwrap().clone();
        plan.steps.extend([last.clone(), last]);
    });
    assert_refused(confirmed, &["tuned", "more than once"]);
}

#[test]
fn what_the_host_would_not_do_is_refused_by_name() {
    let machine = machine();
    let step = |id: &str| Step::new(id, "609 pages of 2 MiB at each boot", Risk::Safe, "why");
    let forged: [(Step, &str); 4] = [
        (
            step("memlock-ssh").with_change(FileChange::write(
                "/etc/systemd/system/ssh.service.d/zz-hugewise.conf",
                "[Service]\nLimitMEMLOCK=0\n",
            )),
            "ssh.service.d",
        ),
        (
            step("group").with_change(ValueChange::new("/proc/sys/vm/hugetlb_shm_group", "4242")),
            "/proc/sys/vm/hugetlb_shm_group",
        ),
        (
            step("pool-2M-boot").with_change(FileChange::write(
                SYSCTL,
                "vm.nr_overcommit_hugepages = 1000000000\n",
            )),
            SYSCTL,
        ),
        (
            step("settings").with_change(
                CommandChange::new(
                    ["/usr/bin/psql", "-h", "/tmp/a", "-c", "ALTER SYSTEM SET huge_pages = 'on'"],
                    "why",
                )
                .as_user("www-data"),
            ),
            "/usr/bin/psql",
        ),
    ];
    for (forged, what) in forged {
        let id = forged.id.clone();
        let confirmed = wish(&machine, |plan| {
            plan.steps.retain(|step| step.id != id);
            plan.steps.push(
                prepare_plan(Plan { steps: vec![forged], ..plan.clone() }, &machine)
                    .map(|mut prepared| prepared.steps.remove(0))
                    .unwrap(),
            );
        });
        assert_refused(confirmed, &[&id, what, "nothing was changed"]);
    }
}

#[test]
fn half_a_step_and_a_step_without_what_it_relies_on_are_refused() {
    let machine = machine();
    assert_refused(
        wish(&machine, |plan| drop(plan.steps[4].changes.pop())),
        &[GRUB, "update-grub belongs to this step too"],
    );
    let mut own = own(&machine);
    own.steps[3].relies_on = vec!["pool-2M-now".into()];
    let mut wish = own.clone();
    wish.steps.retain(|step| step.id == "group");
    wish.steps[0].relies_on.clear();
    wish.seal();
    assert_refused(confirm_wish(&wish, &own, &machine), &["group", "pool-2M-now"]);
}

/// No file tells that a server was restarted: the journal does.
#[test]
fn what_the_last_apply_has_run_is_not_run_again() {
    let machine = machine();
    let restart =
        CommandChange::new(["/usr/bin/systemctl", "restart", "postgresql@15-main.service"], "why");
    let mut plan = plan();
    plan.steps = vec![Step::new("restart", "restart", Risk::Restart, "why").with_change(restart)];
    let wished = prepare_plan(plan, &machine).unwrap();
    let nothing = Plan { steps: Vec::new(), ..wished.clone() };
    assert_refused(confirm_wish(&wished, &nothing, &machine), &["restart"]);
    apply_plan(&wished, &machine, ApplyOptions::default(), &mut |_| {}).unwrap();
    assert!(confirm_wish(&wished, &nothing, &machine).unwrap().steps.is_empty());
    let mut other = wished;
    let Change::Command(command) = &mut other.steps[0].changes[0] else { panic!() };
    command.command[2] = "ssh.service".into();
    assert_refused(confirm_wish(&other, &nothing, &machine), &["ssh.service"]);
}

/// Every leaf of a plan's JSON, by its path.
fn leaves(value: &Value, path: String, found: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| leaves(value, format!("{path}/{name}"), found));
        }
        Value::Array(values) => {
            let numbered = values.iter().enumerate();
            numbered.for_each(|(at, value)| leaves(value, format!("{path}/{at}"), found));
        }
        leaf => found.push((path, leaf.clone())),
    }
}

/// What is put in the place of each leaf: what others hold, and what nobody would plan.
fn forgeries(leaf: &Value, others: &[Value]) -> Vec<Value> {
    let mut all: Vec<Value> = others.to_vec();
    all.extend([Value::Null, "".into(), 0.into(), 1_000_000_000_u64.into(), true.into()]);
    match leaf {
        Value::String(text) => {
            all.extend([
                format!("{text}x").into(),
                text.replace("hugewise", "zz-hugewise").into(),
                text.replace('3', "9").into(),
                text.replace("2048", "1048576").into(),
                format!("{text}vm.nr_overcommit_hugepages = 1000000000\n").into(),
                "0".into(),
                "4242".into(),
                "299".into(),
            ]);
        }
        Value::Number(number) => {
            let number = number.as_u64().unwrap_or_default();
            all.extend([(number + 1).into(), number.saturating_sub(1).into(), (number * 2).into()]);
        }
        _ => {}
    }
    all.retain(|forged| forged != leaf);
    all
}

/// Whoever writes a plan file chooses every field of it, and seals it. Whatever he writes, a host
/// ends with files and values that are as before, or as its own plan leaves them.
#[test]
fn whatever_field_is_forged_nothing_is_done_beyond_the_own_plan() {
    let after_own = {
        let machine = machine();
        apply_plan(&own(&machine), &machine, ApplyOptions::default(), &mut |_| {}).unwrap();
        machine.seen()
    };
    let first = machine();
    let json: Value = serde_json::from_str(&self::own(&first).to_json()).unwrap();
    let mut all = Vec::new();
    leaves(&json["steps"], "/steps".into(), &mut all);
    leaves(&json["host"], "/host".into(), &mut all);
    leaves(&json["budget"], "/budget".into(), &mut all);
    let texts: Vec<Value> =
        all.iter().map(|(_, value)| value.clone()).filter(Value::is_string).step_by(5).collect();
    let (mut forged, mut taken) = (0, 0);
    let mut machine = first;
    let before = machine.seen();
    let own = own(&machine);
    for (path, leaf) in &all {
        for forgery in forgeries(leaf, &texts) {
            let mut json = json.clone();
            *json.pointer_mut(path).unwrap() = forgery.clone();
            forged += 1;
            let Ok(mut wish) = serde_json::from_value::<Plan>(json) else { continue };
            wish.seal();
            let Ok(confirmed) = confirm_wish(&wish, &own, &machine) else { continue };
            taken += 1;
            for step in &confirmed.steps {
                let own = own.steps.iter().find(|own| own.id == step.id).unwrap();
                assert_eq!((&step.title, &step.why, step.risk), (&own.title, &own.why, own.risk));
            }
            let options = ApplyOptions { force: true, ..ApplyOptions::default() };
            let done = apply_plan(&confirmed, &machine, options, &mut |_| {});
            assert_within(&machine.seen(), &before, &after_own, &format!("{path}: {forgery}"));
            assert!(done.is_ok() || machine.seen() == before, "{path}: {forgery}: {done:?}");
            machine = super::machine();
        }
    }
    assert!(forged >= 2000, "{forged} forgeries");
    assert!(taken > 100, "only {taken} of {forged} were taken: nothing was tried");
}

/// Asserts that each file is as before or as the own plan leaves it; a pool may have a few pages
/// less.
#[track_caller]
fn assert_within(
    now: &BTreeMap<String, Seen>,
    before: &BTreeMap<String, Seen>,
    after: &BTreeMap<String, Seen>,
    what: &str,
) {
    let paths: std::collections::BTreeSet<_> =
        now.keys().chain(before.keys()).chain(after.keys()).collect();
    for path in paths {
        let (now, before, after) = (now.get(path), before.get(path), after.get(path));
        let few_less = || {
            let text = format!("{now:?}");
            (path == POOL || path == SYSCTL) && (270..300).any(|n| text.contains(&n.to_string()))
        };
        assert!(now == before || now == after || few_less(), "{what}: {path} is {now:?}");
    }
}
