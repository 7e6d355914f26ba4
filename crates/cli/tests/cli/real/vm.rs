//! Check on Debian's own kernel in a virtual machine: two NUMA nodes, no PROCMAP_QUERY, memlock
//! limits as one likes.
//!
//! One boot serves every case: the machine runs them one after the other and prints what check said
//! on its console.

use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use hugewise_testkit::Skip;
use hugewise_testkit::require;
use hugewise_testkit::virtual_machine::{InitramfsArchive, VirtualMachine};
use serde_json::Value;

use crate::real::harness::{self, Check, text};
use crate::real::oracle;

/// What the machine runs. Node 0 has 100 pages and node 1 has 20; each case prints between two
/// marks.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm /tmp
mount -t tmpfs shm /dev/shm
case_of() {
    echo "@@begin $1"
    /app/hugewise check --format json
    echo "@@end $?"
}
standin() {
    rm -f /tmp/said /tmp/stop
    mkfifo /tmp/stop
    /app/home/bin/oracle --as oracle:PROD "$@" < /tmp/stop > /tmp/said 2>&1 &
    exec 3> /tmp/stop
    tries=0
    until grep -q ready /tmp/said; do
        sleep 0.1
        tries=$((tries + 1))
        [ $tries -lt 600 ] || { echo "@@failed"; cat /tmp/said; break; }
    done
}
stop() {
    exec 3>&-
    wait
}
standin --segments 16M,64M --pages 2M --sessions 3
case_of huge
stop
standin --segments 16M,64M --pages mixed --sessions 3
case_of mixed
stop
ulimit -l unlimited
standin --segments 16M,64M --pages 2M --fall-back --sessions 3 --user 54321:54321
case_of unlimited_memlock
stop
echo 54321 > /proc/sys/vm/hugetlb_shm_group
ulimit -l 64
standin --segments 16M,64M --pages 2M --fall-back --sessions 3 --user 54321:54321
case_of group
stop
standin --segments 1G --pages 1G --touch 1 --sessions 2
case_of gibibyte
stop
echo "@@done"
poweroff -f
"#;

/// The console of one boot.
fn console() -> Result<&'static str, Skip> {
    static CONSOLE: OnceLock<Result<String, String>> = OnceLock::new();
    CONSOLE
        .get_or_init(|| boot().map_err(|Skip(why)| why))
        .as_deref()
        .map_err(|why| Skip(why.clone()))
}

fn boot() -> Result<String, Skip> {
    let nodes = [
        ["-object", "memory-backend-ram,id=a,size=4G", "-numa", "node,memdev=a,cpus=0"],
        ["-object", "memory-backend-ram,id=b,size=512M", "-numa", "node,memdev=b,cpus=1"],
    ];
    let machine = VirtualMachine {
        files: files()?,
        memory_mib: 4608,
        options: nodes.as_flattened().iter().map(|&option| option.to_owned()).collect(),
        kernel_arguments: "hugepages=0:100,1:20 hugepagesz=1G hugepages=1".into(),
    };
    let mut console = String::new();
    machine.run(Duration::from_secs(240), &mut |line| {
        console.push_str(line);
        console.push('\n');
    })?;
    assert!(console.contains("@@done"), "the machine did not finish:\n{console}");
    assert!(!console.contains("@@failed"), "the stand-in did not start:\n{console}");
    Ok(console)
}

fn files() -> Result<InitramfsArchive, Skip> {
    let mut files = InitramfsArchive::with_busybox()?;
    let (hugewise, oracle) = (Path::new(harness::HUGEWISE), oracle::program());
    files.add_file("init", 0o755, INIT.as_bytes());
    files.copy_as(hugewise, "app/hugewise").unwrap();
    files.copy_as(oracle, "app/home/bin/oracle").unwrap();
    files.libraries_of(&[hugewise, oracle]).unwrap();
    files.add_file(
        "app/home/dbs/initPROD.ora",
        0o644,
        b"*.use_large_pages='TRUE'\n*.processes=100\n",
    );
    files.add_file("etc/hostname", 0o644, b"twonodes\n");
    Ok(files)
}

/// What check said in one case.
pub(crate) fn case(console: &str, name: &str) -> Check {
    let from = console
        .split_once(&format!("@@begin {name}\n"))
        .unwrap_or_else(|| panic!("no {name}:\n{console}"))
        .1;
    let (said, rest) = from.split_once("@@end ").expect("an end");
    let code = rest.lines().next().and_then(|code| code.parse().ok()).expect("an exit code");
    // The kernel's own messages may stand between.
    let json = said.get(said.find('{').expect("JSON")..).unwrap();
    let json: Value = serde_json::Deserializer::from_str(json).into_iter().next().unwrap().unwrap();
    Check { json, code }
}

fn prod(check: &Check) -> &Value {
    let instances = check.json["instances"].as_array().unwrap();
    instances
        .iter()
        .find(|instance| instance["name"] == "PROD")
        .unwrap_or_else(|| panic!("{:#}", check.json))
}

#[test]
fn page_sizes_are_told_without_the_newer_kernels_question() {
    let console = require!(console());
    let check = case(console, "huge");
    assert!(text(&check.json["host"]["kernel"]).starts_with("6.1."));
    assert_eq!(prod(&check)["huge_pages"], "all", "{:#}", prod(&check));
    assert_eq!(prod(&check)["sessions"], 3);
    let check = case(console, "mixed");
    assert_eq!(prod(&check)["huge_pages"], "partly", "{:#}", prod(&check));
}

#[test]
fn an_unequal_pool_is_seen_by_node() {
    let console = require!(console());
    let check = case(console, "huge");
    let pools = check.json["host"]["pools"].as_array().unwrap();
    let of_node = |node: u64| {
        let found = pools.iter().find(|pool| pool["page_bytes"] == 2 << 20 && pool["node"] == node);
        found.unwrap_or_else(|| panic!("{pools:#?}"))["total_pages"].clone()
    };
    assert_eq!((of_node(0), of_node(1)), (100.into(), 20.into()));
    let findings = check.json["findings"].as_array().unwrap();
    assert!(findings.iter().any(|finding| finding["code"] == "HW701"), "{findings:#?}");
}

/// In a machine that has just booted, as a long-running host may have no gibibyte in one piece.
#[test]
fn pages_of_a_gibibyte() {
    let console = require!(console());
    let check = case(console, "gibibyte");
    assert_eq!(prod(&check)["huge_pages"], "all", "{:#}", prod(&check));
    assert_eq!(prod(&check)["segments"][0]["page_bytes"], 1 << 30);
}

#[test]
fn an_unlimited_memlock_buys_no_huge_segment_but_the_group_does() {
    let console = require!(console());
    let check = case(console, "unlimited_memlock");
    assert_eq!(prod(&check)["huge_pages"], "none", "{:#}", prod(&check));
    assert_eq!(harness::first_broken(prod(&check)), Some("permission"), "{:#}", prod(&check));
    let check = case(console, "group");
    assert_eq!(prod(&check)["huge_pages"], "all", "{:#}", prod(&check));
}
