//! Where the machine is not hugewise's to change: containers and chroots, made by hand out of what
//! container programs are made of. And what looks like them and is not: services with namespaces of
//! their own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use hugewise_change::plan::{FileChange, ValueChange};
use hugewise_change::{Risk, Step};
use hugewise_lab::guard::PoolGuard;
use hugewise_testkit::{Skip, require};

use crate::real::harness;
use crate::real::plans::{self, THP, line};

const DROP_IN: &str = "/etc/sysctl.d/zz-hugewise-pool.conf";

/// A container's root: an overlay over this machine's, so that what is written in there can be
/// looked at.
const OVERLAY: &str = "mkdir -p $BASE/upper $BASE/layer $BASE/root\n\
     mount -t tmpfs none $BASE/layer\nmkdir $BASE/layer/u $BASE/layer/w\n\
     mount -t overlay -o lowerdir=/,upperdir=$BASE/layer/u,workdir=$BASE/layer/w overlay \
     $BASE/root\n\
     mount --rbind /tmp $BASE/root/tmp\n";

/// What is left behind for the test to see, then the end of the container.
const REPORT: &str = "code=$?\n(cd $BASE/layer/u 2>/dev/null && find etc var boot -newer \
     $BASE/mark -type f 2>/dev/null) > $BASE/written || :\nexit $code\n";

struct Scene {
    _guard: PoolGuard,
    folder: tempfile::TempDir,
}

