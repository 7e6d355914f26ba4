//! What starts a server anew: the command line of its unit, and Debian's options of a cluster. The
//! truth is what systemd and pg_ctlcluster then start, by /proc.

use std::fs;
use std::process::Command;

use hugewise_lab::guard::PoolGuard;
use hugewise_model::{PageCount, PageSize};
use hugewise_testkit::require;
use serde_json::Value;

use crate::real::harness::{self, HUGEWISE};
use crate::real::namespace;
use crate::real::systemd::{END, under_systemd};

/// What `check` says of the one server of an engine: the states of a restart and a boot, and why of
/// a restart.
fn foretold(said: &str, engine: &str) -> (String, String, String) {
    let check: Value = serde_json::from_str(said).unwrap_or_else(|error| panic!("{error}: {said}"));
    let all = check["instances"].as_array().expect("instances");
    let of_it =
        |json: &&Value| json["engine"] == engine && json["pid"].as_u64().is_some_and(|pid| pid > 0);
    let instance = all.iter().find(of_it).unwrap_or_else(|| panic!("{check:#}"));
    let state = |moment: &str| harness::text(&instance["moments"][moment]["state"]);
    let why = instance["moments"]["restart"]["why"].as_str().unwrap_or_default().to_owned();
    (state("restart"), state("reboot"), why)
}

/// A Java machine of a service, on this host and in its capture: the unit is changed, loaded, and
/// carried out.
#[test]
fn of_a_java_machine_by_its_unit() {
    let java = require!(harness::program(&[
        "/usr/lib/jvm/java-17-openjdk-amd64/bin/java",
        "/usr/bin/java"
    ]));
    let guard = require!(PoolGuard::take_for_test());
    require!(guard.set_pool(PageSize::MIB_2, PageCount(400)));
    let base = harness::folder();
    let options = base.path().join("options");
    fs::write(&options, "HEAP=\"-Xms256m -Xmx256m\"\n").unwrap();
    let unit = |flags: &str| {
        format!(
            "[Service]\nEnvironmentFile={}\nExecStart={} $HEAP -XX:+UseSerialGC {flags} -m \
                 java.rmi/sun.rmi.registry.RegistryImpl 0\n",
            options.display(),
            java.display()
        )
    };
    let huge = unit("-XX:+UseLargePages");
    let change = |text: &str| {
        format!(
            "printf '[Unit]\\nDefaultDependencies=no\\n{}' > db.service",
            text.replace('\n', "\\n")
        )
    };
    let script = format!(
        "cd /etc/systemd/system\n\
         pid() {{ systemctl show -P MainPID db.service; }}\n\
         look() {{ sleep 3; echo \"=== $1\"; grep HugetlbPages /proc/$(pid)/status | tr -dc 0-9; \
             echo; {HUGEWISE} check --format json; \
         rm -rf /run/cap; {HUGEWISE} capture -o /run/cap > /dev/null; echo ---; {HUGEWISE} check \
             --format json --root /run/cap; }}\n\
         look started\n\
         {without}; look 'changed, not loaded'\n\
         systemctl daemon-reload; look 'loaded'\n\
         systemctl restart db.service; look 'restarted'\n\
         {with}; systemctl daemon-reload; systemctl restart db.service; look 'as it was'\n\
         echo 'HEAP=\"-Xms256m -Xmx2g\"' > {options}; look 'other variables'\n\
         systemctl restart db.service; look 'restarted with them'\n\
         printf '{END}'\n",
        without = change(&unit("")),
        with = change(&huge),
        options = options.display(),
    );
    let said = require!(under_systemd(base.path(), &huge, &script));
    let errors = fs::read_to_string(base.path().join("errors")).unwrap_or_default();
    let mut looks = Vec::new();
    for look in said.split("=== ").skip(1) {
        let mut parts = look.splitn(3, '\n');
        let (name, huge) = (parts.next().unwrap(), parts.next().unwrap());
        let (live, captured) = parts.next().unwrap().split_once("---\n").unwrap();
        let live = foretold(live, "jvm");
        assert_eq!(
            foretold(captured, "jvm"),
            live,
            "{name}: a capture answers as its host does: {errors}"
        );
        // What it has touched: of memory that it reserved at once that is little.
        let touched = huge.parse::<u64>().unwrap_or_else(|_| panic!("{look}"));
        looks.push((name.to_owned(), touched > 0, live.0, live.2));
    }
    let restarts: Vec<(&str, bool, &str)> =
        looks.iter().map(|(name, on, state, _)| (name.as_str(), *on, state.as_str())).collect();
    assert_eq!(
        restarts,
        [
            ("started", true, "all"),
            ("changed, not loaded", true, "all"),
            ("loaded", true, "none"),
            ("restarted", false, "none"),
            ("as it was", true, "all"),
            // 400 pages are not there for a heap of 2 GiB; what is beside it may have some.
            ("other variables", true, looks[5].2.as_str()),
            ("restarted with them", looks[6].1, looks[6].2.as_str()),
        ],
        "{errors}\n{looks:#?}"
    );
    assert!(
        ["none", "partly"].contains(&looks[5].2.as_str()) && looks[5].3.contains("finds 400"),
        "{looks:#?}"
    );
    assert!(looks[2].3.contains("db.service:"), "{looks:#?}");
}

