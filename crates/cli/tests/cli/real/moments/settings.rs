//! Servers whose settings were changed since they started, and those that say nothing where they
//! fall back.

use hugewise_testkit::require;

use super::kinds::{Kind, MariaDb, Oracle, PostgreSql};
use super::scene::{Scene, SetUp};
use crate::real::namespace;

const POOL_FILE: &str = "/etc/sysctl.d/50-pool.conf";

/// What a server runs with is not what it starts with next.
#[test]
fn postgresql_changed_since_its_start() {
    if !require!(namespace::inside("moments::settings::postgresql_changed_since_its_start")) {
        return;
    }
    let scene = require!(Scene::new("changed since"));
    let server = require!(PostgreSql::new(&scene.guard, 5432));
    let small = "shared_buffers = 300MB";
    let pages = server.pages(small);
    let servers: [&dyn Kind; 1] = [&server];
    let file = format!("vm.nr_hugepages = {pages}\n");
    let changes = [
        ("more buffers", small, "shared_buffers = 400MB"),
        ("more buffers, and must", small, "shared_buffers = 400MB\nhuge_pages = on"),
        ("fewer buffers", small, "shared_buffers = 280MB"),
        (
            "more connections",
            "shared_buffers = 300MB\nhuge_pages = on",
            "shared_buffers = 300MB\nhuge_pages = on\nmax_connections = 900",
        ),
        (
            "pages of 1 GiB, of which there are none",
            small,
            "shared_buffers = 300MB\nhuge_page_size = 1GB",
        ),
        (
            "pages of 1 GiB, and must",
            small,
            "shared_buffers = 300MB\nhuge_page_size = 1GB\nhuge_pages = on",
        ),
        (
            "pages of a size that is none",
            small,
            "shared_buffers = 300MB\nhuge_page_size = 4MB\nhuge_pages = on",
        ),
        ("System V shared memory", small, "shared_buffers = 300MB\nshared_memory_type = sysv"),
        (
            "System V shared memory, and must",
            small,
            "shared_buffers = 300MB\nshared_memory_type = sysv\nhuge_pages = on",
        ),
        ("from off to try", "shared_buffers = 300MB\nhuge_pages = off", small),
        (
            "from off to must",
            "shared_buffers = 300MB\nhuge_pages = off",
            "shared_buffers = 300MB\nhuge_pages = on",
        ),
    ];
    for (name, before, after) in changes {
        scene.play(&SetUp::new(name, &servers, &|stage| {
            stage.pool(pages);
            stage.file(POOL_FILE, &file);
            stage.start(0, before);
            stage.change(0, after);
        }));
    }
    scene.play(&SetUp::new("must, with too small a pool", &servers, &|stage| {
        stage.pool(pages - 1);
        stage.file(POOL_FILE, &file);
        stage.start(0, small);
        stage.change(0, "shared_buffers = 300MB\nhuge_pages = on");
    }));
    scene.play(&SetUp::new("by itself, more buffers", &servers, &|stage| {
        stage.pool(pages);
        stage.file(POOL_FILE, &file);
        stage.start(0, "shared_buffers = 300MB\nhuge_pages = on");
        server.alter("shared_buffers = '400MB'");
    }));
    scene.play(&SetUp::new(
        "by its file, where its command line says otherwise",
        &servers,
        &|stage| {
            server.arguments(&["-c", "huge_pages=on"]);
            stage.pool(pages);
            stage.file(POOL_FILE, &format!("vm.nr_hugepages = {}\n", pages - 1));
            stage.start(0, small);
            stage.change(0, "shared_buffers = 300MB\nhuge_pages = off");
        },
    ));
    server.arguments(&[]);
    scene.play(&SetUp::new("switched off", &servers, &|stage| {
        stage.pool(pages);
        stage.file(POOL_FILE, &file);
        stage.start(0, small);
        stage.change(0, "shared_buffers = 300MB\nhuge_pages = off");
    }));
    scene.verdict();
}

