//! What apply and undo do, and what they refuse.

use std::fs;
use std::os::unix::fs::symlink;

use hugewise_model::PageCount;

use crate::apply::ApplyOptions;
use crate::journal::{self, JournalState};
use crate::outcome::{ApplyEnd, ApplyEvent, ApplyResult, StepResult, Undone};
use crate::plan::{CommandChange, FileChange, PlanRefusal, PoolRef, ValueChange};
use crate::testing::{Machine, assert_same};
use crate::{Error, Plan, Risk, Step, apply_plan, prepare_plan, recover_interrupted, undo_apply};

use super::{
    GRUB, GRUB_CFG, LIMITS, POOL, PROFILE, SURPLUS, SYSCTL, THP, UNIT, WHOLE, machine, plan,
};

fn prepared(machine: &Machine) -> Plan {
    prepare_plan(plan(), machine).unwrap()
}

fn applied(machine: &Machine, plan: &Plan) -> Result<ApplyResult, Error> {
    with(machine, plan, ApplyOptions::default())
}

fn with(machine: &Machine, plan: &Plan, options: ApplyOptions) -> Result<ApplyResult, Error> {
    apply_plan(plan, machine, options, &mut |_| {})
}

fn undone(machine: &Machine) -> Result<Undone, Error> {
    undo_apply(machine, None, false, &mut |_| {})
}

/// A plan of these steps on a host without an identity, prepared.
fn of(machine: &Machine, steps: Vec<Step>) -> Plan {
    let mut plan = Plan { steps, ..plan() };
    plan.seal();
    prepare_plan(plan, machine).unwrap()
}

fn step(id: &str) -> Step {
    Step::new(id, id, Risk::Safe, "a test")
}

fn result<'a>(applied: &'a ApplyResult, id: &str) -> &'a StepResult {
    &applied.steps.iter().find(|step| step.id == id).unwrap().result
}

#[test]
fn a_plan_says_what_is_there_and_what_will_be() {
    let machine = machine();
    let plan = prepared(&machine);
    let crate::Change::Value(pool) = &plan.steps[0].changes[0] else { panic!() };
    assert_eq!(
        (pool.path.as_str(), pool.before.as_deref(), pool.after.as_str()),
        (POOL, Some("10"), "300")
    );
    let crate::Change::File(limits) = &plan.steps[2].changes[0] else { panic!() };
    let (before, after) = (limits.before.as_ref().unwrap(), limits.after.as_ref().unwrap());
    assert_eq!((before.mode.to_string().as_str(), before.gid, before.labels.len()), ("0640", 7, 2));
    assert_eq!(
        (after.mode, after.gid),
        (before.mode, before.gid),
        "owner and permissions are kept"
    );
}

#[test]
fn applied_twice_changes_nothing_the_second_time() {
    let machine = machine();
    let plan = prepared(&machine);
    let first = applied(&machine, &plan).unwrap();
    assert_eq!((first.end, first.journal.as_deref()), (ApplyEnd::Done, Some("1")));
    assert_eq!(machine.get(SYSCTL).as_deref(), Some("vm.nr_hugepages = 300\n"));
    assert_eq!(machine.get(POOL).as_deref(), Some("300"));
    assert!(machine.get(GRUB_CFG).unwrap().contains("transparent_hugepage=never"));
    let (seen, ran) = (machine.seen(), machine.ran.borrow().len());
    let second = applied(&machine, &plan).unwrap();
    assert_eq!((second.end, second.journal), (ApplyEnd::NothingToDo, None));
    assert_same(&machine.seen(), &seen, "second apply");
    assert_eq!(machine.ran.borrow().len(), ran, "no command is run again");
    // Made anew, the plan has nothing left but what cleans up after itself.
    let again = prepare_plan(Plan { steps: plan.steps[..6].to_vec(), ..plan }, &machine).unwrap();
    let left: Vec<&str> = again.steps.iter().map(|step| step.id.as_str()).collect();
    assert_eq!(left, ["memlock"], "its last step removes what the third one writes");
}

