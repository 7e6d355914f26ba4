//! What becomes of servers of every kind whose owner does what hugewise says: apply, what is left
//! to a person, restarts, a boot; and then undo.

use std::process::Command;

use hugewise_testkit::require;

use super::kinds::{Jvm, Kind, MariaDb, Oracle, PostgreSql, Qemu};
use super::scene::{Scene, SetUp};
use super::stage::Stage;
use crate::real::{harness, namespace};

const POOL_FILE: &str = "/etc/sysctl.d/50-pool.conf";

fn pool_file(pages: u64) -> String {
    format!("vm.nr_hugepages = {pages}\n")
}

#[test]
fn java_and_guests() {
    if !require!(namespace::inside("moments::remedied::java_and_guests")) {
        return;
    }
    let scene = require!(Scene::new("remedied"));
    let java = require!(Jvm::new());
    let servers: [&dyn Kind; 1] = [&java];
    let parallel = "-Xms256m -Xmx256m -XX:+UseParallelGC";
    let huge = format!("{parallel} -XX:+UseLargePages");
    scene.follow(&SetUp::new("java, too small a pool", &servers, &|stage| {
        stage.pool(60);
        stage.start(0, &huge);
    }));
    scene.follow(&SetUp::new("java, a pool by hand", &servers, &|stage| {
        stage.pool(400);
        stage.start(0, &huge);
    }));
    let says = |stage: &Stage<'_>, planned: &str| {
        assert!(planned.contains("UseLargePages"), "{planned}");
        stage.change(0, &huge);
    };
    scene.follow(
        &SetUp::new("java that does not ask", &servers, &|stage| stage.start(0, parallel))
            .with(&["--instance", JVM])
            .by_hand(&says)
            .leaves("HW401 of jvm", "a Java machine has no way to insist"),
    );
    let guest = require!(Qemu::new());
    let servers: [&dyn Kind; 1] = [&guest];
    let backend = |more: &str| {
        format!(
            "-m 512M -machine q35,memory-backend=ram -object \
                 memory-backend-memfd,id=ram,size=512M{more}"
        )
    };
    let on_huge = backend(",hugetlb=on,hugetlbsize=2M");
    scene.follow(&SetUp::new("a guest on a pool by hand", &servers, &|stage| {
        stage.pool(256);
        stage.start(0, &on_huge);
    }));
    scene.follow(&SetUp::new("a guest whose pool was taken away", &servers, &|stage| {
        stage.pool(256);
        stage.file(POOL_FILE, &pool_file(256));
        stage.start(0, &on_huge);
        stage.pool(0);
    }));
    let says = |stage: &Stage<'_>, planned: &str| {
        assert!(planned.contains("memory-backend-memfd,hugetlb=on"), "{planned}");
        stage.change(0, &on_huge);
    };
    let off = backend("");
    scene.follow(
        &SetUp::new("a guest that does not ask", &servers, &|stage| stage.start(0, &off))
            .with(&["--instance", "one"])
            .by_hand(&says),
    );
    let two = |far: &str| {
        format!(
            "-m 768M -machine q35 -object \
                 memory-backend-memfd,id=near,size=256M,hugetlb=on,hugetlbsize=2M \
             -object memory-backend-memfd,id=far,size=512M{far} -numa node,memdev=near -numa \
                 node,memdev=far"
        )
    };
    let (in_part, whole) = (two(""), two(",hugetlb=on,hugetlbsize=2M"));
    let says = |stage: &Stage<'_>, planned: &str| {
        assert!(planned.contains("have it ask for huge pages for all of its memory"), "{planned}");
        stage.change(0, &whole);
    };
    scene.follow(
        &SetUp::new("a guest that asks in part", &servers, &|stage| {
            stage.pool(128);
            stage.file(POOL_FILE, &pool_file(128));
            stage.start(0, &in_part);
        })
        .by_hand(&says),
    );
    scene.verdict();
}

/// The registry of its own runtime, as hugewise calls it.
const JVM: &str = "java.rmi/sun.rmi.registry.RegistryImpl";

