//! Servers that belong to this host and do not run: their pages are kept for them, and the boot is
//! foretold with them.
//!
//! The truth is the start that follows: a server that insists on huge pages comes up on what was
//! kept, or does not.

use std::fs;
use std::process::Command;

use hugewise_lab::guard::PoolGuard;
use hugewise_model::{PageCount, PageSize};
use hugewise_testkit::require;
use serde_json::Value;

use crate::real::change::{DebianCluster, run};
use crate::real::harness::{self, kernel, text};
use crate::real::mariadb::Installed;
use crate::real::namespace;

const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";

fn pool() -> u64 {
    fs::read_to_string(POOL).unwrap().trim().parse().unwrap()
}

/// The servers of this host that do not run, by title.
fn asleep() -> Vec<(String, Value)> {
    let all = harness::check().json["instances"].as_array().expect("instances").clone();
    let down = all.into_iter().filter(|instance| instance["running"] == false);
    down.map(|instance| {
        (format!("{} {}", text(&instance["engine"]), text(&instance["name"])), instance)
    })
    .collect()
}

/// How it stands now, after a start by hand, and after a boot.
fn moments(instance: &Value) -> [String; 3] {
    ["now", "restart", "reboot"].map(|moment| text(&instance["moments"][moment]["state"]))
}

/// Pages that the server itself says it needs.
fn truth(cluster: &DebianCluster) -> u64 {
    let name = cluster.title().rsplit('/').next().unwrap().to_owned();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--init-groups", "--"]);
    command.args(["/usr/lib/postgresql/15/bin/postgres", "-D"]).arg(cluster.data()).arg("-c");
    command.arg(format!("config_file=/etc/postgresql/15/{name}/postgresql.conf"));
    let said = harness::must(command.args(["-C", "shared_memory_size_in_huge_pages"]));
    said.trim().parse().unwrap()
}

#[test]
fn a_stopped_cluster_keeps_its_pages_and_starts_on_them() {
    if !require!(namespace::inside("asleep::a_stopped_cluster_keeps_its_pages_and_starts_on_them"))
    {
        return;
    }
    let cluster = require!(DebianCluster::new("asleep", "huge_pages = on"));
    let start_conf = "/etc/postgresql/15/asleep/start.conf";
    fs::write(start_conf, "auto\n").unwrap();
    let guard = require!(PoolGuard::take_for_test());
    let needed = truth(&cluster);
    let boot = |pages: u64| {
        fs::write("/etc/sysctl.d/60-pool.conf", format!("vm.nr_hugepages = {pages}\n")).unwrap()
    };

    // A boot that brings too few is told of, and what a plan makes of it is enough.
    require!(guard.set_pool(PageSize::MIB_2, PageCount(needed - 1)));
    boot(needed - 1);
    let all = asleep();
    let [(title, instance)] = all.as_slice() else { panic!("{all:?}") };
    assert_eq!(*title, cluster.title());
    assert_eq!(moments(instance)[0], "not_running");
    assert_ne!(moments(instance)[2], "all", "{instance:#}");
    assert_eq!(instance["asleep"]["at_boot"], "yes");
    require!(guard.set_pool(PageSize::MIB_2, PageCount(needed / 2)));
    boot(needed / 2);
    let checked = harness::check();
    let all = asleep();
    assert_eq!(moments(&all[0].1), ["not_running", "does_not_start", "does_not_start"]);
    assert!(
        checked.findings_of(&all[0].1).contains(&("HW603".into(), "boot-loses-pages".into())),
        "{:#}",
        checked.json
    );
    run(&["apply", "--yes"], 0);
    assert!(pool() >= needed, "{} for {needed}", pool());
    assert_eq!(moments(&asleep()[0].1), ["not_running", "all", "all"]);
    fs::remove_file("/etc/sysctl.d/zz-hugewise-pool.conf").unwrap();

    // Whether it starts at the boot or by hand: what is left once nobody else needs any is enough
    // for it to start.
    for conf in ["auto\n", "manual\n", "disabled\n"] {
        fs::write(start_conf, conf).unwrap();
        require!(guard.set_pool(PageSize::MIB_2, PageCount(needed * 4)));
        boot(needed * 4);
        run(&["apply", "--shrink", "--yes"], 0);
        let kept = pool();
        assert!((needed..needed + needed / 10).contains(&kept), "{conf}: {kept} for {needed}");
        fs::remove_file("/etc/sysctl.d/zz-hugewise-pool.conf").unwrap();
        let all = asleep();
        let reboot = if conf == "auto\n" { "all" } else { "not_running" };
        let restart = if conf == "disabled\n" { "does_not_start" } else { "all" };
        assert_eq!(moments(&all[0].1), ["not_running", restart, reboot], "{conf}");
        fs::write(start_conf, "manual\n").unwrap();
        cluster.control("start");
        harness::check().assert_verdict("postgresql", cluster.pid(), "all", None);
        assert!(asleep().is_empty(), "one that runs is not down");
        cluster.control("stop");
    }

    // Settings that nobody can read forbid it too.
    fs::write("/etc/postgresql/15/asleep/conf.d/z.conf", "include 'gone.conf'\n").unwrap();
    require!(guard.set_pool(PageSize::MIB_2, PageCount(needed * 4)));
    boot(needed * 4);
    run(&["apply", "--shrink", "--yes"], 0);
    assert_eq!(pool(), needed * 4);
}