#[test]
fn a_host_that_has_drifted_is_refused_with_a_diff() {
    let machine = machine();
    let plan = prepared(&machine);
    machine.put(SYSCTL, "vm.nr_hugepages = 7\n");
    machine.put("/proc/sys/vm/hugetlb_shm_group", "9\n");
    let seen = machine.seen();
    let error = applied(&machine, &plan).unwrap_err();
    let Error::Drifted(differences) = &error else { panic!("{error}") };
    assert_eq!(differences.len(), 2);
    assert!(error.to_string().contains("+vm.nr_hugepages = 7"), "{error}");
    assert!(error.to_string().contains("-0\n+9"), "{error}");
    assert_same(&machine.seen(), &seen, "a refusal");
    assert!(journal::list_journals(&machine).unwrap().0.is_empty());
}

#[test]
fn undo_refuses_what_somebody_has_changed_since() {
    let machine = machine();
    let before = machine.seen();
    applied(&machine, &prepared(&machine)).unwrap();
    machine.put(SYSCTL, "vm.nr_hugepages = 301\n");
    machine.put(THP, "always madvise [never]\n");
    let after = machine.seen();
    let error = undone(&machine).unwrap_err();
    let Error::ChangedSince { differences, .. } = &error else { panic!("{error}") };
    assert_eq!(differences.len(), 1, "the same value written otherwise is no change");
    assert!(
        error.to_string().contains("-vm.nr_hugepages = 300\n+vm.nr_hugepages = 301"),
        "{error}"
    );
    assert_same(&machine.seen(), &after, "a refusal");
    let forced = undo_apply(&machine, None, true, &mut |_| {}).unwrap();
    assert!(forced.complete && forced.risk == Risk::Reboot, "{forced:?}");
    assert_same(&machine.seen(), &before, "undo --force");
}

#[test]
fn what_somebody_has_put_back_already_is_left_alone() {
    let machine = machine();
    let before = machine.seen();
    applied(&machine, &prepared(&machine)).unwrap();
    fs::remove_file(machine.path(UNIT)).unwrap();
    assert!(undone(&machine).unwrap().complete);
    assert_same(&machine.seen(), &before, "undo");
}

#[test]
fn a_folder_that_others_use_stays() {
    let machine = machine();
    applied(&machine, &prepared(&machine)).unwrap();
    let (folder, _) = UNIT.rsplit_once('/').unwrap();
    machine.put(&format!("{folder}/theirs.conf"), "[Service]\n");
    let undone = undone(&machine).unwrap();
    assert!(undone.complete && undone.notes.iter().any(|note| note.contains(folder)), "{undone:?}");
    assert_eq!(machine.get(UNIT), None);
    assert!(machine.path(&format!("{folder}/theirs.conf")).exists());
}

#[test]
fn a_command_that_fails_takes_everything_back_or_its_step_alone() {
    let machine = machine();
    let before = machine.seen();
    let plan = prepared(&machine);
    machine.fails.set("profile hugewise");
    let failed = applied(&machine, &plan).unwrap();
    assert_eq!(failed.end, ApplyEnd::TakenBack);
    assert!(
        matches!(result(&failed, "tuned"), StepResult::Failed { why } if why.ends_with("hugewise: \
             it does not work")),
        "{failed:?}"
    );
    assert_eq!(result(&failed, "pool-2M-now"), &StepResult::TakenBack);
    assert_eq!(result(&failed, "cleanup"), &StepResult::NotTried);
    assert_same(&machine.seen(), &before, "taken back");
    assert_eq!(undone(&machine), Err(Error::NothingToUndo));

    let kept = with(&machine, &plan, ApplyOptions { keep_going: true, ..ApplyOptions::default() })
        .unwrap();
    assert_eq!((kept.end, result(&kept, "cleanup")), (ApplyEnd::Partly, &StepResult::Done));
    assert_eq!(machine.get("/etc/tuned/hugewise/tuned.conf"), None);
    assert_eq!(machine.get(THP).as_deref(), Some("madvise\n"));
    assert_eq!(machine.get(POOL).as_deref(), Some("300"));
    assert!(undone(&machine).unwrap().complete);
    assert_same(&machine.seen(), &before, "undo of a part");
}

