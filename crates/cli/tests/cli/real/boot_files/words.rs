//! The kernel's command line and files of nodes, on Debian's kernel in virtual machines with two
//! nodes.

use std::collections::BTreeMap;
use std::time::Duration;

use hugewise_diagnose::boot;
use hugewise_host::kernel::cmdline;
use hugewise_model::configuration::{FileLocation, TmpfilesWrite};
use hugewise_model::host::{KernelRelease, NodePool, NumaNode};
use hugewise_model::{Host, Observed, PageCount, PageSize, Pool};
use hugewise_testkit::Skip;
use hugewise_testkit::require;
use hugewise_testkit::virtual_machine::{InitramfsArchive, VirtualMachine};

/// Command lines; each is a boot.
const LINES: [&str; 4] = [
    "hugepages=8 hugepagesz=2M hugepages=16 hugepagesz=1G hugepages=0:1",
    "default_hugepagesz=1G hugepagesz=2M hugepages=0:10,1:5 hugepagesz=1G hugepages=1 \
         sysctl.vm.nr_overcommit_hugepages=9",
    "hugepagesz=3M hugepages=7 hugepages=9 hugepagesz=2MB hugepages=0x20 hugepages=\"0:3,1:4\" \
         sysctl.vm.nr_overcommit_hugepages=0x11",
    "hugepagesz=1G hugepages=1 hugepagesz=2M default_hugepagesz=1G hugepages=6 hugepages=0:2,1:1",
];

/// Writes one after the other to an empty pool of 2 MiB pages: the node, or the whole, and the
/// pages.
const WRITES: [&[(Option<u32>, u64)]; 6] = [
    &[(Some(0), 10), (Some(1), 5)],
    &[(None, 20), (Some(0), 16)],
    &[(Some(0), 16), (Some(1), 4), (None, 10)],
    &[(Some(0), 3), (None, 11), (Some(1), 1)],
    &[(None, 20), (Some(1), 0), (None, 30)],
    &[(Some(1), 7), (None, 7), (Some(0), 2), (Some(1), 0)],
];

const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
small=/sys/kernel/mm/hugepages/hugepages-2048kB
node() { echo /sys/devices/system/node/node$1/hugepages/hugepages-2048kB/nr_hugepages; }
echo "@@line $(cat /proc/cmdline)"
echo "@@default $(grep Hugepagesize /proc/meminfo)"
echo "@@2048 $(cat $small/nr_hugepages) $(cat $(node 0)) $(cat $(node 1))"
echo "@@1048576 $(cat /sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages)"
echo "@@overcommit $(cat $small/nr_overcommit_hugepages)"
WRITES
echo "@@done"
poweroff -f
"#;

fn script() -> String {
    let mut text = String::new();
    for (at, writes) in WRITES.iter().enumerate() {
        text.push_str("echo 0 > $small/nr_hugepages\n");
        for (node, pages) in *writes {
            let file =
                node.map_or("$small/nr_hugepages".to_owned(), |node| format!("$(node {node})"));
            text.push_str(&format!("echo {pages} > {file}\n"));
        }
        text.push_str(&format!(
            "echo \"@@writes{at} $(cat $small/nr_hugepages) $(cat $(node 0)) $(cat $(node 1))\"\n"
        ));
    }
    INIT.replace("WRITES", &text)
}

/// What a machine of that command line says, by the word before it.
fn boot(line: &str) -> Result<BTreeMap<String, String>, Skip> {
    let mut files = InitramfsArchive::with_busybox()?;
    files.add_file("init", 0o755, script().as_bytes());
    let nodes = [
        ["-object", "memory-backend-ram,id=a,size=4G", "-numa", "node,memdev=a,cpus=0"],
        ["-object", "memory-backend-ram,id=b,size=512M", "-numa", "node,memdev=b,cpus=1"],
    ];
    let machine = VirtualMachine {
        files,
        memory_mib: 4608,
        options: nodes.as_flattened().iter().map(|&option| option.to_owned()).collect(),
        // A kernel at a place by chance may lie in the only whole gibibyte that node 0 has left.
        kernel_arguments: format!("nokaslr {line}"),
    };
    let mut said = BTreeMap::new();
    machine.run(Duration::from_secs(120), &mut |line| {
        if let Some((_, rest)) = line.split_once("@@") {
            let (word, text) = rest.split_once(' ').unwrap_or((rest, ""));
            said.insert(word.to_owned(), text.trim().to_owned());
        }
    })?;
    assert!(said.contains_key("done"), "{line}: the machine did not finish: {said:?}");
    Ok(said)
}