impl Scene {
    fn new() -> Result<Self, Skip> {
        harness::program(&["/usr/bin/unshare"])?;
        let guard = PoolGuard::take_for_test()?;
        guard.set_switch(THP, "madvise")?;
        let folder = harness::folder();
        fs::write(folder.path().join("mark"), "").unwrap();
        // Where it was built is in no container.
        fs::copy(harness::HUGEWISE, folder.path().join("hugewise")).unwrap();
        let scene = Self { _guard: guard, folder };
        let switch =
            Step::new("thp", "THP", Risk::Safe, "why").with_change(ValueChange::new(THP, "never"));
        let file = Step::new("pools-boot", "pool", Risk::Safe, "why")
            .with_change(FileChange::write(DROP_IN, "vm.nr_hugepages = 3\n"));
        fs::write(scene.path("plan.json"), plans::plan_as_it_is(vec![switch, file]).to_json())
            .unwrap();
        fs::write(scene.path("empty.json"), plans::plan_as_it_is(Vec::new()).to_json()).unwrap();
        Ok(scene)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs a script in new namespaces of these kinds.
    fn run(&self, kinds: &[&str], script: &str) -> Output {
        let mut command = Command::new("unshare");
        command.args(kinds).args(["--", "sh", "-c", &format!("set -u\n{script}")]);
        command.env("BASE", self.folder.path()).env("HUGEWISE", self.path("hugewise"));
        // What is tried here is what is installed: it has no way to be told that it is a host.
        command.env_remove("HUGEWISE_TEST_NAMESPACE").stdin(Stdio::null());
        command.output().unwrap()
    }

    /// Asserts that apply and undo refuse there with plain words, and that plan says so before all
    /// else.
    #[track_caller]
    fn is_refused(&self, what: &str, kinds: &[&str], set_up: &str, inside: &str) {
        let run =
            |words: &str| self.run(kinds, &format!("{set_up}{inside} $HUGEWISE {words}\n{REPORT}"));
        for words in [
            "apply --yes",
            "apply --yes $BASE/plan.json",
            "apply --yes --force $BASE/plan.json",
            "undo",
        ] {
            let output = run(words);
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(
                output.status.code(),
                Some(2),
                "{what}: {words}: {}{said}",
                String::from_utf8_lossy(&output.stdout)
            );
            assert!(
                said.contains("change the host from here: ") && said.contains("on the host itself"),
                "{what}: {words}: {said}"
            );
            assert!(fs::read_to_string(THP).unwrap().contains("[madvise]"), "{what}: {words}");
            assert!(!Path::new(DROP_IN).exists(), "{what}: {words}");
            let written = fs::read_to_string(self.path("written")).unwrap_or_default();
            assert!(!written.contains("hugewise"), "{what}: {words}: {written}");
        }
        let planned = run("plan --color never");
        let text = String::from_utf8_lossy(&planned.stdout);
        assert!(
            text.starts_with("not here  "),
            "{what}: {text}{}",
            String::from_utf8_lossy(&planned.stderr)
        );
        let json: serde_json::Value =
            serde_json::from_slice(&run("plan --format json").stdout).unwrap();
        let first = json["warnings"][0].as_str().unwrap_or_default();
        assert!(first.contains("hugewise apply refuses to run here"), "{what}: {json:#}");
    }

    /// Asserts that it is a host there.
    #[track_caller]
    fn is_a_host(&self, what: &str, kinds: &[&str], set_up: &str) {
        // Its journals and lock go with the namespace.
        let set_up = format!("mount -t tmpfs none /var/lib\n{set_up}");
        let output = self.run(kinds, &format!("{set_up}$HUGEWISE apply --yes $BASE/empty.json"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{what}: {}{said}",
            String::from_utf8_lossy(&output.stdout)
        );
        let planned = self.run(kinds, &format!("{set_up}$HUGEWISE plan --color never"));
        assert!(!String::from_utf8_lossy(&planned.stdout).contains("not here"), "{what}");
    }
}

#[test]
fn in_namespaces_of_a_container_nothing_is_changed() {
    let scene = require!(Scene::new());
    let pid = ["--mount", "--pid", "--fork", "--mount-proc"];
    let own = "mount -t tmpfs none /var/lib\nmount -t tmpfs none /etc/sysctl.d\n";
    scene.is_refused("a pid namespace", &pid, own, "");
    let no_proc = ["--mount", "--pid", "--fork"];
    scene.is_refused("a pid namespace with the host's /proc", &no_proc, own, "");
    let rootless = ["--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc"];
    if scene.run(&rootless, "true").status.success() {
        scene.is_refused("user, pid and mount namespaces", &rootless, "", "");
        scene.is_refused("a user namespace", &["--user", "--map-root-user", "--mount"], "", "");
    }
}

#[test]
fn in_a_container_made_by_hand_nothing_is_changed() {
    let scene = require!(Scene::new());
    let all = ["--mount", "--pid", "--fork", "--uts", "--ipc", "--net", "--cgroup"];
    let mounted = format!(
        "{OVERLAY}mount -t proc proc $BASE/root/proc\nmount --rbind /sys $BASE/root/sys\nmount \
             --rbind /dev $BASE/root/dev\n\
         : > $BASE/root/run/.containerenv\n"
    );
    if !scene.run(&all, &format!("set -e\n{mounted}")).status.success() {
        return Skip("no overlay over this machine's root".into()).report();
    }
    scene.is_refused("a privileged container", &all, &mounted, "chroot $BASE/root");
    // hostPID, hostNetwork and hostIPC of a pod, or docker run --pid=host --network=host --ipc=host
    // --uts=host.
    let shared = mounted
        .replace("mount -t proc proc $BASE/root/proc", "mount --rbind /proc $BASE/root/proc");
    scene.is_refused(
        "a pod that shares the host's namespaces",
        &["--mount"],
        &shared,
        "chroot $BASE/root",
    );
    let pivoted = format!("{shared}cd $BASE/root\nmkdir -p old\npivot_root . old\n");
    if scene.run(&["--mount"], &format!("set -e\n{pivoted}")).status.success() {
        let kept = pivoted.replace("pivot_root . old\n", "pivot_root . old\numount -l /old\n");
        scene.is_refused("the same, as runc does it", &["--mount"], &kept, "");
    }
}

#[test]
fn in_a_chroot_nothing_is_changed() {
    let scene = require!(Scene::new());
    let folders = "mkdir -p $BASE/tree && cd $BASE/tree && mkdir -p usr bin lib lib64 sbin etc \
         proc sys dev tmp var/lib run\n\
         for it in usr bin lib lib64 sbin proc sys dev tmp; do if [ -d /$it ]; then mount --rbind \
         /$it $it; fi; done\n\
         cp /etc/machine-id /etc/passwd etc/ 2>/dev/null || :\n";
    scene.is_refused("a chroot", &["--mount"], folders, "chroot $BASE/tree");
    let mounted = format!("mkdir -p $BASE/tree\nmount -t tmpfs none $BASE/tree\n{folders}");
    scene.is_refused(
        "a chroot into a mount of its own",
        &["--mount"],
        &mounted,
        "chroot $BASE/tree",
    );
    let written = scene.path("tree/etc");
    assert!(!written.join("sysctl.d").exists() && !scene.path("tree/var/lib/hugewise").exists());
}

#[test]
fn services_and_shells_with_namespaces_of_their_own_are_hosts() {
    let scene = require!(Scene::new());
    if Path::new("/proc/1/root").read_link().is_err()
        && Path::new("/proc/2/root").read_link().is_err()
    {
        return Skip("nobody says where the host's root is".into()).report();
    }
    scene.is_a_host("PrivateTmp, ProtectSystem", &["--mount"], "mount -t tmpfs none /var/tmp\n");
    scene.is_a_host("another host name, PrivateIPC", &["--mount", "--uts", "--ipc"], "");
    scene.is_a_host("PrivateNetwork", &["--mount", "--net"], "");
    scene.is_a_host("ProtectControlGroups=private", &["--mount", "--cgroup"], "");
    let files = "mount -t tmpfs none /run\n: > /run/.containerenv\nmkdir /run/systemd\necho \
         docker > /run/systemd/container\n";
    scene.is_a_host("files that were left over from an image", &["--mount"], files);
    assert!(line(THP).unwrap().contains("[madvise]"));
}