#[test]
fn what_cannot_be_taken_back_is_said_and_tried_again() {
    let machine = machine();
    let before = machine.seen();
    let plan = prepared(&machine);
    applied(&machine, &plan).unwrap();
    machine.fails.set("daemon-reload");
    let stuck = undone(&machine).unwrap();
    assert!(!stuck.complete);
    assert_eq!(journal::list_journals(&machine).unwrap().0[0].state, JournalState::Stuck);
    assert!(
        matches!(applied(&machine, &plan), Err(Error::Failed(_))),
        "an apply waits until that is put right"
    );
    machine.fails.set("");
    assert!(undone(&machine).unwrap().complete);
    assert_same(&machine.seen(), &before, "second undo");
}

#[test]
fn a_pool_that_falls_short_is_taken_back_or_kept() {
    let machine = machine();
    let before = machine.seen();
    let plan = of(&machine, vec![step("pool").with_change(ValueChange::for_pool(WHOLE, 300))]);
    machine.most_pages.set(120);
    let mut attempts = 0;
    let short = apply_plan(&plan, &machine, ApplyOptions::default(), &mut |event| {
        if let ApplyEvent::PoolShort { wanted, obtained, .. } = event {
            assert_eq!((*wanted, *obtained), (PageCount(300), PageCount(120)));
            attempts += 1;
        }
    });
    let short = short.unwrap();
    assert_eq!(
        (short.end, attempts),
        (ApplyEnd::TakenBack, 3),
        "asked again after compaction, and not for ever"
    );
    let StepResult::Failed { why } = result(&short, "pool") else { panic!("{short:?}") };
    assert!(
        why.contains("300 pages of 2 MiB") && why.contains("gave 120") && why.contains("boot"),
        "{why}"
    );
    assert_eq!(machine.get("/proc/sys/vm/compact_memory").as_deref(), Some("1"));
    machine.put("/proc/sys/vm/compact_memory", "");
    assert_same(&machine.seen(), &before, "taken back");

    let kept =
        with(&machine, &plan, ApplyOptions { keep_partial: true, ..ApplyOptions::default() })
            .unwrap();
    assert_eq!(kept.end, ApplyEnd::Partly);
    let obtained = StepResult::Partial { wanted: PageCount(300), obtained: PageCount(120) };
    assert_eq!(result(&kept, "pool"), &obtained);
    assert_eq!(machine.get(POOL).as_deref(), Some("120"));
    assert!(undone(&machine).unwrap().complete);
    assert_eq!(machine.get(POOL).as_deref(), Some("10"));
}

#[test]
fn what_relies_on_a_pool_that_fell_short_is_not_tried() {
    let machine = machine();
    let insists = step("insists")
        .relies_on("pool")
        .with_change(FileChange::write(SYSCTL, "vm.nr_hugepages = 300\n"));
    let after = step("after").with_change(ValueChange::new(THP, "never"));
    let plan = of(
        &machine,
        vec![step("pool").with_change(ValueChange::for_pool(WHOLE, 300)), insists, after],
    );
    for (most, whole) in [(120, StepResult::NotTried), (300, StepResult::Done)] {
        machine.most_pages.set(most);
        let before = machine.seen();
        for options in [
            ApplyOptions { keep_going: true, ..ApplyOptions::default() },
            ApplyOptions { keep_partial: true, ..ApplyOptions::default() },
        ] {
            let applied = with(&machine, &plan, options).unwrap();
            assert_eq!(
                (result(&applied, "insists"), result(&applied, "after")),
                (&whole, &StepResult::Done)
            );
            assert_eq!(
                machine.seen().get(SYSCTL) == before.get(SYSCTL),
                whole == StepResult::NotTried
            );
            assert!(undone(&machine).unwrap().complete);
        }
    }
}

#[test]
fn pages_go_back_to_the_nodes_that_had_them() {
    let machine = machine();
    let node = |node: u32| PoolRef { node: Some(node), ..WHOLE };
    let path = |number: u32| format!("{}/nr_hugepages", node(number).sysfs_folder());
    machine.put(&path(0), "10\n");
    machine.put(&path(1), "0\n");
    let plan = of(&machine, vec![step("pool").with_change(ValueChange::for_pool(WHOLE, 30))]);
    applied(&machine, &plan).unwrap();
    // As the kernel spreads 20 more pages.
    machine.put(&path(0), "20\n");
    machine.put(&path(1), "10\n");
    assert!(undone(&machine).unwrap().complete);
    assert_eq!(
        (machine.get(&path(0)).as_deref(), machine.get(&path(1)).as_deref()),
        (Some("10"), Some("0"))
    );
}

