//! `--host-namespaces`: a program in a container of nothing else says what the host's own says.
//!
//! The host is a set of namespaces with a first process, a name, settings and a server of its own;
//! the container shares its pid namespace, as a pod with hostPID does, and has nothing but the
//! program (and the libraries that a build for tests needs).

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use hugewise_testkit::{Skip, require};
use rustix::process::Signal;
use serde_json::Value;

use crate::real::harness::{self, HUGEWISE, Server};
use crate::real::serve;

/// What makes a host of them, and of $BASE/pod.sh a container on it.
const HOST: &str = "\
set -eu
hostname the-node
mount -t tmpfs none /etc/sysctl.d
echo vm.nr_hugepages=77 > /etc/sysctl.d/node.conf
rm -f $BASE/redis.sock
redis-server --port 0 --save '' --unixsocket $BASE/redis.sock --dir $BASE >/dev/null &
until test -S $BASE/redis.sock; do sleep 0.1; done
";

/// A container with the rights that packaging/kubernetes/daemonset.yaml gives.
const POD: &str = "\
set -eu
hostname the-pod
mount -t tmpfs none $BASE/root
mkdir -p $BASE/root/proc $BASE/root/usr/bin
cp $HUGEWISE $BASE/root/usr/bin/hugewise
for library in $(ldd $HUGEWISE | grep -o '/[^ ]*'); do cp --parents -L $library $BASE/root; done
mount -t proc proc $BASE/root/proc
exec setpriv --bounding-set=${RIGHTS:--all,+sys_admin,+sys_chroot,+sys_ptrace,+dac_read_search} \
    chroot $BASE/root /usr/bin/hugewise \"$@\"
";

/// Namespaces of a container but for the one that hostPID leaves out.
const KINDS: &str = "--mount --uts --ipc --cgroup";

struct Scene(tempfile::TempDir);

impl Scene {
    fn new() -> Result<Self, Skip> {
        for program in
            ["/usr/bin/unshare", "/usr/bin/setpriv", "/usr/bin/ldd", "/usr/bin/redis-server"]
        {
            harness::program(&[program])?;
        }
        let folder = harness::folder();
        fs::create_dir(folder.path().join("root")).unwrap();
        fs::write(folder.path().join("pod.sh"), POD).unwrap();
        let scene = Self(folder);
        let tried = scene.host("true").output().unwrap();
        if tried.status.success() {
            Ok(scene)
        } else {
            Err(Skip(String::from_utf8_lossy(&tried.stderr).into_owned()))
        }
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// A script in namespaces with a first process of their own.
    fn host(&self, script: &str) -> Command {
        let mut command = Command::new("unshare");
        command.args(KINDS.split(' ')).args([
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "sh",
            "-c",
            script,
        ]);
        command.env("BASE", self.path()).env("HUGEWISE", HUGEWISE).stdin(Stdio::null());
        // What is tried is what is installed: it has no way to be told that it is a host.
        command.env_remove("HUGEWISE_TEST_NAMESPACE");
        command
    }

    fn said(&self, command: &str) -> Output {
        self.host(&format!("{HOST}{command}")).output().unwrap()
    }

    /// The same where the first process does not stand in the root of its mount namespace.
    fn said_elsewhere(&self, command: &str) -> Output {
        let away = "mkdir -p $BASE/node && mount --rbind / $BASE/node && exec chroot $BASE/node \
             sh -c \"$SCRIPT\"";
        self.host(away).env("SCRIPT", format!("{HOST}{command}")).output().unwrap()
    }
}

/// What stands still of a report.
fn lasting(output: &Output) -> Value {
    let mut json = harness::Check::read(output).json;
    forget(&mut json);
    json
}

/// When it was read, and what the rest of this machine takes meanwhile.
fn forget(value: &mut Value) {
    const MOVES: [&str; 6] = [
        "read_at",
        "memory_free_bytes",
        "memory_available_bytes",
        // Made of the memory that is free.
        "room_pages",
        "page_tables_bytes",
        "private_bytes",
    ];
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !MOVES.contains(&name.as_str()));
            fields.values_mut().for_each(forget);
        }
        Value::Array(items) => items.iter_mut().for_each(forget),
        _ => {}
    }
}

/// The host's server; others of this machine may be configured and down.
fn redis(json: &Value) -> &Value {
    let instances = json["instances"].as_array().unwrap();
    instances
        .iter()
        .find(|instance| instance["engine"] == "redis")
        .unwrap_or_else(|| panic!("{json:#}"))
}