#[test]
fn a_service_that_is_stopped_is_known_by_its_unit_and_by_its_data() {
    if !require!(namespace::inside(
        "asleep::a_service_that_is_stopped_is_known_by_its_unit_and_by_its_data"
    )) {
        return;
    }
    let installed = require!(Installed::new());
    let guard = require!(PoolGuard::take_for_test());
    let unit = "/etc/systemd/system/hw-shop.service";
    let start = format!("/usr/sbin/mariadbd --defaults-file={}", installed.config().display());
    fs::write(
        unit,
        format!(
            "[Service]\nUser=mysql\nExecStart={start}\n[Install]\nWantedBy=multi-user.target\n"
        ),
    )
    .unwrap();
    std::os::unix::fs::symlink(unit, "/etc/systemd/system/multi-user.target.wants/hw-shop.service")
        .unwrap();
    require!(guard.set_pool(PageSize::MIB_2, PageCount(800)));
    let server = installed.start("large_pages");
    assert!(asleep().is_empty(), "by hand or not, it runs");
    let taken = kernel::hugetlb_reserved();
    drop(server);

    let all = asleep();
    let [(title, instance)] = all.as_slice() else { panic!("{all:?}") };
    assert!(title.starts_with("mariadb "), "{title}");
    assert_eq!(
        (&instance["asleep"]["known_by"], &instance["asleep"]["at_boot"]),
        (&unit.into(), &"yes".into())
    );
    assert_eq!(moments(instance)[..2], ["not_running", "all"]);
    run(&["apply", "--shrink", "--yes", "--only", "now"], 0);
    assert!(pool() >= taken && pool() < 800, "{} for {taken}", pool());
    let server = installed.start("large_pages");
    // Some small pieces of a MariaDB's are whole huge pages in one start, and not in the next.
    let again = kernel::hugetlb_reserved();
    assert!(again.abs_diff(taken) <= 5, "{again} where it took {taken}");
    drop(server);

    // What a capture of this host says is the same.
    let folder = harness::folder();
    let captured = folder.path().join("host");
    let captured = captured.to_str().unwrap();
    run(&["capture", "--output", captured], 0);
    let said = |arguments: &[&str]| {
        let all = harness::check_with(arguments).json["instances"].clone();
        let down =
            all.as_array().unwrap().iter().find(|instance| instance["running"] == false).unwrap();
        ["name", "asleep", "moments", "asked", "setting"].map(|field| down[field].clone())
    };
    assert_eq!(said(&[]), said(&["--root", captured]));
}

/// Root has made a cluster for a user: what that user's files say is his word, and read with his
/// rights.
#[test]
fn a_cluster_of_a_user_is_read_with_his_rights_and_planned_for_by_nobody() {
    if !require!(namespace::inside(
        "asleep::a_cluster_of_a_user_is_read_with_his_rights_and_planned_for_by_nobody"
    )) {
        return;
    }
    let user = require!(harness::User::named("games"));
    let folder = std::path::Path::new("/etc/postgresql/15/his");
    fs::create_dir_all(folder).unwrap();
    fs::write(
        "/etc/postgresql-secret.conf",
        "shared_buffers = 3GB\nhuge_pages = on\ncluster_name = 'rootonly'\n",
    )
    .unwrap();
    harness::must(Command::new("chmod").args(["600", "/etc/postgresql-secret.conf"]));
    fs::write(folder.join("postgresql.conf"), "huge_pages = on\nshared_buffers = 2GB\n").unwrap();
    user.own(folder);
    let of_him = || asleep().into_iter().find(|(title, _)| title.ends_with("15/his"));
    let (_, instance) = of_him().expect("it is listed");
    assert_eq!(
        (&instance["vouched_by"], &instance["owner"]),
        (&Value::Array(Vec::new()), &"games".into())
    );
    assert_eq!(instance["demand"]["source"], "estimated");

    // A link to what he may not read, and an include of it.
    for text in ["include '/etc/postgresql-secret.conf'\n", ""] {
        fs::remove_file(folder.join("postgresql.conf")).unwrap();
        match text {
            "" => std::os::unix::fs::symlink(
                "/etc/postgresql-secret.conf",
                folder.join("postgresql.conf"),
            )
            .unwrap(),
            text => fs::write(folder.join("postgresql.conf"), text).unwrap(),
        }
        user.own(folder);
        let said = harness::check().json;
        assert!(!said.to_string().contains("rootonly"), "{said:#}");
        assert_eq!(of_him().expect("it is listed").1["asked"], "unknown", "{text}");
    }
}
