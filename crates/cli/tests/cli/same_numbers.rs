//! One number for one question: whatever command is asked of a host, through every captured host
//! that is kept here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support;
use crate::support::{Said, hosts};
use serde_json::Value;
use tempfile::TempDir;

fn said(host: &Path, words: &[&str]) -> (i32, String, String) {
    let Said { code, out, err } = support::on(words[0], host, &words[1..]);
    (code, out, err)
}

fn json(host: &Path, words: &[&str]) -> Option<Value> {
    let words: Vec<&str> = words.iter().copied().chain(["--format", "json"]).collect();
    let (_, out, _) = said(host, &words);
    serde_json::from_str(&out).ok()
}

/// The instance of that engine and name.
fn find<'a>(report: &'a Value, json: &Value) -> Option<&'a Value> {
    let all = report["instances"].as_array()?;
    all.iter().find(|other_json| {
        other_json["engine"] == json["engine"] && other_json["name"] == json["name"]
    })
}

/// A container's tenant is planned as far as it has touched its memory, and by its word once it is
/// named.
fn is_tenant(instance: &Value) -> bool {
    instance["vouched_by"] == serde_json::json!(["container"])
}

#[test]
fn every_command_forecasts_the_same_page_tables() {
    let mut compared = 0;
    for host in hosts() {
        let (check, verify) = (json(&host, &["check"]).unwrap(), json(&host, &["verify"]).unwrap());
        for instance in check["instances"].as_array().unwrap() {
            let title = format!(
                "{} {}",
                instance["engine"].as_str().unwrap(),
                instance["name"].as_str().unwrap()
            );
            let at_max = &instance["page_tables_at_max"];
            // What is down holds nothing that could be verified.
            let verified = find(&verify, instance);
            assert_eq!(verified.is_some(), instance["running"] == true, "{host:?} {title}");
            let Some(verified) = verified else { continue };
            assert_eq!(&verified["page_tables_at_max"], at_max, "{host:?} {title}");
            let Some(max) = instance["max_sessions"].as_u64() else { continue };
            let sessions = max.to_string();
            let named = ["size", "--sessions", &sessions, "--instance", &title];
            let asked = if is_tenant(instance) { &named[..3] } else { &named[..] };
            let Some(size) = json(&host, asked) else { continue };
            // What is sized with other settings than it runs with is another server; of these see
            // below.
            if !size["instances"][0]["change"].is_null() {
                continue;
            }
            assert_eq!(&size["instances"][0]["page_tables_at_max"], at_max, "{host:?} {title}");
            for forecast in at_max.as_array().unwrap() {
                let rows = size["forecast"].as_array().unwrap().iter();
                let mut row = rows.filter(|row| row["page_bytes"] == forecast["page_bytes"]);
                let row = row.find(|row| row["sessions"].as_u64() == Some(max)).unwrap();
                assert_eq!(
                    row["page_tables_bytes"], forecast["expected_bytes"],
                    "{host:?} {title}"
                );
                assert_eq!(
                    row["page_tables_most_bytes"], forecast["most_bytes"],
                    "{host:?} {title}"
                );
                assert_eq!(row["basis"], forecast["basis"], "{host:?} {title}");
                let mut choice = size["choices"].as_array().unwrap().iter();
                let choice = choice.find(|row| row["page_bytes"] == forecast["page_bytes"]);
                if let Some(choice) = choice {
                    assert_eq!(
                        choice["page_tables_bytes"], forecast["expected_bytes"],
                        "{host:?} {title}"
                    );
                }
                compared += 1;
            }
        }
    }
    assert!(compared >= 20, "{compared}");
}

#[test]
fn every_command_needs_the_same_pages() {
    for host in hosts() {
        assert_same_pages(&host);
    }
}

