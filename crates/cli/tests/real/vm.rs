//! Check on Debian's own kernel in a virtual machine: two NUMA nodes, no PROCMAP_QUERY, memlock limits as one likes.
//!
//! One boot serves every case: the machine runs them one after the other and prints what check said on its console.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use hugewise_lab::guard::Skip;
use hugewise_lab::require;
use serde_json::Value;

use crate::harness::{self, Check, program, text};
use crate::oracle;

/// What the machine runs. Node 0 has 100 pages and node 1 has 20; each case prints between two marks.
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
    CONSOLE.get_or_init(|| boot().map_err(|Skip(why)| why)).as_deref().map_err(|why| Skip(why.clone()))
}

fn boot() -> Result<String, Skip> {
    let qemu = program(&["/usr/bin/qemu-system-x86_64"])?;
    let busybox = program(&["/bin/busybox", "/usr/bin/busybox"])?;
    let kernel = kernel()?;
    let folder = harness::folder();
    let initrd = folder.path().join("initrd");
    fs::write(&initrd, initrd_of(&busybox)).unwrap();
    let mut command = Command::new(qemu);
    command.args(["-accel", "tcg", "-machine", "q35", "-cpu", "max", "-m", "4608", "-smp", "2"]);
    command.args(["-object", "memory-backend-ram,id=a,size=4G", "-numa", "node,memdev=a,cpus=0"]);
    command.args(["-object", "memory-backend-ram,id=b,size=512M", "-numa", "node,memdev=b,cpus=1"]);
    command.args(["-display", "none", "-monitor", "none", "-serial", "stdio", "-no-reboot", "-net", "none"]);
    command.arg("-kernel").arg(kernel).arg("-initrd").arg(initrd);
    command.args(["-append", "console=ttyS0 quiet panic=-1 hugepages=0:100,1:20 hugepagesz=1G hugepages=1"]);
    let output = run_at_most(command, Duration::from_secs(240));
    let console = String::from_utf8_lossy(&output.stdout).replace('\r', "");
    assert!(console.contains("@@done"), "the machine did not finish:\n{console}");
    assert!(!console.contains("@@failed"), "the stand-in did not start:\n{console}");
    Ok(console)
}

fn run_at_most(mut command: Command, limit: Duration) -> Output {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    let (done, ended) = std::sync::mpsc::channel::<()>();
    let killer = std::thread::spawn(move || {
        if ended.recv_timeout(limit).is_err() {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    });
    let output = child.wait_with_output().unwrap();
    let _ = done.send(());
    let _ = killer.join();
    output
}

/// Debian's cloud kernel: it has the console and everything else that the machine needs built in.
fn kernel() -> Result<PathBuf, Skip> {
    let names = fs::read_dir("/boot").map_err(|error| Skip(format!("/boot: {error}")))?;
    let mut kernels: Vec<PathBuf> = names
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.to_string_lossy().contains("vmlinuz-6.1.") && path.to_string_lossy().contains("cloud"))
        .collect();
    kernels.sort();
    kernels.pop().ok_or_else(|| Skip("no Debian cloud kernel in /boot; `cargo xtask test` installs it".into()))
}

/// The machine's files as a cpio archive of the kind that the kernel unpacks (newc).
fn initrd_of(busybox: &Path) -> Vec<u8> {
    let mut archive = Archive::default();
    for folder in ["bin", "proc", "sys", "dev", "tmp", "app", "app/home", "app/home/bin", "app/home/dbs", "etc"] {
        archive.add(folder, 0o040_755, &[]);
    }
    let file = |path: &Path| fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    archive.add("init", 0o100_755, INIT.as_bytes());
    archive.add("bin/busybox", 0o100_755, &file(busybox));
    archive.add("app/hugewise", 0o100_755, &file(Path::new(harness::HUGEWISE)));
    archive.add("app/home/bin/oracle", 0o100_755, &file(oracle::program()));
    archive.add("app/home/dbs/initPROD.ora", 0o100_644, b"*.use_large_pages='TRUE'\n*.processes=100\n");
    archive.add("etc/hostname", 0o100_644, b"twonodes\n");
    let mut folders = std::collections::BTreeSet::new();
    for library in libraries() {
        for folder in library.ancestors().skip(1).collect::<Vec<_>>().into_iter().rev() {
            let name = folder.to_string_lossy().trim_start_matches('/').to_owned();
            if !name.is_empty() && folders.insert(name.clone()) {
                archive.add(&name, 0o040_755, &[]);
            }
        }
        archive.add(library.to_string_lossy().trim_start_matches('/'), 0o100_755, &file(&library));
    }
    archive.add("TRAILER!!!", 0, &[]);
    archive.bytes
}

/// What `ldd` names, the program interpreter among it.
fn libraries() -> Vec<PathBuf> {
    let mut libraries: Vec<PathBuf> = [Path::new(harness::HUGEWISE), oracle::program()]
        .iter()
        .flat_map(|program| {
            let said = harness::must(Command::new("ldd").arg(program));
            let paths = said.split_ascii_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from);
            paths.collect::<Vec<_>>()
        })
        .collect();
    libraries.sort();
    libraries.dedup();
    libraries
}

#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    files: usize,
}

impl Archive {
    fn add(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.files += 1;
        let name_size = name.len() + 1;
        let fields = [self.files, usize::try_from(mode).unwrap(), 0, 0, 1, 0, content.len(), 0, 0, 0, 0, name_size, 0];
        self.bytes.extend_from_slice(b"070701");
        self.bytes.extend(fields.iter().flat_map(|field| format!("{field:08x}").into_bytes()));
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

/// What check said in one case.
fn case(console: &str, name: &str) -> Check {
    let from = console.split_once(&format!("@@begin {name}\n")).unwrap_or_else(|| panic!("no {name}:\n{console}")).1;
    let (said, rest) = from.split_once("@@end ").expect("an end");
    let code = rest.lines().next().and_then(|code| code.parse().ok()).expect("an exit code");
    // The kernel's own messages may stand between.
    let json = said.get(said.find('{').expect("JSON")..).unwrap();
    let json: Value = serde_json::Deserializer::from_str(json).into_iter().next().unwrap().unwrap();
    Check { json, code }
}

fn prod(check: &Check) -> &Value {
    let instances = check.json["instances"].as_array().unwrap();
    instances.iter().find(|instance| instance["name"] == "PROD").unwrap_or_else(|| panic!("{:#}", check.json))
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
