//! One list of what is to be done, through every captured host and what may be changed on it: what
//! `check` tells is what the plan does, in its order, and what the report says.

use std::path::{Path, PathBuf};

use hugewise_change::plan::Plan;
use hugewise_change::planner::{self, PlanOptions};
use hugewise_diagnose::sizing::{self, Request};
use hugewise_diagnose::target::to_size;
use hugewise_diagnose::{Diagnosis, DiagnosisOptions};
use hugewise_host::Source;

use serde_json::Value;

use crate::after_plan::{is_named, lines};
use crate::random_hosts::advice;
use crate::support;
use crate::support::host::Host;

type Change = (&'static str, fn(&Host));

const CHANGES: [Change; 6] = [
    ("as it was", |_| {}),
    ("tmpfiles.d asks for 712 pages", |host| {
        let line = "w /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages - - - - 712\n";
        host.put("/etc/tmpfiles.d/hp.conf", line);
    }),
    ("the boot brings 1,674 pages", |host| {
        host.put("/etc/sysctl.d/zzz-late.conf", "vm.nr_hugepages = 1674\n");
    }),
    ("the boot is asked for more than there is", |host| {
        host.put("/etc/sysctl.d/zzz-late.conf", "vm.nr_hugepages = 90000000\n");
    }),
    ("the boot brings three pages", |host| {
        host.put("/etc/sysctl.d/zzz-late.conf", "vm.nr_hugepages = 3\n");
    }),
    ("kernel.shmall is 4 MiB", |host| host.put("/proc/sys/kernel/shmall", "1024\n")),
];

/// Each captured host as it was and with one of the changes, a few with all of them.
fn changed_hosts() -> Vec<(String, Host)> {
    const WITH_ALL: [&str; 3] = ["arm64-16k-pages", "idle-pool-mariadb", "stopped-servers"];
    let mut hosts = Vec::new();
    for (number, captured) in support::hosts().into_iter().enumerate() {
        let name = captured.file_name().unwrap().to_string_lossy().into_owned();
        // Nothing can be planned for what broke off.
        if name.starts_with("truncated") {
            continue;
        }
        let is_tried = |at: usize| at == 0 || at == 1 + number % (CHANGES.len() - 1);
        for (at, (what, change)) in CHANGES.into_iter().enumerate() {
            if is_tried(at) || WITH_ALL.contains(&name.as_str()) {
                let host = Host::of(&captured);
                change(&host);
                hosts.push((format!("{name}, {what}"), host));
            }
        }
    }
    hosts
}

fn plan_of(diagnosis: &Diagnosis, source: &dyn Source) -> Plan {
    let Diagnosis { host, instances, assessment, .. } = diagnosis;
    let options = PlanOptions::default();
    let sized = to_size(host, instances, assessment, options.target_wish());
    let sizing = sizing::size_servers(host, &sized, &Request::default()).ok();
    planner::build_plan(host, instances, assessment, sizing.as_ref(), source, &options).unwrap()
}

fn wrong_with(root: &Path) -> Vec<String> {
    let source = hugewise_host::source::open_source(Some(root)).unwrap();
    let diagnosis = Diagnosis::run(source.as_ref(), &DiagnosisOptions::default());
    let plan = plan_of(&diagnosis, source.as_ref());
    let Diagnosis { host, instances, assessment, .. } = &diagnosis;
    advice::differing(host, instances, assessment, &plan)
}

#[test]
fn what_check_tells_to_do_is_what_the_plan_does_in_its_order() {
    let mut wrong = Vec::new();
    for (name, host) in changed_hosts() {
        let found = wrong_with(&host.root).into_iter();
        wrong.extend(found.map(|found| format!("{name}: {found}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn check_and_report_tell_the_same_to_do() {
    let whole = |path: &PathBuf| !path.to_string_lossy().contains("truncated");
    for captured in support::hosts().into_iter().filter(whole) {
        let host = Host::of(&captured);
        let (check, report) = (host.check(), host.said(&["report", "--format", "json"]));
        assert_eq!(check["to_do"], report["check"]["to_do"], "{captured:?}");
    }
}

/// What is left is said in the plan: a restart, a boot, or what a person has to do. A plan that has
/// nothing to change says nothing of what `check` warns of, so that would stay for ever.
#[test]
fn a_plan_that_was_carried_out_leaves_no_warning_that_it_has_not_named() {
    let mut wrong = Vec::new();
    for (name, host) in changed_hosts() {
        let plan = host.plan(&[]);
        // A plan that is refused is not carried out.
        if !plan["refusal"].is_null() {
            continue;
        }
        host.carry_out(&plan);
        let left = host.check()["findings"].clone();
        let is_left = |json: &&Value| json["level"] != "info" && !is_named(&plan, json, &left);
        let unnamed: Value = left.as_array().unwrap().iter().filter(is_left).cloned().collect();
        wrong.extend(lines(&unnamed).into_iter().map(|found| format!("{name}: {found}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
