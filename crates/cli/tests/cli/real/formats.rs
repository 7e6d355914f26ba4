//! The plan as a shell script, a playbook and a cloud-config, run by the real tools: each ends
//! where apply ends.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hugewise_change::plan::{FileChange, HostIdentity, PoolRef, ValueChange};
use hugewise_change::{Plan, Risk, Step};
use hugewise_lab::guard::PoolGuard;
use hugewise_model::{PageCount, PageSize};
use hugewise_testkit::{Skip, require};

use crate::real::change::{DebianCluster, run};
use crate::real::harness;
use crate::real::namespace::{self, State, assert_same};
use crate::real::plans::line;

const THP: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// Of an earlier plan: its file is there and has another number.
const OLD: &str = "# Made by hugewise. To undo: hugewise undo\nvm.nr_hugepages = 3\n";

/// How files of ours begin.
const MADE: &str = "# Made by hugewise. To undo: ";

/// A host with something of every kind to change.
struct Scene {
    cluster: DebianCluster,
    folder: tempfile::TempDir,
    _guard: PoolGuard,
}

impl Scene {
    fn new() -> Result<Self, Skip> {
        let cluster = DebianCluster::new("formats", "")?;
        let guard = PoolGuard::take_for_test()?;
        guard.set_pool(PageSize::MIB_2, PageCount(3))?;
        guard.set_switch(THP, "always")?;
        boot_loader();
        fs::write("/etc/sysctl.d/zz-hugewise-pool.conf", OLD).unwrap();
        cluster.control("start");
        Ok(Self { cluster, folder: harness::folder(), _guard: guard })
    }

    fn paths(&self) -> [PathBuf; 3] {
        ["/etc".into(), "/boot".into(), self.cluster.data().join("postgresql.auto.conf")]
    }

    fn state(&self) -> State {
        let paths = self.paths();
        State::of(&paths.each_ref().map(PathBuf::as_path))
            // The tools' own, and the backups that Ansible makes beside a file.
            .without(|path| path.starts_with("/etc/cloud") || path.to_string_lossy().ends_with('~'))
    }

    fn restore(&self, before: &State) {
        let _ = fs::remove_dir_all("/etc/cloud");
        for backup in backups() {
            fs::remove_file(backup).unwrap();
        }
        let paths = self.paths();
        before.restore(&paths.each_ref().map(PathBuf::as_path));
    }

    /// The same, whoever wrote our files: what stands at their head of taking them back differs.
    fn settings(&self) -> State {
        self.state().with_files(|bytes| match bytes.strip_prefix(MADE.as_bytes()) {
            Some(rest) => {
                rest.splitn(2, |byte| *byte == b'\n').last().unwrap_or_default().to_owned()
            }
            None => bytes.to_owned(),
        })
    }

    /// The heads of our files are true, and for hugewise itself there is nothing left to do.
    fn assert_taken_back_otherwise(&self, replaced: &str) {
        let head =
            |path: &str| fs::read_to_string(path).unwrap().lines().next().unwrap().to_owned();
        assert_eq!(head(crate::real::plans::GRUB), format!("{MADE}remove this file"));
        let of_old = head("/etc/sysctl.d/zz-hugewise-pool.conf");
        assert!(of_old.starts_with(MADE) && of_old.contains(replaced), "{of_old}");
        let again = run(&["plan", "--early"], 0);
        assert!(again.contains("  nothing to change"), "{again}");
    }

    /// The same plan in that format, in a file.
    fn plan(&self, format: &str) -> PathBuf {
        let text = run(&["plan", "--early", "--format", format], 0);
        let path = self.folder.path().join(format);
        fs::write(&path, text).unwrap();
        path
    }
}

fn backups() -> Vec<PathBuf> {
    let names = fs::read_dir("/etc/sysctl.d").unwrap().map(|entry| entry.unwrap().path());
    names.filter(|path| path.to_string_lossy().ends_with('~')).collect()
}

