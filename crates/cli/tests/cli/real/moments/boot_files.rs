//! Files that set the pool at the next boot, and those that lose to others.

use std::process::Command;

use hugewise_testkit::require;

use super::forecast::Moment;
use super::kinds::{Kind, PostgreSql};
use super::scene::{Scene, SetUp};
use super::stage::Stage;
use crate::real::harness;
use crate::real::namespace;

const NODE: &str = "/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages";
const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";

#[test]
fn the_file_that_has_the_last_word() {
    if !require!(namespace::inside("moments::boot_files::the_file_that_has_the_last_word")) {
        return;
    }
    let scene = require!(Scene::new("boot files"));
    // Files of the distribution are played in a folder of our own.
    harness::must(Command::new("mount").args(["-t", "tmpfs", "none", "/usr/lib/sysctl.d"]));
    let server = require!(PostgreSql::new(&scene.guard, 5432));
    let must = "shared_buffers = 280MB\nhuge_pages = on";
    let pages = server.pages(must);
    let enough = format!("vm.nr_hugepages = {pages}\n");
    let servers: [&dyn Kind; 1] = [&server];
    let play = |name: &str, files: &dyn Fn(&Stage<'_>)| {
        scene.play(
            &SetUp::new(name, &servers, &|stage| {
                stage.pool(pages);
                files(stage);
                stage.start(0, must);
            })
            .without(Moment::Restart, "files are of the boot"),
        );
    };

    play("a later file says 0", &|stage| {
        stage.file("/etc/sysctl.d/50-pool.conf", &enough);
        stage.file("/etc/sysctl.d/zzz.conf", "vm.nr_hugepages = 0\n");
    });
    play("an earlier file says 0", &|stage| {
        stage.file("/etc/sysctl.d/50-pool.conf", &enough);
        stage.file("/etc/sysctl.d/10-site.conf", "vm.nr_hugepages = 0\n");
    });
    play("its name is masked in /etc", &|stage| {
        stage.file("/usr/lib/sysctl.d/50-pool.conf", &enough);
        stage.link("/etc/sysctl.d/50-pool.conf", "/dev/null");
    });
    play("its name is in /etc too, with less", &|stage| {
        stage.file("/usr/lib/sysctl.d/50-pool.conf", &enough);
        stage.file("/etc/sysctl.d/50-pool.conf", "vm.nr_hugepages = 5\n");
    });
    play("a link leads to it", &|stage| {
        stage.file("/etc/pool-of-site", &enough);
        stage.link("/etc/sysctl.d/60-pool.conf", "../pool-of-site");
    });
    play("at the end of /etc/sysctl.conf, which a link leads to", &|stage| {
        stage.line("/etc/sysctl.conf", &enough)
    });
    play("in /etc/sysctl.conf, and nothing leads there", &|stage| {
        stage.line("/etc/sysctl.conf", &enough);
        stage.link("/etc/sysctl.d/99-sysctl.conf", "/dev/null");
    });
    play("no .conf at its end", &|stage| stage.file("/etc/sysctl.d/50-pool", &enough));
    play("with slashes, and a dash before it", &|stage| {
        stage.file("/etc/sysctl.d/50-pool.conf", &format!("-vm/nr_hugepages = {pages}\n"));
    });
    play("a pattern after it says 0", &|stage| {
        stage.file("/etc/sysctl.d/50-pool.conf", &enough);
        stage.file("/etc/sysctl.d/60-all.conf", "vm.nr_huge* = 0\n");
    });
    play("a pattern alone", &|stage| {
        stage.file("/etc/sysctl.d/60-all.conf", &format!("vm.nr_hugepage? = {pages}\n"));
    });
    play("in hexadecimal", &|stage| {
        stage.file("/etc/sysctl.d/50-pool.conf", &format!("vm.nr_hugepages = {pages:#x}\n"));
    });
    play("a comment behind the number", &|stage| {
        stage
            .file("/etc/sysctl.d/50-pool.conf", &format!("vm.nr_hugepages = {pages} # of 2 MiB\n"));
    });
    play("a word is no number", &|stage| {
        stage.file("/etc/sysctl.d/50-pool.conf", &format!("{enough}vm.nr_hugepages = many\n"));
    });
    play("twice in one file", &|stage| {
        stage.file("/etc/sysctl.d/50-pool.conf", &format!("vm.nr_hugepages = 0\n{enough}"));
    });
    play("vm.nr_hugepages_mempolicy", &|stage| {
        stage.file("/etc/sysctl.d/50-pool.conf", &format!("vm.nr_hugepages_mempolicy = {pages}\n"));
    });
    play("vm.nr_hugepages_mempolicy says 0 after it", &|stage| {
        stage.file(
            "/etc/sysctl.d/50-pool.conf",
            &format!("{enough}vm.nr_hugepages_mempolicy = 0\n"),
        );
    });
    play("tmpfiles.d writes the pool", &|stage| {
        stage.file("/etc/tmpfiles.d/pool.conf", &format!("w {POOL} - - - - {pages}\n"));
    });
    play("tmpfiles.d writes the pool of the node", &|stage| {
        stage.file("/etc/tmpfiles.d/pool.conf", &format!("w {NODE} - - - - {pages}\n"));
    });
    play("tmpfiles.d writes the pools of all nodes", &|stage| {
        stage.file(
            "/etc/tmpfiles.d/pool.conf",
            &format!("w {} - - - - {pages}\n", NODE.replace("node0", "node*")),
        );
    });
    play("tmpfiles.d writes 0 to the node", &|stage| {
        stage.file("/etc/sysctl.d/50-pool.conf", &enough);
        stage.file("/etc/tmpfiles.d/pool.conf", &format!("w {NODE} - - - - 0\n"));
    });
    play("tmpfiles.d, at the boot alone", &|stage| {
        stage.file("/etc/tmpfiles.d/pool.conf", &format!("w! {POOL} - - - - {pages}\n"));
    });
    scene.verdict();
}
