//! What was written and does not last: apply never calls that done.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use hugewise_change::Step;
use hugewise_change::plan::{CommandChange, FileChange, PlannedBootPool, ValueChange};
use hugewise_change::{Plan, Risk};
use hugewise_lab::guard::PoolGuard;
use hugewise_model::{PageCount, PageSize};
use hugewise_testkit::{Skip, require};

use crate::real::harness;
use crate::real::namespace;
use crate::real::plans::{self, GRUB, GRUB_CFG, THP, UPDATE_GRUB, update_grub};

const POOL: &str = "/etc/sysctl.d/zz-hugewise-pool.conf";
const SHM: &str = "/etc/sysctl.d/zz-hugewise-shm-limits.conf";
const TMPFILES: &str = "/etc/tmpfiles.d/00-hugewise-thp.conf";
const LIMITS: &str = "/etc/security/limits.d/zz-hugewise.conf";

struct Scene {
    guard: PoolGuard,
    folder: tempfile::TempDir,
}

impl Scene {
    fn new() -> Result<Self, Skip> {
        let guard = PoolGuard::take_for_test()?;
        guard.set_switch(THP, "madvise")?;
        for folder in ["/etc/sysctl.d", "/etc/tmpfiles.d", "/etc/security/limits.d"] {
            fs::create_dir_all(folder).unwrap();
        }
        Ok(Self { guard, folder: harness::folder() })
    }

    fn keep(&self, plan: &Plan) -> PathBuf {
        let path = self.folder.path().join("plan.json");
        let _ = fs::remove_file(&path);
        fs::write(&path, plan.to_json()).unwrap();
        path
    }

    /// Folders of this machine that a rival's file goes to, each one of the test's own.
    fn with_more_folders(self) -> Self {
        for folder in ["/run", "/usr/local/lib"] {
            harness::must(Command::new("mount").args(["-t", "tmpfs", "none", folder]));
        }
        self
    }

    /// Applies it, and undoes it afterwards.
    fn apply(&self, plan: &Plan) -> (Option<i32>, String) {
        let output =
            hugewise(&["apply", self.keep(plan).to_str().unwrap(), "--yes", "--color", "never"]);
        hugewise(&["undo", "--force"]);
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Asserts that it is not called done where somebody has the last word, and who.
    #[track_caller]
    fn is_not_kept(&self, plan: &Plan, who: &str) {
        let (code, said) = self.apply(plan);
        assert_eq!(code, Some(1), "{who}: {said}");
        assert!(said.contains("not kept") && said.contains(who), "{who}: {said}");
        assert!(
            !said.contains("All steps are done") && !said.contains("already as planned"),
            "{who}: {said}"
        );
    }

    #[track_caller]
    fn is_kept(&self, plan: &Plan) {
        let (code, said) = self.apply(plan);
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("All steps are done"), "{said}");
    }
}