/// GRUB as Debian has it, with a stand-in for the program that makes its file.
fn boot_loader() {
    let _ = fs::create_dir_all("/boot/grub");
    fs::create_dir_all("/etc/default/grub.d").unwrap();
    fs::write(
        "/etc/default/grub",
        "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\nGRUB_CMDLINE_LINUX=\"\"\n",
    )
    .unwrap();
    let script = "#!/bin/sh\nset -e\n. /etc/default/grub\nfor file in /etc/default/grub.d/*.cfg; \
         do\n  \
                  [ ! -f \"$file\" ] || . \"$file\"\ndone\n\
                  cat >/boot/grub/grub.cfg <<END\n\
                  menuentry 'Debian GNU/Linux' --class debian {\n\
                  \tlinux\t/boot/vmlinuz root=/dev/vda ro $GRUB_CMDLINE_LINUX $GRUB_CMDLINE_LINUX_DEFAULT\n\
                  \tinitrd\t/boot/initrd.img\n}\nEND\n";
    for program in ["/usr/sbin/update-grub", "/usr/sbin/grub-mkconfig"] {
        fs::write(program, script).unwrap();
        fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    harness::must(&mut Command::new("/usr/sbin/update-grub"));
}

fn shell(script: &Path) -> String {
    harness::must(Command::new("sh").arg(script).stdin(Stdio::null()))
}

fn ansible(scene: &Scene, playbook: &Path) -> String {
    let mut command = Command::new("ansible-playbook");
    command
        .args(["-i", "localhost,", "-c", "local", "-e", "hugewise_host=localhost"])
        .arg(playbook)
        .stdin(Stdio::null());
    let home = scene.folder.path();
    command
        .env("HOME", home)
        .env("ANSIBLE_HOME", home)
        .env("ANSIBLE_REMOTE_TEMP", home.join("remote"));
    command
        .env("ANSIBLE_LOCAL_TEMP", home.join("local"))
        .env("ANSIBLE_NOCOLOR", "1")
        .env("LC_ALL", "C.UTF-8");
    harness::must(&mut command)
}

/// cloud-init's stages of a first boot, with the modules that a cloud-config of ours is about: the
/// others would set up this machine.
const STAGES: &str = "\
datasource_list: [ NoCloud ]
network: {config: disabled}
users: []
cloud_init_modules: [bootcmd, write-files]
cloud_config_modules: [runcmd]
cloud_final_modules: [scripts-user]
system_info: \
     {distro: debian, paths: {cloud_dir: /var/lib/cloud/, templates_dir: /etc/cloud/templates/}}
";

fn cloud_init(config: &Path) {
    let run = |arguments: &[&str]| {
        harness::must(
            Command::new("cloud-init")
                .args(arguments)
                .stdin(Stdio::null())
                .env("LC_ALL", "C.UTF-8"),
        )
    };
    let valid = run(&["schema", "--config-file", config.to_str().unwrap()]);
    assert!(valid.contains("Valid"), "{valid}");
    let _ = fs::remove_dir_all("/etc/cloud/cloud.cfg.d");
    fs::create_dir_all("/etc/cloud").unwrap();
    fs::write("/etc/cloud/cloud.cfg", STAGES).unwrap();
    let seed = Path::new("/var/lib/cloud/seed/nocloud");
    fs::create_dir_all(seed).unwrap();
    fs::copy(config, seed.join("user-data")).unwrap();
    fs::write(seed.join("meta-data"), "instance-id: hugewise-test\n").unwrap();
    for stage in [
        &["init", "--local"][..],
        &["init"],
        &["modules", "--mode=config"],
        &["modules", "--mode=final"],
    ] {
        run(stage);
    }
    let log = fs::read_to_string("/var/log/cloud-init.log").unwrap_or_default();
    assert!(!log.contains("ERROR") && !log.contains("Traceback"), "{log}");
}

/// cloud-init's own folder, empty and of this namespace alone, while `work` runs.
fn with_own_run(work: impl FnOnce()) {
    let own = Path::new("/run/cloud-init");
    let made = fs::create_dir(own).is_ok();
    harness::must(
        Command::new("mount").args(["-t", "tmpfs", "-o", "mode=755", "cloud-init"]).arg(own),
    );
    work();
    harness::must(Command::new("umount").arg(own));
    if made {
        fs::remove_dir(own).unwrap();
    }
}

#[test]
fn each_ends_where_apply_ends() {
    if !require!(namespace::inside("formats::each_ends_where_apply_ends")) {
        return;
    }
    for (program, package) in
        [("/usr/bin/ansible-playbook", "ansible-core"), ("/usr/bin/cloud-init", "cloud-init")]
    {
        require!(
            harness::program(&[program])
                .map_err(|_| Skip(format!("{program} is not installed ({package})")))
        );
    }
    let scene = require!(Scene::new());
    let before = scene.state();

    let shown = run(&["plan", "--early"], 0);
    for part in
        ["transparent_hugepage/enabled", "zz-hugewise.cfg", "update-grub", "nr_hugepages", "conf.d"]
    {
        assert!(shown.contains(part), "no {part} in this plan:\n{shown}");
    }
    run(&["apply", "--yes", "--early"], 0);
    let applied = scene.settings();
    assert_ne!(scene.state(), before);
    run(&["undo"], 0);
    assert_same(&before, &scene.state());

    let script = scene.plan("shell");
    shell(&script);
    assert_same(&applied, &scene.settings());
    let again = shell(&script);
    assert!(!again.contains("changed: ") && again.contains("ok: "), "{again}");
    assert_same(&applied, &scene.settings());
    scene.assert_taken_back_otherwise("/var/lib/hugewise/plans/");
    scene.restore(&before);

    let playbook = scene.plan("ansible");
    ansible(&scene, &playbook);
    assert_same(&applied, &scene.settings());
    let kept: Vec<String> =
        backups().iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    assert_eq!(kept, [OLD]);
    let again = ansible(&scene, &playbook);
    assert!(again.contains(" changed=0 "), "{again}");
    scene.assert_taken_back_otherwise("beside it");
    scene.restore(&before);

    let config = scene.plan("cloud-init");
    with_own_run(|| cloud_init(&config));
    assert_same(&applied, &scene.settings());
    scene.assert_taken_back_otherwise("/var/lib/hugewise/plans/");
    scene.restore(&before);
}

#[test]
fn a_script_leaves_the_memory_that_has_to_stay_and_follows_no_link() {
    if !require!(namespace::inside(
        "formats::a_script_leaves_the_memory_that_has_to_stay_and_follows_no_link"
    )) {
        return;
    }
    let guard = require!(PoolGuard::take_for_test());
    require!(guard.set_pool(PageSize::MIB_2, PageCount(0)));
    let folder = harness::folder();
    let pool = PoolRef { page_size: PageSize::MIB_2, node: None };
    let drop_in = "/etc/sysctl.d/zz-hugewise-pool.conf";
    let mut plan = Plan::new(HostIdentity::default(), "2026-03-01T12:00:00Z");
    (plan.host.name, plan.host.machine_id) =
        (line("/proc/sys/kernel/hostname").unwrap(), line("/etc/machine-id"));
    plan.steps = vec![
        Step::new("pool-2M-now", "pool", Risk::Safe, "why")
            .with_change(ValueChange::for_pool(pool, 10)),
    ];
    // What has to stay is more than is available, and no more than there is.
    (plan.budget.floor_bytes, plan.budget.total_bytes) = (1 << 50, Some(0));
    let fails = |plan: &Plan, said: &str| {
        let before = State::etc();
        let script = folder.path().join("script");
        fs::write(&script, hugewise_report::formats::render_shell(plan, false).unwrap()).unwrap();
        let output = Command::new("sh").arg(&script).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && errors.contains(said), "{errors}");
        assert_same(&before, &State::etc());
    };
    fails(&plan, "must stay free");

    plan.steps = vec![
        Step::new("pools-boot", "boot", Risk::Safe, "why")
            .with_change(FileChange::write(drop_in, OLD)),
    ];
    std::os::unix::fs::symlink("/etc/passwd", drop_in).unwrap();
    fails(&plan, "is a symbolic link");
    fs::remove_file(drop_in).unwrap();
    harness::must(Command::new("mount").args([
        "-t",
        "tmpfs",
        "-o",
        "size=4k,mode=755",
        "full",
        "/etc/sysctl.d",
    ]));
    fs::write("/etc/sysctl.d/full", [b'#'; 4096]).unwrap();
    fails(&plan, "cannot be written");
}
