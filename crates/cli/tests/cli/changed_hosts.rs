//! Captured hosts with something changed in their files: limits that servers share, boots that go
//! wrong, pools that are refused, and what a server may lock at its next start.

use std::fs;

use crate::support::Changed;
use serde_json::Value;

const MIB_2: u64 = 2 << 20;
const POOL: &str = "sys/kernel/mm/hugepages/hugepages-2048kB";

impl Changed {
    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.0.path().join(path)).unwrap()
    }

    fn processes(&self) -> Vec<String> {
        let names = fs::read_dir(self.0.path().join("proc"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        names
            .filter_map(|name| name.into_string().ok())
            .filter(|text| text.parse::<u32>().is_ok())
            .collect()
    }

    /// Puts pages more in the pool, for good.
    fn grow(&self, pages: u64) {
        let folder = self.0.path().join("sys/devices/system/node");
        let nodes = fs::read_dir(folder)
            .into_iter()
            .flatten()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let nodes = nodes.filter(|text| text.starts_with("node"));
        let of_nodes =
            nodes.map(|text| format!("sys/devices/system/node/{text}/hugepages/hugepages-2048kB"));
        for folder in of_nodes.chain([POOL.to_owned()]) {
            for file in ["nr_hugepages", "free_hugepages"] {
                let path = format!("{folder}/{file}");
                if self.0.path().join(&path).exists() {
                    let there: u64 = self.text(&path).trim().parse().unwrap();
                    self.put(&path, (there + pages).to_string());
                }
            }
        }
        self.put(
            "etc/sysctl.d/99-pool.conf",
            format!("vm.nr_hugepages = {}\n", self.text(&format!("{POOL}/nr_hugepages"))),
        );
    }

    /// The word for a server at a moment.
    fn at(&self, check: &Value, name: &str, moment: &str) -> String {
        let mut all = check["instances"].as_array().unwrap().iter();
        let instance = all.find(|json| json["name"] == name).unwrap();
        instance["moments"][moment]["state"].as_str().unwrap().to_owned()
    }
}

fn codes(check: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    check["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|json| (text(&json["code"]), text(&json["level"])))
        .collect()
}

/// Every word of a plan that a person could carry out or rely on.
fn said(plan: &Value) -> String {
    let texts = |list: &str| plan[list].to_string();
    ["steps", "instructions", "at_boot"].map(texts).concat()
}

/// Puts both PostgreSQL clusters, of 537 pages each, below one cgroup that is limited to so many
/// pages of each kind.
fn below_one_limit(touched: u64, reserved: u64) -> Changed {
    let host = Changed::of("two-clusters-one-too-big");
    for pid in host.processes() {
        host.put(&format!("proc/{pid}/cgroup"), "0::/db/a\n");
    }
    let unified = "sys/fs/cgroup/unified";
    host.put(&format!("{unified}/cgroup.controllers"), "hugetlb memory\n");
    let limits = [("max", touched), ("rsvd.max", reserved), ("current", 77), ("rsvd.current", 537)];
    for (file, pages) in limits {
        host.put(&format!("{unified}/db/hugetlb.2MB.{file}"), (pages * MIB_2).to_string());
        host.put(
            &format!("{unified}/db/a/hugetlb.2MB.{file}"),
            if file.ends_with("max") { "max" } else { "0" },
        );
    }
    host.grow(2000);
    host
}

#[test]
fn a_limit_is_held_against_all_servers_below_it() {
    let check = |host: &Changed| host.json(&["check"]);
    for (touched, reserved, files) in [(800, 9999, 1), (9999, 800, 1), (800, 800, 2)] {
        let host = below_one_limit(touched, reserved);
        let found = check(&host);
        // What is mapped is charged to rsvd.max, and to max as it is touched: PostgreSQL starts.
        let is_refused = reserved == 800;
        let starts = [("5433", "restart"), ("15/main", "reboot")]
            .map(|(name, moment)| host.at(&found, name, moment) == "all");
        assert_eq!(starts, [!is_refused; 2], "{touched} {reserved}");
        assert!(codes(&found).iter().any(|(code, _)| code == "HW702"), "{found}");
        let plan = host.json(&["plan"]);
        assert!(!said(&plan).contains("huge_pages = on"), "{plan}");
        // 2 * 537 pages, said once for each file.
        let writes = said(&plan).matches(&format!("echo {} >", 2 * 537 * MIB_2)).count();
        assert_eq!(writes, files, "{plan}");
    }
    let host = below_one_limit(2 * 537, 2 * 537);
    let found = check(&host);
    assert_eq!(host.at(&found, "5433", "restart"), "all");
    assert_eq!(host.at(&found, "15/main", "reboot"), "all");
}

/// A host with so many percent of its memory as pages of 2 MiB, where `put` writes them.
fn crowded(percent: u64, put: fn(&Changed, u64)) -> Changed {
    let host = Changed::of("no-pool-postgresql");
    let memory = host.text("proc/meminfo");
    let total = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next())
        .unwrap();
    put(&host, total.parse::<u64>().unwrap() * percent / 100 / 2048);
    host
}

fn in_grub(host: &Changed, pages: u64) {
    let entry = format!(
        "menuentry \"Debian\" {{\n linux /vmlinuz root=/dev/vda1 quiet hugepages={pages}\n}}\n"
    );
    host.put("boot/grub/grub.cfg", entry);
}

fn in_sysctl(host: &Changed, pages: u64) {
    host.put("etc/sysctl.d/10-db.conf", format!("vm.nr_hugepages = {pages}\n"));
}

#[test]
fn a_boot_that_leaves_nothing_is_an_error_and_nobody_insists_on_it() {
    let host = crowded(99, in_grub);
    let check = host.json(&["check"]);
    assert!(codes(&check).contains(&("HW604".into(), "error".into())), "{check}");
    assert_eq!(host.at(&check, "5433", "reboot"), "unknown");
    let text = host.run(&["check"]);
    assert!(text.contains("the host may not boot") && text.contains("/etc/default/grub"), "{text}");
    assert!(!text.contains("refuse to start") && !text.contains("at each boot"), "{text}");
    let plan = host.json(&["plan"]);
    assert!(
        !said(&plan).contains("huge_pages = on")
            && plan["at_boot"].as_array().is_none_or(Vec::is_empty),
        "{plan}"
    );
    // In pages of both sizes: neither alone is too much.
    let host = crowded(50, |host, pages| {
        let words =
            format!("hugepagesz=2M hugepages={pages} hugepagesz=1G hugepages={}", pages / 512);
        host.put(
            "boot/grub/grub.cfg",
            format!("menuentry \"Debian\" {{\n linux /vmlinuz {words}\n}}\n"),
        );
    });
    assert!(codes(&host.json(&["check"])).contains(&("HW604".into(), "error".into())));
    // Half of memory is nobody's error.
    let host = crowded(50, in_grub);
    assert!(!codes(&host.json(&["check"])).iter().any(|(code, _)| code == "HW604"));
}

#[test]
fn a_file_that_asks_for_nearly_all_is_overruled_by_one_of_ours() {
    let host = crowded(99, in_sysctl);
    let check = host.json(&["check"]);
    assert!(codes(&check).contains(&("HW604".into(), "error".into())), "{check}");
    let plan = host.json(&["plan"]);
    assert_eq!(plan["at_boot"][0]["pages"], 537, "{plan}");
    assert!(plan["steps"].to_string().contains("vm.nr_hugepages = 537"), "{plan}");
}

#[test]
fn a_refused_pool_is_not_planned_and_nothing_relies_on_it() {
    let host = Changed::of("no-pool-postgresql");
    let memory = host.text("proc/meminfo");
    let line = |line: &str| match line.split_once(':').unwrap().0 {
        "MemTotal" => "MemTotal: 1200000 kB\n".to_owned(),
        _ => format!("{line}\n"),
    };
    host.put("proc/meminfo", memory.lines().map(line).collect::<String>());
    let plan = host.json(&["plan"]);
    assert!(plan["refusal"].is_object(), "{plan}");
    for fatal in ["huge_pages = on", "537", "echo ", "HW201"] {
        assert!(!plan["steps"].to_string().contains(fatal), "{fatal}: {plan}");
    }
    assert!(!plan["instructions"].to_string().contains("echo "), "{plan}");
    // Whoever overrules it gets them.
    let plan = host.json(&["plan", "--force"]);
    assert!(plan["refusal"].is_object() && plan["steps"].to_string().contains("537"), "{plan}");
}

#[test]
fn a_boot_has_its_own_limits() {
    let may = |change: &dyn Fn(&Changed)| {
        let host = Changed::of("rhel7-oracle-memlock");
        for pid in host.processes() {
            let path = format!("proc/{pid}/limits");
            let limits = host.text(&path);
            let line = |line: &str| match line.starts_with("Max locked memory") {
                true => "Max locked \
                     memory         unlimited            unlimited            bytes     \n"
                    .to_owned(),
                false => format!("{line}\n"),
            };
            host.put(&path, limits.lines().map(line).collect::<String>());
        }
        change(&host);
        let check = host.json(&["check"]);
        (host.at(&check, "ERP", "restart"), host.at(&check, "ERP", "reboot"))
    };
    let unit = |host: &Changed| {
        host.put(
            "etc/systemd/system/dbora.service.d/limits.conf",
            "[Service]\nLimitMEMLOCK=infinity\n",
        );
    };
    let all = || "all".to_owned();
    assert_eq!(may(&unit), (all(), all()));
    // It runs with a limit that its unit does not give it, and is restarted by that unit, or by hand.
    assert_eq!(may(&|_| ()), ("none".into(), "none".into()));
    assert_eq!(may(&share_its_service), (all(), "none".into()));
    assert_eq!(
        may(&|host| {
            unit(host);
            host.put(
                "etc/sysctl.conf",
                "vm.nr_hugepages = 8300\nkernel.shmmax = 68719476736\nkernel.shmall = 4000\n",
            );
        }),
        (all(), "does_not_start".into())
    );
    // A page of 2 MiB is the least that it asks shmget for.
    assert_eq!(
        may(&|host| {
            unit(host);
            host.put(
                "etc/sysctl.conf",
                "vm.nr_hugepages = 8300\nkernel.shmmax = 1048576\nkernel.shmall = 16777216\n",
            );
        }),
        (all(), "does_not_start".into())
    );
}

const RULES: &str = "etc/security/limits.conf";
const UNIT: &str = "etc/systemd/system/dbora.service";

/// Another program in the service: whoever restarts the server does not restart that.
fn share_its_service(host: &Changed) {
    host.put("proc/5000/status", host.text("proc/4100/status").replace("ora_pmon_ERP", "expdp"));
    host.put("proc/5000/cmdline", "expdp\0");
    host.put("proc/5000/cgroup", host.text("proc/4100/cgroup"));
}

/// RHEL 7 with an Oracle of 16 GiB in dbora.service (User=oracle), where memlock decides and the
/// pool has enough. It runs with this limit; limits.conf and the unit say this.
fn oracle(runs_with: &str, rules: &str, unit: &str) -> Changed {
    let host = Changed::of("rhel7-oracle-memlock");
    let limits = "proc/4100/limits";
    let line = format!("Max locked memory         {runs_with:<20} {runs_with:<20} bytes     ");
    let text = host.text(limits);
    let text: Vec<&str> = text
        .lines()
        .map(|text| if text.starts_with("Max locked") { line.as_str() } else { text })
        .collect();
    host.put(limits, text.join("\n") + "\n");
    host.put(RULES, rules);
    host.put(UNIT, host.text(UNIT).replace("[Install]", &format!("{unit}\n[Install]")));
    host
}

/// In a service that runs more than the server, it is restarted in sqlplus, which is typed in a
/// login, and booted by its unit. That pam_limits
/// gives this, su itself says in `real/pam.rs`.
#[test]
fn what_a_start_may_lock_goes_by_who_starts_it() {
    let infinite = "LimitMEMLOCK=infinity";
    for (runs_with, rules, unit, restart, boot) in [
        ("65536", "oracle - memlock unlimited\n", infinite, "all", "all"),
        ("unlimited", "", "", "none", "none"),
        (
            "65536",
            "oracle hard memlock 64\noracle soft memlock unlimited\n",
            infinite,
            "none",
            "all",
        ),
        ("65536", "oracle soft memlock unlimited\n", infinite, "none", "all"),
        ("65536", ":54400 - memlock unlimited\n", infinite, "none", "all"),
        ("65536", "@54000:55000 - memlock unlimited\n", "", "all", "none"),
        ("65536", "@:54321 - memlock unlimited\n", infinite, "all", "all"),
    ] {
        let host = oracle(runs_with, rules, unit);
        share_its_service(&host);
        let check = host.json(&["check"]);
        let found = ["restart", "reboot"].map(|moment| host.at(&check, "ERP", moment));
        assert_eq!(found, [restart, boot], "{runs_with} {rules} {unit}");
        let plan = said(&host.json(&["plan"]));
        let writes = |file: &str| plan.contains(file);
        assert_eq!(
            writes("/etc/security/limits.d/zz-hugewise.conf"),
            restart != "all",
            "{rules}: {plan}"
        );
        assert_eq!(writes("dbora.service.d/zz-hugewise.conf"), boot != "all", "{unit}: {plan}");
        // One that is down without huge pages is told of only where both ways of starting it bring
        // them.
        let text = host.run(&["check"]);
        let insists = text.contains("make oracle ERP refuse to start");
        assert_eq!(insists, (restart, boot) == ("all", "all"), "{text}");
    }
}

/// The running process has no limit; what its next starts have is told by what gives them that.
#[test]
fn a_limit_is_told_by_the_file_that_says_it() {
    let host = oracle("unlimited", "oracle - memlock 128\n", "");
    let restart_by_service = host.json(&["check"])["instances"][0]["moments"]["restart"].clone();
    let by_unit = "memlock 64 KiB for 16.0 GiB (systemd's default)";
    assert!(restart_by_service["why"].as_str().unwrap().contains(by_unit), "{restart_by_service}");
    share_its_service(&host);
    let check = host.json(&["check"]);
    let moments = &check["instances"][0]["moments"];
    let why = |moment: &str| moments[moment]["why"].as_str().unwrap().to_owned();
    assert!(
        why("restart").contains("memlock 128 KiB for 16.0 GiB (/etc/security/limits.conf:1)"),
        "{moments:#}"
    );
    // systemd 219 leaves what Linux 3.10 begins with.
    assert!(
        why("reboot").contains("memlock 64 KiB for 16.0 GiB (systemd's default)"),
        "{moments:#}"
    );
    assert!(!moments.to_string().contains("/proc/4100/limits"), "{moments:#}");
}

/// A service that runs the server alone starts it again with its own limit, whatever limits.conf
/// gives a login; a plan raises the log-in's too where that is too small: either may be used next.
#[test]
fn a_server_of_its_own_service_is_restarted_by_that() {
    let infinite = "LimitMEMLOCK=infinity";
    for (rules, unit, state, raises_log_in) in [
        ("oracle - memlock unlimited\n", infinite, "all", false),
        ("", "", "none", true),
        ("oracle hard memlock 64\n", infinite, "all", true),
        ("@54000:55000 - memlock unlimited\n", "", "none", false),
    ] {
        let host = oracle("65536", rules, unit);
        let check = host.json(&["check"]);
        let found = ["restart", "reboot"].map(|moment| host.at(&check, "ERP", moment));
        assert_eq!(found, [state; 2], "{rules} {unit}");
        let plan = said(&host.json(&["plan"]));
        let raised = plan.contains("/etc/security/limits.d/zz-hugewise.conf");
        assert_eq!(raised, raises_log_in, "{rules}: {plan}");
        let raised = plan.contains("dbora.service.d/zz-hugewise.conf");
        assert_eq!(raised, state != "all", "{unit}: {plan}");
    }
}

/// Two segments of 16 GiB, as Linux (ipc/shm.c, ipc/util.c) refuses them, whatever of the limits is
/// not known.
#[test]
fn what_refuses_a_start_for_sure_is_said() {
    let changed_of = |sysctls: &str| {
        let host = oracle("unlimited", "oracle - memlock unlimited\n", "LimitMEMLOCK=infinity");
        host.put("etc/sysctl.conf", format!("vm.nr_hugepages = 8300\n{sysctls}"));
        host
    };
    let (most, all) = ("kernel.shmmax = 68719476736\n", "kernel.shmall = 16777216\n");
    for (sysctls, boot) in [
        (format!("{most}{all}"), "all"),
        ("kernel.shmall = 2097152\n".to_owned(), "does_not_start"),
        (format!("{most}kernel.shmall = 2097152\n"), "does_not_start"),
        (format!("{most}{all}kernel.shmmni = 1\n"), "does_not_start"),
        (most.to_owned(), "unknown"),
        (String::new(), "unknown"),
    ] {
        let host = changed_of(&sysctls);
        let check = host.json(&["check"]);
        assert_eq!(host.at(&check, "ERP", "reboot"), boot, "{sysctls}");
        let text = host.run(&["check"]);
        assert!(!text.contains("malformed"), "{text}");
        assert_eq!(
            text.contains("make oracle ERP refuse to start"),
            boot == "all",
            "{sysctls}: {text}"
        );
    }
    // What is set by hand, a plan keeps, as it keeps pools.
    let plan = said(&changed_of("").json(&["plan"]));
    for line in ["kernel.shmmax = 68719476736", "kernel.shmall = 16777216"] {
        assert!(plan.contains(line), "{plan}");
    }
}

/// A limit that suits the database alone is too small beside its user's ASM instance: one rule once
/// named the sum, and another the database's part, as what the same server needs.
#[test]
fn a_memlock_limit_for_several_servers_says_what_the_others_need() {
    let host = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/hosts/oracle-restart-asm");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_hugewise"))
        .args(["check", "--format", "json", "--root", host])
        .output()
        .unwrap();
    let check: Value = serde_json::from_slice(&output.stdout).unwrap();
    let found = check["findings"].as_array().unwrap().iter();
    let found = found
        .filter(|json| json["code"] == "HW305")
        .filter_map(|json| json["summary"].as_str())
        .collect::<Vec<_>>();
    assert_eq!(found.len(), 2, "{found:?}");
    for (server, others) in [("oracle PROD", "1.5 GiB"), ("oracle +ASM", "16.0 GiB")] {
        let needs = format!(
            "{server} needs a memlock limit of 17.5 GiB ({others} of it for its user's other \
                 servers)"
        );
        assert!(found.iter().any(|summary| summary.starts_with(&needs)), "{needs}: {found:?}");
    }
}
