//! Journals and files that somebody has changed between apply and undo.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use hugewise_change::plan::{FileChange, PoolRef, ValueChange};
use hugewise_change::{Risk, Step};
use hugewise_lab::guard::PoolGuard;
use hugewise_model::PageSize;
use hugewise_testkit::{Skip, require};
use serde_json::Value;

use crate::real::attacks::Attacker;
use crate::real::harness::{self, text};
use crate::real::namespace::{self, State, VALUES, assert_same};
use crate::real::plans::{self, THP, line};

const POOL: &str = "/etc/sysctl.d/zz-hugewise-pool.conf";
const JOURNALS: &str = "/var/lib/hugewise/journal";

/// A host with an owner's folder, whose drop-ins are hugewise's to write.
struct Scene {
    _guard: PoolGuard,
    attacker: Attacker,
    folder: tempfile::TempDir,
}

impl Scene {
    fn new() -> Result<Self, Skip> {
        let (guard, attacker) = (PoolGuard::take_for_test()?, Attacker::new()?);
        guard.set_switch(THP, "madvise")?;
        let _ = fs::remove_dir_all("/var/lib/hugewise");
        fs::create_dir_all("/etc/sysctl.d").unwrap();
        let scene = Self { _guard: guard, attacker, folder: harness::folder() };
        fs::create_dir_all(scene.owners("main/conf.d")).unwrap();
        scene.attacker.user.own(Path::new("/etc/postgresql/15"));
        Ok(scene)
    }

    fn owners(&self, path: &str) -> PathBuf {
        Path::new("/etc/postgresql/15").join(path)
    }

    fn drop_in(&self) -> String {
        self.owners("main/conf.d/zz-hugewise.conf").display().to_string()
    }

    /// The owner does something in his own name.
    fn owner(&self, script: &str) {
        harness::must(
            self.attacker
                .command("/bin/sh")
                .args(["-c", &format!("set -e; cd /etc/postgresql/15; {script}")]),
        );
    }

    fn apply(&self, steps: Vec<Step>) -> Value {
        let plan = self.folder.path().join("plan.json");
        let _ = fs::remove_file(&plan);
        fs::write(&plan, plans::plan_as_it_is(steps).to_json()).unwrap();
        let output = hugewise(&["apply", plan.to_str().unwrap(), "--yes", "--format", "json"]);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{}{}",
            said(&output),
            String::from_utf8_lossy(&output.stdout)
        );
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// THP, the owner's drop-in, and a pool of so many pages more than at first.
    fn steps(&self, switch: &str, more: u64, pages: u64) -> Vec<Step> {
        let pool = PoolRef { page_size: PageSize::MIB_2, node: None };
        vec![
            step("thp").with_change(ValueChange::new(THP, switch)),
            step("pool").with_change(ValueChange::for_pool(pool, pages + more)),
            step("file").with_change(FileChange::write(
                POOL,
                format!("vm.nr_hugepages = {}\n", pages + more),
            )),
        ]
    }
}

fn step(id: &str) -> Step {
    Step::new(id, id, Risk::Safe, "a test")
}

fn pages() -> u64 {
    line(VALUES[0]).unwrap().parse().unwrap()
}