/// What its environment says is in no file and on no command line.
#[test]
fn java_that_is_told_by_its_environment() {
    if !require!(namespace::inside("moments::remedied::java_that_is_told_by_its_environment")) {
        return;
    }
    let scene = require!(Scene::new("environment"));
    let java = require!(Jvm::new());
    let servers: [&dyn Kind; 1] = [&java];
    for variable in ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"] {
        let huge = format!("{variable}=-Xms256m -Xmx256m -XX:+UseParallelGC -XX:+UseLargePages");
        let none = format!("{variable}=-Xms256m -Xmx256m -XX:+UseParallelGC");
        scene.play(&SetUp::new(&format!("{variable}, a pool by hand"), &servers, &|stage| {
            stage.pool(400);
            stage.start(0, &huge);
        }));
        scene.play(&SetUp::new(
            &format!("{variable}, and its pool is kept and was made too late"),
            &servers,
            &|stage| {
                stage.start(0, &huge);
                stage.pool(400);
                stage.file(POOL_FILE, &pool_file(400));
            },
        ));
        scene.play(
            &SetUp::new(&format!("{variable} without a word of pages"), &servers, &|stage| {
                stage.pool(400);
                stage.start(0, &none);
            })
            .indifferent(0),
        );
        scene.follow(&SetUp::new(&format!("{variable}, too small a pool"), &servers, &|stage| {
            stage.pool(60);
            stage.start(0, &huge);
        }));
    }
    scene.verdict();
}

#[test]
fn oracle_and_mariadb() {
    if !require!(namespace::inside("moments::remedied::oracle_and_mariadb")) {
        return;
    }
    let scene = require!(Scene::new("remedied"));
    let oracle = Oracle::new("PROD");
    let servers: [&dyn Kind; 1] = [&oracle];
    let sga = "sga_target=300M\nuse_large_pages=";
    for policy in ["TRUE", "ONLY"] {
        scene.follow(&SetUp::new(
            &format!("oracle, a pool by hand, {policy}"),
            &servers,
            &|stage| {
                stage.pool(150);
                stage.start(0, &format!("{sga}{policy}"));
            },
        ));
    }
    scene.follow(&SetUp::new("oracle, too small a pool", &servers, &|stage| {
        stage.pool(100);
        stage.start(0, &format!("{sga}TRUE"));
    }));
    let says = |stage: &Stage<'_>, planned: &str| {
        assert!(planned.contains("use_large_pages"), "{planned}");
        stage.change(0, &format!("{sga}ONLY"));
    };
    scene.follow(
        &SetUp::new("oracle that is told FALSE", &servers, &|stage| {
            stage.start(0, &format!("{sga}FALSE"))
        })
        .with(&["--instance", "PROD"])
        .by_hand(&says),
    );
    let mariadb = require!(MariaDb::new());
    let servers: [&dyn Kind; 1] = [&mariadb];
    scene.follow(&SetUp::new("mariadb, a larger buffer pool since", &servers, &|stage| {
        mariadb.arguments(&[]);
        stage.pool(400);
        stage.file(POOL_FILE, &pool_file(400));
        stage.start(0, "large-pages");
        stage.change(0, "large-pages\ninnodb_buffer_pool_size=600M");
    }));
    let says = |stage: &Stage<'_>, planned: &str| {
        assert!(
            planned.contains("its command line sets large-pages, which beats every file"),
            "{planned}"
        );
        assert!(!planned.contains("has the last word on large_pages"), "{planned}");
        mariadb.arguments(&["--large-pages"]);
        stage.change(0, "large-pages");
    };
    scene.follow(
        &SetUp::new("mariadb, off on its command line, on in its file", &servers, &|stage| {
            mariadb.arguments(&["--skip-large-pages"]);
            stage.start(0, "large-pages\nport=33061");
        })
        .with(&["--instance", "33061"])
        .by_hand(&says)
        .leaves("HW401 of mariadb", "MariaDB has no way to insist"),
    );
    scene.verdict();
}