#[test]
fn surplus_pages_are_not_the_pools() {
    let machine = machine();
    machine.put(POOL, "14\n");
    machine.put(SURPLUS, "4\n");
    let plan = of(&machine, vec![step("pool").with_change(ValueChange::for_pool(WHOLE, 30))]);
    let crate::Change::Value(pool) = &plan.steps[0].changes[0] else { panic!() };
    assert_eq!(pool.before.as_deref(), Some("10"));
    machine.put(POOL, "34\n");
    assert_eq!(applied(&machine, &plan).unwrap().end, ApplyEnd::NothingToDo);
}

#[test]
fn links_are_not_followed() {
    let machine = machine();
    machine.put("/srv/theirs.conf", "theirs\n");
    symlink(machine.path("/srv/theirs.conf"), machine.path(SYSCTL)).unwrap();
    let why = prepare_plan(plan(), &machine).unwrap_err().to_string();
    assert!(
        why.starts_with(SYSCTL) && why.contains("symbolic link") && why.contains("theirs.conf"),
        "{why}"
    );

    // It came after the plan.
    fs::remove_file(machine.path(SYSCTL)).unwrap();
    let plan = prepared(&machine);
    let before = machine.seen();
    symlink(machine.path("/srv/theirs.conf"), machine.path(SYSCTL)).unwrap();
    assert!(applied(&machine, &plan).unwrap_err().to_string().contains("symbolic link"));
    fs::remove_file(machine.path(SYSCTL)).unwrap();
    fs::rename(machine.path("/etc/sysctl.d"), machine.path("/srv/sysctl.d")).unwrap();
    symlink(machine.path("/srv/sysctl.d"), machine.path("/etc/sysctl.d")).unwrap();
    let why = applied(&machine, &plan).unwrap_err().to_string();
    assert!(why.contains("its folder sysctl.d is a symbolic link"), "{why}");
    fs::remove_file(machine.path("/etc/sysctl.d")).unwrap();
    fs::rename(machine.path("/srv/sysctl.d"), machine.path("/etc/sysctl.d")).unwrap();
    assert_same(&machine.seen(), &before, "refusals");

    // It came after the apply.
    applied(&machine, &plan).unwrap();
    fs::remove_file(machine.path(SYSCTL)).unwrap();
    symlink(machine.path("/srv/theirs.conf"), machine.path(SYSCTL)).unwrap();
    assert!(undone(&machine).unwrap_err().to_string().contains("symbolic link"));
    assert_eq!(machine.get("/srv/theirs.conf").as_deref(), Some("theirs\n"));
}

const AUTO_CONF: &str = "/srv/data/postgresql.auto.conf";

/// Has PostgreSQL insist on huge pages, and takes that back by its RESET.
fn insisting_step() -> Step {
    let psql = |sql: &str| {
        let words = [
            "/usr/bin/psql",
            "-X",
            "-h",
            "/var/run/postgresql",
            "-p",
            "5432",
            "-d",
            "postgres",
            "-c",
            sql,
        ];
        words.map(str::to_owned)
    };
    let set = CommandChange::new(psql("ALTER SYSTEM SET huge_pages = 'on'"), "");
    let set = set.undone_by(psql("ALTER SYSTEM RESET huge_pages")).as_user("postgres");
    let set = set.with_rewritten_file(AUTO_CONF).unless_file_holds(AUTO_CONF, "huge_pages = 'on'");
    step("settings").with_change(set)
}

/// What a server's own account has put in place of its file is not read for the journal.
#[test]
fn a_link_in_place_of_a_servers_own_file_is_not_followed() {
    let machine = machine();
    machine.put("/etc/shadow", "root:secret\n");
    machine.put("/srv/data/PG_VERSION", "15\n");
    symlink("../../etc/shadow", machine.path(AUTO_CONF)).unwrap();
    let plan = Plan { steps: vec![insisting_step()], ..plan() };
    let journal = || machine.get(&crate::journal::journal_path(1)).unwrap_or_default();
    let said = match prepare_plan(plan, &machine) {
        Ok(plan) => format!("{:?}", applied(&machine, &plan)),
        Err(error) => error.to_string(),
    };
    assert!(said.contains("it is a link to"), "{said}");
    assert!(!journal().contains("secret"), "{}", journal());
}

