//! What has a word at the boot beside the files that exist for it: scripts and services that write
//! a pool, services that are masked, words of the command line, pages that are had on demand.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::support::Changed as Host;
use tempfile::TempDir;

const POOL: &str = "sys/kernel/mm/hugepages/hugepages-2048kB";

impl Host {
    fn link(&self, path: &str, target: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    fn reboot(&self) -> String {
        let check = self.json(&["check"]);
        check["instances"][0]["moments"]["reboot"]["state"].as_str().unwrap_or_default().to_owned()
    }

    fn codes(&self) -> Vec<String> {
        let check = self.json(&["check"]);
        check["findings"]
            .as_array()
            .unwrap()
            .iter()
            .map(|json| json["code"].as_str().unwrap().to_owned())
            .collect()
    }

    fn plan(&self) -> String {
        Self::run_on(self.0.path(), &["plan"])
    }
}

/// A way to write 100 pages at each boot: its name, what puts it there, and the line that does it.
type Way = (&'static str, fn(&Host), &'static str);

fn ways() -> Vec<Way> {
    const WANTS: &str = "etc/systemd/system/multi-user.target.wants/pages.service";
    vec![
        (
            "rc.local",
            |host| {
                host.put(
                    "etc/rc.local",
                    "#!/bin/sh\nTOKEN=S3\necho 100 > /proc/sys/vm/nr_hugepages\n",
                )
            },
            "/etc/rc.local:3",
        ),
        (
            "a service",
            |host| {
                let unit = "[Service]\nEnvironment=PW=S3\nExecStart=/bin/sh -c 'S3=1; echo 100 | \
                     tee /proc/sys/vm/nr_hugepages'\n";
                host.put("etc/systemd/system/pages.service", unit);
                host.link(WANTS, "/etc/systemd/system/pages.service");
            },
            "/etc/systemd/system/pages.service:3",
        ),
        (
            "a service's script",
            |host| {
                host.put(
                    "etc/systemd/system/pages.service",
                    "[Service]\nExecStart=/usr/local/sbin/pages S3\n",
                );
                host.link(WANTS, "/etc/systemd/system/pages.service");
                host.put(
                    "usr/local/sbin/pages",
                    "#!/bin/bash\nTOKEN=S3\nsysctl -w vm.nr_hugepages=100\n",
                );
            },
            "/usr/local/sbin/pages:3 (started by /etc/systemd/system/pages.service:2)",
        ),
        (
            "cron",
            |host| {
                host.put(
                    "etc/cron.d/pages",
                    "# S3\n@reboot root sysctl -w vm.nr_hugepages=100 S3\n",
                )
            },
            "/etc/cron.d/pages:2",
        ),
        (
            "cloud-init",
            |host| {
                host.put(
                    "etc/cloud/cloud.cfg.d/9.cfg",
                    "password: S3\nbootcmd:\n - [ sysctl, -w, vm.nr_hugepages=100 ]\n",
                )
            },
            "/etc/cloud/cloud.cfg.d/9.cfg:3",
        ),
        (
            "an init script",
            |host| {
                host.put("etc/init.d/pages", "#!/bin/sh\n# S3\nhugeadm --pool-pages-min 2MB:100\n");
                host.link("etc/rc3.d/S20pages", "../init.d/pages");
            },
            "/etc/init.d/pages:3",
        ),
    ]
}

#[test]
fn a_pool_that_something_else_writes_is_foretold_by_nobody() {
    for (name, write, place) in ways() {
        let host = Host::of("healthy-postgresql");
        assert_eq!(host.reboot(), "all");
        write(&host);
        assert_eq!(host.reboot(), "unknown", "{name}");
        assert!(host.codes().contains(&"HW606".to_owned()), "{name}");
        let check = Host::run_on(host.0.path(), &["check"])
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        assert!(
            check.contains(&format!("HW606 {place} sets the pool of 2 MiB pages")),
            "{name}: {check}"
        );
        let plan = host.json(&["plan"]);
        assert!(
            plan["at_boot"].as_array().is_none_or(Vec::is_empty),
            "{name}: nothing is promised: {plan}"
        );
    }
}

#[test]
fn nobody_is_made_to_insist_on_what_something_else_writes() {
    let host = Host::of("no-pool-postgresql");
    assert!(host.plan().contains("huge_pages = on"));
    host.put("etc/rc.local", "#!/bin/sh\necho 100 > /proc/sys/vm/nr_hugepages\n");
    let plan = host.plan();
    assert!(!plan.contains("huge_pages = on") && !plan.contains("at each boot\n"), "{plan}");
    assert!(plan.contains("vm.nr_hugepages = 537") && plan.contains("/etc/rc.local:2"), "{plan}");
    let check = Host::run_on(host.0.path(), &["check"]);
    assert!(
        !check.contains("refuse to start") && !check.contains("now and at each boot"),
        "{check}"
    );
    // The line is gone: all is as ever.
    host.put("etc/rc.local", "#!/bin/sh\n");
    assert!(host.plan().contains("huge_pages = on"));
}

/// A capture says the same, and holds nothing else of those files.
#[test]
fn a_capture_keeps_the_lines_and_no_more() {
    for (name, write, _) in ways() {
        let host = Host::of("healthy-postgresql");
        write(&host);
        host.put("etc/cron.d/S3", "* * * * * S3 /opt/S3\n");
        host.put("etc/rc2.d/S01S3", "S3\n");
        let folder = TempDir::new().unwrap();
        let target = folder.path().join("capture");
        Host::run_on(host.0.path(), &["capture", "-o", target.to_str().unwrap()]);
        let said = |root: &Path| {
            let text = Host::run_on(root, &["check"]);
            text.lines()
                .filter(|line| !line.starts_with("next"))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(said(&target), said(host.0.path()), "{name}");
        let secret =
            Command::new("grep").args(["-rlE", "S3|100"]).arg(target.join("etc")).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&secret.stdout), "", "{name}");
    }
}