/// It says nothing where it falls back, and its option file is not all that it is told.
#[test]
fn mariadb_with_too_small_a_pool() {
    if !require!(namespace::inside("moments::settings::mariadb_with_too_small_a_pool")) {
        return;
    }
    let scene = require!(Scene::new("mariadb"));
    let server = require!(MariaDb::new());
    let servers: [&dyn Kind; 1] = [&server];
    let file = |pages: u64| format!("vm.nr_hugepages = {pages}\n");
    scene.play(&SetUp::new("large-pages in its file, enough pages", &servers, &|stage| {
        server.arguments(&[]);
        stage.pool(400);
        stage.file(POOL_FILE, &file(400));
        stage.start(0, "large-pages");
    }));
    scene.play(&SetUp::new("large-pages in its file, 100 pages", &servers, &|stage| {
        server.arguments(&[]);
        stage.pool(100);
        stage.file(POOL_FILE, &file(400));
        stage.start(0, "large-pages");
    }));
    scene.play(&SetUp::new("on its command line, enough now, few at boot", &servers, &|stage| {
        server.arguments(&["--large-pages"]);
        stage.pool(400);
        stage.file(POOL_FILE, &file(40));
        stage.start(0, "");
    }));
    scene.play(
        &SetUp::new("off on its command line, on in its file", &servers, &|stage| {
            server.arguments(&["--skip-large-pages"]);
            stage.pool(400);
            stage.file(POOL_FILE, &file(400));
            stage.start(0, "large-pages");
        })
        .indifferent(0),
    );
    scene.play(&SetUp::new("switched on since", &servers, &|stage| {
        server.arguments(&[]);
        stage.pool(400);
        stage.file(POOL_FILE, &file(400));
        stage.start(0, "");
        stage.change(0, "large-pages");
    }));
    scene.play(&SetUp::new("a larger buffer pool since", &servers, &|stage| {
        server.arguments(&[]);
        stage.pool(400);
        stage.file(POOL_FILE, &file(400));
        stage.start(0, "large-pages");
        stage.change(0, "large-pages\ninnodb_buffer_pool_size=800M");
    }));
    scene.verdict();
}

/// Each value of `use_large_pages` where the pool is short, and what another value would do at the
/// next start.
#[test]
fn oracle_by_its_parameter() {
    if !require!(namespace::inside("moments::settings::oracle_by_its_parameter")) {
        return;
    }
    let scene = require!(Scene::new("oracle"));
    let server = Oracle::new("PROD");
    let servers: [&dyn Kind; 1] = [&server];
    let file = |pages: u64| format!("vm.nr_hugepages = {pages}\n");
    scene.play(&SetUp::new("TRUE, 100 of 150 pages, and enough at boot", &servers, &|stage| {
        stage.pool(100);
        stage.file(POOL_FILE, &file(150));
        stage.start(0, "sga_target=300M\nuse_large_pages=TRUE");
    }));
    scene.play(&SetUp::new("TRUE, grown since its start, nothing at boot", &servers, &|stage| {
        stage.pool(100);
        stage.start(0, "sga_target=300M\nuse_large_pages=TRUE");
        stage.pool(150);
    }));
    scene.play(&SetUp::new("ONLY, taken away since", &servers, &|stage| {
        stage.pool(150);
        stage.file(POOL_FILE, &file(149));
        stage.start(0, "sga_target=300M\nuse_large_pages=ONLY");
        stage.pool(0);
    }));
    scene.play(&SetUp::new("TRUE, ONLY since, with too small a pool", &servers, &|stage| {
        stage.pool(149);
        stage.start(0, "sga_target=300M\nuse_large_pages=TRUE");
        stage.change(0, "sga_target=300M\nuse_large_pages=ONLY");
    }));
    scene.play(
        &SetUp::new("FALSE", &servers, &|stage| {
            stage.pool(150);
            stage.file(POOL_FILE, &file(150));
            stage.start(0, "sga_target=300M\nuse_large_pages=FALSE");
        })
        .indifferent(0),
    );
    scene.play(&SetUp::new("FALSE, TRUE since", &servers, &|stage| {
        stage.pool(150);
        stage.file(POOL_FILE, &file(150));
        stage.start(0, "sga_target=300M\nuse_large_pages=FALSE");
        stage.change(0, "sga_target=300M\nuse_large_pages=TRUE");
    }));
    scene.play(&SetUp::new("a larger SGA since", &servers, &|stage| {
        stage.pool(150);
        stage.file(POOL_FILE, &file(150));
        stage.start(0, "sga_target=300M\nuse_large_pages=ONLY");
        stage.change(0, "sga_target=600M\nuse_large_pages=ONLY");
    }));
    scene.play(&SetUp::new("AUTO, which raises the pool itself", &servers, &|stage| {
        stage.start(0, "sga_target=300M\nuse_large_pages=AUTO");
    }));
    scene.verdict();
}
