//! The programs that read the files of a plan read them as they are meant. Skipped, with a word,
//! where one is not installed.

use std::path::Path;
use std::process::Command;

use hugewise_diagnose::sizing::Request;
use hugewise_model::PageSize;
use hugewise_testkit::Skip;

use super::made_hosts::{as_debian_has_it, source};
use super::world::{World, holds};
use crate::plan::{Change, Plan};
use crate::planner::PlanOptions;

/// The plan's files below a root of their own.
fn write(plan: &Plan, root: &Path) {
    for (_, change) in plan.changes() {
        if let Change::File(file) = change {
            put(root, &file.path, file.after.as_ref().unwrap().content.bytes());
        }
    }
}

fn put(root: &Path, path: &str, bytes: &[u8]) {
    let path = root.join(path.trim_start_matches('/'));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

/// What a program prints; nothing where it is not there.
fn printed(program: &str, arguments: &[&str]) -> Option<String> {
    match Command::new(program).args(arguments).output() {
        Ok(output) => {
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{program} {arguments:?}: {errors}");
            Some(String::from_utf8(output.stdout).unwrap())
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Skip(format!("{program} is not installed")).report();
            None
        }
        Err(error) => panic!("{program}: {error}"),
    }
}

#[test]
fn systemd_gives_our_settings_the_last_word() {
    let base = source("no-pool-postgresql");
    let mut world = World::new(&*base);
    world.put("/etc/sysctl.d/99-theirs.conf", "vm.nr_hugepages = 3\n");
    let (plan, _) = holds("sysctl", &world, &PlanOptions::default(), &Request::default());
    let root = tempfile::tempdir().unwrap();
    write(&plan, root.path());
    put(root.path(), "/etc/sysctl.d/99-theirs.conf", b"vm.nr_hugepages = 3\n");
    let option = format!("--root={}", root.path().display());
    let Some(text) = printed("systemd-analyze", &[&option, "cat-config", "sysctl.d"]) else {
        return;
    };
    assert_eq!(
        text.lines().rfind(|line| line.starts_with("vm.nr_hugepages")),
        Some("vm.nr_hugepages = 537")
    );
}

#[test]
fn systemd_tmpfiles_writes_our_values_and_not_theirs() {
    let base = source("arm64-64k-pages");
    let mut world = World::new(&*base);
    let switch = "/sys/kernel/mm/transparent_hugepage/enabled";
    let pool = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";
    let theirs = format!("w {switch} - - - - always\nw {pool} - - - - 1\n");
    world.put("/usr/lib/tmpfiles.d/10-theirs.conf", &theirs);
    let page_size = Some(PageSize::MIB_2);
    let options = PlanOptions { page_size, ..PlanOptions::default() };
    let (plan, _) = holds("tmpfiles", &world, &options, &Request::default());
    let root = tempfile::tempdir().unwrap();
    write(&plan, root.path());
    put(root.path(), "/usr/lib/tmpfiles.d/10-theirs.conf", theirs.as_bytes());
    put(root.path(), switch, b"");
    put(root.path(), pool, b"");
    let option = format!("--root={}", root.path().display());
    let Some(_) = printed("systemd-tmpfiles", &["--create", "--boot", &option]) else { return };
    let read = |path: &str| {
        std::fs::read_to_string(root.path().join(path.trim_start_matches('/'))).unwrap()
    };
    assert_eq!(read(switch), "madvise");
    assert_eq!(read(pool), "8390");
}

#[test]
fn a_shell_adds_our_words_to_grubs() {
    let base = source("no-pool-postgresql");
    let mut world = World::new(&*base);
    world.put_grub("quiet");
    let options = PlanOptions { early: true, ..PlanOptions::default() };
    let (plan, _) = holds("grub", &world, &options, &Request::default());
    let root = tempfile::tempdir().unwrap();
    write(&plan, root.path());
    let file = root.path().join("etc/default/grub.d/zz-hugewise.cfg");
    let script = format!(
        "GRUB_CMDLINE_LINUX=\"console=tty0\"; . {}; echo \"$GRUB_CMDLINE_LINUX\"",
        file.display()
    );
    assert_eq!(
        printed("sh", &["-euc", &script]).unwrap(),
        "console=tty0 hugepagesz=2M hugepages=537\n"
    );
}

#[test]
fn mariadbs_own_reader_finds_our_option_last() {
    let base = source("idle-pool-mariadb");
    let mut world = World::new(&*base);
    let config = "/srv/databases/my/my.cnf";
    world.put(config, format!("{}\n!includedir /etc/mysql/mariadb.conf.d/\n", world.text(config)));
    world.put("/etc/mysql/mariadb.conf.d/50-server.cnf", "[mariadbd]\nlarge_pages = OFF\n");
    let (plan, _) = holds("mariadb", &world, &PlanOptions::default(), &Request::default());
    let root = tempfile::tempdir().unwrap();
    write(&plan, root.path());
    let folder = root.path().join("etc/mysql/mariadb.conf.d");
    put(root.path(), "/etc/mysql/mariadb.conf.d/50-server.cnf", b"[mariadbd]\nlarge_pages = OFF\n");
    put(root.path(), config, format!("[mariadbd]\n!includedir {}/\n", folder.display()).as_bytes());
    let option = format!("--defaults-file={}", root.path().join(&config[1..]).display());
    let Some(text) = printed("my_print_defaults", &[&option, "mysqld", "mariadbd"]) else { return };
    assert_eq!(text.lines().last(), Some("--large_pages=ON"), "{text}");
}

#[test]
fn postgresqls_own_reader_finds_our_setting_last() {
    let base = source("no-pool-postgresql");
    let mut world = World::new(&*base);
    as_debian_has_it(&mut world, "huge_pages = off\n");
    let (plan, _) = holds(
        "postgresql",
        &world,
        &PlanOptions { instances: vec!["5433".into()], ..PlanOptions::default() },
        &Request::default(),
    );
    let root = tempfile::tempdir().unwrap();
    write(&plan, root.path());
    put(root.path(), "/etc/postgresql/15/main/conf.d/10.conf", b"huge_pages = off\n");
    let config = "/etc/postgresql/15/main/postgresql.conf";
    put(root.path(), config, b"huge_pages = try\ninclude_dir = 'conf.d'\n");
    let data = root.path().join("etc/postgresql/15/main");
    let postgres = "/usr/lib/postgresql/15/bin/postgres";
    let Some(text) = printed(postgres, &["-C", "huge_pages", "-D", &data.display().to_string()])
    else {
        return;
    };
    assert_eq!(text, "on\n");
}
