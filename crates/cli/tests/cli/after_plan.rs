//! Every captured host under `fixtures/hosts`, once everything is done that its plan says: what is
//! found then was named.
//!
//! A copy of the host takes the plan's files and values as the kernel would take them; servers are
//! started again as far as their mappings, limits and page tables show it; and what the plan leaves
//! to people is done by hand, host by host.

use crate::support;
use crate::support::host::Host;
use serde_json::Value;

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Whether the plan says that this finding is there until people have done something, or until a
/// restart or a boot.
pub(crate) fn is_named(plan: &Value, finding: &Value, others: &Value) -> bool {
    let (code, json) = (text(&finding["code"]), &finding["instance"]);
    let steps = || plan["steps"].as_array().unwrap().iter();
    let by_hand = || plan["instructions"].as_array().unwrap().iter();
    let promised = steps().flat_map(|step| step["expects"].as_array().unwrap());
    let later = ["restart", "reboot"];
    let mut promised = promised.filter(|other_json| later.contains(&text(&other_json["when"])));
    if promised.any(|other_json| other_json["code"] == code && other_json["instance"] == *json) {
        return true;
    }
    // In the title, or as the reason under a title that says what to do.
    let is_told = |finding: &Value| {
        let found = format!("{} ", text(&finding["code"]));
        by_hand().any(|json| {
            text(&json["title"]).starts_with(&found)
                || text(&json["text"]).starts_with(&format!("# {found}"))
        })
    };
    if is_told(finding) {
        return true;
    }
    // What ends it is what a person is told to do with the server that it names, and nothing else.
    let told = |instance: &Value| {
        // What is done once for several servers names them in its title.
        let names = |json: &Value| {
            text(&json["title"]).starts_with("let ")
                && text(&json["title"]).contains(text(instance))
        };
        by_hand().any(|json| {
            json["instance"] == *instance || (json["instance"].is_null() && names(json))
        }) || plan["warnings"]
            .as_array()
            .unwrap()
            .iter()
            .any(|json| text(json).contains(text(instance)))
    };
    let remedies = finding["remedies"].as_array().unwrap();
    let people = ["restart", "set_setting", "raise_memlock", "set_group"];
    // Or it is of a cause that is told, whose remedies hold its own.
    let causes: Vec<&Value> =
        others.as_array().unwrap().iter().filter(|json| is_told(json)).collect();
    let is_part = |json: &Value| {
        causes.iter().any(|cause| cause["remedies"].as_array().unwrap().contains(json))
    };
    let rebooted = by_hand().any(|json| json["risk"] == "reboot");
    // What is to be kept where hugewise writes nothing is told to people, by the size of its pages.
    let kept_by_hand = |json: &Value| {
        let kept = |what: &str| by_hand().any(|told| text(&told["title"]).starts_with(what));
        match (text(&json["kind"]), json["page_bytes"].as_u64()) {
            ("keep_thp_at_boot", _) => kept("transparent huge pages: "),
            ("keep_at_boot", Some(page)) => by_hand().any(|told| {
                let (title, size) = (text(&told["title"]), page >> 20);
                title.ends_with(&format!(" pages of {size} MiB at each boot"))
                    || title.contains(&format!("has the last word on the {size} MiB pool"))
            }),
            _ => false,
        }
    };
    let due = |json: &Value| {
        let kind = text(&json["kind"]);
        kind == "consider"
            || kept_by_hand(json)
            || (people.contains(&kind) && told(&json["instance"]))
            || (rebooted && kind == "set_pool")
            || is_part(json)
    };
    !remedies.is_empty() && remedies.iter().all(due)
}

fn is_to_consider(remedy: &Value) -> bool {
    remedy["kind"] == "consider"
}

pub(crate) fn lines(findings: &Value) -> Vec<String> {
    let all = findings.as_array().unwrap().iter();
    all.map(|json| {
        format!(
            "{} {}: {} {}",
            text(&json["code"]),
            json["instance"],
            text(&json["summary"]),
            json["remedies"]
        )
    })
    .collect()
}