/// What `check`, `verify` and `size` say that each server of a host needs is one number.
pub(crate) fn assert_same_pages(host: &Path) {
    let (check, verify) = (json(host, &["check"]).unwrap(), json(host, &["verify"]).unwrap());
    for instance in check["instances"].as_array().unwrap() {
        let Some(verified) = find(&verify, instance) else {
            assert_eq!(instance["running"], false, "{host:?} {instance}");
            continue;
        };
        assert_eq!(
            (&verified["demand"], &verified["beside"]),
            (&instance["demand"], &instance["beside"]),
            "{host:?}"
        );
    }
    let Some(size) = json(host, &["size"]) else {
        // Where nothing is to size, the reason has the number.
        let (_, _, why) = said(host, &["size"]);
        for instance in check["instances"].as_array().unwrap() {
            // What has no way to these pages needs none of them.
            if instance["asked"] == "cannot" {
                continue;
            }
            let pages = instance["demand"]["needed_pages"].as_u64().unwrap();
            let grouped = format!("{},{:03} pages", pages / 1000, pages % 1000);
            assert!(why.contains(&grouped), "{host:?}: {why}");
        }
        return;
    };
    for sized in size["instances"].as_array().unwrap() {
        let instance = find(&check, sized).unwrap();
        if !sized["change"].is_null() {
            continue;
        }
        let name = instance["name"].as_str().unwrap();
        let sized = match is_tenant(instance).then(|| json(host, &["size", "--instance", name])) {
            // Its cgroup is in the way of what it asks for, which only its name has it count for.
            Some(None) => continue,
            Some(Some(named)) => named["instances"][0].clone(),
            None => sized.clone(),
        };
        let needed = instance["demand"]["needed_pages"].as_u64().unwrap();
        // A start is made room for with the error that its estimate may have.
        let error =
            instance["demand"]["error_percent"].as_u64().filter(|_| instance["running"] == false);
        let with_error = needed + (needed * error.unwrap_or(0)).div_ceil(100);
        assert_eq!(sized["demand_pages"], with_error, "{host:?} {sized}");
        assert_eq!(sized["page_bytes"], instance["demand"]["page_bytes"], "{host:?} {sized}");
        assert_eq!(sized["beside"], instance["beside"], "{host:?} {sized}");
        let asked = match instance["asked"].as_str().unwrap() {
            "unknown" => "unknown",
            "no" | "cannot" => "no",
            _ => "yes",
        };
        assert_eq!(sized["asked"], asked, "{host:?} {sized}");
    }
}

/// A plan gives pages back, or keeps more than its servers need: each sum that the pools are a part
/// of has the pools of the plan.
#[test]
fn all_that_size_says_of_memory_goes_by_the_same_pools() {
    let mut compared = 0;
    for host in hosts() {
        let Some(size) = json(&host, &["size", "--sessions", "10"]) else { continue };
        let (budget, most) = (&size["budget"], &size["budget_at_most"]);
        if most.is_object() {
            assert_eq!(most["pools_bytes"], budget["pools_bytes"], "{host:?}");
        }
        let pools = size["pools"].as_array().unwrap();
        let [pool] = pools.as_slice() else { continue };
        let rows = size["forecast"].as_array().unwrap().iter();
        let mut row =
            rows.filter(|row| row["sessions"] == 10 && row["page_bytes"] == pool["page_bytes"]);
        let (Some(row), Some(left @ 1..)) = (row.next(), budget["left_bytes"].as_u64()) else {
            continue;
        };
        assert_eq!(row["memory_left_bytes"].as_u64(), Some(left), "{host:?}");
        compared += 1;
    }
    assert!(compared >= 8, "{compared}");
}