/// Whoever has set it to something else since an apply keeps that, unless undo is forced.
#[test]
fn a_setting_that_somebody_has_changed_since_is_shown_and_kept() {
    let machine = machine();
    machine.put("/srv/data/PG_VERSION", "15\n");
    machine.put(AUTO_CONF, "work_mem = '8MB'\n");
    applied(&machine, &of(&machine, vec![insisting_step()])).unwrap();
    assert_eq!(machine.get(AUTO_CONF).as_deref(), Some("work_mem = '8MB'\nhuge_pages = 'on'\n"));
    let theirs = "work_mem = '9MB'\nhuge_pages = 'off'\n";
    machine.put(AUTO_CONF, theirs);
    let why = undone(&machine).unwrap_err().to_string();
    assert!(why.contains("-huge_pages = 'on'\n+huge_pages = 'off'"), "{why}");
    assert!(!why.contains("work_mem"), "another setting is nothing of ours: {why}");
    assert_eq!(machine.get(AUTO_CONF).as_deref(), Some(theirs));
    let forced = undo_apply(&machine, None, true, &mut |_| {}).unwrap();
    assert_eq!(machine.get(AUTO_CONF).as_deref(), Some("work_mem = '9MB'\n"), "{forced:?}");
}

#[test]
fn another_setting_that_was_changed_since_keeps_no_undo_from_its_own() {
    for (theirs, left) in [
        ("work_mem = '9MB'\nhuge_pages = 'on'\n", "work_mem = '9MB'\n"),
        // Somebody has reset it already.
        ("work_mem = '9MB'\n", "work_mem = '9MB'\n"),
    ] {
        let machine = machine();
        machine.put("/srv/data/PG_VERSION", "15\n");
        machine.put(AUTO_CONF, "work_mem = '8MB'\n");
        applied(&machine, &of(&machine, vec![insisting_step()])).unwrap();
        machine.put(AUTO_CONF, theirs);
        undone(&machine).unwrap();
        assert_eq!(machine.get(AUTO_CONF).as_deref(), Some(left), "{theirs}");
    }
}

#[test]
fn a_profile_that_somebody_has_switched_to_since_stays() {
    let machine = machine();
    applied(&machine, &prepared(&machine)).unwrap();
    machine.put(PROFILE, "throughput-performance\n");
    let why = undone(&machine).unwrap_err().to_string();
    assert!(why.contains("-hugewise\n+throughput-performance"), "{why}");
    assert_eq!(machine.get(PROFILE).as_deref(), Some("throughput-performance\n"));
}

#[test]
fn a_file_with_two_names_is_not_parted() {
    let machine = machine();
    fs::hard_link(machine.path(LIMITS), machine.path("/etc/other")).unwrap();
    let why = prepare_plan(plan(), &machine).unwrap_err().to_string();
    assert!(why.contains("hard links"), "{why}");
}

#[test]
fn the_systems_own_links_are_the_systems_affair() {
    let machine = machine();
    fs::rename(machine.path(GRUB_CFG), machine.path("/boot/real.cfg")).unwrap();
    symlink("/boot/real.cfg", machine.path(GRUB_CFG)).unwrap();
    fs::remove_file(machine.path(GRUB_CFG)).unwrap();
    symlink("../real.cfg", machine.path(GRUB_CFG)).unwrap();
    let command = CommandChange::new(["/usr/sbin/update-grub"], "")
        .undone_by_itself()
        .with_rewritten_file(GRUB_CFG);
    let text = "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX transparent_hugepage=never\"\n";
    let plan = of(
        &machine,
        vec![step("boot").with_change(FileChange::write(GRUB, text)).with_change(command)],
    );
    applied(&machine, &plan).unwrap();
    assert!(machine.get("/boot/real.cfg").unwrap().contains("never"));
    machine.fails.set("update-grub");
    assert!(!undone(&machine).unwrap().complete);
    assert_eq!(
        machine.get("/boot/real.cfg").as_deref(),
        Some("# made by update-grub\n"),
        "put back from the journal"
    );
}