#[test]
fn check_in_a_container_says_what_it_says_on_the_host() {
    let scene = require!(Scene::new());
    let pod = format!("unshare {KINDS} sh $BASE/pod.sh check --format json");
    let (alone, within) = ("$HUGEWISE check --format json", format!("{pod} --host-namespaces"));
    let elsewhere = scene.said_elsewhere(&within);
    let said = String::from_utf8_lossy(&elsewhere.stderr).into_owned();
    assert_eq!(lasting(&elsewhere), lasting(&scene.said_elsewhere(alone)), "{said}");
    assert!(
        String::from_utf8_lossy(&elsewhere.stdout).contains("/etc/sysctl.d/node.conf"),
        "{said}"
    );

    let host = lasting(&scene.said(alone));
    let entered = scene.said(&within);
    assert_eq!(lasting(&entered), host, "{}", String::from_utf8_lossy(&entered.stderr));
    assert_eq!(host["host"]["name"], "the-node");
    assert!(host.to_string().contains("/etc/sysctl.d/node.conf"), "{host:#}");
    assert_eq!(redis(&host)["containered"], false, "{host:#}");
    // That first process is no machine's.
    assert!(
        String::from_utf8_lossy(&entered.stderr).contains("process 1 is in a container itself")
    );

    let without = lasting(&scene.said(&pod));
    assert_eq!(without["host"]["name"], "the-pod");
    assert_eq!(redis(&without)["containered"], true, "{without:#}");
}

#[test]
fn without_the_hosts_processes_there_is_no_way_and_it_says_so() {
    let scene = require!(Scene::new());
    for (words, code) in
        [("check", 2), ("serve --listen 127.0.0.1:0", 2), ("verify --format nagios", 3)]
    {
        let output = scene
            .host(&format!("exec sh $BASE/pod.sh {words} --host-namespaces"))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert_eq!(output.status.code(), Some(code), "{words}: {said}");
        assert!(said.contains("hostPID: true"), "{words}: {said}");
    }
}

#[test]
fn without_the_right_to_enter_it_names_it() {
    let scene = require!(Scene::new());
    for (without, said_of) in [("sys_admin", "CAP_SYS_ADMIN"), ("sys_ptrace", "CAP_SYS_PTRACE")] {
        let rights =
            format!("RIGHTS=-{without} unshare {KINDS} sh $BASE/pod.sh check --host-namespaces");
        let output = scene.host(&format!("{rights}; exit $?")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(said_of), "{said}");
    }
}

#[test]
fn serve_in_a_container_serves_the_host_and_keeps_no_more_rights_than_to_read() {
    let scene = require!(Scene::new());
    let log = scene.path().join("log");
    let script = format!(
        "{HOST}unshare {KINDS} sh $BASE/pod.sh serve --host-namespaces --listen 127.0.0.1:0 \
             >$BASE/said &\n\
         until grep -q . $BASE/said; do sleep 0.1; done\n\
         pgrep -x hugewise | sed 's,.*,/proc/&/status,' | xargs cat >$BASE/status\n\
         $HUGEWISE serve --once --textfile $BASE/host.prom\n: >$BASE/ready\nwait\n"
    );
    let mut server = Server::start(&mut scene.host(&script), &log, Signal::KILL);
    let ready = scene.path().join("ready");
    server.wait_for("the container's answer", |_| ready.exists().then_some(()));
    let read = |name: &str| fs::read_to_string(scene.path().join(name)).unwrap();

    let address = read("said").trim().trim_start_matches("listening at http://").parse().unwrap();
    let (status, served) = serve::get(address, "/metrics").unwrap();
    assert_eq!(status, 200);
    // The figures of pools, and which instances there are: what those take goes up and down.
    let about = |text: &str| -> Vec<String> {
        let lasting = |line: &str| match line.split_once('{')?.0 {
            name if name.starts_with("hugewise_instance") => {
                Some(line.rsplit_once(' ')?.0.to_owned())
            }
            name if name.starts_with("hugewise_pool_") && name.ends_with("_pages") => {
                Some(line.to_owned())
            }
            _ => None,
        };
        text.lines().filter_map(lasting).collect()
    };
    assert!(about(&served).iter().any(|line| line.contains("redis")), "{served}");
    assert_eq!(about(&served), about(&read("host.prom")));

    // CAP_DAC_READ_SEARCH is bit 2 and CAP_SYS_PTRACE bit 19 of include/uapi/linux/capability.h.
    let rights = read("status");
    for line in ["CapPrm:\t0000000000080004", "CapEff:\t0000000000080004", "NoNewPrivs:\t1"] {
        assert!(rights.contains(line), "{rights}");
    }
}

/// The pod of these tests has the rights that the manifest asks for, and starts what the manifest
/// starts.
#[test]
fn the_daemon_set_starts_what_is_tried_here_with_the_same_rights() {
    let manifest =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/kubernetes/daemonset.yaml");
    let manifest = fs::read_to_string(manifest).unwrap();
    let list = |key: &str| {
        let line = manifest.lines().find_map(|line| line.trim().strip_prefix(key)).unwrap();
        let words = line.trim().trim_start_matches('[').trim_end_matches(']').split(',');
        words.map(|word| word.trim().trim_matches('"').to_ascii_lowercase()).collect::<Vec<_>>()
    };
    assert_eq!(
        list("command: "),
        ["/usr/bin/hugewise", "serve", "--host-namespaces", "--listen", "127.0.0.1:9752"]
    );
    let rights: String = list("add: ").iter().map(|right| format!(",+{right}")).collect();
    assert!(POD.contains(&format!("--bounding-set=${{RIGHTS:--all{rights}}}")), "{rights}");
}
