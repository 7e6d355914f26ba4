//! Journals that cannot be read, and files that somebody else has in hand: an undo ends, and says
//! what it has left.

use std::fs;
use std::os::unix::fs::symlink;

use crate::apply::ApplyOptions;
use crate::journal::{self, JournalState};
use crate::outcome::{ApplyEnd, ApplyResult, RestoreResult, Undone};
use crate::plan::{FileChange, ValueChange};
use crate::testing::{Fate, Machine, Moment, assert_same};
use crate::{
    Error, Plan, Risk, Step, apply_plan, find_unfinished_apply, prepare_plan, recover_interrupted,
    undo_apply,
};

use super::{POOL, SYSCTL, THP, UNIT, WHOLE, machine, plan};

const FOLDER: &str = "/var/lib/hugewise/journal";
/// In a folder of a server's owner.
const DROP_IN: &str = "/etc/postgresql/15/main/conf.d/zz-hugewise.conf";

fn steps(pages: u64) -> Vec<Step> {
    let step = |id: &str| Step::new(id, id, Risk::Safe, "a test");
    vec![
        step("thp").with_change(ValueChange::new(THP, "never")),
        step("server").with_change(FileChange::write(DROP_IN, "huge_pages = on\n")),
        step("pool").with_change(ValueChange::for_pool(WHOLE, pages)),
    ]
}

fn prepared(machine: &Machine, steps: Vec<Step>) -> Plan {
    prepare_plan(Plan { steps, ..plan() }, machine).unwrap()
}

fn applied(machine: &Machine, steps: Vec<Step>) -> Result<ApplyResult, Error> {
    apply_plan(&prepared(machine, steps), machine, ApplyOptions::default(), &mut |_| {})
}

fn state(machine: &Machine, id: &str) -> JournalState {
    journal::list_journals(machine).unwrap().0.into_iter().find(|one| one.id == id).unwrap().state
}

/// What an owner can put where a file of ours was, or in the place of its folder.
type Swap = (&'static str, fn(&Machine));

fn swaps() -> Vec<Swap> {
    fn gone(machine: &Machine) {
        fs::remove_file(machine.path(DROP_IN)).unwrap();
    }
    vec![
        ("link", |machine| {
            gone(machine);
            symlink("/etc/passwd", machine.path(DROP_IN)).unwrap();
        }),
        ("folder", |machine| {
            gone(machine);
            fs::create_dir_all(machine.path(DROP_IN).join("x")).unwrap();
        }),
        ("pipe", |machine| {
            gone(machine);
            let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600));
            rustix::fs::mknodat(rustix::fs::CWD, machine.path(DROP_IN), kind, mode, 0).unwrap();
        }),
        ("second name", |machine| {
            fs::hard_link(machine.path(DROP_IN), machine.path("/etc/postgresql/15/main/other"))
                .unwrap();
        }),
        ("linked folder", |machine| {
            fs::rename(
                machine.path("/etc/postgresql/15/main/conf.d"),
                machine.path("/etc/postgresql/15/main/real"),
            )
            .unwrap();
            symlink("real", machine.path("/etc/postgresql/15/main/conf.d")).unwrap();
        }),
        ("file for a folder", |machine| {
            fs::remove_dir_all(machine.path("/etc/postgresql/15/main/conf.d")).unwrap();
            fs::write(machine.path("/etc/postgresql/15/main/conf.d"), "").unwrap();
        }),
        ("edit", |machine| machine.put(DROP_IN, "huge_pages = off\n")),
    ]
}

fn host() -> Machine {
    let machine = machine();
    fs::create_dir_all(machine.path("/etc/postgresql/15/main/conf.d")).unwrap();
    machine
}