/// What `size` says of an instance under automatic memory management is what a plan makes once its
/// parameter file has what `size` proposes for it, and what is sized then.
#[test]
fn what_is_proposed_is_planned_once_it_is_set() {
    let before =
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/hosts/oracle-amm"));
    let proposed = json(&before, &["size"]).unwrap();
    let change = &proposed["instances"][0]["change"];
    let (folder, file) =
        (TempDir::new().unwrap(), "u01/app/oracle/product/12.2.0.1/dbhome_1/dbs/initHR.ora");
    let copied =
        Command::new("cp").arg("-a").arg(before.join(".")).arg(folder.path()).status().unwrap();
    assert!(copied.success());
    let text = fs::read_to_string(folder.path().join(file)).unwrap();
    let gone: Vec<&str> =
        change["gone"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(gone, ["memory_target", "memory_max_target"]);
    let kept =
        text.lines().filter(|line| !gone.iter().any(|name| line.contains(name))).map(str::to_owned);
    let settings = change["settings"].as_array().unwrap();
    let set = settings.iter().map(|one| {
        format!("*.{}={}", one["name"].as_str().unwrap(), one["value"].as_str().unwrap())
    });
    fs::write(folder.path().join(file), kept.chain(set).collect::<Vec<_>>().join("\n") + "\n")
        .unwrap();

    let after = folder.path().to_owned();
    let sized = json(&after, &["size"]).unwrap();
    assert!(sized["instances"][0]["change"].is_null(), "{sized}");
    assert_eq!(
        pool(&sized, &Value::from(2 << 20)).unwrap().0,
        pool(&proposed, &Value::from(2 << 20)).unwrap().0
    );
    assert_eq!(
        sized["private_memory"][0]["counted_bytes"],
        proposed["private_memory"][0]["counted_bytes"]
    );
    // It holds none of the pool before its restart, and the plan raises that to what was said.
    let plan = json(&after, &["plan"]).unwrap().to_string();
    let (pages, _) = pool(&proposed, &Value::from(2 << 20)).unwrap();
    assert!(plan.contains(&pages.to_string()), "{pages}: {plan}");
}

/// The pages of a size in `size`, over all nodes: needed, and planned.
fn pool(size: &Value, page: &Value) -> Option<(u64, Option<u64>)> {
    let pools = size["pools"].as_array()?.iter().filter(|pool| pool["page_bytes"] == *page);
    let pools: Vec<&Value> = pools.collect();
    let planned = pools.first()?["planned_pages"].as_u64();
    Some((pools.iter().map(|pool| pool["pages"].as_u64().unwrap()).sum(), planned))
}

#[test]
fn the_pools_of_size_are_those_of_the_plan() {
    let mut compared = 0;
    for host in hosts() {
        let (size, plan) = (json(&host, &["size"]), json(&host, &["plan"]).unwrap());
        for at_boot in plan["at_boot"].as_array().into_iter().flatten() {
            let (needed, planned) = pool(size.as_ref().unwrap(), &at_boot["page_bytes"]).unwrap();
            assert_eq!(planned, at_boot["pages"].as_u64(), "{host:?}");
            assert!(needed <= planned.unwrap(), "{host:?}");
            compared += 1;
        }
        compared += compare_pools_now(&host);
    }
    assert!(compared >= 12, "{compared}");
}

/// Holds what the plan sets pools to now to what `size` says; how many were compared.
pub(crate) fn compare_pools_now(host: &Path) -> usize {
    let (size, plan) = (json(host, &["size"]), json(host, &["plan"]).unwrap());
    let mut compared = 0;
    for step in plan["steps"].as_array().unwrap() {
        let Some(page) = step["id"]
            .as_str()
            .unwrap()
            .strip_prefix("pool-")
            .and_then(|id| id.strip_suffix("-now"))
        else {
            continue;
        };
        let bytes = page.strip_suffix('M').unwrap().parse::<u64>().unwrap() << 20;
        let (_, planned) = pool(size.as_ref().unwrap(), &Value::from(bytes)).unwrap();
        let set =
            step["changes"].as_array().unwrap().iter().find_map(|change| change["after"].as_str());
        assert_eq!(set.unwrap().trim().parse::<u64>().ok(), planned, "{host:?} {step}");
        compared += 1;
    }
    compared
}

/// Whoever names a server is told of the pool that it shares with others, by whatever command.
#[test]
fn the_pools_of_a_named_server_are_those_of_its_plan() {
    let mut compared = 0;
    for host in hosts() {
        let check = json(&host, &["check"]).unwrap();
        for instance in check["instances"].as_array().unwrap() {
            let title = format!(
                "{} {}",
                instance["engine"].as_str().unwrap(),
                instance["name"].as_str().unwrap()
            );
            let Some(size) = json(&host, &["size", "--instance", &title]) else { continue };
            let plan = json(&host, &["plan", "--instance", &title]).unwrap();
            for at_boot in plan["at_boot"].as_array().into_iter().flatten() {
                let (needed, planned) = pool(&size, &at_boot["page_bytes"]).unwrap();
                assert_eq!(planned, at_boot["pages"].as_u64(), "{host:?} {title}");
                assert!(needed <= planned.unwrap(), "{host:?} {title}");
                compared += 1;
            }
        }
    }
    assert!(compared >= 10, "{compared}");
    let needed = |host: &str, name: &str| {
        let size =
            json(&support::fixtures("hosts").join(host), &["size", "--instance", name]).unwrap();
        pool(&size, &Value::from(2 << 20)).unwrap().0
    };
    // 537 pages that are held, and 537 of one that asks for them.
    assert_eq!(needed("two-clusters-one-too-big", "15/main"), 1074);
    // 750 of its own and of the one that runs, and the 537 of one that the boot starts, set up as
    // that one.
    assert_eq!(needed("stopped-servers", "oracle PROD"), 1287);
}

/// A captured host with something more in it.
fn with(host: &str, more: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts").join(host);
    let copy = "cp -aT \"$1\" \"$2\" && cd \"$2\" && eval \"$3\"";
    let done = Command::new("sh")
        .args(["-ec", copy, "sh"])
        .arg(from)
        .arg(folder.path())
        .arg(more)
        .status()
        .unwrap();
    assert!(done.success());
    folder
}

/// The last process that was captured has a status that cannot be read.
const HIDDEN: &str = "for last in proc/[0-9]*; do :; done; rm -f $last/status; printf \
     'Name:\\tx\\nUid:\\tx\\n' > $last/status";

#[test]
fn what_could_not_be_seen_is_never_called_well() {
    let seen = with("healthy-postgresql", ":");
    let hidden = with("healthy-postgresql", HIDDEN);
    for words in
        [&["check"][..], &["verify"], &["verify", "--format", "nagios"], &["size"], &["plan"]]
    {
        let (code, out, _) = said(seen.path(), words);
        assert_eq!(code, 0, "{words:?}: {out}");
        assert!(!out.contains("could not be read, and"), "{words:?}: {out}");
        let (code, out, _) = said(hidden.path(), words);
        assert_eq!(code, 3, "{words:?}: {out}");
        let out = out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(out.contains("status of one process could not be read"), "{words:?}: {out}");
    }
    let (_, out, _) = said(hidden.path(), &["verify", "--format", "nagios"]);
    assert!(out.starts_with("HUGEPAGES UNKNOWN - "), "{out}");
    assert_eq!(json(hidden.path(), &["verify"]).unwrap()["verdict"], "unknown");
    // One that was named was seen.
    let (code, out, _) = said(hidden.path(), &["verify", "15/main"]);
    assert_eq!(code, 0, "{out}");
    let unknown = json(hidden.path(), &["size"]).unwrap()["budget"]["unknown"].to_string();
    assert!(unknown.contains("servers that could not be seen"), "{unknown}");
}

#[test]
fn no_pages_are_given_back_where_servers_may_be_hidden() {
    for words in [&["plan"][..], &["plan", "--shrink"]] {
        let steps =
            |more| json(with("starved-host", more).path(), words).unwrap()["steps"].to_string();
        // 6,146 of 14,336 are for the server that is seen.
        assert!(steps(":").contains("give 8,190 pages of 2 MiB back"), "{words:?}");
        assert!(!steps(HIDDEN).contains("back"), "{words:?}: {}", steps(HIDDEN));
    }
    let check = json(with("starved-host", HIDDEN).path(), &["check"]).unwrap();
    assert!(!check["findings"].to_string().contains("pages of 2 MiB back"), "{check:#}");
}

/// Marks a path of a captured host as one that could not be read.
fn denied(path: &str) -> String {
    format!("sed -i 's|\"denied\": *\\[|&\"{path}\", \"{path}/\",|' hugewise/capture.json")
}

#[test]
fn no_pages_are_given_back_where_lists_of_stopped_servers_could_not_be_read() {
    let larger = "sed -i s/540/1500/ etc/sysctl.d/*.conf; \
                  for at in sys/kernel/mm sys/devices/system/node/node0; do \
                  echo 1500 > $at/hugepages/hugepages-2048kB/nr_hugepages; \
                  echo 963 > $at/hugepages/hugepages-2048kB/free_hugepages; done; ";
    let odd = "mkdir -p etc/libvirt/qemu; echo '<domain><name>g</name></domain>' > \
         etc/libvirt/qemu/g.xml"
        .to_owned();
    let whole = with("healthy-postgresql", larger);
    assert!(
        json(whole.path(), &["plan", "--shrink"]).unwrap()["steps"].to_string().contains("back"),
        "all were read"
    );
    for list in [denied("/etc/libvirt/qemu"), denied("/etc/oratab"), odd] {
        let host = with("healthy-postgresql", &format!("{larger}{list}"));
        let (code, out, _) = said(host.path(), &["check"]);
        assert_eq!(code, 3, "{list}: {out}");
        assert!(!out.contains("give back"), "{list}: {out}");
        let (_, out, _) = said(host.path(), &["plan", "--shrink"]);
        assert!(
            !out.contains("pages of 2 MiB back") && out.contains("pages are released, because"),
            "{list}: {out}"
        );
        let quiet = with("healthy-postgresql", &list);
        assert_eq!(said(quiet.path(), &["check"]).0, 3, "{list}");
    }
}

#[test]
fn memory_that_a_setting_keeps_off_huge_pages_is_the_same_case_to_all() {
    let sysv = "echo 'shared_memory_type = sysv' >> srv/databases/b/main/postgresql.conf";
    let host = with("no-pool-postgresql", sysv);
    let check = json(host.path(), &["check"]).unwrap();
    let finding = check["findings"]
        .as_array()
        .unwrap()
        .iter()
        .find(|finding| finding["code"] == "HW403")
        .unwrap();
    assert!(finding["fix"].to_string().contains("shared_memory_type=mmap"), "{finding:#}");
    let size = json(host.path(), &["size"]).unwrap();
    let sized = &size["instances"][0];
    assert_eq!((&sized["demand_pages"], &sized["asked"]), (&Value::from(537), &Value::from("no")));
    let plan = json(host.path(), &["plan"]).unwrap();
    let steps = plan["steps"].to_string();
    assert!(
        steps.contains("shared_memory_type = mmap") && steps.contains("pool-2M-now"),
        "{steps}"
    );
    assert_eq!(
        (size["pools"][0]["planned_pages"].as_u64(), plan["at_boot"][0]["pages"].as_u64()),
        (Some(537), Some(537))
    );
}

/// A cluster of 1 GiB that insists on huge pages and is down, on a host whose 540 pages are for
/// another one.
fn beside(start: &str, data: bool) -> tempfile::TempDir {
    let data = if data {
        "mkdir -p var/lib/postgresql/15/b; echo 15 > var/lib/postgresql/15/b/PG_VERSION"
    } else {
        ":"
    };
    let config = "shared_buffers=1GB\\nhuge_pages=on\\nport=5444\\n";
    with(
        "healthy-postgresql",
        &format!(
            "mkdir -p etc/postgresql/15/b; printf '{config}' > \
                 etc/postgresql/15/b/postgresql.conf; \
             echo {start} > etc/postgresql/15/b/start.conf; {data}"
        ),
    )
}

#[test]
fn one_that_would_not_start_by_hand_is_told_of() {
    let (code, out, _) = said(beside("manual", true).path(), &["check"]);
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("info  HW210 postgresql 15/b is down and would not start"), "{out}");
    assert!(out.contains("hugewise plan --instance\n      'postgresql 15/b'"), "{out}");
    assert_eq!(said(beside("auto", true).path(), &["check"]).0, 1);
}

