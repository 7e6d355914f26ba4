//! A server in mount and pid namespaces of its own, with files that the host does not see.

use std::fs;
use std::process::Command;

use hugewise_lab::guard::PoolGuard;
use hugewise_model::{PageCount, PageSize};
use hugewise_testkit::require;
use rustix::process::Signal;

use crate::real::harness::{self, Server, kernel};
use crate::real::postgresql::{self, Cluster};

#[test]
fn postgresql_in_namespaces_of_its_own() {
    let programs = require!(postgresql::debian());
    let cluster = require!(Cluster::debian("postgres"));
    let guard = require!(PoolGuard::take_for_test());
    cluster.configure("shared_buffers = 128MB\nhuge_pages = off");
    require!(guard.set_pool(PageSize::MIB_2, PageCount(200)));
    let outside = cluster.data();
    let (uid, gid) = (cluster.owner.uid, cluster.owner.gid);
    // The data directory lies on a file system that only the inside has.
    let inside = format!(
        "set -e\nmount -t tmpfs none /srv\ncp -a {data} /srv/inside\nchmod 755 /srv\n\
         exec setpriv --reuid={uid} --regid={gid} --clear-groups -- {postgres} -D /srv/inside",
        data = outside.display(),
        postgres = programs.join("postgres").display(),
    );
    let mut command = Command::new("unshare");
    command
        .args([
            "--mount",
            "--pid",
            "--fork",
            "--mount-proc",
            "--kill-child=INT",
            "sh",
            "-c",
            &inside,
        ])
        .current_dir("/");
    let mut server = Server::start(&mut command, &cluster.folder.path().join("log"), Signal::INT);
    let postmaster = server.wait_for("PostgreSQL in its namespaces", |_| {
        kernel::processes(|command| command.contains("postgres\0-D\0/srv/inside")).pop()
    });
    // Its first process ends the namespace, and with it everything inside.
    server.pid = postmaster;
    server.wait_for("PostgreSQL ready", |_| {
        let text = fs::read_to_string(format!("/proc/{postmaster}/root/srv/inside/postmaster.pid"))
            .ok()?;
        (text.lines().nth(7)?.trim() == "ready").then_some(())
    });
    assert!(!std::path::Path::new("/srv/inside").exists());

    let checked = harness::check();
    checked.assert_verdict("postgresql", postmaster, "none", Some("asked"));
    let instance = checked.instance("postgresql", postmaster);
    // The version is in PG_VERSION of the data directory, the setting in its postgresql.conf.
    assert!(harness::text(&instance["version"]).starts_with("15"), "{instance:#}");
    assert!(instance["chain"].to_string().contains("postgresql.conf"), "{instance:#}");
}