#[test]
fn an_interrupted_apply_ends_whatever_an_owner_does_to_his_folder() {
    for (what, swap) in swaps() {
        let machine = host();
        let plan = prepared(&machine, steps(300));
        // Killed as the pool grows: the two steps before it stand.
        let died = (1..200).find(|call| {
            let probe = host();
            probe.until(Fate::Dies(*call, Moment::Before), |machine| {
                apply_plan(&plan, machine, ApplyOptions::default(), &mut |_| {})
            });
            probe.get(DROP_IN).is_some()
        });
        machine.until(Fate::Dies(died.unwrap() + 1, Moment::Before), |other_machine| {
            apply_plan(&plan, other_machine, ApplyOptions::default(), &mut |_| {})
        });
        swap(&machine);
        assert!(find_unfinished_apply(&machine).unwrap().0.is_some(), "{what}");
        let undone = recover_interrupted(&machine, &mut |_| {}).unwrap().unwrap();
        assert!(!undone.complete && undone.describe_leftovers().len() == 1, "{what}: {undone:?}");
        assert!(
            undone.describe_leftovers()[0].contains("/etc/postgresql/15/main/conf.d"),
            "{what}: {undone:?}"
        );
        assert_eq!(machine.get(THP).as_deref(), Some("madvise"), "{what}");
        assert_eq!(
            (state(&machine, "1"), find_unfinished_apply(&machine).unwrap().0),
            (JournalState::UndoneExcept, None),
            "{what}"
        );
        // Whoever applies something else is not stopped by it.
        let other = vec![
            Step::new("thp", "thp", Risk::Safe, "").with_change(ValueChange::new(THP, "always")),
        ];
        assert_eq!(applied(&machine, other).unwrap().end, ApplyEnd::Done, "{what}");
        assert!(undo_apply(&machine, None, false, &mut |_| {}).unwrap().complete, "{what}");
    }
}

#[test]
fn a_folder_that_could_not_be_removed_is_tried_again() {
    for fails in 1..20 {
        let machine = machine();
        let before = machine.seen();
        let step = Step::new("limit", "limit", Risk::Safe, "")
            .with_change(FileChange::write(UNIT, "[Service]\n"));
        applied(&machine, vec![step]).unwrap();
        let first = machine.until(Fate::Fails(fails), |other_machine| {
            undo_apply(other_machine, None, false, &mut |_| {})
        });
        let whole = matches!(first, Some(Ok(Undone { complete: true, .. })));
        match undo_apply(&machine, None, false, &mut |_| {}) {
            Ok(undone) => assert!(undone.complete, "call {fails}: {undone:?}"),
            Err(error) => assert!(whole && error == Error::NothingToUndo, "call {fails}: {error}"),
        }
        assert_same(&machine.seen(), &before, &format!("call {fails}"));
    }
}

#[test]
fn a_forced_undo_ends_too_and_can_be_tried_again() {
    for (what, swap) in swaps() {
        let machine = host();
        applied(&machine, steps(300)).unwrap();
        swap(&machine);
        assert!(
            matches!(
                undo_apply(&machine, None, false, &mut |_| {}),
                Err(Error::ChangedSince { .. })
            ),
            "{what}"
        );
        let undone = undo_apply(&machine, None, true, &mut |_| {}).unwrap();
        assert_eq!(
            (machine.get(THP).as_deref(), machine.get(POOL).as_deref()),
            (Some("madvise"), Some("10")),
            "{what}"
        );
        if undone.complete {
            assert_eq!(machine.get(DROP_IN), None, "{what}");
            continue;
        }
        assert!(
            undone.restored.iter().any(|one| matches!(one.result, RestoreResult::Left { .. })),
            "{what}: {undone:?}"
        );
        assert_eq!(state(&machine, "1"), JournalState::UndoneExcept, "{what}");
        assert_eq!(
            undo_apply(&machine, None, false, &mut |_| {}),
            Err(Error::NothingToUndo),
            "{what}"
        );
        assert_eq!(machine.get("/etc/passwd"), None);
        assert!(applied(&machine, vec![]).is_ok());
    }
}

