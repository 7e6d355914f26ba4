//! Where the machine or a capture cannot be read: in a chroot without /proc, with a /proc that
//! hides or lacks something, and with files that answer with an error. Nothing that went unread is
//! ever good news.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use hugewise_lab::guard::PoolGuard;
use hugewise_model::{PageCount, PageSize};
use hugewise_testkit::{Skip, require};
use serde_json::Value;

use crate::real::harness::{self, HUGEWISE, User};
use crate::real::postgresql::Cluster;

/// Ways to be without one's own /proc; each is a shell's words before the program.
const WITHOUT_PROC: [(&str, &str); 3] = [
    ("no /proc", "umount -l /proc"),
    ("an empty /proc", "mount -t tmpfs none /proc"),
    // It shows the processes of another pid namespace, in which the program is not.
    (
        "no /proc/self",
        "unshare --pid --fork --kill-child \\\n\
         sh -c 'mount -t proc proc /proc; echo >$0/mounted; exec sleep 600' $FOLDER >/dev/null \
             2>&1 &\n\
         holder=$!\ntrap 'kill -KILL $holder' EXIT\nuntil [ -e $FOLDER/mounted ]; do sleep 0.05; \
             done",
    ),
];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/hosts")
        .join(name)
        .canonicalize()
        .unwrap()
}

/// Runs a program in a mount namespace of its own after a shell's commands, in which `$FOLDER` is a
/// folder for their use.
fn within(setup: &str, program: &[&str]) -> Output {
    let folder = harness::folder();
    let script = format!("set -e\n{setup}\n\"$@\"");
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--", "sh", "-c", &script, "sh"])
        .args(program)
        .env("FOLDER", folder.path());
    command.output().unwrap()
}

