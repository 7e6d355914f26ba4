//! apply and undo, killed at every system call that changes something: nothing is lost.
//!
//! One whole run under strace tells which calls there are; then one run for each of them is killed
//! as it enters that call, so that what came before it stands and it does not. Commands are killed
//! together with hugewise, before their effect, in the middle of it and after it, and outlive it
//! elsewhere.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use hugewise_change::plan::{FileChange, PoolRef, ValueChange};
use hugewise_change::{Plan, Risk, Step};
use hugewise_lab::guard::PoolGuard;
use hugewise_model::PageSize;
use hugewise_testkit::{Skip, require};
use rustix::fs::{CWD, Mode, OFlags, XattrFlags, fgetxattr, fsetxattr, openat};

use crate::real::harness;
use crate::real::namespace::{self, State, VALUES, assert_same};
use crate::real::plans::{self, GRUB, GRUB_CFG, THP, UPDATE_GRUB, update_grub};

const STRACE: &str = "/usr/bin/strace";
const OLD: &str = "/etc/tmpfiles.d/00-hugewise-old.conf";
const LIMITS: &str = "/etc/security/limits.d/zz-hugewise.conf";
const JOURNAL: &str = "/var/lib/hugewise";
/// Tells the boot loader's program when to kill whoever runs it, and itself.
const MODE: &str = "/etc/default/crash";
const LABEL: &[u8] = b"\x00\xffkept";

/// What a plan here can change.
const FOLDERS: [&str; 7] = [
    "/etc/sysctl.d",
    "/etc/tmpfiles.d",
    "/etc/security",
    "/etc/systemd",
    "/etc/default",
    "/etc/tuned",
    "/boot",
];

/// System calls that change files or values, start a process, or take a lock.
const CHANGING: &str = "openat,write,pwrite64,rename,renameat,renameat2,fsync,fdatasync,unlink,unlinkat,rmdir,mkdir,\
                        mkdirat,chmod,fchmod,fchmodat,fchown,fchownat,setxattr,fsetxattr,fremovexattr,ftruncate,flock,\
                        clone,clone3,vfork,kill,clock_nanosleep";