#[test]
fn an_apply_that_fails_ends_as_well() {
    let machine = host();
    let mut steps = steps(300);
    steps.push(
        Step::new("last", "last", Risk::Safe, "")
            .with_change(FileChange::write(SYSCTL, "vm.nr_hugepages = 1\n")),
    );
    let plan = prepared(&machine, steps);
    machine.most_pages.set(20);
    // While the pool is asked for pages that are not there, the owner swaps the drop-in.
    let applied = apply_plan(&plan, &machine, ApplyOptions::default(), &mut |event| {
        if matches!(event, crate::ApplyEvent::PoolShort { attempt: 1, .. }) {
            fs::remove_file(machine.path(DROP_IN)).unwrap();
            symlink("/etc/passwd", machine.path(DROP_IN)).unwrap();
        }
    });
    let applied = applied.unwrap();
    assert_eq!(applied.end, ApplyEnd::Stuck);
    assert!(applied.notes.iter().any(|note| note.contains(DROP_IN)), "{applied:?}");
    assert_eq!(
        (machine.get(THP).as_deref(), state(&machine, "1")),
        (Some("madvise"), JournalState::UndoneExcept)
    );
    assert_eq!(find_unfinished_apply(&machine).unwrap().0, None);
}

/// A line as hugewise writes it.
fn line(json: &str) -> String {
    format!("{} {json}\n", journal::short_checksum(json.as_bytes()))
}

#[test]
fn a_journal_that_cannot_be_read_stops_nothing_but_itself() {
    let machine = host();
    applied(&machine, steps(300)).unwrap();
    let whole = machine.get(&format!("{FOLDER}/0001.journal")).unwrap();
    let newer = whole
        .lines()
        .next()
        .unwrap()
        .split_once(' ')
        .unwrap()
        .1
        .replace("journal/1\"", "journal/9\"");
    machine.put(&format!("{FOLDER}/0002.journal"), "no journal\n");
    machine.put(&format!("{FOLDER}/0003.journal"), &line(&newer));
    machine.put(
        &format!("{FOLDER}/0004.journal"),
        &(whole.clone() + &line("{\"record\":\"unheard-of\"}")),
    );
    machine.put(
        &format!("{FOLDER}/0005.journal"),
        &(whole[..whole.len() / 2].to_owned() + "\n" + &whole),
    );
    machine.put(&format!("{FOLDER}/0006.journal"), "");
    machine.put(&format!("{FOLDER}/0007.journal"), &whole[..100]);
    fs::create_dir(machine.path(&format!("{FOLDER}/0008.journal"))).unwrap();
    symlink("/etc/passwd", machine.path(&format!("{FOLDER}/0009.journal"))).unwrap();
    for name in [
        "99999999999999999999",
        "18446744073709551615",
        "1",
        "00001",
        "+3",
        "-1",
        "x",
        "",
        "0x1",
        "9999999999",
    ] {
        machine.put(&format!("{FOLDER}/{name}.journal"), &whole);
    }
    let (journals, unreadable) = journal::list_journals(&machine).unwrap();
    assert_eq!(journals.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), ["1"]);
    let unreadable_of = |id: u64| {
        unreadable.iter().find(|other_unreadable| other_unreadable.id == Some(id)).unwrap()
    };
    for id in [2, 3, 4, 5, 8, 9] {
        assert!(
            unreadable_of(id).to_string().contains(&format!("{FOLDER}/000{id}.journal")),
            "{}",
            unreadable_of(id)
        );
    }
    assert!(
        unreadable_of(3).newer
            && unreadable_of(4).newer
            && unreadable_of(3).recovery_advice().contains("version that wrote it"),
        "{unreadable:?}"
    );
    assert_eq!(unreadable.len(), 6 + 10, "{unreadable:?}");
    assert!(matches!(
        undo_apply(&machine, Some("2"), true, &mut |_| {}),
        Err(Error::Unreadable(_))
    ));
    assert_eq!(
        undo_apply(&machine, Some("6"), true, &mut |_| {}),
        Err(Error::NoSuchJournal("6".into()))
    );

    // Plans and applies go on, and say what is not known.
    assert_eq!(find_unfinished_apply(&machine).unwrap().0, None);
    let more = applied(
        &machine,
        vec![
            Step::new("f", "f", Risk::Safe, "")
                .with_change(FileChange::write(SYSCTL, "vm.nr_hugepages = 1\n")),
        ],
    );
    let more = more.unwrap();
    assert_eq!((more.end, more.journal.as_deref()), (ApplyEnd::Done, Some("10")));
    assert!(
        more.notes.iter().any(|note| note.contains("0002.journal") && note.contains("cannot tell")),
        "{more:?}"
    );
    assert!(undo_apply(&machine, Some("10"), false, &mut |_| {}).unwrap().complete);
    let undone = undo_apply(&machine, None, false, &mut |_| {}).unwrap();
    assert_eq!((undone.journal.as_str(), undone.complete), ("1", true));
    assert!(undone.notes.iter().any(|note| note.contains("0003.journal")), "{undone:?}");
    assert_eq!(machine.get(POOL).as_deref(), Some("10"));
    // Nothing else to undo that can be read: that is not the same as nothing.
    assert!(matches!(undo_apply(&machine, None, false, &mut |_| {}), Err(Error::Unreadable(_))));
}

