//! Java machines and guests, which bring their memory's size and pages on their command line.

use hugewise_testkit::require;

use super::kinds::{Jvm, Kind, Qemu};
use super::scene::{Scene, SetUp};
use crate::real::namespace;

const POOL_FILE: &str = "/etc/sysctl.d/50-pool.conf";

#[test]
fn java_by_its_collector() {
    if !require!(namespace::inside("moments::sizes::java_by_its_collector")) {
        return;
    }
    let scene = require!(Scene::new("java"));
    let server = require!(Jvm::new());
    let servers: [&dyn Kind; 1] = [&server];
    let file = |pages: u64| format!("vm.nr_hugepages = {pages}\n");
    scene.play(&SetUp::new("Parallel, enough, nothing at boot", &servers, &|stage| {
        stage.pool(300);
        stage.start(0, "-Xms256m -Xmx256m -XX:+UseParallelGC -XX:+UseLargePages");
    }));
    scene.play(&SetUp::new("Parallel, taken away since, less at boot", &servers, &|stage| {
        stage.pool(300);
        stage.file(POOL_FILE, &file(100));
        stage.start(
            0,
            "-Xms256m -Xmx256m -XX:+UseParallelGC -XX:+UseLargePages -XX:+AlwaysPreTouch",
        );
        stage.pool(0);
    }));
    scene.play(&SetUp::new(
        "G1, enough for its code and for what its heap begins with",
        &servers,
        &|stage| {
            stage.pool(250);
            stage.file(POOL_FILE, &file(500));
            stage.start(0, "-Xms200m -Xmx600m -XX:+UseG1GC -XX:+UseLargePages");
        },
    ));
    scene.play(&SetUp::new("G1, enough", &servers, &|stage| {
        stage.pool(500);
        stage.file(POOL_FILE, &file(500));
        stage.start(0, "-Xms200m -Xmx600m -XX:+UseG1GC -XX:+UseLargePages");
    }));
    scene.play(&SetUp::new("pages of up to 1 GiB, of which there are none", &servers, &|stage| {
        stage.pool(300);
        stage.file(POOL_FILE, &file(300));
        stage.start(
            0,
            "-Xms256m -Xmx256m -XX:+UseParallelGC -XX:+UseLargePages -XX:LargePageSizeInBytes=1g",
        );
    }));
    scene.play(
        &SetUp::new("transparent huge pages", &servers, &|stage| {
            stage.pool(300);
            stage.start(0, "-Xms256m -Xmx256m -XX:+UseParallelGC -XX:+UseTransparentHugePages");
        })
        .indifferent(0),
    );
    scene.verdict();
}

/// A heap that begins small takes pages as it grows, and the machine dies where there are none.
#[test]
fn zgc_whose_heap_grows() {
    if !require!(namespace::inside("moments::sizes::zgc_whose_heap_grows")) {
        return;
    }
    let scene = require!(Scene::new("zgc"));
    let server = require!(Jvm::new());
    let servers: [&dyn Kind; 1] = [&server];
    let flags = "-XX:+UseZGC -XX:+UseLargePages -Xms200m -Xmx1g";
    scene.play(&SetUp::new("enough for what it starts with alone", &servers, &|stage| {
        stage.pool(260);
        stage.start(0, flags);
    }));
    scene.play(&SetUp::new("enough for all of it", &servers, &|stage| {
        stage.pool(660);
        stage.file(POOL_FILE, "vm.nr_hugepages = 660\n");
        stage.start(0, flags);
    }));
    scene.play(&SetUp::new("not enough for what it starts with", &servers, &|stage| {
        stage.pool(660);
        stage.file(POOL_FILE, "vm.nr_hugepages = 50\n");
        stage.start(0, flags);
    }));
    scene.verdict();
}

#[test]
fn guests_by_their_backends() {
    if !require!(namespace::inside("moments::sizes::guests_by_their_backends")) {
        return;
    }
    let scene = require!(Scene::new("qemu"));
    let server = require!(Qemu::new());
    let servers: [&dyn Kind; 1] = [&server];
    let file = |pages: u64| format!("vm.nr_hugepages = {pages}\n");
    let memfd = "-m 512M -machine q35,memory-backend=ram -object \
         memory-backend-memfd,id=ram,size=512M,hugetlb=on,hugetlbsize=2M";
    scene.play(&SetUp::new("memfd, enough now, one page less at boot", &servers, &|stage| {
        stage.pool(256);
        stage.file(POOL_FILE, &file(255));
        stage.start(0, memfd);
    }));
    scene.play(&SetUp::new("memfd, taken away since, nothing at boot", &servers, &|stage| {
        stage.pool(256);
        stage.start(0, memfd);
        stage.pool(0);
    }));
    scene.play(&SetUp::new("two backends, one on huge pages", &servers, &|stage| {
        stage.pool(128);
        stage.file(POOL_FILE, &file(128));
        stage.start(
            0,
            "-m 512M -machine q35 -object \
                 memory-backend-memfd,id=near,size=256M,hugetlb=on,hugetlbsize=2M \
             -object memory-backend-memfd,id=far,size=256M -numa node,memdev=near -numa \
                 node,memdev=far",
        );
    }));
    let mount = server.folder.path().join("huge");
    let in_file = format!(
        "-m 512M -machine q35,memory-backend=ram -object \
             memory-backend-file,id=ram,size=512M,mem-path={},share=on",
        mount.display()
    );
    scene.play(&SetUp::new("a file of a hugetlbfs, no pages at boot", &servers, &|stage| {
        stage.mount(&mount, true);
        stage.pool(256);
        stage.start(0, &in_file);
    }));
    scene.play(&SetUp::new(
        "a file of a hugetlbfs that nothing mounts at boot",
        &servers,
        &|stage| {
            stage.mount(&mount, false);
            stage.pool(256);
            stage.file(POOL_FILE, &file(256));
            stage.start(0, &in_file);
        },
    ));
    scene.verdict();
}
