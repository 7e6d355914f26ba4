//! Plans, machines and neighbours that mean no good: a clear message, exit code 2, and nothing
//! changed.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use hugewise_change::plan::{CommandChange, FileChange, ValueChange};
use hugewise_change::{Risk, Step};
use hugewise_lab::guard::PoolGuard;
use hugewise_testkit::require;

use crate::real::harness::{self, User};
use crate::real::namespace::{self, State, assert_same};
use crate::real::plans::{GRUB, GRUB_CFG, THP, UPDATE_GRUB, plan_as_it_is as plan, update_grub};

const DROP_IN: &str = "/etc/sysctl.d/zz-hugewise-shm-limits.conf";
const TEXT: &str =
    "# Made by hugewise. To undo: hugewise undo\nkernel.shmmax = 18446744073692774399\n";
const GRUB_TEXT: &str = "# Made by hugewise. To undo: hugewise undo\n\
                         GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX hugepages=10\"\n";

/// A machine of its own whose THP is `madvise`, held for as long as the test runs.
struct Scene {
    _guard: PoolGuard,
    folder: tempfile::TempDir,
}

impl Scene {
    fn new() -> Result<Self, hugewise_testkit::Skip> {
        let guard = PoolGuard::take_for_test()?;
        guard.set_switch(THP, "madvise")?;
        Ok(Self { _guard: guard, folder: harness::folder() })
    }