/// `ALTER SYSTEM` does nothing where the command line says otherwise.
#[test]
fn postgresql_whose_command_line_says_off() {
    if !require!(namespace::inside("moments::remedied::postgresql_whose_command_line_says_off")) {
        return;
    }
    let scene = require!(Scene::new("remedied"));
    let server = require!(PostgreSql::new(&scene.guard, 5432));
    let servers: [&dyn Kind; 1] = [&server];
    let may = "shared_buffers = 300MB";
    for off in [["-c", "huge_pages=off"].as_slice(), &["--huge-pages=off"], &["-chuge_pages=off"]] {
        let says = |_: &Stage<'_>, planned: &str| {
            assert!(planned.contains("command line"), "{planned}");
            assert!(!planned.contains("ALTER SYSTEM SET huge_pages"), "{planned}");
            server.arguments(&["-c", "huge_pages=on"]);
        };
        scene.follow(
            &SetUp::new(&format!("off by {}", off.join(" ")), &servers, &|stage| {
                server.arguments(off);
                stage.start(0, may);
            })
            .with(&["--instance", "5432"])
            .by_hand(&says),
        );
    }
    scene.verdict();
}

/// What is given back is given back at each boot too, and nothing is found of it afterwards.
#[test]
fn pages_that_are_given_back() {
    if !require!(namespace::inside("moments::remedied::pages_that_are_given_back")) {
        return;
    }
    let scene = require!(Scene::new("given back"));
    let server = require!(PostgreSql::new(&scene.guard, 5432));
    let may = "shared_buffers = 300MB";
    let pages = server.pages(may);
    let servers: [&dyn Kind; 1] = [&server];
    let set_up = |name: &str, files: &dyn Fn(&Stage<'_>)| {
        scene.follow(
            &SetUp::new(name, &servers, &|stage| {
                stage.pool(pages + 200);
                files(stage);
                stage.start(0, may);
            })
            .with(&["--shrink"]),
        );
    };
    set_up("of a pool by hand", &|_| {});
    set_up("of a pool of a file", &|stage| stage.file(POOL_FILE, &pool_file(pages + 200)));
    set_up("of a pool of two files", &|stage| {
        stage.file(POOL_FILE, &pool_file(pages + 100));
        stage.file("/etc/sysctl.d/60-pool.conf", &pool_file(pages + 200));
    });
    let tmpfiles = |pages: u64| {
        format!("w /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages - - - - {pages}\n")
    };
    set_up("of a pool of tmpfiles.d", &|stage| {
        stage.file("/etc/tmpfiles.d/pool.conf", &tmpfiles(pages + 200))
    });
    scene.verdict();
}

/// A guest in files of a hugetlbfs has its pages for as long as that is mounted.
#[test]
fn a_mount_that_the_boot_would_not_make_again() {
    if !require!(namespace::inside("moments::remedied::a_mount_that_the_boot_would_not_make_again"))
    {
        return;
    }
    let scene = require!(Scene::new("mount"));
    let guest = require!(Qemu::new());
    let servers: [&dyn Kind; 1] = [&guest];
    let mount = guest.folder.path().join("huge");
    let typed = |_: &Stage<'_>, planned: &str| {
        let line = planned.lines().find(|line| line.contains(">> /etc/fstab"));
        let line = line.unwrap_or_else(|| panic!("no line for /etc/fstab: {planned}"));
        harness::must(Command::new("sh").args(["-c", line.trim()]));
    };
    let folder = mount.display();
    scene.follow(
        &SetUp::new("by hand", &servers, &|stage| {
            stage.mount(&mount, false);
            stage.pool(256);
            stage.file(POOL_FILE, &pool_file(256));
            stage.start(
                0,
                &format!(
                    "-m 512M -machine q35,memory-backend=ram \
                     -object memory-backend-file,id=ram,size=512M,mem-path={folder},share=on"
                ),
            );
        })
        .by_hand(&typed),
    );
    scene.verdict();
}