fn namespaces() -> Result<(), Skip> {
    harness::program(&["/usr/bin/unshare"])?;
    harness::program(&["/usr/bin/setpriv"])?;
    if !rustix::process::geteuid().is_root() {
        return Err(Skip("a mount namespace takes root".into()));
    }
    Ok(())
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// A copy of a captured host that may be spoilt, and the path of one of its files.
fn copied(name: &str) -> tempfile::TempDir {
    let folder = harness::folder();
    let done =
        Command::new("cp").arg("-aT").arg(fixture(name)).arg(folder.path()).status().unwrap();
    assert!(done.success());
    folder
}

fn tarred(folder: &Path, tar: &Path) {
    let done =
        Command::new("tar").arg("-C").arg(folder).arg("-cf").arg(tar).arg(".").status().unwrap();
    assert!(done.success());
}

#[test]
fn a_capture_reads_alike_where_there_is_no_proc() {
    require!(namespaces());
    let folder = harness::folder();
    let tar = folder.path().join("host.tar");
    tarred(&fixture("oracle-many-sessions"), &tar);
    for root in [fixture("oracle-many-sessions"), tar] {
        let arguments = ["check", "--format", "json", "--root", root.to_str().unwrap()];
        let with = Command::new(HUGEWISE).args(arguments).output().unwrap();
        // fixtures/hosts/oracle-many-sessions.expected.txt
        assert_eq!(with.status.code(), Some(1), "{}", said(&with));
        for (name, setup) in WITHOUT_PROC {
            let without = within(setup, &[&[HUGEWISE][..], &arguments].concat());
            assert_eq!(
                without.status.code(),
                Some(1),
                "{name}, {}: {}",
                root.display(),
                said(&without)
            );
            assert!(
                without.stdout == with.stdout,
                "{name}, {}: {}",
                root.display(),
                said(&without)
            );
        }
    }
}

#[test]
fn without_its_own_proc_no_command_says_that_this_host_is_fine() {
    require!(namespaces());
    for (name, setup) in &WITHOUT_PROC[..2] {
        for (arguments, code) in [
            (&["check"][..], 2),
            (&["check", "--format", "json"], 2),
            (&["size"], 2),
            (&["plan"], 2),
            (&["verify"], 2),
            (&["verify", "--format", "nagios"], 3),
        ] {
            let output = within(setup, &[&[HUGEWISE][..], arguments].concat());
            let text = said(&output);
            assert_eq!(output.status.code(), Some(code), "{name}, {arguments:?}: {text}");
            assert!(
                text.contains("/proc/meminfo") && text.contains("mount -t proc proc /proc"),
                "{name}: {text}"
            );
        }
    }
    let (name, setup) = WITHOUT_PROC[2];
    let output = within(setup, &[HUGEWISE, "check", "--fail-on", "never"]);
    assert_eq!(output.status.code(), Some(3), "{name}: {}", said(&output));
    assert!(said(&output).contains("another pid"), "{name}: {}", said(&output));
}

#[test]
fn sysfs_that_is_not_mounted_is_no_kernel_without_huge_pages() {
    require!(namespaces());
    let output =
        within("umount -l /sys", &[HUGEWISE, "check", "--fail-on", "never", "--format", "json"]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(said(&output).contains("/sys is not mounted"), "{}", said(&output));
}

#[test]
fn a_proc_that_hides_processes_is_said() {
    require!(namespaces());
    let user = require!(User::named("nobody"));
    let folder = harness::folder();
    let program = folder.path().join("hugewise");
    fs::copy(HUGEWISE, &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let program = program.to_str().unwrap();
    let (uid, gid) = (user.uid.to_string(), user.gid.to_string());
    // Without groups, so without the one that `gid=` lets through, which is root's by itself.
    let nobody = ["setpriv", "--reuid", &uid, "--regid", &gid, "--clear-groups", program];
    for hides in ["1", "2", "4"] {
        // A mount of its own: this machine's stays as it is.
        let setup = format!("mount -t proc -o hidepid={hides} proc /proc");
        let output = within(&setup, &[&nobody[..], &["check", "--fail-on", "never"]].concat());
        assert_eq!(output.status.code(), Some(3), "hidepid={hides}: {}", said(&output));
        assert!(said(&output).contains("hidepid="), "hidepid={hides}: {}", said(&output));
        let output = within(&setup, &[program, "check", "--fail-on", "never"]);
        assert!(
            !said(&output).contains("hidepid="),
            "root sees all with hidepid={hides}: {}",
            said(&output)
        );
    }
    // Nothing but processes: no meminfo.
    let output = within("mount -t proc -o subset=pid proc /proc", &[HUGEWISE, "check"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
}

#[test]
fn of_hidden_servers_nothing_good_is_said_and_nothing_is_taken_from_them() {
    require!(namespaces());
    let cluster = require!(Cluster::debian("postgres"));
    let guard = require!(PoolGuard::take_for_test());
    let settings = "shared_buffers = 300MB\nhuge_pages = on";
    cluster.configure(settings);
    let pages = cluster.pages() + 200;
    require!(guard.set_pool(PageSize::MIB_2, PageCount(pages)));
    let _server = cluster.start(settings);
    let folder = harness::folder();
    let program = folder.path().join("hugewise");
    fs::copy(HUGEWISE, &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let program = program.to_str().unwrap();
    let (uid, gid) = (cluster.owner.uid.to_string(), cluster.owner.gid.to_string());
    // It sees its own server, wholly on huge pages, and no other.
    let owner = ["setpriv", "--reuid", &uid, "--regid", &gid, "--clear-groups", program];
    let hides = "mount -t proc -o hidepid=2 proc /proc";
    let by_owner = |words: &[&str]| within(hides, &[&owner[..], words].concat());
    for words in [&["verify"][..], &["size"], &["plan"], &["plan", "--shrink"]] {
        let output = by_owner(words);
        assert_eq!(output.status.code(), Some(3), "{words:?}: {}", said(&output));
        assert!(said(&output).contains("hidepid="), "{words:?}: {}", said(&output));
    }
    let output = by_owner(&["verify", "--format", "nagios"]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(
        said(&output).contains("HUGEPAGES UNKNOWN - postgresql ")
            && said(&output).contains(" is wholly on huge pages"),
        "{}",
        said(&output)
    );
    let output = by_owner(&["plan", "--shrink", "--format", "json"]);
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(!plan["steps"].to_string().contains("pool-2M-now"), "{plan:#}");
    // What was captured so is no more whole when it is read.
    let (place, capture) = (harness::folder(), "host.tar.gz");
    cluster.owner.own(place.path());
    let capture = place.path().join(capture);
    let capture = capture.to_str().unwrap();
    let output = by_owner(&["capture", "--output", capture]);
    assert!(said(&output).contains("servers that were not captured"), "{}", said(&output));
    for words in
        [&["check", "--fail-on", "never", "--root", capture][..], &["verify", "--root", capture]]
    {
        let output = Command::new(HUGEWISE).args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{words:?}: {}", said(&output));
        assert!(said(&output).contains("hidepid="), "{words:?}: {}", said(&output));
    }
    // Root sees all of them.
    let output = within(hides, &[program, "plan", "--shrink", "--format", "json"]);
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(plan["steps"].to_string().contains("pool-2M-now"), "{plan:#}");
}

#[test]
fn what_has_no_meminfo_is_no_host() {
    let folder = copied("healthy-postgresql");
    fs::remove_file(folder.path().join("proc/meminfo")).unwrap();
    let outside = harness::folder();
    let tar = outside.path().join("host.tar");
    tarred(folder.path(), &tar);
    for root in [folder.path(), &tar] {
        for command in ["check", "size", "plan", "verify"] {
            let output =
                Command::new(HUGEWISE).args([command, "--root"]).arg(root).output().unwrap();
            let text = said(&output);
            assert_eq!(output.status.code(), Some(2), "{command} {}: {text}", root.display());
            assert!(text.contains("proc/meminfo is absent"), "{text}");
        }
    }
}

/// Every file of a healthy host, one after the other, behind an error: check says of it what it is,
/// and if a verdict hangs on it, that there is none. What it says of the host whole is never better
/// than it was.
#[test]
fn a_file_that_answers_with_an_error_is_not_absent() {
    require!(namespaces());
    let folder = copied("healthy-postgresql");
    let root = folder.path();
    let decides = [
        "proc/32322/status",
        "proc/32322/maps",
        "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
        "sys/kernel/mm/transparent_hugepage/enabled",
        "etc/sysctl.d/60-hugepages.conf",
    ];
    let check = |setup: &str, user: &[&str]| {
        let program =
            [user, &[HUGEWISE, "check", "--format", "json", "--root", root.to_str().unwrap()]]
                .concat();
        within(setup, &program)
    };
    assert_eq!(check(":", &[]).status.code(), Some(0));
    for file in decides {
        let path = root.join(file);
        let path = path.to_str().unwrap();
        // Nothing is mapped where /proc/PID/mem begins, so reading it is EIO (mem_rw of
        // fs/proc/base.c).
        let broken = check(&format!("mount --bind /proc/$$/mem {path}"), &[]);
        unread(&broken, file, "malformed: Input/output error");
        // ESRCH, of a process that has ended: as good a word for nothing as any, and no absence of
        // this file.
        let gone = check(&format!("mount --bind /proc/self/mem {path}"), &[]);
        unread(&gone, file, "malformed: No such process");
        // ELOOP.
        let (kept, link) = (fs::read(path).unwrap(), format!("/{file}"));
        fs::remove_file(path).unwrap();
        symlink(link, path).unwrap();
        unread(&check(":", &[]), file, "malformed: too many links");
        fs::remove_file(path).unwrap();
        fs::write(path, kept).unwrap();
        // EACCES: root without its rights over files.
        fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
        let bounded =
            ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--inh-caps", "-all"];
        unread(&check(":", &bounded), file, "denied");
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    }
    let meminfo = root.join("proc/meminfo");
    let broken = check(&format!("mount --bind /proc/$$/mem {}", meminfo.display()), &[]);
    assert_eq!(broken.status.code(), Some(2), "{}", said(&broken));
    assert!(
        said(&broken).contains("proc/meminfo is malformed: Input/output error"),
        "{}",
        said(&broken)
    );
}

#[track_caller]
fn unread(output: &Output, file: &str, why: &str) {
    assert_eq!(output.status.code(), Some(3), "{file}: {}", said(output));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let all = json["unread"].as_array().unwrap();
    let named = |json: &&Value| {
        json["what"] == format!("/{file}") && harness::text(&json["why"]).starts_with(why)
    };
    assert!(all.iter().any(|other_json| named(&other_json)), "{file} {why}: {:#}", json["unread"]);
}