#[test]
fn a_masked_service_is_named_and_its_files_are_not_written() {
    let host = Host::of("healthy-postgresql");
    host.link("etc/systemd/system/systemd-sysctl.service", "/dev/null");
    let check =
        Host::run_on(host.0.path(), &["check"]).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(check.contains("systemd-sysctl.service is masked"), "{check}");
    let plan = host.plan().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        plan.contains("b/etc/tmpfiles.d/00-hugewise-pools.conf")
            && !plan.contains("b/etc/sysctl.d/"),
        "{plan}"
    );
    assert!(
        plan.contains(
            "systemd-sysctl.service is masked (/etc/systemd/system/systemd-sysctl.service)"
        ),
        "{plan}"
    );
    // An empty file masks as well (systemd.unit(5)).
    host.put("etc/systemd/system/systemd-tmpfiles-setup.service", "");
    let plan = host.plan().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        plan.contains("systemd-tmpfiles-setup.service is masked") && !plan.contains("b/etc/"),
        "{plan}"
    );
}

#[test]
fn a_word_of_the_command_line_is_no_file() {
    let host = Host::of("healthy-postgresql");
    host.put(
        "boot/grub/grub.cfg",
        "menuentry \"Debian\" {\n linux /vmlinuz root=1 sysctl.vm.nr_hugepages=100\n}\n",
    );
    let check = Host::run_on(host.0.path(), &["check", "-v"])
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert!(check.contains("2 settings set the pool") && !check.contains("2 files"), "{check}");
    assert!(check.contains("sysctl.vm.nr_hugepages=100 on the kernel's command line"), "{check}");
    assert!(check.contains("remove sysctl.vm.nr_hugepages=100 from /etc/default/grub"), "{check}");
}

#[test]
fn pages_that_are_had_on_demand_are_told_of_by_check_as_by_plan() {
    let host = Host::of("healthy-postgresql");
    for (file, value) in [
        ("nr_hugepages", "537\n"),
        ("free_hugepages", "0\n"),
        ("resv_hugepages", "0\n"),
        ("surplus_hugepages", "537\n"),
        ("nr_overcommit_hugepages", "600\n"),
    ] {
        host.put(&format!("{POOL}/{file}"), value);
    }
    host.put("etc/sysctl.d/60-hugepages.conf", "vm.nr_overcommit_hugepages=600\n");
    let steps = host.json(&["plan"])["steps"].as_array().unwrap().len();
    assert_eq!((host.codes(), steps), (vec!["HW211".to_owned()], 2));
}