    /// Writes a plan for this machine.
    fn plan(&self, steps: Vec<Step>) -> PathBuf {
        let text = plan(steps).to_json();
        self.file("plan.json", text.as_bytes())
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// THP first, then a file: where the file cannot be written, THP has to go back.
    fn usual(&self) -> PathBuf {
        self.plan(vec![thp(), drop_in()])
    }
}

fn thp() -> Step {
    Step::new("thp-now", "THP", Risk::Safe, "why").with_change(ValueChange::new(THP, "never"))
}

fn drop_in() -> Step {
    Step::new("shm-limits", "limits", Risk::Safe, "why")
        .with_change(FileChange::write(DROP_IN, TEXT))
}

fn apply(plan: &Path) -> Output {
    Command::new(harness::HUGEWISE)
        .arg("apply")
        .arg(plan)
        .arg("--yes")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Asserts that a run refused with these words, and that the machine is as it was.
#[track_caller]
fn assert_refused(before: &State, output: &Output, words: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{}{said}", String::from_utf8_lossy(&output.stdout));
    assert!(said.starts_with("hugewise: "), "{said}");
    for word in words {
        assert!(said.contains(word), "{word:?} is not in: {said}");
    }
    assert_same(before, &State::etc());
}

#[track_caller]
fn mount(arguments: &[&str]) {
    harness::must(Command::new("mount").args(arguments));
}

#[test]
fn a_plan_that_means_well_is_carried_out_and_taken_back() {
    if !require!(namespace::inside("hostile::a_plan_that_means_well_is_carried_out_and_taken_back"))
    {
        return;
    }
    let scene = require!(Scene::new());
    let (plan, before) = (scene.usual(), State::etc());
    let output = apply(&plan);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs::read_to_string(DROP_IN).unwrap(), TEXT);
    assert!(fs::read_to_string(THP).unwrap().contains("[never]"));
    let after = State::etc();
    let again = apply(&plan);
    assert_eq!(again.status.code(), Some(0), "{}", String::from_utf8_lossy(&again.stderr));
    assert_same(&after, &State::etc());
    harness::must(Command::new(harness::HUGEWISE).arg("undo"));
    assert_same(&before, &State::etc());
}

#[test]
fn read_only_etc() {
    if !require!(namespace::inside("hostile::read_only_etc")) {
        return;
    }
    let scene = require!(Scene::new());
    let (plan, before) = (scene.usual(), State::etc());
    mount(&["-o", "remount,bind,ro", "/etc"]);
    assert_refused(&before, &apply(&plan), &["/etc/sysctl.d", "read-only file system"]);
}

#[test]
fn a_full_disk() {
    if !require!(namespace::inside("hostile::a_full_disk")) {
        return;
    }
    let scene = require!(Scene::new());
    let plan = scene.usual();
    mount(&["-t", "tmpfs", "-o", "size=8k,mode=755", "full", "/etc/sysctl.d"]);
    fill("/etc/sysctl.d/full");
    let before = State::etc();
    assert_refused(&before, &apply(&plan), &["/etc/sysctl.d", "no space left on device"]);

    // Nor is anything changed where the journal has no room.
    harness::must(Command::new("umount").arg("/etc/sysctl.d"));
    fs::create_dir_all("/var/lib/hugewise").unwrap();
    mount(&["-t", "tmpfs", "-o", "size=8k,mode=755", "full", "/var/lib/hugewise"]);
    fill("/var/lib/hugewise/full");
    let before = State::etc();
    assert_refused(&before, &apply(&plan), &["/var/lib/hugewise", "no space left on device"]);
}

/// Writes until nothing more goes in.
fn fill(path: &str) {
    let mut file = fs::File::create(path).unwrap();
    while file.write(&[0; 1024]).is_ok_and(|written| written > 0) {}
}

#[test]
fn a_boot_loader_whose_program_is_missing() {
    if !require!(namespace::inside("hostile::a_boot_loader_whose_program_is_missing")) {
        return;
    }
    let scene = require!(Scene::new());
    let _ = fs::remove_file("/usr/sbin/update-grub");
    let step = Step::new("boot-loader", "pages at boot", Risk::Reboot, "why")
        .with_change(FileChange::write(GRUB, GRUB_TEXT))
        .with_change(update_grub());
    let (plan, before) = (scene.plan(vec![thp(), step]), State::etc());
    assert_refused(&before, &apply(&plan), &["update-grub", "boot-loader", "was rolled back"]);
}

#[test]
fn a_symbolic_link_in_place_of_the_drop_in() {
    if !require!(namespace::inside("hostile::a_symbolic_link_in_place_of_the_drop_in")) {
        return;
    }
    let scene = require!(Scene::new());
    let plan = scene.usual();
    fs::write("/etc/victim", "precious\n").unwrap();
    symlink("/etc/victim", DROP_IN).unwrap();
    let before = State::etc();
    assert_refused(&before, &apply(&plan), &[DROP_IN, "symbolic link"]);
    // The folder itself may be one.
    fs::remove_file(DROP_IN).unwrap();
    harness::must(Command::new("mv").args(["/etc/sysctl.d", "/etc/elsewhere"]));
    symlink("/etc/elsewhere", "/etc/sysctl.d").unwrap();
    let before = State::etc();
    assert_refused(&before, &apply(&plan), &["/etc/sysctl.d", "symbolic link"]);
}

#[test]
fn plans_that_were_changed_cut_or_made_elsewhere() {
    if !require!(namespace::inside("hostile::plans_that_were_changed_cut_or_made_elsewhere")) {
        return;
    }
    let scene = require!(Scene::new());
    let text = fs::read_to_string(scene.usual()).unwrap();
    let before = State::etc();
    let edited = text.replace("zz-hugewise-shm-limits", "zz-hugewise-shm-1imits");
    assert_ne!(edited, text);
    assert_refused(
        &before,
        &apply(&scene.file("edited", edited.as_bytes())),
        &["edited", "changed", "checksum"],
    );
    for length in [0, 1, 10, text.len() / 2, text.len() - 3] {
        assert_refused(
            &before,
            &apply(&scene.file("cut", &text.as_bytes()[..length])),
            &["cut", "plan"],
        );
    }
    let newer = text.replace("hugewise.plan/1", "hugewise.plan/9");
    assert_refused(&before, &apply(&scene.file("newer", newer.as_bytes())), &["hugewise.plan/9"]);
    assert_refused(
        &before,
        &apply(Path::new("/nowhere/plan.json")),
        &["/nowhere/plan.json", "no such file"],
    );
    assert_refused(&before, &apply(Path::new("/dev/zero")), &["/dev/zero"]);
    assert_refused(&before, &apply(scene.folder.path()), &[scene.folder.path().to_str().unwrap()]);

    let mut elsewhere = plan(vec![thp(), drop_in()]);
    elsewhere.host.name = "db7".into();
    elsewhere.host.machine_id = Some("0123456789abcdef0123456789abcdef".into());
    elsewhere.seal();
    let elsewhere = scene.file("elsewhere", elsewhere.to_json().as_bytes());
    assert_refused(&before, &apply(&elsewhere), &["db7", "0123456789abcdef0123456789abcdef"]);
}

/// Whoever can write a plan can seal it too: the seal keeps accidents away, a closed list the rest.
#[test]
fn forged_plans_with_a_right_checksum() {
    if !require!(namespace::inside("hostile::forged_plans_with_a_right_checksum")) {
        return;
    }
    let scene = require!(Scene::new());
    let before = State::etc();
    let step = || Step::new("shm-limits", "limits", Risk::Safe, "why");
    let root_shell = "* * * * * root touch /etc/owned\n";
    let steps = [
        step().with_change(FileChange::write("/etc/cron.d/owned", root_shell)),
        step().with_change(FileChange::write("/etc/sysctl.d/../cron.d/owned", root_shell)),
        step().with_change(FileChange::write("/etc/sysctl.d/zz-hugewise/../../passwd", root_shell)),
        step().with_change(FileChange::write("/etc/sysctl.d/10-theirs.conf", TEXT)),
        step().with_change(FileChange::write("/etc/passwd", root_shell)),
        step().with_change(FileChange::write("/root/.bashrc", root_shell)),
        step().with_change(FileChange::write("etc/sysctl.d/zz-hugewise-shm-limits.conf", TEXT)),
        step().with_change(FileChange::remove("/etc/passwd")),
        step().with_change(FileChange::write(DROP_IN, TEXT).owned_by(0, 0, 0o4755)),
        step().with_change(FileChange::write(DROP_IN, "kernel.core_pattern = |/tmp/x\n")),
        step().with_change(FileChange::write(
            "/etc/systemd/system/a.service.d/zz-hugewise.conf",
            "[Service]\nExecStart=/tmp/x\n",
        )),
        step().with_change(FileChange::write(
            "/etc/systemd/system/hugewise.service",
            "[Service]\nExecStart=/tmp/x\n",
        )),
        step().with_change(ValueChange::new("/proc/sys/kernel/core_pattern", "|/tmp/x")),
        step().with_change(ValueChange::new("/proc/sysrq-trigger", "c")),
        step().with_change(ValueChange::new("/sys/power/state", "mem")),
        step().with_change(CommandChange::new(["/bin/sh", "-c", "touch /etc/owned"], "why")),
        step().with_change(CommandChange::new(["/tmp/update-grub"], "why")),
        step().with_change(CommandChange::new(
            ["/usr/bin/systemctl", "disable", "ssh.service"],
            "why",
        )),
        step().with_change(
            CommandChange::new(["/usr/bin/psql", "-c", "\\! touch /etc/owned"], "why")
                .as_user("postgres"),
        ),
        step().with_change(
            CommandChange::new(["/usr/sbin/update-grub"], "why").undone_by(["/bin/sh", "-c", "id"]),
        ),
        step().with_change(
            CommandChange::new(["/usr/sbin/update-grub"], "why").with_rewritten_file("/etc/shadow"),
        ),
    ];
    for (at, step) in steps.into_iter().enumerate() {
        let mut forged = plan(vec![thp()]);
        forged.steps.push(step);
        forged.seal();
        let forged = scene.file(&format!("forged-{at}"), forged.to_json().as_bytes());
        let output = apply(&forged);
        let text = fs::read_to_string(&forged).unwrap();
        assert_eq!(
            output.status.code(),
            Some(2),
            "{text}\n{}",
            String::from_utf8_lossy(&output.stdout)
        );
        let said = String::from_utf8_lossy(&output.stderr);
        // It was the list that refused, not the drift or a failure half way.
        assert!(
            said.contains("step shm-limits: ") && said.contains("nothing was changed"),
            "{text}\n{said}"
        );
        assert_same(&before, &State::etc());
    }
    assert!(!Path::new("/etc/owned").exists());
}

#[test]
fn two_applies_at_once() {
    if !require!(namespace::inside("hostile::two_applies_at_once")) {
        return;
    }
    let scene = require!(Scene::new());
    let (plan, before) = (scene.usual(), State::etc());
    fs::create_dir_all("/var/lib/hugewise").unwrap();
    let mut holder = Command::new("flock")
        .args(["/var/lib/hugewise/lock", "sh", "-c", "echo held; cat >/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "held\n");
    assert_refused(&before, &apply(&plan), &["another process is changing this host"]);
    let undo = Command::new(harness::HUGEWISE).arg("undo").output().unwrap();
    assert_refused(&before, &undo, &["another process is changing this host"]);
    drop(holder.stdin.take());
    holder.wait().unwrap();

    let mut both: Vec<_> = (0..4)
        .map(|_| {
            let mut command = Command::new(harness::HUGEWISE);
            command
                .arg("apply")
                .arg(&plan)
                .arg("--yes")
                .stdout(Stdio::null())
                .stderr(Stdio::piped());
            command.spawn().unwrap()
        })
        .collect();
    let mut codes = Vec::new();
    for child in &mut both {
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        let code = child.wait().unwrap().code();
        assert!(
            code == Some(0) || said.contains("another process is changing this host"),
            "{code:?}: {said}"
        );
        codes.push(code);
    }
    assert!(codes.contains(&Some(0)), "{codes:?}");
    harness::must(Command::new(harness::HUGEWISE).arg("undo"));
    assert_same(&before, &State::etc());
}

#[test]
fn nobody_is_not_root() {
    if !require!(namespace::inside("hostile::nobody_is_not_root")) {
        return;
    }
    let scene = require!(Scene::new());
    let (plan, before) = (scene.usual(), State::etc());
    fs::set_permissions(&plan, fs::Permissions::from_mode(0o644)).unwrap();
    let program = scene.folder.path().join("hugewise");
    fs::copy(harness::HUGEWISE, &program).unwrap();
    let nobody = require!(User::named("nobody"));
    let runs: [&[&str]; 3] =
        [&["apply", plan.to_str().unwrap(), "--yes"], &["apply", "--yes"], &["undo"]];
    for arguments in runs {
        assert_refused(
            &before,
            &nobody.command(&program).args(arguments).output().unwrap(),
            &["root"],
        );
    }
}

#[test]
fn kernel_files_that_are_not_the_kernels() {
    if !require!(namespace::inside("hostile::kernel_files_that_are_not_the_kernels")) {
        return;
    }
    let scene = require!(Scene::new());
    let (plan, before) = (scene.usual(), State::etc());
    let fake = scene.file("enabled", b"always [madvise] never\n");
    // What lies over them is gone with the run.
    let run = |mounting: &str| {
        let script = format!("{mounting} && exec \"$@\"");
        let mut command = Command::new("unshare");
        command.args(["--mount", "--", "sh", "-c", &script, "sh", harness::HUGEWISE, "apply"]);
        command.arg(&plan).arg("--yes").output().unwrap()
    };
    for folder in ["/sys", "/proc"] {
        let output = run(&format!("mount -t tmpfs fake {folder}"));
        assert_refused(&before, &output, &[folder, "does not come from the kernel"]);
    }
    // One file of them will do.
    assert_refused(&before, &run(&format!("mount --bind {} {THP}", fake.display())), &[THP]);
}

#[test]
fn nobody_listens() {
    if !require!(namespace::inside("hostile::nobody_listens")) {
        return;
    }
    let scene = require!(Scene::new());
    let (plan, before) = (scene.usual(), State::etc());
    let run = |arguments: &[&str]| {
        let mut child = Command::new(harness::HUGEWISE)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop((child.stdout.take(), child.stderr.take()));
        child.wait().unwrap().code()
    };
    // The work is done all the same.
    assert_eq!(run(&["apply", plan.to_str().unwrap(), "--yes"]), Some(0));
    assert!(Path::new(DROP_IN).exists());
    assert_eq!(run(&["undo"]), Some(0));
    assert_same(&before, &State::etc());
}

#[test]
fn nobody_can_be_asked() {
    if !require!(namespace::inside("hostile::nobody_can_be_asked")) {
        return;
    }
    let scene = require!(Scene::new());
    let (plan, before) = (scene.usual(), State::etc());
    let output = Command::new(harness::HUGEWISE)
        .arg("apply")
        .arg(&plan)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_refused(&before, &output, &["--yes"]);
}

#[test]
fn a_journal_that_cannot_be_kept() {
    if !require!(namespace::inside("hostile::a_journal_that_cannot_be_kept")) {
        return;
    }
    let scene = require!(Scene::new());
    let (plan, before) = (scene.usual(), State::etc());
    fs::write("/var/lib/hugewise", "in the way").unwrap();
    assert_refused(&before, &apply(&plan), &["/var/lib/hugewise"]);
    fs::remove_file("/var/lib/hugewise").unwrap();
    fs::create_dir("/var/lib/hugewise").unwrap();
    mount(&["-t", "tmpfs", "-o", "ro,mode=755", "closed", "/var/lib/hugewise"]);
    assert_refused(&before, &apply(&plan), &["/var/lib/hugewise", "read-only file system"]);
    harness::must(Command::new("umount").arg("/var/lib/hugewise"));
    fs::create_dir("/var/lib/elsewhere").unwrap();
    fs::remove_dir("/var/lib/hugewise").unwrap();
    symlink("/var/lib/elsewhere", "/var/lib/hugewise").unwrap();
    assert_refused(&before, &apply(&plan), &["/var/lib/hugewise", "symbolic link"]);
}

#[test]
fn a_host_that_has_changed_since_the_plan() {
    if !require!(namespace::inside("hostile::a_host_that_has_changed_since_the_plan")) {
        return;
    }
    let scene = require!(Scene::new());
    let plan = scene.usual();
    fs::write(DROP_IN, "kernel.shmmax = 1\n").unwrap();
    let before = State::etc();
    assert_refused(&before, &apply(&plan), &[DROP_IN, "+kernel.shmmax = 1", "changed since"]);
    fs::remove_file(DROP_IN).unwrap();

    // And what somebody changed after it is not taken back blindly.
    assert_eq!(apply(&plan).status.code(), Some(0));
    fs::write(DROP_IN, format!("{TEXT}vm.swappiness = 1\n")).unwrap();
    let before = State::etc();
    let undo =
        |more: &[&str]| Command::new(harness::HUGEWISE).arg("undo").args(more).output().unwrap();
    assert_refused(&before, &undo(&[]), &[DROP_IN, "+vm.swappiness = 1"]);
    assert_eq!(undo(&["--force"]).status.code(), Some(0));
    assert!(!Path::new(DROP_IN).exists());
}

#[test]
fn a_plan_of_a_host_that_a_killed_apply_has_left() {
    if !require!(namespace::inside("hostile::a_plan_of_a_host_that_a_killed_apply_has_left")) {
        return;
    }
    let scene = require!(Scene::new());
    for folder in [GRUB, GRUB_CFG, UPDATE_GRUB].map(|file| Path::new(file).parent().unwrap()) {
        fs::create_dir_all(folder).unwrap();
    }
    fs::write(GRUB_CFG, "# made by update-grub\n").unwrap();
    let _ = fs::remove_file(UPDATE_GRUB);
    fs::write(UPDATE_GRUB, "#!/bin/sh\necho half >/boot/grub/grub.cfg\nkill -9 $PPID $$\n")
        .unwrap();
    fs::set_permissions(UPDATE_GRUB, fs::Permissions::from_mode(0o755)).unwrap();
    let before = State::etc();
    let step = Step::new("boot", "boot", Risk::Reboot, "why")
        .with_change(FileChange::write(GRUB, GRUB_TEXT));
    let plan = scene.plan(vec![thp(), step.with_change(update_grub())]);
    assert_eq!(apply(&plan).status.code(), None);
    let half = State::etc();
    assert_ne!(half, before);

    let run = |words: &[&str]| {
        Command::new(harness::HUGEWISE).args(words).stdin(Stdio::null()).output().unwrap()
    };
    let out = scene.folder.path().join("out.json");
    let runs: [&[&str]; 3] =
        [&["plan"], &["plan", "--format", "shell"], &["plan", "--out", out.to_str().unwrap()]];
    for words in runs {
        let output = run(words);
        assert_refused(&half, &output, &["apply 1 of ", "was interrupted", "hugewise undo 1"]);
        assert_eq!(output.stdout, b"");
    }
    assert!(!out.exists());
    // Who may not read the journals is told that nobody knows.
    let program = scene.folder.path().join("hugewise");
    fs::copy(harness::HUGEWISE, &program).unwrap();
    let said = require!(User::named("nobody")).command(&program).arg("plan").output().unwrap();
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(
        said.contains("/var/lib/hugewise/journal") && said.contains("only root may read it"),
        "{said}"
    );

    // Its command still kills whoever runs it.
    assert_eq!(run(&["undo", "1"]).status.code(), None);
    assert_refused(
        &State::etc(),
        &run(&["plan"]),
        &["the undo of apply 1 of ", "hugewise undo 1 finishes it"],
    );
    fs::write(UPDATE_GRUB, "#!/bin/sh\necho '# made by update-grub' >/boot/grub/grub.cfg\n")
        .unwrap();
    assert_eq!(run(&["undo", "1"]).status.code(), Some(0));
    assert_same(&before, &State::etc());
    crate::real::change::run(&["plan"], 0);
}
