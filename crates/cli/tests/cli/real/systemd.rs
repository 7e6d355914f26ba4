//! What a real systemd gives a service at its restart, foretold by its files and by what it notes
//! of its last reload.
//!
//! systemd runs as the first process of namespaces of its own, in a cgroup of its own; nothing of
//! it reaches this machine.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use hugewise_lab::guard::PoolGuard;
use hugewise_model::{PageCount, PageSize};
use hugewise_testkit::{Skip, require};
use serde_json::Value;

use crate::real::harness::{self, HUGEWISE};
use crate::real::oracle;

/// A cgroup of version 2, and where it is mounted; both are gone when it is dropped, with all that
/// was made below.
struct Cgroup {
    mount: PathBuf,
    folder: PathBuf,
}

impl Cgroup {
    fn new(base: &Path) -> Result<Self, Skip> {
        let mount = base.join("cgroup2");
        fs::create_dir(&mount).unwrap();
        let mounted =
            Command::new("mount").args(["-t", "cgroup2", "cgroup2"]).arg(&mount).status().unwrap();
        if !mounted.success() {
            return Err(Skip("no cgroup of version 2 can be mounted here".into()));
        }
        let folder = mount.join(format!("hugewise-systemd-{}", std::process::id()));
        let made = Self { mount, folder };
        fs::create_dir(&made.folder)
            .map_err(|error| Skip(format!("no cgroup can be made here: {error}")))?;
        Ok(made)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // What was in it may take a moment to end.
        for _ in 0..100 {
            let below = Command::new("find")
                .arg(&self.folder)
                .args(["-depth", "-type", "d", "-delete"])
                .output();
            if below.is_ok_and(|output| output.status.success()) && !self.folder.exists() {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = Command::new("umount").arg(&self.mount).status();
    }
}

/// What is run as the first process: folders of its own, and a target that starts nothing but the
/// service and the script.
const BEGIN: &str = "set -e
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs tmpfs /etc/sysctl.d
echo vm.nr_hugepages = 200 > /etc/sysctl.d/50-pool.conf
mount -o rbind,ro /etc /etc
mount -t tmpfs tmpfs /etc/systemd/system
mount -t tmpfs tmpfs /run
mount -o bind,ro /proc/sys /proc/sys
umount -l /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
cd /etc/systemd/system
unit() { printf '[Unit]\\nDefaultDependencies=no\\n%b' \"$2\" > \"$1\"; }
unit mini.target 'Wants=db.service script.service\\n'
unit script.service \"After=db.service\\n[Service]\\nType=oneshot\\nExecStart=/bin/sh \
     $BASE/script\\nStandardOutput=file:$BASE/said\\n\
StandardError=file:$BASE/errors\\n\"
unit db.service \"$SERVICE\"
export container=hugewise
exec /lib/systemd/systemd --system --unit=mini.target --log-target=null --show-status=0 < /dev/null
";

/// Runs a script under a systemd of its own that has started `service`; what it said.
pub(crate) fn under_systemd(base: &Path, service: &str, script: &str) -> Result<String, Skip> {
    harness::program(&["/lib/systemd/systemd"])?;
    fs::write(base.join("script"), script).unwrap();
    let cgroup = Cgroup::new(base)?;
    let join = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", cgroup.folder.display());
    let mut command = Command::new("sh");
    command.args(["-c", &join, "sh"]);
    command.args([
        "unshare",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "--uts",
        "--ipc",
        "--cgroup",
    ]);
    command
        .args(["sh", "-c", BEGIN])
        .env("BASE", base)
        .env("SERVICE", service.replace('\n', "\\n"));
    let log = base.join("log");
    let output = fs::File::create(&log).unwrap();
    let mut child = command.stdout(output.try_clone().unwrap()).stderr(output).spawn().unwrap();
    let read = |name: &str| fs::read_to_string(base.join(name)).unwrap_or_default();
    let until = Instant::now() + Duration::from_secs(60);
    while !read("said").ends_with(END)
        && Instant::now() < until
        && matches!(child.try_wait(), Ok(None))
    {
        std::thread::sleep(Duration::from_millis(50));
    }
    // It is killed, and its children with it: one that ends in good order would take the host's
    // file systems for its own.
    child.kill().unwrap();
    child.wait().unwrap();
    match read("said").strip_suffix(END) {
        Some(said) => Ok(said.to_owned()),
        None if read("said").is_empty() => {
            Err(Skip(format!("systemd does not start here: {}", read("log"))))
        }
        None => panic!("{}\n{}", read("said"), read("errors")),
    }
}

/// What the script says last.
pub(crate) const END: &str = "=== end\n";

/// The states at a restart and at a boot, by what check said.
fn foretold(said: &str) -> (String, String) {
    let check: Value = serde_json::from_str(said).unwrap_or_else(|error| panic!("{error}: {said}"));
    let all = check["instances"].as_array().expect("instances");
    let instance = all
        .iter()
        .find(|instance| instance["engine"] == "oracle")
        .unwrap_or_else(|| panic!("{check:#}"));
    let state = |moment: &str| harness::text(&instance["moments"][moment]["state"]);
    (state("restart"), state("reboot"))
}

/// The right to System V huge pages, given to the service by a drop-in: it counts for the boot at
/// once, and for a restart only once systemd has loaded it. `NeedDaemonReload` does not tell of the
/// first drop-in.
#[test]
fn what_it_has_yet_to_load_counts_for_no_restart() {
    let guard = require!(PoolGuard::take_for_test());
    require!(guard.set_pool(PageSize::MIB_2, PageCount(200)));
    let base = harness::folder();
    for folder in ["bin", "dbs"] {
        fs::create_dir(base.path().join(folder)).unwrap();
    }
    fs::write(base.path().join("dbs/initUNIT.ora"), "\n").unwrap();
    let program = base.path().join("bin/oracle");
    fs::copy(oracle::program(), &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let home = base.path().display();
    let service = format!(
        "[Service]\nUser=daemon\nKillSignal=SIGKILL\nWorkingDirectory={home}/dbs\nEnvironment=ORACLE_HOME={home} ORACLE_SID=UNIT\n\
         ExecStart=/bin/sh -c 'sleep 1000 | exec {home}/bin/oracle --as oracle:UNIT --segments \
             256M --pages 2M --fall-back'\n"
    );
    let script = format!(
        "pmon() {{ grep -lx 'ora_pmon_UNIT.*' /proc/[0-9]*/cmdline -a 2>/dev/null | head -1 | cut \
             -d/ -f3; }}\n\
         ready() {{ n=0; while [ $n -lt 200 ]; do p=$(pmon); [ -n \"$p\" ] && break; sleep .05; \
             n=$((n+1)); done; sleep .5; }}\n\
         look() {{ ready; echo \"=== $1\"; grep HugetlbPages /proc/$(pmon)/status | tr -dc 0-9; \
             echo; {HUGEWISE} check --format json; }}\n\
         again() {{ systemctl restart db.service; look \"$1\"; }}\n\
         drop=/etc/systemd/system/db.service.d\n\
         look started\n\
         sleep .1; mkdir $drop; printf '[Service]\nAmbientCapabilities=CAP_IPC_LOCK\n' > \
             $drop/a.conf; look 'given, not loaded'\n\
         again 'restarted without it'\n\
         systemctl daemon-reload; again 'loaded, restarted with it'\n\
         printf '{END}'\n"
    );
    let said = require!(under_systemd(base.path(), &service, &script));
    let looks: Vec<(&str, u64, (String, String))> = said
        .split("=== ")
        .skip(1)
        .map(|look| {
            let mut parts = look.splitn(3, '\n');
            let (name, huge) = (parts.next().unwrap(), parts.next().unwrap());
            (
                name,
                huge.parse().unwrap_or_else(|_| panic!("{look}")),
                foretold(parts.next().unwrap()),
            )
        })
        .collect();
    let errors = fs::read_to_string(base.path().join("errors")).unwrap_or_default();
    let states = |restart: &str, boot: &str| (restart.to_owned(), boot.to_owned());
    let names: Vec<&str> = looks.iter().map(|(name, ..)| *name).collect();
    let whole = || format!("{errors}\n{said}");
    let expected = [
        ("started", false, states("none", "none")),
        ("given, not loaded", false, states("none", "all")),
        ("restarted without it", false, states("none", "all")),
        // The boot starts it by its unit; people restart it by Oracle's tools, in a login without
        // that capability.
        ("loaded, restarted with it", true, states("none", "all")),
    ];
    assert_eq!(names, expected.each_ref().map(|(name, ..)| *name), "{}", whole());
    for ((name, huge, foretold), (_, on_huge, expected)) in looks.iter().zip(&expected) {
        assert_eq!((*huge > 0, foretold), (*on_huge, expected), "{name}: {}", whole());
    }
}