fn hugewise(arguments: &[&str]) -> Output {
    Command::new(harness::HUGEWISE).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn states() -> Vec<(String, String)> {
    let output = hugewise(&["undo", "--list", "--format", "json"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    json["journals"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (text(&one["id"]), text(&one["state"])))
        .collect()
}

#[test]
fn undone_in_any_order_what_was_before_all_of_them_comes_back() {
    if !require!(namespace::inside(
        "attacks::undoing::undone_in_any_order_what_was_before_all_of_them_comes_back"
    )) {
        return;
    }
    let scene = require!(Scene::new());
    let (before, pages) = (State::etc(), pages());
    for order in [
        ["1", "2", "3"],
        ["1", "3", "2"],
        ["2", "1", "3"],
        ["2", "3", "1"],
        ["3", "1", "2"],
        ["3", "2", "1"],
    ] {
        for force in [&["--force"][..], &[]] {
            let _ = fs::remove_dir_all(JOURNALS);
            scene.apply(scene.steps("never", 2, pages));
            scene.apply(scene.steps("madvise", 6, pages));
            scene.apply(scene.steps("always", 4, pages));
            for id in order {
                let output = hugewise(&[&["undo", id][..], force].concat());
                assert_eq!(
                    output.status.code(),
                    Some(0),
                    "{order:?} {force:?} {id}: {}",
                    said(&output)
                );
            }
            assert_same(&before, &State::etc());
            assert!(
                states().iter().all(|(_, state)| state == "undone"),
                "{order:?} {force:?}: {:?}",
                states()
            );
        }
    }
}

#[test]
fn an_owner_who_swaps_his_folders_stops_nobody() {
    if !require!(namespace::inside("attacks::undoing::an_owner_who_swaps_his_folders_stops_nobody"))
    {
        return;
    }
    let scene = require!(Scene::new());
    let file = "main/conf.d/zz-hugewise.conf";
    for (what, swap, back) in [
        ("a link to the password file", format!("ln -sf /etc/shadow {file}"), format!("rm {file}")),
        ("a link to nothing", format!("ln -sf /nowhere {file}"), format!("rm {file}")),
        (
            "a folder that is not empty",
            format!("rm {file}; mkdir -p {file}/x"),
            format!("rm -r {file}"),
        ),
        ("a pipe", format!("rm {file}; mkfifo {file}"), format!("rm {file}")),
        (
            "its folder a link",
            "mv main/conf.d main/real; ln -s real main/conf.d".into(),
            "rm main/conf.d; mv main/real main/conf.d; rm -f main/conf.d/*".into(),
        ),
        (
            "its folder a file",
            "rm -r main/conf.d; echo x > main/conf.d".into(),
            "rm main/conf.d; mkdir main/conf.d".into(),
        ),
        (
            "its folder's folder a link to root's",
            "mv main away; ln -s /etc/sysctl.d main".into(),
            "rm main; mv away main; rm -f main/conf.d/*".into(),
        ),
        ("all of it gone", "rm -r main".into(), "mkdir -p main/conf.d".into()),
    ] {
        let _ = fs::remove_dir_all(JOURNALS);
        let server =
            step("server").with_change(FileChange::write(scene.drop_in(), "huge_pages = on\n"));
        scene.apply(vec![step("thp").with_change(ValueChange::new(THP, "never")), server]);
        // The apply was killed: its journal has no end.
        let journal = format!("{JOURNALS}/0001.journal");
        let whole = fs::read_to_string(&journal).unwrap();
        let (begun, _) = whole.trim_end().rsplit_once('\n').unwrap();
        fs::write(&journal, format!("{begun}\n")).unwrap();
        let secrets = fs::read("/etc/shadow").unwrap();
        scene.owner(&swap);

        let other = scene.apply(vec![
            step("file").with_change(FileChange::write(POOL, "vm.nr_hugepages = 1\n")),
        ]);
        assert!(line(THP).unwrap().contains("[madvise]"), "{what}");
        let list = states();
        let state = &list[0].1;
        assert!(state == "undone-except" || state == "undone", "{what}: {list:?}");
        if state == "undone-except" {
            assert!(other["notes"].to_string().contains("main"), "{what}: {other:#}");
        }
        assert!(hugewise(&["plan"]).status.code() != Some(2), "{what}");
        let undone = hugewise(&["undo"]);
        assert_eq!(undone.status.code(), Some(0), "{what}: {}", said(&undone));
        assert!(!Path::new(POOL).exists(), "{what}");
        assert_eq!(fs::read("/etc/shadow").unwrap(), secrets, "{what}");
        assert!(fs::symlink_metadata("/etc/sysctl.d/conf.d").is_err(), "{what}");
        scene.owner(&back);
    }
}

#[test]
fn a_forced_undo_leaves_what_cannot_be_put_back_and_ends() {
    if !require!(namespace::inside(
        "attacks::undoing::a_forced_undo_leaves_what_cannot_be_put_back_and_ends"
    )) {
        return;
    }
    let scene = require!(Scene::new());
    let server =
        step("server").with_change(FileChange::write(scene.drop_in(), "huge_pages = on\n"));
    scene.apply(vec![step("thp").with_change(ValueChange::new(THP, "never")), server]);
    scene.owner("ln -sf /etc/shadow main/conf.d/zz-hugewise.conf");
    let refused = hugewise(&["undo"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused).contains("symbolic link to /etc/shadow"), "{}", said(&refused));
    let forced = hugewise(&["undo", "--force"]);
    assert_eq!(forced.status.code(), Some(2));
    assert!(said(&forced).contains("except for what it had to leave"), "{}", said(&forced));
    assert!(String::from_utf8_lossy(&forced.stdout).contains(&scene.drop_in()));
    assert!(line(THP).unwrap().contains("[madvise]"));
    assert_eq!(states(), [("1".to_owned(), "undone-except".to_owned())]);
    scene.apply(vec![step("thp").with_change(ValueChange::new(THP, "never"))]);
    assert_eq!(hugewise(&["undo"]).status.code(), Some(0));
    // The owner puts it right, and the rest goes too.
    scene.owner("rm main/conf.d/zz-hugewise.conf");
    let again = hugewise(&["undo", "1"]);
    assert_eq!(again.status.code(), Some(0), "{}", said(&again));
    assert_eq!(states()[0].1, "undone");
}

#[test]
fn a_bad_journal_stops_nothing_but_itself() {
    if !require!(namespace::inside("attacks::undoing::a_bad_journal_stops_nothing_but_itself")) {
        return;
    }
    let scene = require!(Scene::new());
    scene.apply(vec![step("thp").with_change(ValueChange::new(THP, "never"))]);
    let whole = fs::read_to_string(format!("{JOURNALS}/0001.journal")).unwrap();
    let sum = |json: &str| {
        let output = Command::new("sh")
            .args(["-c", "printf %s \"$1\" | sha256sum | cut -c1-16", "sh", json])
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let begin = whole.lines().next().unwrap().split_once(' ').unwrap().1;
    assert!(whole.starts_with(&sum(begin)), "the checksum is not what this test takes it for");
    let newer = begin.replace("hugewise.journal/1", "hugewise.journal/7");
    let put =
        |name: &str, text: &str| fs::write(format!("{JOURNALS}/{name}.journal"), text).unwrap();
    put("0002", "garbage\n");
    put("0003", &format!("{} {newer}\n", sum(&newer)));
    put("0004", &whole.replace("\"intent\"", "\"Intent\""));
    put("0005", "");
    put("0006", &whole[..whole.len() / 3]);
    for name in ["99999999999999999999", "18446744073709551615", "1", "-5", "x"] {
        put(name, &whole);
    }
    fs::create_dir(format!("{JOURNALS}/0008.journal")).unwrap();
    harness::must(Command::new("mkfifo").arg(format!("{JOURNALS}/0009.journal")));

    let list = hugewise(&["undo", "--list", "--color", "never"]);
    let shown =
        String::from_utf8_lossy(&list.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(list.status.code(), Some(0), "{}", said(&list));
    for part in [
        "0002.journal",
        "0003.journal",
        "0004.journal",
        "0008.journal",
        "0009.journal",
        "unreadable",
        "version that wrote it",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let plan = hugewise(&["plan"]);
    assert_ne!(plan.status.code(), Some(2), "{}", said(&plan));
    let more = scene.apply(vec![step("thp").with_change(ValueChange::new(THP, "always"))]);
    assert_eq!(more["journal"], "10", "{more:#}");
    assert!(more["notes"].to_string().contains("0002.journal"), "{more:#}");
    let bad = hugewise(&["undo", "2"]);
    assert!(
        bad.status.code() == Some(2)
            && said(&bad).contains("0002.journal")
            && said(&bad).contains("mv "),
        "{}",
        said(&bad)
    );
    for id in ["10", "1"] {
        let undone = hugewise(&["undo", id]);
        assert_eq!(undone.status.code(), Some(0), "{}", said(&undone));
    }
    assert!(line(THP).unwrap().contains("[madvise]"));
}

#[test]
fn undo_on_a_full_disk_and_over_an_immutable_file_can_be_tried_again() {
    if !require!(namespace::inside(
        "attacks::undoing::undo_on_a_full_disk_and_over_an_immutable_file_can_be_tried_again"
    )) {
        return;
    }
    let scene = require!(Scene::new());
    let (before, pages) = (State::etc(), pages());
    fs::create_dir_all("/var/lib/hugewise").unwrap();
    harness::must(Command::new("mount").args([
        "-t",
        "tmpfs",
        "-o",
        "size=64k,mode=700",
        "small",
        "/var/lib/hugewise",
    ]));
    // What is left of the journal's last page takes no further line.
    let padded = |pad: usize| {
        let mut steps = scene.steps("never", 2, pages);
        steps[0].why = "x".repeat(pad);
        scene.apply(steps);
        let length = fs::symlink_metadata(format!("{JOURNALS}/0001.journal")).unwrap().len();
        usize::try_from(length % 4096).unwrap()
    };
    let used = padded(1);
    assert_eq!(hugewise(&["undo"]).status.code(), Some(0));
    fs::remove_dir_all(JOURNALS).unwrap();
    let used = padded(1 + (4096 + 4090 - used) % 4096);
    assert!(used > 4050, "{used} bytes of its last page");
    let mut full = fs::File::create("/var/lib/hugewise/full").unwrap();
    while full.write(&[0; 512]).is_ok_and(|written| written > 0) {}
    let undone = hugewise(&["undo", "--color", "never"]);
    assert_eq!(undone.status.code(), Some(0), "{}", said(&undone));
    assert!(
        String::from_utf8_lossy(&undone.stdout).contains("no space left"),
        "{}",
        String::from_utf8_lossy(&undone.stdout)
    );
    assert_same(&before, &State::etc());
    drop(full);
    fs::remove_file("/var/lib/hugewise/full").unwrap();
    let again = hugewise(&["undo"]);
    assert_eq!(again.status.code(), Some(0), "{}", said(&again));
    assert_eq!(states(), [("1".to_owned(), "undone".to_owned())]);

    harness::must(Command::new("umount").arg("/var/lib/hugewise"));
    scene.apply(scene.steps("never", 2, pages));
    // A bind mount is as immovable as chattr +i makes it, on every file system.
    harness::must(Command::new("mount").args(["--bind", POOL, POOL]));
    let stuck = hugewise(&["undo"]);
    assert_eq!(stuck.status.code(), Some(2));
    assert!(
        said(&stuck).contains("only partly undone") && line(THP).unwrap().contains("[madvise]"),
        "{}",
        said(&stuck)
    );
    assert_eq!(states()[0].1, "stuck");
    harness::must(Command::new("umount").arg(POOL));
    assert_eq!(hugewise(&["undo", "1"]).status.code(), Some(0));
    assert_same(&before, &State::etc());
}

#[test]
fn two_who_undo_at_once_do_not_meet() {
    if !require!(namespace::inside("attacks::undoing::two_who_undo_at_once_do_not_meet")) {
        return;
    }
    let scene = require!(Scene::new());
    let (before, pages) = (State::etc(), pages());
    for _ in 0..5 {
        let _ = fs::remove_dir_all(JOURNALS);
        scene.apply(scene.steps("never", 2, pages));
        scene.apply(scene.steps("always", 4, pages));
        let undo = |id: &str| {
            let mut command = Command::new(harness::HUGEWISE);
            command
                .args(["undo", id])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        };
        let both = [undo("1"), undo("2")];
        for child in both {
            let output = child.wait_with_output().unwrap();
            let busy = said(&output).contains("another process is changing this host");
            assert!(output.status.code() == Some(0) || busy, "{}", said(&output));
        }
        while hugewise(&["undo"]).status.code() == Some(0) {}
        assert_same(&before, &State::etc());
    }
}

/// ZGC has reserved none of the pages that its heap grows into: without them the machine dies.
#[test]
fn undo_asks_before_it_takes_pages_that_a_heap_has_yet_to_grow_into() {
    if !require!(namespace::inside(
        "attacks::undoing::undo_asks_before_it_takes_pages_that_a_heap_has_yet_to_grow_into"
    )) {
        return;
    }
    let scene = require!(Scene::new());
    let before = pages();
    let more = scene.steps("never", 900, before);
    scene.apply(more);
    assert_eq!(pages(), before + 900);
    let folder = harness::folder();
    let growing = ["-XX:+UseZGC", "-XX:+UseLargePages", "-Xms64m", "-Xmx1g"];
    let server = require!(crate::real::jvm::start_as(&folder, &growing));

    let refused = hugewise(&["undo"]);
    let why = said(&refused);
    assert_eq!(refused.status.code(), Some(2), "{why}");
    for part in [format!("(pid {}: has ", server.pid), "may still take ".into(), "--force".into()] {
        assert!(why.contains(&part), "{part} is not in: {why}");
    }
    assert_eq!((pages(), line(THP).unwrap().contains("[never]")), (before + 900, true));
    assert!(Path::new(POOL).exists());

    drop(server);
    let undone = hugewise(&["undo"]);
    assert_eq!(undone.status.code(), Some(0), "{}", said(&undone));
    assert_eq!(pages(), before);
}