/// PostgreSQL 15: `FATAL: data directory "/var/lib/postgresql/15/b" does not exist`.
#[test]
fn a_cluster_whose_data_is_gone_gets_no_pages() {
    let host = beside("auto", false);
    let (code, out, _) = said(host.path(), &["check"]);
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("its data is not there") && !out.contains("HW603"), "{out}");
    let plan = json(host.path(), &["plan"]).unwrap();
    assert_eq!(plan["steps"].as_array().map(Vec::len), Some(0), "{plan:#}");
}

/// A failover partner's instances have their pages in every answer, and the host's own lose none.
#[test]
fn another_nodes_instances_have_their_place_in_every_answer() {
    let host = |name: &str| {
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/hosts")).join(name)
    };
    let (here, there) = (host("oracle-many-sessions"), host("rhel7-oracle-memlock"));
    let also = ["--also", there.to_str().unwrap()];
    let answer = |command: &str| json(&here, &[&[command], &also[..]].concat()).unwrap();
    let (alone, size) = (json(&here, &["size"]).unwrap(), answer("size"));
    let page = Value::from(2 << 20);
    let partner = json(&there, &["size"]).unwrap();
    let needed = partner["instances"][0]["demand_pages"].as_u64().unwrap();
    let sized = size["instances"]
        .as_array()
        .unwrap()
        .iter()
        .find(|json| json["name"] == "ERP of ora12")
        .unwrap();
    assert_eq!(
        (sized["demand_pages"].as_u64(), sized["running"].as_bool()),
        (Some(needed), Some(false))
    );
    let (all, planned) = pool(&size, &page).unwrap();
    assert!(all >= pool(&alone, &page).unwrap().0 + needed, "{size}");
    let plan = answer("plan");
    let raised: Vec<&Value> =
        plan["steps"].as_array().unwrap().iter().filter(|step| step["pages"].is_number()).collect();
    assert!(plan.to_string().contains(&planned.unwrap().to_string()), "{raised:?} {plan}");
    let check = answer("check");
    assert!(find(&check, sized).is_some_and(|json| json["running"] == false), "{check}");

    let Said { code, err, .. } = support::on("size", &here, &["--also", here.to_str().unwrap()]);
    assert!(code == 2 && err.contains("a capture of the same host"), "{err}");
    let Said { code, err, .. } = support::on("size", &here, &["--also", "/nowhere/node2.tar"]);
    assert!(code == 2 && err.contains("/nowhere/node2.tar"), "{err}");
}
