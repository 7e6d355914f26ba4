//! Several servers and one pool.

use hugewise_testkit::require;

use super::kinds::{Kind, MariaDb, Oracle, PostgreSql};
use super::scene::{Scene, SetUp};
use crate::real::namespace;

const POOL_FILE: &str = "/etc/sysctl.d/50-pool.conf";

const MAY: &str = "shared_buffers = 300MB";
const OFF: &str = "shared_buffers = 300MB\nhuge_pages = off";
const MUST: &str = "shared_buffers = 300MB\nhuge_pages = on";

/// Each alone gets its pages; after a boot the first to start has them.
#[test]
fn two_servers_and_a_pool_for_one() {
    if !require!(namespace::inside("moments::several::two_servers_and_a_pool_for_one")) {
        return;
    }
    let scene = require!(Scene::new("two servers"));
    let first = require!(PostgreSql::new(&scene.guard, 5432));
    let second = require!(PostgreSql::new(&scene.guard, 5433));
    let pages = first.pages(MAY);
    let servers: [&dyn Kind; 2] = [&first, &second];
    let file = format!("vm.nr_hugepages = {pages}\n");
    scene.play(&SetUp::new("both started before there was a pool", &servers, &|stage| {
        stage.start(0, MAY);
        stage.start(1, MAY);
        stage.pool(pages);
        stage.file(POOL_FILE, &file);
    }));
    scene.play(&SetUp::new("one has it, the other may", &servers, &|stage| {
        stage.pool(pages);
        stage.file(POOL_FILE, &file);
        stage.start(0, MUST);
        stage.start(1, MAY);
    }));
    scene.play(
        &SetUp::new("one has it, the other is off", &servers, &|stage| {
            stage.pool(pages);
            stage.file(POOL_FILE, &file);
            stage.start(0, MUST);
            stage.start(1, OFF);
        })
        .indifferent(1),
    );
    scene.play(&SetUp::new("for both now, for one at boot", &servers, &|stage| {
        stage.pool(2 * pages);
        stage.file(POOL_FILE, &file);
        stage.start(0, MUST);
        stage.start(1, MAY);
    }));
    scene.play(&SetUp::new("for both, half of it taken away since", &servers, &|stage| {
        stage.pool(2 * pages);
        stage.file(POOL_FILE, &format!("vm.nr_hugepages = {}\n", 2 * pages));
        stage.start(0, MUST);
        stage.start(1, MAY);
        stage.pool(pages);
    }));
    scene.play(&SetUp::new(
        "a small one, and a large one that must since, and a pool for the large one",
        &servers,
        &|stage| {
            stage.start(0, "shared_buffers = 280MB");
            stage.start(1, MAY);
            stage.change(1, MUST);
            stage.pool(pages);
            stage.file(POOL_FILE, &file);
        },
    ));
    scene.verdict();
}

/// Each looks well set when it is looked at alone.
#[test]
fn two_servers_switched_on_since_they_started() {
    if !require!(namespace::inside("moments::several::two_servers_switched_on_since_they_started"))
    {
        return;
    }
    let scene = require!(Scene::new("switched on since"));
    let first = require!(PostgreSql::new(&scene.guard, 5432));
    let second = require!(PostgreSql::new(&scene.guard, 5433));
    let pages = first.pages(MAY);
    let servers: [&dyn Kind; 2] = [&first, &second];
    let file = format!("vm.nr_hugepages = {pages}\n");
    for (name, after) in [("both off, both must", MUST), ("both off, both may", MAY)] {
        scene.play(&SetUp::new(name, &servers, &|stage| {
            stage.pool(pages);
            stage.file(POOL_FILE, &file);
            stage.start(0, OFF);
            stage.start(1, OFF);
            stage.change(0, after);
            stage.change(1, after);
        }));
    }
    scene.play(&SetUp::new("one has it, the other was off and must", &servers, &|stage| {
        stage.pool(pages);
        stage.file(POOL_FILE, &file);
        stage.start(0, MAY);
        stage.start(1, OFF);
        stage.change(1, MUST);
    }));
    scene.verdict();
}

/// Kinds that share a pool fall back in different ways.
#[test]
fn servers_of_different_kinds_and_a_pool_for_one() {
    if !require!(namespace::inside(
        "moments::several::servers_of_different_kinds_and_a_pool_for_one"
    )) {
        return;
    }
    let scene = require!(Scene::new("different kinds"));
    let postgresql = require!(PostgreSql::new(&scene.guard, 5432));
    let mariadb = require!(MariaDb::new());
    let oracle = Oracle::new("PROD");
    let must = "shared_buffers = 300MB\nhuge_pages = on";
    let pages = postgresql.pages(must);
    let file = format!("vm.nr_hugepages = {}\n", pages + 50);
    let servers: [&dyn Kind; 2] = [&postgresql, &oracle];
    scene.play(&SetUp::new("PostgreSQL must, Oracle takes what is there", &servers, &|stage| {
        stage.pool(pages + 50);
        stage.file(POOL_FILE, &file);
        stage.start(0, must);
        stage.start(1, "sga_target=300M\nuse_large_pages=TRUE");
    }));
    let servers: [&dyn Kind; 2] = [&postgresql, &mariadb];
    scene.play(&SetUp::new("PostgreSQL must, MariaDB takes what is there", &servers, &|stage| {
        stage.pool(pages);
        stage.file(POOL_FILE, &format!("vm.nr_hugepages = {pages}\n"));
        stage.start(0, must);
        stage.start(1, "large-pages");
    }));
    scene.verdict();
}

/// What nothing vouches for has pages all the same.
#[test]
fn a_stranger_beside_a_server() {
    if !require!(namespace::inside("moments::several::a_stranger_beside_a_server")) {
        return;
    }
    let scene = require!(Scene::new("stranger"));
    let own = require!(PostgreSql::new(&scene.guard, 5432));
    let strange = require!(PostgreSql::of("nobody", &scene.guard, 5433));
    let may = "shared_buffers = 300MB";
    let pages = own.pages(may);
    let servers: [&dyn Kind; 2] = [&own, &strange];
    scene.play(&SetUp::new("room for both", &servers, &|stage| {
        stage.pool(2 * pages);
        stage.file(POOL_FILE, &format!("vm.nr_hugepages = {}\n", 2 * pages));
        stage.start(0, may);
        stage.start(1, may);
    }));
    scene.verdict();
}
