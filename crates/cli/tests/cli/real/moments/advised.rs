//! What becomes of servers whose owner does what hugewise says: apply, then restarts, then a boot.

use hugewise_testkit::require;

use super::kinds::{Jvm, Kind, MariaDb, PostgreSql};
use super::scene::{Scene, SetUp};
use crate::real::namespace;

const POOL_FILE: &str = "/etc/sysctl.d/50-pool.conf";

#[test]
fn postgresql_is_well_at_every_moment_after_apply() {
    if !require!(namespace::inside(
        "moments::advised::postgresql_is_well_at_every_moment_after_apply"
    )) {
        return;
    }
    let scene = require!(Scene::new("applied"));
    let first = require!(PostgreSql::new(&scene.guard, 5432));
    let second = require!(PostgreSql::new(&scene.guard, 5433));
    let may = "shared_buffers = 300MB";
    let pages = first.pages(may);
    let one: [&dyn Kind; 1] = [&first];
    let both: [&dyn Kind; 2] = [&first, &second];
    scene.follow(&SetUp::new("a pool by hand that is too small", &one, &|stage| {
        stage.pool(50);
        stage.start(0, may);
    }));
    scene.follow(&SetUp::new("a pool by hand", &one, &|stage| {
        stage.pool(pages);
        stage.start(0, may);
    }));
    scene.follow(&SetUp::new("a pool taken away", &one, &|stage| {
        stage.pool(pages);
        stage.start(0, may);
        stage.pool(0);
    }));
    scene.follow(&SetUp::new("a pool beyond the pool", &one, &|stage| {
        stage.overcommit(pages);
        stage.start(0, may);
    }));
    scene.follow(&SetUp::new("more buffers since", &one, &|stage| {
        stage.pool(pages);
        stage.file(POOL_FILE, &format!("vm.nr_hugepages = {pages}\n"));
        stage.start(0, may);
        stage.change(0, "shared_buffers = 400MB");
    }));
    scene.follow(&SetUp::new("two, and a pool for one", &both, &|stage| {
        stage.pool(pages);
        stage.file(POOL_FILE, &format!("vm.nr_hugepages = {pages}\n"));
        stage.start(0, may);
        stage.start(1, may);
    }));
    scene.follow(&SetUp::new("two that are off, on since, and a pool for one", &both, &|stage| {
        stage.pool(pages);
        stage.file(POOL_FILE, &format!("vm.nr_hugepages = {pages}\n"));
        stage.start(0, "shared_buffers = 300MB\nhuge_pages = off");
        stage.start(1, "shared_buffers = 300MB\nhuge_pages = off");
        stage.change(0, "shared_buffers = 300MB\nhuge_pages = on");
        stage.change(1, "shared_buffers = 300MB\nhuge_pages = on");
    }));
    scene.verdict();
}

#[test]
fn mariadb_is_well_at_every_moment_after_apply() {
    if !require!(namespace::inside("moments::advised::mariadb_is_well_at_every_moment_after_apply"))
    {
        return;
    }
    let scene = require!(Scene::new("applied"));
    let server = require!(MariaDb::new());
    let servers: [&dyn Kind; 1] = [&server];
    scene.follow(&SetUp::new("mariadb with too small a pool", &servers, &|stage| {
        stage.pool(100);
        stage.start(0, "large-pages");
    }));
    scene.verdict();
}

/// Pages that nobody has taken yet are not idle: this heap takes them as it grows, and its machine
/// dies without.
#[test]
fn a_heap_that_grows_later_finds_its_pages() {
    if !require!(namespace::inside("moments::advised::a_heap_that_grows_later_finds_its_pages")) {
        return;
    }
    let scene = require!(Scene::new("applied"));
    let server = require!(Jvm::that_grows());
    let servers: [&dyn Kind; 1] = [&server];
    for pages in [260, 700] {
        scene.follow_and(
            &SetUp::new(&format!("a heap that grows, {pages} pages"), &servers, &|stage| {
                stage.pool(pages);
                stage.start(0, "-XX:+UseZGC -XX:+UseLargePages -Xms200m -Xmx1g");
            }),
            &|| {
                let end = server.grow();
                end.starts_with("died").then_some(end)
            },
        );
    }
    scene.verdict();
}