/// Options of a cluster's own file count at its next start, and a line that no release knows keeps
/// it from one, live and captured.
#[test]
fn of_a_cluster_by_its_options() {
    const CLUSTER: &str = "/etc/postgresql/15/starts";
    require!(harness::program(&["/usr/bin/pg_createcluster"]));
    if !require!(namespace::inside("unit_starts::of_a_cluster_by_its_options")) {
        return;
    }
    let guard = require!(PoolGuard::take_for_test());
    require!(guard.set_pool(PageSize::MIB_2, PageCount(200)));
    harness::must(Command::new("pg_createcluster").args(["15", "starts", "-p", "5998"]));
    let conf = format!("{CLUSTER}/postgresql.conf");
    let text = fs::read_to_string(&conf).unwrap() + "\nshared_buffers = 64MB\n";
    fs::write(&conf, &text).unwrap();
    let ctl = |action: &str| {
        let mut command = Command::new("pg_ctlcluster");
        command
            .args(["--skip-systemctl-redirect", "15", "starts", action])
            .output()
            .unwrap()
            .status
            .success()
    };
    let look = || {
        let check = |more: &[&str]| {
            let output = Command::new(HUGEWISE)
                .args(["check", "--format", "json"])
                .args(more)
                .output()
                .unwrap();
            foretold(&String::from_utf8_lossy(&output.stdout), "postgresql")
        };
        let live = check(&[]);
        let folder = harness::folder();
        let target = folder.path().join("captured");
        harness::must(Command::new(HUGEWISE).args(["capture", "-o"]).arg(&target));
        assert_eq!(
            check(&["--root", target.to_str().unwrap()]),
            live,
            "a capture answers as its host does"
        );
        live
    };
    assert!(ctl("start"));
    let (before, ..) = look();
    assert_ne!(before, "does_not_start");

    fs::write(format!("{CLUSTER}/pg_ctl.conf"), "pg_ctl_options = '-o -chuge_pages=off'\n")
        .unwrap();
    let (state, _, why) = look();
    assert_eq!((state.as_str(), why.contains("pg_ctl.conf:1")), ("none", true), "{why}");
    fs::write(format!("{CLUSTER}/pg_ctl.conf"), "pg_ctl_options = '-o \"-c huge_pages=off\"'\n")
        .unwrap();
    assert_eq!(
        look().0,
        "does_not_start",
        "its words are parted at blanks, whatever quotes there are"
    );
    fs::write(format!("{CLUSTER}/pg_ctl.conf"), "").unwrap();
    assert_eq!(look().0, before);

    fs::write(&conf, text.clone() + "shared_buffer = 2GB\n").unwrap();
    let (state, _, why) = look();
    assert_eq!(state, "does_not_start", "{why}");
    assert!(ctl("stop"));
    assert!(!ctl("start"), "FATAL: unrecognized configuration parameter");
    fs::write(&conf, text).unwrap();
    fs::write(format!("{CLUSTER}/pg_ctl.conf"), "pg_ctl_options = '-o \"-c huge_pages=off\"'\n")
        .unwrap();
    assert!(!ctl("start"), "pg_ctl: too many command-line arguments");
    fs::write(format!("{CLUSTER}/pg_ctl.conf"), "pg_ctl_options = '-o -chuge_pages=off'\n")
        .unwrap();
    assert!(ctl("start"));
    let (state, ..) = look();
    assert_eq!(state, "none", "it runs as it was foretold");
    assert!(ctl("stop"));
}
