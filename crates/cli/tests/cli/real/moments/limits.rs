//! What stands between a server and pages that are there: control groups, rights, settings of other
//! kinds.

use std::process::Command;

use hugewise_testkit::require;

use super::forecast::Moment;
use super::kinds::{Jvm, Kind, Oracle, PostgreSql};
use super::scene::{Scene, SetUp};
use super::stage::Stage;
use crate::real::cgroup::Cgroup;
use crate::real::harness::{self, MIB};
use crate::real::namespace;

const POOL_FILE: &str = "/etc/sysctl.d/50-pool.conf";
const BY_HAND: &str =
    "the group was made by hand: what the next boot makes of it is nobody's to say";

#[test]
fn a_control_group_gives_less() {
    if !require!(namespace::inside("moments::limits::a_control_group_gives_less")) {
        return;
    }
    let scene = require!(Scene::new("control group"));
    let cgroup = require!(Cgroup::new("moments"));
    let mut postgresql = require!(PostgreSql::new(&scene.guard, 5432));
    let mut java = require!(Jvm::new());
    postgresql.within(cgroup.path().to_owned());
    java.within(cgroup.path().to_owned());
    let may = "shared_buffers = 300MB";
    let must = "shared_buffers = 300MB\nhuge_pages = on";
    let (reserved, touched) = ("hugetlb.2MB.rsvd.max", "hugetlb.2MB.max");
    let free = || {
        cgroup.limit(reserved, 1 << 40);
        cgroup.limit(touched, 1 << 40);
    };
    let servers: [&dyn Kind; 1] = [&postgresql];
    scene.play(
        &SetUp::new("to reserve, try", &servers, &|stage| {
            free();
            stage.pool(200);
            cgroup.limit(reserved, 32 * MIB);
            stage.start(0, may);
        })
        .without(Moment::Reboot, BY_HAND),
    );
    scene.play(
        &SetUp::new("to reserve, more buffers since its start, must", &servers, &|stage| {
            free();
            stage.pool(300);
            stage.start(0, must);
            cgroup.limit(reserved, 350 * MIB);
            stage.change(0, "shared_buffers = 400MB\nhuge_pages = on");
        })
        .without(Moment::Reboot, BY_HAND),
    );
    scene.play(
        &SetUp::new("to touch, and a start touches little of its buffers", &servers, &|stage| {
            free();
            stage.pool(200);
            cgroup.limit(touched, 64 * MIB);
            stage.start(0, must);
        })
        .without(Moment::Reboot, BY_HAND),
    );
    let servers: [&dyn Kind; 1] = [&java];
    scene.play(
        &SetUp::new("to reserve, for a machine's code and not for its heap", &servers, &|stage| {
            free();
            stage.pool(300);
            cgroup.limit(reserved, 250 * MIB);
            stage.start(0, "-Xms256m -Xmx256m -XX:+UseParallelGC -XX:+UseLargePages");
        })
        .without(Moment::Reboot, BY_HAND),
    );
    scene.verdict();
}