fn hugewise(arguments: &[&str]) -> Output {
    Command::new(harness::HUGEWISE).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn step(id: &str) -> Step {
    Step::new(id, id, Risk::Safe, "a test")
}

fn write(path: &str, text: &str) {
    fs::create_dir_all(Path::new(path).parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn a_later_file_of_settings_is_named() {
    if !require!(namespace::inside("attacks::lasting::a_later_file_of_settings_is_named")) {
        return;
    }
    let scene = require!(Scene::new()).with_more_folders();
    let plan = plans::plan_as_it_is(vec![
        step("shm").with_change(FileChange::write(SHM, "kernel.shmmax = 18446744073692774399\n")),
    ]);
    scene.is_kept(&plan);
    let rivals = [
        ("/etc/sysctl.d/zzz.conf", "# ours\nkernel.shmmax = 1\n", "/etc/sysctl.d/zzz.conf:2"),
        (
            "/usr/local/lib/sysctl.d/zzzz.conf",
            "-kernel.shmmax=1\n",
            "/usr/local/lib/sysctl.d/zzzz.conf:1",
        ),
        (
            "/usr/local/lib/sysctl.d/zzzzz.conf",
            "kernel/shmmax = 1\n",
            "/usr/local/lib/sysctl.d/zzzzz.conf:1",
        ),
        (
            "/etc/tmpfiles.d/zz.conf",
            "w /proc/sys/kernel/shmmax - - - - 1\n",
            "/etc/tmpfiles.d/zz.conf:1",
        ),
        (
            "/etc/tmpfiles.d/yy.conf",
            "w! /proc/sys/kernel/shmma* - - - - 1\n",
            "/etc/tmpfiles.d/yy.conf:1",
        ),
    ];
    for (path, rival, place) in rivals {
        write(path, rival);
        scene.is_not_kept(&plan, place);
        fs::remove_file(path).unwrap();
    }
    // Nor does one that is gone when the host boots.
    write("/run/sysctl.d/zzzz.conf", "kernel/shmmax = 1\n");
    scene.is_kept(&plan);
    // A rival that says the same does no harm.
    write("/etc/sysctl.d/zzz.conf", "kernel.shmmax = 18446744073692774399\n");
    scene.is_kept(&plan);
    fs::remove_file("/etc/sysctl.d/zzz.conf").unwrap();
    scene.is_kept(&plan);
}

#[test]
fn a_file_that_somebody_masks_while_it_is_applied_is_not_called_done() {
    if !require!(namespace::inside(
        "attacks::lasting::a_file_that_somebody_masks_while_it_is_applied_is_not_called_done"
    )) {
        return;
    }
    let scene = require!(Scene::new());
    // A program that a step runs has its own idea of these settings.
    write(
        UPDATE_GRUB,
        &format!("#!/bin/sh\nrm -f {SHM}\nln -s /dev/null {SHM}\necho x > {GRUB_CFG}\n"),
    );
    fs::set_permissions(UPDATE_GRUB, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    write(GRUB_CFG, "# made\n");
    let command: CommandChange = update_grub();
    let plan = plans::plan_as_it_is(vec![
        step("shm").with_change(FileChange::write(SHM, "kernel.shmmax = 18446744073692774399\n")),
        step("boot")
            .with_change(FileChange::write(
                GRUB,
                "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX hugepages=3\"\n",
            ))
            .with_change(command),
    ]);
    scene.is_not_kept(&plan, SHM);
    let _ = fs::remove_file(SHM);
}

#[test]
fn a_switch_of_the_boot_and_limits_of_log_ins_are_read_back_too() {
    if !require!(namespace::inside(
        "attacks::lasting::a_switch_of_the_boot_and_limits_of_log_ins_are_read_back_too"
    )) {
        return;
    }
    let scene = require!(Scene::new()).with_more_folders();
    let line = "w /sys/kernel/mm/transparent_hugepage/enabled - - - - never\n";
    let switch =
        plans::plan_as_it_is(vec![step("thp").with_change(FileChange::write(TMPFILES, line))]);
    scene.is_kept(&switch);
    // The first line of a path counts, and patterns come after all of them.
    for (path, rival) in [
        (
            "/etc/tmpfiles.d/00-aaa.conf",
            "w /sys/kernel/mm/transparent_hugepage/enabled - - - - always\n",
        ),
        ("/usr/local/lib/tmpfiles.d/zz.conf", "w /sys/kernel/mm/*/enabled - - - - always\n"),
    ] {
        write(path, rival);
        scene.is_not_kept(&switch, path);
        fs::remove_file(path).unwrap();
    }
    let limits = plans::plan_as_it_is(vec![
        step("memlock").with_change(FileChange::write(LIMITS, "nobody - memlock unlimited\n")),
    ]);
    scene.is_kept(&limits);
    write("/etc/security/limits.d/zzz.conf", "nobody soft memlock 64\n");
    scene.is_not_kept(&limits, "/etc/security/limits.d/zzz.conf:1");
    fs::remove_file("/etc/security/limits.d/zzz.conf").unwrap();
}

#[test]
fn a_pool_that_the_next_boot_takes_away_is_not_called_done() {
    if !require!(namespace::inside(
        "attacks::lasting::a_pool_that_the_next_boot_takes_away_is_not_called_done"
    )) {
        return;
    }
    let scene = require!(Scene::new());
    require!(scene.guard.set_pool(PageSize::MIB_2, PageCount(0)));
    let at_boot = |pages: u64| {
        let mut plan = plans::plan_as_it_is(vec![
            step("thp").with_change(ValueChange::new(THP, "never")),
            step("pools-boot")
                .with_change(FileChange::write(POOL, format!("vm.nr_hugepages = {pages}\n"))),
        ]);
        plan.at_boot = vec![PlannedBootPool { page_size: PageSize::MIB_2, pages }];
        plan.seal();
        plan
    };
    scene.is_kept(&at_boot(7));
    for (path, rival) in [
        ("/etc/sysctl.d/zzzz-site.conf", "vm.nr_hugepages = 0\n"),
        ("/etc/sysctl.d/zzzz-site.conf", "vm.nr_hugepages_mempolicy = 0\n"),
        ("/etc/tmpfiles.d/site.conf", "w /proc/sys/vm/nr_hugepages - - - - 0\n"),
        (
            "/etc/tmpfiles.d/site.conf",
            "w /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages - - - - 1\n",
        ),
        ("/etc/tmpfiles.d/site.conf", "w /sys/kernel/mm/hugepages/*/nr_hugepages - - - - 1\n"),
    ] {
        write(path, rival);
        scene.is_not_kept(&at_boot(7), path);
        fs::remove_file(path).unwrap();
    }
}

#[test]
fn nor_is_a_plan_done_that_could_not_secure_the_boot() {
    if !require!(namespace::inside(
        "attacks::lasting::nor_is_a_plan_done_that_could_not_secure_the_boot"
    )) {
        return;
    }
    // A server that counts: it belongs to nobody without rights.
    let cluster = require!(crate::real::change::DebianCluster::new("lasting", ""));
    let scene = require!(Scene::new());
    require!(scene.guard.set_pool(PageSize::MIB_2, PageCount(0)));
    cluster.control("start");
    write("/etc/sysctl.d/zzzz-site.conf", "vm.nr_hugepages = 0\n");
    let output = hugewise(&["apply", "--yes", "--color", "never"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(
        said.contains("/etc/sysctl.d/zzzz-site.conf:1") && !said.contains("All steps are done"),
        "{said}"
    );
    // Whoever asks for what works at once gets that.
    hugewise(&["undo"]);
    let now = hugewise(&["apply", "--yes", "--only", "now", "--color", "never"]);
    assert!(
        !String::from_utf8_lossy(&now.stdout).contains("not kept"),
        "{}",
        String::from_utf8_lossy(&now.stdout)
    );
    hugewise(&["undo"]);
}