/// It takes a moment, and its file is half made meanwhile.
const PROGRAM: &str = "#!/bin/sh
end() {
    if [ \"$(cat /etc/default/crash 2>/dev/null)\" = \"$1\" ]; then kill -9 $PPID $$; fi
}
end before
echo '# half' > /boot/grub/grub.cfg
end half
sleep 0.04
{ echo '# made by update-grub'; cat /etc/default/grub.d/*.cfg 2>/dev/null; } > /boot/grub/grub.cfg
end after
";

struct Scene {
    _guard: PoolGuard,
    _folder: tempfile::TempDir,
    plan: PathBuf,
    before: State,
    after: State,
}

impl Scene {
    /// A host with files that are replaced and removed, and what a whole apply makes of it.
    fn new() -> Result<Self, Skip> {
        harness::program(&[STRACE])?;
        let guard = PoolGuard::take_for_test()?;
        guard.set_switch(THP, "madvise")?;
        for (path, text, mode) in [
            (OLD, "w /sys/kernel/mm/transparent_hugepage/enabled - - - - always\n", 0o644),
            (LIMITS, "postgres - memlock 65536\n", 0o640),
            ("/etc/default/grub.d/other.cfg", "# other\n", 0o644),
            (GRUB_CFG, "# made by update-grub\n# other\n", 0o600),
            (UPDATE_GRUB, PROGRAM, 0o755),
        ] {
            fs::create_dir_all(Path::new(path).parent().unwrap()).unwrap();
            let _ = fs::remove_file(path);
            fs::write(path, text).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        chown(LIMITS, Some(0), Some(7)).unwrap();
        let limits = openat(CWD, LIMITS, OFlags::RDONLY, Mode::empty()).unwrap();
        fsetxattr(&limits, "trusted.origin", LABEL, XattrFlags::empty()).unwrap();
        let _ = fs::remove_dir_all(JOURNAL);

        let folder = harness::folder();
        let path = folder.path().join("plan.json");
        fs::write(&path, plan().to_json()).unwrap();
        let before = look();
        let mut scene = Self {
            _guard: guard,
            _folder: folder,
            plan: path,
            before: before.clone(),
            after: before,
        };
        scene.ends_well(scene.apply());
        scene.after = look();
        scene.undone("a whole apply");
        Ok(scene)
    }

    fn apply(&self) -> Vec<String> {
        let words = [harness::HUGEWISE, "apply", self.plan.to_str().unwrap(), "--yes"];
        words.map(str::to_owned).to_vec()
    }

    fn ends_well(&self, words: Vec<String>) {
        let output = patiently(&words);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{words:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    /// Undo brings everything back; where nothing was begun, there is nothing to undo.
    fn undone(&self, when: &str) {
        let output = patiently(&undo());
        let said = String::from_utf8_lossy(&output.stderr);
        let nothing = output.status.code() == Some(2) && said.contains("nothing to undo");
        assert!(nothing || output.status.code() == Some(0), "{when}: {said}");
        self.is_as_before(when);
        fs::remove_dir_all(JOURNAL).unwrap_or_default();
    }

    #[track_caller]
    fn is_as_before(&self, when: &str) {
        let now = look();
        if now != self.before {
            eprintln!("after {when}:");
            assert_same(&self.before, &now);
        }
        assert_eq!(label(), LABEL, "after {when}");
    }

    /// Every point at which this command can be killed, from one run that is not.
    fn points(&self, words: &[String]) -> Vec<Point> {
        let log = self.plan.with_file_name("strace");
        let output = again(|| {
            let mut command = Command::new(STRACE);
            command
                .args(["-o", log.to_str().unwrap(), "-e", &format!("trace={CHANGING}")])
                .args(words);
            command
        });
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        points(&fs::read_to_string(log).unwrap())
    }

    /// Runs it until it enters that call; whether it was killed there.
    fn killed(&self, words: &[String], point: &Point) -> bool {
        let inject = format!("inject={}:signal=SIGKILL:when={}", point.call, point.number);
        let output = again(|| {
            let mut command = Command::new(STRACE);
            command
                .args(["-o", "/dev/null", "-e", &format!("trace={}", point.call), "-e", &inject])
                .args(words);
            command
        });
        // strace ends as what it runs.
        let killed = output.status.signal() == Some(9) || output.status.code() == Some(128 + 9);
        assert!(
            killed || output.status.success(),
            "{point:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        killed
    }
}

fn plan() -> Plan {
    let pool = PoolRef { page_size: PageSize::MIB_2, node: None };
    let pages: u64 = plans::line(VALUES[0]).unwrap().parse().unwrap();
    let step = |id: &str| Step::new(id, id, Risk::Safe, "a test");
    let words = "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX hugepages=9\"\n";
    plans::plan_as_it_is(vec![
        step("pool").with_change(ValueChange::for_pool(pool, pages + 9)),
        step("thp")
            .with_change(ValueChange::new(THP, "never"))
            .with_change(FileChange::remove(OLD)),
        step("sysctl").with_change(FileChange::write(
            "/etc/sysctl.d/zz-hugewise-pool.conf",
            "vm.nr_hugepages = 9\n",
        )),
        step("memlock")
            .with_change(FileChange::write(LIMITS, "postgres - memlock unlimited\n"))
            .with_change(FileChange::write(
                "/etc/systemd/system/postgresql@.service.d/zz-hugewise.conf",
                "[Service]\nLimitMEMLOCK=infinity\n",
            )),
        step("boot").with_change(FileChange::write(GRUB, words)).with_change(update_grub()),
    ])
}

fn undo() -> Vec<String> {
    [harness::HUGEWISE, "undo"].map(str::to_owned).to_vec()
}

fn look() -> State {
    State::of(&FOLDERS.map(Path::new))
}

fn label() -> Vec<u8> {
    let limits = openat(CWD, LIMITS, OFlags::RDONLY, Mode::empty()).unwrap();
    let mut value = vec![0; 64];
    let length = fgetxattr(&limits, "trusted.origin", value.as_mut_slice()).unwrap();
    value.truncate(length);
    value
}

fn patiently(words: &[String]) -> Output {
    again(|| {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command
    })
}

/// Runs it again for as long as a command holds the lock that a killed run has started, or other
/// processes here leave the kernel no page.
fn again(command: impl Fn() -> Command) -> Output {
    let until = Instant::now() + Duration::from_secs(120);
    loop {
        let output = command().stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let passing = ["another process is changing this host", "and the kernel gave"];
        if !passing.iter().any(|text| said.contains(text)) || Instant::now() > until {
            return output;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A call by its name, and which of the calls of that name.
#[derive(Debug)]
struct Point {
    call: String,
    number: usize,
}

/// Calls of a trace that change something. Files that are opened to be read, and what is printed,
/// change nothing.
fn points(log: &str) -> Vec<Point> {
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    let mut points = Vec::new();
    for line in log.lines() {
        let Some((call, rest)) = line.split_once('(') else { continue };
        let number = numbers.entry(call).or_default();
        *number += 1;
        let opens = |flag: &str| rest.contains(flag);
        let changes = match call {
            "openat" => {
                opens("O_CREAT") || opens("O_TRUNC") || opens("O_WRONLY") || opens("O_RDWR")
            }
            "write" | "pwrite64" => !rest.starts_with("1,") && !rest.starts_with("2,"),
            _ => true,
        };
        if changes {
            points.push(Point { call: call.to_owned(), number: *number });
        }
    }
    points
}

#[test]
fn killed_at_every_call_nothing_is_lost() {
    if !require!(namespace::inside("crash::killed_at_every_call_nothing_is_lost")) {
        return;
    }
    let scene = require!(Scene::new());
    let apply = scene.apply();
    let of_apply = scene.points(&apply);
    scene.undone("a traced apply");
    let calls = |points: &[Point], call: &str| {
        points.iter().filter(|point| point.call.starts_with(call)).count()
    };
    // Four files are written and one is put back when its command is undone; a journal has a line
    // before and after each change, and its first and last.
    assert!(calls(&of_apply, "renameat") >= 4 && calls(&of_apply, "fsync") >= 24, "{of_apply:?}");
    assert!(calls(&of_apply, "unlinkat") >= 1 && calls(&of_apply, "mkdirat") >= 3, "{of_apply:?}");

    let (mut died, mut survived) = (0, 0);
    for point in &of_apply {
        let when = format!("apply was killed at {} {}", point.call, point.number);
        if !scene.killed(&apply, point) {
            // How often it sleeps while a command runs is not the same in every run.
            assert_eq!(point.call, "clock_nanosleep", "{when}");
            survived += 1;
        }
        scene.undone(&when);
        if scene.killed(&apply, point) {
            died += 1;
        }
        scene.ends_well(apply.clone());
        assert_same(&scene.after, &look());
        scene.undone(&format!("{when}, and a second apply"));
    }
    for mode in ["before", "half", "after"] {
        let when = format!("apply and its command were killed, the command {mode} its effect");
        for second in [false, true] {
            fs::write(MODE, mode).unwrap();
            let output = patiently(&apply);
            assert_eq!(output.status.signal(), Some(9), "{when}");
            fs::remove_file(MODE).unwrap();
            if second {
                scene.ends_well(apply.clone());
                assert_same(&scene.after, &look());
            }
            scene.undone(&when);
        }
        died += 1;
    }

    scene.ends_well(apply.clone());
    let of_undo = scene.points(&undo());
    scene.is_as_before("a traced undo");
    let mut undo_died = 0;
    for point in &of_undo {
        scene.ends_well(apply.clone());
        if scene.killed(&undo(), point) {
            undo_died += 1;
        }
        scene.undone(&format!("undo was killed at {} {}", point.call, point.number));
    }
    eprintln!(
        "apply killed at {died} points ({} calls that change something, {survived} not met \
             again), undo at {undo_died} \
         (of {}); none lost",
        of_apply.len(),
        of_undo.len()
    );
}

/// Changes what the first plan has changed, each value and file once more.
fn younger() -> Plan {
    let pool = PoolRef { page_size: PageSize::MIB_2, node: None };
    let pages: u64 = plans::line(VALUES[0]).unwrap().parse().unwrap();
    let step = |id: &str| Step::new(id, id, Risk::Safe, "a test");
    let words = "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX hugepages=4\"\n";
    plans::plan_as_it_is(vec![
        step("pool").with_change(ValueChange::for_pool(pool, pages - 4)),
        step("thp").with_change(ValueChange::new(THP, "always")),
        step("sysctl").with_change(FileChange::write(
            "/etc/sysctl.d/zz-hugewise-pool.conf",
            "vm.nr_hugepages = 4\n",
        )),
        step("memlock").with_change(FileChange::write(LIMITS, "postgres - memlock 1000000\n")),
        step("boot").with_change(FileChange::write(GRUB, words)).with_change(update_grub()),
    ])
}

#[test]
fn an_older_apply_undone_first_and_killed_at_every_call_nothing_is_lost() {
    let name = "crash::an_older_apply_undone_first_and_killed_at_every_call_nothing_is_lost";
    if !require!(namespace::inside(name)) {
        return;
    }
    let scene = require!(Scene::new());
    let apply = scene.apply();
    scene.ends_well(apply.clone());
    let second = scene.plan.with_file_name("second.json");
    fs::write(&second, younger().to_json()).unwrap();
    scene.undone("one apply");
    let both = || {
        scene.ends_well(apply.clone());
        scene.ends_well(
            [harness::HUGEWISE, "apply", second.to_str().unwrap(), "--yes"]
                .map(str::to_owned)
                .to_vec(),
        );
    };
    let by_id = |id: &str| [harness::HUGEWISE, "undo", id, "--force"].map(str::to_owned).to_vec();
    // The rest of what there is to undo; then there is nothing left.
    let rest = |when: &str| {
        for _ in 0..4 {
            let output = patiently(&undo());
            let said = String::from_utf8_lossy(&output.stderr);
            if output.status.code() == Some(2) && said.contains("nothing to undo") {
                scene.is_as_before(when);
                fs::remove_dir_all(JOURNAL).unwrap();
                return;
            }
            assert_eq!(output.status.code(), Some(0), "{when}: {said}");
        }
        panic!("{when}: it does not end");
    };
    let mut died = 0;
    for (first, then) in [("1", "2"), ("2", "1")] {
        both();
        let of_first = scene.points(&by_id(first));
        let of_then = scene.points(&by_id(then));
        rest("a traced chain");
        for (points, done) in [(&of_first, None), (&of_then, Some(first))] {
            let id = if done.is_some() { then } else { first };
            for (at, point) in points.iter().enumerate() {
                let when = format!(
                    "undo {id} was killed at {} {} ({first} before {then})",
                    point.call, point.number
                );
                both();
                if let Some(done) = done {
                    scene.ends_well(by_id(done));
                }
                died += usize::from(scene.killed(&by_id(id), point));
                // Either it is run again, or the other one comes next.
                if at % 2 == 0 && done.is_none() {
                    scene.ends_well(by_id(then));
                }
                rest(&when);
            }
        }
    }
    eprintln!("a chain of undos killed at {died} points; none lost");
    assert!(died > 60, "{died}");
}

#[test]
fn points_are_calls_that_change_something() {
    let log = "openat(AT_FDCWD, \"/etc/ld.so.cache\", O_RDONLY|O_CLOEXEC) = 3\n\
               openat(9, \"x\", O_WRONLY|O_CREAT|O_EXCL|O_NOFOLLOW|O_CLOEXEC, 0600) = 10\n\
               write(10, \"a\", 1) = 1\nwrite(1, \"done\", 4) = 4\nwrite(11, \"b\", 1) = \
         1\nfsync(10) = 0\n\
               +++ exited with 0 +++\n";
    let found: Vec<String> =
        points(log).iter().map(|point| format!("{} {}", point.call, point.number)).collect();
    assert_eq!(found, ["openat 2", "write 1", "write 3", "fsync 1"]);
}