#[test]
fn numbers_end_somewhere() {
    let machine = host();
    applied(&machine, steps(300)).unwrap();
    machine.put(&format!("{FOLDER}/999999999.journal"), "");
    let why = applied(&machine, steps(200)).unwrap_err().to_string();
    assert!(why.contains("there is no number after"), "{why}");
    assert_eq!(machine.get(&format!("{FOLDER}/999999999.journal")).as_deref(), Some(""));
    assert_eq!(machine.get(POOL).as_deref(), Some("300"));
}

#[test]
fn an_end_that_was_damaged_takes_nothing_back_by_itself() {
    let machine = host();
    applied(&machine, steps(300)).unwrap();
    let path = format!("{FOLDER}/0001.journal");
    let whole = machine.get(&path).unwrap();
    machine.put(&path, &whole.replace("\"done\"", "\"Done\""));
    assert_eq!(recover_interrupted(&machine, &mut |_| {}), Ok(None));
    assert_eq!(machine.get(POOL).as_deref(), Some("300"));
    // What a crash leaves of a line is none: it has no end, or holds what the disk never got.
    let (start, last) = whole.trim_end().rsplit_once('\n').unwrap();
    for torn in [last[..9].to_owned(), format!("{}\0\0\0\n", &last[..9])] {
        machine.put(&path, &format!("{start}\n{torn}"));
        assert!(find_unfinished_apply(&machine).unwrap().0.is_some(), "{torn:?}");
    }
    assert!(recover_interrupted(&machine, &mut |_| {}).unwrap().unwrap().complete);
    assert_eq!(machine.get(POOL).as_deref(), Some("10"));
}

#[test]
fn another_boot_set_what_it_found() {
    let machine = host();
    applied(&machine, steps(300)).unwrap();
    machine.put(THP, "always\n");
    assert!(
        matches!(undo_apply(&machine, None, false, &mut |_| {}), Err(Error::ChangedSince { .. })),
        "in this boot it is somebody's"
    );
    machine.put("/proc/sys/kernel/random/boot_id", "66666666-7777-8888-9999-000000000000\n");
    let undone = undo_apply(&machine, None, false, &mut |_| {}).unwrap();
    assert!(undone.complete, "{undone:?}");
    assert_eq!(
        machine.get(THP).as_deref(),
        Some("always\n"),
        "the switch of a boot that is gone is not put into this one"
    );
    assert_eq!(machine.get(DROP_IN), None);
}

