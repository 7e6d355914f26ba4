//! Accounts that no file knows, and directories that answer whatever they like.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use hugewise_host::directory;
use hugewise_host::source::LiveSource;
use hugewise_testkit::require;

use crate::real::harness;
use crate::real::namespace;

/// A module of the C library's name services: what it answers tells whose rights it was asked with.
const MODULE: &str = r#"
#define _GNU_SOURCE
#include <grp.h>
#include <nss.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum nss_status _nss_hesiod_getpwuid_r(uid_t uid, struct passwd *out, char *buffer, size_t size, int *error) {
    if (uid == 4243) for (;;) pause();
    if (uid == 4246) for (;;) fork();
    if (uid < 4242 || uid > 4245) return NSS_STATUS_NOTFOUND;
    int rights = getuid() == 0 || geteuid() == 0 || getegid() == 0 || getgroups(0, 0) > 0;
    const char *name = rights ? "rooted" : "directory";
    if (uid == 4244) name = "root";
    if (uid == 4245) name = "x\033[2J; id";
    snprintf(buffer, size, "%s", name);
    *out = (struct passwd){.pw_name = buffer, .pw_passwd = "*", .pw_uid = uid, .pw_gid = 4343, .pw_gecos = "", .pw_dir = "/", .pw_shell = ""};
    return NSS_STATUS_SUCCESS;
}

enum nss_status _nss_hesiod_getgrgid_r(gid_t gid, struct group *out, char *buffer, size_t size, int *error) {
    static char *members[] = {"everybody", 0};
    if (gid != 4343) return NSS_STATUS_NOTFOUND;
    *out = (struct group){.gr_name = "dba", .gr_passwd = "*", .gr_gid = gid, .gr_mem = members};
    return NSS_STATUS_SUCCESS;
}
"#;

#[test]
fn a_directory_is_asked_without_rights_and_not_believed_in_everything() {
    let name =
        "attacks::accounts::a_directory_is_asked_without_rights_and_not_believed_in_everything";
    if !require!(namespace::inside(name)) {
        return;
    }
    require!(harness::program(&["/usr/bin/getent"]));
    let installed = require!(harness::program(&[
        "/lib/x86_64-linux-gnu/libnss_hesiod.so.2",
        "/lib/aarch64-linux-gnu/libnss_hesiod.so.2"
    ]));
    let folder = harness::folder();
    let (source, module) = (folder.path().join("module.c"), folder.path().join("module.so"));
    fs::write(&source, MODULE).unwrap();
    harness::must(
        Command::new("cc").args(["-shared", "-fPIC", "-w", "-o"]).arg(&module).arg(&source),
    );
    harness::must(Command::new("mount").arg("--bind").arg(&module).arg(installed));
    fs::write("/etc/nsswitch.conf", "passwd: files hesiod\ngroup: files hesiod\n").unwrap();

    let live = LiveSource::new();
    let read = || hugewise_host::read(&live);
    let mut host = read();
    assert!(!host.accounts.users.contains_key(&4242), "no file knows the user");
    assert!(directory::add(&mut host, [4242]));
    assert_eq!(host.accounts.user_name(4242), "directory", "it was not asked as root");
    assert_eq!(host.accounts.groups[&4343].name, "dba");
    assert!(host.accounts.groups[&4343].members.is_empty());

    let begun = Instant::now();
    let mut host = read();
    // One that takes no end, one that takes root's name, one that paints on terminals, one that
    // starts all it can.
    assert!(!directory::add(&mut host, [4243, 4244, 4245, 4246]));
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    assert_eq!(host.accounts.user_name(0), "root");
    let left = harness::kernel::processes(|command| command.starts_with("/usr/bin/getent"));
    assert_eq!(left, Vec::<u32>::new(), "nothing of it runs on");
}

/// `check` runs nothing: it knows what is in files.
#[test]
fn check_and_capture_ask_no_directory() {
    let strace = require!(harness::program(&["/usr/bin/strace"]));
    for command in [&["check"][..], &["capture", "-o"]] {
        let folder = harness::folder();
        let log = folder.path().join("log");
        let mut traced = Command::new(&strace);
        traced
            .args(["-f", "-e", "trace=execve,connect", "-o"])
            .arg(&log)
            .arg(harness::HUGEWISE)
            .args(command);
        if command.len() > 1 {
            traced.arg(folder.path().join("capture"));
        }
        traced.output().unwrap();
        let log = fs::read_to_string(log).unwrap();
        assert_eq!(log.matches("execve(").count(), 1, "{log}");
        assert!(!log.contains("connect("), "{log}");
    }
}