/// Each fits by itself; what the other has below the limit is not there for it.
#[test]
fn a_control_group_gives_enough_for_one_of_two() {
    if !require!(namespace::inside("moments::limits::a_control_group_gives_enough_for_one_of_two"))
    {
        return;
    }
    let scene = require!(Scene::new("control group"));
    let cgroup = require!(Cgroup::new("two"));
    let mut first = require!(PostgreSql::new(&scene.guard, 5432));
    let mut second = require!(PostgreSql::new(&scene.guard, 5433));
    first.within(cgroup.path().to_owned());
    second.within(cgroup.path().to_owned());
    let may = "shared_buffers = 300MB";
    let must = "shared_buffers = 300MB\nhuge_pages = on";
    let pages = first.pages(may);
    let servers: [&dyn Kind; 2] = [&first, &second];
    let for_one = || cgroup.limit("hugetlb.2MB.rsvd.max", (pages + pages / 2) * 2 * MIB);
    let files = format!("vm.nr_hugepages = {}\n", 2 * pages);
    scene.play(
        &SetUp::new("for one of two, try", &servers, &|stage| {
            for_one();
            stage.pool(2 * pages);
            stage.start(0, may);
            stage.start(1, may);
        })
        .without(Moment::Reboot, BY_HAND),
    );
    scene.play(
        &SetUp::new("for one of two, the second must since its start", &servers, &|stage| {
            for_one();
            stage.pool(2 * pages);
            stage.start(0, may);
            stage.start(1, may);
            stage.change(1, must);
        })
        .without(Moment::Reboot, BY_HAND),
    );
    // The plan says what the limit is to be, and a person makes it so.
    let typed = |_: &Stage<'_>, planned: &str| {
        let line = planned.lines().find(|line| line.contains("hugetlb.2MB.rsvd.max"));
        let line = line.unwrap_or_else(|| panic!("no word on the limit: {planned}"));
        harness::must(Command::new("sh").args(["-c", line.trim()]));
    };
    scene.follow(
        &SetUp::new("for one of two, raised as told", &servers, &|stage| {
            for_one();
            stage.pool(2 * pages);
            stage.file(POOL_FILE, &files);
            stage.start(0, may);
            stage.start(1, may);
        })
        .by_hand(&typed),
    );
    scene.verdict();
}

/// shmget needs a right that mmap does not.
#[test]
fn a_right_that_is_gone_with_the_boot() {
    if !require!(namespace::inside("moments::limits::a_right_that_is_gone_with_the_boot")) {
        return;
    }
    const ORACLE: u32 = 54321;
    for (file, line) in [
        ("/etc/passwd", format!("oracle:x:{ORACLE}:{ORACLE}::/nonexistent:/bin/sh\n")),
        ("/etc/group", format!("oracle:x:{ORACLE}:\n")),
    ] {
        let text = std::fs::read_to_string(file).unwrap();
        assert!(!text.contains(&format!(":{ORACLE}:")), "{file}");
        std::fs::write(file, text + &line).unwrap();
    }
    let scene = require!(Scene::new("right"));
    let server = Oracle::new("PROD");
    server.run_as(ORACLE);
    let servers: [&dyn Kind; 1] = [&server];
    let settings = "sga_target=300M\nuse_large_pages=TRUE";
    let pool = "vm.nr_hugepages = 150\n";
    let group = format!("{pool}vm.hugetlb_shm_group = {ORACLE}\n");
    scene.play(&SetUp::new("its group now, not at boot", &servers, &|stage| {
        stage.pool(150);
        stage.group(ORACLE);
        stage.file(POOL_FILE, pool);
        stage.start(0, settings);
    }));
    scene.play(&SetUp::new("its group at boot, not now", &servers, &|stage| {
        stage.pool(150);
        stage.file(POOL_FILE, &group);
        stage.start(0, settings);
    }));
    scene.play(&SetUp::new("its group taken away since its start, must", &servers, &|stage| {
        stage.pool(150);
        stage.group(ORACLE);
        stage.file(POOL_FILE, &group);
        stage.start(0, "sga_target=300M\nuse_large_pages=ONLY");
        stage.group(0);
    }));
    scene.verdict();
}

/// Memory of a kind that has huge pages of another kind, or none.
#[test]
fn shared_memory_of_other_kinds() {
    if !require!(namespace::inside("moments::limits::shared_memory_of_other_kinds")) {
        return;
    }
    let scene = require!(Scene::new("other kinds"));
    let server = require!(PostgreSql::new(&scene.guard, 5432));
    let servers: [&dyn Kind; 1] = [&server];
    scene.play(&SetUp::new("System V", &servers, &|stage| {
        stage.pool(200);
        stage.file(POOL_FILE, "vm.nr_hugepages = 200\n");
        stage.start(0, "shared_buffers = 300MB\nshared_memory_type = sysv");
    }));
    scene.play(
        &SetUp::new("transparent huge pages", &servers, &|stage| {
            let switched = scene
                .guard
                .set_switch("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "always");
            switched.unwrap();
            stage.start(0, "shared_buffers = 300MB\nhuge_pages = off");
        })
        .indifferent(0),
    );
    scene.verdict();
}
