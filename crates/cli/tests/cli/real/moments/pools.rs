//! One PostgreSQL, and pools that are set, taken away or lent.

use hugewise_testkit::require;

use super::kinds::{Kind, PostgreSql};
use super::scene::{Scene, SetUp};
use crate::real::namespace;

const POOL_FILE: &str = "/etc/sysctl.d/50-pool.conf";

fn pool_file(pages: u64) -> String {
    format!("vm.nr_hugepages = {pages}\n")
}

/// Advice that wrote the boot file once with what the server needs and once with what somebody had
/// set by hand.
#[test]
fn a_pool_set_by_hand() {
    if !require!(namespace::inside("moments::pools::a_pool_set_by_hand")) {
        return;
    }
    let scene = require!(Scene::new("pool by hand"));
    let server = require!(PostgreSql::new(&scene.guard, 5432));
    let large = "shared_buffers = 1200MB";
    let small = "shared_buffers = 300MB";
    let must = "shared_buffers = 300MB\nhuge_pages = on";
    let pages = server.pages(small);
    let servers: [&dyn Kind; 1] = [&server];

    scene.play(&SetUp::new("too small, nothing at boot", &servers, &|stage| {
        stage.pool(300);
        stage.start(0, large);
    }));
    scene.play(&SetUp::new("as it needs, nothing at boot", &servers, &|stage| {
        stage.pool(pages);
        stage.start(0, small);
    }));
    scene.play(&SetUp::new("as it must have, one page less at boot", &servers, &|stage| {
        stage.pool(pages);
        stage.file(POOL_FILE, &pool_file(pages - 1));
        stage.start(0, must);
    }));
    scene.play(&SetUp::new("made after its start, and at boot", &servers, &|stage| {
        stage.start(0, small);
        stage.pool(pages);
        stage.file(POOL_FILE, &pool_file(pages));
    }));
    scene.play(&SetUp::new("one page less now, enough at boot", &servers, &|stage| {
        stage.pool(pages - 1);
        stage.file(POOL_FILE, &pool_file(pages));
        stage.start(0, small);
    }));
    scene.play(
        &SetUp::new("none, and it asks for none", &servers, &|stage| {
            stage.start(0, "shared_buffers = 300MB\nhuge_pages = off");
        })
        .indifferent(0),
    );
    // Whoever has so little is told what it is, and no more.
    scene.play(
        &SetUp::new("none, for a small server", &servers, &|stage| {
            stage.start(0, "shared_buffers = 64MB");
            stage.file(POOL_FILE, &pool_file(60));
        })
        .indifferent(0),
    );
    scene.verdict();
}

/// All looked well while the pages that the server stood on were surplus, and gone with its end.
#[test]
fn a_pool_taken_away_under_a_server() {
    if !require!(namespace::inside("moments::pools::a_pool_taken_away_under_a_server")) {
        return;
    }
    let scene = require!(Scene::new("pool taken away"));
    let server = require!(PostgreSql::new(&scene.guard, 5432));
    let may = "shared_buffers = 300MB";
    let must = "shared_buffers = 300MB\nhuge_pages = on";
    let pages = server.pages(may);
    let servers: [&dyn Kind; 1] = [&server];
    for (name, settings, left) in [
        ("all of it, try", may, 0),
        ("all of it, on", must, 0),
        ("one page of it, on", must, pages - 1),
    ] {
        scene.play(&SetUp::new(name, &servers, &|stage| {
            stage.pool(pages);
            stage.file(POOL_FILE, &pool_file(pages));
            stage.start(0, settings);
            stage.pool(left);
        }));
    }
    scene.play(&SetUp::new("all of it, on, and as many may be made", &servers, &|stage| {
        stage.pool(pages);
        stage.start(0, must);
        stage.overcommit(pages);
        stage.pool(0);
    }));
    scene.play(&SetUp::new("what it did not use", &servers, &|stage| {
        stage.pool(pages + 100);
        stage.file(POOL_FILE, &pool_file(pages));
        stage.start(0, must);
        stage.pool(pages);
    }));
    scene.verdict();
}

/// Pages beyond the pool serve as well as others, for as long as they are allowed.
#[test]
fn pages_beyond_the_pool() {
    if !require!(namespace::inside("moments::pools::pages_beyond_the_pool")) {
        return;
    }
    let scene = require!(Scene::new("beyond the pool"));
    let server = require!(PostgreSql::new(&scene.guard, 5432));
    let may = "shared_buffers = 300MB";
    let must = "shared_buffers = 300MB\nhuge_pages = on";
    let pages = server.pages(may);
    let servers: [&dyn Kind; 1] = [&server];
    scene.play(&SetUp::new("now, not at boot", &servers, &|stage| {
        stage.overcommit(pages);
        stage.start(0, may);
    }));
    scene.play(&SetUp::new("half in the pool, half beyond, must", &servers, &|stage| {
        stage.pool(pages / 2);
        stage.overcommit(pages - pages / 2);
        stage.start(0, must);
    }));
    scene.play(&SetUp::new("allowed after its start", &servers, &|stage| {
        stage.start(0, may);
        stage.overcommit(pages);
    }));
    scene.play(&SetUp::new("forbidden after its start", &servers, &|stage| {
        stage.overcommit(pages);
        stage.start(0, must);
        stage.overcommit(0);
    }));
    scene.play(&SetUp::new("at boot alone", &servers, &|stage| {
        stage.start(0, may);
        stage.file(POOL_FILE, &format!("vm.nr_overcommit_hugepages = {pages}\n"));
    }));
    scene.play(&SetUp::new("one page less of both at boot", &servers, &|stage| {
        stage.pool(pages);
        stage.start(0, must);
        let (half, rest) = (pages / 2, pages - pages / 2 - 1);
        stage.file(
            POOL_FILE,
            &format!("vm.nr_overcommit_hugepages = {half}\nvm.nr_hugepages = {rest}\n"),
        );
    }));
    scene.verdict();
}