fn numbers(text: &str) -> Vec<u64> {
    text.split_whitespace().map(|number| number.parse().unwrap()).collect()
}

/// The machine, as far as the boot depends on it.
fn machine(line: &str, default: PageSize) -> Host {
    let part = |node| NodePool {
        node,
        total: Observed::Absent,
        free: Observed::Absent,
        surplus: Observed::Absent,
    };
    let pool = |page_size| Pool {
        page_size,
        total: Observed::Absent,
        free: Observed::Absent,
        reserved: Observed::Absent,
        surplus: Observed::Absent,
        overcommit: Observed::Absent,
        nodes: vec![part(0), part(1)],
    };
    let node = |id| NumaNode { id, total: Observed::Absent, free: Observed::Absent };
    let mut host = Host {
        kernel: Observed::Known(KernelRelease { text: "6.1.0".into(), major: 6, minor: 1 }),
        architecture: Observed::Known("x86_64".into()),
        base_page: Observed::Known(PageSize::KIB_4),
        default_huge_page: Observed::Known(default),
        nodes: Observed::Known(vec![node(0), node(1)]),
        pools: Observed::Known(vec![pool(PageSize::MIB_2), pool(PageSize::GIB_1)]),
        command_line: Observed::Known(cmdline::parse(line.as_bytes()).unwrap()),
        ..Host::default()
    };
    host.processors.gib_pages = Observed::Known(true);
    host
}

fn foretold(host: &Host, page: PageSize) -> Vec<u64> {
    let pool = boot::pool_at_boot(host, page).unwrap();
    std::iter::once(pool.total)
        .chain(pool.nodes.iter().map(|(_, pages)| *pages))
        .map(PageCount::get)
        .collect()
}

#[test]
fn the_command_line_and_files_of_nodes_come_to_what_is_foretold() {
    let boots: Vec<Result<BTreeMap<String, String>, Skip>> = std::thread::scope(|scope| {
        let machines: Vec<_> = LINES.iter().map(|line| scope.spawn(move || boot(line))).collect();
        machines.into_iter().map(|machine| machine.join().unwrap()).collect()
    });
    let mut agreed = 0;
    for (line, said) in LINES.iter().zip(boots) {
        let said = require!(said);
        let kib: u64 =
            said["default"].split_whitespace().find_map(|word| word.parse().ok()).unwrap();
        let default = PageSize::from_kib(kib).unwrap();
        let host = machine(&said["line"], default);
        assert_eq!(boot::default_size(&host), Some(default), "{line}");
        let found = numbers(&said["2048"]);
        let small = foretold(&host, PageSize::MIB_2);
        assert_eq!(small[0], found[0], "{line}: {said:?}");
        assert!(small.len() == 1 || small == found, "{line}: {small:?}, {said:?}");
        assert_eq!(
            foretold(&host, PageSize::GIB_1)[0],
            numbers(&said["1048576"])[0],
            "{line}: {said:?}"
        );
        let on_demand = boot::predict_overcommit(&host, PageSize::MIB_2)
            .unwrap()
            .last()
            .map_or(0, |step| step.value);
        assert_eq!(on_demand, numbers(&said["overcommit"])[0], "{line}: {said:?}");
        for (at, writes) in WRITES.iter().enumerate() {
            let mut host = machine("", PageSize::MIB_2);
            let write = |(node, pages): &(Option<u32>, u64)| TmpfilesWrite {
                path: match node {
                    Some(node) => {
                        format!(
                            "/sys/devices/system/node/node{node}/hugepages/hugepages-2048kB/nr_hugepages"
                        )
                    }
                    None => "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages".to_owned(),
                },
                value: pages.to_string(),
                place: FileLocation { file: "/etc/tmpfiles.d/a.conf".into(), line: 1 },
            };
            host.configuration.tmpfiles = Observed::Known(writes.iter().map(write).collect());
            let (foretold, found) =
                (foretold(&host, PageSize::MIB_2), numbers(&said[&format!("writes{at}")]));
            assert_eq!(foretold[0], found[0], "{writes:?}: {foretold:?}, {found:?}");
            assert!(
                foretold.len() == 1 || foretold == found,
                "{writes:?}: {foretold:?}, {found:?}"
            );
            agreed += 1;
        }
        agreed += 1;
    }
    eprintln!("command lines and files of nodes: {agreed} agreed with Linux 6.1");
}