/// What people do on a host, told by its plan; whether they are told to plan once more when that is
/// done.
fn by_hand(name: &str, host: &Host) {
    const INIT: &str = "use_large_pages=ONLY\n";
    match name {
        "arm64-16k-pages" => host.restart("postgresql", "17/main"),
        "arm64-64k-pages" => {
            host.restart("postgresql", "5432");
            host.carry_out(&host.plan(&["--shrink"]));
        }
        "container-cgroup-limit" => {
            host.put("/sys/fs/cgroup/unified/hwfx/hugetlb.2MB.rsvd.max", "1126170624\n");
            host.restart("postgresql", "5433");
        }
        "idle-pool-mariadb" => {
            host.change("/srv/databases/my/my.cnf", |text| format!("{text}large-pages = ON\n"));
            host.restart("mariadb", "3306");
        }
        "no-pool-postgresql" | "two-clusters-one-too-big" => host.restart("postgresql", "5433"),
        "numa-unequal" => {
            host.change("/app/home/dbs/initPROD.ora", |text| {
                text.replace("use_large_pages='TRUE'", "use_large_pages=ONLY")
            });
            for (node, pages) in [(0, 100), (1, 100)] {
                host.set_pool(2048, Some(node), pages);
            }
        }
        "oracle-amm" => {
            let init = "/u01/app/oracle/product/12.2.0.1/dbhome_1/dbs/initHR.ora";
            host.change(init, |text| {
                let kept = text.lines().filter(|line| !line.contains("memory_"));
                let kept: String = kept.map(|line| format!("{line}\n")).collect();
                kept + "sga_target=6144M\npga_aggregate_target=1G\nuse_large_pages=ONLY\n"
            });
            host.unlimited();
            host.carry_out(&host.plan(&["--instance", "HR"]));
            host.restart("oracle", "HR");
        }
        "oracle-many-sessions" => {
            host.change("/u01/app/oracle/product/19.22.0/dbhome_1/dbs/initPROD.ora", |text| {
                text + INIT
            });
            host.unlimited();
            host.give_back(17410 << 21);
            host.set_pool(2048, None, 17410);
            host.restart("oracle", "PROD");
            host.add_to_meminfo(&["MemFree", "MemAvailable"], -(17410 << 11));
        }
        "oracle-restart-asm" => {
            let init = "/u01/app/oracle/product/19.0.0/dbhome_1/dbs/initPROD.ora";
            let without = |text: String| {
                text.lines()
                    .filter(|line| !line.contains("use_large_pages"))
                    .map(|line| format!("{line}\n"))
                    .collect::<String>()
            };
            host.change(init, |text| without(text) + INIT);
            host.unlimited();
            host.give_back(8978 << 21);
            host.set_pool(2048, None, 8978);
            host.restart("oracle", "PROD");
            host.restart("oracle", "+ASM");
            host.add_to_meminfo(&["MemFree", "MemAvailable"], -(8978 << 11));
        }
        "rhel7-oracle-memlock" => {
            host.change("/u01/app/oracle/product/12.1.0.2/db_1/dbs/initERP.ora", |text| {
                text.replace("use_large_pages='TRUE'", "use_large_pages=ONLY")
            });
            host.unlimited();
            host.restart("oracle", "ERP");
        }
        "db2-no-pool" => host.restart("db2", "db2inst1"),
        "rhel5-oracle" => host.change("/etc/sysctl.conf", |text| text.replace("= 2000", "= 3000")),
        "rhel6-oracle" => {
            host.change("/boot/grub/grub.conf", |text| {
                text.replace(" quiet", " quiet transparent_hugepage=never")
            });
            host.change("/u01/app/oracle/product/11.2.0.4/db_1/dbs/initDB.ora", |text| {
                text.replace("TRUE", "ONLY")
            });
        }
        "sles11-oracle" => {
            host.change("/u01/app/oracle/product/11.2.0.2/db_1/dbs/initORC1.ora", |text| {
                text + INIT
            });
        }
        // How an ASE is made to ask is in no document: its plan leaves it as it is.
        "ase-no-pool"
        | "elasticsearch-swap"
        | "hana-thp-always"
        | "healthy-postgresql"
        | "packaged-mariadb"
        | "sqlserver-thp-madvise"
        | "starved-host"
        | "stopped-servers" => {}
        other => panic!("{other} is new here: what does its plan leave to people?"),
    }
}

#[test]
fn nothing_is_found_that_no_plan_has_named() {
    let mut wrong = Vec::new();
    for captured in support::hosts() {
        let name = captured.file_name().unwrap().to_str().unwrap();
        // Nothing can be planned for what broke off.
        if name.starts_with("truncated") {
            continue;
        }
        let host = Host::of(&captured);
        let plan = host.plan(&[]);
        host.carry_out(&plan);
        let left = host.check()["findings"].clone();
        let unnamed = left
            .as_array()
            .unwrap()
            .iter()
            .filter(|json| !is_named(&plan, json, &left))
            .cloned()
            .collect();
        wrong.extend(
            lines(&unnamed)
                .into_iter()
                .map(|line| format!("{name}: after the plan, and not named in it: {line}")),
        );
        // A sosreport has no mappings: nothing in it shows that a server was started again.
        if name.starts_with("sosreport") {
            continue;
        }
        by_hand(name, &host);
        // What a plan cannot make insist before its pages are there, it may once they are.
        let more = host.plan(&[]);
        host.carry_out(&more);
        let after = host.check()["findings"].clone();
        // What nobody can do anything about is a note, and no trouble.
        let note = |json: &Value| {
            json["level"] == "info"
                && json["remedies"].as_array().unwrap().iter().all(is_to_consider)
        };
        let found = after
            .as_array()
            .unwrap()
            .iter()
            .filter(|json| !note(json) && !is_named(&more, json, &after));
        let found = lines(&found.cloned().collect());
        wrong.extend(found.into_iter().map(|line| format!("{name}: after all was done: {line}")));
        let empty = host.plan(&[]);
        if !empty["steps"].as_array().unwrap().is_empty() {
            wrong.push(format!("{name}: planned once more: {:#}", empty["steps"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