#[test]
fn a_file_that_was_made_anew_since_keeps_what_came_meanwhile() {
    let machine = machine();
    applied(&machine, &prepared(&machine)).unwrap();
    // A kernel was installed: the menu was made anew, with our drop-in.
    machine.put("/etc/default/grub.d/kernel.cfg", "# kernel 2\n");
    machine.put(GRUB_CFG, "# made by update-grub\nGRUB_CMDLINE_LINUX=...\n# kernel 2\n");
    let undone = undone(&machine).unwrap();
    assert!(
        undone.complete && undone.notes.iter().any(|note| note.contains(GRUB_CFG)),
        "{undone:?}"
    );
    assert_eq!(machine.get(GRUB_CFG).as_deref(), Some("# made by update-grub\n# kernel 2\n"));
}

#[test]
fn memory_that_others_need_is_not_taken() {
    let machine = machine();
    let mut plan = of(&machine, vec![step("pool").with_change(ValueChange::for_pool(WHOLE, 5810))]);
    // 12,000,000 kB available, 5,800 pages of 2048 kB more: 121,600 kB are left.
    plan.budget.floor_bytes = 256 << 20;
    let why = applied(&machine, &plan).unwrap_err().to_string();
    assert!(
        why.contains("11.3 GiB") && why.contains("118.8 MiB") && why.contains("256.0 MiB"),
        "{why}"
    );
    assert!(why.contains("--force"), "{why}");
    assert_eq!(machine.get(POOL).as_deref(), Some("10\n"));
    let force = ApplyOptions { force: true, ..ApplyOptions::default() };
    assert_eq!(with(&machine, &plan, force).unwrap().end, ApplyEnd::Done);

    let machine = super::machine();
    let mut plan = prepared(&machine);
    plan.refusal = Some(PlanRefusal {
        reasons: vec!["2.0 GiB are missing".into()],
        short_bytes: 2 << 30,
        largest_pools_bytes: 0,
    });
    assert!(applied(&machine, &plan).unwrap_err().to_string().contains("2.0 GiB are missing"));
    assert_eq!(with(&machine, &plan, force).unwrap().end, ApplyEnd::Done);
}

#[test]
fn one_at_a_time_and_on_its_own_host() {
    let machine = machine();
    let plan = prepared(&machine);
    let lock = journal::lock_journals(&machine).unwrap();
    assert!(matches!(applied(&machine, &plan), Err(Error::Busy(_))));
    assert!(matches!(undone(&machine), Err(Error::Busy(_))));
    drop(lock);
    machine.put("/etc/machine-id", "fedcba9876543210fedcba9876543210\n");
    assert!(matches!(applied(&machine, &plan), Err(Error::OtherHost { .. })));
}

#[test]
fn journals_are_kept_and_listed() {
    let machine = machine();
    assert_eq!(undone(&machine), Err(Error::NothingToUndo));
    let first = of(
        &machine,
        vec![step("one").with_change(FileChange::write(SYSCTL, "vm.nr_hugepages = 1\n"))],
    );
    applied(&machine, &first).unwrap();
    let group = ValueChange::new("/proc/sys/vm/hugetlb_shm_group", "7");
    applied(&machine, &of(&machine, vec![step("two").with_change(group)])).unwrap();
    let states = || -> Vec<(String, JournalState)> {
        journal::list_journals(&machine)
            .unwrap()
            .0
            .into_iter()
            .map(|one| (one.id, one.state))
            .collect()
    };
    assert_eq!(states(), [("1".into(), JournalState::Done), ("2".into(), JournalState::Done)]);
    assert_eq!(journal::list_journals(&machine).unwrap().0[1].steps, ["two"]);
    let by_id = |id: &str| undo_apply(&machine, Some(id), false, &mut |_| {});
    assert_eq!(by_id("3"), Err(Error::NoSuchJournal("3".into())));
    assert_eq!(by_id("../1"), Err(Error::NoSuchJournal("../1".into())));
    assert_eq!(by_id("1").unwrap().journal, "1");
    assert_eq!(by_id("1"), Err(Error::AlreadyUndone("1".into())));
    assert_eq!(undone(&machine).unwrap().journal, "2");
    assert_eq!(undone(&machine), Err(Error::NothingToUndo));
    assert_eq!(states(), [("1".into(), JournalState::Undone), ("2".into(), JournalState::Undone)]);
    assert_eq!((machine.get(SYSCTL), recover_interrupted(&machine, &mut |_| {})), (None, Ok(None)));
    let mode = |path: &str| {
        fs::symlink_metadata(machine.path(path))
            .map(|metadata| std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()))
            .unwrap()
    };
    assert_eq!(mode("/var/lib/hugewise/journal") & 0o7777, 0o700);
    assert_eq!(mode("/var/lib/hugewise/journal/0001.journal") & 0o7777, 0o600);
}