const SERVERS: &str = "/etc/postgresql/15/main";

/// What an account can do to its own folder to lead a writer elsewhere.
fn traps() -> Vec<Swap> {
    fn away(machine: &Machine, path: &str) {
        let path = machine.path(path);
        let _ = fs::remove_file(&path);
        if path.exists() {
            fs::rename(&path, path.with_extension("away")).unwrap();
        }
    }
    vec![
        ("a link for the file", |machine| {
            away(machine, DROP_IN);
            symlink("/etc/shadow", machine.path(DROP_IN)).unwrap();
        }),
        ("a link for the folder", |machine| {
            away(machine, &format!("{SERVERS}/conf.d"));
            symlink("../../../cron.d", machine.path(&format!("{SERVERS}/conf.d"))).unwrap();
        }),
        ("a link above the folder", |machine| {
            fs::create_dir_all(machine.path("/etc/cron.d/conf.d")).unwrap();
            away(machine, SERVERS);
            symlink("../../cron.d", machine.path(SERVERS)).unwrap();
        }),
        ("a link for what is written first", |machine| {
            let beside = format!("{SERVERS}/conf.d/.zz-hugewise.conf.hugewise-new");
            away(machine, &beside);
            symlink("/etc/cron.d/job", machine.path(&beside)).unwrap();
        }),
    ]
}

/// Files that the links of [`traps`] lead to, and what the journals say of them.
#[allow(clippy::disallowed_methods, reason = "the test's own folder")]
fn assert_victims_whole(machine: &Machine, what: &str) {
    assert_eq!(machine.get("/etc/shadow").as_deref(), Some("root:secret\n"), "{what}");
    assert_eq!(machine.get("/etc/cron.d/job").as_deref(), Some("job\n"), "{what}");
    let mut all: Vec<_> = fs::read_dir(machine.path("/etc/cron.d")).unwrap().collect();
    all.retain(|entry| entry.as_ref().unwrap().file_name() != "conf.d");
    assert_eq!(all.len(), 1, "{what}: {all:?}");
    let within = fs::read_dir(machine.path("/etc/cron.d/conf.d"));
    assert_eq!(within.into_iter().flatten().count(), 0, "{what}");
    for journal in fs::read_dir(machine.path(FOLDER)).into_iter().flatten() {
        let text = fs::read_to_string(journal.unwrap().path()).unwrap();
        assert!(!text.contains("secret"), "{what}: {text}");
    }
}

/// Between any two requests of an apply or an undo the account swaps what is its own: nothing of
/// anybody else's is read or written, and the rest of the host comes back.
#[test]
fn whenever_an_owner_swaps_his_folder_for_a_link_nothing_is_written_through_it() {
    let few = || steps(300).into_iter().take(2).collect::<Vec<_>>();
    for (name, trap) in traps() {
        for in_undo in [false, true] {
            for request in 1.. {
                let what = format!("{name}, in undo: {in_undo}, before request {request}");
                let machine = host();
                machine.put("/etc/shadow", "root:secret\n");
                machine.put("/etc/cron.d/job", "job\n");
                let plan = prepared(&machine, few());
                let apply = |machine: &Machine| {
                    let _ = apply_plan(&plan, machine, ApplyOptions::default(), &mut |_| {});
                };
                let undo = |machine: &Machine| {
                    let _ = undo_apply(machine, None, true, &mut |_| {});
                };
                let requests = if in_undo {
                    apply(&machine);
                    machine.swap_before(request, trap, undo)
                } else {
                    machine.swap_before(request, trap, apply)
                };
                assert_victims_whole(&machine, &what);
                undo(&machine);
                assert_victims_whole(&machine, &what);
                let thp = machine.get(THP).unwrap_or_default();
                assert_eq!(thp.trim(), "madvise", "{what}");
                if requests < request {
                    assert!(request > 15, "{what}");
                    break;
                }
            }
        }
    }
}