#[test]
fn a_damaged_journal_is_not_guessed_at() {
    let machine = machine();
    applied(&machine, &prepared(&machine)).unwrap();
    let path = "/var/lib/hugewise/journal/0001.journal";
    let text = machine.get(path).unwrap();
    let damaged = text.replacen("\"intent\"", "\"Intent\"", 1);
    assert_ne!(damaged, text);
    machine.put(path, &damaged);
    let error = undone(&machine).unwrap_err();
    assert!(matches!(&error, Error::Unreadable(_)), "{error}");
    assert!(error.to_string().contains("line 2: it is damaged"), "{error}");
    // Whoever overwrote it has not made what was applied undone.
    machine.put(path, "some\nother file\n");
    let error = undone(&machine).unwrap_err();
    assert!(error.to_string().contains("line 1: not a hugewise journal"), "{error}");
}

#[test]
fn a_value_that_this_kernel_does_not_have() {
    let machine = machine();
    let path = "/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled";
    let steps = vec![step("thp").with_change(ValueChange::new(path, "inherit"))];
    let why = prepare_plan(Plan { steps, ..plan() }, &machine).unwrap_err().to_string();
    assert_eq!(why, format!("{path}: this kernel has no such value"));
}

#[test]
fn a_boot_that_found_fewer_pages_is_nobodys_change() {
    let machine = machine();
    let plan = of(&machine, vec![step("pool").with_change(ValueChange::for_pool(WHOLE, 300))]);
    applied(&machine, &plan).unwrap();
    machine.put(POOL, "250\n");
    assert!(
        matches!(undone(&machine), Err(Error::ChangedSince { .. })),
        "in the same boot it is somebody's"
    );
    machine.put("/proc/sys/kernel/random/boot_id", "66666666-7777-8888-9999-000000000000\n");
    machine.put(POOL, "400\n");
    assert!(
        matches!(undone(&machine), Err(Error::ChangedSince { .. })),
        "more than were asked for"
    );
    machine.put(POOL, "250\n");
    assert!(undone(&machine).unwrap().complete);
    assert_eq!(machine.get(POOL).as_deref(), Some("10"));
}

/// A kernel before 2.6.27 has no folder of pools: its pool is vm.nr_hugepages, set with the same
/// patience and taken back.
#[test]
fn the_pool_of_an_old_kernel_is_set_and_taken_back() {
    const ONLY: &str = "/proc/sys/vm/nr_hugepages";
    let old = || {
        Machine::new(&[
            (ONLY, "10\n"),
            ("/proc/sys/kernel/random/boot_id", "11111111-2222-3333-4444-555555555555\n"),
            ("/proc/meminfo", "MemTotal:       16000000 kB\nMemFree:   12000000 kB\n"),
            ("/etc/machine-id", "0123456789abcdef0123456789abcdef\n"),
        ])
    };
    let machine = old();
    let plan = of(
        &machine,
        vec![
            step("pool").with_change(ValueChange::only_pool(hugewise_model::PageSize::MIB_2, 300)),
        ],
    );
    applied(&machine, &plan).unwrap();
    assert_eq!(machine.get(ONLY).as_deref().map(str::trim), Some("300"));
    undone(&machine).unwrap();
    assert_eq!(machine.get(ONLY).as_deref().map(str::trim), Some("10"));
    // Elsewhere that setting counts pages of the default size, whatever a plan says they are.
    let newer = old();
    newer.put(POOL, "10\n");
    let mut plan = Plan { steps: plan.steps, ..super::plan() };
    plan.seal();
    let refused = prepare_plan(plan, &newer)
        .and_then(|plan| applied(&newer, &plan).map(|_| ()))
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("this kernel has pools of its own in /sys/kernel/mm/hugepages"),
        "{refused}"
    );
    assert_eq!(newer.get(ONLY).as_deref(), Some("10\n"));
}
